"""Structs by value and in buffers: the values that a call takes, their NumPy dtypes, and the
layouts that an interface may have.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import toy_backend as toy
from each_case import check_texts, raised, refusal

import devmod
from devmod import FunctionInfo, Interface, Member, Param

VIEW = Member(
    "view",
    offset=16,
    members=[Member("scale", "float32", 0), Member("at", "float32x3", 16)],
    size=32,
)
LIGHT = Member(
    "lights",
    offset=64,
    members=[Member("on", "bool", 0), Member("power", "float16", 2)],
    size=4,
    shape=[2],
    strides=[8],
)
P = Param(
    "p",
    "scalar",
    "uint8x96",
    align=16,
    members=[
        Member("n", "int32", 0),
        VIEW,
        Member("w", "float32", 48, shape=[2, 2], strides=[8, 4]),
        LIGHT,
        Member("tag", "uint8", 80, shape=[4], strides=[1]),
    ],
)
#: A struct with every value, and its bytes.
VALUES = {
    "n": -2,
    "view": {"scale": 0.5, "at": (1, 2, 3)},
    "w": [[1, 2], [3, 4]],
    "lights": [{"on": True, "power": 1.5}, {"on": False, "power": -1}],
    "tag": b"abcd",
}


def make(param: Param) -> tuple[devmod.Function, list[bytes]]:
    """Return a function with that second argument, and the list of values that its kernel
    receives.
    """
    seen: list[bytes] = []
    info = FunctionInfo(
        "f", ["int32", param.type], (), (), Interface([Param("n", "scalar", "int32"), param])
    )
    return toy.module({"f": info}, {"f": lambda shape, n, value: seen.append(value)})["f"], seen


def packed(param: Param, value: Any) -> bytes:
    f, seen = make(param)
    for _ in range(2):  # the second call of a record is by its dtype
        f(0, value, grid=1, block=1)
    assert seen[0] == seen[1]
    return seen[0]


def expected() -> bytes:
    data = bytearray(96)
    data[0:4] = b"\xfe\xff\xff\xff"
    data[16:20] = np.float32(0.5).tobytes()
    data[32:44] = np.array([1, 2, 3], "f4").tobytes()
    data[48:64] = np.array([1, 2, 3, 4], "f4").tobytes()
    data[64], data[66:68], data[74:76] = 1, np.float16(1.5).tobytes(), np.float16(-1).tobytes()
    data[80:84] = b"abcd"
    return bytes(data)


def record(dtype: Any) -> Any:
    """Return an array without dimensions and with all padding bits set, of the values above."""
    made = np.frombuffer(b"\xff" * dtype.itemsize, dtype)[0].copy().reshape(())
    made["n"], made["w"], made["tag"] = -2, [[1, 2], [3, 4]], [97, 98, 99, 100]
    made["view"]["scale"], made["view"]["at"] = 0.5, [1, 2, 3]
    lights = made["lights"]["value"] if made["lights"].dtype.names == ("value",) else made["lights"]
    lights["on"], lights["power"] = [True, False], [1.5, -1]
    return made


OTHER = np.dtype(
    [
        ("tag", "i8", (4,)),
        ("lights", [("power", "f8"), ("on", "?")], (2,)),
        ("w", ">f8", (2, 2)),
        ("view", [("at", "i4", (3,)), ("scale", "f2")]),
        ("n", "i8"),
    ]
)


@pytest.mark.row("R34")
@pytest.mark.parametrize(
    "value",
    [
        VALUES,
        (
            -2,
            (0.5, [1, 2, 3]),
            np.array([[1, 2], [3, 4]]),
            ((True, 1.5), {"on": False, "power": -1}),
            [97, 98, 99, 100],
        ),
        pytest.param(lambda: record(P.dtype), id="its dtype"),
        pytest.param(lambda: record(P.dtype)[()], id="its dtype, a scalar"),
        pytest.param(lambda: record(OTHER), id="another dtype"),
        pytest.param(lambda: record(OTHER)[()], id="another dtype, a scalar"),
        pytest.param(expected, id="bytes"),
        pytest.param(lambda: bytearray(expected()), id="a bytearray"),
        pytest.param(lambda: (ctypes.c_char * 96).from_buffer_copy(expected()), id="a buffer"),
    ],
)
def test_a_struct_is_packed_to_the_declared_layout(value: Any) -> None:
    assert packed(P, value() if callable(value) else value) == expected()


def test_a_record_of_the_declared_layout_may_have_other_names() -> None:
    param = Param(
        "p",
        "scalar",
        "uint8x16",
        members=[Member("n", "int32", 0), Member("in", "", 8, [Member("v", "float32x2")], 8)],
    )
    flat = np.dtype(
        {
            "names": ["a", "b", "c"],
            "formats": ["i4", "f4", "f4"],
            "offsets": [0, 8, 12],
            "itemsize": 16,
        }
    )
    value = np.frombuffer(b"\xff" * 16, flat)[0].copy()
    value["a"], value["b"], value["c"] = 1, 2, 3
    assert packed(param, value) == b"\x01\0\0\0\0\0\0\0" + np.array([2, 3], "f4").tobytes()
    f, _ = make(param)
    # A number is a float where the declared one is an int.
    text = refusal(
        devmod.ArgumentError,
        f,
        0,
        np.zeros(
            (),
            {"names": ["a", "b"], "formats": ["f4", "2f4"], "offsets": [0, 8], "itemsize": 16},
        ),
        grid=1,
        block=1,
    )
    assert text == "the toy function 'f': argument 2 'p': member 'p.a': unknown; expected 'n', 'in'"


def test_a_record_with_the_declared_names_is_converted_by_name() -> None:
    param = Param(
        "p", "scalar", "uint8x8", members=[Member("x", "float32", 0), Member("y", "float32", 4)]
    )
    swapped = np.array((1, 2), [("y", "f4"), ("x", "f4")])
    assert packed(param, swapped) == np.array([2, 1], "f4").tobytes()


def test_a_member_that_is_given_as_an_argument_has_the_name_of_its_struct() -> None:
    f, _ = make(P)
    for name, hint in {
        "w": ". 'w' is a member of 'p'",
        "wide": "",
        "pp": ". Did you mean 'p'?",
    }.items():
        text = refusal(devmod.ArgumentError, f, 0, grid=1, block=1, **{name: 1})
        assert (
            text
            == f"the toy function 'f' has no argument {name!r}; it takes 2 arguments (n, p){hint}"
        )


def test_the_bytes_of_a_struct_are_passed_unchanged() -> None:
    assert packed(P, b"\xff" * 96) == b"\xff" * 96


def test_the_dtype_of_a_struct_has_its_offsets_and_its_size() -> None:
    dtype = P.dtype
    assert dtype is not None
    assert dtype.itemsize == 96
    assert {name: field[1] for name, field in (dtype.fields or {}).items()} == {
        "n": 0,
        "view": 16,
        "w": 48,
        "lights": 64,
        "tag": 80,
    }
    assert dtype["view"] == np.dtype(
        {
            "names": ["scale", "at"],
            "formats": ["f4", ("f4", (3,))],
            "offsets": [0, 16],
            "itemsize": 32,
        }
    )
    assert dtype["w"] == np.dtype(("f4", (2, 2)))
    assert dtype["lights"].shape == (2,)
    assert dtype["lights"].base.itemsize == 8


@pytest.mark.parametrize(
    ("param", "dtype"),
    [
        (Param("a", "buffer", "float32"), "f4"),
        (Param("a", "buffer", "float32x4"), ("f4", (4,))),
        (Param("a", "buffer", "float32x3"), ("f4", (4,))),
        (Param("a", "scalar", "float32x3"), ("f4", (3,))),
        (Param("a", "buffer", "uint8x4"), ("u1", (4,))),
        (Param("a", "buffer", "uint8x4", align=4), "V4"),
        (Param("a", "uniform", "uint8x16"), "V16"),
        (Param("a", "scalar", "uint1"), "?"),
        (
            Param(
                "m",
                "scalar",
                "uint8x64",
                members=[Member("", "float32x4", shape=[4], strides=[16])],
            ),
            ("f4", (4, 4)),
        ),
        (
            Param(
                "m",
                "scalar",
                "uint8x44",
                members=[Member("", "float32x3", shape=[3], strides=[16])],
            ),
            ("f4", (3, 4)),
        ),
    ],
)
def test_every_param_of_a_known_type_has_a_dtype(param: Param, dtype: Any) -> None:
    assert param.dtype == np.dtype(dtype)


@pytest.mark.parametrize(
    "param", [Param("a", "buffer"), Param("t", "image", "2d"), Param("s", "sampler")]
)
def test_a_param_of_unknown_type_has_no_dtype(param: Param) -> None:
    assert param.dtype is None


def test_a_dtype_that_numpy_does_not_support_is_an_error() -> None:
    with pytest.raises(
        devmod.FormatError,
        match=r"^NumPy does not support type200_16: read ",
    ):
        _ = Param("a", "buffer", "type200_16").dtype


def test_params_import_numpy_for_a_dtype_alone() -> None:
    code = (
        "import sys, devmod; param = devmod.Param('p', 'scalar', 'uint8x4', members=[devmod.Member('x', 'int32')]); "
        "assert 'numpy' not in sys.modules; assert param.dtype.names == ('x',); assert 'numpy' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "value",
    [
        [[1, 2, 3, 4]] * 4,
        np.array([[1, 2, 3, 4]] * 4),
        ((1, 2, 3, 4),) * 4,
        np.array([[1, 2, 3, 4]] * 4, "f4").tobytes(),
    ],
)
def test_a_matrix_by_value_is_its_columns(value: Any) -> None:
    matrix = Param(
        "m",
        "scalar",
        "uint8x64",
        align=16,
        members=[Member("", "float32x4", shape=[4], strides=[16])],
    )
    assert packed(matrix, value) == np.array([[1, 2, 3, 4]] * 4, "f4").tobytes()


def test_three_vectors_and_padded_elements_take_the_values_of_their_dtype() -> None:
    param = Param(
        "p",
        "uniform",
        "uint8x96",
        members=[
            Member("m", "float32x3", 0, shape=[3], strides=[16]),
            Member("a", "float32", 48, shape=[3], strides=[16]),
        ],
    )
    data = np.zeros((6, 4), "f4")
    data[:3, :3], data[3:, 0] = [[1, 2, 3], [4, 5, 6], [7, 8, 9]], [10, 11, 12]
    values = {"m": [[1, 2, 3], [4, 5, 6], [7, 8, 9]], "a": [10, 11, 12]}
    assert packed(param, values) == data.tobytes()
    declared = np.zeros((), param.dtype)
    declared["m"][:, :3], declared["a"] = values["m"], values["a"]
    assert packed(param, declared) == data.tobytes()
    assert packed(param, {"m": declared["m"], "a": declared["a"]}) == data.tobytes()


@pytest.mark.row("R34")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"n": 2**31}, "member 'p.n': 2147483648 does not fit int32 (-2147483648 to 2147483647)"),
        ({"n": 1.5}, "member 'p.n': 1.5 is not a whole number"),
        ({"view": {"scale": "a", "at": (1, 2, 3)}}, "member 'p.view.scale': 'a' is not a number"),
        (
            {"view": {"scale": 1, "at": (1, 2)}},
            "member 'p.view.at': 2 lanes cannot be passed as float32x3, which has 3 lanes",
        ),
        (
            {"view": {"scale": 1, "at": (1, "b", 3)}},
            "member 'p.view.at': lane 1: 'b' is not a number",
        ),
        ({"view": {"at": (1, 2, 3)}}, "member 'p.view.scale': missing; expected 'scale', 'at'"),
        (
            {"view": {"scales": 1, "at": (1, 2, 3)}},
            "member 'p.view.scales': unknown; expected 'scale', 'at'. Did you mean 'scale'?",
        ),
        ({"view": (1,)}, "member 'p.view': expected 2 values ('scale', 'at'), got 1"),
        (
            {"view": 7},
            "member 'p.view': 7 is not a struct of 32 bytes; pass a mapping, a tuple or a NumPy record of 'scale', 'at', or bytes",
        ),
        (
            {"view": b"abc"},
            "member 'p.view': bytes of 3 bytes cannot be passed as uint8x32, which has 32 bytes",
        ),
        ({"w": [[1, 2]]}, "member 'p.w': expected 2 elements, got 1"),
        ({"w": [[1, 2], [3, 4, 5]]}, "member 'p.w[1]': expected 2 elements, got 3"),
        ({"w": [[1, 2], 3]}, "member 'p.w[1]': 3 is not a sequence of 2 elements"),
        ({"w": np.array(1, "f4")}, "member 'p.w': a ndarray is not a sequence of 2 elements"),
        ({"lights": [(True, 1), (2, 1)]}, "member 'p.lights[1].on': 2 is not a bool"),
        ({"tag": "abcd"}, "member 'p.tag': 'abcd' is not a sequence of 4 elements"),
        ({"tag": [1, 2, 3, 256]}, "member 'p.tag[3]': 256 does not fit uint8 (0 to 255)"),
        ({"x": 1}, "member 'p.x': unknown; expected 'n', 'view', 'w', 'lights', 'tag'"),
        ({3: 1}, "member 'p.3': unknown; expected 'n', 'view', 'w', 'lights', 'tag'"),
    ],
)
def test_the_error_for_an_invalid_struct_has_the_member(change: dict[Any, Any], why: str) -> None:
    f, seen = make(P)
    error = raised(devmod.ArgumentError, f, 0, VALUES | change, grid=1, block=1)
    assert str(error) == f"the toy function 'f': argument 2 'p': {why}"
    assert (error.argument, seen) == ("p", [])


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (
            [1],
            "a list is not a struct of 96 bytes; pass a mapping, a tuple or a NumPy record of 'n', 'view', 'w', 'lights', 'tag', or bytes",
        ),
        ((1, 2), "expected 5 values ('n', 'view', 'w', 'lights', 'tag'), got 2"),
        (b"abc", "bytes of 3 bytes cannot be passed as uint8x96, which has 96 bytes"),
        (
            np.zeros(1, P.dtype),
            "an array of shape (1,) is not one struct; pass one record, such as array[0]",
        ),
        (
            np.zeros((), "i4,f4")[()],
            "member 'p.f0': unknown; expected 'n', 'view', 'w', 'lights', 'tag'",
        ),
    ],
)
def test_the_error_for_a_value_that_is_no_struct(value: Any, why: str) -> None:
    f, _ = make(P)
    assert (
        refusal(devmod.ArgumentError, f, 0, value, grid=1, block=1)
        == f"the toy function 'f': argument 2 'p': {why}"
    )


def test_a_struct_whose_members_have_no_names_takes_a_tuple() -> None:
    param = Param(
        "", "scalar", "uint8x8", members=[Member("", "int32", 0), Member("", "float32", 4)]
    )
    assert packed(param, (1, 1.0)) == b"\x01\0\0\0\0\0\x80?"
    assert packed(param, np.array((1, 1.0), param.dtype)) == b"\x01\0\0\0\0\0\x80?"
    f, _ = make(param)
    assert refusal(devmod.ArgumentError, f, 0, {"": 1}, grid=1, block=1) == (
        "the toy function 'f': argument 2: the struct has members without names; pass a tuple of its values, or bytes"
    )


def test_a_struct_of_one_byte_is_a_struct() -> None:
    param = Param("p", "scalar", "uint8", align=1, members=[Member("flag", "int8", 0)])
    assert packed(param, {"flag": -1}) == b"\xff"
    assert packed(param, (2,)) == b"\x02"
    assert packed(Param("p", "scalar", "uint8", align=1), b"\x03") == b"\x03"


# -- layouts


@pytest.mark.row("R19")
def test_a_layout_that_is_no_struct_is_an_error() -> None:
    check_texts(
        {
            "the member 'a' of the parameter 'p' has bytes 62 to 66, and the struct has 64 bytes": [
                Member("a", "float32", 62)
            ],
            "the member 'a' of the parameter 'p' has bytes 0 to 0, and the struct has 64 bytes": [
                Member("a", "int0", 0)
            ],
            "the member 'a' of the parameter 'p' has the type int4, which is not a whole number of bytes": [
                Member("a", "int4", 0)
            ],
            "the member 'b' of the parameter 'p' begins at byte 2, inside the member that ends at byte 4": [
                Member("a", "float32", 0),
                Member("b", "float32", 2),
            ],
            "the parameter 'p' has two members 'a'": [
                Member("a", "int8", 0),
                Member("a", "int8", 1),
            ],
            "the member 'a' of the parameter 'p' is a struct without a size": [
                Member("a", members=[Member("b", "int8")])
            ],
            "the member 'b' of the member 'a' of the parameter 'p' has bytes 0 to 8, and the struct has 4 bytes": [
                Member("a", members=[Member("b", "int64")], size=4)
            ],
            "the member 'a' of the parameter 'p' is an array of no elements": [
                Member("a", "int8", shape=[0], strides=[1])
            ],
            "the member 'a' of the parameter 'p' has a stride of 2 bytes; expected at least 4": [
                Member("a", "int32", shape=[2], strides=[2])
            ],
            f"the member 'a' of the parameter 'p' has bytes 0 to {2**62}, and the struct has 64 bytes": [
                Member("a", "int8", shape=[2**62], strides=[1])
            ],
            "the member 'a' of the parameter 'p' has 17 dimensions; expected at most 16": [
                Member("a", "int8", shape=[1] * 17, strides=[1] * 17)
            ],
        },
        lambda members: refusal(
            devmod.FormatError, Param, "p", "scalar", "uint8x64", members=members
        ),
    )


def test_a_file_with_such_a_layout_is_refused_at_the_first_use_of_the_function() -> None:
    good = Interface([Param("p", "scalar", "uint8x64", members=[Member("only", "float32", 60)])])
    data = devmod.create_with_fallback(
        "cuda", b"x", "ptx", {"f": FunctionInfo("f", ["uint8x64"], interface=good)}
    ).save_to_bytes()
    assert data.count(b"offset\x3c") == 1
    stored = devmod.loads(
        devmod.dumps(
            devmod.create_with_fallback(
                "cuda", b"x", "ptx", {"f": FunctionInfo("f", ["uint8x64"], interface=good)}
            )
        )
    )
    assert stored.functions["f"].interface == good
    with pytest.raises(
        devmod.FormatError,
        match="the member 'only' of the parameter 'p' has bytes 61 to 65, and the struct has 64 bytes",
    ):
        _ = devmod.backend.decode(
            devmod.backend.find_spec("cuda"), data.replace(b"offset\x3c", b"offset\x3d")
        )[1]["f"]


def test_structs_nested_too_deeply_are_an_error() -> None:
    member = Member("m", "int32")
    for _ in range(16):
        member = Member("m", members=[member], size=4)
    assert (
        refusal(devmod.FormatError, Param, "p", "scalar", "uint8x4", members=[member])
        == "more than 16 structs enclose a member"
    )


@pytest.mark.parametrize("type_", ["", "float32x4"])
def test_only_a_struct_has_members(type_: str) -> None:
    assert (
        refusal(devmod.FormatError, Param, "p", "scalar", type_, members=[Member("a", "int8")])
        == f"the parameter 'p' has members and the type {type_!r}; the type of a struct of N bytes is 'uint8xN'"
    )


# -- buffers of structs

BODY = [
    Member("at", "float32x3", 0),
    Member("mass", "float32", 16),
    Member("parts", "", 24, [Member("id", "int32", 0), Member("on", "bool", 4)], 8, [2], [8]),
    Member("link", "uint8", 40, shape=[8], strides=[1]),
]
BODIES = Param("p", "buffer", "uint8x48", "rw", align=16, members=BODY)
PART = [("id", "i4"), ("on", "?"), ("more", "u1", 3)]


def layout(**fields: Any) -> np.dtype[Any]:
    """Return the dtype of `BODY` with other fields: name to type and offset, or None to leave a
    field out.
    """
    known = {"at": (("f4", 3), 0), "mass": ("f4", 16), "parts": ((PART, 2), 24), "link": ("u8", 40)}
    used = {name: each for name, each in (known | fields).items() if each is not None}
    formats, offsets = [each[0] for each in used.values()], [each[1] for each in used.values()]
    return np.dtype({"names": list(used), "formats": formats, "offsets": offsets, "itemsize": 48})


def pass_bodies(*arrays: object, param: Param = BODIES) -> None:
    info = FunctionInfo("f", ["handle"], (), (), Interface([param]))
    f = toy.module({"f": info}, {"f": lambda shape, value: None})["f"]
    for array in arrays:
        f(array, grid=1, block=1)


@pytest.mark.parametrize(
    "dtype",
    [
        BODIES.dtype,
        layout(),
        layout(w=("f4", 12)),  # a number in the padding
        layout(at=(("f4", 4), 0)),  # as the type float3 of OpenCL's host API
        layout(at=None, x=("f4", 0), yz=("c8", 4)),
        layout(link=None, a=("f4", 40)),  # a union or a pointer is bytes
        layout(mass=None),  # as array[["at", "parts"]], a view
        layout(parts=None, opaque=("V16", 24)),
        np.dtype("V48"),
        np.dtype("u1"),
    ],
    ids=str,
)
def test_an_array_of_structs_of_the_declared_layout_is_passed(dtype: Any) -> None:
    array = np.zeros(96 if dtype == np.uint8 else 2, dtype)
    pass_bodies(array, array)  # the second call knows the dtype


@pytest.mark.parametrize(
    ("dtype", "why"),
    [
        (
            layout(mass=("f4", 12)),
            "member 'p.mass' is at byte 16, and the field of the array at byte 12",
        ),
        (
            layout(mass=("f8", 16)),
            "member 'p.mass' is float32 at byte 16, where the array has float64",
        ),
        (
            layout(mass=("i4", 16)),
            "member 'p.mass' is float32 at byte 16, where the array has int32",
        ),
        (
            layout(mass=None, u=("u1", 18)),
            "member 'p.mass' is float32 at byte 16, where the array has uint8",
        ),
        (
            layout(at=(("f2", 6), 0)),
            "member 'p.at' is float32 at byte 0, where the array has float16",
        ),
        (
            layout(parts=(([("id", "i2"), ("pad", "i2"), ("on", "?"), ("more", "u1", 3)], 2), 24)),
            "member 'p.parts[0].id' is int32 at byte 24, where the array has int16",
        ),
        (
            layout(parts=(([("on", "?"), ("more", "u1", 3), ("id", "i4")], 2), 24)),
            "member 'p.parts.id' is at byte 24, and the field of the array at byte 28",
        ),
        (
            np.dtype([("at", "f4", 3), ("mass", "f4")]),
            "member 'p.mass' is at byte 16, and the field of the array at byte 12",
        ),
    ],
)
def test_an_array_of_structs_of_another_layout_is_refused_with_the_member(
    dtype: Any, why: str
) -> None:
    array = np.zeros(2, dtype)
    for _ in range(2):  # a refused dtype is not remembered
        with pytest.raises(devmod.ArgumentError) as caught:
            pass_bodies(array)
        assert str(caught.value) == (
            f"the toy function 'f': argument 1 'p' is an array of structs with another layout: {why}. The dtype is "
            "function.info.interface.params[0].dtype"
        )
    assert caught.value.argument == "p"


def test_other_arrays_of_structs_have_no_layout_to_compare() -> None:
    other = np.zeros(2, [("a", "f8", 6)])
    pass_bodies(other, param=BODIES.replace(members=()))
    pass_bodies(toy.DEVICES[0].from_numpy(other))  # an array on a device has bytes
    with pytest.raises(
        devmod.ArgumentError, match=r"argument 1 'p' is an array of uint8x52, and the kernel takes"
    ):
        pass_bodies(np.zeros(2, "V52"))


def test_a_ctypes_array_of_structs_is_compared_too() -> None:
    class Body(ctypes.Structure):
        _fields_ = (("mass", ctypes.c_double), ("rest", ctypes.c_float * 10))

    with pytest.raises(
        devmod.ArgumentError,
        match=r"member 'p\.mass' is at byte 16, and the field of the array at byte 0",
    ):
        pass_bodies((Body * 2)())


@pytest.mark.row("R34")
def test_a_list_of_structs_is_no_array() -> None:
    members = [Member("x", "int32", 0), Member("y", "float32", 4)]
    f, _ = make(Param("a", "buffer", "uint8x8", align=4, members=members))
    assert refusal(devmod.ArgumentError, f, 3, [(1, 2.0)], grid=1, block=1) == (
        "the toy function 'f': argument 2 'a' is a list, and the kernel takes an array of structs of 8 bytes; "
        "pass np.array(values, f.info.interface.params[1].dtype)"
    )
