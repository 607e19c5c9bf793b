"""Template instances of a source payload. The receiver compiles the text alone, so the text contains the instances."""

from __future__ import annotations

import re

from devmod.errors import CompileError
from devmod_targets.authoring import SelfContainedSource
from devmod_targets.authoring.instances import explicit_instances

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from devmod_targets.authoring import CompileRequest


def with_instances(request: CompileRequest, source: SelfContainedSource) -> SelfContainedSource:
    """Append an explicit instantiation for each template instance of `name_expressions` to the source."""
    lines = explicit_instances(request.name_expressions, "__global__ ")
    if not lines:
        return source
    whole = source.text + ("" if source.text.endswith("\n") else "\n") + lines
    return SelfContainedSource(whole, source.options, source.defines, source.sources, source.names, source.files)


def check_visible(request: CompileRequest, ptx: str, lowered: Mapping[str, str]) -> None:
    """Raise CompileError for an expression whose kernel the receiver's compiler would drop: one with internal linkage."""
    visible = set(re.findall(r"^\.(?:visible|weak) \.entry ([\w$]+)", ptx, re.MULTILINE))
    for expression, symbol in lowered.items():
        if symbol not in visible:
            raise CompileError(
                f"name_expressions= contains {expression!r}, a kernel that is static or in an anonymous namespace. With -format=cuda the "
                f"receiver compiles {request.name} without the expression and drops the kernel. Give it external linkage, or compile it "
                "here, as in 'cuda -arch=sm_90'",
                kind="cuda",
                function=expression,
            )
