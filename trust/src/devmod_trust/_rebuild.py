"""Compare a file with a build of its sources here: `devmod check --rebuild`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import devmod
from devmod.backend import loads_own, temporary_folder, walk
from devmod.errors import ToolchainNotFoundError, list_names, not_installed


class Compared(NamedTuple):
    """A payload of a file: its kind, format, variant and functions, "same", "differs", "not rebuilt" or "missing", and why."""

    payload: str
    outcome: str
    why: str = ""


def rebuild(module: devmod.Module, manifest: str) -> list[Compared]:
    """Build a manifest, without a cache, and compare each payload of a file with those of the build.

    Parameters
    ----------
    module
        The modules of the file.
    manifest
        The manifest, or its folder.

    Raises
    ------
    FormatError
        The manifest has mistakes.
    ToolchainNotFoundError
        devmod-targets is not installed.
    OSError
        The manifest cannot be read.
    """
    try:
        from devmod_targets.build.build import build_manifest
    except ImportError:
        text = not_installed("devmod-targets, which builds files,", "devmod-core[build]", "devmod_targets")
        raise ToolchainNotFoundError(text) from None
    with temporary_folder() as folder:
        output = os.path.join(folder, "rebuilt.devmod")
        result = build_manifest(manifest, output=output, cache=False, partial=True)
        content = Path(output).read_bytes() if result.written else b""
    built: dict[str, dict[bytes, devmod.Module]] = {}
    for name, digest, here in _payloads(loads_own(content)) if content else ():
        built.setdefault(name, {})[digest] = here
    failures = {each.job.kind: str(each) for each in reversed(result.failures)}
    payloads, differ, compared = [*_payloads(module)], set(), []
    for name, digest, there in payloads:
        found = built.get(name, {})
        if digest in found:
            compared.append(Compared(name, "same"))
        elif not found:
            compared.append(Compared(name, "not rebuilt", failures.get(there.kind, "the manifest builds no such payload")))
        else:
            differ.add(name)
            compared.append(Compared(name, "differs", _difference(there, next(iter(found.values())))))
    known = {digest for _, digest, _ in payloads}
    missing = [name for name, found in built.items() for digest in found if digest not in known and name not in differ]
    return compared + [Compared(name, "missing", "the manifest builds it, and the file does not have it") for name in missing]


def _payloads(root: devmod.Module) -> Iterator[tuple[str, bytes, devmod.Module]]:
    """Yield the names, the digests and the modules of payloads. A name has the kind, the format, the variant and the functions."""
    for module in walk(root):
        if module.kind not in ("bundle", "_lib"):
            name = " ".join(filter(None, (module.kind, module.format, getattr(module, "variant", ""))))
            functions = f": {list_names(module.function_names)}" if module.function_names else ""
            yield f"{name}{functions}", sha256(module.save_to_bytes()).digest(), module


def _difference(module: devmod.Module, built: devmod.Module) -> str:
    """Return why a payload of a file may differ from the one that was built here."""
    there, here = (each.origin or devmod.Origin(each.kind) for each in (module, built))
    tools, own = there.toolchain or "unknown tools", here.toolchain or "unknown tools"
    why = f"both were built by {own}" if tools == own else f"the file was built by {tools}, and {own} is here"
    changed = dict.fromkeys(name for name, _ in sorted(there.sources.items() ^ here.sources.items()))
    return f"{why}; of other sources: {list_names(changed)}" if changed else why
