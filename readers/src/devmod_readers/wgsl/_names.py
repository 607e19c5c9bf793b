"""The predeclared names of WGSL, to warn about unknown identifiers."""

from __future__ import annotations

import re

from devmod.errors import list_names
from devmod_readers.wgsl._scalars import SCALARS, SUFFIXES, UNSUPPORTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_readers.wgsl._parse import WgslModule

_WORDS = """
true false bool array atomic ptr sampler sampler_comparison
function private workgroup uniform storage handle read write read_write
bitcast all any select arrayLength abs acos acosh asin asinh atan atanh atan2 ceil clamp cos cosh countLeadingZeros countOneBits
countTrailingZeros cross degrees determinant distance dot dot4U8Packed dot4I8Packed exp exp2 extractBits faceForward firstLeadingBit
firstTrailingBit floor fma fract frexp insertBits inverseSqrt inverse ldexp length log log2 max min mix modf normalize pow quantizeToF16
radians reflect refract reverseBits round saturate sign sin sinh smoothstep sqrt step tan tanh transpose trunc
dpdx dpdxCoarse dpdxFine dpdy dpdyCoarse dpdyFine fwidth fwidthCoarse fwidthFine
storageBarrier textureBarrier workgroupBarrier workgroupUniformLoad subgroupBarrier
quadBroadcast quadSwapDiagonal quadSwapX quadSwapY
"""
_FAMILIES = re.compile(
    rf"(vec[234]|mat[234]x[234])[{''.join(SUFFIXES)}]?|texture(_\w+|[A-Z]\w+)|atomic[A-Z]\w+|(un)?pack(2x16|4x8|4xI8|4xU8)\w*|subgroup[A-Z]\w+"
    r"|(r|rg|rgba|bgra)(8|16|32|64)(unorm|snorm|uint|sint|float)|rgb10a2u(norm|int)|rg11b10ufloat"
)
_KNOWN = frozenset((*_WORDS.split(), *SCALARS, *UNSUPPORTED))


def unknown_names(module: WgslModule) -> str:
    """Return a warning about the unknown identifiers of a module; "" if there are none."""
    unknown: dict[str, int] = {}
    for declared in module.declared.values():
        for name, at in declared.uses.items():
            if name not in module.declared and name not in _KNOWN and not _FAMILIES.fullmatch(name):
                unknown.setdefault(name, at)
    if not unknown:
        return ""
    name, at = next(iter(unknown.items()))
    more = f", and {list_names(list(unknown)[1:])}" if len(unknown) > 1 else ""
    return (
        f"the WGSL source {module.source.name} uses the unknown name {name!r} at {module.source.location(at)}{more}. It is neither "
        "declared nor predeclared in WGSL: correct it, or ignore this warning for an extension. The receiver's compiler decides"
    )
