"""A second reader of devmod's formats, written from docs/formats.md alone: nothing of devmod is
imported.

The tests compare its results with those of devmod. It prints the contents of a file:

    python tests/spec_reader.py tests/golden/v1/cuda.bytes
    python tests/spec_reader.py k.devmod
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import json
import keyword
import math
import re
import struct
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgpack

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

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
    "program": (SHADERS, "steps1"),
}
SIZED = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}
NAMED = {
    (3, 64): "handle",
    (3, 0): "void",
    (6, 8): "bool",
    (7, 8): "float8_e3m4",
    (8, 8): "float8_e4m3",
    (9, 8): "float8_e4m3b11fnuz",
}
NAMED |= {
    (10, 8): "float8_e4m3fn",
    (11, 8): "float8_e4m3fnuz",
    (12, 8): "float8_e5m2",
    (13, 8): "float8_e5m2fnuz",
}
NAMED |= {
    (14, 8): "float8_e8m0fnu",
    (15, 6): "float6_e2m3fn",
    (16, 6): "float6_e3m2fn",
    (17, 4): "float4_e2m1fn",
}
MAGIC = b"\x89devmod\n"
OF_BYTES = {"zstd", "repeats", "sources", "features", "shift", "parts"}
BLOB = ("features", "size", "sha256", "shift", "zstd")
#: The keys of a module's record whose values have a type. An origin is a value of any type.
KEYS = ("kind", "imports", "format", "functions", "variant", "rank", *OF_BYTES, *BLOB)
FAR = 2**63 - 1
#: The needs that a reader knows: the table of docs/arrays-and-devices.md, and two more.
NEEDS = {"fp16", "fp64", "int64_atomics", "subgroups", "subgroup_size", "images"}
NEEDS |= {"image_writes_3d", "launch_constants", "processor", "tuned", "repeat"}
#: What a page says of a candidate of another one: number, rank, and kind, format and variant.
Claim = tuple[int, int, tuple[str, ...]]


class SpecError(ValueError):
    """The bytes are invalid according to docs/formats.md."""


def require(condition: object, rule: str) -> None:
    if not condition:
        raise SpecError(rule)


# -- msgpack, as used here


def objects(data: bytes | memoryview, count: int) -> list[Any]:
    """Return the `count` objects in `data`."""
    unpacker = msgpack.Unpacker(
        raw=False,
        strict_map_key=True,
        object_pairs_hook=pairs_of,
        ext_hook=refuse_ext,
        max_buffer_size=max(len(data), 1),
    )
    unpacker.feed(data)
    try:
        result = [unpacker.unpack() for _ in range(count)]
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise SpecError(f"msgpack: {error or type(error).__name__}") from None
    require(unpacker.tell() == len(data), "bytes follow the last object")
    list(map(count_values, result))  # it refuses other types
    return result


def pairs_of(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    require(all(type(key) is str for key, _ in pairs), "the keys of a map are strings")
    result = dict(pairs)
    require(len(result) == len(pairs), "a key is repeated")
    return result


def refuse_ext(code: int, data: bytes) -> Any:
    raise SpecError("an extension type")


def count_values(value: Any) -> int:
    if type(value) is dict:
        return 1 + len(value) + sum(map(count_values, value.values()))
    if type(value) is list:
        return 1 + sum(map(count_values, value))
    require(value is None or type(value) in (bool, int, float, str, bytes), "an extension type")
    return 1


def count_containers(value: Any) -> int:
    """Return the number of arrays and maps in a value, itself included."""
    parts = list(value.values()) if type(value) is dict else value if type(value) is list else None
    return 0 if parts is None else 1 + sum(map(count_containers, parts))


def require_room(free: Iterable[Any], data: bytes | memoryview) -> None:
    require(
        sum(map(count_containers, free)) <= 1024 + len(data) // 8,
        "too many arrays and maps in values of any type",
    )


def nesting(value: Any) -> int:
    """Return the maximum depth of arrays and maps in a value."""
    parts = list(value.values()) if type(value) is dict else value if type(value) is list else []
    return 1 + max(map(nesting, parts)) if parts else 0


def text(value: Any) -> str:
    require(type(value) is str, "expected a string")
    return str(value)


def array(value: Any) -> list[Any]:
    require(type(value) is list, "expected an array")
    return list(value)


def mapping(value: Any) -> dict[str, Any]:
    require(type(value) is dict, "expected a map")
    return dict(value)


def number(value: Any, low: int, high: int) -> int:
    require(
        type(value) is int and low <= value <= high, f"expected an integer from {low} to {high}"
    )
    return int(value)


def binary(value: Any) -> bytes:
    require(type(value) is bytes, "expected a binary")
    return bytes(value)


# -- a module's bytes


def read_module(
    kind: str, data: bytes | memoryview, spec: Mapping[str, tuple[tuple[str, ...], str]] = KINDS
) -> dict[str, Any]:
    """Return a module's bytes as {"format", "functions", "code"}; a const_loader's as {"constants",
    "symbols"}.
    """
    if kind == "const_loader":
        return read_constants(data)
    fields, default = spec[kind]
    result = {"format": default}
    for field, value in zip(fields, objects(data, len(fields)), strict=True):
        if field == "fmt":
            result["format"] = text(value)
        elif field == "fmap":
            result["functions"] = {name: function(info) for name, info in mapping(value).items()}
            require_room((info[4] for info in value.values() if len(info) > 4), data)
            check_tune_rooms(data, fields.index("fmap"), value)
        elif field == "code":
            result["code"] = binary(value)
        else:
            result["code"] = {name: binary(shader) for name, shader in mapping(value).items()}
    return result


def check_tune_rooms(data: bytes | memoryview, skipped: int, functions: dict[str, Any]) -> None:
    """Check the limit on the arrays and maps of each `tune`, which is by its own bytes."""
    tunes = {name: parts[5] for name, parts in functions.items() if len(parts) == 6}
    if not tunes:
        return
    unpacker = msgpack.Unpacker(raw=False, max_buffer_size=max(len(data), 1))
    unpacker.feed(data)
    for _ in range(skipped):
        unpacker.skip()
    for _ in range(unpacker.read_map_header()):
        name = unpacker.unpack()
        for _ in range(min(unpacker.read_array_header(), 5)):
            unpacker.skip()
        if name in tunes:
            start = unpacker.tell()
            unpacker.skip()
            size = unpacker.tell() - start
            require(count_containers(tunes[name]) <= size // 4, "too many arrays and maps in tune")


def function(value: Any) -> dict[str, Any]:
    """Return a function. A damaged one has the key "damaged" alone, with the reason. Others can be
    used.
    """
    parts = array(value)
    require(len(parts) in (4, 5, 6), "a function is an array of 4 to 6")
    try:
        return function_of(parts)
    except SpecError as error:
        return {"damaged": str(error)}


def require_sound(functions: dict[str, dict[str, Any]]) -> None:
    """Check that no function is damaged."""
    for name, info in functions.items():
        require("damaged" not in info, f"the function {name!r}: {info.get('damaged')}")


def function_of(parts: list[Any]) -> dict[str, Any]:
    """Return a function. A newer one has the key "newer" with the unknown needs, and no
    interface.
    """
    result: dict[str, Any] = {
        "name": text(parts[0]),
        "arg_types": [type_name(each) for each in array(parts[1])],
        "launch_param_tags": [text(each) for each in array(parts[2])],
        "arg_extra_tags": [number(each, -(2**31), 2**31 - 1) for each in array(parts[3])],
    }
    for each in parts[4:]:
        require(nesting(mapping(each)) <= 32, "a value is in more than 32 arrays and maps")
    if len(parts) == 4:
        return result
    needs = unknown_needs(parts[4])
    if "tune" in parts[4]:
        require(needs, "an interface has no key tune")
        return result | {"newer": needs}
    result |= interface_of(parts[4], result["arg_types"])
    if len(parts) == 6 and "interface" in result:  # as in JSON
        result["interface"]["tune"] = parts[5]
    return result


def unknown_needs(fields: dict[str, Any]) -> list[str]:
    """Return the needs in an interface that this reader does not know."""
    needs = {text(each) for each in array(fields.get("needs", []))}
    return sorted(needs - NEEDS)


def interface_of(fields: dict[str, Any], types: list[str]) -> dict[str, Any]:
    """Return the "interface" of a function with these types, or its "newer" needs."""
    needs = unknown_needs(fields)
    try:
        result = interface(fields)
        values = sum(len(each.get("pack", "1")) for each in result["params"])
        require(values == len(types), "as many values as types")
    except SpecError:
        if not needs:
            raise
        return {"newer": needs}
    return {"interface": result}


def type_numbers(value: Any) -> tuple[int, int, int]:
    parts = array(value)
    require(len(parts) == 3, "a type is an array of 3")
    return number(parts[0], 0, 255), number(parts[1], 0, 255), number(parts[2], 0, 65535)


def type_name(value: Any) -> str:
    code, bits, lanes = type_numbers(value)
    name = NAMED.get((code, bits)) or (
        f"{SIZED[code]}{bits}" if code in SIZED else f"type{code}_{bits}"
    )
    return name if lanes == 1 else f"{name}x{lanes}"


def is_type_name(name: str) -> bool:
    decimal = r"(0|[1-9][0-9]{0,4})"
    base, x, lanes = name.rpartition("x")
    if not (
        x
        and re.fullmatch(decimal, lanes)
        and int(lanes) <= 65535
        and lanes != "1"
        and base != "comple"
    ):
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
    """Return the interface, checked, without the empty fields, which a writer omits."""
    result: dict[str, Any] = {
        "params": [parameter(mapping(each)) for each in array(fields.get("params", []))]
    }
    blocks = [block(mapping(each)) for each in array(fields.get("blocks", []))]
    if blocks:
        result["blocks"] = blocks
    if fields.get("block") is not None:
        result["block"] = [number(each, 0, FAR) for each in array(fields["block"])]
        require(len(result["block"]) == 3, "a block of threads is three numbers")
    if fields.get("default_block") is not None:
        result["default_block"] = [number(each, 1, FAR) for each in array(fields["default_block"])]
        require(len(result["default_block"]) == 3, "a block of threads is three numbers")
    is_open = fields.get("open_block", False)
    require(type(is_open) is bool, "open_block is a boolean")
    shared_memory = fields.get("shared_memory", 0)
    if isinstance(shared_memory, dict):
        require(list(shared_memory) == ["per_thread"], "bytes for each thread have one key")
        number(shared_memory["per_thread"], 1, FAR)
    else:
        number(shared_memory, 0, FAR)
    result |= ({"open_block": True} if is_open else {}) | (
        {"shared_memory": shared_memory} if shared_memory else {}
    )
    needs = sorted({text(each) for each in array(fields.get("needs", []))})
    result |= {"needs": needs} if needs else {}
    if fields.get("subgroup") is not None:
        result["subgroup"] = number(fields["subgroup"], 1, FAR)
    return result | unknown(
        fields,
        "params",
        "blocks",
        "block",
        "default_block",
        "open_block",
        "shared_memory",
        "needs",
        "subgroup",
    )


def parameter(fields: dict[str, Any]) -> dict[str, Any]:
    require("name" in fields and "kind" in fields, "a parameter has name and kind")
    result: dict[str, Any] = {"name": text(fields["name"]), "kind": text(fields["kind"])}
    require(
        result["kind"] in ("buffer", "scalar", "uniform", "local", "image", "sampler"),
        "a parameter's kind",
    )
    element, access = text(fields.get("type", "")), text(fields.get("access", ""))
    image_format, sample = text(fields.get("format", "")), text(fields.get("sample", ""))
    if result["kind"] == "image":
        require(
            element in ("", "1d", "2d", "3d", "1d_array", "2d_array", "1d_buffer"),
            "an image's type",
        )
        require(sample in ("", "float", "int", "uint"), "an image's sample")
    else:
        require(not element or is_type_name(element), "a parameter's type")
        require(not image_format and not sample, "a format and a sample are an image's")
    require(access in ("", "r", "w", "rw"), "a parameter's access")
    result |= ({"type": element} if element else {}) | ({"access": access} if access else {})
    result |= ({"format": image_format} if image_format else {}) | (
        {"sample": sample} if sample else {}
    )
    if fields.get("at") is not None:
        result["at"] = place(fields["at"])
    align = number(fields.get("align", 0), 0, FAR)
    size = number(fields.get("size", 0), 0, FAR)
    result |= ({"align": align} if align else {}) | ({"size": size} if size else {})
    members = [member(mapping(each), 0) for each in array(fields.get("members", []))]
    if members:
        require(
            result["kind"] in ("buffer", "scalar", "uniform"),
            "structs are in a buffer, a scalar or a uniform",
        )
        require(
            element.startswith("uint8") and element != "uint8x0", "a struct of N bytes is uint8xN"
        )
        check_layout(members, width(element))
        result["members"] = members
    pack = [text(each) for each in array(fields.get("pack", []))]
    if pack:
        require(result["kind"] == "buffer", "a buffer has a pack")
        check_pack(pack)
        result["pack"] = pack
    if fields.get("default") is not None:
        result["default"] = mapping(fields["default"])
        keys = {"local": (["bytes"], ["per_thread"]), "scalar": (["value"],)}.get(
            result["kind"], ()
        )
        require(
            list(result["default"]) in keys,
            "bytes or bytes a thread of local memory, or the value of a scalar",
        )
        number(*result["default"].values(), 0 if "value" in result["default"] else 1, FAR)
    return result | unknown(
        fields,
        "name",
        "kind",
        "type",
        "access",
        "format",
        "sample",
        "at",
        "align",
        "size",
        "members",
        "pack",
        "default",
    )


def check_pack(values: list[str]) -> None:
    names = {name: kind for name, _, kind in (value.partition(":") for value in values)}
    require(
        len(names) == len(values) and names.pop("ptr", "") == "handle",
        "different values with ptr:handle",
    )
    require(
        all(kind in ("int32", "uint32", "int64", "uint64") for kind in names.values()),
        "the type of a number of a pack",
    )
    shapes, strides = (
        [int(name[len(word) :]) for name in names if re.fullmatch(rf"{word}(0|[1-9][0-9]?)", name)]
        for word in ("shape", "stride")
    )
    require(len(shapes) + len(strides) + ("count" in names) == len(names), "the names of a pack")
    require(sorted(shapes) == list(range(len(shapes))) and len(shapes) <= 16, "shapes from 0")
    require(
        max(strides, default=0) < min(len(shapes) or len(strides) or 1, 16),
        "strides of shapes, or from 0",
    )


def member(fields: dict[str, Any], depth: int) -> dict[str, Any]:
    require(depth < 16, "at most 16 structs")
    require("name" in fields and "offset" in fields, "a member has name and offset")
    result: dict[str, Any] = {"name": text(fields["name"])}
    element = text(fields.get("type", ""))
    inner = [member(mapping(each), depth + 1) for each in array(fields.get("members", []))]
    require(bool(element) != bool(inner), "a member has a type, or members")
    require(not element or is_type_name(element), "a member's type")
    result |= {"type": element} if element else {}
    result["offset"] = number(fields["offset"], 0, FAR)
    result |= {"members": inner} if inner else {}
    size = number(fields.get("size", 0), 0, FAR)
    result |= {"size": size} if size else {}
    shape, strides = (
        [number(each, 0, FAR) for each in array(fields.get(key, []))]
        for key in ("shape", "strides")
    )
    require(len(shape) == len(strides) <= 16, "a stride for each dimension")
    result |= {"shape": shape, "strides": strides} if shape else {}
    return result | unknown(fields, "name", "type", "offset", "members", "size", "shape", "strides")


def check_layout(members: list[dict[str, Any]], size: int) -> None:
    """Check the rules of "The members of a struct": inside the struct, in any order, without
    overlap.
    """
    spans = []
    names = [each["name"] for each in members if each["name"]]
    require(len(names) == len(set(names)), "names of members differ")
    for each in members:
        if "members" in each:
            check_layout(each["members"], each.get("size", 0))
        length = each.get("size", 0) if "members" in each else width(each["type"])
        for count, stride in zip(
            reversed(each.get("shape", [])), reversed(each.get("strides", [])), strict=True
        ):
            require(count > 0 and stride >= length, "the elements of an array do not overlap")
            length += (count - 1) * stride
        require(length, "a member has bytes")
        spans.append((each["offset"], each["offset"] + length))
    spans.sort()
    require(
        all(end <= start for (_, end), (start, _) in itertools.pairwise(spans)),
        "members do not overlap",
    )
    require(all(end <= size for _, end in spans), "members are inside the struct")


def width(name: str) -> int:
    """Return the size in bytes of a value of a type whose lanes are whole numbers of bytes."""
    base, _, lanes = (
        name.rpartition("x")
        if re.search(r"x\d+$", name) and not name.startswith("complex")
        else (name, "", "1")
    )
    bits = next((pair[1] for pair, known in NAMED.items() if known == base), None)
    if bits is None:
        bits = int(re.search(r"\d+$", base)[0])  # type: ignore[index]
    if base == "void" or name == "uint1":
        bits = 8
    require(bits % 8 == 0, "a lane is a whole number of bytes")
    return bits // 8 * int(lanes)


def block(fields: dict[str, Any]) -> dict[str, Any]:
    require("at" in fields and "size" in fields, "a block has at and size")
    at = fields["at"] if fields["at"] in (None, "push") else place(fields["at"])
    name = text(fields.get("name", ""))
    result = {"at": at, "size": number(fields["size"], 0, FAR)} | ({"name": name} if name else {})
    return result | unknown(fields, "at", "size", "name")


def place(value: Any) -> Any:
    if type(value) is list:
        require(len(value) == 2, "a place is an integer or two")
        return [number(each, 0, FAR) for each in value]
    return number(value, 0, FAR)


def unknown(fields: dict[str, Any], *known: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in known}


def read_constants(data: bytes | memoryview) -> dict[str, Any]:
    return read_stored_constants(data, [])


def read_stored_constants(data: bytes | memoryview, parts: list[bytes]) -> dict[str, Any]:
    """Return constants in the bytes of a file, of which some may be positions of parts."""
    constants, symbols = map(mapping, objects(data, 2))
    tensors = {name: constant(array(value), parts) for name, value in constants.items()}
    names_by_symbol = {
        symbol: [text(name) for name in array(names)] for symbol, names in symbols.items()
    }
    for names in names_by_symbol.values():
        require(all(name in tensors for name in names), "a symbol's constant exists")
    return {"constants": tensors, "symbols": names_by_symbol}


def constant(parts: list[Any], stored: list[bytes]) -> dict[str, Any]:
    require(len(parts) == 3, "a constant is an array of 3")
    code, bits, lanes = type_numbers(parts[0])
    shape = [number(each, 0, FAR) for each in array(parts[1])]
    require(len(shape) <= 64, "at most 64 dimensions")
    size = bits * lanes
    if (code, bits, lanes) == (1, 1, 1) or (code, bits) == (3, 0):
        size = 8 * lanes
    if stored and type(parts[2]) is not bytes:
        data = stored[number(parts[2], 0, len(stored) - 1)]
    else:
        data = binary(parts[2])
    require(len(data) == -(-math.prod(shape) * size // 8), "the bytes of a constant")
    return {"type": type_name(parts[0]), "shape": shape, "data": data}


def joined(data: bytes, parts: list[bytes]) -> bytes:
    """Return the bytes of a module of constants, with each part in its place."""
    unpacker = msgpack.Unpacker(raw=False, max_buffer_size=max(len(data), 1))
    unpacker.feed(data)
    pieces, at = [], 0
    for _ in range(unpacker.read_map_header()):
        unpacker.skip()
        unpacker.read_array_header()
        unpacker.skip()
        unpacker.skip()
        start = unpacker.tell()
        value = unpacker.unpack()
        if type(value) is int:
            require(len(parts[value]) < 2**32, "a bin has less than 4 GiB")
            pieces += [data[at:start], msgpack.packb(parts[value])]
            at = unpacker.tell()
    return b"".join([*pieces, data[at:]])


# -- tuned functions


def variants_of(info: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the variants of a tuned function, checked: the values of the constants, and the
    expressions and the interface of each. Those with the interface of a newer function are left
    out.
    """
    fields = info["interface"]
    try:
        return checked_variants(fields)
    except SpecError:
        needs = unknown_needs(fields)
        require(not needs, f"a newer function needs {needs}")
        raise


