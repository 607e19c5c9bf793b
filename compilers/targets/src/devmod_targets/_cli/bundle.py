"""`devmod bundle`: join files into one."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import click

import devmod
from devmod.backend import requirements, tuning_of, usable_functions, walk
from devmod.commands import debug_option, echo, size
from devmod.errors import count_text, list_names
from devmod_targets._cli._options import output_option
from devmod_targets.spelling import in_shell_of_others
from devmod_targets.writable import check_writable, noting_interrupts

#: The modules with their files.
_Roots = list[tuple[Path, devmod.Module]]


@click.command(
    "bundle",
    short_help="Join files into one.",
    epilog="""\b
Examples:
  devmod bundle cuda.devmod opencl.devmod -o kernels.devmod
  devmod bundle kernels.devmod -o small.devmod --compress zstd:19
  devmod bundle small.devmod -o plain.devmod --compress none
""",
)
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path)
)
@output_option
@click.option(
    "--compress",
    metavar="METHOD",
    help='Compress payloads and sources: "zstd", or "zstd:19" for another level than 3; "none" decompresses all. '
    "[default: bytes stay as they are in FILE]",
)
@click.option(
    "--mixed",
    is_flag=True,
    help="Allow candidates that take different arguments in a function of one name.",
)
@click.option(
    "--prefer-first",
    is_flag=True,
    help="Join also files that have different kernels of one name and kind. A call uses that of the first FILE.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing if there is no error.")
@debug_option
@in_shell_of_others
def command(
    files: tuple[Path, ...],
    output: Path,
    compress: str | None,
    mixed: bool,
    prefer_first: bool,
    quiet: bool,
) -> None:
    """Write the candidates of all FILEs, .devmod bundles, into one file, in their order. No runtime
    is needed.

    The modules' bytes, origins and sources do not change. The output may be one of the FILEs. The
    tuning records of all FILEs are joined: files of the same kernels from several machines give one
    file with the records of each machine.
    """
    given: set[str] = set()
    for file in files:
        path = os.path.realpath(file)
        if path in given:
            raise click.UsageError(f"{file} is given twice")
        given.add(path)
    check_writable(output)
    modules: list[devmod.Module] = []
    with noting_interrupts(output):
        roots = [(file, devmod.load(file)) for file in files]
        for _, root in roots:
            if root.kind == "bundle":
                modules += root.imports
            else:
                modules.append(root)
        notes = []
        if not prefer_first:
            _check_names(roots)
            notes = _block_notes(roots)
        records: list[devmod.TuningRecord] = []
        for _, root in roots:
            records.extend(root.tuning_records)
        if records:  # files of the same kernels from machines that tuned them
            modules = _different(modules)
        joined = modules[0]
        if len(modules) > 1:
            joined = devmod.bundle(*modules, mixed=mixed)
        joined.tuning_records = records
        devmod.save(joined, output, compress=compress)
    if not quiet:
        kinds = dict.fromkeys(each.kind for each in modules)
        amount = count_text(len(modules), "candidate")
        echo(f"{output}: {size(output.stat().st_size)}, {amount} ({', '.join(kinds)})")
        for note in notes:
            echo(f"devmod: note: {note}", err=True)
        for file in files:
            if Path(f"{file}.sig").exists():
                echo(
                    f"The signatures in {file}.sig are not of this file. Sign it with: devmod sign"
                )


def _different(modules: list[devmod.Module]) -> list[devmod.Module]:
    """Return modules without those that are equal to an earlier one."""
    contents: dict[object, object] = {}
    found: dict[object, devmod.Module] = {}
    for module in modules:
        found.setdefault(_content(module, contents), module)
    return list(found.values())


def _content(module: Any, contents: dict[object, object]) -> object:
    """Return what two equal modules have in common. `contents` has that of modules before."""
    if id(module) not in contents:
        bytes_and_parts: tuple[object, ...] = ()
        if hasattr(module, "entry"):
            entry = module.entry
            bytes_and_parts = (entry.stored_digest, *[each.digest for each in module.parts])
            bytes_and_parts += tuple(entry.repeats)
        imports = [_content(each, contents) for each in module.imports]
        # equal contents are one object, so that a long chain of imports is compared in steps
        content = (module.kind, bytes_and_parts, tuple(map(id, imports)))
        contents[id(module)] = contents.setdefault(content, content)
    return contents[id(module)]


def _check_names(roots: _Roots) -> None:
    """Raise UsageError for a function that each device would take from an earlier file, where it is
    another kernel.
    """
    owners: dict[Any, tuple[Path, list[devmod.Module]]] = {}
    digests: dict[tuple[devmod.Module, str], bytes] = {}
    for file, module, name, info, places in _functions_of(roots):
        key = (
            *(name, *places, info.arg_types),
            requirements(info.interface, module.format),
            _values_of(info.interface),
        )
        first, others = owners.setdefault(key, (file, []))
        if first == file:
            others.append(module)
            continue
        if not any(_is_same_kernel(each, module, name, digests) for each in others):
            raise click.UsageError(
                f"{first} and {file} have different kernels {name!r} for {module.kind}, and a call would use the first; rename "
                "one, or pass --prefer-first"
            )


def _values_of(interface: devmod.Interface | None) -> tuple[object, ...]:
    """Return the values of the variants of a tuned function. A call may choose any of them."""
    tuning = tuning_of(interface)
    if tuning is None:
        return ()
    return tuple([tuple(each.constants.items()) for each in tuning.variants])


def _block_notes(roots: _Roots) -> list[str]:
    """Return a sentence for functions of two files whose blocks differ: a call uses the first."""
    owners: dict[Any, tuple[Path, Any]] = {}
    names: dict[tuple[Path, Path, str, Any, Any], list[str]] = {}
    for file, module, name, info, places in _functions_of(roots):
        block = None
        if info.interface is not None:
            block = info.interface.block or info.interface.default_block
        key = (name, *places, info.arg_types, _values_of(info.interface))
        first, other = owners.setdefault(key, (file, block))
        if first != file and block is not None and other is not None and other != block:
            names.setdefault((first, file, module.kind, other, block), []).append(name)
    notes = []
    for (first, file, kind, one, two), own in names.items():
        notes.append(
            f"{first} and {file} have {list_names(own)} for {kind} with blocks of {one} and of {two} threads. "
            f"Where both fit a device, a call uses that of {first}"
        )
    return notes


def _functions_of(
    roots: _Roots,
) -> Iterator[tuple[Path, devmod.Module, str, devmod.FunctionInfo, list[tuple[str, str, str]]]]:
    """Yield each function with its file and module, and the kinds, formats and variants with which
    it runs.
    """
    for file, root in roots:
        for module in walk(root):
            if module.kind in ("bundle", "const_loader"):
                continue
            # A program runs where its kernels do.
            places = sorted(
                (each.kind, each.format, getattr(each, "variant", "")) for each in walk(module)
            )
            for name, info in usable_functions(module.functions):
                yield file, module, name, info, places


def _is_same_kernel(
    one: Any, other: Any, name: str, digests: dict[tuple[devmod.Module, str], bytes]
) -> bool:
    """Return whether modules have the same payload for a function. Payloads may be large, so none
    is read if the digests of the files decide it, and one is in memory at a time else.
    """
    if hasattr(one, "entry") and hasattr(other, "entry"):
        contents: dict[object, object] = {}
        if _content(one, contents) is _content(other, contents):
            return True
    for module in (one, other):
        if (module, name) not in digests:
            digests[module, name] = _digest_of(module, name)
            if hasattr(module, "entry"):
                _release(module)
    return digests[one, name] == digests[other, name]


def _release(module: Any) -> None:
    """Drop what was read of a stored module. The pages of a mapped file count as memory of the
    process too.
    """
    module.release()
    if sys.platform != "win32":  # Windows has no such advice
        for data in module.unverified():
            if isinstance(data.obj, mmap.mmap):
                data.obj.madvise(mmap.MADV_DONTNEED)


def _digest_of(module: Any, name: str) -> bytes:
    """Return the digest of the payload of a function, which for a map of shaders is its own; that
    of an unknown kind is of all its bytes.
    """
    code = module.code
    if isinstance(code, dict):
        code = code.get(name, b"")
    elif not code:
        code = module.save_to_bytes()
    return sha256(code).digest()
