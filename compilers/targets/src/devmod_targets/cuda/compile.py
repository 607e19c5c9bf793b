"""The compiler of CUDA C++, HIP, OpenCL C, LLVM IR and PTX. NVRTC compiles CUDA C++ and HIP, with
NVIDIA's headers; no driver and no toolkit is needed.

The target's option ``-format=`` names the format of the payload: ``cuda`` (the self-contained
source), ``ptx``, ``cubin`` or ``fatbin``. With ``-compiler=nvcc``, nvcc compiles CUDA C++ in place
of NVRTC, and takes host code. `source` contains the self-contained source as "cuda" and its PTX as
"ptx".
"""

from __future__ import annotations

import re

from devmod import FunctionInfo, Target
from devmod.errors import CompileError
from devmod.targets.cuda import SPEC
from devmod_readers.options.cuda import check_options, check_values, writes_folders
from devmod_targets._included import unresolved_names
from devmod_targets._text import find_code
from devmod_targets.authoring import (
    CompileRequest,
    Payload,
    SelfContainedSource,
    complete_source,
    warn_caller,
)
from devmod_targets.authoring._request import arch_hint, check_one_arch
from devmod_targets.authoring.instances import ending_of, explicit_instances
from devmod_targets.cuda import nvrtc
from devmod_targets.cuda._binary import join, wrap_binary
from devmod_targets.cuda._checks import check_program, wide_shuffle
from devmod_targets.cuda._headers import has_header
from devmod_targets.cuda._portable import compile_portable
from devmod_targets.cuda.nvrtc import clock_error, diagnostics, read_reports
from devmod_targets.cuda.signatures.declared import with_shared_memory
from devmod_targets.cuda.signatures.reader import own_kernels, read_early, read_functions
from devmod_targets.cuda.signatures.source import DIALECT, SourceKernels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import ModuleType

    from devmod_targets.cuda.nvcc import PreprocessedSource


_CLOCK = r"\b__(?:DATE|TIME|TIMESTAMP)__\b"
#: The characters in which PTX is recognized.
_HEAD = 1 << 14
#: The start of PTX, after comments. No C++ program begins so.
_PTX = re.compile(r"\s*(?:(?://[^\n]*\n|/\*[^*]*\*/)\s*)*\.version\s")
_INLINING = re.compile(r"--?(?:opt-info|optimization-info)=inline")

#: The architecture for which a source without one is checked. Kernels with features of one
#: architecture (``sm_90a``) name it.
_CHECKED = "compute_90"


def compile(request: CompileRequest) -> Payload:  # noqa: A001 - what it does
    """Compile a CUDA C++, HIP or OpenCL C source, LLVM IR or PTX, or wrap PTX, a cubin or a fatbin.

    Parameters
    ----------
    request
        The compile request. Its fmap is merged with the kernels in the source, and replaces them if
        libclang is missing.

    Returns
    -------
    Payload
        A payload of kind "cuda" in the format of the target.

    Raises
    ------
    ToolchainNotFoundError
        NVRTC, or nvcc or the host's compiler, is not installed; or libclang is not installed, and
        no fmap is declared.
    CompileError
        The source has errors, no kernel, or a kernel that devmod cannot call. `log` contains the
        compiler's output.
    """
    reports: list[str] = []
    if request.language not in ("CUDA C++", "HIP") and compiler_of(request.target) != "nvrtc":
        raise request.error(
            f"the target {str(request.target)!r} has the option -compiler=nvcc, and {request.name} is {request.language}. Leave it out"
        )
    if request.language.startswith("LLVM"):
        from devmod_targets.cuda._llvm_ir import compile_ir

        payload, warnings = compile_ir(request)
    elif request.language == "OpenCL C":
        from devmod_targets.cuda._opencl_c import compile_program

        payload, warnings, reports = compile_program(request, compile, check_format(request.target))
    elif request.language in ("PTX", "cubin", "fatbin"):
        payload, reports = wrap_binary(request, check_format(request.target))
        warnings = []
    else:
        if _PTX.match(request.text, 0, _HEAD):
            raise request.error(
                f"{request.name} is PTX and no {request.language}: pass its language, as in devmod.compile(…, language='PTX')"
            )
        try:
            payload, warnings, reports = _compile_cuda(request, payload_format(request.target))
        except CompileError as error:
            if request.language == "HIP":
                error.args = (_of_hip(str(error)),)
            raise
    warn_caller(request, warnings, reports)
    return payload


