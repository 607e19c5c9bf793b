"""Views of arrays, and copies between arrays."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import toy_backend as toy
from each_case import raised, refusal
from support import needs_dlpack_1

import devmod
from devmod._arrays.host_array import HostArray
from devmod_runtime._device.device_array import DeviceArray

LABEL = "toy device 0 (toy number 0)"


@pytest.fixture
def device(devices: list[toy.ToyDevice]) -> toy.ToyDevice:
    return devices[0]


def counted(device: devmod.Device, *shape: int, dtype: str = "float32") -> Any:
    return device.from_numpy(np.arange(np.prod(shape), dtype=dtype).reshape(shape))


class OtherDevice(toy.ToyDevice):
    kind = "other"


def double(_: object, memory: Any) -> None:
    toy.floats(memory)[:] *= 2


MODULE = {"double": devmod.FunctionInfo("double", ["handle"], ["blockIdx.x", "threadIdx.x"])}


# -- views


def test_a_slice_is_a_view_of_the_first_axis(device: toy.ToyDevice) -> None:
    array = counted(device, 8, 4)
    view = array[4:6]
    assert (view.shape, view.dtype, view.nbytes, view.device) == ((2, 4), "float32", 32, device)
    np.testing.assert_array_equal(view.numpy(), array.numpy()[4:6])
    view.copy_from(np.zeros((2, 4), "float32"))
    assert array.numpy()[3:7].sum(axis=1).tolist() == [54, 0, 0, 102]
    assert device.allocated == [128]


@pytest.mark.parametrize(
    ("key", "rows"),
    [
        (slice(None), slice(0, 8)),
        (slice(None, 3), slice(0, 3)),
        (slice(5, None), slice(5, 8)),
        (slice(-3, -1), slice(5, 7)),
        (slice(-8, 8), slice(0, 8)),
        (slice(np.int64(2), None), slice(2, 8)),
        (slice(2, 2), slice(2, 2)),
        (slice(8, 8), slice(8, 8)),
        (slice(1, 4, 1), slice(1, 4)),
    ],
)
def test_bounds_are_those_of_python(key: slice, rows: slice, device: toy.ToyDevice) -> None:
    expected = np.arange(16, dtype="float32").reshape(8, 2)
    for array in (device.from_numpy(expected), HostArray(expected.tobytes(), (8, 2), "float32")):
        np.testing.assert_array_equal(array[key].numpy(), expected[rows])


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (slice(0, 9), "the slice ends at 9, outside of the first axis, which has 8"),
        (slice(9, None), "the slice begins at 9, outside of the first axis, which has 8"),
        (slice(-9, None), "the slice begins at -9, outside of the first axis, which has 8"),
        (slice(5, 2), "the slice begins at 5 and ends before it, at 2"),
        (
            slice(0, 8, 2),
            "a slice of an array has no step, got 2; copy the elements: array.numpy()[start:stop:step]",
        ),
        (
            slice(None, None, -1),
            "a slice of an array has no step, got -1; copy the elements: array.numpy()[start:stop:step]",
        ),
        (slice("a", None), "the bounds of a slice are integers, not 'a'"),
        (slice(0, 2.5), "the bounds of a slice are integers, not 2.5"),
        (
            3,
            "an array takes one slice of the first axis, such as array[2:5], not 3; array[i:i+1] is the view of one element, and "
            "array.numpy()[i] its value",
        ),
        (
            (slice(0, 2), slice(0, 2)),
            "an array takes one slice of the first axis, such as array[2:5], not a tuple",
        ),
        (
            Ellipsis,
            "an array takes one slice of the first axis, such as array[2:5], not an ellipsis",
        ),
        (None, "an array takes one slice of the first axis, such as array[2:5], not None"),
    ],
)
def test_other_indices_are_refused(key: Any, text: str, device: toy.ToyDevice) -> None:
    error = raised(devmod.ArgumentError, lambda: counted(device, 8, 4)[key])
    assert (str(error), error.argument) == (text, "index")


def test_an_array_without_dimensions_has_no_slices(device: toy.ToyDevice) -> None:
    assert (
        refusal(devmod.ArgumentError, lambda: device.empty((), "float32")[:])
        == "an array without dimensions has no slices"
    )


def test_a_slice_of_packed_elements_begins_with_a_byte(device: toy.ToyDevice) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.arange(-8, 8).astype(ml_dtypes.int4)
    array = device.from_numpy(values)
    assert array[4:9].numpy().astype(int).tolist() == [-4, -3, -2, -1, 0]
    assert (
        refusal(devmod.ArgumentError, lambda: array[3:5])
        == "the slice begins within a byte: elements of int4 are packed"
    )


def test_a_view_of_a_view_is_a_part_of_the_root(device: toy.ToyDevice) -> None:
    array = counted(device, 16, 4)
    inner = array[4:12][2:6].reshape(4, 4)[1:3].reshape(-1)
    np.testing.assert_array_equal(
        inner.numpy(), np.arange(28, 36)
    )  # ToyDevice.slice refuses a part of a part


def test_reshape_shares_the_memory(device: toy.ToyDevice) -> None:
    array = counted(device, 6)
    for view in (
        array.reshape(2, 3),
        array.reshape((2, 3)),
        array.reshape([2, -1]),
        array.reshape(-1, 3),
    ):
        assert view.shape == (2, 3)
        assert view.memory is array.memory
    assert array.reshape(1, 6, 1).shape == (1, 6, 1)
    assert device.empty(0, "int8").reshape(3, 0).shape == (3, 0)
    assert device.empty((), "int8").reshape(1).reshape(()).shape == ()


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((2, 2), "an array of shape (6,) has 6 elements, which do not fill the shape (2, 2)"),
        ((4, -1), "an array of shape (6,) has 6 elements, which do not fill the shape (4, -1)"),
        ((0, -1), "an array of shape (6,) has 6 elements, which do not fill the shape (0, -1)"),
        (
            (-1, -1),
            "(-1, -1) is not a shape; a shape has lengths from 0 up, and at most one -1 for the length that follows from the others",
        ),
        (
            (-2, 3),
            "(-2, 3) is not a shape; a shape has lengths from 0 up, and at most one -1 for the length that follows from the others",
        ),
        (
            ("a",),
            "('a',) is not a shape; a shape has lengths from 0 up, and at most one -1 for the length that follows from the others",
        ),
    ],
)
def test_reshape_keeps_the_number_of_elements(
    shape: tuple[Any, ...], text: str, device: toy.ToyDevice
) -> None:
    error = raised(devmod.ArgumentError, lambda: counted(device, 6).reshape(*shape))
    assert (str(error), error.argument) == (text, "shape")


def test_a_view_keeps_the_memory_alive_and_ends_with_it() -> None:
    class Bytes(bytearray):
        """Memory that supports weak references."""

    class WeakDevice(toy.ToyDevice):
        def allocate(self, nbytes: int) -> Any:
            return Bytes(nbytes)

    array = counted(WeakDevice(0), 64)
    memory = weakref.ref(array.memory)
    view = array[16:32]
    del array
    assert memory() is not None
    assert view.numpy()[0] == 16
    del view  # without the garbage collector: an array is in no cycle
    assert memory() is None


def test_a_view_is_an_argument(device: toy.ToyDevice) -> None:
    function = toy.module(MODULE, {"double": double})["double"]
    array = counted(device, 16)
    for _ in range(2):  # the second call is a plain call of a known configuration
        function(array[4:8], grid=1, block=4)
    launch = function.bind(array[8:12].reshape(2, 2), grid=1, block=4)
    gc.collect()
    launch()
    assert array.numpy().tolist() == [0, 1, 2, 3, 16, 20, 24, 28, 16, 18, 20, 22, 12, 13, 14, 15]


@needs_dlpack_1
@pytest.mark.parametrize("how", ["call", "bind"])
def test_a_misaligned_view_is_no_argument(how: str, device: toy.ToyDevice) -> None:
    function = toy.module(MODULE, {"double": double})["double"]
    array = counted(device, 16)
    function(array, grid=1, block=4)
    view = array[2:6]
    assert refusal(
        devmod.ArgumentError, function if how == "call" else function.bind, view, grid=1, block=4
    ) == (
        f"the toy function 'double': argument 1 is a view that begins 8 bytes into its memory, and {LABEL} takes arguments that begin at a "
        "multiple of 16 bytes (view_alignment); copy it: array = device.empty(view.shape, view.dtype); array.copy_from(view)"
    )
    copied = device.empty(view.shape, view.dtype)
    copied.copy_from(view)
    assert copied.numpy().tolist() == view.numpy().tolist() == [4, 6, 8, 10]
    assert np.from_dlpack(view, device="cpu").tolist() == [4, 6, 8, 10]
    assert view[2:4].memory is not None  # it begins at byte 16


def test_a_backend_without_parts_of_memory() -> None:
    class PlainDevice(OtherDevice):
        slice = devmod.Device.slice

    array = counted(PlainDevice(0), 8)
    assert array[:].reshape(2, 4).numpy().sum() == 28
    assert (
        refusal(devmod.ArgumentError, lambda: array[:4])
        == "the other backend has no views of a part of an array; copy the part through the host"
    )


# -- copies


@pytest.mark.parametrize("wait", [True, False])
def test_copies_within_a_device_do_not_pass_the_host(
    wait: bool, device: toy.ToyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = counted(device, 2, 3), device.zeros((2, 3), "float32")
    with monkeypatch.context() as patch:
        patch.delattr(toy.ToyDevice, "read")
        patch.delattr(toy.ToyDevice, "write")
        stream = device.stream()
        event = target.copy_from(source, stream=stream, wait=wait)
        assert source.copy_to(target[:], wait=True) is None
    assert [each[0] for each in stream.queued] == ["copy"]
    assert isinstance(event, devmod.Event) is not wait
    np.testing.assert_array_equal(target.numpy(), source.numpy())


def test_the_default_copy_passes_the_host() -> None:
    class PlainDevice(toy.ToyDevice):
        copy, clear = devmod.Device.copy, devmod.Device.clear

    device = PlainDevice(0)
    source, target = counted(device, 5), device.zeros(5, "float32")
    assert target.numpy().tolist() == [0] * 5
    target.copy_from(source)
    assert target.numpy().tolist() == [0, 1, 2, 3, 4]


def test_copies_between_two_devices_of_a_kind_pass_the_host(devices: list[toy.ToyDevice]) -> None:
    source, target = counted(devices[0], 5), devices[1].empty(5, "float32")
    assert isinstance(
        target.copy_from(source, stream=devices[1].stream(), wait=False), devmod.Event
    )
    assert target.numpy().tolist() == [0, 1, 2, 3, 4]
    devices[0].default_stream.fault = "it is hot"
    with pytest.raises(devmod.LaunchError, match="it is hot"):
        source.copy_to(target)


@pytest.mark.parametrize("move", [-2, 2])
def test_overlapping_views_are_copied_as_in_numpy(move: int, device: toy.ToyDevice) -> None:
    array = counted(device, 12)
    expected = array.numpy()
    expected[4 + move : 8 + move] = expected[4:8].copy()
    array[4 + move : 8 + move].copy_from(array[4:8])
    np.testing.assert_array_equal(array.numpy(), expected)
    array.copy_from(array[:].reshape(12))
    np.testing.assert_array_equal(array.numpy(), expected)


HOSTS: list[tuple[str, Callable[[], Any]]] = [
    ("an array", lambda: np.zeros((2, 3), "float32")),
    ("strides", lambda: np.zeros((4, 6), "float32")[::2, ::2]),
    ("columns", lambda: np.zeros((3, 2), "float32").T),
    ("a memoryview", lambda: memoryview(bytearray(24)).cast("f", (2, 3))),
]


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("make", [make for _, make in HOSTS], ids=[name for name, _ in HOSTS])
def test_copies_to_and_from_the_host(
    make: Callable[[], Any], wait: bool, device: toy.ToyDevice
) -> None:
    host = make()
    np.asarray(host)[...] = [[1, 2, 3], [4, 5, 6]]
    array = device.empty((2, 3), "float32")
    event = array.copy_from(host, wait=wait)
    assert array.numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    np.asarray(host)[...] = 0
    back = array.copy_to(host, wait=wait)
    assert np.asarray(host).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert (event is None) == (back is None) == wait


def test_a_constant_is_copied_to_and_never_written(device: toy.ToyDevice) -> None:
    constant = HostArray(np.arange(4, dtype="float32").tobytes(), (4,), "float32")
    array = device.empty(4, "float32")
    array.copy_from(constant)
    constant[1:3].copy_to(array[:2])
    assert array.numpy().tolist() == [1, 2, 2, 3]
    out = np.empty(4, "float32")
    assert constant.copy_to(out) is None
    assert constant.numpy(out=out) is out
    assert out.tolist() == [0, 1, 2, 3]
    with pytest.raises(devmod.ArgumentError, match=r"^copy_from: the target is read-only$"):
        constant.copy_from(array)
    assert (
        refusal(devmod.ArgumentError, constant.copy_to, out, stream=device.default_stream)
        == "copy_to: stream= is given, and both arrays are in the host's memory"
    )


@pytest.mark.parametrize(
    "dtype", ["int8", "uint16", "float32", "complex64", "bool", "bfloat16", "int4"]
)
@pytest.mark.parametrize(
    "value",
    [
        3,
        1.75,
        True,
        np.float64(2.5),
        [1, 2, 3, 4],
        np.arange(4),
        np.arange(12.0).reshape(3, 4).T[:, ::-1].T,
        np.ones((1, 4), "int8"),
    ],
)
def test_an_assigned_value_is_converted_and_broadcast_as_by_numpy(
    device: toy.ToyDevice, dtype: str, value: Any
) -> None:
    array = device.zeros((3, 4), dtype)
    expected = array.numpy()
    expected[...] = value
    array[...] = value
    np.testing.assert_array_equal(array.numpy(), expected)
    array[:] = 0
    assert not array.numpy().any()
    array.fill(1)
    array[1:3] = np.asarray(value)[:1] if np.ndim(value) == 2 else value
    expected[:1], expected[1:3] = 1, np.asarray(value)[:1] if np.ndim(value) == 2 else value
    np.testing.assert_array_equal(array.numpy(), expected)


def test_an_assignment_is_a_copy_in_the_order_of_the_stream(
    device: toy.ToyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = counted(device, 4), device.zeros(8, "float32")
    stream = device.stream()
    with stream, monkeypatch.context() as patch:
        target[:3] = np.float32([1, 2, 3])  # of the same type and shape: no other copy on the host
        patch.delattr(toy.ToyDevice, "read")
        target[4:] = source
        target[0:4] = target[4:8]
    assert [each[0] for each in stream.queued] == ["copy", "copy"]
    assert target.numpy().tolist() == [0, 1, 2, 3] * 2
    lanes, scalar, empty = (
        device.zeros(2, "float32x4"),
        device.zeros((), "float32"),
        device.zeros((3, 0), "float32"),
    )
    lanes[...], scalar[...], empty[...] = (1, 2, 3, 4), 5, 6
    lanes[1:] = 7
    assert (lanes.numpy().tolist(), scalar.numpy().tolist(), empty.shape) == (
        [[1, 2, 3, 4], [7] * 4],
        5,
        (3, 0),
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            300,
            f"300 is no value for <Array int8[3] on {LABEL}>: Python integer 300 out of bounds for int8",
        ),
        (
            [1, 2],
            f"a list is no value for <Array int8[3] on {LABEL}>: could not broadcast input array from shape (2,) into shape (3,)",
        ),
        (
            "x",
            f"'x' is no value for <Array int8[3] on {LABEL}>: invalid literal for int() with base 10: 'x'",
        ),
        (
            HostArray(bytes(12), (3,), "float32"),
            "the source has elements of float32, and the target of int8; devmod converts no elements: convert them on the host, as in "
            "device.from_numpy(array.numpy().astype(dtype)), or with a kernel",
        ),
    ],
)
def test_a_value_that_cannot_be_assigned_is_an_error(
    device: toy.ToyDevice, value: Any, text: str
) -> None:
    array = device.zeros(3, "int8")
    for assign in (array.fill, lambda value: array.__setitem__(slice(None), value)):
        assert refusal(devmod.ArgumentError, assign, value) == f"fill: {text}"
    assert not array.numpy().any()
    for key, problem in (
        (0, "an array takes one slice of the first axis"),
        (slice(0, 4), "the slice ends at 4, outside"),
    ):
        with pytest.raises(devmod.ArgumentError, match=problem):
            array[key] = 1
    array.read_only = True
    for constant in (HostArray(bytes(3), (3,), "int8"), array):
        with pytest.raises(devmod.ArgumentError, match=r"^fill: the (array|target) is read-only$"):
            constant[1:] = 1


def test_lanes_are_the_last_dimension_on_the_host(device: toy.ToyDevice) -> None:
    array = device.zeros(3, "float32x4")
    array.copy_from(np.arange(12, dtype="float32").reshape(3, 4))
    assert array.numpy()[2].tolist() == [8, 9, 10, 11]
    array[1:].copy_to(out := np.zeros((2, 4), "float32"))
    assert out[0].tolist() == [4, 5, 6, 7]


def test_packed_elements_are_packed_and_unpacked(device: toy.ToyDevice) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.arange(-4, 3).astype(ml_dtypes.int4)
    array = device.empty(7, "int4")
    array.copy_from(values)
    out = np.zeros_like(values)
    assert array.numpy(out=out) is out
    assert out.astype(int).tolist() == list(range(-4, 3))
    assert isinstance(array.copy_to(out, wait=False), devmod.Event)


@pytest.mark.row("R20")
@pytest.mark.parametrize(
    ("dtype", "data", "expected"),
    [
        ("int4", b"\x1f\x08", [-1, 1, -8]),
        ("uint4", b"\x1f\x08", [15, 1, 8]),
        ("float4_e2m1fn", b"\x97\x01", [6.0, -0.5, 0.5]),
    ],
)
def test_elements_of_four_bits(
    dtype: str, data: bytes, expected: list[float], device: toy.ToyDevice
) -> None:
    pytest.importorskip("ml_dtypes", reason="NumPy has no elements of four bits without ml_dtypes")
    array = device.from_numpy(HostArray(data, (3,), dtype).numpy())
    assert (array.dtype, array.nbytes) == (dtype, 2)
    assert array.numpy().tolist() == expected


@pytest.mark.row("R20")
def test_packed_lanes_are_read_within_their_memory(device: toy.ToyDevice) -> None:
    array = device.empty(20_000, "uint1x64")
    assert array.nbytes == 160_000
    assert array.numpy().shape == (20_000, 64)


def test_empty_arrays_are_copied(device: toy.ToyDevice) -> None:
    array = device.empty((3, 0), "float32")
    array.copy_from(np.empty((3, 0), "float32"))
    assert array.numpy(out=np.empty((3, 0), "float32")).shape == (3, 0)
    assert device.zeros((0,), "float32").copy_to(counted(device, 4)[2:2]) is None


def test_numpy_fills_an_array(device: toy.ToyDevice) -> None:
    array = counted(device, 2, 3)
    for out in (np.empty((2, 3), "float32"), np.empty((3, 2), "float32").T):
        assert array.numpy(out=out) is out
        assert out.tolist() == [[0, 1, 2], [3, 4, 5]]
    for stream in (device.default_stream, device.stream()):
        stream.fault = "it is hot"
        with pytest.raises(devmod.LaunchError, match="it is hot"):
            array.numpy(out=out)


TYPES = (
    "the source has elements of {}, and the target of {}; devmod converts no elements: convert them on the host, as in "
    "device.from_numpy(array.numpy().astype(dtype)), or with a kernel"
)


@pytest.mark.parametrize(
    ("source", "text", "argument"),
    [
        (
            lambda: np.zeros(5, "float32"),
            "the source has the shape (5,), and the target (6,)",
            "source",
        ),
        (
            lambda: np.zeros((2, 3), "float32"),
            "the source has the shape (2, 3), and the target (6,); reshape one of them",
            "source",
        ),
        (lambda: np.zeros(6, "float64"), TYPES.format("float64", "float32"), "source"),
        (lambda: b"abcdef", TYPES.format("uint8", "float32"), "source"),
        (
            lambda: [1.0] * 6,
            "the source is a list, expected an array of devmod or of the host",
            "source",
        ),
        (lambda: None, "the source is None, expected an array of devmod or of the host", "source"),
        (
            lambda: counted(toy.DEVICES[0], 5),
            "the source has the shape (5,), and the target (6,)",
            "source",
        ),
        (
            lambda: counted(toy.DEVICES[1], 6, dtype="int32"),
            TYPES.format("int32", "float32"),
            "source",
        ),
        (
            lambda: counted(OtherDevice(0), 6),
            f"the source is on other device 0 (toy number 0), and the target on {LABEL}; devices of two kinds share no memory: copy through "
            "the host, as in target.copy_from(source.numpy())",
            "source",
        ),
        (
            lambda: np.array([object()] * 6),
            "the source has elements of an unsupported type: no device supports elements of type object",
            "source",
        ),
    ],
)
def test_copies_that_are_refused(
    source: Callable[[], Any], text: str, argument: str, device: toy.ToyDevice
) -> None:
    target = device.zeros(6, "float32")
    error = raised(devmod.ArgumentError, lambda: target.copy_from(source()))
    assert (str(error), error.argument, error.kind) == (
        f"copy_from: {text}",
        argument,
        "toy",
    )
    assert target.numpy().tolist() == [0] * 6


def test_read_only_targets_and_other_streams_are_refused(devices: list[toy.ToyDevice]) -> None:
    array = counted(devices[0], 4)
    fixed = DeviceArray(devices[0], bytearray(16), (4,), "float32", read_only=True)
    host = np.zeros(4, "float32")
    host.flags.writeable = False
    text = devices[0].empty(16, "uint8")
    for source, target in (
        (array, fixed),
        (array[:2], fixed[:2].reshape(2)),
        (array, host),
        (text, b"0123456789abcdef"),
    ):
        error = raised(devmod.ArgumentError, source.copy_to, target)
        assert (str(error), error.argument) == (
            "copy_to: the target is read-only",
            "target",
        )
    with pytest.raises(
        devmod.ArgumentError,
        match=r"^copy_to: the target has elements that share memory \(its strides are \(0,\)\)$",
    ):
        array.copy_to(np.lib.stride_tricks.as_strided(np.zeros(1, "float32"), (4,), (0,)))
    for stream, given in (
        (devices[1].stream(), "a stream of toy device 1 (toy number 1)"),
        (3, "3"),
    ):
        message = refusal(
            devmod.ArgumentError, array.copy_from, np.zeros(4, "float32"), stream=stream
        )
        assert message == f"copy_from: stream= is {given}, expected a stream of {LABEL}"


@pytest.mark.parametrize(
    ("out", "text"),
    [
        (np.zeros(5, "float32"), "the source has the shape (4,), and the target (5,)"),
        (np.zeros(4, "int32"), TYPES.format("float32", "int32")),
        (bytearray(16), "expected a NumPy array as out, got a bytearray"),
    ],
)
def test_numpy_refuses_another_array(out: Any, text: str, device: toy.ToyDevice) -> None:
    assert refusal(devmod.ArgumentError, counted(device, 4).numpy, out=out) == f"numpy: {text}"
