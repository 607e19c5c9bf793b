"""The command `devmod view`: a page with the tree, the sources and the kernels of a file, served on this machine."""

from __future__ import annotations

import secrets
from pathlib import Path

import click

from devmod.commands import debug_option

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
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port on 127.0.0.1. [default: a free one]")
@click.option("--no-open", is_flag=True, help="Print the address and open no browser.")
@debug_option
def command(file: Path, port: int, no_open: bool) -> None:
    """Serve FILE, a .devmod bundle, and a page that shows it, to the browsers of this machine until Ctrl-C.

    The page shows the modules, their functions and their sources. Every WebGPU kernel has a form with its arguments: sizes, numbers, a
    fill or a file. The form runs the kernel, and shows the result as numbers and as a picture. Other kernels have the reason why they
    cannot run in a browser. Compressed modules are decompressed into a temporary file.
    """
    import devmod
    from devmod.commands import STDIN, standard_input

    if str(file) != STDIN:
        _serve(devmod.load(file), file, str(file), port, no_open)  # an error in the file is shown here, and not in a page
        return
    from devmod.backend import temporary_folder

    with temporary_folder() as folder:
        copy = Path(folder, "stdin.devmod")
        copy.write_bytes(standard_input())
        _serve(devmod.loads(copy.read_bytes()), copy, "standard input", port, no_open)


def _serve(module: Module, file: Path, shown: str, port: int, no_open: bool) -> None:
    """Serve the file of a module, which `shown` names in messages, until Ctrl-C.

    Browsers cannot decompress zstd: a compressed file is decompressed.
    Under a policy the bytes that were checked are served, whatever the file has become.
    """
    import devmod
    from devmod.backend import policies, temporary_folder, walk

    if not policies() and not any(each.origin is not None and "compression" in each.origin.extra for each in walk(module)):
        _serve_plain(file, shown, port, no_open)
        return
    with temporary_folder() as folder:
        copy = Path(folder, file.resolve().name)
        devmod.save(module, copy, compress="none")
        _serve_plain(copy, shown, port, no_open)


def _serve_plain(file: Path, shown: str, port: int, no_open: bool) -> None:
    """Serve a file without compressed bytes until Ctrl-C."""
    from devmod.commands import echo
    from devmod_readers.view._page import page
    from devmod_readers.view._serve import Server

    server = Server(file.resolve(), page(), port, secrets.token_urlsafe(16))
    echo(f"{shown} is shown at {server.url}")
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
