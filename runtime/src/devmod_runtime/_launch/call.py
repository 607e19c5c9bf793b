"""A complete call of a function: it checks every argument, raises the errors, and copies host arrays in and back."""

from __future__ import annotations

from itertools import combinations
from struct import error as struct_error
from time import perf_counter

from devmod import Local
from devmod._values.dtypes import NUMBERS, describe_value
from devmod.backend import ConversionError
from devmod.errors import ArgumentError, LaunchError, quote_name
from devmod_runtime._device.device_array import DeviceArray
from devmod_runtime._device.host import host_view, plain_array
from devmod_runtime._device.stream import Stream, current_stream
from devmod_runtime._fork import check_driver
from devmod_runtime._launch.arguments import BlockBytes
from devmod_runtime._launch.opening import Opening
from devmod_runtime._launch.order import is_record
from devmod_runtime._launch.packs import expand
from devmod_runtime._launch.scalars import AddressBytes, StructError, address_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    import numpy as np

    from devmod import Function
    from devmod_runtime._device.device import Device
    from devmod_runtime._device.host import HostView
    from devmod_runtime._device.image import Image, Sampler
    from devmod_runtime._launch.arguments import Argument
    from devmod_runtime._launch.launcher import Kernel, LaunchConfig
else:
    from devmod._util.numpy import np


_IMAGES = ("image", "sampler")


