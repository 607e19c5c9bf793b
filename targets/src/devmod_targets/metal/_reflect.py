"""Read the kernels of a program in the Metal shading language with libclang, on any machine.

libclang reads the payload's text, whose ``#line`` directives give the lines of the sources. Syntax errors are errors. Of the other
diagnostics only unknown names are reported, as warnings: devmod declares Metal's functions incompletely, so Metal's compiler decides.
"""

from __future__ import annotations

from devmod.errors import compile_error
from devmod.targets.metal import SPEC
from devmod_readers.reflection import ReflectedFunction
from devmod_targets.authoring._open_block import open_functions
from devmod_targets.authoring.clang import load_libclang
from devmod_targets.metal._attributes import Rewritten
from devmod_targets.metal._kernels import KernelReader
from devmod_targets.metal._program import ARRAY_PARAMETER, diagnostics, parse_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_targets.authoring import CompileRequest, SelfContainedSource


def read(request: CompileRequest, source: SelfContainedSource) -> tuple[dict[str, ReflectedFunction], list[str], str]:
    """Read the kernels of a program.

    Returns
    -------
    dict of str to ReflectedFunction
        The kernels by name.
    list of str
        The warnings.
    str
        The toolchain, such as "libclang 18.1.1".

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    CompileError
        The program has syntax errors, or a kernel with an argument that devmod does not support.
    """
    library = load_libclang(SPEC, "Metal")
    program = Rewritten(source.text)
    unit = parse_program(library, request, source, program.text)
    for _ in range(3):  # clang may report one of two such parameters of a function
        places = [diagnostic.location.offset for diagnostic in unit.diagnostics if diagnostic.spelling == ARRAY_PARAMETER]
        if not places or not program.rewrite_arrays(places):
            break
        unit = parse_program(library, request, source, program.text)
    errors, warnings, unknown = diagnostics(library, unit, request.name, source.text, program)
    if errors:
        raise compile_error("metal", "Metal", errors, "\n".join((*errors, *warnings)))
    messages = ["\n".join(("the Metal source has names that Metal does not define:", *warnings))] if warnings else []
    open_names = set() if unknown else open_functions(source.text)
    reader = KernelReader(library, unit, request.name, program.text, unknown, open_names)
    kernels = reader.kernels()
    if reader.incomplete_types:
        # clang does not lay out a type that only a reference uses. An assertion after the program forces the layout.
        assertions = "".join(f"\nstatic_assert(sizeof({name}));" for name in sorted(reader.incomplete_types))
        unit = parse_program(library, request, source, program.text + assertions)
        kernels = KernelReader(library, unit, request.name, program.text, unknown, open_names).kernels()
    return kernels, messages, library.toolchain
