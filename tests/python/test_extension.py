"""The extension alone, without torch: its types, its errors, its life."""

from __future__ import annotations

import gc
import sys
import types
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Run, counts
from traceml_ai import _core


class Model:
    """Anything that can be referred to weakly."""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    _core.open(logs_dir=str(tmp_path), run_name="run", program="test")
    yield Run(tmp_path / "run")
    if _core.is_open():
        _core.close()


def test_the_phases_are_those_of_the_header() -> None:
    names = [name for name in dir(_core) if name.startswith("PHASE_")]
    assert {_core.PHASES[getattr(_core, name)].upper() for name in names} == {name[len("PHASE_") :] for name in names}
    assert len(names) == len(_core.PHASES)


@pytest.mark.parametrize(
    "call",
    [
        lambda: _core.close(),
        lambda: _core.flush(1),
        lambda: _core.run_dir(),
        lambda: _core.steps_completed(),
        lambda: _core.set_environment("{}"),
    ],
)
def test_without_a_session_an_error_says_so(call: Any) -> None:
    with pytest.raises(_core.Error) as caught:
        call()
    assert caught.value.status == "CLOSED"


def test_without_a_session_the_hot_path_is_quiet() -> None:
    assert _core.enter(_core.PHASE_FORWARD, None) is False
    assert _core.leave(_core.PHASE_FORWARD, None) is None
    _core.set_armed(_core.PHASE_FORWARD, True)
    _core.set_hook_cost(_core.PHASE_FORWARD, 1)
    _core.set_epoch(1)
    assert not _core.is_open()


@pytest.mark.parametrize("arguments", [(), (1,), ("forward", None), (-1, None), (99, None), (2**80, None)])
def test_enter_and_leave_check_their_arguments(arguments: tuple[Any, ...]) -> None:
    for function in (_core.enter, _core.leave):
        with pytest.raises((TypeError, OverflowError)):
            function(*arguments)


def test_a_second_open_is_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(_core.Error) as caught:
        _core.open(logs_dir=str(tmp_path), run_name="other")
    assert caught.value.status == "BUSY"
    assert _core.is_open()


def test_an_environment_that_is_no_object_is_refused(run: Run) -> None:
    for wrong in ("[]", "{", "3"):
        with pytest.raises(_core.Error) as caught:
            _core.set_environment(wrong)
        assert caught.value.status == "INVALID_ARGUMENT"


def test_spans_of_each_phase_only_inside_a_step(run: Run) -> None:
    model = Model()
    assert not _core.enter(_core.PHASE_OPTIMIZER, model)
    with _core.TraceStep(model):
        for phase in (_core.PHASE_FORWARD, _core.PHASE_BACKWARD, _core.PHASE_OPTIMIZER):
            assert _core.enter(phase, model)
            _core.leave(phase, model)
        for phase in (_core.PHASE_STEP, _core.PHASE_DATALOADER_FETCH, _core.PHASE_H2D, _core.PHASE_USER):
            assert not _core.enter(phase, model)
    _core.close()
    assert [counts(run, phase) for phase in ("forward", "backward", "optimizer")] == [[1], [1], [1]]


@pytest.mark.parametrize("raised", [None, ValueError, KeyboardInterrupt])
def test_a_timer_is_the_call_with_a_span_around_it(run: Run, raised: type[BaseException] | None) -> None:
    def function(*args: Any, **kwargs: Any) -> Any:
        if raised is not None:
            raise raised
        return args, kwargs

    timer = _core.Timer(_core.PHASE_BACKWARD, "around", original=function)

    def call() -> Any:
        return timer(1, 2, key=3)

    def check() -> None:
        if raised is None:
            assert call() == ((1, 2), {"key": 3})
        else:
            with pytest.raises(raised):
                call()

    check()
    with _core.TraceStep(None):
        check()
    check()
    _core.close()
    assert counts(run, "backward") == [1]


@pytest.mark.parametrize(
    "arguments",
    [
        (4,),
        (4, "around"),
        (4, "beside", None, len),
        (4, "around", Model(), len),
        (4, "around", None, 3),
        (99, "before"),
    ],
)
def test_a_timer_checks_its_arguments(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="Timer"):
        _core.Timer(*arguments)


def test_serve_takes_only_a_function_with_a_timer_in_its_closure() -> None:
    other = 3
    for wrong in (len, lambda: None, lambda: other, _core.Timer(4, "before")):
        with pytest.raises(TypeError, match="Timer"):
            _core.serve(wrong)


