"""Importing the package is cheap and has no side effects."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("module", ["traceml_ai", "traceml_ai.cli", "traceml_ai.launcher"])
def test_import_loads_neither_torch_nor_numpy(module: str) -> None:
    loaded = python(f"import sys, {module}; print([m for m in ('torch', 'numpy', 'yaml') if m in sys.modules])")
    assert loaded.strip() == "[]"


def test_version_is_the_library_s() -> None:
    import traceml_ai
    from traceml_ai import _core

    assert traceml_ai.__version__ == _core.__version__
    assert traceml_ai.__version__.count(".") == 2


def test_every_public_name_exists() -> None:
    import traceml_ai

    assert all(hasattr(traceml_ai, name) for name in traceml_ai.__all__)


def test_without_torch_the_package_imports_and_init_says_what_to_install() -> None:
    code = """
import sys
sys.modules["torch"] = None  # as if it were not installed
import traceml_ai
try:
    traceml_ai.init()
except ImportError as error:
    print(error)
with traceml_ai.trace_step(None):
    print("runs")
"""
    out = python(code)
    assert "pip install torch" in out
    assert "runs" in out


def test_without_cjson_one_line_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "libcjson.so.1").touch()  # found first, and no library
    done = subprocess.run(
        [sys.executable, "-c", "import traceml_ai"],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        pytest.skip("this build has cJSON inside")
    last = done.stderr.splitlines()[-1]
    assert "apt-get install libcjson1" in last
    assert "libcjson.so.1" in last
    assert "During handling" not in done.stderr


def test_extension_imports_in_a_second_interpreter_state() -> None:
    # Multi-phase init with all state in the module: a fresh copy has its own.
    code = """
import importlib.util, sys
import traceml_ai._core as first
spec = importlib.util.spec_from_file_location("traceml_ai._core", first.__file__)
second = importlib.util.module_from_spec(spec); spec.loader.exec_module(second)
print(second is not first, second.TraceStep is not first.TraceStep, second.Error is not first.Error)
del second; import gc; gc.collect()
"""
    assert python(code).strip() == "True True True"
