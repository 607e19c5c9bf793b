"""The names for authors of commands: this name is the module `devmod_workbench.commands` of
devmod-workbench.
"""

from __future__ import annotations

import sys

from devmod import _workbench

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_workbench.commands import STDIN as STDIN
    from devmod_workbench.commands import STDOUT as STDOUT
    from devmod_workbench.commands import FiniteRange as FiniteRange
    from devmod_workbench.commands import OptionalValue as OptionalValue
    from devmod_workbench.commands import OptionalValueCommand as OptionalValueCommand
    from devmod_workbench.commands import OutputPath as OutputPath
    from devmod_workbench.commands import RequiredUnless as RequiredUnless
    from devmod_workbench.commands import WholeNumber as WholeNumber
    from devmod_workbench.commands import annotate as annotate
    from devmod_workbench.commands import complete_function as complete_function
    from devmod_workbench.commands import complete_kind as complete_kind
    from devmod_workbench.commands import debug_option as debug_option
    from devmod_workbench.commands import echo as echo
    from devmod_workbench.commands import echo_lines as echo_lines
    from devmod_workbench.commands import error_text as error_text
    from devmod_workbench.commands import json_option as json_option
    from devmod_workbench.commands import plugins_at_work as plugins_at_work
    from devmod_workbench.commands import print_json as print_json
    from devmod_workbench.commands import print_table as print_table
    from devmod_workbench.commands import progress as progress
    from devmod_workbench.commands import quiet_drivers as quiet_drivers
    from devmod_workbench.commands import show_warning as show_warning
    from devmod_workbench.commands import size as size
    from devmod_workbench.commands import standard_input as standard_input
    from devmod_workbench.commands import write_standard_output as write_standard_output

_workbench("devmod.commands")
__import__("devmod_workbench.commands")  # by its name: core imports no other wheel
sys.modules[__name__] = sys.modules["devmod_workbench.commands"]


def __getattr__(name: str) -> object:
    """Return a name of the workbench's module for an import that has waited for this one's, in
    another thread: Python gives it this module.
    """
    return getattr(sys.modules["devmod_workbench.commands"], name)
