"""The section ``tuning`` of a ``.devmod`` file: tuning records, as one msgpack map."""

from __future__ import annotations

from devmod._formats.msgpack import BYTES_A_CONTAINER, Reader
from devmod._formats.wire import pack
from devmod._values.records import read_records, write_records
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod._values.records import TuningRecord

#: The limit on the size of the section in bytes.
MAX_SIZE = 16 << 20


def unpack_records(data: bytes, place: str) -> tuple[TuningRecord, ...]:
    """Return the records of a section. `place` is the name of the file in messages."""
    subject = f"the tuning records of {place}"
    # An array may take one byte: the limits on a section and on a record bound them.
    reader = Reader(data, subject, size=len(data) * BYTES_A_CONTAINER)
    value = reader.read_value()
    reader.finish()
    return read_records(value, subject)


def pack_records(records: Sequence[TuningRecord]) -> bytes:
    """Return the section of records. FormatError if it would be too large."""
    data = pack(write_records(records), "the tuning records")
    if len(data) > MAX_SIZE:
        raise FormatError(f"the tuning records take {len(data)} bytes; the limit is {MAX_SIZE}")
    return data
