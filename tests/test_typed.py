"""What a command prints names its own options and arguments: no keyword and no call of Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from each_case import check_each

from devmod.backend import LAUNCH_KEYWORDS
from devmod_workbench._tools.typed import typed, typed_error

ROOT = Path(__file__).parent.parent

#: Python's form of an argument of a launch, and calls that nobody types in a shell.
PYTHON = re.compile(
    rf"(?<![\w.-])(?:{'|'.join(LAUNCH_KEYWORDS)})=|\b(?:devmod|np|device|torch)\.\w+\(|(?<!-)\b\w+_="
)
#: The folders with the errors of a call.
FOLDERS = [
    ROOT / "plugins/runtime/src/devmod_runtime/_launch",
    ROOT / "plugins/runtime/src/devmod_runtime/_tuning",
    *sorted(ROOT.glob("plugins/devmod-*/src/*/")),
    ROOT / "plugins/driver-api/src",
]
#: What makes the error of a call: the others are raised where no command calls, or about a file.
MAKERS = {"_error", "error", "_refusal", "invalid_launch", "ConversionError"}
#: Those of Python's calls alone, by the beginning of the text.
ONLY_PYTHON = (
    ": f[",  # f[grid, block](…)
    ": on()",  # the commands give a text
    " is called with",  # TVM's launch values, by position
    "is in the host's memory, and bind takes",  # the commands copy
    ": prepare",
    "has elements of",
    "is a wgpu.…",
    "is a pyopencl …",
)


def _texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each error of a call, with … for what is not known."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name not in MAKERS:
                continue
            for argument in node.args:
                text = _text(argument)
                if text:
                    yield f"{path.name}:{node.lineno}", text


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = []
        for each in node.values:
            parts.append(_text(each) if isinstance(each, ast.Constant) else "…")
        return "".join(parts)
    return ""


def test_each_error_of_a_call_is_written_as_a_command_takes_it() -> None:
    found = []
    for folder in FOLDERS:
        found += _texts(folder)
    assert len(found) > 60

    wrong = {}
    for place, text in found:
        if text.startswith(ONLY_PYTHON):
            continue
        printed = typed(text, LAUNCH_KEYWORDS)
        if PYTHON.search(printed):
            wrong[place] = printed
    assert not wrong


CASES = (
    ("needs threads=, or grid=: an int", "needs --threads, or --grid: an int"),
    ("was given threads=[8, 8]: no", "was given --threads 8,8: no"),
    ("got block=(40960, 1, 1)", "got --block 40960,1,1"),
    (
        "threads=70000 in blocks of 1 needs grid=70000; f",
        "--threads 70000 in blocks of 1 needs --grid 70000; f",
    ),
    ("has no argument 'im'. Did you mean 'in_'?", "has no argument 'im'. Did you mean 'in'?"),
    ("is missing 'in'; it takes 1 (in). Give 'in' as in_=", "is missing 'in'; it takes 1 (in)"),
    (
        "give shared_memory=, or a default to devmod.compile(…, shared_memory=…)",
        "give --shared-memory, or a default to devmod compile … --shared-memory …",
    ),
    ("Call it as f(x=…, n=…, threads=…)", "Give x=… n=… --threads …"),
    ("takes memory: pass devmod.Local(nbytes)", "takes memory: give it as local:BYTES"),
    (
        "takes float32; convert it before the call: array = array.astype(np.float32)",
        "takes float32; give an array of that type",
    ),
    ("devmod.load_from_file('a b.ptx') lists them", "devmod inspect 'a b.ptx' lists them"),
    # What is no keyword of the call stays.
    ("the argument 'in_' of f", "the argument 'in' of f"),
    ("step 2: my_threads=3, main_='x'", "step 2: my_threads=3, main_='x'"),
    ("--threads=5 and compile -D block=3", "--threads=5 and compile -D --block 3"),
)


def test_the_words_of_a_command() -> None:
    def check(case: tuple[str, str]) -> None:
        text, printed = case
        assert typed(text, (*LAUNCH_KEYWORDS, "in_")) == printed

    check_each(CASES, check)


def test_keywords_that_an_error_does_not_have_stay() -> None:
    text = "step 2: the step needs threads= or grid=, and in_="
    assert typed(text) == text
    assert typed_error(ValueError(text)) == text
