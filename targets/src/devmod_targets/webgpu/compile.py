"""WGSL on the build side: the payload is the source itself, once for each compute entry; what each takes is read by devmod's own reader.

What a runtime follows, in the interface of each function:

- A buffer has ``at=(group, binding)``, ``access`` "r" (``read-only-storage`` in the layout) or "rw" (``storage``), and its element type;
  ``least`` beside these, where it is there, is the number of bytes that the buffer must have at least (WebGPU's minimum binding size;
  without it, 4). A binding's size is a multiple of 4.
- A uniform of scalars and vectors is a scalar a member, ``at=(number of the block, byte offset)``, little-endian; ``blocks`` has the
  block's ``at=(group, binding)`` and its size; the buffer that is bound has its size up to a multiple of 16. Any other uniform is one
  param of kind "uniform": all bytes of that binding.
- ``block`` is the workgroup's size. ``constants`` and ``block_constants`` are the overrides, as `devmod._launch.constants` says: a constant
  goes by its ``id``, in decimal, where it has one, and by its name otherwise.
- ``workgroup_memory``: the bytes of workgroup memory that it takes, with the overrides' defaults; no implementation has to check it.
- ``features``: WebGPU's names of the features that the device has to be opened with, such as "shader-f16".
- The layout of the pipeline has these bindings and no others, in as many groups as the highest names, empty ones between.
- The shader map has the whole file under each function's name; FunctionInfo.name is the entry point in it.
"""

from __future__ import annotations

from devmod._payload import CompileRequest, Origin, Payload
from devmod.errors import CompileError
from devmod.targets._declared import merge
from devmod.targets.webgpu.spec import SPEC
from devmod_targets.webgpu._naga import check
from devmod_targets.webgpu._reflect import survey

_TOOLCHAIN = "devmod WGSL reader 1"


def compile(request: CompileRequest) -> Payload:  # noqa: A001 - what it does
    """The payload of a WGSL source.

    Parameters
    ----------
    request
        The source and what belongs to it. Its fmap is merged over what is read.

    Raises
    ------
    CompileError
        The source has errors, no compute entry, or one that cannot be called; `log` has every line that a compiler said.

    Warns
    -----
    UserWarning
        No naga is there to tell, and the source has names that it does not declare and WGSL does not have. Or naga lays out a struct of
        it otherwise than WGSL does.
    """
    _refuse(request)
    found, doubt, misplaced = survey(request.text, request.name)
    if not found:
        raise CompileError(f"the WGSL source {request.name} has no compute entry: no function in it is marked @compute", kind="webgpu")
    if check(request.text, request.name):
        doubt = ""
    for each in filter(None, (doubt, misplaced)):
        import warnings

        # The caller of devmod.compile: above it stand this function, and two of devmod.compile's own.
        warnings.warn(each, UserWarning, stacklevel=4)
    if "main" in found and request.stem != "main":
        if request.stem in found:
            raise CompileError(
                f"the WGSL source {request.name} has the entries 'main' and {request.stem!r}, and 'main' would be called {request.stem!r} "
                "too; give it another name with name=",
                kind="webgpu",
                function=request.stem,
            )
        found = {request.stem if name == "main" else name: each for name, each in found.items()}
    fmap = merge(SPEC, found, request.fmap)
    code = request.text.encode()
    import hashlib

    origin = Origin(str(request.target), _TOOLCHAIN, (), {request.name: hashlib.sha256(code).hexdigest()})
    return Payload("webgpu", dict.fromkeys(fmap, code), "wgsl", fmap, {"wgsl": request.text}, origin)


def _refuse(request: CompileRequest) -> None:
    """What belongs to other languages."""
    wrong = ""
    if request.target.archs:
        wrong = f"the target {str(request.target)!r} names an architecture; WGSL has none: it is compiled on the device"
    elif request.name_expressions:
        wrong = "name_expressions= instantiates templates, and WGSL has none"
    elif request.options:
        wrong = f"the webgpu target takes no options, and {request.options[0]!r} was given"
    elif request.defines:
        name = next(iter(request.defines))
        wrong = (
            f"defines= has {name!r}, and WGSL has no preprocessor; write 'override {name}' in the source, and set it with "
            f"f.specialize({name}=…)"
        )
    elif request.include:
        wrong = "include= names folders of includes, and WGSL has none"
    if wrong:
        raise CompileError(wrong, kind="webgpu")
