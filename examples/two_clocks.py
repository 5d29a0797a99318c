"""The same forward pass on three clocks, side by side, and what each way of measuring does to the step.

1. wall clock around the call: on a GPU this is the time to enqueue the work, not to do it
2. synchronising before and after every phase: true device times of a loop that no longer overlaps
3. TraceML: a pair of events around the phase, read later by a background thread

Each row is the mean of the 60 steps after the warm-up.

Run:  python examples/two_clocks.py        (on a CPU the three agree, since nothing is asynchronous there)
"""

import os
import statistics
import time
from collections.abc import Callable

import torch
import traceml_ai as traceml
from torch import nn

STEPS = 60
WARM_UP = 10
WIDTH = 2048 if torch.cuda.is_available() else 256


class Loop:
    """One model, one optimizer and one batch on the device, trained step by step."""

    def __init__(self, device: torch.device) -> None:
        torch.manual_seed(0)
        self.device = device
        layers = [layer for _ in range(8) for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU())]
        self.model = nn.Sequential(*layers, nn.Linear(WIDTH, 10)).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.inputs = torch.randn(512, WIDTH, device=device)
        self.labels = torch.randint(10, (512,), device=device)

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def step(self, forward: Callable[[], torch.Tensor], after_phase: Callable[[], None]) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(forward(), self.labels)
        after_phase()
        loss.backward()
        after_phase()
        self.optimizer.step()
        after_phase()

    def run(self, between: Callable[[], None]) -> tuple[float, float]:
        """Mean forward time in ms with `between` around every phase, and the mean step time over the loop in ms."""
        forward_ms: list[float] = []

        def timed_forward() -> torch.Tensor:
            between()
            begin = time.perf_counter()
            logits = self.model(self.inputs)
            between()
            forward_ms.append((time.perf_counter() - begin) * 1e3)
            return logits

        for _ in range(WARM_UP):
            self.step(timed_forward, between)
        forward_ms.clear()
        self.synchronize()
        begin = time.perf_counter()
        for _ in range(STEPS):
            self.step(timed_forward, between)
        self.synchronize()
        return statistics.fmean(forward_ms), (time.perf_counter() - begin) * 1e3 / STEPS

    def run_traced(self) -> tuple[float, float]:
        """The same by TraceML's event pairs (host brackets on a CPU)."""
        for _ in range(WARM_UP):
            with traceml.trace_step(self.model):
                self.step(lambda: self.model(self.inputs), lambda: None)
        self.synchronize()
        begin = time.perf_counter()
        for _ in range(STEPS):
            with traceml.trace_step(self.model):
                self.step(lambda: self.model(self.inputs), lambda: None)
        self.synchronize()
        step_ms = (time.perf_counter() - begin) * 1e3 / STEPS
        step_time = traceml.final_summary(print_text=False)["step_time"]["global"]
        return step_time["average"]["forward_ms"], step_ms


def main() -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loop = Loop(device)
    wall = loop.run(between=lambda: None)
    synchronised = loop.run(between=loop.synchronize)
    os.environ["TRACEML_SUMMARY_WINDOW_ROWS"] = str(STEPS)  # its report is of the same steps, without the warm-up
    traceml.init()
    events = loop.run_traced()
    print(f"{'forward on ' + device.type:34} {'forward':>10} {'whole step':>12}")
    for name, (forward_ms, step_ms) in {
        "wall clock, no synchronising": wall,
        "wall clock, synchronising around": synchronised,
        "TraceML, event pairs": events,
    }.items():
        print(f"  {name:32} {forward_ms:7.3f} ms {step_ms:9.3f} ms")


if __name__ == "__main__":
    main()
