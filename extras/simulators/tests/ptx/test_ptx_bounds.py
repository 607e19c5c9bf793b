"""Checks of bounds in compiled code: it finds what the interpreter finds, whose reports it has."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from devmod_simulators.ptx import (
    Launch,
    Machine,
    PtxError,
    Sanitizer,
    engines,
    launch_with_checks,
)
from devmod_simulators.ptx.compiled import emit, engine
from devmod_simulators.ptx.lanes import Lanes
from devmod_simulators.ptx.machine import parameter_block, triple

pytest.importorskip("llvmlite")

CHECKS = frozenset({"bounds", "align", "free"})
HEAD = """.version 8.0
.target sm_90
.address_size 64
.global .align 4 .b8 before[64];
.global .align 4 .b8 behind[64];
FUNCTIONS
.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n) {
.reg .b64 %a, %b, %o, %x, %y, %z;
.reg .b32 %t, %u, %v, %n, %s;
.reg .pred %p, %q;
ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u32 %n, [n];
mov.u32 %t, %tid.x; mov.u32 %u, %ctaid.x; mov.u32 %v, %ntid.x; mad.lo.u32 %v, %u, %v, %t;
mul.wide.u32 %o, %v, 4; add.u64 %x, %a, %o; add.u64 %y, %b, %o;
"""
#: The elements of the first array: it has several pieces of memory that are kept at once.
MANY = 781 * 64


class Result(NamedTuple):
    """What a launch has reported, the error, the bytes of memory, and what executed it."""

    reports: list[dict[str, Any]]
    error: str
    memory: bytes
    engines: dict[str, int]


@pytest.fixture(autouse=True, params=[emit.MOST_IMPROVED, 0], ids=["called", "inlined"])
def counts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count launches from 0 on, whose accesses to memory are calls of functions or are inlined."""
    monkeypatch.setattr(emit, "MOST_IMPROVED", request.param)
    engines.launches.clear()
    engines.reasons.clear()
    monkeypatch.setenv(engines.SETTING, "compiled")


def run(
    body: str,
    name: str,
    grid: int = 1,
    block: int = 32,
    *,
    shared: int = 0,
    seconds: float = 60,
    functions: str = "",
    checks: frozenset[str] = CHECKS,
) -> Result:
    """Run a kernel in an engine with two arrays, of MANY and of 64 numbers. The first begins with
    the address of the second.
    """
    engines.launches.clear()
    machine = Machine(1 << 21)
    text = HEAD.replace("FUNCTIONS", functions)
    module = machine.load(f"{text}{body} END: ret; }}\n")
    sanitizer = Sanitizer(machine.arena)
    values = []
    for count in (MANY, 64):
        address = machine.allocate(4 * count)
        machine.write(address, np.arange(count, dtype=np.uint32))
        sanitizer.allocated(address, 4 * count, f"app.py:{count}", True)
        values.append(address)
    machine.write(values[0], np.array([values[1]], np.uint64))
    program = module.program("k")
    launch = Launch(
        triple(grid),
        triple(block),
        parameter_block(program, [*values, MANY]),
        shared,
        seconds=seconds,
    )
    error = ""
    ranges = sorted(machine.ranges)
    try:
        launch_with_checks(sanitizer, module, "k", launch, checks, ranges, engine=name)
    except PtxError as failure:
        error = f"{failure.name}: {failure.text}"
    reports = [{**each.fields(), "detail": each.detail} for each in sanitizer.reports.values()]
    memory = machine.arena.bytes[: machine.top - machine.arena.base].tobytes()
    return Result(reports, error, memory, dict(engines.launches))


def in_both(body: str, *arguments: Any, **options: Any) -> Result:
    """Return the result of compiled code, after a comparison with that of the interpreter."""
    expected = run(body, "interpreter", *arguments, **options)
    assert expected.engines == {"interpreted": 1}
    found = run(body, "", *arguments, **options)
    assert found[:3] == expected[:3]
    return found


SHARED = ".shared .align 4 .b8 s[64]; .shared .align 4 .b8 r[64]; shl.b32 %s, %t, 2;"
FRAME = """.func inner(.param .b32 a) {
.local .align 4 .b8 own[32];
.reg .b32 %r; .reg .b32 %w;
ld.param.b32 %r, [a]; mov.u32 %w, own; add.u32 %w, %w, %r; st.local.u32 [%w], %r; ret; }
"""
CALL = ".local .align 4 .b8 mine[32]; st.local.u32 [mine], 0; { .param .b32 p;"

INNOCENTS = {
    "all elements": "ld.global.u32 %s, [%x]; add.u32 %s, %s, 1; st.global.u32 [%x], %s;",
    "both arrays": """
        setp.lt.u32 %p, %v, 64; @!%p bra END;
        ld.global.u32 %s, [%y]; red.global.add.u32 [%x+512], %s;""",
    "four elements": """
        .reg .b32 %r<4>; setp.lt.u32 %p, %v, 16; @!%p bra END;
        mul.wide.u32 %z, %v, 16; add.u64 %z, %b, %z;
        ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%z]; st.global.v4.u32 [%z], {%r3, %r2, %r1, %r0};""",
    "one of two arrays": """
        and.b32 %s, %t, 1; setp.eq.u32 %p, %s, 0; setp.lt.u32 %q, %v, 64; @!%q bra END;
        selp.b64 %z, %x, %y, %p; st.global.u32 [%z], 7;""",
    "an address in memory": """
        ld.global.u64 %z, [%a]; and.b32 %s, %v, 63; mul.wide.u32 %o, %s, 4; add.u64 %z, %z, %o;
        st.global.u32 [%z], %s;""",
    "a variable": """
        mov.u64 %z, before; and.b32 %s, %t, 15; mul.wide.u32 %o, %s, 4; add.u64 %z, %z, %o;
        atom.global.add.u32 %n, [%z], 1;""",
    "scattered": """
        mul.lo.u32 %s, %v, 7919; rem.u32 %s, %s, %n; mul.wide.u32 %o, %s, 4; add.u64 %z, %a, %o;
        st.global.u32 [%z], %v;""",
    "shared": f"""{SHARED} setp.lt.u32 %p, %t, 16; @!%p bra END;
        mov.u32 %u, r; add.u32 %u, %u, %s; st.shared.u32 [%u], %t; ld.shared.u32 %n, [%u];
        st.global.u32 [%x], %n;""",
    "a generic address of shared memory": f"""{SHARED} setp.lt.u32 %p, %t, 16; @!%p bra END;
        mov.u64 %z, s; cvta.shared.u64 %z, %z; cvt.u64.u32 %o, %s; add.u64 %z, %z, %o;
        st.u32 [%z], %t; ld.u32 %n, [%z]; st.global.u32 [%x], %n;""",
    "the frame of a function": f"{CALL} st.param.b32 [p], 28; call inner, (p); }}",
}

COPY = f"""{SHARED} setp.lt.u32 %p, %t, 4; @!%p bra END;
    mov.u32 %u, s; shl.b32 %n, %t, 4; add.u32 %u, %u, %n;
    shl.b32 %n, %v, 4; cvt.u64.u32 %o, %n; rem.u64 %o, %o, 256; add.u64 %z, %b, %o;"""
COPIED = """cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
    ld.shared.u32 %n, [%u]; ld.shared.u32 %s, [%u+12]; add.u32 %n, %n, %s;
    st.global.u32 [%x], %n;"""
INNOCENTS |= {
    "asynchronous copies": f"{COPY} cp.async.cg.shared.global [%u], [%z], 16; {COPIED}",
    "asynchronous copies of some bytes": f"""{COPY} mul.lo.u32 %s, %v, 5; and.b32 %s, %s, 31;
        cp.async.cg.shared.global [%u], [%z], 16, %s; {COPIED}""",
    "asynchronous copies with a policy": f"""{COPY} mov.b64 %o, 4;
        cp.async.cg.shared.global.L2::cache_hint [%u], [%z], 16, %o; {COPIED}""",
    "asynchronous copies of some lanes": f"""{COPY} setp.lt.u32 %p, %t, 2;
        cp.async.cg.shared.global [%u], [%z], 16, %p; {COPIED}""",
}

FAULTS = {
    "an asynchronous copy from behind the array": (
        f"{COPY} setp.eq.u32 %p, %v, 65; @%p cp.async.cg.shared.global [%u], [%b+256], 16;",
        ["out of bounds (read)"],
    ),
    "an asynchronous copy of too many bytes": (
        f"{COPY} setp.eq.u32 %p, %v, 65; mov.u32 %s, 9;"
        "@%p cp.async.cg.shared.global [%u], [%b+248], 16, %s;",
        ["out of bounds (read)"],
    ),
    "an asynchronous copy to a neighbour in shared memory": (
        f"{COPY} setp.eq.u32 %p, %t, 3; @%p cp.async.cg.shared.global [%u+16], [%z], 16;",
        ["out of bounds (write)"],
    ),
    "one element more": (
        "ld.global.u32 %s, [%x+4]; add.u32 %s, %s, 1; st.global.u32 [%x], %s;",
        ["out of bounds (read)"],
    ),
    "before the array": ("st.global.u32 [%x+-4], 1;", ["out of bounds (write)"]),
    "a jump into another array": (
        "sub.u64 %z, %b, %a; add.u64 %z, %z, %x; setp.lt.u32 %p, %v, 64; @%p st.global.u32 [%z], 5;",
        [],
    ),
    "a known distance to another array": (
        "setp.eq.u32 %p, %v, 33; @%p st.global.u32 [%x+200192], 5;",
        ["out of bounds (write)"],
    ),
    "a neighbouring variable": (
        "mov.u64 %z, before; setp.eq.u32 %p, %v, 40; @%p st.global.u32 [%z+512], 5;",
        ["out of bounds (write)"],
    ),
    "a neighbour in shared memory": (
        f"{SHARED} mov.u32 %u, s; add.u32 %u, %u, %s; st.shared.u32 [%u], %t;",
        ["out of bounds (write)"],
    ),
    "a generic address of a neighbour in shared memory": (
        f"""{SHARED} mov.u64 %z, s; cvta.shared.u64 %z, %z; cvt.u64.u32 %o, %s;
        add.u64 %z, %z, %o; st.u32 [%z], %t;""",
        ["out of bounds (write)"],
    ),
    "before the first variable in shared memory": (
        f"""{SHARED} mov.u32 %u, s; add.u32 %u, %u, %s; setp.lt.u32 %p, %t, 16;
        @%p ld.shared.u32 %n, [%u+-4]; @%p st.global.u32 [%x], %n;""",
        ["out of bounds (read)"],
    ),
    "before shared memory": (
        "mov.u32 %u, -4; setp.eq.u32 %p, %t, 1; @%p atom.shared.add.u32 %s, [%u], 1;",
        ["out of bounds (atomic)"],
    ),
    "the rest of the last piece of shared memory": (
        "ld.shared.u32 %s, [68]; st.global.u32 [%x], %s;",
        ["out of bounds (read)"],
    ),
    "behind the frame of a function": (
        f"{CALL} st.param.b32 [p], 32; call inner, (p); }}",
        [],
    ),
    "misaligned": ("ld.global.u32 %s, [%x+2]; st.global.u32 [%x], %s;", ["misaligned (read)"]),
    "a null pointer": ("mov.u64 %z, 0; ld.global.u32 %s, [%z];", ["out of bounds (read)"]),
    "an atomic access": (
        "setp.eq.u32 %p, %v, 9; @%p atom.global.add.u32 %s, [%b+256], 1;",
        ["out of bounds (atomic)"],
    ),
    "the last thread, after all have written": (
        """ld.global.u32 %s, [%x]; add.u32 %s, %s, 1; st.global.u32 [%x], %s;
        setp.eq.u32 %p, %v, 49983; @%p st.global.u32 [%x+4096], 1;""",
        ["out of bounds (write)"],
    ),
    "a trap, after all have written": (
        """atom.global.add.u32 %s, [%x], 1; setp.ne.u32 %p, %v, 49983; @%p bra END; trap;""",
        [],
    ),
}


@pytest.mark.volume_but("called-all elements")
@pytest.mark.parametrize("title", INNOCENTS)
def test_innocents_run_compiled(title: str) -> None:
    for grid in (1, 781):
        found = in_both(INNOCENTS[title], grid, 64, functions=FRAME)
        assert found.reports == []
        assert not found.error
        assert found.engines == {"compiled": 1}


@pytest.mark.parametrize("cores", [1, 4])
@pytest.mark.parametrize("title", FAULTS)
def test_faults_have_the_reports_of_the_interpreter(
    title: str, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "cores", lambda: cores)
    body, kinds = FAULTS[title]
    found = in_both(body, 781, 64, functions=FRAME, shared=64)
    assert [each["kind"] for each in found.reports] == kinds
    if kinds or found.error:
        assert found.engines == {"interpreted": 1}
        assert engines.reasons == {"k": "a fault, which the interpreter reports"}


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (
            f"{SHARED} mov.u32 %u, s; st.shared.u32 [%u+-8], %t;",
            "s[-2]; s is uint32[16] in shared memory",
        ),
        ("mov.u32 %u, -4; st.shared.u32 [%u], %t;", "byte -4 of 64 bytes of shared memory"),
        (
            ".local .align 4 .b8 l[16]; mov.u64 %z, l; st.local.u32 [%z+-4], %t;",
            "byte -4 of 16 bytes of local memory",
        ),
    ],
)
def test_an_index_below_0_has_its_sign(body: str, place: str) -> None:
    found = in_both(body, shared=64)
    assert [each["detail"] for each in found.reports] == [f"4 bytes at {place}"]


