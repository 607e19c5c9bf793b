"""docs/formats.md is enough to write a reader: tests/spec_reader.py is one, and it and devmod agree
on every file.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alone import core_alone as core_alone

import devmod
from devmod._plugins.specs import find_spec
from devmod.backend import decode
from devmod.targets import KINDS
from devmod_readers.programs import (
    Array,
    Program,
    Repeat,
    Step,
    check_names,
    interface_of,
    pack_steps,
    read_program,
)

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
PAGE = (ROOT / "docs" / "formats.md").read_text()
VECTORS = (GOLDEN / "README.md").read_text()
SECOND = ROOT / "tests" / "spec_reader.py"
sys.path.insert(0, str(SECOND.parent))

sys.path.insert(0, str(ROOT / "tools"))

import spec_reader  # noqa: E402 - beside this file

from handmade import blobs_of, file_of, head_of, headed, with_pages  # noqa: E402 - tools/handmade.py

VERSIONS = sorted(path for path in GOLDEN.glob("v*") if path.is_dir())
MODULES = sorted(path for folder in VERSIONS for path in folder.glob("*.bytes"))
BUNDLES = sorted(path for folder in VERSIONS for path in folder.glob("*.devmod"))


def named(path: Path) -> str:
    return path.relative_to(GOLDEN).as_posix()


# -- what devmod reads, in the second reader's words


def info_of(info: devmod.FunctionInfo) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": info.name,
        "arg_types": list(info.arg_types),
        "launch_param_tags": list(info.launch_param_tags),
        "arg_extra_tags": list(info.arg_extra_tags),
    }
    return made if info.interface is None else made | {"interface": info.interface.to_dict()}


def bundle_of(modules: list[dict[str, Any]], roots: list[int], blobs: list[bytes]) -> bytes:
    """A .devmod file written by hand from the page."""
    body = b""
    for module, blob in zip(modules, blobs, strict=True):
        body = body.ljust(spec_reader.aligned(len(body)), b"\0") if blob else body
        module |= {"size": len(blob), "sha256": hashlib.sha256(blob).digest()}
        body += blob
    return file_of({"roots": roots, "modules": modules}, body)


def seen_by_devmod(kind: str, data: bytes) -> Any:
    """What devmod reads in a module's bytes; None where it refuses them."""
    try:
        if kind == "const_loader":
            module = devmod.load_from_bytes(kind, data)
            names = spec_reader.read_constants(data)["constants"]
            tensors = {name: module.get_global(name) for name in names}
            constants = {
                name: (list(each.shape), each.dtype, bytes(each.data))
                for name, each in tensors.items()
            }
            return constants, {
                symbol: len(module.get_function(symbol)()) for symbol in module.functions
            }
        spec = find_spec(kind)
        assert spec is not None
        fmt, functions, code = decode(spec, data)
        infos = {name: info_of(info) for name, info in functions.items()}  # each is decoded here
    except devmod.FormatError:
        return None
    whole = (
        bytes(code)
        if isinstance(code, memoryview)
        else {name: bytes(shader) for name, shader in code.items()}
    )
    return {"format": fmt, "functions": infos, "code": whole}


def seen_by_second(kind: str, data: bytes) -> Any:
    try:
        made = spec_reader.read_module(kind, data)
        spec_reader.require_sound(made.get("functions", {}))
    except spec_reader.SpecError:
        return None
    if kind != "const_loader":
        return made
    constants = {
        name: (each["shape"], each["type"], each["data"])
        for name, each in made["constants"].items()
    }
    return constants, {symbol: len(names) for symbol, names in made["symbols"].items()}


def bundle_by_devmod(data: bytes) -> Any:
    """The modules in a bundle, each with what the second reader says of it too; None where devmod
    refuses it.
    """
    try:
        root = devmod.loads(data)
        return [
            (
                each.kind,
                [child.kind for child in each.imports],
                *bytes_of(each),
                list(dict(each.functions)),  # each is decoded here
            )
            for each in walked(root)
        ]
    except devmod.FormatError:
        return None


