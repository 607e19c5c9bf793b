"""The compiler of ROCm: HIP, CUDA C++, OpenCL C, LLVM IR and assembly to a code object, with the
wheel ziglang's clang and lld, without ROCm.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from devmod import FunctionInfo, Target
from devmod.backend import DYNAMIC_SHARED_MEMORY, array_bytes, parse_dtype
from devmod.errors import CompileError, FormatError
from devmod.targets.rocm import SPEC
from devmod_readers.amdgpu import CodeObjectKernel, read_code_object
from devmod_readers.options.rocm import TABLE
from devmod_readers.reflection import ReflectedFunction
from devmod_targets.authoring import (
    CompileRequest,
    Payload,
    complete_source,
    merge_declared,
    warn_caller,
)
from devmod_targets.authoring._declared import argument_bytes, value_groups
from devmod_targets.authoring._open_block import open_kernels
from devmod_targets.authoring._process import compiler_folder
from devmod_targets.authoring._request import arch_hint, check_one_arch, target_format
from devmod_targets.authoring._types import Reflected
from devmod_targets.authoring.c_functions import CFunctions
from devmod_targets.authoring.clang import (
    RECORD,
    VECTOR_ELEMENTS,
    VIRTUAL_FOLDER,
    element_type,
    type_kind,
)
from devmod_targets.authoring.clang_build import (
    HEADERS,
    SAVE_TEMPS,
    TOOLCHAIN,
    Assembly,
    ClangBuild,
    ClangOptions,
    check_symbols,
    clang_options,
    split_option,
    take_flag,
)
from devmod_targets.authoring.instances import (
    check_explicit,
    explicit_instances,
    instance_variables,
)
from devmod_targets.authoring.llvm_signatures import dynamic_shared_kernels, ir_kernels
from devmod_targets.rocm._device_library import (
    ADVICE,
    DEVICE_LIBS,
    describe_modules,
    find_modules,
    link_flags,
    major_version,
)
from devmod_targets.rocm._headers import explain_cuda, headers
from devmod_targets.rocm._standard_library import HOST, OWN_INTEGER, library_flags

Compiled = tuple[Payload, list[str], list[str]]
#: The kernels of a code object, by symbol.
_Kernels = Mapping[str, CodeObjectKernel]
#: The functions that a reader finds, the reader, and the digests of the files that it read.
_Read = tuple[Reflected, str, dict[str, str]]


_LANGUAGES = {
    "HIP": ("hip", "gnu++20"),
    "CUDA C++": ("hip", "gnu++20"),
    "LLVM IR": ("ir", ""),
    "LLVM bitcode": ("ir", ""),
    "assembly": ("assembler", ""),
}
#: The keys of `Payload.source` by clang's languages.
_SOURCE_KEYS = {"hip": "hip", "ir": "ll", "assembler": "asm"}
#: LLVM takes a function with the name and the types of one of OpenCL C for that function, also a
#: program's own, and replaces its calls. A pow becomes a powr, in which LLVM may have put the
#: arguments of the only other call.
_OWN_FUNCTIONS = ("-mllvm", "-amdgpu-simplify-libcall=false")
#: By default lld accepts undefined symbols in a shared object.
_LINK = ("-shared", "-s", "--no-undefined")
_ARCH = re.compile(r"gfx[0-9a-f]{3,4}(?::(?:sramecc|xnack)[+-])*|gfx[0-9]+(?:-[0-9]+)?-generic")
_WORD = re.compile(rb"\b(?:extern|__shared__|HIP_DYNAMIC_SHARED)\b")
_EXTERN_C = re.compile(rb'\bextern\s*"C"')
_UNDEFINED = re.compile(r"undefined (?:hidden |protected )?symbol: (.+)")
#: The names of ROCm's device library.
_LIBRARY_NAME = re.compile(r"__(?:ocml|ockl|oclc|irif)_")

#: The names of textures and surfaces in clang's errors.
_OF_TEXTURES = re.compile(
    r"error: .*'((?:hip|cuda)(?:Texture|Surface)Object_t|(?:tex|surf)[123]D\w*|texture|surface)'"
)

#: The architecture for which a source is checked if the target names none.
_CHECKED = "gfx90a"
#: The arguments that give clang's preprocessor HIP.
_DIALECT = (
    "-x",
    "hip",
    HOST,
    "--cuda-device-only",
    "--offload-arch=gfx1030",
    "-nogpuinc",
    "-nogpulib",
)


def variants(target: Target) -> tuple[Target, ...]:
    """Return a target for each payload: one for each architecture, or one for all of a source."""
    if dict(target.options).get("format") == "hip":
        return (target,)
    return target.variants()


def compile(request: CompileRequest) -> Payload:  # noqa: A001 - what it does
    """Compile a source to a code object, or keep it for the receiver (``-format=hip``).

    Parameters
    ----------
    request
        The compile request. Its fmap is merged with the kernels that libclang reads.

    Returns
    -------
    Payload
        The code object or the source, of kind "rocm"; the source and the assembly are in `source`.
        With the option ``-save-temps``, the LLVM IR is too.

    Raises
    ------
    ToolchainNotFoundError
        ziglang is not installed, or libclang is not installed and no fmap is declared.
    CompileError
        The source has errors, no kernel, or one that devmod cannot call. `log` contains the
        compiler's output.
    """
    is_source = payload_format(request.target) == "hip"
    reports: list[str]
    if request.language == "OpenCL C":
        if is_source:
            raise request.error(
                f"OpenCL C compiles to a code object, and the target {str(request.target)!r} requests HIP: leave out -format=hip"
            )
        from devmod_targets.rocm._opencl_c import compile_program

        version = _object_version(_arch(request), request.options)
        payload, warnings = compile_program(request, compile, version)
        reports = []
    elif is_source:
        payload, warnings, reports = keep_source(request)
    else:
        payload, warnings, reports = _compile(request)
    warn_caller(request, warnings, reports)
    return payload


def _compile(request: CompileRequest, *, has_host: bool = True) -> Compiled:
    """Compile a source to a code object. Return the payload, the warnings, and the reports that
    options request.

    With `has_host` the source may have a host's half, and so include the standard library. A source
    that the receiver compiles has none, and its waves are those of the receiver's device.
    """
    arch = _arch(request)
    language, standard = _LANGUAGES[request.language]
    request, libs_folder = split_option(request, DEVICE_LIBS)
    request, keeps_ir = take_flag(request, SAVE_TEMPS)
    options = clang_options(request, SPEC, standard)
    modules = find_modules(libs_folder)
    machine = ["-target", "amdgcn-amd-amdhsa", f"-mcpu={arch}", *_wave_options(options.options)]
    version = _object_version(arch, options.options)
    text = {}
    if request.text:
        text[_SOURCE_KEYS[language]] = request.text
    own_headers: Mapping[str, str] = {}
    target_flags = [*machine, "-nogpulib", "-Wno-override-module"]
    if language == "hip":
        own_headers = headers(request.language)
        target_flags = [*_hip_flags(arch, options.options), *_dialect(request)]

    with compiler_folder() as folder:
        build = ClangBuild(
            request,
            options,
            language,
            own_headers,
            folder,
            ending=instance_variables(request.name_expressions),
        )
        wave = _wave_of(arch, options.options)
        device_library = link_flags(modules, arch, wave, options.toolchain, folder)
        if modules:
            device_library.append("-DDEVMOD_DEVICE_LIBS")
        flags = [*target_flags, *_OWN_FUNCTIONS, *version, *device_library, *options.flags]
        try:
            code, (asm, warnings, reports), added = _build_code_object(
                build, language, options, flags, [*machine, *version], has_host
            )
        except CompileError as error:
            error = _explain_textures(error, request)
            error = _explain_undefined(error, request, has_library=bool(modules))
            raise explain_cuda(error, request) from None
        flags += added
        if asm:
            text["asm"] = asm

        ir = text.get("ll", "")
        if _needs_ir(request, language, build, keeps_ir):
            ir = build.llvm_ir(flags)
        if ir and (request.data or keeps_ir):
            text["ll"] = ir

        kernels = _read_kernels(request, code)
        sources = build.sources()
        files = build.files
        reflected, readers, included, unread = _signatures(
            request, options, language, kernels, code, added
        )
        files |= included
        if modules:
            readers.insert(0, describe_modules(modules))
        if unread:
            ir = ir or build.llvm_ir(flags)
            places = {name: (kernels[name].places, kernels[name].block) for name in unread}
            reflected = {**(reflected or {}), **ir_kernels(request, ir, places)}

    dynamic = dynamic_shared_kernels(ir)
    if reflected is not None:
        reflected = _with_binary_facts(reflected, kernels, dynamic, has_host)
    fmap = _fmap(request, kernels, reflected)
    origin = options.origin(request, readers, sources)
    return Payload("rocm", code, "hsaco", fmap, text, origin, files), warnings, reports


def _object_version(arch: str, options: Sequence[str]) -> list[str]:
    """Return clang's option for the version of the code object, unless the options have one."""
    if any(option.startswith("-mcode-object-version=") for option in options):
        return []
    # Every ROCm since 5.6 loads version 5; generic processors need 6.
    if arch.endswith("-generic"):
        return ["-mcode-object-version=6"]
    return ["-mcode-object-version=5"]


