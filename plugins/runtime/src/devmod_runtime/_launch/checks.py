"""What a call of a kernel and a call of a program do in the same way: they take arrays, images and
a stream of one device.
"""

from __future__ import annotations

from devmod._values.dtypes import NUMBERS
from devmod.backend import ConversionError, describe_value
from devmod.errors import ArgumentError, DevmodError, quote_name
from devmod_runtime._device.device_array import DeviceArray
from devmod_runtime._device.host import host_view
from devmod_runtime._device.stream import Stream, current_stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    import numpy as np

    from devmod_runtime._device.device import Device
    from devmod_runtime._device.host import HostView
    from devmod_runtime._launch.arguments import Argument
    from devmod_runtime._launch.launcher import Launcher
else:
    from devmod.backend import np

#: Seconds. After a call that took longer, the next one waits for the kernel before its copies: 5 µs
#: with OpenCL.
LONG = 1e-3
#: The kinds of arguments that are objects of a device other than arrays.
IMAGES = ("image", "sampler")
#: The bound on NumPy's search for an overlap of two strided arrays. Beyond it they count as
#: overlapping. The stubs of NumPy before 2.5 allow no such number.
_MAX_WORK: Any = 10_000


class FollowError(Exception):
    """Another candidate of a bundle takes the call, for the device of its arrays or its stream.

    Parameters
    ----------
    function
        The function of that candidate.
    """

    def __init__(self, function: Any) -> None:
        self.function = function


