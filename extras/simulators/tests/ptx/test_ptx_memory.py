"""Bounds, alignment and texts that are no PTX: the errors of the interpreter."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cuda_sources import error_of, run_source
from numpy.testing import assert_array_equal
from ptx_snippets import run_alike
from ptx_sources import ptx_of

from devmod_simulators.ptx import Module, PtxError, parser, run_ptx

KERNEL = 'extern "C" __global__ void k(int *o, int n) { %s }'


@pytest.mark.parametrize(
    ("body", "name", "text"),
    [
        (
            "o[threadIdx.x + n] = 1;",
            "ILLEGAL_ADDRESS",
            "write of 4 bytes at global address 0x70000000120 is out of bounds, kernel k, block (0, 0, 0), thread (1, 0, 0)",
        ),
        (
            "atomicAdd(o + n * (blockIdx.x + 1), 1);",
            "ILLEGAL_ADDRESS",
            "atomic access of 4 bytes at global address 0x70000000138 is out of bounds, kernel k, block (1, 0, 0), thread (0, 0, 0)",
        ),
        (
            "*(int *)((char *)o + threadIdx.x * 2) = 1;",
            "MISALIGNED_ADDRESS",
            "write of 4 bytes at global address 0x70000000102 is misaligned, kernel k, block (0, 0, 0), thread (1, 0, 0)",
        ),
        (
            "*(int *)(long long)(n - 7) = n;",
            "ILLEGAL_ADDRESS",
            "write of 4 bytes at global address 0x0 is out of bounds, kernel k, block (0, 0, 0), thread (0, 0, 0)",
        ),
        (
            "__shared__ int s[8]; volatile int *p = s; p[threadIdx.x * n] = 1;",
            "ILLEGAL_ADDRESS",
            "write of 4 bytes at shared address 0x38 is out of bounds, kernel k, block (0, 0, 0), thread (2, 0, 0)",
        ),
        (
            "int a[4] = {n, 1, 2, 3}; for (int i = 0; i < 4; i++) a[(i * n) & 3] += i; o[0] = *(volatile int *)(a + n);",
            "ILLEGAL_ADDRESS",
            "read of 4 bytes at local address 0x1c is out of bounds, kernel k, block (0, 0, 0), thread (0, 0, 0)",
        ),
    ],
    ids=["past the end", "atomic", "misaligned", "null", "shared", "local"],
)
def test_an_illegal_access_names_the_access_and_the_thread(body: str, name: str, text: str) -> None:
    assert error_of(KERNEL % body, 2, 4, [np.zeros(8, np.int32), 7]) == (f"CUDA_ERROR_{name}", text)


def test_an_address_in_the_gap_between_two_allocations() -> None:
    x, y = np.zeros(100, np.int32), np.zeros(100, np.int32)
    source = 'extern "C" __global__ void k(int *x, int *y) { x[threadIdx.x * 30] = y[threadIdx.x * 40]; }'
    assert error_of(source, 2, 4, [x, y]) == (
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "read of 4 bytes at global address 0x700000005e0 is out of bounds, kernel k, block (0, 0, 0), thread (3, 0, 0)",
    )


def test_dynamic_shared_memory_has_the_size_of_the_launch() -> None:
    source = 'extern "C" __global__ void k(int *o) { extern __shared__ int s[]; s[threadIdx.x] = 1; o[threadIdx.x] = s[threadIdx.x]; }'
    out = run_source(source, 1, 4, [np.zeros(4, np.int32)], shared_memory=16)
    assert (out == 1).all()
    assert error_of(source, 2, 4, [out], shared_memory=12) == (
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "write of 4 bytes at shared address 0xc is out of bounds, kernel k, block (0, 0, 0), thread (3, 0, 0)",
    )


def test_generic_addresses_of_several_spaces_in_one_instruction() -> None:
    source = """__device__ __noinline__ int read(const volatile int *p) { return *p; }
    extern "C" __global__ void k(int *o, int n) {
        __shared__ int s[1];
        int l[2] = {n + 1, n + 2};
        s[0] = n;
        __syncthreads();
        const int *p = threadIdx.x % 3 == 0 ? o + 8 : threadIdx.x % 3 == 1 ? s : l + (n & 1);
        int v = read(p);
        __syncthreads();
        o[threadIdx.x] = v * 10 + __isGlobal(p) + 2 * __isShared(p) + 4 * __isLocal(p);
    }"""
    out = run_source(source, 1, 8, [np.full(9, 50, np.int32), 7])
    assert_array_equal(out[:8], np.array([501, 72, 94])[np.arange(8) % 3])


def test_numbers_of_128_bits_go_through_each_space() -> None:
    text = """.version 8.3 .target sm_90 .address_size 64
    .visible .entry k(.param .u64 a, .param .u64 b) {
        .reg .b64 %x, %y, %z; .reg .b32 %t, %s; .reg .b128 %w; .shared .align 16 .b8 area[512];
        ld.param.u64 %x, [a]; ld.param.u64 %y, [b]; mov.u32 %t, %tid.x; mov.u32 %s, area;
        mad.wide.u32 %x, %t, 16, %x; mad.wide.u32 %y, %t, 16, %y; mad.lo.u32 %s, %t, 16, %s;
        ld.global.b128 %w, [%x+16]; st.shared.b128 [%s], %w; ld.shared.b128 %w, [%s];
        st.b128 [%y], %w; ld.b128 %w, [%y]; st.global.b128 [%y+512], %w; ret;
    }"""
    a = np.random.default_rng(1).integers(1, 2**63, 66)
    b = np.zeros((2, 64), np.int64)
    run_ptx(text, "k", 1, 32, [a, b])
    assert_array_equal(b, [a[2:], a[2:]])


def test_vector_accesses_are_checked_whole() -> None:
    body = "ld.param.u64 %x, [p0]; ld.global.v4.u32 {%o, %t, %u, %o}, [%x+{}];"
    a = np.arange(6)
    with pytest.raises(
        PtxError, match="read of 16 bytes at global address 0x70000000108 is misaligned"
    ):
        run_alike(body.replace("+{}", "+8"), "u32", a)
    with pytest.raises(
        PtxError, match="read of 16 bytes at global address 0x70000000110 is out of bounds"
    ):
        run_alike(body.replace("+{}", "+16"), "u32", a)


SEVEN = """extern "C" __global__ void k(int *o) {
    extern __shared__ int s[];
    if (threadIdx.x < 7) s[threadIdx.x] = 90 + threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) for (int i = 0; i < 7; i++) o[i] = s[i];
}"""


@pytest.mark.volume_but
def test_a_load_that_the_compiler_widens_may_reach_the_granule_of_shared_memory() -> None:
    """NVRTC reads s[4] to s[6] by a vector of four elements, as it does for numba-cuda's
    test_dynshared_slice_gaps.
    """
    assert "ld.shared.v4" in ptx_of(SEVEN)
    out = run_source(SEVEN, 1, 32, [np.zeros(7, np.int32)], shared_memory=28)
    assert out.tolist() == [90, 91, 92, 93, 94, 95, 96]


@pytest.mark.volume_but
@pytest.mark.parametrize(
    ("index", "fault"),
    [(7, ""), (31, ""), (32, "read of 4 bytes at shared address 0x80 is out of bounds")],
)
def test_a_read_may_reach_the_granule_of_shared_memory_and_a_write_may_not(
    index: int, fault: str
) -> None:
    source = 'extern "C" __global__ void k(int *o, int n) { extern __shared__ int s[]; %s; }'
    arguments = [np.zeros(1, np.int32), index]
    if fault:
        assert error_of(source % "o[0] = s[n]", 2, 4, arguments, shared_memory=28)[1].startswith(
            fault
        )
    else:
        run_source(source % "o[0] = s[n]", 1, 1, arguments, shared_memory=28)
    _, text = error_of(source % "s[n] = 1", 2, 4, arguments, shared_memory=28)
    assert text.startswith(f"write of 4 bytes at shared address 0x{4 * index:x} is out of bounds")


WIDE = """
mov.u32 %u, 7; .local .align 16 .b8 mine[28]; st.local.u32 [mine+16], %u; st.local.u32 [mine+20], %u; st.local.u32 [mine+24], %u;
{.reg .b32 %dead; %s {%o, %p, %q, %dead}, [%s+16];}
"""


@pytest.mark.volume_but
@pytest.mark.parametrize(
    "load", [("ld.local.v4.u32", "mine"), ("ld.global.v4.u32", "%x")], ids=["local", "global"]
)
def test_the_last_element_of_a_vector_that_nothing_takes_may_be_outside(
    load: tuple[str, str],
) -> None:
    first = "ld.param.u64 %x, [p0];" + WIDE.replace("%s", load[0], 1).replace("%s", load[1])
    numbers = np.full(7, 7)
    for each in run_alike(first, "u32", numbers, to="u32 u32 u32"):
        assert each.tolist() == [7] * 7
    if load[1] == "%x":  # the frame of a thread is a multiple of 16 bytes
        with pytest.raises(
            PtxError, match=r"read of 16 bytes at global address .* is out of bounds"
        ):
            run_alike(
                first.replace(";}", "; mov.u32 %o, %dead;}"), "u32", numbers, to="u32 u32 u32"
            )


HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
BAD = {
    "": "line 1: the text has no .version",
    HEAD + ".visible .entry k(": "line 4: unexpected end of the text",
    HEAD
    + ".visible .entry k() { .reg .b32 %r; mov.u32 %r; }": "line 4: mov.u32: expected 2 operands, got 1",
    HEAD + ".visible .entry k() {\nbra missing;\n}": "line 5: unknown label 'missing'",
    HEAD
    + ".visible .entry k() {\n.reg .b32 %r;\nmov.u32 %r, nothing;\n}": "line 6: mov.u32: unknown identifier 'nothing'",
    HEAD
    + ".visible .entry k() {\n.reg .b32 %r;\nadd.u64 %r, %r, 1;\n}": "line 6: add.u64: a destination has the wrong size",
    HEAD
    + ".visible .entry k() {\n.reg .pred %r;\nadd.u32 %r, 1, 1;\n}": "line 6: add.u32: a destination has the wrong type",
    HEAD.replace("64", "32", 1) + ".global .u32 x;": "line 3: expected '64', got '32'",
}


@pytest.mark.parametrize(("text", "message"), BAD.items(), ids=range(len(BAD)))
def test_text_that_is_no_ptx(text: str, message: str) -> None:
    with pytest.raises(PtxError) as caught:
        run_ptx(text, "k", 1, 1, [])
    assert (caught.value.name, caught.value.text) == ("CUDA_ERROR_INVALID_PTX", message)


def test_the_parser_reads_declarations() -> None:
    text = (
        HEAD.replace("sm_90", "sm_90a, debug")
        + """
    .file 1 "kernel.cu"
    .global .align 16 .b8 data[2][3] = {{1, 2, 3}, {4, 5, 6}};
    .visible .const .f32 half = 0f3F000000;
    .extern .func (.param .b32 result) vprintf (.param .b64 a, .param .b64 b);
    .visible .entry k(.param .u64 .ptr .global .align 4 p, .param .align 8 .b8 s[12])
    .maxntid 32, 2, 1
    .reqntid 32
    .minnctapersm 2
    { .reg.b32 %r<3>; .loc 1 2 3
      { .reg .b32 %r1; mov.u32 %r1, 1; }
      ret; }
    .section .debug_str { info: .b8 1, 2 }
    """
    )
    module = parser.parse(text)
    data = module.variables["data"]
    assert (data.size, data.align, data.values) == (6, 16, [1, 2, 3, 4, 5, 6])
    assert module.variables["half"].values == [0.5]
    kernel = module.functions["k"]
    assert [(each.name, each.size, each.align) for each in kernel.params] == [
        ("p", 8, 8),
        ("s", 12, 8),
    ]
    assert kernel.attributes == {"maxntid": (32, 2, 1), "reqntid": (32,), "minnctapersm": (2,)}
    assert len(kernel.registers) == 4
    assert [(each.opcode, each.line) for each in kernel.instructions] == [
        ("mov.u32", 14),
        ("ret", 15),
    ]
    assert not module.functions["vprintf"].body


def test_damaged_text_is_an_error_of_its_own() -> None:
    text = ptx_of(
        """struct S { int a[3]; };
        __device__ int counter[2] = {1, 2};
        __device__ __noinline__ S change(S s, int i) { s.a[i % 3] += counter[i & 1]; return s; }
        extern "C" __global__ void k(int *o, S s) {
            for (int i = 0; i < o[0]; i++) { if (i % 7 == 3) continue; s = change(s, i); __syncthreads(); }
            o[threadIdx.x] = __shfl_xor_sync(~0u, s.a[1], 3) + atomicAdd(o + 1, 2);
        }"""
    )
    Module(text).check()
    random = np.random.default_rng(1)
    words = re.split(r"(\s+|[,;\[\]{}()])", text)
    errors = 0
    for _ in range(300):
        damaged = (
            words[: int(random.integers(len(words)))] if random.random() < 0.3 else list(words)
        )
        for _ in range(int(random.integers(1, 4))):
            first, second = (int(place) for place in random.integers(len(words), size=2))
            damaged[first : first + int(random.integers(2))] = [words[second]] * int(
                random.integers(2)
            )
        try:
            Module("".join(damaged)).check()
        except PtxError:
            errors += 1
    assert errors > 100


def test_the_address_of_an_element_of_a_variable() -> None:
    body = ".shared .align 8 .b16 s[8]; .reg .u32 %z; mov.u32 %z, s; mov.u32 %o, s[3]; sub.u32 %o, %o, %z;"
    assert run_alike(body, "u32", [0]).tolist() == [6]
    with pytest.raises(PtxError, match=r"line \d+: there is no variable 'other'"):
        run_alike("mov.u32 %o, other[3];", "u32", [0])


LATER = """extern "C" __global__ void k(int *o, long long shift) {
    #pragma unroll 1
    for (int step = 0; step < 6; step++) {
        char *p = (char *)(o + 8 + threadIdx.x) + (step == 5 ? shift : 0);
        *(volatile int *)p = step;
    }
}"""


@pytest.mark.volume_but
@pytest.mark.parametrize(
    ("shift", "name", "text"),
    [
        (96, "ILLEGAL", "write of 4 bytes at global address 0x70000000180 is out of bounds"),
        (-36, "ILLEGAL", "write of 4 bytes at global address 0x700000000fc is out of bounds"),
        (2, "MISALIGNED", "write of 4 bytes at global address 0x70000000122 is misaligned"),
        (
            (3 << 62) + 1,
            "MISALIGNED",
            "write of 4 bytes at global address 0xc000070000000121 is misaligned",
        ),
    ],
    ids=["past the end", "before the start", "misaligned", "wild"],
)
def test_an_instruction_that_has_accessed_an_array_is_still_checked(
    shift: int, name: str, text: str
) -> None:
    error = f"{text}, kernel k, block (0, 0, 0), thread (0, 0, 0)"
    assert error_of(LATER, 2, 4, [np.zeros(32, np.int32), shift]) == (
        f"CUDA_ERROR_{name}_ADDRESS",
        error,
    )


@pytest.mark.volume_but
def test_a_pointer_into_the_heap_outlives_its_growth() -> None:
    source = """extern "C" __global__ void k(unsigned *o) {
        unsigned *p = (unsigned *)malloc(4), sum = 0, old;
        *p = 0;
        #pragma unroll 1
        for (int step = 0; step < 64; step++) {
            malloc(1024);
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(old) : "l"(p) : "memory");
            asm volatile("st.global.u32 [%0], %1;" :: "l"(p), "r"(old + step) : "memory");
            sum += old;
        }
        o[2 * threadIdx.x] = *p;
        o[2 * threadIdx.x + 1] = sum;
    }"""
    out = run_source(source, 1, 4, [np.zeros((4, 2), np.uint32)])
    totals = np.cumsum(np.arange(64))
    assert_array_equal(out, [[totals[-1], totals[:-1].sum()]] * 4)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("signed char", "i1"), ("unsigned char", "u1"), ("short", "i2"), ("unsigned short", "u2")],
)
def test_a_load_into_a_wider_register_has_the_sign_of_its_type(kind: str, dtype: str) -> None:
    source = f'extern "C" __global__ void k(const {kind} *x, int *o) {{ o[threadIdx.x] = x[threadIdx.x] * 3; }}'
    x = np.arange(-40, 40).astype(dtype)
    out = run_source(source, 1, 80, [x, np.zeros(80, np.int32)])
    assert_array_equal(out, x.astype(np.int32) * 3)
