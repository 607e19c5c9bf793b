"""Parse a Metal program with libclang, and sort clang's diagnostics into errors and warnings."""

from __future__ import annotations

import os
import re
from functools import cache

from devmod_targets.authoring.clang import MAX_ERRORS, SYNTAX_CATEGORIES, VIRTUAL_FOLDER, Libclang
from devmod_targets.metal import _prelude

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_targets.authoring import CompileRequest, SelfContainedSource
    from devmod_targets.metal._reflect import Rewritten

_ARGUMENTS = [
    *("-x", "c++", "-std=c++20", "-target", "x86_64-unknown-linux-gnu", "-nostdinc", "-w", "-ferror-limit=0", "-fno-char8_t"),
    *("-Xclang", "-fsycl-is-device", "-Xclang", "-cl-single-precision-constant"),
    *("-isystem", VIRTUAL_FOLDER, "-include", os.path.join(VIRTUAL_FOLDER, _prelude.NAME)),
]
MAIN = os.path.join(VIRTUAL_FOLDER, "program.metal")
_STANDARD = re.compile(r"-std=(?:macos-|ios-)?metal(\d)\.(\d)")
_DEFAULT = "32"
#: clang's error for an attribute at a position location an annotation is not allowed.
_MISPLACED_ANNOTATION = "'annotate' attribute cannot be applied to types"
#: clang's error for a parameter that is an array in an address space. Such a parameter is rewritten as a pointer.
ARRAY_PARAMETER = "parameter may not be qualified with an address space"
#: Errors that do not depend on devmod's declarations. Names that begin with two underscores are Metal's own.
_PLAIN_ERRORS = re.compile(
    r"redefinition of '|no member named '\w+' in '(?!metal::|__devmod|\w+\s*\(vector)|statement not in (?:a )?(?:loop|switch)"
)
_UNKNOWN = re.compile(
    r"(?:use of undeclared identifier|unknown type name|no template named) '(?!__)|no (?:member|type|template) named '(?!__).* in namespace"
)


def parse_program(library: Libclang, request: CompileRequest, source: SelfContainedSource, text: str) -> Any:
    standard = next((match[1] + match[2] for match in map(_STANDARD.fullmatch, reversed(source.options)) if match), _DEFAULT)
    files = [(MAIN, text), (os.path.join(VIRTUAL_FOLDER, _prelude.NAME), _prelude.text())]
    files += [(os.path.join(VIRTUAL_FOLDER, *name.split("/")), "") for name in _prelude.HEADERS]
    arguments = [*_ARGUMENTS, f"-D__METAL_VERSION__={standard}0"]
    return library.parse(MAIN, arguments, files, kind="metal", description=f"the Metal source {request.name}")


def diagnostics(
    library: Libclang, unit: Any, name: str, source: str, program: Rewritten
) -> tuple[list[str], list[str], list[tuple[int, int]]]:
    """Return the errors, the warnings about unknown names, and the locations of these names."""
    errors: list[str] = []
    warnings: list[str] = []
    unknown: list[tuple[int, int]] = []
    last = -1  # the position of the last unknown name
    for diagnostic in unit.diagnostics:
        if diagnostic.severity < diagnostic.Error or diagnostic.spelling == _MISPLACED_ANNOTATION:
            continue
        position = diagnostic.location
        file, line, _ = library.location(position)
        origin = program.origin(position.offset)
        location = f"{name if file == MAIN else file}:{line}:{origin - source.rfind(chr(10), 0, origin)}" if file else "<options>"
        certain = (
            diagnostic.severity > diagnostic.Error
            or diagnostic.category_name in SYNTAX_CATEGORIES
            or _PLAIN_ERRORS.search(diagnostic.spelling)
        )
        if certain and last >= 0 and diagnostic.severity == diagnostic.Error and ";" not in program.text[last : position.offset]:
            certain = False  # the unknown name may be a type, so other errors in its statement may be wrong
        elif not certain and _UNKNOWN.search(diagnostic.spelling):
            unknown.append((position.line, position.column))
            last = position.offset
        elif not certain:
            continue
        (errors if certain else warnings).append(f"{location}: {'error' if certain else 'warning'}: {diagnostic.spelling}")
        if len(errors) == MAX_ERRORS:
            break
    return errors, warnings, unknown


@cache
def address_spaces(library: Libclang) -> tuple[int, int, int]:
    """Return clang's numbers of the address spaces device, constant and threadgroup."""
    files = [(MAIN, _prelude.SPACES)]
    unit = library.cindex.Index.create().parse(MAIN, args=_ARGUMENTS[:-2], unsaved_files=files)
    device, constant, threadgroup = (each.type.get_pointee().get_address_space() for each in unit.cursor.get_children())
    return device, constant, threadgroup
