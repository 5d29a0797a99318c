"""What TraceML costs a training step on the host: the tiny MLP, with and without the tool.

Linear 128-256, GELU, Linear 256-10, batch 64, SGD, fed by a DataLoader of batches in memory.

1. fresh processes, one without and one with the tool, both alive and taking turns of 20 steps on the same core: what
   the machine does meanwhile hits both; the difference of two neighbouring turns is one sample
2. one process, tracing on and off in alternating blocks (off: after `shutdown`, everything patched restored)
3. one process, every other step traced (the hooks stay in place and do nothing in between)
4. `with trace_step(model): pass` against `with nullcontext(): pass`

Usage:  python tests/bench/bench_step.py [--device cpu|cuda] [--processes N] [--turns N] [--blocks N]
"""

import argparse
import contextlib
import io
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import torch
import traceml_ai as traceml
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH_SIZE = 64
WARM_UP_STEPS = 500
TURN_STEPS = 20
BLOCK_STEPS = 50


class Batches(Dataset):
    """Batches that exist already, so that a fetch costs little beside the loader itself."""

    def __init__(self, device: str) -> None:
        self.inputs = torch.randn(256, BATCH_SIZE, 128, device=device).unbind()
        self.labels = torch.randint(10, (256, BATCH_SIZE), device=device).unbind()

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.inputs[index], self.labels[index]


class Job:
    """The tiny MLP and an endless supply of batches on the device."""

    def __init__(self, device: str) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.device = device
        self.model = nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 10)).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.loss_function = nn.CrossEntropyLoss()
        self.loader = DataLoader(Batches(device), batch_size=None)
        self.batches = self.endless()

    def endless(self) -> Iterator[list[torch.Tensor]]:
        while True:
            yield from self.loader

    def step(self) -> None:
        inputs, labels = next(self.batches)
        with traceml.trace_step(self.model):
            self.optimizer.zero_grad(set_to_none=True)
            self.loss_function(self.model(inputs), labels).backward()
            self.optimizer.step()

    def plain_step(self) -> None:
        inputs, labels = next(self.batches)
        self.optimizer.zero_grad(set_to_none=True)
        self.loss_function(self.model(inputs), labels).backward()
        self.optimizer.step()

    def median_us(self, steps: int, traced: bool) -> float:
        """Median host time of `steps` steps; the device is idle before and after."""
        step = self.step if traced else self.plain_step
        marks = []
        for _ in range(steps + 1):
            marks.append(time.perf_counter_ns())
            step()
        if self.device == "cuda":
            torch.cuda.synchronize()
        return statistics.median(after - before for before, after in itertools.pairwise(marks)) / 1e3


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """A session whose files are thrown away and whose report is not printed."""
    with tempfile.TemporaryDirectory() as logs:
        traceml.init(logs_dir=logs)
        try:
            yield
        finally:
            with contextlib.redirect_stdout(io.StringIO()):
                traceml.shutdown()


def pin_threads(pair: int) -> None:
    """The training thread on one core, PyTorch's backward thread on the next; all others (the sampler) go anywhere."""
    cores = sorted(os.sched_getaffinity(0))
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as file:
            backward = file.read().startswith("pt_autograd")
        if backward or int(task) == os.getpid():
            os.sched_setaffinity(int(task), {cores[(2 * pair + backward) % len(cores)]})


def child(device: str, traced: bool, pair: int) -> None:
    """One fresh process: a turn for each line it is sent, answered with its median step in us."""
    job = Job(device)
    with tracing() if traced else contextlib.nullcontext():
        job.median_us(WARM_UP_STEPS, traced)
        pin_threads(pair)
        for _ in sys.stdin:
            print(json.dumps(job.median_us(TURN_STEPS, traced)), flush=True)