class KernelCall:
    """A checked and converted call. The constructor launches nothing.

    Parameters
    ----------
    function, args, grid, block, threads, stream, shared_memory
        The function and its arguments in the kernel's order, as for `Function.__call__`.
    bound
        Whether the call is for a prepared launch, which supports no host arrays.
    program
        The name of the program of which the call is a step.

    Attributes
    ----------
    function
        The function.
    transfers
        The copies of host arrays.
    enqueue
        The function that queues a launch with values; missing for a prepared launch, and for a grid with a zero.
    kernel, stream, shape, values
        The arguments of `Kernel.prepare`. `shape` is None for a grid with a zero. The value of a host array is set by `launch`.

    Raises
    ------
    ArgumentError, LaunchError
        As for `Function.__call__`.
    """

    def __init__(
        self,
        function: Function,
        args: Sequence[Any],
        grid: Any,
        block: Any,
        threads: Any,
        stream: Any,
        shared_memory: Any,
        *,
        bound: bool = False,
        program: str = "",
    ) -> None:
        check_driver(function._launcher.kind)
        # Taken before `Opening` is asked: if an observer begins or ends later, the function has others.
        callers, host_calls = function._callers, function._host_calls
        self.function = function
        self._launcher = function._launcher
        self._device: Device | None = function._rules.device
        self._device_label = "the function"
        self._adopted_streams: list[Stream | None] = []
        self._host_views: list[tuple[int, HostView, bool]] = []
        self._images: dict[int, Image | Sampler] = {}
        has_launch_values = len(args) != len(function._signature.arguments)
        for argument in function._signature.arguments:
            is_image = argument.kind in _IMAGES
            if (is_image and not self._launcher.has_images) or (argument.is_address and not self._launcher.has_addresses):
                raise function.unsupported(argument, f"of kind {argument.kind}" if is_image else "an address")
        reader = function._config_reader
        args, request = reader.read(args, grid, block, threads, shared_memory)
        given = self._open_stream(stream)
        self.values: list[Any] = [
            self._convert(argument, value, bound) for argument, value in zip(function._signature.arguments, args, strict=True)
        ]
        self.transfers, self._transfer_of = self._plan_transfers()
        device = self._device if self._device is not None else function.default_device()
        current = current_stream(device) if given is None else given
        self.stream, self._must_wait = choose_stream(device, current, self._adopted_streams, is_given=given is not None, bound=bound)
        self.kernel: Kernel = function.open(device)
        if self._images and (unfit := self.kernel.check_images(self._images)):
            raise self._error(function._signature.arguments[unfit[0]], ConversionError(unfit[1]))
        config = reader.resolve(request, self.kernel)
        self.shape: Any = reader.shape(request, config, self.kernel)
        self.enqueue: Callable[[list[Any]], Any]
        if self.shape is not None:
            set_sizes = local_sizer(function, self.kernel, device, config)
            if set_sizes is not None:
                set_sizes(self.values)
            if bound and function._packs:
                expand(function._packs, device, self.values)
            if not bound:
                enqueue = function.caller(self.kernel, self.stream, self.shape, set_sizes)
                name, own = (f"{program}: {function.name}", args) if program else (function.name, None)
                self.enqueue = Opening.queue(enqueue, name, self.stream, own)
                if Opening.kernel_call is KernelCall and not program and not has_launch_values and shared_memory == 0:
                    # The key must be the key of `Function.__call__`, which supports neither launch values nor shared memory.
                    key_device = device if function._first_buffer >= 0 else None
                    # As ints: an object of a call may have another value in the next one.
                    dims = request.given(grid, block, threads)
                    function.keep_caller(self, callers, (key_device, *dims, current))
                    if self.transfers:
                        function.keep_host_call(self, host_calls, args, dims, stream)

    def launch(self) -> Any:
        """Launch once and return what the function returns. With host arrays, wait and copy back."""
        if self.shape is None:
            return None
        if self.transfers:
            result = self._launch_with_host_arrays(self.stream)
        else:
            result = self.enqueue(self.values)
        if self._must_wait:
            self.stream.synchronize()
        return result

    def checked(self, launch: Callable[[], Any]) -> Callable[[], Any]:
        """Return a prepared launch with what is done before and after it."""
        return launch

    def _launch_with_host_arrays(self, stream: Stream) -> Any:
        device = stream.device
        memories = []
        for transfer in self.transfers:
            memories.append(device.upload(transfer.source.read(), stream))
        values = list(self.values)
        for number, view, _ in self._host_views:
            transfer_number = self._transfer_of[number]
            fields, memory = values[number], memories[transfer_number]
            if device.length_unit and view.nbytes < self.transfers[transfer_number].source.nbytes:
                memory = device.slice(memory, 0, view.nbytes)  # the kernel sees the length of its own array
            values[number] = memory if fields is None else (device, memory, fields)
        result = self.enqueue(values)
        stream.synchronize()  # an interrupt may not end the wait of a copy
        for transfer, memory in zip(self.transfers, memories, strict=True):
            if transfer.back is not None and transfer.back.nbytes:
                device.read(memory, transfer.back.write_target(), stream)
                transfer.back.finish()
        return result

    # -- one argument

    def _convert(self, argument: Argument, value: Any, bound: bool) -> Any:
        try:
            if isinstance(value, BlockBytes) or argument.pack is not None:
                packed: Any = value if argument.pack is None or isinstance(value, BlockBytes) else argument.pack(value)
                if isinstance(packed, AddressBytes):
                    self._check_addresses(argument, packed)
                return packed
            if argument.is_address:
                number = address_number(value)
                if number is not None:
                    return number.to_bytes(8, "little")
                self._check_device(argument, value)
                return self._memory(argument, value, value)
            if type(value) is Local and (argument.kind == "local" or argument.accepts_local):
                self._launcher.local(value.bytes_of(1))  # raises where Locals are not supported; the size follows from the block
                return value
            if argument.kind == "local":
                raise ConversionError(
                    f"is {describe_value(value)}, and the kernel takes memory that a block shares: pass devmod.Local(nbytes)"
                )
            if argument.kind in _IMAGES:
                return self._convert_image(argument, value)
            return self._convert_buffer(argument, value, bound)
        except ConversionError as error:
            failure = self._error(argument, error)
            if is_record(value) and argument.pack is not None and not isinstance(error, StructError):
                order = self.function._order
                failure.args = (f"{failure}{order.record_hint(order.argument_of(argument, '').number)}",)
            raise failure from None

    def _convert_buffer(self, argument: Argument, value: Any, bound: bool) -> Any:
        array = value
        if not isinstance(value, DeviceArray):
            adopted = self._launcher.adopt(value)
            if adopted is None:
                return self._convert_host_array(argument, value, bound)
            array, stream = adopted
            if not isinstance(array, DeviceArray):
                raise ConversionError(f"is {describe_value(value)}, and the kernel takes an array")
            self._adopted_streams.append(stream)
        self._check_device(argument, array)
        if argument.layout is not None:
            argument.layout.check(getattr(value, "dtype", None), argument.number)
        self._check_elements(argument, value, array.dtype, array.shape, array.nbytes)
        memory = self._memory(argument, value, array)
        return memory if argument.packed is None else (array.device, memory, argument.packed.fields(array.dtype, array.shape))

    def _check_addresses(self, argument: Argument, value: AddressBytes) -> None:
        """Check the arrays whose addresses a struct or a block has."""
        for path, array in value.arrays:
            try:
                self._check_device(argument, array)
                self._memory(argument, array, array)
            except ConversionError as error:
                raise StructError(value.name, path, str(error)) from None

    def _check_device(self, argument: Argument, array: DeviceArray) -> None:
        if array.device.kind != self._launcher.kind:
            through_host = "copy it through the host: pass array.numpy()"
            on_device = (
                "call f.on(array.device), which takes the candidate for that device, or "
                if self.function._rules.resolve is not None
                else ""
            )
            raise ConversionError(f"is on {array.device}; {on_device}{through_host}")
        self._set_device(array.device, argument.label)

    def _memory(self, argument: Argument, value: object, array: DeviceArray) -> object:
        """Return the memory of a device array, which is `value` or of it. Raise ConversionError if the kernel cannot access it."""
        if array.misaligned:
            raise ConversionError(array.misaligned)
        if array.read_only and argument.written:
            raise ConversionError(
                f"is {describe_value(value)} that is read-only, and the kernel may write to it; pass an array that kernels may write to"
            )
        return array.memory

    def _convert_image(self, argument: Argument, value: Any) -> Image | Sampler:
        from devmod_runtime._device.image import Image, Sampler

        image: object = value
        if not isinstance(value, (Image, Sampler)):
            image, stream = self._launcher.adopt(value) or (None, None)
            if isinstance(image, Image):
                self._adopted_streams.append(stream)
        if not isinstance(image, Image if argument.kind == "image" else Sampler):
            expected = (
                "an image, such as device.image_from_numpy(array), whose format you choose"
                if argument.kind == "image"
                else "a sampler, such as device.sampler()"
            )
            raise ConversionError(f"is {describe_value(value)}, and the kernel takes {expected}")
        if image.device.kind != self._launcher.kind:
            raise ConversionError(f"is on {image.device}; make it on a device of kind {self._launcher.kind}")
        self._set_device(image.device, argument.label)
        if isinstance(image, Image) and argument.image is not None and (problem := image.mismatch(argument.image)):
            raise ConversionError(problem)
        self._images[argument.number] = image
        return image

    def _convert_host_array(self, argument: Argument, value: Any, bound: bool) -> list[bytes | None] | None:
        """Check a host array. Return the values of the kernel without its address; None if the kernel takes the address alone."""
        view = host_view(value)
        if view is None:
            raise ConversionError(
                f"is {describe_value(value)}, and the kernel takes an array{f' of {argument.type_text}' if argument.type_text else ''}"
            )
        if view.packed:
            raise ConversionError(
                f"has elements of {view.dtype}, which have one byte each in NumPy and are packed on a device: pass device.from_numpy(array)"
            )
        if argument.layout is not None:
            argument.layout.check(view.array.dtype, argument.number)
        self._check_elements(argument, value, view.dtype, view.array.shape, view.nbytes)
        if bound:
            raise ConversionError("is in the host's memory, and bind takes device arrays: pass device.from_numpy(array)")
        if argument.written and (problem := view.write_problem):
            cast = f", since the cast {quote_name(str(argument.const_cast))} removes its const" if argument.const_cast else ""
            raise ConversionError(f"{problem}, and the kernel may write to it{cast}; pass a copy, or device.from_numpy(array)")
        self._host_views.append((argument.number, view, argument.written))
        return None if argument.packed is None else argument.packed.fields(view.dtype, view.array.shape)

    def _check_elements(self, argument: Argument, value: object, dtype: str, shape: tuple[int, ...], nbytes: int) -> None:
        if not argument.accepts_type(dtype):
            raise ConversionError(f"is an array of {dtype}, and the kernel takes {argument.type_text}{_conversion(argument, dtype, value)}")
        if argument.lacks_padding(dtype, shape):
            expected = (*(shape if dtype == argument.type else shape[:-1]), 4)
            raise ConversionError(
                f"has vectors of {argument.unit // 4 * 3} bytes, and each {argument.type} of the kernel takes {argument.unit}: pass an "
                f"array of {argument.element} of shape {expected}, whose last column the kernel does not read"
            )
        if not argument.accepts_array(dtype, nbytes):
            each = f"{argument.type} of {argument.unit} bytes" if argument.type_text == argument.type else argument.type_text
            raise ConversionError(f"has {nbytes} bytes, which is not a whole number of {each}")
        if nbytes < argument.size:
            raise ConversionError(
                f"has {nbytes} bytes, and the kernel declares {argument.size}; pass an array of {argument.size} bytes or more"
            )

    # -- stream and device

    def _open_stream(self, stream: Any) -> Stream | None:
        if stream is None:
            return None
        result = stream if isinstance(stream, Stream) else self._launcher.adopt_stream(stream)
        problem = ""
        if result is None or result.device.kind != self._launcher.kind:
            problem = f"expected a stream of kind {self._launcher.kind}"
        elif self._device is not None and self._device is not result.device:
            problem = f"the function is on {self._device}"
        if result is None or problem:
            got = describe_value(stream) if result is None else f"a stream of {result.device}"
            raise self.function._error(f"{self.function.label} was given stream=, which is {got}: {problem}", "stream")
        self._set_device(result.device, "the stream")
        return result

    def _set_device(self, device: Device, label: str) -> None:
        if self._device is None:
            self._device, self._device_label = device, label
        elif self._device is not device:
            raise ConversionError(
                f"is on {device}, and {self._device_label} is on {self._device}; a launch runs on one device: copy the array through "
                "the host"
            )

    def _plan_transfers(self) -> tuple[list[Transfer], dict[int, int]]:
        """Return the transfers of the host arrays, and the number of the transfer of each argument.

        Two arguments with the same memory share one transfer, so that the kernel gets one buffer.

        Raises
        ------
        ArgumentError
            Two arguments overlap in part and the kernel writes to one, so no order of copying back is correct.
        """
        transfers: list[Transfer] = []
        transfer_of: dict[int, int] = {}
        for position, (number, view, written) in enumerate(self._host_views):
            index = None
            for other_number, other, other_written in self._host_views[:position]:
                if _same(view, other):
                    index = transfer_of[other_number]
                elif (written or other_written) and overlap(view, other):
                    first, second = (self.function._signature.arguments[each] for each in (other_number, number))
                    text = f"overlaps {first.label} in part, and the kernel writes to one of them; pass a copy of it"
                    raise self._error(second, ConversionError(text))
            if index is None:
                index = len(transfers)
                transfers.append(Transfer(view))
            transfer = transfers[index]
            if view.nbytes > transfer.source.nbytes:
                transfer.source = view
            if written and (transfer.back is None or view.nbytes > transfer.back.nbytes):
                transfer.back = view
            transfer_of[number] = index
        return transfers, transfer_of

    def _error(self, argument: Argument, error: ConversionError) -> ArgumentError:
        # The text for a scalar begins with the value, the text for an array with the verb.
        separator = ":" if argument.pack is not None or isinstance(error, StructError) else ""
        parameter = self.function._order.argument_of(argument, error.path if isinstance(error, StructError) else "")
        if parameter.name != argument.name and isinstance(error, StructError):
            error = error.of_member(parameter.name)
        text = f"{self.function.label}: {parameter.label}{separator} {error}"
        return self.function._error(text, parameter.name or str(parameter.number + 1))


