"""The readers of PTX, cubins and fatbins: NVRTC's output for every architecture, hand-written PTX,
and damaged files.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from work import assert_linear
from zstandard_library import zstd

import devmod
from devmod_readers.nvidia import (
    KernelEntry,
    ParamPlace,
    check_declared,
    fatbin_members,
    fatbin_parts,
    read_cubin,
    read_ptx,
)

pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings is not installed")
from devmod_targets.cuda.nvrtc import Program, arch_names, compile_program

pytestmark = pytest.mark.once  # texts and bytes, which the readers read themselves

KERNELS = Path(__file__).parents[3] / "compilers" / "targets" / "tests" / "kernels" / "cuda"
VECTORS = Path(__file__).parents[3] / "core" / "tests" / "vectors" / "arch"
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
ARCHS = [name for name in arch_names() if name.startswith("sm_") and name[-1].isdigit()]


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    text = (KERNELS / "launch_forms.cu").read_text()
    return {arch: compile_program(text, "launch_forms.cu", [f"-arch={arch}"]) for arch in ARCHS}


def ptx_entries(program: Program) -> dict[str, KernelEntry]:
    return read_ptx(program.ptx.decode())


def limits(entry: KernelEntry) -> tuple[Any, ...]:
    return (
        entry.block,
        entry.max_threads,
        entry.cluster,
        entry.max_cluster,
        entry.explicit_cluster,
        entry.blocks_are_clusters,
    )


def places(entry: KernelEntry) -> list[tuple[int, int]]:
    assert entry.params is not None
    return [(place.offset, place.size) for place in entry.params]


def u64(offset: int) -> ParamPlace:
    return ParamPlace(offset, 8, 8, "u64")


def test_ptx_of_nvrtc(programs: dict[str, Program]) -> None:
    """The launch directives and the parameters of each kernel, with offsets by PTX's rules."""
    pointer = (u64(0),)
    assert ptx_entries(programs["sm_90"]) == {
        "plain": KernelEntry("plain", (u64(0), u64(8), ParamPlace(16, 4, 4, "u32"))),
        "bounded": KernelEntry(
            "bounded",
            (
                u64(0),
                ParamPlace(8, 1, 1, "u8"),
                ParamPlace(10, 2, 2, "u16"),
                ParamPlace(12, 1, 1, "u8"),
                ParamPlace(16, 32, 8, "b8"),
                ParamPlace(48, 4, 4, "b8"),
            ),
            max_threads=256,
            dynamic_shared_memory=True,
        ),
        "_Z7shifted4Linex6float4": KernelEntry(
            "_Z7shifted4Linex6float4",
            (ParamPlace(0, 128, 128, "b8"), u64(128), ParamPlace(144, 16, 16, "b8")),
        ),
        "nothing": KernelEntry("nothing", ()),
        "calls": KernelEntry("calls", (ParamPlace(0, 4, 4, "u32"),), dynamic_shared_memory=True),
        "fixed": KernelEntry("fixed", pointer, (64, 2, 1), 0, (1, 1, 1), blocks_are_clusters=True),
        "fixed_cluster": KernelEntry(
            "fixed_cluster", pointer, (64, 2, 1), 0, (2, 2, 1), blocks_are_clusters=True
        ),
        "cluster": KernelEntry("cluster", pointer, None, 0, (2, 1, 1), explicit_cluster=True),
        "small_cluster": KernelEntry("small_cluster", pointer, None, 128, None, 4),
    }


@pytest.mark.parametrize("arch", ARCHS)
def test_a_cubin_has_the_kernels_of_its_ptx(programs: dict[str, Program], arch: str) -> None:
    program = programs[arch]
    from_ptx, from_cubin = ptx_entries(program), read_cubin(program.cubin)
    assert from_cubin.keys() == from_ptx.keys()
    assert ("cluster" in from_ptx) == (int(arch[3:]) >= 90)
    for name, entry in from_ptx.items():
        assert limits(from_cubin[name]) == limits(entry)
        if name.startswith("_Z7shifted"):
            # The block begins at an address that is aligned to 16 or 32 bytes. So a parameter that
            # is aligned to 128 is shifted.
            (first, *_), shifted = places(from_cubin[name]), places(from_cubin[name])
            assert [(offset - first[0], size) for offset, size in shifted] == places(entry)
            assert 0 <= first[0] < 128
        else:
            assert places(from_cubin[name]) == places(entry)


