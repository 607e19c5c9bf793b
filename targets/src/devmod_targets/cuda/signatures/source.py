"""Read the kernels that a CUDA C++ program declares, with libclang. No toolkit is needed.

libclang parses the payload's text, whose ``#line`` directives give the lines of the sources. It
skips the bodies of functions, where most programs use names of CUDA that the prelude does not
declare.
"""

from __future__ import annotations

import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from devmod.targets.cuda import SPEC
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
    rb"(?:(?:const|volatile|unsigned|signed|char|short|int|long|float|double|bool|void|size_t|u?int(?:8|16|32|64)_t|__restrict(?:__)?)\b|[*&\s])++"
    rb"(?:\b[A-Za-z_]\w*+)?+\s*+(?:\[\s*+\d*+\s*+\]\s*+)*+"
)
_UNDECLARED = re.compile(r"use of undeclared identifier '(\w+)'")
#: The type of undeclared names in the bodies of functions.
_STAND_IN = "\nstruct devmod_any { unsigned x, y, z; template <class T> operator T() const; };\n"


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
        self.name, self.symbol, self.cursor, self.location = name, symbol, cursor, location
        self.is_c, self.is_template = is_c, is_template
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
            start, end = argument.extent.start, argument.extent.end
            if (
                str(start.file) != main
                or _PLAIN.fullmatch(program, start.offset, end.offset) is None
            ):
                return False
        return True


def signature_key(symbol: str) -> str:
    """Return the name and the types in a mangled name; the symbol itself if they are unknown."""
    parts = parse_function(symbol)
    return without_inline(parts.signature()) if parts is not None else symbol


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
        self.library, self.toolchain = library, library.toolchain
        self.text = text
        self.known_types: dict[str, Argument] = {}
        locations, fatal, last_line = [], False, text.count("\n") + 1
        for diagnostic in unit.diagnostics:
            place = diagnostic.location
            # The expressions are after the program. One that libclang does not resolve has no
            # kernel.
            is_expression = (
                place.line > last_line and place.file is not None and str(place.file) == main
            )
            if diagnostic.severity >= diagnostic.Error and not is_expression:
                locations.append((str(place.file) if place.file else "", place.line, place.column))
                fatal |= diagnostic.severity > diagnostic.Error
                if len(locations) == MAX_ERRORS:
                    fatal = True
                    break
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
        self._main, self._program, self._unit = main, text.encode(), unit
        self._with_bodies, self._names = with_bodies, names
        self.by_signature: dict[str, SourceKernel] = {}
        self.by_expression: dict[str, SourceKernel] = {}

        def kernel(name: str, cursor: Any, is_template: bool = False) -> SourceKernel:
            file, line, _ = library.location(cursor.location)
            place = f"{names.get(file, os.path.basename(file))}:{line}"
            symbol = cursor.mangled_name
            return SourceKernel(name, symbol, cursor, place, symbol == cursor.spelling, is_template)

        self._declarations = list(declarations(unit.cursor, is_in(main)))
        for scope, cursor in self._declarations:
            if cursor.kind.name == "VAR_DECL":
                number = expression_number(cursor)
                target = referenced_function(cursor, library) if number is not None else None
                if number is not None and target is not None and _is_kernel(target, library):
                    self.by_expression[expressions[number]] = kernel(
                        qualified_name(target), target, is_template=True
                    )
            elif cursor.kind.name == "FUNCTION_DECL" and _is_kernel(cursor, library):
                entry = kernel(
                    scope + cursor.spelling, cursor, template_of(cursor, library) is not None
                )
                # A later declaration replaces the one before it, and keeps its place in the order.
                # A prototype may have no names.
                key = entry.signature()
                if key not in self.by_signature or all(entry.parameter_names(library)):
                    self.by_signature[key] = entry

    @cached_property
    def written_parameters(self) -> Mapping[Any, str]:
        """The result of `written_parameters` for the program."""
        if not may_cast(self.text):
            return {}
        own = (each for _, each in declarations(self._with_bodies().cursor, is_in(self._main)))
        return written_parameters(self.library, own, self._names)

    def global_types(self, ptx: str) -> dict[str, list[Any]]:
        """Return the types of the global variables of a binary, if they are the compiler's."""
        return (
            global_types(self._declarations, ptx.encode(), cuda_element_type)
            if self.is_complete
            else {}
        )

    def lowered(self, expressions: Iterable[str], symbols: Iterable[str]) -> dict[str, str]:
        """Return the symbol of each name expression among those of a binary; "" for another one,
        such as that of a variable.
        """
        by_signature = {signature_key(symbol): symbol for symbol in symbols}
        kernels = {each: self.by_expression.get(each) for each in expressions}
        return {
            each: by_signature.get(kernel.signature(), "") if kernel is not None else ""
            for each, kernel in kernels.items()
        }

    def has_certain_types(self, kernel: SourceKernel) -> bool:
        """Return whether the types that libclang reads for a kernel without types in its symbol are
        the compiler's.
        """
        # A header that libclang lacks is NVIDIA's: those of the user are in the text.
        return self.is_complete or (
            self.is_certain and kernel.is_c and kernel.has_plain_types(self._program, self._main)
        )

    def incomplete_types(self) -> list[str]:
        """Return the names of the structs behind pointers that libclang has not laid out."""
        kernels = (*self.by_signature.values(), *self.by_expression.values())
        return sorted(
            {
                name
                for kernel in kernels
                for each in kernel.arguments
                if (name := incomplete_name(each.type))
            }
        )


