"""Compile the kernels of an OpenCL C source by clspv. If they do not compile together, find those
that do not compile alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from devmod.errors import CompileError, list_names
from devmod_targets.authoring._process import TimeLimitError
from devmod_targets.vulkan._clspv import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from devmod_targets.authoring import CompileRequest
    from devmod_targets.vulkan._opencl import KernelSource

Result = TypeVar("Result")
#: The start of a message with a line of the source.
_WITH_LINE = " error: "


def compile_kernels(
    request: CompileRequest, source: KernelSource, compile_text: Callable[[str], Result]
) -> tuple[Result, dict[str, str]]:
    """Compile the kernels of a source.

    Parameters
    ----------
    request, source
        The compile request and its source.
    compile_text
        Returns the result for a text with some of the kernels, or raises CompileError.

    Returns
    -------
    Result
        The result for the kernels that compile.
    dict of str to str
        Why each of the others does not compile, by its name; empty unless the request is partial.

    Raises
    ------
    CompileError
        A kernel does not compile, and the request is not partial; or no kernel compiles.
    """

    def attempt(kernels: Sequence[str]) -> Result:
        return compile_text(source.text_of(kernels))

    reasons = {name: source.problem(name) for name in source.kernels}
    kept = [name for name, reason in reasons.items() if not reason]
    log = ""
    result = None
    if kept:
        try:
            result = attempt(kept)
        except TimeLimitError:
            raise
        except CompileError as error:
            failures = _failures(kept, error, attempt)
            if not failures:
                raise
            log = error.log
            for name, failure in failures.items():
                reasons[name] = _reason(source, name, failure)
            kept = [name for name in kept if name not in failures]
            if kept and request.partial:
                result = attempt(kept)
    refused = {name: reason for name, reason in reasons.items() if reason}
    if result is None or (refused and not request.partial):
        raise _refusal(request, refused, kept, log)
    return result, refused


def _failures(
    kernels: Sequence[str], error: CompileError, attempt: Callable[[Sequence[str]], object]
) -> Mapping[str, CompileError]:
    """Return the errors of the kernels that do not compile alone, of several that do not compile
    together.
    """
    if len(kernels) == 1:
        return {kernels[0]: error}
    failures: dict[str, CompileError] = {}
    middle = len(kernels) // 2
    for half in (kernels[:middle], kernels[middle:]):
        try:
            attempt(half)
        except TimeLimitError:
            raise
        except CompileError as own:
            failures |= _failures(half, own, attempt)
    return failures


def _reason(source: KernelSource, name: str, error: CompileError) -> str:
    """Return why a kernel does not compile, with a line of the source."""
    text = str(error)
    if isinstance(error, SourceError):
        return text
    if _WITH_LINE not in text:
        text = f"{source.kernels[name].location}:{_WITH_LINE}the kernel {name!r}: {text}"
    suspects = source.suspects(name)
    if suspects:
        text += f". Possible causes: {'. '.join(suspects)}"
    return text


def _refusal(
    request: CompileRequest, refused: Mapping[str, str], kept: Sequence[str], log: str
) -> CompileError:
    """Return the error for kernels that do not compile. `kept` are those that do."""
    reasons = list(dict.fromkeys(refused.values()))
    text = reasons[0]
    if len(reasons) > 1:
        text += f" (and {len(reasons) - 1} more in .log)"
        log = "\n".join([*reasons, log]).rstrip()
    if kept:
        text += (
            f". The option --partial leaves out {list_names(refused)}, and keeps {list_names(kept)}"
        )
    return request.error(text, log=log, function=next(iter(refused)))
