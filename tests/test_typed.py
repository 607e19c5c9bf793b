"""What a command prints names its own options and arguments: no keyword and no call of Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from each_case import check_each

from devmod.backend import LAUNCH_KEYWORDS
from devmod_targets.spelling import SHELL, respell
from devmod_workbench._tools.typed import typed, typed_error

ROOT = Path(__file__).parent.parent

#: Python's form of an argument of a launch, and calls that nobody types in a shell.
PYTHON = re.compile(
    rf"(?<![\w.-])(?:{'|'.join(LAUNCH_KEYWORDS)})=|\b(?:devmod|np|device|torch)\.\w+\(|(?<!-)\b\w+_="
)
#: The folders with texts of what launches, loads and measures; those of what compiles.
FOLDERS = [
    *sorted(ROOT.glob("plugins/*/src")),
    ROOT / "core/src",
    ROOT / "workbench/src",
    *sorted(ROOT.glob("extras/*/src")),
]
COMPILERS = [ROOT / "compilers/targets/src", ROOT / "compilers/readers/src"]
#: Parts of the texts for what no command can do, each with the reason.
ONLY_PYTHON = (
    # Objects of a program: its contexts, queues, streams, views and forked processes.
    "devmod.device(context)",
    "devmod.device(queue)",
    "devmod.device(gpu_device)",
    "devmod.device(pyopencl.CommandQueue(context",
    "pyopencl.CommandQueue(context, properties=",
    "use devmod.device('cuda')",
    "call devmod.device(kind, number) there",
    "such as devmod.device(",
    ": on() takes a device",
    "copy it: array = device.empty(",
    "devmod converts no elements",
    "device.image(shape, format) and image.copy_from(array)",
    "Create a stream with device.stream()",
    "a profile is used once",
    "LaunchConfig(grid=…",  # its repr
    # Modules and bytes in a program's memory: commands read files.
    "pass devmod.dumps(module) or the path of a file",
    "devmod.loads(data) reads a bundle in memory",
    "devmod.loads(file.read()) reads all of it",
    "devmod.load_from_bytes(kind, data) takes bytes in memory",
    "the bytes of its module were loaded alone",
    "devmod.register(",
    "devmod.load(fsspec.open(url).open())",
    # The arguments of devmod.create and devmod.bundle, and a swapped source and target.
    "devmod.create(",
    "devmod.create_with_fallback(",
    "devmod.const_loader(tensors, by_symbol)",
    "devmod.bundle(*modules) makes one",
    "devmod.load_from_file(path, 'hsaco') or",
    "devmod.load_from_file(path) a payload file",
    "devmod.load_from_file(…) reads a payload that has",
    "devmod.compile(pathlib.Path(",
    "the target is none: devmod.compile(source, …)",
    # Given beside the option.
    "devmod build --allow-python, or devmod.build(",
    # Names of a program's steps: devmod.program is a function of Python.
    "devmod.step(",
    "devmod.repeat(",
    "such as devmod.load(path) returns",
    "the step needs either grid=",
    '["scale(x=x, y=y, threads=n)"]',
    # What `devmod compile` and `devmod bundle` refuse before, in words of their own.
    "or devmod.Local(per_thread=4), got",
    "expected a devmod.Local, such as",
    # Parts of a text, which `respell` replaces in the whole.
    "devmod.compile(…, local={",
    ": devmod.FunctionInfo(",
    # No texts for people, advice to run Python, and other libraries.
    "(?<![",
    "_LIBCPP",
    "np.frombuffer(",
    "-X faulthandler -c",
    "torch.no_grad()",
)


def _texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the place and each text of a program that is no docstring, with … for what is not
    known: an error may be made from a text that a variable has.
    """
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text())
        skipped = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr):
                skipped.add(node.value)
            if isinstance(node, ast.JoinedStr):
                skipped.update(node.values)
        for node in ast.walk(tree):
            if isinstance(node, (ast.Constant, ast.JoinedStr)) and node not in skipped:
                text = _text(node)
                if " " in text:
                    yield f"{path.name}:{node.lineno}", text


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text, node.values))
    if isinstance(node, ast.FormattedValue):
        return "'…'" if node.conversion == ord("r") else "…"
    return ""


def _in_python(folders: Iterable[Path], printed_by: Callable[[str], str]) -> dict[str, str]:
    """Return the texts with Python's form that have another one when they are printed, and those
    that keep it, which are wrong, by their places.
    """
    wrong = {}
    found = 0
    for folder in folders:
        for place, text in _texts(folder):
            if not PYTHON.search(text) or any(each in text for each in ONLY_PYTHON):
                continue
            found += 1
            printed = printed_by(text)
            if PYTHON.search(printed):
                wrong[place] = printed
    assert found > 10
    return wrong


def test_each_text_of_a_call_is_written_as_a_command_takes_it() -> None:
    assert _in_python(FOLDERS, lambda text: typed(text, LAUNCH_KEYWORDS)) == {}


def test_each_text_of_a_compile_is_written_as_a_command_takes_it() -> None:
    assert (
        _in_python(
            COMPILERS,
            lambda text: respell(text.replace("=…", "=64").replace(": '…'}", ": 64}"), SHELL),
        )
        == {}
    )


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
