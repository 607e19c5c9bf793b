"""Write the golden files: tests/golden/v<version>/ for each format version, and the corpus of bad
files, tests/golden/bad/.

The files have the bytes of a module of each kind, and trees of such modules. The payloads are fixed
and need not be real code, because devmod does not parse it. ``contents.json`` in the folder has the
contents of each file. More trees are in `golden_forms`, and the bad files in `golden_bad`.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import devmod
import golden_bad
import golden_forms
import golden_later
from devmod._formats.blobs import library_text
from devmod._formats.tuning import pack_records
from devmod.backend import Payload, decode, module_of, payload_of, read_tuning_file
from devmod_readers.programs import read_program
from devmod_targets._program_text import parse_program
from devmod_targets.programs import Parts
from environments import ROOT

# Where to change: a golden file, or what one has
#   here: `golden_forms.py` has trees, `golden_bad.py` what readers refuse, `golden_later.py` what a
#     later version may write; `make golden` writes all. Those of a released version never change
#   tests: `tests/test_golden.py`, `tests/test_golden_bad.py`, `tests/test_golden_later.py`
GOLDEN = ROOT / "tests" / "golden"
#: The versions of the format that devmod writes.
VERSIONS = ("v1",)
CONTENTS = "contents.json"
#: The tuning records that people exchange.
RECORDS = "records.json"

_TAGS = ("blockIdx.x", "blockIdx.y", "threadIdx.x", "tirx.use_dyn_shared_memory")
PLAIN = devmod.FunctionInfo(
    "add_kernel", ("handle", "handle", "int32", "float16x4"), _TAGS, (0, 1, 0, 0)
)
SHADER = devmod.FunctionInfo(
    "main",
    ("handle", "uint32"),
    interface=devmod.Interface(
        [
            devmod.Param("x", "buffer", "float32", "rw", (0, 1)),
            devmod.Param(
                "n", "scalar", "uint32", at=(0, 4), extra={"of tomorrow": [1, None, b"\0"]}
            ),
        ],
        blocks=[devmod.Block("push", 16)],
        block=(64, 1, 1),
        extra={"unknown": True},
    ),
)

_ANY = devmod.FunctionInfo(
    "_Z5blendPfS_N3lib4SizeE",
    ("handle", "handle", "handle", "handle", "uint8x12", "bfloat16", "bool", "int64x2"),
    ("blockIdx.x", "threadIdx.x", "clusterCtaIdx.x", "tirx.use_programtic_dependent_launch"),
    (),
    devmod.Interface(
        [
            devmod.Param("größe", "buffer", "float16", "r", 0),
            devmod.Param("scratch", "local", "float32"),
            devmod.Param("picture", "image", access="w", at=(0, 2)),
            devmod.Param("how", "sampler", at=(0, 3)),
            devmod.Param("size", "scalar", "uint8x12", align=4),
            devmod.Param("weight", "uniform", "bfloat16", at=(1, 0)),
            devmod.Param("", "scalar", "bool"),
            devmod.Param("at", "scalar", "int64x2", at=(0, 16)),
        ],
        [devmod.Block((0, 1), 32), devmod.Block(7, 4)],
    ),
)

_M = devmod.Member
_VIEW = _M("view", offset=16, members=[_M("scale", "float32"), _M("at", "float32x3", 16)], size=32)
_STRUCT = [
    _M("n", "int32", extra={"of tomorrow": 1}),
    _VIEW,
    _M("w", "float32", 48, shape=[2, 2], strides=[8, 4]),
    _M("", "uint8", 80),
]
_MATRIX = [_M("", "float32x3", shape=[3], strides=[16])]
_SCENE = devmod.FunctionInfo(
    "main",
    ("handle", "uint8x96", "uint8x44", "handle"),
    ("blockIdx.x", "threadIdx.x"),
    (),
    devmod.Interface(
        [
            devmod.Param("hist", "buffer", "uint32", "rw", (0, 0), size=64),
            devmod.Param("scene", "uniform", "uint8x96", at=(0, 1), align=16, members=_STRUCT),
            devmod.Param("m", "scalar", "uint8x44", at=(0, 16), align=16, members=_MATRIX),
            devmod.Param("scratch", "local", "float32", default=devmod.Local(per_thread=4)),
        ],
        [devmod.Block("push", 64)],
        default_block=(32, 2, 1),
        open_block=True,
    ),
)


def modules() -> Iterator[devmod.Module]:
    """Yield a module of each kind."""
    add = {"add": PLAIN}
    yield devmod.create_with_fallback(
        "cuda", b".version 8.3\n.target sm_90\n.address_size 64\n", "ptx", add
    )
    yield devmod.create_with_fallback("rocm", b"\x7fELF" + bytes(60), "hsaco", add)
    yield devmod.create_with_fallback(
        "opencl", "__kernel void add_kernel() {} // \N{GREEK SMALL LETTER MU}\n".encode(), "cl", add
    )
    yield devmod.create_with_fallback("hexagon", b"\x7fELF" + bytes(60), "so", add)
    shaders = {"add": PLAIN, "scale": SHADER}
    yield devmod.create_with_fallback(
        "metal",
        {"add": b"kernel void add_kernel()", "scale": b"kernel void main0()"},
        "metal",
        shaders,
    )
    words = struct.pack("<5I", 0x07230203, 0x00010300, 0, 8, 0)
    packed = struct.pack("<IQ", 0, 5) + words
    yield devmod.create_with_fallback("vulkan", {"add": packed, "scale": packed}, "spv", shaders)
    yield devmod.create_with_fallback(
        "webgpu", {"scale": b"@compute @workgroup_size(64) fn main() {}"}, "wgsl", {"scale": SHADER}
    )


def tree() -> devmod.Module:
    """Return a bundle of all modules: four candidates, the first of which imports the others."""
    cuda, *rest = modules()
    for module in rest[3:]:
        cuda.import_module(module)
    return devmod.bundle(cuda, *rest[:3])


class Stranger(devmod.Module):
    """A module of a kind that core does not have."""

    kind = "npu"
    format = "blob"
    functions = MappingProxyType({"add": PLAIN})

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        """Raise: the module is only saved."""
        raise NotImplementedError

    def save_to_bytes(self) -> bytes:
        """Return bytes that only its own runtime can read."""
        return b"only the npu's runtime knows"


def constants() -> devmod.Module:
    """Return constants of several types, with a scalar and an empty one, and two init symbols that
    share one.
    """
    tensors = {
        "w": memoryview(struct.pack("<6f", 0, 1, -2, 0.5, 1e-7, 6)).cast("B").cast("f", [2, 3]),
        "b": memoryview(struct.pack("<3q", 1, -1, 2**40)).cast("B").cast("q"),
        "none": memoryview(b"").cast("B"),
        "mask": memoryview(b"\1\0\1").cast("?"),
    }
    return devmod.const_loader(tensors, {"__init__": ["w", "b", "w"], "later": []})


def program() -> devmod.Module:
    """Return a tree with every feature: a shared import, constants, origins, nested nodes, an
    unknown kind, an empty module.
    """
    cuda, rocm, plain, _, metal, *_ = modules()
    origin = devmod.Origin(
        "opencl",
        "libclang 18.1.1",
        ["-cl-fast-relaxed-math"],
        {"k.cl": "00" * 32},
        {"of tomorrow": {"x": [1.5]}},
    )
    _, fmt, functions, code = payload_of(plain)  # type: ignore[misc]
    opencl = module_of(Payload("opencl", code, fmt, functions, plain.source, origin))
    shared = constants()
    for importer in (cuda, opencl):
        importer.import_module(shared)
    empty = devmod.create_with_fallback("webgpu", {}, "wgsl", {})
    cuda.import_module(empty)
    many = devmod.create_with_fallback("cuda", b"\x7fELF", "cubin", {"blend": _ANY, "add": PLAIN})
    many.import_module(Stranger())
    return devmod.bundle(devmod.bundle(cuda, opencl), many, devmod.bundle(rocm, metal))


def variants() -> devmod.Module:
    """Return several architectures of one kind: the index has the architecture of each payload's
    header.
    """
    made = []
    for target in ("sm_80", "sm_90a"):
        text = f".version 8.3\n.target {target}\n.address_size 64\n".encode()
        made.append(devmod.create_with_fallback("cuda", text, "ptx", {"add": PLAIN}))
    for arch in (0x68, 0x73):
        elf = struct.pack(
            "<4s12sHHIIIIIHHHHHH",
            b"\x7fELF",
            b"\1\1\1",
            3,
            164,
            1,
            0,
            0,
            0,
            arch,
            52,
            32,
            0,
            40,
            0,
            0,
        )
        made.append(devmod.create_with_fallback("hexagon", elf, "so", {"add": PLAIN}))
    return devmod.bundle(*made)


def programs() -> devmod.Module:
    """Return programs with every feature: each role, an image, a sampler, each operator, a
    constant, a program in a program.
    """
    param = devmod.Param

    def kernel(types: list[str], *params: devmod.Param) -> devmod.FunctionInfo:
        return devmod.FunctionInfo("k", types, interface=devmod.Interface(params, open_block=True))

    x = param("x", "buffer", "float32", "r")
    y = param("y", "buffer", "float32", "rw")
    kernels = {
        "scale": kernel(
            ["handle", "handle", "int32", "float32"],
            x,
            y,
            param("n", "scalar", "int32"),
            param("a", "scalar", "float32"),
        ),
        "shade": kernel(
            ["handle", "handle", "handle", "bool"],
            param("picture", "image", "2d", "r", sample="float"),
            param("how", "sampler"),
            param("out", "image", "2d", "w", format="rgba8unorm"),
            param("on", "scalar", "bool"),
        ),
    }
    shaders = {
        "scale": kernels["scale"].replace(
            interface=kernels["scale"].interface.replace(block=(64, 1, 1), open_block=False)  # type: ignore[union-attr]
        )
    }
    tensors = {"w": memoryview(struct.pack("<4f", 1, 2, 3, 4)).cast("B").cast("f")}
    parts = devmod.bundle(
        devmod.create_with_fallback("opencl", b"kernel void k() {}", "cl", kernels),
        devmod.create_with_fallback("webgpu", {"scale": b"@compute"}, "wgsl", shaders),
        devmod.const_loader(tensors, {}),
        mixed=True,
    )
    declared = {
        "inputs": [
            "x: float32[rows, columns]",
            "a: float32 = 0.5",
            "k: int64 = -3",
            "on: bool = False",
        ],
        "outputs": ["y: float32[max(rows, 1), columns*2] = 0"],
        "temporaries": ["t: float32[ceildiv(rows, 4) + 1] = 0"],
        "constants": ["w: float32[taps]"],
        "requires": ["columns % 4 == 0", "0 < rows <= 65536"],
    }
    steps = [
        "scale(x=x, y=t, n=rows*columns - 1, a=a, threads=(rows, min(columns, k, 7)))",
        "scale(x=w, y=y, n=-1, a=-1e-05, grid=(1, columns // 2, 1), block=64)",
    ]
    # Its backward program is missing, which devmod.program refuses: another writer's file may be
    # so.
    twice = Parts("twice", parts)
    twice.add(parse_program("twice", steps, declared, "gradient", lambda *mistake: None))
    return devmod.program(
        "show",
        twice.module(),
        inputs=["picture: rgba8unorm[height, width]", "on: bool"],
        updates=["u: float32[height, width]"],
        outputs=["out: rgba8unorm[height, width]", "y: float32[height, width*2]"],
        temporaries=["größe: rgba8unorm[height, width]"],
        samplers=["how: linear mirror"],
        steps=[
            devmod.step(
                "shade",
                picture="picture",
                how="how",
                out="größe",
                on=True,
                threads=("width", "height"),
            ),
            devmod.step(
                "shade", picture="größe", how="how", out="out", on="on", threads=("width", "height")
            ),
            "twice(x=u, y=y, a=1)",
        ],
    )


def large_constants() -> devmod.Module:
    """Return two modules of constants, of which both have one large constant, and a kernel that
    imports the first.
    """
    ramp = range(1024)
    steps = range(0, 4096, 4)
    weights = memoryview(struct.pack("<1024f", *ramp)).cast("B").cast("f", [32, 32])
    again = memoryview(struct.pack("<1024f", *ramp)).cast("B").cast("f", [32, 32])
    others = memoryview(struct.pack("<1024i", *steps)).cast("B").cast("i")
    small = memoryview(struct.pack("<2f", 1, 2)).cast("B").cast("f")
    one = devmod.const_loader({"weights": weights, "bias": small}, {"__init__": ["weights"]})
    other = devmod.const_loader({"w": again, "i": others, "twice": others}, {"all": ["w", "i"]})
    kernel = next(modules())
    kernel.import_module(one)
    return devmod.bundle(kernel, other, mixed=True)


def from_tvm() -> devmod.Module:
    """Return a tree that TVM exported, with the node of the host library at its root."""
    blob = ROOT / "core" / "tests" / "vectors" / "tvm" / "vadd_const.opencl+const_loader.tvmimports"
    return devmod.interop.tvm.load_imports(blob.read_bytes())


def structs() -> devmod.Module:
    """Return modules whose functions have members of structs, a default block, an open block and a
    default of local memory.
    """
    local = _SCENE.interface
    assert local is not None
    total = devmod.FunctionInfo(
        "f",
        ("handle",),
        (),
        (),
        devmod.Interface([local.params[3].replace(default=devmod.Local(256))]),
    )
    cl = devmod.create_with_fallback(
        "opencl", b"kernel void main() {}", "cl", {"k": _SCENE, "f": total}
    )
    return devmod.bundle(
        cl, devmod.create_with_fallback("webgpu", {"k": b"fn main() {}"}, "wgsl", {"k": _SCENE})
    )


def variants_of_a_source() -> devmod.Module:
    """Return two binaries of one source, another binary with two sources, and a text payload with
    its source.
    """
    cuda = "__global__ void add_kernel() {} // \N{GREEK SMALL LETTER MU}\n"
    made = [
        devmod.create_with_fallback(
            "cuda", b"\x7fELF" + bytes(size), "cubin", {"add": PLAIN}, {"cuda": cuda}
        )
        for size in (600, 60)
    ]
    listing: dict[str, str | bytes] = {"asm": "add_kernel:\n", "bc": b"BC\xc0\xde"}
    made.append(
        devmod.create_with_fallback(
            "hexagon", b"\x7fELF" + bytes(60), "so", {"add": PLAIN}, listing
        )
    )
    text = "kernel void add_kernel() {}" * 20
    made.append(
        devmod.create_with_fallback("opencl", text.encode(), "cl", {"add": PLAIN}, {"cl": text})
    )
    return devmod.bundle(*made)


def equal_shaders() -> devmod.Module:
    """Return modules of each kind with shaders, in which several functions have one shader, and
    others have their own.
    """
    source = b"kernel void add_kernel() {} kernel void main0() {} " * 60
    other = b"kernel void other_kernel() {}"
    functions = {"add": PLAIN, "other": PLAIN, "scale": SHADER, "more": SHADER}
    metal = devmod.create_with_fallback(
        "metal",
        {"add": source, "other": other, "scale": source, "more": source},
        "metal",
        functions,
    )
    one, two = (
        b"@compute @workgroup_size(%d) fn main() {} // " % size + bytes([size]) * 4096
        for size in (64, 65)
    )
    names = {"f": one, "g": two, "h": one, "i": two, "k": b""}
    webgpu = devmod.create_with_fallback("webgpu", names, "wgsl", dict.fromkeys(names, SHADER))
    words = struct.pack("<5I", 0x07230203, 0x00010300, 0, 8, 0) + bytes(8192)
    packed = struct.pack("<IQ", 0, len(words) // 4) + words
    return devmod.bundle(
        metal,
        webgpu,
        devmod.create_with_fallback(
            "vulkan", {"add": packed, "scale": packed}, "spv", {"scale": SHADER}
        ),
    )


def library_of_many() -> devmod.Module:
    """Return more modules than a page has, with second names in other pages, imports, sources, and
    a function of several orders.
    """
    x = devmod.Param("x", "buffer", "float32", "rw")
    n = devmod.Param("n", "scalar", "int32")
    form = devmod.FunctionInfo("k", ["handle", "int32"], interface=devmod.Interface([x, n]))
    other_form = devmod.FunctionInfo("k", ["int32", "handle"], interface=devmod.Interface([n, x]))
    made = []
    for number in range(70):
        names = [f"kernel_{number * 37 % 70:02}_{'of a long name ' * 24}"]
        if number % 9 == 4:
            names.append(f"again_{number}")
        if number in (3, 40):
            names.append("größe")
        functions = dict.fromkeys(names, form)
        if number == 40:
            functions["größe"] = other_form
        source = {"cuda": "__global__ void k() {}"} if number in (5, 65) else None
        made.append(
            devmod.create_with_fallback("cuda", b"\x7fELF%d" % number, "cubin", functions, source)
        )
    made[7].import_module(constants())
    made[9].import_module(made[8])
    return devmod.bundle(*made[:60], devmod.bundle(made[2], *made[60:], mixed=True), mixed=True)


def files(version: str) -> dict[str, bytes]:
    """Return every golden file of a version, by its name."""
    assert version in VERSIONS
    made = {
        f"{module.kind}.bytes": module.save_to_bytes()
        for module in (*modules(), constants(), programs().imports[0])
    }
    trees = {
        "tree": tree(),
        "program": program(),
        "variants": variants(),
        "structs": structs(),
        "tvm": from_tvm(),
        "programs": programs(),
    }
    trees |= {"shared": equal_shaders(), "constants": large_constants()}
    trees |= {
        "interfaces": golden_forms.interfaces(),
        "calls": golden_forms.calls(),
        "tuned": golden_forms.tuned(),
        "aligned": golden_forms.large_part(),
        "kept": golden_forms.kept(),
        "states": golden_forms.states(),
    }
    tuned = golden_forms.tuned_with_sources()
    of_source = variants_of_a_source()
    many = library_of_many()
    return (
        made
        | {f"{name}.devmod": devmod.dumps(root) for name, root in trees.items()}
        | {
            "sources.devmod": devmod.dumps(of_source, with_sources=True),
            "compressed.devmod": devmod.dumps(of_source, compress="zstd"),
            "both.devmod": devmod.dumps(of_source, compress="zstd:19", with_sources=True),
            "constants-compressed.devmod": devmod.dumps(large_constants(), compress="zstd:19"),
            "shared-compressed.devmod": devmod.dumps(equal_shaders(), compress="zstd:19"),
            "library.devmod": devmod.dumps(many, with_sources=True),
            "tuned-compressed.devmod": devmod.dumps(tuned, compress="zstd:19", with_sources=True),
            RECORDS: pack_records(golden_forms.records()),
        }
    )


def library() -> str:
    """Return the name and version of the library that compresses here. Other versions give other
    bytes.
    """
    return library_text(3)


# -- the contents of a file


def describe(path: Path) -> Any:
    """Return what devmod reads in a golden file, as JSON."""
    if path.name == RECORDS:
        return [record.to_dict() for record in read_tuning_file(path)]
    data = path.read_bytes()
    if path.suffix == ".bytes":
        return _module(path.stem, data)
    numbers: dict[int, int] = {}
    nodes: list[dict[str, Any]] = []

    def visit(module: devmod.Module) -> int:
        if id(module) not in numbers:
            numbers[id(module)] = len(nodes)
            nodes.append({})
            node = nodes[numbers[id(module)]]
            bare = module.kind in ("bundle", "_lib")
            node |= {"kind": module.kind} if bare else _module(module.kind, module.save_to_bytes())
            node["variant"] = getattr(module, "variant", None) or ""
            node["origin"] = plain(module.origin.to_dict()) if module.origin is not None else None
            if module.source:
                node["source"] = plain(module.source)
            node["imports"] = [visit(each) for each in module.imports]
        return numbers[id(module)]

    root = devmod.loads(data)
    visit(root)
    found: dict[str, Any] = {"nodes": nodes}
    if root.tuning_records:
        found["tuning"] = [record.to_dict() for record in root.tuning_records]
    return found


def _module(kind: str, data: bytes) -> dict[str, Any]:
    if kind == "const_loader":
        module = devmod.load_from_bytes(kind, data)
        named = {
            symbol: [
                [each.dtype, list(each.shape), bytes(memoryview(each)).hex()]
                for each in module.get_function(symbol)()
            ]
            for symbol in module.functions
        }
        return {"kind": kind, "constants": named}
    spec = devmod.backend.find_spec(kind)
    if spec is None:
        return {"kind": kind, "sha256": _sha256(data)}
    fmt, fmap, code = decode(spec, data)
    held = (
        {name: _sha256(shader) for name, shader in code.items()}
        if isinstance(code, Mapping)
        else _sha256(code)
    )
    contents = {
        "kind": kind,
        "format": fmt,
        "functions": {name: _function(info) for name, info in fmap.items()},
        "code": held,
    }
    if kind == "program" and isinstance(code, Mapping):
        contents["programs"] = {
            name: plain(read_program(name, info, code[name])[1:]) for name, info in fmap.items()
        }
    return contents


def _function(info: devmod.FunctionInfo) -> list[Any]:
    four = [
        info.name,
        list(info.arg_types),
        list(info.launch_param_tags),
        list(info.arg_extra_tags),
    ]
    return four if info.interface is None else [*four, plain(info.interface.to_dict())]


def plain(value: Any) -> Any:
    """Return a value as JSON: bytes in hexadecimal, tuples as lists."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return {"bytes": value.hex()} if isinstance(value, bytes) else value


def _sha256(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def write() -> None:
    """Write the files."""
    for version in VERSIONS:
        folder = GOLDEN / version
        folder.mkdir(parents=True, exist_ok=True)
        contents = {}
        for name, data in files(version).items():
            (folder / name).write_bytes(data)
            contents[name] = {"sha256": _sha256(data), "holds": describe(folder / name)}
        about = f"What the golden files of the .devmod format's version {version[1:]} hold. Written by `make golden` alone; read for ever."
        text = json.dumps({"about": about, "files": contents}, ensure_ascii=False, indent=1)
        (folder / CONTENTS).write_text(text + "\n", encoding="utf-8")
    golden_bad.write(GOLDEN / "bad")
    golden_later.write(GOLDEN / "later")
    paths: list[Path] = []
    for name in (*VERSIONS, "bad", "later"):
        paths += (GOLDEN / name).iterdir()
    for path in sorted(paths):
        print(f"{path.stat().st_size:8}  {path.relative_to(ROOT)}")


if __name__ == "__main__":
    write()