def choose_stream(
    device: Device, current: Stream | None, adopted: Sequence[Stream | None], *, is_given: bool, bound: bool
) -> tuple[Stream, bool]:
    """Return the stream of a call, and whether the call waits for its end. Delay the call until other libraries' work is done.

    Parameters
    ----------
    device
        The device.
    current
        The stream that the call names, if `is_given`, or else the device's current one; None without one.
    adopted
        For each array of another library, the stream of its work; None if it is unknown.
    bound
        Whether the call is for a prepared launch.
    """
    stream = current or next((each for each in adopted if each is not None), None) or device.default_stream
    if not is_given and not bound:
        for each in dict.fromkeys(adopted):
            if each is not None and each is not stream:
                stream.wait(each.record())
    # Later work of another library on its memory is in this stream's order only if the library queues it there. Memory without a known
    # stream needs no wait if the caller passes stream=: the caller then orders the work.
    return stream, any(each is not stream if each is not None else not is_given for each in adopted)


#: The types by which OpenCL C and C read the bytes of any array, as in ``global char *``.
_BYTES = ("int8", "uint8")
#: The types by which a shader reads the bytes of what its language has no type for.
_WORDS = frozenset({"uint16", "uint32", "uint64"})


def _conversion(argument: Argument, dtype: str, value: object) -> str:
    """Return how to convert an array to the kernel's element type, as the end of a message; "" if its library cannot."""
    wanted = argument.element
    on_device = isinstance(value, DeviceArray)
    array = "array.numpy()" if on_device else "array"
    calls = []
    # Bytes and memoryviews, without astype, may have the right numbers under another type.
    same_bytes = ""
    if on_device or hasattr(value, "astype"):
        if wanted in _BYTES and dtype not in _BYTES:
            # A cast of floats to bytes destroys them. Integers may be meant by their numbers or by their bytes.
            calls += [f"{array}.astype(np.{wanted})"] if "int" in dtype and dtype in NUMBERS else []
            calls.append(f"{array}.view(np.{wanted})")
            same_bytes = " for the same bytes"
        elif dtype[:7] == "complex":
            calls.append(f"{array}.view(np.float{int(dtype[7:]) // 2})")
        elif wanted in NUMBERS and dtype in NUMBERS:
            calls.append(f"{array}.astype(np.{wanted})")
    elif wanted not in _BYTES and wanted in NUMBERS and type(value).__module__ == "torch":
        calls.append(f"{array}.to(torch.{wanted})")
    if wanted in _WORDS and dtype.partition("x")[0] == "uint8":  # bytes, or structs
        calls.append(f"np.frombuffer({array}, np.{wanted})")
        same_bytes = " for the same bytes"
    if on_device:
        calls = [f"device.from_numpy({call})" for call in calls]
    return f"; convert it before the call: array = {', or '.join(calls)}{same_bytes}" if calls else ""


