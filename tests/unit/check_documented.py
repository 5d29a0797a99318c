"""Every public function, struct, field, enum, enumerator and typedef of traceml.h has a comment; every header of ours
opens with its five lines.

Usage: check_documented.py [ROOT]. Prints what has none; the exit status is 1 if there was one.
A comment counts when it ends on the line above, or stands on the same line. A field also counts as documented when the
comment above its struct names it, and an enum made from an X-macro list when the list has a comment.
"""

import re
import sys
from pathlib import Path

DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
HEAD = ("Purpose", "Memory", "Threads", "Units", "Depends")  # each on a line of its own, in this order
LIST_USE = re.compile(r"\b([A-Z][A-Z0-9_]*_LIST)\s*\(")


class Header:
    """The text with comments and directives blanked (so that positions stay), and where the comments are."""

    def __init__(self, text):
        self.text = text
        self.comments = {}  # last line of a comment -> its text
        for match in COMMENT.finditer(text):
            first, last = self.line_of(match.start()), self.line_of(match.end() - 1)
            for line in range(first, last + 1):
                self.comments.setdefault(line, "")
                self.comments[line] += match[0]
        self.own_line = {  # lines that hold nothing but comment
            number for number, line in enumerate(blank(text, COMMENT).split("\n"), 1) if not line.strip()
        }
        self.lists = {}  # name of an X-macro list -> it has a comment
        for match in re.finditer(r"^#define ([A-Z0-9_]+_LIST)\(", text, re.MULTILINE):
            self.lists[match[1]] = self.above(match.start()) is not None
        self.code = blank(blank(text, COMMENT), DIRECTIVE)

    def line_of(self, position):
        return self.text.count("\n", 0, position) + 1

    def above(self, position):
        """The comment that ends on the line above, on lines of its own."""
        line = self.line_of(position) - 1
        return self.comments.get(line) if line in self.own_line else None

    def beside(self, start, end):
        lines = range(self.line_of(start), self.line_of(end) + 1)
        return next((self.comments[line] for line in lines if line in self.comments), None)

    def documented(self, start, end):
        return self.above(start) is not None or self.beside(start, end) is not None


def blank(text, pattern):
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def body_of(header, match):
    """Start and end of the braces that follow `match`."""
    start = match.end()
    return start, header.code.index("}", start)


def undocumented_functions(header):
    for match in re.finditer(r"^TRACEML_API\b[^;]*;", header.code, re.MULTILINE):
        name = re.search(r"\b(traceml_\w+)\s*\(", match[0])[1]
        if not header.documented(match.start(), match.end() - 1):
            yield match.start(), f"function {name}"


def undocumented_structs(header):
    for match in re.finditer(r"^(struct|union) (traceml_\w+)\s*(;|\{)", header.code, re.MULTILINE):
        comment = header.above(match.start()) or header.beside(match.start(), match.end() - 1)
        if comment is None and not (match[3] == ";" and re.search(rf"^struct {match[2]} \{{", header.code, re.M)):
            yield match.start(), f"{match[1]} {match[2]}"
        if match[3] == ";":
            continue
        start, end = body_of(header, match)
        for field in re.finditer(r"[^;{}]+;", header.code[start:end]):
            text = field[0]
            at = start + field.start() + len(text) - len(text.lstrip())
            name = re.search(r"(\w+)\s*(?:\[[^\]]*\])?\s*;$", text)[1]
            named = comment is not None and re.search(rf"\b{name}\b", comment)
            if not named and not header.documented(at, start + field.end() - 1):
                yield at, f"field {match[2]}.{name}"


def undocumented_enums(header):
    for match in re.finditer(r"^enum (traceml_\w+)\s*\{", header.code, re.MULTILINE):
        start, end = body_of(header, match)
        body = header.code[start:end]
        made_from = LIST_USE.findall(body)
        by_list = bool(made_from) and all(header.lists.get(name) for name in made_from)
        if not by_list and header.above(match.start()) is None:
            yield match.start(), f"enum {match[1]}"
        for item in re.finditer(r"\b(TRACEML_\w+)\b(?!\s*\()[^,]*", blank(body, re.compile(r"\w+\([^)]*\)"))):
            at = start + item.start()
            if not header.documented(at, at):
                yield at, f"enumerator {item[1]}"


def undocumented_typedefs(header):
    for match in re.finditer(r"^typedef\b[^;]*;", header.code, re.MULTILINE):
        if not header.documented(match.start(), match.end() - 1):
            name = re.findall(r"traceml_\w+", match[0])[-1]
            yield match.start(), f"typedef {name}"


def headless(root):
    """Headers whose first comment lacks one of the five, or runs two of them together."""
    for folder in ("include", "src", "python/ext"):
        for path in sorted((root / folder).glob("**/*.h")):
            first = COMMENT.match(path.read_text(encoding="utf-8"))
            keys = re.findall(rf"^ \* ({'|'.join(HEAD)})\s\s+\S", first[0], re.MULTILINE) if first else []
            if tuple(keys) != HEAD:
                yield path.relative_to(root)


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
    path = root / "include/traceml/traceml.h"
    header = Header(path.read_text(encoding="utf-8"))
    found = []
    for check in (undocumented_functions, undocumented_structs, undocumented_enums, undocumented_typedefs):
        found += check(header)
    for position, what in sorted(found):
        print(f"{path.name}:{header.line_of(position)}: {what} has no comment")
    heads = list(headless(root))
    for name in heads:
        print(f"{name}: does not open with lines for {', '.join(HEAD)}, in this order")
    functions = len(re.findall(r"^TRACEML_API", header.code, re.MULTILINE))
    print(f"{functions} functions, {len(found)} things without a comment, {len(heads)} headers without a head")
    return 1 if found or heads or not functions else 0


if __name__ == "__main__":
    sys.exit(main())