def _needs_ir(request: CompileRequest, language: str, build: ClangBuild, keeps_ir: bool) -> bool:
    """Whether the compiler has to write LLVM IR: to keep it, or to know which kernels use shared
    memory whose size the launch defines.
    """
    if language == "hip":
        return keeps_ir or any(map(_may_share_dynamically, build.contents()))
    return bool(request.data)


def _signatures(
    request: CompileRequest,
    options: ClangOptions,
    language: str,
    kernels: _Kernels,
    code: bytes,
    added: list[str],
) -> tuple[Reflected | None, list[str], dict[str, str], list[str]]:
    """Return the functions that libclang reads or None, the reader, the files that it read, and the
    kernels whose signatures are those of the IR.
    """
    if language == "ir":
        return None, [], {}, list(kernels)
    if language != "hip":
        return None, [], {}, []
    declared = {name for name, info in request.declared.items() if info.arg_types}
    is_optional = declared >= set(kernels)
    found = _read_undeclared(request, options, kernels, code, added, is_optional)
    if found is None:
        return None, [], {}, []
    reflected, reader, included = found
    unread = []
    if added:
        # An instance for a lambda of the host's half has a name that no source can spell. Its types
        # are those of the IR.
        known = declared.union(function.symbol for function in reflected.values())
        unread = [name for name in kernels if name not in known]
    return reflected, [reader], included, unread


