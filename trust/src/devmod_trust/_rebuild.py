"""Compare a file with a build of its sources here: `devmod check --rebuild`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
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
    built: dict[str, list[_Payload]] = {}
    for each in _payloads(loads_own(content)) if content else ():
        built.setdefault(each.name, []).append(each)
    failures = {each.job.kind: str(each) for each in reversed(result.failures)}
    payloads, differ, compared = [*_payloads(module)], set(), []
    for each in payloads:
        found = built.get(each.name, [])
        if any(each.digest == other.digest for other in found):
            compared.append(Compared(each.name, "same"))
        elif not found:
            compared.append(Compared(each.name, "not rebuilt", failures.get(each.kind, "the manifest builds no such payload")))
        else:
            differ.add(each.name)
            compared.append(Compared(each.name, "differs", _difference(each, found[0])))
    known = {each.digest for each in payloads}
    missing = [each.name for found in built.values() for each in found if each.digest not in known and each.name not in differ]
    return compared + [Compared(name, "missing", "the manifest builds it, and the file does not have it") for name in missing]


def _difference(there: _Payload, here: _Payload) -> str:
    """Return why a payload of a file may differ from the one that was built here."""
    changed = dict.fromkeys(name for name, _ in sorted(there.sources.items() ^ here.sources.items()))
    same = f"both were built by {here.tools}"
    why = same if there.tools == here.tools else f"the file was built by {there.tools}, and {here.tools} is here"
    return f"{why}; of other sources: {list_names(changed)}" if changed else why


class _Payload(NamedTuple):
    """A payload: its name and kind, the SHA-256 of its bytes, the tools, and the digests of the sources."""

    name: str
    kind: str
    digest: str
    tools: str
    sources: Mapping[str, str]


def _payloads(root: devmod.Module) -> Iterator[_Payload]:
    """Yield the modules with bytes."""
    for module in walk(root):
        if module.kind not in ("bundle", "_lib"):
            name = " ".join(filter(None, (module.kind, module.format, getattr(module, "variant", ""))))
            functions = f": {list_names(module.function_names)}" if module.function_names else ""
            digest, origin = sha256(module.save_to_bytes()).hexdigest(), module.origin
            tools, sources = (origin.toolchain or "unknown tools", origin.sources) if origin is not None else ("unknown tools", {})
            yield _Payload(f"{name}{functions}", module.kind, digest, tools, sources)
