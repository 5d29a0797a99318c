"""``python -m traceml_ai``: the command ``traceml``."""

import sys

from traceml_ai.cli import main

sys.exit(main())
