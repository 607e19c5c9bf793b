"""The registry for tools: the entries of all distributions, without importing them. Programs use `devmod.registered`."""

from __future__ import annotations

from devmod._plugins.claim import CORE as CORE
from devmod._plugins.claim import GROUPS as GROUPS
from devmod._plugins.claim import PROTOCOLS as PROTOCOLS
from devmod._plugins.claim import SHARED_GROUPS as SHARED_GROUPS
from devmod._plugins.claim import Claim as Claim
from devmod._plugins.claim import Distribution as Distribution
from devmod._plugins.claim import normalize_name as normalize_name
from devmod._plugins.devices import devices_of as devices_of
from devmod._plugins.discovery import distributions as distributions
from devmod._plugins.entries import CORE_ENTRIES as CORE_ENTRIES
from devmod._plugins.entries import declared_claims as declared_claims
from devmod._plugins.entries import excluding_variable as excluding_variable
from devmod._plugins.entries import ignored_entries as ignored_entries
from devmod._plugins.lookup import lookup as lookup
from devmod._plugins.registry import claims as claims
from devmod._plugins.registry import find as find
from devmod._plugins.registry import is_claimed as is_claimed
from devmod._plugins.registry import load_claim as load_claim
from devmod._plugins.registry import registered as registered
from devmod._plugins.specs import find_spec as find_spec

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
