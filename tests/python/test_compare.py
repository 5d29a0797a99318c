"""``traceml compare``: real runs, real summaries of traceml-ai, exit codes, and what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Ran, Run, Script

Command = Callable[..., Ran]
Summary = dict[str, Any]

WITHIN, DATA, USAGE, INCONCLUSIVE, SLOWER = 0, 1, 2, 3, 4
LEGACY = Path(__file__).parents[1] / "fixtures" / "traceml_ai"
SCHEMAS = ("1.4", "1.5", "1.6", "1.7")

# A loader that sleeps, so that the machine's load hardly matters.
LOADER = """
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 60
    def __getitem__(self, index):
        time.sleep(float(os.environ["WAIT_S"]))
        return torch.ones(4)

traceml.init(mode="auto")
for batch in DataLoader(Slow(), batch_size=1, num_workers=int(os.environ["WORKERS"])):
    with traceml.trace_step(model):
        train([batch])
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return two run directories: a slow loader, and the same with workers."""
    made = []
    for name, environment in {
        "slow": {"WAIT_S": "0.03", "WORKERS": "0"},
        "fast": {"WAIT_S": "0.001", "WORKERS": "1"},
    }.items():
        ran = Script(tmp_path_factory.mktemp(name), LOADER)(True, **environment)
        assert ran.code == 0, ran.err
        made.append(ran.run.run_dir)
    return made[0], made[1]


@pytest.fixture
def edited(runs: tuple[Path, Path], tmp_path: Path) -> Callable[..., Path]:
    """Call with a name and an edit of the slow run's summary; returns the file."""

    def edit(name: str, change: Callable[[Summary], Any] = lambda _: None) -> Path:
        summary = Run(runs[0]).summary
        change(summary)
        path = tmp_path / name
        path.write_text(json.dumps(summary), encoding="utf-8")
        return path

    return edit


def scale(summary: Summary, factor: float) -> None:
    """Make every time of the step section longer by `factor`."""

    def scaled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: scaled(member) for key, member in value.items()}
        if isinstance(value, list):
            return [scaled(member) for member in value]
        return value * factor if isinstance(value, float) else value

    step_time = summary["step_time"]
    for block in ("average", "median", "worst"):
        step_time["global"][block] = scaled(step_time["global"][block])
    for row in step_time["groups"]["rows"].values():
        for block in ("metrics", "spread", "blocks"):
            row[block] = scaled(row[block])


def payload(base: Path) -> Summary:
    """Return what ``--output`` wrote."""
    return json.loads(base.with_suffix(".json").read_text(encoding="utf-8"))


def test_two_runs_give_a_verdict_and_both_files(command: Command, runs: tuple[Path, Path], tmp_path: Path) -> None:
    slow, fast = runs
    ran = command("compare", str(slow), str(fast), "--output", "out")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[2] == "IMPROVEMENT"
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == ran.out
    found = payload(tmp_path / "out")
    assert found["text"] == ran.out
    assert found["verdict"] == "improvement"
    assert found["step_time"]["mean"]["delta"] < 0
    assert found["ratios"]["step_total"]["ratio"] > 1
    assert found["ratios"]["training_loop"]["ratio"] > 1
    assert found["ratios"]["whole_process"]["old"] == Run(slow).summary["run"]["process_s"]
    assert {"name": "loader.workers", "old": 0, "new": 1} in found["changed"]
    assert found["old"]["diagnosis"]["kind"] == "INPUT_BOUND"
    assert "loader workers 1 (was 0)" in " ".join(ran.out.split())


def test_every_number_is_that_of_the_summaries(command: Command, runs: tuple[Path, Path], tmp_path: Path) -> None:
    assert command("compare", *map(str, runs), "--output", "out").code == 0
    old, new = (Run(run).summary["step_time"]["global"] for run in runs)
    metrics = payload(tmp_path / "out")["metrics"]
    assert set(metrics) == set(old["average"])
    for name, metric in metrics.items():
        assert (metric["old"], metric["new"]) == (old["average"][name], new["average"][name])
        assert metric["old_status"]["availability"] == old["status"][name]["availability"]
        if metric["old"] is None or metric["new"] is None:
            assert metric["delta"] is None
            assert metric["reason"]
        else:
            assert metric["delta"] == pytest.approx(metric["new"] - metric["old"], abs=1e-5)


