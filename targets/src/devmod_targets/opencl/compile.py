"""The compiler of OpenCL C. The payload is the self-contained source, or SPIR-V (``-format=il``);
libclang reads the kernels.
"""

from __future__ import annotations

import os
import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from devmod import Param
from devmod.errors import CompileError, compile_error, condition_hint
from devmod.targets.opencl import SPEC
from devmod_readers.options.opencl import is_supported
from devmod_readers.reflection import ReflectedFunction
from devmod_targets._text import header_text
from devmod_targets.authoring import (
    Payload,
    SelfContainedSource,
    complete_source,
    include_hint,
    source_payload,
    warn_caller,
)
from devmod_targets.authoring._mangled import BUILTINS
from devmod_targets.authoring._open_block import OPENCL_FUNCTIONS, open_functions
from devmod_targets.authoring._request import CompileRequest, target_format
from devmod_targets.authoring.c_functions import with_struct
from devmod_targets.authoring.clang import (
    MAX_ERRORS,
    SYNTAX_CATEGORIES,
    VIRTUAL_FOLDER,
    Libclang,
    element_type,
    load_libclang,
)
from devmod_targets.authoring.const_casts import written_param, written_parameters
from devmod_targets.opencl._needs import find_needs
from devmod_targets.opencl._samples import read_samples


def compile(request: CompileRequest) -> Payload:  # noqa: A001 - what it does
    """Compile an OpenCL C source.

    Parameters
    ----------
    request
        The compile request. Its fmap is merged with the kernels that libclang reads, and replaces
        them if libclang is missing.

    Returns
    -------
    Payload
        The source as a payload of kind "opencl", or its SPIR-V for the target ``opencl
        -format=il``.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, and no fmap is declared.
    CompileError
        The source has errors, no kernel, or a kernel that devmod cannot call. `log` contains all
        diagnostics.
    """
    fmt = target_format(request.target, ("cl", "il"))
    if request.name_expressions:
        raise request.error(
            "name_expressions= is not supported for OpenCL C, which has no templates"
        )
    source = complete_source(request, dialect=("-x", "cl", "-target", "spir64"))
    for option in source.options:
        if not is_supported(option):
            raise request.error(
                f"the opencl option {option!r} is not supported: a receiver does not pass it to its driver. Expected an option of OpenCL "
                "such as -cl-std=CL2.0, -cl-mad-enable or -w"
            )
    warnings: list[str] = []
    empty_error = f"the OpenCL C source {request.name} has no kernel: mark a function with __kernel"
    if fmt == "il":
        from devmod_targets.opencl._il import compile_il

        kernels, reader, standard = read(
            request, source, []
        )  # clang decides here, not the device's compiler
        if not kernels:
            raise request.error(empty_error)
        return compile_il(request, source, kernels, reader, standard)
    payload = source_payload(
        SPEC,
        "cl",
        request,
        source,
        lambda: read(request, source, warnings)[:2],
        empty_error=empty_error,
    )
    warn_caller(request, [], doubts=warnings)  # no error, because the device's compiler decides
    return payload


# -- Read the kernels of an OpenCL C program with libclang. OpenCL is not needed.
#
# libclang parses the user's own text, so that diagnostics have the user's file, line and column. A
# separate header after the prelude contains the defines, which precede the program's text in the
# payload.


