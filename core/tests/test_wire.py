"""A module's bytes: their layout, what the reader accepts, what it refuses."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest
from each_case import check_texts, raised, refusal
from hypothesis import given, settings
from hypothesis import strategies as st
from stored import from_wire
from support import KINDS, MAP_KINDS, sample

import devmod
from devmod._plugins.specs import find_spec
from devmod._values.dtypes import array_bytes, parse_dtype
from devmod.backend import decode

pytestmark = pytest.mark.once  # bytes, which are the same with every Python

TAGS = ["blockIdx.x", "threadIdx.x"]
INTERFACE = devmod.Interface(
    [
        devmod.Param("x", "buffer", "float32", "rw", (0, 1)),
        devmod.Param("n", "scalar", "int32", at=(0, 4), align=4),
    ],
    [devmod.Block("push", 16)],
    (64, 1, 1),
)


def saved(kind: str, **changes: Any) -> bytes:
    code, fmt, fmap = sample(kind)
    given = {"code": code, "fmt": fmt, "fmap": fmap} | changes
    return devmod.create_with_fallback(
        kind, given["code"], given["fmt"], given["fmap"]
    ).save_to_bytes()


def objects(data: bytes) -> list[Any]:
    unpacker = msgpack.Unpacker()
    unpacker.feed(data)
    return list(unpacker)


def refused(kind: str, data: bytes) -> str:
    """Return the error of the reader, which decodes every function."""
    spec = find_spec(kind)
    assert spec is not None
    return refusal(devmod.FormatError, lambda: dict(decode(spec, data)[1]))


@pytest.mark.row("R17")
def test_the_bytes_of_a_binary_kind_are_fmt_fmap_and_code() -> None:
    info = devmod.FunctionInfo("k", ["handle", "float16x4"], ["blockIdx.x"], [0, -1])
    module = devmod.create_with_fallback("opencl", b"\x01\x02", "cl", {"f": info})
    assert (
        module.save_to_bytes()
        == (
            b"\xa2cl"  # fmt
            b"\x81\xa1f\x94\xa1k\x92\x93\x03\x40\x01\x93\x02\x10\x04\x91\xaablockIdx.x\x92\x00\xff"  # fmap
            b"\xc4\x02\x01\x02"  # code
        )
    )


@pytest.mark.row("R15", "R17")
def test_the_bytes_of_a_shader_kind_have_a_map_and_vulkan_values_are_tvms() -> None:
    shader = struct.pack("<IQ2I", 1, 2, 0x07230203, 0x00010300)
    module = devmod.create_with_fallback(
        "vulkan", {"f": shader}, "spv", {"f": devmod.FunctionInfo("main", [])}
    )
    assert (
        module.save_to_bytes()
        == b"\xa3spv\x81\xa1f\x94\xa4main\x90\x90\x90\x81\xa1f\xc4\x14" + shader
    )
    assert shader[:12] == b"\x01\0\0\0\x02\0\0\0\0\0\0\0"


@pytest.mark.row("R17")
def test_the_bytes_of_webgpu_do_not_name_its_only_format() -> None:
    fields = objects(saved("webgpu"))
    assert [sorted(field) for field in fields] == [["add"], ["add"]]
    assert decode(find_spec("webgpu"), saved("webgpu"))[0] == "wgsl"


@pytest.mark.row("R11", "R12", "R14", "R17")
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_and_format_makes_a_round_trip(kind: str) -> None:
    spec = find_spec(kind)
    assert spec is not None
    code, _, fmap = sample(kind)
    fmap["scale"] = devmod.FunctionInfo("main", ["handle", "int32"], TAGS, (), INTERFACE)
    for fmt in spec.formats:
        data = saved(kind, fmt=fmt, fmap=fmap)
        assert decode(spec, data) == (fmt, fmap, code)
        assert len(objects(data)) == len(spec.fields)


@pytest.mark.row("R15", "R40")
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_in_a_payload_is_parsed(kind: str) -> None:
    code = {"": b"", "add": b"\xff" * 5} if kind in MAP_KINDS else b""
    assert decode(find_spec(kind), saved(kind, code=code))[2] == code


def test_a_payload_is_neither_copied_when_written_nor_when_read() -> None:
    code = bytes(1000)
    module = devmod.create_with_fallback("cuda", code, "ptx", {})
    assert any(part is code for part in module.wire_parts())
    data = module.save_to_bytes()
    assert decode(find_spec("cuda"), data)[2].obj is data


@pytest.mark.row("R16")
def test_opencl_has_no_spir_v() -> None:
    assert (
        refusal(devmod.FormatError, saved, "opencl", fmt="spv")
        == "opencl has no format 'spv'; its formats: cl, il, clbin, xclbin, awsxclbin, aocx"
    )


def test_maps_keep_their_order() -> None:
    fmap = {name: devmod.FunctionInfo(name, []) for name in "zebra"}
    assert list(objects(saved("cuda", fmap=fmap))[1]) == list("zebra")
    assert list(decode(find_spec("cuda"), saved("cuda", fmap=fmap))[1]) == list("zebra")


@pytest.mark.parametrize(
    ("size", "header"),
    [
        (0, b"\xc4\0"),
        (255, b"\xc4\xff"),
        (256, b"\xc5\1\0"),
        (65535, b"\xc5\xff\xff"),
        (65536, b"\xc6\0\1\0\0"),
    ],
)
def test_a_binary_has_its_shortest_header(size: int, header: bytes) -> None:
    assert saved("cuda", code=bytes(size), fmap={}) == b"\xa4cuda\x80" + header + bytes(size)
    assert len(decode(find_spec("cuda"), saved("cuda", code=bytes(size)))[2]) == size


@pytest.mark.parametrize(
    ("count", "header"),
    [(15, b"\x8f"), (16, b"\xde\0\x10"), (65535, b"\xde\xff\xff"), (65536, b"\xdf\0\1\0\0")],
)
def test_a_shader_map_has_its_shortest_header(count: int, header: bytes) -> None:
    code = {str(number): b"" for number in range(count)}
    data = saved("webgpu", code=code, fmap={})
    assert data.startswith(b"\x80" + header)
    assert decode(find_spec("webgpu"), data)[2] == code


@pytest.mark.row("R17")
def test_a_payload_over_4_gib_is_refused_when_it_is_saved(tmp_path: Path) -> None:
    with open(tmp_path / "sparse", "w+b") as file:
        file.truncate(2**32)
        held = memoryview(mmap.mmap(file.fileno(), 2**32, access=mmap.ACCESS_READ))
    made = devmod.create_with_fallback("cuda", held, "cubin", {})
    error = raised(devmod.FormatError, made.wire_parts)
    assert str(error) == (
        "the code of the cuda module is 4294967296 bytes; a module's bytes hold at most 4294967295 in one piece (4 GiB)"
    )
    assert error.kind == "cuda"
    made = devmod.create_with_fallback("metal", {"f": held}, "metallib", {})
    with pytest.raises(
        devmod.FormatError, match=r"^the shader 'f' of the metal module is 4294967296 bytes; "
    ):
        devmod.save(made, tmp_path / "k.devmod")
    assert [path.name for path in tmp_path.iterdir()] == ["sparse"]
    fits = devmod.create_with_fallback("cuda", held[: 2**32 - 1], "cubin", {}).wire_parts()
    assert sum(map(len, fits)) == 2**32 - 1 + len(b"\xa5cubin\x80\xc6____")


# -- any valid form


def long_form(value: Any) -> bytes:
    """Return `value` in the longest forms of msgpack."""
    if isinstance(value, str):
        return b"\xdb" + struct.pack(">I", len(value.encode())) + value.encode()
    if isinstance(value, (bytes, memoryview)):
        return b"\xc6" + struct.pack(">I", len(value)) + bytes(value)
    if isinstance(value, bool) or value is None:
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return b"\xd3" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, dict):
        return (
            b"\xdf"
            + struct.pack(">I", len(value))
            + b"".join(long_form(key) + long_form(each) for key, each in value.items())
        )
    return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(long_form, value))


def middle_form(value: Any) -> bytes:
    """Return `value` in forms between the longest and the shortest."""
    if isinstance(value, str):
        return b"\xda" + struct.pack(">H", len(value.encode())) + value.encode()
    if isinstance(value, (bytes, memoryview)):
        return b"\xc5" + struct.pack(">H", len(value)) + bytes(value)
    if isinstance(value, bool) or value is None or isinstance(value, float):
        return msgpack.packb(value)
    if isinstance(value, int):
        return (b"\xd1" if value < 0 else b"\xcd") + struct.pack(">h" if value < 0 else ">H", value)
    if isinstance(value, dict):
        return (
            b"\xde"
            + struct.pack(">H", len(value))
            + b"".join(middle_form(key) + middle_form(each) for key, each in value.items())
        )
    return b"\xdc" + struct.pack(">H", len(value)) + b"".join(map(middle_form, value))


@pytest.mark.row("R19")
@pytest.mark.parametrize("form", [long_form, middle_form])
@pytest.mark.parametrize("kind", KINDS)
def test_any_valid_form_is_read_and_saved_unchanged(
    kind: str, form: Callable[[Any], bytes]
) -> None:
    code, _, fmap = sample(kind)
    fmap["more"] = devmod.FunctionInfo("k", ["handle", "int32"], TAGS, (0, -5), INTERFACE)
    plain = saved(kind, fmap=fmap)
    data = b"".join(map(form, objects(plain)))
    assert len(data) > len(plain)
    module = from_wire(kind, data, ("add", "more"))
    assert (module.functions, module.code) == (fmap, code)
    assert module.save_to_bytes() == data
    assert devmod.dumps(devmod.loads(devmod.dumps(module))) == devmod.dumps(module)


@pytest.mark.row("R19")
def test_unknown_keys_of_an_interface_are_preserved() -> None:
    extra = {"new": [1, -1, 2**63, 2.5, None, True, b"\0", {"deep": {"er": []}}], "z": "ß"}
    interface = devmod.Interface(
        [devmod.Param("x", "buffer", extra=extra)], [devmod.Block(0, 4, extra)], extra=extra
    )
    fmap = {"f": devmod.FunctionInfo("f", ["handle"], interface=interface)}
    data = saved("cuda", fmap=fmap)
    module = from_wire("cuda", data, ("f",))
    assert module.functions == fmap
    assert module.functions["f"].interface.extra == extra
    remade = devmod.create_with_fallback("cuda", module.code, "cuda", module.functions)
    assert remade.save_to_bytes() == data


@pytest.mark.parametrize("place", ["interface", "param", "block"])
@pytest.mark.parametrize(
    ("extra", "error_text"),
    [
        (
            {"x": {1: 2}},
            "the fmap of the cuda module cannot be written: fmap of 'f', interface: expected a string, found an integer, at byte ",
        ),
        (
            {"x": object},
            "the fmap of the cuda module cannot be written: can not serialize 'type' object",
        ),
        ({"x": 2**64}, "the fmap of the cuda module cannot be written: Integer value out of range"),
    ],
)
def test_a_value_that_the_reader_refuses_is_not_written(
    extra: dict[str, Any], error_text: str, place: str
) -> None:
    params = [devmod.Param("x", "buffer", extra=extra)] if place == "param" else []
    blocks = [devmod.Block(0, 4, extra)] if place == "block" else []
    interface = devmod.Interface(params, blocks, extra=extra if place == "interface" else {})
    assert (
        refusal(
            devmod.FormatError,
            saved,
            "cuda",
            fmap={"f": devmod.FunctionInfo("f", ["handle"] * len(params), interface=interface)},
        ).rstrip("0123456789")
        == error_text
    )


def test_a_name_without_utf_8_is_not_written() -> None:
    with pytest.raises(
        devmod.FormatError,
        match=r"^the fmap of the cuda module cannot be written: 'utf-8' codec can't encode",
    ):
        saved("cuda", fmap={"\ud800": devmod.FunctionInfo("f", [])})
    with pytest.raises(
        devmod.FormatError,
        match=r"^the shader '\\ud800' of the metal module cannot be written: 'utf-8'",
    ):
        saved("metal", code={"\ud800": b""})


# -- refusals

GOOD = b"\xa2cl\x81\xa1f\x94\xa1k\x91\x93\x02\x20\x01\x90\x90\xc4\x03abc"


@pytest.mark.row("R19")
def test_an_error_in_module_bytes_names_the_place() -> None:
    check_texts(
        {
            "2 more bytes follow the last field, at byte 21": GOOD + b"\0\0",
            "fmt: expected a string, found an integer, at byte 0": b"\x02" + GOOD[3:],
            "fmap: expected a map, found nil, at byte 3": b"\xa2cl\xc0\xc4\0",
            "fmap: expected a string, found a binary, at byte 4": b"\xa2cl\x81\xc4\x01f\x94\xa1k\x90\x90\x90\xc4\0",
            "fmap of 'f': expected an array, found a map, at byte 6": b"\xa2cl\x81\xa1f\x80\xc4\0",
            "fmap of 'f', arg_types: -1 is not between 0 and 65535, at byte 13": b"\xa2cl\x81\xa1f\x94\xa1k\x91\x93\x02\x20\xff\x90\x90\xc4\0",
            "fmap of 'f', arg_types: expected an integer, found a boolean, at byte 13": b"\xa2cl\x81\xa1f\x94\xa1k\x91\x93\x02\x20\xc3\x90\x90\xc4\0",
            "fmap of 'f', arg_extra_tags: expected an integer, found a float, at byte 12": b"\xa2cl\x81\xa1f\x94\xa1k\x90\x90\x91\xca\0\0\0\0\xc4\0",
            "fmap of 'f', interface: expected a string, found an integer, at byte 13": b"\xa2cl\x81\xa1f\x95\xa1k\x90\x90\x90\x81\x01\x02\xc4\0",
            "fmap of 'f', interface: found an extension type, which is not supported here, at byte 15": b"\xa2cl\x81\xa1f\x95\xa1k\x90\x90\x90\x81\xa1x\xd6\0\0\0\0\0\xc4\0",
            "code: expected a binary, found a map, at byte 4": b"\xa2cl\x80\x80",
        },
        lambda data: refused("opencl", data),
        start="the bytes of the opencl module: ",
    )


def test_a_long_name_is_cut_in_a_message() -> None:
    name = b"\xda\x03\xe8" + b"n" * 1000
    error_text = refused(
        "opencl", b"\xa2cl\x82" + (name + b"\x94\xa1k\x90\x90\x90") * 2 + b"\xc4\0"
    )
    assert (
        error_text
        == f"the bytes of the opencl module: fmap: the key '{'n' * 100}'… (1000 characters) is repeated, at byte 1013"
    )


@pytest.mark.row("R19")
def test_a_module_of_very_many_objects_is_saved_and_loaded() -> None:
    """A file of 100,000 functions is large: its objects are bounded by its size alone."""
    info = devmod.FunctionInfo(
        "k",
        ["int32"] * 100,
        interface=devmod.Interface([devmod.Param("n", "scalar", "int32")] * 100),
    )
    made = devmod.create_with_fallback(
        "opencl", b"", "cl", {f"f{number}": info for number in range(1200)}
    )
    data = made.save_to_bytes()
    assert len(data) > 1 << 20
    loaded = devmod.loads(devmod.dumps(made))
    assert len(loaded.functions) == 1200
    assert loaded.functions["f1199"] == info
    assert loaded.save_to_bytes() == data


PARAM = {"name": "x", "kind": "buffer", "at": [0, 1]}
ALIKE = [  # pairs of functions that begin alike, and what the second is refused for
    (
        [{"params": [PARAM]}],
        [{"params": [PARAM | {"at": [False, True]}]}],
        "the parameter 'x' has the place [False, True]",
    ),
    (
        [{"params": [PARAM]}],
        [{"params": [list(PARAM.items())]}],
        "a parameter is a map with string keys, not list",
    ),
    (
        [{"params": [PARAM], "block": [1, 2, 3]}],
        [{"params": [PARAM], "block": [1, 2, 3.0]}],
        "a fixed block of threads is",
    ),
    (
        [{"params": [PARAM]}],
        [{"params": [PARAM, PARAM]}],
        "has 1 arg_types and an interface of 2 values",
    ),
    ([{"params": [PARAM]}], [[]], "interface: expected a map, found an array"),
    ([{"params": [PARAM]}], [], None),
    ([], [{"params": [PARAM]}], None),
    ([{"params": [PARAM], "block": [1, 2, 3]}], [{"params": [PARAM], "block": [1, 2, 4]}], None),
]


@pytest.mark.row("R19")
@pytest.mark.parametrize(("first", "second", "problem"), ALIKE)
def test_functions_that_begin_alike_are_decoded_separately(
    first: list[Any], second: list[Any], problem: str | None
) -> None:
    head = [[[3, 64, 1]], ["blockIdx.x"], []]
    fmap = {"one": ["k", *head, *first], "two": ["k", *head, *second]}
    data = msgpack.packb("cl") + msgpack.packb(fmap) + b"\xc4\0"
    if problem:
        error_text = refused("opencl", data)
        assert "fmap of 'two'" in error_text
        assert problem in error_text
        return
    spec = find_spec("opencl")
    assert spec is not None
    _, found, _ = decode(spec, data)
    for name, interface in (("one", first), ("two", second)):
        wanted = devmod.Interface.from_dict(interface[0]) if interface else None
        assert found[name] == devmod.FunctionInfo("k", ["handle"], ["blockIdx.x"], (), wanted)


# -- round trips of anything

dtypes = st.sampled_from(
    [
        "handle",
        "float32",
        "int8",
        "uint16x4",
        "bfloat16",
        "bool",
        "float8_e4m3fn",
        "type99_7x3",
        "complex64",
        "void",
    ]
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)
#: Hypothesis also draws strings of the code under test, which contains the names of known fields.
unknown = st.dictionaries(st.text(min_size=7, max_size=9).map("x-{}".format), values, max_size=2)
places = st.none() | st.integers(0, 2**40) | st.tuples(st.integers(0, 9), st.integers(0, 2**40))


sizes = st.integers(0, 2**40)


@st.composite
def structs(draw: st.DrawFn, depth: int = 0) -> tuple[list[devmod.Member], int]:
    """Return the members of a struct, one behind the other with gaps, and the struct's size."""
    members, end = [], 0
    for name in draw(st.lists(st.text(max_size=5), unique=True, min_size=depth > 0, max_size=3)):
        inner, size = draw(structs(depth + 1)) if depth < 3 and draw(st.booleans()) else ([], 0)
        type_ = (
            ""
            if inner
            else draw(
                st.sampled_from(["float32", "float16x4", "uint8x40", "bool", "float8_e4m3fnx3"])
            )
        )
        size = size if inner else 0
        length = size or array_bytes(parse_dtype(type_))
        shape: list[int] = []
        strides: list[int] = []
        for count, gap in draw(
            st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), max_size=2)
        ):
            shape, strides = [count, *shape], [length + gap, *strides]
            length += (count - 1) * strides[0]
        offset = end + draw(st.integers(0, 9))
        members.append(
            devmod.Member(name, type_, offset, inner, size, shape, strides, draw(unknown))
        )
        end = offset + length
    return members, end + draw(st.integers(0, 9))


