"""The choice of compiled code or the interpreter, and what compiled code shares with it."""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from cuda_sources import run_source

from devmod_simulators.ptx import Launch, Machine, Module, PtxError, engines, execution, run_ptx
from devmod_simulators.ptx.compiled import engine, jit
from devmod_simulators.ptx.compiled.translate import translate

pytest.importorskip("llvmlite")

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 o) {
.reg .b64 %x, %y, %z;
.reg .b32 %t, %u, %v, %n;
.reg .pred %p, %q;
ld.param.u64 %x, [o];
mov.u32 %t, %tid.x; mov.u32 %u, %ctaid.x; mov.u32 %n, %ntid.x;
mad.lo.u32 %v, %u, %n, %t; mul.wide.u32 %y, %v, 4; add.u64 %y, %x, %y;
"""


def launched(body: str, grid: int, block: int, count: int = 0, **options: float) -> np.ndarray:
    """Run a kernel whose threads have their number in %v and the address of their element in %y."""
    out = np.zeros(count or grid * block, np.uint32)
    run_ptx(f"{HEAD}{body} ret; }}", "k", grid, block, [out], **options)  # type: ignore[arg-type]
    return out


@pytest.fixture(autouse=True)
def counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Count launches from 0 on, with a cache of its own, when nothing is being compiled. All
    kernels are worth it.
    """
    engine.submit(int).result()
    engines.launches.clear()
    engines.reasons.clear()
    monkeypatch.delenv(engines.SETTING, raising=False)
    monkeypatch.setattr(engine, "COMPILE_SECONDS", 0)
    monkeypatch.setattr(engine, "MANY_THREADS", 0)
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))


def executed() -> tuple[int, int]:
    """Return the launches that were compiled and interpreted."""
    return engines.launches["compiled"], engines.launches["interpreted"]


def test_the_first_launch_of_a_small_kernel_is_compiled() -> None:
    assert launched("st.global.u32 [%y], %v;", 2, 40).tolist() == list(range(80))
    assert executed() == (1, 0)
    assert engines.summary() == "devmod-simulators: 1 launches compiled, 0 interpreted"


def test_the_setting_chooses_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(engines.SETTING, "interpreter")
    assert launched("st.global.u32 [%y], %v;", 1, 4).tolist() == [0, 1, 2, 3]
    assert executed() == (0, 1)


def test_a_large_kernel_is_interpreted_while_it_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = "add.u32 %v, %v, 1;" * engine.MANY_INSTRUCTIONS + "st.global.u32 [%y], %v;"
    assert launched(body, 1, 2).tolist() == [500, 501]
    assert executed() == (0, 1)
    assert engines.reasons == {"k": "it is being compiled"}
    monkeypatch.setenv(engines.SETTING, "compiled")
    assert launched(body, 1, 2).tolist() == [500, 501]
    assert executed() == (1, 1)


LOOP = "W: add.u32 %t, %t, 1; setp.lt.u32 %q, %t, %n; @%q bra W;"
WHY = {"k": "it has not run for as long as its compilation takes"}


MANY = "add.u32 %t, %t, 1;" * engine.MANY_INSTRUCTIONS


@pytest.mark.parametrize(
    ("body", "grid", "compiled"),
    [("", 4, 0), ("", 8, 1), (LOOP, 4, 1), (MANY, 8, 0), (LOOP + MANY, 4, 1), (LOOP * 400, 4, 0)],
    ids=["short", "wide", "loop", "many", "many with a loop", "most"],
)
def test_a_kernel_waits_for_its_compilation_if_it_may_run_for_long(
    body: str, grid: int, compiled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "COMPILE_SECONDS", 100)
    monkeypatch.setattr(engine, "MANY_THREADS", 8 * 32)
    monkeypatch.setattr(engine, "MANY_WITH_LOOPS", 1000)
    for number in range(body.count("W:")):
        body = body.replace("W:", f"L{number}:", 1).replace("bra W", f"bra L{number}", 1)
    launched(f"{body} st.global.u32 [%y], %v;", grid, 32)
    assert executed() == (compiled, 1 - compiled)
    assert engines.reasons == ({} if compiled else WHY)


