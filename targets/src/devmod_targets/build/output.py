"""Write the file of a build, and check whether it is current."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import devmod
from devmod.backend import DiskCache, path_problem
from devmod.errors import FormatError
from devmod_targets._writable import noting_interrupts
from devmod_targets.build.constants import load_constants
from devmod_targets.build.toolchains import file_digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod import Module
    from devmod_targets.build.plan import Plan

#: The digests of bundles, and the warnings and reports of their jobs, by `record_of` their inputs.
_RECORDS = DiskCache("build")


def record_of(plan: Plan, keys: Sequence[str]) -> str:
    """Return the key of a bundle's digest: a digest of the keys of its jobs, its settings and its constants."""
    settings = repr((plan.mixed, plan.with_sources, plan.compress, plan.constants))
    return DiskCache.key("bundle 2", *keys, settings, *map(file_digest, constant_files(plan)))


def constant_files(plan: Plan) -> list[str]:
    """Return the paths of the files with constants."""
    return [os.path.join(plan.folder, *each.path.split("/")) for each in plan.constants.files]


def texts_of_current(path: str, record: str) -> list[tuple[list[str], list[str]]] | None:
    """Return the warnings and the reports of each job if a file is the bundle of a record; else None."""
    data = _RECORDS.read(record)
    try:
        digest, texts = json.loads(data or b"")
        return [(warnings, reports) for warnings, reports in texts] if digest == file_digest(path) else None
    except (OSError, TypeError, ValueError):
        return None


def store_record(path: str, record: str, texts: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
    """Store the digest of a written bundle and the warnings and the reports of its jobs under its record."""
    _RECORDS.write(record, json.dumps([file_digest(path), texts]).encode())


def check_output(plan: Plan) -> None:
    """Raise FormatError if the output of the manifest, which may come from a stranger, has a symbolic link in the manifest's folder."""
    problem = path_problem(plan.output, plan.folder)
    if problem:
        raise FormatError(
            f"the output of {plan.manifest} is not written: {problem}. Remove it, or name the file: devmod build --output FILE"
        )


def save_bundle(plan: Plan, modules: Sequence[Module], path: str, within: str) -> None:
    """Write the bundle of a plan's modules. `within` is the parameter of `devmod.save`."""
    constants = load_constants(plan.folder, plan.constants)
    nodes = [*modules, *([constants] if constants is not None else [])]
    root = nodes[0] if len(nodes) == 1 else devmod.bundle(*nodes, mixed=plan.mixed)
    with noting_interrupts(path):
        devmod.save(root, path, compress=plan.compress or None, with_sources=plan.with_sources, within=within)
