"""The table of instructions: both engines have what it says, and nothing else runs."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from each_case import check_each
from numpy.testing import assert_array_equal
from ptx_snippets import run_alike, run_snippet

from devmod_simulators.ptx import PtxError, program
from devmod_simulators.ptx.compiled import operations, together, translate
from devmod_simulators.ptx.decoder import OPERATIONS
from devmod_simulators.ptx.ends import ENDS
from devmod_simulators.ptx.instructions import forms, opcode_of


@pytest.mark.volume_but
def test_each_engine_has_the_instructions_of_the_table() -> None:
    assert program, translate  # they register all
    assert OPERATIONS.keys() | ENDS.keys() == forms().keys()
    compiled = {
        name for name, each in forms().items() if any(not form.interpreted for form in each)
    }
    flow = {"bra", "brx", "ret", "exit", "trap", "bar", "barrier"}
    have = operations.OPERATIONS.keys() | together._OPERATIONS_OF_WARPS.keys() | flow
    assert have == compiled


@pytest.mark.volume_but
def test_the_table_has_a_form() -> None:
    """Of the forms of a name, the first that fits; types have an order, other parts have none."""
    cases = {
        "add.f32": ("Arithmetic of floats", ""),
        "add.s32": ("Arithmetic of integers", ""),
        "add.rz.f32.f16": ("Arithmetic of floats", "a second rounding would follow"),
        "add.f16.f32": None,
        "add.f32.f32": None,
        "mul.s32": None,
        "mul.wide.s64": None,
        "mul.lo.hi.s32": None,
        "ld.f32": ("Memory", ""),
        "ld.global.volatile.v2.u8": ("Memory", ""),
        "ld.mmio.relaxed.sys.global.b64": ("Memory", ""),
        "ld.global.shared.u32": None,
        "ld.b128": ("Memory", "128 bits"),
        "ld": None,
        "atom.global.gpu.acquire.cas.b32": ("Atomic operations", ""),
        "atom.add.b32": None,
        "cvt.rn.bf16x2.f32": ("Moves and conversion", ""),
        "cvt.rn.relu.bf16x2.f32": ("Moves and conversion", "a second rounding would follow"),
        "cvt.rs.bf16x2.f32": None,
        "setp.lt.f16x2": ("Comparison and selection", "a pair"),
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32": ("Operations of a warp", ""),
        "mma.m16n8k16.row.col.f32.f16.f16.f32": None,
        "fence.proxy.async.shared::cta": ("Without an effect", ""),
        "frobnicate": None,
    }

    def check(opcode: str) -> None:
        form = opcode_of(opcode).form
        found = None if form is None else (form.family, form.interpreted)
        assert found == cases[opcode]

    check_each(cases, check)


#: Opcodes that ptxas of CUDA 13.0 takes for sm_90 or sm_100a, and others that it takes for neither.
#: It refuses .volatile in local memory too, which NVRTC 13.5 writes.
TAKEN = """
ld.b8 ld.weak.param.u32 ld.volatile.local.u32 st.volatile.local.f32 ld.volatile.shared.f64 ld.volatile.global.L2::128B.b32
ld.relaxed.gpu.shared::cluster.u64 ld.acquire.sys.global.L1::evict_last.L2::64B.b32
ld.mmio.relaxed.sys.global.b32 ld.const.cs.b32 ld.local.lu.s16 ld.global.ca.L2::128B.b32
ld.global.cg.nc.v4.f32 ld.global.nc.L1::no_allocate.v2.b64 ld.acquire.gpu.shared.b128
st.weak.local.wb.b32 st.relaxed.cta.shared::cta.b32 st.release.sys.global.L1::evict_first.b32
st.volatile.b128 st.mmio.relaxed.sys.b32 st.shared.cg.v2.b64
atom.add.s32 atom.add.u64 atom.acq_rel.cluster.shared::cluster.add.f64 atom.inc.u32
atom.shared.dec.u32 atom.max.s64 atom.relaxed.gpu.global.xor.b64 atom.exch.b32 atom.cas.b16
atom.add.noftz.bf16 atom.shared.add.noftz.f16x2 atom.global.min.noftz.v4.f16x2
atom.global.add.noftz.v8.f16 atom.global.add.v2.f32 atom.exch.b128
red.release.gpu.add.u32 red.relaxed.cta.shared.and.b32 red.min.s64 red.add.noftz.f16
red.global.max.noftz.v8.bf16 red.global.add.v4.f32
cvt.rn.bf16x2.f32 cvt.rn.relu.satfinite.bf16x2.f32 cvt.rz.relu.satfinite.tf32.f32 cvt.rna.satfinite.tf32.f32
bar.sync bar.cta.sync barrier.cta.sync.aligned bar.cta.red.popc.u32 barrier.red.popc.aligned.u32
isspacep.param membar.gl fence.sc.cta fence.acq_rel.gpu fence.proxy.async.global
fence.mbarrier_init.release.cluster fence.acquire.sync_restrict::shared::cluster.cluster
"""
REFUSED = """
ld.f16 ld.relaxed.b32 ld.acquire.global.b32 ld.release.gpu.b32 ld.gpu.b32 ld.weak.gpu.b32
ld.volatile.global.ca.b32
ld.volatile.global.L1::evict_last.b32 ld.relaxed.gpu.local.b32 ld.relaxed.gpu.global.cg.b32
ld.acquire.gpu.shared.L1::evict_last.b32 ld.mmio.relaxed.gpu.b32 ld.mmio.relaxed.sys.shared.b32
ld.mmio.relaxed.sys.global.v2.b32 ld.shared.L2::128B.b32 ld.const.L1::evict_last.b32
ld.global.ca.L1::evict_last.b32 ld.nc.b32 ld.shared.nc.b32 ld.weak.global.nc.b32 ld.global.cv.nc.b32
st.f16 st.const.b32 st.relaxed.b32 st.acquire.gpu.b32 st.global.L2::128B.b32
st.global.wb.L1::evict_last.b32 st.shared.L1::evict_last.b32 st.release.gpu.global.cg.b32
atom.add.s64 atom.add.b32 atom.inc.u64 atom.dec.s32 atom.min.b32 atom.and.u32 atom.xor.s64
atom.exch.u32 atom.exch.f32 atom.cas.u32 atom.cas.f64 atom.add.f16 atom.add.noftz.f32
atom.max.noftz.bf16x2 atom.shared.add.noftz.v2.f16 atom.global.add.noftz.v8.f16x2
atom.global.add.v8.f32 atom.local.add.u32 atom.const.add.u32 atom.add.v2.f64
red.acquire.gpu.add.u32 red.acq_rel.gpu.add.u32 red.add.s64 red.or.u32 red.exch.b32
red.min.noftz.f16 red.param.add.u32
cvt.rn.ftz.bf16x2.f32 cvt.rna.relu.tf32.f32 cvt.rna.relu.satfinite.tf32.f32
bar.sync.aligned bar.cta.red.and.aligned.pred isspacep.param::func membar.gpu fence.sc
fence.acq_rel fence.relaxed.gpu
"""


@pytest.mark.parametrize(("opcodes", "are_taken"), [(TAKEN, True), (REFUSED, False)])
def test_the_table_has_the_opcodes_that_ptxas_takes(opcodes: str, are_taken: bool) -> None:
    wrong = [each for each in opcodes.split() if bool(opcode_of(each).form) != are_taken]
    assert wrong == []


#: The reason is that of the parts that no form of the instruction has, or of all of the opcode.
LACKING = {
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%x], %a, [%x];": (
        ".async .mbarrier::complete_tx::bytes of this instruction"
    ),
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%x], %a, [%y];": (
        ".async .mbarrier::complete_tx::bytes of this instruction"
    ),
    "mbarrier.arrive.release.cluster.shared::cluster.multicast::cluster::32b.b64 _, [%x], 1, %a;": (
        ".multicast::cluster::32b of this instruction"
    ),
    "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%x], [%y], 16, %a;": (
        ".cp_mask of this instruction"
    ),
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%x], [%y], 16, [%x], 3;": (
        ".multicast::cluster of this instruction"
    ),
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%x], [%y], 16;": (
        ".reduce .add .u32 of this instruction"
    ),
    "tex.2dms.v4.f32.s32 {%a, %a, %a, %a}, [%x, {%a, %a, %a, %a}];": ".2dms of this instruction",
    "mul.s32 %o, %a, %a;": "this form of the instruction",
    "add.sat.s64 %x, %x, %x;": "this form of the instruction",
    "add.rn.s32 %o, %a, %a;": "this form of the instruction",
    "fma.rn.oob.f16 %o, %a, %a, %a;": ".oob of this instruction",
    "fma.f32 %o, %a, %a, %a;": "this form of the instruction",
    "mad.f32 %o, %a, %a, %a;": "this form of the instruction",
    "mad.f64 %x, %x, %x, %x;": "this form of the instruction",
    "div.ftz.f32 %o, %a, %a;": "this form of the instruction",
    "sqrt.f32 %o, %a;": "this form of the instruction",
    "rcp.ftz.f32 %o, %a;": "this form of the instruction",
    "min.ftz.bf16 %o, %a, %a;": "this form of the instruction",
    "ex2.approx.bf16 %o, %a;": "this form of the instruction",
    "setp.lt.b32 %qa, %a, %a;": "this form of the instruction",
    "setp.lo.s32 %qa, %a, %a;": "this form of the instruction",
    "setp.leu.u32 %qa, %a, %a;": "this form of the instruction",
    "setp.hs.f32 %qa, %a, %a;": "this form of the instruction",
    "setp.lt.ftz.f64 %qa, %a, %a;": "this form of the instruction",
    "set.eq.f16x2.f32 %o, %a, %a;": "this form of the instruction",
    "set.num.u32.s32 %o, %a, %a;": "this form of the instruction",
    "cvt.f32.s32 %o, %a;": "this form of the instruction",
    "cvt.sat.u32.u32 %o, %a;": "this form of the instruction",
    "cvt.rn.f32.f16 %o, %a;": "this form of the instruction",
    "cvt.f16.f32 %o, %a;": "this form of the instruction",
    "cvt.rn.sat.relu.f16.f32 %o, %a;": "this form of the instruction",
    "cvt.sat.s64.u32 %x, %a;": "this form of the instruction",
    "cvt.rzi.ftz.s32.f64 %o, %x;": "this form of the instruction",
    "cvt.rn.ftz.f64.s32 %x, %a;": "this form of the instruction",
    "cvt.s32.f32 %o, %a;": "this form of the instruction",
}


def test_an_opcode_that_the_table_lacks_is_not_supported() -> None:
    def check(body: str) -> None:
        with pytest.raises(PtxError) as caught:
            run_alike(body, "u32", [1])
        opcode = body.partition(" ")[0]
        expected = (
            rf"line \d+: {re.escape(opcode)}: the interpreter lacks {re.escape(LACKING[body])}"
        )
        assert caught.value.name == "CUDA_ERROR_NOT_SUPPORTED"
        assert re.fullmatch(expected, caught.value.text), caught.value.text

    check_each(LACKING, check)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("add.u32 %o, %a;", "3 operands, got 2"),
        ("min.f32 %o, %a;", "3 or 4 operands, got 2"),
        ("not.b32 %o, %a, %a;", "2 operands, got 3"),
        ("mad.lo.u32 %o, %a, %a;", "4 operands, got 3"),
        ("setp.lt.u32 %w, %a, %a, %w;", "3 operands, got 4"),
        ("setp.lt.and.u32 %w, %a, %a;", "4 operands, got 3"),
    ],
)
def test_another_number_of_operands_is_invalid(body: str, expected: str) -> None:
    with pytest.raises(PtxError) as caught:
        run_alike(body, "u32", [1])
    assert caught.value.name == "CUDA_ERROR_INVALID_PTX"
    assert caught.value.text.endswith(f"{body.partition(' ')[0]}: expected {expected}")


#: A literal has the type of its instruction; halves have none. ptxas refuses these too.
LITERALS = {
    "add.f32 %o, %a, 1;": ".f32 is an integer",
    "selp.f32 %o, 0x3f800000, %a, %w;": ".f32 is an integer",
    "mov.f32 %o, 0;": ".f32 is an integer",
    "st.global.f32 [%x], 1;": ".f32 is an integer",
    "st.global.v2.f32 [%x], {%o, 1};": ".f32 is an integer",
    "setp.lt.f64 %w, %x, 1;": ".f64 is an integer",
    "fma.rn.f16x2 %o, %a, %a, 0x3c003c00;": ".f16x2 is an integer",
    "fma.rn.f16x2 %o, %a, %a, 0f3F800000;": ".f16x2 is a float",
    "cvt.rzi.s32.f32 %o, 1;": ".f32 is an integer",
    "cvt.rn.f32.s32 %o, 0f3F800000;": ".s32 is a float",
    "mov.u32 %o, 0f3F800000;": ".u32 is a float",
    "atom.global.add.f32 %o, [%x], 1;": ".f32 is an integer",
}


@pytest.mark.volume_but
def test_a_literal_of_another_type_is_invalid() -> None:
    def check(body: str) -> None:
        with pytest.raises(PtxError) as caught:
            run_alike(body, "u32", [1])
        assert caught.value.name == "CUDA_ERROR_INVALID_PTX"
        opcode = body.partition(" ")[0]
        assert caught.value.text.endswith(f"{opcode}: an operand of {LITERALS[body]}")

    check_each(LITERALS, check)
    for body in ("mov.b32 %o, 0f3F800000;", "and.b32 %o, 0f3F800000, -1;"):
        assert run_alike(body, "u32", [1]).tolist() == [0x3F800000]


def pairs(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return registers of two numbers of 16 bits."""
    return (np.uint32(high & 0xFFFF) << np.uint32(16)) | np.uint32(low & 0xFFFF)