# -- The copies of the host arrays of a launch.


#: The bound on NumPy's search for an overlap of two strided arrays. Beyond it they count as overlapping.
_MAX_WORK = 10_000


class Transfer:
    """The copies between one device buffer and one host array: `source` is copied in, `back` is copied back."""

    __slots__ = ("back", "source")

    def __init__(self, view: HostView) -> None:
        self.source = view
        self.back: HostView | None = None


def _same(one: HostView, other: HostView) -> bool:
    first, second = one.array, other.array
    if first.ctypes.data != second.ctypes.data or not one.nbytes or not other.nbytes:
        return False
    if first.flags.c_contiguous and second.flags.c_contiguous:
        return True
    return first.shape == second.shape and first.strides == second.strides


def overlap(one: HostView, other: HostView) -> bool:
    """Return whether two host arrays share bytes, or may."""
    if not np.may_share_memory(one.array, other.array):
        return False
    try:
        return bool(np.shares_memory(one.array, other.array, max_work=_MAX_WORK))  # type: ignore[arg-type]  # any int will do
    except np.exceptions.TooHardError:
        return True


# -- The repeated call with host arrays: what `KernelCall` has checked once is not asked again.

#: Seconds. After a call that took longer, the next one waits for the kernel before its copies: 5 µs with OpenCL.
_LONG = 1e-3


