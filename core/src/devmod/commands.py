"""The names for authors of commands: a wheel adds a click command by the entry-point group ``devmod.commands``.

A command prints with these functions alone. They escape control characters and the commands of CI runners.
"""

from __future__ import annotations

from devmod._cli._options import complete_kind as complete_kind
from devmod._cli._options import debug_option as debug_option
from devmod._cli._options import quiet_drivers as quiet_drivers
from devmod._cli._output import STDIN as STDIN
from devmod._cli._output import STDOUT as STDOUT
from devmod._cli._output import annotate as annotate
from devmod._cli._output import echo as echo
from devmod._cli._output import echo_lines as echo_lines
from devmod._cli._output import plugins_at_work as plugins_at_work
from devmod._cli._output import print_json as print_json
from devmod._cli._output import print_table as print_table
from devmod._cli._output import size as size
from devmod._cli._output import standard_input as standard_input
from devmod._cli._output import write_standard_output as write_standard_output

__all__ = [
    "STDIN",
    "STDOUT",
    "annotate",
    "complete_kind",
    "debug_option",
    "echo",
    "echo_lines",
    "plugins_at_work",
    "print_json",
    "print_table",
    "quiet_drivers",
    "size",
    "standard_input",
    "write_standard_output",
]