def test_a_served_function_does_the_same_from_c_and_from_its_bytecode(run: Run) -> None:
    def from_c_and_from_bytecode(timer: Any) -> tuple[Any, Any]:
        def function(*args: Any, **kwargs: Any) -> Any:
            return timer(*args, **kwargs)

        bytecode = types.FunctionType(function.__code__, globals(), closure=function.__closure__)
        return _core.serve(function), bytecode

    model = Model()
    around = _core.Timer(_core.PHASE_OPTIMIZER, "around", original=lambda *args, **kwargs: (args, kwargs))
    before, after = (_core.Timer(_core.PHASE_OPTIMIZER, role) for role in ("before", "after"))
    with _core.TraceStep(model):
        for function in from_c_and_from_bytecode(around):
            assert function(1, 2, key=3) == ((1, 2), {"key": 3})
            assert function(*(1, 2), key=3) == ((1, 2), {"key": 3})
        for opens, closes in zip(from_c_and_from_bytecode(before), from_c_and_from_bytecode(after), strict=True):
            assert opens(model, (), {}) is None
            assert closes(model, (), {}) is None
            assert closes() is None
    _core.close()
    assert counts(run, "optimizer") == [6]


def test_a_served_function_survives_what_is_done_to_its_cell() -> None:
    timer = _core.Timer(_core.PHASE_OPTIMIZER, "before")

    def function(*args: Any) -> Any:
        return timer(*args)

    _core.serve(function)
    function.__closure__[0].cell_contents = lambda *args: args  # type: ignore[index]
    assert function(*(1, 2)) == (1, 2)
    del function.__closure__[0].cell_contents  # type: ignore[index]
    with pytest.raises((ReferenceError, NameError)):
        function(*(1, 2))


def test_a_timer_of_a_model_that_is_gone_says_so() -> None:
    timer = _core.Timer(_core.PHASE_FORWARD, "around", weakref.ref(Model()))
    with pytest.raises(ReferenceError):
        timer()


def test_a_call_that_closes_the_session(run: Run) -> None:
    with _core.TraceStep(None):
        _core.Timer(_core.PHASE_BACKWARD, "around", original=_core.close)()
    assert not _core.is_open()


def test_a_span_that_was_left_open_ends_with_its_step(run: Run) -> None:
    model = Model()
    for _ in range(3):
        with _core.TraceStep(model):
            assert _core.enter(_core.PHASE_FORWARD, model)
            assert _core.enter(_core.PHASE_OPTIMIZER, model)
    _core.close()
    assert len(run.completed) == 3


def test_leaving_an_outer_span_ends_the_inner_ones(run: Run) -> None:
    model = Model()
    with _core.TraceStep(model):
        assert _core.enter(_core.PHASE_OPTIMIZER, model)
        assert _core.enter(_core.PHASE_FORWARD, model)
        _core.leave(_core.PHASE_OPTIMIZER, model)
        _core.leave(_core.PHASE_FORWARD, model)  # went with the outer one
        assert _core.enter(_core.PHASE_FORWARD, model)
        _core.leave(_core.PHASE_FORWARD, model)
    _core.close()
    assert counts(run, "forward") == [2]


def test_more_open_spans_than_places_are_not_recorded_and_harm_nothing(run: Run) -> None:
    model = Model()
    owners = [object() for _ in range(40)]
    with _core.TraceStep(model):
        opened = sum(_core.enter(_core.PHASE_OPTIMIZER, owner) for owner in owners)
        for owner in reversed(owners):
            _core.leave(_core.PHASE_OPTIMIZER, owner)
    assert opened == 16
    _core.close()
    assert len(run.completed) == 1


@pytest.mark.parametrize("running", [True, False])
def test_an_optimizer_that_enters_again(run: Run, running: bool) -> None:
    asked: list[Any] = []
    model = Model()
    _core.set_callbacks(is_running=lambda owner: asked.append(owner) or running)
    with _core.TraceStep(model):
        assert _core.enter(_core.PHASE_OPTIMIZER, model)
        assert _core.enter(_core.PHASE_OPTIMIZER, model)
        _core.leave(_core.PHASE_OPTIMIZER, model)
        _core.leave(_core.PHASE_OPTIMIZER, model)
    _core.close()
    assert asked == [model]
    assert counts(run, "optimizer") == [1 if running else 2]


def test_a_module_that_enters_again_calls_itself(run: Run) -> None:
    _core.set_callbacks(is_running=lambda owner: pytest.fail("nobody has to be asked"))
    model = Model()
    with _core.TraceStep(model):
        for _ in range(3):
            assert _core.enter(_core.PHASE_FORWARD, model)
        for _ in range(3):
            _core.leave(_core.PHASE_FORWARD, model)
        assert _core.enter(_core.PHASE_BACKWARD, None)
        assert not _core.enter(_core.PHASE_FORWARD, model)
        assert not _core.enter(_core.PHASE_BACKWARD, None)
        _core.leave(_core.PHASE_BACKWARD, None)
    _core.close()
    assert [counts(run, phase) for phase in ("forward", "backward")] == [[1], [1]]


