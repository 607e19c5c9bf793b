"""The harness finds what it is there for: exceptions, broken properties, processes that end, time
and memory.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgpack  # type: ignore[import-untyped]
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from fuzzing import limits, mutation, process, readers, seeds, worker  # noqa: E402
from handmade import headed  # noqa: E402


def outcome(read: Callable[[bytes], None], tmp_path: Path, data: bytes = b"data") -> list[str]:
    reader = readers.Reader("bundle", read, mutation.mutate_bytes, lambda: [data])
    findings, current = worker.Findings(reader, tmp_path), worker.Current(tmp_path)
    worker.execute(reader, data, findings, current)
    assert worker.Current.read(tmp_path) == data
    return findings.texts


def test_an_exception_that_is_not_devmods_is_a_finding(tmp_path: Path) -> None:
    def read(data: bytes) -> None:
        raise TypeError("unhashable")

    (text,) = outcome(read, tmp_path)
    assert text.startswith("TypeError ")
    (name,) = [path.name for path in tmp_path.glob("*.bin")]
    assert text.endswith(f": unhashable [{name}]")
    assert (tmp_path / name).read_bytes() == b"data"
    assert "TypeError: unhashable" in (tmp_path / name).with_suffix(".txt").read_text()


def test_an_error_of_devmod_is_none_unless_its_text_drives_a_terminal(tmp_path: Path) -> None:
    import devmod

    class Raw(devmod.FormatError):
        def __str__(self) -> str:
            return self.words  # devmod's own errors escape such characters

    def read(data: bytes) -> None:
        error = Raw("")
        error.words = f"the file is damaged: {data.decode()}"
        raise error

    assert outcome(read, tmp_path, b"plain") == []
    for text in ("\x1b[2J", "\x9b31m", "\u202e"):
        (result,) = outcome(read, tmp_path, text.encode())
        assert result.startswith(f"Breach Raw holds U+{ord(text[0]):04X}")


def test_time_out_of_proportion_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(limits, "SECONDS", 0.01)
    (text,) = outcome(lambda data: sum(range(10**7)) and None, tmp_path)
    assert text.startswith("Excess ")


def test_memory_out_of_proportion_is_a_finding(tmp_path: Path) -> None:
    """In a process of its own: the peak of this one may be large, and only what exceeds it is
    seen.
    """
    program = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_harness import limits, outcome
limits.MEMORY = 1 << 20
size = limits.peak() + (64 << 20)
print(*outcome(lambda data: len(bytearray(b"x") * size) and None, Path({str(tmp_path)!r})))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Excess ")


def test_a_process_that_ends_is_a_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "tools" / "fuzzing"
    script.mkdir(parents=True)
    (script / "__init__.py").write_text(f"__path__.append({str(ROOT / 'tools' / 'fuzzing')!r})\n")
    (script / "worker.py").write_text(
        "import ctypes, sys, pathlib\nfolder = pathlib.Path(sys.argv[2])\n"
        "(folder / 'current').write_bytes((4).to_bytes(8, 'little') + b'data')\nctypes.string_at(0)\n"
    )
    monkeypatch.setattr(process, "TOOLS", script.parent)
    run = process.run_reader("bundle", tmp_path / "out")
    assert run.executions == -1
    assert run.findings[0].startswith("the process ended with SIGSEGV [")
    assert [path.read_bytes() for path in (tmp_path / "out").glob("*.bin")] == [b"data"]
    assert ctypes.sizeof(ctypes.c_void_p) == 8


@pytest.mark.parametrize("name", readers.READERS)
def test_mutators_give_the_same_for_the_same_seed_and_change_most_inputs(name: str) -> None:
    reader = readers.READERS[name]
    pool = reader.seeds()
    assert pool
    results = [
        [reader.mutate(pool[number % len(pool)], random) for number in range(10)]
        for random in (Random(7), Random(7))
    ]
    assert results[0] == results[1]
    assert sum(data != pool[number % len(pool)] for number, data in enumerate(results[0])) > 6


def test_a_mutated_bundle_reaches_the_code_behind_the_digests() -> None:
    import devmod

    random, data = Random(0), seeds.golden("program.devmod")[0]
    messages = []
    for _ in range(150):
        try:
            root = devmod.loads(mutation.mutate_bundle(data, random))
            for module in readers.walk(root):
                dict(module.functions)
            messages.append("")
        except devmod.FormatError as error:
            messages.append(str(error))
    assert sum(text == "" for text in messages) > 20
    assert sum("fmap" in text for text in messages) > 2
    assert sum("SHA-256" in text for text in messages) < 30


def test_pages_of_a_head_with_a_short_row_are_mutated_as_bytes() -> None:
    page = msgpack.packb({"modules": []})
    for length in range(4):
        row = [0, len(page), 0][:length]
        data = headed({"candidates": 0, "pages": [row]}, page)
        for seed in range(20):
            assert mutation.mutate_pages(data, Random(seed))


def test_a_view_that_is_longer_than_its_memory_is_a_breach() -> None:
    with pytest.raises(readers.Breach, match="a view of 16 bytes over 4: int8 of shape"):
        readers.check_array(Array(), 4)


class Array(bytearray):
    dtype, shape = "int8", (16,)

    def __init__(self) -> None:
        super().__init__(16)


@pytest.mark.parametrize(
    ("out", "problem"),
    [
        ("{}", ""),
        ('{"x": NaN}', "devmod inspect --json prints no valid JSON: NaN is not JSON"),
        ('{"x": "\x9b"}', "devmod inspect --json holds U+009B: "),
        ('{"x": ', "devmod inspect --json prints no valid JSON: "),
    ],
)
def test_output_that_is_no_json_or_drives_a_terminal_is_a_breach(out: str, problem: str) -> None:
    def check() -> None:
        readers.check_output(("inspect", "k.devmod", "--json"), 0, out, "")

    if not problem:
        check()
    else:
        with pytest.raises(readers.Breach) as caught:
            check()
        assert str(caught.value).startswith(problem)


def test_an_error_that_is_not_devmods_is_a_breach() -> None:
    with pytest.raises(readers.Breach):
        readers.check_output(
            ("inspect", "k"), 1, "", "devmod: error: KeyError: 'x' (--debug shows the traceback)"
        )
    readers.check_output(("inspect", "k"), 1, "", "devmod: error: 'k' is damaged")


@pytest.mark.parametrize(
    ("name", "other"), [("xor.", "or."), ("fma.rn.f32", "fma.rz.f32"), ("min.", "max.")]
)
def test_an_instruction_with_a_wrong_result_is_a_finding(
    name: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fuzzing.instructions import Program

    text = Program.text
    monkeypatch.setattr(Program, "text", lambda self: text(self).replace(name, other))
    read = readers.READERS["simulated-instructions"].read

    def run_programs() -> None:
        for number in range(60):
            read(str(number).encode())

    expected = rf"^{name}\S* %\w+, .*; gives 0x\w+, not 0x\w+; thread"
    with pytest.raises(readers.Breach, match=expected):
        run_programs()
