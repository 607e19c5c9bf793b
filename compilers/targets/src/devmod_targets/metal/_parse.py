"""Parse a Metal program with libclang, and sort clang's diagnostics into errors and warnings.

libclang reads Metal as C++ after the header ``headers/devmod_metal.h``. Metal's address spaces
become clang's address spaces for SYCL. These convert to the generic one as in Metal: a struct can
be copied from any of them, and its methods can be called. Only names matter, and the types, sizes
and address spaces of a kernel's arguments, so functions are templates that accept any arguments.
Vectors are clang's, for their components. C++ has no ``float4(a, b)`` for these, so a macro of
that form replaces it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from devmod_targets._paths import below
from devmod_targets._text import header_text
from devmod_targets.authoring import CompileRequest, SelfContainedSource
from devmod_targets.authoring.clang import MAX_ERRORS, SYNTAX_CATEGORIES, VIRTUAL_FOLDER, Libclang
from devmod_targets.metal._rewrite import Rewritten

#: A pointer into each address space. clang's numbers of the address spaces differ between versions.
SPACES = "".join(
    f"__attribute__(({name})) int *{name};\n"
    for name in ("opencl_global", "opencl_global_host", "opencl_local")
)
#: The name of the header that clang includes before the program.
NAME = "devmod_metal.h"
_HEADERS = """
stdlib algorithm array assert atomic command_buffer common compute compute_private config cooperative_tensor depth extended_vector
functional geometric graphics imageblocks initializer_list integer interpolate iterator limits logging math matrix mesh numeric pack
packed_vector pull_vertex_inputs quadgroup raytracing relational simdgroup simdgroup_matrix tensor tessellation texture tile_attributes
type_traits types tuple uniform utility vector visible_function_table
"""
#: The headers that programs include; they are empty.
HEADERS = (
    *(f"metal_{name}" for name in _HEADERS.split()),
    "simd/simd.h",
    "simd/vector_types.h",
    "simd/matrix_types.h",
    "TargetConditionals.h",
    "MetalPerformancePrimitives/MetalPerformancePrimitives.h",
)
_ARGUMENTS = [
    *(
        "-x",
        "c++",
        "-std=c++20",
        "-target",
        "x86_64-unknown-linux-gnu",
        "-nostdinc",
        "-w",
        "-ferror-limit=0",
        "-fno-char8_t",
    ),
    *("-Xclang", "-fsycl-is-device", "-Xclang", "-cl-single-precision-constant"),
    *("-isystem", VIRTUAL_FOLDER, "-include", os.path.join(VIRTUAL_FOLDER, NAME)),
]
MAIN = os.path.join(VIRTUAL_FOLDER, "program.metal")
_STANDARD = re.compile(r"-std=(?:macos-|ios-)?metal(\d)\.(\d)")
_DEFAULT = "32"
#: clang's error for an attribute at a position location an annotation is not allowed.
_MISPLACED_ANNOTATION = "'annotate' attribute cannot be applied to types"
#: clang's error for a parameter that is an array in an address space. Such a parameter is rewritten
#: as a pointer.
ARRAY_PARAMETER = "parameter may not be qualified with an address space"
#: Errors that do not depend on devmod's declarations. Names that begin with two underscores are
#: Metal's own.
_PLAIN_ERRORS = re.compile(
    r"redefinition of '|no member named '\w+' in '(?!metal::|__devmod|\w+\s*\(vector)|statement not in (?:a )?(?:loop|switch)"
)
#: At the end of a text: a name for C++, which is an address space or a kind of function for Metal.
#: The header's macros replace it.
_KEYWORD = re.compile(r"\b(thread|device|constant|threadgroup|kernel)\s*\Z")
_UNKNOWN = re.compile(
    r"(?:use of undeclared identifier|unknown type name|no template named) '(?!__)|no (?:member|type|template) named '(?!__).* in namespace"
)


def version_option(options: Sequence[str]) -> str:
    """Return clang's option for the version of Metal that the options name."""
    for option in reversed(options):
        match = _STANDARD.fullmatch(option)
        if match:
            return f"-D__METAL_VERSION__={match[1]}{match[2]}0"
    return f"-D__METAL_VERSION__={_DEFAULT}0"


def parse_program(
    library: Libclang, request: CompileRequest, source: SelfContainedSource, text: str
) -> Any:
    files = [
        (MAIN, text),
        (os.path.join(VIRTUAL_FOLDER, NAME), header_text(__package__, f"headers/{NAME}")),
    ]
    files += [(below(VIRTUAL_FOLDER, name), "") for name in HEADERS]
    return library.parse(
        MAIN,
        [*_ARGUMENTS, version_option(source.options)],
        files,
        kind="metal",
        description=f"the Metal source {request.name}",
    )


def diagnostics(
    library: Libclang, unit: Any, name: str, source: str, program: Rewritten
) -> tuple[list[str], list[str], list[tuple[int, int]]]:
    """Return the errors, the warnings about unknown names, and the locations of these names."""
    errors = []
    warnings = []
    unknown: list[tuple[int, int]] = []
    last = -1  # the position of the last unknown name
    for diagnostic in unit.diagnostics:
        if diagnostic.severity < diagnostic.Error or diagnostic.spelling == _MISPLACED_ANNOTATION:
            continue
        position = diagnostic.location
        file, line, _ = library.location(position)
        origin = program.origin(position.offset)
        location = "<options>"
        if file:
            path = file
            if file == MAIN:
                path = name
            column = origin - source.rfind("\n", 0, origin)
            location = f"{path}:{line}:{column}"

        certain = _is_certain(diagnostic)
        if not certain:
            if not _UNKNOWN.search(diagnostic.spelling):
                continue
            unknown.append((position.line, position.column))
            last = position.offset
        elif (
            last >= 0
            and diagnostic.severity == diagnostic.Error
            and ";" not in program.text[last : position.offset]
        ):
            # The unknown name may be a type, so other errors in its statement may be wrong.
            certain = False
        if not certain:
            warnings.append(f"{location}: warning: {diagnostic.spelling}")
            continue

        hint = ""
        if file:
            keyword = _KEYWORD.search(source, max(0, origin - 20), origin)
            if keyword:
                hint = f"; '{keyword[1]}' is a keyword of Metal"
        errors.append(f"{location}: error: {diagnostic.spelling}{hint}")
        if len(errors) == MAX_ERRORS:
            break
    return errors, warnings, unknown


def _is_certain(diagnostic: Any) -> bool:
    """Whether a diagnostic is an error whatever devmod declares of Metal."""
    if diagnostic.severity > diagnostic.Error or diagnostic.category_name in SYNTAX_CATEGORIES:
        return True
    return _PLAIN_ERRORS.search(diagnostic.spelling) is not None


@cache
def address_spaces(library: Libclang) -> tuple[int, int, int]:
    """Return clang's numbers of the address spaces device, constant and threadgroup."""
    unit = library.cindex.Index.create().parse(
        MAIN, args=_ARGUMENTS[:-2], unsaved_files=[(MAIN, SPACES)]
    )
    device, constant, threadgroup = (
        each.type.get_pointee().get_address_space() for each in unit.cursor.get_children()
    )
    return device, constant, threadgroup
