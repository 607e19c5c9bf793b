"""The user's records, in the cache folder. ``devmod tune --here`` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable

from devmod import Interface, TuningRecord
from devmod._values.records import join_records, read_records, write_records
from devmod.backend import DiskCache, tuning_of
from devmod.errors import DevmodError

_CACHE = DiskCache("tuning")


def read_own(name: str, kind: str, interface: Interface) -> tuple[TuningRecord, ...]:
    """Return the user's records of a tuned function of a kind; () if there are none, or they are
    damaged.
    """
    data = _CACHE.read(_key(name, kind, interface))
    if data is None:
        return ()
    try:
        return read_records(json.loads(data), "the user's records")
    except (DevmodError, ValueError):
        return ()


def write_own(name: str, kind: str, interface: Interface, records: Iterable[TuningRecord]) -> bool:
    """Add records to those of the user. Return whether the cache folder has them."""
    joined = join_records([*read_own(name, kind, interface), *records])
    _CACHE.write(_key(name, kind, interface), json.dumps(write_records(joined)).encode())
    return read_own(name, kind, interface) == joined


def _key(name: str, kind: str, interface: Interface) -> str:
    """Return the key of a function: another build of it, with other variants, has the same one."""
    tuning = tuning_of(interface)
    assert tuning is not None
    names = [sorted(param.name for param in interface.params)]
    names += [sorted(tuning.constants), sorted(tuning.sizes)]
    return DiskCache.key("1", kind, name, json.dumps(names))