A = np.array([3, -5, 32000, -32000, 32767, -32768, 0, 40000], np.int64)
B = np.array([-7, -6, 1000, -1000, 1, -1, 9, 30000], np.int64)
WIDE_A = np.array([2**31 - 3, -(2**31), 7, -1, 2**32 - 1, 12, -(2**31), 5], np.int64)
WIDE_B = np.array([5, -9, -8, -1, 2, -13, 2**31 - 1, 2**32 - 6], np.int64)


def number(value: np.ndarray, bits: int, *, signed: bool) -> np.ndarray:
    """Return the number that the low bits of a value are."""
    value = value & ((1 << bits) - 1)
    return value - (value >> bits - 1 << bits) if signed else value


@pytest.mark.parametrize("name", ["add", "sub"])
@pytest.mark.parametrize("kind", ["u32", "s32", "u16x2", "s16x2"])
def test_sums_are_saturated(name: str, kind: str) -> None:
    bits, signed = (16 if kind.endswith("x2") else 32), kind.startswith("s")
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        x, y = (number(each, bits, signed=signed) for each in (a, b))
        return np.clip(x + y if name == "add" else x - y, low, high)

    if bits == 16:
        inputs = pairs(A, B), pairs(B, A[::-1])
        expected = pairs(exact(A, B), exact(B, A[::-1]))
    else:
        inputs = np.uint32(WIDE_A & 0xFFFFFFFF), np.uint32(WIDE_B & 0xFFFFFFFF)
        expected = np.uint32(exact(WIDE_A, WIDE_B) & 0xFFFFFFFF)
    out = run_alike(f"{name}.sat.{kind} %o, %a, %b;", "u32", *inputs)
    assert_array_equal(out, expected)


