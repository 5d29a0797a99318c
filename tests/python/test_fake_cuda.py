"""The hooks on the fake CUDA (tests/support/fake_cuda.h): a real loop's spans get events; nothing else is called."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import PRELUDE, Ran, Script, count
from traceml_ai import session

RUNTIME = os.environ.get("TRACEML_CUDART", "")
STEPS = 20
PHASES = ("forward", "backward", "optimizer")

pytestmark = pytest.mark.skipif(not RUNTIME, reason="TRACEML_CUDART names no fake runtime: run it by ctest")

# The model counts as being on device 0, whose clock stands until it is told to go on: forward 1 ms, backward 2 ms.
ON_DEVICE = """
import ctypes
from traceml_ai.hooks import device

gpu = ctypes.CDLL(os.path.join(os.path.dirname(os.environ["TRACEML_CUDART"]), "libfakegpu.so"))
gpu.fake_cuda_advance.argtypes = [ctypes.c_int64]
gpu.fake_cuda_work.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int64]
gpu.fake_cuda_block_stream.argtypes = [ctypes.c_int, ctypes.c_void_p]

class OnDevice:
    is_cuda = True

    def get_device(self):
        return 0

class Busy(torch.nn.Module):
    def forward(self, value):
        work(1)
        value.register_hook(lambda gradient: work(2))
        return value

def work(milliseconds):
    gpu.fake_cuda_work(0, None, milliseconds * 1000000)

on_device = OnDevice()
device.find_parameter = lambda model: on_device
device.raw_stream = lambda: lambda index: 0
model.append(Busy())
gpu.fake_cuda_activate_context(0)
"""


@pytest.fixture
def on_device(script: Callable[..., Script], tmp_path: Path) -> Callable[[str], tuple[Ran, dict[str, int]]]:
    """Call with the body of a script: what came of it, and the fake's counters."""

    def run(body: str) -> tuple[Ran, dict[str, int]]:
        log = tmp_path / "calls"
        ran = script(body, prelude=PRELUDE + ON_DEVICE)(TRACEML_CUDART=RUNTIME, FAKE_CUDA_LOG=str(log))
        assert ran.code == 0, ran.err
        counters = (line.split() for line in log.read_text(encoding="utf-8").splitlines())
        return ran, {name: int(number) for name, number in counters}

    return run


def gpu_ms(line: dict[str, Any], phase: str, region: str = "in") -> float | None:
    return line[region][phase]["gpu_ms"]


def test_every_span_of_a_step_has_its_time_on_the_device(on_device: Any) -> None:
    ran, called = on_device(f"""
        traceml.init(logs_dir="logs")
        steps({STEPS})
        gpu.fake_cuda_advance(3600 * 10**9)
        traceml.shutdown()
    """)
    lines = ran.run.steps
    assert len(lines) == STEPS
    for line in lines:
        assert [count(line, phase) for phase in PHASES] == [1, 1, 1]
        assert gpu_ms(line, "forward") == pytest.approx(1, abs=0.01)
        assert gpu_ms(line, "backward") == pytest.approx(2, abs=0.01)
        assert gpu_ms(line, "optimizer") == pytest.approx(0, abs=0.01)
    for line in lines[1:]:  # where the first batch will be used is not known when it is fetched
        assert count(line, "dataloader_fetch", "pre") == 1
        assert gpu_ms(line, "dataloader_fetch", "pre") == pytest.approx(0, abs=0.01)
    assert ran.run.summary["step_time"]["global"]["window"]["diagnosis_clock"] == "gpu"
    # A pair for each of five spans; the clock's ties have a few of their own.
    assert 0 <= called["cuEventRecord"] - (STEPS * 10 - 2) <= 20
    assert called["forbidden_calls"] == called["misuses"] == called["live_events"] == called["live_streams"] == 0


def test_a_hung_device_keeps_no_script_from_ending_for_two_seconds(on_device: Any) -> None:
    ran, called = on_device("""
        traceml.init(logs_dir="logs")
        steps(3)
        gpu.fake_cuda_block_stream(0, None)
        steps(3)
        gpu.fake_cuda_advance(3600 * 10**9)
        begin = time.monotonic()
        traceml.shutdown()
        print("ended after", time.monotonic() - begin)
    """)
    (seconds,) = (float(line.split()[-1]) for line in ran.out.splitlines() if line.startswith("ended after"))
    assert session.SETTLE_MS / 1000 < seconds < 2
    assert len(ran.run.steps) == 6
    assert called["forbidden_calls"] == 0