@pytest.mark.parametrize("body", ["", LOOP])
def test_a_kernel_is_compiled_when_it_has_run_for_as_long(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MANY_THREADS", 1 << 30)
    monkeypatch.setattr(engine, "MANY_WITH_LOOPS", engine.MANY_INSTRUCTIONS)
    monkeypatch.setattr(engine, "COMPILE_SECONDS", 100)
    if body:
        body += MANY
    module = Module(f"{HEAD}{body} st.global.u32 [%y], %v; ret; }}")
    program: Any = module.program("k")
    program.tier = engine.Tier(program)
    with engine.interpreting(program):
        pass
    assert 0 < program.tier.seconds < 100 * program.tier.count
    launch = Launch((1, 1, 1), (32, 1, 1), b"")
    assert engine.compile_program(program, launch) is None
    assert program.compiled is None
    program.tier.seconds = 0
    assert engine.compile_program(program, launch) is None
    engine.submit(int).result()
    assert engine.compile_program(program, launch) is not None


@pytest.mark.volume_but
def test_a_large_kernel_is_compiled_during_a_long_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its later blocks run compiled."""
    monkeypatch.setattr(execution, "LANES", 32)
    monkeypatch.setattr(engine, "COMPILE_SECONDS", 1e-6)
    parts = []
    once = execution.Execution.run

    def run(self: execution.Execution) -> None:
        parts.append(self.blocks)
        once(self)
        if len(parts) < 2:
            return
        while self.program.compiled is None:
            time.sleep(0.001)
        engine.submit(int).result()

    monkeypatch.setattr(execution.Execution, "run", run)
    body = "add.u32 %v, %v, 1;" * engine.MANY_INSTRUCTIONS + "st.global.u32 [%y], %v;"
    expected = np.arange(8 * 32) + engine.MANY_INSTRUCTIONS
    assert (launched(body, 8, 32) == expected).all()
    assert parts == [range(1), range(1, 2)]


def test_a_small_kernel_does_not_wait_long_for_the_compilation_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "_LONGEST_WAIT", 0.01)
    is_over = threading.Event()
    other = engine.submit(is_over.wait)
    try:
        assert launched("st.global.u32 [%y], %v;", 1, 2).tolist() == [0, 1]
        assert executed() == (0, 1)
        assert engines.reasons == {"k": "it is being compiled"}
    finally:
        is_over.set()
    other.result()
    engine.submit(int).result()
    launched("st.global.u32 [%y], %v;", 1, 2)
    assert executed() == (1, 1)


@pytest.mark.parametrize("compiles", ["nothing", "in the background", "in another thread"])
def test_a_child_that_was_forked_launches(compiles: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "cores", lambda: 2)
    monkeypatch.setattr(engine, "_SHARED_THREADS", 0)
    launched("st.global.u32 [%y], %v;", 20, 64)
    is_over = threading.Event()
    other = threading.Thread(target=jit.compile_text, args=("", jit.FIRST))
    if compiles == "in the background":
        engine.submit(is_over.wait)
    elif compiles == "in another thread":
        monkeypatch.setattr(jit, "_compile_text", lambda *_: is_over.wait())
        other.start()
    child = os.fork()
    if not child:
        signal.alarm(120)
        result = launched("add.u32 %v, %v, 1; st.global.u32 [%y], %v;", 20, 64)
        is_right = (result == np.arange(1, 20 * 64 + 1)).all()
        expected = (2, 0) if compiles == "nothing" else (1, 1)
        os._exit(0 if is_right and executed() == expected else 1)
    is_over.set()
    if other.ident is not None:
        other.join()
    assert os.waitpid(child, 0)[1] == 0


def test_instructions_of_calls_count_for_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MANY_INSTRUCTIONS", 40)
    call = "{ .param .b32 a; st.param.b32 [a], %r; call (a), FUNCTION, (a); ld.param.b32 %r, [a]; }"

    def function(name: str, body: str) -> str:
        return f"""
        .func (.param .b32 b) {name}(.param .b32 a) {{
        .reg .b32 %r; ld.param.b32 %r, [a]; {body} st.param.b32 [b], %r; ret; }}
        """

    inner = function("inner", "add.u32 %r, %r, 1;")
    outer = function("outer", 4 * call.replace("FUNCTION", "inner"))
    text = HEAD.replace(".visible", f"{inner} {outer} .visible") + ".reg .b32 %r; mov.b32 %r, %v;"
    text += f"{call.replace('FUNCTION', 'outer')} st.global.u32 [%y], %r; ret; }}"
    out = np.zeros(2, np.uint32)
    run_ptx(text, "k", 1, 2, [out])
    assert out.tolist() == [4, 5]
    assert executed() == (0, 1)
    assert engines.reasons == {"k": "it is being compiled"}


@pytest.mark.parametrize(("most", "codes"), [(20, 2), (5, 1)])
def test_a_small_kernel_gets_better_code(
    most: int, codes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MOST_IMPROVED", most)
    module = Module(f"{HEAD}st.global.u32 [%y], %v; ret; }}")
    compiled = engine.CompiledKernel(module.program("k"))
    compiled.ran(1.0)
    engine.submit(int).result()
    assert len(compiled.codes) == codes


def test_better_code_has_the_registers_of_the_first() -> None:
    """It takes over while warps run."""
    body = "ld.global.v2.u32 {%t, %u}, [%x]; add.u32 %t, %t, %u; st.global.u32 [%y], %t;"
    program = Module(f"{HEAD}{body} ret; }}").program("k")
    first, better = translate(program), translate(program, inlines=True)
    assert len(first.text) < len(better.text)
    for name in ("registers", "warp_bytes", "symbols", "clears", "words"):
        assert getattr(first, name) == getattr(better, name)
    assert [bytes(each) for each in first.sites] == [bytes(each) for each in better.sites]


def test_the_text_of_a_kernel_grows_with_its_branches() -> None:
    def text(count: int) -> str:
        parts = [f"@%p bra X{k}; add.u32 %v, %v, {k}; X{k}:" for k in range(count)]
        module = Module(f"{HEAD}setp.gt.u32 %p, %t, 5; {''.join(parts)} st.global.u32 [%y], %v; }}")
        return translate(module.program("k")).text

    assert len(text(1600)) < 4.5 * len(text(400))


@pytest.mark.volume_but
def test_what_is_not_compiled_is_interpreted() -> None:
    body = "vabsdiff2.u32.u32.u32 %v, %v, %u, %u; st.global.u32 [%y], %v;"
    assert launched(body, 1, 3).tolist() == [0, 1, 2]
    assert executed() == (0, 1)
    assert engines.reasons == {"k": "vabsdiff2.u32.u32.u32: rare"}


class Damaged(ModuleType):
    def __getattr__(self, name: str) -> object:
        raise OSError(f"no library has {name}")


OLD = ModuleType("llvmlite.binding")
vars(OLD)["llvm_version_info"] = (15, 0, 7)


@pytest.mark.parametrize(
    ("binding", "reason"),
    [
        (None, "llvmlite is not installed"),
        (
            Damaged("llvmlite.binding"),
            "llvmlite cannot be used: OSError: no library has llvm_version_info",
        ),
        (
            OLD,
            "llvmlite is too old: it has LLVM 15, expected 20 or newer (pip install -U llvmlite)",
        ),
    ],
)
def test_without_llvmlite_kernels_are_interpreted(
    binding: ModuleType | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite.binding", binding)
    monkeypatch.setattr(jit, "_load", jit._load.__wrapped__)
    monkeypatch.setattr(engine, "MANY_THREADS", 1 << 30)
    engines.prepare()
    assert launched("st.global.u32 [%y], %v;", 1, 2).tolist() == [0, 1]
    assert executed() == (0, 1)
    assert engines.reasons == {"k": reason}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="others have no such processor")
@pytest.mark.volume_but("32")
@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_a_processor_without_gathers(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has other registers for vectors than this one, whose code comes first."""
    number = {8: "%h", 16: "%h", 32: "%w", 64: "%z"}[width]
    body = f"""
    .reg .b16 %h; .reg .b32 %w;
    xor.b32 %t, %v, 5; mul.wide.u32 %y, %t, {width // 8}; add.u64 %y, %x, %y;
    setp.ne.u32 %p, %t, 9;
    @%p ld.global.b{width} {number}, [%y];
    mad.lo.u32 %t, %v, 5, 3; rem.u32 %t, %t, 48; mul.wide.u32 %y, %t, {width // 8};
    add.u64 %y, %x, %y; @%p st.global.b{width} [%y+{6 * width}], {number};
    """
    expected = np.arange(96)
    threads = np.arange(48)
    expected[48 + (5 * threads + 3) % 48] = threads ^ 5
    expected[48 + (5 * (9 ^ 5) + 3) % 48] = 48 + (5 * (9 ^ 5) + 3) % 48
    for processor in (jit.processor(), ("x86-64", "")):
        monkeypatch.setattr(jit, "processor", lambda found=processor: found)
        out = np.arange(96, dtype=f"u{width // 8}")
        run_ptx(f"{HEAD}{body} ret; }}", "k", 1, 48, [out])
        assert out.tolist() == expected.tolist()
    assert executed() == (2, 0)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="others convert halves")
