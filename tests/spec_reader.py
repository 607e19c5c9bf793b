"""A second reader of devmod's formats, written from docs/formats.md alone: nothing of devmod is imported.

What it gives is compared with what devmod reads. To see what is in a file:

    python tests/spec_reader.py tests/golden/v1/cuda.bytes
    python tests/spec_reader.py k.devmod
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import struct
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgpack

#: The section "A module's bytes": fields, then formats.
SINGLE, SHADERS = ("fmt", "fmap", "code"), ("fmt", "fmap", "shaders")
KINDS: dict[str, tuple[tuple[str, ...], str]] = {
    "cuda": (SINGLE, "cuda"),
    "rocm": (SINGLE, "hsaco"),
    "opencl": (SINGLE, "cl"),
    "hexagon": (SINGLE, "so"),
    "metal": (SHADERS, "metal"),
    "vulkan": (SHADERS, "spv"),
    "webgpu": (("fmap", "shaders"), "wgsl"),
}
SIZED = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}
NAMED = {(3, 64): "handle", (3, 0): "void", (6, 8): "bool", (7, 8): "float8_e3m4", (8, 8): "float8_e4m3", (9, 8): "float8_e4m3b11fnuz"}
NAMED |= {(10, 8): "float8_e4m3fn", (11, 8): "float8_e4m3fnuz", (12, 8): "float8_e5m2", (13, 8): "float8_e5m2fnuz"}
NAMED |= {(14, 8): "float8_e8m0fnu", (15, 6): "float6_e2m3fn", (16, 6): "float6_e3m2fn", (17, 4): "float4_e2m1fn"}
MAGIC = b"\x89devmod\n"
FAR = 2**63 - 1


class SpecError(ValueError):
    """The bytes are not of the form that docs/formats.md gives."""


def need(holds: object, rule: str) -> None:
    if not holds:
        raise SpecError(rule)


# -- msgpack, as used here


def objects(data: bytes | memoryview, count: int, most: int) -> list[Any]:
    """`count` objects that are all there is in `data`."""
    unpacker = msgpack.Unpacker(
        raw=False, strict_map_key=True, object_pairs_hook=pairs_of, ext_hook=refuse_ext, max_buffer_size=max(len(data), 1)
    )
    unpacker.feed(data)
    try:
        found = [unpacker.unpack() for _ in range(count)]
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise SpecError(f"msgpack: {error or type(error).__name__}") from None
    need(unpacker.tell() == len(data), "bytes follow the last object")
    need(sum(map(values, found)) <= most, f"more than {most} objects")
    return found


def pairs_of(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    need(all(type(key) is str for key, _ in pairs), "the keys of a map are strings")
    made = dict(pairs)
    need(len(made) == len(pairs), "a key is repeated")
    return made


def refuse_ext(code: int, data: bytes) -> Any:
    raise SpecError("an extension type")


def values(value: Any) -> int:
    if type(value) is dict:
        return 1 + len(value) + sum(map(values, value.values()))
    if type(value) is list:
        return 1 + sum(map(values, value))
    need(value is None or type(value) in (bool, int, float, str, bytes), "an extension type")
    return 1


def containers(value: Any) -> int:
    """How many arrays and maps a value has, itself included."""
    parts = list(value.values()) if type(value) is dict else value if type(value) is list else None
    return 0 if parts is None else 1 + sum(map(containers, parts))


def need_room(free: Iterable[Any], data: bytes | memoryview) -> None:
    need(sum(map(containers, free)) <= 1024 + len(data) // 8, "too many arrays and maps in values of any sort")


def deep(value: Any) -> int:
    """The most arrays and maps of `value` that one value in it lies in."""
    parts = list(value.values()) if type(value) is dict else value if type(value) is list else []
    return 1 + max(map(deep, parts)) if parts else 0


def text(value: Any) -> str:
    need(type(value) is str, "expected a string")
    return str(value)


def array(value: Any) -> list[Any]:
    need(type(value) is list, "expected an array")
    return list(value)


def mapping(value: Any) -> dict[str, Any]:
    need(type(value) is dict, "expected a map")
    return dict(value)


def number(value: Any, low: int, high: int) -> int:
    need(type(value) is int and low <= value <= high, f"expected an integer from {low} to {high}")
    return int(value)


def binary(value: Any) -> bytes:
    need(type(value) is bytes, "expected a binary")
    return bytes(value)


# -- a module's bytes


def read_module(kind: str, data: bytes | memoryview, spec: Mapping[str, tuple[tuple[str, ...], str]] = KINDS) -> dict[str, Any]:
    """A module's bytes as {"format", "functions", "code"}; a const_loader's as {"constants", "symbols"}."""
    if kind == "const_loader":
        return read_constants(data)
    fields, default = spec[kind]
    made = {"format": default}
    for field, value in zip(fields, objects(data, len(fields), 2**20), strict=True):
        if field == "fmt":
            made["format"] = text(value)
        elif field == "fmap":
            need_room((info[4] for info in mapping(value).values() if type(info) is list and len(info) == 5), data)
            made["functions"] = {name: function(info) for name, info in mapping(value).items()}
        elif field == "code":
            made["code"] = binary(value)
        else:
            made["code"] = {name: binary(shader) for name, shader in mapping(value).items()}
    return made


def function(value: Any) -> dict[str, Any]:
    parts = array(value)
    need(len(parts) in (4, 5), "a function is an array of 4 or 5")
    made: dict[str, Any] = {
        "name": text(parts[0]),
        "arg_types": [type_name(each) for each in array(parts[1])],
        "launch_param_tags": [text(each) for each in array(parts[2])],
        "arg_extra_tags": [number(each, -(2**31), 2**31 - 1) for each in array(parts[3])],
    }
    if len(parts) == 5:
        need(deep(parts[4]) <= 32, "a value lies in more than 32 arrays and maps")
        made["interface"] = interface(mapping(parts[4]))
        need(len(made["interface"]["params"]) == len(made["arg_types"]), "as many params as types")
    return made


def type_numbers(value: Any) -> tuple[int, int, int]:
    parts = array(value)
    need(len(parts) == 3, "a type is an array of 3")
    return number(parts[0], 0, 255), number(parts[1], 0, 255), number(parts[2], 0, 65535)


def type_name(value: Any) -> str:
    code, bits, lanes = type_numbers(value)
    name = NAMED.get((code, bits)) or (f"{SIZED[code]}{bits}" if code in SIZED else f"type{code}_{bits}")
    return name if lanes == 1 else f"{name}x{lanes}"


def is_type_name(name: str) -> bool:
    decimal = r"(0|[1-9][0-9]{0,4})"
    base, x, lanes = name.rpartition("x")
    if not (x and re.fullmatch(decimal, lanes) and int(lanes) <= 65535 and lanes != "1" and base != "comple"):
        base = name
    if base in NAMED.values():
        return True
    sized = re.fullmatch(rf"(?:{'|'.join(SIZED.values())}){decimal}", base)
    if sized:
        return int(sized[1]) <= 255
    other = re.fullmatch(rf"type{decimal}_{decimal}", base)
    if not other:
        return False
    code, bits = int(other[1]), int(other[2])
    return code <= 255 and bits <= 255 and code not in SIZED and (code, bits) not in NAMED


def interface(fields: dict[str, Any]) -> dict[str, Any]:
    """The interface as it stands there, checked; what says nothing is left out, as a writer leaves it out."""
    made: dict[str, Any] = {"params": [parameter(mapping(each)) for each in array(fields.get("params", []))]}
    blocks = [block(mapping(each)) for each in array(fields.get("blocks", []))]
    if blocks:
        made["blocks"] = blocks
    if fields.get("block") is not None:
        made["block"] = [number(each, 0, FAR) for each in array(fields["block"])]
        need(len(made["block"]) == 3, "a block of threads is three numbers")
    if fields.get("default_block") is not None:
        made["default_block"] = [number(each, 1, FAR) for each in array(fields["default_block"])]
        need(len(made["default_block"]) == 3, "a block of threads is three numbers")
    is_open = fields.get("open_block", False)
    need(type(is_open) is bool, "open_block is a boolean")
    made |= {"open_block": True} if is_open else {}
    return made | unknown(fields, "params", "blocks", "block", "default_block", "open_block")


def parameter(fields: dict[str, Any]) -> dict[str, Any]:
    need("name" in fields and "kind" in fields, "a parameter has name and kind")
    made: dict[str, Any] = {"name": text(fields["name"]), "kind": text(fields["kind"])}
    need(made["kind"] in ("buffer", "scalar", "uniform", "local", "image", "sampler"), "a parameter's kind")
    element, access = text(fields.get("type", "")), text(fields.get("access", ""))
    need(not element or is_type_name(element), "a parameter's type")
    need(access in ("", "r", "w", "rw"), "a parameter's access")
    made |= ({"type": element} if element else {}) | ({"access": access} if access else {})
    if fields.get("at") is not None:
        made["at"] = place(fields["at"])
    align = number(fields.get("align", 0), 0, FAR)
    size = number(fields.get("size", 0), 0, FAR)
    made |= ({"align": align} if align else {}) | ({"size": size} if size else {})
    members = [member(mapping(each), 0) for each in array(fields.get("members", []))]
    if members:
        need(made["kind"] in ("scalar", "uniform"), "a struct by value is a scalar or a uniform")
        need(element.startswith("uint8") and element != "uint8x0", "a struct of N bytes is uint8xN")
        check_layout(members, width(element))
        made["members"] = members
    if fields.get("default") is not None:
        need(made["kind"] == "local", "local memory has a default")
        made["default"] = mapping(fields["default"])
        need(list(made["default"]) in (["bytes"], ["per_thread"]), "bytes, or bytes a thread")
        number(*made["default"].values(), 1, FAR)
    return made | unknown(fields, "name", "kind", "type", "access", "at", "align", "size", "members", "default")


def member(fields: dict[str, Any], depth: int) -> dict[str, Any]:
    need(depth < 16, "at most 16 structs")
    need("name" in fields and "offset" in fields, "a member has name and offset")
    made: dict[str, Any] = {"name": text(fields["name"])}
    element = text(fields.get("type", ""))
    inner = [member(mapping(each), depth + 1) for each in array(fields.get("members", []))]
    need(bool(element) != bool(inner), "a member has a type, or members")
    need(not element or is_type_name(element), "a member's type")
    made |= {"type": element} if element else {}
    made["offset"] = number(fields["offset"], 0, FAR)
    made |= {"members": inner} if inner else {}
    size = number(fields.get("size", 0), 0, FAR)
    made |= {"size": size} if size else {}
    shape, strides = ([number(each, 0, FAR) for each in array(fields.get(key, []))] for key in ("shape", "strides"))
    need(len(shape) == len(strides) <= 16, "a stride for each dimension")
    made |= {"shape": shape, "strides": strides} if shape else {}
    return made | unknown(fields, "name", "type", "offset", "members", "size", "shape", "strides")


def check_layout(members: list[dict[str, Any]], size: int) -> None:
    """The section "The members of a struct": inside, in any order, without overlap."""
    spans = []
    names = [each["name"] for each in members if each["name"]]
    need(len(names) == len(set(names)), "names of members differ")
    for each in members:
        if "members" in each:
            check_layout(each["members"], each.get("size", 0))
        length = each.get("size", 0) if "members" in each else width(each["type"])
        for count, stride in zip(reversed(each.get("shape", [])), reversed(each.get("strides", [])), strict=True):
            need(count > 0 and stride >= length, "the elements of an array do not overlap")
            length += (count - 1) * stride
        need(length, "a member has bytes")
        spans.append((each["offset"], each["offset"] + length))
    spans.sort()
    need(all(end <= start for (_, end), (start, _) in itertools.pairwise(spans)), "members do not overlap")
    need(all(end <= size for _, end in spans), "members are inside the struct")


def width(name: str) -> int:
    """The bytes of a value of a type, whose lanes are whole numbers of bytes."""
    base, _, lanes = name.rpartition("x") if re.search(r"x\d+$", name) and not name.startswith("complex") else (name, "", "1")
    bits = next((pair[1] for pair, known in NAMED.items() if known == base), None)
    if bits is None:
        bits = int(re.search(r"\d+$", base)[0])  # type: ignore[index]
    if base == "void" or name == "uint1":
        bits = 8
    need(bits % 8 == 0, "a lane is a whole number of bytes")
    return bits // 8 * int(lanes)


def block(fields: dict[str, Any]) -> dict[str, Any]:
    need("at" in fields and "size" in fields, "a block has at and size")
    at = fields["at"] if fields["at"] in (None, "push") else place(fields["at"])
    return {"at": at, "size": number(fields["size"], 0, FAR)} | unknown(fields, "at", "size")


def place(value: Any) -> Any:
    if type(value) is list:
        need(len(value) == 2, "a place is an integer or two")
        return [number(each, 0, FAR) for each in value]
    return number(value, 0, FAR)


def unknown(fields: dict[str, Any], *known: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in known}


def read_constants(data: bytes | memoryview) -> dict[str, Any]:
    constants, symbols = map(mapping, objects(data, 2, 2**20))
    found = {name: constant(array(value)) for name, value in constants.items()}
    handed = {symbol: [text(name) for name in array(names)] for symbol, names in symbols.items()}
    need(all(name in found for names in handed.values() for name in names), "a symbol's constant is there")
    return {"constants": found, "symbols": handed}


def constant(parts: list[Any]) -> dict[str, Any]:
    need(len(parts) == 3, "a constant is an array of 3")
    code, bits, lanes = type_numbers(parts[0])
    shape = [number(each, 0, FAR) for each in array(parts[1])]
    need(len(shape) <= 64, "at most 64 dimensions")
    size = 8 * lanes if (code, bits, lanes) == (1, 1, 1) or (code, bits) == (3, 0) else bits * lanes
    data = binary(parts[2])
    need(len(data) == -(-math.prod(shape) * size // 8), "the bytes of a constant")
    return {"type": type_name(parts[0]), "shape": shape, "data": data}


def vulkan_words(value: bytes) -> tuple[int, bytes]:
    """The flags and the SPIR-V words of a Vulkan shader's value."""
    need(len(value) >= 12, "a Vulkan shader's flags and count")
    flags, count = struct.unpack_from("<IQ", value)
    need(len(value) == 12 + 4 * count, "a Vulkan shader's words")
    return flags, value[12:]