class HostCall:
    """A call with contiguous host arrays of the types of a call before it, on the same device, with the same grid, block and stream.

    Parameters
    ----------
    call
        The call before it.
    arrays
        Its arrays by the number of the argument, as `find_arrays` returns them.
    """

    def __init__(self, call: KernelCall, arrays: Mapping[int, np.ndarray[Any, Any]]) -> None:
        arguments = call.function._signature.arguments
        self._device, self._stream, self._enqueue = call.stream.device, call.stream, call.enqueue
        #: Whether the last call was long, or there was none.
        self._is_long = True
        # The names of NumPy once, and not at each call.
        self._ndarray, self._uint8, self._may_share = np.ndarray, np.uint8, np.may_share_memory
        self._buffers = [
            (each.number, arrays[each.number].dtype, each.unit, each.size, each.written) for each in arguments if each.kind == "buffer"
        ]
        self._scalars = [(each.number, each.pack, *(each.plain_packer or (None, None))) for each in arguments if each.pack is not None]

    @staticmethod
    def find_arrays(call: KernelCall, args: Sequence[Any]) -> dict[int, np.ndarray[Any, Any]]:
        """Return the arrays of a call that can be repeated: each buffer is a contiguous host array in memory of its own. Else none."""
        arguments = call.function._signature.arguments
        buffers = [each for each in arguments if each.kind == "buffer"]
        if len(buffers) != len(call.transfers) or not all(
            each.pack is not None or (each.kind == "buffer" and each.layout is None and each.packed is None and not each.is_padded)
            for each in arguments
        ):
            return {}
        arrays = {each.number: args[each.number] for each in buffers}
        arrays = {number: each if type(each) is np.ndarray else plain_array(each) for number, each in arrays.items()}
        fit = all(each is not None and each.dtype.isbuiltin == 1 and each.flags.c_contiguous for each in arrays.values())
        return arrays if fit else {}

    def values_of(self, args: Sequence[Any]) -> list[Any] | None:
        """Return the values of the scalars, and the arrays as NumPy's; None if `KernelCall` must check the arguments."""
        values: list[Any] = [*args]
        owners: list[Any] = []
        others: list[Any] = []
        ndarray = self._ndarray
        for number, dtype, unit, size, written in self._buffers:
            array = args[number]
            if type(array) is not ndarray:
                array = values[number] = plain_array(array)
            # NumPy's own dtypes are one object each.
            if array is None or array.dtype is not dtype:
                return None
            nbytes, flags = array.nbytes, array.flags
            if not nbytes or nbytes % unit or nbytes < size or not flags.c_contiguous or (written and not flags.writeable):
                return None
            # Arrays with memory of their own share none, unless they are one array.
            (owners if flags.owndata else others).append(array)
        if len(owners) > 1 and len(set(map(id, owners))) < len(owners):
            return None
        if others:
            for one, two in combinations(owners + others, 2):
                if self._may_share(one, two):
                    return None
        try:
            for number, pack, expected, plain_pack in self._scalars:
                value = args[number]
                if plain_pack is not None and type(value) is expected:
                    values[number] = plain_pack(value)
                elif type(value) is not BlockBytes:
                    values[number] = pack(value)
                    if isinstance(values[number], AddressBytes) or isinstance(value, AddressBytes):
                        return None
        except (ConversionError, struct_error, OverflowError):
            return None
        return values

    def launch(self, values: list[Any]) -> Any:
        """Copy the arrays to the device, launch, and copy those back that the kernel may write to."""
        device, stream, uint8 = self._device, self._stream, self._uint8
        start = perf_counter()
        results = []
        for number, dtype, _, _, written in self._buffers:
            array = values[number]
            # A memoryview takes a third of the time; it has no complex numbers.
            data = array.reshape(-1).view(uint8).data if dtype.kind == "c" else array.data.cast("B")
            memory = values[number] = device.upload(data, stream)
            if written:
                results.append((memory, data))
        result = self._enqueue(values)
        if self._is_long or not results:
            stream.synchronize()  # an interrupt ends it, and not the wait of a copy
        for memory, data in results:
            device.read(memory, data, stream)
        self._is_long = perf_counter() - start > _LONG
        return result


