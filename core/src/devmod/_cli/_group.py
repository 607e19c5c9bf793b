"""A group of commands that suggests a command for a mistyped name."""

from __future__ import annotations

import click

from devmod.errors import did_you_mean


class SuggestingGroup(click.Group):
    """A group of commands. The error for an unknown name has a suggestion and the list of commands."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command for the arguments, as click does."""
        known = self.list_commands(ctx)
        if not args or args[0] in known or args[0].startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        suggestion = did_you_mean(args[0], known) or "."
        raise click.UsageError(f"{ctx.command_path} has no command {args[0]!r}{suggestion} The commands: {', '.join(known)}", ctx)
