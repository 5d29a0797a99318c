"""Dynamic section of a built library: what it needs at run time, and what it shows to others.

Usage: check_exports.py LIBRARY [--header HEADER] [--only SYMBOL]
With --header exactly the functions that it declares are exported; with --only exactly that one symbol.
Neither a CUDA, torch nor Python library may be needed: what is allowed is listed, so that a new need is a decision.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ALLOWED_NEEDS = re.compile(
    r"lib(c|m|dl|pthread|rt|gcc_s|atomic)\.so\.\d+"  # the C library and the compiler's
    r"|ld-linux.*\.so\.\d+"
    r"|libcjson\.so\.\d+"
)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needs(library):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-dW", library))


def exports(library):
    """Defined dynamic symbols, without the names of symbol versions (A)."""
    lines = (line.split() for line in run("nm", "-D", "--defined-only", library).splitlines())
    return {name.split("@")[0] for *_, kind, name in lines if kind != "A"}


def declared(header):
    """Functions that the header declares with TRACEML_API."""
    text = re.sub(r"/\*.*?\*/", "", Path(header).read_text(encoding="utf-8"), flags=re.DOTALL)
    return set(re.findall(r"^TRACEML_API[^;]*?\b(traceml_\w+)\s*\(", text, re.MULTILINE))


def check(library, header, only):
    for name in needs(library):
        if not ALLOWED_NEEDS.fullmatch(name):
            yield f"needs {name}"
    wanted = declared(header) if header else {only}
    found = exports(library)
    for name in sorted(found - wanted):
        yield f"exports {name}"
    for name in sorted(wanted - found):
        yield f"does not export {name}"
    if header and "NODELETE" not in run("readelf", "-dW", library):
        yield "may be unloaded (no NODELETE flag)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--header")
    wanted.add_argument("--only")
    arguments = parser.parse_args()
    found = list(check(arguments.library, arguments.header, arguments.only))
    for violation in found:
        print(f"{arguments.library}: {violation}")
    print(f"needs {' '.join(needs(arguments.library))}; exports {len(exports(arguments.library))}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
