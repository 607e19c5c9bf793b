"""HIP source as a payload (``-format=hip``), which the receiver's hiprtc compiles. The build compiles it too, for errors and signatures."""

from __future__ import annotations

from devmod import Origin, Target
from devmod.errors import CompileError
from devmod_readers.options.rocm import is_supported
from devmod_targets.authoring import CompileRequest, Payload, check_target_options, complete_source
from devmod_targets.authoring.clang_options import TOOLCHAIN, split_option
from devmod_targets.authoring.instances import check_explicit, explicit_instances
from devmod_targets.rocm import _headers
from devmod_targets.rocm._device_libs import OPTION as DEVICE_LIBS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    #: A payload, the warnings, and the reports that options request.
    Compiled = tuple[Payload, list[str], list[str]]

_FORMATS = ("hsaco", "hip")
#: The architecture for which a source is checked if the target names none.
_CHECKED = "gfx90a"


def payload_format(target: Target) -> str:
    """Return the format of the payload: that of ``-format=``, or hsaco.

    Raises
    ------
    CompileError
        The target has an unknown format, or several architectures for a source.
    """
    check_target_options(target, ("arch", "format"))
    fmt: str = dict(target.options).get("format", "hsaco")
    if fmt not in _FORMATS:
        raise CompileError(f"the target {str(target)!r} has the option -format={fmt}; expected -format=hsaco or -format=hip", kind="rocm")
    if fmt == "hip" and len(target.archs) > 1:
        raise CompileError(
            f"the target {str(target)!r} keeps the source, which is the same for all architectures; name at most one", kind="rocm"
        )
    return fmt


def keep_source(request: CompileRequest, compile_code: Callable[[CompileRequest], Compiled]) -> Compiled:
    """Return the payload of a HIP source that the receiver compiles, with the warnings and reports of a compile that checks it.

    Parameters
    ----------
    request
        The compile request.
    compile_code
        Compiles a request to a code object.

    Raises
    ------
    CompileError
        The source has errors, its language is not HIP, or an option is one that a receiver does not pass to hiprtc.
    """
    if request.language != "HIP":
        raise CompileError(
            f"the target {str(request.target)!r} keeps the source, and hiprtc compiles HIP alone; {request.language} gives a code object: "
            "'rocm -arch=gfx90a'",
            kind="rocm",
        )
    own = []
    for name in (TOOLCHAIN, DEVICE_LIBS):
        request, value = split_option(request, name)
        own += [f"{name}{value}"] if value else []
    source = complete_source(request, lambda name: name in _headers.files())
    for option in source.options:
        if not is_supported(option):
            raise CompileError(
                f"the rocm option {option!r} is not supported with -format=hip: a receiver does not pass it to hiprtc", kind="rocm"
            )
    text = source.text
    check_explicit("rocm", request.name_expressions)
    instances = explicit_instances(request.name_expressions, "__global__ ")
    if instances:
        text += ("" if text.endswith("\n") else "\n") + instances
    checked, warnings, reports = compile_code(
        request.replace(
            text=text,
            target=Target("rocm", arch=request.target.archs or _CHECKED),
            options=(*own, *source.options),
            defines={},
            include=(),
        )
    )
    options = (*source.options, *(f"-D{name}={value}" for name, value in source.defines.items()))
    assert checked.origin is not None
    origin = Origin(str(request.target), checked.origin.toolchain, options, source.sources)
    return (
        Payload("rocm", text.encode(), "hip", checked.fmap, {"hip": text}, origin, {**source.files, **(checked.files or {})}),
        warnings,
        reports,
    )
