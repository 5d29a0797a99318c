"""Every test file under tests/ is named in tests/CMakeLists.txt: a file that is not is never run, and nobody notices.

Usage: check_registered.py [ROOT]. Prints every file that is not; the exit status is 1 if there was one.
A file counts as named where the list, without its comments, has its path as a word of its own.
"""

import re
import sys
from pathlib import Path


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
    tests = root / "tests"
    text = (tests / "CMakeLists.txt").read_text(encoding="utf-8")
    named = set(re.sub(r"#.*", "", text).replace("(", " ").replace(")", " ").split())
    files = [path.relative_to(tests) for suffix in ("c", "py") for path in sorted(tests.glob(f"**/test_*.{suffix}"))]
    missing = [path for path in files if path.as_posix() not in named]
    for path in missing:
        print(f"tests/{path} is never run: tests/CMakeLists.txt does not name it")
    print(f"{len(files)} test files, {len(missing)} not registered")
    return 1 if missing or not files else 0


if __name__ == "__main__":
    sys.exit(main())
