"""Arrays: copies, zeros, views, the current stream, too little memory, DLPack."""

from __future__ import annotations

from typing import Any

import devmod
from devmod_conformance._case import Conformance
from devmod_conformance._row import Skip
from devmod_conformance._rows._tools import (
    compare_arrays,
    expect_error,
    get_function,
    import_numpy,
    launch,
    list_devices,
    reference_arrays,
    require,
    require_equal,
    row,
    runtime_module,
    samples_with_calls,
)
from devmod_conformance._turn import device_turn

#: More bytes than any device has.
_ABSURD_SIZE = 1 << 56


@row("R37-copies")
def copies(case: Conformance) -> None:
    """Copies between arrays and with the host are complete, and in the order of a stream."""
    np = import_numpy()
    device = list_devices(case)[0]
    for dtype in ("float32", "int64", "uint8"):
        values = np.arange(300).astype(dtype).reshape(20, 15)
        one, two = device.from_numpy(values), device.empty((20, 15), dtype)
        require_equal(two.copy_from(one), None, "the result of copy_from, which waits")
        require(np.array_equal(two.numpy(), values), f"copy_from of an array of {dtype} has other values")
        event = one.copy_from(values[::-1], wait=False)
        require(isinstance(event, devmod.Event), f"copy_from with wait=False: expected an Event, got {type(event).__name__}")
        assert event is not None
        event.synchronize()
        out = np.zeros_like(values)
        require(one.numpy(out=out) is out, "numpy(out=…) does not return its argument")
        require(np.array_equal(out, values[::-1]), f"copy_from of a strided host array of {dtype} has other values")
        wide = np.zeros((20, 30), dtype)
        two.copy_to(wide[:, ::2])
        require(np.array_equal(wide[:, ::2], values) and not wide[:, 1::2].any(), f"copy_to a strided host array of {dtype} is wrong")
        for wrong in (device.empty((20, 14), dtype), device.empty((20, 15), "float64"), values.tolist()):
            with expect_error(devmod.ArgumentError, "copy_from an array of another shape or type, or no array"):
                one.copy_from(wrong)
    for sample, call in samples_with_calls(case):
        function = get_function(runtime_module(case, sample), call.function)
        arguments = call.make_arguments()
        with device_turn(case.kind), device.stream() as stream:
            arrays = [device.from_numpy(each) if isinstance(each, np.ndarray) else each for each in arguments]
            results = [device.empty(each.shape, each.dtype) if isinstance(each, devmod.Array) else each for each in arrays]
            function(*arrays, **call.keywords)
            for array, result, host in zip(arrays, results, arguments, strict=True):
                if isinstance(array, devmod.Array):
                    result.copy_from(array, wait=False)
                    array.copy_from(host, wait=False)  # over what the launch and the copy read
            stream.synchronize()
        description = "copied on the stream of the launch"
        compare_arrays(
            call, [each.numpy() if isinstance(each, devmod.Array) else each for each in results], reference_arrays(call), description
        )
        description = "copied from the host after the launch"
        compare_arrays(call, [each.numpy() if isinstance(each, devmod.Array) else each for each in arrays], arguments, description)


@row("R37-zeros")
def zeros(case: Conformance) -> None:
    """Device.zeros returns zeros, also in memory that was used before."""
    np = import_numpy()
    device = list_devices(case)[0]
    for shape, dtype in (((7,), "float32"), ((33, 5), "int64"), ((1 << 16,), "uint8"), ((0, 3), "float32")):
        for _ in range(2):
            array = device.zeros(shape, dtype)
            require_equal((array.shape, array.dtype), (shape, dtype), "the shape and the dtype of Device.zeros")
            require(not array.numpy().any(), f"Device.zeros({shape}, {dtype!r}) has other values than zero")
            array.copy_from(np.full(shape, 77, dtype))
            del array


