"""The commands of the `devmod` program: core's own, and those of other wheels (entry-point group ``devmod.commands``)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from devmod._cli._known import KNOWN, SYNONYMS
from devmod._cli._options import SuggestingGroup
from devmod._plugins import entries, messages, registry
from devmod._plugins.claim import CORE
from devmod._util.text import escape_line
from devmod.errors import DevmodError, NotRegisteredError, describe_error, not_installed

GROUP = "devmod.commands"


class Commands(SuggestingGroup):
    """The commands by name. A command is imported when it is called."""

    synonyms = SYNONYMS

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. A SystemExit is an error of a plugin, since no command raises one."""
        try:
            return super().invoke(ctx)
        except SystemExit as error:
            raise DevmodError(f"a plugin ended the command with {describe_error(error)}; --debug shows where") from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*KNOWN, *sorted(name for name in registry.registered(GROUP) if name not in KNOWN)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = KNOWN.get(cmd_name)
        command: click.Command | None
        if entry is not None and entry.distribution == CORE:
            command = import_module(f"devmod._cli.{cmd_name.replace('-', '_')}").command
            return command
        command = registry.find(GROUP, cmd_name) if registry.is_name(GROUP, cmd_name) else None
        if command is None and entry is not None:
            refused = entries.excluded_claim(GROUP, cmd_name)
            if refused is not None:
                raise messages.excluded_error(*refused)
            raise NotRegisteredError(
                f"the command {cmd_name!r} cannot run: {not_installed(entry.distribution, entry.install)}",
                kind=cmd_name,
                key=f"{GROUP}.{cmd_name}",
                distribution=entry.distribution,
            )
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table; click would import each of them."""
        claims = registry.registered(GROUP)
        rows = []
        for name in self.list_commands(ctx):
            entry = KNOWN.get(name)
            line = entry.help if entry else f"From {claims[name].provider}."
            if entry and entry.distribution != CORE and name not in claims:
                line += f" ({entry.install})"
            rows.append((name, escape_line(line)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)
