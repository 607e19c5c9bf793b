"""The files of a package with operations of PyTorch, for `devmod init --torch`."""

from __future__ import annotations

from importlib.resources import files
from keyword import iskeyword
from string import Template

import click

from devmod import __version__
from devmod.backend import is_valid_name
from devmod_targets.build.skeleton import SCHEMA_NAME, schema_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable


def package_files(name: str) -> dict[str, str]:
    """Return the text of each file of a package, by its path with slashes.

    Raises
    ------
    click.UsageError
        A package of Python cannot have the name.
    """
    if not is_valid_name(name) or iskeyword(name):
        raise click.UsageError(f"--torch: expected the name of a package of Python in lower case, such as fast_ops, got {name!r}")
    values = {"name": name, "distribution": name.replace("_", "-"), "version": __version__}
    templates = _templates(files("devmod_targets._cli") / "templates" / "torch")
    texts = {path.replace("/package/", f"/{name}/"): Template(text).substitute(values) for path, text in templates}
    return {**texts, SCHEMA_NAME: schema_text()}


def _templates(folder: Traversable, at: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of each file, and its template, whose suffix ``.tmpl`` hides it from tools."""
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if each.is_dir():
            yield from _templates(each, f"{at}{each.name}/")
        else:
            yield at + each.name.removesuffix(".tmpl"), each.read_text(encoding="utf-8")
