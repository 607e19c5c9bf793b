"""The commands of all wheels of this repository with their options: the end of
docs/command-line.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc

import click

from devmod_workbench._cli import group
from devmod_workbench._cli._known import KNOWN


def section_of_all() -> str:
    """Return the section of the page."""
    context = click.Context(group, info_name="devmod", **group.context_settings)
    lines = ["| command | what it does | in the wheel |", "|---|---|---|"]
    lines += [
        f"| [`devmod {name}`](#devmod-{name}) | {entry.help} | `{entry.distribution}` |"
        for name, entry in KNOWN.items()
    ]
    lines.append("")
    for name in KNOWN:
        command = group.get_command(context, name)
        if command is None:
            raise SystemExit(
                f"commands: the command {name!r} is not installed here; run make setup first"
            )
        lines += section(command, click.Context(command, info_name=name, parent=context), 3)
    return "\n".join(lines).rstrip() + "\n"


# Where to change: an option of a command
#   here: the option itself, in the file of the command, in `_cli` of its wheel; those of
#     several commands are in `workbench/src/devmod_workbench/_cli/_options.py`, and what prints in
#     `_output.py` beside it. `devmod COMMAND --help` and a section of the built
#     docs/command-line.md are written from it
#   also: a page of `docs/`, or `WITHOUT_A_PAGE` in `tests/test_new_members.py`; a test that gives
#     it; `shell_complete`, or a type that completes, for a kind, a target, a file or a folder
#   tests: `tests/test_new_members.py`, `tests/test_docs.py`
def section(command: click.Command, context: click.Context, level: int) -> Iterator[str]:
    """Yield the lines of a command's section, and of those of its subcommands."""
    yield f"{'#' * level} {context.command_path}\n"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{context.command_path} {usage}\n```\n"
    yield from (
        f"{' '.join(part.split())}\n" for part in cleandoc(command.help or "").split("\n\n")
    )
    options = [
        each.get_help_record(context)
        for each in command.get_params(context)
        if isinstance(each, click.Option)
    ]
    yield "| option | |"
    yield "|---|---|"
    yield from (
        f"| `{record[0]}` | {cell(record[1])} |" for record in options if record is not None
    )
    yield ""
    if command.epilog:
        for part in cleandoc(command.epilog.replace("\b", "")).split("\n\n"):
            title, _, body = part.strip().partition("\n")
            yield f"{title}\n\n```text\n{cleandoc(body)}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            result = command.get_command(context, name)
            assert result is not None
            yield from section(
                result, click.Context(result, info_name=name, parent=context), level + 1
            )


def cell(text: str) -> str:
    """Return a text for a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
