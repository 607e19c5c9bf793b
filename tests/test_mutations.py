"""`make mutations` changes sources by rule. Each rule has cases, and there are sources that no rule
changes.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from each_case import check_each, some

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import breakages  # noqa: E402
import mutations  # noqa: E402
from mutating import python_rules, text_rules  # noqa: E402
from mutating.mutant import RULES, Mutant  # noqa: E402

#: The rule, a source, and all that the rules make of it.
PYTHON = [
    ("comparison", "x = a < b", ["x = a <= b"]),
    ("comparison", "x = a == b >= c", ["x = a != b >= c", "x = a == b > c"]),
    ("comparison", "x = a not in b", ["x = a in b"]),
    ("comparison", "x = a is not b", ["x = a is b"]),
    ("arithmetic", "x = a + b * c", ["x = a - b * c", "x = a + b // c"]),
    ("arithmetic", "x -= a << b", ["x += a << b", "x -= a >> b"]),
    ("logic", "x = a and b", ["x = a or b"]),
    ("logic", "x = not a", ["x = (a)"]),
    ("number", "x = 7", ["x = 8", "x = 6"]),
    ("number", "x = 0x10", ["x = 17", "x = 15"]),
    ("number", "x = 0", ["x = 1"]),
    ("number", "x = 0.5", ["x = 2.0"]),
    ("index", "x = y[1]", ["x = y[2]", "x = y[0]"]),
    ("index", "x = y[a:b]", ["x = y[:b]", "x = y[a:]"]),
    ("sign", "x = -a", ["x = a"]),
    ("guard", "if a:\n    raise B", ["if False:\n    raise B"]),
    ("guard", "for x in y:\n    if a:\n        break", None),
    ("branch", "if a:\n    b = c", ["if not (a):\n    b = c"]),
    ("branch", "if a:\n    raise B\nelse:\n    b = c", None),
    ("branch", "x = a if b else c", ["x = a if not (b) else c"]),
    ("swap", "x = f(a, b, c)", ["x = f(b, a, c)"]),
    ("boolean", "def f(a=True):\n    pass", ["def f(a=False):\n    pass"]),
    ("default", "x = f(a, b=c)", ["x = f(a)"]),
    ("default", "x = f(b=c)", ["x = f()"]),
    ("call", "f(a)", ["None"]),
    ("choice", "x = min(a)", ["x = max(a)"]),
    ("choice", "x = a.partition(b)", ["x = a.rpartition(b)"]),
]
#: Sources of which nothing is changed.
PYTHON_INNOCENTS = [
    '"""A text of 1 < 2."""',
    "# 1 < 2",
    'x = "a < b"',
    'x = f"{a + 1}"',
    'x = "a" + b',
    'raise E("a" if b else "c", 1)',
    "assert a < 1",
    '__all__ = ["a", *b[1:]]',
    "x: tuple[int | str, 1]",
    "def f(a: b[1] | None) -> c[0]:\n    pass",
    "@cache(maxsize=1)\ndef f():\n    pass",
    "class C(f(a, b)):\n    pass",
    "if TYPE_CHECKING:\n    x = 1",
    "TYPE_CHECKING = False",
    "x = sys.version_info >= (3, 12)",
    'if os.name == "nt":\n    pass',
    "x = y[:]",
    "x = f(*a, b)",
    "x = f(a, a)",
    "x = gcd(a, b)",
    "x = f(**a)",
    "x = f(a, strict=True)",
    'x = f(a, encoding="utf-8")',
    "x = +a",
    "import a.b",
    "def f(a=1): ...",
]
C = [
    ("comparison", "x = a < b;", ["x = a <= b;"]),
    ("arithmetic", "x = a + b;", ["x = a - b;"]),
    ("arithmetic", "x = a / b;", ["x = a * b;"]),
    ("logic", "x = a && !b;", ["x = a || !b;", "x = a && b;"]),
    ("number", "x = 7u;", ["x = 8u;", "x = 6u;"]),
    ("number", "x = 0600;", ["x = 385;", "x = 383;"]),
    ("index", "x = y[0];", ["x = y[1];"]),
    ("sign", "x = -a;", ["x = a;"]),
    ("guard", "if (a)\n    return;", ["if (0)\n    return;"]),
    ("guard", "if (a) {\n    goto end;\n}", ["if (0) {\n    goto end;\n}"]),
    ("branch", "if (a)\n    b = c;", ["if (!(a))\n    b = c;"]),
    (
        "branch",
        "if (a)\n    return;\nelse\n    b = c;",
        ["if (!(a))\n    return;\nelse\n    b = c;"],
    ),
    ("swap", "x = f(a, (b, c), d);", ["x = f((b, c), a, d);"]),
    ("swap", "return compare(a, b);", ["return compare(b, a);"]),
    ("call", "{\n    f(a);\n}", ["{\n    ;\n}"]),
]
C_INNOCENTS = [
    "// 1 < 2",
    "/* 1 < 2 */",
    "#define LESS 1 < \\\n    2",
    'x = "1 < 2";',
    "x = '<';",
    "while (memcmp(a, b, c))\n    ;",
    "char *x;",
    "x = *a;",
    "x = &a;",
    "x = a->b;",
    "static void f(int a, char *b)\n{\n}",
    "static void f(int a, char *b);",
    "x++;",
    "while (a)\n    ;",
]
JAVASCRIPT = [
    ("comparison", "x = a === b;", ["x = a !== b;"]),
    ("arithmetic", "x = a % b;", ["x = a / b;"]),
    ("logic", "x = a || b;", ["x = a && b;"]),
    ("number", "x = 65_536;", ["x = 65537;", "x = 65535;"]),
    ("index", "x = y[2];", ["x = y[3];", "x = y[1];"]),
    ("sign", "x = f(-a);", ["x = f(a);"]),
    ("guard", "if (a) throw new E(1);", ["if (false) throw new E(1);"]),
    ("branch", "if (a) b = c;", ["if (!(a)) b = c;"]),
    ("swap", "x = new F(a, b);", ["x = new F(b, a);"]),
    ("boolean", "x = true;", ["x = false;"]),
    ("call", "a.b(c);", [";"]),
    ("choice", "x = Math.min(...a);", ["x = Math.max(...a);"]),
    ("choice", "x = a.some(b);", ["x = a.every(b);"]),
    ("choice", "x = Math.min(a, b);", ["x = Math.max(a, b);"]),
]
JAVASCRIPT_INNOCENTS = [
    'import { a } from "./1.js";',
    "throw new E(a < 1);",
    "x = `${a} < 1`;",
    "x = /[1/]<2/u;",
    'x = a + "b";',
    "function f(a, b) {}",
    "class A {\n  f(a, b) {}\n}",
    "x = f(...a, b);",
    "x = (a) => a;",
    "/** @type {1 | 2} */",
]


def changed(name: str, text: str) -> list[tuple[str, str]]:
    """Return the rules and the changed sources, in order."""
    rules = python_rules if name.endswith(".py") else text_rules
    return [(each.rule, each.apply(text)) for each in rules.mutants(Path(name), text)]


@pytest.mark.parametrize(
    ("name", "cases", "absent"),
    [
        ("a.py", PYTHON, set()),
        ("a.c", C, {"boolean", "choice", "default"}),
        ("a.js", JAVASCRIPT, {"default"}),
    ],
)
def test_each_rule_changes_its_case(
    name: str, cases: list[tuple[str, str, list[str] | None]], absent: set[str]
) -> None:
    def check(case: tuple[str, str, list[str] | None]) -> None:
        rule, text, results = case
        found = changed(name, text)
        assert rule in {each for each, _ in found}
        if results is not None:
            assert [result for _, result in found] == results

    check_each(cases, check)
    assert {rule for rule, _, _ in cases} == RULES.keys() - absent


@pytest.mark.parametrize(
    ("name", "sources"),
    [("a.py", PYTHON_INNOCENTS), ("a.c", C_INNOCENTS), ("a.js", JAVASCRIPT_INNOCENTS)],
)
def test_no_rule_changes_an_innocent(name: str, sources: list[str]) -> None:
    def check(text: str) -> None:
        assert changed(name, text) == []

    check_each(sources, check)


def test_a_place_behind_other_letters_is_found() -> None:
    """A syntax tree counts bytes."""
    assert changed("a.py", 'x = "ä→", a < b\n') == [("comparison", 'x = "ä→", a <= b\n')]


#: A package with functions: its tests check one, execute one in another process without a check,
#: and execute one not at all.
PACKAGE = """\
from __future__ import annotations

