"""`devmod new-backend`: write a complete distribution with a toy device, as the start of a new
backend.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

import click

from devmod import __version__
from devmod.backend import is_valid_name
from devmod.commands import debug_option, echo, echo_lines

#: The runtime's entry points.
_RUNTIME_DEPENDENCIES = """\
    "devmod-runtime>={core}",  # devices, arrays and launches
    "numpy>=1.26",  # for the toy device; replace it by your driver
"""
_ENTRIES = """
[project.entry-points."devmod.create"]
{kind} = "{package}:create"

[project.entry-points."devmod.load_from_bytes"]
{kind} = "{package}:load_from_bytes"

# A format, not a kind: the suffix of its files.
[project.entry-points."devmod.load_from_file"]
{format} = "{package}:load_from_file"

[project.entry-points."devmod.device"]
{kind} = "{package}:devices"

# What `devmod conformance {kind}` runs.
[project.entry-points."devmod.conformance"]
{kind} = "{package}._conformance:{name}Conformance"
"""


@click.command(
    "new-backend",
    short_help="Write the skeleton of a new backend.",
    epilog="""\b
Examples:
  devmod new-backend                             # asks for the values on a terminal
  devmod new-backend acme                        # writes ./devmod-acme
  devmod new-backend acme --output ~/src --author "Acme Inc."
  devmod new-backend acme --target-only          # without a runtime
""",
)
@click.argument("name", required=False)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder in which to make devmod-NAME. [default: .]",
)
@click.option("--title", help="The backend's name in messages. [default: NAME, capitalized]")
@click.option("--author", help='The publisher. [default: "The devmod-NAME authors"]')
@click.option("--target-only", is_flag=True, help="Write a compiler without a runtime.")
@debug_option
def command(
    name: str | None, output: Path | None, title: str | None, author: str | None, target_only: bool
) -> None:
    """Write a distribution devmod-NAME for the kind NAME: package, tests with the conformance kit,
    CI and README.

    It has a toy language and a toy device, and passes its own tests. Without NAME, the command asks
    for the values on a terminal.
    """
    if name is None:
        if not sys.stdin.isatty():
            raise click.UsageError(
                "NAME is missing: devmod new-backend NAME (on a terminal, the command asks for it)"
            )
        name = click.prompt("Name of the kind, such as acme", value_proc=_checked_kind)
        title = title or click.prompt(
            "Name in messages", default=_title(name), value_proc=_checked_text
        )
        author = author or click.prompt(
            "Publisher", default=f"The devmod-{name} authors", value_proc=_checked_text
        )
        target_only = target_only or not click.confirm(
            "With a runtime? Without one, modules are compiled but cannot run", default=True
        )
        output = output or click.prompt(
            "Folder to create it in", default=".", type=click.Path(path_type=Path, file_okay=False)
        )
    kind = _checked_kind(name)
    folder = (output or Path()).expanduser() / f"devmod-{kind}"
    _write(
        folder,
        kind,
        title=_checked_text(title or _title(kind)),
        author=_checked_text(author or f"The devmod-{kind} authors"),
        target_only=target_only,
    )
    echo(f"Created {folder}, a working {'target' if target_only else 'backend'}. Next:")
    echo_lines(f'  cd {shlex.quote(str(folder))}\n  pip install -e ".[dev]"\n  pytest')
    if not target_only:
        echo(f"  devmod conformance {kind}")
    echo("README.md lists the files, and what to change in each.")


def _write(folder: Path, kind: str, *, title: str, author: str, target_only: bool) -> None:
    if os.path.lexists(folder):
        raise click.UsageError(f"{folder} exists already. Choose another --output, or remove it")
    package, name = f"devmod_{kind}", "".join(part.capitalize() for part in kind.split("_"))
    # Names that differ show where each is used. A format has at most 32 characters.
    stem = kind[:24]
    fmt = f"{stem}_program"
    values = {
        "author": author,
        "conformance_step": "" if target_only else f"      - run: devmod conformance {kind}",
        "core": __version__,
        "dependencies": "" if target_only else _RUNTIME_DEPENDENCIES.format(core=__version__),
        "description": f"The {title} {'target' if target_only else 'backend'} of devmod",
        "distribution": f"devmod-{kind}",
        "entries": ""
        if target_only
        else _ENTRIES.format(kind=kind, format=fmt, package=package, name=name),
        "format": fmt,
        "kind": kind,
        "name": name,
        "package": package,
        "source_key": f"{stem}_source",
        "source_suffix": f"{stem}src",
        "suffix": f"{stem}prog",
        "title": title,
    }
    templates = files("devmod_conformance._cli") / "templates"
    texts = {
        path.replace("/package/", f"/{package}/"): Template(text).substitute(values)
        for part in ("both", "target" if target_only else "runtime")
        for path, text in _templates(templates / part)
    }
    folder.mkdir(parents=True)
    try:
        for path, text in texts.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.strip("\n") + "\n" if text else "", encoding="utf-8", newline="\n")
    except BaseException as error:  # an incomplete folder would make the next attempt fail
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, KeyboardInterrupt):
            error.add_note(f"interrupted: {folder} was not written")
        raise


def _templates(folder: Traversable, at: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of each file to write, and its template.

    A template has the suffix ``.tmpl``, so that tools do not take it for code or tests of devmod.
    """
    for each in folder.iterdir():
        if each.is_dir():
            yield from _templates(each, f"{at}{each.name}/")
        else:
            yield at + each.name.removesuffix(".tmpl"), each.read_text(encoding="utf-8")


def _checked_kind(name: str) -> str:
    """Return `name`, or raise click.UsageError if a new kind cannot have it."""
    from devmod.plugins import CORE_ENTRIES
    from devmod.targets import NAMES

    if name.startswith("devmod-"):
        raise click.UsageError(
            f"expected the name of the kind, {name.removeprefix('devmod-')!r}, got {name!r}. The distribution is devmod-<kind>"
        )
    if not is_valid_name(name) or name.endswith("_"):
        hint = ""
        lower = name.lower().replace("-", "_").rstrip("_")
        if is_valid_name(lower) and lower not in NAMES:
            hint = f". Did you mean {lower!r}?"
        raise click.UsageError(
            f"{name!r} cannot be a kind: expected a lower-case letter and up to 31 lower-case letters, digits and underscores, "
            f"no underscore at the end{hint}"
        )
    if name in NAMES:
        raise click.UsageError(
            f"{name!r} is a kind of devmod-core, and devmod-{name} is its runtime. Choose the name of a new kind"
        )
    owner = next((kind for kind, names in NAMES.items() if name in names), "")
    if owner:
        raise click.UsageError(
            f"{name!r} is a format or a file suffix of the kind {owner}. Choose the name of a new kind"
        )
    if name in ("core", "bundle") or any(name in entries for entries in CORE_ENTRIES.values()):
        raise click.UsageError(
            f"{name!r} is reserved for devmod-core. Choose the name of a new kind"
        )
    return name


def _checked_text(text: str) -> str:
    """Return `text`, or raise click.UsageError if Python and TOML would need it escaped."""
    if not text.strip() or not text.isprintable() or len(text) > 80 or set(text) & set("\"'\\{}`"):
        raise click.UsageError(
            f"{text!r} cannot be written into source files: expected up to 80 printable characters, no quotes, braces or backslashes"
        )
    return text.strip()


def _title(kind: str) -> str:
    return kind.replace("_", " ").title()