def read_source(
    request: CompileRequest,
    source: SelfContainedSource,
    expressions: Sequence[str],
    *,
    macros: Sequence[tuple[str, str]] = (),
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
        text, head = _restored(preprocessed.main), _RESTORED
        headers = {name: _restored(header) for name, header in preprocessed.headers.items()}
    else:
        text = source.text
        headers = dict(prelude.program_headers(text))
        for name in include_names(text):
            headers.setdefault(name, "")  # after a missing file libclang reports no further error
        head = (
            "".join(f"#define {name} {value}\n" for name, value in macros)
            + predefined(text)
            + prelude.text(text + appended)
        )
    files = [
        (main, text + appended),
        (head_path, head),
        *(
            (os.path.join(_HEADERS, *name.split("/")), content)
            for name, content in headers.items()
            if _is_plain(name)
        ),
    ]
    arguments = [*_LANGUAGE, "-nostdinc", "-undef"]
    # The functions of a preprocessed program have no attributes of the host and the device: clang
    # overloads functions by them.
    arguments += ["-Xclang", "-fno-cuda-host-device-constexpr"] if preprocessed is not None else []
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
        # The functions of a preprocessed program are the host's, which no kernel calls.
        own = head.replace("__attribute__((global))", "") if preprocessed is not None else head
        files[1] = (head_path, own)
        unit = parse()
        names = {
            match[1] for each in unit.diagnostics if (match := _UNDECLARED.match(each.spelling))
        }
        if not names:
            return unit
        # clang drops a statement with an unknown name, such as threadIdx.
        files[1] = (
            head_path,
            own + _STAND_IN + "".join(f"extern devmod_any {name};\n" for name in sorted(names)),
        )
        return parse()

    def read() -> SourceKernels:
        names, is_preprocessed = {main: request.name}, preprocessed is not None
        unit = parse(_SKIP_BODIES)
        return SourceKernels(
            library,
            unit,
            main,
            text,
            expressions,
            names,
            source.options,
            parse_bodies,
            is_preprocessed=is_preprocessed,
        )

    kernels = read()
    incomplete = kernels.incomplete_types()
    if incomplete:
        # libclang does not lay out a template's instance that only a pointer uses. An assertion
        # after the program forces the layout.
        files[0] = (
            main,
            text + appended + "".join(f"\nstatic_assert(sizeof({name}));" for name in incomplete),
        )
        kernels = read()
    return kernels


_STANDARD = re.compile(r"--?std=(c\+\+\d\d)")
_DEFAULT_STANDARD = "c++17"
#: The standards before the one that the prelude needs. They have the same types.
_OLD_STANDARDS, _OLDEST_STANDARD = ("c++98", "c++03"), "c++11"


def _standard(options: Sequence[str]) -> str:
    """Return the C++ standard for libclang."""
    standard = next(
        (match[1] for option in reversed(options) if (match := _STANDARD.fullmatch(option))),
        _DEFAULT_STANDARD,
    )
    return _OLDEST_STANDARD if standard in _OLD_STANDARDS else standard


#: What gcc's headers use and clang lacks, and the macro of CUDA that `_restored` writes.
_RESTORED = "#define __malloc__(...)\n#define __global__ __attribute__((global))\n"
#: gcc's ``integer_sequence<T, __integer_pack(N)...>``, in two parts: the second begins with a word,
#: so its search in megabytes is fast.
_PACK, _PACK_OF = re.compile(r"__integer_pack\((\w+)\)\.\.\.>"), re.compile(r"(\w+)<\s*(\w+),\s*\Z")
#: The largest number of characters of the first part.
_LONGEST = 200


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
    pattern = template_of(cursor, library)
    return any(
        each.kind.name == "CUDAGLOBAL_ATTR"
        for of in (cursor, pattern)
        if of is not None
        for each in of.get_children()
    )