# -- the metadata of a raw payload


def read_metadata(data: bytes) -> dict[str, Any]:
    """A metadata file as {"functions", "shader"}."""
    need(len(data) <= 64 << 20, "64 MiB")
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"JSON: {error}") from None
    functions = mapping(mapping(fields).get("func_info"))
    return {"functions": {name: described(mapping(each)) for name, each in functions.items()}, "shader": text(fields.get("shader", ""))}


def described(fields: dict[str, Any]) -> dict[str, Any]:
    """A function of a metadata file."""
    need("name" in fields and "arg_types" in fields, "a function has name and arg_types")
    made: dict[str, Any] = {"name": text(fields["name"]), "arg_types": [text(each) for each in array(fields["arg_types"])]}
    need(all(map(is_type_name, made["arg_types"])), "the name of a type")
    made["launch_param_tags"] = [text(each) for each in array(fields.get("launch_param_tags", []))]
    made["arg_extra_tags"] = [number(each, -(2**31), 2**31 - 1) for each in array(fields.get("arg_extra_tags", []))]
    if "interface" in fields:
        made["interface"] = interface(mapping(fields["interface"]))
        need(len(made["interface"]["params"]) == len(made["arg_types"]), "as many params as types")
    return made


# -- the .devmod file


def read_bundle(data: bytes) -> dict[str, Any]:
    """The index, checked, with the bytes of each module that has some under "bytes"."""
    need(data[:8] == MAGIC and len(data) >= 48, "the header")
    version, length = struct.unpack_from("<II", data, 8)
    need(version == 1, "the version")
    need(length <= 2**26 and 48 + length <= len(data), "the length of the index")
    index = data[48 : 48 + length]
    need(hashlib.sha256(index).digest() == data[16:48], "the digest of the index")
    (fields,) = map(mapping, objects(index, 1, 2**22))
    need("roots" in fields and "modules" in fields, "roots and modules")
    pass_over(unknown(fields, "roots", "modules"))
    need_room([*unknown(fields, "roots", "modules").values(), *of_modules(array(fields["modules"]))], index)
    modules = [module(mapping(each)) for each in array(fields["modules"])]
    roots = [number(each, 0, len(modules) - 1) for each in array(fields["roots"])]
    need(roots and len(set(roots)) == len(roots), "one root or more, none twice")
    check_tree(roots, modules)
    start, end = up(48 + length), 0
    need(start <= len(data), "the zeros behind the index")
    for each in modules:
        if "offset" in each:
            need(each["offset"] == up(end), "an offset")
            end = each["offset"] + each["size"]
            each["bytes"] = data[start + each["offset"] : start + end]
            need(len(each["bytes"]) == each["size"], "a size")
            need(hashlib.sha256(each["bytes"]).digest() == each["sha256"], "the digest of a module's bytes")
        if each["kind"] in KINDS:
            need(list(read_module(each["kind"], each["bytes"])["functions"]) == each["functions"], "the functions of a module")
        if each["kind"] == "const_loader":
            need(list(read_constants(each["bytes"])["symbols"]) == each["functions"], "the init symbols of constants")
    need(start + end == len(data), "the end of the file")
    return {"roots": roots, "modules": modules}


