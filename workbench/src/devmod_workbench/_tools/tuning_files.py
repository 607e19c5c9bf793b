"""Files that get tuning records: JSON, which people exchange and a manifest names, and ``.devmod``
files, whose payloads do not change.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from devmod import TuningRecord, load, save
from devmod._values.code import AnyPath
from devmod.backend import changing, file_name, pack_records, read_tuning_file, replacing
from devmod.errors import FormatError


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
