"""`devmod new-backend`: a distribution of one's own, complete and working with a toy device, to be changed file by file."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.resources import files
from pathlib import Path
from string import Template

import click

from devmod import __version__
from devmod._cli import debug_option
from devmod._names import well_formed

#: Where each file of a distribution comes from: what both sorts have, then what only one of them has. Templates lie flat and have a
#: suffix of their own, so that no tool takes them for code or tests of devmod.
_BOTH = {
    ".gitignore": "gitignore",
    ".github/workflows/test.yml": "workflow.yml",
    "LICENSE": "LICENSE",
    "pyproject.toml": "pyproject.toml",
    "src/{package}/_compile.py": "compile.py",
    "src/{package}/_language.py": "language.py",
    "src/{package}/py.typed": "py.typed",
    "src/{package}/target.py": "target.py",
    "tests/conftest.py": "tests_conftest.py",
    "tests/test_compile.py": "tests_compile.py",
}
_WITH_RUNTIME = {
    "README.md": "readme.md",
    "src/{package}/__init__.py": "init.py",
    "src/{package}/_conformance.py": "conformance.py",
    "src/{package}/_device.py": "device.py",
    "src/{package}/_driver.py": "driver.py",
    "src/{package}/_launch.py": "launch.py",
    "src/{package}/_module.py": "module.py",
    "tests/test_conformance.py": "tests_conformance.py",
    "tests/test_run.py": "tests_run.py",
}
_TARGET_ONLY = {
    "README.md": "readme_target.md",
    "src/{package}/__init__.py": "init_target.py",
    "tests/test_target.py": "tests_target.py",
}
#: The runtime's entry points.
_ENTRIES = """
[project.entry-points."devmod.create"]
{kind} = "{package}:create"

[project.entry-points."devmod.load_from_bytes"]
{kind} = "{package}:load_from_bytes"

# A format, not a kind: the suffix of its files.
[project.entry-points."devmod.load_from_file"]
{kind} = "{package}:load_from_file"

[project.entry-points."devmod.device"]
{kind} = "{package}:devices"

# What `devmod conformance {kind}` runs.
[project.entry-points."devmod.conformance"]
{kind} = "{package}._conformance:{name}Conformance"
"""


@click.command(
    "new-backend",
    short_help="Write a backend of your own, to start from.",
    epilog="""\b
Examples:
  devmod new-backend                             # asks, on a terminal
  devmod new-backend acme                        # writes ./devmod-acme
  devmod new-backend acme --output ~/src --author "Acme Inc."
  devmod new-backend acme --target-only          # the build side alone
