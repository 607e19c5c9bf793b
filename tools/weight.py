"""Count the code of each distribution and of the tests, and the words of the docs, and compare them
with `tools/weight.toml`.

    python tools/weight.py

Python counts in nodes of its syntax tree (`density.py`). C and JavaScript count in lines without
blank ones and comments, as their formatters write them. The tests compare the counts too
(`tests/test_weight.py`).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import density
from environments import ROOT

TABLE = ROOT / "tools" / "weight.toml"
#: The most nodes of one file of a wheel.
FILE_LIMIT = 5000
#: What is counted of each language, and how far a count may be below its row before the cut is
#: written down.
UNITS = {
    "python": ("nodes", 350),
    "c": ("lines", 50),
    "javascript": ("lines", 50),
    "words": ("words", 50),
}
#: The densest that a distribution may be, and `tools` and `benchmarks`: for 1,000 nodes; of the
#: fourth form none; functions over 25 decisions none; of functions over 15 this share.
DENSITY_LIMITS = {"conditional": 3.0, "comprehension": 5.5, "parallel": 0.9, "nothing": 0.0}
LONG_FUNCTIONS = 0.01
#: Distributions of fewer nodes are measured together: a single form would be a density.
_SMALL = 10_000
_DENSE_FOLDERS = ("tools", "benchmarks")
#: Pages whose words do not count.
_NO_WORDS = ("formats.md", "performance.md")
_LANGUAGES = {
    "python": (".py",),
    "c": (".c", ".h", ".cpp", ".cu"),
    "javascript": (".js", ".mjs", ".cjs"),
}
#: Comments of C and JavaScript. Strings come first: they may hold what looks like a comment.
_COMMENT = re.compile(
    r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)|//[^\n]*|/\*.*?\*/""",
    re.DOTALL,
)

Counts = dict[str, Counter[str]]


def code_lines(text: str) -> int:
    """Return the lines of code in a text of C or JavaScript."""
    # A comment over several lines keeps its line ends.
    text = _COMMENT.sub(lambda match: match[1] or "\n" * match[0].count("\n"), text)
    return sum(1 for line in text.splitlines() if line.strip())


def language_of(path: Path) -> str:
    """Return the language of a file; "" if it is none that counts."""
    for language, suffixes in _LANGUAGES.items():
        if path.suffix in suffixes:
            return language
    return ""


def part_of(path: Path) -> str:
    """Return the part of a file that counts: a distribution, the browser or the tests, or ""."""
    folders = path.parts[:-1]
    if not folders or {"tests", "test"}.intersection(folders):
        return "tests"
    if folders[0] in ("examples", "benchmarks", "tools", "docs"):
        return ""
    if folders[0] == "plugins":
        return folders[1]
    return folders[0]


def is_page(path: Path) -> bool:
    """Whether a file is a page whose words count."""
    if path == Path("README.md"):
        return True
    return path.parts[0] == "docs" and path.suffix == ".md" and path.name not in _NO_WORDS


def _is_tooling(path: Path) -> bool:
    """Whether a file is of a tool or a benchmark: its density counts, and its weight does not."""
    return path.parts[0] in _DENSE_FOLDERS


@cache
def files() -> dict[Path, str]:
    """Return the texts of the repository's files that count, by their paths from its root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    results = {}
    for path in sorted({Path(name) for name in listed.split("\0") if name}):
        counted = is_page(path) or (language_of(path) and (part_of(path) or _is_tooling(path)))
        if counted and (ROOT / path).is_file():
            results[path] = (ROOT / path).read_text(encoding="utf-8")
    return results


@cache
def nodes() -> dict[Path, int]:
    """Return the nodes of each file of Python."""
    results = {}
    for path, text in files().items():
        if language_of(path) != "python":
            continue
        if part_of(path) == "tests":
            results[path] = density.nodes(text)
        else:
            results[path] = density.measure(text)["nodes"]
    return results


@cache
def counts() -> Counts:
    """Return the counts by language and part, and the words of the docs."""
    results: Counts = {each: Counter() for each in UNITS}
    for path, text in files().items():
        language = language_of(path)
        if _is_tooling(path):
            continue
        if is_page(path):
            results["words"]["docs"] += len(text.split())
        elif language == "python":
            results["python"][part_of(path)] += nodes()[path]
        else:
            results[language][part_of(path)] += code_lines(text)
    return results


def densities() -> dict[str, Counter[str]]:
    """Return what `density.measure` counts in each distribution, in tools and in benchmarks; the
    small distributions are one.
    """
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for path, text in files().items():
        if language_of(path) == "python" and part_of(path) != "tests":
            found[part_of(path) or path.parts[0]] += density.measure(text)
    results: dict[str, Counter[str]] = defaultdict(Counter)
    for part, measured in found.items():
        is_small = measured["nodes"] < _SMALL and part not in _DENSE_FOLDERS
        results["the small ones" if is_small else part] += measured
    return results


def dense_problems() -> dict[str, list[str]]:
    """Return, for each part that is denser than it may be, a sentence for each limit."""
    results: dict[str, list[str]] = defaultdict(list)
    for part, measured in densities().items():
        thousands = measured["nodes"] / 1000
        for form, most in DENSITY_LIMITS.items():
            rate = measured[form] / thousands
            if rate > most:
                results[part].append(f"{rate:.2f} of the form {form!r}, and {most} are allowed")
        if measured["over25"]:
            results[part].append(f"{measured['over25']} functions over 25 decisions")
        if measured["over15"] > LONG_FUNCTIONS * measured["functions"]:
            results[part].append(f"{measured['over15']} functions over 15 decisions")
    return results


def limits() -> dict[str, dict[str, int]]:
    """Return the sum of the rows of each part, by language."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    results: dict[str, dict[str, int]] = {}
    for language, parts in table.items():
        results[language] = {}
        for part, rows in parts.items():
            results[language][part] = sum(count for _, count in rows)
    return results


def problems() -> list[str]:
    """Return a sentence for each part whose count is above its limit, or far below it, and for each
    file of a wheel that is too large.
    """
    results = []
    for language, (unit, slack) in UNITS.items():
        found = counts().get(language, Counter())
        limit = limits().get(language, {})
        for part in sorted({*found, *limit}):
            count = found[part]
            most = limit.get(part, 0)
            allowed = f"{part} has {count:,} {unit} of {language}, and tools/weight.toml allows"
            if count > most:
                advice = "make it smaller. Only an issue raises the limit"
                results.append(f"{allowed} {most:,}: {advice}")
            elif count <= most - slack:
                results.append(f"{allowed} {most:,}: write a row of {count - most:,} for the cut")
    for path, count in nodes().items():
        if part_of(path) not in ("", "tests") and count > FILE_LIMIT:
            allowed = f"a file of at most {FILE_LIMIT:,} is one thought"
            results.append(f"{path} has {count:,} nodes: {allowed}")
    return results


def main() -> int:
    """Print each count beside its limit, and the density of each distribution."""
    limit = limits()
    for language, parts in counts().items():
        total = parts.total() - parts["tests"]
        print(f"{language}, {UNITS[language][0]}: {total:,} without tests")
        for part, count in sorted(parts.items()):
            print(f"  {part:16}{count:8,} of {limit.get(language, {}).get(part, 0):,}")
    print("density, for 1,000 nodes:")
    for part, measured in sorted(densities().items()):
        print(f"  {part:16}{density.describe(measured)}")
    found = problems()
    for part, sentences in dense_problems().items():
        found.append(f"{part} is too dense: {'; '.join(sentences)}")
    for problem in found:
        print(problem)
    if found:
        return 1
    print("Each is within its limit.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
