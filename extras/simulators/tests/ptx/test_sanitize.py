"""The checks: each planted fault is found at its line and its thread, and no program without one is
accused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from each_case import some
from ptx_sources import ptx_of

from devmod_simulators.ptx import (
    Launch,
    Machine,
    PtxError,
    Report,
    Sanitizer,
    engines,
    launch_with_checks,
    run_ptx,
)
from devmod_simulators.ptx.machine import parameter_block, triple

CHECKS = frozenset({"bounds", "align", "free", "race", "sync", "init"})
#: Arrays by the letter before their length: numbers from 0 on and zeros, memory that nothing writes
#: (n, m), memory that is freed (F).
TYPES = {"f": "f4", "i": "i4", "z": "i4", "b": "u1", "n": "f4", "m": "i4", "F": "f4"}


class Device:
    """A machine with a module, and checks that know its allocations."""

    def __init__(self, text: str) -> None:
        self.machine = Machine(1 << 24)
        self.module = self.machine.load(text)
        self.sanitizer = Sanitizer(self.machine.arena)

    def allocate(self, size: int, place: str = "", written: bool = True) -> int:
        """Return the address of new memory."""
        address = self.machine.allocate(size)
        self.sanitizer.allocated(address, size, place, written)
        return address

    def launch(
        self,
        values: list[int],
        threads: Any = 1,
        grid: Any = 1,
        name: str = "k",
        checks: Iterable[str] = (),
        *settings: Any,
    ) -> list[Report]:
        """Return what a launch reports, with more checks than the usual ones."""
        block = parameter_block(self.module.program(name), values)
        launch = Launch(triple(grid), triple(threads), block, *settings)
        ranges = sorted(self.machine.ranges)
        return launch_with_checks(
            self.sanitizer, self.module, name, launch, CHECKS.union(checks), ranges
        )


class Case(NamedTuple):
    """A program of sanitize.cu: `@ checks fault / innocent | grid and block | parameters with their
    values | what a report has`.

    Lines that only the fault has end with "//wrong", those that only the innocent has with
    "//right". A report is at a line with "!" there, or, with "~", at any line. The lines of the
    kernel are behind the last one without an indent. They have `i`, the thread, and `at`, its place
    in the grid.
    """

    checks: set[str]
    shape: list[Any]
    parameters: list[list[str]]
    expected: list[str]
    source: str

    def reports(self, *options: str) -> list[Report]:
        """Run the program, compiled with lines or other options, and return the reports."""
        text = (
            ptx_of(self.source, *(options or ("-lineinfo",)))
            + "\n//| kernel.cu:\n"
            + "".join(f"//| {line}\n" for line in self.source.splitlines())
        )
        device = Device(text)
        machine = device.machine
        sanitizer = device.sanitizer
        for variable, (start, size) in zip(device.module.globals, machine.ranges, strict=True):
            sanitizer.allocated(start, size, variable.name, True)
        values = []
        for number, (_, value) in enumerate(self.parameters, 1):
            kind, length = value[0], value[1:]
            if kind not in TYPES:
                values.append(int(value.lstrip("p")))
                continue
            array = (np.arange if kind in "fib" else np.zeros)(int(length)).astype(TYPES[kind])
            address = device.allocate(array.nbytes, f"app.py:{number}", kind not in "nm")
            values.append(address)
            machine.write(address, array)
            if kind == "F":
                sanitizer.released(address, f"app.py:{number + 100}")
                machine.ranges.pop()
        settings = dict(text.split("=") for text in self.expected if re.fullmatch(r"\w+=\d+", text))
        grid, threads = self.shape
        more = (
            int(settings.get("shared", 0)),
            (int(settings.get("cluster", 1)), 1, 1),
            "cooperative" in settings,
        )
        try:
            return device.launch(values, threads, grid, "k", self.checks, *more)
        except PtxError:
            if not sanitizer.reports:
                raise
            return list(sanitizer.reports.values())


def cases(is_fault: bool) -> list[Any]:
    """Return the faults or the innocents."""
    result = []
    for part in re.split(
        r"^@ ", Path(__file__).with_name("sanitize.cu").read_text(), flags=re.MULTILINE
    )[1:]:
        head, *lines = part.splitlines()
        titles, shape, parameters, *expected = (each.strip() for each in head.split("|"))
        fault, _, innocent = titles.partition("/")
        checks, _, fault = fault.partition(" ")
        title, other = (fault, "//right") if is_fault else (innocent, "//wrong")
        if not title.strip():
            continue
        named = [each.split(" = ") for each in parameters.split(", ")]
        lines = ["" if other in line else line for line in lines]
        first = max((number for number, line in enumerate(lines, 1) if line[:1].strip()), default=0)
        head = f'extern "C" __global__ void k({", ".join(name for name, _ in named)}) {{ int i = threadIdx.x, at = blockIdx.x * blockDim.x + i;'
        source = "\n".join([*lines[:first], head, *lines[first:], "}"])
        sizes = [tuple(map(int, each.split(","))) for each in shape.split()]
        case = Case(
            set(filter(None, checks.split(","))),
            sizes,
            named,
            "".join(expected).split(" ; "),
            source,
        )
        result.append(
            pytest.param(case, id=f"{checks} {title.strip()}" if is_fault else title.strip())
        )
    return result


@pytest.mark.row("R49")
@pytest.mark.volume_but(
    "bounds off by one",
    "bounds a shared array and its neighbour",
    "bounds before the first shared array",
    "bounds a jump into another array",
    "align four elements",
    "free a read",
    "race a missing barrier",
    "race a missing second barrier in a loop",
    "race a histogram in global memory",
    "sync a barrier in a branch of threads",
    "sync a shuffle in a branch",
    "init a branch",
    "bounds four elements of a row of three",
    "align an address that is misaligned and beyond the end",
    "race the last of two elements",
    "race the last of four elements",
    "race a read between the arrival and the wait",
    "race a read behind another arrival",
    "race a copy in flight",
    "init a sum with a shuffle from an absent lane",
    "sync threads that exit complete a barrier, NVIDIA's sample divergent_threads",
    "sync,race a lane that its mask does not name, NVIDIA's sample illegal_syncwarp",
    "init a copy",
    "init a double that is stored",
    "init a sum of a tile in an atomic",
    "init a value that is exchanged",
    "init the value with which memory is compared",
)
@pytest.mark.parametrize("case", cases(True))
def test_a_fault_is_found(case: Case) -> None:
    reports = case.reports()
    lines = [
        f"kernel.cu:{number} "
        for number, line in enumerate(case.source.splitlines(), 1)
        if re.search("//.*[!~]", line)
    ]
    words = [text for text in case.expected if not re.fullmatch(r"\w+=\d+", text)]
    texts = [report.text for report in reports]
    assert any(all(word in text for word in some(words)) for text in texts), texts
    assert any(
        report.source.startswith(line) or "//~" in case.source
        for report in reports
        for line in lines
    ), texts
    assert {report.check for report in reports} <= case.checks, texts


@pytest.mark.volume_but(
    "one of two arrays by a condition",
    "a counter that an atomic load reads",
    "a barrier",
    "two buffers in a loop",
    "an early exit before a barrier",
    "named barriers, producer and consumer",
    "a reduction with shuffles",
    "the last block",
    "a padded struct",
    "a copy by bytes",
    "a sum of a tile in an atomic",
    "a copy that is exchanged",
    "the chosen of two values",
    "a tile beyond the edge",
    "an early exit before a shuffle",
    "early exits with work of their own before a barrier",
    "seven elements that a load of four widens",
    "three elements of four",
    "a read behind the wait",
)
@pytest.mark.parametrize("case", cases(False))
def test_no_innocent_is_accused(case: Case) -> None:
    assert [report.text for report in case.reports()] == []


@pytest.mark.volume_but(
    "bounds off by one",
    "bounds a jump into another array",
    "bounds a read of one element more than dynamic shared memory has",
    "align an address that is misaligned and beyond the end",
    "free a read",
    "one of two arrays by a condition",
    "a linked list in memory",
    "a reduction with shuffles",
    "a tile that a warp stores",
)
@pytest.mark.parametrize("case", [*cases(True), *cases(False)])
def test_compiled_code_has_the_same_bounds(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "CHECKS", frozenset({"bounds", "align", "free"}))
    case = case._replace(checks=set())
    found: list[list[dict[str, Any]]] = []
    for engine in ("interpreter", "compiled"):
        monkeypatch.setenv(engines.SETTING, engine)
        try:
            found.append([each.fields() for each in case.reports()])
        except PtxError as error:
            found.append([{"text": error.text}])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("is_fault", "title", "kinds"),
    [
        (True, "divergent_threads", ["divergent barrier"]),
        (False, "early exits with work of their own", []),
    ],
)
def test_exits_that_complete_a_barrier_are_found_without_lines(
    is_fault: bool, title: str, kinds: list[str]
) -> None:
    (case,) = (each.values[0] for each in cases(is_fault) if title in str(each.id))
    assert [report.kind for report in case.reports("--fmad=true")] == kinds


@pytest.mark.volume_but
def test_memory_that_the_host_may_write_to_is_written_where_other_memory_was_before() -> None:
    """Addresses come again: what a free leaves says nothing of the next allocation."""
    source = 'extern "C" __global__ void k(int *y) { if (y[threadIdx.x] > 3) y[threadIdx.x] = 1; }'
    device = Device(ptx_of(source))
    place = device.allocate(128, "app.py:1", False)
    sanitizer = device.sanitizer

    def found() -> list[str]:
        reports = device.launch([place], 32)
        sanitizer.reports = {}
        return [report.kind for report in reports]

    assert found() == ["uninitialised (branch)"]
    sanitizer.released(place, "app.py:2")
    sanitizer.allocated(place, 128, "app.py:3", True)
    assert found() == []


NUMBA = "_ZN8__main__3addB2v1B4tagsEx5ArrayIfLi1E1C7mutable7alignedE5ArrayIxLi2E1C7mutable7alignedE"
PYTHON = """from numba import cuda
@cuda.jit
def add(n, first, second: object):
    second[3, 0] = first[4]
