"""Arrays on the host and on a device, streams and events, and how devices are found."""

from __future__ import annotations

import gc
import io
import itertools
import math
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import toy_backend as toy
from support import needs_dlpack_1

import devmod
from devmod._arrays import dlpack
from devmod._arrays.host_array import HostArray
from devmod._values.dtypes import ConversionError
from devmod_runtime._launch.scalars import packer


@pytest.fixture(autouse=True)
def devices() -> Iterator[list[toy.ToyDevice]]:
    with toy.fresh_devices() as made:
        yield made


def host(array: np.ndarray[Any, Any], dtype: str = "") -> HostArray:
    return HostArray(array.tobytes(), array.shape, dtype or array.dtype.name)


NUMBERS = [
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bool",
    "complex64",
    "complex128",
]
SHAPES: list[tuple[int, ...]] = [(), (4,), (2, 3), (3, 0, 2), (0,), (2, 1, 2, 2)]


# -- streams


def test_the_default_batch_launches_one_by_one(devices: list[toy.ToyDevice]) -> None:
    stream = devices[0].stream()
    with stream.batch(), stream.batch():
        stream.wait(stream.record())
    assert [what for what, _ in stream.queued] == ["wait"]


# -- host arrays


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
    assert (array.shape, array.dtype, array.ndim, array.size, array.nbytes) == (shape, dtype, len(shape), expected.size, expected.nbytes)


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
    assert HostArray(b"\x80\x3f\x00\x40", (2,), "bfloat16").numpy().astype("float32").tolist() == [1.0, 2.0]


def test_bfloat16_in_numpy_without_ml_dtypes() -> None:
    program = (
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "import devmod\n"
        "from devmod._arrays.host_array import HostArray\n"
        "try: HostArray(b'ab', (1,), 'bfloat16').numpy()\n"
        "except devmod.FormatError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "NumPy does not support bfloat16: pip install ml_dtypes, or read the bits of a host array with memoryview(array)\n"
    )


def test_the_size_of_the_data_must_match_the_shape() -> None:
    with pytest.raises(devmod.FormatError) as caught:
        HostArray(bytes(12), (2, 2), "float32")
    assert str(caught.value) == "an array of shape (2, 2) and type float32 has 16 bytes, not 12"


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
        (HostArray(bytes(4), (2,), "bfloat16"), (RuntimeError, BufferError), "Unsupported dtype"),  # by the version of NumPy
        (HostArray(b"", (0, 2**63 - 1), "float32"), ValueError, "array is too big"),
    ],
)
def test_the_error_of_a_dlpack_consumer_is_raised(
    array: HostArray, error: type[Exception] | tuple[type[Exception], ...], words: str
) -> None:
    """NumPy destroys the capsule while its exception is set. A destructor in Python would clear the exception (SystemError)."""
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
    with pytest.raises(BufferError) as caught:
        array.__dlpack__(copy=False)
    assert str(caught.value) == (
        "this array is read-only, which DLPack before version 1 cannot express: pass max_version=(1, 0), or allow a copy"
    )
    with pytest.raises(BufferError) as caught:
        array.__dlpack__(max_version=(1, 0), dl_device=(2, 0))
    assert str(caught.value) == "this array is in the memory of the host; it cannot be exported to the DLPack device (2, 0)"