def _with_binary_facts(
    reflected: Reflected,
    kernels: _Kernels,
    dynamic: Collection[str],
    has_host: bool,
) -> Reflected:
    """Return the functions with the wave and the shared memory of the code object, and with the tag
    of those that are in `dynamic`, which a binary does not contain.
    """
    completed = {}
    for name, function in reflected.items():
        kernel = kernels.get(function.symbol)
        if function.symbol in dynamic:
            function = function.replace(tags=(DYNAMIC_SHARED_MEMORY,))
        if kernel and has_host:
            function = function.replace(subgroup=kernel.wave)
        if kernel and kernel.shared_bytes:
            extra = {**function.extra, "workgroup_memory": kernel.shared_bytes}
            function = function.replace(extra=extra)
        completed[name] = function
    return completed


def _build_code_object(
    build: ClangBuild,
    language: str,
    options: ClangOptions,
    flags: Sequence[str],
    machine: Sequence[str],
    has_host: bool,
) -> tuple[bytes, Assembly, list[str]]:
    """Compile and link, and after an error again with the declarations that the source may need.

    Return the code object, the result of `ClangBuild.compile`, and the flags that the first compile
    lacks.
    """
    added: list[str] = []
    undefined = None
    while True:
        try:
            compiled: Assembly = ("", [], [])
            if language != "assembler":
                compiled = build.compile([*flags, *added])
            return build.link(machine, _LINK), compiled, added
        except CompileError as error:
            if _UNDEFINED.search(error.log):
                undefined = error
            new = []
            # No declaration mends assembly that is wrong.
            if language == "hip" and (undefined is error or not compiled[0]):
                needed = _missing_declarations(error, options, has_host)
                new = [flag for flag in needed if flag not in added]
            if not new:
                # The other declarations may clash with the program's, which is no reason for an
                # undefined symbol.
                raise undefined or error from None
            added += new