""",
)
@click.argument("name", required=False)
@click.option("--output", "-o", type=click.Path(path_type=Path, file_okay=False), help="The folder to make devmod-NAME in. [default: .]")
@click.option("--title", help="The backend's name in messages. [default: NAME, capitalized]")
@click.option("--author", help='Who publishes it. [default: "The devmod-NAME authors"]')
@click.option("--target-only", is_flag=True, help="The build side alone: a compiler, and no runtime.")
@debug_option
def command(name: str | None, output: Path | None, title: str | None, author: str | None, target_only: bool) -> None:
    """Write the distribution devmod-NAME for a kind NAME: package, tests with the conformance kit, CI and README.

    It works as it is, with a toy language and a toy device, and passes its own tests. With NAME nothing is asked.
    """
    if name is None:
        if not sys.stdin.isatty():
            raise click.UsageError("a name is needed: devmod new-backend NAME (on a terminal, without one, it asks)")
        name = click.prompt("The kind's name, such as acme", value_proc=_checked_kind)
        title = title or click.prompt("Its name in messages", default=_title(name), value_proc=_checked_text)
        author = author or click.prompt("Who publishes it", default=f"The devmod-{name} authors", value_proc=_checked_text)
        target_only = target_only or not click.confirm("With a runtime? Without, it compiles and does not run", default=True)
        output = output or click.prompt("The folder to make it in", default=".", type=click.Path(path_type=Path, file_okay=False))
    kind = _checked_kind(name)
    folder = (output or Path()).expanduser() / f"devmod-{kind}"
    _write(
        folder,
        kind,
        title=_checked_text(title or _title(kind)),
        author=_checked_text(author or f"The devmod-{kind} authors"),
        target_only=target_only,
    )
    click.echo(f"{folder} is a {'target' if target_only else 'backend'} that works. Next:")
    click.echo(f'  cd {folder}\n  pip install -e ".[dev]"\n  pytest')
    if not target_only:
        click.echo(f"  devmod conformance {kind}")
    click.echo("README.md says which file to change for what.")


def _write(folder: Path, kind: str, *, title: str, author: str, target_only: bool) -> None:
    if os.path.lexists(folder):
        raise click.UsageError(f"{folder} is there already, and nothing is written into what is; choose another --output, or remove it")
    package, name = f"devmod_{kind}", "".join(part.capitalize() for part in kind.split("_"))
    values = {
        "author": author,
        "conformance_step": "" if target_only else f"      - run: devmod conformance {kind}",
        "core": __version__,
        "dependencies": "" if target_only else '    "numpy>=1.26",  # the toy device runs on it; yours takes its place\n',
        "description": f"The {title} {'target' if target_only else 'backend'} of devmod",
        "distribution": f"devmod-{kind}",
        "entries": "" if target_only else _ENTRIES.format(kind=kind, package=package, name=name),
        "kind": kind,
        "name": name,
        "package": package,
        "title": title,
    }
    templates = files("devmod._cli") / "templates"
    texts = {
        path.format(package=package): Template((templates / f"{template}.tmpl").read_text(encoding="utf-8")).substitute(values)
        for path, template in (_BOTH | (_TARGET_ONLY if target_only else _WITH_RUNTIME)).items()
    }
    folder.mkdir(parents=True)
    try:
        for path, text in texts.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.strip("\n") + "\n" if text else "", encoding="utf-8", newline="\n")
    except BaseException:  # half a backend is none, and would be in the way of the next try
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _checked_kind(name: str) -> str:
    """`name` where a new kind may have it."""
    from devmod._registry import CORE_ENTRIES
    from devmod.targets import BUILT_IN, BUILT_IN_ALIASES, find_spec

    if name.startswith("devmod-"):
        raise click.UsageError(f"the name of the kind is meant, {name.removeprefix('devmod-')!r}; the distribution is called devmod-<kind>")
    if not well_formed(name) or name.endswith("_"):
        raise click.UsageError(
            f"{name!r} cannot be a kind: it is of the form [a-z][a-z0-9_]{{0,31}} and does not end in _, since it stands in keys, "
            "files and the distribution's name"
        )
    formats = {fmt: kind for kind in BUILT_IN if (spec := find_spec(kind)) is not None for fmt in (*spec.formats, *spec.suffixes)}
    if name in BUILT_IN:
        raise click.UsageError(
            f"devmod-core has the kind {name!r} itself, and devmod-{name} is its runtime; a backend brings a kind of its own"
        )
    if name in BUILT_IN_ALIASES or name in formats:
        whose = BUILT_IN_ALIASES.get(name) or formats[name]
        raise click.UsageError(f"{name!r} is a format of the kind {whose}; a backend brings a kind of its own")
    if name in ("core", "bundle") or any(name in entries for entries in CORE_ENTRIES.values()):
        raise click.UsageError(f"{name!r} is a name of devmod-core's own; a backend brings a kind of its own")
    return name


def _checked_text(text: str) -> str:
    """`text` where it can stand in Python and TOML as it is."""
    if not text.strip() or not text.isprintable() or len(text) > 80 or set(text) & set("\"'\\{}`"):
        raise click.UsageError(f"{text!r} is to stand in source files: up to 80 printable characters, no quotes, braces or backslashes")
    return text.strip()


def _title(kind: str) -> str:
    return kind.replace("_", " ").title()
