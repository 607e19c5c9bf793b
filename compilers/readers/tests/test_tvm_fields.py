"""TVM's fields at the limits of their counts and numbers, and the fields that devmod writes."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import pytest
from each_case import refusal

from devmod import FunctionInfo
from devmod.errors import FormatError
from devmod.targets import cuda, opencl
from devmod_readers.tvm import TvmReader, constants_parts, module_parts


def u64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def text(value: str) -> bytes:
    return u64(len(value)) + value.encode()


def function(types: int = 0, tags: int = 0, extra: tuple[int, ...] = ()) -> bytes:
    """Return a function without a name: arguments of float32x3, tags without a text, extra tags."""
    return (
        u64(0, 0, types)
        + b"\x02\x20\x03\x00" * types
        + u64(tags)
        + bytes(8 * tags)
        + u64(len(extra))
        + struct.pack(f"<{len(extra)}i", *extra)
    )


def tensor(*shape: int, size: int, **changed: int) -> bytes:
    """Return a tensor of float16x2 up to its elements."""
    fields = {"magic": 0xDD5E40F096B4A13F, "zero": 0, "device": 1, "index": 7, "ndim": len(shape)}
    fields |= changed
    start = struct.pack("<QQiii", *fields.values())
    return start + b"\x02\x10\x02\x00" + struct.pack(f"<{len(shape)}qQ", *shape, size)


def reader(data: bytes) -> TvmReader:
    return TvmReader(memoryview(data), "the bytes")


class Case(NamedTuple):
    """A method, bytes that it reads to their end, and the value."""

    method: str
    data: bytes
    value: Any


TENSOR = ((2, 16, 2), [3, 1], b"abcdefghijkl")
CASES = {
    "a function": Case(
        "read_fmap",
        u64(1) + function(2, 1, (-2, 2**31 - 1)),
        {"": FunctionInfo("", ["float32x3"] * 2, [""], [-2, 2**31 - 1])},
    ),
    "no functions": Case("read_fmap", u64(0), {}),
    "tags at the end": Case(
        "read_fmap", u64(1) + function(0, 2), {"": FunctionInfo("", [], ["", ""])}
    ),
    "a shader": Case("read_shaders", u64(1) + u64(0, 0), {"": b""}),
    "shaders": Case(
        "read_shaders",
        u64(2) + text("a") + text("xyz") + text("b") + text(""),
        {"a": b"xyz", "b": b""},
    ),
    "a constant": Case(
        "read_constants",
        u64(1) + text("w") + u64(1) + tensor(3, 1, size=12) + b"abcdefghijkl" + u64(0, 0),
        ({"w": TENSOR}, {}),
    ),
    "a constant of no dimension": Case(
        "read_constants",
        u64(1) + text("w") + u64(1) + tensor(size=4) + b"abcd" + u64(0, 0),
        ({"w": ((2, 16, 2), [], b"abcd")}, {}),
    ),
    "an empty constant of 64 dimensions": Case(
        "read_constants",
        u64(1) + text("w") + u64(1) + tensor(*[0] * 64, size=0) + u64(0, 0),
        ({"w": ((2, 16, 2), [0] * 64, b"")}, {}),
    ),
    "the symbols": Case(
        "read_constants",
        u64(0, 0, 2) + text("f") + text("g") + u64(2, 0, 2) + text("") + text(""),
        ({}, {"f": [], "g": ["", ""]}),
    ),
    "symbols without names": Case(
        "read_constants", u64(0, 0, 1) + text("f") + u64(1, 0), ({}, {"f": []})
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_field_up_to_its_end(name: str) -> None:
    case = CASES[name]
    values = reader(case.data)
    assert getattr(values, case.method)() == case.value
    values.finish()
    more = reader(case.data + b"\0\0")
    getattr(more, case.method)()
    assert "2 more bytes follow the last field" in refusal(FormatError, more.finish)
    for end in range(len(case.data)):
        shorter = getattr(reader(case.data[:end]), case.method)
        assert refusal(FormatError, shorter).startswith("the bytes")


def with_tensor(data: bytes) -> bytes:
    return u64(1) + text("w") + u64(1) + data


@pytest.mark.parametrize(
    ("method", "data", "problem"),
    [
        ("read_fmap", u64(2) + bytes(15), "a count of 2, and 15 bytes are left"),
        ("read_shaders", u64(2) + bytes(31), "a count of 2, and 31 bytes are left"),
        ("read_fmap", u64(1, 0, 0, 2) + bytes(7), "a count of 2, and 7 bytes are left"),
        ("read_fmap", u64(1, 0, 0, 0, 2) + bytes(15), "a count of 2, and 15 bytes are left"),
        ("read_fmap", u64(1, 0, 0, 0, 0, 2) + bytes(7), "a count of 2, and 7 bytes are left"),
        ("read_constants", u64(2) + bytes(15), "a count of 2, and 15 bytes are left"),
        ("read_constants", u64(1, 0, 1) + bytes(43), "a count of 1, and 43 bytes are left"),
        ("read_constants", u64(0, 0, 1, 0, 1) + bytes(7), "a count of 1, and 7 bytes are left"),
        (
            "read_constants",
            u64(0, 0, 1, 0, 1, 2) + bytes(15),
            "a count of 2, and 15 bytes are left",
        ),
        ("read_constants", u64(1, 0, 0), "1 names and 0 tensors"),
        ("read_constants", u64(0, 0, 1, 0, 0), "1 init symbols, and names for 0"),
        (
            "read_constants",
            with_tensor(tensor(1, size=4, magic=1)),
            "a tensor does not begin with TVM's magic number and a zero",
        ),
        (
            "read_constants",
            with_tensor(tensor(1, size=4, zero=1)),
            "a tensor does not begin with TVM's magic number and a zero",
        ),
        (
            "read_constants",
            with_tensor(tensor(1, size=4, device=-2)),
            "a tensor has the device type -2, expected 1 (CPU)",
        ),
        (
            "read_constants",
            with_tensor(tensor(*[1] * 65, size=4)),
            "65 dimensions, expected 0 to 64",
        ),
        (
            "read_constants",
            with_tensor(tensor(1, size=4, ndim=-1)),
            "-1 dimensions, expected 0 to 64",
        ),
        (
            "read_constants",
            with_tensor(tensor(2, -1, size=4)),
            "the shape (2, -1) has a negative length",
        ),
        (
            "read_constants",
            with_tensor(tensor(2, 3, size=23)),
            "23 bytes for float16x2 of shape (2, 3), which takes 24",
        ),
        ("read_str", u64(2) + b"a\xff", "a string is not UTF-8"),
        ("read_bytes", u64(3) + b"ab", "expected 3 bytes, and 2 are left"),
    ],
)
def test_a_field_that_is_refused(method: str, data: bytes, problem: str) -> None:
    assert problem in refusal(FormatError, getattr(reader(data), method))


class Tensor(NamedTuple):
    """A constant to write."""

    dtype: tuple[int, int, int]
    shape: list[int]
    data: bytes


def test_constants_are_written_in_the_order_of_their_names() -> None:
    constants = {
        "w": Tensor((2, 16, 2), [3, 1], b"abcdefghijkl"),
        "b": Tensor((0, 8, 1), [2], b"xy"),
    }
    written = b"".join(constants_parts(constants, {"g": ["w", "b"], "f": []}))
    first = tensor(2, size=2, index=0).replace(b"\x02\x10\x02\x00", b"\x00\x08\x01\x00")
    assert written == (
        u64(2)
        + text("b")
        + text("w")
        + u64(2)
        + first
        + b"xy"
        + tensor(3, 1, size=12, index=0)
        + b"abcdefghijkl"
        + u64(2)
        + text("g")
        + text("f")
        + u64(2, 2)
        + text("w")
        + text("b")
        + u64(0)
    )


def test_a_module_is_written_with_its_fields() -> None:
    info = FunctionInfo("f", ["handle", "int32"], ["blockIdx.x"], [-3, 5])
    spec = cuda.SPEC
    written = b"".join(module_parts(spec, "ptx", "ptx", {"f": info}, b"code"))
    fields = u64(2) + b"\x03\x40\x01\x00\x00\x20\x01\x00" + u64(1) + text("blockIdx.x")
    extra = u64(2) + struct.pack("<2i", -3, 5)
    assert written == text("ptx") + u64(1) + text("f") * 2 + fields + extra + text("code")


@pytest.mark.parametrize(
    ("code", "names", "written"),
    [
        (b"k", "f", b"// Function: f\nk\n"),
        (b"k\n", "f", b"// Function: f\nk\n"),
        (
            b"k",
            "fg",
            b"// Function: f\n#ifndef DEVMOD_WHOLE_SOURCE\n#define DEVMOD_WHOLE_SOURCE\nk\n#endif\n"
            b"// Function: g\n#ifndef DEVMOD_WHOLE_SOURCE\n#define DEVMOD_WHOLE_SOURCE\nk\n#endif\n",
        ),
        (b"a// Function: g\nb// Function: f\nc", "fg", b"a// Function: g\nb// Function: f\nc"),
    ],
)
def test_opencl_c_has_a_part_for_each_function(code: bytes, names: str, written: bytes) -> None:
    infos = {name: FunctionInfo(name, ["handle"], ["blockIdx.x"]) for name in names}
    parts = module_parts(opencl.SPEC, "cl", "cl", infos, code)
    assert parts[-1] == written
    assert parts[-2] == u64(len(written))


@pytest.mark.parametrize(
    ("code", "names", "problem"),
    [
        (b"k", "", "it has no function"),
        (
            b"// Function: g\nk",
            "f",
            "its source has the lines '// Function: ' of 'g', and its functions are 'f'",
        ),
        (
            b"//devmod: -DN=2 -w\nk",
            "f",
            "it is built with the options '-DN=2 -w', and TVM builds OpenCL C without options",
        ),
    ],
)
def test_opencl_c_that_tvm_cannot_run(code: bytes, names: str, problem: str) -> None:
    infos = {name: FunctionInfo(name, ["handle"], ["blockIdx.x"]) for name in names}
    arguments = (opencl.SPEC, "cl", "cl", infos, code)
    expected = f"TVM cannot run the opencl module: {problem}"
    assert refusal(FormatError, module_parts, *arguments) == expected
