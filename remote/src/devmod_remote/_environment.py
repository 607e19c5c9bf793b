"""The environment variables of this wheel. `devmod.backend` has the functions that read them."""

#: The variables, each with what it does.
VARIABLES = {
    "DEVMOD_OFFLINE": "neither empty nor `0` nor `false` (in any case): `load` of a URL reads the cache on the disk alone; "
    "`load(offline=…)` has priority",
}
