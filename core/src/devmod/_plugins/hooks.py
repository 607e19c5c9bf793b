"""The pluggy hooks, and the compiler of source payloads that a program sets (R31).

A wheel provides a hook by an entry of the group ``devmod.hooks`` named ``<hook>`` or ``<hook>.<kind>``, a program by
``devmod.register("devmod.hooks", "<hook>.<kind>", plugin)``. The plugin is an object or a module whose functions are marked with
``pluggy.HookimplMarker("devmod")``. A call imports only the plugins for its hook and kind, and imports pluggy only if there is one.
"""

from __future__ import annotations

from devmod._plugins import registry
from devmod._plugins.specs import find_spec
from devmod.errors import CompileError, FormatError, PluginError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from devmod._plugins.claim import Claim
    from devmod._values.code import Binary
    from devmod._values.spec import TargetSpec
    from devmod._values.target import Target

    Compiled = bytes | tuple[str, bytes]

_compilers: dict[str, Callable[[bytes], Compiled]] = {}
#: The pluggy manager of each hook and kind, with the claims that it was made from.
_managers: dict[tuple[str, str], tuple[list[Any], Any]] = {}


class Hooks:
    """The hooks and their signatures. A plugin with another signature is not registered; the call raises PluginError."""

    def devmod_compile(self, kind: str, code: bytes) -> Compiled | None:
        """Compile a source payload on the receiver's machine, for `Target.current()`. The first result that is not None is used."""

    def devmod_verify(self, place: str, index: bytes) -> None:
        """Raise to reject a bundle, before any of its modules is passed to its runtime.

        `index` is the bundle's index, byte for byte. It has the SHA-256 of each payload, and its own SHA-256 was checked.
        `place` is the file, for messages.
        """


#: Every hook, and the hooks of which the first result is used.
_ALL = ("devmod_compile", "devmod_verify")
_FIRST_RESULT = ("devmod_compile",)


def set_compiler(kind: str, compiler: Callable[[bytes], Compiled] | None) -> None:
    """Replace the compiler of source payloads in this process.

    Parameters
    ----------
    kind
        The kind of the payloads.
    compiler
        A function of the code. It returns bytes, or ``(format, bytes)``. While it runs, `Target.current()` is the target to compile for.
        It is called once for each module and architecture, and once for each shader of a map kind. The format of bytes alone follows
        from their magic bytes, or they are text (`TargetSpec.compiled_as`). None removes the replacement.

    Raises
    ------
    CompileError
        The kind is unknown, or `compiler` cannot be called.

    Notes
    -----
    The compiler is used when a function is loaded. The outputs of `devmod.compile` and of saving never depend on it.
    """
    _spec(kind)
    if compiler is None:
        _compilers.pop(kind, None)
    elif callable(compiler):
        _compilers[kind] = compiler
    else:
        raise CompileError(f"set_compiler({kind!r}, …) takes a function, not {type(compiler).__name__}", kind=kind)


def has_compiler(kind: str) -> bool:
    """Return whether `run_compiler` calls a compiler for the kind."""
    names = ("devmod_compile", f"devmod_compile.{kind}")
    return kind in _compilers or any(claim.name in names for claim in registry.claims("devmod.hooks"))


def run_compiler(code: Binary, target: Target) -> tuple[str, bytes] | None:
    """Compile `code` with the compiler that a program set or a wheel provides. Return (format, bytes), or None if there is none.

    Parameters
    ----------
    code
        The source.
    target
        The kind and the architecture of the device. It is the current target while the compiler runs.

    Raises
    ------
    CompileError, FormatError
        The compiler returned something that is no payload of the kind.
    Exception
        What the compiler raises passes through unchanged.
    """
    kind = target.kind
    compiler = _compilers.get(kind)
    with target:
        result = compiler(bytes(code)) if compiler is not None else call("devmod_compile", kind=kind, code=code)
    return None if result is None and compiler is None else _check_payload(_spec(kind), result)


