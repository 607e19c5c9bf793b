"""Arrays in the memory of the host, and their export by the buffer protocol, NumPy and DLPack."""

from __future__ import annotations

import gc
import io
import itertools
import math
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from each_case import refusal
from forked import python
from support import NUMBERS, SHAPES, needs_dlpack_1

import devmod
from devmod._arrays import dlpack
from devmod._arrays.host_array import HostArray


def host(array: np.ndarray[Any, Any], dtype: str = "") -> HostArray:
    return HostArray(array.tobytes(), array.shape, dtype or array.dtype.name)


@pytest.mark.row("R20")
@pytest.mark.parametrize(("dtype", "shape"), list(itertools.product(NUMBERS, SHAPES)))
def test_every_export_of_a_host_array(dtype: str, shape: tuple[int, ...]) -> None:
    expected = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    array = host(expected)
    for got in (array.numpy(), np.asarray(array), np.from_dlpack(array)):
        assert (got.dtype, got.shape) == (expected.dtype, shape)
        np.testing.assert_array_equal(got, expected)
        assert not got.flags.writeable
    view = memoryview(array)
    assert (view.shape, view.readonly, view.nbytes) == (shape, True, expected.nbytes)
    assert view.c_contiguous
    assert bytes(array) == expected.tobytes()
    assert (array.shape, array.dtype, array.ndim, array.size, array.nbytes) == (
        shape,
        dtype,
        len(shape),
        expected.size,
        expected.nbytes,
    )


