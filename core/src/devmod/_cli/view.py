"""`devmod view`: a file's tree, sources and kernels in the browser. The page comes with devmod-webgpu, by the hook devmod_page."""

from __future__ import annotations

import secrets
from pathlib import Path

import click

from devmod._cli import debug_option


@click.command(
    "view",
    short_help="Show a file in the browser, and run its WebGPU kernels there.",
    epilog="""\b
Examples:
  devmod view k.devmod
  devmod view k.devmod --no-open --port 8000
""",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port on 127.0.0.1; by default a free one.")
@click.option("--no-open", is_flag=True, help="Print the address and open no browser.")
@debug_option
def command(file: Path, port: int, no_open: bool) -> None:
    """Serve FILE, a .devmod bundle, with the page that shows it, to this machine's browsers alone, until Ctrl-C."""
    import devmod
    from devmod._cli._output import printable
    from devmod._cli._serve import Server

    devmod.load(file)  # what is no bundle is refused here, in devmod's own words, and not in a page
    server = Server(file.resolve(), _page(), port, secrets.token_urlsafe(16))
    click.echo(printable(f"{file} is shown at {server.url}"))
    click.echo("Ctrl-C ends it.")
    if not no_open:
        import webbrowser

        if not webbrowser.open(server.url):
            click.echo("No browser could be opened here; open that address in one.", err=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


def _page() -> dict[str, Path]:
    """The folders and files of the page, by the path that they are served under.

    Raises
    ------
    DevmodError
        No distribution brings the page.
    """
    from devmod import _hooks
    from devmod.errors import DevmodError

    answers = _hooks.call("devmod_page")
    if not answers:
        raise DevmodError("the page that shows files in a browser is not installed. To add it: pip install devmod-webgpu")
    return {str(path): Path(place) for path, place in answers[0].items()}
