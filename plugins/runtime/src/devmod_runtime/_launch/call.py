"""A complete call of a function: it checks every argument, raises the errors, and copies host
arrays in and back.
"""

from __future__ import annotations

from devmod import Local
from devmod.backend import ConversionError
from devmod.errors import ArgumentError, LaunchError
from devmod_runtime._device.host import HostView
from devmod_runtime._device.in_place import InPlace
from devmod_runtime._device.stream import is_in_stream
from devmod_runtime._fork import check_driver
from devmod_runtime._launch.arguments import BlockBytes
from devmod_runtime._launch.checks import IMAGES, CheckedCall, overlap
from devmod_runtime._launch.config import as_given
from devmod_runtime._launch.opening import Opening
from devmod_runtime._launch.order import is_record
from devmod_runtime._launch.packs import expand
from devmod_runtime._launch.plain_call import DEVICE_KEY, variables
from devmod_runtime._launch.scalars import AddressBytes, StructError, address_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod import Function
    from devmod_runtime._device.device import Device
    from devmod_runtime._device.image import Image, Sampler
    from devmod_runtime._device.stream import Stream
    from devmod_runtime._launch.arguments import Argument
    from devmod_runtime._launch.launcher import Kernel, LaunchConfig
    from devmod_runtime._launch.opening import Queue
    from devmod_runtime._launch.packs import Pack