LIMIT = 3


def is_small(value):
    return value < LIMIT


def is_even(value):
    return value % 2 == 0


def is_odd(value):
    return value % 2 == 1


def loop(value):
    while value:
        value -= 1
    return value


import functools


@functools.cache
def half(value):
    return value // 2
"""
TESTS = """\
import subprocess
import sys

import devmod


def test_small():
    assert devmod.is_small(2)
    assert not devmod.is_small(3)


def test_even():
    program = "import sys; sys.path[:0] = {path!r}; import devmod; devmod.is_even(2)"
    subprocess.run([sys.executable, "-S", "-c", program.format(path=sys.path)], check=True)


def test_loop():
    assert devmod.loop(2) == 0


def test_half_is_computed():
    devmod.half(8)


def test_half_is_right():
    assert devmod.half(8) == 4
"""


@pytest.fixture
def copy(tmp_path: Path) -> mutations.Copy:
    """A tree with this package as core."""
    root = tmp_path / "copy"
    for name, text in {
        "core/src/devmod/__init__.py": PACKAGE,
        "core/tests/test_small.py": TESTS,
        "core/tests/test_other.py": "import devmod\n\ndef test_it():\n    devmod.is_small(1)\n",
        "tools/equivalent.toml": "",
        "conftest.py": "import sys\nsys.path.insert(0, 'core/src')\n",
        "pytest.ini": "[pytest]\nmarkers = volume\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    room = mutations.Room(["core/src/**/*.py"], ["core/tests/test_*.py"], 90)
    return mutations.Copy(root, room, Path(sys.executable))


def test_a_change_is_noticed_by_the_tests_that_execute_its_line(
    copy: mutations.Copy, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = mutations.files(copy.room.sources, copy.root)
    every = {(each.line, each.new): each for each in python_rules.mutants(path, PACKAGE)}
    places = [(3, "2"), (7, "<="), (11, "!="), (15, "!=")]
    chosen = [every[place] for place in places]
    assert mutations.judge_all(chosen, [copy]) == [True, True, False, False]
    lines = [line.split("  ")[-1] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "core/tests/test_small.py::test_small",
        "core/tests/test_small.py::test_small",
        "return value % 2 == 0",
        "no test executes it: return value % 2 == 1",
    ]
    assert (copy.root / path).read_text() == PACKAGE


def test_a_cached_value_is_checked_by_later_tests(copy: mutations.Copy) -> None:
    """The first test that needs it executes the line, and no other does."""
    (path,) = mutations.files(copy.room.sources, copy.root)
    (half,) = [each for each in python_rules.mutants(path, PACKAGE) if each.old == "//"]
    assert mutations.judge_all([half], [copy]) == [True]


def test_a_change_with_which_a_test_does_not_end_is_noticed(
    copy: mutations.Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = mutations.files(copy.room.sources, copy.root)
    (loop,) = [each for each in python_rules.mutants(path, PACKAGE) if each.old == "-"]
    monkeypatch.setattr(mutations, "_START", 2)
    assert mutations.judge_all([loop], [copy]) == [True]


def test_a_file_whose_tests_do_not_end_while_they_are_traced_is_not_used(
    copy: mutations.Copy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path("core/tests/test_other.py")
    (copy.root / path).write_text("import time\n\ndef test_it():\n    time.sleep(1000)\n")
    monkeypatch.setattr(mutations, "_RECORDING", 2)
    assert copy.record(path) == mutations.Tests(path.as_posix(), {}, {})
    assert capsys.readouterr().out.startswith(f"{path} is not used: ")


def test_lines_are_recorded_again_after_a_change_of_what_a_test_executes(
    copy: mutations.Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = []
    record = mutations.Copy._record

    def count(self: mutations.Copy, path: Path, result: Path) -> None:
        recorded.append(path)
        record(self, path, result)

    monkeypatch.setattr(mutations.Copy, "_record", count)
    folder = copy.root / "core"
    small, other = Path("core/tests/test_small.py"), Path("core/tests/test_other.py")
    (folder / "src" / "devmod" / "_unused.py").write_text("A = 1\n")
    before = copy.record(small)
    assert before.lines["core/tests/test_small.py::test_half_is_computed"] == {
        "core/src/devmod/__init__.py": {29}
    }
    assert copy.record(small) == before
    copy.record(other)
    (folder / "src" / "devmod" / "_unused.py").write_text("A = 2\n")
    assert copy.record(small) == before
    assert recorded == [small, other]

    text = PACKAGE.replace("    return value // 2", "    if value:\n        return value // 2")
    (folder / "src" / "devmod" / "__init__.py").write_text(text)
    after = copy.record(small)
    assert after.lines["core/tests/test_small.py::test_half_is_computed"] == {
        "core/src/devmod/__init__.py": {29, 30}
    }
    (folder / "tests" / "test_other.py").write_text("def test_it():\n    pass\n")
    copy.record(small)
    copy.record(other)
    assert recorded == [small, other, small, other]


def test_tests_of_other_rooms_run_for_what_the_own_ones_do_not_notice(
    copy: mutations.Copy, capsys: pytest.CaptureFixture[str]
) -> None:
    own, use = "core/tests/test_other.py", "core/tests/test_small.py"
    room = copy.room._replace(tests=[own], uses=[own, use])
    copy = mutations.Copy(copy.root, room, Path(sys.executable))
    (path,) = mutations.files(room.sources, copy.root)
    every = {(each.line, each.new): each for each in python_rules.mutants(path, PACKAGE)}
    chosen = [every[place] for place in [(15, "!="), (3, "2"), (11, "!="), (7, "<=")]]
    (copy.root / own).write_text(
        "import devmod\n\ndef test_it():\n    assert not devmod.is_small(3)\n    devmod.is_even(1)\n"
    )
    assert mutations.judge_all(chosen, [copy]) == [False, True, False, True]
    lines = [line.split("  ")[-1] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        f"{own}::test_it",
        f"{use}::test_small",
        "no test executes it: return value % 2 == 1",
        "return value % 2 == 0",
    ]


def test_the_tests_of_a_changed_wheel_run_first(tmp_path: Path) -> None:
    names = ["a/one/tests/test_1.py", "a/two/tests/test_2.py", "tests/test_3.py"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("")
    room = mutations.Room([], ["a/*/tests/test_*.py"], 90, uses=["*/test_*.py", "a/two/*/*.py"])
    for wheel, expected in (("one", [0, 1, 2]), ("two", [1, 0, 2])):
        path = Path(f"a/{wheel}/src/x.py")
        mutant = Mutant(path, 1, "", "number", 0, 0, "", "", (1, 1), True)
        groups = mutations._groups(room, [mutant], tmp_path)
        assert groups == [[Path(names[number])] for number in expected]


def test_a_test_that_fails_without_the_change_notices_nothing(copy: mutations.Copy) -> None:
    text = "import devmod\n\ndef test_small():\n    assert devmod.is_small(4)\n"
    (copy.root / "core" / "tests" / "test_small.py").write_text(text)
    (path,) = mutations.files(copy.room.sources, copy.root)
    (small,) = [each for each in python_rules.mutants(path, PACKAGE) if each.new == "<="]
    assert mutations.judge_all([small], [copy]) == [False]


#: Try a change in a copy, whose test writes the number of its process and does not end.
INTERRUPTED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import mutations
from mutating import python_rules
root = Path(sys.argv[2])
room = mutations.Room(["core/src/**/*.py"], ["core/tests/test_*.py"], 90)
copy = mutations.Copy(root, room, Path(sys.executable))
(path,) = mutations.files(room.sources, root)
chosen = python_rules.mutants(path, (root / path).read_text())[:2]
mutations.run = lambda options: mutations.judge_all(chosen, [copy])
sys.argv[1:] = ["core"]
sys.exit(mutations.main())
"""
ENDLESS = """
import os, sys, time
from pathlib import Path
import devmod

def test_it():
    devmod.is_small(1)
    if {is_traced} or sys.gettrace() is None:
        Path("started").write_text(str(os.getpid()))
        time.sleep(1000)
"""


