"""Device lead and what it is for, on a real GPU: one table, exit status 1 when a bound does not hold, 77 without a GPU.

1. the lead at the end of a forward that is one kernel of known length, against an independent tie of our own
2. a loop that reads its loss every step and the same loop that does not: the device's times and the verdict are the
   same, the host's are not
3. a slow loader that hides behind the device's work is not INPUT-BOUND; the same one slower than the device is

Usage:  python tests/gpu/measure_lead.py [--rehearse]     --rehearse: on the CPU, tiny, nothing is judged
"""

import argparse
import contextlib
import io
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import traceml_ai as traceml
from torch import nn
from torch.utils.data import DataLoader, Dataset

KERNELS_MS = (0.0, 0.5, 5.0, 40.0)
KERNEL_STEPS = 20
LOOP_STEPS = 80
LOADER_STEPS = 40
SETTLING_STEPS = 5  # the first of a session, not looked at
PAUSE_S = 0.005  # between steps, so that even a session of empty ones lasts for several ticks of the sampler

LEAD_BOUND_US = 20.0
NEAR_ZERO_US = 50.0
SAME = 0.05
HOST_DIFFERS = 0.20


class Table:
    """Prints a row per claim as it is known, and remembers whether all of them held."""

    def __init__(self, judging: bool) -> None:
        self.judging = judging
        self.failed = 0

    def note(self, what: str, measured: str) -> None:
        """One line that nothing is judged by."""
        print(f"{what:<58} {measured}", flush=True)

    def row(self, claim: str, measured: str, holds: bool) -> None:
        """One line: what should hold, what was measured, whether it does."""
        self.failed += self.judging and not holds
        verdict = ("yes" if holds else "NO") if self.judging else "-"
        print(f"{claim:<58} {measured:<52} {verdict}", flush=True)


class Session:
    """One traced run in a directory that is thrown away: its lines of completed steps and its summary."""

    def __init__(self) -> None:
        self.steps: list[dict] = []
        self.summary: dict = {}

    @contextlib.contextmanager
    def tracing(self) -> Iterator[None]:
        """Traces the block, then reads what was written."""
        with tempfile.TemporaryDirectory() as logs:
            traceml.init(logs_dir=logs)
            try:
                yield
            finally:
                with contextlib.redirect_stdout(io.StringIO()):
                    traceml.shutdown()
            self.read(next(Path(logs).iterdir()))

    def read(self, run: Path) -> None:
        """Takes the run's files."""
        lines = map(json.loads, (run / "steps-rank00000.jsonl").read_text().splitlines())
        self.steps = [line for line in lines if "step" in line][SETTLING_STEPS:]
        self.summary = json.loads((run / "final_summary.json").read_text())["step_time"]

    def median(self, *keys: str) -> float:
        """Median over the steps of the value under `keys`; NaN where no step has it."""
        values = []
        for step in self.steps:
            value = step
            for key in keys:
                value = (value or {}).get(key)
            if value is not None:
                values.append(value)
        return statistics.median(values) if values else float("nan")

    def kinds(self) -> list[str]:
        """All findings, the verdict first."""
        return [issue["kind"] for issue in self.summary["issues"]]

    def clock(self) -> str:
        """The clock that the numbers of the summary stand on."""
        return self.summary["global"]["window"]["diagnosis_clock"]


# ---- 1. The lead behind a kernel of known length