def test_memory_that_is_freed_is_no_array() -> None:
    machine = Machine(1 << 20)
    module = machine.load(HEAD.replace("FUNCTIONS", "") + "ld.global.u32 %s, [%x]; ret; }\n")
    sanitizer = Sanitizer(machine.arena)
    address = machine.allocate(256)
    sanitizer.allocated(address, 256, "app.py:1", True)
    block = parameter_block(module.program("k"), [address, 0, 0])
    launch = Launch((1, 1, 1), (32, 1, 1), block)

    def kinds() -> list[str]:
        ranges = sorted(machine.ranges)
        return [
            each.kind for each in launch_with_checks(sanitizer, module, "k", launch, CHECKS, ranges)
        ]

    assert kinds() == []
    assert engines.launches == {"compiled": 1}
    sanitizer.released(address, "app.py:2")
    machine.ranges.pop()
    assert kinds() == ["use after free (read)"]
    assert engines.launches == {"compiled": 1, "interpreted": 1}


def test_memory_without_access_is_named() -> None:
    """It is that of another device, for example."""
    machine = Machine(1 << 20)
    module = machine.load(HEAD.replace("FUNCTIONS", "") + "ld.global.u32 %s, [%x]; ret; }\n")
    sanitizer = Sanitizer(machine.arena)
    address = machine.allocate(128)
    sanitizer.allocated(address, 128, "app.py:1", True)
    block = parameter_block(module.program("k"), [address, 0, 0])
    launch = Launch((1, 1, 1), (33, 1, 1), block)
    reports = launch_with_checks(sanitizer, module, "k", launch, CHECKS, [])
    assert [(each.kind, each.detail) for each in reports] == [
        (
            "out of bounds (read)",
            "4 bytes at argument 1[0]; argument 1 is uint32[32], allocated at app.py:1; this "
            "device has no access to it, which cuCtxEnablePeerAccess, cuMemPoolSetAccess or "
            "cuMemSetAccess gives",
        )
    ]


