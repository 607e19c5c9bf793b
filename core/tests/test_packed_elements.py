"""Arrays whose elements share bytes (int4, fp6, lanes of a bit): no view is longer than its memory,
for every type.
"""

from __future__ import annotations

import random

import msgpack
import numpy as np
import pytest

import devmod
from devmod._arrays.host_array import HostArray
from devmod._modules.const_loader import load_from_bytes as load_constants
from devmod._values.dtypes import array_bytes, dtype_name, is_packed, parse_dtype
from devmod.errors import FormatError

pytestmark = pytest.mark.row("R20")


def constant(dtype: list[int], shape: list[int], data: bytes) -> devmod.Array:
    """Return the constant `w` of a file."""
    wire = msgpack.packb({"w": [dtype, shape, data]}) + msgpack.packb({})
    return load_constants(memoryview(wire)).get_global("w")


def test_lanes_of_a_bit_have_no_buffer() -> None:
    array = constant([0, 1, 65528], [1], bytes(8191))
    assert array.nbytes == 8191
    with pytest.raises((BufferError, TypeError)):
        memoryview(array)


def test_numpy_refuses_an_unsupported_type() -> None:
    with pytest.raises(FormatError, match=r"^NumPy does not support int3: read the bits "):
        constant([0, 3, 8], [2], bytes(6)).numpy()


def test_lanes_of_an_unsigned_bit_are_unpacked_for_numpy() -> None:
    array = constant([1, 1, 64], [3], bytes(range(24)))
    expected = (
        np.unpackbits(np.arange(24, dtype=np.uint8), bitorder="little").astype(bool).reshape(3, 64)
    )
    assert np.array_equal(array.numpy(), expected)
    assert np.array_equal(np.asarray(array), expected)
    assert not array.numpy().flags.writeable


@pytest.mark.parametrize(
    ("dtype", "data", "expected"),
    [
        ("int4", b"\x1f\x08", [-1, 1, -8]),
        ("uint4", b"\x1f\x08", [15, 1, 8]),
        ("float4_e2m1fn", b"\x97\x01", [6.0, -0.5, 0.5]),
    ],
)
def test_elements_of_four_bits(dtype: str, data: bytes, expected: list[float]) -> None:
    array = HostArray(data, (3,), dtype)
    pytest.importorskip("ml_dtypes", reason="NumPy has no elements of four bits without ml_dtypes")
    assert array.numpy().tolist() == expected
    module = devmod.const_loader({"w": array.numpy()}, {})
    assert bytes(load_constants(memoryview(module.save_to_bytes())).get_global("w").data) == data  # type: ignore[attr-defined]


def test_packed_elements_have_no_dlpack_capsule() -> None:
    with pytest.raises(
        BufferError,
        match=r"^elements of int4 end within a byte, which not all DLPack consumers can read; unpack them with array\.numpy\(\)$",
    ):
        HostArray(b"\0", (2,), "int4").__dlpack__()


def test_every_type_has_one_size() -> None:
    """A view has exactly the bytes of its memory, or an error is raised."""
    rng = random.Random(8)
    codes = [*range(18), 200]
    for _ in range(3000):
        dtype = (
            rng.choice(codes),
            rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 64, 80, 96, 128, 255]),
            rng.choice([0, 1, 2, 3, 8, 64, 1000]),
        )
        name = dtype_name(dtype)
        shape = tuple(rng.choice([0, 1, 2, 5]) for _ in range(rng.randrange(4)))
        array = HostArray(bytes(array_bytes(parse_dtype(name), shape)), shape, name)
        try:
            assert memoryview(array).nbytes == array.nbytes
        except (BufferError, TypeError):
            assert is_packed(parse_dtype(name)) or not parse_dtype(name)[1]
        try:
            made = array.numpy()
        except FormatError:
            continue
        assert made.nbytes == array.nbytes or is_packed(parse_dtype(name))