def bytes_of(
    module: devmod.Module,
) -> tuple[tuple[bytes, dict[str, Any]] | None, dict[str, Any] | None]:
    origin = module.origin
    known = origin and {
        key: getattr(origin, key) for key in ("target", "toolchain", "options", "sources")
    }
    return (
        None
        if module.kind in ("bundle", "_lib")
        else (module.save_to_bytes(), dict(module.source)),
        known and origin and known | {"options": list(origin.options)} | dict(origin.extra),
    )


def walked(root: devmod.Module) -> list[devmod.Module]:
    return [root, *(each for child in root.imports for each in walked(child))]


def bundle_by_second(data: bytes) -> Any:
    try:
        found = spec_reader.read_bundle(data)
    except spec_reader.SpecError:
        return None
    modules = found["records"]
    if any("damaged" in module for module in modules):
        return None

    def walk(numbers: list[int]) -> list[Any]:
        rows = []
        for module in (modules[number] for number in numbers):
            below = walk(module["imports"])
            names = list(
                dict.fromkeys(name for child in module["imports"] for name in named_by(child))
            )
            data = (module["bytes"], module.get("source", {})) if "bytes" in module else None
            own = [
                module["kind"],
                [modules[child]["kind"] for child in module["imports"]],
                data,
                module["origin"],
            ]
            rows += [(*own, names if module["kind"] == "bundle" else module["functions"]), *below]
        return rows

    def named_by(number: int) -> list[str]:
        module = modules[number]
        return (
            [name for child in module["imports"] for name in named_by(child)]
            if module["kind"] == "bundle"
            else module["functions"]
        )

    roots = found["roots"]
    if len(roots) == 1:
        return walk(roots)
    names = list(dict.fromkeys(name for root in roots for name in named_by(root)))
    return [("bundle", [modules[root]["kind"] for root in roots], None, None, names), *walk(roots)]


# -- the golden files


def test_the_second_reader_imports_nothing_of_devmod() -> None:
    tree = ast.parse(SECOND.read_text())
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= set(sys.stdlib_module_names) | {
        "msgpack",
        "backports",
        "compression",
    }


def test_there_are_golden_files() -> None:
    assert len(MODULES) >= 7
    assert BUNDLES


@pytest.mark.row("R17", "R19", "R20")
@pytest.mark.parametrize("path", MODULES, ids=named)
def test_the_second_reader_and_devmod_read_the_same_in_a_golden_module(path: Path) -> None:
    kind, data = path.stem, path.read_bytes()
    second = seen_by_second(kind, data)
    assert second is not None
    assert second == seen_by_devmod(kind, data)


@pytest.mark.row("R15", "R17")
@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.stem != "const_loader"], ids=named
)
def test_values_of_the_second_reader_make_the_same_bytes(path: Path) -> None:
    made = spec_reader.read_module(path.stem, path.read_bytes())
    fmap = {}
    for name, fields in made["functions"].items():
        interface = (
            devmod.Interface.from_dict(fields["interface"]) if "interface" in fields else None
        )
        four = (fields[key] for key in ("name", "arg_types", "launch_param_tags", "arg_extra_tags"))
        fmap[name] = devmod.FunctionInfo(*four, interface=interface)
    assert (
        devmod.create_with_fallback(path.stem, made["code"], made["format"], fmap).save_to_bytes()
        == path.read_bytes()
    )
    if path.stem == "vulkan":
        assert [spec_reader.vulkan_words(value)[1][:4] for value in made["code"].values()] == [
            b"\x03\x02\x23\x07"
        ] * len(made["code"])


@pytest.mark.row("R21", "R41", "R42", "R43")
@pytest.mark.parametrize("path", BUNDLES, ids=named)
def test_the_second_reader_and_devmod_read_the_same_in_a_golden_bundle(path: Path) -> None:
    data = path.read_bytes()
    second = bundle_by_second(data)
    assert second is not None
    assert second == bundle_by_devmod(data)


# -- bytes that are not of the form: what one refuses, the other does too. tests/test_readers.py
# compares them with each bad file.