# Where to change: the text of a call's error
#   here: for an array, an image or a stream, of a kernel and of a program;
#     `plugins/runtime/src/devmod_runtime/_program/call.py` for the shapes of a program;
#     `plugins/runtime/src/devmod_runtime/_launch/scalars.py` for a number or a struct
#   also: `plugins/runtime/src/devmod_runtime/_launch/order.py` for missing or unknown arguments,
#     `plugins/runtime/src/devmod_runtime/_launch/config.py` for threads and blocks;
#     `extras/browser/js/src/order.js`, `extras/browser/js/src/scalars.js` and
#     `extras/browser/js/src/arguments.js` have the browser's copies
#   tests: `tests/test_two_places.py`, `tests/test_browser_calls.py`,
#     `tests/test_program_mistakes.py`
class CheckedCall:
    """A call of a kernel or of a program. Its methods raise ConversionError with the end of a
    sentence about an argument.

    Parameters
    ----------
    function, launcher
        What is called, and the launcher of its kernel, or of one of them.
    device
        The only device of the call. None if its stream or its first array decides.
    """

    #: What takes the arguments, and what decided the device, in messages.
    _taker = "kernel"
    _device_label = "the function"
    #: Whether an image may be given as a host array.
    _copies_images = False

    def __init__(self, function: Any, launcher: Launcher, device: Device | None) -> None:
        self._function = function
        self._launcher = launcher
        self._device: Any = device
        #: For each array of another library, the stream of its work; None if it is unknown.
        self._adopted: list[Stream | None] = []

    def _error(self, argument: Argument, error: ConversionError) -> ArgumentError:
        """Return the error of a call for one about an argument."""
        return self._refusal(f": {argument.label} {error}", argument.name)

    def _refusal(self, text: str, argument: str) -> ArgumentError:
        function = self._function
        return ArgumentError(
            f"{function.label}{text}",
            kind=self._launcher.kind,
            function=function.name,
            argument=argument,
        )

    def _overlap(self, first: Argument, second: Argument) -> ArgumentError:
        """Return the error for two arguments that share memory, one of which is written."""
        text = f"overlaps {first.label}, and the {self._taker} writes to one of them; pass a copy of it"
        return self._error(second, ConversionError(text))

    # -- one argument

    def _take(self, argument: Argument, value: Any, bound: bool) -> Any:
        """Return an array, an image or a sampler of the device, or the view of a host array, which
        a prepared launch does not take.
        """
        taken = value
        if not isinstance(value, argument.object_type):
            adopted = self._launcher.adopt(value)
            if adopted is None and (argument.kind == "buffer" or self._copies_images):
                return self._take_host_array(argument, value, bound)
            taken, stream = adopted or (None, None)
            if not isinstance(taken, argument.object_type):
                self._follow_object(argument, value)
                raise self._unexpected(argument, value)
            if argument.kind != "sampler":
                self._adopted.append(stream)
        if taken.device is not self._device:
            self._check_device(argument, taken.device)
        if argument.kind == "buffer" and taken.dtype is not argument.plain_type:
            self._check_elements(argument, value, taken, getattr(value, "dtype", None))
        return taken

    def _take_host_array(self, argument: Argument, value: Any, bound: bool) -> HostView:
        try:
            view = host_view(value)
        except ConversionError:
            self._follow_object(argument, value)
            raise
        if view is None:
            self._follow_object(argument, value)
            raise self._unexpected(argument, value)
        if view.packed:
            raise ConversionError(
                f"has elements of {view.dtype}, which have one byte each in NumPy and are packed on a device: pass device.from_numpy(array)"
            )
        if view.dtype != argument.plain_type:
            self._check_elements(argument, value, view, view.array.dtype)
        if bound:
            raise ConversionError(
                "is in the host's memory, and bind takes device arrays: pass device.from_numpy(array)"
            )
        if argument.written and (problem := view.write_problem):
            cast = ""
            found = argument.param.extra.get("const_cast")
            if found:
                cast = f", since the cast {quote_name(str(found))} removes its const"
            raise ConversionError(
                f"{problem}, and the {self._taker} may write to it{cast}; pass a copy, or device.from_numpy(array)"
            )
        return view

    def _unexpected(self, argument: Argument, value: object) -> ConversionError:
        conversion = ""
        if isinstance(value, (list, tuple)) and argument.kind == "buffer":
            if argument.element in NUMBERS:
                conversion = f"; pass np.array(values, np.{argument.element})"
            elif argument.param.members:
                number = argument.number
                conversion = f"; pass np.array(values, f.info.interface.params[{number}].dtype)"
        return ConversionError(
            f"is {describe_value(value)}, and the {self._taker} takes {argument.expected}{conversion}"
        )

    def _check_device(self, argument: Argument, device: Device) -> None:
        """Check the device of an array, an image or a sampler, which decides that of the call.

        Raises
        ------
        FollowError
            Another candidate takes the call.
        ConversionError
            The call is on another device, or no candidate takes it.
        """
        if self._device is None:
            self._follow(argument, device)
            self._device = device
            self._device_label = argument.label
            return
        if self._runs_on(device):
            return
        remedy = "copy the array through the host"
        if argument.kind in IMAGES and device.kind != self._device.kind:
            remedy = f"make it on {self._device}"
        raise ConversionError(
            f"is on {device}, and {self._device_label} is on {self._device}; a launch runs on one device: {remedy}"
        )

    @property
    def _kinds(self) -> Sequence[str]:
        """The kinds for which there is code."""
        following = self._function.following
        if following is None:
            return [self._launcher.kind]
        return following.kinds  # type: ignore[no-any-return]

    def _follow(self, argument: Argument, device: Device) -> None:
        """Raise FollowError if another candidate takes calls on the device of an argument."""
        kinds = self._kinds
        if device.kind not in kinds:
            remedy = f"pass a host array, array.numpy(), or build the {self._taker} for {device.kind} too"
            if argument.kind in IMAGES:
                remedy = f"make it on a device of kind {self._launcher.kind}"
            raise ConversionError(
                f"is on {device}, and the {self._taker} has code for {', '.join(kinds)} alone: {remedy}"
            )
        self._follow_to(device)

    def _follow_to(self, device: Device) -> None:
        """Raise FollowError if another candidate takes calls on a device."""
        if self._function.following is None:
            return
        function = self._function.followed(device)
        if function is not self._function:
            raise FollowError(function)

    def _follow_object(self, argument: Argument, value: object) -> None:
        """Raise FollowError if another candidate takes an array, an image or a sampler of the
        libraries of its kind.

        Raises
        ------
        ConversionError
            Such a library's object cannot be used, or the call is on another device.
        """
        found = self._adopted_elsewhere(lambda launcher: launcher.adopt(value), value)
        if found is None:
            return
        self._check_device(argument, found[0].device)

    def _adopted_elsewhere(self, adopt: Callable[[Launcher], Any], value: object) -> Any:
        """Return what a candidate of another kind makes of another library's object; None if none
        takes it.
        """
        following = self._function.following
        if following is None or type(value).__module__ == "builtins":
            return None
        for function in following.candidates():
            try:
                adopted = adopt(function._launcher)
            except DevmodError:  # its driver is missing
                continue
            if adopted is not None:
                return adopted
        return None

    def _memory(self, argument: Argument, value: object, array: DeviceArray) -> object:
        """Return the memory of a device array, which is `value` or of it. Raise ConversionError if
        it cannot be accessed.
        """
        if array.misaligned:
            raise ConversionError(array.misaligned)
        if array.read_only and argument.written:
            raise ConversionError(
                f"is {describe_value(value)} that is read-only, and the {self._taker} may write to it; pass an array that kernels may "
                "write to"
            )
        return array.memory

    def _check_elements(
        self, argument: Argument, value: object, array: DeviceArray | HostView, own_dtype: Any
    ) -> None:
        """Check the elements of an array, which is `value` or of it. `own_dtype` is its type in its
        library.
        """
        if argument.layout is not None:
            argument.layout.check(own_dtype, argument.number)
        dtype = array.dtype
        shape = array.shape
        nbytes = array.nbytes
        if not argument.accepts_type(dtype):
            conversion = _conversion(argument, dtype, value)
            raise ConversionError(
                f"is an array of {dtype}, and the {self._taker} takes {argument.type_text}{conversion}"
            )
        # Vectors of three numbers that follow each other.
        if argument.is_padded:
            vectors = None
            if dtype == argument.type:
                vectors = shape
            elif dtype == argument.element and len(shape) > 1 and shape[-1] == 3:
                vectors = shape[:-1]
            if vectors is not None:
                raise ConversionError(
                    f"has vectors of {argument.unit // 4 * 3} bytes, and each {argument.type} of the kernel takes {argument.unit}: pass an "
                    f"array of {argument.element} of shape {(*vectors, 4)}, whose last column the kernel does not read"
                )
        if dtype != "void" and nbytes % argument.unit:
            each = argument.type_text
            if each == argument.type:
                each = f"{argument.type} of {argument.unit} bytes"
            raise ConversionError(f"has {nbytes} bytes, which is not a whole number of {each}")
        if nbytes < argument.size:
            raise ConversionError(
                f"has {nbytes} bytes, and the kernel declares {argument.size}; pass an array of {argument.size} bytes or more"
            )

    # -- stream and device

    def _open_stream(self, stream: Any) -> Stream:
        """Return the stream that a call gives. It is of the call's device, or decides it."""
        result: Any = stream
        if not isinstance(stream, Stream):
            result = self._launcher.adopt_stream(stream)
            if result is None:
                result = self._adopted_elsewhere(
                    lambda launcher: launcher.adopt_stream(stream), stream
                )
        if result is not None and self._device is None and result.device.kind in self._kinds:
            try:
                self._follow_to(result.device)
            except ConversionError as error:
                raise self._refusal(f" was given stream=, which {error}", "stream") from None
        is_of_kind = result is not None and result.device.kind == self._launcher.kind
        if is_of_kind and self._runs_on(result.device):
            if self._device is None:
                self._device = result.device
                self._device_label = "the stream"
            return result  # type: ignore[no-any-return]

        problem = f"expected a stream of kind {self._launcher.kind}"
        if is_of_kind:
            problem = f"{self._device_label} is on {self._device}"
        got = describe_value(stream)
        if result is not None:
            got = f"a stream of {result.device}"
        raise self._refusal(f" was given stream=, which is {got}: {problem}", "stream")

    def _runs_on(self, device: Device) -> bool:
        """Return whether the call is on a device, or one with its memory, or on none yet."""
        return self._device is None or self._device.memory_space is device.memory_space

    def _choose_stream(
        self, device: Device, given: Stream | None, bound: bool
    ) -> tuple[Stream, Stream | None]:
        """Return the stream of the call, which waits for its end if necessary. Delay it until other
        libraries' work is done.

        Parameters
        ----------
        device, given
            The device, and the stream that the call names, or None.
        bound
            Whether the call is for a prepared launch.

        Returns
        -------
        tuple
            The stream, and the one that the call names or else the device's current one; None
            without one.
        """
        adopted = self._adopted
        current = given
        if given is None:
            current = current_stream(device)
        self._must_wait = False
        if not adopted:
            return current or device.default_stream, current
        stream = current or next(filter(None, adopted), None) or device.default_stream
        if given is None and not bound:
            for each in dict.fromkeys(adopted):
                if each is not None and each is not stream:
                    stream.wait(each.record())
        # Later work of another library on its memory is in this stream's order only if the library
        # queues it there. Memory without a known stream needs no wait if the caller passes stream=:
        # the caller then orders the work.
        for each in adopted:
            if each is None:
                self._must_wait |= given is None and not device.is_callers_queue
            else:
                self._must_wait |= each is not stream
        return stream, current