def _compile_cuda(request: CompileRequest, fmt: str) -> tuple[Payload, list[str], list[str]]:
    """Return the payload of a CUDA C++ or HIP source, the warnings, and the reports that options
    request.
    """
    compiler = _compiler(request.target)
    is_nvcc = compiler is not nvrtc
    archs = [_known_arch(arch, compiler) for arch in request.target.archs or ("",)]
    folders = compiler.include_folders()
    check_values(request.options)
    source = _complete_source(request, folders, is_nvcc=is_nvcc)
    instances = explicit_instances(request.name_expressions, "__global__ ")
    if fmt == "cuda":
        source = source.with_lines(instances)
    preprocessed: list[PreprocessedSource] = []
    early = None
    if is_nvcc:
        programs, preprocessed, early = _compile_with_nvcc(
            request, source, compiler, archs, ending_of(instances)
        )
    else:
        programs = [
            compile_portable(
                source.text,
                request.name,
                [f"-arch={arch}", *source.options],
                request.name_expressions,
            )
            for arch in archs
        ]

    ptx = [program.ptx.decode() for program in programs]
    for program, each in zip(programs, ptx, strict=True):
        check_program(request, each, program.log)
    if fmt == "cuda":
        check_visible(request, ptx[0], programs[0].lowered)
    entries = [own_kernels(text, is_nvcc=is_nvcc) for text in ptx]
    _check_equal(archs, [dict.fromkeys(each) for each in entries])
    binaries = [
        (text, program.lowered, kernels)
        for text, program, kernels in zip(ptx, programs, entries, strict=True)
    ]
    first_preprocessed = next(iter(preprocessed), None)
    fmaps, reader = read_functions(
        request, source, binaries, programs[0].version, first_preprocessed, early
    )
    _check_equal(archs, fmaps)

    if is_nvcc:
        compiler_version = compiler.toolchain(preprocessed)
    else:
        compiler_version = nvrtc.toolchain()
    code, joiner = _code(fmt, request.name, source.text, archs, programs)
    toolchain = ", ".join(filter(None, (compiler_version, reader, joiner)))
    origin = source.origin(request, toolchain)
    texts = {"cuda": source.text}
    if fmt in ("cubin", "fatbin"):
        texts["ptx"] = ptx[0]
    fmap = fmaps[0]
    # The receiver of a source may compile it for another architecture, and a fatbin has several.
    if fmt in ("ptx", "cubin"):
        fmap = with_shared_memory(fmap, entries[0])
    files = {**source.files, **unresolved_names(source.text, parents=True)}
    payload = Payload("cuda", code, fmt, fmap, texts, origin, files)
    title = f"{compiler.TITLE} has warnings about the {request.language} source:"
    warnings = _warnings(title, programs, folders)
    return payload, warnings, _reports(request, source.options, archs, programs)


def _complete_source(
    request: CompileRequest, folders: Sequence[str], *, is_nvcc: bool
) -> SelfContainedSource:
    """Return the self-contained source, after checks of its text and of its options."""
    dialect = list(DIALECT)
    if not is_nvcc:
        dialect.append("-D__CUDACC_RTC__=1")
    source = complete_source(request, lambda name: has_header(name, folders), dialect=dialect)
    if request.language == "HIP":
        source = source.with_include("hip/hip_runtime.h")
    check_options(source.options, is_nvcc=is_nvcc)
    _check_clock(source.text, request.name)
    _check_line_names(source.options, source.sources)
    return source


def _code(
    fmt: str, name: str, text: str, archs: Sequence[str], programs: Sequence[nvrtc.Program]
) -> tuple[bytes, str]:
    """Return the code of a payload, and the toolchain that joined the programs of a fatbin."""
    if fmt == "fatbin":
        members = [program.cubin or program.ptx for program in programs]
        return join(list(zip(archs, members, strict=True)), name)
    if fmt == "cuda":
        return text.encode(), ""
    if fmt == "ptx":
        return programs[0].ptx, ""
    return programs[0].cubin, ""