def test_a_launch_that_does_not_end_is_not_repeated() -> None:
    body = "W: ld.volatile.global.u32 %t, [%x]; setp.ne.u32 %q, %t, 99; @%q bra W;"
    found = run(body, "", seconds=0.2)
    assert found.error.startswith("CUDA_ERROR_LAUNCH_TIMEOUT: the kernel does not end")
    assert found.engines == {}


@pytest.mark.parametrize("name", ["interpreter", ""])
def test_the_blocks_of_a_launch_share_its_time(name: str) -> None:
    found = run("", name, (1 << 31) - 1, seconds=0.02)
    assert "it has run for 0.2 s, 10 times the limit" in found.error


@pytest.mark.parametrize("check", ["race", "sync", "init"])
def test_other_checks_are_the_interpreter_s(check: str) -> None:
    found = run("st.global.u32 [%x], 1;", "", checks=CHECKS | {check})
    assert found.reports == []
    assert found.engines == {"interpreted": 1}
    assert engines.reasons == {"k": "checks of more than bounds"}


def test_the_heap_is_the_interpreter_s() -> None:
    machine = Machine(1 << 20)
    module = machine.load(HEAD.replace("FUNCTIONS", "") + "st.global.u32 [%x], %v; ret; }\n")
    sanitizer = Sanitizer(machine.arena)
    heap = sanitizer.arena.heap = sanitizer.arena.make_heap()
    address = heap.allocate(128)
    launch = Launch((1, 1, 1), (32, 1, 1), parameter_block(module.program("k"), [address, 0, 0]))
    assert launch_with_checks(sanitizer, module, "k", launch, CHECKS, machine.ranges) == []
    assert heap.bytes.view(np.uint32)[4:36].tolist() == list(range(32))
    assert engines.launches == {"interpreted": 1}


def test_the_values_of_a_store_are_not_those_of_a_later_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A read with a fault took them, for each of its lanes: 50 s for a million threads."""
    spread = Lanes.spread

    def checked(lanes: Lanes, value: np.ndarray) -> np.ndarray:
        assert len(value) in (1, lanes.count)
        return spread(lanes, value)

    monkeypatch.setattr(Lanes, "spread", checked)
    body = "st.global.u32 [%x], %v; setp.lt.u32 %p, %v, 65; @%p ld.global.u32 %s, [%y];"
    found = run(body, "interpreter", 8, 64)
    assert [each["kind"] for each in found.reports] == ["out of bounds (read)"]
