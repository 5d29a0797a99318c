"""What TraceML costs a training step on the host: the tiny MLP, with and without the tool.

Linear 128-256, GELU, Linear 256-10, batch 64, SGD, fed by a DataLoader of tensors in memory.

1. fresh processes, with and without the tool, alternating: median step of each process, then median over processes
2. one process, tracing on and off in alternating blocks (off: after `shutdown`, everything patched restored)
3. `with trace_step(model): pass` against `with nullcontext(): pass`

Usage:  python tests/bench/bench_step.py [--device cpu|cuda] [--processes N] [--steps N]
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import traceml_ai as traceml

BATCH_SIZE = 64
WARM_UP_STEPS = 200


class Job:
    """The tiny MLP and an endless supply of batches on the device."""

    def __init__(self, device: str) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.model = nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 10)).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.loss_function = nn.CrossEntropyLoss()
        inputs = torch.randn(BATCH_SIZE * 64, 128, device=device)
        labels = torch.randint(10, (BATCH_SIZE * 64,), device=device)
        self.loader = DataLoader(TensorDataset(inputs, labels), batch_size=BATCH_SIZE)
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

    def times_us(self, steps: int, traced: bool) -> list[float]:
        """Host time of each of `steps` steps."""
        step = self.step if traced else self.plain_step
        marks = []
        for _ in range(steps + 1):
            marks.append(time.perf_counter_ns())
            step()
        return [(after - before) / 1e3 for before, after in zip(marks, marks[1:], strict=False)]


@contextlib.contextmanager
def tracing(logs_dir: str) -> Iterator[None]:
    traceml.init(logs_dir=logs_dir)
    try:
        yield
    finally:
        traceml.shutdown()


def child(device: str, steps: int, traced: bool) -> None:
    """One fresh process: prints its median step in us."""
    job = Job(device)
    with tempfile.TemporaryDirectory() as logs, tracing(logs) if traced else contextlib.nullcontext():
        job.times_us(WARM_UP_STEPS, traced)
        print(json.dumps({"median_us": statistics.median(job.times_us(steps, traced))}))


def run_child(device: str, steps: int, traced: bool) -> float:
    command = [sys.executable, __file__, "--child", "traced" if traced else "plain"]
    command += ["--device", device, "--steps", str(steps)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ).stdout
    line = next(line for line in output.splitlines() if line.startswith("{"))
    return json.loads(line)["median_us"]


def show(name: str, values: list[float], unit: str = "us") -> float:
    median = statistics.median(values)
    print(f"  {name:34} {median:9.2f} {unit}   [{min(values):.2f}, {max(values):.2f}]")
    return median


def bench_processes(device: str, processes: int, steps: int) -> None:
    """The first of each pair alternates, so that a drift of the machine hits both."""
    plain: list[float] = []
    traced: list[float] = []
    for i in range(processes):
        for with_tool in (i % 2 == 0, i % 2 == 1):
            (traced if with_tool else plain).append(run_child(device, steps, with_tool))
    print(f"host time per step, {device}, {processes} fresh processes each, {steps} steps: median [min, max]")
    difference = [b - a for a, b in zip(plain, traced, strict=True)]
    show("never called init", plain)
    show("traced", traced)
    show("difference of pairs", difference)


def bench_one_process(device: str, steps: int, blocks: int = 10) -> None:
    job = Job(device)
    on: list[float] = []
    off: list[float] = []
    job.times_us(WARM_UP_STEPS, traced=False)
    for _ in range(blocks):
        with tempfile.TemporaryDirectory() as logs, tracing(logs):
            job.times_us(50, traced=True)
            on.append(statistics.median(job.times_us(steps // blocks, traced=True)))
        job.times_us(50, traced=False)
        off.append(statistics.median(job.times_us(steps // blocks, traced=False)))
    print(f"host time per step, {device}, one process, {blocks} blocks on and off: median [min, max]")
    show("tracing off (shut down)", off)
    show("tracing on", on)
    show("difference of pairs", [b - a for a, b in zip(off, on, strict=True)])


def enter_exit_ns(manager: object, argument: object, pairs: int) -> float:
    begin = time.perf_counter_ns()
    for _ in range(pairs):
        with manager(argument):  # type: ignore[operator]
            pass
    return (time.perf_counter_ns() - begin) / pairs


def bench_enter_exit(device: str, rounds: int = 50, pairs: int = 1000) -> None:
    job = Job(device)
    with tempfile.TemporaryDirectory() as logs, tracing(logs):
        job.times_us(20, traced=True)
        bare, traced = [], []
        for _ in range(rounds):
            bare.append(enter_exit_ns(contextlib.nullcontext, None, pairs))
            traced.append(enter_exit_ns(traceml.trace_step, job.model, pairs))
            time.sleep(0.03)
    print(f"with trace_step(model): pass, {device}, {rounds} rounds of {pairs}: median [min, max]")
    show("nullcontext", bare, "ns")
    show("trace_step", traced, "ns")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--processes", type=int, default=7)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--child", choices=["plain", "traced"])
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.device, arguments.steps, arguments.child == "traced")
        return
    bench_processes(arguments.device, arguments.processes, arguments.steps)
    bench_one_process(arguments.device, arguments.steps)
    bench_enter_exit(arguments.device)


if __name__ == "__main__":
    main()