def test_cubins_of_cuda_12() -> None:
    """Cubins with ELF ABI version 7 have the same sections."""
    for arch in ("75", "90", "90a"):
        data = (VECTORS / f"cuda12_sm_{arch}.cubin").read_bytes()
        assert data[8] == 7
        assert read_cubin(data) == {
            "scale": KernelEntry("scale", (ParamPlace(0, 8), ParamPlace(8, 4), ParamPlace(12, 4)))
        }


def test_large_parameters() -> None:
    """Cubins have another attribute for parameters of more than 4 KB."""
    text = """
    struct Big { int x[5000]; }; struct Medium { int x[2000]; }; struct Empty {};
    extern "C" __global__ void big(float *p, Big b, const __grid_constant__ Medium m) { p[threadIdx.x] = b.x[threadIdx.x] + m.x[3]; }
    extern "C" __global__ void empty(Empty e, int y, int *z) { *z = y; }
    """
    for arch in ("sm_75", "sm_90", "sm_120"):
        program = compile_program(text, "k.cu", [f"-arch={arch}"])
        expected = {"big": [(0, 8), (8, 20000), (20008, 8000)], "empty": [(0, 1), (4, 4), (8, 8)]}
        assert {name: places(entry) for name, entry in ptx_entries(program).items()} == expected
        assert {
            name: places(entry) for name, entry in read_cubin(program.cubin).items()
        } == expected


SHARED = """
__shared__ int of_the_file[33];
__device__ float inlined(int i) { __shared__ float h[7]; h[i % 7] = i; __syncthreads(); return h[(i + 1) % 7]; }
__device__ __noinline__ float called(int i) { __shared__ float h[70]; h[i % 70] = i; __syncthreads(); return h[(i + 1) % 70]; }
extern "C" {
__global__ void mixed(float *y) {
    __shared__ char c[3]; __shared__ double d[5]; __shared__ short q[1]; __shared__ float4 v[2]; int i = threadIdx.x;
    c[i % 3] = i; d[i % 5] = y[i]; q[0] = i; v[i % 2].x = y[i]; __syncthreads();
    y[i] = c[(i + 1) % 3] + d[(i + 2) % 5] + q[0] + v[(i + 1) % 2].y;
}
__global__ void shares(int *y) { int i = threadIdx.x; of_the_file[i % 33] = y[i]; __syncthreads(); y[i] = of_the_file[(i + 1) % 33]; }
__global__ void inlines(float *y) { y[threadIdx.x] = inlined(threadIdx.x); }
__global__ void calls(float *y) {
    __shared__ float s[4]; int i = threadIdx.x; s[i % 4] = y[i]; __syncthreads(); y[i] = called(i) + s[(i + 1) % 4];
}
__global__ void both(float *y) {
    extern __shared__ float e[]; __shared__ float w[16]; int i = threadIdx.x;
    e[i] = y[i]; w[i % 16] = i; __syncthreads(); y[i] = e[i + 1] + w[(i + 1) % 16];
}
__global__ void none(float *y) { y[0] = 1; }
}
"""


