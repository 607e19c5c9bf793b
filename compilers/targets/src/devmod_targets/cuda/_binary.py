"""Modules of binaries that other compilers made: PTX, cubins and fatbins. The binary is stored as
it is, or PTX is assembled to cubins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from devmod import FunctionInfo, Origin
from devmod.backend import compile_error
from devmod.errors import (
    CompileError,
    FormatError,
    ToolchainNotFoundError,
    list_names,
)
from devmod.targets.cuda import SPEC
from devmod.targets.cuda.architecture import architecture, rank
from devmod_readers.nvidia import KernelEntry, check_declared, fatbin_members, read_cubin, read_ptx
from devmod_targets.authoring import CompileRequest, Payload, merge_declared
from devmod_targets.cuda import _wheels, nvrtc
from devmod_targets.cuda.nvrtc import checked_cubin, diagnostics, read_reports
from devmod_targets.cuda.signatures.declared import (
    declaration_error,
    declared_kernels,
    with_shared_memory,
    without_types,
)

_READERS = {"ptx": lambda data: read_ptx(data.decode("utf-8", "replace")), "cubin": read_cubin}
#: The architecture and the kernels of a binary.
_Binary = tuple[str, Mapping[str, KernelEntry]]
_VERBOSE = re.compile(r"--?(?:Xptxas|ptxas-options)=-(?:v|-verbose)")
_TITLES = {"ptx": "PTX", "cubin": "cubin", "fatbin": "fatbin"}

_PACKAGE = "nvidia-nvjitlink"

#: Members are stored as they are: a reader of the variants needs no decompressor, and a bundle may
#: compress its payloads.
_OPTIONS = ("-64", "-host=linux", "-compress=false")


def wrap_binary(request: CompileRequest, requested: str) -> tuple[Payload, list[str]]:
    """Return the payload of a binary: the binary itself, or PTX assembled to cubins for the
    architectures ``sm_`` of the target.

    `requested` is the value of ``-format=``, "" without it.

    Return also the reports that the option ``-Xptxas=-v`` requests.

    Raises
    ------
    ToolchainNotFoundError
        PTX becomes a cubin, and nvJitLink is not installed; or a member of a fatbin has a
        compression that Python cannot read.
    CompileError
        The binary is damaged, has no kernel, contradicts the target or the declaration, or does not
        contain the types of the arguments and they are not declared.
    """
    fmt = request.language.lower()
    name = f"the {_TITLES[fmt]} {request.name}"
    _check_has_no_options(request, name, is_assembled=fmt == "ptx" and requested != "ptx")
    data = request.content
    if fmt == "ptx" and not architecture(fmt, data):
        raise request.error(
            f"{name} is invalid: expected the directives .version and .target with an architecture"
        )
    try:
        fmap = _functions(request, name, _binaries(fmt, data))
    except FormatError as error:
        raise request.error(f"{name} is not stored: {error}") from None
    result = fmt
    tools = ""
    texts = {}
    reports: list[str] = []
    if fmt == "ptx":
        code, result, tools, reports = _ptx_payload(request, requested, name, data)
        if result != "ptx":
            texts["ptx"] = request.text
    else:
        code = _stored_payload(request, requested, name, fmt, data)
    sources = {request.name: request.digest}
    origin = Origin(str(request.target), tools, request.options, sources)
    return Payload("cuda", code, result, fmap, texts, origin, files={}), reports


def _check_has_no_options(request: CompileRequest, name: str, *, is_assembled: bool) -> None:
    """Raise CompileError for what only a source takes."""
    options = request.options
    how = "is stored as it is"
    if is_assembled and any(arch.startswith("sm_") for arch in request.target.archs):
        options = tuple(option for option in options if not _VERBOSE.fullmatch(option))
        how = "takes the option -Xptxas=-v alone"
    if options or request.defines or request.include or request.name_expressions:
        raise request.error(
            f"options=, defines=, include= and name_expressions= are for sources; {name} {how}"
        )


def _binaries(fmt: str, data: bytes) -> list[_Binary]:
    """Return the architecture and the kernels of each binary. PTX precedes cubins, which have no
    types.
    """
    if fmt != "fatbin":
        return [(architecture(fmt, data), _READERS[fmt](data))]
    members = fatbin_members(data)
    binaries: list[_Binary] = []
    for kind in _READERS:
        for member in members:
            if member.kind == kind:
                binaries.append((member.arch, _READERS[kind](member.data)))
    return binaries


def _functions(
    request: CompileRequest, name: str, binaries: Sequence[_Binary]
) -> dict[str, FunctionInfo]:
    """Return the declared functions, or without a declaration all kernels, whose types the binary
    then has.
    """
    entries: dict[str, KernelEntry] = {}
    for _, kernels in binaries:
        for symbol, entry in kernels.items():
            entries.setdefault(symbol, entry)
    if not entries:
        raise request.error(f"{name} has no kernel")
    declared = {info.name: key for key, info in (request.fmap or {}).items()}
    for symbol, key in declared.items():
        if symbol not in entries:
            raise request.error(
                f"the declared fmap maps {key!r} to the kernel {symbol!r}, which is missing in {name}. Its kernels: {list_names(entries)}",
                function=key,
            )
    chosen = entries
    if declared:
        chosen = {symbol: entry for symbol, entry in entries.items() if symbol in declared}
    for arch, kernels in binaries:
        _check_has_all(request, f"the binary for {arch} in {name}", kernels, chosen)
    functions = declared_kernels(request, chosen.values())
    unknown = without_types(functions, chosen)
    if unknown:
        raise request.error(declaration_error(name, unknown, functions, chosen), function=unknown)
    fmap = merge_declared(SPEC, functions, request.fmap)
    for _, kernels in binaries:
        for info in fmap.values():
            check_declared(info, kernels[info.name])
    if len(binaries) > 1:
        return fmap
    return with_shared_memory(fmap, binaries[0][1])


def _check_has_all(
    request: CompileRequest, binary: str, kernels: Mapping[str, KernelEntry], symbols: Iterable[str]
) -> None:
    """Raise CompileError if a binary of a fatbin lacks a kernel."""
    for symbol in symbols:
        if symbol not in kernels:
            raise request.error(
                f"{binary} has no kernel {symbol!r}, which another binary has. Declare the kernels that all "
                "binaries have in fmap=, or load the binaries as variants: devmod.interop.offload.load(path, fmap)",
                function=symbol,
            )


def _stored_payload(
    request: CompileRequest, requested: str, name: str, fmt: str, data: bytes
) -> bytes:
    """Return a cubin or a fatbin. Raise CompileError if the target requests something else."""
    target = request.target
    archs = _archs(architecture(fmt, data))
    if requested not in ("", fmt) or not set(target.archs).issubset(archs):
        raise request.error(
            f"{name} is for {', '.join(archs) or 'an unknown architecture'}, and is stored as it is: the target is 'cuda', not "
            f"{str(target)!r}"
        )
    return data


def _archs(variant: str) -> list[str]:
    return [part.partition(":")[0] for part in variant.split(",") if part]


def _ptx_payload(
    request: CompileRequest, fmt: str, name: str, data: bytes
) -> tuple[bytes, str, str, list[str]]:
    """Return the payload that the target requests of PTX, its format, the tools that made it, and
    the assembler's reports.
    """
    target = request.target
    variant = architecture("ptx", data)
    if not _can_become(fmt, target.archs):
        raise request.error(
            f"{name} cannot become a payload of the target {str(target)!r}: 'cuda' stores the PTX, 'cuda -arch=sm_90' makes a cubin, and "
            "'cuda -arch=sm_90,compute_90 -format=fatbin' joins both"
        )
    members: dict[str, bytes] = {}
    tools: dict[str, None] = {}
    reports = []
    for arch in target.archs:
        if arch.startswith("sm_") and fmt != "ptx":
            members[arch], tool, report = assemble(
                data, arch, request.name, verbose=bool(request.options)
            )
            reports += report
            tools[tool] = None
        elif rank(variant, arch.replace("compute_", "sm_")) is None:
            raise request.error(f"{name} is for {variant}, which does not run on {arch}")
        else:
            members[_archs(variant)[0]] = data
    if fmt == "fatbin":
        code, joiner = join(list(members.items()), request.name)
        return code, "fatbin", ", ".join([*tools, joiner]), reports
    code = next(iter(members.values()), data)
    if not tools:
        return code, "ptx", "", reports
    return code, "cubin", ", ".join(tools), reports


def _can_become(fmt: str, archs: Sequence[str]) -> bool:
    """Whether PTX can become a payload of a format for architectures."""
    if fmt == "cuda":
        return False
    if fmt == "fatbin":
        return bool(archs)
    if fmt == "cubin":
        return bool(archs) and not archs[0].startswith("compute_")
    return True


# -- Assemble PTX to a cubin, with the library of the wheel nvidia-nvjitlink. No driver is needed.
#
# NVRTC has no function for it, and the wheel nvidia-nvptxcompiler contains a static library alone.


def assemble(
    ptx: bytes, arch: str, name: str, *, verbose: bool = False
) -> tuple[bytes, str, list[str]]:
    """Return the cubin of PTX, the library's name and version, and with `verbose` the assembler's
    reports.

    Parameters
    ----------
    ptx
        The PTX.
    arch
        The architecture, such as "sm_90".
    name
        The name of the PTX for messages.

    Raises
    ------
    ToolchainNotFoundError
        The library is not installed.
    CompileError
        The PTX has errors, or is for a newer architecture.
    """
    library = _load(name)
    try:
        options = [f"-arch={arch}"]
        if verbose:
            options.append("-Xptxas=-v")
        handle = library.create(len(options), options)
    except Exception as error:
        raise CompileError(
            f"the PTX {name} cannot be assembled for {arch}: nvJitLink does not support this architecture",
            kind="cuda",
        ) from error
    try:
        library.add_data(handle, library.InputType.PTX, ptx, len(ptx), name)
        library.complete(handle)
        cubin = bytearray(library.get_linked_cubin_size(handle))
        library.get_linked_cubin(handle, cubin)
        report = bytearray(library.get_info_log_size(handle))
        library.get_info_log(handle, report)
    except Exception as error:
        log = bytearray(library.get_error_log_size(handle))
        library.get_error_log(handle, log)
        text = log.rstrip(b"\0").decode("utf-8", "replace")
        errors, _ = diagnostics(text, name, name)
        raise compile_error("cuda", "PTX", errors or [f"{name}: error: {error}"], text) from error
    finally:
        library.destroy(handle)
    log_text = report.rstrip(b"\0").decode("utf-8", "replace")
    reports = read_reports(log_text, f"the assembler's report on {name} for {arch}")
    version = _wheels.version(_PACKAGE) or ".".join(map(str, library.version()))
    return checked_cubin(bytes(cubin)), f"nvjitlink {version}", reports


def _load(name: str) -> Any:
    try:
        return _wheels.load("nvJitLink")
    except (ImportError, OSError) as error:
        wheels = _PACKAGE
        if not _wheels.version("cuda-bindings"):
            wheels = f"{nvrtc.DISTRIBUTION} {_PACKAGE}"
        missing = _wheels.missing(f"the library nvJitLink (the wheel {_PACKAGE})", wheels)
        raise ToolchainNotFoundError(
            f"the PTX {name} cannot be assembled to a cubin here: {missing}. Or name an architecture compute_: the PTX is then stored as "
            "it is, and the driver assembles it",
            kind="cuda",
        ) from error


# -- Join cubins and PTX to a fatbin, with the library of the wheel nvidia-nvfatbin.


def join(members: Sequence[tuple[str, bytes]], name: str) -> tuple[bytes, str]:
    """Return a fatbin and the library's name and version.

    Parameters
    ----------
    members
        The architecture and the binary of each member: a cubin for ``sm_``, PTX for ``compute_``.
    name
        The name of the program, which tools show.

    Raises
    ------
    ToolchainNotFoundError
        The library is not installed.
    """
    try:
        library = _wheels.load("nvfatbin")
        version = ".".join(map(str, library.version()))
    except (ImportError, OSError, RuntimeError) as error:
        missing = _wheels.missing(
            "the library nvfatbin (the wheel nvidia-nvfatbin)", nvrtc.DISTRIBUTION
        )
        raise ToolchainNotFoundError(
            f"the fatbin cannot be made here: {missing}. Or leave out -format=fatbin: several architectures then give variants",
            kind="cuda",
        ) from error
    handle = library.create(_OPTIONS, len(_OPTIONS))
    try:
        for arch, binary in members:
            prefix, _, number = arch.partition("_")
            if prefix == "sm":
                library.add_cubin(handle, binary, len(binary), number, name)
            else:
                library.add_ptx(handle, binary + b"\0", len(binary) + 1, number, name, "")
        data = bytearray(library.size(handle))
        library.get(handle, data)
    except Exception as error:
        raise CompileError(
            f"the fatbin of {name} cannot be made: nvfatbin reported {error}", kind="cuda"
        ) from error
    finally:
        library.destroy(handle)
    return bytes(data), f"nvfatbin {_wheels.version('nvidia-nvfatbin') or version}"