@pytest.mark.parametrize("is_traced", [False, True], ids=["a test runs", "lines are recorded"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_tests_and_leaves_the_sources(
    copy: mutations.Copy, number: int, is_traced: bool
) -> None:
    for path in some((copy.root / "core" / "tests").iterdir()):
        path.unlink()
    (copy.root / "core" / "tests" / "test_it.py").write_text(ENDLESS.format(is_traced=is_traced))
    command = [sys.executable, "-c", INTERRUPTED, str(ROOT / "tools"), str(copy.root)]
    started = copy.root / "started"
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not started.exists() or not started.read_text():
            time.sleep(0.05)
        process.send_signal(number)
        _, errors = process.communicate(timeout=600)
    assert errors == "mutations: it was interrupted; changes are in build/mutations alone\n"
    assert process.returncode == 2
    assert (copy.root / "core" / "src" / "devmod" / "__init__.py").read_text() == PACKAGE
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a.py"),
            "[Errno 28] No space left on device: 'a.py'",
        ),
        (ValueError("there is no change in x"), "there is no change in x"),
    ],
)
def test_a_problem_is_one_sentence(
    error: Exception, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(mutations, "run", fail)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["mutations.py", "core"])
    assert mutations.main() == 2
    assert capsys.readouterr().err == f"mutations: {text}; changes are in build/mutations alone\n"


