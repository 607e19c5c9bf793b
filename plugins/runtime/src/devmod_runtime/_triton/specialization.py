"""A specialization as Triton has it here and now: its identity, and Triton's key of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from importlib import import_module
from typing import Any, NamedTuple

from devmod_readers.triton import (
    Parts,
    Specialization,
    UnsupportedError,
    arguments_of,
    function_name,
    own_options,
    parts_of,
)

#: Settings that ask for a compile, or change code and are not in Triton's key: the group and the
#: name of each.
_CODE_SETTINGS = (
    ("amd", "buffer_ops_analyze_small_tensor_range"),
    ("amd", "codegen_path"),
    ("amd", "scalarize_packed_fops"),
    ("amd", "swap_mir"),
    ("compilation", "always_compile"),
    ("compilation", "dump_ir"),
    ("compilation", "override"),
    ("nvidia", "mock_ptx_version"),
)


class Seen(NamedTuple):
    """A specialization as Triton has it here and now."""

    specialization: Specialization
    parts: Parts
    key: str
    hash: str
    libraries: Any


def inspect(jit: Any, compile: Mapping[str, Any]) -> Seen:  # noqa: A002 - Triton's name
    """Return what identifies a specialization, and Triton's key of it."""
    triton = import_module("triton")
    target, backend, options = options_of(jit, compile)
    cache = import_module("triton.runtime.cache")
    environment = dict(import_module("triton._C.libtriton").get_cache_invalidating_env_vars())
    signature = compile["signature"]
    constants = compile["constants"]
    (attributes,) = compile["configs"]
    parts = parts_of(
        jit,
        signature,
        constants,
        attributes,
        vars(options),
        target,
        str(triton.__version__),
        environment,
    )
    source = import_module("triton.compiler").ASTSource(jit, signature, constants, attributes)
    text = cache.get_cache_key(source, backend, options, environment)
    digest = sha256(text.encode()).hexdigest()
    specialization = Specialization(
        function_name(jit),
        arguments_of(signature, constants, attributes),
        recorded_options(backend, options),
    )
    return Seen(specialization, parts, cache._base32(digest), digest, options.extern_libs)


def options_of(jit: Any, compile: Mapping[str, Any]) -> tuple[Any, Any, Any]:  # noqa: A002
    """Return Triton's target, its backend, and the options of a specialization."""
    if getattr(jit, "is_gluon", bool)():
        raise UnsupportedError("it is in Gluon, and not in Triton's language")
    text = compile["specialization_data"]
    if not text:
        raise UnsupportedError("a constant of it cannot be written as JSON")
    target = import_module("triton.runtime.driver").driver.active.get_current_target()
    backend = import_module("triton.compiler.compiler").make_backend(target)
    given = {}
    for name, value in json.loads(text)["options"].items():
        given[name] = tuple(value) if isinstance(value, list) else value
    return target, backend, backend.parse_options(given)


def recorded_options(backend: Any, options: Any) -> dict[str, Any]:
    """Return the options that a record has."""
    return own_options(vars(options), vars(backend.parse_options({})))


def unusual_setting() -> str:
    """Return why a setting of Triton forbids any kernel but one compiled now; "" if none does."""
    knobs = import_module("triton.knobs")
    if getattr(knobs.runtime, "add_stages_inspection_hook", None) is not None:
        return "add_stages_inspection_hook changes Triton's passes"
    for group, name in _CODE_SETTINGS:
        if getattr(getattr(knobs, group, None), name, None):
            return f"knobs.{group}.{name} is set"
    return ""
