"""Compiled kernels for Triton's own launches, from files of `devmod triton build`.

It is `devmod.interop.triton` where devmod-targets is not installed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import devmod
from devmod.backend import describe_value, file_name
from devmod.errors import not_installed
from devmod_readers.triton import MANAGER, rename_modules
from devmod_runtime._triton.served import STRICT, VARIABLE, lock, words

__all__ = ["serve"]


def serve(
    path: str | os.PathLike[str], *, strict: bool = False, names: Mapping[str, str] | None = None
) -> None:
    """Let Triton take its kernels from a file of `devmod triton build`, in this process and in
    those that it starts.

    A launch of a specialization that is not in the file compiles it as before, and one line on
    standard error has their number when the process ends. The call adds the path to the environment
    variable DEVMOD_TRITON and sets TRITON_CACHE_MANAGER, which can also be set without a change of
    the program.

    Parameters
    ----------
    path
        The file. With several calls, the first file that has a specialization serves it.
    strict
        Whether a launch of a specialization that is not in the files is an error: the word "strict"
        in DEVMOD_TRITON.
    names
        The import names in the record of packages or modules that have other ones in this process:
        ``{__name__: "my_kernels"}`` in a package that Hugging Face's `kernels` imports.

    Raises
    ------
    ArgumentError
        `names` has no import names, or the path has the character that separates paths.
    FormatError
        It is no file of `devmod triton build`.
    TrustError
        A policy refuses the file.
    ToolchainNotFoundError
        Triton is not installed.
    OSError
        The file cannot be read, or there is no folder for the files that Triton reads.
    """
    from devmod_runtime._triton import hooks

    name = os.path.abspath(file_name(path))
    if os.pathsep in name:
        raise devmod.ArgumentError(
            f"serve(path): the path {name!r} has {os.pathsep!r}, which separates paths in {VARIABLE}",
            argument="path",
        )
    names = {} if names is None else names
    _check_names(names)
    try:
        import_module("triton")
    except ModuleNotFoundError as error:
        raise devmod.ToolchainNotFoundError(
            f"{name!r} cannot be served: {not_installed('Triton', 'triton', 'triton')}"
        ) from error
    with lock:
        rename_modules(names)
        hooks.server.open(name)
        given = words()
        if name not in given:
            given.append(name)
        if strict and STRICT not in given:
            given.append(STRICT)
        os.environ[VARIABLE] = os.pathsep.join(given)
        os.environ.update(MANAGER)
        hooks.install()


def _check_names(names: Any) -> None:
    """Raise ArgumentError if the values are no import names. A loader may have made the keys."""
    expected = "serve(names): expected a dict such as {__name__: 'my_kernels'}"
    if not isinstance(names, Mapping):
        raise devmod.ArgumentError(f"{expected}, got {describe_value(names)}", argument="names")
    for name, recorded in names.items():
        is_name = isinstance(recorded, str) and all(map(str.isidentifier, recorded.split(".")))
        if not isinstance(name, str) or not is_name:
            raise devmod.ArgumentError(
                f"{expected}, got {describe_value(name)}: {describe_value(recorded)}",
                argument="names",
            )


def __getattr__(name: str) -> Any:
    if name == "CacheManager":
        with lock:
            from devmod_runtime._triton import hooks

            hooks.install()
            return hooks.manager_class()
    if name in ("compile", "load"):  # the module of devmod-targets has these too
        raise devmod.ToolchainNotFoundError(
            f"devmod.interop.triton.{name} cannot be used here: {not_installed('devmod-targets', 'devmod-targets')}"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