def test_a_planted_change_is_removed_without_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    before = path.stat().st_mtime_ns
    with breakages.planted(path, "x = 2\n"):
        assert path.read_text() == "x = 2\n"
        assert list(tmp_path.iterdir()) == [path]
    assert (path.read_text(), path.stat().st_mtime_ns) == ("x = 1\n", before)


def test_a_seed_chooses_changes_of_different_lines_that_compile(copy: mutations.Copy) -> None:
    first = mutations.choose(copy.room, 4, 0, root=copy.root)
    assert first == mutations.choose(copy.room, 4, 0, root=copy.root)
    assert first != mutations.choose(copy.room, 4, 1, root=copy.root)
    every = mutations.choose(copy.room, 100, 0, root=copy.root)
    assert sorted(each.line for each in every) == [3, 7, 11, 15, 20, 29]
    assert mutations.choose(copy.room, 4, 0, ["other"], copy.root) == []


@pytest.mark.parametrize(
    ("name", "sound", "wrong"),
    [
        ("a.py", "x = f(a, b=1)\n", "x = f(a b)\n"),
        ("a.c", "int x = 1 + 2;\n", "char 1 x;\n"),
        ("a.c", "int x = 1;\n", 'int f(void)\n{\n    return "a";\n}\n'),
        ("a.js", "const x = 1;\n", "const = 1;\n"),
    ],
)
def test_a_change_that_does_not_compile_is_none(
    name: str, sound: str, wrong: str, tmp_path: Path
) -> None:
    def whole(text: str) -> Mutant:
        return Mutant(Path(name), 1, "", "number", 0, 0, "", text, (1, 1), True)

    (tmp_path / name).write_text("")
    assert mutations.compiles(whole(sound), tmp_path)
    assert not mutations.compiles(whole(wrong), tmp_path)