def _compile_with_nvcc(
    request: CompileRequest,
    source: SelfContainedSource,
    compiler: ModuleType,
    archs: Sequence[str],
    ending: str,
) -> tuple[list[nvrtc.Program], list[PreprocessedSource], SourceKernels | None]:
    """Compile a source for each architecture. Return the programs, the preprocessed sources, and
    the result of `read_early` for the first of them.
    """
    programs: list[nvrtc.Program] = []
    preprocessed: list[PreprocessedSource] = []
    early = None

    def read(own: PreprocessedSource) -> None:
        nonlocal early
        if not preprocessed:
            early = read_early(request, source, own)

    for arch in archs:
        program, own = compiler.compile_program(
            source.text + ending,
            request.name,
            arch,
            source.options,
            request.name_expressions,
            read,
        )
        programs.append(program)
        preprocessed.append(own)
    return programs, preprocessed, early


def _reports(
    request: CompileRequest,
    options: Sequence[str],
    archs: Sequence[str],
    programs: Sequence[nvrtc.Program],
) -> list[str]:
    """Return the compiler's reports that options request."""
    remarks = any(_INLINING.fullmatch(option) for option in options)
    reports = []
    for arch, program in zip(archs, programs, strict=True):
        title = f"the compiler's report on {request.name} for {arch}"
        reports += read_reports(program.log, title, remarks=remarks)
    return reports


def _of_hip(text: str) -> str:
    """Return the text of an error of a HIP source, which is compiled as CUDA C++."""
    wide = wide_shuffle(text)
    if wide:
        return f"the HIP source does not compile: {wide}"
    text = text.replace("the CUDA C++ source", "the HIP source", 1)
    if " the PTX:" in text:
        text += ". Inline assembly of HIP is that of AMD's processors. Keep it for ROCm alone, with #ifdef __HIP_PLATFORM_AMD__"
    return text


def _check_equal(archs: Sequence[str], fmaps: Sequence[Mapping[str, FunctionInfo | None]]) -> None:
    """Raise CompileError if the functions of a fatbin differ between its architectures."""
    first = fmaps[0]
    for arch, fmap in zip(archs[1:], fmaps[1:], strict=True):
        for name in sorted({*fmap, *first}):
            if name in fmap and name in first and fmap[name] == first[name]:
                continue
            raise CompileError(
                f"the function {name!r} differs between {archs[0]} and {arch}, and a fatbin has one signature; compile without "
                "-format=fatbin for variants",
                kind="cuda",
                function=name,
            )


def _warnings(title: str, programs: Sequence[nvrtc.Program], folders: Sequence[str]) -> list[str]:
    """Return the text of the warnings about the source itself; those about NVIDIA's headers are not
    the user's.
    """
    lines: dict[str, None] = {}
    for program in programs:
        _, warnings = diagnostics(program.log)
        for line in warnings:
            if not line.startswith(tuple(folders)):
                lines[line] = None
    if not lines:
        return []
    return ["\n".join([title, *lines])]


def _check_clock(text: str, name: str) -> None:
    """Raise CompileError for a macro whose value is the time of the build (R38)."""
    if not re.search(_CLOCK, text):
        return
    place, macro = find_code(_CLOCK, text, name)
    if macro:
        raise clock_error(place, macro)


def _check_line_names(options: Sequence[str], names: Iterable[str]) -> None:
    """Raise CompileError for a name that makes PTX with lines invalid: ptxas knows no escape of a
    quote.
    """
    option = next((option for option in options if writes_folders([option])), "")
    name = next((name for name in names if '"' in name), "")
    if option and name:
        raise CompileError(
            f"the file {name!r} has a quote in its name, which PTX with {option} cannot have. Rename the file",
            kind="cuda",
        )


# -- Template instances of a source payload. The receiver compiles the text alone, so the text
# contains the instances.


