"""Tensor maps: descriptors by which a kernel copies boxes of an array with the Tensor Memory
Accelerator (sm_90 and newer).
"""

from __future__ import annotations

from collections.abc import Sequence

from devmod import Array
from devmod.errors import ArgumentError, LaunchError
from devmod_cuda._device import CudaDevice
from devmod_runtime import DeviceArray
from devmod_runtime.driver_api.api import DriverError

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
_MAX_RANK, _MAX_BOX, _MAX_STEP, _ALIGN = 5, 256, 8, 16
#: With an interleaved layout: the fewest dimensions. With that of 32 bytes: the alignment of the
#: array and of its rows.
_INTERLEAVED_RANK, _WIDE_ALIGN = 3, 32
#: The longest dimension, and the bytes that are too many between two elements of one.
_MAX_LENGTH, _STRIDE_LIMIT = 1 << 31, 1 << 40


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
    number, size = _TYPES[array.dtype]
    rank = array.ndim
    if not 1 <= rank <= _MAX_RANK or not array.size:
        raise _error(
            "array",
            f"takes an array of 1 to {_MAX_RANK} dimensions with elements, got the shape {array.shape}",
        )
    modes = [
        _number(name, value, numbers)
        for name, value, numbers in (
            ("interleave", interleave, _INTERLEAVE),
            ("swizzle", swizzle, {key: each[0] for key, each in _SWIZZLE.items()}),
            ("l2_promotion", l2_promotion, _L2_PROMOTION),
            ("fill", fill, _FILL),
        )
    ]
    box = _counts("box", box, rank, _MAX_BOX)
    steps = _counts("steps", (1,) * rank if steps is None else steps, rank, _MAX_STEP)
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
    if interleave != "none" and rank < _INTERLEAVED_RANK:
        raise _error(
            "interleave",
            f"takes interleave={interleave!r} for {_INTERLEAVED_RANK} dimensions or more, got the shape {array.shape}",
        )
    if interleave == "32B" and swizzle != "32B":
        raise _error(
            "swizzle", f"takes interleave='32B' with swizzle='32B', got swizzle={swizzle!r}"
        )
    if fill == "nan" and number not in _FLOATS:
        raise _error(
            "fill",
            f"takes fill='nan' for elements of float16, bfloat16, float32 and float64, got {array.dtype}",
        )
    align = _WIDE_ALIGN if interleave == "32B" else _ALIGN
    if int(array.memory) % align:  # type: ignore[call-overload]  # an address
        raise _error(
            "array", f"takes an array that begins at a multiple of {align} bytes; copy the view"
        )
    strides, nbytes = [], size
    for length in reversed(array.shape):
        nbytes *= length
        strides.append(nbytes)
    if any(stride % align for stride in strides[:-1]):
        raise _error(
            "array",
            f"needs rows of a multiple of {align} bytes, got the shape {array.shape} of {array.dtype}; pad the rows",
        )
    if max(array.shape) > _MAX_LENGTH or any(stride >= _STRIDE_LIMIT for stride in strides[:-1]):
        raise _error(
            "array",
            f"takes dimensions of up to {_MAX_LENGTH} elements, less than {_STRIDE_LIMIT} bytes apart, got the shape {array.shape}",
        )
    shape = array.shape[::-1]  # CUDA's order begins with the dimension that varies fastest
    try:
        with device.context:
            data = device.driver.encode_tensor_map(
                number,
                array.memory,  # type: ignore[arg-type]
                shape,
                strides[:-1],
                box[::-1],
                steps[::-1],
                *modes,
            )
    except DriverError as error:
        raise device.driver_error(
            f"{device} cannot create a tensor map of {array!r} in boxes of {list(box)}", error
        ) from error
    result = TensorMap(data)
    result.array, result.box = array, box
    return result


def _counts(name: str, values: Sequence[int], rank: int, limit: int) -> tuple[int, ...]:
    counts = tuple(values) if isinstance(values, (tuple, list)) else (values,)
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
