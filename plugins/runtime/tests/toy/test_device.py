"""Arrays on a device, streams and events, how devices are found, and how small floats are
rounded.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import toy_backend as toy
from each_case import raised, refusal
from support import NUMBERS, SHAPES, needs_dlpack_1

import devmod
from devmod._arrays.host_array import HostArray
from devmod._values.dtypes import ConversionError
from devmod_runtime import check_earlier_event, check_event
from devmod_runtime._launch.scalars import packer

# -- streams


def test_the_default_batch_launches_one_by_one(devices: list[toy.ToyDevice]) -> None:
    stream = devices[0].stream()
    with stream.batch(), stream.batch():
        stream.wait(stream.record())
    assert [what for what, _ in stream.queued] == ["wait"]


# -- device arrays


@needs_dlpack_1
def test_dlpack_exports_a_device_array_as_a_copy_on_the_host(devices: list[toy.ToyDevice]) -> None:
    array = devices[0].from_numpy(np.arange(3, dtype="float32"))
    assert array.__dlpack_device__() == (12, 0)
    assert refusal(BufferError, array.__dlpack__) == (
        "this array is in the memory of toy device 0 (toy number 0), which DLPack consumers cannot use; request a copy on the host "
        "(dl_device=(1, 0), as numpy.from_dlpack(array, device='cpu') does), or call .numpy()"
    )
    assert np.from_dlpack(array, device="cpu").tolist() == [0, 1, 2]


@pytest.mark.parametrize(("dtype", "shape"), list(itertools.product(NUMBERS, SHAPES)))
def test_from_numpy_and_back(
    dtype: str, shape: tuple[int, ...], devices: list[toy.ToyDevice]
) -> None:
    expected = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    array = devices[0].from_numpy(expected)
    assert isinstance(array, devmod.Array)
    assert (array.dtype, array.shape, array.nbytes) == (dtype, shape, expected.nbytes)
    got = array.numpy()
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


def test_from_numpy_accepts_what_asarray_accepts(devices: list[toy.ToyDevice]) -> None:
    assert devices[0].from_numpy(np.arange(12).reshape(3, 4)[:, ::2]).numpy().tolist() == [
        [0, 2],
        [4, 6],
        [8, 10],
    ]
    assert devices[0].from_numpy([1, 2]).numpy().tolist() == [1, 2]  # type: ignore[arg-type]
    assert devices[0].from_numpy(np.zeros(2, "i4,f4")).dtype == "uint8x8"
    constant = HostArray(b"\x80\x3f", (1,), "bfloat16")
    assert devices[0].from_numpy(constant).dtype == "bfloat16"  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [np.array(["a"]), np.array([None]), np.array(["2020"], "M8[s]")])
def test_from_numpy_refuses_unsupported_element_types(
    value: Any, devices: list[toy.ToyDevice]
) -> None:
    assert refusal(devmod.ArgumentError, devices[0].from_numpy, value) == (
        f"from_numpy: the array has elements of an unsupported type: no device supports elements of type {value.dtype}"
    )


@pytest.mark.parametrize("dtype", [">f4", [("a", "<i4"), ("b", ">f4")]])
def test_the_error_for_another_byte_order_has_the_conversion(
    dtype: Any, devices: list[toy.ToyDevice]
) -> None:
    value = np.ones(1, dtype)
    assert refusal(devmod.ArgumentError, devices[0].from_numpy, value) == (
        f"from_numpy: the array has elements of an unsupported type: {value.dtype} has another byte order than this machine; "
        "pass array.astype(array.dtype.newbyteorder('='))"
    )
    turned = devices[0].from_numpy(value.astype(value.dtype.newbyteorder("=")))
    assert turned.nbytes == value.nbytes


def test_numpy_refuses_a_device_array(devices: list[toy.ToyDevice]) -> None:
    array = devices[0].from_numpy(np.ones(2, "float32"))
    text = f"this array is in the memory of {devices[0]}, and NumPy does not copy it to the host; call .numpy()"
    for use in (np.asarray, np.sum, lambda value: np.ones(2) + value):
        assert refusal(TypeError, use, array) == text
    message = refusal(devmod.ArgumentError, devices[1].from_numpy, array)
    assert message == f"from_numpy takes an array of numbers: {text}"
    with pytest.raises(
        devmod.ArgumentError,
        match=r"^from_numpy takes an array of numbers: setting an array element with a sequence",
    ):
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
def test_empty(
    shape: Any, dtype: Any, lengths: tuple[int, ...], name: str, devices: list[toy.ToyDevice]
) -> None:
    array = devices[0].empty(shape, dtype)
    assert (array.shape, array.dtype) == (lengths, name)


@pytest.mark.parametrize(
    ("dtype", "nbytes"),
    [
        *(("int4", 3), ("uint1", 5), ("uint1x8", 5), ("float16x3", 30), ("complex32", 20)),
        *(("bfloat16", 10), ("uint128", 80), ("float8_e5m2", 5), ("float128", 80), ("bool", 5)),
    ],
)
def test_empty_takes_types_that_numpy_lacks(
    dtype: str, nbytes: int, devices: list[toy.ToyDevice]
) -> None:
    array = devices[0].empty(5, dtype)
    assert (array.dtype, array.nbytes) == (dtype, nbytes)


@pytest.mark.parametrize(
    ("shape", "dtype", "text"),
    [
        (-1, "float32", "-1 is not a shape; a shape is a length, or a tuple of lengths, from 0 up"),
        (
            (2, 1.5),
            "float32",
            "(2, 1.5) is not a shape; a shape is a length, or a tuple of lengths, from 0 up",
        ),
        (
            "3",
            "float32",
            "'3' is not a shape; a shape is a length, or a tuple of lengths, from 0 up",
        ),
        (
            3,
            "float33x",
            "'float33x' is not an element type; use a name such as 'float32', or a NumPy dtype",
        ),
        *((3, each, None) for each in ("float33", "float0", "int7x4", "bfloat32", "complex16")),
        (3, object(), None),
        (3, "U4", "'U4' is not an element type; use a name such as 'float32', or a NumPy dtype"),
    ],
)
def test_empty_refuses_invalid_shapes_and_types(
    shape: Any, dtype: Any, text: str | None, devices: list[toy.ToyDevice]
) -> None:
    assert refusal(devmod.ArgumentError, devices[0].empty, shape, dtype) == (
        text or f"{dtype!r} is not an element type; use a name such as 'float32', or a NumPy dtype"
    )


@pytest.mark.parametrize(("free", "report"), [(None, ""), (1000, "; 1000 bytes are free")])
def test_the_error_for_too_little_memory(
    free: int | None, report: str, devices: list[toy.ToyDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices[0], "free_memory", lambda: free)
    kept = devices[0].from_numpy(np.ones(4, "float32"))
    error = raised(devmod.DeviceMemoryError, devices[0].empty, 1 << 40, "float64")
    assert (
        str(error)
        == f"toy device 0 (toy number 0) cannot allocate {8 << 40} bytes: it has one MiB{report}"
    )
    assert (error.requested, error.free, error.kind) == (8 << 40, free, "toy")
    assert isinstance(error, devmod.LaunchError)
    assert kept.numpy().tolist() == [1, 1, 1, 1]
    assert devices[0].zeros(4, "int8").numpy().tolist() == [0, 0, 0, 0]


def test_reading_an_array_raises_the_fault_of_a_kernel(devices: list[toy.ToyDevice]) -> None:
    array = devices[0].from_numpy(np.ones(2, "float32"))
    devices[0].default_stream.fault = "out of bounds"
    assert (
        refusal(devmod.LaunchError, array.numpy)
        == "toy device 0 (toy number 0) reports a fault of a launch: out of bounds"
    )
    assert array.numpy().tolist() == [1, 1]
    devices[0].stream().fault = "elsewhere"
    with pytest.raises(devmod.LaunchError, match="elsewhere"):
        array.numpy()


def test_repr_of_arrays_and_devices(devices: list[toy.ToyDevice]) -> None:
    assert (
        repr(devices[1].empty((2, 3), "float32"))
        == "<Array float32[2, 3] on toy device 1 (toy number 1)>"
    )
    assert len(devices[0].empty((2, 3), "int8")) == 2


# -- finding devices


def test_devices_are_found_by_kind_and_number(
    register: Callable[..., None], devices: list[toy.ToyDevice]
) -> None:
    register("devmod.device", "toy", lambda: toy.DEVICES)
    assert devmod.device("toy") is devices[0]
    assert devmod.device("toy", 1) is devices[1]
    assert devmod.devices() == devices
    for index in (2, -1, "0", 1.0):
        text = refusal(devmod.DeviceNotFoundError, devmod.device, "toy", index)
        assert (
            text == f"there is no toy device {index!r}; there are: 0 toy number 0; 1 toy number 1"
        )


def test_devices_are_ordered_by_kind(
    register: Callable[..., None], devices: list[toy.ToyDevice]
) -> None:
    other = toy.ToyDevice(0)
    other.kind = "another"
    register("devmod.device", "toy", lambda: toy.DEVICES)
    register("devmod.device", "another", lambda: other)
    assert devmod.devices() == [other, *devices]


def test_the_devices_of_some_kinds_load_no_other_driver(
    register: Callable[..., None], devices: list[toy.ToyDevice]
) -> None:
    register("devmod.device", "toy", lambda: toy.DEVICES)
    register("devmod.device", "another", lambda: pytest.fail("its driver is loaded"))
    assert devmod.devices("toy") == devices
    assert devmod.devices("toy", "metal") == devices
    for kind, problem in (
        ("toyy", "unknown kind 'toyy'. Did you mean 'toy'?"),
        (["toy"], "expected kinds, got ['toy']"),
    ):
        text = refusal(devmod.ArgumentError, devmod.devices, kind)
        assert text == f"devices: {problem}"


def test_the_errors_about_events_of_others_have_these_words(devices: list[toy.ToyDevice]) -> None:
    device = devices[0]
    for check, text in (
        (check_event, f"a stream of {device} cannot wait for 3, which is not an event of kind toy"),
        (check_earlier_event, f"elapsed takes an event of {device}, not 3"),
    ):
        message = refusal(devmod.ArgumentError, check, 3, toy.ToyEvent, device)
        assert message == text


def test_a_kind_may_include_the_number_of_the_device(
    register: Callable[..., None], devices: list[toy.ToyDevice]
) -> None:
    register("devmod.device", "toy", lambda: toy.DEVICES)
    assert (devmod.device("toy:0"), devmod.device("toy:1")) == (devices[0], devices[1])
    assert (
        refusal(devmod.DeviceNotFoundError, devmod.device, "toy:2")
        == "there is no toy device 2; there are: 0 toy number 0; 1 toy number 1"
    )
    for kind, index, text in (
        (
            "toy:one",
            None,
            "device('toy:one'): expected a number from 0 behind the colon, as in 'toy:0'",
        ),
        ("toy:", None, "device('toy:'): expected a number from 0 behind the colon, as in 'toy:0'"),
        ("toy:0", 1, "device('toy:0', 1) gives two numbers; write device('toy', 1)"),
        ("toy:1", 0, "device('toy:1', 0) gives two numbers; write device('toy', 0)"),
    ):
        assert refusal(devmod.ArgumentError, devmod.device, kind, index) == text


@pytest.mark.row("R4")
def test_a_device_of_a_runtime_that_is_not_installed() -> None:
    text = refusal(devmod.NotRegisteredError, devmod.device, "cuda")
    assert "devmod.device.cuda" in text
    assert "pip install devmod-cuda" in text


@pytest.mark.row("R8")
def test_devices_of_other_kinds_are_found_beside_a_broken_one(
    register: Callable[..., None], devices: list[toy.ToyDevice]
) -> None:
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
    assert refusal(devmod.PluginError, devmod.device, "wood") == text


# -- rounding, against every value of a type


#: Exponent bits, mantissa bits, bias, and how many of the highest codes are not finite numbers, by
#: the types' definitions.
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
    assert [
        pack(value)[0] for value in (1.0, 2.0, 0.5, 2.0**127, 2.0**-127, 1.49, 1.51, math.nan)
    ] == [
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
    ("name", "code"),
    [
        ("bfloat16", 0x7FC0),
        ("float8_e4m3fn", 0x7F),
        ("float8_e5m2fnuz", 0x80),
        ("float8_e5m2", 0x7E),
    ],
)
def test_nan_has_its_code(name: str, code: int) -> None:
    assert int.from_bytes(packer(name)(math.nan), "little") == code