def test_static_shared_memory() -> None:
    """PTX has the variables, and a cubin the multiple of 16 bytes that the assembler makes of
    them.
    """
    for arch in ("sm_75", "sm_90"):
        program = compile_program(SHARED, "k.cu", [f"-arch={arch}"])
        declared = {
            name: entry.static_shared_memory for name, entry in ptx_entries(program).items()
        }
        assert declared == {
            "mixed": 82,
            "shares": 132,
            "inlines": 28,
            "calls": 0,
            "both": 64,
            "none": 0,
        }  # a called function's is unknown
        assembled = {
            name: entry.static_shared_memory for name, entry in read_cubin(program.cubin).items()
        }
        if arch == "sm_75":
            assert assembled == {
                name: -(-size // 16) * 16 for name, size in (declared | {"calls": 296}).items()
            }
        else:  # with what the system reserves
            assert {*assembled.values()} == {0}


@pytest.mark.parametrize(
    "declaration",
    [".f32 s, t;", ".v4 .f32 s[4];", ".b8 s[100000];", ".b8 s[0];", ".b8 s[4]; .shared .b8 s[8];"],
)
def test_other_declarations_of_shared_memory_are_unknown(declaration: str) -> None:
    (entry,) = read_ptx(
        HEAD + f".entry k() {{ .shared {declaration} st.shared.b32 [s], 0; ret; }}"
    ).values()
    assert entry.static_shared_memory == 0


def test_functions_of_the_device_are_not_kernels() -> None:
    text = """
    extern "C" __device__ __noinline__ float helper(float a) { return a * a; }
    extern "C" __global__ void kernel(float *p) { *p = helper(*p); }
    """
    program = compile_program(text, "k.cu", ["-arch=sm_90", "-rdc=true"])
    assert b".func  (.param .b32 func_retval0) helper" in program.ptx
    assert list(ptx_entries(program)) == ["kernel"]
    assert list(read_cubin(program.cubin)) == ["kernel"]


def test_hand_written_ptx() -> None:
    """Comments, strings, pragmas, numbers of all bases, the attributes of pointers, arrays,
    references to textures.
    """
    text = HEAD + (
        '.file 1 "a{b.entry x("\n/* .entry commented() { */ // .entry too() {\n'
        ".extern .func (.param .b32 r) callee (.param .b32 a);\n"
        ".visible\n.entry // its name follows\n $k_1$x\n(\n"
        "  .param .texref image, .param .u8 x, .param .u64 .ptr .global .align 16 p, /* , */ .param .b64 q[3],\n"
        "  .param .surfref s, .param .f16 h, .param .align 16 .u32 z, .param .u64 .ptr g, .param .b8 m [2] [0x3U]\n"
        ')\n.maxntid 0x40U, 010\n.minnctapersm 2\n.pragma "nounroll", "other";\n'
        '{ { .pragma "x{"; call (r), callee, (a); } ret; }\n'
        ".entry nothing { ret; }\n.weak .entry fixed() .reqntid 32 .maxclusterrank 8 {}\n\0 .entry after_the_end("
    )
    assert read_ptx(text) == {
        "$k_1$x": KernelEntry(
            "$k_1$x",
            (
                ParamPlace(0, 0, 0, "texref"),
                ParamPlace(0, 1, 1, "u8"),
                ParamPlace(8, 8, 8, "u64", is_pointer=True),
                ParamPlace(16, 24, 8, "b64"),
                ParamPlace(0, 0, 0, "surfref"),
                ParamPlace(40, 2, 2, "f16"),
                ParamPlace(48, 4, 16, "u32"),
                ParamPlace(56, 8, 8, "u64", is_pointer=True),
                ParamPlace(64, 6, 1, "b8"),
            ),
            max_threads=512,
        ),
        "nothing": KernelEntry("nothing", ()),
        "fixed": KernelEntry("fixed", (), (32, 1, 1), max_cluster=8),
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (".entry k(.param .u64 a) {", "at line 4: '{' has no matching '}'"),
        (".entry k()\n{ } }", "at line 5: '}' has no matching '{'"),
        (".entry k(", "at line 4: expected the body of the function before the end"),
        (".entry k() .entry l() {}", "at line 4: expected the body of the function before .entry"),
        (".entry (.param .u32 a) {}", "at line 4: expected a name and parameters after .entry"),
        (".entry k() {} .entry k() {}", "at line 4: the kernel 'k' is defined twice"),
        (
            ".entry k(.param .u31 a) {}",
            "at line 4: the kernel 'k' has the invalid parameter '.param .u31 a'",
        ),
        (
            ".entry k(.param .align 3 .u32 a) {}",
            "at line 4: the kernel 'k' has the invalid parameter '.param .align 3 .u32 a'",
        ),
        (
            ".entry k(.param .b8 a[x]) {}",
            "at line 4: the kernel 'k' has the invalid parameter '.param .b8 a[x]'",
        ),
        (".entry k(.param .u32 a,) {}", "at line 4: the kernel 'k' has the invalid parameter ''"),
        (
            ".entry k(.param .b8 a[65536], .param .u8 b) {}",
            "at line 4: the kernel 'k' has more than 65536 bytes of parameters",
        ),
        (
            ".entry k() .reqntid 0 {}",
            "at line 4: the kernel 'k' has the directive .reqntid with '0'; expected up to three numbers of 1 or more",
        ),
        (
            ".entry k() .maxntid {}",
            "at line 4: the kernel 'k' has the directive .maxntid with ''; expected up to three numbers of 1 or more",
        ),
        (
            ".entry k() reqntid {}",
            "at line 4: the kernel 'k' has 'reqntid' before its body; expected a directive",
        ),
    ],
)
def test_damaged_ptx(text: str, problem: str) -> None:
    with pytest.raises(devmod.FormatError) as caught:
        read_ptx(HEAD + text)
    assert str(caught.value) == f"the PTX is invalid {problem}"
    assert caught.value.kind == "cuda"


