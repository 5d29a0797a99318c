"""Settings: which source counts, and what a bad one says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from traceml_ai import settings
from traceml_ai.settings import SettingsError, resolve


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text("")
    return str(path)


def config(script: str, text: str) -> None:
    Path(script).with_name("traceml.yaml").write_text(text)


def test_argument_before_variable_before_file_before_default(script: str) -> None:
    config(script, "interval: 3\n")
    variables = {"TRACEML_INTERVAL": "4"}
    assert resolve({"interval": 5}, variables, script).interval == 5.0
    assert resolve({}, variables, script).interval == 4.0
    assert resolve({}, {}, script).interval == 3.0
    assert resolve({}, {}, None).interval == 2.0


@pytest.mark.parametrize("option", settings.OPTIONS, ids=lambda option: option.name)
def test_every_option_has_its_sources(script: str, option: Any) -> None:
    good = {
        "disabled": "true",
        "ui_mode": "cli",
        "logs_dir": "/elsewhere",
        "session_id": "name",
        "enable_logging": "1",
    }.get(option.name, "7")
    expected = option.parse(good)
    assert getattr(resolve({option.name: expected}, {}, script), option.name) == expected
    assert getattr(resolve({}, {option.env: good}, script), option.name) == expected
    if option.yaml:
        config(script, f"{option.yaml}: {good}\n")
        assert getattr(resolve({}, {}, script), option.name) == expected


@pytest.mark.parametrize("word", ["1", "true", "YES", "on"])
def test_true(word: str) -> None:
    assert resolve({}, {"TRACEML_DISABLED": word}).disabled


@pytest.mark.parametrize("word", ["0", "false", "no", "", "off"])
def test_false(word: str) -> None:
    assert not resolve({}, {"TRACEML_DISABLED": word}).disabled


def test_an_empty_variable_is_none(script: str) -> None:
    assert resolve({}, {"TRACEML_SESSION_ID": "", "TRACEML_INTERVAL": ""}, script).session_id is None


def test_disabled_false_wins_over_the_variable() -> None:
    assert not resolve({"disabled": False}, {"TRACEML_DISABLED": "1"}).disabled


def test_a_bad_variable_is_one_line_and_the_next_source_counts(script: str, capsys: Any) -> None:
    config(script, "interval: 3\n")
    assert resolve({}, {"TRACEML_INTERVAL": "soon"}, script).interval == 3.0
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "TRACEML_INTERVAL=soon" in err


@pytest.mark.parametrize(
    "text", ["interval: soon\n", "interval\n", "runs:\n  - one\n", "- interval: 3\n", "mode: zzz\n", b"\xff\xfe\n"]
)
def test_a_bad_file_is_one_line_and_an_error_when_strict(script: str, capsys: Any, text: str | bytes) -> None:
    Path(script).with_name("traceml.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError) as caught:
        resolve({}, {}, script, strict=True)
    assert "\n" not in str(caught.value)
    assert "traceml.yaml" in str(caught.value)
    assert resolve({}, {}, script) == resolve({}, {}, None)
    assert "traceml.yaml" in capsys.readouterr().err


def test_the_file_may_have_comments_quotes_and_empty_values(script: str, capsys: Any) -> None:
    config(script, "# ours\n---\nlogs_dir: './runs'  # here\ninterval:   2.5\nmode: ~\n\nunknown: 3\n")
    resolved = resolve({}, {}, script)
    assert (resolved.logs_dir, resolved.interval, resolved.ui_mode) == ("./runs", 2.5, "summary")
    assert "'unknown'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("interval", 0),
        ("interval", float("nan")),
        ("interval", float("inf")),
        ("interval", True),
        ("max_steps", 0),
        ("max_steps", 1.5),
        ("max_steps", True),
        ("window_steps", "many"),
        ("logs_dir", 3),
        ("session_id", "a b"),
    ],
)
def test_a_bad_argument_names_itself_and_what_is_accepted(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=f"{name}=.* is not accepted; {name} is "):
        resolve({name: value}, {})
