"""Tensor maps: descriptors by which a kernel copies boxes of an array with the Tensor Memory
Accelerator (sm_90 and newer).
"""

from __future__ import annotations

from collections.abc import Sequence

from devmod import Array
from devmod.errors import ArgumentError, LaunchError
from devmod_cuda._device import CudaDevice
from devmod_driver_api.api import DriverError
from devmod_runtime import DeviceArray

#: The number of CUtensorMapDataType, and the bytes of an element. Types that the accelerator only
#: copies have the number of their size.
_TYPES = {
    **dict.fromkeys(
        ("uint8", "int8", "bool", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"), (0, 1)
    ),
    **dict.fromkeys(("uint16", "int16"), (1, 2)),
    "uint32": (2, 4),
    "int32": (3, 4),
    "uint64": (4, 8),
    "int64": (5, 8),
    "float16": (6, 2),
    "float32": (7, 4),
    "float64": (8, 8),
    "bfloat16": (9, 2),
}
#: The numbers of the floating-point types.
_FLOATS = range(6, 10)
_INTERLEAVE = {"none": 0, "16B": 1, "32B": 2}
#: The number of CUtensorMapSwizzle, and the bytes that a row of the box has at most.
_SWIZZLE = {"none": (0, 0), "32B": (1, 32), "64B": (2, 64), "128B": (3, 128)}
_L2_PROMOTION = {"none": 0, "64B": 1, "128B": 2, "256B": 3}
_FILL = {"zeros": 0, "nan": 1}
_MAX_RANK = 5
_MAX_BOX = 256
_MAX_STEP = 8
#: The alignment of the array and of its rows; with an interleaved layout of 32 bytes.
_ALIGN = 16
_WIDE_ALIGN = 32
#: The fewest dimensions with an interleaved layout.
_INTERLEAVED_RANK = 3
#: The longest dimension, and the bytes that are too many between two elements of one.
_MAX_LENGTH = 1 << 31
_STRIDE_LIMIT = 1 << 40


class TensorMap(bytes):
    """The 128 bytes of a tensor map, as kernels take them. It keeps its array alive.

    Attributes
    ----------
    array : Array
        The array that it describes.
    box : tuple of int
        The elements that one copy transfers, in the order of the array's dimensions.
    """

    array: DeviceArray
    box: tuple[int, ...]

    def __repr__(self) -> str:
        return f"<TensorMap of {self.array!r} in boxes of {list(self.box)}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(
            "a TensorMap has an address of this process and cannot be pickled; make one there"
        )


def tensor_map(
    array: Array,
    box: Sequence[int],
    *,
    steps: Sequence[int] | None,
    interleave: str,
    swizzle: str,
    l2_promotion: str,
    fill: str,
) -> TensorMap:
    """Return a tensor map; the documentation is that of `devmod_cuda.tensor_map`."""
    if not isinstance(array, DeviceArray) or not isinstance(array.device, CudaDevice):
        raise _error("array", f"takes an array of a cuda device, got {array!r}")
    device = array.device
    if not device.limits["tensor_map_access_supported"]:
        raise LaunchError(
            f"{device} ({device.arch.partition(':')[0]}) has no tensor maps, which sm_90 and newer support",
            kind="cuda",
        )
    if array.dtype not in _TYPES:
        raise _error("array", f"supports elements of {', '.join(_TYPES)}, got {array.dtype}")
    number, _ = _TYPES[array.dtype]
    rank = array.ndim
    if not 1 <= rank <= _MAX_RANK or not array.size:
        raise _error(
            "array",
            f"takes an array of 1 to {_MAX_RANK} dimensions with elements, got the shape {array.shape}",
        )
    swizzles = {name: each for name, (each, _) in _SWIZZLE.items()}
    modes = [
        _number("interleave", interleave, _INTERLEAVE),
        _number("swizzle", swizzle, swizzles),
        _number("l2_promotion", l2_promotion, _L2_PROMOTION),
        _number("fill", fill, _FILL),
    ]
    box = _counts("box", box, rank, _MAX_BOX)
    if steps is None:
        steps = (1,) * rank
    steps = _counts("steps", steps, rank, _MAX_STEP)
    _check_layout(array, box, interleave, swizzle)
    if fill == "nan" and number not in _FLOATS:
        raise _error(
            "fill",
            f"takes fill='nan' for elements of float16, bfloat16, float32 and float64, got {array.dtype}",
        )
    strides = _strides(array, interleave)
    shape = array.shape[::-1]  # CUDA's order begins with the dimension that varies fastest
    try:
        with device.context:
            data = device.driver.encode_tensor_map(
                number,
                array.memory,  # type: ignore[arg-type]
                shape,
                strides,
                box[::-1],
                steps[::-1],
                *modes,
            )
    except DriverError as error:
        raise device.driver_error(
            f"{device} cannot create a tensor map of {array!r} in boxes of {list(box)}", error
        ) from error
    result = TensorMap(data)
    result.array = array
    result.box = box
    return result


