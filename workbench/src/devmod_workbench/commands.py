"""The names for authors of commands: a wheel adds a click command by the entry-point group
``devmod.commands``.

A command prints with these functions alone. They escape control characters and the commands of CI
runners.
"""

from __future__ import annotations

from devmod_workbench._cli import error_text, show_warning
from devmod_workbench._cli._options import (
    FiniteRange,
    OptionalValue,
    OptionalValueCommand,
    OutputPath,
    RequiredUnless,
    WholeNumber,
    complete_function,
    complete_kind,
    debug_option,
    json_option,
    quiet_drivers,
)
from devmod_workbench._cli._output import (
    STDIN,
    STDOUT,
    annotate,
    echo,
    echo_lines,
    plugins_at_work,
    print_json,
    print_table,
    progress,
    size,
    standard_input,
    write_standard_output,
)

__all__ = [
    "STDIN",
    "STDOUT",
    "FiniteRange",
    "OptionalValue",
    "OptionalValueCommand",
    "OutputPath",
    "RequiredUnless",
    "WholeNumber",
    "annotate",
    "complete_function",
    "complete_kind",
    "debug_option",
    "echo",
    "echo_lines",
    "error_text",
    "json_option",
    "plugins_at_work",
    "print_json",
    "print_table",
    "progress",
    "quiet_drivers",
    "show_warning",
    "size",
    "standard_input",
    "write_standard_output",
]
