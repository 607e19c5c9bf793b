"""The parts of a file: large constants, and sources, each with a record and a digest of its own
(R13, R20).

A part is read, checked and decompressed when it is used.
"""

from __future__ import annotations

from devmod._formats.index import (
    ATTACHMENT,
    NO_DIGEST,
    PART,
    SOURCES,
    StoredBytes,
    aligned,
    newer_features,
)
from devmod._util.digest import sha256_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from devmod._formats.index import Entry, ReadParts
    from devmod._values.code import Binary, Source

    #: The bytes of a part, and their SHA-256.
    Part = tuple["StoredPart | Binary", bytes]

#: Constants of this size or more, as 1,000 numbers of 32 bits, are parts of a file that devmod
#: writes.
MIN_PART = 4000
#: The most bytes of parts that are read together.
_MOST_TOGETHER = 8 << 20
#: The bytes at the start, in the middle and at the end that tell most constants of one size apart.
_SAMPLE = 4096


class StoredPart(StoredBytes):
    """A part in an open file: a constant.

    Parameters
    ----------
    find, number
        The number of its entry, and what returns that.
    read
        Returns parts of the file, which it may take from a cache.
    subject
        Its name in messages.
    kind
        The kind of a FormatError.
    """

    role = PART
    is_msgpack = False
    _needs = "needs"

    def __init__(
        self,
        find: Callable[[int, str], Entry],
        number: int,
        read: ReadParts,
        subject: str,
        kind: str,
    ) -> None:
        self._find = find
        self._number = number
        self._read = read
        self.subject = subject
        self.kind = kind
        #: What `read_together` has read, for the next use.
        self._ahead: memoryview | None = None

    @property
    def entry(self) -> Entry:  # type: ignore[override]
        """Its entry."""
        return self._find(self._number, self.role)

    @property
    def digest(self) -> bytes:
        """The SHA-256 of the result of `data`."""
        return self.entry.stored_digest

    def data(self) -> memoryview:
        """Return the bytes, decompressed, after a check of their digest. FormatError if a newer
        devmod is needed to use them.
        """
        self.check_features()
        if self.entry.unpacked is not None:
            return self.unpack()
        return self.verified()

    def check_features(self) -> None:
        """Raise FormatError if a newer devmod is needed to use the bytes."""
        features = self.entry.features
        if features:
            raise self._error(f"{self._needs} {newer_features(features)}")

    def verified(self) -> memoryview:
        """Return the bytes in the file, after a check of their digest."""
        data = self._packed()
        self.check(sha256_of(data))
        return data

    def _packed(self) -> memoryview:
        ahead = self._ahead
        self._ahead = None
        if ahead is not None:
            return ahead
        return self._read([self.entry.location])[0]


class StoredAttachment(StoredPart):
    """The bytes of a function beside its module, in an open file."""

    role = ATTACHMENT


class StoredSources(StoredPart):
    """The sources of modules in an open file."""

    role = SOURCES
    is_msgpack = True
    _needs = "need"
    _is_damaged = "are damaged: their SHA-256 is not the one in the index. Get the file again"

    def read(self) -> Source:
        """Return the sources by format."""
        from devmod._formats.blobs import read_sources

        return read_sources(self.data(), self.subject, self.kind)


def read_together(parts: Iterable[StoredPart]) -> None:
    """Read neighbours among the parts of a file together, for their next use. From a server, they
    are one request for each 8 MiB.
    """
    neighbours: list[StoredPart] = []
    start = end = 0
    by_place = {part.entry.location: part for part in parts}  # equal constants have one place
    for (at, size, _), part in sorted(by_place.items()):
        is_next = at == aligned(end) + part.entry.shift
        if neighbours and not (is_next and at + size - start <= _MOST_TOGETHER):
            _read_neighbours(neighbours)
            neighbours = []
        if not neighbours:
            start = at
        neighbours.append(part)
        end = at + size
    _read_neighbours(neighbours)


def _read_neighbours(parts: Sequence[StoredPart]) -> None:
    if len(parts) > 1:
        results = parts[0]._read([part.entry.location for part in parts])
        for part, data in zip(parts, results, strict=True):
            part._ahead = data


def find_equal(parts: Sequence[StoredPart | Binary]) -> list[Part]:
    """Return for each part the first one that is equal to it, and its SHA-256, or NO_DIGEST if it
    was not computed.

    Few new parts are hashed: those of which a stored one has the size, or another new one the size
    and the bytes at three places.
    """
    from collections import Counter

    stored_sizes = set()
    samples = []
    for part in parts:
        if isinstance(part, StoredPart):
            stored_sizes.add(part.entry.stored_size)
            samples.append(b"")
        else:
            samples.append(_sample(part))
    counts = Counter(samples)

    first: dict[bytes, StoredPart | Binary] = {}
    result = []
    for part, sample in zip(parts, samples, strict=True):
        digest = NO_DIGEST
        if isinstance(part, StoredPart):
            digest = part.digest
        elif counts[sample] > 1 or len(part) in stored_sizes:
            digest = sha256_of(part)
        equal = part
        if digest != NO_DIGEST:
            equal = first.setdefault(digest, part)
        result.append((equal, digest))
    return result


def _sample(data: Binary) -> bytes:
    middle = len(data) // 2
    places = data[:_SAMPLE], data[middle : middle + _SAMPLE], data[-_SAMPLE:]
    return sha256_of(b"".join((len(data).to_bytes(8, "little"), *places)))
