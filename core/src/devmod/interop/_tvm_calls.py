"""Whether TVM's runtime could call a function: what its four fields say must be all there is to say (kernel-abi)."""

from __future__ import annotations

from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod._info import FunctionInfo, Interface, Param
    from devmod.targets import TargetSpec

_SCALARS = ("int64", "int32", "uint32", "float64", "float32")
_SCOPES = ("blockIdx.", "threadIdx.", "clusterCtaIdx.", "preferredClusterCtaIdx.")
_DYNAMIC = "tirx.use_dyn_shared_memory"
_TAGS = frozenset(scope + axis for scope in _SCOPES for axis in "xyz") | {
    _DYNAMIC,
    "tirx.use_programtic_dependent_launch",  # spelled so in TVM
    "tirx.use_cooperative_launch",
    "tirx.use_required_block_dimension",
}


def check(spec: TargetSpec, name: str, info: FunctionInfo) -> None:
    """FormatError where TVM's runtime could not call a function by its four fields."""
    problem = _bad_tag(spec.kind, info) or _bad_argument(spec, info)
    if not problem and info.interface is not None:
        problem = _unlike(spec.kind, info, info.interface)
    if problem:
        raise FormatError(f"TVM cannot call the {spec.kind} function {name!r}: {problem}", kind=spec.kind, function=name)


def _bad_tag(kind: str, info: FunctionInfo) -> str:
    for number, tag in enumerate(info.launch_param_tags):
        if tag == _DYNAMIC and number != len(info.launch_param_tags) - 1:
            return f"its launch tag {tag!r} is not the last"
        if tag not in _TAGS and not (kind == "webgpu" and tag.startswith("paramWriteAccess:")):
            return f"it has the launch tag {tag!r}, which TVM does not know"
    return ""


def _bad_argument(spec: TargetSpec, info: FunctionInfo) -> str:
    scalar_at = None
    for number, text in enumerate(info.arg_types):
        if text != "handle":
            if text not in _SCALARS:
                return f"its argument {number} is a {text}; TVM passes buffers and {', '.join(_SCALARS)}"
            scalar_at = number if scalar_at is None else scalar_at
        elif scalar_at is not None and spec.shader_map:
            return (
                f"its argument {number} is a buffer behind a scalar, argument {scalar_at}; TVM wants a {spec.kind} function's buffers first"
            )
    return ""


def _unlike(kind: str, info: FunctionInfo, interface: Interface) -> str:
    """How an interface differs from the one way in which TVM's functions of that kind take their arguments."""
    if kind == "hexagon":
        return "it takes its arguments as C functions do, and TVM calls by its packed convention"
    for param, text in zip(interface.params, info.arg_types, strict=True):
        if param.kind != ("buffer" if text == "handle" else "scalar"):
            return f"its argument {param.name!r} is of the kind {param.kind}; TVM knows buffers and scalars"
    buffers = [param for param in interface.params if param.kind == "buffer"]
    scalars = [param for param in interface.params if param.kind == "scalar"]
    if kind == "webgpu" and _declared_writes(info) != len(buffers):
        return f"it has no launch tag paramWriteAccess for its {len(buffers)} buffers"
    if kind in ("metal", "vulkan", "webgpu"):
        return _misplaced(kind, interface, buffers, scalars)
    moved = next((param for param in interface.params if param.at is not None), None)
    return f"its argument {moved.name!r} has a place of its own, {moved.at}; TVM goes by the order" if moved else ""


def _misplaced(kind: str, interface: Interface, buffers: Sequence[Param], scalars: Sequence[Param]) -> str:
    """Buffers lie at 0, 1, …; scalars in one block behind them, in slots of 8 bytes (webgpu: 4)."""
    behind = len(buffers)
    for number, param in enumerate(buffers):
        if param.at != (number if kind == "metal" else (0, number)):
            return f"its buffer {param.name!r} lies at {param.at}; TVM binds it at {number}"
    for number, param in enumerate(scalars):
        slot = number * (4 if kind == "webgpu" else 8)
        if param.at != (0, slot):
            return f"its scalar {param.name!r} lies at {param.at}; TVM writes it to byte {slot} of the only block"
    places = {"metal": (behind,), "webgpu": ((0, behind),), "vulkan": ("push", (0, behind))}[kind]
    if scalars and (len(interface.blocks) != 1 or interface.blocks[0].at not in places):
        return f"its scalars do not lie where TVM writes them, at {' or '.join(map(str, places))}"
    return ""


def _declared_writes(info: FunctionInfo) -> int | None:
    """How many buffers the tag ``paramWriteAccess:[0,0,1]`` speaks of; None where there is none."""
    for tag in info.launch_param_tags:
        name, _, digits = tag.partition(":")
        if name == "paramWriteAccess":
            return len([digit for digit in digits.strip("[]").split(",") if digit])
    return None