def test_a_model_is_told_once_and_not_kept_alive(run: Run) -> None:
    told: list[int] = []
    _core.set_callbacks(on_model=lambda model: told.append(id(model)))
    model = Model()
    for _ in range(3):
        with _core.TraceStep(model):
            pass
    assert told == [id(model)]
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_a_callback_may_close_the_session(run: Run) -> None:
    _core.set_callbacks(on_model=lambda model: _core.close())
    with _core.TraceStep(Model()):
        assert not _core.is_open()


def test_a_step_in_a_cycle_is_collected() -> None:
    class Holder:
        pass

    holder = Holder()
    holder.step = _core.TraceStep(holder)  # type: ignore[attr-defined]
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None


def test_a_fetch_behaves_as_a_method() -> None:
    class Batches:
        def __next__(self) -> Any:
            """Say who."""
            return self

    original = Batches.__next__
    Batches.__next__ = fetch = _core.Fetch(original)  # type: ignore[method-assign]
    batches = Batches()
    assert next(batches) is batches
    assert batches.__next__() is batches
    assert batches.__next__.__self__ is batches  # type: ignore[attr-defined]
    assert Batches.__next__ is fetch
    assert (fetch.__wrapped__, fetch.__name__, fetch.__doc__) == (original, "__next__", "Say who.")
    with pytest.raises(AttributeError, match="bogus"):
        _ = fetch.bogus
    gone = weakref.ref(Batches)
    del Batches, batches, fetch, original
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("raised", "fetches"), [(StopIteration, [0]), (ValueError, [1]), (KeyboardInterrupt, [1]), (None, [1])]
)
def test_how_a_fetch_ends(run: Run, raised: type[BaseException] | None, fetches: list[int]) -> None:
    def original(iterator: Any) -> int:
        if raised is not None:
            raise raised
        return 7

    model = Model()
    fetch = _core.Fetch(original)
    with _core.TraceStep(model):
        pass
    if raised is None:
        assert fetch(model) == 7
    else:
        with pytest.raises(raised):
            fetch(model)
    with _core.TraceStep(model):
        pass
    _core.close()
    assert counts(run, "dataloader_fetch", "pre")[1:] == fetches


def test_a_first_fetch_is_told_with_the_state_of_gradients(run: Run) -> None:
    class Batches:
        _num_yielded = 0

    told: list[Any] = []
    enabled = True
    _core.set_callbacks(on_iterator=lambda *given: told.append(given), is_grad_enabled=lambda: enabled)
    batches = Batches()
    fetch = _core.Fetch(lambda iterator: None)
    fetch(batches)
    enabled = False
    fetch(batches)
    Batches._num_yielded = 1
    fetch(batches)
    assert told == [(batches, True, False), (batches, False, False)]


def test_an_exhausted_iterator_is_told_and_its_stop_iteration_stays(run: Run) -> None:
    told: list[Any] = []

    def has_no_more(iterator: Any) -> None:
        raise StopIteration(iterator)

    _core.set_callbacks(on_iterator=lambda *given: told.append(given))
    with pytest.raises(StopIteration) as stopped:
        _core.Fetch(has_no_more)(7)
    assert stopped.value.value == 7
    assert told == [(7, True, True)]


def test_what_fails_while_we_tell_of_an_exhausted_iterator_does_not_reach_the_user(run: Run) -> None:
    def failing(*given: Any) -> None:
        raise ValueError

    def has_no_more(iterator: Any) -> None:
        raise StopIteration

    _core.set_callbacks(on_iterator=failing)
    with pytest.raises(StopIteration):
        _core.Fetch(has_no_more)(7)


def test_an_interrupt_while_we_tell_of_a_first_fetch_reaches_the_user(run: Run) -> None:
    class Batches:
        _num_yielded = 0

    def interrupted(*given: Any) -> None:
        raise KeyboardInterrupt

    _core.set_callbacks(on_iterator=interrupted)
    with pytest.raises(KeyboardInterrupt):
        _core.Fetch(lambda iterator: None)(Batches())


def test_nothing_is_leaked(run: Run) -> None:
    model = Model()
    fetch = _core.Fetch(lambda iterator: iterator)

    def rounds(number: int) -> int:
        for _ in range(number):
            fetch(model)
            with _core.TraceStep(model):
                _core.enter(_core.PHASE_FORWARD, model)
                _core.leave(_core.PHASE_FORWARD, model)
        gc.collect()
        return sys.getallocatedblocks()

    rounds(200)
    before = rounds(200)
    assert rounds(2000) - before < 100


def test_what_is_not_a_report_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(_core.Error, match="missing") as caught:
        _core.read_report(tmp_path / "missing")
    assert caught.value.status == "NOT_FOUND"
    with pytest.raises(_core.Error) as caught:
        _core.write_report(tmp_path / "missing", "{}", "")
    assert caught.value.status == "UNWRITABLE"


def test_paths_that_are_not_utf_8(tmp_path: Path) -> None:
    folder = tmp_path / "caf\udce9"
    folder.mkdir()
    with pytest.raises(_core.Error):
        _core.read_report(folder)