def test_a_processor_without_conversions_of_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "processor", lambda: ("x86-64", ""))
    body = """
    .reg .b16 %h, %g; .reg .f32 %f; .reg .b32 %w;
    ld.global.u32 %n, [%y]; mov.b32 %f, %n; cvt.rn.f16.f32 %h, %f;
    cvt.u16.u32 %g, %v; cvt.f32.f16 %f, %g; mov.b32 %n, %f;
    shr.u32 %n, %n, 13; cvt.u32.u16 %t, %h; shl.b32 %t, %t, 16; xor.b32 %n, %n, %t;
    st.global.u32 [%y], %n;
    """
    numbers = np.arange(1 << 16, dtype=np.uint32)
    floats = numbers.astype(np.uint16).view(np.float16).astype(np.float32)
    near = floats.view(np.uint32) + np.array([0xFFF, 0x1000, 0x1001, 0], np.uint32)[numbers % 4]
    near[::97] = (numbers * 65_521)[::97]
    out = near.copy()
    run_ptx(f"{HEAD}{body} ret; }}", "k", 1 << 8, 1 << 8, [out])
    with np.errstate(all="ignore"):
        halves = near.view(np.float32).astype(np.float16)
    bits = np.where(np.isnan(halves), 0x7FFF, halves.view(np.uint16)).astype(np.uint32)
    assert (out == (floats.view(np.uint32) >> 13 ^ bits << 16)).all()
    assert executed() == (1, 0)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the texts that LLVM parses, in a process that has compiled nothing yet."""
    texts = []
    binding = jit.llvm()
    parse = binding.parse_assembly

    class Counted:
        def __getattr__(self, name: str) -> object:
            return getattr(binding, name)

        def parse_assembly(self, text: str) -> object:
            texts.append(text)
            return parse(text)

    monkeypatch.setattr(jit, "llvm", Counted)
    monkeypatch.setattr(jit, "_linked", {})
    return texts


def test_code_is_cached(parsed: list[str], tmp_path: Path) -> None:
    """A damaged entry is compiled once more."""
    body = "st.global.u32 [%y], %v;"
    launched(body, 1, 2)
    of_kernel_and_store = list((tmp_path / "cache").rglob("*.bin"))
    assert len(of_kernel_and_store) == 2
    parsed.clear()
    launched(body, 1, 2)
    assert parsed == [""]
    for entry in of_kernel_and_store:
        entry.write_bytes(entry.read_bytes()[:-1])
    assert launched(body, 1, 2).tolist() == [0, 1]
    assert [bool(text) for text in parsed] == [False, True, False]


@pytest.mark.volume_but
def test_kernels_share_the_functions_of_their_accesses(parsed: list[str]) -> None:
    """The text of a function does not depend on what its first kernel has before the access."""
    bodies = ["mul.lo.u32 %t, %v, 5; add.u32 %v, %t, 7;", "", "ld.global.u32 %v, [%x+4];"]
    results = []
    for each in bodies:
        jit._linked.clear()  # as in another process with this cache
        results.append(launched(f"{each} st.global.u32 [%y], %v;", 1, 3).tolist())
    assert results == [[7, 12, 17], [0, 1, 2], [0, 0, 0]]
    functions = re.findall(r"define .*@(devmod_\w+)", "".join(parsed))
    assert functions == ["devmod_store_global_32x1", "devmod_load_global_32x1"]


def test_blocks_run_on_all_cores_and_the_first_fault_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "cores", lambda: 4)
    assert (launched("st.global.u32 [%y], %v;", 300, 64) == np.arange(300 * 64)).all()
    with pytest.raises(PtxError) as raised:
        launched("st.global.u32 [%y], %v;", 300, 64, count=250 * 64)
    assert "block (250, 0, 0), thread (0, 0, 0), PTX line 11 (st.global.u32)" in str(raised.value)
    assert executed() == (1, 0)


def test_launches_of_one_kernel_share_nothing_of_their_own() -> None:
    """Contexts are used again for launches of the same shape."""
    machine = Machine()
    module = machine.load(
        f"{HEAD}ld.global.u32 %t, [%y]; add.u32 %t, %t, %v; st.global.u32 [%y], %t; ret; }}"
    )
    places = [machine.allocate(4 * 96), machine.allocate(4 * 120)]

    def launch(place: int, grid: int, block: int) -> list[int]:
        shape = Launch((grid, 1, 1), (block, 1, 1), place.to_bytes(8, "little"))
        machine.launch(module, "k", shape)
        return machine.read(place, np.zeros(96, np.uint32)).tolist()

    def with_numbers(count: int, times: int) -> list[int]:
        return [times * number if number < count else 0 for number in range(96)]

    assert launch(places[0], 2, 40) == with_numbers(80, 1)
    assert launch(places[1], 2, 40) == with_numbers(80, 1)
    assert launch(places[0], 2, 40) == with_numbers(80, 2)
    places.append(machine.allocate(4 * 96))
    assert launch(places[2], 2, 40) == with_numbers(80, 1)
    assert launch(places[2], 1, 80) == with_numbers(80, 2)
    for _ in range(2):
        with pytest.raises(PtxError, match=r"block \(2, 0, 0\), thread \(16, 0, 0\)"):
            launch(places[2], 3, 40)
    twice_and_once = with_numbers(80, 2)[:80] + list(range(80, 96))
    assert launch(places[1], 3, 40) == twice_and_once
    machine.ranges.remove((places[1], 4 * 120))
    with pytest.raises(PtxError, match=r"block \(0, 0, 0\), thread \(0, 0, 0\)"):
        launch(places[1], 3, 40)


@pytest.mark.parametrize("address", [0, 1, 1 << 46, 1 << 47, 1 << 48, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("space", ["", ".global", ".shared", ".local"])
def test_no_address_is_outside_of_the_checks(address: int, space: str) -> None:
    body = f"mov.u64 %z, {address}; ld{space}.u8 %v, [%z]; st.global.u32 [%y], %v;"
    with pytest.raises(PtxError, match="read of 1 bytes at") as raised:
        launched(body, 1, 32)
    assert raised.value.name == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert executed() == (0, 0)
    assert engines.reasons == {}


def test_a_long_block_ends_when_others_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch returns to Python from time to time."""
    monkeypatch.setattr(engine, "cores", lambda: 2)
    monkeypatch.setattr(engine, "_SHARED_THREADS", 0)
    body = """
    setp.eq.u32 %p, %u, 0; @%p bra END;
    W: add.u32 %t, %t, 1; setp.ne.u32 %q, %t, 20000000; @%q bra W;
    END: st.global.u32 [%y], %t;
    """
    assert launched(body, 2, 1).tolist() == [0, 20_000_000]