def of_modules(modules: list[Any]) -> list[Any]:
    """What stands in modules where a value of any sort may stand."""
    known = ("kind", "imports", "format", "functions", "variant", "offset", "size", "sha256")
    return [value for each in modules for value in unknown(mapping(each), *known).values()]


def module(fields: dict[str, Any]) -> dict[str, Any]:
    need("kind" in fields, "a module's kind")
    kind = text(fields["kind"])
    bare = kind in ("bundle", "_lib")
    need(bare or re.fullmatch("[a-z][a-z0-9_]{0,31}", kind), "a kind's form")
    need([key in fields for key in ("offset", "size", "sha256")] == [not bare] * 3, "offset, size and sha256")
    pass_over(unknown(fields, "kind", "imports", "format", "functions", "variant", "origin", "offset", "size", "sha256"))
    made: dict[str, Any] = {"kind": kind}
    made["imports"] = [number(each, 0, 2**32 - 1) for each in array(fields.get("imports", []))]
    made["format"] = text(fields.get("format", ""))
    made["functions"] = [text(each) for each in array(fields.get("functions", []))]
    made["variant"] = text(fields.get("variant", ""))
    made["origin"] = origin(mapping(fields["origin"])) if "origin" in fields else None
    if not bare:
        made |= {"offset": number(fields["offset"], 0, FAR), "size": number(fields["size"], 0, FAR), "sha256": binary(fields["sha256"])}
        need(len(made["sha256"]) == 32, "a sha256")
    return made


