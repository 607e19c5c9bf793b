"""The user's records, in the cache folder, beside those of a file. ``devmod tune --here`` writes
them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from devmod import Interface, TuningRecord
from devmod._formats.tuning import parse_json
from devmod.backend import DiskCache, changing, join_records, pack_records, read_records, tuning_of
from devmod.errors import DevmodError, FormatError
from devmod_runtime._tuning.choice import Values, VariantChooser, record_of
from devmod_runtime._tuning.offers import Offer

_CACHE = DiskCache("tuning")


def own_key(name: str, kind: str, interface: Interface) -> str:
    """Return the key of the user's records of a tuned function of a kind. Another build of it, with
    other variants, has the same one.
    """
    tuning = tuning_of(interface)
    assert tuning is not None
    names = [sorted(param.name for param in interface.params)]
    names += [sorted(tuning.constants), sorted(tuning.sizes)]
    return DiskCache.key("1", kind, name, json.dumps(names))


def read_own(key: str) -> tuple[TuningRecord, ...]:
    """Return the user's records of an `own_key`; () if there are none, or they are damaged."""
    data = _CACHE.read(key)
    if data is None:
        return ()
    subject = "the user's records"
    try:
        return read_records(parse_json(data, subject), subject)
    except FormatError:
        return ()


def write_own(key: str, records: Iterable[TuningRecord]) -> None:
    """Add records to those of the user. Raise DevmodError if the cache folder does not take
    them.
    """
    path = _CACHE.path(key)
    with suppress(OSError):  # there may be no folder; if it is missing, it has no lock
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with changing(path):
        joined = join_records([*read_own(key), *records])
        _CACHE.write(key, pack_records(joined))
        if _CACHE.read(key) is None or read_own(key) != joined:
            raise DevmodError(
                "the times cannot be written to the cache folder: set DEVMOD_CACHE_DIR to another folder, or give --export FILE"
            )


def chooser_of(
    name: str,
    interface: Interface,
    found: Mapping[Values, Offer],
    device: Any,
    records: Iterable[TuningRecord],
) -> VariantChooser:
    """Return what chooses among the variants of a function that fit a device.

    Parameters
    ----------
    name, interface
        The function.
    found
        The variants by their values.
    device
        The device, or the description of one.
    records
        Those of the file.
    """
    tuning = tuning_of(interface)
    assert tuning is not None
    own = read_own(own_key(name, device.kind, interface))
    return VariantChooser(record_of(name, tuning, device), found, own, records)
