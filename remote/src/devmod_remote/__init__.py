"""Bundles at URLs, for `devmod.load` and the cache of `devmod build`. A program imports only ``devmod``.

docs/design/remote.md has the reasons.
"""

from __future__ import annotations

from devmod_remote._packages import describe_import as describe_import
from devmod_remote._source import UrlSource as UrlSource

__all__ = ["UrlSource", "describe_import"]