LARGE_FRAME = """
import resource
import numpy as np
from devmod_simulators.ptx import engines, run_ptx

resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 20))
loads = "".join(f".reg .b64 %l{k}; ld.global.u64 %l{k}, [%x+{k % 30 * 8}];" for k in range(2600))
adds = "".join(f"add.u64 %z, %z, %l{k};" for k in range(2600))
out = np.ones(64, np.uint32)
text = HEAD + f"mov.u64 %z, 0; {loads} {adds} st.global.u32 [%y], %z; ret; }}"
run_ptx(text, "k", 1, 1, [out])
assert out[0] == 2600
print(engines.summary())
"""


def test_code_with_a_large_frame_has_room_on_the_stack() -> None:
    environment = {**os.environ, engines.SETTING: "compiled"}
    run = subprocess.run(
        [sys.executable, "-c", f"HEAD = {HEAD!r}\n{LARGE_FRAME}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == "devmod-simulators: 1 launches compiled, 0 interpreted\n", run.stderr


@pytest.mark.parametrize(("kind", "expected"), [("s8", -128), ("u8", 128), ("s16", 384)])
def test_a_function_loads_a_part_of_an_argument(kind: str, expected: int) -> None:
    function = f"""
    .func (.param .b32 b) widen(.param .b32 a) {{
    .reg .b32 %r; ld.param.{kind} %r, [a]; st.param.b32 [b], %r; ret; }}
    """
    head = HEAD.replace(".visible", f"{function} .visible")
    body = """
    { .param .b32 a; .param .b32 b; add.u32 %v, %v, 0x10180;
    st.param.b32 [a], %v; call (b), widen, (a); ld.param.b32 %v, [b]; }
    st.global.u32 [%y], %v; ret; }
    """
    out = np.zeros(3, np.uint32)
    run_ptx(head + body, "k", 1, 3, [out])
    assert out.view(np.int32).tolist() == [expected, expected + 1, expected + 2]
    assert executed() == (1, 0)


def test_a_block_waits_for_a_later_one() -> None:
    body = """
    setp.ne.u32 %p, %u, 0; @%p bra SET;
    WAIT: ld.volatile.global.u32 %t, [%x+4]; setp.eq.u32 %q, %t, 0; @%q bra WAIT;
    st.global.u32 [%x], %t; bra END;
    SET: st.volatile.global.u32 [%y], 7;
    END:
    """
    assert launched(body, 2, 1).tolist() == [7, 7]
    assert executed() == (1, 0)


@pytest.mark.parametrize(("grid", "block", "who"), [(2, 1, "%u"), (1, 64, "%w"), (1, 32, "%t")])
def test_a_plain_load_waits_for_other_threads(grid: int, block: int, who: str) -> None:
    """The interpreter lets others go on after many passes of any loop."""
    body = f"""
    .reg .b32 %w; shr.u32 %w, %t, 5;
    setp.eq.u32 %p, {who}, 1; @%p bra SET;
    WAIT: ld.global.u32 %n, [%x]; setp.eq.u32 %q, %n, 0; @%q bra WAIT;
    bra END;
    SET: st.global.u32 [%x], 7;
    END:
    """
    assert launched(body, grid, block)[0] == 7
    assert executed() == (1, 0)


def test_blocks_that_wait_are_as_many_as_in_the_interpreter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "LANES", 96)
    out = np.zeros(1000, np.uint32)
    body = "mul.wide.u32 %y, %u, 4; add.u64 %y, %x, %y; st.global.u32 [%y], 1;"
    body += "W: ld.volatile.global.u32 %t, [%x]; setp.ne.u32 %q, %t, 0; @%q bra W;"
    with pytest.raises(PtxError, match="waited for"):
        run_ptx(f"{HEAD}{body} ret; }}", "k", 1000, 32, [out], seconds=0.2)
    assert out.nonzero()[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("count", [2, 4, 8])
def test_vectors_of_all_sizes_are_stored(count: int) -> None:
    registers = [f"%r{number}" for number in range(count)]
    adds = "".join(f"mad.lo.u32 {each}, %v, 100, {n};" for n, each in enumerate(registers))
    body = f"""
    .reg .b32 %r<8>; {adds} mul.wide.u32 %y, %v, {4 * count}; add.u64 %y, %x, %y;
    setp.ne.u32 %p, %t, 11;
    @%p st.global.v{count}.u32 [%y], {{{", ".join(registers)}}};
    """
    head = HEAD.replace(".version 8.0\n.target sm_90", ".version 8.8\n.target sm_100")
    out = np.zeros((64, count), np.uint32)
    run_ptx(f"{head}{body} ret; }}", "k", 2, 32, [out])
    expected = 100 * np.arange(64)[:, None] + np.arange(count)
    expected[[11, 43]] = 0
    assert (out == expected).all()
    assert executed() == (1, 0)


def test_a_lane_waits_for_another_of_its_warp() -> None:
    body = """
    TRY: atom.global.cas.b32 %t, [%x], 0, 1; setp.ne.u32 %p, %t, 0; @%p bra TRY;
    ld.volatile.global.u32 %t, [%x+4]; add.u32 %t, %t, 1; st.volatile.global.u32 [%x+4], %t;
    atom.global.exch.b32 %t, [%x], 0;
    """
    assert launched(body, 2, 48, count=2).tolist() == [0, 96]
    assert executed() == (1, 0)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("W: ld.volatile.global.u32 %t, [%x]; setp.eq.u32 %q, %t, 0; @%q bra W;", "waited for"),
        ("W: add.u32 %t, %t, 1; setp.ne.u32 %q, %n, 99; @%q bra W;", "it has run for 0.5 s, 10"),
    ],
)
def test_an_endless_loop_ends(body: str, reason: str) -> None:
    with pytest.raises(PtxError, match=reason) as raised:
        launched(body, 1, 1, seconds=0.05)
    assert raised.value.name == "CUDA_ERROR_LAUNCH_TIMEOUT"
    assert "block (0, 0, 0), thread (0, 0, 0)" in str(raised.value)