def test_a_dlpack_capsule_may_be_freed_at_interpreter_shutdown() -> None:
    program = (
        "import numpy as np\n"
        "from devmod._arrays.host_array import HostArray\n"
        "a = HostArray(b'abcd', (4,), 'int8')\n"
        "keep = [np.from_dlpack(a), np.asarray(a), a.__dlpack__(), memoryview(a)]\n"
        "import builtins; builtins.keep = keep\n"
    )
    done = subprocess.run([sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@needs_dlpack_1
def test_dlpack_exports_a_device_array_as_a_copy_on_the_host(devices: list[toy.ToyDevice]) -> None:
    array = devices[0].from_numpy(np.arange(3, dtype="float32"))
    assert array.__dlpack_device__() == (12, 0)
    with pytest.raises(BufferError) as caught:
        array.__dlpack__()
    assert str(caught.value) == (
        "this array is in the memory of toy device 0 (toy number 0), which DLPack consumers cannot use; request a copy on the host "
        "(dl_device=(1, 0), as numpy.from_dlpack(array, device='cpu') does), or call .numpy()"
    )
    assert np.from_dlpack(array, device="cpu").tolist() == [0, 1, 2]


# -- device arrays


@pytest.mark.parametrize(("dtype", "shape"), list(itertools.product(NUMBERS, SHAPES)))
def test_from_numpy_and_back(dtype: str, shape: tuple[int, ...], devices: list[toy.ToyDevice]) -> None:
    expected = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    array = devices[0].from_numpy(expected)
    assert isinstance(array, devmod.Array)
    assert (array.dtype, array.shape, array.nbytes) == (dtype, shape, expected.nbytes)
    got = array.numpy()
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


def test_from_numpy_accepts_what_asarray_accepts(devices: list[toy.ToyDevice]) -> None:
    assert devices[0].from_numpy(np.arange(12).reshape(3, 4)[:, ::2]).numpy().tolist() == [[0, 2], [4, 6], [8, 10]]
    assert devices[0].from_numpy([1, 2]).numpy().tolist() == [1, 2]  # type: ignore[arg-type]
    assert devices[0].from_numpy(np.zeros(2, "i4,f4")).dtype == "uint8x8"
    constant = HostArray(b"\x80\x3f", (1,), "bfloat16")
    assert devices[0].from_numpy(constant).dtype == "bfloat16"  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [np.array(["a"]), np.array([None]), np.array(["2020"], "M8[s]")])
def test_from_numpy_refuses_unsupported_element_types(value: Any, devices: list[toy.ToyDevice]) -> None:
    with pytest.raises(devmod.ArgumentError) as caught:
        devices[0].from_numpy(value)
    assert str(caught.value) == (
        f"from_numpy: the array has elements of an unsupported type: no device supports elements of type {value.dtype}"
    )


@pytest.mark.parametrize("dtype", [">f4", [("a", "<i4"), ("b", ">f4")]])
def test_the_error_for_another_byte_order_has_the_conversion(dtype: Any, devices: list[toy.ToyDevice]) -> None:
    value = np.ones(1, dtype)
    with pytest.raises(devmod.ArgumentError) as caught:
        devices[0].from_numpy(value)
    assert str(caught.value) == (
        f"from_numpy: the array has elements of an unsupported type: {value.dtype} has another byte order than this machine; "
        "pass array.astype(array.dtype.newbyteorder('='))"
    )
    turned = devices[0].from_numpy(value.astype(value.dtype.newbyteorder("=")))
    assert turned.nbytes == value.nbytes


def test_numpy_refuses_a_device_array(devices: list[toy.ToyDevice]) -> None:
    array = devices[0].from_numpy(np.ones(2, "float32"))
    text = f"this array is in the memory of {devices[0]}, and NumPy does not copy it to the host; call .numpy()"
    for use in (np.asarray, np.sum, lambda value: np.ones(2) + value):
        with pytest.raises(TypeError) as caught:
            use(array)
        assert str(caught.value) == text
    with pytest.raises(devmod.ArgumentError) as refused:
        devices[1].from_numpy(array)  # type: ignore[arg-type]
    assert str(refused.value) == f"from_numpy takes an array of numbers: {text}"
    with pytest.raises(devmod.ArgumentError, match=r"^from_numpy takes an array of numbers: setting an array element with a sequence"):
        devices[0].from_numpy([[1], [1, 2]])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "dtype", "lengths", "name"),
    [
        (3, "float32", (3,), "float32"),
        ((2, np.int64(3)), np.float16, (2, 3), "float16"),
        ([0], "float32x4", (0,), "float32x4"),
        ((), "bool", (), "bool"),
    ],
)
def test_empty(shape: Any, dtype: Any, lengths: tuple[int, ...], name: str, devices: list[toy.ToyDevice]) -> None:
    array = devices[0].empty(shape, dtype)
    assert (array.shape, array.dtype) == (lengths, name)


@pytest.mark.parametrize(
    ("shape", "dtype", "text"),
    [
        (-1, "float32", "-1 is not a shape; a shape is a length, or a tuple of lengths, from 0 up"),
        ((2, 1.5), "float32", "(2, 1.5) is not a shape; a shape is a length, or a tuple of lengths, from 0 up"),
        ("3", "float32", "'3' is not a shape; a shape is a length, or a tuple of lengths, from 0 up"),
        (3, "float33x", "'float33x' is not an element type; use a name such as 'float32', or a NumPy dtype"),
        (3, object(), None),
        (3, "U4", "'U4' is not an element type; use a name such as 'float32', or a NumPy dtype"),
    ],
)
def test_empty_refuses_invalid_shapes_and_types(shape: Any, dtype: Any, text: str | None, devices: list[toy.ToyDevice]) -> None:
    with pytest.raises(devmod.ArgumentError) as caught:
        devices[0].empty(shape, dtype)
    assert str(caught.value) == (text or f"{dtype!r} is not an element type; use a name such as 'float32', or a NumPy dtype")


