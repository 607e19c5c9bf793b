"""Copies between arrays. Those on the host are here; an array on a device copies by its own `_copy`."""

from __future__ import annotations

from devmod._arrays.array import Array
from devmod._arrays.elements import count_of, scalar_shape
from devmod._arrays.host import HostView, host_view
from devmod._values.conversion import ConversionError, describe_value
from devmod.errors import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeGuard

    import numpy as np

    from devmod import Event, Stream
else:
    from devmod._util.numpy import np


class CopyableArray(Array):
    """The copies of `Array`."""

    __slots__ = ()

    def copy_from(self, source: object, stream: Stream | None = None, wait: bool = True) -> Event | None:
        return copy(source, self, "copy_from", stream, wait)

    def copy_to(self, target: object, stream: Stream | None = None, wait: bool = True) -> Event | None:
        return copy(self, target, "copy_to", stream, wait)

    def _copy_to_numpy(self, out: Any) -> np.ndarray[Any, Any]:
        """Copy the elements to a NumPy array, after all work queued on the array's device. Return it.

        Raises
        ------
        ArgumentError
            `out` is not a writable NumPy array of the same type and shape.
        """
        if not isinstance(out, np.ndarray):
            raise ArgumentError(f"numpy: expected a NumPy array as out, got {describe_value(out)}", argument="out")
        copy(self, out, "numpy", None, True)
        return out


def copy(source: object, target: object, name: str, stream: Stream | None, wait: bool) -> Event | None:
    """Copy one array to another; at least one of them is devmod's. `name` is the function's in messages.

    Raises
    ------
    ArgumentError, LaunchError
        As for `Array.copy_from`.
    """
    for each in (target, source):
        if is_on_device(each):
            return each._copy(source, target, name, stream, wait)
    checked = Copy(source, target, name)
    if stream is not None:
        raise checked.error("stream= is given, and both arrays are in the host's memory", "stream")
    assert isinstance(checked.target, HostView)
    checked.target.write_target()[:] = checked.source.read()
    checked.target.finish()
    return None


def is_on_device(value: object) -> TypeGuard[Array]:
    """Return whether `value` is an array of devmod in a device's memory."""
    return isinstance(value, Array) and value._host_bytes is None


class Copy:
    """A checked copy.

    Parameters
    ----------
    source, target
        The arrays.
    name
        The function's name in messages.
    kind
        The kind of the device that copies; "" for a copy on the host.

    Attributes
    ----------
    source, target
        Device arrays, or views of host arrays.

    Raises
    ------
    ArgumentError
        As for `Array.copy_from`.
    """

    def __init__(self, source: object, target: object, name: str, kind: str = "") -> None:
        self._name, self._kind = name, kind
        self.source = self._end(source, "source")
        self.target = self._end(target, "target")
        self._check()

    def error(self, text: str, argument: str) -> ArgumentError:
        """Return the error about an argument of the copy."""
        return ArgumentError(f"{self._name}: {text}", kind=self._kind, argument=argument)

    def _end(self, value: object, role: str) -> Any:
        if is_on_device(value):
            return value
        try:
            view = host_view(value)
        except ConversionError as error:
            raise self.error(f"the {role} {error}", role) from None
        if view is None:
            raise self.error(f"the {role} is {describe_value(value)}, expected an array of devmod or of the host", role)
        return view

    def _check(self) -> None:
        source, target = self.source, self.target
        (source_type, source_shape), (target_type, target_shape) = (scalar_shape(each.dtype, each.shape)[:2] for each in (source, target))
        if source_type != target_type:
            raise self.error(
                f"the source has elements of {source.dtype}, and the target of {target.dtype}; devmod converts no elements: convert "
                "them on the host, as in device.from_numpy(array.numpy().astype(dtype)), or with a kernel",
                "source",
            )
        if source_shape != target_shape:
            advice = "; reshape one of them" if count_of(source_shape) == count_of(target_shape) else ""
            raise self.error(f"the source has the shape {source_shape}, and the target {target_shape}{advice}", "source")
        if isinstance(target, HostView):
            read_only = not target.array.flags.writeable
        else:
            read_only = target.read_only
            if not isinstance(source, HostView) and source.device.kind != target.device.kind:
                raise self.error(
                    f"the source is on {source.device}, and the target on {target.device}; devices of two kinds share no memory: copy "
                    "through the host, as in target.copy_from(source.numpy())",
                    "source",
                )
        if read_only:
            raise self.error("the target is read-only", "target")
