"""Where the host cost of a traced step is: the tiny MLP with one hook at a time, blocks of steps in shuffled order.

Usage:  python tests/bench/bench_hooks.py [--device cpu|cuda] [--rounds N]
"""

import argparse
import random

import torch
from bench_step import Job, spread, tracing
from traceml_ai.hooks import backward, dataloader, forward, optimizer

BLOCK_STEPS = 40
SETTLE_STEPS = 10
HOOKS = {"fetch": dataloader, "forward": forward, "backward": backward, "optimizer": optimizer}
STATES = {
    "session alone": ((), False),
    "trace_step": ((), True),
    **{f"trace_step + {name}": ((name,), True) for name in HOOKS},
    "all": (tuple(HOOKS), True),
}


def measure(job: Job, traced: bool) -> float:
    job.median_us(SETTLE_STEPS, traced)
    return job.median_us(BLOCK_STEPS, traced)


def measure_state(job: Job, names: tuple[str, ...], traced: bool) -> float:
    for name in names:
        HOOKS[name].install()
        if name == "forward":
            forward.attach(job.model)
    median_us = measure(job, traced)
    for name in names:
        HOOKS[name].remove()
    return median_us


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=60)
    arguments = parser.parse_args()
    job = Job(arguments.device)
    job.median_us(500, traced=False)
    samples: dict[str, list[float]] = {name: [] for name in STATES}
    plain: list[float] = []
    for _ in range(arguments.rounds):
        before = measure(job, traced=False)
        with tracing():
            measure(job, traced=True)
            for hook in HOOKS.values():
                hook.remove()
            times = {name: measure_state(job, *STATES[name]) for name in random.sample(list(STATES), len(STATES))}
        plain.append((before + measure(job, traced=False)) / 2)
        for name, median_us in times.items():
            samples[name].append(median_us - plain[-1])
    print(f"host time a step in us, {arguments.device}, {arguments.rounds} rounds: median [quartiles]")
    print(f"  no session                 {spread(plain)}")
    for name, values in samples.items():
        print(f"  beyond that: {name:22}{spread(values)}")


if __name__ == "__main__":
    main()
