"""The structural checks can fail: each is shown a tree, a header or a library with one thing wrong.

Usage: check_checks.py [COMPILER]
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CORE = {
    "src/clock.h": "#include <time.h>\n",
    "src/json.c": '#include <cjson/cJSON.h>\n#include "clock.h"\n',
    "src/summary_meta.c": '#include "clock.h"\n#include "traceml/traceml.h"\n',
    "src/session.c": "#include <pthread.h>\n",
    "include/traceml/traceml.h": "#include <stddef.h>\n",
    "python/ext/module.c": '#include <Python.h>\n#include "traceml/traceml.h"\n',
    "examples/c/plain_loop.c": "#include <traceml/traceml.h>\n",
}
BROKEN_LAYERS = {
    "to the right": {"src/clock.c": '#include "json.h"\n', "src/json.h": ""},
    "a part belongs to its noun": {"src/clock_text.c": '#include "summary_meta.h"\n', "src/summary_meta.h": ""},
    "no place": {"src/helpers.c": ""},
    "no such file": {"src/clock.c": '#include "cloc.h"\n'},
    "cJSON elsewhere": {"src/ring.c": "#include <cjson/cJSON.h>\n"},
    "dlfcn elsewhere": {"src/ring.c": "#  include <dlfcn.h>\n"},
    "pthread elsewhere": {"src/recorder.c": "#include <pthread.h>\n"},
    "extension behind the API": {"python/ext/span.c": '#include "clock.h"\n'},
    "example behind the API": {"examples/c/plain_loop.c": '#include "../../src/clock.h"\n'},
    "header behind the API": {"include/traceml/traceml.h": '#include "clock.h"\n'},
}

HEAD = """\
/*
 * Purpose   to be checked.
 * Memory    none.
 * Threads   any,
 *           one at a time.
 * Units     none.
 * Depends   nothing.
 */
"""
BROKEN_HEADS = {
    "none": "",
    "run together": HEAD.replace(".\n * Units     ", ". Units     "),
    "one is missing": HEAD.replace(" * Memory    none.\n", ""),
    "another order": HEAD.replace("Purpose", "x").replace("Depends", "Purpose").replace("x", "Depends", 1),
    "not first": "#define FIRST\n" + HEAD,
}
HEADER = (
    HEAD
    + """
/* All states. */
#define TRACEML_STATE_LIST(X) \\
    X(OK, "ok")
enum traceml_state {
#define TRACEML_X(name, text) TRACEML_##name,
    TRACEML_STATE_LIST(TRACEML_X)
#undef TRACEML_X
    TRACEML_STATES /* how many */
};
/* Where: device may be negative. */
struct traceml_place {
    int device;
    void *handle; /* the stream */
};
/* A number. */
typedef int traceml_number;
/* Adds. */
TRACEML_API int traceml_add(int a,
                            int b);
