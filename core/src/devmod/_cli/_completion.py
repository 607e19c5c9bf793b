"""Completion of kinds in the shell; click completes commands, options and files."""

from __future__ import annotations

from collections.abc import Callable

import click


def complete_kind(group: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a completer of the kinds in a registry. It imports no plugin."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        from devmod._plugins import registry

        return sorted(kind for kind in registry.registered(group) if kind.startswith(incomplete))

    return complete
