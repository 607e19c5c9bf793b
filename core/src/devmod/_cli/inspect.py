"""`devmod inspect`: what is in a file, what is installed for it and what to install. No backend is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from devmod._cli import debug_option
from devmod._cli._describe import describe
from devmod._cli._output import print_json, printable, size


@click.command(
    "inspect",
    short_help="Show what is in a file, and what it needs to run.",
    epilog="""\b
Examples:
  devmod inspect k.devmod
  devmod inspect k.devmod --json
  devmod inspect k.ptx              # a raw payload; k.tvm_meta.json lies beside it
  devmod inspect k.tvmimports       # TVM's imports blob, or a library (.so) that TVM exported
""",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
def command(file: Path, as_json: bool) -> None:
    """Show the modules of FILE: kinds, functions with their signatures, sizes, origin, and the runtime that each needs."""
    found = describe(file)
    if as_json:
        print_json(found)
        return
    click.echo(printable(f"{found['file']}: {found['format']}, {size(found['bytes'])}"))
    _print_module(found["module"], "")
    missing = found["install"]
    click.echo()
    if missing:
        click.echo("To run all of it here:")
        for line in missing:
            click.echo(printable(f"  {line}"))
    else:
        click.echo("All runtimes that it needs are installed here.")


def _print_module(module: dict[str, Any], indent: str) -> None:
    head = module["kind"] + (f" {module['format']}" if module["format"] else "")
    if module["variant"]:
        head += f" {module['variant']}"
    if module["bytes"] is not None:
        head += f", {size(module['bytes'])}"
    runtime = module["runtime"]
    if runtime is not None:
        head += f" — runtime: {runtime['installed'] or 'not installed'}"
    click.echo(printable(indent + head))
    inner = indent + "  "
    if module["kind"] != "bundle":  # its functions are those of its candidates
        for function in module["functions"]:
            click.echo(printable(inner + function["signature"]))
    origin = module["origin"]
    if origin:
        parts = [f"target {origin['target']!r}"] if origin.get("target") else []
        parts += [origin["toolchain"]] if origin.get("toolchain") else []
        parts += [f"options {' '.join(origin['options'])}"] if origin.get("options") else []
        parts += [f"{name} sha256 {digest[:12]}…" for name, digest in origin.get("sources", {}).items()]
        click.echo(printable(f"{inner}from {', '.join(parts)}"))
    for child in module["imports"]:
        _print_module(child, inner)
