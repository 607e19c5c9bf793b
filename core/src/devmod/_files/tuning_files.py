"""Files of tuning records: JSON, which people exchange and a manifest names, and ``.devmod`` files,
which get records without a change of their payloads.
"""

from __future__ import annotations

import json
import os

from devmod._files.bundle_file import load, save
from devmod._formats.tuning import pack_records, parse_json
from devmod._util.atomic import changing, replacing
from devmod._util.regular_files import file_name, open_regular
from devmod._values.records import read_records
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
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
        The file, as `write_tuning_file` or another tool writes it.
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


def write_tuning_file(
    path: AnyPath, records: Iterable[TuningRecord], *, adds: bool = False
) -> None:
    """Write records into a JSON file, each in one line. With `adds`, those that it has stay. The
    file is complete or unchanged.
    """
    with changing(path):
        if adds and os.path.lexists(path):
            records = (*read_tuning_file(path), *records)
        data = pack_records(records)
        with replacing(path) as file:
            file.write(data)


def add_tuning_records(path: AnyPath, records: Iterable[TuningRecord]) -> None:
    """Add records to those of a ``.devmod`` file. Its payloads do not change. Times of variants
    that the file has are replaced.

    Raises
    ------
    FormatError
        There are signatures of the file, which would be invalid; or it has too many records.
    """
    with changing(path):
        check_unsigned(path)
        module = load(path)
        module._add_records(records)
        save(module, path)


def check_unsigned(path: AnyPath) -> None:
    """Raise FormatError if there are signatures of a file, which new records make invalid."""
    for name in (file_name(path), os.path.realpath(file_name(path))):
        if os.path.lexists(f"{name}.sig"):
            raise FormatError(
                f"{name!r} is signed, and new tuning records make the signatures in '{name}.sig' invalid. Export the records "
                f"(devmod tune --export r.json). Where the key is, remove '{name}.sig', import them (devmod tune {name} --import r.json), "
                f"and sign the file again (devmod sign {name})"
            )
