"""The check of a payload, for `devmod verify`."""

from __future__ import annotations

from collections.abc import Mapping

from devmod import FunctionInfo
from devmod.backend import Binary
from devmod_readers.payloads import check_source


def check(fmt: str, data: Binary, functions: Mapping[str, FunctionInfo]) -> bool:
    """Check that the source has the names of its functions."""
    return check_source("host", fmt, data, functions)