def _missing_declarations(error: CompileError, options: ClangOptions, has_host: bool) -> list[str]:
    """Return clang's flags for the declarations whose absence may be the reason for an error."""
    # devmod_hip.h has all overloads of its names, so a source that compiles with it alone has the
    # same meaning.
    flags = ["-DDEVMOD_COMPLETE"]
    if has_host:
        flags += library_flags(error, options.toolchain)
    # A program, such as one for NVRTC and hiprtc, may define the types of stdint.h itself.
    if OWN_INTEGER.search(error.log):
        flags.append("-DDEVMOD_OWN_INTEGERS")
    return flags


def _read_undeclared(
    request: CompileRequest,
    options: ClangOptions,
    kernels: _Kernels,
    code: bytes,
    added: list[str],
    optional: bool,
) -> _Read | None:
    """Return the result of `read_kernels`; None for a source that it cannot read, if that is
    `optional`: all kernels are declared.
    """
    try:
        return read_kernels(request, options, kernels, code, added)
    except CompileError:
        if not optional:
            raise
        return None


def _read_kernels(request: CompileRequest, code: bytes) -> dict[str, CodeObjectKernel]:
    try:
        kernels = read_code_object(code)
    except FormatError as error:  # assembly may have any notes
        raise request.error(
            f"the {request.language} source {request.name} gives an invalid code object: {error}"
        ) from None
    if not kernels:
        advice = "give a function the calling convention amdgpu_kernel"
        if request.language in ("HIP", "CUDA C++"):
            advice = "mark a function with __global__; a template needs an instance, such as name_expressions=['scale<float>']"
        elif request.language == "assembly":
            advice = "describe it in .amdgpu_metadata"
        raise request.error(f"the {request.language} source {request.name} has no kernel: {advice}")
    return kernels


def _hip_flags(arch: str, options: Sequence[str]) -> list[str]:
    """Return clang's flags of HIP for a processor. `options` are those of the request."""
    return [
        f"-DDEVMOD_WAVE={_wave_of(arch, options)}",
        # The sizes of types are those of the host, which is the same on every build machine.
        HOST,
        "--cuda-device-only",
        f"--offload-arch={arch}",
        "--no-gpu-bundle-output",
        "-nogpuinc",
        "-nogpulib",
        "-fdeclspec",
        "-fuse-cuid=none",  # the symbol __hip_cuid_… depends on paths
        "-include",
        f"{HEADERS}/devmod_hip.h",
    ]


def _wave_options(options: Sequence[str]) -> list[str]:
    """Return the options of the size of a wave, which the assembler needs too."""
    return [option for option in options if option.endswith("wavefrontsize64")]


def _wave_of(arch: str, options: Sequence[str]) -> int:
    """Return the number of lanes of a wave."""
    is_wide = major_version(arch) < 10
    for option in _wave_options(options):
        is_wide = option == "-mwavefrontsize64"
    return 64 if is_wide else 32


def _dialect(request: CompileRequest) -> list[str]:
    """Return clang's flags for the language of a source that is compiled as HIP."""
    if request.language == "CUDA C++":
        return ["-DDEVMOD_CUDA"]
    return []


def _may_share_dynamically(content: bytes) -> bool:
    """Return whether a source may declare shared memory whose size the launch defines. To know the
    kernels that use it takes LLVM IR.
    """
    words = set(_WORD.findall(_EXTERN_C.sub(b"", content)))
    return b"HIP_DYNAMIC_SHARED" in words or {b"extern", b"__shared__"} <= words


def _fmap(
    request: CompileRequest,
    kernels: _Kernels,
    reflected: Reflected | None,
) -> dict[str, FunctionInfo]:
    """Return the fmap of the payload. Every kernel of the code object has a signature, reflected or
    declared.
    """
    known = {function.symbol for function in (reflected or {}).values()}
    declared = set(request.declared)
    missing = [name for name in kernels if name not in known | declared]
    if missing:
        raise request.error(
            f"the signatures of {', '.join(missing)} in {request.name} are unknown. Declare them: devmod.compile(..., "
            "fmap={name: devmod.FunctionInfo(name, arg_types)})"
        )
    check_symbols(request, request.fmap or {}, kernels, "kernel", ("have", "has"))
    if not declared <= known:
        reflected = None
    fmap = merge_declared(SPEC, reflected, request.fmap)
    for name, info in fmap.items():
        actual = [each.size for each in kernels[info.name].visible_arguments]
        sizes = [group.size for group in value_groups(info, actual)]
        if sizes != actual:
            raise request.error(
                f"the declared fmap gives the rocm kernel {name!r} arguments of {sizes} bytes, and the code object has arguments of "
                f"{actual}",
                function=name,
            )
    return fmap


