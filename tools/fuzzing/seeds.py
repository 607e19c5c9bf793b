"""The inputs to start from: the golden files, the vectors of the tests, and the examples."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: The inputs of past findings, a folder for each reader.
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
_GOLDEN = ROOT / "tests" / "golden"
_VECTORS = ROOT / "core" / "tests" / "vectors"

#: Parameters of the members of structs, with nested structs, arrays and a matrix.
MEMBERS = [
    {
        "name": "p",
        "kind": "scalar",
        "type": "uint8x64",
        "align": 16,
        "members": [
            {"name": "n", "type": "int32", "offset": 0},
            {
                "name": "i",
                "offset": 16,
                "size": 16,
                "shape": [2],
                "strides": [16],
                "members": [{"name": "x", "type": "int8x3", "offset": 0}],
            },
            {"name": "w", "type": "float16", "offset": 48, "shape": [2, 3], "strides": [8, 2]},
        ],
    },
    {
        "name": "m",
        "kind": "uniform",
        "type": "uint8x44",
        "members": [
            {"name": "", "type": "float32x3", "offset": 0, "shape": [3], "strides": [16]},
        ],
    },
    {"name": "t", "kind": "local", "type": "float32", "default": {"per_thread": 4}},
]

#: The variants of a function.
TUNE = {
    "constants": ["BLOCK", "MODE"],
    "variants": [
        {"values": [64, "fast"]},
        {"values": [128, True], "block": [["//", "BLOCK", 2]], "grid": ["n", 1]},
        {"values": [32, 0.5], "interface": {"params": []}},
    ],
    "specialized": True,
    "sizes": ["n"],
    "grid": [["ceildiv", "n", "BLOCK"]],
    "block": ["BLOCK"],
}

WGSL = """
override TILE: u32 = 8;
@id(3) override scale: f32 = 2.5;
const N = TILE * 2u;
struct Inner { a: vec3<f32>, @size(32) b: array<mat2x2<f32>, 3>, }
struct Params { n: u32, inner: Inner, rest: array<vec4<u32>, 4> }
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read> y: array<Inner>;
@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<uniform> matrix: mat3x4<f32>;
var<workgroup> tile: array<f32, TILE * TILE>;
var<private> state: atomic<u32>;
alias Vec = vec4<f32>;
fn helper(a: f32, b: ptr<function, f32>) -> f32 { return select(a, *b, a > 1.0); }
@compute @workgroup_size(TILE, 8, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) i: u32) {
  var t = 0.0;
  for (var k = 0u; k < params.n; k++) { t += helper(x[k], &t) * scale; }
  if (id.x < arrayLength(&x)) { x[id.x] = t + y[0].a.x + tile[i]; } else { workgroupBarrier(); }
}
@compute @workgroup_size(64) fn other(@builtin(global_invocation_id) id: vec3u) { x[id.x] = f32(params.inner.b[1][0][1]); }
"""

WGSL_MACROS = """
#define TILE 8u
#define MUL(a, b) ((a) * (b)) /* the product */
#define NEXT(x) MUL(x, NEXT(x + 1))
#ifndef T
#define T \\
  f32
#endif
#if defined(TILE) && (TILE >= 8 || T) // both
@group(0) @binding(0) var<storage, read_write> x: array<T>;
#elif 0x10u << 2 == 64 ^ ~1 % 3
#include "shared/config.wgsl"
#import config
#else
#error no type
#endif
#undef NEXT
@compute @workgroup_size(TILE) fn main() { x[MUL(TILE, 2u)] = T(MUL((1,
  2), 3)); }
"""

OPENCL = """
#define N 16
typedef struct { float4 a; int b[3]; struct { half h[2][3]; }; union { int i; float f; } u; } S;
enum E { A, B = 3 };
__attribute__((reqd_work_group_size(64, 1, 1)))
__kernel void f(__global const float *restrict x, __constant S *s, __local int *t, S v, float3 w,
    uint n, enum E e, image2d_t i, sampler_t p) {
  int g = get_global_id(0);
  if (g < n) t[g % N] = as_int(x[g]) + v.b[e] + s->b[0] + (int)dot(w, w);
}
kernel void g(global half *h, global uchar2 *c, __global float (*m)[N]) { h[0] = 1; }
"""

METAL = """
#include <metal_stdlib>
using namespace metal;
struct Q { float3x3 m; half2 h[4]; };
struct P { float4 a; uint n; packed_float3 b; Q q[2]; array<float, 3> c; };
constant uint N [[function_constant(0)]];
template <typename T> kernel void scale(device T *x [[buffer(0)]], constant P &p [[buffer(1)]],
    uint i [[thread_position_in_grid]]) { x[i] *= p.a.x; }