@pytest.mark.volume_but
def test_a_launch_ends_with_its_longest_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread executes a block each; the first one is not the last to end."""
    monkeypatch.setattr(engine, "_SHARED_THREADS", 1)
    body = """mul.lo.u32 %t, %u, 20000000; add.u32 %t, %t, 4000000; mov.u32 %n, 0;
        W: add.u32 %n, %n, 1; xor.b32 %v, %v, %n; setp.lt.u32 %q, %n, %t; @%q bra W;
        mul.wide.u32 %y, %u, 4; add.u64 %y, %x, %y; st.global.u32 [%y], %n;"""
    for _ in range(3):
        assert launched(body, 2, 1, 2).tolist() == [4000000, 24000000]
    assert executed() == (3, 0)


@pytest.mark.volume_but
def test_a_warp_keeps_the_order_of_its_instructions_in_shared_memory() -> None:
    """Old programs add up in a warp without a barrier."""
    steps = "".join(
        f"ld.volatile.shared.u32 %n, [%u]; ld.volatile.shared.u32 %t, [%u+{4 * half}];"
        "add.u32 %n, %n, %t; st.volatile.shared.u32 [%u], %n;"
        for half in (16, 8, 4, 2, 1)
    )
    body = f"""
    .shared .align 4 .b8 s[256];
    shl.b32 %u, %t, 2; mov.u32 %n, s; add.u32 %u, %u, %n;
    st.volatile.shared.u32 [%u], %v; {steps} st.global.u32 [%y], %n;
    """
    assert launched(body, 1, 32)[0] == sum(range(32))
    assert executed() == (1, 0)


PRINTS = r"""extern "C" __global__ void k(float x, const char *lost) {
    __shared__ int shared[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    shared[threadIdx.x] = 3 * i;
    __syncthreads();
    if (i % 2) printf("%5.2f|%-6d|%#x %s %c %llu%% %*d %hd\n", x, i, 255, "text", 'q', 1ull << 40, 4, 7, 70000);
    if (i % 4 == 3) printf("%d\n", printf("%d,", shared[threadIdx.x ^ 1]));
    if (lost && i == 37) printf(lost);
}"""


def printed(thread: int) -> str:
    return f" 1.50|{thread:<6}|0xff text q 1099511627776%    7 4464\n"


@pytest.mark.volume_but("compiled")
@pytest.mark.parametrize("name", ["interpreter", "compiled"])
def test_printf(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The threads of a warp print one line before the next one."""
    monkeypatch.setenv(engines.SETTING, name)
    run_source(PRINTS, 1, 16, [1.5, np.uint64(0)])
    lines = [printed(i) for i in range(1, 16, 2)]
    lines += [f"{3 * (i ^ 1)}," for i in range(3, 16, 4)] + ["0\n"] * 4
    assert capsys.readouterr().out == "".join(lines)
    assert executed() == ((0, 1) if name == "interpreter" else (1, 0))


def test_blocks_print_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    run_source(PRINTS.replace("i % 4 == 3", "i < 0"), 700, 64, [1.5, np.uint64(0)])
    lines = capsys.readouterr().out.splitlines(keepends=True)
    # The warps of a block have no order.
    ordered = [sorted(lines[first : first + 32]) for first in range(0, len(lines), 32)]
    assert ordered == [
        sorted(map(printed, range(first + 1, first + 64, 2))) for first in range(0, 700 * 64, 64)
    ]
    assert executed() == (1, 0)


@pytest.mark.parametrize("name", ["interpreter", "compiled"])
def test_printf_of_a_text_that_is_not_there(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was printed before stays."""
    monkeypatch.setenv(engines.SETTING, name)
    with pytest.raises(PtxError) as raised:
        run_source(PRINTS, 1, 64, [1.5, np.uint64(1 << 46)])
    assert str(raised.value).startswith(
        "CUDA_ERROR_ILLEGAL_ADDRESS: read of 1 bytes at global address 0x400000000000 is out of "
        "bounds, kernel k, block (0, 0, 0), thread (37, 0, 0), "
    )
    assert "".join(map(printed, range(33, 64, 2))) in capsys.readouterr().out


def test_printf_writes_numbers_as_c_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The texts are those of glibc, but for %n, which CUDA does not have."""
    integers = {
        "%#o": "010",
        "%#x": "0x8",
        "%#06X": "0X0008",
        "%+d": "+8",
        "%+u": "8",
        "% i": " 8",
        "%-5d|": "8    |",
        "%06.3d": "   008",
        "%.d": "8",
        "%n": "%n",
    }
    floats = {
        "%a": "0x1.8p+0",
        "%A": "0X1.8P+0",
        "%.0a": "0x2p+0",
        "%.3a": "0x1.800p+0",
        "%+#012a": "+0x0001.8p+0",
        "%-10a|": "0x1.8p+0  |",
    }
    zeros = {"%#x": "0", "%#o": "0", "%.0d": "", "%p": "(nil)"}
    lines: list[str] = []
    body = (
        ".global .align 4 .b8 values[24] = {8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 248, 63};\n"
    )
    calls = ""
    for place, forms in ((0, integers), (8, floats), (16, zeros)):
        for form, expected in forms.items():
            name = f"form{len(lines)}"
            data = f"{form}\n\0".encode()
            body += f".global .b8 {name}[{len(data)}] = {{{', '.join(map(str, data))}}};\n"
            calls += (
                f"mov.u64 %x, {name}; cvta.global.u64 %x, %x;"
                f"mov.u64 %z, values; add.u64 %z, %z, {place}; cvta.global.u64 %z, %z;"
                "{ .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %x;"
                "st.param.b64 [b], %z; call.uni (r), vprintf, (a, b); }\n"
            )
            lines.append(f"{expected}\n")
    declared = ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
    head = HEAD.replace(".visible", f"{declared}{body}.visible", 1)
    for setting in ("interpreter", "compiled"):
        monkeypatch.setenv(engines.SETTING, setting)
        run_ptx(f"{head}{calls} ret; }}", "k", 1, 1, [np.zeros(1, np.uint32)])
        assert capsys.readouterr().out == "".join(lines)
