"""The compiler of WGSL. The payload is the source text, once for each compute entry point; `devmod_readers.wgsl` reads the interfaces.

A runtime uses these parts of a function's interface:

- A buffer has ``at=(group, binding)``, its element type and ``access``: "r" (``read-only-storage`` in the layout) or "rw" (``storage``).
  ``least``, if present, is WebGPU's minimum binding size in bytes; the default is 4. The size of a binding is a multiple of 4.
- A uniform of scalars and vectors is one scalar for each member, ``at=(number of the block, byte offset)``, little-endian. ``blocks``
  contains the block's ``at=(group, binding)`` and its size. The bound buffer has that size, rounded up to a multiple of 16. Any other
  uniform is one param of kind "uniform" with all bytes of the binding.
- ``block`` is the workgroup size. ``constants`` and ``block_constants`` describe the overrides. The key of a constant is its ``id`` in
  decimal if it has one, else its name.
- ``workgroup_memory`` is the workgroup memory in bytes, with the overrides' defaults. WebGPU implementations need not check it.
- ``features`` lists WebGPU's names of the device features that the entry point needs, such as "shader-f16".
- The pipeline layout has exactly these bindings. Groups below the highest one may be empty.
- The shader map contains the whole file under each function's name. FunctionInfo.name is the entry point.
"""

from __future__ import annotations

from devmod import Origin
from devmod.targets.webgpu import SPEC
from devmod_readers.wgsl import survey_wgsl
from devmod_targets.authoring import CompileRequest, Payload, check_target_options, merge_declared, warn_caller
from devmod_targets.webgpu._naga import check

_TOOLCHAIN = "devmod WGSL reader 1"


def compile(request: CompileRequest) -> Payload:  # noqa: A001 - what it does
    """Compile a WGSL source.

    Parameters
    ----------
    request
        The compile request. Its fmap is merged with the reflected functions.

    Returns
    -------
    Payload
        The source text as a payload of kind "webgpu".

    Raises
    ------
    CompileError
        The source has errors, no compute entry point, or one that devmod cannot call. `log` contains the compiler's output.

    Warns
    -----
    UserWarning
        naga is missing and the source has unknown identifiers; or naga lays out a struct of the source incorrectly.
    """
    _check_request(request)
    entries, unknown_names, layout_warning = survey_wgsl(request.text, request.name)
    if not entries:
        raise request.error(f"the WGSL source {request.name} has no compute entry: mark a function with @compute")
    unvalidated, unsupported = check(request.text, request.name)
    doubts = [each for each in (unknown_names if unvalidated else "", unsupported) if each]
    warn_caller(request, [layout_warning] if layout_warning else [], doubts=doubts)
    if "main" in entries and request.stem != "main":
        if request.stem in entries:
            raise request.error(
                f"the WGSL source {request.name} has the entries 'main' and {request.stem!r}, and the function name of 'main' is also "
                f"{request.stem!r}; pass another name in name=",
                function=request.stem,
            )
        entries = {request.stem if name == "main" else name: each for name, each in entries.items()}
    fmap = merge_declared(SPEC, entries, request.fmap)
    code = request.text.encode()
    import hashlib

    origin = Origin(str(request.target), _TOOLCHAIN, (), {request.name: hashlib.sha256(code).hexdigest()})
    shaders = dict.fromkeys(fmap, code)
    return Payload(
        "webgpu",
        shaders,
        "wgsl",
        fmap,
        {"wgsl": request.text},
        origin,
        files={},
        validator="" if unvalidated else "naga",
        unvalidated=unvalidated,
    )


def _check_request(request: CompileRequest) -> None:
    """Raise CompileError for arguments that WGSL does not support."""
    check_target_options(request.target)
    problem = ""
    if request.name_expressions:
        problem = "name_expressions= is not supported for WGSL, which has no templates"
    elif request.options:
        problem = f"the webgpu target accepts no options, got {request.options[0]!r}"
    elif request.defines:
        name = next(iter(request.defines))
        problem = (
            f"defines= contains {name!r}, but WGSL has no preprocessor. Write 'override {name}' in the source, and set it with "
            f"f.specialize({name}=…)"
        )
    elif request.include:
        problem = "include= is not supported for WGSL, which has no includes"
    if problem:
        raise request.error(problem)