def checked_variants(fields: dict[str, Any]) -> list[dict[str, Any]]:
    tune = mapping(fields["tune"])
    constants, sizes = names_of(tune.get("constants")), names_of(tune.get("sizes", []))
    integers = {each["name"] for each in fields["params"] if is_integer(each)}
    require(constants, "at least one constant")
    require(integers.issuperset(sizes), "sizes are integer arguments")
    variants = [mapping(each) for each in array(tune.get("variants"))]
    require(1 <= len(variants) <= 1024, "1 to 1024 variants")
    values = [tuple(map(constant_value, array(each.get("values")))) for each in variants]
    require(all(len(each) == len(constants) for each in values), "a value of each constant")
    require(len(set(values)) == len(values), "no two variants have equal values")

    columns = zip(constants, zip(*values, strict=True), strict=True)
    numbers = {name for name, column in columns if {*map(type, column)} == {int}}
    known = {"grid": numbers | (integers - {*constants, ""}), "block": numbers}
    common = {key: dims_of(tune, key, names, []) for key, names in known.items()}
    result = []
    for own, each in zip(values, variants, strict=True):
        variant: dict[str, Any] = {"constants": dict(zip(constants, own, strict=True))}
        for key, names in known.items():
            variant[key] = dims_of(each, key, names, common[key])
        variant["interface"] = own_interface(each.get("interface"), fields)
        result.append(variant)
    require(len({bool(each["grid"]) for each in result}) == 1, "all variants have a grid, or none")
    return [each for each in result if each["interface"] is not None]


