"""The kernels of a program whose types the caller declares, without a reader of the source."""

from __future__ import annotations

from devmod import Param
from devmod.errors import CompileError
from devmod_targets.authoring import ReflectedFunction
from devmod_targets.nvidia import read_ptx

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from devmod import FunctionInfo
    from devmod_targets.authoring import CompileRequest


def declared_kernels(request: CompileRequest, ptx: str, lowered: Mapping[str, str]) -> dict[str, ReflectedFunction]:
    """Return the kernels of a PTX text by their symbols, or by their name expressions. The types come from the declared fmap.

    Raises
    ------
    CompileError
        The declared fmap has another number of arguments for a kernel.
    """
    expressions = {symbol: expression for expression, symbol in lowered.items()}
    declared = {info.name: info for info in (request.fmap or {}).values()}
    kernels = {}
    for symbol, entry in read_ptx(ptx).items():
        name = expressions.get(symbol, symbol)
        places = entry.params or ()
        types = _declared_types(declared, symbol, len(places))
        params = [Param("", "buffer" if type_ == "handle" else "scalar", "" if type_ == "handle" else type_) for type_ in types]
        kernels[name] = ReflectedFunction(symbol, types, params, entry.block, request.name)
    return kernels


def _declared_types(declared: Mapping[str, FunctionInfo], symbol: str, count: int) -> tuple[str, ...]:
    info = declared.get(symbol)
    if info is None or not info.arg_types:
        return ("",) * count
    if len(info.arg_types) != count:
        raise CompileError(
            f"the declared fmap has {len(info.arg_types)} arguments for the cuda function {symbol!r}; its PTX has {count}",
            kind="cuda",
            function=symbol,
        )
    return info.arg_types