def test_an_equivalent_change_is_not_tried(copy: mutations.Copy) -> None:
    entry = {"file": "core/src/devmod/__init__.py", "line": "LIMIT = 3", "rule": "number"}
    table = copy.root / mutations.EQUIVALENT

    def write(**fields: str) -> None:
        rows = [f'{key} = "{value}"' for key, value in {**entry, "reason": "why", **fields}.items()]
        table.write_text("\n".join(["[[mutant]]", *rows]))

    write()
    assert [each.new for each in mutations.equivalents(copy.root)] == ["4", "2"]
    assert 3 not in {each.line for each in mutations.choose(copy.room, 100, 0, root=copy.root)}
    write(new="2")
    assert [each.new for each in mutations.equivalents(copy.root)] == ["2"]
    write(line="LIMIT = 4")
    with pytest.raises(
        ValueError, match=r"^tools/equivalent.toml: no change of core.* matches LIMIT = 4$"
    ):
        mutations.equivalents(copy.root)


def test_each_entry_of_the_table_is_a_change_of_today() -> None:
    for reason in mutations.equivalents().values():
        assert len(reason.split()) > 2


def test_each_room_has_sources_and_tests() -> None:
    for room in mutations.ROOMS.values():
        for pattern in (*room.sources, *room.tests, *room.uses):
            assert mutations.files([pattern]), pattern