def own_interface(value: Any, common: dict[str, Any]) -> dict[str, Any] | None:
    """Return the interface of a variant; None if it is that of a newer function."""
    if value is None:
        return common
    fields = mapping(value)
    needs = unknown_needs(fields)
    try:
        result = interface(fields)
        require(arguments_of(result) == arguments_of(common), "the parameters of the function")
    except SpecError:
        if not needs:
            raise
        return None
    return result


def names_of(value: Any) -> list[str]:
    names = [text(each) for each in array(value)]
    require(all(each.isidentifier() for each in names), "a name is an identifier")
    require(len(set(names)) == len(names) <= 16, "at most 16 different names")
    return names


def is_integer(fields: dict[str, Any]) -> bool:
    """Return whether a parameter is an argument that is one integer."""
    is_one = fields["kind"] == "scalar" and "members" not in fields
    return is_one and re.fullmatch(r"u?int[0-9]+", fields.get("type", "")) is not None


def dims_of(fields: dict[str, Any], key: str, names: set[str], missing: list[Any]) -> list[Any]:
    """Return the expressions of a grid or a block; `missing` without any."""
    if fields.get(key) is None:
        return missing
    dims = array(fields[key])
    require(1 <= len(dims) <= 3, "one to three expressions")
    for each in dims:
        expression(each, names)
    return dims


