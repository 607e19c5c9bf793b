"""The environment variables of core. Each wheel with variables has such a table; nothing imports it at run time."""

from __future__ import annotations

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
    "DEVMOD_PLUGINS_CHOOSE": "`devmod-cuda-fork`, several separated by commas: the distribution that wins its conflicts; "
    "`devmod.create.cuda=devmod-cuda-fork` for one key",
    "DEVMOD_TRUST": "the file of a policy of devmod-trust, several separated as in `PATH`: a `.devmod` file that one of them does not "
    "take is refused. `trust(policy)` adds one",
    "DEVMOD_CACHE_DIR": "the folder of caches: the index of entry points, and the results that runtimes compiled. Default: "
    "`$XDG_CACHE_HOME/devmod` or `~/.cache/devmod`; `~/Library/Caches/devmod` on macOS; `%LOCALAPPDATA%\\devmod\\Cache` on Windows",
    "DEVMOD_CACHE_SIZE": "the largest disk space of compiled results, such as `500M` or `2G`; default `1G`, `0` for none. "
    "The least recently used entries are removed first",
    "DEVMOD_LOG": "`debug`: one line on standard error for each decision (which entry, which candidate, and why)",
}
