"""The options of every command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def debug_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --debug to a command."""

    def remember(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            context.ensure_object(dict)["debug"] = True

    return click.option("--debug", is_flag=True, expose_value=False, callback=remember, help="Show the traceback of an error.")(function)
