"""devmod.build: build the kernels of a manifest into one file. The distribution devmod-targets does it."""

from __future__ import annotations

from devmod.errors import ToolchainNotFoundError, not_installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any


def build(manifest: str | os.PathLike[str] = ".", **options: Any) -> Any:
    """Build the kernels of a manifest into one file, as the command ``devmod build`` does.

    Parameters
    ----------
    manifest
        The manifest, or its folder.
    options
        Those of `devmod_targets.build.build.build_manifest`.

    Returns
    -------
    devmod_targets.build.result.BuildResult

    Raises
    ------
    ToolchainNotFoundError
        devmod-targets is not installed.
    """
    from importlib import import_module

    try:
        module = import_module("devmod_targets.build.build")
    except ModuleNotFoundError as error:
        if error.name != "devmod_targets":
            raise
        missing = not_installed("devmod-targets", "pip install devmod-targets")
        raise ToolchainNotFoundError(f"nothing can be built here: {missing}") from None
    return module.build_manifest(manifest, **options)
