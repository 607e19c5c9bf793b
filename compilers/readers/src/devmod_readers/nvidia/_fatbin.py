"""Take a fatbin apart into its members.

The header is magic u32, version u16, its own size u16 and the size of the members u64. A member is
kind u16 (1 PTX, 2 cubin), version u16, the size of its header u32, the size of its data u64, the
size of the compressed data u32 at 16, the number of the architecture u32 at 28, flags u64 at 40
(bit 13 LZ4, bit 15 zstd, bit 20 ``a``, bit 21 ``f``) and the size of the decompressed data u64 at
56. Fatbins may follow each other. Source: the files that fatbinary 12.4 and 13.5 write.
"""

from __future__ import annotations

from itertools import chain
from struct import unpack_from
from typing import NamedTuple

from devmod.backend import escape
from devmod.errors import FormatError, count_text
from devmod.targets.cuda import SPEC
from devmod_readers._decompress import decompress_zstd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from devmod.backend import Binary


#: The number at the start of a fatbin, in its first four bytes.
FATBIN_MAGIC = 0xBA55ED50
#: The bytes of a header, and the least ones of the header of a member.
_HEADER = 16
_MEMBER = 64
_KINDS = {1: "ptx", 2: "cubin"}
#: Flags of a member.
_LZ4 = 1 << 13
_ZSTD = 1 << 15
_ARCHITECTURE = 1 << 20
_FAMILY = 1 << 21
_MAX_MEMBERS = 4096
#: The limit on the bytes of one decompressed member.
_MAX_BYTES = 1 << 28
#: The limits on the decompressed bytes of all members: these, and so many for each byte of the
#: file.
_FREE_BYTES = 1 << 20
_FILE_RATIO = 256
#: The limits of the formats on decompressed bytes for each byte.
_RATIOS = {"": 1, "lz4": 256, "zstd": 1 << 15}
#: A compressed member in messages, and how a fatbin is made without one.
_COMPRESSED = "a member of the CUDA fatbin"
_ALTERNATIVE = ", or make the fatbin with --compress-mode=none"


class FatbinMember(NamedTuple):
    """An image in a fatbin.

    Attributes
    ----------
    kind
        "ptx", "cubin", or "type<number>" for an image that devmod does not read.
    header_arch
        The variant of the image, as the header has it.
    compression
        "lz4", "zstd" or "".
    size
        Its bytes after decompression.
    stored
        Its bytes in the file.
    """

    kind: str
    header_arch: str
    compression: str
    size: int
    stored: memoryview

    @property
    def data(self) -> bytes:
        """The image. It is decompressed at each use; PTX has no NUL at its end.

        Raises
        ------
        ToolchainNotFoundError
            The member is compressed with zstd, and Python has no decompressor.
        FormatError
            The compressed data is damaged.
        """
        if not self.compression:
            data = bytes(self.stored)
        elif self.compression == "lz4":
            data = decompress_block(self.stored, self.size)
        else:
            data = decompress_zstd(
                self.stored, self.size, _COMPRESSED, kind="cuda", alternative=_ALTERNATIVE
            )
        if self.kind == "ptx":
            return data.rstrip(b"\0")
        return data

    @property
    def arch(self) -> str:
        """The variant of the image: "sm_90a", or "compute_90:ptx8.4". From the header, without a
        PTX version, if the image has none.
        """
        if self.compression or self.kind not in _KINDS.values() or SPEC.architecture is None:
            return self.header_arch
        return SPEC.architecture(self.kind, self.stored) or self.header_arch

    def __repr__(self) -> str:
        return escape(
            f"<FatbinMember {self.kind} {self.arch}, {count_text(self.size, 'byte')}{self.compression and ', '}{self.compression}>"
        )


def fatbin_members(data: Binary) -> list[FatbinMember]:
    """Return the members of a fatbin in their order.

    Raises
    ------
    FormatError
        The bytes are not a fatbin, or it is damaged.
    """
    return list(chain.from_iterable(fatbin_parts(data)))


