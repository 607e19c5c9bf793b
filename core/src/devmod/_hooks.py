"""What several parties may answer: pluggy hooks, and the compiler that a receiver may replace (R31).

A hook is brought by a wheel as an entry of the group ``devmod.hooks`` named ``<hook>`` or ``<hook>.<kind>``, or in the process
by ``devmod.register("devmod.hooks", "<hook>.<kind>", plugin)``. It is a pluggy plugin, an object or a module; its functions are marked with
``pluggy.HookimplMarker("devmod")``. Only the plugins of the hook and kind in hand are imported, and pluggy only when there
is one.
"""

from __future__ import annotations

from devmod import _registry
from devmod.errors import CompileError, FormatError, PluginError
from devmod.targets import find_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping
    from typing import Any

    from devmod._payload import Binary
    from devmod._registry import Claim
    from devmod.targets import TargetSpec

    Compiled = bytes | tuple[str, bytes]

_compilers: dict[str, Callable[[bytes], Compiled]] = {}


class Hooks:
    """The hooks and their signatures. A plugin that implements one otherwise is refused before it is registered."""

    def devmod_compile(self, kind: str, code: bytes) -> Compiled | None:
        """Compile a source payload on the receiver's machine; None passes it on. The first answer counts."""

    def devmod_verify(self, place: str, index: bytes) -> None:
        """Refuse a bundle, by raising, before a module of it is handed to its runtime.

        `index` is the bundle's index as it stands in the file: it has the SHA-256 of each payload, and its own was checked.
        `place` is the file for messages.
        """

    def devmod_page(self) -> Mapping[str, str | os.PathLike[str]] | None:
        """The page that `devmod view` serves: folders and files, by the path that they are served under; "" is the page itself.

        It is opened with ``?file=<address of the bundle>``.
        """


#: Every hook, and those whose first answer counts.
_ALL = ("devmod_compile", "devmod_verify", "devmod_page")
_FIRST_RESULT = ("devmod_compile",)


def set_compiler(kind: str, compiler: Callable[[bytes], Compiled] | None) -> None:
    """Replace the step that compiles a source payload where it is received.

    Parameters
    ----------
    kind
        The kind whose payloads it compiles.
    compiler
        Called with the code alone, once a module (once a shader for map kinds), and returns bytes, or ``(format, bytes)``.
        Bytes alone are told by their magic: ELF, SPIR-V, else the kind's text form. It may read `Target.current()`. None
        takes the replacement back.

    Raises
    ------
    CompileError
        No target spec knows the kind, or `compiler` cannot be called.

    Notes
    -----
    It serves receivers only: what `devmod.compile` writes and what a module saves never depend on it.
    """
    _spec(kind)
    if compiler is None:
        _compilers.pop(kind, None)
    elif callable(compiler):
        _compilers[kind] = compiler
    else:
        raise CompileError(f"set_compiler({kind!r}, …) takes a function, not {type(compiler).__name__}", kind=kind)


def run_compiler(kind: str, code: Binary) -> tuple[str, bytes] | None:
    """What the replaced compiler makes of `code`, as (format, bytes); None where nobody replaces it.

    Raises
    ------
    CompileError
        It returned something that is no payload of the kind.
    Exception
        What it raises itself comes through unchanged.
    """
    compiler = _compilers.get(kind)
    made = compiler(bytes(code)) if compiler is not None else call("devmod_compile", kind=kind, code=code)
    return None if made is None and compiler is None else _told(_spec(kind), made)


def call(hook: str, *, kind: str = "", **arguments: object) -> Any:
    """Call a hook: its first answer or None, or the list of all answers. `kind` is an argument of the hook where it has one.

    A view among the arguments is given as bytes; where no plugin is, nothing is copied.
    """
    names = (hook, f"{hook}.{kind}")
    claims = [claim for claim in _registry.claims("devmod.hooks") if claim.name in names]
    if not claims:
        return None if hook in _FIRST_RESULT else []
    import pluggy

    manager = pluggy.PluginManager("devmod")
    mark = pluggy.HookspecMarker("devmod")
    for name in _ALL:
        mark(firstresult=name in _FIRST_RESULT)(getattr(Hooks, name))
    manager.add_hookspecs(Hooks)
    for claim in sorted(claims, key=lambda each: names.index(each.name)):  # pluggy asks the last first: the kind's own
        plugin = claim.load()
        if manager.is_registered(plugin):  # one object may stand under the hook's name and under that of the kind
            continue
        try:
            manager.register(plugin, name=f"{claim.key} {'of ' if claim.distribution else ''}{claim.who}")
        except (pluggy.PluginValidationError, ValueError) as error:
            raise _broken(claim, f"does not fit: {error}") from error
        if not any(impl.plugin is plugin for impl in getattr(manager.hook, hook).get_hookimpls()):
            raise _broken(claim, f"has no {hook} marked with pluggy.HookimplMarker('devmod')")
    if hook in _FIRST_RESULT:
        arguments["kind"] = kind
    given = {name: bytes(value) if isinstance(value, memoryview) else value for name, value in arguments.items()}
    return getattr(manager.hook, hook)(**given)


def _broken(claim: Claim, why: str) -> PluginError:
    who = claim.who if claim.distribution else "the plugin registered in this process"
    return PluginError(f"{claim.key} is broken: {who} {why}", distribution=claim.distribution, key=claim.key)


def _spec(kind: str) -> TargetSpec:
    spec = find_spec(kind)
    if spec is None:
        raise CompileError(f"no target is known for the kind {kind!r}, so nothing can be compiled for it", kind=kind)
    return spec


def _told(spec: TargetSpec, made: object) -> tuple[str, bytes]:
    """The (format, bytes) that a replaced compiler returned, by its word or by the magic."""
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], str) and isinstance(made[1], bytes):
        if made[0] not in spec.formats:
            raise FormatError(f"the compiler set for {spec.kind} returned the format {made[0]!r}; its formats: {', '.join(spec.formats)}")
        return made[0], made[1]
    if not isinstance(made, bytes):
        raise CompileError(
            f"the compiler set for {spec.kind} returned {type(made).__name__}; it must return bytes or (format, bytes)", kind=spec.kind
        )
    if made[:4] == b"\x7fELF":
        form = "elf"
    elif made[:4] in (b"\x03\x02\x23\x07", b"\x07\x23\x02\x03"):
        form = "spirv"
    else:
        form = "text"
    if form not in spec.compiled_as:
        said = {"elf": "an ELF file", "spirv": "SPIR-V", "text": "neither ELF nor SPIR-V"}[form]
        raise FormatError(f"the compiler set for {spec.kind} returned {said}, which is no payload of {spec.kind}", kind=spec.kind)
    return spec.compiled_as[form], made