@st.composite
def params_of(draw: st.DrawFn) -> devmod.Param:
    kind = draw(st.sampled_from(["buffer", "scalar", "uniform", "local", "image", "sampler"]))
    members, size = draw(structs()) if kind in ("scalar", "uniform") else ([], 0)
    counts = st.integers(1, 2**40)
    locals_ = (
        st.none()
        | st.builds(devmod.Local, counts)
        | st.builds(lambda count: devmod.Local(per_thread=count), counts)
    )
    is_image = kind == "image"
    images = st.sampled_from(["", "1d", "2d", "3d", "1d_array", "2d_array", "1d_buffer"])
    return devmod.Param(
        draw(st.text(max_size=5)),
        kind,
        (f"uint8x{size}" if size > 1 else "uint8")
        if members
        else draw(images if is_image else st.just("") | dtypes),
        draw(st.sampled_from(["", "r", "w", "rw"])),
        draw(places),
        draw(st.integers(0, 64)),
        draw(sizes),
        members,
        draw(locals_) if kind == "local" else None,
        draw(unknown),
        draw(st.sampled_from(["", "rgba8unorm"])) if is_image else "",
        draw(st.sampled_from(["", "float", "int", "uint"])) if is_image else "",
        draw(
            st.sampled_from([(), ("ptr:handle",), ("count:int32", "ptr:handle", "stride0:uint64")])
        )
        if kind == "buffer"
        else (),
    )