#: The header that libclang includes after it has declared the built-in functions
#: (``-fdeclare-opencl-builtins``). It has the types, the constants and the feature macros, from the
#: folder ``headers``. Only names and types matter: no program runs with these values.
NAME = "opencl-c-base.h"
#: The built-in functions whose names a kernel may have by mistake. PoCL's headers rename them by
#: macros, and other compilers refuse a second declaration.
FUNCTIONS = OPENCL_FUNCTIONS | {"barrier", "printf"}
_DEFINES = "defines"
#: Compiler options that change macros and types.
_FRONTEND_OPTIONS = (
    "-cl-std=",
    "-cl-fast-relaxed-math",
    "-cl-finite-math-only",
    "-cl-single-precision-constant",
    "-D",
    "-U",
)
#: The warnings that sources for several vendors have on purpose: the pragma of an extension that
#: clang does not know is in 118 of ggml's kernels, and an attribute of a vendor's subgroups in 32.
#: No other warning is in more than two of the files of ggml, MNN and CLBlast.
_COMMON_WARNINGS = ("-Wno-ignored-pragmas", "-Wno-unknown-attributes")
_UNDECLARED = re.compile(r"use of undeclared identifier '(\w+)'")
#: The prefixes and suffixes that Khronos's registry gives vendors, in names of functions and types
#: that clang does not declare.
_VENDORS = "altera|amd|arm|img|intel|nv|qcom"
#: The functions of extensions: those of vendors and compilers, and those of Khronos.
_EXTENSIONS = re.compile(
    rf"__\w+|(?:{_VENDORS})_\w+|\w+_(?:{_VENDORS}|ext)|(?:sub_group|work_group|clock_read)_\w+"
    r"|get_sub_group_\w+|async_work_group_copy_[23]D[23]D|dot_acc_sat(?:_\w+)?|dot_4x8packed_\w+|bit_reverse|bitfield_\w+"
)
#: An unknown name that is a type of a vendor's devices: Qualcomm's vectors of 32 lanes, and names
#: with a vendor's prefix.
_VENDOR_TYPE = re.compile(
    rf"'(?:(?:u?(?:char|short|int|long)|half|float|double)32|(?:{_VENDORS})_\w+)'", re.IGNORECASE
)
_OF_A_VENDOR = (
    ". It may be of one vendor's devices, and devmod reads the types of OpenCL C alone: put its kernels under a macro of these devices, "
    "such as #ifdef cl_qcom_vector_image_ops"
)
#: The category of clang's errors about the operands of inline assembly, which depend on the device.
_ASSEMBLY = "Inline Assembly Issue"
_ASSEMBLY_WORD = re.compile(r"\b(?:asm|__asm|__asm__)\b")
_DEVICES_DECIDE = "some devices may refuse the OpenCL C source:"
_REPORTS = "clang has warnings about the OpenCL C source:"
#: What may be between a name and the parenthesis of a call.
_CALL = re.compile(rb"(?:\s|/\*.*?\*/|//[^\n]*\n|\\\n)*\(", re.DOTALL)
#: A macro whose value is a name, as for a function whose name depends on the device.
_OTHER_NAME = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\w+)[ \t]*$", re.MULTILINE)
#: Characters that precede a value and never the keyword of a vendor.
_VALUE_PREFIXES = b"=+-*%&|^<>!~?[(,"
_NOT_FOUND = re.compile("error: '[^']*' file not found$")
_LABEL = re.compile(": (?:error|warning): ")
_NEWER = "the OpenCL C source {name} is OpenCL C 2.0, but devices compile it as 1.2 by default: {why}. Add options=['-cl-std=CL2.0']"
_BUILTIN = (
    "{location}: warning: the kernel {name!r} has the name of a built-in function of OpenCL C. "
    "Some drivers refuse such a kernel. Rename it"
)
#: The kinds of arrays. A parameter of such a type is a pointer to the elements.
_ARRAYS = ("CONSTANTARRAY", "INCOMPLETEARRAY", "VARIABLEARRAY")
_UNSUPPORTED = {"PIPE": "a pipe", "OCLQUEUE": "a queue"}
#: libclang's names of the types of images.
_IMAGE = re.compile(r"OCLIMAGE([123])D(ARRAY|BUFFER)?(?:RO|WO|RW)")
_SUBGROUP = re.compile(r"\bintel_reqd_sub_group_size\((\d+)[uUlL]*\)")
#: clang's numbers of the address spaces of a kernel's pointers.
_LOCAL, _CONSTANT = 2, 3


