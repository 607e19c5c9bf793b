"""Count the code of each distribution and of the tests, and the words of the docs, and compare them
with `tools/weight.toml`.

    python tools/weight.py

Code is lines without blank ones, comments and docstrings. The tests compare the counts too
(`tests/test_house.py`).
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

from environments import ROOT

TABLE = ROOT / "tools" / "weight.toml"
#: A count may be this far below its row before the cut is written down.
SLACK = 50
#: Pages whose words do not count.
_NO_WORDS = ("formats.md", "performance.md")
_LANGUAGES = {
    "python": (".py",),
    "c": (".c", ".h", ".cpp", ".cu"),
    "javascript": (".js", ".mjs", ".cjs"),
}
#: Comments of C and JavaScript. Strings come first: they may hold what looks like a comment.
_COMMENT = re.compile(
    r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)|//[^\n]*|/\*.*?\*/""", re.DOTALL
)


def code_lines(text: str, language: str) -> int:
    """Return the lines of code in a text."""
    if language != "python":
        # A comment over several lines keeps its line ends.
        text = _COMMENT.sub(lambda match: match[1] or "\n" * match[0].count("\n"), text)
        return sum(1 for line in text.splitlines() if line.strip())
    lines = text.split("\n")
    statements: list[ast.AST] = [ast.parse(text)]
    for each in statements:  # grows
        inner = [
            getattr(each, field, ())
            for field in ("body", "orelse", "handlers", "finalbody", "cases")
        ]
        statements += [statement for part in inner if isinstance(part, list) for statement in part]
        if isinstance(
            each, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and ast.get_docstring(each, clean=False):
            docstring = each.body[0]
            end = docstring.end_lineno or docstring.lineno
            lines[docstring.lineno - 1 : end] = [""] * (end - docstring.lineno + 1)
    return sum(1 for line in lines if (bare := line.lstrip()) and not bare.startswith("#"))


def part_of(path: Path) -> tuple[str, str] | None:
    """Return the language and the part of a file that counts: a distribution, the browser or the
    tests.
    """
    language = next(
        (name for name, suffixes in _LANGUAGES.items() if path.suffix in suffixes), None
    )
    folders = path.parts[:-1]
    if language is None or {"examples", "benchmarks", "tools", "docs"}.intersection(folders[:1]):
        return None
    if not folders or {"tests", "test"}.intersection(folders):
        return language, "tests"
    return language, folders[folders[0] == "plugins"]


@cache
def counts() -> dict[str, Counter[str]]:
    """Return the lines of code by language and part, and the words of the docs."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    results: dict[str, Counter[str]] = {each: Counter() for each in (*_LANGUAGES, "words")}
    for path in sorted({Path(name) for name in listed.split("\0") if name}):
        place = part_of(path)
        is_page = path == Path("README.md") or (
            path.parts[0] == "docs" and path.suffix == ".md" and path.name not in _NO_WORDS
        )
        if (place or is_page) and (ROOT / path).is_file():
            text = (ROOT / path).read_text(encoding="utf-8")
            if is_page:
                results["words"]["docs"] += len(text.split())
            elif place:
                results[place[0]][place[1]] += code_lines(text, place[0])
    return results


def limits() -> dict[str, dict[str, int]]:
    """Return the sum of the rows of each part, by language."""
    table: dict[str, dict[str, list[tuple[str, int]]]] = tomllib.loads(
        TABLE.read_text(encoding="utf-8")
    )
    return {
        language: {part: sum(lines for _, lines in rows) for part, rows in parts.items()}
        for language, parts in table.items()
    }


def problems() -> list[str]:
    """Return a sentence for each part whose count is above its limit, or below it by more than
    `SLACK`.
    """
    found, limit = counts(), limits()
    results = []
    for language in sorted({*found, *limit}):
        for part in sorted({*found.get(language, {}), *limit.get(language, {})}):
            count, most = found.get(language, {}).get(part, 0), limit.get(language, {}).get(part, 0)
            what = f"{part} has {count:,} {'words' if language == 'words' else f'lines of {language}'}, and tools/weight.toml allows {most:,}"
            if count > most:
                results.append(f"{what}: make it smaller. Only an issue raises the limit")
            elif count <= most - SLACK:
                results.append(f"{what}: write a row of {count - most:,} for the cut")
    return results


def main() -> int:
    """Print each count beside its limit."""
    limit = limits()
    for language, parts in counts().items():
        print(
            f"{language}: {sum(count for part, count in parts.items() if part != 'tests'):,} without tests"
        )
        for part, count in sorted(parts.items()):
            print(f"  {part:16}{count:8,} of {limit.get(language, {}).get(part, 0):,}")
    print("\n".join(found := problems()) or "Each is within its limit.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