@st.composite
def infos(draw: st.DrawFn) -> devmod.FunctionInfo:
    params = draw(st.lists(params_of(), max_size=4))
    count = sum(len(param.values) for param in params)
    types = draw(st.lists(dtypes, min_size=count, max_size=count))
    block_fields = st.tuples(
        st.just("push") | places, st.integers(0, 2**40), unknown, st.text(max_size=5)
    )
    blocks = [devmod.Block(*fields) for fields in draw(st.lists(block_fields, max_size=2))]
    block = draw(st.none() | st.tuples(*[st.integers(0, 1024)] * 3))
    default = draw(st.none() | st.tuples(*[st.integers(1, 1024)] * 3))
    known = devmod.Interface(
        params,
        blocks,
        block,
        draw(unknown),
        default_block=default,
        open_block=draw(st.booleans()),
        needs=draw(st.lists(st.text(max_size=5), max_size=2)),
        subgroup=draw(st.none() | st.integers(1, 128)),
    )
    interface = draw(st.none() | st.just(known))
    tags = draw(st.lists(st.sampled_from(TAGS) | st.text(max_size=9), max_size=4))
    extra = draw(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4))
    return devmod.FunctionInfo(draw(st.text(max_size=9)), types, tags, extra, interface)


@pytest.mark.row("R12", "R19")
@settings(max_examples=12)
@given(fmap=st.dictionaries(st.text(max_size=9), infos(), max_size=3), code=st.binary(max_size=40))
def test_written_values_are_read_back_equal(
    fmap: dict[str, devmod.FunctionInfo], code: bytes
) -> None:
    spec = find_spec("cuda")
    data = devmod.create_with_fallback("cuda", code, "ptx", fmap).save_to_bytes()
    assert decode(spec, data) == ("ptx", fmap, code)
    assert (
        devmod.create_with_fallback("cuda", code, "ptx", decode(spec, data)[1]).save_to_bytes()
        == data
    )