def read(
    request: CompileRequest, source: SelfContainedSource, messages: list[str]
) -> tuple[dict[str, ReflectedFunction], str, str]:
    """Read the kernels of a program. Add the warnings to `messages`.

    Returns
    -------
    dict of str to ReflectedFunction
        The kernels by name.
    str
        The toolchain, such as "libclang 18.1.1".
    str
        The version of OpenCL C in which the program was read, such as "1.2"; "" if its options name
        one.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    CompileError
        The program has errors other than calls of an extension's functions and inline assembly.
    """
    library = load_libclang(SPEC, "OpenCL C")
    has_standard = any(option.startswith("-cl-std=") for option in source.options)
    standard = "" if has_standard else "1.2"
    unit, errors, warnings, calls, reports = _parse(library, request, source, standard)
    if (errors or warnings) and not has_standard:
        # The default version of devices is OpenCL C 1.2. A source with fewer errors in 2.0 was
        # written for 2.0.
        newer = _parse(library, request, source, "2.0")
        if (len(newer[1]), len(newer[2])) < (len(errors), len(warnings)):
            messages.append(
                _NEWER.format(
                    name=request.name, why=_LABEL.sub(": ", (errors or warnings)[0], count=1)
                )
            )
            (unit, errors, warnings, calls, reports), standard = newer, "2.0"
    if calls and not errors:
        errors = _hidden_errors(library, request, source, standard, calls)
    if errors:
        log = "\n".join([*errors, *warnings, *reports])
        if _NOT_FOUND.search(errors[0]):
            errors[0] += f". {include_hint(request.include)}"
        raise compile_error("opencl", "OpenCL C", errors, log)
    included_paths = {os.path.realpath(path) for path in source.names}
    for entry in unit.get_includes():
        path = os.path.realpath(str(entry.include))
        if path not in included_paths and not path.startswith(VIRTUAL_FOLDER):
            location = f"{os.path.basename(str(entry.source))}:{entry.location.line}"
            raise request.error(
                f"{location}: the file of this include cannot be embedded in the payload; write #include and its name in quotes"
            )

    def parse_without(arguments: list[str]) -> tuple[bool, Iterable[str], set[str]]:
        first_error = (
            () if calls else ("-ferror-limit=1",)
        )  # it decides, unless it may be one of the undeclared functions
        without, problems, _, undeclared, _ = _parse(
            library, request, source, standard, arguments=(*arguments, *first_error)
        )
        return (
            bool(problems),
            undeclared,
            {str(each.spelling) for each in _definitions(library, without)},
        )

    kernels = _kernels(library, unit, "" if warnings else source.text)
    if any(
        param.kind == "buffer" and param.access == "r"
        for each in kernels.values()
        for param in each.params
    ):
        written = written_parameters(library, unit.cursor.get_children())
        kernels = {
            name: each.replace(
                params=[
                    written_param(param, (name, number), written)
                    for number, param in enumerate(each.params)
                ]
            )
            for name, each in kernels.items()
        }
    needs = find_needs(source.text, kernels, calls, parse_without)
    samples = read_samples(library, _definitions(library, unit), source.text)
    kernels = {
        name: _with_needs(name, kernel, needs[name], samples) for name, kernel in kernels.items()
    }
    messages += [
        _BUILTIN.format(location=each.location, name=name)
        for name, each in kernels.items()
        if name in FUNCTIONS
    ]
    for title, lines in ((_DEVICES_DECIDE, warnings), (_REPORTS, reports)):
        messages += ["\n".join([title, *lines])] if lines else []
    return kernels, library.toolchain, standard


#: The undeclared functions of extensions: each name with the character before each of its calls.
_Calls = dict[str, list[bytes]]


def _hidden_errors(
    library: Libclang,
    request: CompileRequest,
    source: SelfContainedSource,
    standard: str,
    calls: _Calls,
) -> list[str]:
    """Return the syntax errors after calls of undeclared functions, where clang skips the rest of a
    statement.

    The source is parsed again with the functions defined as values. A name that is not where a
    value is expected may be a vendor's keyword with any syntax.
    """
    values = [
        name
        for name, before in calls.items()
        if all(each and each in _VALUE_PREFIXES for each in before)
    ]
    head = "".join(f"#define {name}(...) (0)\n" for name in values)
    return _parse(library, request, source, standard, head)[1] if head else []