@pytest.mark.row("R22")
def test_the_two_readers_take_and_refuse_the_same_metadata() -> None:
    fields = {
        "name": "k",
        "arg_types": ["handle", "float16x4"],
        "launch_param_tags": ["blockIdx.x"],
        "arg_extra_tags": [0, 1],
    }
    interface = {
        "params": [
            {"name": "x", "kind": "buffer"},
            {"name": "n", "kind": "scalar", "at": [0, 4], "more": None},
        ],
        "block": [1, 2, 3],
    }
    data = json.dumps(
        {
            "func_info": {"f": fields | {"interface": interface}, "g": fields},
            "shader": "f",
            "tvm_version": "0.25",
        }
    ).encode()

    def by_devmod(data: bytes) -> Any:
        try:
            return {
                name: info_of(info) for name, info in devmod.load_metadata_from_json(data).items()
            }
        except devmod.FormatError:
            return None

    def by_second(data: bytes) -> Any:
        try:
            return spec_reader.read_metadata(data)["functions"]
        except spec_reader.SpecError:
            return None

    taken, refused = compare(by_devmod, by_second, data)
    assert taken > 50
    assert refused > 500


#: What a byte becomes: other sorts of msgpack objects, and numbers nearby.
OTHERS = bytes.fromhex("00 7f 80 81 90 91 a0 a1 c0 c3 c4 c7 ca cc cf d0 d3 d4 d9 dc de e0 ff")
#: What a byte of a text becomes: ASCII's control characters, and each sort of byte in UTF-8.
OTHERS_IN_TEXTS = bytes.fromhex("00 7f 80 c0 c3 e0 ff")


def all_others(data: bytes) -> list[set[int]]:
    return [{*OTHERS, value ^ 1, (value + 1) & 255} for value in data]


def others(data: bytes) -> list[set[int]]:
    """Return what each byte of some msgpack objects becomes, if the binaries are digests or the
    data of constants.

    A byte of them has no meaning by itself, so it becomes one other.
    """
    import msgpack

    results = all_others(data)
    unpacker = msgpack.Unpacker()
    unpacker.feed(data)
    pending = list(unpacker)
    while pending:
        value = pending.pop()
        if isinstance(value, (dict, list)):
            pending += [*value, *value.values()] if isinstance(value, dict) else value
        elif isinstance(value, (str, bytes)) and len(value) >= 4:
            inside = value.encode() if isinstance(value, str) else value
            for match in re.finditer(re.escape(inside), data):
                for at in range(*match.span()):
                    results[at] = {
                        data[at] ^ 1,
                        *(
                            [*OTHERS_IN_TEXTS, (data[at] + 1) & 255]
                            if isinstance(value, str)
                            else []
                        ),
                    }
    return results


def compare(
    first: Callable[[bytes], Any],
    second: Callable[[bytes], Any],
    data: bytes,
    others: Callable[[bytes], list[set[int]]] = all_others,
    step: int = 1,
) -> tuple[int, int]:
    """Change, cut and double bytes everywhere; both readers must say the same. Gives how many were
    taken and refused.

    `others` returns what each byte becomes. Of `step` changes that follow each other, one is made.
    """
    values = others(data)
    taken = refused = 0
    changed = (
        data[:at] + bytes([value]) + data[at + 1 :]
        for at in range(len(data))
        for value in values[at]
    )
    cut = (data[:at] for at in range(len(data)))
    without = (data[:at] + data[at + size :] for at in range(len(data)) for size in (1, 4))
    doubled = (data[: at + size] + data[at:] for at in range(len(data)) for size in (1, 4))
    for bad in itertools.islice(itertools.chain(changed, cut, without, doubled), 0, None, step):
        one, two = first(bad), second(bad)
        if one != two and not (has_nan(one) and repr(one) == repr(two)):
            raise AssertionError(f"devmod: {one}\nsecond: {two}\n{bad.hex(' ')}")
        taken, refused = taken + (one is not None), refused + (one is None)
    return taken, refused