def fatbin_parts(data: Binary) -> Iterator[list[FatbinMember]]:
    """Yield the members of each of several fatbins, which follow each other. Errors are those of
    `fatbin_members`.
    """
    view = memoryview(data).cast("B")
    at = count = total = 0
    while at < len(view) and (not at or any(view[at:])):
        if at + _HEADER > len(view) or unpack_from("<I", view, at) != (FATBIN_MAGIC,):
            raise _error(f"expected the magic {FATBIN_MAGIC:#x} at byte {at}")
        _, _, head, size = unpack_from("<IHHQ", view, at)
        end = at + head + size
        if head < _HEADER or end > len(view):
            raise _error(
                f"its header at byte {at} has {count_text(size, 'byte')} of members, and the file ends at byte {len(view)}"
            )
        at += head
        members = []
        while at < end:
            count += 1
            if count > _MAX_MEMBERS:
                raise _error(f"it has more than {_MAX_MEMBERS} members")
            member, at = _member(view, at, end)
            if member.compression:
                total += member.size
            if total > _FREE_BYTES + _FILE_RATIO * len(view):
                raise _error(
                    f"its members have {count_text(total, 'byte')} after decompression, which is over the limit"
                )
            members.append(member)
        yield members


def _member(view: memoryview, at: int, end: int) -> tuple[FatbinMember, int]:
    """Return a member and the position of the next one."""
    if at + _MEMBER > end:
        raise _error(f"the header of a member at byte {at} is incomplete")
    kind, head, size, compressed, number, flags, plain = unpack_from("<H2xIQI8xI8xQ8xQ", view, at)
    start = at + head
    if head < _MEMBER or start + size > end or compressed > size:
        raise _error(f"the member at byte {at} is outside of its fatbin")
    compression = ""
    stored = view[start : start + size]
    length = size
    if flags & (_LZ4 | _ZSTD):
        compression = "lz4" if flags & _LZ4 else "zstd"
        stored = stored[:compressed]
        length = plain
    if length > min(_MAX_BYTES, _RATIOS[compression] * max(len(stored), 1)):
        raise _error(
            f"the member at byte {at} has {count_text(length, 'byte')} after decompression of {len(stored)}, which is over the limit"
        )
    name = _KINDS.get(kind, f"type{kind}")
    arch = f"compute_{number}" if name == "ptx" else f"sm_{number}"
    if flags & _ARCHITECTURE:
        arch += "a"
    elif flags & _FAMILY:
        arch += "f"
    return FatbinMember(name, arch, compression, length, stored), start + size


def _error(problem: str) -> FormatError:
    return FormatError(f"the CUDA fatbin is invalid: {problem}", kind="cuda")


# -- Decompress a block of LZ4, as fatbins of CUDA 12.3 and before have it.
#
# A block is a list of sequences: a token with two numbers of four bits, the literals, an offset u16
# back into the output, and the rest of the length of the match. A number of 15 continues in the
# next bytes, up to one that is not 255. The last sequence has no match.


def decompress_block(data: memoryview, size: int) -> bytes:
    """Return the `size` bytes of a block.

    Raises
    ------
    FormatError
        The block is damaged, or its output has another size.
    """
    output = bytearray()
    at = 0
    end = len(data)
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
            # A match that is longer than its offset repeats.
            start = len(output) - offset
            piece = output[start : start + length]
            repeats = -(-length // len(piece))
            output += (piece * repeats)[:length]
    except IndexError:
        raise FormatError(
            f"the CUDA fatbin is invalid: a member compressed with LZ4 is damaged at byte {at}",
            kind="cuda",
        ) from None
    if len(output) != size:
        raise FormatError(
            f"the CUDA fatbin is invalid: a member compressed with LZ4 has {count_text(len(output), 'byte')}; expected {size}",
            kind="cuda",
        )
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
