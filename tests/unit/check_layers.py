"""Layer order of the sources: a file of src/ includes only what stands to its left in ORDER.

Usage: check_layers.py [ROOT]. Prints every violation; the exit status is 1 if there was one.
A file belongs to the noun that its name is, or begins with: summary_meta.c is part of `summary`. A new noun gets its
place in ORDER first.
"""

import re
import sys
from pathlib import Path

ORDER = """
    status clock utf8 process reason record span_name json
    ring cuda_runtime clock_tie event_pool recorder
    ledger feeder step_row step_scan step_table sketch step_fold step_file sampler
    text_buffer line_reader row_store step_reader
    run_facts metric window diagnosis run_dir manifest report_text summary compare session traceml
""".split()  # noqa: SIM905 - one word after the other reads as the line it is

# Headers that only these nouns may know.
RESERVED = {
    "cjson/cJSON.h": ("json",),
    "cJSON.h": ("json",),
    "dlfcn.h": ("cuda_runtime", "call_observer"),
    "pthread.h": ("sampler", "session"),
}
PUBLIC = "traceml/traceml.h"  # the leftmost: everyone may include it
PYTHON = {"Python.h", "structmember.h"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def noun_of(stem):
    """The longest noun that `stem` is or begins with; None for a file without a place."""
    owners = [noun for noun in ORDER if stem == noun or stem.startswith(noun + "_")]
    return max(owners, key=len, default=None)


def includes(path):
    """(line, name, is quoted) of each include directive."""
    text = path.read_text(encoding="utf-8")
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[2], match[1] == '"'


def sources(folder):
    return sorted(path for path in folder.glob("**/*") if path.suffix in {".c", ".h", ".cu", ".cpp"})


def check_core(root):
    for path in sources(root / "src"):
        where = path.relative_to(root)
        noun = noun_of(path.stem)
        if noun is None:
            yield f"{where}: `{path.stem}` has no place in the layer order"
            continue
        for line, name, quoted in includes(path):
            if name in RESERVED and not noun_is_one_of(path.stem, RESERVED[name]):
                yield f"{where}:{line}: <{name}> is for {', '.join(RESERVED[name])} alone"
            if name == PUBLIC or name in RESERVED or not quoted:
                continue
            target = noun_of(Path(name).stem)
            if not (root / "src" / name).is_file():
                yield f"{where}:{line}: {name} is no file of src/"
            elif target is not None and ORDER.index(target) > ORDER.index(noun):
                yield f"{where}:{line}: `{noun}` must not know `{target}`, which stands to its right"


def noun_is_one_of(stem, nouns):
    return any(stem == noun or stem.startswith(noun + "_") for noun in nouns)


def check_users(root):
    """Outside of the core there is the public header and nothing else."""
    for folder in ("include", "python/ext", "examples/c"):
        for path in sources(root / folder):
            for line, name, quoted in includes(path):
                beside = (path.parent / name).resolve()
                own = quoted and beside.is_file() and beside.is_relative_to(root / folder)
                inside = (root / "src" / name).is_file()
                if not own and (quoted or inside) and name != PUBLIC and name not in PYTHON:
                    yield f"{path.relative_to(root)}:{line}: {name} is not public: only {PUBLIC} is"


def check_order():
    """A noun in two places would be to the left of itself."""
    for noun in sorted({noun for noun in ORDER if ORDER.count(noun) > 1}):
        yield f"`{noun}` stands twice in ORDER"


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
    found = [*check_order(), *check_core(root), *check_users(root)]
    for violation in found:
        print(violation)
    count = len(sources(root / "src"))
    print(f"{count} files in src, {len(found)} violations")
    return 1 if found or not count else 0


if __name__ == "__main__":
    sys.exit(main())
