"""The compiler of WGSL. The payload is the source text, once for each compute entry point;
`devmod_wgsl` reads the interfaces.

devmod evaluates the directives of a source (`_preprocess`), so a payload has none.

A runtime uses these parts of a function's interface:

- A buffer has ``at=(group, binding)``, its element type and ``access``: "r" (``read-only-storage``
  in the layout) or "rw" (``storage``). ``least``, if present, is WebGPU's minimum binding size in
  bytes; the default is 4. The size of a binding is a multiple of 4.
- A uniform of scalars and vectors is one scalar for each member, ``at=(number of the block, byte
  offset)``, little-endian. ``blocks`` contains the block's ``at=(group, binding)`` and its size.
  The bound buffer has that size, rounded up to a multiple of 16. Any other uniform is one param of
  kind "uniform" with all bytes of the binding.
- ``block`` is the workgroup size. ``constants`` and ``block_constants`` describe the overrides. The
  key of a constant is its ``id`` in decimal if it has one, else its name.
- ``workgroup_memory`` is the workgroup memory in bytes, with the overrides' defaults. WebGPU
  implementations need not check it.
- ``features`` lists WebGPU's names of the device features that the entry point needs, such as
  "shader-f16".
- The pipeline layout has exactly these bindings. Groups below the highest one may be empty.
- The shader map contains the whole text under each function's name. FunctionInfo.name is the entry
  point.
"""

from __future__ import annotations

from collections.abc import Mapping

from devmod.targets.webgpu import SPEC
from devmod_targets._compilers import function_name
from devmod_targets.authoring import (
    CompileRequest,
    Payload,
    check_target_options,
    merge_declared,
    options_and_defines,
    warn_caller,
)
from devmod_targets.authoring._source import SelfContainedSource, UserFiles
from devmod_targets.webgpu._naga import check
from devmod_wgsl import survey_wgsl

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
        The source has errors, no compute entry point, or one that devmod cannot call. `log`
        contains the compiler's output.

    Warns
    -----
    UserWarning
        naga is missing and the source has unknown identifiers; or naga lays out a struct of the
        source incorrectly.
    """
    check_target_options(request.target)
    if request.name_expressions:
        raise request.error("name_expressions= is not supported for WGSL, which has no templates")
    # Where to change: an option of the compiler of WebGPU
    #   here: there is none but defines; the text of the error below says so
    #   also: `docs/webgpu.md`
    #   tests: `compilers/targets/tests/test_webgpu_compile.py`
    options, defines = options_and_defines(request)
    if options:
        raise request.error(
            f"the webgpu target accepts no options but -DNAME=VALUE, got {options[0]!r}"
        )
    source = _preprocessed(request, defines)
    entries, unknown_names, layout_warning = survey_wgsl(source.text, request.name)
    if not entries:
        raise request.error(
            f"the WGSL source {request.name} has no compute entry: mark a function with @compute"
        )
    unvalidated, unsupported = check(source.text, request.name)
    warnings = []
    if layout_warning:
        warnings.append(layout_warning)
    doubts = []
    validator = "naga"
    if unvalidated:
        validator = ""
        if unknown_names:
            doubts.append(unknown_names)
    if unsupported:
        doubts.append(unsupported)
    warn_caller(request, warnings, doubts=doubts)
    functions = {}
    for name, entry in entries.items():
        if name == "main":
            name = function_name(request, name, entries.keys() - {name})
        functions[name] = entry
    fmap = merge_declared(SPEC, functions, request.fmap)
    code = source.text.encode()
    return Payload(
        "webgpu",
        dict.fromkeys(fmap, code),
        "wgsl",
        fmap,
        {"wgsl": source.text},
        source.origin(request, _TOOLCHAIN),
        files=source.files,
        validator=validator,
        unvalidated=unvalidated,
    )


def _preprocessed(request: CompileRequest, defines: Mapping[str, str]) -> SelfContainedSource:
    """Return the source without its directives."""
    if "#" not in request.text and not defines:
        return SelfContainedSource(request.text, (), {}, UserFiles(request).sources, {}, {})
    from devmod_targets.webgpu._preprocess import preprocess

    return preprocess(request, defines)
