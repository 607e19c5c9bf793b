"""Trees of the golden files that have the rarer keys of docs/formats.md: of interfaces, of tuned
functions and their records, of programs, and of heads.

tests/test_golden_keys.py compares them with the page. Values differ from each other, so that a
reader that takes one for another is noticed.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import msgpack  # type: ignore[import-untyped]

import devmod
from devmod import Block, FunctionInfo, Interface, Local, Member, Param, TuningRecord
from devmod.backend import Payload, module_of
from devmod_readers.programs import Array
from devmod_targets._program_text import parse_program
from devmod_targets.programs import Parts
from handmade import aligned, headed, row

#: Types of each code, with several bits and lanes.
TYPES = (
    *("int3", "uint1", "float64x2", "handle", "void", "bfloat16x3", "complex128", "boolx2"),
    *("float8_e3m4", "float8_e4m3x4", "float8_e4m3b11fnuz", "float8_e4m3fnx5"),
    *("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnux6"),
    *("float6_e2m3fn", "float6_e3m2fnx7", "float4_e2m1fnx2", "type200_12x9"),
)


def interfaces() -> devmod.Module:
    """Return modules with each key of an interface, a block, a parameter and a member."""
    images = {
        "1d": ("r", "r32sint", "int"),
        "2d": ("w", "rgba8unorm", "float"),
        "3d": ("rw", "rg32uint", "uint"),
        "1d_array": ("r", "", "float"),
        "2d_array": ("r", "", "int"),
        "1d_buffer": ("r", "", "uint"),
    }
    pictures = []
    for at, (type_, (access, fmt, sample)) in enumerate(images.items()):
        name = f"picture{at}"
        pictures.append(Param(name, "image", type_, access, at=(2, at), format=fmt, sample=sample))
    draw = FunctionInfo(
        "draw", ["handle"] * 7, (), (), Interface([*pictures, Param("s", "sampler")])
    )

    pack = ["shape0:int32", "ptr:handle", "stride1:uint64", "shape1:uint32", "count:int64"]
    cast = {"const_cast": "k.cl:4: (float *)"}
    params = [
        Param("view", "buffer", "float32", "r", 5, pack=pack, size=96, extra=cast),
        Param("address", "scalar", "handle", "rw", at=(0, 8)),
        Param("n", "scalar", "int16", at=(0, 24), default=7),
        Param("total", "local", "int32", default=Local(2048)),
        Param("each", "local", "int64", default=Local(per_thread=24)),
    ]
    types = ["int32", "handle", "uint64", "uint32", "int64", "uint64", "int16", "handle", "handle"]
    gather = Interface(
        params,
        [Block(3, 28, name="arguments")],
        default_block=(96, 2, 1),
        shared_memory=4096,
        needs=["fp16", "subgroups"],
        subgroup=32,
    )
    functions = {
        "draw": draw,
        "gather": FunctionInfo("gather", types, (), (), gather),
        "types": FunctionInfo("types", TYPES),
    }
    left_out = {"crash": "k.cl:12", "größe": "k.h:345"}
    origin = devmod.Origin("opencl", "clspv 17", ["--partial"], {}, {"left_out": left_out})
    code = b"kernel void gather() {}"
    cl = module_of(Payload("opencl", code, "cl", functions, origin=origin))

    filters = {"filters::weights": ["float32x4", 3, 5], "total": ["int64"]}
    more = {"globals": filters, "max_threads": 256, "cluster": [2, 1, 4], "result": "int32"}
    threads = Interface(
        [Param("x", "buffer", "uint8", "w")], shared_memory=Local(per_thread=12), extra=more
    )
    cuda = devmod.create_with_fallback(
        "cuda",
        b"\x7fELF",
        "cubin",
        {"stencil": FunctionInfo("stencil", ["handle"], (), (), threads)},
    )

    constants = [
        {"name": "BX", "id": 11, "type": [1, 32, 1], "default": 48},
        {"name": "scale", "id": 12, "type": [2, 32, 1], "default": -0.75},
        {"name": "", "id": 14, "type": [6, 8, 1], "default": True},
        {"name": "BY", "type": [0, 32, 1]},
    ]
    sizes = {"constants": constants, "block_constants": [0, -1, [3, 0]]}
    specialized = Interface([Param("x", "buffer", "uint32", "rw", (0, 6))], extra=sizes)
    words = struct.pack("<IQ5I", 1, 5, 0x07230203, 0x00010300, 0, 9, 0)
    vulkan = devmod.create_with_fallback(
        "vulkan",
        {"sized": words},
        "spv",
        {"sized": FunctionInfo("sized", ["handle"], interface=specialized)},
    )
    return devmod.bundle(cl, cuda, vulkan, mixed=True)


def calls() -> devmod.Module:
    """Return candidates whose calls are alike: of a function with a struct, which another has as
    two arguments, and of one with another order of arguments.
    """
    members = [Member("low", "int32", 4), Member("high", "float32", 0)]
    x = Param("x", "buffer", "float32", "rw")
    limits = Param("limits", "scalar", "uint8x8", align=4, members=members)
    apart = [x, Param("low", "scalar", "int32"), Param("high", "scalar", "float32")]
    packed = FunctionInfo("clamp", ["handle", "uint8x8"], interface=Interface([x, limits]))
    flat = FunctionInfo("clamp", ["handle", "int32", "float32"], interface=Interface(apart))
    return devmod.bundle(
        devmod.create_with_fallback("opencl", b"kernel void clamp() {}", "cl", {"clamp": packed}),
        devmod.create_with_fallback("hexagon", b"\x7fELF" + bytes(60), "so", {"clamp": flat}),
    )


def tuned() -> devmod.Module:
    """Return tuned functions: of a source, with values of each type, and of a binary, where each
    variant has its own grid, block and interface; and their records on two devices.
    """
    params = [
        Param("x", "buffer", "float32", "rw"),
        Param("n", "scalar", "int32"),
        Param("rows", "scalar", "uint16"),
    ]
    types = ["handle", "int32", "uint16"]

    def function(**tune: Any) -> FunctionInfo:
        interface = Interface(params, needs=["tuned"], extra={"tune": tune})
        return FunctionInfo("k", types, (), (), interface)

    source = function(
        constants=["B", "mode", "exact", "scale"],
        variants=[
            {"values": [64, "fast", True, 0.5]},
            {"values": [-128, "größe", False, -3.0], "grid": ["rows", 2], "block": [32, 3]},
        ],
        specialized=True,
        sizes=["rows", "n"],
        grid=[["ceildiv", "n", 64], ["max", "rows", 1, 5]],
        block=[["*", 2, "B"], 1, 7],
    )
    wide = Interface(params, default_block=(16, 4, 2)).to_dict()
    binary = function(
        constants=["tile"],
        variants=[{"values": [1], "block": [8]}, {"values": [2], "block": [9], "interface": wide}],
    )
    root = devmod.bundle(
        devmod.create_with_fallback("opencl", b"kernel void k() {}", "cl", {"tuned": source}),
        devmod.create_with_fallback("cuda", b"\x7fELF", "cubin", {"tuned": source, "tile": binary}),
        mixed=True,
    )
    root.tuning_records = records()
    return root


def records() -> list[TuningRecord]:
    """Return records of two functions: with times, a failure, a wrong result, turns and a
    spread.
    """
    first, second = (64, "fast", True, 0.5), (-128, "größe", False, -3.0)
    one = TuningRecord(
        "tuned",
        "opencl",
        "Portable Computing Language",
        "cpu-größe",
        "gfx90a",
        "5.0",
        ("B", "mode", "exact", "scale"),
        ("rows", "n"),
        {
            ((3, 2**40), first): 1.5e-05,
            ((3, 2**40), second): None,
            ((-7, 9), first): 0.25,
            ((-7, 9), second): False,
        },
        {((3, 2**40), first): (11, 2.5e-07), ((-7, 9), first): (5, 0.0)},
    )
    tiles: dict[Any, float | None] = {((), (1,)): 0.125, ((), (2,)): 3.0}
    other = TuningRecord("tile", "cuda", "CUDA", "H200", "sm_90", "12.4", ("tile",), (), tiles)
    return [one, one.replace(device="another", turns={}), other]


def large_part() -> devmod.Module:
    """Return constants of which one is so large that its part, and with it the head, is aligned."""
    large = memoryview(struct.pack("<16384f", *range(16384))).cast("B").cast("f", [128, 128])
    small = memoryview(struct.pack("<1001i", *range(1001))).cast("B").cast("i")
    return devmod.const_loader({"large": large, "small": small}, {"__init__": ["large", "small"]})


def kept() -> devmod.Module:
    """Return a tree of a file in which a later devmod has written keys, an attachment and sections
    that a save keeps.
    """
    module = b"\xa2cl\x81\xa1f\x94\xa1k\x90\x90\x90\xc4\x03abc"
    record = {"kind": "opencl", "format": "cl", "functions": ["f"], "rank": 0, "later+": [1, None]}
    record |= _place(module)
    bodies = {"notes+": b"of a later devmod", "empty+": b""}
    attachment = b"of the function f"
    page = msgpack.packb(
        {
            "modules": [record],
            "attached": [{"function": "f", "tag": "later+", **_place(attachment)}],
        }
    )
    blobs = module.ljust(64, b"\0") + attachment
    sections = [[name, *_place(body).values()] for name, body in bodies.items()]
    head = {
        "candidates": 1,
        "pages": [row(page, 1, len(blobs))],
        "sections": sections,
        "later+": {"x": -1.5},
    }
    data = headed(head, page, blobs.ljust(aligned(len(blobs)), b"\0") + bodies["notes+"])
    return devmod.loads(data)


def _place(data: bytes) -> dict[str, Any]:
    return {"size": len(data), "sha256": hashlib.sha256(data).digest()}


def states() -> devmod.Module:
    """Return a program with states, repeats, a view, samplers of each kind, each comparison, and
    constants of a model.
    """
    param = Param
    cell = FunctionInfo(
        "cell",
        ["handle"] * 3 + ["int32", "float32", "bool"],
        interface=Interface(
            [
                param("x", "buffer", "uint32", "r"),
                param("s", "buffer", "float32", "rw"),
                param("w", "buffer", "float32", "r"),
                param("t", "scalar", "int32"),
                param("a", "scalar", "float32"),
                param("on", "scalar", "bool"),
            ],
            open_block=True,
        ),
    )
    filters = ("near", "far", "tiled", "edge")
    shade = FunctionInfo(
        "shade",
        ["handle"] * 5,
        interface=Interface(
            [
                param("picture", "image", "2d", "rw", format="rgba8unorm", sample="float"),
                *(param(name, "sampler") for name in filters),
            ],
            open_block=True,
        ),
    )
    tensors = {}
    for name, values in {"w": (1, 2, 3), "w2": (4, 5, 6), "start": (7, 8, 9)}.items():
        tensors[name] = memoryview(struct.pack("<3f", *values)).cast("B").cast("f")
    functions = {"cell": cell, "shade": shade}
    kernels = devmod.bundle(
        devmod.create_with_fallback("opencl", b"kernel void cell() {}", "cl", functions),
        devmod.const_loader(tensors, {}),
        mixed=True,
    )
    declared = {
        "inputs": ["x: uint8[4*n]", "length: int32 = 6", "y: float32[n]"],
        "updates": ["picture: rgba8unorm[height, width]"],
        "outputs": ["o: float32[n + length]"],
        "constants": ["w: float32[3]", "w2: float32[3]", "start: float32[3]"],
        "states": ["s: float32[3] = start", "z: float32[5] = 0"],
        "samplers": [
            "near: nearest clamp",
            "far: linear repeat",
            "tiled: nearest mirror",
            "edge: linear border",
        ],
        "requires": ["length != 3", "length >= 2", "9 > length", "n <= 4096", "0 < n", "n == 3"],
    }
    inner = devmod.repeat(
        2, "u", ["cell(x=x.view(uint32), s=s, w=w2, t=t*2 + u, a=0.5, on=True, threads=3)"]
    )
    steps = [
        "shade(picture=picture, near=near, far=far, tiled=tiled, edge=edge, threads=(width, height))",
        devmod.repeat(
            "length",
            "t",
            [
                "cell(x=x.view(uint32), s=z, w=w, t=min(t, n) % 5, a=-2.0, on=False, threads=n)",
                inner,
            ],
        ),
        "cell(x=x.view(uint32), s=o, w=y, t=ceildiv(length, 2), a=1.0, on=True, threads=n - 1 + length // 2)",
    ]
    program = parse_program("recurrent", steps, declared, "", _refuse)
    names = dict(program.declared)
    for name, original in (("w", "fc.weight"), ("w2", "")):
        array = names[name]
        assert isinstance(array, Array)
        names[name] = array._replace(original=original)
    digest = hashlib.sha256(b"folded").hexdigest()
    parts = Parts("recurrent", kernels)
    parts.add(program._replace(declared=names, folded={"norm.größe": f"float32[3, 4] {digest}"}))
    return parts.module()


def _refuse(key: str, number: int, text: str) -> None:
    raise AssertionError(f"{key} {number}: {text}")


def tuned_with_sources() -> devmod.Module:
    """Return the tuned functions, and a module whose source is smaller when it is compressed."""
    text = "__global__ void f(float *x) { x[0] += 1; }\n" * 40
    info = FunctionInfo("f", ["handle"])
    binary = b"\x7fELF" + bytes(600)
    rocm = devmod.create_with_fallback("rocm", binary, "hsaco", {"f": info}, {"hip": text})
    root = devmod.bundle(*tuned().imports, rocm, mixed=True)
    root.tuning_records = records()
    return root
