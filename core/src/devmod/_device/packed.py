"""Elements of less than a byte: packed on devices and in files, one byte each in NumPy.

The first element has the lowest bits, as in DLPack. In NumPy the element's bits are the low bits of a byte, as in the types of ml_dtypes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

#: Elements that are converted at once; a multiple of 8, so that each piece begins with a whole byte.
_PIECE = 1 << 20


def pack(data: memoryview, bits: int) -> bytes:
    """Pack elements of one byte each."""
    import numpy as np

    elements = np.frombuffer(data, np.uint8)
    pieces = []
    for start in range(0, len(elements), _PIECE):
        separate = np.unpackbits(elements[start : start + _PIECE, None], axis=1, count=bits, bitorder="little")
        pieces.append(np.packbits(separate.reshape(-1), bitorder="little").tobytes())
    return b"".join(pieces)


def unpack(data: memoryview, bits: int, count: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Unpack `count` elements into one byte each."""
    import numpy as np

    packed = np.frombuffer(data, np.uint8)
    if bits == 1:
        return np.unpackbits(packed, count=count, bitorder="little")
    elements = np.empty(count, np.uint8)
    for start in range(0, count, _PIECE):
        length = min(_PIECE, count - start)
        first = start * bits // 8
        separate = np.unpackbits(packed[first : first + (length * bits + 7) // 8], count=length * bits, bitorder="little")
        elements[start : start + length] = np.packbits(separate.reshape(length, bits), axis=1, bitorder="little")[:, 0]
    return elements
