"""`devmod explain`: show which candidate of each function a machine gets, and why not the others."""

from __future__ import annotations

import click

from devmod._cli._describe import open_file
from devmod._cli._known import KNOWN
from devmod._cli._options import complete_function, complete_kind, debug_option, quiet_drivers
from devmod._cli._output import echo, echo_all, plugins_at_work, print_json


@click.command(
    "explain",
    short_help=KNOWN["explain"].help,
    epilog="""\b
Examples:
  devmod explain k.devmod                        # every function, on this machine
  devmod explain k.devmod softmax                # one function
  devmod explain k.devmod --device vulkan:1      # on one device of this machine
  devmod explain k.devmod --device cuda:sm_90    # on a device that is not here
  devmod explain k.devmod --json                 # the reasons as data

\b
Exit status:
  0  each function has a candidate that can run there
  1  a function has none, or an error
""",
)
@click.argument("file", type=click.Path(allow_dash=True))
@click.argument("function", required=False, shell_complete=complete_function)
@click.option("--device", metavar="KIND[:NUMBER|:ARCH]", shell_complete=complete_kind("devmod.targets"),
              help="A device of this machine, or the kind and architecture of another one.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
@click.pass_context
def command(context: click.Context, file: str, function: str | None, device: str | None, as_json: bool) -> None:
    """Show for each FUNCTION of FILE the candidate that a call gets, the others that fit, and why each other one is refused.

    FILE is as for `devmod inspect`. The drivers list their devices, unless --device describes one; no payload is loaded or compiled.
    """
    from devmod import explain

    quiet_drivers()
    with plugins_at_work():
        explanation = explain(open_file(file)[1], function, device)
    if as_json:
        print_json(explanation.to_dict())
    else:
        echo_all(str(explanation).splitlines() or ["The file has no functions."])
    if any(candidates[0].outcome != "best" for candidates in explanation.functions.values()):
        if not as_json:
            echo("A function without a candidate that can run there is an error: the exit status is 1.")
        context.exit(1)