class Sleeper(nn.Module):
    """A forward that is one kernel, with an event pair of our own around it and the host's times beside them."""

    def __init__(self, device: str, cycles: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(8, device=device))
        self.cycles = cycles
        if self.weight.is_cuda:
            self.before, self.after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.marks_ns: list[int] = []
        self.completed_ns: tuple[int, int] = (0, 0)

    def watch(self) -> None:
        """Sees the forward's end complete on the device: after a query that said not yet, before one said done."""
        lower_ns = self.marks_ns[2]
        while self.weight.is_cuda:
            asked_ns = time.perf_counter_ns()
            if self.after.query():
                break
            lower_ns = asked_ns
        self.completed_ns = (lower_ns, time.perf_counter_ns())

    def seen_ms(self, returned_ns: int) -> tuple[float, float]:
        """The least and the most that the lead at the forward's end can be, by what `watch` saw."""
        end_ns = (self.marks_ns[2] + returned_ns) / 2
        return (self.completed_ns[0] - end_ns) / 1e6, (self.completed_ns[1] - end_ns) / 1e6

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.marks_ns = [time.perf_counter_ns()]
        if self.weight.is_cuda:
            self.before.record()
        self.marks_ns.append(time.perf_counter_ns())
        if self.cycles:
            torch.cuda._sleep(self.cycles)
        if self.weight.is_cuda:
            self.after.record()
        self.marks_ns.append(time.perf_counter_ns())
        return inputs

    def expected_ms(self, returned_ns: int) -> float:
        """How long after its end on the host the forward ended on the device.

        The device was idle at `before`, so that event completed while the host recorded it: between the first two
        marks. The end's time stamp lies between the third and the return. A device that is done waits: no less than 0.
        """
        device_ms = self.before.elapsed_time(self.after) if self.weight.is_cuda else 0.0
        begin_ns = (self.marks_ns[0] + self.marks_ns[1]) / 2
        end_ns = (self.marks_ns[2] + returned_ns) / 2
        return max(device_ms - (end_ns - begin_ns) / 1e6, 0.0)


def cycles_per_ms(device: str) -> float:
    if device == "cpu":
        return 0.0
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(1_000_000)
    begin.record()
    torch.cuda._sleep(20_000_000)
    end.record()
    torch.cuda.synchronize()
    return 20_000_000 / begin.elapsed_time(end)


def measure_kernel(table: Table, device: str, length_ms: float) -> None:
    model = Sleeper(device, int(length_ms * cycles_per_ms(device)))
    inputs = torch.zeros(8, device=device)
    session, expected, seen = Session(), [], []
    with session.tracing():
        for _ in range(KERNEL_STEPS + SETTLING_STEPS):
            synchronize(device)
            time.sleep(PAUSE_S)
            with traceml.trace_step(model):
                model(inputs)
                returned_ns = time.perf_counter_ns()
            model.watch()
            synchronize(device)
            seen.append(model.seen_ms(returned_ns))
            expected.append(model.expected_ms(returned_ns))
    read_ms = [step.get("lead", {}).get("forward_end_ms") for step in session.steps]
    pairs = [(read, known) for read, known in zip(read_ms, expected[SETTLING_STEPS:], strict=True) if read is not None]
    off_us = [(read - known) * 1e3 for read, known in pairs] or [float("nan")]
    lead_ms = statistics.median(read for read, _ in pairs) if pairs else float("nan")
    measured = (
        f"read {lead_ms:.4f} ms, off by {statistics.median(off_us):+.1f} [{min(off_us):+.1f}, {max(off_us):+.1f}]"
    )
    claim = f"lead behind a kernel of {length_ms:g} ms, within {LEAD_BOUND_US:g} us"
    whole = len(pairs) >= KERNEL_STEPS * 0.9
    sights = [(read, *ends) for read, ends in zip(read_ms, seen[SETTLING_STEPS:], strict=True) if read is not None]
    apart_us = [max(low - read, read - high, 0.0) * 1e3 for read, low, high in sights] or [float("nan")]
    wide_us = [(high - low) * 1e3 for _, low, high in sights] or [float("nan")]
    table.row(
        claim,
        f"read {lead_ms:.4f} ms, off the interval of its sight by {statistics.median(apart_us):.1f} us",
        whole and statistics.median(apart_us) <= LEAD_BOUND_US,
    )
    table.note("  how wide that interval is", f"{statistics.median(wide_us):.1f} us")
    table.note("  if the idle device began at once", measured + " us")
    if length_ms == 0:
        table.row(
            f"  and below {NEAR_ZERO_US:g} us: near zero", f"{lead_ms * 1e3:.1f} us", lead_ms * 1e3 < NEAR_ZERO_US
        )
    else:
        error_us = session.median("lead", "error_ms") * 1e3
        table.row("  the tie's own error", f"{error_us:.1f} us", error_us <= NEAR_ZERO_US)


# ---- 2. and 3. Training loops