# -- Memory that the threads of a block share, as arguments: their sizes, and the limit of the device.


def local_sizer(function: Function, kernel: Kernel, device: Device, config: LaunchConfig) -> Callable[[list[Any]], None] | None:
    """Return the function that replaces each `Local` in the values of a launch by the kernel's own object; None if there can be none.

    It raises LaunchError if the device does not have that much shared memory.
    """
    places = [(each.number, each) for each in function._signature.arguments if each.kind == "local" or each.accepts_local]
    if not places:
        return None
    x, y, z = config.block
    threads = x * y * z
    launcher = function._launcher

    def replace_locals(values: list[Any]) -> None:
        sizes = []
        for number, argument in places:
            value = values[number]
            if type(value) is Local:
                sizes.append((argument, value, value.bytes_of(threads)))
        if sizes:
            problem = kernel.check_local([size for _, _, size in sizes])
            if problem:
                raise _too_large(f"{function.label} cannot be launched on {device}: {problem}", function.name, device, sizes, threads)
            for argument, _, size in sizes:  # after the check: a driver takes no size of 64 bits and more
                values[argument.number] = launcher.local(size)

    return replace_locals


def _too_large(problem: str, name: str, device: Device, sizes: list[tuple[Argument, Local, int]], threads: int) -> LaunchError:
    defaults = [each for each in sizes if each[1] is each[0].default]
    listed = ", ".join(
        f"{argument.label} takes {size} bytes by default, {value!r}{f' with {threads} threads in a block' if value.per_thread else ''}"
        for argument, value, size in defaults
    )
    smaller_block = ", or a smaller block=" if any(value.per_thread for _, value, _ in defaults) else ""
    advice = f"; {listed}: give it by name{smaller_block}" if defaults else ""
    first = sizes[0][0]
    return LaunchError(f"{problem}{advice}", kind=device.kind, function=name, argument=first.name or str(first.number + 1))
