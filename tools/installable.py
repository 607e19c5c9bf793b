"""Write the table of docs/support.md: for which Pythons and platforms pip can install each wheel
and each extra of this repository.

    python tools/installable.py

uv resolves the requirements for Pythons and platforms that this machine need not have. It reads the
index and downloads no wheel. A package without a wheel counts as missing, even if pip could build
it from source.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from environments import ROOT, InstallError, find_uv, uv_settings
from pythons import TESTED
from wheels import TVM, distributions

PAGE = ROOT / "docs" / "support.md"
PYTHONS = tuple("{}.{}".format(*version) for version in TESTED)
#: The distributions whose wheels have a library for Linux. hatch_build.py of each sets the tag.
FOR_LINUX = frozenset({"devmod-simulators", "devmod-tvm"})
#: A marker leaves these out where Python itself has the module.
_IN_PYTHON = frozenset({"backports-zstd"})
#: The version of macOS that uv resolves for.
_MACOS = "15.0"
_BLOCK = re.compile(r"(<!-- installable -->\n).*?(<!-- end -->)", re.DOTALL)
#: How uv's hints name a package without a wheel, the best ones first: the last one also names a
#: package whose newer versions have wheels.
_HINTS = (
    r"^hint: Wheels are available for `([^`]+)`",
    r"^hint: You require CPython .+ but we only found wheels for `([^`]+)`",
    r"^hint: Wheels are required for `([^`]+)`",
)


class Platform(NamedTuple):
    """A column of the table."""

    title: str
    #: uv's name of it.
    name: str
    sys_platform: str
    platform_machine: str


PLATFORMS = (
    Platform("Linux x86-64", "x86_64-manylinux_2_34", "linux", "x86_64"),
    Platform("Linux aarch64", "aarch64-manylinux_2_34", "linux", "aarch64"),
    Platform("macOS arm64", "aarch64-apple-darwin", "darwin", "arm64"),
    Platform("macOS x86-64", "x86_64-apple-darwin", "darwin", "x86_64"),
    Platform("Windows x86-64", "x86_64-pc-windows-msvc", "win32", "AMD64"),
)


class Project(NamedTuple):
    """The requirements of a distribution of this repository."""

    dependencies: Sequence[Requirement]
    extras: Mapping[str, Sequence[Requirement]]


class Needs(NamedTuple):
    """The requirements of one row, for one Python and one platform."""

    #: The distributions of this repository.
    own: frozenset[str]
    #: The requirements on packages of others.
    wanted: frozenset[str]
    #: The packages that a marker leaves out.
    left_out: frozenset[str]


class Answer(NamedTuple):
    """The packages of others that one row lacks, for one Python and one platform."""

    missing: tuple[str, ...]
    left_out: tuple[str, ...]


def projects() -> dict[str, Project]:
    """Return every distribution of this repository by its name."""
    results = {}
    for folder in (*distributions(), TVM):
        table = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        extras = {}
        for name, requirements in table.get("optional-dependencies", {}).items():
            extras[name] = list(map(Requirement, requirements))
        results[table["name"]] = Project(list(map(Requirement, table["dependencies"])), extras)
    return results


def names(of: Mapping[str, Project]) -> Iterator[str]:
    """Yield each distribution, and each with one extra: "devmod-core[build]"."""
    for name, project in of.items():
        yield name
        for extra in project.extras:
            yield f"{name}[{extra}]"


def needs(of: Mapping[str, Project], name: str, platform: Platform, python: str) -> Needs:
    """Return what pip installs for a distribution with its extras, as far as the distributions of
    this repository require it.
    """
    environment = {
        "extra": "",
        "implementation_name": "cpython",
        "platform_machine": platform.platform_machine,
        "python_full_version": f"{python}.2",
        "python_version": python,
        "sys_platform": platform.sys_platform,
    }
    own, wanted, installed, left_out = set(), set(), set(), set()
    rest = [Requirement(name)]
    seen = set()
    while rest:
        requirement = rest.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        found = canonicalize_name(requirement.name)
        if requirement.marker and not requirement.marker.evaluate(environment):
            left_out.add(label(requirement))
        elif found in of:
            own.add(found)
            rest += of[found].dependencies
            for extra in requirement.extras:
                rest += of[found].extras[extra]
        else:
            installed |= {found, label(requirement)}
            wanted.add(str(requirement).partition(";")[0])
    return Needs(frozenset(own), frozenset(wanted), frozenset(left_out - installed - _IN_PYTHON))


def label(requirement: Requirement) -> str:
    """Return a package with its extras: "pyopencl[pocl]"."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return canonicalize_name(requirement.name) + extras


def package_without_wheel(text: str) -> str:
    """Return the package that has no wheel, from uv's text about a failure; "" if the failure has
    another reason.
    """
    for hint in _HINTS:
        found = re.search(hint, text, re.MULTILINE)
        if found:
            return found[1]
    return ""