def _parse(
    library: Libclang,
    request: CompileRequest,
    source: SelfContainedSource,
    standard: str,
    stand_ins: str = "",
    arguments: Sequence[str] = (),
) -> tuple[Any, list[str], list[str], _Calls, list[str]]:
    """Return the translation unit, its errors, the warnings of devmod, the undeclared functions of
    extensions, and the warnings of clang.

    With `stand_ins`, the definitions of undeclared functions, only syntax errors count, because
    their types are unknown. `arguments` are further arguments of clang.
    """
    main = os.path.join(request.folder or VIRTUAL_FOLDER, request.name)
    defines = os.path.join(VIRTUAL_FOLDER, _DEFINES)
    arguments = [
        "-x",
        "cl",
        "-target",
        "spir64",
        "-nostdinc",
        "-ferror-limit=0",
        *_COMMON_WARNINGS,
        *arguments,
    ]
    arguments += ["-Xclang", "-fdeclare-opencl-builtins"]
    arguments += ["-Xclang", "-fgnu-keywords"]  # `asm` as well as `__asm__`
    arguments += ["-isystem", VIRTUAL_FOLDER, "-include", defines]
    arguments += [f"-cl-std=CL{standard}"] if standard else []
    arguments += [
        option
        for option in source.options
        if option.startswith(_FRONTEND_OPTIONS) or option == "-w"
    ]
    arguments += [f"-I{folder}" for folder in request.include]
    files = [
        (main, request.text),
        (os.path.join(VIRTUAL_FOLDER, NAME), header_text(__package__, f"headers/{NAME}")),
        (
            defines,
            "".join(f"#define {name} {value}\n" for name, value in source.defines.items())
            + stand_ins,
        ),
    ]
    with_options = f" with the options {' '.join(source.options)}" if source.options else ""
    unit = library.parse(
        main,
        arguments,
        files,
        kind="opencl",
        description=f"the OpenCL C source {request.name}{with_options}",
    )
    names = dict(source.names) | {os.path.realpath(main): request.name, defines: "<defines>"}

    def name_of(file: str) -> str:
        return names.get(os.path.realpath(file), os.path.basename(file)) if file else "<options>"

    functions = _Bodies(library, unit, source.text, {main: request.text.encode()})
    errors: list[str] = []
    warnings: list[str] = []
    reports: list[str] = []
    calls: _Calls = {}
    for diagnostic in unit.diagnostics:
        category = diagnostic.category_name
        if (
            diagnostic.severity < diagnostic.Warning
            or category == _ASSEMBLY
            or (stand_ins and category not in SYNTAX_CATEGORIES)
        ):
            continue
        place = diagnostic.location
        file = str(place.file) if place.file else ""
        undeclared = _UNDECLARED.match(diagnostic.spelling)
        is_extension = undeclared is not None and _EXTENSIONS.fullmatch(undeclared[1]) is not None
        before = (
            functions.call(undeclared[1], file, place.offset)
            if undeclared and is_extension
            else None
        )
        start = f"{name_of(file)}:{place.line}:{place.column}: "
        if undeclared and before is not None:
            calls.setdefault(undeclared[1], []).append(before)
            warnings.append(f"{start}warning: call of the undeclared function {undeclared[1]!r}")
            continue
        if diagnostic.severity == diagnostic.Warning:
            reports.append(f"{start}warning: {diagnostic.spelling}")
            continue
        hint = condition_hint(source.text, undeclared[1]) if undeclared else ""
        vendor = _VENDOR_TYPE.search(diagnostic.spelling)
        errors.append(
            f"{start}error: {diagnostic.spelling}{hint or (_OF_A_VENDOR if vendor else '')}"
        )
        if len(errors) == MAX_ERRORS:
            break
    warnings += [
        f"{name_of(str(each.file))}:{each.line}:{each.column}: warning: inline assembly"
        for each in functions.assembly()
    ]
    if "-Werror" in source.options and not errors:
        errors, reports = [_LABEL.sub(": error: ", each, count=1) for each in reports], []
    return unit, errors, warnings, calls, reports