class Job:
    """A model whose work on the device takes far longer than launching it."""

    def __init__(self, device: str) -> None:
        torch.manual_seed(0)
        width, batch, depth = (4096, 1024, 8) if device == "cuda" else (64, 32, 2)
        self.device = device
        layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.GELU())]
        self.model = nn.Sequential(*layers, nn.Linear(width, 10)).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.inputs = torch.randn(batch, width, device=device)
        self.labels = torch.randint(10, (batch,), device=device)

    def step(self, after: Callable[[torch.Tensor], object]) -> None:
        with traceml.trace_step(self.model):
            self.optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(self.model(self.inputs), self.labels)
            loss.backward()
            self.optimizer.step()
            after(loss)

    def run(self, batches: Iterator[object], after: Callable[[torch.Tensor], object]) -> Session:
        session = Session()
        with session.tracing():
            for _ in batches:
                self.step(after)
            synchronize(self.device)
        return session


class Slow(Dataset):
    """A batch takes `wait_s` to make; what it holds is on the device already."""

    def __init__(self, wait_s: float) -> None:
        self.wait_s = wait_s

    def __len__(self) -> int:
        return LOADER_STEPS + SETTLING_STEPS

    def __getitem__(self, index: int) -> int:
        if index >= len(self):
            raise IndexError(index)
        time.sleep(self.wait_s)
        return index


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def ratio(a: float, b: float) -> float:
    return a / b if b else float("nan")


def measure_reading(table: Table, job: Job) -> float:
    """The device's time of a step in ms, from the loop that does not read."""
    for _ in range(SETTLING_STEPS):
        job.step(lambda loss: None)
    synchronize(job.device)
    silent = job.run(iter(range(LOOP_STEPS)), lambda loss: None)
    reading = job.run(iter(range(LOOP_STEPS)), lambda loss: loss.item())
    for phase in ("forward", "backward"):
        a, b = (run.median("in", phase, "gpu_ms") for run in (silent, reading))
        table.row(
            f"device {phase} the same with and without reading the loss",
            f"{a:.4f} / {b:.4f} ms, {(ratio(b, a) - 1) * 100:+.2f} %",
            abs(ratio(b, a) - 1) <= SAME,
        )
    same = silent.kinds()[0] == reading.kinds()[0] and silent.clock() == reading.clock() == "gpu"
    table.row("the verdict the same, on the GPU clock", f"{silent.kinds()} / {reading.kinds()}", same)
    shares = [ratio(run.median("cpu", "residual_ms"), run.median("cpu", "traced_step_ms")) for run in (silent, reading)]
    table.row(
        "the host's residual is not: a share of its step",
        f"{shares[0] * 100:.0f} % / {shares[1] * 100:.0f} %",
        shares[1] - shares[0] >= HOST_DIFFERS,
    )
    leads = [run.median("lead", "forward_end_ms") for run in (silent, reading)]
    table.row(
        "neither is near zero at forward end", f"{leads[0]:.3f} / {leads[1]:.3f} ms", min(leads) * 1e3 > NEAR_ZERO_US
    )
    return silent.median("gpu", "traced_step_ms")


def measure_loader(table: Table, job: Job, step_ms: float) -> None:
    for part, hidden in ((0.3, True), (2.0, False)):
        wait_ms = part * step_ms if step_ms == step_ms else part  # NaN in a rehearsal
        run = job.run(iter(DataLoader(Slow(wait_ms / 1e3), batch_size=None)), lambda loss: None)
        host_ms, device_ms = (run.median("pre", "dataloader_fetch", key) for key in ("cpu_ms", "gpu_ms"))
        found = "INPUT_BOUND" in run.kinds()
        table.row(
            f"a loader of {part:g} steps a batch is {'not ' if hidden else ''}INPUT-BOUND",
            f"host waits {host_ms:.3f}, device {device_ms:.4f} ms: {run.kinds()[0]}",
            found != hidden and run.clock() == "gpu",
        )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rehearse", action="store_true")
    rehearse = parser.parse_args().rehearse
    if not rehearse and not torch.cuda.is_available():
        print("no GPU here")
        return 77
    device = "cpu" if rehearse else "cuda"
    table = Table(judging=not rehearse)
    begin = time.perf_counter()
    for length_ms in KERNELS_MS:
        measure_kernel(table, device, length_ms)
    job = Job(device)
    measure_loader(table, job, measure_reading(table, job))
    print(f"{time.perf_counter() - begin:.1f} s; {table.failed} did not hold")
    return int(table.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