def _arch(request: CompileRequest) -> str:
    target = request.target
    if not _ARCH.fullmatch(target.arch):
        raise request.error(
            f"the target {str(target)!r} has the unknown architecture {target.arch!r}; expected a name such as gfx90a, gfx1100, "
            f"gfx942:xnack- or gfx11-generic{arch_hint(target.arch, 'gfx', _ARCH.fullmatch)}"
        )
    return str(target.arch)


def _explain_textures(error: CompileError, request: CompileRequest) -> CompileError:
    """Return the error for a source that uses textures or surfaces; another error unchanged."""
    name = _OF_TEXTURES.search(str(error))
    if name is None:
        return error
    return request.error(
        f"{error}. devmod has no textures and surfaces for rocm, and so no {name[1]}: pass an array and compute the filter in the kernel",
        log=error.log,
    )


def _explain_undefined(
    error: CompileError, request: CompileRequest, *, has_library: bool
) -> CompileError:
    """Return the error for undefined symbols: those of ROCm's device library, and those of the
    user.
    """
    names = list(dict.fromkeys(_UNDEFINED.findall(error.log)))
    if not names:
        return error
    of_library = [name for name in names if _LIBRARY_NAME.match(name)]
    of_user = [name for name in names if name not in of_library]
    uses = []
    if of_user:
        uses.append(
            f"uses {', '.join(of_user)}, without a definition. Define it in the source or in a header that it includes: a code object is "
            "linked from one source"
        )
    if of_library and has_library:
        uses.append(
            f"uses {', '.join(of_library)}, which the given device library of ROCm does not define"
        )
    elif of_library:
        uses.append(
            f"uses {', '.join(of_library)}, which amdgcn does not compute by itself. The functions __ocml_… are those of ROCm's device "
            f"library: use the float functions that docs/rocm.md lists, or {ADVICE}"
        )
    return request.error(
        f"the {request.language} source {request.name} {'. It also '.join(uses)}", log=error.log
    )


# -- HIP source as a payload (``-format=hip``), which the receiver's hiprtc compiles. The build
# compiles it too, for errors and signatures.


def payload_format(target: Target) -> str:
    """Return the format of the payload: that of ``-format=``, or hsaco.

    Raises
    ------
    CompileError
        The target has an unknown format, or several architectures for a source.
    """
    fmt = target_format(target, ("hsaco", "hip"), ("arch", "format"))
    if fmt == "hip":
        check_one_arch(target)
    return fmt


def keep_source(request: CompileRequest) -> Compiled:
    """Return the payload of a HIP source that the receiver compiles, with the warnings and reports
    of a compile that checks it.

    Raises
    ------
    CompileError
        The source has errors, its language is not HIP, or an option is one that a receiver does not
        pass to hiprtc.
    """
    if request.language != "HIP":
        raise request.error(
            f"the target {str(request.target)!r} keeps the source, and hiprtc compiles HIP alone; {request.language} gives a code object: "
            "'rocm -arch=gfx90a'"
        )
    own = []
    for name in (TOOLCHAIN, DEVICE_LIBS):
        request, value = split_option(request, name)
        if value:
            own.append(f"{name}{value}")
    source = complete_source(request, lambda name: name in headers("HIP"), dialect=_DIALECT)
    for option in source.options:
        if option not in TABLE:
            raise request.error(
                f"the rocm option {option!r} is not supported with -format=hip: a receiver does not pass it to hiprtc{TABLE.hint(option)}"
            )
    check_explicit("rocm", request.name_expressions)
    text = source.with_lines(explicit_instances(request.name_expressions, "__global__ ")).text
    complete = request.replace(
        text=text,
        target=Target("rocm", arch=request.target.archs or _CHECKED),
        options=(*own, *source.options),
        defines={},
        include=(),
    )
    # hiprtc compiles no host's half, and has no standard library.
    checked, warnings, reports = _compile(complete, has_host=False)
    assert checked.origin is not None
    origin = source.origin(request, checked.origin.toolchain)
    files = {**source.files, **(checked.files or {})}
    payload = Payload("rocm", text.encode(), "hip", checked.fmap, {"hip": text}, origin, files)
    return payload, warnings, reports