template [[host_name("scale_f")]] kernel void scale<float>(device float *, constant P &, uint);
[[kernel, max_total_threads_per_threadgroup(64)]] void f(device const float *x, threadgroup float *t [[threadgroup(0)]],
    texture2d<float, access::read> i [[texture(0)]], uint2 g [[thread_position_in_grid]]) { t[0] = x[g.x]; }
"""

CUDA = """
#include <cuda_fp16.h>
#include <cuda/std/complex>
#if defined(FAST) && __CUDA_ARCH__ >= 800
typedef half T;
#else
typedef float T;
#endif
struct S { float4 a; int b[3]; struct { half h[2][3]; }; union { int i; float f; } u; T *next; unsigned bits : 3; };
enum class E : short { A, B = 3 };
namespace n { template <class U, int N = 4> struct V { U x[N]; }; }
extern "C" __global__ void __launch_bounds__(64) f(const T *__restrict__ x, S s, const S &r, half2 *h, E e, int m[2][3], size_t k) {
  int g = blockIdx.x * blockDim.x + threadIdx.x;
  if (g < k) h[g].x = x[g] + s.b[(int)e];
}
template <class U> __global__ void g(n::V<U> v, U *p, cuda::std::complex<U> z = {}) { p[0] = v.x[0]; }
template __global__ void g<double>(n::V<double>, double *, cuda::std::complex<double>);
"""

#: Symbols of kernels with each kind of type and name that the reader of mangled names has.
MANGLED = (
    b"_ZN2ns2k2EPKfP6__half6float4iPVi1E1SPKS8_PPfbwDsxymac",
    b"_Z5scaleIfLi3ELb1ELin4EEvPT_S0_i",
    b"_ZN36_GLOBAL__N__00000000_4_k_cu_6718cbdc4anonEPi",
    b"_Z1rIJifPKdEEvDpPKT_",
    b"_Z1kPN4cuda3std3__47complexIfEERA4_KfPFviEDF16_",
    b"_ZN2ns1kIfNS_1BEEEvPT_PKT0_PNS_1CE",
    b"_Z10devmod_sigIFvPKfP6__half6float4PA4_fEE",
    b"_ZL4statCfOSt",
)

#: PTX with directives that NVRTC writes rarely.
PTX = """.version 8.0
.target sm_80 // a comment
.address_size 64
.extern .shared .align 16 .b8 sm[];
.func (.param .b32 r) helper (.param .b32 a) { { ld.shared.b32 %r1, [sm]; } ret; }
.visible .entry k(.param .texref t, .param .u8 x, .param .u64 .ptr .global .align 16 p, .param .b64 q[3], .param .f16 h)
.maxntid 0x40U, 010
.minnctapersm 2
.pragma "nounroll";
{ /* call */ call (r), helper, (a); ret; }
.entry fixed() .reqntid 32 .reqnctapercluster 2, 1, 1 .explicitcluster .maxclusterrank 8 .blocksareclusters {}
"""


def golden(suffix: str) -> list[bytes]:
    """Return the golden files of a suffix, the valid ones first."""
    valid = sorted((_GOLDEN / "v1").glob(f"*{suffix}"))
    bad = sorted((_GOLDEN / "bad").glob(f"*{suffix}"))
    return [path.read_bytes() for path in valid + bad]


def vectors(part: str, suffix: str = "") -> list[bytes]:
    """Return the vectors of core's tests in a folder ("arch", "tvm")."""
    return [
        path.read_bytes()
        for path in sorted((_VECTORS / part).glob(f"*{suffix}"))
        if path.suffix != ".md"
    ]


def _flat_table(fields: Mapping[int, object]) -> tuple[bytes, int]:
    """Return a table of a FlatBuffer, and its place in the bytes: of numbers of 4 bytes, texts, and
    vectors of numbers or tables.
    """
    slots = [0] * (max(fields) + 1)
    for place, number in enumerate(sorted(fields)):
        slots[number] = 4 + 4 * place
    made = bytearray(
        struct.pack(f"<{2 + len(slots)}H", 4 + 2 * len(slots), 4 + 4 * len(fields), *slots)
    )
    start = len(made)
    made += struct.pack("<i", start) + bytes(4 * len(fields))

    def refer(at: int, value: object) -> None:
        if isinstance(value, int):
            struct.pack_into("<I", made, at, value)
            return
        table, place = _flat_table(value) if isinstance(value, dict) else (b"", 0)
        struct.pack_into("<I", made, at, len(made) + place - at)
        if isinstance(value, str):
            made.extend(struct.pack("<I", len(value)) + value.encode())
        elif isinstance(value, list):
            first = len(made) + 4
            made.extend(struct.pack("<I", len(value)) + bytes(4 * len(value)))
            for number, each in enumerate(value):
                refer(first + 4 * number, each)
        made.extend(table)

    for place, number in enumerate(sorted(fields)):
        refer(start + 4 + 4 * place, fields[number])
    return bytes(made), start