def missing(
    wanted: Iterable[str], platform: Platform, python: str, settings: Mapping[str, str]
) -> frozenset[str]:
    """Return the packages without a wheel that requirements need, directly or not. Raise
    InstallError if uv fails for another reason.
    """
    uv = find_uv()
    if uv is None:
        raise InstallError("uv is not installed: run make setup where pip can install it")
    command = [uv, "pip", "compile", "--quiet", "--no-config", "--no-header", "--no-annotate"]
    command += ["--only-binary", ":all:", "--no-python-downloads", "--python", sys.executable]
    command += ["--python-version", python, "--python-platform", platform.name]
    results: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text("\n".join(wanted), encoding="utf-8")
        overrides = Path(folder) / "overrides.txt"
        command += ["--override", str(overrides), str(requirements)]
        while True:
            # uv stops at the first package without a wheel. It is left out for the next one.
            overrides.write_text(
                "".join(f"{name}; python_version < '3'\n" for name in results), encoding="utf-8"
            )
            process = subprocess.run(
                command, env=settings, capture_output=True, text=True, check=False
            )
            if process.returncode == 0:
                return frozenset(results)
            name = package_without_wheel(process.stderr)
            if not name or name in results:
                raise InstallError(
                    f"uv cannot resolve {', '.join(wanted)} for Python {python} on {platform.title}:\n{process.stderr}"
                )
            results.append(name)


def missing_of_each(
    wanted: Sequence[str], platform: Platform, python: str, settings: Mapping[str, str]
) -> dict[str, frozenset[str]]:
    """Return the packages without a wheel of each requirement that has some.

    The versions that uv finds for all requirements together suit each of them, so most requirements
    take no resolution of their own.
    """
    together = missing(wanted, platform, python, settings)
    if not together:
        return {}
    if len(wanted) == 1:
        return {wanted[0]: together}
    parts = []
    others = []
    for each in wanted:
        if canonicalize_name(Requirement(each).name) in together:
            parts.append([each])
        else:
            others.append(each)
    if parts:
        parts.append(others)
    else:
        middle = len(others) // 2
        parts = [others[:middle], others[middle:]]
    results: dict[str, frozenset[str]] = {}
    for part in filter(None, parts):
        results |= missing_of_each(part, platform, python, settings)
    if frozenset[str]().union(*results.values()) != together:
        raise InstallError(
            f"for Python {python} on {platform.title}, these requirements together lack other wheels than each alone: {', '.join(wanted)}"
        )
    return results


def column(
    of: Mapping[str, Project], platform: Platform, settings: Mapping[str, str]
) -> dict[str, str]:
    """Return the cells of a platform by the name of the row."""
    answers: dict[str, dict[str, Answer]] = {name: {} for name in names(of)}
    for python in PYTHONS:
        rows = {name: needs(of, name, platform, python) for name in answers}
        wanted: set[str] = set()
        for row in rows.values():
            wanted |= row.wanted
        absent = missing_of_each(sorted(wanted), platform, python, settings)
        for name, row in rows.items():
            found: set[str] = set()
            for requirement in row.wanted:
                found |= absent.get(requirement, frozenset())
            if platform.sys_platform != "linux":
                found |= row.own & FOR_LINUX
            answers[name][python] = Answer(tuple(sorted(found)), tuple(sorted(row.left_out)))
    return {name: cell(each) for name, each in answers.items()}


def cell(answers: Mapping[str, Answer]) -> str:
    """Return the text of a cell from the answers by the version of Python."""
    pythons: dict[Answer, list[str]] = {}
    for python, answer in answers.items():
        pythons.setdefault(answer, []).append(python)
    results = []
    for answer, equal in pythons.items():
        text = spans(equal)
        if answer.missing:
            text += f" **no** {shortened(answer.missing)}"
        elif answer.left_out:
            text += f" without {shortened(answer.left_out)}"
        results.append(text)
    return "; ".join(results)


def shortened(packages: Sequence[str]) -> str:
    """Return the names of packages; three or more with the same first word are one: "nvidia-*"."""
    first_words = Counter(each.partition("-")[0] for each in packages)
    results = []
    for each in packages:
        word = each.partition("-")[0]
        results.append(f"{word}-*" if first_words[word] >= 3 else each)
    return ", ".join(dict.fromkeys(results))


def spans(pythons: Sequence[str]) -> str:
    """Return versions of Python as ranges: "3.11–3.13"."""
    results: list[list[str]] = []
    for python in pythons:
        place = PYTHONS.index(python)
        if results and results[-1][-1] == PYTHONS[place - 1]:
            results[-1].append(python)
        else:
            results.append([python])
    return ", ".join("–".join(dict.fromkeys((run[0], run[-1]))) for run in results)


def table(columns: Sequence[Mapping[str, str]]) -> str:
    """Return the table from the cells of each platform. Wheels with the same cells share a row."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for name in columns[0]:
        rows.setdefault(tuple(column[name] for column in columns), []).append(f"`{name}`")
    head = ["wheel", *(platform.title for platform in PLATFORMS)]
    lines = [head, ["---"] * len(head)]
    for cells, listed in rows.items():
        lines.append([", ".join(listed), *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> int:
    """Write the table and return the exit code."""
    settings = dict(uv_settings())
    # A wheel that this machine has beside its index is not what a user gets.
    settings.pop("UV_FIND_LINKS", None)
    settings["MACOSX_DEPLOYMENT_TARGET"] = _MACOS
    of = projects()
    try:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            columns = list(pool.map(lambda platform: column(of, platform, settings), PLATFORMS))
    except InstallError as error:
        print(error)
        return 1
    block = f"{table(columns)}\nMade by `make installable` on {time.strftime('%Y-%m-%d')}.\n"
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_BLOCK.sub(lambda match: match[1] + block + match[2], text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