@pytest.mark.parametrize(("name", "function"), [("min", np.minimum), ("max", np.maximum)])
def test_an_extreme_of_pairs_is_no_less_than_0(name: str, function: np.ufunc) -> None:
    x, y = (number(each, 16, signed=True) for each in (A, B))
    expected = pairs(np.maximum(function(x, y), 0), np.maximum(function(y, x[::-1]), 0))
    out = run_alike(f"{name}.relu.s16x2 %o, %a, %b;", "u32", pairs(A, B), pairs(B, A[::-1]))
    assert_array_equal(out, expected)


def test_a_sum_of_a_product_of_24_bits_is_saturated() -> None:
    a = np.array([0x7FFFFF, -0x800000, 0x7FFFFF, 12345], np.int32)
    b = np.array([0x7FFFFE, 0x7FFFFF, -0x800000, -54321], np.int32)
    c = np.array([2**31 - 5, -(2**31) + 9, 6, -77], np.int32)
    out = run_alike("mad24.hi.sat.s32 %o, %a, %b, %c;", "s32", a, b, c)
    exact = (np.int64(a) * np.int64(b) >> 16) + c
    assert_array_equal(out, np.clip(exact, -(2**31), 2**31 - 1))


@pytest.mark.parametrize(
    ("suffix", "expected"), [("min", -3), ("max", 9), ("max.abs", 9), ("min.abs.NaN", np.nan)]
)
def test_a_reduction_of_floats_with_nan(suffix: str, expected: float) -> None:
    values = np.full(32, 4, np.float32)
    values[[3, 17, 30]] = np.nan, 9, -3
    out = run_snippet(f"redux.sync.{suffix}.f32 %o, %a, -1;", [("f32", values)], "f32")
    assert_array_equal(out, np.full(32, expected, np.float32))


