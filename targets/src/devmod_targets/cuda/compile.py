"""The compiler of CUDA C++, HIP, LLVM IR and PTX. NVRTC compiles, with NVIDIA's headers; no driver
and no toolkit is needed.

The target's option ``-format=`` names the format of the payload: ``cuda`` (the self-contained
source), ``ptx``, ``cubin`` or ``fatbin``. With ``-compiler=nvcc``, nvcc compiles CUDA C++ in place
of NVRTC, and takes host code. `source` contains the self-contained source as "cuda" and its PTX as
"ptx".
"""

from __future__ import annotations

import re

from devmod import FunctionInfo, Origin, Target
from devmod.errors import CompileError
from devmod.targets.cuda import SPEC
from devmod_readers.options.cuda import check_options, check_values, writes_folders
from devmod_targets._included import unresolved_names
from devmod_targets._text import find_code
from devmod_targets.authoring import CompileRequest, Payload, complete_source, warn_caller
from devmod_targets.authoring._request import arch_hint
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


def compile(request: CompileRequest) -> Payload:  # noqa: A001 - what it does
    """Compile a CUDA C++ or HIP source, LLVM IR or PTX, or wrap PTX, a cubin or a fatbin.

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
    elif request.language in ("PTX", "cubin", "fatbin"):
        (payload, reports), warnings = wrap_binary(request, check_format(request.target)), []
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
    dialect = (*DIALECT, *([] if is_nvcc else ["-D__CUDACC_RTC__=1"]))
    source = complete_source(request, lambda name: has_header(name, folders), dialect=dialect)
    if request.language == "HIP":
        source = source.with_include("hip/hip_runtime.h")
    check_options(source.options, is_nvcc=is_nvcc)
    _check_clock(source.text, request.name)
    _check_line_names(source.options, source.sources)
    instances = explicit_instances(request.name_expressions, "__global__ ")
    if fmt == "cuda":
        source = source.with_lines(instances)
    preprocessed: list[PreprocessedSource] = []
    early: SourceKernels | None = None

    def read(own: PreprocessedSource) -> None:
        nonlocal early
        if not preprocessed:
            early = read_early(request, source, own)

    programs: list[nvrtc.Program] = []
    for arch in archs:
        if is_nvcc:
            text = source.text + ending_of(instances)
            program, own = compiler.compile_program(
                text, request.name, arch, source.options, request.name_expressions, read
            )
            preprocessed.append(own)
        else:
            program = compile_portable(
                source.text,
                request.name,
                [f"-arch={arch}", *source.options],
                request.name_expressions,
            )
        programs.append(program)
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
    fmaps, reader = read_functions(
        request,
        source,
        binaries,
        programs[0].version,
        preprocessed[0] if preprocessed else None,
        early,
    )
    _check_equal(archs, fmaps)
    toolchain = [
        compiler.toolchain(preprocessed) if preprocessed else nvrtc.toolchain(),
        *filter(None, [reader]),
    ]
    if fmt == "fatbin":
        members = [
            (arch, program.cubin or program.ptx)
            for arch, program in zip(archs, programs, strict=True)
        ]
        code, joiner = join(members, request.name)
        toolchain.append(joiner)
    else:
        code = {"cuda": source.text.encode(), "ptx": programs[0].ptx, "cubin": programs[0].cubin}[
            fmt
        ]
    options = (*source.options, *(f"-D{name}={value}" for name, value in source.defines.items()))
    origin = Origin(str(request.target), ", ".join(toolchain), options, source.sources)
    texts = {"cuda": source.text} | ({"ptx": ptx[0]} if fmt in ("cubin", "fatbin") else {})
    remarks = any(_INLINING.fullmatch(option) for option in source.options)
    reports = [
        report
        for arch, program in zip(archs, programs, strict=True)
        for report in read_reports(
            program.log, f"the compiler's report on {request.name} for {arch}", remarks=remarks
        )
    ]
    # The receiver of a source may compile it for another architecture, and a fatbin has several.
    fmap = with_shared_memory(fmaps[0], entries[0]) if fmt in ("ptx", "cubin") else fmaps[0]
    files = {**source.files, **unresolved_names(source.text, parents=True)}
    return (
        Payload("cuda", code, fmt, fmap, texts, origin, files),
        _warnings(
            f"{compiler.TITLE} has warnings about the {request.language} source:", programs, folders
        ),
        reports,
    )


def _of_hip(text: str) -> str:
    """Return the text of an error of a HIP source, which is compiled as CUDA C++."""
    hint = ". Inline assembly of HIP is that of AMD's processors. Keep it for ROCm alone, with #ifdef __HIP_PLATFORM_AMD__"
    wide = wide_shuffle(text)
    text = text.replace("the CUDA C++ source", "the HIP source", 1)
    return (
        f"the HIP source does not compile: {wide}" if wide else text + hint * (" the PTX:" in text)
    )


def _check_equal(archs: Sequence[str], fmaps: Sequence[Mapping[str, FunctionInfo | None]]) -> None:
    """Raise CompileError if the functions of a fatbin differ between its architectures."""
    for arch, fmap in zip(archs[1:], fmaps[1:], strict=True):
        names = sorted({*fmap, *fmaps[0]})
        name = next(
            (
                name
                for name in names
                if name not in fmap or name not in fmaps[0] or fmap[name] != fmaps[0][name]
            ),
            "",
        )
        if name:
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
    warnings = (line for program in programs for line in diagnostics(program.log)[1])
    lines = dict.fromkeys(line for line in warnings if not line.startswith(tuple(folders)))
    return ["\n".join([title, *lines])] if lines else []


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


#: The architecture for which a source without one is checked. Kernels with features of one
#: architecture (``sm_90a``) name it.
_CHECKED = "compute_90"


def variants(target: Target) -> tuple[Target, ...]:
    """Return a target for each payload: one for each architecture, or one for all of a fatbin or a
    source.
    """
    return (
        (target,) if dict(target.options).get("format") in ("fatbin", "cuda") else target.variants()
    )


def check_format(target: Target) -> str:
    """Return the value of ``-format=``; "" without it.

    Raises
    ------
    CompileError
        The target has another option, an unknown format, or an unknown compiler.
    """
    options = dict(target.options)
    fmt, compiler = options.pop("format", ""), options.pop("compiler", "nvcc")
    if options or (fmt and fmt not in SPEC.formats) or compiler != "nvcc":
        what = (
            f"-{next(iter(options))}"
            if options
            else f"-format={fmt}"
            if compiler == "nvcc"
            else f"-compiler={compiler}"
        )
        raise CompileError(
            f"the target {str(target)!r} has the option {what}; expected -format=cuda, -format=ptx, -format=cubin, -format=fatbin or "
            "-compiler=nvcc",
            kind="cuda",
        )
    return fmt


def compiler_of(target: Target) -> str:
    """Return the compiler of CUDA C++:

    "nvcc" if the target has ``-compiler=nvcc``, else "nvrtc".
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
    if fmt == "cuda" and len(target.archs) > 1:
        raise CompileError(
            f"the target {str(target)!r} keeps the source, which is the same for all architectures; name at most one",
            kind="cuda",
        )
    return fmt or ("cubin" if target.archs[0].startswith("sm_") else "ptx")


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
        return _CHECKED if _CHECKED in known else known[-1]
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
