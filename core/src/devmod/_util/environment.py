"""The environment variables: a table of core's, and the functions that read them. Every call reads the environment again.

A wheel with variables of its own has such a table in its module ``_environment`` and reads them through `devmod.backend`. The page
docs/plugins.md has the rows of all tables.
"""

from __future__ import annotations

import os

#: Core's variables, each with what it does. A value may have white space around it.
VARIABLES = {
    "DEVMOD_COMPILE_FORCE_FALLBACK": "neither empty nor `0` nor `false` (in any case): `create_with_fallback` and `compile` make "
    "fallbacks, also if the runtime is installed",
    "DEVMOD_PREFER": "kinds, separated by commas, that are tried first if a file has several candidates for one function; `load(prefer=…)` "
    "has priority",
    "DEVMOD_DEVICE": "devices such as `opencl:1,vulkan:0`: each is the default device of its kind, in place of number 0. A number in the "
    'program, as in `device("opencl", 0)`, has priority',
    "DEVMOD_PLUGINS_ALLOW": "distributions, separated by commas: only these may provide backends. Core always may",
    "DEVMOD_PLUGINS_DENY": "distributions, separated by commas, that may not provide backends. Core cannot be denied",
    "DEVMOD_PLUGINS_CHOOSE": "`devmod.create.cuda=devmod-cuda-fork`, several separated by commas: the distribution that wins a conflict",
    "DEVMOD_CACHE_DIR": "the folder of caches: the index of entry points, and the results that runtimes compiled. Default: "
    "`$XDG_CACHE_HOME/devmod` or `~/.cache/devmod`; `~/Library/Caches/devmod` on macOS; `%LOCALAPPDATA%\\devmod\\Cache` on Windows",
    "DEVMOD_CACHE_SIZE": "the largest disk space of compiled results, such as `500M` or `2G`; default `1G`, `0` for none. "
    "The least recently used entries are removed first",
    "DEVMOD_LOG": "`debug`: one line on standard error for each decision (which entry, which candidate, and why)",
}

_FALSE = ("0", "false")


def environment_text(name: str) -> str:
    """Return the value of an environment variable without white space around it; "" if it is not set."""
    return os.environ.get(name, "").strip()


def environment_flag(name: str, *, default: bool = False) -> bool:
    """Return whether an environment variable is neither 0 nor false (in any case); `default` if it is empty or not set."""
    value = environment_text(name)
    return value.lower() not in _FALSE if value else default


def environment_items(name: str) -> list[str]:
    """Return the parts of a comma-separated environment variable, without white space and empty parts."""
    return [part for part in map(str.strip, os.environ.get(name, "").split(",")) if part]