@pytest.mark.parametrize(("free", "report"), [(None, ""), (1000, "; 1000 bytes are free")])
def test_the_error_for_too_little_memory(
    free: int | None, report: str, devices: list[toy.ToyDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices[0], "free_memory", lambda: free)
    kept = devices[0].from_numpy(np.ones(4, "float32"))
    with pytest.raises(devmod.DeviceMemoryError) as caught:
        devices[0].empty(1 << 40, "float64")
    assert str(caught.value) == f"toy device 0 (toy number 0) cannot allocate {8 << 40} bytes: it has one MiB{report}"
    assert (caught.value.requested, caught.value.free, caught.value.kind) == (8 << 40, free, "toy")
    assert isinstance(caught.value, devmod.LaunchError)
    assert kept.numpy().tolist() == [1, 1, 1, 1]
    assert devices[0].zeros(4, "int8").numpy().tolist() == [0, 0, 0, 0]


def test_reading_an_array_raises_the_fault_of_a_kernel(devices: list[toy.ToyDevice]) -> None:
    array = devices[0].from_numpy(np.ones(2, "float32"))
    devices[0].default_stream.fault = "out of bounds"
    with pytest.raises(devmod.LaunchError) as caught:
        array.numpy()
    assert str(caught.value) == "toy device 0 (toy number 0) reports a fault of a launch: out of bounds"
    assert array.numpy().tolist() == [1, 1]
    devices[0].stream().fault = "elsewhere"
    with pytest.raises(devmod.LaunchError, match="elsewhere"):
        array.numpy()


def test_repr_of_arrays_and_devices(devices: list[toy.ToyDevice]) -> None:
    assert repr(devices[1].empty((2, 3), "float32")) == "<Array float32[2, 3] on toy device 1 (toy number 1)>"
    assert repr(host(np.zeros(2, "int8"))) == "<HostArray int8[2]>"
    assert len(devices[0].empty((2, 3), "int8")) == 2


# -- finding devices


def test_devices_are_found_by_kind_and_number(register: Callable[..., None], devices: list[toy.ToyDevice]) -> None:
    register("devmod.device", "toy", lambda: toy.DEVICES)
    assert devmod.device("toy") is devices[0]
    assert devmod.device("toy", 1) is devices[1]
    assert devmod.devices() == devices
    for index in (2, -1, "0", 1.0):
        with pytest.raises(devmod.DeviceNotFoundError) as caught:
            devmod.device("toy", index)  # type: ignore[arg-type]
        assert str(caught.value) == f"there is no toy device {index!r}; there are: 0 toy number 0; 1 toy number 1"


def test_devices_are_ordered_by_kind(register: Callable[..., None], devices: list[toy.ToyDevice]) -> None:
    other = toy.ToyDevice(0)
    other.kind = "another"
    register("devmod.device", "toy", lambda: toy.DEVICES)
    register("devmod.device", "another", lambda: other)
    assert devmod.devices() == [other, *devices]


def test_a_kind_may_include_the_number_of_the_device(register: Callable[..., None], devices: list[toy.ToyDevice]) -> None:
    register("devmod.device", "toy", lambda: toy.DEVICES)
    assert (devmod.device("toy:0"), devmod.device("toy:1")) == (devices[0], devices[1])
    with pytest.raises(devmod.DeviceNotFoundError) as missing:
        devmod.device("toy:2")
    assert str(missing.value) == "there is no toy device 2; there are: 0 toy number 0; 1 toy number 1"
    for kind, index, text in (
        ("toy:one", None, "device('toy:one'): expected a number from 0 behind the colon, as in 'toy:0'"),
        ("toy:", None, "device('toy:'): expected a number from 0 behind the colon, as in 'toy:0'"),
        ("toy:0", 1, "device('toy:0', 1) gives two numbers; write device('toy', 1)"),
        ("toy:1", 0, "device('toy:1', 0) gives two numbers; write device('toy', 0)"),
    ):
        with pytest.raises(devmod.ArgumentError) as caught:
            devmod.device(kind, index)
        assert str(caught.value) == text


@pytest.mark.row("R4")
def test_a_device_of_a_runtime_that_is_not_installed() -> None:
    with pytest.raises(devmod.NotRegisteredError) as caught:
        devmod.device("cuda")
    assert "devmod.device.cuda" in str(caught.value)
    assert "pip install devmod-cuda" in str(caught.value)


@pytest.mark.row("R8")
def test_devices_of_other_kinds_are_found_beside_a_broken_one(register: Callable[..., None], devices: list[toy.ToyDevice]) -> None:
    def missing() -> list[devmod.Device]:
        raise devmod.DeviceNotFoundError("no driver", kind="tin")

    register("devmod.device", "tin", missing)
    register("devmod.device", "toy", lambda: toy.DEVICES)
    assert devmod.devices() == devices
    register("devmod.device", "wood", lambda: [3])
    with pytest.warns(RuntimeWarning) as warned:
        assert devmod.devices() == devices
    text = "devmod.device.wood is broken: the function registered in this process returned int, not a sequence of devmod.Device"
    assert [str(each.message) for each in warned] == [text]
    with pytest.raises(devmod.PluginError) as caught:
        devmod.device("wood")
    assert str(caught.value) == text


# -- rounding, against every value of a type


#: Exponent bits, mantissa bits, bias, and how many of the highest codes are not finite numbers, by the types' definitions.
SMALL = {
    "bfloat16": (8, 7, 127, 128),
    "float8_e3m4": (3, 4, 3, 16),
    "float8_e4m3": (4, 3, 7, 8),
    "float8_e4m3b11fnuz": (4, 3, 11, 0),
    "float8_e4m3fn": (4, 3, 7, 1),
    "float8_e4m3fnuz": (4, 3, 8, 0),
    "float8_e5m2": (5, 2, 15, 4),
    "float8_e5m2fnuz": (5, 2, 16, 0),
    "float6_e2m3fn": (2, 3, 1, 0),
    "float6_e3m2fn": (3, 2, 3, 0),
    "float4_e2m1fn": (2, 1, 1, 0),
}
#: The greatest number of each, as published.
GREATEST = {
    "float8_e3m4": 15.5,
    "float8_e4m3": 240.0,
    "float8_e4m3b11fnuz": 30.0,
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
    "float6_e2m3fn": 7.5,
    "float6_e3m2fn": 28.0,
    "float4_e2m1fn": 6.0,
}


@pytest.mark.parametrize("name", SMALL)
def test_small_floats_are_rounded_to_nearest_even(name: str) -> None:
    exponent_bits, mantissa_bits, bias, above = SMALL[name]
    body = exponent_bits + mantissa_bits

    def value_of(code: int) -> float:
        exponent, mantissa = code >> mantissa_bits, code & (1 << mantissa_bits) - 1
        if exponent == 0:
            return math.ldexp(mantissa, 1 - bias - mantissa_bits)
        return math.ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits)

    def code_of(value: float) -> int:
        return int.from_bytes(pack(value), "little")

    pack = packer(name)
    order = [(value_of(code), code) for code in range((1 << body) - above)]
    assert order[-1][0] == GREATEST.get(name, order[-1][0])
    for value, code in order:
        assert code_of(value) == code
        if value:
            assert code_of(-value) == code | 1 << body
    for (low, low_code), (high, high_code) in itertools.pairwise(order):
        middle = (low + high) / 2
        assert code_of(middle) == (low_code if low_code % 2 == 0 else high_code)
        assert code_of(math.nextafter(middle, 0)) == low_code
        assert code_of(math.nextafter(middle, math.inf)) == high_code
    with pytest.raises(ConversionError):
        pack(order[-1][0] * 1.5)


def test_float8_e8m0fnu_is_powers_of_two() -> None:
    pack = packer("float8_e8m0fnu")
    assert [pack(value)[0] for value in (1.0, 2.0, 0.5, 2.0**127, 2.0**-127, 1.49, 1.51, math.nan)] == [
        127,
        128,
        126,
        254,
        0,
        127,
        128,
        255,
    ]
    for value in (0.0, -1.0, math.inf, 2.0**128):
        with pytest.raises(ConversionError):
            pack(value)


@pytest.mark.parametrize(
    ("name", "code"), [("bfloat16", 0x7FC0), ("float8_e4m3fn", 0x7F), ("float8_e5m2fnuz", 0x80), ("float8_e5m2", 0x7E)]
)
def test_nan_has_its_code(name: str, code: int) -> None:
    assert int.from_bytes(packer(name)(math.nan), "little") == code