#: What CUDA's headers have and the simulated GPU lacks.
MISSING = (
    r"(add|sub|min|max)(\.sat)?\.[us]8x4",
    r"cp\.(async\.bulk(?!\.prefetch)|reduce).*\.(multicast|override|cta_group|mbarrier::report|ignore_oob|cp_mask"
    r"|sync_restrict|tile::|im2col|reduce)|cp\.reduce",
    # ptxas of CUDA 13.0 refuses these too.
    r"cvt.*\.ue5m3x2|cvt\.rz.*\.(e2m1|e2m3|e3m2)x2|cvt.*\.(e2m1|e2m3|e3m2)x2\.bf16x2",
    r"cvt.*\.bf16x2\.(e2m1|e2m3|e3m2)x2|cvt.*\.(e2m3|e3m2)x2\.f16x2",
    r"cvt.*\.(e[45]m[23]x2\.bf16x2|bf16x2\.e[45]m[23]x2)",
    r"mbarrier.*\.(multicast|layout|check_layout|phase_type)|red\.async|st\.async|st\.bulk",
    r"stmatrix.*m16n8|ldmatrix.*(m16n16|m8n16)|cvta.*u32",
)


def test_an_instruction_of_cudas_headers_has_a_form() -> None:
    try:
        files = metadata.files("nvidia-cuda-runtime") or []
        files += metadata.files("nvidia-cuda-cccl") or []
    except metadata.PackageNotFoundError:
        pytest.skip("NVIDIA's headers are not installed (nvidia-cuda-runtime, nvidia-cuda-cccl)")
    found = set()
    for file in files:
        if file.suffix in (".h", ".hpp", ".inl", ".cuh"):
            text = Path(str(file.locate())).read_text("utf-8", "replace")
            found |= opcodes_of(re.sub(r'"\s*\n\s*"', "", text))
    # These are in texts of errors.
    found -= {"shfl.sync", "cp.async", "cp.async.shared.global"}
    assert len(found) > 100
    have = {opcode for opcode in found if opcode_of(opcode).form is not None}
    missing = {opcode for opcode in found if re.match("|".join(MISSING), opcode)}
    assert found - have == missing


def opcodes_of(text: str) -> set[str]:
    """Return the opcodes of known instructions in the strings of a C text."""
    result = set()
    for string in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text):
        for statement in re.split(r"[;{}]|\\[nt]", string):
            match = re.match(
                r"(?:@!?[%\w]+\s+)?(([a-z]\w*)(?:\.[\w:]+)+)\s+[%\[{\w]", statement.strip()
            )
            if match and match[2] in forms() and not match[1].endswith(":"):
                result.add(match[1])
    return result