#: The types by which OpenCL C and C read the bytes of any array, as in ``global char *``.
_BYTES = ("int8", "uint8")
#: The type of the two numbers of each complex type of NumPy.
_PARTS = {"complex64": "float32", "complex128": "float64"}
#: The types between which NumPy converts. NumPy before 2.0 has no np.bool.
_CASTS = NUMBERS | {*_PARTS}
#: The types by which a shader reads the bytes of what its language has no type for.
_WORDS = frozenset({"uint16", "uint32", "uint64"})


def _conversion(argument: Argument, dtype: str, value: object) -> str:
    """Return how to convert an array to the kernel's element type, as the end of a message; "" if
    its library cannot.
    """
    wanted = argument.element
    on_device = isinstance(value, DeviceArray)
    array = "array"
    if on_device:
        array = "array.numpy()"
    calls: list[str] = []
    # Bytes and memoryviews, without astype, may have the right numbers under another type.
    if on_device or hasattr(value, "astype"):
        calls += _casts(array, dtype, wanted)
    elif wanted not in _BYTES and wanted in NUMBERS and type(value).__module__ == "torch":
        calls.append(f"{array}.to(torch.{wanted})")
    keeps_bytes = wanted in _BYTES and dtype not in _BYTES
    if wanted in _WORDS and dtype.partition("x")[0] == "uint8":  # bytes, or structs
        calls.append(f"np.frombuffer({array}, np.{wanted})")
        keeps_bytes = True

    if not calls:
        return ""
    if on_device:
        calls = [f"device.from_numpy({call})" for call in calls]
    same_bytes = " for the same bytes" if keeps_bytes else ""
    return f"; convert it before the call: array = {', or '.join(calls)}{same_bytes}"


def _casts(array: str, dtype: str, wanted: str) -> list[str]:
    """Return the calls of NumPy that convert an array of `dtype`."""
    cast = f"{array}.astype(np.{wanted})"
    if wanted in _BYTES and dtype not in _BYTES:
        view = f"{array}.view(np.{wanted})"
        # A cast of floats to bytes destroys them. Integers may be meant by their numbers or by
        # their bytes.
        if "int" in dtype and dtype in NUMBERS:
            return [cast, view]
        return [view]
    if dtype in _PARTS and wanted in NUMBERS:
        parts = _PARTS[dtype]
        view = f"{array}.view(np.{parts})"
        if wanted == parts:
            return [view]
        return [f"{view}.astype(np.{wanted})"]
    if wanted in _CASTS and (dtype in _CASTS or dtype == "bool"):
        return [cast]
    return []


def overlap(one: HostView, other: HostView) -> bool:
    """Return whether two host arrays share bytes, or may."""
    if not np.may_share_memory(one.array, other.array):
        return False
    try:
        return bool(np.shares_memory(one.array, other.array, max_work=_MAX_WORK))
    except np.exceptions.TooHardError:
        return True
