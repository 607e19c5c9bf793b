"""The registry for tools: the entries of all distributions, without importing them. Programs use `devmod.registered`."""

from __future__ import annotations

from devmod._plugins.claim import CORE, GROUPS, PROTOCOLS, SHARED_GROUPS, Claim, Distribution, normalize_name
from devmod._plugins.devices import devices_of
from devmod._plugins.discovery import distributions
from devmod._plugins.entries import CORE_ENTRIES, declared_claims, excluding_variable, ignored_entries
from devmod._plugins.lookup import lookup
from devmod._plugins.registry import claims, find, is_claimed, load_claim, registered
from devmod._plugins.specs import find_spec

__all__ = [
    "CORE",
    "CORE_ENTRIES",
    "GROUPS",
    "PROTOCOLS",
    "SHARED_GROUPS",
    "Claim",
    "Distribution",
    "claims",
    "declared_claims",
    "devices_of",
    "distributions",
    "excluding_variable",
    "find",
    "find_spec",
    "ignored_entries",
    "is_claimed",
    "load_claim",
    "lookup",
    "normalize_name",
    "registered",
]