class _Bodies:
    """The bodies of the functions of a program. `text` is the program with its includes, `files`
    has files that are in memory.
    """

    def __init__(self, library: Libclang, unit: Any, text: str, files: dict[str, bytes]) -> None:
        self._library, self._unit, self._text, self._files = library, unit, text, files

    @cached_property
    def _extents(self) -> dict[str, list[tuple[int, int]]]:
        """The first and last offset of each body, by file, in order."""
        kinds = self._library.cindex.CursorKind
        extents: dict[str, list[tuple[int, int]]] = {}
        for cursor in self._unit.cursor.get_children():
            if cursor.kind == kinds.FUNCTION_DECL and cursor.is_definition():
                for child in cursor.get_children():
                    if child.kind == kinds.COMPOUND_STMT:
                        extents.setdefault(str(child.extent.start.file), []).append(
                            (child.extent.start.offset, child.extent.end.offset)
                        )
        return {file: sorted(found) for file, found in extents.items()}

    @cached_property
    def _called(self) -> set[str]:
        """The names that a parenthesis follows, also in macros, and what stands for such a name as
        the whole value of a macro.
        """
        called = set(re.findall(r"\b(\w+)\s*\(", self._text))
        return called | {name for macro, name in _OTHER_NAME.findall(self._text) if macro in called}

    def call(self, name: str, file: str, offset: int) -> bytes | None:
        """Return the character before an undeclared name if it is called in a body, b"" if a macro
        has it; else None.
        """
        bodies = self._extents.get(file, [])
        number = bisect_right(bodies, (offset, sys.maxsize)) - 1
        if number < 0 or offset > bodies[number][1]:
            return None
        data = self._files.get(file)
        if data is None:
            with open(file, "rb") as stream:
                data = self._files[file] = stream.read()
        end = offset + len(name)
        if data[offset:end] == name.encode():
            return (
                data[max(offset - 200, 0) : offset].rstrip()[-1:]
                if _CALL.match(data, end)
                else None
            )
        return b"" if name in self._called else None

    def assembly(self) -> Iterator[Any]:
        """Yield the location of each statement and each declaration of assembly."""
        kinds = self._library.cindex.CursorKind
        if _ASSEMBLY_WORD.search(self._text):
            for cursor in self._library.descendants(
                self._unit.cursor, (kinds.ASM_STMT, kinds.UNEXPOSED_DECL)
            ):
                if cursor.kind == kinds.ASM_STMT or _ASSEMBLY_WORD.match(
                    next((str(token.spelling) for token in cursor.get_tokens()), "")
                ):
                    yield cursor.location


def _kernels(library: Libclang, unit: Any, text: str) -> dict[str, ReflectedFunction]:
    kernels: dict[str, ReflectedFunction] = {}
    blocks: dict[str, dict[str, tuple[int, int, int]]] = {
        "reqd_work_group_size": {},
        "work_group_size_hint": {},
    }
    subgroups: dict[str, int] = {}
    for cursor in unit.cursor.get_children():
        if cursor.kind != library.cindex.CursorKind.FUNCTION_DECL:
            continue
        declaration = library.declaration(cursor)
        if not re.search(r"\b(?:__)?kernel\b", declaration):
            continue
        # An attribute of a prototype also applies to the definition.
        for attribute, block in blocks.items():
            size = re.search(
                rf"\b{attribute}\((\d+)[uUlL]*, (\d+)[uUlL]*, (\d+)[uUlL]*\)", declaration
            )
            if size:
                block[cursor.spelling] = (int(size[1]), int(size[2]), int(size[3]))
        subgroup = _SUBGROUP.search(declaration)
        if subgroup:
            subgroups[cursor.spelling] = int(subgroup[1])
        if cursor.is_definition():
            kernels[cursor.spelling] = _kernel(cursor)
    fixed, hints = blocks.values()
    open_names = open_functions(text)
    return {
        name: kernel.replace(
            block=fixed.get(name),
            default_block=hints[name] if all(hints.get(name, (0,))) else None,
            open_block=name in open_names,
            subgroup=subgroups.get(name) or None,
        )
        for name, kernel in kernels.items()
    }


def _definitions(library: Libclang, unit: Any) -> Iterator[Any]:
    """Yield the functions that have a body."""
    for cursor in unit.cursor.get_children():
        if cursor.kind == library.cindex.CursorKind.FUNCTION_DECL and cursor.is_definition():
            yield cursor


