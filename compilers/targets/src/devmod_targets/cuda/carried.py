"""The sources that PTX carries at its end, as comments: the simulated GPU shows lines of them, and
the names of parameters.

A source is lines after ``//| NAME:``. The names of parameters are the source `KERNELS`, which has a
declaration of each kernel: ``__global__ void f(=1 float32 *x, =2 int32 n)``, where 1 is the number
of the argument.
"""

from __future__ import annotations

from devmod.backend import environment_text
from devmod.targets import CHECKS_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from devmod import FunctionInfo

#: The name of the declarations.
KERNELS = "devmod kernels"
_MARK = "\n//| "


def is_checked() -> bool:
    """Return whether this process compiles for the checks of the simulated GPU."""
    return bool(environment_text(CHECKS_VARIABLE))


def carries_sources(ptx: str) -> bool:
    """Return whether PTX has sources at its end."""
    return _MARK in ptx


def with_sources(
    ptx: str,
    sources: Mapping[str, str] | None,
    functions: Iterable[FunctionInfo],
    order: Sequence[str] = (),
) -> str:
    """Return PTX with sources and names of parameters at its end.

    Parameters
    ----------
    ptx
        The PTX.
    sources
        The texts of the sources by the names that ``.file`` has, without folders, in place of those
        that the PTX has; None to keep these.
    functions
        The kernels, whose parameters get names.
    order
        The names of the arguments in the order of a call, if that of the kernel differs.
    """
    if sources is not None:
        ptx = ptx.partition(_MARK)[0]
    parts = [ptx.rstrip("\0\n") + "\n"]
    texts = dict(sources or {})
    declarations = [_declaration(each, order) for each in functions]
    if declarations:
        texts[KERNELS] = "\n".join(declarations)
    for name, text in texts.items():
        parts.append(_MARK + _MARK.join([f"{name}:", *text.splitlines()]) + "\n\n")
    return "".join(parts)


def _declaration(info: FunctionInfo, order: Sequence[str]) -> str:
    return f"__global__ void {info.name}({', '.join(_parameters(info, order))})"


def _parameters(info: FunctionInfo, order: Sequence[str]) -> Iterator[str]:
    """Yield the number of the argument, the type and the name of each value of a kernel."""
    if info.interface is None:
        return
    for number, param in enumerate(info.interface.params, 1):
        place = number
        if param.name in order:
            place = order.index(param.name) + 1
        star = "" if param.kind == "scalar" else "*"
        yield f"={place} {param.type} {star}{param.name}"
        for value in param.pack[1:]:
            yield f"={place} {value.partition(':')[2]} {param.name}"