def has_nan(value: Any) -> bool:
    return "nan" in repr(value)


@pytest.mark.row("R19")
@pytest.mark.volume_but("v1/webgpu.bytes", "v1/cuda.bytes")
@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.stem in ("webgpu", "vulkan", "cuda")], ids=named
)
def test_the_two_readers_take_and_refuse_the_same_modules(path: Path) -> None:
    kind = path.stem
    taken, refused = compare(
        lambda data: seen_by_devmod(kind, data),
        lambda data: seen_by_second(kind, data),
        path.read_bytes(),
    )
    assert taken > 50
    assert refused > 500


def programs_by_devmod(data: bytes) -> Any:
    """The programs in a module's bytes, as the objects of their steps; None where one is
    refused.
    """
    found = seen_by_devmod("program", data)
    try:
        if found is not None:
            for name, info in decode(find_spec("program"), data)[1].items():  # type: ignore[arg-type]
                check_names(read_program(name, info, found["code"].get(name, b"")))
    except devmod.FormatError:
        return None
    return found


def programs_by_second(data: bytes) -> Any:
    found = seen_by_second("program", data)
    try:
        if found is not None:
            for name, info in found["functions"].items():
                spec_reader.read_program(name, info, found["code"].get(name, b""))
    except spec_reader.SpecError:
        return None
    return found


def programs_with_states() -> bytes:
    """The bytes of a module of programs with a state, a view and repeats."""
    root = devmod.load(GOLDEN / "v1" / "states.devmod")
    (module,) = [each for each in walked(root) if each.kind == "program"]
    return module.save_to_bytes()


@pytest.mark.row("R45")
@pytest.mark.parametrize("name", ["program.bytes", "states.devmod"])
def test_the_two_readers_take_and_refuse_the_same_programs(name: str) -> None:
    data = (GOLDEN / "v1" / name).read_bytes()
    if name == "states.devmod":
        data = programs_with_states()
    assert programs_by_devmod(data) == programs_by_second(data) is not None
    taken, refused = compare(programs_by_devmod, programs_by_second, data, step=47)
    assert taken > 12
    assert refused > 120


@pytest.mark.row("R45")
def test_the_two_readers_read_the_same_steps() -> None:
    found = spec_reader.read_module("program", (GOLDEN / "v1" / "program.bytes").read_bytes())
    _, functions, code = decode(
        find_spec("program"), (GOLDEN / "v1" / "program.bytes").read_bytes()
    )  # type: ignore[arg-type]
    assert [*functions] == ["twice", "show"]
    for name, info in functions.items():
        second = spec_reader.read_program(name, found["functions"][name], found["code"][name])
        program = read_program(name, info, code[name])  # type: ignore[index, arg-type]
        assert [each["name"] for each in second["params"]] == [*program.declared]
        steps = [
            [
                each.kernel,
                each.arguments,
                {
                    key: dims
                    for key, dims in zip(("grid", "threads", "block"), each[2:], strict=True)
                    if dims
                },
            ]
            for each in program.steps
        ]
        assert lists([second["requires"], second["steps"]]) == lists([program.requires, steps])