def origin(fields: dict[str, Any]) -> dict[str, Any]:
    need(deep(fields) <= 32, "a value lies in more than 32 arrays and maps")
    made: dict[str, Any] = {key: text(fields.get(key, "")) for key in ("target", "toolchain")}
    made["options"] = [text(option) for option in array(fields.get("options", []))]
    made["sources"] = {name: text(digest) for name, digest in mapping(fields.get("sources", {})).items()}
    return made | unknown(fields, *made)


def pass_over(fields: dict[str, Any]) -> None:
    """Keys that are not known."""
    for value in fields.values():
        need(deep(value) <= 32, "a value lies in more than 32 arrays and maps")


def check_tree(roots: list[int], modules: list[dict[str, Any]]) -> None:
    depth = dict.fromkeys(roots, 1)
    for at, each in enumerate(modules):
        need(at in depth, "each module is a root or imported by one before it")
        need(depth[at] <= 64, "at most 64 modules deep")
        for child in each["imports"]:
            need(at < child < len(modules), "an import's number")
            depth[child] = max(depth.get(child, 0), depth[at] + 1)
    bare = sum("offset" not in each for each in modules)
    need(bare - (len(modules) - bare) <= 1024, "at most 1024 nodes without bytes more than modules with some")


def up(offset: int) -> int:
    return -(-offset // 64) * 64


# -- for people


def shown(value: Any) -> Any:
    """A value for JSON: binaries in hexadecimal; of a bundle's modules, what is empty is left out, and the bytes are."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [shown(each) for each in value]
    if isinstance(value, dict):
        in_index = "kind" in value and "imports" in value
        return {key: shown(each) for key, each in value.items() if not in_index or (key != "bytes" and each not in ("", [], {}, None))}
    return value


def read_file(path: Path) -> dict[str, Any]:
    """A .devmod file, a file [<name>.]<kind>.bytes, or a metadata file."""
    data = path.read_bytes()
    if path.name.endswith(".tvm_meta.json"):
        return read_metadata(data)
    return read_bundle(data) if path.suffix == ".devmod" else read_module(path.stem.rpartition(".")[2], data)


def folded(value: Any, indent: int = 0, before: int = 0) -> str:
    """JSON that is broken where a line would get long."""
    line = json.dumps(value, ensure_ascii=False)
    if before + indent + len(line) <= 150 or not value or not isinstance(value, (dict, list)):
        return line
    pad = "\n" + " " * (indent + 1)
    if isinstance(value, list):
        return "[" + ("," + pad).join(folded(each, indent + 1) for each in value) + "]"
    parts = [f"{json.dumps(key)}: " for key in value]
    return (
        "{" + ("," + pad).join(part + folded(each, indent + 1, len(part)) for part, each in zip(parts, value.values(), strict=True)) + "}"
    )


def rows(data: bytes, ends: Iterable[int]) -> list[str]:
    """Rows for a vector in docs/formats.md, cut at these offsets."""
    cuts = [0, *ends]
    return [f"| {start} | `{data[start:end].hex(' ')}` |" for start, end in itertools.pairwise(cuts)]


if __name__ == "__main__":
    file = Path(sys.argv[1])
    if file.suffix == ".devmod":
        print(*rows(file.read_bytes(), [8, 12, 16, 48]), sep="\n")
    print(folded(shown(read_file(file))))