class KernelCall(CheckedCall):
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
        The function that queues a launch with values; missing for a prepared launch, and for a grid
        with a zero.
    kernel, stream, shape, values
        The arguments of `Kernel.prepare`. `shape` is None for a grid with a zero. The value of a
        host array is set by `launch`.

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
        # Taken before `Opening` is asked: if an observer begins or ends later, the function has
        # others.
        callers = function._callers
        super().__init__(function, function._launcher, function.fixed_device)
        self.function = function
        self._host_views: list[tuple[Argument, HostView]] = []
        self._images: dict[int, Image | Sampler] = {}
        has_launch_values = len(args) != len(function._signature.arguments)
        self._refuse_unsupported()
        request = function.requested(args, grid, block, threads, shared_memory)
        given = None
        if stream is not None:
            given = self._open_stream(stream)
        self.values: list[Any] = [
            self._convert(argument, value, bound)
            # Without the launch values behind the arguments.
            for argument, value in zip(function._signature.arguments, args, strict=False)
        ]
        self._transfer_of = self._plan_transfers()
        self.transfers = [*dict.fromkeys(self._transfer_of.values())]

        device = self._device
        if device is None:
            device = function.default_device()
        self.stream, current = self._choose_stream(device, given, bound)
        launched, request = function.chosen(device, request, self.values)
        self.kernel: Kernel = launched.open(device)
        if self._images and (unfit := self.kernel.check_images(self._images)):
            raise self._error(function._signature.arguments[unfit[0]], ConversionError(unfit[1]))
        config, self.shape = launched._config_reader.resolve(request, self.kernel)
        self.enqueue: Queue
        if self.shape is None:
            return

        set_sizes = local_sizer(function, launched, self.kernel, device, config)
        if set_sizes is not None:
            set_sizes(self.values)
        if bound:
            expand(function._packs, self.values)
            return
        enqueue = _caller(self.kernel, self.stream, self.shape, function._packs, set_sizes)
        if program:
            self.enqueue = Opening.queue(enqueue, f"{program}: {function.name}", self.stream, args)
            return
        self.enqueue = Opening.queue(enqueue, function.name, self.stream, None)

        # The key must be the key of `Function.__call__`, which supports neither launch values nor
        # shared memory.
        has_key = shared_memory is None and not has_launch_values
        # Arrays of another library may decide the stream, which is not that of the next call.
        has_key &= self.stream is (current or device.default_stream)
        if has_key and Opening.kernel_call is KernelCall:
            # As ints: an object of a call may have another value in the next one.
            read = request.grid, request.block, request.threads
            dims = map(as_given, (grid, block, threads), read)
            first: object = None
            if self.transfers:
                if stream is not self.stream and (stream is not None or is_in_stream()):
                    return
                first = variables.get(DEVICE_KEY)
            elif function._first_buffer >= 0:
                first = device
            function.keep_caller(self, callers, args, (first, *dims, current, *request.key))

    @property
    def has_foreign(self) -> bool:
        """Whether a call has arrays of other libraries."""
        return bool(self._adopted)

    def _refuse_unsupported(self) -> None:
        """Raise LaunchError for an argument that the backend does not support."""
        function = self.function
        for argument in function._signature.arguments:
            if argument.kind in IMAGES and not self._launcher.has_images:
                raise function.unsupported(argument, f"of kind {argument.kind}")
            if argument.is_address and not self._launcher.has_addresses:
                raise function.unsupported(argument, "an address")

    def launch(self) -> Any:
        """Launch once and return what the function returns.

        With host arrays, wait and copy back.
        """
        if self.shape is None:
            return None
        if self.transfers:
            result = self._launch_with_host_arrays()
        else:
            result = self.enqueue(self.values)
        if self._must_wait:
            self.stream.synchronize()
        return result

    def checked(self, launch: Callable[[], Any]) -> Callable[[], Any]:
        """Return a prepared launch with what is done before and after it."""
        return launch

    def _launch_with_host_arrays(self) -> Any:
        stream = self.stream
        device = stream.device
        memories = {}
        copies = []
        with InPlace(stream) as in_place:
            for transfer in self.transfers:
                view = transfer.source
                back = transfer.back
                memory = in_place.take_view(view, written=back is not None)
                if memory is None:
                    memory = device.upload(view.read(), stream)
                    if back is not None:
                        copies.append((back, memory))
                memories[transfer] = memory
            values = list(self.values)
            for argument, view in self._host_views:
                number = argument.number
                transfer = self._transfer_of[number]
                fields = values[number]
                memory = memories[transfer]
                if device.length_unit and view.nbytes < transfer.source.nbytes:
                    # The kernel sees the length of its own array.
                    memory = device.slice(memory, 0, view.nbytes)
                values[number] = memory if fields is None else (memory, fields)
            result = self.enqueue(values)
            stream.synchronize()  # an interrupt may not end the wait of a copy
            if in_place:
                in_place.finish()
            for back, memory in copies:
                back.read_from(device.read, memory, stream)
        return result

    # -- one argument

    def _convert(self, argument: Argument, value: Any, bound: bool) -> Any:
        try:
            packed: Any = None
            if isinstance(value, BlockBytes):
                packed = value
            elif argument.pack is not None:
                packed = argument.pack(value)
            if packed is not None:
                if isinstance(packed, AddressBytes):
                    self._check_addresses(argument, packed)
                return packed
            if argument.is_address:
                return self._convert_address(argument, value)
            if type(value) is Local and (argument.kind == "local" or argument.accepts_local):
                # Raises where Locals are not supported. The size follows from the block.
                self._launcher.local(value.bytes_of(1))
                return value
            if argument.kind == "local":
                raise self._unexpected(argument, value)
            if argument.kind == "buffer" and _is_null(value):
                return self._convert_null(argument)
            return self._convert_taken(argument, value, bound)
        except ConversionError as error:
            failure = self._error(argument, error)
            is_scalar = argument.pack is not None and not isinstance(error, StructError)
            if is_scalar and is_record(value):
                order = self.function._order
                hint = order.record_hint(order.argument_of(argument, "").number)
                failure.args = (f"{failure}{hint}",)
            raise failure from None

    def _convert_null(self, argument: Argument) -> object:
        """Return the memory of no array."""
        launcher = self._launcher
        if not launcher.has_null or argument.packed is not None:
            raise ConversionError(
                f"is a null pointer, and the kernel of kind {launcher.kind} takes {argument.expected}"
            )
        return launcher.null

    def _convert_address(self, argument: Argument, value: Any) -> Any:
        """Return the bytes of an address that is an int, and the memory of an array."""
        number = address_number(value)
        if number is not None:
            return number.to_bytes(8, "little")
        self._check_device(argument, value.device)
        return self._memory(argument, value, value)

    def _convert_taken(self, argument: Argument, value: Any, bound: bool) -> Any:
        """Return what the kernel takes for an array, an image or a sampler; no address yet for a
        host array.
        """
        taken = self._take(argument, value, bound)
        memory = None
        if type(taken) is HostView:
            self._host_views.append((argument, taken))
        elif argument.kind not in IMAGES:
            memory = self._memory(argument, value, taken)
        else:
            if argument.kind == "image" and (problem := taken.mismatch(argument.param)):
                raise ConversionError(problem)
            self._images[argument.number] = taken
            return taken
        if argument.packed is None:
            return memory
        fields = argument.packed.fields(taken.dtype, taken.shape)
        if type(taken) is HostView:
            return fields
        return memory, fields

    def _check_addresses(self, argument: Argument, value: AddressBytes) -> None:
        """Check the arrays whose addresses a struct or a block has."""
        for path, array in value.arrays:
            try:
                self._check_device(argument, array.device)
                self._memory(argument, array, array)
            except ConversionError as error:
                raise StructError(value.name, path, str(error)) from None

    def _plan_transfers(self) -> dict[int, Transfer]:
        """Return the transfer of each host array.

        Two arguments with the same memory share one transfer, so that the kernel gets one buffer.

        Raises
        ------
        ArgumentError
            Two arguments overlap in part and the kernel writes to one, so no order of copying back
            is correct.
        """
        transfers: dict[int, Transfer] = {}
        for position, (argument, view) in enumerate(self._host_views):
            transfer = Transfer(view)
            for other, other_view in self._host_views[:position]:
                if _same(view, other_view):
                    transfer = transfers[other.number]
                elif (argument.written or other.written) and overlap(view, other_view):
                    raise self._overlap(other, argument)
            if view.nbytes > transfer.source.nbytes:
                transfer.source = view
            if argument.written and (transfer.back is None or view.nbytes > transfer.back.nbytes):
                transfer.back = view
            transfers[argument.number] = transfer
        return transfers

    def _error(self, argument: Argument, error: ConversionError) -> ArgumentError:
        # The text for a scalar begins with the value, the text for an array with the verb.
        separator = ""
        if argument.pack is not None or isinstance(error, StructError):
            separator = ":"
        path = ""
        if isinstance(error, StructError):
            path = error.path
        parameter = self.function._order.argument_of(argument, path)
        if parameter.name != argument.name and isinstance(error, StructError):
            # As of a value by itself.
            error = StructError(parameter.name, path[len(error.name) + 1 :], error.text)
        return self._refusal(
            f": {parameter.label}{separator} {error}", parameter.name or str(parameter.number + 1)
        )