@pytest.mark.row("R45")
def test_the_two_readers_read_the_same_repeats() -> None:
    x = Array("x", "update", "float32", ("n",))
    steps = tuple(Step("k", {"x": "x", "t": name}) for name in ("i", "j", "j"))
    repeats = (Repeat(0, 3, "n", "i"), Repeat(1, 3, 4, "j"))
    program = Program("p", {"x": x}, (), steps, repeats=repeats)
    info = interface_of(program)

    def both(code: bytes) -> list[bool]:
        taken = []
        for read in (
            lambda: check_names(read_program("p", info, code)),
            lambda: spec_reader.read_program("p", second, code),
        ):
            try:
                read()
                taken.append(True)
            except (devmod.FormatError, spec_reader.SpecError):
                taken.append(False)
        return taken

    module = devmod.create_with_fallback(
        "program", {"p": pack_steps(program)}, "steps1", {"p": info}
    )
    found = spec_reader.read_module("program", module.save_to_bytes())
    second = found["functions"]["p"]
    read = spec_reader.read_program("p", second, pack_steps(program))
    assert lists(read["repeats"]) == lists(repeats)
    assert both(pack_steps(program)) == [True, True]
    for wrong in (
        [(0, 3, "n", "i"), (1, 4, 4, "j")],
        [(0, 2, "n", "i"), (1, 3, 4, "j")],
        [(0, 2, "n", "i"), (0, 3, 4, "j")],
        [(0, 3, "m", "i"), (1, 3, 4, "j")],
        [(0, 3, "n", "x"), (1, 3, 4, "j")],
        [(0, 3, "n", "j"), (1, 3, 4, "j")],
        [(0, 1, "n", "i"), (1, 3, "i", "j")],
        [(0, 3, "n", "i"), (1, 2, 4, "j")],
        [(1, 3, 4, "j"), (0, 3, "n", "i")],
    ):
        other = program._replace(repeats=tuple(Repeat(*each) for each in wrong))
        assert both(pack_steps(other)) == [False, False], wrong


def lists(value: Any) -> Any:
    """The value with lists in the place of tuples."""
    if isinstance(value, dict):
        return {key: lists(each) for key, each in value.items()}
    return [lists(each) for each in value] if isinstance(value, (list, tuple)) else value


def nested(count: int) -> Any:
    value: Any = 1
    for _ in range(count):
        value = [value]
    return value


def module_bytes(dtype: list[int], extra: int = 0, deep: int = 0, **param: Any) -> bytes:
    """A webgpu module with one function of one argument, packed by hand."""
    import msgpack

    interface = {"params": [{"name": "x", "kind": "scalar"} | param], "deep": nested(deep)}
    return msgpack.packb({"f": ["f", [dtype], [], [extra], interface]}) + msgpack.packb({"f": b""})


@pytest.mark.row("R19")
@pytest.mark.parametrize(
    ("sound", "refused"),
    [
        (module_bytes([255, 255, 65535]), module_bytes([255, 255, 65536])),
        (module_bytes([0, 0, 0]), module_bytes([0, 0, -1])),
        (module_bytes([255, 8, 1]), module_bytes([256, 8, 1])),
        (module_bytes([1, 255, 1]), module_bytes([1, 256, 1])),
        (module_bytes([1, 8, 1], extra=2**31 - 1), module_bytes([1, 8, 1], extra=2**31)),
        (module_bytes([1, 8, 1], extra=-(2**31)), module_bytes([1, 8, 1], extra=-(2**31) - 1)),
        (module_bytes([1, 8, 1], at=2**63 - 1), module_bytes([1, 8, 1], at=2**63)),
        (module_bytes([1, 8, 1], align=0), module_bytes([1, 8, 1], align=-1)),
        (module_bytes([1, 8, 1], at=[0, 0]), module_bytes([1, 8, 1], at=[0, 0, 0])),
        (module_bytes([1, 8, 1], type="uint8x65535"), module_bytes([1, 8, 1], type="uint8x65536")),
        (module_bytes([1, 8, 1], type="type3_8"), module_bytes([1, 8, 1], type="type2_8")),
        (module_bytes([1, 8, 1], type="float16x4"), module_bytes([1, 8, 1], type="float16x04")),
        (module_bytes([1, 8, 1], type="float16x0"), module_bytes([1, 8, 1], type="float16x1")),
        (module_bytes([1, 8, 1], deep=31), module_bytes([1, 8, 1], deep=32)),
    ],
)
def test_the_two_readers_have_the_same_bounds(sound: bytes, refused: bytes) -> None:
    assert seen_by_second("webgpu", sound) == seen_by_devmod("webgpu", sound) != None  # noqa: E711
    assert seen_by_second("webgpu", refused) is seen_by_devmod("webgpu", refused) is None