def _tag(name: bytes, value: bytes) -> bytes:
    return name + struct.pack("<H", len(value)) + value


def metallib(functions: Mapping[str, Sequence[Mapping[int, object]] | None]) -> bytes:
    """Return a library of Metal: for each kernel the nodes that describe it, or None."""
    described = b""
    groups = b""
    for name, nodes in functions.items():
        tags = _tag(b"NAME", name.encode() + b"\0") + _tag(b"TYPE", b"\2")
        if nodes is not None:
            tags += _tag(b"RFLT", struct.pack("<Q", len(described)))
        groups += struct.pack("<I", len(tags) + 8) + tags + b"ENDT"
        if nodes is not None:
            table, start = _flat_table({1: list(nodes)})
            buffer = struct.pack("<I", start + 8) + b"AIRR" + table
            described += (
                struct.pack("<I", len(buffer) + 16)
                + b"RBUF"
                + struct.pack("<I", len(buffer))
                + buffer
                + b"ENDT"
            )
    lists = struct.pack("<4sHQQ4s", b"RLST", 16, 88 + 4 + len(groups) + 26, len(described), b"ENDT")
    size = 118 + len(groups) + len(described)
    head = struct.pack("<4s12xQQQQ", b"MTLB", size, 88, len(groups), 118 + len(groups)).ljust(
        88, b"\0"
    )
    return head + struct.pack("<I", len(functions)) + groups + lists + described


def metal_argument(index: int, type_: str, name: str, size: int, **other: int) -> dict[int, object]:
    """Return the node of a buffer of elements of a size, or with `object=1` of one element in
    constant memory.
    """
    space = other.get("space", 2 if "object" in other else 1)
    access = other.get("access", 3)
    place = {1: [size]} if "object" in other else {}
    return {
        0: 0x40000,
        1: {
            **place,
            2: index,
            3: 1,
            4: access,
            5: space,
            8: size,
            9: min(size, 4),
            10: type_,
            11: name,
        },
    }


def metallibs() -> list[bytes]:
    """Libraries of Metal with each kind of node that devmod reads."""
    nodes = [
        {0: 2, 1: {0: "k", 2: [1, 2, 3]}},
        metal_argument(1, "float", "x", 4),
        metal_argument(0, "uint", "n", 4, object=1, access=1),
        metal_argument(2, "S", "s", 16, object=1, access=1),
        metal_argument(0, "half4", "t", 8, space=3),
        {0: 0x41000, 1: {1: "uint", 2: "i"}},
        {0: 0x1003, 1: {0: 128}},
        {0: 0x80000, 1: {0: "bool", 1: "flag", 2: 3}},
    ]
    return [metallib({"k": nodes, "old": None}), metallib({"image": [{0: 0x40001, 1: {2: 0}}]})]


def containers() -> list[bytes]:
    """Return the containers of device code that the build side's tests have."""
    folders = [
        ROOT / "compilers/readers/tests/vectors/offload",
        ROOT / "compilers/readers/tests/vectors/kpack",
    ]
    files = []
    for folder in folders:
        for path in sorted(folder.iterdir()):
            if path.suffix != ".md":
                files.append(path.read_bytes())
    return files


def lookups() -> list[bytes]:
    """Bundles of several pages. devmod writes them for more than 32 KiB of records, and reads them
    in any file.
    """
    import devmod

    writer: Any = import_module("devmod._files.index_writer")
    info = [
        {name: devmod.FunctionInfo(name, ["handle"]) for name in names}
        for names in (("f",), ("g", "größe"), ("f", "h"), ("i",))
    ]
    modules = [devmod.create_with_fallback("cuda", b"payload", "cubin", each) for each in info]
    shaders = [
        devmod.create_with_fallback("webgpu", dict.fromkeys(each, b"@compute"), "wgsl", each)
        for each in info
    ]
    before = writer.PAGE_SIZE
    writer.PAGE_SIZE = 150
    try:
        files = [devmod.dumps(devmod.bundle(*each, mixed=True)) for each in (modules, shaders)]
        modules[0].import_module(devmod.bundle(*shaders[:2], mixed=True))
        modules[1].import_module(modules[2])
        return [
            *files,
            devmod.dumps(
                devmod.bundle(devmod.bundle(*modules[2:], mixed=True), *modules, mixed=True)
            ),
        ]
    finally:
        writer.PAGE_SIZE = before