def _check_layout(array: DeviceArray, box: tuple[int, ...], interleave: str, swizzle: str) -> None:
    """Raise ArgumentError for a row of the box that the layout cannot have."""
    size = _TYPES[array.dtype][1]
    row = box[-1] * size
    if interleave == "none" and row % _ALIGN:
        raise _error(
            "box",
            f"needs a multiple of {_ALIGN} bytes in the last dimension, got {box[-1]} elements of {size} bytes",
        )
    limit = _SWIZZLE[swizzle][1]
    if interleave == "none" and limit and row > limit:
        raise _error(
            "box",
            f"takes at most {limit} bytes in the last dimension with swizzle={swizzle!r}, got {row}",
        )
    if interleave != "none" and array.ndim < _INTERLEAVED_RANK:
        raise _error(
            "interleave",
            f"takes interleave={interleave!r} for {_INTERLEAVED_RANK} dimensions or more, got the shape {array.shape}",
        )
    if interleave == "32B" and swizzle != "32B":
        raise _error(
            "swizzle", f"takes interleave='32B' with swizzle='32B', got swizzle={swizzle!r}"
        )


def _strides(array: DeviceArray, interleave: str) -> list[int]:
    """Return the bytes between two elements of each dimension but the last, the next to last one
    first. Raise ArgumentError for memory that a tensor map cannot describe.
    """
    align = _ALIGN
    if interleave == "32B":
        align = _WIDE_ALIGN
    if int(array.memory) % align:  # type: ignore[call-overload]  # an address
        raise _error(
            "array", f"takes an array that begins at a multiple of {align} bytes; copy the view"
        )
    strides = []
    nbytes = _TYPES[array.dtype][1]
    for length in array.shape[:0:-1]:
        nbytes *= length
        strides.append(nbytes)
    if any(stride % align for stride in strides):
        raise _error(
            "array",
            f"needs rows of a multiple of {align} bytes, got the shape {array.shape} of {array.dtype}; pad the rows",
        )
    if max(array.shape) > _MAX_LENGTH or max(strides, default=0) >= _STRIDE_LIMIT:
        raise _error(
            "array",
            f"takes dimensions of up to {_MAX_LENGTH} elements, less than {_STRIDE_LIMIT} bytes apart, got the shape {array.shape}",
        )
    return strides


def _counts(name: str, values: Sequence[int], rank: int, limit: int) -> tuple[int, ...]:
    counts: tuple[int, ...] = (values,)  # type: ignore[assignment]
    if isinstance(values, (tuple, list)):
        counts = tuple(values)
    if len(counts) != rank or not all(type(each) is int and 1 <= each <= limit for each in counts):
        raise _error(
            name,
            f"takes {name}= with an int from 1 to {limit} for each of the {rank} dimensions, got {values!r}",
        )
    return counts


def _number(name: str, value: str, numbers: dict[str, int]) -> int:
    if value not in numbers:
        raise _error(
            name, f"takes {name}= as one of {', '.join(map(repr, numbers))}, got {value!r}"
        )
    return numbers[value]


def _error(argument: str, text: str) -> ArgumentError:
    return ArgumentError(f"devmod_cuda.tensor_map {text}", kind="cuda", argument=argument)
