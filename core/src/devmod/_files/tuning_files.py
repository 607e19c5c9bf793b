"""Files of tuning records: JSON, which people exchange and a manifest names."""

from __future__ import annotations

import json

from devmod._formats.tuning import parse_json
from devmod._util.regular_files import file_name, open_regular
from devmod._values.records import read_records
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod._values.code import AnyPath
    from devmod._values.records import TuningRecord

#: The limit on a file of JSON in bytes.
MAX_JSON = 64 << 20


def read_tuning_file(
    path: AnyPath,
    convert: Callable[[Any], Sequence[TuningRecord]] | None = None,
) -> tuple[TuningRecord, ...]:
    """Read the records in a JSON file.

    Parameters
    ----------
    path
        The file, as ``devmod tune --export`` or another tool writes it.
    convert
        Returns the records of another tool's value. None: only devmod's own files are accepted.

    Raises
    ------
    FormatError
        The file is not of this form; the message names the file.
    OSError
        The file cannot be read.
    """
    name = repr(file_name(path))
    with open_regular(path) as file:
        data = file.read(MAX_JSON + 1)
    if len(data) > MAX_JSON:
        raise FormatError(f"{name} has more than {MAX_JSON} bytes, the limit of tuning records")
    encoding = json.detect_encoding(data)
    if convert is not None:  # other tools write NaN
        value = parse_json(data, name, encoding, parse=json.loads)
        if not (isinstance(value, dict) and "devmod_tuning" in value):
            return tuple(convert(value))
    return read_records(parse_json(data, name, encoding), name)
