"""A new member of a list is missed at each place where the list stands, whatever the place is.

The places are found: each file that has all members of a list but one, near each other. So a new
copy of a list is compared with its definition as soon as it is written.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click
import pytest

import devmod
import pythons
import where
from devmod import errors
from devmod._formats import index
from devmod._values.dtypes import _NAMED
from devmod.backend import FEATURES
from devmod.targets import KINDS
from devmod_targets.build.options import OPTIONS
from devmod_workbench._cli import group, main
from devmod_workbench._cli._known import KNOWN
from devmod_workbench._cli._options import OutputPath, RequiredUnless, WholeNumber

ROOT = Path(__file__).resolve().parent.parent
#: The forms in which a list may stand.
SUFFIXES = {".c", ".js", ".json", ".md", ".py", ".tmpl", ".toml", ".yml"}
#: Files that say how something was: a version, and measurements.
HISTORY = ("CHANGELOG.md", "tools/benchmarks/RESULTS.md")
#: A test may choose members of a list. This one is a reader of the format.
READER = "tests/spec_reader.py"


class List(NamedTuple):
    """A list that has several copies.

    Attributes
    ----------
    members
        The names of the definition.
    within
        The most characters from the first to the last member at one place.
    places
        Places that must be found, so that the search itself is tested.
    all_but_one
        The files that are right without one of the members, each with the reason.
    longer
        The files in which more characters are between the members, as in a table with long cells.
    """

    members: frozenset[str]
    within: int
    places: frozenset[str]
    all_but_one: Mapping[str, str] = {}
    longer: Mapping[str, int] = {}


def error_classes() -> frozenset[str]:
    found = []
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, devmod.DevmodError):
            found.append(name)
    return frozenset(found) - {"DevmodError"}  # the base of all, which no function raises


HEXAGON = "nothing writes the kernels of models as C for Hexagon"
SLANG = "Slang has no target for OpenCL"
LISTS = {
    "an element type": List(
        frozenset(_NAMED.values()),
        1500,
        frozenset(
            {
                "core/src/devmod/_values/dtypes.py",
                "docs/formats.md",
                "extras/browser/js/src/dtypes.js",
                "tests/spec_reader.py",
                "tools/golden_forms.py",
            }
        ),
    ),
    "a kind": List(
        frozenset(KINDS),
        600,
        frozenset(
            {
                "core/pyproject.toml",
                "core/src/devmod/targets/__init__.py",
                "docs/contract.md",
                "docs/formats.md",
                "docs/support.md",
                "README.md",
                "extras/browser/js/src/wire.js",
                "pyproject.toml",
                "tests/spec_reader.py",
            }
        ),
        {
            "compilers/targets/src/devmod_targets/slang/__init__.py": SLANG,
            "compilers/targets/src/devmod_targets/slang/compile.py": SLANG,
            "tools/benchmarks/bench_one_source.py": SLANG,
            "core/src/devmod/_plugins/miss.py": "Hexagon is a DSP, not a GPU",
            "docs/models.md": HEXAGON,
            "extras/models/src/devmod_models/_tinygrad/render.py": HEXAGON,
            "docs/conf.py": "it names pages, and that of Metal has not left",
            "extras/tvm/pyproject.toml": "TVM has the runtime of CUDA",
            "extras/tvm/src/devmod_tvm/_kinds.py": "TVM has the runtime of CUDA",
        },
        {"README.md": 2000},
    ),
    "a version of Python": List(
        frozenset(f"{major}.{minor}" for major, minor in pythons.TESTED),
        300,
        frozenset(
            {".github/workflows/tests.yml", "core/pyproject.toml", "plugins/runtime/pyproject.toml"}
        ),
        {
            "conformance/src/devmod_conformance/_cli/templates/both/.github/workflows/test.yml.tmpl": (
                "an author of a backend tests some"
            ),
            "docs/design/runtime.md": "the versions that were measured",
        },
    ),
    "an error class": List(
        error_classes(),
        4000,
        frozenset({"core/src/devmod/__init__.py", "core/src/devmod/errors.py", "docs/errors.md"}),
    ),
    "a need of functions": List(
        frozenset(FEATURES),
        3000,
        frozenset(
            {
                "compilers/readers/c/devmod_reader.c",
                "core/src/devmod/_values/features.py",
                "docs/arrays-and-devices.md",
                "tests/spec_reader.py",
            }
        ),
        {
            "core/src/devmod/_values/info.py": "images have a row of their own",
            "docs/opencl.md": "OpenCL C has no launch constants",
        },
    ),
    "an option of devmod.compile": List(
        frozenset(OPTIONS),
        40_000,
        frozenset(
            {
                "compilers/targets/src/devmod_targets/build/options.py",
                "core/src/devmod/_modules/compile.py",
                "docs/manifest.md",
            }
        ),
    ),
}


@cache
def texts() -> Mapping[str, str]:
    """Return the texts in which a list may stand, by the path of the file."""
    found = {}
    for path in where.files():
        name = path.relative_to(ROOT).as_posix()
        is_of_tests = "tests" in Path(name).parts and name != READER
        if path.suffix in SUFFIXES and name not in HISTORY and not is_of_tests:
            found[name] = path.read_text(encoding="utf-8")
    return found


def members_in(text: str, members: frozenset[str], within: int) -> set[str]:
    """Return the members that a text has near each other, at the place with most of them."""
    names = "|".join(sorted(map(re.escape, members), key=len, reverse=True))
    found = []
    for match in re.finditer(rf"(?<![\w.])({names})(?:x\d+)?(?!\w)", text):  # a type has lanes
        found.append((match.start(), match[1]))
    best: set[str] = set()
    for start, _ in found:
        near = {name for at, name in found if start <= at <= start + within}
        if len(near) > len(best):
            best = near
    return best


def places_of(each: List, *more: str) -> dict[str, set[str]]:
    """Return the files in which a list stands, each with the members that it lacks there, if the
    definition had more.
    """
    members = each.members.union(more)
    found = {}
    for name, text in texts().items():
        if sum(member in text for member in members) < len(members) - 1:
            continue
        lacking = members - members_in(text, members, each.longer.get(name, each.within))
        if len(lacking) <= 1:
            found[name] = {*lacking}
    return found


@pytest.mark.parametrize("name", LISTS)
def test_each_place_of_a_list_has_every_member(name: str) -> None:
    each = LISTS[name]
    found = places_of(each)
    lacking = []
    for place, names in sorted(found.items()):
        if names and place not in each.all_but_one:
            lacking.append(f"{place} lacks {', '.join(names)}")
    assert lacking == [], "\n".join(lacking)  # pytest would shorten the list
    assert each.places <= found.keys()


@pytest.mark.parametrize("name", LISTS)
def test_a_new_member_is_missed_at_each_place(name: str) -> None:
    each = LISTS[name]
    lacking = places_of(each, "new_member")
    assert each.places <= lacking.keys()
    assert {*map(frozenset, lacking.values())} == {frozenset({"new_member"})}


def test_a_copy_of_a_list_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    each = LISTS["a kind"]
    page = "The kinds are cuda, hip, metal, vulkan, opencl, hexagon and webgpu.\n"
    monkeypatch.setitem(globals(), "texts", lambda: {"docs/new.md": page})
    assert places_of(each) == {"docs/new.md": {"rocm"}}


#: The numbers of the format, each with its form on docs/formats.md, in tests/spec_reader.py, in
#: devmod_reader.c and in head.js or pages.js.
NUMBERS = {
    "NUMBER": (6, "the format: 6,", "version == 6,", " NUMBER = 6,", " NUMBER = 6;"),
    "HEADER": (48, "| 48 | *n* | the head", ">= 48,", " HEADER = 48,", " HEADER = 48;"),
    "ALIGN": (64, "missing: 64 |", '"align", 64)', "align = 64;", " ALIGN = 64;"),
    "MAX_BARE": (1024, "at most 1024 more", "<= 1024,\n", " MAX_BARE = 1024,", " MAX_BARE = 1024;"),
    "MAX_DEPTH": (
        64,
        "at most 64 modules.",
        "(path) < 64,",
        " MAX_DEPTH = 64,",
        " MAX_DEPTH = 64;",
    ),
    "MAX_INDEX": (1 << 26, "at most 2²⁶ |", "<= 2**26", "= 64 << 20,", "MAX_INDEX = 2 ** 26;"),
    "MAX_SHIFT": (0xFFFF, "0 to 65,535", '"shift"], 0, 65535', "= 65535,", "MAX_SHIFT = 0xffff;"),
    "MAX_ALIGN": (1 << 16, "64 to 65,536", "64, 2**16)", "= 65536,", "MAX_ALIGN = 2 ** 16;"),
    "FREE_UNPACKED": (1 << 20, "are at most 2²⁰", "beyond <= 2**20", "= 1 << 20,", "2n ** 20n"),
    "MAX_RATIO": (256, "256 × *n*", '256 * each["size"]', "MAX_RATIO = 256", ", 256]"),
}
READERS = (
    ("docs/formats.md",),
    ("tests/spec_reader.py",),
    ("compilers/readers/c/devmod_reader.c",),
    ("extras/browser/js/src/head.js", "extras/browser/js/src/pages.js"),
)


def test_a_number_of_the_format_is_in_each_reader_and_on_the_page() -> None:
    """A new number of `devmod._formats.index` gets a row of `NUMBERS`, and with it a form for each
    reader.
    """
    numbers = {}
    for name, value in vars(index).items():
        if re.fullmatch(r"[A-Z][A-Z_]*", name) and type(value) is int:
            numbers[name] = value
    assert {name: value for name, (value, *_) in NUMBERS.items()} == numbers
    for name, (_, *forms) in NUMBERS.items():
        for form, files in zip(forms, READERS, strict=True):
            text = "".join((ROOT / file).read_text(encoding="utf-8") for file in files)
            assert form in text, f"{' or '.join(files)} has no {form!r}, which is {name}"


#: The options that their help explains well enough, without a page.
WITHOUT_A_PAGE = {
    *("--alias", "--atol", "--author", "--budget", "--constraint", "--csv", "--define", "--force"),
    *("--help", "--mixed", "--no-cache", "--no-check", "--quiet", "--shared-memory", "--subgroup"),
    *("--title", "--warmup", "--workers"),
}


def commands_of(
    command: click.Command, context: click.Context, *words: str
) -> Iterator[tuple[Sequence[str], click.Command]]:
    """Yield the words of a command and of its subcommands, each with the command."""
    yield words, command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands_of(below, context, *words, name)


def all_commands() -> Iterator[tuple[Sequence[str], click.Command]]:
    context = click.Context(group, info_name="devmod", **group.context_settings)
    for name in KNOWN:
        command = group.get_command(context, name)
        assert command is not None, f"{name}: make setup installs the commands of all wheels"
        yield from commands_of(command, context, name)


def test_an_option_of_a_whole_number_says_so() -> None:
    """Click would say "is not a valid integer range"."""
    for words, command in all_commands():
        for option in command.params:
            name = f"{' '.join(words)} {option.name}"
            assert not isinstance(option.type, click.IntRange) or isinstance(
                option.type, WholeNumber
            ), name
            assert not isinstance(option.type, WholeNumber) or option.metavar, name


def options_of(command: click.Command) -> Iterator[click.Option]:
    """Yield the options of a command."""
    parent = click.Context(group, **group.context_settings)  # click keeps the help's option
    for parameter in command.get_params(click.Context(command, parent=parent)):
        if isinstance(parameter, click.Option) and not parameter.hidden:
            yield parameter


def all_options() -> Iterator[click.Option]:
    for _, command in all_commands():
        yield from options_of(command)


def long_names(options: Iterable[click.Option]) -> set[str]:
    found: set[str] = set()
    for option in options:
        found |= {name for name in option.opts if name.startswith("--")}
    return found


def options_in(text: str) -> set[str]:
    return {*re.findall(r"(?<![\w-])--[a-z][\w-]*", text)}


def without_completion(options: Iterable[click.Option]) -> set[str]:
    """Return the options of which the shell completes nothing, and could: a kind, a target, or a
    file or a folder.
    """
    found = set()
    for option in options:
        completes = option._custom_shell_complete is not None
        if re.match(r"(KIND|TARGET)\b", option.metavar or "") and not completes:
            found.add(option.opts[-1])
        files = isinstance(option.type, (click.Path, OutputPath))
        if option.metavar in ("FILE", "FOLDER") and not files and not completes:
            found.add(option.opts[-1])
    return found


def test_an_option_of_a_command_is_on_a_page() -> None:
    """The section of a page that is written from the commands is not in the page's source."""
    pages = [*ROOT.glob("docs/*.md"), *ROOT.glob("*/*/README.md"), *ROOT.glob("*/README.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    options = long_names(all_options())
    assert options - options_in(text) - WITHOUT_A_PAGE == set()
    assert options >= WITHOUT_A_PAGE


def test_an_option_of_a_command_has_a_test() -> None:
    text = ""
    for path in where.files():
        if path.name.startswith("test_") and path.suffix == ".py" and path != Path(__file__):
            text += path.read_text(encoding="utf-8")
    tested = {*re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", text)}
    untested = [each.opts for each in all_options() if tested.isdisjoint(each.opts)]
    assert untested == []


def test_a_call_without_words_names_all_that_it_lacks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    compared = 0
    for words, command in all_commands():
        needed = []
        for each in command.params:
            if each.required or isinstance(each, RequiredUnless):
                needed.append(each.make_metavar(click.Context(command)))
                if isinstance(each, click.Option):
                    needed[-1] = f"{', '.join(each.opts)} {needed[-1]}"
        if len(needed) > 1:
            assert main(words) == 2
            lines = capsys.readouterr().err.partition("devmod: error: missing ")[2].splitlines()
            found = [re.split(", or --|: ", line)[0].strip() for line in lines[1:]]
            assert found == needed, words
            compared += 1
    assert compared > 5


def test_the_shell_completes_the_value_of_an_option_that_has_few() -> None:
    assert without_completion(all_options()) == set()


def test_a_planted_option_without_completion_page_or_test_is_found() -> None:
    @click.command()
    @click.option("--colourful", metavar="KIND")
    @click.option("--colour-file", metavar="FILE")
    @click.option("--colour-number", metavar="N")
    @click.option("--chosen", metavar="TARGET", shell_complete=lambda *_: [])
    def command() -> None: ...

    options = [*options_of(command)]
    assert without_completion(options) == {"--colourful", "--colour-file"}
    assert long_names(options) - options_in("`--chosen`, --colour-number=3; --colourfully") == {
        "--colourful",
        "--colour-file",
        "--help",
    }
