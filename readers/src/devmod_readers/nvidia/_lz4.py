"""Decompress a block of LZ4, as fatbins of CUDA 12.3 and before have it.

A block is a list of sequences: a token with two numbers of four bits, the literals, an offset u16 back into the output, and the rest of the
length of the match. A number of 15 continues in the next bytes, up to one that is not 255. The last sequence has no match.
"""

from __future__ import annotations

from devmod.errors import FormatError


def decompress_block(data: memoryview, size: int) -> bytes:
    """Return the `size` bytes of a block.

    Raises
    ------
    FormatError
        The block is damaged, or its output has another size.
    """
    output = bytearray()
    at, end = 0, len(data)
    try:
        while at < end:
            token = data[at]
            at += 1
            length, at = _length(data, at, token >> 4)
            if at + length > end or len(output) + length > size:
                raise IndexError
            output += data[at : at + length]
            at += length
            if at == end:
                break
            offset = data[at] | data[at + 1] << 8
            length, at = _length(data, at + 2, token & 15)
            length += 4
            if not 0 < offset <= len(output) or len(output) + length > size:
                raise IndexError
            piece = output[-offset:] if offset <= length else output[-offset : len(output) - offset + length]
            output += (piece * (-(-length // len(piece))))[:length]
    except IndexError:
        raise FormatError(f"the CUDA fatbin is invalid: a member compressed with LZ4 is damaged at byte {at}", kind="cuda") from None
    if len(output) != size:
        raise FormatError(f"the CUDA fatbin is invalid: a member compressed with LZ4 has {len(output)} bytes; expected {size}", kind="cuda")
    return bytes(output)


def _length(data: memoryview, at: int, length: int) -> tuple[int, int]:
    """Return a number that begins with four bits, and the position after it."""
    if length == 15:
        while data[at] == 255:
            length += 255
            at += 1
        length += data[at]
        at += 1
    return length, at