@pytest.mark.row("R20")
def test_a_host_array_is_used_without_numpy() -> None:
    program = (
        "import sys, struct\n"
        "from devmod._arrays.host_array import HostArray\n"
        "a = HostArray(struct.pack('<6e', *range(6)), (2, 3), 'float16')\n"
        "v = memoryview(a)\n"
        "assert (v.format, v.shape, v.strides) == ('e', (2, 3), (6, 2)), v.format\n"
        "assert struct.unpack('<6e', bytes(v)) == (0, 1, 2, 3, 4, 5)\n"
        "a.__dlpack__(max_version=(1, 0))\n"
        "assert 'numpy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@needs_dlpack_1
def test_a_view_keeps_the_memory_and_the_memory_is_not_copied() -> None:
    data = bytearray(struct.pack("<4f", 1, 2, 3, 4))
    array = HostArray(memoryview(data), (4,), "float32")
    view, arrays = memoryview(array), [np.asarray(array), np.from_dlpack(array)]
    data[:4] = struct.pack("<f", 9)
    assert [each[0] for each in arrays] == [9, 9]
    assert view.cast("B")[:4] == data[:4]
    del array
    gc.collect()
    assert arrays[0].tolist() == [9, 2, 3, 4]
    with pytest.raises(BufferError):
        data.clear()
    view.release()
    del view, arrays
    gc.collect()
    data.clear()


@pytest.mark.parametrize(
    "write",
    [
        lambda array: io.BytesIO(b"1234").readinto(array),
        lambda array: struct.pack_into("<i", array, 0, 1),
        lambda array: memoryview(array).__setitem__(0, 1.0),
        lambda array: np.asarray(array).__setitem__(0, 1.0),
    ],
)
def test_a_host_array_cannot_be_written(write: Callable[[HostArray], object]) -> None:
    array = host(np.ones(4, "float32"))
    with pytest.raises((TypeError, BufferError, ValueError)):
        write(array)
    assert array.numpy().tolist() == [1, 1, 1, 1]


def test_a_memoryview_has_the_bits_of_types_unknown_to_the_buffer_protocol() -> None:
    assert np.asarray(HostArray(b"\x80\x3f\x00\x40", (2,), "bfloat16")).tolist() == [0x3F80, 0x4000]
    assert np.asarray(HostArray(b"\x38\x40", (2,), "float8_e4m3fn")).tolist() == [0x38, 0x40]
    assert memoryview(HostArray(bytes(32), (2,), "float32x4")).shape == (2, 4)
    assert HostArray(bytes(32), (2,), "float32x4").numpy().shape == (2, 4)


def test_bfloat16_in_numpy_with_ml_dtypes() -> None:
    pytest.importorskip("ml_dtypes")
    assert HostArray(b"\x80\x3f\x00\x40", (2,), "bfloat16").numpy().astype("float32").tolist() == [
        1.0,
        2.0,
    ]


def test_bfloat16_in_numpy_without_ml_dtypes() -> None:
    program = (
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "import devmod\n"
        "from devmod._arrays.host_array import HostArray\n"
        "try: HostArray(b'ab', (1,), 'bfloat16').numpy()\n"
        "except devmod.FormatError as error: print(error)\n"
    )
    done = python("-c", program)
    assert done.stdout == (
        "NumPy does not support bfloat16: pip install ml_dtypes, or read the bits of a host array with memoryview(array)\n"
    )


def test_a_slice_of_booleans_of_a_byte_each_begins_anywhere() -> None:
    array = HostArray(bytes((1, 0, 1, 1)), (4,), "uint1")
    assert array[1:3].data == bytes((0, 1))


def test_the_size_of_the_data_must_match_the_shape() -> None:
    assert (
        refusal(devmod.FormatError, HostArray, bytes(12), (2, 2), "float32")
        == "an array of shape (2, 2) and type float32 has 16 bytes, not 12"
    )


# -- DLPack


@needs_dlpack_1
@pytest.mark.row("R20")
def test_a_dlpack_capsule_is_read_only_and_frees_its_memory() -> None:
    before = len(dlpack._exported)
    array = host(np.arange(6, dtype="int32").reshape(2, 3))
    taken = np.from_dlpack(array)
    assert len(dlpack._exported) == before + 1
    assert not taken.flags.writeable
    copied = np.from_dlpack(array, copy=True)
    copied[:] = 0
    assert taken.tolist() == [[0, 1, 2], [3, 4, 5]]
    unused = (array.__dlpack__(), array.__dlpack__(max_version=(1, 0)))
    assert "dltensor_versioned" in repr(unused[1])
    assert len(dlpack._exported) == before + 4
    del taken, copied, unused
    gc.collect()
    np.from_dlpack(array)  # the next export frees unused capsules
    assert len(dlpack._exported) == before


@pytest.mark.parametrize(
    ("array", "error", "words"),
    [
        (
            HostArray(bytes(4), (2,), "bfloat16"),
            (RuntimeError, BufferError),
            "Unsupported dtype",
        ),  # by the version of NumPy
        (HostArray(b"", (0, 2**63 - 1), "float32"), ValueError, "array is too big"),
    ],
)
def test_the_error_of_a_dlpack_consumer_is_raised(
    array: HostArray, error: type[Exception] | tuple[type[Exception], ...], words: str
) -> None:
    """NumPy destroys the capsule while its exception is set. A destructor in Python would clear the
    exception (SystemError).
    """
    before = len(dlpack._exported)
    for _ in range(3):
        with pytest.raises(error, match=words):
            np.from_dlpack(array)
    gc.collect()
    assert len(dlpack._exported) <= before + 1


def test_a_consumer_of_old_dlpack_gets_a_copy() -> None:
    array = host(np.arange(3, dtype="int32"))

    class Adapter:
        def __dlpack__(self, **_: object) -> object:
            return array.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return array.__dlpack_device__()

    taken = np.from_dlpack(Adapter())
    assert taken.tolist() == [0, 1, 2]
    assert taken.ctypes.data != array.numpy().ctypes.data
    assert '"dltensor"' in repr(array.__dlpack__(max_version=(0, 8)))
    assert refusal(BufferError, array.__dlpack__, copy=False) == (
        "this array is read-only, which DLPack before version 1 cannot express: pass max_version=(1, 0), or allow a copy"
    )
    assert (
        refusal(BufferError, array.__dlpack__, max_version=(1, 0), dl_device=(2, 0))
        == "this array is in the memory of the host; it cannot be exported to the DLPack device (2, 0)"
    )


def test_a_dlpack_capsule_may_be_freed_at_interpreter_shutdown() -> None:
    program = (
        "import numpy as np\n"
        "from devmod._arrays.host_array import HostArray\n"
        "a = HostArray(b'abcd', (4,), 'int8')\n"
        "keep = [np.from_dlpack(a), np.asarray(a), a.__dlpack__(), memoryview(a)]\n"
        "import builtins; builtins.keep = keep\n"
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_repr() -> None:
    assert repr(host(np.zeros(2, "int8"))) == "<HostArray int8[2]>"