def includes() -> list[bytes]:
    """Sources with includes in every spelling."""
    return [
        b'#include "a.h"\n#  include <b.h>\n/* c */ # /* c */ include /* c */ "c.h"\n%:include <d.h>\n??=import "e.h"\n#include NAME\n',
        b'#inc\\\nlude "a.h"\n#if __has_include(<b.h>) && __has_embed("c")\n#embed "c"\n#endif\nasm(".incbin \\"x\\"");\n',
        b'#define NAME "../a.h" // a\n#define TEXT(x) #x\n#include TEXT(a.h)\n#define HAS(x) __has_include(x)\n',
        b'int a = 1\'000; char b[] = "#include";\n#include NAME /* b */\n#define NAME OTHER\n',
    ]


def closed_sources() -> list[bytes]:
    """Sources that name a file in every spelling. The reader replaces FOLDER by the folder of
    named.h, and BASE by its name.
    """
    return [
        b'#include "named.h"\n#  include <named.h>\n/* " */ # /* c */ include "FOLDER/named.h"\n%:include <named.h>\n??=include "named.h"\n'
        b'#define NAME "named.h"\n#include NAME\n#in\\\nclude "FOLDER/../BASE/named.h"\n#import "named.h"\n'
        b"#include_next <named.h>\nint a = VALUE;\n",
        b'#if __has_include("named.h") || __has_include_next(<named.h>)\nint b;\n#endif\n#define CAT(x, y) x##y\n#define STR(x) #x\n'
        b'#if defined(__has_include) && CAT(__has, _include)("FOLDER/named.h")\nint c;\n#endif\n#ifdef VALUE\nint d;\n#endif\n',
        b'#if 0\n#include "named.h"\n#endif // don\'t\n#pragma GCC dependency "named.h"\n_Pragma("clang dependency \\"named.h\\"")\n'
        b'const char *e = "/*" R"(\n#include "named.h"\n)";\nint f = 1\'0;\nint g = \'"\';\n#embed "named.h"\n',
        b'int h() { int x; asm volatile("nop\\n\\t" "/* .byte 1 */"\n : "=r"(x)); return x; }\n'
        b'__asm__(".data\\n.incbin \\"FOLDER/named.h\\"\\n");\n'
        b"// an asm in a comment\n#define A asm\n#define __volatile__ (S(.inc)\n",
        b"#define C2(a, b) a##b\n#define C(a, b) C2(a, b)\n#define S(x) #x\n#define devmod_has_no_assembly __as##m__\n"
        b'void i() { C(__as, m__)(S(.inc) "bin \\"FOLDER/named.h\\""); C(as, m)(""); }\n',
        b"//devmod: -DS(x)=#x\n#define P(x) _Pragma(#x)\n#define S(x) /*\n*/ #x\n#pragma clang/**/module import a\n"
        b'#pragma GCC dependency /*a*/ "FOLDER/named.h"\nP(GCC C(depend, ency) "FOLDER/named.h")\n',
        b'static int j() __attribute__((weakref(".incbin")));\nstatic int k() __attribute__((weakref("FOLDER/named.h")));\n'
        b'void l() { __asm__("%P0 %P1" :: "i"(j), "i"(k)); }\nextern int m __asm__("n");\n',
    ]


def examples(kind: str, *suffixes: str) -> list[bytes]:
    """Return the sources of the examples for a kind."""
    return [
        path.read_bytes()
        for path in sorted((ROOT / "examples" / kind).iterdir())
        if path.suffix in suffixes
    ]