def check_visible(request: CompileRequest, ptx: str, lowered: Mapping[str, str]) -> None:
    """Raise CompileError for an expression whose kernel the receiver's compiler would drop: one
    with internal linkage.
    """
    visible = set(re.findall(r"^\.(?:visible|weak) \.entry ([\w$]+)", ptx, re.MULTILINE))
    for expression, symbol in lowered.items():
        if symbol not in visible:
            raise request.error(
                f"name_expressions= contains {expression!r}, a kernel that is static or in an anonymous namespace. With -format=cuda the "
                f"receiver compiles {request.name} without the expression and drops the kernel. Give it external linkage, or compile it "
                "here, as in 'cuda -arch=sm_90'",
                function=expression,
            )


# -- The format and the architectures of a CUDA target.


def variants(target: Target) -> tuple[Target, ...]:
    """Return a target for each payload: one for each architecture, or one for all of a fatbin or a
    source.
    """
    if dict(target.options).get("format") in ("fatbin", "cuda"):
        return (target,)
    return target.variants()


def check_format(target: Target) -> str:
    """Return the value of ``-format=``; "" without it.

    Raises
    ------
    CompileError
        The target has another option, an unknown format, or an unknown compiler.
    """
    options = dict(target.options)
    fmt = options.pop("format", "")
    compiler = options.pop("compiler", "nvcc")
    if options:
        invalid = f"-{next(iter(options))}"
    elif compiler != "nvcc":
        invalid = f"-compiler={compiler}"
    elif fmt and fmt not in SPEC.formats:
        invalid = f"-format={fmt}"
    else:
        return fmt
    raise CompileError(
        f"the target {str(target)!r} has the option {invalid}; expected -format=cuda, -format=ptx, -format=cubin, -format=fatbin or "
        "-compiler=nvcc",
        kind="cuda",
    )


def compiler_of(target: Target) -> str:
    """Return the compiler of CUDA C++: "nvcc" if the target has ``-compiler=nvcc``, else
    "nvrtc".
    """
    return dict(target.options).get("compiler", "nvrtc")


def payload_format(target: Target) -> str:
    """Return the format of the payload: that of ``-format=``, or by default a cubin for ``sm_`` and
    PTX for ``compute_``.

    The target has an architecture unless its format is "cuda" (`TargetSpec.needs_arch`).

    Raises
    ------
    CompileError
        The target has another option, an unknown format, or a format that does not fit its
        architecture.
    """
    fmt = check_format(target)
    if fmt == "cubin" and target.archs[0].startswith("compute_"):
        number = target.archs[0].removeprefix("compute_")
        raise CompileError(
            f"the target {str(target)!r} requests a cubin of a virtual architecture; write -arch=sm_{number}, or -format=ptx",
            kind="cuda",
        )
    if fmt == "cuda" and compiler_of(target) == "nvcc":
        raise CompileError(
            f"the target {str(target)!r} keeps the source, which the receiver compiles with NVRTC; leave out -compiler=nvcc",
            kind="cuda",
        )
    if fmt == "cuda":
        check_one_arch(target)
    if fmt:
        return fmt
    if target.archs[0].startswith("sm_"):
        return "cubin"
    return "ptx"


def _compiler(target: Target) -> ModuleType:
    """Return the module of the compiler of CUDA C++."""
    if compiler_of(target) == "nvrtc":
        return nvrtc
    from devmod_targets.cuda import nvcc

    return nvcc


def _known_arch(arch: str, compiler: ModuleType) -> str:
    """Return an architecture for the compiler; "" is that for which a source is checked.

    Raises
    ------
    CompileError
        The compiler does not support it.
    """
    known: tuple[str, ...] = compiler.arch_names()
    if not arch:
        arch = _CHECKED
        if arch not in known:
            arch = known[-1]
    if arch not in known:
        name = f"{compiler.TITLE} {'.'.join(map(str, compiler.version()))}"
        hint = arch_hint(arch, "sm_", known.__contains__)
        raise CompileError(
            f"{name} does not support the architecture {arch!r}; it supports {_short(known)}{hint}",
            kind="cuda",
        )
    return arch


def _short(names: Sequence[str]) -> str:
    """Return the architectures for a message: the numbers, since each exists with ``sm_`` and
    ``compute_``.
    """
    numbers = [name.removeprefix("sm_") for name in names if name.startswith("sm_")]
    return f"sm_ and compute_ with {', '.join(numbers)}"