def call(hook: str, *, kind: str = "", **arguments: object) -> Any:
    """Call a hook. Return its first result or None for a hook of which one result is used, else the list of all results.

    A memoryview among the arguments is passed as bytes. Without plugins nothing is copied.
    """
    names = (hook, f"{hook}.{kind}")
    claims = [claim for claim in registry.claims("devmod.hooks") if claim.name in names]
    if not claims:
        return None if hook in _FIRST_RESULT else []
    manager = _manager(hook, kind, sorted(claims, key=lambda each: names.index(each.name)))  # pluggy calls the last one first: the kind's
    if hook in _FIRST_RESULT:
        arguments["kind"] = kind
    arguments = {name: bytes(value) if isinstance(value, memoryview) else value for name, value in arguments.items()}
    return getattr(manager.hook, hook)(**arguments)


def _manager(hook: str, kind: str, claims: list[Claim]) -> Any:
    """Return the pluggy manager with the plugins of the claims. It is made again when the claims have changed."""
    source = [(claim.name, claim.value, claim.provider, claim.location, claim.changed, id(claim.object)) for claim in claims]
    known = _managers.get((hook, kind))
    if known is not None and known[0] == source:
        return known[1]
    manager = _make_manager(hook, claims)
    _managers[hook, kind] = source, manager
    return manager


def _make_manager(hook: str, claims: list[Claim]) -> Any:
    import pluggy

    manager = pluggy.PluginManager("devmod")
    mark = pluggy.HookspecMarker("devmod")
    for name in _ALL:
        mark(firstresult=name in _FIRST_RESULT)(getattr(Hooks, name))
    manager.add_hookspecs(Hooks)
    for claim in claims:
        plugin = registry.load_claim(claim)
        if manager.is_registered(plugin):  # it has an entry for all kinds and one for this kind
            continue
        try:
            manager.register(plugin, name=f"{claim.key} {'of ' if claim.distribution else ''}{claim.provider}")
        except (pluggy.PluginValidationError, ValueError) as error:
            raise _broken(claim, f"cannot be registered: {error}") from error
        if not any(impl.plugin is plugin for impl in getattr(manager.hook, hook).get_hookimpls()):
            raise _broken(claim, f"has no {hook} marked with pluggy.HookimplMarker('devmod')")
    return manager


def _broken(claim: Claim, why: str) -> PluginError:
    provider = claim.provider if claim.distribution else "the plugin registered in this process"
    return PluginError(f"{claim.key} is broken: {provider} {why}", distribution=claim.distribution, key=claim.key)


def _spec(kind: str) -> TargetSpec:
    spec = find_spec(kind)
    if spec is None:
        from devmod._plugins.miss import explain_name

        other = explain_name("devmod.targets", kind)
        raise CompileError(
            f"no target is known for the kind {kind!r}, so nothing can be compiled for it{f': {kind} is {other}' if other else ''}",
            kind=kind,
        )
    return spec


def _check_payload(spec: TargetSpec, result: object) -> tuple[str, bytes]:
    """Return the format and the bytes of a compiler's result. The format of bytes alone follows from their magic bytes."""
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], str) and isinstance(result[1], bytes):
        if spec.canonical_format(result[0]) not in spec.formats:
            raise FormatError(f"the compiler set for {spec.kind} returned the format {result[0]!r}; its formats: {', '.join(spec.formats)}")
        return spec.canonical_format(result[0]), result[1]
    if not isinstance(result, bytes):
        raise CompileError(
            f"the compiler set for {spec.kind} returned {type(result).__name__}; it must return bytes or (format, bytes)", kind=spec.kind
        )
    from devmod._util.magic import detect_form, form_title

    form = detect_form(result)
    if form not in spec.compiled_as:
        raise FormatError(
            f"the compiler set for {spec.kind} returned {form_title(form) if result else 'no bytes'}. Expected "
            f"{_listed(map(form_title, spec.compiled_as))}; for another payload, return (format, bytes), with one of the formats "
            f"{', '.join(spec.formats)}",
            kind=spec.kind,
        )
    return spec.compiled_as[form], result


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
