"""`devmod compile`: sources and targets in, one file out."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import click

import devmod
from devmod._cli import debug_option
from devmod._cli._output import printable, size
from devmod.targets import find_spec


@click.command(
    "compile",
    short_help="Compile sources for targets into one file.",
    epilog="""\b
Examples:
  devmod compile k.cl -t opencl -o k.devmod
  devmod compile matmul.cl -t opencl -D TILE=8 -I include --option=-cl-fast-relaxed-math -o matmul.devmod
  devmod compile softmax.cl blur.cl -t opencl -o kernels.devmod    # several sources, one file
  devmod compile k.cl -t opencl -o out/k.cl                        # the raw payload and its metadata
""",
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", type=click.Path(path_type=Path))
@click.option("-t", "--target", "targets", multiple=True, required=True, metavar="TARGET",
              help='A target, such as opencl or "cuda -arch=sm_90"; several give one file with all of them.')  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path),
              help="The file to write; by default the first source's name with .devmod, in this folder. "
                   "With another suffix than .devmod: the raw payload, and a metadata file beside it.")  # fmt: skip
@click.option("-D", "--define", "defines", multiple=True, metavar="NAME[=VALUE]", help="Define a macro.")
@click.option("-I", "--include", multiple=True, metavar="FOLDER", help="A folder to look for includes in.")
@click.option("--option", "options", multiple=True, metavar="OPTION",
              help="An option for the backend's compiler, as in --option=-cl-fast-relaxed-math.")  # fmt: skip
@click.option("--name", help="What a shader whose entry is `main` is called; by default the source's stem.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing when all goes well.")
@debug_option
def command(
    sources: tuple[Path, ...],
    targets: tuple[str, ...],
    output: Path | None,
    defines: tuple[str, ...],
    include: tuple[str, ...],
    options: tuple[str, ...],
    name: str | None,
    quiet: bool,
) -> None:
    """Compile sources for targets into one file. No device and no driver is needed, and no runtime."""
    output = output or Path(sources[0].stem + ".devmod")
    if any(output.exists() and source.exists() and output.samefile(source) for source in sources):
        raise click.UsageError(f"{output} is a source; writing to it would overwrite it")
    macros = {key: value if mark else None for key, mark, value in (define.partition("=") for define in defines)}
    modules = [
        devmod.compile(source, target, name=name, options=options, defines=macros, include=include)
        for source, target in product(sources, targets)
    ]
    if output.suffix.lower() == ".devmod":
        _refuse_hidden(sources, targets, modules)
        devmod.save(modules[0] if len(modules) == 1 else devmod.bundle(*modules), output)
    elif len(modules) > 1:
        raise click.UsageError(f"{output} holds one raw payload, and this is {len(modules)}; choose a name that ends in .devmod")
    else:
        (module,) = modules
        spec = find_spec(module.kind)
        suffixes = [suffix for suffix, fmt in spec.suffixes.items() if fmt == module.format] if spec is not None else []
        if spec is not None and suffixes and output.suffix[1:].lower() not in spec.suffixes:
            raise click.UsageError(
                f"{output}: {module.kind} has no files of that suffix; choose a name that ends in .devmod, "
                f"or in .{suffixes[0]} for the raw payload"
            )
        module.write_to_file(output)
    if not quiet:
        for module in modules:
            click.echo(printable(f"{module.kind} {module.format}: {', '.join(module.functions)}"))
        click.echo(f"{output}: {size(output.stat().st_size)}")


def _refuse_hidden(sources: tuple[Path, ...], targets: tuple[str, ...], modules: list[devmod.Module]) -> None:
    """Refuse a file in which a function could never be reached: a name is looked up in the first module of a target that has it."""
    owners: dict[tuple[str, str], Path] = {}
    for (source, target), module in zip(product(sources, targets), modules, strict=True):
        for name in module.functions:
            owner = owners.setdefault((target, name), source)
            if owner is not source:
                raise click.UsageError(f"{owner} and {source} both have a function {name!r}; rename one, or make a file of each")
    twice = next((target for target in targets if targets.count(target) > 1), None)
    if twice is not None:
        raise click.UsageError(f"the target {twice!r} is given twice")
