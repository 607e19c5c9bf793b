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
    """A payload of a file: its kind, format, variant and functions, "same", "differs", "not
    rebuilt" or "missing", and why.

    The last one may be that of all modules together, which differs if their payloads are the same
    and their tree is not.
    """

    payload: str
    outcome: str
    why: str = ""


def rebuild(module: devmod.Module, manifest: str) -> list[Compared]:
    """Build a manifest, without a cache, and compare each payload of a file with one of the build,
    and then their trees.

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
        text = not_installed(
            "devmod-targets, which builds files,", "devmod-core[build]", "devmod_targets"
        )
        raise ToolchainNotFoundError(text) from None
    with temporary_folder() as folder:
        output = os.path.join(folder, "rebuilt.devmod")
        result = build_manifest(manifest, output=output, cache=False, partial=True)
        here = None
        if result.written:
            here = loads_own(Path(output).read_bytes())

    payloads = [*_payloads(module)]
    built: list[Payload] = []
    if here is not None:
        built += _payloads(here)
    failures = {each.job.kind: str(each) for each in reversed(result.failures)}
    compared = _compare(payloads, built, failures)

    is_same = all(each.outcome == "same" for each in compared)
    if is_same and _tree(module, payloads) != _tree(here or module, built):
        text = "it has the same payloads in another order, or with other imports"
        compared.append(Compared("the tree of modules", "differs", text))
    return compared


def _compare(
    payloads: list[Payload], built: list[Payload], failures: dict[str, str]
) -> list[Compared]:
    """Return what became of each payload of a file, and which payloads the build has alone.

    `failures` has the error of a kind's job.
    """
    rest: dict[str, list[Payload]] = {}
    for each in built:
        rest.setdefault(each.name, []).append(each)
    # Each payload is compared with one of the build, so that copies are noticed.
    equals = [_take(rest.get(each.name, []), each[:4], 4) for each in payloads]
    compared = []
    for there, equal in zip(payloads, equals, strict=True):
        found = rest.get(there.name)
        outcome = "not rebuilt"
        if equal is not None:
            outcome = "same"
            why = ""
            if there.tools != equal.tools:
                why = _tools(there, equal)
        elif found:
            outcome = "differs"
            why = _difference(there, _take(found, there[:2], 2) or found.pop(0))
        elif found is not None:
            why = "the manifest builds fewer of these payloads"
        else:
            why = failures.get(there.kind, "the manifest builds no such payload")
        compared.append(Compared(there.name, outcome, why))
    for found in rest.values():
        for each in found:
            text = "the manifest builds it, and the file does not have it"
            compared.append(Compared(each.name, "missing", text))
    return compared


class Payload(NamedTuple):
    """What is compared of a payload: name, SHA-256, the sources beside it, and the origin without
    the tools; its kind, and the tools.
    """

    name: str
    digest: bytes
    sources: dict[str, str | bytes]
    origin: devmod.Origin
    kind: str
    tools: str


def _payloads(root: devmod.Module) -> Iterator[Payload]:
    """Yield the payloads of a tree. A name has the kind, the format, the variant and the
    functions.
    """
    for module in walk(root):
        if module.kind in ("bundle", "_lib"):
            continue
        parts = (module.kind, module.format, getattr(module, "variant", ""))
        name = " ".join(filter(None, parts))
        if module.function_names:
            name += f": {list_names(module.function_names)}"
        origin = module.origin or devmod.Origin(module.kind)
        yield Payload(
            name,
            sha256(module.save_to_bytes()).digest(),
            dict(module.source),
            origin.replace(toolchain="", extra={}),
            module.kind,
            origin.toolchain or "unknown tools",
        )


def _take(found: list[Payload], fields: tuple[object, ...], count: int) -> Payload | None:
    """Remove the first of the payloads that begins with some fields, and return it; None if there
    is none.
    """
    for place, each in enumerate(found):
        if each[:count] == fields:
            return found.pop(place)
    return None


def _tree(root: devmod.Module, payloads: list[Payload]) -> list[object]:
    """Return the kinds of modules in the order of a walk, with the places of the imports of each;
    and the payloads in that order.
    """
    places = {id(each): place for place, each in enumerate(walk(root))}
    result: list[object] = []
    for each in walk(root):
        result.append((each.kind, *(places[id(child)] for child in each.imports)))
    result += [payload[:2] for payload in payloads]
    return result


def _tools(there: Payload, here: Payload) -> str:
    if there.tools == here.tools:
        return f"both were built by {here.tools}"
    return f"the file was built by {there.tools}, and {here.tools} is here"


def _difference(there: Payload, here: Payload) -> str:
    """Return in what a payload of a file differs from the one that was built here, or why it
    may.
    """
    why = "its bytes are the same"
    if there.digest != here.digest:
        why = _tools(there, here)
    items = sorted(there.origin.sources.items() ^ here.origin.sources.items())
    changed = dict.fromkeys(name for name, _ in items)
    if changed:
        why += f"; of other sources: {list_names(changed)}"
    elif there.origin != here.origin:
        why += "; for another target or with other options"
    if there.sources != here.sources:
        why += "; with other sources beside it"
    return why
