"""The build options that the source of a Metal payload may have: those of MTLCompileOptions."""

from __future__ import annotations

from devmod_readers.options.table import OptionTable

__all__ = ["TABLE", "is_supported"]

#: The versions of MTLLanguageVersion. Sources of before Metal 3 name a system, too.
_VERSIONS = "1.0 1.1 1.2 2.0 2.1 2.2 2.3 2.4 3.0 3.1 3.2 4.0"
# Where to change: an option of the compiler of Metal
#   tests: `compilers/targets/tests/test_compile_metal.py`,
#     `compilers/targets/tests/test_hostile_options.py`
_WORDS = ["-ffast-math", "-fno-fast-math"]
for _system in ("", "macos-", "ios-"):
    _WORDS += [f"-std={_system}metal{version}" for version in _VERSIONS.split()]
TABLE = OptionTable(_WORDS, others="-D.*")


def is_supported(option: str) -> bool:
    """Return whether a source payload may have a build option."""
    return option in TABLE
