"""The registry for tools: the entries of all distributions, without importing them. Programs use
`devmod.registered`.
"""

from __future__ import annotations

from devmod._plugins.claim import CORE, GROUPS, PROTOCOLS, Claim
from devmod._plugins.devices import devices_of
from devmod._plugins.discovery import shared_scan
from devmod._plugins.lookup import lookup
from devmod._plugins.registry import (
    CORE_ENTRIES,
    claims,
    declared_claims,
    find,
    ignored_entries,
    is_claimed,
    load_claim,
    registered,
)
from devmod._plugins.specs import find_spec

__all__ = [
    "CORE",
    "CORE_ENTRIES",
    "GROUPS",
    "PROTOCOLS",
    "Claim",
    "claims",
    "declared_claims",
    "devices_of",
    "find",
    "find_spec",
    "ignored_entries",
    "is_claimed",
    "load_claim",
    "lookup",
    "registered",
    "shared_scan",
]