@pytest.mark.row("R41")
@pytest.mark.parametrize(
    ("sound", "refused"),
    [
        ({"origin": {"new": nested(31)}}, {"origin": {"new": nested(32)}}),
        ({"kind": "k_1"}, {"kind": "_k"}),
        ({"variant": ""}, {"variant": None}),
        ({"origin": {}}, {"origin": None}),
    ],
)
def test_the_two_readers_have_the_same_bounds_in_an_index(
    sound: dict[str, Any], refused: dict[str, Any]
) -> None:
    good, bad = (bundle_of([{"kind": "toy"} | fields], [0], [b"x"]) for fields in (sound, refused))
    assert bundle_by_second(good) == bundle_by_devmod(good) != None  # noqa: E711
    assert bundle_by_second(bad) is bundle_by_devmod(bad) is None


@pytest.mark.row("R20")
def test_the_two_readers_take_and_refuse_the_same_constants() -> None:
    import array

    tensors = {
        "w": memoryview(array.array("f", range(6))).cast("B").cast("f", (2, 3)),
        "bias": b"abc",
        "empty": b"",
    }
    module = devmod.const_loader(tensors, {"__init": ["w", "bias"], "nothing": []})
    data = module.save_to_bytes()
    assert list(spec_reader.read_constants(data)["constants"]) == sorted(tensors)
    taken, refused = compare(
        lambda data: seen_by_devmod("const_loader", data),
        lambda data: seen_by_second("const_loader", data),
        data,
        others,
    )
    assert taken > 50
    assert refused > 500


