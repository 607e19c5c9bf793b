"""The files of a package with operations of PyTorch, for `devmod init --torch`."""

from __future__ import annotations

from keyword import iskeyword
from string import Template

import click

from devmod import __version__
from devmod.backend import is_valid_name
from devmod_targets._text import header_files
from devmod_targets.build.skeleton import SCHEMA_NAME, schema_text


def package_files(name: str) -> dict[str, str]:
    """Return the text of each file of a package, by its path with slashes.

    Raises
    ------
    click.UsageError
        A package of Python cannot have the name.
    """
    if not is_valid_name(name) or iskeyword(name):
        raise click.UsageError(
            f"--torch: expected the name of a package of Python in lower case, such as fast_ops, got {name!r}"
        )
    values = {"name": name, "distribution": name.replace("_", "-"), "version": __version__}
    texts = {
        path.replace("/package/", f"/{name}/").removesuffix(".tmpl"): Template(text).substitute(
            values
        )  # the suffix hides it from tools
        for path, text in header_files("devmod_targets._cli", "templates/torch").items()
    }
    return {**texts, SCHEMA_NAME: schema_text()}
