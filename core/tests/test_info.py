"""FunctionInfo, Interface, Param, Block: values, their checks, and their maps in files."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from each_case import check_texts, refusal
from hypothesis import given
from hypothesis import strategies as st

import devmod
from devmod import FunctionInfo, Interface, Member, Param
from devmod._values.dtypes import array_bytes, dtype_name, parse_dtype
from devmod.backend import PipelineConstant


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ((0, 32, 1), "int32"),
        ((1, 8, 1), "uint8"),
        ((1, 1, 1), "uint1"),
        ((2, 16, 4), "float16x4"),
        ((3, 64, 1), "handle"),
        ((4, 16, 1), "bfloat16"),
        ((6, 8, 1), "bool"),
        ((10, 8, 2), "float8_e4m3fnx2"),
        ((200, 12, 1), "type200_12"),
        ((255, 255, 1), "type255_255"),
        ((2, 255, 65535), "float255x65535"),
    ],
)
def test_a_type_has_a_name(dtype: tuple[int, int, int], text: str) -> None:
    assert dtype_name(dtype) == text
    assert parse_dtype(text) == dtype


@given(st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(0, 65535)))
def test_every_type_survives_a_round_trip_through_its_name(dtype: tuple[int, int, int]) -> None:
    assert parse_dtype(dtype_name(dtype)) == dtype


@pytest.mark.parametrize(
    "text",
    [
        "",
        "float",
        "float032",
        "float32x",
        "x4",
        "int-8",
        "type2_32",
        "type3_64",
        "handle64x",
        "float32x65536",
        "uint256",
        "type256_9",
        "type200_256",
        "Int32",
        "int٣",
    ],
)
def test_an_invalid_type_is_rejected(text: str) -> None:
    assert refusal(devmod.FormatError, devmod.FunctionInfo, "f", [text]) == (
        f"{text!r} is not a type: expected a name such as 'float32', 'int64', 'uint8', 'bool', 'bfloat16', 'handle', "
        "or one with lanes such as 'float16x4'"
    )


def test_sizes() -> None:
    assert [
        array_bytes(parse_dtype(text))
        for text in ("float16x4", "bool", "uint1", "float6_e2m3fnx4", "uint8x40")
    ] == [8, 1, 1, 3, 40]


@pytest.mark.row("R12")
def test_function_info_is_a_value() -> None:
    info = devmod.FunctionInfo("k", ["handle", "int32"], ["blockIdx.x"], [0, 1])
    same = devmod.FunctionInfo("k", ("handle", "int32"), ("blockIdx.x",), (0, 1))
    assert info == same
    assert hash(info) == hash(same)
    assert info != devmod.FunctionInfo("k", ["handle"])
    assert (
        info.name,
        info.arg_types,
        info.launch_param_tags,
        info.arg_extra_tags,
        info.interface,
    ) == (
        "k",
        ("handle", "int32"),
        ("blockIdx.x",),
        (0, 1),
        None,
    )
    assert pickle.loads(pickle.dumps(info)) == info
    with pytest.raises(AttributeError, match="immutable"):
        info.name = "other"


STRUCT = Param(
    "p",
    "uniform",
    "uint8x32",
    align=16,
    members=[
        Member("scale", "float32"),
        Member("w", "float32", 4, shape=(2, 3), strides=(12, 4)),
        Member("in", "", 28, [Member("a", "int8")], size=1),
    ],
)


def test_a_repr_is_one_short_line() -> None:
    check_texts(
        {
            "<Param a: float32* rw>": Param("a", "buffer", "float32", "rw", 0),
            "<Param void*>": Param("", "buffer"),
            "<Param n: int32>": Param("n", "scalar", "int32"),
            "<Param n: ?>": Param("n", "scalar"),
            "<Param p: {scale: float32, w: float32[2][3], in: {a: int8}}>": STRUCT,
            "<Param m: float32[2][2]>": Param(
                "m",
                "scalar",
                "uint8x16",
                align=4,
                members=[Member("", "float32", shape=(2, 2), strides=(8, 4))],
            ),
            "<Param p: uniform uint8x32>": Param("p", "uniform", "uint8x32"),
            "<Param t: local float32 = Local(per_thread=4)>": Param(
                "t", "local", "float32", default=devmod.Local(per_thread=4)
            ),
            "<Param \\x1b\\n: int32>": Param("\x1b\n", "scalar", "int32"),
            f"<Param {'x' * 299}…>": Param("x" * 1000, "scalar", "int32"),
            "<Member in: {a: int8} at byte 28>": STRUCT.members[2],
            "<Interface ()>": Interface(),
            "<Interface (n: int32) block 64×1×1>": Interface(
                [Param("n", "scalar", "int32")], block=(64, 1, 1)
            ),
            "<Interface () default block 8×8×1>": Interface(default_block=(8, 8, 1)),
            "<Interface () any block>": Interface(open_block=True),
            "<FunctionInfo k(handle, int32)>": FunctionInfo(
                "k", ["handle", "int32"], ["blockIdx.x"], [0, 1]
            ),
            "<FunctionInfo k(n: int32)>": FunctionInfo(
                "k", ["int32"], (), (), Interface([Param("n", "scalar", "int32")])
            ),
            f"<FunctionInfo {'k' * 59}…({'int32, ' * 8}…)>": FunctionInfo("k" * 99, ["int32"] * 9),
        },
        lambda value: repr(value),
    )


def test_values_that_differ_where_their_reprs_do_not_are_different() -> None:
    first, second = (Param("a", "buffer", "float32", "r", at) for at in (0, 1))
    assert repr(first) == repr(second)
    assert first != second
    assert hash(Interface([first])) != hash(Interface([second]))


@pytest.mark.row("R12", "R19")
def test_an_interface_preserves_unknown_keys() -> None:
    data = {
        "params": [
            {
                "name": "a",
                "kind": "buffer",
                "type": "float32",
                "access": "rw",
                "at": [0, 1],
                "volatile": True,
            },
            {"name": "n", "kind": "scalar", "type": "int32", "at": [0, 4]},
            {"name": "s", "kind": "scalar", "type": "uint8x24", "align": 8},
        ],
        "blocks": [{"at": "push", "size": 16, "std": 430}],
        "block": [8, 8, 1],
        "wavefronts": 32,
    }
    interface = devmod.Interface.from_dict(data)
    assert interface.to_dict() == data
    assert interface.params[0].at == (0, 1)
    assert interface.params[0].extra == {"volatile": True}
    assert interface.block == (8, 8, 1)
    assert interface.extra == {"wavefronts": 32}
    assert pickle.loads(pickle.dumps(interface)) == interface


@pytest.mark.row("R12", "R19")
def test_an_interface_has_images_needs_and_a_subgroup_size() -> None:
    data = {
        "params": [
            {
                "name": "t",
                "kind": "image",
                "type": "2d",
                "access": "r",
                "sample": "float",
                "at": [0, 0],
            },
            {"name": "how", "kind": "sampler", "at": [0, 1]},
            {
                "name": "out",
                "kind": "image",
                "type": "2d_array",
                "access": "w",
                "format": "r32float",
                "sample": "float",
                "at": [0, 2],
            },
        ],
        "needs": ["fp16", "images"],
        "subgroup": 32,
    }
    interface = devmod.Interface.from_dict(data)
    assert interface.to_dict() == data
    assert [param.dtype for param in interface.params] == [None, None, None]
    assert interface.replace(needs=("images", "fp16", "fp16")) == interface
    assert repr(interface) == (
        "<Interface (t: image 2d float r, how: sampler, out: image 2d_array r32float w) subgroup 32 needs fp16, images>"
    )
    assert pickle.loads(pickle.dumps(interface)) == interface


@pytest.mark.row("R12", "R19")
def test_a_buffer_may_be_several_values_of_the_kernel() -> None:
    pack = ("ptr:handle", "count:uint64", "shape0:int32", "shape1:int32", "stride0:int64")
    data = {
        "params": [
            {"name": "x", "kind": "buffer", "type": "float32", "access": "r", "pack": list(pack)}
        ]
    }
    interface = devmod.Interface.from_dict(data)
    assert interface.to_dict() == data
    assert interface.params[0].pack == pack
    assert [(value.name, value.kind, value.type) for value in interface.values] == [
        ("x", "buffer", "float32"),
        ("x.count", "scalar", "uint64"),
        ("x.shape0", "scalar", "int32"),
        ("x.shape1", "scalar", "int32"),
        ("x.stride0", "scalar", "int64"),
    ]
    info = FunctionInfo("f", ["handle", "uint64", "int32", "int32", "int64"], interface=interface)
    assert repr(info) == "<FunctionInfo f(x: float32* r pack ptr count shape0 shape1 stride0)>"
    assert pickle.loads(pickle.dumps(info)) == info
    with pytest.raises(
        devmod.FormatError, match=r"^the function 'f' has 1 arg_types and an interface of 5 values$"
    ):
        FunctionInfo("f", ["handle"], interface=interface)
    assert devmod.Interface([Param("y", "buffer")]).values == (Param("y", "buffer"),)


@pytest.mark.parametrize(
    "pack",
    [
        ["count:uint64"],
        ["ptr:uint64"],
        ["ptr:handle", "ptr:handle"],
        ["ptr:handle", "count"],
        ["ptr:handle", "count:float32"],
        ["ptr:handle", "count:int32", "count:int64"],
        ["ptr:handle", "shape1:int32"],
        ["ptr:handle", "shape00:int32"],
        ["ptr:handle", "shape0:int32", "stride1:int32"],
        ["ptr:handle", "nbytes:int32"],
        ["ptr:handle", *(f"shape{axis}:int32" for axis in range(17))],
        ["ptr:handle", *(f"stride{axis}:int64" for axis in range(1000))],
        ["ptr:handle", 3],
        ["ptr:handle", ["count:int32"]],
        ["ptr:handle:handle"],
    ],
)
def test_an_invalid_pack_is_rejected(pack: list[Any]) -> None:
    message = refusal(
        devmod.FormatError, Param.from_dict, {"name": "x", "kind": "buffer", "pack": pack}
    )
    text = str(pack)
    assert message == (
        f"the parameter 'x' of kind buffer has the pack {text if len(text) <= 60 else text[:59] + '…'}; expected a buffer with 'ptr:handle' "
        "and different values such as 'count:uint64', 'shape0:int32', 'stride0:int64'"
    )


def test_an_invalid_interface_is_rejected() -> None:
    check_texts(
        {
            "an interface is a map with string keys, not list": [],
            "the params of an interface are a list, not int": {"params": 3},
            "the needs of an interface are a list, not str": {"needs": "fp16"},
            "the values of the parameter 'a' are a list, not str": {
                "params": [{"name": "a", "kind": "buffer", "pack": "ptr:handle"}]
            },
            "the parameter 'a' of kind scalar has the pack ['ptr:handle']; expected a buffer with 'ptr:handle' and different values such as "
            "'count:uint64', 'shape0:int32', 'stride0:int64'": {
                "params": [{"name": "a", "kind": "scalar", "pack": ["ptr:handle"]}]
            },
            "the needs of an interface are strings, not [16]": {"needs": [16]},
            "the subgroup of an interface is invalid: expected an int of at least 1, got 0": {
                "subgroup": 0
            },
            "the parameter 'a' has the type 'cube'; the type of an image is one of 1d, 2d, 3d, 1d_array, 2d_array, 1d_buffer": {
                "params": [{"name": "a", "kind": "image", "type": "cube"}]
            },
            "the parameter 'a' of kind image has the format '' and the sample 'half'; expected those of an image": {
                "params": [{"name": "a", "kind": "image", "sample": "half"}]
            },
            "the parameter 'a' of kind buffer has the format 'r32float' and the sample ''; expected those of an image": {
                "params": [{"name": "a", "kind": "buffer", "format": "r32float"}]
            },
            "the parameter 'a' has the kind 'blob'; a kind is one of buffer, scalar, uniform, local, image, sampler": {
                "params": [{"name": "a", "kind": "blob"}]
            },
            "the parameter 'a' has the access 'x'; an access is 'r', 'w', 'rw' or ''": {
                "params": [{"name": "a", "kind": "buffer", "access": "x"}]
            },
            "the parameter 'a' has the place [1]; a place is an index or a pair of indices": {
                "params": [{"name": "a", "kind": "buffer", "at": [1]}]
            },
            "the parameter 'a' has the place 'push'; a place is an index or a pair of indices": {
                "params": [{"name": "a", "kind": "buffer", "at": "push"}]
            },
            "the alignment of the parameter 'a' is invalid: expected an int of at least 0, got -1": {
                "params": [{"name": "a", "kind": "scalar", "align": -1}]
            },
            "a block has no 'size'": {"blocks": [{"at": 0}]},
            "a fixed block of threads is three numbers, not [1, 2]": {"block": [1, 2]},
            "a fixed block of threads is invalid: expected an int of at least 0, got True": {
                "block": [1, 2, True]
            },
        },
        lambda data: refusal(devmod.FormatError, devmod.Interface.from_dict, data),
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((7, []), "a function's name is a string, not int"),
        (("k\ud800", []), "the function 'k\\ud800' has a character that UTF-8 cannot encode"),
        (
            ("f", "handle"),
            "the function 'f': arg_types and launch_param_tags are sequences of strings, not a string",
        ),
        (("f", [], [3]), "the function 'f' has a launch_param_tag that is not a string"),
        (
            ("f", [], [], [2**31]),
            "the function 'f' has an arg_extra_tag that is not an int of 32 bits",
        ),
        (("f", [], [], [], {}), "the function 'f' has an interface that is not an Interface: dict"),
        (
            ("f", ["handle"], [], [], devmod.Interface()),
            "the function 'f' has 1 arg_types and an interface of 0 values",
        ),
    ],
)
def test_an_invalid_function_info_is_rejected(arguments: tuple[object, ...], message: str) -> None:
    text = refusal(devmod.FormatError, devmod.FunctionInfo, *arguments)
    assert text == message


@pytest.mark.row("R12")
@pytest.mark.parametrize("fields", [(None,), ([], 3), ([], (), 3)])
def test_the_fields_of_a_function_are_sequences(fields: tuple[Any, ...]) -> None:
    with pytest.raises(
        devmod.FormatError,
        match=r"^the function 'f': arg_types, launch_param_tags and arg_extra_tags are sequences \(",
    ):
        devmod.FunctionInfo("f", *fields)


@pytest.mark.row("R42")
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((3,), "the target and the toolchain of an origin are strings"),
        (("cuda", 3), "the target and the toolchain of an origin are strings"),
        (("cuda", "", "-O3"), "the options of an origin are a list of strings"),
        (("cuda", "", 3), "the options of an origin are a list of strings"),
        (("cuda", "", [3]), "the options of an origin are a list of strings"),
        (("cuda", "", [], {"k.cu": 3}), "the sources of an origin are a map of strings"),
        (("cuda", "", [], ["k.cu"]), "the sources of an origin are a map of strings"),
    ],
)
def test_an_origin_is_checked_when_it_is_made(fields: tuple[Any, ...], message: str) -> None:
    assert refusal(devmod.FormatError, devmod.Origin, *fields) == message


# -- members, default and open blocks, defaults of local memory

VIEW = devmod.Member(
    "view",
    offset=16,
    members=[devmod.Member("scale", "float32", 0), devmod.Member("at", "float32x3", 16)],
    size=32,
)
VIEWED = devmod.Param(
    "p",
    "scalar",
    "uint8x64",
    members=[
        devmod.Member("n", "int32", 0),
        VIEW,
        devmod.Member("w", "float32", 48, shape=[2, 2], strides=[8, 4]),
    ],
)
VIEWED_MAP = {
    "name": "p",
    "kind": "scalar",
    "type": "uint8x64",
    "members": [
        {"name": "n", "type": "int32", "offset": 0},
        {
            "name": "view",
            "offset": 16,
            "members": [
                {"name": "scale", "type": "float32", "offset": 0},
                {"name": "at", "type": "float32x3", "offset": 16},
            ],
            "size": 32,
        },
        {"name": "w", "type": "float32", "offset": 48, "shape": [2, 2], "strides": [8, 4]},
    ],
}


def test_a_param_with_members_has_a_map() -> None:
    assert VIEWED.to_dict() == VIEWED_MAP
    assert devmod.Param.from_dict(VIEWED_MAP) == VIEWED
    assert pickle.loads(pickle.dumps(VIEWED)) == VIEWED


@pytest.mark.parametrize(
    ("default", "data"),
    [(devmod.Local(64), {"bytes": 64}), (devmod.Local(per_thread=4), {"per_thread": 4})],
)
def test_local_memory_may_have_a_default(default: devmod.Local, data: dict[str, int]) -> None:
    param = devmod.Param("scratch", "local", "float32", default=default)
    assert param.to_dict()["default"] == data
    assert devmod.Param.from_dict(param.to_dict()) == param


def test_an_interface_has_a_default_block_or_an_open_one() -> None:
    data = {"params": [], "default_block": [64, 1, 1], "open_block": True}
    interface = devmod.Interface.from_dict(data)
    assert (interface.default_block, interface.open_block) == ((64, 1, 1), True)
    assert interface.to_dict() == data
    assert interface.replace(default_block=None, open_block=False) == devmod.Interface()


def nested(depth: int) -> dict[str, Any]:
    member: dict[str, Any] = {"name": "m", "offset": 0, "type": "int32"}
    for _ in range(depth):
        member = {"name": "m", "offset": 0, "members": [member]}
    return member


def test_an_invalid_member_or_default_is_an_error() -> None:
    check_texts(
        {
            "more than 16 structs enclose a member": {"members": [nested(16)]},
            "the members of the parameter 'p' are a list, not dict": {"members": {}},
            "the member 'm' has neither a type nor members; it has one of them": {
                "members": [{"name": "m", "offset": 0}]
            },
            "the member 'm' has a type and members; it has one of them": {
                "members": [nested(1) | {"type": "int32"}]
            },
            "a member's name is a string, not int": {"members": [nested(0) | {"name": 3}]},
            "the member 'm' has a type that is not a string: int": {
                "members": [nested(0) | {"type": 3}]
            },
            "a parameter's name is a string, not int": {"name": 3},
            "the parameter 'p' has a type that is not a string: int": {"type": 3},
            "the offset of the member 'm' is invalid: expected an int of at least 0, got -1": {
                "members": [nested(0) | {"offset": -1}]
            },
            "the shape of the member 'm' is a list, not int": {
                "members": [nested(0) | {"shape": 3}]
            },
            "the member 'm' has a shape of 1 dimensions and 0 strides": {
                "members": [nested(0) | {"shape": [3]}]
            },
            "the parameter 'p' is of kind image and has members; only a buffer, a scalar or a uniform has members": {
                "kind": "image",
                "members": [nested(0)],
            },
            "the parameter 'p' has an invalid default: expected a map with one key, bytes or per_thread with an int of at least 1, or value with an int of at least 0, got 64": {
                "kind": "local",
                "default": 64,
            },
            "the parameter 'p' has an invalid default: expected a Local for the kind local, or an int from 0 to 2**63 - 1 for the kind scalar, got Local(64) for scalar": {
                "default": {"bytes": 64}
            },
        },
        lambda data: refusal(
            devmod.FormatError,
            devmod.Param.from_dict,
            {"name": "p", "kind": "scalar", "type": "uint8x64"} | data,
        ),
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"default_block": [64]}, "a default block of threads is three numbers, not [64]"),
        *[
            (
                {"shared_memory": value},
                "the shared memory of an interface is invalid: expected an int of at least 0, or a map with the key per_thread and an int of "
                f"at least 1, got {value!r}",
            )
            for value in (
                {},
                {"per_thread": 0},
                {"per_thread": -1},
                {"per_thread": 4.0},
            )
        ],
    ],
)
def test_an_invalid_launch_of_an_interface_is_an_error(data: dict[str, Any], message: str) -> None:
    assert refusal(devmod.FormatError, devmod.Interface.from_dict, {"params": []} | data) == message


def test_an_invalid_local_is_an_error() -> None:
    check_texts(
        {
            "Local: expected nbytes or per_thread, got neither": {},
            "Local: expected nbytes or per_thread, got both": {"nbytes": 1, "per_thread": 1},
            "Local(nbytes): expected an int of 1 or more, got 0": {"nbytes": 0},
            "Local(per_thread): expected an int of 1 or more, got 1.5": {"per_thread": 1.5},
        },
        lambda arguments: refusal(devmod.ArgumentError, devmod.Local, **arguments),
    )


@pytest.mark.parametrize("base", ["uint8", "int8", "float32"])
def test_the_dtype_of_three_vectors_in_memory_has_four_lanes(base: str) -> None:
    assert Param("x", "buffer", f"{base}x3").dtype == np.dtype((base, (4,)))
    assert Param("x", "scalar", f"{base}x3").dtype == np.dtype((base, (3,)))


def test_the_dtype_of_a_struct_that_ends_inside_the_padding_of_an_array() -> None:
    halves = Member("b", "float16", 0, shape=(3,), strides=(16,))
    dtype = Param("p", "uniform", "uint8x34", align=16, members=[halves]).dtype
    assert dtype is not None
    assert (dtype.itemsize, dtype["b"].shape, dtype["b"].base.itemsize) == (48, (3,), 16)
    # The next member may lie in the padding.
    dtype = Param(
        "p", "uniform", "uint8x36", align=16, members=[halves, Member("c", "float16", 34)]
    ).dtype
    assert dtype is not None
    assert dtype.fields is not None
    assert dtype.fields["c"][1] == 34
    with pytest.raises(devmod.FormatError) as caught:  # the elements of an array follow each other
        _ = Param("p", "buffer", "uint8x34", align=16, members=[halves]).dtype
    assert (
        str(caught.value)
        == "NumPy has no dtype for this struct of 34 bytes in an array: the padding of its last member is cut off"
    )


@pytest.mark.parametrize(
    ("shared_memory", "stored"),
    [
        (1, 1),
        (2**63 - 1, 2**63 - 1),
        (devmod.Local(16), 16),
        (devmod.Local(per_thread=1), {"per_thread": 1}),
        ({"per_thread": 2**63 - 1}, {"per_thread": 2**63 - 1}),
    ],
)
def test_the_default_of_dynamic_shared_memory_is_bytes_or_bytes_a_thread(
    shared_memory: Any, stored: Any
) -> None:
    interface = devmod.Interface(shared_memory=shared_memory, needs=["fp16"])
    assert interface.to_dict() == {"params": [], "shared_memory": stored, "needs": ["fp16"]}
    assert list(interface.to_dict()) == ["params", "shared_memory", "needs"]
    again = devmod.Interface.from_dict(interface.to_dict())
    assert (again, hash(again)) == (interface, hash(interface))
    assert again.replace(subgroup=32).shared_memory == interface.shared_memory


@pytest.mark.parametrize(
    ("constant", "stored", "keyword"),
    [
        (PipelineConstant("N", "uint32"), {"name": "N", "type": "uint32"}, "N=…"),
        (
            PipelineConstant("", "int8", 0, -5),
            {"name": "", "id": 0, "type": "int8", "default": -5},
            "**{'0': …}",
        ),
        (
            PipelineConstant("a b", "bool", 2**32 - 1, False),
            {"name": "a b", "id": 2**32 - 1, "type": "bool", "default": False},
            "**{'a b': …}",
        ),
    ],
)
def test_a_constant_of_a_pipeline(
    constant: PipelineConstant, stored: dict[str, Any], keyword: str
) -> None:
    assert constant.to_dict() == stored
    assert PipelineConstant.from_dict(stored) == constant
    assert constant.keyword == keyword


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((5, "uint32"), "a constant's name is a string"),
        (("N", 5), "the constant 'N' has the type 5; expected a number type or 'bool'"),
        (("N", "text"), "the constant 'N' has the type 'text'; expected a number type or 'bool'"),
        (
            ("N", "int8", 2**32),
            "the constant 'N' has the id 4294967296; an id is a number from 0 to 2**32 - 1",
        ),
        (
            ("N", "int8", -1),
            "the constant 'N' has the id -1; an id is a number from 0 to 2**32 - 1",
        ),
        (("N", "int8", 1, "2"), "the constant 'N' has the default '2'; expected a number"),
        (("", "int8"), "a constant has neither a name nor an id"),
    ],
)
def test_an_invalid_constant_of_a_pipeline(arguments: Any, text: str) -> None:
    assert refusal(devmod.FormatError, PipelineConstant, *arguments) == text