def wire(kind: str) -> list[bytes]:
    """Return module bytes of a kind: the golden ones, and those of a function with members of
    structs.
    """
    import devmod

    spec = devmod.backend.find_spec(kind)
    if spec is None:
        return golden(f"{kind}.bytes")
    interface = devmod.Interface.from_dict(
        {
            "params": [*MEMBERS, {"name": "n", "kind": "scalar", "type": "int32"}],
            "default_block": [64, 1, 1],
            "open_block": True,
            "needs": ["tuned"],
            "tune": TUNE,
        }
    )
    info = devmod.FunctionInfo(
        "f", ["uint8x64", "uint8x44", "handle", "int32"], interface=interface
    )
    made = devmod.create_with_fallback(
        kind, {"f": b"x"} if spec.shader_map else b"x", spec.formats[0], {"f": info}
    )
    return [*golden(f"{kind}.bytes"), made.save_to_bytes()]


def tvm_modules(kind: str) -> list[bytes]:
    """Return module bytes as TVM writes them, cut out of its imports blobs."""
    made = golden(f"{kind}.tvmbytes")
    for blob in vectors("tvm", ".tvmimports"):
        word = struct.pack("<Q", len(kind)) + kind.encode()
        at = blob.find(word)
        if at >= 0:
            at += len(word)
            size = int.from_bytes(blob[at : at + 8], "little")
            made.append(blob[at + 8 : at + 8 + size])
    return made


def signatures() -> list[bytes]:
    """Return files of signatures that no key has made, and a payload."""
    from devmod.backend import loads_own
    from devmod_trust._envelope import Envelope, Signature, head_of, make_statement

    data = golden(".devmod")[0]
    payload = make_statement(loads_own(data), head_of(data), "acme/f", 3)
    return [
        payload,
        *(Envelope(payload, (Signature("k", bytes(64)),) * count).to_bytes() for count in (1, 3)),
    ]


def triton_records() -> list[bytes]:
    """Return a record of Triton's kernels, with each form of an argument."""
    arguments = {
        "x": "*fp32:16",
        "pair": ["fp32", {"value": 1}],
        "dtype": {"value": {"type": "fp16"}},
        "shape": {"value": {"tuple": [1, None, True, {"float": "inf"}]}},
        "helper": {"value": {"function": "package.module:helper"}},
    }
    kernel = {"function": "package.module:add", "arguments": arguments, "options": {"num_warps": 8}}
    choice = {
        "function": "package.module:add",
        "source": "ab" * 32,
        "gpu": "cuda:90:32:132",
        "key": [64, "torch.float32"],
        "config": {"N": 4},
        "milliseconds": 0.5,
        "others": [[{"N": 8}, None]],
    }
    return [json.dumps({"triton": "3.9.0", "kernels": [kernel], "choices": [choice]}).encode()]


def metadata() -> list[bytes]:
    """Return texts of metadata files, with and without an interface."""
    interface = {
        "params": [
            {"name": "x", "kind": "buffer", "type": "float32", "access": "rw", "at": [0, 1]},
            {"name": "n", "kind": "scalar", "type": "int32", "at": [0, 4], "align": 4},
        ],
        "blocks": [{"at": "push", "size": 16}],
        "block": [64, 1, 1],
        "constants": [{"name": "TILE", "id": 3, "type": "uint32", "default": 8}],
        "block_constants": [0, -1, [0]],
    }
    info = {
        "name": "k",
        "arg_types": ["handle", "int32"],
        "launch_param_tags": ["blockIdx.x", "threadIdx.x"],
        "arg_extra_tags": [0, 1],
    }
    texts = [
        json.dumps({"func_info": {"f": info}, "tvm_version": "0.27"}),
        json.dumps({"func_info": {"f": info | {"interface": interface}}}),
        json.dumps(
            {
                "func_info": {
                    "f": {
                        "name": "f",
                        "arg_types": ["uint8x64", "uint8x44", "handle"],
                        "interface": {"params": MEMBERS},
                    }
                }
            }
        ),
    ]
    return [text.encode() for text in texts] + golden(".tvm_meta.json")


def raw() -> list[bytes]:
    """Return inputs of the readers of raw payloads: a byte that chooses the format, metadata, a
    zero and a payload.
    """
    payloads = [
        b"__kernel void k(__global float *x, int n) {}",
        b"\x7fELF" + bytes(60),
        struct.pack("<5I", 0x07230203, 0x10300, 0, 8, 0),
    ]
    payloads += [
        *vectors("arch", ".spv"),
        *vectors("arch")[::4],
        b"@compute @workgroup_size(64) fn k() {}",
        b"MTLB" + bytes(84),
    ]
    return [
        bytes([number]) + metadata()[number % 2] + b"\0" + payload
        for number, payload in enumerate(payloads * 2)
    ]


