"""Worker processes of a DataLoader beside the sampler: forked and spawned, no hang, nothing recorded twice."""

from __future__ import annotations

from collections.abc import Callable

from conftest import Script, counts

Scripts = Callable[..., Script]

INIT = 'traceml.init(logs_dir="logs")\n'


def test_four_fork_workers_over_fifty_epochs(script: Scripts) -> None:
    ran = script(
        INIT
        + """
data = TensorDataset(torch.randn(16, 4))
loader = DataLoader(data, batch_size=2, num_workers=4, multiprocessing_context="fork")
for _ in range(50):
    for batch in loader:
        with traceml.trace_step(model):
            train(batch)
"""
    )()
    assert ran.code == 0, ran.err
    assert "traceml" not in ran.err  # PyTorch warns of many workers where there are few cores
    assert ran.out.count("TraceML   train") == 1
    assert [step["step"] for step in ran.run.steps] == list(range(1, 401))
    assert counts(ran.run, "dataloader_fetch", "pre") == [1] * 400
    assert sum("header" in line for line in ran.run.lines) == 1


def test_spawned_workers_rerun_the_top_level_and_leave_no_run(script: Scripts) -> None:
    ran = script(
        """
        def work():
            traceml.init(logs_dir="logs")
            loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2, num_workers=2,
                                multiprocessing_context="spawn")
            for batch in loader:
                with traceml.trace_step(model):
                    train(batch)

        traceml.init(logs_dir="logs")  # at the top: runs again in each worker
        if __name__ == "__main__":
            work()
        """
    )()
    assert ran.code == 0, ran.err
    assert ran.out.count("TraceML   train") == 1
    assert len(ran.run.completed) == 4


def test_a_forked_child_that_exits_properly_writes_and_prints_nothing(script: Scripts) -> None:
    ran = script(
        INIT
        + """
steps(3)
if os.fork() == 0:
    with traceml.trace_step(model):
        train([torch.randn(2, 4)])
    sys.exit(0)          # runs the exit handlers of the child
os.wait()
steps(3)
"""
    )()
    assert ran.code == 0, ran.err
    assert ran.err == ""
    assert ran.out.count("TraceML   train") == 1
    assert [step["step"] for step in ran.run.steps] == [1, 2, 3, 4, 5, 6]
    assert sum("end" in line for line in ran.run.lines) == 1