def start_child(device: str, traced: bool, pair: int) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--child", "traced" if traced else "plain", "--device", device]
    command += ["--pair", str(pair)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def take_turn(process: subprocess.Popen[str]) -> float:
    assert process.stdin
    assert process.stdout
    process.stdin.write("go\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def spread(values: list[float]) -> str:
    lower, median, upper = statistics.quantiles(values, n=4)
    return f"{median:9.2f}   [{lower:.2f}, {upper:.2f}]"


def bench_processes(device: str, processes: int, turns: int) -> None:
    """Who comes first alternates."""
    plain: list[float] = []
    traced: list[float] = []
    medians: list[float] = []
    for number in range(processes):
        pair = [start_child(device, False, number), start_child(device, True, number)]
        for process in pair:
            take_turn(process)
        samples = []
        for turn in range(turns):
            order = (0, 1) if turn % 2 == 0 else (1, 0)
            times = {which: take_turn(pair[which]) for which in order}
            plain.append(times[0])
            traced.append(times[1])
            samples.append(times[1] - times[0])
        medians.append(statistics.median(samples))
        for process in pair:
            process.communicate()
    difference = [b - a for a, b in zip(plain, traced, strict=True)]
    print(
        f"host time a step in us, {device}, {processes} pairs of fresh processes, {turns} turns of {TURN_STEPS} steps"
    )
    print(f"  never called init                  {spread(plain)}")
    print(f"  traced                             {spread(traced)}")
    print(f"  difference of neighbouring turns   {spread(difference)}")
    print(f"  its median in each pair            {', '.join(f'{value:.1f}' for value in sorted(medians))}")


def bench_one_process(device: str, blocks: int) -> None:
    job = Job(device)
    on: list[float] = []
    off: list[float] = []
    job.median_us(WARM_UP_STEPS, traced=False)
    for _ in range(blocks):
        with tracing():
            job.median_us(50, traced=True)
            on.append(job.median_us(BLOCK_STEPS, traced=True))
        job.median_us(50, traced=False)
        off.append(job.median_us(BLOCK_STEPS, traced=False))
    print(f"host time a step in us, {device}, one process, {blocks} blocks of {BLOCK_STEPS} steps on and off")
    print(f"  off (shut down)                    {spread(off)}")
    print(f"  on                                 {spread(on)}")
    print(f"  difference of neighbouring blocks  {spread([b - a for a, b in zip(off, on, strict=True)])}")


def bench_alternating(device: str, pairs: int) -> None:
    job = Job(device)
    samples = []
    with tracing():
        job.median_us(WARM_UP_STEPS, traced=True)
        for _ in range(pairs):
            begin = time.perf_counter_ns()
            job.plain_step()
            middle = time.perf_counter_ns()
            job.step()
            samples.append((time.perf_counter_ns() - middle - (middle - begin)) / 1e3)
    print(f"host time a step in us, {device}, one process, {pairs} pairs of a step without and one with trace_step")
    print(f"  difference                         {spread(samples)}")


def enter_exit_ns(manager: object, argument: object, pairs: int) -> float:
    begin = time.perf_counter_ns()
    for _ in range(pairs):
        with manager(argument):  # type: ignore[operator]
            pass
    return (time.perf_counter_ns() - begin) / pairs


def bench_enter_exit(device: str, rounds: int = 50, pairs: int = 200) -> None:
    job = Job(device)
    with tracing():
        job.median_us(20, traced=True)
        bare, traced = [], []
        for _ in range(rounds):
            bare.append(enter_exit_ns(contextlib.nullcontext, None, pairs))
            traced.append(enter_exit_ns(traceml.trace_step, job.model, pairs))
            time.sleep(0.03)  # the sampler empties ring and table
    print(f"`with ...: pass` in ns, {device}, {rounds} rounds of {pairs}")
    print(f"  nullcontext()                      {spread(bare)}")
    print(f"  trace_step(model)                  {spread(traced)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--turns", type=int, default=250)
    parser.add_argument("--blocks", type=int, default=100)
    parser.add_argument("--child", choices=["plain", "traced"])
    parser.add_argument("--pair", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.device, arguments.child == "traced", arguments.pair)
        return
    print("each: median [quartiles]")
    bench_processes(arguments.device, arguments.processes, arguments.turns)
    bench_one_process(arguments.device, arguments.blocks)
    bench_alternating(arguments.device, pairs=50 * arguments.blocks)
    bench_enter_exit(arguments.device)


if __name__ == "__main__":
    main()