def _is_null(value: object) -> bool:
    """Return whether a value is ctypes.c_void_p(). Whoever passes one has imported ctypes."""
    return (
        type(value).__module__ == "ctypes"
        and type(value).__name__ == "c_void_p"
        and value.value is None  # type: ignore[attr-defined]
    )


# -- The copies of the host arrays of a launch.


class Transfer:
    """The copies between one device buffer and one host array: `source` is copied in, `back` is
    copied back.
    """

    __slots__ = ("back", "source")

    def __init__(self, view: HostView) -> None:
        self.source = view
        self.back: HostView | None = None


def _same(one: HostView, other: HostView) -> bool:
    first = one.array
    second = other.array
    if first.ctypes.data != second.ctypes.data or not one.nbytes or not other.nbytes:
        return False
    if first.flags.c_contiguous and second.flags.c_contiguous:
        return True
    return first.shape == second.shape and first.strides == second.strides


def _caller(
    kernel: Kernel,
    stream: Stream,
    shape: Any,
    packs: Sequence[tuple[int, Pack]],
    set_sizes: Callable[[list[Any]], None] | None,
) -> Queue:
    """Return the function that queues a launch."""
    enqueue = kernel.caller(stream, shape)
    if not packs and set_sizes is None:
        return enqueue

    def call(values: Sequence[Any]) -> Any:
        values = [*values]
        if set_sizes is not None:
            set_sizes(values)
        expand(packs, values)
        return enqueue(values)

    return call


# -- Memory that the threads of a block share, as arguments: their sizes, and the limit of the
# device.


def local_sizer(
    called: Function, function: Function, kernel: Kernel, device: Device, config: LaunchConfig
) -> Callable[[list[Any]], None] | None:
    """Return the function that replaces each `Local` in the values of a launch by the kernel's own
    object; None if there can be none. The defaults are those of `function`, which `called`
    launches.

    It raises LaunchError if the device does not have that much shared memory.
    """
    # Not the functions, which keep what is returned: a cycle is freed late.
    signature = function._signature
    of_call = called._signature.arguments
    arguments = [each for each in signature.arguments if each.kind == "local" or each.accepts_local]
    if not arguments:
        return None
    x, y, z = config.block
    threads = x * y * z
    launcher = function._launcher

    def replace_locals(values: list[Any]) -> None:
        sizes = []
        for argument in arguments:
            value = values[argument.number]
            if value is of_call[argument.number].default:
                value = argument.default
            if type(value) is Local:
                sizes.append((argument, value, value.bytes_of(threads)))
        if not sizes:
            return
        problem = kernel.check_local([size for _, _, size in sizes])
        if problem:
            advice = _advice(sizes, threads)
            first = sizes[0][0]
            raise signature.error(
                f" cannot be launched on {device}: {problem}{advice}",
                first.name or str(first.number + 1),
                LaunchError,
            )
        # After the check: a driver takes no size of 64 bits and more.
        for argument, _, size in sizes:
            values[argument.number] = launcher.local(size)

    return replace_locals


def _advice(sizes: Sequence[tuple[Argument, Local, int]], threads: int) -> str:
    """Return what to do about defaults that take too much memory, as the end of a message."""
    listed = []
    smaller_block = ""
    for argument, value, size in sizes:
        if value is not argument.default:
            continue
        text = f"{argument.label} takes {size} bytes by default, {value!r}"
        if value.per_thread:
            text += f" with {threads} threads in a block"
            smaller_block = ", or a smaller block="
        listed.append(text)
    if not listed:
        return ""
    return f"; {', '.join(listed)}: give it by name{smaller_block}"
