"""The compiler of Hexagon: C, C++ and LLVM IR to a shared object, with the clang and lld of the
wheel ziglang.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from devmod import FunctionInfo
from devmod.errors import CompileError, FormatError
from devmod.targets.hexagon import SPEC
from devmod_readers.elf import DYNAMIC_SYMBOLS, ElfFile
from devmod_readers.reflection import ReflectedFunction
from devmod_targets._text import header_files
from devmod_targets.authoring import (
    CompileRequest,
    Payload,
    check_target_options,
    merge_declared,
    warn_caller,
)
from devmod_targets.authoring._process import compiler_folder
from devmod_targets.authoring._request import arch_hint
from devmod_targets.authoring._types import Reflected
from devmod_targets.authoring.c_functions import CFunctions
from devmod_targets.authoring.clang import element_type
from devmod_targets.authoring.clang_build import (
    SAVE_TEMPS,
    ClangBuild,
    ClangOptions,
    check_symbols,
    clang_options,
    take_flag,
)
from devmod_targets.authoring.instances import ending_of, explicit_instances
from devmod_targets.authoring.zig import find_zig, library_headers

#: The versions that clang supports.
ARCHS = (
    "v5",
    "v55",
    "v60",
    "v62",
    "v65",
    "v66",
    "v67",
    "v67t",
    "v68",
    "v69",
    "v71",
    "v71t",
    "v73",
    "v75",
    "v79",
    "v81",
)
_LANGUAGES = {
    "C": ("c", "gnu17"),
    "C++": ("c++", "gnu++20"),
    "LLVM IR": ("ir", ""),
    "LLVM bitcode": ("ir", ""),
    "assembly": ("assembler", ""),
    "object": ("object", ""),
}
#: The keys of `Payload.source` for sources that are kept; the others have none.
_SOURCE_KEYS = {"LLVM IR": "ir", "LLVM bitcode": "bc", "assembly": "asm"}
#: No runner has C++'s runtime library: a module that needs it would not load.
_CPP = ("-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics")
#: The macros that libc++'s headers need. libc++ without threads and files: a kernel has none. clang
#: defines _GNU_SOURCE for C++ on Linux.
_LIBCPP = (
    "_GNU_SOURCE",
    "_LIBCPP_ABI_VERSION=1",
    "_LIBCPP_ABI_NAMESPACE=__1",
    "_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS",
    "_LIBCPP_PSTL_BACKEND_SERIAL",
    "_LIBCPP_HARDENING_MODE_DEFAULT=_LIBCPP_HARDENING_MODE_NONE",
    "_LIBCPP_ASSERTION_SEMANTIC_DEFAULT=_LIBCPP_ASSERTION_SEMANTIC_IGNORE",
    "_LIBCPP_HAS_LOCALIZATION=1",
    "_LIBCPP_HAS_MUSL_LIBC=1",
    "_LIBCPP_HAS_UNICODE=1",
    "_LIBCPP_HAS_WIDE_CHARACTERS=1",
    "_LIBCPP_HAS_FILESYSTEM=0",
    "_LIBCPP_HAS_MONOTONIC_CLOCK=0",
    "_LIBCPP_HAS_RANDOM_DEVICE=0",
    "_LIBCPP_HAS_TERMINAL=0",
    "_LIBCPP_HAS_THREADS=0",
    "_LIBCPP_HAS_TIME_ZONE_DATABASE=0",
    "_LIBCPP_HAS_THREAD_API_C11=0",
    "_LIBCPP_HAS_THREAD_API_EXTERNAL=0",
    "_LIBCPP_HAS_THREAD_API_PTHREAD=0",
    "_LIBCPP_HAS_THREAD_API_WIN32=0",
    "_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=0",
)
#: ld.lld accepts undefined symbols. The runner defines them, or loading raises an error that names
#: them.
_LINK = ("-m", "hexagonelf", "-shared", "--hash-style=both", "-z", "noexecstack", "-s")

_SYMBOLS = 2
_FUNCTION = 2
_LOCAL = 0
#: The place of the visibility in a symbol, its bits, and the values for hidden and for exported
#: symbols that nothing replaces.
_OTHER = 13
_VISIBILITY = 3
_HIDDEN = (1, 2)
_PROTECTED = 3


def compile(request: CompileRequest) -> Payload:  # noqa: A001 - what it does
    """Compile a source to a shared object.

    Parameters
    ----------
    request
        The compile request. Its fmap is merged with the functions that libclang reads in the
        source. It declares those of LLVM IR, assembly and objects.

    Returns
    -------
    Payload
        The shared object, of kind "hexagon"; its assembly and its object are in `source`. With the
        option ``-save-temps``, its LLVM IR and its bitcode are too.

    Raises
    ------
    ToolchainNotFoundError
        ziglang is not installed, or libclang is not installed and no fmap is declared.
    CompileError
        The source has errors, no function, or one that devmod cannot call. `log` contains the
        compiler's output.
    """
    if request.name_expressions and request.language == "C":
        raise request.error("name_expressions= is not supported for C, which has no templates")
    arch = _arch(request)
    language, standard = _LANGUAGES[request.language]
    request, keeps_ir = take_flag(request, SAVE_TEMPS)
    options = clang_options(request, SPEC, standard)
    if language == "object":
        _check_object(request)
    is_source = language in ("c", "c++")
    source = {}
    if request.language in _SOURCE_KEYS:
        source[_SOURCE_KEYS[request.language]] = request.text or request.data
    if is_source:
        zig = find_zig(kind=SPEC.kind, distribution=SPEC.build_distribution)
        library = library_headers(zig, "hexagon")
        toolchain = options.toolchain.with_library(library, is_cpp=language == "c++")
        options = options._replace(toolchain=toolchain)

    with compiler_folder() as folder:
        ending = ending_of(explicit_instances(request.name_expressions))
        build = ClangBuild(
            request, options, language, header_files(__package__), folder, ending=ending
        )
        machine = ["-target", "hexagon-unknown-none-elf", f"-m{arch}", "-fPIC"]
        flags = [*machine, *_source_flags(language), *options.flags]
        log: list[str] = []
        reports: list[str] = []
        if is_source or language == "ir":
            source["asm"], log, reports = build.compile(flags)
        # The assembler needs the options of the processor too, such as -mhvx.
        processor = [flag for flag in options.flags if flag.startswith("-m")]
        code, symbols = _link(request, build, [*machine, *processor])
        source["obj"] = build.object()
        if keeps_ir and (is_source or language == "ir"):
            ir = build.llvm_ir(flags)
            bitcode = build.bitcode()
            source.setdefault("ir", ir)
            source.setdefault("bc", bitcode)
        sources = build.sources()
        files = build.files

    _check_arch(request, code)
    if not symbols:
        raise request.error(
            f"the {request.language} source {request.name} defines no function that is not static"
        )
    readers: list[str] = []
    if is_source:
        reflected, readers, included, warnings = _read_source(
            request, language, options, symbols, code
        )
        files |= included
        log += warnings
        fmap = merge_declared(SPEC, reflected, request.fmap)
    else:
        fmap = _declared_functions(request, symbols)
    check_symbols(request, fmap, symbols, "function", ("export", "exports"))
    warn_caller(request, log, reports)
    origin = options.origin(request, readers, sources)
    return Payload("hexagon", code, "so", fmap, source, origin, files)


def _link(
    request: CompileRequest, build: ClangBuild, machine: Sequence[str]
) -> tuple[bytes, list[str]]:
    """Link the object. Return the shared object, and the functions that it exports."""
    code = build.link(machine, _LINK)
    symbols = exported_functions(code)
    declared = set(request.declared)
    if symbols and declared.issubset(symbols):
        return code, symbols
    # Hidden functions are functions of the module if the caller declares them, or if there are no
    # others.
    if not symbols:
        declared = set()
    code = build.relink(export_hidden(build.object(), declared), _LINK)
    return code, exported_functions(code)


def _source_flags(language: str) -> list[str]:
    """Return the flags for the sources of a language of clang: [] for one that is not C or C++."""
    if language not in ("c", "c++"):
        return []
    # The runner calls the constructors of .init_array, and without the option clang writes .ctors.
    flags = ["-ffreestanding", "-fuse-init-array"]
    if language == "c++":
        flags += [*_CPP, *(f"-D{each}" for each in _LIBCPP)]
    return flags


def _read_source(
    request: CompileRequest,
    language: str,
    options: ClangOptions,
    symbols: Sequence[str],
    code: bytes,
) -> tuple[Reflected | None, list[str], dict[str, str], list[str]]:
    """Read the exported functions of a C or C++ source with libclang.

    Return the signatures by name, or None if the caller's fmap has all functions and libclang is
    missing or refuses the source; the reader for the origin; the files that it read; and the
    warning about the functions that devmod cannot call.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    CompileError
        A function that the caller names, or every function, has a parameter or a result that devmod
        does not support.
    """
    declared = set(request.declared)
    reflected = {}
    omitted = {}
    try:
        source = CFunctions(
            SPEC,
            "function",
            request,
            options,
            symbols,
            flags=["-x", language, "-target", "hexagon-unknown-none-elf", *_source_flags(language)],
            prefixes=("-std=", "-U", "-f", "-mhvx"),
            headers=header_files(__package__),
        )
        for name, (symbol, cursor) in source.functions_by_name().items():
            try:
                reflected[name] = _function(source, cursor, symbol)
            except CompileError as error:
                omitted[name] = error
                if symbol in declared or name in request.name_expressions:
                    raise
        if omitted and not reflected:
            raise next(iter(omitted.values()))
    except CompileError:
        if not declared >= set(symbols):
            raise
        return None, [], {}, []
    warnings = []
    if omitted:
        first = next(iter(omitted.values()))
        warnings.append(f"the module omits {', '.join(omitted)}: {first}")
    return source.with_globals(reflected, code), [source.toolchain], source.files, warnings


def _function(source: CFunctions, cursor: Any, symbol: str) -> ReflectedFunction:
    types, params = source.parameters(cursor)
    result = cursor.result_type.get_canonical()
    extra = {}
    if result.spelling != "void":
        dtype, align = element_type(result)
        if not dtype or align or "x" in dtype:
            raise source.unsupported(cursor, f"returns {cursor.result_type.spelling!r}")
        extra = {"result": dtype}
    return ReflectedFunction(symbol, types, params, None, source.location(cursor), extra=extra)


def _declared_functions(request: CompileRequest, symbols: Sequence[str]) -> dict[str, FunctionInfo]:
    """Return the functions that the caller declares: LLVM IR, assembly and objects have no
    types.
    """
    if request.fmap is None:
        raise request.error(
            f"the signatures of {request.name} are unknown: {request.language} has no types of arguments. Declare the functions: "
            f"devmod.compile(..., fmap={{name: devmod.FunctionInfo(name, arg_types)}}) for {', '.join(symbols)}"
        )
    return merge_declared(SPEC, None, request.fmap)


def _arch(request: CompileRequest) -> str:
    target = request.target
    check_target_options(target, ("arch",))
    if target.arch not in ARCHS:
        text = f"the target {str(target)!r} has the unknown architecture {target.arch!r}; expected one of {', '.join(ARCHS)}"
        raise request.error(text + arch_hint(target.arch, "v", ARCHS.__contains__))
    return str(target.arch)


def _check_object(request: CompileRequest) -> None:
    """Raise CompileError for a source that is not an object for Hexagon: lld would name the files
    of the build.
    """
    kind = int.from_bytes(request.data[16:18], "little")
    machine = int.from_bytes(request.data[18:20], "little")
    if request.data[:6] != b"\x7fELF\x01\x01" or (kind, machine) != (1, 164):
        raise request.error(
            f"the object {request.name} is not a relocatable object for Hexagon: expected the output of clang -c -target hexagon"
        )


def _check_arch(request: CompileRequest, code: bytes) -> None:
    """Raise CompileError for a source that was compiled for a newer core than that of the
    target.
    """
    actual = ""
    if SPEC.architecture is not None:
        actual = SPEC.architecture("so", code)
    if SPEC.rank is not None and SPEC.rank(actual, request.target.arch) is None:
        raise request.error(
            f"the {request.language} source {request.name} is for {actual}, which does not run on {request.target.arch}; write "
            f"'hexagon -arch={actual}'"
        )


# -- The functions that a shared object exports, in the order of their addresses, and those that an
# object hides.


def exported_functions(code: bytes) -> list[str]:
    """Return the names of the functions in the dynamic symbol table of an ELF file that ld.lld has
    written.
    """
    functions = _functions(ElfFile(code), DYNAMIC_SYMBOLS)
    by_address = sorted((address, name) for address, name, _ in functions)
    return [name for _, name in by_address]


def export_hidden(code: bytes, names: Collection[str]) -> bytes:
    """Return a relocatable object that exports its hidden functions: those of `names`, or all if
    there are no names.

    Raises
    ------
    FormatError
        The object is damaged.
    """
    result = bytearray(code)
    try:
        for _, name, entry in _functions(ElfFile(result), _SYMBOLS):
            if entry[_OTHER] & _VISIBILITY in _HIDDEN and (not names or name in names):
                entry[_OTHER] |= _PROTECTED
    except ValueError as error:
        raise FormatError(f"the object is damaged: {error}", kind="hexagon") from None
    return bytes(result)


def _functions(elf: ElfFile, sort: int) -> Iterator[tuple[int, str, memoryview]]:
    """Yield the functions that symbol tables of a sort define for other files: the address, the
    name, and the bytes from the symbol on.
    """
    for number, (_, kind, _, _, link, _, _) in enumerate(elf.sections()):
        if kind != sort:
            continue
        table = elf.contents(number)
        names = bytes(elf.contents(link))
        for place, (start, info, section, address, _) in enumerate(elf.symbols(table)):
            if info & 15 == _FUNCTION and info >> 4 != _LOCAL and section:
                name = names[start : names.index(b"\0", start)]
                text = name.decode("utf-8", "backslashreplace")
                yield address, text, table[elf.symbol_bytes * place :]