@row("R37-views")
def views(case: Conformance) -> None:
    """A slice of the first axis and a reshaped array share the array's memory, and kernels take them."""
    np = import_numpy()
    device = list_devices(case)[0]
    step = max(device.limits.get("view_alignment", 1), 64)
    values = np.arange(4 * step, dtype="int32").reshape(-1, 4)
    root = device.from_numpy(values)
    try:
        view = root[step // 2 : step]
    except devmod.ArgumentError as error:
        raise Skip(f"the backend has no views: {error}") from error
    require(np.array_equal(view.numpy(), values[step // 2 : step]), "a slice of an array has other values")
    part = view.reshape(-1)[4:8]
    require(np.array_equal(part.numpy(), values[step // 2 + 1]), "a slice of a reshaped slice has other values")
    part.copy_from(np.full(4, -1, "int32"))
    values[step // 2 + 1] = -1
    require(np.array_equal(root.numpy(), values), "a write to a slice does not change exactly its part of the array")
    root[0:3].copy_from(root[1:4])
    values[0:3] = values[1:4].copy()
    require(np.array_equal(root.numpy(), values), "a copy between parts that overlap is wrong")
    for wrong in (slice(0, step + 1), slice(None, None, 2), 0):
        with expect_error(devmod.ArgumentError, f"array[{wrong!r}] of an array of {step} rows"):
            root[wrong]  # type: ignore[index]
    del root, part
    require(np.array_equal(view.numpy(), values[step // 2 : step]), "a slice has other values after the array was deleted")
    for sample, call in samples_with_calls(case):
        function = get_function(runtime_module(case, sample), call.function)
        arrays = call.make_arguments()
        for number, each in enumerate(arrays):
            if isinstance(each, np.ndarray) and each.size:
                padded = device.zeros((step + each.size,), each.dtype)  # begins at a multiple of the alignment in bytes
                arrays[number] = padded[step:].reshape(each.shape)
                arrays[number].copy_from(each)
        with device_turn(case.kind):
            function(*arrays, **call.keywords)
        actual = [each.numpy() if isinstance(each, devmod.Array) else each for each in arrays]
        compare_arrays(call, actual, reference_arrays(call), "with slices of arrays")


@row("R37-current")
def current_stream(case: Conformance) -> None:
    """The body of ``with stream:`` has the stream as the device's current stream, and calls use it."""
    device = list_devices(case)[0]
    outer, inner = device.stream(), device.stream()
    require(device.current_stream is device.default_stream, "Device.current_stream is not the default stream outside of a body")
    with outer as entered:
        require(entered is outer, "the with statement of a stream binds another object")
        with inner:
            require(device.current_stream is inner, "Device.current_stream is not the stream of the innermost body")
        require(device.current_stream is outer, "Device.current_stream is not the stream of the outer body again")
    require(device.current_stream is device.default_stream, "Device.current_stream is not the default stream after the body")
    np = import_numpy()
    for sample, call in samples_with_calls(case):
        function = get_function(runtime_module(case, sample), call.function)
        with device_turn(case.kind), outer:
            arrays = [device.from_numpy(each) if isinstance(each, np.ndarray) else each for each in call.make_arguments()]
            function(*arrays, **call.keywords)
            outer.synchronize()
        actual = [each.numpy() if isinstance(each, devmod.Array) else each for each in arrays]
        compare_arrays(call, actual, reference_arrays(call), "in the body of a stream")


@row("R37-memory")
def too_little_memory(case: Conformance) -> None:
    """An array that is too large raises DeviceMemoryError, and the device works afterwards."""
    device = list_devices(case)[0]
    for _ in range(2):
        with expect_error(devmod.DeviceMemoryError, f"an array of {_ABSURD_SIZE} bytes") as caught:
            device.empty(_ABSURD_SIZE, "uint8")
        error = caught[0]
        require_equal(error.kind, case.kind, "the kind in the DeviceMemoryError")
        require(str(_ABSURD_SIZE) in str(error), f"the DeviceMemoryError does not name the requested bytes: {error}")
        for sample, call in samples_with_calls(case)[:1]:
            arguments = call.make_arguments()
            launch(case, get_function(runtime_module(case, sample), call.function), arguments, **call.keywords)
            compare_arrays(call, arguments, reference_arrays(call), "after a DeviceMemoryError")


@row("R37-dlpack")
def dlpack(case: Conformance) -> None:
    """Arrays of the host enter by DLPack. An array leaves by DLPack as a copy on the host, in shared memory, or with BufferError."""
    np = import_numpy()
    device = list_devices(case)[0]
    values = np.arange(12, dtype="float32").reshape(3, 4)
    exported: Any = _Exporter(values, (1, 0))
    array = device.from_numpy(exported)
    require(np.array_equal(array.numpy(), values), "an array that entered by DLPack has other values")
    unused = np.from_dlpack(_Exporter(array, (1, 0), dl_device=(1, 0)))
    require(np.array_equal(unused, values), "an array that left by DLPack has other values")
    view = device.view(array.memory)  # type: ignore[attr-defined]  # an array of a device
    if view is not None:
        array.copy_from(values + 1)
        device.synchronize()
        require(np.array_equal(unused, values + 1), "the view of an array's memory does not share it")
    require_equal(array.__dlpack_device__()[0], device.dlpack_type, "DLPack's device type of an array")
    try:
        array.__dlpack__()
    except BufferError as error:
        require(".numpy()" in str(error), f"the BufferError of __dlpack__ does not name .numpy(): {error}")
    for sample, call in samples_with_calls(case):
        function = get_function(runtime_module(case, sample), call.function)
        arguments = call.make_arguments()
        launch(case, function, [_Exporter(each, (1, 0)) if isinstance(each, np.ndarray) else each for each in arguments], **call.keywords)
        compare_arrays(call, arguments, reference_arrays(call), "with arrays by DLPack")


class _Exporter:
    """An array of which only DLPack is visible."""

    def __init__(self, array: Any, device: tuple[int, int], **keywords: Any) -> None:
        self._array, self._device, self._keywords = array, device, keywords

    def __dlpack__(self, **keywords: Any) -> object:
        return self._array.__dlpack__(**keywords | self._keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device
