"""What an event record costs inside a real step: the tiny MLP on the GPU with ten calls of a C function that does
nothing, and with ten `cudaEventRecord` at the places where TraceML has its own; blocks of steps in shuffled order.

The bound for a traced step is stated in event records: this is what one costs where it is made, not in a hot loop.

Usage:  python tests/bench/bench_records.py [--rounds N]
"""

import argparse
import ctypes
import itertools
import random
import statistics
import time
from collections.abc import Callable

import torch
from bench_step import Job, spread

BLOCK_STEPS = 50
EVENTS = 4000


def load_runtime() -> ctypes.CDLL:
    """The CUDA runtime that PyTorch has loaded."""
    with open("/proc/self/maps") as maps:
        return ctypes.CDLL(next(line.split()[-1] for line in maps if "libcudart" in line))


class Marks:
    """A callable that records the next of many events on the current device's default stream."""

    def __init__(self) -> None:
        runtime = load_runtime()
        self.record = runtime.cudaEventRecord
        self.stream = ctypes.c_void_p(0)
        handles = [ctypes.c_void_p() for _ in range(EVENTS)]
        for handle in handles:
            assert runtime.cudaEventCreateWithFlags(ctypes.byref(handle), 0) == 0
        self.events = itertools.cycle(handles)

    def __call__(self) -> None:
        self.record(next(self.events), self.stream)


class Nothing:
    """The same call of a C function that does nothing."""

    def __init__(self) -> None:
        self.function = ctypes.CDLL(None).llabs
        self.argument = ctypes.c_void_p(0)
        self.values = itertools.cycle([ctypes.c_void_p(i) for i in range(EVENTS)])

    def __call__(self) -> None:
        self.function(next(self.values), self.argument)


def step(job: Job, mark: Callable[[], None]) -> None:
    """One step with ten marks: around fetch, step, forward, backward and optimizer."""
    mark()
    inputs, labels = next(job.batches)
    mark()
    mark()
    job.optimizer.zero_grad(set_to_none=True)
    mark()
    logits = job.model(inputs)
    mark()
    loss = job.loss_function(logits, labels)
    mark()
    loss.backward()
    mark()
    mark()
    job.optimizer.step()
    mark()
    mark()


def median_us(job: Job, mark: Callable[[], None]) -> float:
    marks = []
    for _ in range(BLOCK_STEPS + 1):
        marks.append(time.perf_counter_ns())
        step(job, mark)
    torch.cuda.synchronize()
    return statistics.median(after - before for before, after in itertools.pairwise(marks)) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    arguments = parser.parse_args()
    job = Job("cuda")
    kinds = {"nothing": Nothing(), "records": Marks()}
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for mark in kinds.values():
        median_us(job, mark)
    for _ in range(arguments.rounds):
        for name in random.sample(list(kinds), len(kinds)):
            times[name].append(median_us(job, kinds[name]))
    print(f"host time a step in us, cuda, {arguments.rounds} rounds of {BLOCK_STEPS} steps: median [quartiles]")
    print(f"  ten calls that do nothing          {spread(times['nothing'])}")
    print(f"  ten event records                  {spread(times['records'])}")
    each = [(b - a) / 10 for a, b in zip(times["nothing"], times["records"], strict=True)]
    print(f"  one record, in place               {spread(each)}")


if __name__ == "__main__":
    main()
