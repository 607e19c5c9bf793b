"""The compiler of source payloads that a program sets, or that a wheel provides by the hook
``devmod_compile`` (R31).
"""

from __future__ import annotations

from devmod._plugins.hooks import call
from devmod.backend import detect_form
from devmod.errors import CompileError, FormatError, NotRegisteredError
from devmod.plugins import claims, lookup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from devmod import Target, TargetSpec
    from devmod.backend import Binary

    Compiled = bytes | tuple[str, bytes]

_compilers: dict[str, Callable[[bytes], Compiled]] = {}


def set_compiler(kind: str, compiler: Callable[[bytes], Compiled] | None) -> None:
    """Replace the compiler of source payloads in this process.

    Parameters
    ----------
    kind
        The kind of the payloads.
    compiler
        A function of the code. It returns bytes, or ``(format, bytes)``. While it runs,
        `Target.current()` is the target to compile for. It is called once for each module and
        architecture, and once for each shader of a map kind. The format of bytes alone follows from
        their magic bytes, or they are text (`TargetSpec.compiled_as`). None removes the
        replacement.

    Raises
    ------
    CompileError
        The kind is unknown, or `compiler` cannot be called.

    Notes
    -----
    The compiler is used when a function is loaded. The outputs of `devmod.compile` and of saving
    never depend on it.
    """
    _spec(kind)
    if compiler is None:
        _compilers.pop(kind, None)
    elif callable(compiler):
        _compilers[kind] = compiler
    else:
        raise CompileError(
            f"set_compiler({kind!r}, …) takes a function, not {type(compiler).__name__}", kind=kind
        )


def has_compiler(kind: str) -> bool:
    """Return whether `run_compiler` calls a compiler for the kind."""
    names = ("devmod_compile", f"devmod_compile.{kind}")
    return kind in _compilers or any(claim.name in names for claim in claims("devmod.hooks"))


def run_compiler(code: Binary, target: Target) -> tuple[str, bytes] | None:
    """Compile `code` with the compiler that a program set or a wheel provides. Return (format,
    bytes), or None if there is none.

    Parameters
    ----------
    code
        The source.
    target
        The kind and the architecture of the device. It is the current target while the compiler
        runs.

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
        if compiler is not None:
            result = compiler(bytes(code))
        else:
            result = call("devmod_compile", kind=kind, code=code)
            if result is None:
                return None
    return _check_payload(_spec(kind), result)


def _spec(kind: str) -> TargetSpec:
    try:
        spec: TargetSpec = lookup("devmod.targets", kind)
    except NotRegisteredError as error:
        raise CompileError(
            f"nothing can be compiled for the kind {kind!r}: {error}", kind=kind
        ) from None
    return spec


def _check_payload(spec: TargetSpec, result: object) -> tuple[str, bytes]:
    """Return the format and the bytes of a compiler's result. The format of bytes alone follows
    from their magic bytes.
    """
    if (
        isinstance(result, tuple)
        and len(result) == 2
        and isinstance(result[0], str)
        and isinstance(result[1], bytes)
    ):
        fmt = spec.canonical_format(result[0])
        if fmt not in spec.formats:
            raise FormatError(
                f"the compiler set for {spec.kind} returned the format {result[0]!r}; its formats: {', '.join(spec.formats)}"
            )
        return fmt, result[1]
    if not isinstance(result, bytes):
        raise CompileError(
            f"the compiler set for {spec.kind} returned {type(result).__name__}; it must return bytes or (format, bytes)",
            kind=spec.kind,
        )
    form = detect_form(result)
    if form not in spec.compiled_as:
        got = "no"
        if result:
            got = form or "unknown"
        raise FormatError(
            f"the compiler set for {spec.kind} returned {got} bytes. Expected "
            f"{' or '.join(spec.compiled_as)} bytes; for another payload, return (format, bytes), with one of the formats "
            f"{', '.join(spec.formats)}",
            kind=spec.kind,
        )
    return spec.compiled_as[form], result
