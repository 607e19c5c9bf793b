"""Bundles at URLs, for `devmod.load`. A program imports only ``devmod``."""

from __future__ import annotations

from devmod_remote._source import UrlSource as UrlSource

__all__ = ["UrlSource"]