# -- Read the signatures of the kernels of a HIP source with libclang, and compare them with the
# code object.


#: The vectors of HIP's headers. Those of three elements have no padding.
_VECTORS = {
    "__half2": "float16x2",
    "__hip_bfloat162": "bfloat16x2",
    "hip_bfloat16": "bfloat16",
}
for _name, _dtype in VECTOR_ELEMENTS.items():
    _VECTORS[f"{_name}1"] = _dtype
    for _lanes in (2, 3, 4):
        _VECTORS[f"{_name}{_lanes}"] = f"{_dtype}x{_lanes}"


def read_kernels(
    request: CompileRequest,
    options: ClangOptions,
    kernels: _Kernels,
    code: bytes,
    added: Sequence[str],
) -> _Read:
    """Read the kernels of a source.

    Parameters
    ----------
    request, options
        The source, and the arguments with which clang compiled it.
    kernels, code
        The kernels of the code object, and its bytes.
    added
        The flags of the second compile, if the source needs it.

    Returns
    -------
    dict of str to ReflectedFunction
        The kernels by name, in the order of the source, then those of name_expressions.
    str
        The reader, such as "libclang 18.1.1".
    dict of str to str
        The files that libclang read, as in `Payload.files`.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    CompileError
        A kernel has a parameter that devmod does not support, or contradicts the code object.
    """
    flags = [
        *_DIALECT,
        *_dialect(request),
        "-fdeclspec",
        "-include",
        os.path.join(VIRTUAL_FOLDER, "devmod_hip.h"),
        *added,
    ]
    open_names = open_kernels(request.text)
    source = CFunctions(
        SPEC,
        "kernel",
        request,
        options,
        kernels,
        flags=flags,
        prefixes=("-std=", "-U", "-f"),
        headers=headers(request.language),
        number_type=_value_type,
        pointee_type=_pointee_type,
    )
    functions = {}
    for name, (symbol, cursor) in source.functions_by_name().items():
        types, params = source.parameters(cursor)
        location = source.location(cursor)
        block = kernels[symbol].block
        _check_places(name, location, types, kernels[symbol])
        is_open = cursor.spelling in open_names and block is None
        functions[name] = ReflectedFunction(
            symbol, types, params, block, location, open_block=is_open
        )
    return source.with_globals(functions, code), source.toolchain, source.files


def _value_type(type_: Any) -> tuple[str, int]:
    """Return the same as `element_type`, with the vectors of HIP's headers, which are structs
    there.
    """
    dtype = _VECTORS.get(_record_name(type_), "")
    if dtype and type_.get_size() == array_bytes(parse_dtype(dtype)):
        return dtype, 0
    return element_type(type_)


def _pointee_type(type_: Any) -> tuple[str, int]:
    """Return the same for a pointer's elements. Vectors of three have no padding, so the elements
    of their memory are scalars.
    """
    scalar = VECTOR_ELEMENTS.get(_record_name(type_).removesuffix("3"), "")
    if scalar and type_.get_size() == 3 * array_bytes(parse_dtype(scalar)):
        return scalar, 0
    return _value_type(type_)


def _record_name(type_: Any) -> str:
    if type_kind(type_) != RECORD:
        return ""
    name: str = type_.spelling.removeprefix("const ").removeprefix("volatile ")
    return name


def _check_places(name: str, location: str, types: Sequence[str], kernel: CodeObjectKernel) -> None:
    """Raise CompileError if the sizes of the arguments are not those of the code object."""
    sizes = [argument_bytes(each) for each in types]
    actual = [each.size for each in kernel.visible_arguments]
    if sizes != actual:
        raise CompileError(
            f"{location}: the arguments of the kernel {name!r} have {sizes} bytes in the source and {actual} in the code object. Declare "
            "the kernel: devmod.compile(..., fmap={name: devmod.FunctionInfo(name, arg_types)})",
            kind="rocm",
            function=name,
        )