def _with_needs(
    name: str, kernel: ReflectedFunction, needs: set[str], samples: Mapping[tuple[str, int], str]
) -> ReflectedFunction:
    """Return a kernel with what the program needs, what its own arguments and attributes need, and
    the samples of its images.
    """
    params = [
        param.replace(sample=samples[name, number]) if (name, number) in samples else param
        for number, param in enumerate(kernel.params)
    ]
    if any(param.kind in ("image", "sampler") for param in params):
        needs = needs | {"images"}
    if kernel.subgroup is not None:
        needs = needs | {"subgroup_size"}
    return kernel.replace(params=tuple(params), needs=tuple(sorted(needs)))


def _kernel(cursor: Any) -> ReflectedFunction:
    location = f"{os.path.basename(str(cursor.location.file))}:{cursor.location.line}"
    types: list[str] = []
    params: list[Param] = []
    for index, argument in enumerate(cursor.get_arguments()):
        try:
            type_name, param = _param(argument)
        except ValueError as error:
            name = repr(argument.spelling) if argument.spelling else str(index + 1)
            raise CompileError(
                f"{location}: the kernel {cursor.spelling!r} takes {error} as its argument {name}, which devmod does not support",
                kind="opencl",
                function=cursor.spelling,
                argument=argument.spelling,
            ) from None
        types.append(type_name)
        params.append(param)
    return ReflectedFunction(cursor.spelling, types, params, None, location)


def _param(argument: Any) -> tuple[str, Param]:
    """Return the type for arg_types and the param of one argument. Raise ValueError with the type's
    name if it is not supported.
    """
    name, type_ = argument.spelling, argument.type.get_canonical()
    kind = type_.kind.name
    if kind == "POINTER" or kind in _ARRAYS:
        target = type_.get_pointee() if kind == "POINTER" else type_
        space, const = target.get_address_space(), target.is_const_qualified()
        while target.kind.name in _ARRAYS:
            # The address space and const are attributes of the array or of its elements.
            target = target.element_type
            space, const = space or target.get_address_space(), const or target.is_const_qualified()
        element, align = _element_type(target.get_canonical())
        # ``uint hist[16]`` is a pointer in C; the declared length is the size that the kernel
        # requires.
        size = type_.get_size() if kind == _ARRAYS[0] else 0
        if space == _LOCAL:
            return "handle", Param(name, "local", element, align=align)
        access = "r" if space == _CONSTANT or const else "rw"
        param = Param(name, "buffer", element, access, align=align, size=max(size, 0))
        return "handle", with_struct(param, target, _element_type)
    if kind.startswith("OCLIMAGE"):
        image = _IMAGE.fullmatch(kind)
        shape = (
            f"{image[1]}d{f'_{image[2].lower()}' if image[2] else ''}" if image else ""
        )  # "": depth or several samples
        return "handle", Param(name, "image", shape, {"RO": "r", "WO": "w", "RW": "rw"}[kind[-2:]])
    if kind == "OCLSAMPLER":
        return "handle", Param(name, "sampler")
    if kind in _UNSUPPORTED:
        raise ValueError(_UNSUPPORTED[kind])
    element, align = _element_type(type_)
    if not element:
        raise ValueError(
            f"a value of the type {argument.type.spelling.replace('__private ', '')!r}"
        )
    return element, with_struct(Param(name, "scalar", element, align=align), type_, _element_type)


def _element_type(type_: Any) -> tuple[str, int]:
    """Return the same as `element_type`, with OpenCL's atomic types."""
    diagnostic, align = element_type(type_)
    atomic = None if diagnostic else re.search(r"_Atomic\(((?:unsigned )?\w+)\)", type_.spelling)
    return (_ATOMICS.get(atomic[1], "") if atomic else diagnostic), align


#: The numbers in OpenCL's atomic types, as libclang prints them. libclang has no type kind for such
#: a type.
_ATOMICS = {
    name: dtype
    for name, dtype in BUILTINS.values()
    if name.removeprefix("unsigned ") in ("int", "long", "float", "double")
}
