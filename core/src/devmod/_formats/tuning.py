"""Tuning records as JSON: the section ``tuning`` of a ``.devmod`` file, files that people exchange,
and the records of a user.
"""

from __future__ import annotations

import json

from devmod._values.records import join_records, read_records
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from devmod._values.code import Binary
    from devmod._values.records import TuningRecord

#: The limit on the size of the section in bytes.
MAX_SIZE = 4 << 20


def parse_json(data: Binary, subject: str, encoding: str = "utf-8") -> Any:
    """Return the value of JSON, for `read_records`. FormatError names `subject`."""
    try:
        return json.loads(str(data, encoding))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{subject} is not JSON: {error}") from None


def pack_records(records: Iterable[TuningRecord]) -> bytes:
    """Return records as JSON, each in one line. FormatError if they cannot be read."""
    maps = [record.to_dict() for record in join_records(records)]
    read_records({"devmod_tuning": 1, "records": maps}, "the tuning records cannot be written")
    lines = ",\n".join(map(json.dumps, maps))
    return f'{{"devmod_tuning": 1, "records": [\n{lines}\n]}}\n'.encode()
