"""init, shutdown, summary: what may be called when, and what it answers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import traceml_ai as traceml
from conftest import Run, Script, only_run

Traced = Callable[..., Run]


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("TRACEML_")]:
        monkeypatch.delenv(name)
    traceml.shutdown()
    yield
    traceml.shutdown()


def one_step(model: Any) -> None:
    with traceml.trace_step(model):
        model(torch.randn(2, 4)).sum().backward()


def test_init_says_what_it_switched_on(tmp_path: Path) -> None:
    config = traceml.init(logs_dir=str(tmp_path))
    assert config == traceml.TraceMLInitConfig("auto", True, True, True, True)
    assert traceml.init() is config
    assert traceml.start(mode=" AUTO ") is config


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"mode": "bogus"}, "bogus"),
        ({"mode": None}, "accepted are"),
        ({"patch_forward": True}, "selective"),
        ({"mode": "manual", "patch_h2d": False}, "selective"),
        ({"mode": "selective"}, "at least one"),
        ({"mode": "custom", "patch_forward": False}, "at least one"),
        ({"interval": "x"}, "seconds above 0"),
        ({"interval": -1}, "seconds above 0"),
        ({"ui_mode": "zzz"}, "summary, cli, dashboard"),
        ({"session_id": "a/b"}, "letters"),
        ({"session_id": ".."}, "letters"),
        ({"logs_dir": ""}, "not empty"),
    ],
)
def test_a_bad_argument_is_one_line(tmp_path: Path, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        traceml.init(**{"logs_dir": str(tmp_path), **arguments})
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [{"mode": "manual"}, {"disabled": True}, {"session_id": "other"}])
def test_other_settings_are_refused_naming_both(tmp_path: Path, arguments: dict[str, Any]) -> None:
    traceml.init(logs_dir=str(tmp_path), session_id="one")
    with pytest.raises(RuntimeError, match=r"before with .* now with"):
        traceml.init(**arguments)


def test_positional_and_unknown_arguments_are_type_errors() -> None:
    with pytest.raises(TypeError):
        traceml.init("auto")  # type: ignore[misc]
    with pytest.raises(TypeError):
        traceml.init(foo=1)  # type: ignore[call-arg]


def test_arguments_of_the_other_design_are_accepted(tmp_path: Path) -> None:
    config = traceml.init(
        logs_dir=str(tmp_path),
        aggregator_host="10.0.0.1",
        aggregator_port=1,
        connect_timeout_sec=0.1,
        connect_retry_interval_sec=0.1,
        on_missing_aggregator="raise",
        enable_logging=True,
    )
    assert not config.disabled


def test_nothing_is_written_before_the_first_step(tmp_path: Path, model: Any, capfd: Any) -> None:
    traceml.init(logs_dir=str(tmp_path / "logs"), session_id="run")
    assert not (tmp_path / "logs" / "run").exists()
    traceml.shutdown()
    assert not (tmp_path / "logs" / "run").exists()
    assert "no step was traced" in capfd.readouterr().err


def test_trace_step_without_a_session_does_nothing(model: Any) -> None:
    for thing in (model, None, 3):
        with traceml.trace_step(thing) as value:
            assert value is None
    with traceml.trace_step(model=model):
        pass
    assert model._compiled_call_impl is None


@pytest.mark.parametrize("arguments", [(), (1, 2)])
def test_trace_step_takes_one_argument(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="one argument"):
        traceml.trace_step(*arguments)
    with pytest.raises(TypeError, match="modle"):
        traceml.trace_step(modle=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("how", ["argument", "variable"])
def test_disabled_is_a_no_op_everywhere(tmp_path: Path, model: Any, monkeypatch: Any, capfd: Any, how: str) -> None:
    backward = torch.autograd.backward
    if how == "variable":
        monkeypatch.setenv("TRACEML_DISABLED", "1")
    config = traceml.init(logs_dir=str(tmp_path), disabled=True if how == "argument" else None)
    assert config.disabled
    assert torch.autograd.backward is backward
    one_step(model)
    assert traceml.summary() is None
    assert traceml.final_summary(print_text=True) is None
    assert model._compiled_call_impl is None
    traceml.shutdown()
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_logs_that_cannot_be_written_are_one_line_and_no_tracing(tmp_path: Path, model: Any, capfd: Any) -> None:
    (tmp_path / "file").write_text("")
    backward = torch.autograd.backward
    config = traceml.init(logs_dir=str(tmp_path / "file" / "logs"))
    assert config.disabled
    assert traceml.init().disabled
    one_step(model)
    traceml.shutdown()
    assert torch.autograd.backward is backward
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "untraced" in err


def test_a_name_that_is_taken_gets_the_next_suffix(tmp_path: Path, model: Any, capfd: Any) -> None:
    for _ in range(3):
        traceml.init(logs_dir=str(tmp_path), session_id="run")
        one_step(model)
        traceml.shutdown()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run-2", "run-3"]
    assert "'run-3'" in capfd.readouterr().err


def test_summary_needs_init(script: Callable[..., Script]) -> None:
    ran = script(
        """
        import traceml_ai as traceml
        for call in (traceml.summary, traceml.final_summary):
            try:
                call()
            except RuntimeError as error:
                print(error)
        """,
        prelude="",
    )()
    assert ran.out.splitlines() == ["there is no session: call traceml_ai.init() first"] * 2


def test_summary_is_flat_and_of_the_steps_so_far(tmp_path: Path, model: Any) -> None:
    traceml.init(logs_dir=str(tmp_path))
    for _ in range(5):
        one_step(model)
    first = traceml.final_summary()
    for _ in range(5):
        one_step(model)
    flat = traceml.summary()
    assert flat is not None
    assert first is not None
    assert flat["traceml/schema_version"] == 2.0
    assert all(isinstance(value, (str, int, float, bool)) for value in flat.values())
    last = traceml.final_summary()
    assert last is not None
    windows = [summary["step_time"]["global"]["window"]["end_step"] for summary in (first, last)]
    assert windows == [5, 10]
    traceml.shutdown()
    after = traceml.final_summary()
    assert after is not None
    assert after["meta"]["end_reason"] == "finished"


def test_summary_before_the_first_step_is_none_and_makes_nothing(tmp_path: Path, model: Any, capfd: Any) -> None:
    traceml.init(logs_dir=str(tmp_path))
    assert traceml.summary() is None
    assert traceml.final_summary(print_text=True) is None
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")
    one_step(model)
    assert isinstance(traceml.summary(), dict)


def test_summary_is_for_rank_0_unless_asked(tmp_path: Path, model: Any, monkeypatch: Any) -> None:
    traceml.init(logs_dir=str(tmp_path))
    one_step(model)
    monkeypatch.setenv("RANK", "1")
    assert traceml.summary() is None
    assert traceml.summary(rank0_only=False) is not None


def test_the_text_is_printed_when_asked(tmp_path: Path, model: Any, capsys: Any) -> None:
    traceml.init(logs_dir=str(tmp_path))
    one_step(model)
    traceml.final_summary(print_text=True)
    assert "TraceML" in capsys.readouterr().out


def test_max_steps_ends_the_recording_and_not_the_training(tmp_path: Path, model: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("TRACEML_TRACE_MAX_STEPS", "3")
    traceml.init(logs_dir=str(tmp_path))
    for _ in range(10):
        one_step(model)
    traceml.shutdown()
    assert len(Run(only_run(tmp_path)).completed) == 3


def test_chdir_moves_nothing(tmp_path: Path, model: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    traceml.init(logs_dir="logs", session_id="run")
    (tmp_path / "elsewhere").mkdir()
    os.chdir(tmp_path / "elsewhere")
    one_step(model)
    traceml.shutdown()
    assert (tmp_path / "logs" / "run" / "final_summary.json").is_file()


def test_shutdown_while_another_thread_trains(tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 1)
    stop = threading.Event()
    errors: list[BaseException] = []

    def train() -> None:
        data = torch.utils.data.TensorDataset(torch.randn(64, 4))
        try:
            while not stop.is_set():
                for (value,) in torch.utils.data.DataLoader(data, batch_size=2):
                    with traceml.trace_step(model):
                        model(value).sum().backward()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=train)
    thread.start()
    for index in range(20):
        traceml.init(logs_dir=str(tmp_path), session_id=f"run{index}")
        stop.wait(0.02)
        traceml.shutdown()
    stop.set()
    thread.join()
    assert errors == []


def test_forked_children_record_nothing_and_print_nothing(script: Callable[..., Script]) -> None:
    ran = script("""
        traceml.init(logs_dir="logs")
        steps(3)
        for _ in range(3):
            pid = os.fork()
            if pid == 0:
                steps(2)
                sys.exit(0)   # runs the exit handlers
            assert os.waitpid(pid, 0)[1] == 0
        steps(2)
    """)()
    assert ran.code == 0, ran.err
    assert len(ran.run.completed) == 5
    assert ran.out.count("TraceML   train") == 1
    assert ran.err == ""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_loader_workers_do_not_disturb(script: Callable[..., Script], method: str) -> None:
    ran = script(f"""
        if __name__ == "__main__":
            traceml.init(logs_dir="logs")
            for _ in range(3):
                for batch in DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2, num_workers=2,
                                        multiprocessing_context="{method}"):
                    with traceml.trace_step(model):
                        train(batch)
    """)()
    assert ran.code == 0, ran.err
    assert len(ran.run.completed) == 12
    assert ran.err == ""


def test_spawned_workers_that_rerun_init_are_silent(script: Callable[..., Script]) -> None:
    ran = script("""
        traceml.init(logs_dir="logs")   # at the top level: every spawned worker runs it too
        if __name__ == "__main__":
            for batch in DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2, num_workers=2,
                                    multiprocessing_context="spawn"):
                with traceml.trace_step(model):
                    train(batch)
    """)()
    assert ran.code == 0, ran.err
    assert len(ran.run.completed) == 4
    assert ran.err == ""


def test_warnings_as_errors(script: Callable[..., Script]) -> None:
    ran = script(
        """
        traceml.init(logs_dir="/dev/null/logs")
        steps(2)
        traceml.shutdown()
        traceml.init(logs_dir="logs")
        steps(2)
        """
    )(PYTHONWARNINGS="error")
    assert ran.code == 0, ran.err
    assert len(ran.run.completed) == 2