@pytest.mark.row("R41")
def test_the_two_readers_take_and_refuse_the_same_bundles() -> None:
    origin = {
        "target": "opencl",
        "toolchain": "libclang 18.1.1",
        "options": ["-O2"],
        "sources": {"k.cl": "00"},
        "of tomorrow": 1,
    }
    blob = (GOLDEN / "v1" / "opencl.bytes").read_bytes()
    whole = bundle_of(
        [
            {
                "kind": "opencl",
                "imports": [1],
                "format": "cl",
                "variant": "v",
                "origin": origin,
                "functions": ["add"],
            },
            {"kind": "toy"},
        ],
        [0],
        [blob, b"x"],
    )
    (page,) = packed_pages(whole)

    def with_page(page: bytes) -> bytes:
        return with_pages(whole, head_of(whole), [page])

    assert bundle_by_devmod(whole) == bundle_by_second(whole) != None  # noqa: E711
    taken, refused = compare(
        lambda data: bundle_by_devmod(with_page(data)),
        lambda data: bundle_by_second(with_page(data)),
        page,
        others,
    )
    assert taken > 50
    assert refused > 500
    heads = random.Random(7).sample(
        range(8 * len(whole)), 60
    )  # and bits anywhere, the digests not mended
    for bit in heads:
        bad = bytearray(whole)
        bad[bit // 8] ^= 1 << bit % 8
        assert bundle_by_devmod(bytes(bad)) == bundle_by_second(bytes(bad)), bit


@pytest.mark.row("R41")
@pytest.mark.volume_but("shared.devmod-10", "shared-compressed.devmod-10")
@pytest.mark.parametrize("step", [10, 1])
@pytest.mark.parametrize("name", ["both.devmod", "shared.devmod", "shared-compressed.devmod"])
def test_the_two_readers_take_and_refuse_the_same_pages(name: str, step: int) -> None:
    whole = (GOLDEN / "v1" / name).read_bytes()
    (page,) = packed_pages(whole)

    def with_page(page: bytes) -> bytes:
        return with_pages(whole, head_of(whole), [page])

    assert bundle_by_devmod(whole) == bundle_by_second(whole) != None  # noqa: E711
    taken, refused = compare(
        lambda data: bundle_by_devmod(with_page(data)),
        lambda data: bundle_by_second(with_page(data)),
        page,
        others,
        step,
    )
    assert taken > 50 // step
    assert refused > 500 // step


def packed_pages(whole: bytes) -> list[bytes]:
    """Return the bytes of each page."""
    at, pages = 48 + int.from_bytes(whole[12:16], "little"), []
    for _, size, *_ in head_of(whole)["pages"]:
        pages.append(whole[at : at + size])
        at += size
    return pages


@pytest.mark.row("R41", "R50")
@pytest.mark.parametrize("name", ["tree.devmod", "library.devmod"])
def test_the_two_readers_take_and_refuse_the_same_heads(name: str) -> None:
    whole = (GOLDEN / "v1" / name).read_bytes()
    pages = b"".join(packed_pages(whole))
    head = whole[48 : 48 + int.from_bytes(whole[12:16], "little")]
    taken, refused = compare(
        lambda data: bundle_by_devmod(headed(data, pages, blobs_of(whole))),
        lambda data: bundle_by_second(headed(data, pages, blobs_of(whole))),
        head,
        others,
        1 if name == "tree.devmod" else 97,
    )
    assert taken + refused > 30
    assert refused > 20


@pytest.mark.row("R50")
def test_the_two_readers_take_and_refuse_the_same_pages_of_a_library() -> None:
    """Of each page the names of other pages, and a part of the records."""
    whole = (GOLDEN / "v1" / "library.devmod").read_bytes()
    pages = packed_pages(whole)
    assert bundle_by_devmod(whole) == bundle_by_second(whole) != None  # noqa: E711
    assert len(pages) == 2
    for number, page in enumerate(pages):

        def with_page(page: bytes, number: int = number) -> bytes:
            return with_pages(whole, head_of(whole), [*pages[:number], page, *pages[number + 1 :]])

        start = page.index(b"\xa5names") if b"\xa5names" in page else 0
        values = others(page[start:])
        for at in range(0, len(values), 509):
            for value in sorted(values[at])[:2]:
                data = with_page(page[: start + at] + bytes([value]) + page[start + at + 1 :])
                assert bundle_by_devmod(data) == bundle_by_second(data), (number, at, value)


# -- the vectors in tests/golden/README.md


def test_the_vectors_are_the_bytes_of_the_golden_files() -> None:
    tables = re.findall(r"<!-- vector: (\S+) -->\n((?:\|.*\n)+)", VECTORS)
    assert len(tables) == 5
    for name, table in tables:
        data, at = (GOLDEN / name).read_bytes(), 0
        for offset, shown in re.findall(r"^\| (\d+) \| `([0-9a-f ]+)` \|", table, re.MULTILINE):
            part = bytes.fromhex(shown)
            assert int(offset) == at, f"{name}: the row {offset} should begin at {at}"
            assert part == data[at : at + len(part)], (
                f"{name} at {at}: {data[at : at + len(part)].hex(' ')}"
            )
            at += len(part)
        assert at == len(data) or name.endswith(".devmod"), f"{name}: the table ends at {at}"


def test_the_values_are_what_the_second_reader_gives() -> None:
    values = re.findall(r"<!-- value: (\S+) -->\n```json\n(.*?)```\n", VECTORS, re.DOTALL)
    assert len(values) == 5
    for name, value in values:
        found = spec_reader.to_json(spec_reader.read_file(GOLDEN / name))
        assert json.loads(value) == found, (
            f"python tests/spec_reader.py tests/golden/{name} prints what README.md should show"
        )


def test_the_second_reader_shows_a_file_to_people() -> None:
    done = subprocess.run(
        [sys.executable, SECOND, GOLDEN / "v1" / "webgpu.bytes"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["functions"]["scale"]["name"] == "main"


def test_the_table_of_kinds_on_the_page_is_devmods() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (fmt, fmap, \w+|fmap, \w+) \|", PAGE, re.MULTILINE))
    formats = dict(re.findall(r"^\| `(\w+)` \| fm\w+, .*? \| (.*) \|$", PAGE, re.MULTILINE))
    assert set(rows) == set(KINDS)
    for kind in KINDS:
        spec = find_spec(kind)
        assert spec is not None
        last = "shaders" if spec.shader_map else "code"
        assert rows[kind].split(", ") == [
            last if field == "code" else field for field in spec.fields
        ]
        assert re.findall(r"`(\w+)`", formats[kind]) == list(spec.formats)