"""


@pytest.mark.volume_but
@pytest.mark.parametrize(
    ("symbol", "file", "found"),
    [
        (NUMBA, "app.py", "second[100]; second is uint64[1] of argument 3 ('second')"),
        (NUMBA, "", "argument 3[100]; argument 3 is uint64[1]"),
        (NUMBA + "8UniTuple", "app.py", "argument 13[100]; argument 13 is uint64[1]"),
        ("_Z3addxPfPx", "app.py", "argument 13[100]; argument 13 is uint64[1]"),
        ("add", "app.py", "argument 13[100]; argument 13 is uint64[1]"),
    ],
    ids=["lines", "no lines", "another type", "C++", "C"],
)
def test_the_names_of_numba(
    symbol: str, file: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An array is seven parameters of PTX, or nine: the fifth has the address."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(PYTHON)
    lines = (".loc 1 3 0", ".loc 1 4 0", f'.file 1 "{tmp_path / file}"') if file else ("", "", "")
    text = """.version 8.0\n.target sm_90\n.address_size 64\n.visible .entry SYMBOL(PARAMETERS) {
        .reg .b64 %x;\n LOC3\n ld.param.u64 %x, [p12];\n LOC4\n st.global.u64 [%x+800], 1;\n ret;\n}
    FILE"""
    parameters = ", ".join(f".param .u64 p{number}" for number in range(17))
    for name, value in zip(
        ("SYMBOL", "PARAMETERS", "LOC3", "LOC4", "FILE"), (symbol, parameters, *lines), strict=True
    ):
        text = text.replace(name, value)
    device = Device(text + "\n")
    (report,) = device.launch([*[0] * 12, device.allocate(8), *[0] * 4], name=symbol)
    assert report.detail == f"8 bytes at {found}"
    if file:
        assert report.source == "app.py:4  second[3, 0] = first[4]"


@pytest.mark.volume_but
@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("k.cu", "k.cu"),
        ("../k.cu", "../k.cu"),
        ("@/here/src/k.cu", "src/k.cu"),
        ("@/other.cu", "@/other.cu"),
        ("@/gone/k.cu", "k.cu"),
        ("/k.cu", "k.cu"),
        (r"sp\303\244t.cu", "sp\N{LATIN SMALL LETTER A WITH DIAERESIS}t.cu"),
    ],
)
def test_a_source_has_the_name_that_was_given(
    file: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "other.cu").write_text("")
    monkeypatch.chdir(tmp_path / "here")
    text = f""".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {{
        .loc 1 7 0\n trap;\n}}\n.file 1 "{file.replace("@", str(tmp_path))}"\n"""
    with pytest.raises(PtxError) as caught:
        run_ptx(text, "k", 1, 1, [])
    place = f"thread (0, 0, 0), {shown.replace('@', str(tmp_path))}:7, PTX line 6 (trap)"
    assert caught.value.text == (
        f"the kernel executed a trap instruction, kernel k, block (0, 0, 0), {place}"
    )


def test_files_of_one_name_have_lines_of_their_own(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "k.cuh").write_text(f"in {folder}\n")
    device = Device(
        f""".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {{
        .reg .b64 %x;\n ld.param.u64 %x, [p];\n .loc 1 1 0\n st.global.u64 [%x+800], 1;
        .loc 2 1 0\n st.global.u64 [%x+800], 1;\n ret;\n}}
        .file 1 "{tmp_path}/one/k.cuh"\n.file 2 "{tmp_path}/two/k.cuh"\n"""
    )
    reports = device.launch([device.allocate(8)])
    assert [each.source.split("  ")[1] for each in reports] == ["in one", "in two"]


@pytest.mark.volume_but
def test_a_line_of_a_header_belongs_to_each_of_its_uses() -> None:
    """The function of a header is inlined in two kernels, by a function that is inlined too."""
    kernel = """.visible .entry NAME(.param .u64 p) {
        .reg .b64 %x;\n ld.param.u64 %x, [p];
        .loc 1 USE 1\n .loc 2 7 1, function_name L, inlined_at 1 USE 1
        .loc 2 9 1, function_name L, inlined_at 2 7 1\n st.global.u64 [%x+800], 1;\n ret;\n}"""
    text = ".version 8.0\n.target sm_90\n.address_size 64\n"
    for name, use in (("first", "3"), ("second", "5")):
        text += kernel.replace("NAME", name).replace("USE", use) + "\n"
    text += (
        '.file 1 "k.cu"\n.file 2 "/include/k.cuh"\n//| k.cu:\n//| \n//| \n//| one\n//| \n//| two\n'
    )
    device = Device(text)
    address = device.allocate(8)
    found = []
    for name in ("first", "second"):
        device.sanitizer.reports = {}
        found += [each.source for each in device.launch([address], name=name)]
    assert found == ["k.cu:3  one", "k.cu:5  two"]