@pytest.mark.parametrize(
    "piece",
    [
        ".entry k(",
        "/*",
        '"',
        "{",
        ".pragma ",
        '.pragma "a',
        ".entry k() .maxntid 1 {} ",
        ".extern .shared .b8 x[",
        "//",
        ".param .b8 a[",
        ".func (",
        ".align 4 ",
        '.pragma "a" , ',
    ],
)
def test_hostile_ptx_takes_linear_time(piece: str) -> None:
    """No text of a repeated piece makes the reader search the rest of the text for each piece."""

    def reader(text: str) -> Callable[[], object]:
        def read() -> None:
            with suppress(devmod.FormatError):
                read_ptx(text)

        return read

    assert_linear(lambda count: reader(HEAD + piece * count), 500)
    assert_linear(lambda count: reader(HEAD + ".entry k(" + piece * count + ") {}"), 500)


def test_a_cubin_that_is_damaged(programs: dict[str, Program]) -> None:
    data = programs["sm_90"].cubin

    def message(code: bytes) -> str:
        with pytest.raises(devmod.FormatError) as caught:
            read_cubin(code)
        return str(caught.value)

    def patched(at: int, value: int, size: int) -> bytes:
        return data[:at] + value.to_bytes(size, "little") + data[at + size :]

    prefix = "the cubin is invalid: "
    assert message(b"") == prefix + "its bytes do not begin with an ELF header"
    assert message(data[:63]) == prefix + "its bytes do not begin with an ELF header"
    assert message(patched(4, 1, 1)) == prefix + "expected a 64-bit little-endian ELF file"
    assert message(patched(18, 62, 2)) == prefix + "its machine is 62; expected 190 (CUDA)"
    assert (
        message(data[: len(data) // 2]) == prefix + "its table of sections is outside of the file"
    )
    assert (
        message(patched(40, 1 << 63, 8)) == prefix + "its table of sections is outside of the file"
    )
    table, problems = int.from_bytes(data[40:48], "little"), 0
    count = int.from_bytes(data[60:62], "little")
    for number, at in enumerate(range(table, table + 64 * count, 64)):
        outside = patched(at + 24, len(data) - 1, 8)  # the section's offset
        with suppress(devmod.FormatError):
            read_cubin(outside)
            continue  # the reader does not use this section
        assert message(outside) == prefix + f"section {number} is outside of the file"
        problems += 1
    assert problems >= 3  # the names, the symbols and the information of a kernel
    # All sections of information refer to one region of zeros, so that a small file would take the
    # work of a large one.
    overlapping = bytearray(data + bytes(len(data)))
    for at in range(table, table + 64 * int.from_bytes(data[60:62], "little"), 64):
        if int.from_bytes(overlapping[at + 4 : at + 8], "little") == 0x70000000:
            overlapping[at + 24 : at + 40] = len(data).to_bytes(8, "little") * 2
    assert message(bytes(overlapping)) == prefix + "its sections overlap"
    at = data.index(bytes((4, 0x17, 12, 0)))
    assert (
        message(patched(at + 2, 4, 2))
        == prefix + "the attribute 0x17 of the kernel 'small_cluster' has 4 bytes; expected 12"
    )
    assert message(patched(at + 8, 3, 2)) == (
        prefix + "the kernel 'small_cluster' has 1 parameters, and their numbers are not 0 to 0"
    )
    assert message(patched(at + 10, 400, 2)) == (
        prefix
        + "the parameters of the kernel 'small_cluster' end at byte 408, and the kernel has 8 bytes of parameters"
    )


def test_members_of_fatbins(programs: dict[str, Program]) -> None:
    """NVIDIA's library writes members with LZ4, zstd and without compression; all give the
    images.
    """
    nvfatbin = pytest.importorskip("cuda.bindings.nvfatbin", reason="cuda-bindings has no nvfatbin")
    cubin, ptx = programs["sm_90"].cubin, programs["sm_90"].ptx + b"\0"
    compressions = set()
    for options in (
        [],
        ["-compress-all"],
        ["-compress-all", "-compress-mode=speed"],
        ["-compress=false"],
    ):
        handle = nvfatbin.create(options, len(options))
        nvfatbin.add_cubin(handle, cubin, len(cubin), "90", "name")
        nvfatbin.add_ptx(handle, ptx, len(ptx), "90", "name", "")
        data = bytearray(nvfatbin.size(handle))
        nvfatbin.get(handle, data)
        nvfatbin.destroy(handle)
        both = bytes(data) * 2  # they may follow each other
        members = fatbin_members(both)
        assert [len(part) for part in fatbin_parts(both)] == [2, 2]
        assert [(member.kind, member.arch.partition(":")[0]) for member in members] == [
            ("cubin", "sm_90"),
            ("ptx", "compute_90"),
        ] * 2
        # It is padded to 8 bytes.
        assert members[0].data.rstrip(b"\0") == members[2].data.rstrip(b"\0") == cubin.rstrip(b"\0")
        # The library removes comments and the white space at the start of lines.
        assert read_ptx(members[1].data.decode()) == ptx_entries(programs["sm_90"])
        compressions |= {member.compression for member in members}
        assert repr(members[1]).startswith("<FatbinMember ptx compute_90")
    assert compressions == {"", "lz4", "zstd"}


def test_a_fatbin_that_is_damaged() -> None:
    data = (VECTORS / "mixed.fatbin").read_bytes()
    compressed = (VECTORS / "compressed.fatbin").read_bytes()

    def message(code: bytes) -> str:
        with pytest.raises(devmod.FormatError) as caught:
            [member.data for member in fatbin_members(code)]
        return str(caught.value)

    prefix = "the CUDA fatbin is invalid: "
    assert message(b"\x7fELF" + bytes(60)) == prefix + "expected the magic 0xba55ed50 at byte 0"
    assert message(data[:12]) == prefix + "expected the magic 0xba55ed50 at byte 0"
    assert message(data + b"rest") == prefix + f"expected the magic 0xba55ed50 at byte {len(data)}"
    size = int.from_bytes(data[8:16], "little")
    assert (
        message(data[:-1])
        == prefix
        + f"its header at byte 0 has {size} bytes of members, and the file ends at byte {len(data) - 1}"
    )
    assert (
        message(data[:20] + b"\xff\xff\xff\x7f" + data[24:])
        == prefix + "the member at byte 16 is outside of its fatbin"
    )
    assert message(compressed[:72] + (1 << 40).to_bytes(8, "little") + compressed[80:]) == (
        prefix
        + "the member at byte 16 has 1099511627776 bytes after decompression of 915, which is over the limit"
    )
    assert message(compressed[:72] + (100000).to_bytes(8, "little") + compressed[80:]) == (
        "a member of the CUDA fatbin is damaged: expected 100000 bytes after decompression, got 3240"
    )
    # The header has fewer bytes than the compressed data: the image would be incomplete.
    assert message(compressed[:72] + (3000).to_bytes(8, "little") + compressed[80:]) == (
        "a member of the CUDA fatbin is damaged: expected 3000 bytes after decompression, got 3001"
    )
    assert message(compressed[:90] + bytes(40) + compressed[130:]).startswith(
        "a member of the CUDA fatbin is damaged: "
    )
    assert (
        message(compressed[:56] + b"\x11\x20" + compressed[58:])
        == prefix + "a member compressed with LZ4 is damaged at byte 5"
    )


def test_the_members_of_a_fatbin_are_bounded_together() -> None:
    """Each of 300 members has 4 MB, from 150 bytes: a launch looks at all of them."""
    frame = zstd.compress(bytes(4_000_000))
    head = struct.pack(
        "<HHIQIQIQQQQ", 2, 0x101, 64, len(frame), len(frame), 0, 90, 0, 1 << 15, 0, 4_000_000
    )
    assert len(head) == 64
    data = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 300 * (64 + len(frame))) + (head + frame) * 300
    with pytest.raises(devmod.FormatError) as caught:
        fatbin_members(data)
    limit = (1 << 20) + 256 * len(data)
    total = (limit // 4_000_000 + 1) * 4_000_000
    assert (
        str(caught.value)
        == f"the CUDA fatbin is invalid: its members have {total} bytes after decompression, which is over the limit"
    )


def test_zstd_is_an_extra() -> None:
    """A fatbin without the decompressor: its members are listed, and the data has the command that
    installs it.
    """
    path = VECTORS / "compressed.fatbin"
    program = (
        "import sys\nsys.modules['backports'] = sys.modules['compression'] = None\n"
        "from devmod_readers.nvidia import fatbin_members\n"
        f"members = fatbin_members(open({os.fspath(path)!r}, 'rb').read())\nprint([each.arch for each in members])\n"
        "try:\n    members[0].data\nexcept Exception as error:\n    print(type(error).__name__, error)\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert output == (
        "['sm_80', 'sm_90a', 'compute_100f']\n"
        "ToolchainNotFoundError a member of the CUDA fatbin is compressed with zstd, and cannot be read: backports.zstd is not installed. "
        'To add it: pip install "devmod-readers[zstd]", or make the fatbin with --compress-mode=none\n'
    )


def test_declared_arguments_are_those_of_the_image(programs: dict[str, Program]) -> None:
    entry = read_cubin(programs["sm_90"].cubin)["bounded"]
    types = ("handle", "int8", "int16", "bool", "uint8x32", "uint8x4")
    check_declared(devmod.FunctionInfo("bounded", types), entry)
    check_declared(devmod.FunctionInfo("any", ("int32",)), KernelEntry("any", None))
    check_declared(
        devmod.FunctionInfo("maps", ("handle",), (), (1,)),
        KernelEntry("maps", (ParamPlace(0, 128),)),
    )
    for wrong, got in (
        (
            types[:-1],
            "got 5 (handle (8 bytes), int8 (1 byte), int16 (2 bytes), bool (1 byte), uint8x32 (32 bytes))",
        ),
        (
            (*types[:5], "handle"),
            "got 6 (handle (8 bytes), int8 (1 byte), int16 (2 bytes), bool (1 byte), uint8x32 (32 bytes), handle (8 bytes))",
        ),
    ):
        with pytest.raises(devmod.FormatError) as caught:
            check_declared(devmod.FunctionInfo("bounded", wrong), entry)
        assert str(caught.value) == (
            "the declared arguments of the cuda kernel 'bounded' are not those of its image: expected 6 arguments (8 bytes, 1 byte, 2 bytes, "
            f"1 byte, 32 bytes, 4 bytes), {got}"
        )
        assert caught.value.function == "bounded"
