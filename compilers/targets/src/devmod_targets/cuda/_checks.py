"""What NVIDIA's compilers accept without an error in PTX, and no driver can run: a check at the
build.

NVRTC and nvcc pass the text of inline assembly and the names of undefined functions on to PTX, and
ignore attributes that they do not know.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_targets.authoring import CompileRequest

#: A function that another module must define. The driver defines those of its runtime.
_EXTERN = re.compile(r"^\.extern \.func\s+(?:\([^()]*\)\s*)?([\w$]+)", re.MULTILINE)
_DRIVERS_OWN = frozenset(("vprintf", "malloc", "free", "__assertfail"))
#: The function that devmod's header of HIP calls, and does not define, for a shuffle between more
#: lanes than a warp has.
_WIDE = "devmod_a_shuffle_has_at_most_32_lanes"
_INLINE = re.compile(
    r"^\t// begin inline asm\n(.*?)^\t// end inline asm$", re.MULTILINE | re.DOTALL
)
#: An instruction of AMD's processors. Those of PTX have no underscore in the first word.
_AMD = re.compile(
    r"(?:^|[;{])\s*((?:s|v|ds|buffer|tbuffer|flat|global|scratch|image)_[a-z]\w*)(?=\s|;|$)",
    re.MULTILINE,
)
#: Attributes that change the type of a variable. libclang, which reads the signatures, has them.
_ATTRIBUTE = re.compile(r'unknown attribute "(ext_vector_type|vector_size|mode)"')


def unresolved_function(ptx: str) -> str:
    """Return a function that PTX calls and neither it nor the driver defines; "" if there is
    none.
    """
    for name in _EXTERN.findall(ptx):
        if name not in _DRIVERS_OWN and not name.startswith("cuda"):
            return str(name)
    return ""


def wide_shuffle(text: str) -> str:
    """Return the sentence for an error if a program, or the log of its compiler, has a shuffle
    between more lanes than a warp has.
    """
    if _WIDE not in text:
        return ""
    return "the width of a shuffle is at most the number of lanes of a warp, which is 32 on CUDA"


def check_program(request: CompileRequest, ptx: str, log: str) -> None:
    """Raise CompileError for a program that the compiler accepts and that cannot run, or has other
    types than its signatures.

    Parameters
    ----------
    request
        The request, for the error.
    ptx, log
        The program, and what the compiler reports.
    """
    what = f"the {request.language} source {request.name}"
    attribute = _ATTRIBUTE.search(log)
    if attribute:
        raise request.error(
            f"{what} has the attribute {attribute[1]}, which NVIDIA's compilers ignore: the type would not be a vector. Use a struct, such "
            "as float4",
            log=log,
        )
    name = unresolved_function(ptx)
    if name:
        problem = (
            wide_shuffle(name)
            or f"it uses {name}, without a definition. Define it in the source or in a header that it includes"
        )
        raise request.error(f"the {request.language} source does not compile: {problem}", log=ptx)
    for inline in _INLINE.findall(ptx):
        for instruction in _AMD.findall(inline):
            raise request.error(
                f"{what} has inline assembly of AMD's processors: {instruction}. Keep it for ROCm alone, with #ifdef __HIP_PLATFORM_AMD__",
                log=ptx,
            )
