"""Tuning records: the attachments of functions in a ``.devmod`` file, JSON that people exchange,
and the records of a user.
"""

from __future__ import annotations

import json

from devmod._util.strict_json import parse
from devmod._values.records import FUNCTION, join_records, read_each, read_records
from devmod.errors import FormatError, count_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from devmod._formats.parts import StoredAttachment
    from devmod._values.code import Binary
    from devmod._values.records import TuningRecord

#: The limits on the records of a function in a file: their bytes, and their arrays and maps.
MAX_SIZE = 4 << 20
_MAX_CONTAINERS = 1 << 19


def read_attachment(attachment: StoredAttachment) -> Sequence[TuningRecord]:
    """Return the tuning records of a function. Those that are invalid are skipped, with a warning.

    Raises
    ------
    FormatError
        The bytes are damaged: they have another digest than the index.
    """
    function = attachment.entry.function
    subject = attachment.subject
    records: Sequence[TuningRecord] = ()
    problems = []
    try:
        if attachment.entry.stored_size > MAX_SIZE:
            raise FormatError(
                f"{subject} takes {count_text(attachment.entry.stored_size, 'byte')}; the limit is {MAX_SIZE}"
            )
        maps = _unpack(attachment.data(), subject)
    except FormatError as error:
        attachment.verified()  # damage is no record that is skipped
        problems.append(str(error))
    else:
        records, problems = read_each(maps, subject, function)
    for problem in problems:
        _warn(f"{problem}. It is skipped")
    return records


def _unpack(data: memoryview, subject: str) -> object:
    from devmod._formats.msgpack import Reader

    reader = Reader(data, subject, most=_MAX_CONTAINERS)
    value = reader.read_value()
    reader.finish()
    return value


def _warn(problem: str) -> None:
    import warnings

    from devmod._util.text import escape

    warnings.warn(escape(problem), UserWarning, stacklevel=2)


def pack_attachment(records: Iterable[TuningRecord]) -> bytes:
    """Return the records of one function as a file has them. FormatError if they cannot be read."""
    from devmod._formats.wire import pack

    maps = []
    function = ""
    for record in join_records(records):
        function = record.function
        fields = record.to_dict()
        del fields[FUNCTION]
        maps.append({key: value for key, value in fields.items() if value})
    subject = f"the tuning records of {function!r} cannot be written"
    _, problems = read_each(maps, subject, function)
    if problems:
        raise FormatError(problems[0])
    data = pack(maps, subject)
    if len(data) > MAX_SIZE:
        raise FormatError(
            f"{subject}: they take {count_text(len(data), 'byte')}; the limit is {MAX_SIZE}"
        )
    return data


def parse_json(
    data: Binary, subject: str, encoding: str = "utf-8", *, parse: Callable[[str], Any] = parse
) -> Any:
    """Return the value of JSON, for `read_records`. FormatError names `subject`. `parse` raises
    ValueError for another text.
    """
    try:
        return parse(str(data, encoding))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{subject} is not JSON: {error}") from None


def pack_records(records: Iterable[TuningRecord]) -> bytes:
    """Return records as JSON, each in one line. FormatError if they cannot be read."""
    maps = [record.to_dict() for record in join_records(records)]
    read_records({"devmod_tuning": 1, "records": maps}, "the tuning records cannot be written")
    lines = ",\n".join(map(json.dumps, maps))
    return f'{{"devmod_tuning": 1, "records": [\n{lines}\n]}}\n'.encode()
