"""Large files like those that once took too long. Each has a given size in bytes, and must be read
in time and memory linear in it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from itertools import pairwise

from fuzzing.mutation import Pairs, assemble, bundle_of, pack

#: A function that returns a file of about that many bytes.
Maker = Callable[[int], bytes]

_MAIN = "@compute @workgroup_size(1) fn main() {{ {body} }}\n"

_NAME = int.from_bytes(b"main", "little")
_HEAD = ((17, 1), (14, 0, 1))
#: void, its function type, float, uint: ids 1 to 4.
_TYPES = ((19, 1), (33, 2, 1), (22, 3, 32), (21, 4, 32, 0))

_SIMULATED = b".version 8.0\n.target sm_90\n.address_size 64\n"

_KERNEL = 'targets = ["opencl"]\n[kernels.a]\nsources = ["a.cl"]\n'


def _u64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def _text(value: str) -> bytes:
    return _u64(len(value)) + value.encode()


def _wrapped(kind: str, data: bytes, **more: object) -> bytes:
    index = Pairs([("roots", [0]), ("modules", [Pairs([("kind", kind), *more.items()])])])
    return bundle_of(*assemble([index], [data]))


# -- bundles


def tiny_maps(size: int) -> bytes:
    """Return an index with an unknown key whose value is tiny maps."""
    count = size // 3
    value = b"\xdd" + struct.pack(">I", count) + b"\x81\xa0\xc0" * count
    return bundle_of(b"\x82\xa7modules\x91\x81\xa4kind\xa6bundle\xa1x" + value, b"")


def tiny_maps_in_origin(size: int) -> bytes:
    """Return an index whose module has an origin of tiny maps, which are kept."""
    count = size // 3
    value = b"\xdd" + struct.pack(">I", count) + b"\x81\xa0\xc0" * count
    return bundle_of(b"\x81\xa7modules\x91\x82\xa4kind\xa6bundle\xa6origin\x81\xa1x" + value, b"")


def nodes(size: int) -> bytes:
    """Return an index of empty nodes that the first one imports."""
    count = size // 18
    first = Pairs([("kind", "bundle"), ("imports", list(range(1, count + 1)))])
    return bundle_of(
        pack(Pairs([("roots", [0]), ("modules", [first, *[Pairs([("kind", "bundle")])] * count])])),
        b"",
    )


def layers(size: int) -> bytes:
    """Return 60 layers of nodes, each of which imports the whole next layer. A file may have some
    1,000 nodes without bytes.
    """
    width = max(min(int((size / 60 / 3) ** 0.5), 16), 2)
    modules = []
    for layer in range(60):
        later = [] if layer == 59 else list(range((layer + 1) * width, (layer + 2) * width))
        modules += [Pairs([("kind", "bundle"), ("imports", later)])] * width
    return bundle_of(pack(Pairs([("roots", list(range(width))), ("modules", modules)])), b"")


def unknown_kinds(size: int) -> bytes:
    """Return modules of many kinds, all of them unknown."""
    count = size // 160
    modules = [Pairs([("kind", "bundle"), ("imports", list(range(1, count + 1)))])]
    modules += [
        Pairs([("kind", f"kind{number}"), ("format", "x"), ("functions", ["f"])])
        for number in range(count)
    ]
    return bundle_of(
        *assemble([Pairs([("roots", [0]), ("modules", modules)])], [None, *[b"x"] * count])
    )


def function_names(size: int) -> bytes:
    """Return a module of an unknown kind with many functions."""
    names = [f"function_{number}" for number in range(size // 17)]
    return _wrapped("npu", b"", functions=names)


def functions(size: int) -> bytes:
    """Return an OpenCL module with many functions."""
    fmap = Pairs(
        (f"f{number}", [f"f{number}", [[3, 64, 1], [2, 32, 1]], ["blockIdx.x"], []])
        for number in range(size // 48)
    )
    data = pack("cl") + pack(fmap) + pack(b"")
    return _wrapped("opencl", data, format="cl", functions=[key for key, _ in fmap])


def arguments(size: int) -> bytes:
    """Return an OpenCL module with one function of many arguments, which its interface names."""
    count = size // 50
    params = [
        Pairs([("name", f"p{number}"), ("kind", "scalar"), ("type", "float32")])
        for number in range(count)
    ]
    fmap = Pairs([("f", ["f", [[2, 32, 1]] * count, [], [], Pairs([("params", params)])])])
    return _wrapped("opencl", pack("cl") + pack(fmap) + pack(b""), format="cl", functions=["f"])


def members(size: int) -> bytes:
    """Return an OpenCL module with one function whose argument is a struct of many members."""
    count = size // 34
    listed = [
        Pairs([("name", f"m{number}"), ("type", "int32"), ("offset", 4 * number)])
        for number in range(count)
    ]
    params = [
        Pairs(
            [("name", "p"), ("kind", "scalar"), ("type", f"uint8x{4 * count}"), ("members", listed)]
        )
    ]
    fmap = Pairs([("f", ["f", [[1, 8, 4 * count]], [], [], Pairs([("params", params)])])])
    return _wrapped("opencl", pack("cl") + pack(fmap) + pack(b""), format="cl", functions=["f"])


def shaders(size: int) -> bytes:
    """Return a WebGPU module with many shaders."""
    fmap = Pairs((f"f{number}", ["f", [], [], []]) for number in range(size // 30))
    code = Pairs((key, b"fn f() {}") for key, _ in fmap)
    return _wrapped(
        "webgpu", pack(fmap) + pack(code), format="wgsl", functions=[key for key, _ in fmap]
    )


# -- constants


def constants(size: int) -> bytes:
    """Return many constants."""
    tensors = Pairs((f"c{number:06}", [[2, 32, 1], [1], b"1234"]) for number in range(size // 20))
    return pack(tensors) + pack(Pairs([("init", [key for key, _ in tensors])]))


def packed_constants(size: int) -> bytes:
    """Return one constant of many elements of 64 lanes of a bit."""
    return pack(Pairs([("w", [[1, 1, 64], [size // 8], bytes(size // 8 * 8)])])) + pack(Pairs())


def symbols(size: int) -> bytes:
    """Return many init symbols."""
    return pack(Pairs([("w", [[2, 32, 1], [1], b"1234"])])) + pack(
        Pairs((f"s{number:06}", ["w"] * 4) for number in range(size // 17))
    )


# -- metadata


def metadata(size: int) -> bytes:
    """Return metadata of many functions."""
    info = {"name": "k", "arg_types": ["handle"], "launch_param_tags": []}
    return json.dumps({"func_info": {f"f{number}": info for number in range(size // 75)}}).encode()


# -- TVM


def _blob(rows: list[int], children: list[int], modules: bytes) -> bytes:
    body = _u64(len(rows), *rows) + _u64(len(children), *children) + modules
    return _u64(len(body)) + body


def tvm_chain(size: int) -> bytes:
    """Return a chain of modules, each of which imports the next."""
    count = size // 28
    return _blob([*range(count), count - 1], list(range(1, count)), _text("_lib") * count)


def tvm_wide(size: int) -> bytes:
    """Return many modules of unknown kinds that the first one imports."""
    count = size // 40
    return _blob(
        [0, *[count] * (count + 1)],
        list(range(1, count + 1)),
        _text("_lib") + (_text("npu") + _text("")) * count,
    )


def tvm_functions(size: int) -> bytes:
    """Return an OpenCL module with many functions."""
    count = size // 64
    fmap = _u64(count) + b"".join(
        _text(f"f{number:05}") + _text(f"f{number:05}") + _u64(0, 0, 0) for number in range(count)
    )
    return _blob(
        [0, 1, 1],
        [1],
        _text("_lib") + _text("opencl") + _text_bytes(_text("cl") + fmap + _text("")),
    )


def _text_bytes(data: bytes) -> bytes:
    return _u64(len(data)) + data


# -- ELF


def library(size: int, *, one_string: bool = True) -> bytes:
    """Return a library whose symbols have names that all end at the end of one string."""
    count = size // 50
    strings = b"\0" + b"a" * (size - 24 * count) + b"\0"
    if not one_string:
        strings = b"\0" + b"a\0" * ((size - 24 * count) // 2)
    names = b"\0.dynsym\0.dynstr\0.shstrtab\0"
    table = bytes(24) + b"".join(
        struct.pack("<IBBHQQ", 1 + number % (len(strings) // 4), 0x11, 0, 1, 0, 0)
        for number in range(count)
    )
    at = 64 + len(table)
    after = at + len(strings)
    headers = after + len(names) + (-(after + len(names)) % 8)
    sections = [
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (1, 11, 2, 0, 64, len(table), 2, 1, 8, 24),
        (9, 3, 2, 0, at, len(strings), 0, 0, 1, 0),
        (17, 3, 0, 0, after, len(names), 0, 0, 1, 0),
    ]
    head = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\2\1\1",
        3,
        62,
        1,
        0,
        0,
        headers,
        0,
        64,
        56,
        0,
        64,
        len(sections),
        3,
    )
    body = head + table + strings + names
    return body.ljust(headers, b"\0") + b"".join(
        struct.pack("<IIQQQQIIQQ", *section) for section in sections
    )


def sections(size: int) -> bytes:
    """Return a library with many sections."""
    count = min(size // 64, 65_000)
    names = b"\0.x\0.shstrtab\0"
    start = 64 + len(names) + (-(64 + len(names)) % 8)
    head = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\2\1\1",
        3,
        62,
        1,
        0,
        0,
        start,
        0,
        64,
        56,
        0,
        64,
        count,
        count - 1,
    )
    one = struct.pack("<IIQQQQIIQQ", 1, 1, 0, 0, 64, len(names), 0, 0, 1, 0)
    last = struct.pack("<IIQQQQIIQQ", 4, 3, 0, 0, 64, len(names), 0, 0, 1, 0)
    return (head + names).ljust(start, b"\0") + one * (count - 1) + last


# -- WGSL


def _wgsl(declarations: str, body: str = "") -> bytes:
    return (declarations + _MAIN.format(body=body)).encode()


def wgsl_structs(size: int) -> bytes:
    """Return structs with two members of the struct before."""
    count = min(size // 34, 60)
    text = "struct S0 { a: f32 }\n" + "".join(
        f"struct S{n} {{ a: S{n - 1}, b: S{n - 1} }}\n" for n in range(1, count)
    )
    return _wgsl(
        text + f"@group(0) @binding(0) var<storage, read_write> x: S{count - 1};\n", "x.a = x.b;"
    )


def wgsl_entries(size: int) -> bytes:
    """Return many entries that use one buffer."""
    one = "@compute @workgroup_size(64) fn f{}() {{ x[0] = 1.0; }}\n"
    return (
        "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n"
        + "".join(map(one.format, range(size // 55)))
    ).encode()


def wgsl_calls(size: int) -> bytes:
    """Return functions that call the one before twice."""
    count = size // 40
    text = "fn f0() -> f32 { return x[0]; }\n" + "".join(
        f"fn f{n}() -> f32 {{ return f{n - 1}() + f{n - 1}(); }}\n" for n in range(1, count)
    )
    return _wgsl(
        "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n" + text,
        f"x[0] = f{count - 1}();",
    )


def wgsl_constants(size: int) -> bytes:
    """Return constants whose values use the constant before twice."""
    count = size // 26
    text = "const c0 = 1u;\n" + "".join(
        f"const c{n} = c{n - 1} / 2u + c{n - 1} / 2u;\n" for n in range(1, count)
    )
    return _wgsl(text + f"var<workgroup> w: array<f32, c{count - 1} + 1u>;\n", "w[0] = 1.0;")


def wgsl_aliases(size: int) -> bytes:
    """Return aliases, each of the alias before."""
    count = size // 20
    text = "alias a0 = f32;\n" + "".join(f"alias a{n} = a{n - 1};\n" for n in range(1, count))
    return _wgsl(
        text + f"@group(0) @binding(0) var<storage, read_write> x: array<a{count - 1}>;\n",
        "x[0] = 1.0;",
    )


def wgsl_sum(size: int) -> bytes:
    """Return one long sum."""
    return _wgsl(
        "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n",
        "x[0] = " + "+".join(["x[1]"] * min(size // 5, 3000)) + ";",
    )


def wgsl_statements(size: int) -> bytes:
    """Return many statements."""
    return _wgsl(
        "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n",
        "x[0] = x[1] * 2.0;\n" * (size // 20),
    )


def wgsl_overrides(size: int) -> bytes:
    """Return overrides whose values use the override before."""
    count = size // 32
    text = "override o0: u32 = 1;\n" + "".join(
        f"override o{n}: u32 = o{n - 1} + o{n - 1};\n" for n in range(1, count)
    )
    return (text + f"@compute @workgroup_size(o{count - 1}) fn main() {{}}\n").encode()


# -- SPIR-V


def _spirv(bound: int, *instructions: tuple[int, ...]) -> bytes:
    words = [0x07230203, 0x00010300, 0, bound, 0]
    for opcode, *operands in instructions:
        words += [(len(operands) + 1) << 16 | opcode, *operands]
    return struct.pack(f"<{len(words)}I", *words)


def _entry(number: int, function: int) -> tuple[int, ...]:
    return (
        15,
        5,
        function,
        _NAME,
        int.from_bytes(b"%03d" % (number % 1000), "little"),
        number // 1000,
        0,
    )


def spirv_structs(size: int) -> bytes:
    """Return structs with two members of the struct before, and a buffer of the last. Deeper ones
    are refused.
    """
    count = min(size // 48, 30)
    results: list[tuple[int, ...]] = [*_HEAD, (15, 5, 9000, _NAME, 0), (16, 9000, 17, 1, 1, 1)]
    ids = [3, *range(100, 100 + count)]
    for step, number in enumerate(ids[1:]):
        width = 4 << min(step, 28)
        results += [(72, number, 0, 35, 0), (72, number, 1, 35, width)]
    results += [(71, ids[-1], 2), (71, 8001, 34, 0), (71, 8001, 33, 0), *_TYPES]
    results += [(30, number, before, before) for before, number in pairwise(ids)]
    results += [
        (32, 8000, 12, ids[-1]),
        (59, 8000, 8001, 12),
        (54, 1, 9000, 0, 2),
        (248, 9001),
        (253,),
        (56,),
    ]
    return _spirv(10_000, *results)


def spirv_calls(size: int) -> bytes:
    """Return functions that call the one before twice."""
    count = size // 64
    last = 100 + 4 * (count - 1)
    results: list[tuple[int, ...]] = [
        *_HEAD,
        (15, 5, last, _NAME, 0),
        (16, last, 17, 1, 1, 1),
        *_TYPES,
    ]
    for number in range(count):
        own = 100 + 4 * number
        calls = [(57, 1, own + 2, own - 4), (57, 1, own + 3, own - 4)] if number else []
        results += [(54, 1, own, 0, 2), (248, own + 1), *calls, (253,), (56,)]
    return _spirv(last + 10, *results)


def spirv_entries(size: int) -> bytes:
    """Return many entries of one function that uses a buffer."""
    count = size // 52
    results: list[tuple[int, ...]] = [
        *_HEAD,
        *(_entry(number, 9000) for number in range(count)),
        (16, 9000, 17, 1, 1, 1),
    ]
    results += [
        (71, 101, 6, 4),
        (72, 102, 0, 35, 0),
        (71, 102, 2),
        (71, 104, 34, 0),
        (71, 104, 33, 0),
        *_TYPES,
    ]
    results += [
        (29, 101, 3),
        (30, 102, 101),
        (32, 103, 12, 102),
        (59, 103, 104, 12),
        (43, 4, 105, 0),
        (32, 106, 12, 3),
    ]
    results += [
        (54, 1, 9000, 0, 2),
        (248, 9001),
        (65, 106, 9002, 104, 105, 105),
        (61, 3, 9003, 9002),
        (253,),
        (56,),
    ]
    return _spirv(10_000, *results)


def spirv_constants(size: int) -> bytes:
    """Return specialization constants whose values use the constant before twice. The last one is
    the workgroup's size.
    """
    count = size // 24
    results: list[tuple[int, ...]] = [
        *_HEAD,
        (15, 5, 50, _NAME, 0),
        (331, 50, 38, 99 + count, 99 + count, 99 + count),
        (71, 100, 1, 0),
        *_TYPES,
    ]
    results += [(50, 4, 100, 1), *((52, 4, 100 + n, 128, 99 + n, 99 + n) for n in range(1, count))]
    results += [(54, 1, 50, 0, 2), (248, 51), (253,), (56,)]
    return _spirv(200 + count, *results)


def spirv_names(size: int) -> bytes:
    """Return many names and decorations of one id."""
    results: list[tuple[int, ...]] = [*_HEAD, (15, 5, 50, _NAME, 0), (16, 50, 17, 1, 1, 1)]
    results += [(5, 60, 0x61616161, 0)] * (size // 40) + [(71, 60, 34, 0), (71, 60, 33, 1)] * (
        size // 64
    )
    results += [*_TYPES, (54, 1, 50, 0, 2), (248, 51), (253,), (56,)]
    return _spirv(100, *results)


# -- sources


def opencl(size: int) -> bytes:
    """Return many kernels."""
    return "".join(
        f"kernel void f{number}(global float *x) {{ x[0] = 1; }}\n" for number in range(size // 55)
    ).encode()


def ptx(size: int) -> bytes:
    """Return a long text before the first directive."""
    return b"// .version\n" * (size // 12) + b".version 8.0\n.target sm_90\n"


# -- images of CUDA


def ptx_kernels(size: int) -> bytes:
    """Return PTX with many kernels that use dynamic shared memory."""
    head = ".version 8.0\n.target sm_80\n.extern .shared .align 4 .b8 s[];\n"
    return (
        head
        + "".join(
            f".entry k{index}(.param .u64 p) {{ mov.u32 %r, s; }}\n" for index in range(size // 44)
        )
    ).encode()


def ptx_comments(size: int) -> bytes:
    """Return PTX with many beginnings of comments and no end."""
    return _SIMULATED + b"/* " * (size // 3)


def ptx_strings(size: int) -> bytes:
    """Return PTX with many beginnings of strings and no end."""
    return _SIMULATED + b'\\"' * (size // 2)


def ptx_registers(size: int) -> bytes:
    """Return PTX with many declarations of many registers."""
    return _SIMULATED + b".visible .entry k() {" + b".reg .b32 %r<9999>;" * (size // 19)


def ptx_variables(size: int) -> bytes:
    """Return PTX with declarations of shared memory that have no end."""
    return b".version 8.0\n.target sm_80\n" + b".extern .shared .b8 x " * (size // 22)


def ptx_functions(size: int) -> bytes:
    """Return PTX with a chain of functions, the last of which uses dynamic shared memory."""
    count = size // 30
    calls = "".join(f".func f{index} {{ call f{index + 1}; }}\n" for index in range(count))
    return (
        f".version 8.0\n.extern .shared .b8 f{count}[];\n{calls}.entry k() {{ call f0; }}".encode()
    )


def cubin_sections(size: int) -> bytes:
    """Return a cubin whose sections have one name and one content, each of a third of the file."""
    third = size // 3
    count = third // 64
    table = 64 + third
    header = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, table, 0, 64, 0, 0, 64, count, 0)
    )
    strings = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64, third, 0, 0, 1, 0)
    section = struct.pack("<IIQQQQIIQQ", 0, 0x70000000, 0, 0, 64, third, 0, 0, 1, 0)
    name = b".nv.info." + b"k" * (third - 10) + b"\0"
    return header + name + strings + section * (count - 1)


def fatbin_members(size: int) -> bytes:
    """Return a fatbin with many members without data."""
    count = size // 64
    member = struct.pack("<HHIQ", 2, 0x101, 64, 0) + bytes(48)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, count * 64) + member * count


def mangled_types(size: int) -> bytes:
    """Return a mangled name whose types have template arguments of the types before them."""
    return b"_Z1f1a" + b"P1aIS_E" * (size // 7)


# -- code objects and containers of them


def _object(body: bytes, sections: bytes, segments: bytes = b"") -> bytes:
    at = 64 + len(body)
    counts = (64, 56, len(segments) // 56, 64, len(sections) // 64, 0)
    head = struct.pack("<HHIQQQIHHHHHH", 3, 224, 1, 0, at + len(sections), at, 0, *counts)
    return b"\x7fELF\2\1\1\x40\2" + bytes(7) + head + body + sections + segments


def code_object_notes(size: int) -> bytes:
    """Return a code object many of whose sections are one note."""
    kernels = [Pairs([("x", number)]) for number in range(size // 8)]
    metadata = pack(Pairs([("amdhsa.kernels", []), ("x", kernels)]))
    note = (
        struct.pack("<III", 7, len(metadata), 32)
        + b"AMDGPU\0\0"
        + metadata
        + bytes(-len(metadata) % 4)
    )
    return _object(
        note,
        struct.pack("<IIQQQQIIQQ", 0, 7, 0, 0, 64, len(note), 0, 0, 1, 0) * min(size // 128, 4000),
    )


def code_object_kernels(size: int) -> bytes:
    """Return a code object with many kernels, none of which has a descriptor."""
    names = ("name", "symbol", "kernarg_segment_size")
    kernels = [
        Pairs(zip((f".{each}" for each in names), (f"k{n}", f"k{n}.kd", 0), strict=True))
        for n in range(size // 60)
    ]
    metadata = pack(Pairs([("amdhsa.kernels", kernels)]))
    note = (
        struct.pack("<III", 7, len(metadata), 32)
        + b"AMDGPU\0\0"
        + metadata
        + bytes(-len(metadata) % 4)
    )
    return _object(note, struct.pack("<IIQQQQIIQQ", 0, 7, 0, 0, 64, len(note), 0, 0, 1, 0))


def _archive(table: Pairs, body: bytes) -> bytes:
    return (b"KPAK" + struct.pack("<IQ", 1, 64 + len(body))).ljust(64, b"\0") + body + pack(table)


def kpack_archives(size: int) -> bytes:
    """Return archives without code objects that follow each other."""
    return _archive(
        Pairs([("compression_scheme", "none"), ("toc", Pairs([])), ("blobs", [])]), b""
    ) * (size // 110)


def kpack_nested(size: int) -> bytes:
    """Return archives in archives, each of which has the one inside it several times."""
    data = bytes(size // 2)
    for _ in range(6):
        entries = Pairs(
            (f"gfx{number}", Pairs([("ordinal", 0)])) for number in range(max(2, size // 400))
        )
        place = Pairs([("offset", 64), ("size", len(data))])
        data = _archive(
            Pairs(
                [
                    ("compression_scheme", "none"),
                    ("toc", Pairs([("k", entries)])),
                    ("blobs", [place]),
                ]
            ),
            data,
        )
    return data


def offload_binaries(size: int) -> bytes:
    """Return OffloadBinaries without images that follow each other."""
    entry = struct.pack("<HHIQQQQ", 0, 2, 0, 72, 0, 72, 0)
    return (b"\x10\xff\x10\xad" + struct.pack("<IQQQ", 1, 72, 32, 40) + entry) * (size // 72)


# -- manifests


def manifest_keys(size: int) -> bytes:
    """Return a manifest with many unknown keys."""
    return (_KERNEL + "".join(f"x{number} = 1\n" for number in range(size // 11))).encode()


def manifest_key(size: int) -> bytes:
    """Return a manifest with one long dotted key."""
    return b"a." * (size // 2) + b"a = 1\n"


def manifest_array(size: int) -> bytes:
    """Return a manifest with many values in deep arrays."""
    return b"a = " + b"[" * 30 + b"0," * (size // 2) + b"]" * 30


#: Name to the reader, the maker, and the size in bytes.
LARGE: dict[str, tuple[str, Maker, int]] = {
    "bundle: tiny maps under an unknown key": ("bundle", tiny_maps, 3_900_000),
    "bundle: tiny maps in an origin": ("bundle", tiny_maps_in_origin, 500_000),
    "bundle: nodes": ("bundle", nodes, 300_000),
    "bundle: layers of nodes": ("bundle", layers, 65_000),
    "bundle: unknown kinds": ("bundle", unknown_kinds, 480_000),
    "bundle: names of functions": ("bundle", function_names, 500_000),
    "bundle: functions": ("bundle", functions, 400_000),
    "bundle: arguments": ("bundle", arguments, 400_000),
    "bundle: members of a struct": ("bundle", members, 400_000),
    "bundle: shaders": ("bundle", shaders, 300_000),
    "inspect: nodes": ("inspect-devmod", nodes, 300_000),
    "inspect: layers of nodes": ("inspect-devmod", layers, 65_000),
    "inspect: unknown kinds": ("inspect-devmod", unknown_kinds, 480_000),
    "inspect: names of functions": ("inspect-devmod", function_names, 300_000),
    "inspect: functions": ("inspect-devmod", functions, 300_000),
    "inspect: arguments": ("inspect-devmod", arguments, 300_000),
    "inspect: members of a struct": ("inspect-devmod", members, 300_000),
    "const_loader: constants": ("const_loader", constants, 400_000),
    "const_loader: init symbols": ("const_loader", symbols, 300_000),
    "const_loader: lanes of a bit": ("const_loader", packed_constants, 32_000_000),
    "metadata: functions": ("metadata", metadata, 500_000),
    "TVM: a chain": ("tvm-imports", tvm_chain, 5_600_000),
    "TVM: many modules": ("tvm-imports", tvm_wide, 400_000),
    "TVM: functions": ("tvm-imports", tvm_functions, 400_000),
    "inspect: a chain of TVM's": ("inspect-tvmimports", tvm_chain, 560_000),
    "library: names that end at the end of one string": ("tvm-library", library, 620_000),
    "library: sections": ("tvm-library", sections, 600_000),
    "inspect: a library": ("inspect-so", library, 620_000),
    "PTX: kernels": ("ptx", ptx_kernels, 400_000),
    "PTX: variables without an end": ("ptx", ptx_variables, 2_000_000),
    "simulated PTX: comments without an end": ("simulated-ptx", ptx_comments, 1_000_000),
    "simulated PTX: strings without an end": ("simulated-ptx", ptx_strings, 1_000_000),
    "simulated PTX: registers": ("simulated-ptx", ptx_registers, 400_000),
    "PTX: a chain of functions": ("ptx", ptx_functions, 300_000),
    "cubin: sections of one name": ("cubin", cubin_sections, 600_000),
    "fatbin: members": ("fatbin", fatbin_members, 250_000),
    "code object: notes": ("code-object", code_object_notes, 500_000),
    "code object: kernels": ("code-object", code_object_kernels, 500_000),
    "kpack: archives": ("offload", kpack_archives, 400_000),
    "kpack: archives in archives": ("offload", kpack_nested, 300_000),
    "offload: binaries": ("offload", offload_binaries, 300_000),
    "manifest: unknown keys": ("manifest", manifest_keys, 400_000),
    "manifest: a dotted key": ("manifest", manifest_key, 400_000),
    "manifest: deep arrays": ("manifest", manifest_array, 400_000),
    "mangled name: types": ("mangled", mangled_types, 60_000),
    "WGSL: structs": ("wgsl", wgsl_structs, 717),
    "WGSL: entries": ("wgsl", wgsl_entries, 60_000),
    "WGSL: calls": ("wgsl", wgsl_calls, 30_000),
    "WGSL: constants": ("wgsl", wgsl_constants, 60_000),
    "WGSL: aliases": ("wgsl", wgsl_aliases, 60_000),
    "WGSL: a sum": ("wgsl", wgsl_sum, 15_000),
    "WGSL: statements": ("wgsl", wgsl_statements, 200_000),
    "WGSL: overrides": ("wgsl", wgsl_overrides, 60_000),
    "SPIR-V: structs": ("spirv", spirv_structs, 3_000),
    "SPIR-V: calls": ("spirv", spirv_calls, 300_000),
    "SPIR-V: entries": ("spirv", spirv_entries, 100_000),
    "SPIR-V: constants": ("spirv", spirv_constants, 200_000),
    "SPIR-V: names": ("spirv", spirv_names, 400_000),
    "OpenCL C: kernels": ("opencl-source", opencl, 60_000),
    "PTX: a long comment": ("payload-cuda", ptx, 1_000_000),
    "JavaScript: tiny maps": ("javascript", tiny_maps, 3_900_000),
    "JavaScript: functions": ("javascript", functions, 400_000),
    "JavaScript: layers of nodes": ("javascript", layers, 65_000),
}
