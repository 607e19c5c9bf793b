"""Read the kernels that a CUDA C++ program declares, with libclang. No toolkit is needed.

libclang parses the payload's text, whose ``#line`` directives give the lines of the sources. It
skips the bodies of functions, where most programs use names of CUDA that the prelude does not
declare.
"""

from __future__ import annotations

import os
import re
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from devmod.targets.cuda import SPEC
from devmod_targets._paths import below
from devmod_targets._text import define_lines
from devmod_targets.authoring._mangled import parse_function
from devmod_targets.authoring.c_functions import declarations, global_types, is_in, qualified_name
from devmod_targets.authoring.clang import (
    MAX_ERRORS,
    VIRTUAL_FOLDER,
    Libclang,
    LocationSet,
    load_libclang,
)
from devmod_targets.authoring.const_casts import may_cast, written_parameters
from devmod_targets.authoring.instances import (
    expression_number,
    instance_variables,
    parameter_names,
    referenced_function,
    template_of,
)
from devmod_targets.cuda._headers import include_names, predefined
from devmod_targets.cuda.signatures import prelude
from devmod_targets.cuda.signatures.prelude import conditions_agree
from devmod_targets.cuda.signatures.types import (
    Argument,
    cuda_element_type,
    incomplete_name,
    without_inline,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from devmod_targets.authoring import CompileRequest, SelfContainedSource
    from devmod_targets.cuda.nvcc import PreprocessedSource

_HEADERS = os.path.join(VIRTUAL_FOLDER, "include")
_LANGUAGE = (
    "-x",
    "cuda",
    "--cuda-device-only",
    "--cuda-gpu-arch=sm_90",
    "--target=x86_64-unknown-linux-gnu",
    "-nocudainc",
    "-nocudalib",
)
#: The arguments that give clang's preprocessor CUDA C++.
DIALECT = (*_LANGUAGE, "-D__CUDACC__=1")
_SKIP_BODIES = 0x40
#: A parameter whose type has names of numbers alone, with the name of the parameter.
_PLAIN = re.compile(
    rb"(?>(?:(?:const|volatile|unsigned|signed|char|short|int|long|float|double|bool|void|size_t|u?int(?:8|16|32|64)_t|__restrict(?:__)?)\b|[*&\s])+)"
    rb"(?:\b[A-Za-z_]\w*+)?\s*+(?:\[\s*+\d*+\s*+\]\s*+)*"
)
_UNDECLARED = re.compile(r"use of undeclared identifier '(\w+)'")
#: The type of undeclared names in the bodies of functions.
_STAND_IN = "\nstruct devmod_any { unsigned x, y, z; template <class T> operator T() const; };\n"

_STANDARD = re.compile(r"--?std=(c\+\+\d\d)")
_DEFAULT_STANDARD = "c++17"
#: The standards before the one that the prelude needs. They have the same types.
_OLD_STANDARDS = ("c++98", "c++03")
_OLDEST_STANDARD = "c++11"

#: What gcc's headers use and clang lacks, and the macro of CUDA that `_restored` writes.
_RESTORED = """
#define __malloc__(...)
#define __remove_reference __remove_reference_t
#define __reference_converts_from_temporary(to, from) false
#define __global__ __attribute__((global))
"""
#: glibc's definition of the extended types of numbers, for a compiler that lacks them.
_FLOATS_OF_GLIBC = "typedef float _Float32;"
#: The extended types of numbers that g++ has from version 13 on, and clang lacks. Each is a type of
#: its own, since libstdc++ overloads functions by them.
_FLOATS_OF_GCC = """
template <int> struct devmod_float { template <class T> constexpr devmod_float(T); constexpr operator double() const; };
typedef devmod_float<0> _Float32;
typedef devmod_float<1> _Float64;
typedef devmod_float<2> _Float128;
typedef devmod_float<3> _Float32x;
typedef devmod_float<4> _Float64x;
"""
#: gcc's ``integer_sequence<T, __integer_pack(N)...>``, in two parts: the second begins with a word,
#: so its search in megabytes is fast.
_PACK = re.compile(r"__integer_pack\((\w+)\)\.\.\.>")
_PACK_OF = re.compile(r"(\w+)<\s*(\w+),\s*\Z")
#: The largest number of characters of the first part.
_LONGEST = 200


class SourceKernel:
    """A kernel that the source declares.

    Attributes
    ----------
    name
        The qualified name, without template arguments.
    symbol
        The name that libclang mangles.
    cursor
        Its declaration, or for a template the instance.
    arguments
        The cursors of its parameters.
    location
        Its place, such as "k.cu:12".
    is_c
        Whether its symbol contains no types (``extern "C"``).
    is_template
        Whether it is an instance of a template.
    """

    def __init__(
        self, name: str, symbol: str, cursor: Any, location: str, is_c: bool, is_template: bool
    ) -> None:
        self.name = name
        self.symbol = symbol
        self.cursor = cursor
        self.location = location
        self.is_c = is_c
        self.is_template = is_template
        self.arguments = list(cursor.get_arguments())
        self._names: list[str] | None = None

    def signature(self) -> str:
        """Return the key that compares equal for the compiler's symbol, which may mark internal
        linkage in another way.
        """
        return signature_key(self.symbol)

    def parameter_names(self, library: Libclang) -> list[str]:
        """Return the name of each parameter, as `parameter_names` has it."""
        if self._names is None:
            self._names = parameter_names(self.cursor, library)
        return self._names

    def has_plain_types(self, program: bytes, main: str) -> bool:
        """Return whether the parameters are written with the names of numbers alone, which no
        header of NVIDIA changes.
        """
        for argument in self.arguments:
            extent = argument.extent
            if str(extent.start.file) != main:
                return False
            if not _PLAIN.fullmatch(program, extent.start.offset, extent.end.offset):
                return False
        return True


def signature_key(symbol: str) -> str:
    """Return the name and the types in a mangled name; the symbol itself if they are unknown."""
    parts = parse_function(symbol)
    if parts is None:
        return symbol
    return without_inline(parts.signature())


class SourceKernels:
    """The kernels of a program.

    Attributes
    ----------
    by_signature
        The kernels by `signature_key`, in the order of the source.
    by_expression
        The kernel of each name expression that libclang resolves.
    unknown
        The places of errors.
    is_complete
        Whether libclang has all headers and reports no error, so that the types are those of the
        compiler.
    is_certain
        Whether the conditions of the preprocessor are the compiler's.
    known_types
        The arguments that have been read, by type.
    text
        The program.
    library, toolchain
        libclang and its version.
    """

    def __init__(
        self,
        library: Libclang,
        unit: Any,
        main: str,
        text: str,
        expressions: Sequence[str],
        names: dict[str, str],
        options: Sequence[str],
        with_bodies: Callable[[], Any],
        *,
        is_preprocessed: bool,
    ) -> None:
        self.library = library
        self.toolchain = library.toolchain
        self.text = text
        self.known_types: dict[str, Argument] = {}
        locations, fatal = _errors(unit, main, text)
        self.unknown = LocationSet(locations)
        if is_preprocessed:
            # All headers and conditions are the compiler's. libclang has errors in the headers, and
            # at each use of an unknown type.
            self.is_certain = self.is_complete = not fatal
        else:
            known = prelude.headers()
            self.is_certain = not fatal and conditions_agree(text, options, known)
            self.is_complete = (
                self.is_certain
                and not locations
                and all(name in known for name in include_names(text))
            )
        self._main = main
        self._program = text.encode()
        self._unit = unit
        self._with_bodies = with_bodies
        self._names = names
        self.by_signature: dict[str, SourceKernel] = {}
        self.by_expression: dict[str, SourceKernel] = {}
        self._declarations = list(declarations(unit.cursor, is_in(main)))
        for scope, cursor in self._declarations:
            if cursor.kind.name == "VAR_DECL":
                self._add_expression(cursor, expressions)
            elif cursor.kind.name == "FUNCTION_DECL" and _is_kernel(cursor, library):
                is_template = template_of(cursor, library) is not None
                self._add(self._kernel(scope + cursor.spelling, cursor, is_template))

    def _kernel(self, name: str, cursor: Any, is_template: bool) -> SourceKernel:
        file, line, _ = self.library.location(cursor.location)
        place = f"{self._names.get(file, os.path.basename(file))}:{line}"
        symbol = cursor.mangled_name
        return SourceKernel(name, symbol, cursor, place, symbol == cursor.spelling, is_template)

    def _add(self, kernel: SourceKernel) -> None:
        """Add a declaration. A later one replaces the one before it, and keeps its place in the
        order.
        """
        key = kernel.signature()
        # A prototype may have no names.
        if key not in self.by_signature or all(kernel.parameter_names(self.library)):
            self.by_signature[key] = kernel

    def _add_expression(self, variable: Any, expressions: Sequence[str]) -> None:
        """Add the kernel of a name expression, if it is the value of a variable."""
        number = expression_number(variable)
        if number is None:
            return
        target = referenced_function(variable, self.library)
        if target is not None and _is_kernel(target, self.library):
            kernel = self._kernel(qualified_name(target), target, is_template=True)
            self.by_expression[expressions[number]] = kernel

    @cached_property
    def written_parameters(self) -> Mapping[Any, str]:
        """The result of `written_parameters` for the program."""
        if not may_cast(self.text):
            return {}
        own = (each for _, each in declarations(self._with_bodies().cursor, is_in(self._main)))
        return written_parameters(self.library, own, self._names)

    def global_types(self, ptx: str) -> dict[str, list[Any]]:
        """Return the types of the global variables of a binary, if they are the compiler's."""
        if not self.is_complete:
            return {}
        return global_types(self._declarations, ptx.encode(), cuda_element_type)

    def lowered(self, expressions: Iterable[str], symbols: Iterable[str]) -> dict[str, str]:
        """Return the symbol of each name expression among those of a binary; "" for another one,
        such as that of a variable.
        """
        by_signature = {signature_key(symbol): symbol for symbol in symbols}
        lowered = dict.fromkeys(expressions, "")
        for expression in lowered:
            kernel = self.by_expression.get(expression)
            if kernel is not None:
                lowered[expression] = by_signature.get(kernel.signature(), "")
        return lowered

    def has_certain_types(self, kernel: SourceKernel) -> bool:
        """Return whether the types that libclang reads for a kernel without types in its symbol are
        the compiler's.
        """
        if self.is_complete:
            return True
        # A header that libclang lacks is NVIDIA's: those of the user are in the text.
        if not self.is_certain or not kernel.is_c:
            return False
        return kernel.has_plain_types(self._program, self._main)

    def incomplete_types(self) -> list[str]:
        """Return the names of the structs behind pointers that libclang has not laid out."""
        names: set[str] = set()
        for kernel in (*self.by_signature.values(), *self.by_expression.values()):
            names.update(incomplete_name(argument.type) for argument in kernel.arguments)
        names.discard("")
        return sorted(names)


def _errors(unit: Any, main: str, text: str) -> tuple[list[tuple[str, int, int]], bool]:
    """Return the places of libclang's errors in a program, and whether it has stopped at one."""
    locations = []
    is_fatal = False
    last_line = text.count("\n") + 1
    for diagnostic in unit.diagnostics:
        if diagnostic.severity < diagnostic.Error:
            continue
        place = diagnostic.location
        file = ""
        if place.file:
            file = str(place.file)
        # The expressions are after the program. One that libclang does not resolve has no kernel.
        if file == main and place.line > last_line:
            continue
        locations.append((file, place.line, place.column))
        if diagnostic.severity > diagnostic.Error:
            is_fatal = True
        if len(locations) == MAX_ERRORS:
            return locations, True
    return locations, is_fatal


def read_source(
    request: CompileRequest,
    source: SelfContainedSource,
    expressions: Sequence[str],
    *,
    macros: Mapping[str, str] = MappingProxyType({}),
    preprocessed: PreprocessedSource | None = None,
) -> SourceKernels:
    """Parse a program and return its kernels.

    Parameters
    ----------
    request, source
        The request, and its self-contained source.
    expressions
        The name expressions of template instances.
    macros
        The macros that the compiler predefines for the architecture and its version.
    preprocessed
        The preprocessed program, if a compiler with a preprocessor of its own has compiled it.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    CompileError
        libclang crashes on the program.
    """
    library = load_libclang(SPEC, "CUDA C++")
    main = os.path.join(VIRTUAL_FOLDER, "program.cu")
    head_path = os.path.join(VIRTUAL_FOLDER, prelude.NAME)
    appended = instance_variables(expressions)
    if preprocessed is not None:
        text = _restored(preprocessed.main)
        headers = {name: _restored(header) for name, header in preprocessed.headers.items()}
        head = _RESTORED
        if not any(_FLOATS_OF_GLIBC in header for header in headers.values()):
            head += _FLOATS_OF_GCC
    else:
        text = source.text
        headers = dict(prelude.program_headers(text))
        for name in include_names(text):
            headers.setdefault(name, "")  # after a missing file libclang reports no further error
        head = define_lines(macros) + predefined(text) + prelude.text(text + appended)
    files = [(main, text + appended), (head_path, head)]
    for name, content in headers.items():
        if _is_plain(name):
            files.append((below(_HEADERS, name), content))
    arguments = [*_LANGUAGE, "-nostdinc", "-undef"]
    if preprocessed is not None:
        # The functions of a preprocessed program have no attributes of the host and the device:
        # clang overloads functions by them.
        arguments += ["-Xclang", "-fno-cuda-host-device-constexpr"]
    arguments += [
        f"-std={_standard(source.options)}",
        "-w",
        "-ferror-limit=0",
        "-isystem",
        _HEADERS,
        "-include",
        head_path,
    ]

    def parse(flags: int = 0) -> Any:
        return library.parse(
            main,
            arguments,
            files,
            kind="cuda",
            description=f"the CUDA C++ source {request.name}",
            options=flags,
        )

    def parse_bodies() -> Any:
        own = head
        if preprocessed is not None:
            # The functions of a preprocessed program are the host's, which no kernel calls.
            own = own.replace("__attribute__((global))", "")
        files[1] = (head_path, own)
        unit = parse()
        names = _undeclared_names(unit)
        if not names:
            return unit
        # clang drops a statement with an unknown name, such as threadIdx.
        stand_ins = "".join(f"extern devmod_any {name};\n" for name in sorted(names))
        files[1] = (head_path, own + _STAND_IN + stand_ins)
        return parse()

    def read() -> SourceKernels:
        return SourceKernels(
            library,
            parse(_SKIP_BODIES),
            main,
            text,
            expressions,
            {main: request.name},
            source.options,
            parse_bodies,
            is_preprocessed=preprocessed is not None,
        )

    kernels = read()
    incomplete = kernels.incomplete_types()
    if incomplete:
        # libclang does not lay out a template's instance that only a pointer uses. An assertion
        # after the program forces the layout.
        assertions = "".join(f"\nstatic_assert(sizeof({name}));" for name in incomplete)
        files[0] = (main, text + appended + assertions)
        kernels = read()
    return kernels


def _undeclared_names(unit: Any) -> set[str]:
    names = set()
    for diagnostic in unit.diagnostics:
        match = _UNDECLARED.match(diagnostic.spelling)
        if match:
            names.add(match[1])
    return names


def _standard(options: Sequence[str]) -> str:
    """Return the C++ standard for libclang."""
    for option in reversed(options):
        match = _STANDARD.fullmatch(option)
        if not match:
            continue
        if match[1] in _OLD_STANDARDS:
            return _OLDEST_STANDARD
        return match[1]
    return _DEFAULT_STANDARD


def _restored(text: str) -> str:
    """Return a preprocessed text as clang parses it."""
    text = (
        text.replace("__attribute__((host))", "")
        .replace("__attribute__((device))", "")
        .replace("__attribute__((global))", "__global__")
    )
    for pack in reversed([*_PACK.finditer(text)]):
        of = _PACK_OF.search(text, max(0, pack.start() - _LONGEST), pack.start())
        if of is not None:
            text = f"{text[: of.start()]}__make_integer_seq<{of[1]}, {of[2]}, {pack[1]}>{text[pack.end() :]}"
    return text


def _is_plain(name: str) -> bool:
    """Return whether an include names a file below the folder of headers."""
    return not name.startswith("/") and ".." not in name and "\\" not in name and name.isprintable()


def _is_kernel(cursor: Any, library: Libclang) -> bool:
    if _has_global(cursor):
        return True
    pattern = template_of(cursor, library)
    return pattern is not None and _has_global(pattern)


def _has_global(cursor: Any) -> bool:
    return any(each.kind.name == "CUDAGLOBAL_ATTR" for each in cursor.get_children())
