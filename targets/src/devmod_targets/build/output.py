"""Write the file of a build, and check whether it is current."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import devmod
from devmod.backend import DiskCache
from devmod_targets.build.constants import load_constants
from devmod_targets.build.toolchains import file_digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod import Module
    from devmod_targets.build.plan import Plan

#: The digests of bundles, by `record_of` their inputs.
_DIGESTS = DiskCache("build")


def record_of(plan: Plan, keys: Sequence[str]) -> str:
    """Return the key of a bundle's digest: a digest of the keys of its jobs, its settings and its constants."""
    settings = repr((plan.mixed, plan.with_sources, plan.compress, plan.constants))
    return DiskCache.key("bundle", *keys, settings, *map(file_digest, constant_files(plan)))


def constant_files(plan: Plan) -> list[str]:
    """Return the paths of the files with constants."""
    return [os.path.join(plan.folder, *each.path.split("/")) for each in plan.constants.files]


def is_current(path: str, record: str) -> bool:
    """Return whether a file is the bundle of a record."""
    digest = _DIGESTS.read(record)
    try:
        return digest is not None and digest.decode("ascii", "replace") == file_digest(path)
    except OSError:
        return False


def store_record(path: str, record: str) -> None:
    """Store the digest of a written bundle under its record."""
    _DIGESTS.write(record, file_digest(path).encode())


def save_bundle(plan: Plan, modules: Sequence[Module], path: str) -> None:
    """Write the bundle of a plan's modules."""
    constants = load_constants(plan.folder, plan.constants)
    nodes = [*modules, *([constants] if constants is not None else [])]
    root = nodes[0] if len(nodes) == 1 else devmod.bundle(*nodes, mixed=plan.mixed)
    devmod.save(root, path, compress=plan.compress or None, with_sources=plan.with_sources)
