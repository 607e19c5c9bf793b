"""`devmod bundle`: join files into one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import devmod
from devmod.backend import requirements, walk
from devmod.commands import debug_option, echo, size
from devmod_targets._spelling import in_shell_of_others
from devmod_targets._writable import noting_interrupts


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
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="The file to write.",
)
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

    The modules' bytes, origins and sources do not change. The output may be one of the FILEs.
    """
    modules: list[devmod.Module] = []
    with noting_interrupts(output):
        roots = [(file, devmod.load(file)) for file in files]
        for _, root in roots:
            modules += root.imports if root.kind == "bundle" else (root,)
        if not prefer_first:
            _check_names(roots)
        devmod.save(
            modules[0] if len(modules) == 1 else devmod.bundle(*modules, mixed=mixed),
            output,
            compress=compress,
        )
    if not quiet:
        kinds = dict.fromkeys(each.kind for each in modules)
        amount = "1 candidate" if len(modules) == 1 else f"{len(modules)} candidates"
        echo(f"{output}: {size(output.stat().st_size)}, {amount} ({', '.join(kinds)})")
        for file in files:
            if Path(f"{file}.sig").exists():
                echo(
                    f"The signatures in {file}.sig are not of this file. Sign it with: devmod sign"
                )


def _check_names(roots: list[tuple[Path, devmod.Module]]) -> None:
    """Raise UsageError for a function that each device would take from an earlier file, where it is
    another kernel.
    """
    owners: dict[Any, tuple[Path, devmod.Module]] = {}
    for file, root in roots:
        for module in walk(root):
            # A program runs where its kernels do.
            places = sorted(
                (each.kind, each.format, getattr(each, "variant", "")) for each in walk(module)
            )
            for name, info in (
                module.functions.items() if module.kind not in ("bundle", "const_loader") else ()
            ):
                key = (name, *places, info.arg_types, requirements(info.interface, module.format))
                first, other = owners.setdefault(key, (file, module))
                if first != file and _code_of(other, name) != _code_of(module, name):
                    raise click.UsageError(
                        f"{first} and {file} have different kernels {name!r} for {module.kind}, and a call would use the first; rename "
                        "one, or pass --prefer-first"
                    )


def _code_of(module: Any, name: str) -> Any:
    """Return the payload of a function, which for a map of shaders is its own; that of an unknown
    kind is all of its bytes.
    """
    return (
        module.code.get(name)
        if isinstance(module.code, dict)
        else module.code or module.save_to_bytes()
    )
