"""The pluggy hooks.

A wheel provides a hook by an entry of the group ``devmod.hooks`` named ``<hook>`` or
``<hook>.<kind>``, a program by ``devmod.register("devmod.hooks", "<hook>.<kind>", plugin)``. The
plugin is an object or a module whose functions are marked with ``pluggy.HookimplMarker("devmod")``.
A call imports only the plugins for its hook and kind, and imports pluggy only if there is one.
"""

from __future__ import annotations

from functools import partial

from devmod._plugins import registry
from devmod._plugins.claim import Claim, is_verify_with_kind
from devmod.errors import PluginError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from devmod._values.code import Names


#: The pluggy manager of each claim, by its name and provider, with what it was made from.
_managers: dict[Names, tuple[tuple[object, ...], Any]] = {}

# Where to change: a hook
#   here: `HOOKS`, and a method of `Hooks`
#   also: `docs/backend.md`; `hooks.callers` where it acts
#   tests: `tests/test_tutorial.py`, `core/tests/test_hooks.py`
#: Every hook, and those with the parameter `kind`.
HOOKS = ("devmod_compile", "devmod_verify", "devmod_doctor", "devmod_launch")
_OF_A_KIND = ("devmod_compile", "devmod_doctor")


class Hooks:
    """The hooks and their signatures. A plugin with another signature is not registered; the call
    raises PluginError.
    """

    def devmod_compile(self, kind: str, code: bytes) -> bytes | tuple[str, bytes] | None:
        """Compile a source payload on the receiver's machine, for `Target.current()`. The first
        result that is not None is used.
        """

    def devmod_verify(
        self,
        place: str,
        package: str,
        head: bytes,
        size: int,
        signature: bytes | None,
        policies: Names,
    ) -> None:
        """Raise to refuse a file: under a policy when it is opened, else before the first of its
        modules is passed to its runtime.

        `place` is "memory", the URL without credentials and query, or the path, under a policy from
        the root, with its links. `package` is the import package of `devmod.installed`, or "".
        `head` is the header and the index, byte for byte. It has the SHA-256 of each payload, and
        that of the index was checked. It is b"" for what has no index, about which only policies
        are asked. `size` is the size of the file, -1 if it is unknown. `signature` is what the
        argument `signature` had, or under a policy the first 1 MiB and 1 byte of the file beside it
        whose name ends with ".sig". `policies` are the paths in DEVMOD_TRUST.
        """

    def devmod_doctor(self, kind: str) -> list[tuple[str, str, str]]:
        """Return what `devmod.doctor` adds to its report about a kind: the part, the state and the
        text of each `Check`.

        A state is one of "ok", "not installed", "no device" and "problem". It runs in a process of
        its own.
        """
        return []

    def devmod_launch(self, record: object) -> None:
        """Get the `Record` of a launch that `devmod.profile` has recorded, when it is queued: its
        time on the device is not known yet.
        """


def call(hook: str, *, kind: str, **arguments: object) -> Any:
    """Call a hook of which one result is used. Return the first one that is not None; None if there
    is none.
    """
    for _, caller in callers(hook, kind):
        result = caller(**arguments)
        if result is not None:
            return result
    return None


def callers(hook: str, kind: str) -> list[tuple[Claim, Callable[..., Any]]]:
    """Return the claims of a hook, one for each plugin, the kind's first, and the functions that
    call each alone.

    pluggy stops at the first plugin that raises an error. Such a function raises the errors of its
    plugin, also those of its import. A memoryview among its arguments is passed as bytes.

    ``devmod_verify`` takes no kind: each ``devmod_verify.<x>`` is a claim, and its load raises
    PluginError.
    """
    claims = sorted(registry.claims("devmod.hooks"), key=lambda each: each.name)
    result: dict[object, tuple[Claim, Callable[..., Any]]] = {}
    for claim in reversed(claims):
        is_wrong_verify = hook == "devmod_verify" and is_verify_with_kind(claim)
        if not is_wrong_verify and claim.name not in (hook, f"{hook}.{kind}"):
            continue
        plugin: object = id(claim.object)
        if claim.object is None:
            plugin = (claim.value, claim.provider)
        result.setdefault(plugin, (claim, partial(_call, hook, kind, claim)))
    return list(result.values())


def _call(hook: str, kind: str, claim: Claim, **arguments: object) -> Any:
    manager = _manager(hook, claim)
    if hook in _OF_A_KIND:
        arguments["kind"] = kind
    for name, value in arguments.items():
        if isinstance(value, memoryview):
            arguments[name] = bytes(value)
    return getattr(manager.hook, hook)(**arguments)


def _manager(hook: str, claim: Claim) -> Any:
    """Return the pluggy manager with the plugin of a claim. It is made again when the claim has
    changed.
    """
    key = (claim.name, claim.provider)
    source = (claim.value, claim.location, claim.changed, id(claim.object))
    known = _managers.get(key)
    if known is not None and known[0] == source:
        return known[1]
    manager = _make_manager(hook, claim)
    _managers[key] = source, manager
    return manager


def _make_manager(hook: str, claim: Claim) -> Any:
    import pluggy

    manager = pluggy.PluginManager("devmod")
    mark = pluggy.HookspecMarker("devmod")
    for name in HOOKS:
        mark(firstresult=True)(getattr(Hooks, name))
    manager.add_hookspecs(Hooks)
    plugin = registry.load_claim(claim)
    origin = f"of {claim.provider}" if claim.distribution else claim.provider
    try:
        manager.register(plugin, name=f"{claim.key} {origin}")
    except (pluggy.PluginValidationError, ValueError) as error:
        raise _broken(claim, f"cannot be registered: {error}") from error
    if not getattr(manager.hook, hook).get_hookimpls():
        raise _broken(claim, f"has no {hook} marked with pluggy.HookimplMarker('devmod')")
    return manager


def _broken(claim: Claim, why: str) -> PluginError:
    provider = claim.provider if claim.distribution else "the plugin registered in this process"
    return PluginError(
        f"{claim.key} is broken: {provider} {why}", distribution=claim.distribution, key=claim.key
    )