"""
)
BROKEN_HEADERS = {
    "function traceml_add": ("/* Adds. */\n", ""),
    "function traceml_more": ("/* Adds. */\n", "/* More. */\n\nTRACEML_API int traceml_more(void);\n/* Adds. */\n"),
    "struct traceml_place": ("/* Where: device may be negative. */\n", ""),
    "field traceml_place.handle": (" /* the stream */", ""),
    "field traceml_place.device": ("device may", "it may"),
    "enum traceml_state": ("/* All states. */\n", ""),
    "enumerator TRACEML_STATES": (" /* how many */", ""),
    "typedef traceml_number": ("/* A number. */\n", ""),
}

API_SOURCE = "int traceml_add(int a, int b) { return a + b; }\n"
BROKEN_LIBRARIES = {
    "exports tml_secret": (API_SOURCE + "int tml_secret;\n", ["-Wl,-z,nodelete"]),
    "does not export traceml_add": ("int traceml_x;\n", ["-Wl,-z,nodelete"]),
    "may be unloaded": (API_SOURCE, []),
    "needs libcudart.so.13": (API_SOURCE, ["-Wl,-z,nodelete", "-Wl,--no-as-needed", "libcudart.so.13"]),
}


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run(script, *arguments):
    result = subprocess.run([sys.executable, HERE / script, *arguments], capture_output=True, text=True)
    if result.stderr:
        sys.exit(f"{script} broke:\n{result.stderr}")
    return result.returncode, result.stdout


def layers(root):
    write(root, CORE)
    yield "layers: a good tree", run("check_layers.py", root), 0, "0 violations"
    for number, (name, files) in enumerate(BROKEN_LAYERS.items()):
        broken = root / f"broken{number}"
        write(broken, CORE | files)
        yield f"layers: {name}", run("check_layers.py", broken), 1, "1 violations"
    text = (HERE / "check_layers.py").read_text(encoding="utf-8")
    write(root, {"twice.py": text.replace(" clock ", " clock json ", 1)})
    yield "layers: a noun twice", run(root / "twice.py", root), 1, "`json` stands twice"


def registered(root):
    lists = "traceml_add_test(ring SOURCES unit/test_ring.c LABELS unit)\n# python/test_span.py\n"
    tree = {"tests/CMakeLists.txt": lists, "tests/unit/test_ring.c": "", "tests/unit/run_fixture.h": ""}
    write(root, tree)
    yield "registered: a good list", run("check_registered.py", root), 0, "0 not registered"
    for number, name in enumerate(("tests/python/test_span.py", "tests/threads/test_ring.c", "tests/unit/test_rin.c")):
        broken = root / f"broken{number}"
        write(broken, tree | {name: ""})
        yield f"registered: {name}", run("check_registered.py", broken), 1, f"{name} is never run"


def documented(root):
    api = "include/traceml/traceml.h"
    write(root, {api: HEADER, "src/ring.h": HEAD})
    yield "documented: a good header", run("check_documented.py", root), 0, "0 things"
    for name, (old, new) in BROKEN_HEADERS.items():
        assert old in HEADER, name
        write(root, {api: HEADER.replace(old, new)})
        yield f"documented: {name}", run("check_documented.py", root), 1, f"{name} has no comment"
    for name, head in BROKEN_HEADS.items():
        write(root, {api: HEADER, "src/ring.h": head})
        yield f"documented: head: {name}", run("check_documented.py", root), 1, "src/ring.h: does not open with"


def library(root, compiler, source, flags):
    write(root, {"lib.c": source})
    command = [compiler, "-shared", "-fPIC", "-o", "lib.so", "lib.c", *flags]
    subprocess.run(command, check=True, cwd=root)
    return root / "lib.so"


def exports(root, compiler):
    write(root, {"api.h": HEADER, "empty.c": ""})
    fake = ["-shared", "-Wl,-soname,libcudart.so.13", "-o", "libcudart.so.13", "empty.c"]
    subprocess.run([compiler, *fake], check=True, cwd=root)
    good = library(root, compiler, API_SOURCE, ["-Wl,-z,nodelete"])
    yield "exports: a good library", run("check_exports.py", good, "--header", root / "api.h"), 0, "exports 1"
    for name, (source, flags) in BROKEN_LIBRARIES.items():
        bad = library(root, compiler, source, flags)
        yield f"exports: {name}", run("check_exports.py", bad, "--header", root / "api.h"), 1, name


def main():
    compiler = sys.argv[1] if len(sys.argv) > 1 else "cc"
    wrong = done = 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        parts = (layers, registered, documented)
        for cases in (*(part(root / part.__name__) for part in parts), exports(root / "exports", compiler)):
            for name, (status, output), wanted, text in cases:
                done += 1
                if status != wanted or text not in output:
                    wrong += 1
                    print(f"{name}: expected status {wanted} and '{text}', got {status}:\n{output}")
    print(f"{done} cases, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