def _opencl_spirv() -> bytes:
    """Return a module whose kernel takes values of nested structs, pointers, an image and a
    sampler.
    """
    instructions = [
        (15, 6, 1, 0x6B),
        (71, 40, 41, 0x66, 1),
        (39, 20, 7),
        (19, 2),
        (21, 3, 32, 0),
        (22, 4, 64),
        (23, 5, 4, 3),
        (43, 3, 6, 2),
        (28, 7, 5, 6),
        (30, 10, 20, 3),
        (30, 11, 10, 10, 7),
        (30, 12, 11, 11),
        (32, 20, 7, 10),
        (32, 21, 5, 4),
        (32, 22, 7, 12),
        (25, 23, 2, 1, 0, 1, 0, 0, 0, 1),
        (26, 24),
        (33, 30, 2, 12, 21, 22, 23, 24, 5, 3),
        (54, 2, 1, 0, 30),
        (56,),
        (54, 2, 40, 0, 30),
        (56,),
    ]
    packed = (
        struct.pack(f"<{len(each)}I", len(each) << 16 | each[0], *each[1:]) for each in instructions
    )
    return struct.pack("<5I", 0x07230203, 0x00010200, 0, 64, 0) + b"".join(packed)


@cache
def spirv() -> list[bytes]:
    """Return SPIR-V of the vectors, of an OpenCL kernel, of clspv and, if glslang is installed, of
    the examples.
    """
    made = [*vectors("arch", ".spv"), _opencl_spirv()]
    clspv = ROOT / "plugins" / "devmod-vulkan" / "tests" / "clspv"
    made += [path.read_bytes() for path in sorted(clspv.glob("*.spv"))]
    program = shutil.which("glslangValidator")
    if program:
        with tempfile.TemporaryDirectory() as folder:
            for path in sorted((ROOT / "examples" / "vulkan").glob("*.comp")):
                out = Path(folder) / "k.spv"
                command = [
                    program,
                    "--target-env",
                    "vulkan1.1",
                    "-I" + str(path.parent),
                    str(path),
                    "-o",
                    str(out),
                ]
                if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                    made.append(out.read_bytes())
    return made


def libraries() -> list[bytes]:
    """Return ELF files: a library that TVM exported, and small ones."""
    return [*vectors("tvm", ".so"), *vectors("arch", ".so"), *vectors("arch", ".cubin")[:2]]


def words_of(texts: list[bytes]) -> list[str]:
    """Return the words of some programs, for a mutator."""
    import re

    words: set[str] = set()
    for text in texts:
        words |= set(re.findall(r"\w+", text.decode("utf-8", "replace")))
    return sorted(words)


def onnx_models() -> list[bytes]:
    """Models of ONNX: each form of a constant, external data, lengths that are open, and every type
    of attribute.
    """
    from onnx import TensorProto, helper

    def model(nodes: list[Any], constants: list[Any], shape: list[Any] | None) -> bytes:
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
        graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
        return bytes(
            helper.make_model(
                graph, opset_imports=[helper.make_opsetid("", 13)]
            ).SerializeToString()
        )

    plain = helper.make_tensor("w", TensorProto.FLOAT, [2, 3], [1.0] * 6)
    raw = helper.make_tensor("b", TensorProto.BFLOAT16, [3], bytes(6), raw=True)
    outside = TensorProto(
        name="e", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL
    )
    for key, value in (("location", "weights.bin"), ("offset", "8"), ("length", "8")):
        outside.external_data.add(key=key, value=value)
    empty = TensorProto(name="z", data_type=TensorProto.INT64, dims=[0], raw_data=bytes(8))
    half = helper.make_tensor("h", TensorProto.FLOAT16, [], [0.5])
    multiply = helper.make_node("MatMul", ["x", "w"], ["a"])
    add = helper.make_node(
        "Add",
        ["a", "b"],
        ["y"],
        axes=[1, 2],
        scale=[0.5],
        text="t",
        many=["a", "b"],
        t=plain,
        f=1.5,
        i=-1,
    )
    fixed = helper.make_node("Constant", [], ["y"], value=half)
    branch = helper.make_node(
        "If", ["x"], ["y"], then_branch=helper.make_graph([multiply], "t", [], [])
    )
    return [
        model([multiply, add], [plain, raw], ["batch", 2]),
        model([fixed], [outside, empty, half], [-1, 2]),
        model([branch], [], None),
        model(
            [
                helper.make_node("Split", ["x"], ["y", ""]),
                helper.make_node("Identity", ["y"], ["z"]),
            ],
            [],
            ["?", "?"],
        ),
    ]
