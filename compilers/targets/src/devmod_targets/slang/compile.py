"""The entry of the compiler of Slang: it chooses the translation for a kind."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_targets._compilers import Compiler
    from devmod_targets.authoring import CompileRequest, Payload

#: The modules of the translations. Each has a function ``compile(request, compiler)``.
_TRANSLATIONS = {
    "vulkan": "_shaders",
    "webgpu": "_shaders",
    "metal": "_shaders",
    "cuda": "_cuda",
    "rocm": "_cuda",
    "hexagon": "_cpp",
}


def compile(request: CompileRequest, compiler: Compiler) -> Payload:  # noqa: A001 - what it does
    """Translate a source in Slang, and compile the result.

    Parameters
    ----------
    request
        The compile request.
    compiler
        The compiler of the kind, which takes the kind's own language.

    Returns
    -------
    Payload
        The payload of that compiler. Its functions have the names and the parameters of the source
        in Slang.

    Raises
    ------
    ToolchainNotFoundError
        The wheel slangpy is not installed.
    CompileError
        The source has errors, or the kind lacks something that it uses. `log` contains Slang's
        messages.
    """
    name = _TRANSLATIONS[request.target.kind]
    translation = import_module(f"devmod_targets.slang.{name}")
    payload: Payload = translation.compile(request, compiler)
    return payload