def arguments_of(fields: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the names and the types of the values of an interface."""
    values = []
    for each in fields["params"]:
        for value in each.get("pack", ["ptr:"]):
            name, _, kind = value.partition(":")
            if name == "ptr":
                values.append((each["name"], each.get("type", "")))
            else:
                values.append((f"{each['name']}.{name}", kind))
    return values


# -- programs

ROLES = {"input": "r", "output": "w", "update": "rw", "temporary": "rw", "constant": "r"}
ROLES |= {"state": "rw"}
OPERATORS = ("+", "-", "*", "//", "%", "min", "max", "ceildiv")
SCALARS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}
RESERVED = ("min", "max", "ceildiv", "stream", "workspace", "constants", "device", "devices")
SAMPLES = {
    "unorm": ("uint", "float", (8, 16)),
    "snorm": ("int", "float", (8, 16)),
    "float": ("float", "float", (16, 32)),
}
SAMPLES |= {"uint": ("uint", "uint", (8, 16, 32)), "sint": ("int", "int", (8, 16, 32))}
FORMATS = {
    f"{order}{bits}{encoding}": sample
    for order in ("r", "rg", "rgba")
    for encoding, (_, sample, sizes) in SAMPLES.items()
    for bits in sizes
} | {"bgra8unorm": "float"}


def read_program(name: str, info: dict[str, Any], code: bytes) -> dict[str, Any]:
    """Return the declarations, the comparisons and the steps of a program, checked."""
    identifier(name)
    require_sound({name: info})
    require("newer" not in info, f"the program needs {info.get('newer')}")
    require("interface" in info, "a program has an interface")
    fields = info["interface"]
    require({*fields.get("needs", [])} <= {"repeat"}, "a program has the need repeat alone")
    params = {each["name"]: each for each in fields["params"]}
    require(len(params) == len(fields["params"]) <= 65_536, "the names of declarations differ")
    require(
        sum(each.get("role") == "temporary" for each in params.values()) <= 4096,
        "at most 4,096 temporaries",
    )
    for each in params.values():
        declaration(each)
    arrays = [
        each for each in params.values() if "shape" in each and each["kind"] in ("buffer", "image")
    ]
    bound = {
        length
        for each in arrays
        if each["role"] in ("input", "update", "state", "constant")
        for length in each["shape"]
        if type(length) is str
    }
    require(not bound & {*params}, "a length has a name of its own")
    list(map(identifier, bound))
    if any(each["role"] == "state" for each in arrays):
        require("state" not in params, "the name of the keyword of a state")
    for each in arrays:
        check_initial(each, params)
    numbers = bound | {
        each["name"]
        for each in params.values()
        if each["kind"] == "scalar" and each["type"] in SCALARS
    }
    for each in arrays:
        for length in each["shape"]:
            expression(length, numbers)
    (parts,) = map(mapping, objects(code, 1))
    check_unknown(unknown(parts, "requires", "steps", "repeats"))
    requires, steps = array(parts.get("requires", [])), array(parts.get("steps", []))
    repeats = array(parts.get("repeats", []))
    turns = turns_of_steps(repeats, len(steps), numbers, {*params})
    require(not repeats or "repeat" in fields.get("needs", []), "repeats are needed")
    free = [
        *unknown(parts, "requires", "steps", "repeats").values(),
        *(one[2] for one in repeats),
        *(value for one in requires for value in array(one)[1:]),
    ]
    require(
        steps and max(len(requires), len(steps)) <= 65_536,
        "a step, and at most 65,536 comparisons and steps",
    )
    for one in requires:
        require(
            len(array(one)) == 3 and one[0] in ("==", "!=", "<", "<=", ">", ">="), "a comparison"
        )
        expression(one[1], numbers), expression(one[2], numbers)
    for one, own in zip(steps, turns, strict=True):
        require(len(array(one)) == 3, "a step is an array of 3")
        text(one[0])
        arguments, launch = mapping(one[1]), mapping(one[2])
        free += [*arguments.values(), *unknown(launch, "grid", "threads", "block").values()]
        require(len(arguments) <= 1024, "at most 1,024 arguments")
        for value in arguments.values():
            if type(value) is list and value[:1] == ["view"]:
                check_view(value, params)
            elif type(value) not in (bool, float) and not (type(value) is str and value in params):
                expression(value, numbers | own)
        check_unknown(unknown(launch, "grid", "threads", "block"))
        for dims in (array(launch.get(word, [])) for word in ("grid", "threads", "block")):
            require(len(dims) <= 3, "at most three dimensions")
            free += dims
            for each in dims:
                expression(each, numbers)
    require(
        sum(map(count_containers, free)) <= 1024 + len(code) // 5,
        "too many arrays and maps in expressions and unknown values",
    )
    require(fields.get("kernels") == sorted({one[0] for one in steps}), "the names of the kernels")
    return {
        "params": list(params.values()),
        "requires": requires,
        "steps": steps,
        "repeats": repeats,
    }


def turns_of_steps(
    repeats: list[Any], count: int, numbers: set[str], declared: set[str]
) -> list[set[str]]:
    """Return for each step the names of the numbers of its turns."""
    turns: list[set[str]] = [set() for _ in range(count)]
    last = 0
    require(len(repeats) <= 65_536, "at most 65,536 repeats")
    for one in repeats:
        require(len(array(one)) == 4, "a repeat is an array of 4")
        first, end, turn_count, name = one
        require(type(first) is int and type(end) is int, "the steps of a repeat are numbers")
        require(last <= first < end <= count, "a repeat has steps")
        # It is behind the repeat before it, or within each that has its first step.
        around = len(turns[first])
        require(all(len(each) == around for each in turns[first:end]), "repeats do not cross")
        expression(turn_count, numbers)
        identifier(text(name))
        require(name not in declared | numbers | turns[first], "a turn has a name of its own")
        for each in turns[first:end]:
            each.add(name)
        require(around < 8, "at most 8 repeats are around a step")
        last = first
    return turns


def identifier(name: str) -> None:
    require(
        name.isidentifier() and not keyword.iskeyword(name) and name not in RESERVED,
        "a name is an identifier",
    )


def declaration(fields: dict[str, Any]) -> None:
    identifier(fields["name"])
    kind, role, element = fields["kind"], fields.get("role"), fields.get("type", "")
    require(type(role) is str, "a role")
    require(kind in ("buffer", "image") or "access" not in fields, "an access is an array's")
    if kind == "scalar":
        value = fields.get("value")
        require(
            role == "input"
            and element in (*SCALARS, "float16", "float32", "float64", "bfloat16", "bool"),
            "a scalar",
        )
        if value is not None and element in SCALARS:
            low = 0 if element[0] == "u" else -(2 ** (SCALARS[element] - 1))
            number(value, low, low + 2 ** SCALARS[element] - 1)
        elif element == "bool":
            require(value is None or type(value) is bool, "the default of a boolean")
        elif value is not None:
            require(type(value) in (int, float), "the default of a float")
            require(is_in_range(value, element), "the default in the range of its type")
    elif kind == "sampler":
        require(role == "sampler" and not element, "a sampler")
        require(fields.get("filter") in ("nearest", "linear"), "a filter")
        require(fields.get("address") in ("clamp", "repeat", "mirror", "border"), "an address mode")
    else:
        require(kind in ("buffer", "image") and role in ROLES, "an array")
        require(fields.get("access") == ROLES[role], "an array")
        require(len(array(fields.get("shape"))) <= 16, "a shape")
        cleared = fields.get("cleared", False)
        require(
            type(cleared) is bool
            and (not cleared or (kind == "buffer" and role in ("output", "temporary"))),
            "an output or a temporary array begins cleared",
        )
        if kind == "image":
            require(
                element == "2d"
                and fields.get("sample") == FORMATS.get(fields.get("format", ""), ""),
                "an image",
            )
            require(role not in ("constant", "state"), "an image's role")
            require(len(fields["shape"]) == 2, "an image of two lengths")
        else:
            element_type(element)


#: The least numbers that are infinite in a type: halves of the last digit above the greatest.
INFINITE = {"float16": 4095 * 2.0**4, "float32": (2**25 - 1) * 2.0**103, "bfloat16": 511 * 2.0**119}


def is_in_range(value: float, element: str) -> bool:
    """Return whether a number is no finite one that is infinite in a type of floats."""
    return math.isinf(value) or not abs(value) >= INFINITE.get(element, math.inf)


def element_type(element: str) -> None:
    """Check the type of an array's elements."""
    if element == "uint1":
        return
    lanes = re.search(r"x[0-9]+$", element) and not re.fullmatch(r"complex[0-9]+", element)
    require(element not in ("", "handle", "void") and not lanes, "the type of an array")
    require(not element.startswith("type3_") and width(element) > 0, "whole bytes")


def check_initial(fields: dict[str, Any], params: dict[str, dict[str, Any]]) -> None:
    """Check the constant with the first value of a state."""
    first = text(fields.get("initial", ""))
    if not first:
        return
    require(fields["role"] == "state", "a state has an initial value")
    constant = params.get(first, {})
    require(constant.get("role") == "constant", "the initial value is a constant")
    for key in ("type", "shape"):
        require(constant[key] == fields[key], "a constant of the type and the shape of the state")


def check_view(value: list[Any], params: dict[str, dict[str, Any]]) -> None:
    """Check an array's bytes as elements of another type."""
    require(len(value) == 3, "a view is an array of 3")
    require(params.get(text(value[1]), {}).get("kind") == "buffer", "a view of an array")
    require(is_type_name(text(value[2])), "the type of a view")
    element_type(value[2])


def expression(value: Any, names: set[str], depth: int = 0) -> None:
    if type(value) is str:
        require(value in names, "a name that is bound")
    elif type(value) is list:
        require(depth < 16, "at most 16 deep")
        require(value and type(value[0]) is str and value[0] in OPERATORS, "an operator")
        require(
            len(value) == 3 or (value[0] in ("min", "max") and 3 <= len(value) <= 17), "operands"
        )
        for each in value[1:]:
            expression(each, names, depth + 1)
    else:
        number(value, -(2**63), FAR)


def vulkan_words(value: bytes) -> tuple[int, bytes]:
    """Return the flags and the SPIR-V words of a Vulkan shader's value."""
    require(len(value) >= 12, "a Vulkan shader's flags and count")
    flags, count = struct.unpack_from("<IQ", value)
    require(len(value) == 12 + 4 * count, "a Vulkan shader's words")
    return flags, value[12:]


# -- the metadata of a raw payload


def read_metadata(data: bytes) -> dict[str, Any]:
    """Return a metadata file as {"functions", "shader"}."""
    try:
        fields = from_json(data, str(data, "utf-8"))
    except UnicodeDecodeError as error:
        raise SpecError(f"JSON: {error}") from None
    functions = mapping(mapping(fields).get("func_info"))
    return {
        "functions": {name: json_function(mapping(each)) for name, each in functions.items()},
        "shader": text(fields.get("shader", "")),
    }


def from_json(data: bytes, content: str | bytes) -> Any:
    """Return a value of JSON without a key twice, `NaN` and `Infinity`. Bytes have any encoding of
    Unicode, and a str no byte order mark.
    """
    require(len(data) <= 64 << 20, "64 MiB")

    def refuse(constant: str) -> Any:
        raise SpecError(constant)

    try:
        return json.loads(content, object_pairs_hook=pairs_of, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"JSON: {error}") from None


def json_function(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a function of a metadata file."""
    require("name" in fields and "arg_types" in fields, "a function has name and arg_types")
    result: dict[str, Any] = {
        "name": text(fields["name"]),
        "arg_types": [text(each) for each in array(fields["arg_types"])],
    }
    require(all(map(is_type_name, result["arg_types"])), "the name of a type")
    older = fields.get("thread_axis_tags", fields.get("launch_param_tags", []))
    tags = fields.get("launch_param_tags", older)
    require(tags == older, "the same tags under the older name")
    result["launch_param_tags"] = [text(each) for each in array(tags)]
    result["arg_extra_tags"] = [
        number(each, -(2**31), 2**31 - 1) for each in array(fields.get("arg_extra_tags", []))
    ]
    if "interface" in fields:
        result |= interface_of(mapping(fields["interface"]), result["arg_types"])
    return result


# -- the .devmod file


def read_bundle(data: bytes) -> dict[str, Any]:  # noqa: C901, PLR0915 - the page from top to bottom
    """Return the index, checked: the roots, the candidates, the records and the attachments. The
    field "bytes" of a record has its bytes.
    """
    require(data[:8] == MAGIC and len(data) >= 48, "the header")
    version, length = struct.unpack_from("<II", data, 8)
    require(version == 6, "the number of the format")
    require(length <= 2**26 and 48 + length <= len(data), "the length of the head")
    head = data[48 : 48 + length]
    require(hashlib.sha256(head).digest() == data[16:48], "the digest of the head")
    (fields,) = map(mapping, objects(head, 1))
    require("candidates" in fields and "pages" in fields, "candidates and pages")
    rest = unknown(fields, "candidates", "roots", "align", "pages", "sections")
    check_unknown(rest)
    require_room(rest.values(), head)
    pages = read_pages(array(fields["pages"]))
    at = 48 + length
    align = number(fields.get("align", 64), 64, 2**16)
    require(align.bit_count() == 1, "an alignment is a power of two")
    start = aligned(at + sum(size for _, size, *_ in pages), align)
    require(start <= len(data), "the zeros after the pages")
    records: list[dict[str, Any]] = []
    attached: list[dict[str, Any]] = []
    names: dict[str, list[Claim]] = {}
    firsts = [name for *_, name in pages if name is not None]
    places, end, beyond = list[int](), 0, 0

    def page_with(name: str) -> int:
        return bisect.bisect_right(firsts, name.encode()) - 1

    for place, (count, size, total, digest, _) in enumerate(pages):
        page = data[at : at + size]
        require(hashlib.sha256(page).digest() == digest, "the digest of a page")
        found, others, own = read_page(page)
        named = {*own, *(each["function"] for each in others)}
        require(all(page_with(name) == place for name in named), "the names of a page")
        names |= own
        require(len(found) == count, "the number of the records of a page")
        at, before = at + size, aligned(end) if total else end
        for each in (*found, *others):
            if "size" in each:
                each["offset"] = aligned(end) + each.get("shift", 0) if each["size"] else end
                end = each["offset"] + each["size"] if each["size"] else end
        require(end == before + total, "the size of the bytes of the records of a page")
        records += found
        attached += others
        places += [place] * count
    end += start
    spans = [(start + each["offset"], each["size"]) for each in records if each.get("size")]
    spans += [(start + each["offset"], each["size"]) for each in attached if each["size"]]
    sections: dict[str, bytes] = {}
    for name, size, digest in read_sections(array(fields.get("sections", []))):
        if size:
            spans.append((aligned(end), size))
            end = aligned(end) + size
        sections[name] = data[max(end - size, 0) : end]
        require(hashlib.sha256(sections[name]).digest() == digest, "the digest of a section")
    require(end == len(data), "the end of the file")
    check_zeros(data, at, [*sorted(spans), (end, 0)])
    for each in attached:
        begin = start + each["offset"]
        each["bytes"] = data[begin:][: each["size"]]
        require(
            hashlib.sha256(each["bytes"]).digest() == each["sha256"],
            "the digest of an attachment",
        )
        if "zstd" in each and not each["features"]:
            beyond += max(each["zstd"][0] - 256 * each["size"], 0)
    require_little(beyond)
    for each in records:
        if "size" not in each:
            continue
        begin = start + each["offset"]
        stored = data[begin:][: each["size"]]
        # Of other compressed bytes the result is checked.
        if each["features"] or "zstd" not in each or each["role"] == "sources":
            require(hashlib.sha256(stored).digest() == each["sha256"], "the digest of the bytes")
        if each["features"]:  # its bytes are not used
            continue
        each["bytes"] = stored
        if "zstd" in each:
            beyond += max(each["zstd"][0] - 256 * each["size"], 0)
            require_little(beyond)
            each["bytes"] = unpacked(each["bytes"], *each["zstd"], each["role"] != "part")
        if each.get("repeats"):
            each["bytes"], spans = repeated(each["bytes"], each["repeats"], each["size"])
            if each["kind"] in KINDS or each["kind"] == "const_loader":
                check_repeats(each["kind"], each["bytes"], spans)
    candidates = sorted((each["rank"], at) for at, each in enumerate(records) if "rank" in each)
    require(
        len(candidates) == number(fields["candidates"], 0, 2**32 - 1), "the number of candidates"
    )
    require(
        [rank for rank, _ in candidates] == list(range(len(candidates))),
        "the ranks of the candidates",
    )
    ranked = [at for _, at in candidates]
    roots = (
        [number(each, 0, len(records) - 1) for each in array(fields["roots"])]
        if "roots" in fields
        else ranked
    )
    require(roots and len(set(roots)) == len(roots), "one root or more, none twice")
    check_tree(roots, records)
    require(candidates_of(roots, records) == ranked, "the candidates of the tree")
    others: dict[str, list[Claim]] = {}
    for at in ranked:
        each = records[at]
        names_of = set(each["functions"])
        require(
            not names_of or any(page_with(name) == places[at] for name in names_of),
            "a candidate is in the page of one of its names",
        )
        for name in names_of:
            if page_with(name) != places[at]:
                claim = at, each["rank"], (each["kind"], each["format"], each["variant"])
                others.setdefault(name, []).append(claim)
    said = {name: sorted(claims) for name, claims in names.items()}
    require(said == others, "the names of candidates of other pages")
    check_contents(records)
    result: dict[str, Any] = {"roots": roots, "candidates": ranked, "records": records}
    result |= {"attached": attached} if attached else {}
    return result | ({"sections": sections} if sections else {})


def require_little(beyond: int) -> None:
    require(beyond <= 2**20, "the limit on what compressed bytes unpack to")


def check_zeros(data: bytes, at: int, spans: list[tuple[int, int]]) -> None:
    """Check that the bytes between the parts of a file are zeros, from the end of the pages on."""
    for begin, size in spans:
        require(not any(data[at:begin]), "the bytes between two parts are zeros")
        at = begin + size


def read_pages(rows: list[Any]) -> list[tuple[int, int, int, bytes, bytes | None]]:
    """Return of each page the number of its records, its size, that of their bytes, its SHA-256,
    and the name from which on it has names.
    """
    pages: list[tuple[int, int, int, bytes, bytes | None]] = []
    for row in map(array, rows):
        require(len(row) in (4, 6), "a page is an array of 4 or 6")
        count, size, total = (
            number(row[0], 0, 2**32 - 1),
            number(row[1], 1, 2**26),
            number(row[2], 0, FAR),
        )
        name = None
        if len(row) == 6:
            before = pages[-1][4] if pages else b""
            require(before is not None, "pages with names are first")
            assert before is not None
            name = before[: number(row[4], 0, len(before))] + binary(row[5])
            require(name > before if pages else not name, "the names of pages")
        require(
            len(binary(row[3])) == 32 and count <= size,
            "a SHA-256, and at most a record for each byte",
        )
        pages.append((count, size, total, row[3], name))
    require(pages, "at least one page")
    return pages


def read_sections(rows: list[Any]) -> list[tuple[str, int, bytes]]:
    """Return the names of the sections, their sizes and digests."""
    sections, names = [], set()
    for row in map(array, rows):
        require(len(row) == 3 and text(row[0]) not in names, "a name, once, a size and a SHA-256")
        require(len(binary(row[2])) == 32, "a SHA-256")
        names.add(row[0])
        sections.append((row[0], number(row[1], 0, FAR), row[2]))
    return sections


def read_tuning(attachment: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the tuning records in an attachment, and why others are skipped."""
    try:
        require(not attachment["features"], "a newer attachment")
        size = attachment.get("zstd", [attachment["size"]])[0]
        require(size <= 2**22, "at most 4 MiB of tuning records")
        data = attachment["bytes"]
        if "zstd" in attachment:
            data = unpacked(data, *attachment["zstd"], are_objects=True)
        (maps,) = map(array, objects(data, 1))
        require(nesting(maps) <= 32, "a value is in more than 32 arrays and maps")
        require(count_containers(maps) <= 2**19, "at most 2**19 arrays and maps")
    except SpecError as error:
        return [], [str(error)]
    records, problems = [], []
    for each in maps:
        try:
            fields = mapping(each) | {"function": attachment["function"]}
            records.append(tuning_record(fields))
        except SpecError as error:
            problems.append(str(error))
    try:
        check_counts(records)
    except SpecError as error:
        return [], [str(error)]
    return records, problems


def read_tuning_file(data: bytes) -> list[dict[str, Any]]:
    """Return the records in a file of JSON, checked."""
    fields = mapping(from_json(data, data))
    number(fields.get("devmod_tuning"), 1, 1)
    records = [tuning_record(mapping(each)) for each in array(fields.get("records"))]
    by_function: dict[str, list[dict[str, Any]]] = {}
    for each in records:
        by_function.setdefault(each["function"], []).append(each)
    for found in by_function.values():
        check_counts(found)
    return records


def check_counts(records: list[dict[str, Any]]) -> None:
    """Check the limits on the records of a function."""
    require(len(records) <= 4096, "at most 4096 records of a function")
    require(
        sum(len(each["measured"]) for each in records) <= 2**16, "at most 65536 times of a function"
    )


def tuning_record(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a record, with the times and the turns of each pair of sizes and values."""
    require("function" in fields and "kind" in fields, "the function and the kind of a record")
    texts = ("function", "kind", "platform", "device", "arch", "driver")
    result: dict[str, Any] = {key: short_text(fields.get(key, "")) for key in texts}
    for key in ("constants", "sizes"):
        result[key] = tuple(names_of(fields.get(key, [])))
    lengths = (len(result["sizes"]), len(result["constants"]))
    measured: dict[tuple[Any, ...], Any] = {}
    turns: dict[tuple[Any, ...], Any] = {}
    for each in map(mapping, array(fields.get("measured", []))):
        require("sizes" in each and "times" in each, "a measurement has sizes and times")
        sizes = tuple(number(size, -FAR - 1, FAR) for size in array(each["sizes"]))
        for time in map(array, array(each["times"])):
            require(len(time) >= 2, "values and seconds")
            values = tuple(map(constant_value, array(time[0])))
            require((len(sizes), len(values)) == lengths, "a value of each size and constant")
            require((sizes, values) not in measured, "the variants of one record differ")
            measured[sizes, values] = seconds(time[1])
            count, spread, *_ = (*time[2:], 0, 0)
            require(
                type(spread) in (int, float) and 0 <= spread <= 10**9,
                "a spread from 0 to 10**9 seconds",
            )
            if number(count, 0, 2**32 - 1):
                turns[sizes, values] = (count, float(spread))
    return result | {"measured": measured, "turns": turns}


def seconds(value: Any) -> Any:
    """Check the seconds of a variant; None if it failed, False if its results were wrong."""
    is_time = type(value) in (int, float) and 0 < value <= 10**9
    require(value is None or value is False or is_time, "a time")
    return value


def constant_value(value: Any) -> Any:
    """Check the value of a constant."""
    if type(value) is float:
        require(math.isfinite(value), "a finite constant")
    elif type(value) is int:
        number(value, -FAR - 1, FAR)
    else:
        require(type(value) in (bool, str), "a constant is a boolean, a number or a string")
    return value


def short_text(value: Any) -> str:
    require(len(text(value)) <= 1024, "at most 1024 characters")
    return str(value)


def read_page(
    page: bytes,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, list[Claim]]]:
    """Return the records of a page, its attachments, and its names of candidates of other pages."""
    (fields,) = map(mapping, objects(page, 1))
    rest = unknown(fields, "modules", "sources", "parts", "attached", "names", "variants")
    check_unknown(rest)
    modules, sources, parts, attached = (
        array(fields.get(key, [])) for key in ("modules", "sources", "parts", "attached")
    )
    others = [*sources, *parts]
    free = [*unknown_values(modules), *unknown_values(others, *BLOB)]
    free += unknown_values(attached, *BLOB, "function", "tag")
    require_room([*rest.values(), *free], page)
    for each in free:
        require(nesting(each) <= 32, "a value is in more than 32 arrays and maps")
    attachments = [attachment(mapping(each)) for each in attached]
    pairs = {(each["function"], each["tag"]) for each in attachments}
    require(len(pairs) == len(attachments), "one attachment of a function and a tag")
    variants = [tuple(map(text, array(each))) for each in array(fields.get("variants", []))]
    require(all(len(each) == 3 for each in variants), "a kind, a format and a variant")
    names: dict[str, list[Claim]] = {}
    for each in map(array, array(fields.get("names", []))):
        require(len(each) == 2 and text(each[0]) not in names, "a name, once, and numbers")
        numbers = [number(one, 0, 2**32 - 1) for one in array(each[1])]
        require(len(numbers) % 3 == 0, "three numbers for each candidate")
        claims = zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
        names[each[0]] = [
            (at, rank, variants[number(variant, 0, len(variants) - 1)])
            for at, rank, variant in claims
        ]
    return (
        [
            *(module(mapping(each)) for each in modules),
            *(blob(each) | {"role": "sources"} for each in sources),
            *(blob(each) | {"role": "part"} for each in parts),
        ],
        attachments,
        names,
    )


def attachment(fields: dict[str, Any]) -> dict[str, Any]:
    require("function" in fields and "tag" in fields, "a function and a tag")
    return {"function": text(fields["function"]), "tag": text(fields["tag"])} | blob(fields)


def candidates_of(roots: list[int], records: list[dict[str, Any]]) -> list[int]:
    """Return the candidates in their order: in the place of a bundle are those of its imports."""
    seen: set[int] = set()

    def walk(numbers: list[int]) -> list[int]:
        found = []
        for at in numbers:
            if at not in seen:
                seen.add(at)
                found += walk(records[at]["imports"]) if records[at]["kind"] == "bundle" else [at]
        return found

    return walk(roots)


def check_contents(records: list[dict[str, Any]]) -> None:
    """Check the sources and parts of modules, and that their functions are those of the index."""
    used = {
        "sources": {each["sources"] for each in records if "sources" in each},
        "part": {at for each in records for at in each.get("parts", [])},
    }
    for role, numbers in used.items():
        found = {at for at, each in enumerate(records) if each["role"] == role}
        require(numbers == found, "a module has each of the sources and of the parts")
    for each in records:
        if each["role"] != "module" or each.get("features"):
            continue
        parts = [records[at] for at in each.get("parts", [])]
        if any(part["features"] for part in parts):
            continue
        if "sources" in each and not records[each["sources"]]["features"]:
            (each["source"],) = map(mapping, objects(records[each["sources"]]["bytes"], 1))
            require(
                all(type(text) in (str, bytes) for text in each["source"].values()),
                "a source is a str or a bin",
            )
        if each["kind"] in KINDS:
            found = read_module(each["kind"], each["bytes"])
            require(list(found["functions"]) == each["functions"], "the functions of a module")
            for key in ("newer", "damaged"):
                refused = {
                    name: info[key] for name, info in found["functions"].items() if key in info
                }
                each |= {key: refused} if refused else {}
            fmt = found["format"]
            if each["kind"] == fmt == "vulkan":
                fmt = "spv"
            require(fmt == each["format"], "the format of a module")
        if each["kind"] == "const_loader":
            stored = [part["bytes"] for part in parts]
            symbols = read_stored_constants(each["bytes"], stored)["symbols"]
            require(list(symbols) == each["functions"], "the init symbols of constants")
            if stored:
                each["bytes"] = joined(each["bytes"], stored)


def unpacked(data: bytes, size: int, digest: bytes, are_objects: bool) -> bytes:
    """Return the bytes that zstd compressed to `data`."""
    window = min(max(size.bit_length(), 10), 27)
    decompressor = zstd.ZstdDecompressor(
        options={zstd.DecompressionParameter.window_log_max: window}
    )
    try:
        result = decompressor.decompress(data, max_length=size + 1)
    except zstd.ZstdError as error:
        raise SpecError(f"zstd: {error}") from None
    require(
        len(result) == size and decompressor.eof and not decompressor.unused_data,
        "one frame of the size",
    )
    require(
        hashlib.sha256(result).digest() == digest, "the digest of what compressed bytes unpack to"
    )
    if not are_objects:
        return bytes(result)
    unpacker = msgpack.Unpacker(raw=True, strict_map_key=False, max_buffer_size=max(size, 1))
    unpacker.feed(result)
    try:
        count = sum(map(count_values, itertools.islice(unpacker, 3)))
    except (SpecError, ValueError, TypeError, RecursionError):
        # The rules of the fields refuse other bytes.
        count = 0
    require(count <= 2**20 + len(data), "the limit on the objects that compressed bytes unpack to")
    return bytes(result)


def repeated(
    data: bytes, repeats: list[list[int]], size: int
) -> tuple[bytes, list[tuple[int, int, int]]]:
    """Return a module's bytes, and in them the start and the end of each inserted range, and the
    start of its first occurrence.
    """
    insertions: list[tuple[int, int, int]] = []
    end = 0
    for start, length, *positions in repeats:
        require(
            length > 0 and end <= start and start + length <= len(data), "the ranges of repeats"
        )
        end = start + length
        require(
            positions
            and sorted(positions) == positions
            and end <= positions[0]
            and positions[-1] <= len(data),
            "the positions of repeats",
        )
        insertions += [(position, start, length) for position in positions]
    require(
        len({position for position, _, _ in insertions}) == len(insertions), "no position twice"
    )
    require(
        len(data) + sum(length for _, _, length in insertions) <= 2**16 * size,
        "the limit on repeats",
    )

    def moved(at: int) -> int:
        return at + sum(length for position, _, length in insertions if position <= at)

    insertions.sort()
    parts, spans, before = [], [], 0
    for position, start, length in insertions:
        parts += [data[before:position], data[start : start + length]]
        spans.append((moved(position) - length, moved(position), moved(start)))
        before = position
    return b"".join([*parts, data[before:]]), spans


def check_repeats(kind: str, data: bytes, spans: list[tuple[int, int, int]]) -> None:
    """Check that each inserted range is a shader, and so is its first occurrence."""
    fields = KINDS.get(kind, (("constants", "symbols"), ""))[0]
    require("shaders" in fields, "only shaders have repeats")
    unpacker = msgpack.Unpacker(raw=False, max_buffer_size=max(len(data), 1))
    unpacker.feed(data)
    places = set()
    try:
        for _ in fields[:-1]:
            unpacker.skip()
        for _ in range(unpacker.read_map_header()):
            unpacker.skip()
            length = len(unpacker.unpack())
            places.add((unpacker.tell() - length, unpacker.tell()))
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise SpecError(f"msgpack: {error or type(error).__name__}") from None
    for start, end, first in spans:
        require(
            (start, end) in places and (first, first + end - start) in places,
            "a repeat is a whole shader",
        )


def unknown_values(records: list[Any], *known: str) -> list[Any]:
    """Return the values of the keys of records that are not known, and the origins of modules."""
    values = []
    for each in records:
        values += unknown(mapping(each), *(known or KEYS)).values()
    return values


def module(fields: dict[str, Any]) -> dict[str, Any]:
    require("kind" in fields, "a module's kind")
    kind = text(fields["kind"])
    bare = kind in ("bundle", "_lib")
    require(bare or re.fullmatch("[a-z][a-z0-9_]{0,31}", kind), "a kind's form")
    require([key in fields for key in ("size", "sha256")] == [not bare] * 2, "size and sha256")
    require(not bare or not fields.keys() & OF_BYTES, "a node has no bytes")
    result: dict[str, Any] = {"role": "module", "kind": kind}
    result["imports"] = [number(each, 0, 2**32 - 1) for each in array(fields.get("imports", []))]
    result["format"] = text(fields.get("format", ""))
    result["functions"] = [text(each) for each in array(fields.get("functions", []))]
    result["variant"] = text(fields.get("variant", ""))
    if "rank" in fields:
        result["rank"] = number(fields["rank"], 0, 2**32 - 1)
    result["origin"] = None
    if "origin" in fields and not bare:
        result["origin"] = origin(mapping(fields["origin"]))
    if not bare:
        result |= blob(fields)
    if "repeats" in fields:
        result["repeats"] = [
            [number(one, 0, FAR) for one in array(each)] for each in array(fields["repeats"])
        ]
        if not result["features"]:
            require(all(len(each) > 2 for each in result["repeats"]), "a range and positions")
    if "sources" in fields:
        result["sources"] = number(fields["sources"], 0, 2**32 - 1)
    if "parts" in fields:
        result["parts"] = [number(each, 0, 2**32 - 1) for each in array(fields["parts"])]
        has_parts = kind == "const_loader" or result["features"]
        require(has_parts or not result["parts"], "constants have parts, or newer modules")
    return result


def blob(fields: dict[str, Any]) -> dict[str, Any]:
    """Return how many bytes are in the file, and what they unpack to."""
    require("size" in fields and "sha256" in fields, "size and sha256")
    result: dict[str, Any] = {
        "features": [text(each) for each in array(fields.get("features", []))],
        "size": number(fields["size"], 0, FAR),
        "sha256": binary(fields["sha256"]),
    }
    require(len(result["sha256"]) == 32, "a sha256")
    if "shift" in fields:
        result["shift"] = number(fields["shift"], 0, 65535)
    if "zstd" in fields:
        parts = array(fields["zstd"])
        require(
            len(parts) == 2 and len(binary(parts[1])) == 32,
            "the size and the digest of what compressed bytes unpack to",
        )
        result["zstd"] = [number(parts[0], 0, FAR), parts[1]]
    return result


def origin(fields: dict[str, Any]) -> dict[str, Any]:
    require(nesting(fields) <= 32, "a value is in more than 32 arrays and maps")
    result: dict[str, Any] = {key: text(fields.get(key, "")) for key in ("target", "toolchain")}
    result["options"] = [text(option) for option in array(fields.get("options", []))]
    result["sources"] = {
        name: text(digest) for name, digest in mapping(fields.get("sources", {})).items()
    }
    return result | unknown(fields, *result)


def check_unknown(fields: dict[str, Any]) -> None:
    """Check the values of unknown keys."""
    for value in fields.values():
        require(nesting(value) <= 32, "a value is in more than 32 arrays and maps")


def check_tree(roots: list[int], records: list[dict[str, Any]]) -> None:
    heights: dict[int, int] = {}

    def height(at: int, path: tuple[int, ...]) -> int:
        require(at < len(records) and "kind" in records[at], "the number of a module")
        require(at not in path, "no module imports itself")
        require(len(path) < 64, "at most 64 modules deep")
        if at not in heights:
            heights[at] = 1 + max(
                (height(each, (*path, at)) for each in records[at]["imports"]), default=0
            )
        require(len(path) + heights[at] <= 64, "at most 64 modules deep")
        return heights[at]

    for root in roots:
        height(root, ())
    modules = [each for each in records if "kind" in each]
    require(len(heights) == len(modules), "each module is a root or imported")
    bare = sum("size" not in each for each in modules)
    require(
        bare - (len(modules) - bare) <= 1024,
        "at most 1024 nodes without bytes more than modules with some",
    )


def aligned(offset: int, align: int = 64) -> int:
    return -(-offset // align) * align


# -- output


def to_json(value: Any) -> Any:
    """Return a value for JSON: binaries in hexadecimal; a bundle's records without empty fields and
    without their bytes.
    """
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [to_json(each) for each in value]
    if isinstance(value, dict):
        in_index = "sha256" in value or ("kind" in value and "imports" in value)
        return {
            key: to_json(each)
            for key, each in value.items()
            if not in_index
            or (key not in ("bytes", "source", "role") and each not in ("", [], {}, None))
        }
    return value


def read_file(path: Path) -> dict[str, Any]:
    """Read a .devmod file, a file [<name>.]<kind>.bytes, or a metadata file."""
    data = path.read_bytes()
    if path.name.endswith(".tvm_meta.json"):
        return read_metadata(data)
    return (
        read_bundle(data)
        if path.suffix == ".devmod"
        else read_module(path.stem.rpartition(".")[2], data)
    )


def format_json(value: Any, indent: int = 0, before: int = 0) -> str:
    """Return JSON with line breaks where a line would be too long."""
    line = json.dumps(value, ensure_ascii=False)
    if before + indent + len(line) <= 150 or not value or not isinstance(value, (dict, list)):
        return line
    pad = "\n" + " " * (indent + 1)
    if isinstance(value, list):
        return "[" + ("," + pad).join(format_json(each, indent + 1) for each in value) + "]"
    parts = [f"{json.dumps(key)}: " for key in value]
    return (
        "{"
        + ("," + pad).join(
            part + format_json(each, indent + 1, len(part))
            for part, each in zip(parts, value.values(), strict=True)
        )
        + "}"
    )


def rows(data: bytes, ends: Iterable[int]) -> list[str]:
    """Return the rows for a vector in tests/golden/README.md, split at these offsets."""
    cuts = [0, *ends]
    return [
        f"| {start} | `{data[start:end].hex(' ')}` |" for start, end in itertools.pairwise(cuts)
    ]


if __name__ == "__main__":
    file = Path(sys.argv[1])
    if file.suffix == ".devmod":
        print(*rows(file.read_bytes(), [8, 12, 16, 48]), sep="\n")
    print(format_json(to_json(read_file(file))))