def test_a_directory_and_its_summary_say_the_same(command: Command, runs: tuple[Path, Path], tmp_path: Path) -> None:
    command("compare", str(runs[0]), str(runs[1]), "--output", "a")
    command("compare", str(runs[0] / "final_summary.json"), str(runs[1]), "--output", "b")
    assert payload(tmp_path / "a")["metrics"] == payload(tmp_path / "b")["metrics"]


def test_a_run_against_itself_is_within_noise(command: Command, runs: tuple[Path, Path]) -> None:
    ran = command("compare", str(runs[0]), str(runs[0]), "--max-step-time-regression-pct", "0")
    assert (ran.code, ran.out.splitlines()[2]) == (WITHIN, "WITHIN NOISE")


@pytest.mark.parametrize(
    ("factor", "limit", "code", "outcome"),
    [
        (1.5, "5", SLOWER, "slower"),
        (1.5, "60", WITHIN, "within"),
        (1.5, None, 0, "none"),
        (0.5, "0", WITHIN, "within"),
    ],
)
def test_the_limit_decides_the_exit_code_and_the_evidence_is_there(
    command: Command,
    edited: Callable[..., Path],
    tmp_path: Path,
    factor: float,
    limit: str | None,
    code: int,
    outcome: str,
) -> None:
    new = edited("new.json", lambda summary: scale(summary, factor))
    options = [] if limit is None else ["--max-step-time-regression-pct", limit]
    ran = command("compare", str(edited("old.json")), str(new), "--output", "out", *options)
    assert ran.code == code
    assert payload(tmp_path / "out")["limit"]["outcome"] == outcome
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == ran.out


def test_without_a_common_clock_it_is_inconclusive(
    command: Command, edited: Callable[..., Path], tmp_path: Path
) -> None:
    def to_gpu(summary: Summary) -> None:
        average = summary["step_time"]["global"]["average"]
        summary["step_time"]["global"]["window"]["diagnosis_clock"] = "gpu"
        average["step_time_gpu_ms"], average["step_time_cpu_ms"] = average["step_time_cpu_ms"], None

    new = edited("new.json", to_gpu)
    options = ("--max-step-time-regression-pct", "5", "--output", "out")
    ran = command("compare", str(edited("old.json")), str(new), *options)
    assert ran.code == INCONCLUSIVE
    assert payload(tmp_path / "out")["reason"] == "no_common_clock"
    assert payload(tmp_path / "out")["metrics"]["forward_ms"]["delta"] is None


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_summary_of_traceml_ai_is_read(
    command: Command, runs: tuple[Path, Path], tmp_path: Path, schema: str
) -> None:
    source = LEGACY / f"schema-{schema}.json"
    theirs = json.loads(source.read_text(encoding="utf-8"))["step_time"]["global"]["average"]
    ran = command("compare", str(source), str(runs[1]), "--output", "out")
    assert ran.code == 0, ran.err
    found = payload(tmp_path / "out")
    assert (found["verdict"], found["reason"]) == ("inconclusive", "noise_unknown")
    assert found["old"]["schema_version"] == float(schema)
    assert found["old"]["diagnosis"]["kind"] == "INPUT_BOUND"
    metrics = found["metrics"]
    fetch = theirs["dataloader_ms"] if schema < "1.7" else theirs["dataloader_fetch_cpu_ms"]
    assert metrics["dataloader_fetch_cpu_ms"]["old"] == pytest.approx(fetch, abs=1e-5)
    total = theirs["total_step_ms"] if schema < "1.7" else theirs["step_time_cpu_ms"]
    assert metrics["step_time_cpu_ms"]["old"] == pytest.approx(total, abs=1e-5)
    assert metrics["forward_ms"]["old"] == pytest.approx(theirs["forward_ms"], abs=1e-5)
    assert metrics["h2d_ms"]["old"] is None
    assert (metrics["input_wait_ms"]["old"] is None) == (schema < "1.6")
    assert found["ratios"]["whole_process"]["ratio"] is None


def test_two_of_traceml_ai_keep_their_own_ratios(command: Command, tmp_path: Path) -> None:
    old, new = LEGACY / "schema-1.7.json", LEGACY / "schema-1.7-fast.json"
    ran = command("compare", str(old), str(new), "--output", "out", "--max-step-time-regression-pct", "1000")
    assert ran.code == INCONCLUSIVE
    ratios = payload(tmp_path / "out")["ratios"]
    durations = [json.loads(path.read_text(encoding="utf-8"))["duration_s"] for path in (old, new)]
    assert ratios["whole_process"]["ratio"] == pytest.approx(durations[0] / durations[1], abs=1e-4)
    assert ratios["training_loop"]["ratio"] is None


