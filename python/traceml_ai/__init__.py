"""TraceML: tells why a PyTorch training run is slow, cheaply enough to leave on.

Two lines make a script traceable::

    import traceml_ai as traceml

    traceml.init()
    for batch in loader:
        with traceml.trace_step(model):
            ...

Importing this package imports neither torch nor numpy; :func:`init` does.
"""

try:
    from traceml_ai._core import Span as span
    from traceml_ai._core import TraceStep as trace_step
    from traceml_ai._core import __version__
except ImportError as error:
    if "libcjson" not in str(error):
        raise
    raise ImportError(f"traceml_ai needs cJSON; on Debian and Ubuntu: apt-get install libcjson1 ({error})") from None
from traceml_ai.init_config import TraceMLInitConfig
from traceml_ai.session import init, shutdown, start
from traceml_ai.summary import final_summary, summary
from traceml_ai.wrappers import wrap_dataloader_fetch

__all__ = [
    "TraceMLInitConfig",
    "__version__",
    "final_summary",
    "init",
    "shutdown",
    "span",
    "start",
    "summary",
    "trace_step",
    "wrap_dataloader_fetch",
]
