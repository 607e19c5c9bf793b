"""The command `devmod view`: a page with the tree, the sources and the kernels of a file, served on
this machine.
"""

from __future__ import annotations

import secrets
from pathlib import Path

import click

from devmod.commands import WholeNumber, debug_option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import Module


@click.command(
    "view",
    short_help="Show a file in the browser.",
    epilog="""\b
Examples:
  devmod view k.devmod
  devmod view k.devmod --no-open --port 8000
  devmod compile k.wgsl -t webgpu -o - | devmod view -    # standard input
""",
)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--port",
    metavar="NUMBER",
    type=WholeNumber(0, 65535),
    default=0,
    help="The port on 127.0.0.1. [default: a free one]",
)
@click.option("--no-open", is_flag=True, help="Print the address and open no browser.")
@debug_option
def command(file: Path, port: int, no_open: bool) -> None:
    """Serve FILE, a .devmod bundle, and a page that shows it, to the browsers of this machine until
    Ctrl-C.

    The page shows the modules, their functions and their sources. Every WebGPU kernel has a form
    with its arguments: sizes, numbers, a fill or a file. The form runs the kernel, and shows the
    result as numbers and as a picture. Other kernels have the reason why they cannot run in a
    browser. A program has the graph of its steps. Compressed modules are decompressed into a
    temporary file.
    """
    import devmod
    from devmod.backend import policies, temporary_folder, walk
    from devmod.commands import STDIN, echo, standard_input
    from devmod_workbench._view.page import page
    from devmod_workbench._view.serve import Server

    # An error in the file is shown here, and not in a page.
    if str(file) == STDIN:
        module = devmod.loads(standard_input())
        served = Path("stdin.devmod")
        title = "standard input"
        is_copied = True
    else:
        module = devmod.load(file)
        served = file.resolve()
        title = str(file)
        # Browsers cannot decompress zstd. Under a policy the bytes that were checked are served,
        # whatever the file has become.
        is_copied = bool(policies()) or any(map(_is_compressed, walk(module)))
    with temporary_folder() as folder:
        if is_copied:
            served = Path(folder, served.name)
            devmod.save(module, served, compress="none")
        server = Server(served, page(), port, secrets.token_urlsafe(16))
        echo(f"{title} is shown at {server.url}")
        echo("Ctrl-C ends it.")
        if not no_open:
            import webbrowser

            if not webbrowser.open(server.url):
                echo("No browser could be opened here; open that address in one.", err=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass
        finally:
            server.server_close()


def _is_compressed(module: Module) -> bool:
    return module.origin is not None and "compression" in module.origin.extra