def test_a_run_directory_of_traceml_ai_is_read_by_its_summary(command: Command, tmp_path: Path) -> None:
    directory = tmp_path / "theirs"
    directory.mkdir()
    (directory / "final_summary.json").write_bytes((LEGACY / "schema-1.6.json").read_bytes())
    (directory / "manifest.json").write_text('{"schema_version": 1, "run_name": "theirs"}', encoding="utf-8")
    ran = command("compare", "theirs", str(LEGACY / "schema-1.7.json"), "--output", "out")
    assert ran.code == 0, ran.err
    assert payload(tmp_path / "out")["old"]["schema_version"] == 1.6


@pytest.mark.parametrize("with_summary", [True, False])
def test_view_says_that_a_run_directory_is_of_traceml_ai(command: Command, tmp_path: Path, with_summary: bool) -> None:
    directory = tmp_path / "theirs"
    directory.mkdir()
    (directory / "manifest.json").write_text('{"schema_version": 1, "run_name": "theirs"}', encoding="utf-8")
    if with_summary:
        (directory / "final_summary.json").write_bytes((LEGACY / "schema-1.6.json").read_bytes())
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    ran = command("view", "theirs")
    assert ran.code == 1
    assert ran.out == ""
    assert len(ran.err.splitlines()) == 1
    assert "of another tool or an older schema" in ran.err
    assert ("traceml compare reads" in ran.err) == with_summary
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no whole JSON document"),
        ('{"schema_version": 2.0, "step_time": {', "no whole JSON document"),
        ('{"schema_version": 2.0, "duration_s": NaN}', "NaN in it?"),
        ("[" * 100_000, "no whole JSON document"),
        ('{"something": "else"}', "no schema_version"),
        ('{"schema_version": 1.2}', "its schema 1.2 cannot be read here; that is schema 2 of this tool, 1.4 to 1.7"),
        ('{"schema_version": 2.0, "step_time": []}', "step_time"),
        ("\udcff\udcfe", "no whole JSON document"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_file_that_cannot_be_used_is_one_line_that_names_it(
    command: Command, tmp_path: Path, text: str, says: str, first: bool
) -> None:
    (tmp_path / "bad.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    good = str(LEGACY / "schema-1.7.json")
    arguments = ("bad.json", good) if first else (good, "bad.json")
    ran = command("compare", *arguments, "--output", "out", "--max-step-time-regression-pct", "5")
    assert (ran.code, ran.out) == (DATA, "")
    (line,) = ran.err.splitlines()
    assert "bad.json: " in line
    assert says in line
    assert not (tmp_path / "out.json").exists()


def test_what_is_not_there_is_data_that_cannot_be_used(command: Command, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in ("nowhere", "empty", os.devnull):
        ran = command("compare", path, str(LEGACY / "schema-1.7.json"))
        assert (ran.code, len(ran.err.splitlines())) == (DATA, 1), ran.err
        assert path in ran.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "required"),
        (["a"], "required"),
        (["a", "b", "c"], "unknown argument 'c'"),
        (["a", "b", "--outpt", "c"], "unknown option '--outpt' (did you mean --output?)"),
        (["a", "b", "--max-step-time-regression-pct", "-1"], "percentage of 0 or more"),
        (["a", "b", "--max-step-time-regression-pct", "nan"], "percentage of 0 or more"),
        (["a", "b", "--max-step-time-regression-pct", "few"], "percentage of 0 or more"),
        (["a", "b", "--output", "out/"], "without its extension"),
        (["a", "b", "--output", ""], "without its extension"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(command: Command, arguments: list[str], says: str) -> None:
    ran = command("compare", *arguments)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (USAGE, "", 1)
    assert says in ran.err


def test_an_output_that_cannot_be_written_is_wrong_usage(command: Command) -> None:
    good = str(LEGACY / "schema-1.7.json")
    ran = command("compare", good, good, "--output", "nowhere/out")
    assert ran.code == USAGE
    assert "cannot write nowhere/out.json" in ran.err


def test_an_extension_given_to_output_is_not_doubled(command: Command, tmp_path: Path) -> None:
    good = str(LEGACY / "schema-1.7.json")
    assert command("compare", good, good, "--output", "out.json").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "out.txt"]
