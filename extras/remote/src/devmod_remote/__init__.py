"""Bundles at URLs, for `devmod.load` and the cache of `devmod build`. A program imports only
``devmod``.

docs/design/remote.md has the reasons.
"""

from __future__ import annotations

from devmod_remote._source import UrlSource as UrlSource
from devmod_remote._source import describe_import as describe_import

__all__ = ["UrlSource", "describe_import"]
