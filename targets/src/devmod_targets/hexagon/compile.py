"""The compiler of Hexagon: C, C++ and LLVM IR to a shared object, with the clang and lld of the wheel ziglang."""

from __future__ import annotations

import re
from tempfile import TemporaryDirectory

from devmod.errors import CompileError
from devmod.targets.hexagon.spec import SPEC
from devmod_targets.authoring import CompileRequest, Payload, merge_declared, warn_caller
from devmod_targets.authoring.clang_build import ClangBuild
from devmod_targets.authoring.clang_options import check_symbols, clang_options
from devmod_targets.authoring.instances import ending_of, explicit_instances
from devmod_targets.hexagon import _headers
from devmod_targets.hexagon._reflect import read_functions
from devmod_targets.hexagon._symbols import exported_functions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod_targets.authoring import ReflectedFunction

#: The versions that clang supports.
ARCHS = (*("v5", "v55", "v60", "v62", "v65", "v66", "v67", "v67t", "v68", "v69", "v71", "v71t", "v73", "v75", "v79", "v81"),)
_LANGUAGES = {"C": ("c", "gnu17"), "C++": ("c++", "gnu++20"), "LLVM IR": ("ir", "")}
#: ld.lld accepts undefined symbols. The runner defines them, or loading raises an error that names them.
_LINK = ("-m", "hexagonelf", "-shared", "-s", "--hash-style=both", "-z", "noexecstack")
#: Options that devmod sets itself, or that change the kind of output.
_RESERVED = re.compile(
    r"-(?:o.*|c|S|E|x.*|target.*|-target.*|mcpu.*|mv\d+t?|march.*|shared|static|fPIC|fpic|g.*|M.*|Wl,.*|Xlinker|Xclang|mllvm|f?plugin.*|"
    r"emit-llvm|isystem.*|-sysroot.*|nostd.*|ffile-prefix-map.*|fdebug.*|save-temps.*|v|###)$"
)


def compile(request: CompileRequest) -> Payload:  # noqa: A001 - what it does
    """Compile a source to a shared object.

    Parameters
    ----------
    request
        The compile request. Its fmap is merged with the functions that libclang reads.

    Returns
    -------
    Payload
        The shared object, of kind "hexagon"; its assembly is in `source`.

    Raises
    ------
    ToolchainNotFoundError
        ziglang is not installed, or libclang is not installed and no fmap is declared.
    CompileError
        The source has errors, no function, or one that devmod cannot call. `log` contains the compiler's output.
    """
    if request.name_expressions and request.language == "C":
        raise CompileError("name_expressions= is not supported for C, which has no templates", kind="hexagon")
    arch = _arch(request)
    language, standard = _LANGUAGES[request.language]
    options = clang_options(request, SPEC, standard, _RESERVED)
    with TemporaryDirectory(prefix="devmod-") as folder:
        ending = ending_of(explicit_instances(request.name_expressions))
        build = ClangBuild(request, options.toolchain, language, _headers.files(), folder, ending=ending)
        machine = ["-target", "hexagon-unknown-none-elf", f"-m{arch}", "-fPIC"]
        freestanding = ["-ffreestanding"] if language != "ir" else []
        assembly, log = build.compile([*machine, *freestanding, *options.flags], options.defines)
        # The assembler needs the options of the processor too, such as -mhvx.
        code = build.link([*machine, *(flag for flag in options.flags if flag.startswith("-m"))], _LINK)
        sources = build.sources()
    symbols = exported_functions(code)
    reflected: Mapping[str, ReflectedFunction] | None = None
    readers: list[str] = []
    if language != "ir":
        try:
            reflected, reader = read_functions(request, language, options, symbols)
            readers.append(reader)
        except CompileError:
            if not _declares_all(request, symbols):
                raise
    if not symbols:
        raise CompileError(f"the {request.language} source {request.name} defines no function that is not static", kind="hexagon")
    if reflected is None and request.fmap is None:
        raise CompileError(
            f"the signatures of {request.name} are unknown: LLVM IR has no element types of pointers. Declare the functions: "
            f"devmod.compile(..., fmap={{name: devmod.FunctionInfo(name, arg_types)}}) for {', '.join(symbols)}",
            kind="hexagon",
        )
    fmap = merge_declared(SPEC, reflected, request.fmap)
    check_symbols(request, fmap, symbols, "function", ("export", "exports"))
    warn_caller(request, log)
    return Payload("hexagon", code, "so", fmap, {"asm": assembly}, options.origin(request, readers, sources))


def _arch(request: CompileRequest) -> str:
    target = request.target
    if len(target.archs) != 1:
        problem = "names no architecture" if not target.archs else "names several architectures"
        raise CompileError(
            f"the target {str(target)!r} {problem}; a hexagon module is built for one: 'hexagon -arch=v66'. Code for v66 runs on v66 and "
            f"every later core. Expected one of {', '.join(ARCHS)}",
            kind="hexagon",
        )
    if target.arch not in ARCHS:
        raise CompileError(
            f"the target {str(target)!r} has the unknown architecture {target.arch!r}; expected one of {', '.join(ARCHS)}", kind="hexagon"
        )
    return str(target.arch)


def _declares_all(request: CompileRequest, symbols: Sequence[str]) -> bool:
    """Return whether the caller's fmap has the types of every function, so that reflection is not needed."""
    declared = request.fmap or {}
    return bool(declared) and {info.name for info in declared.values()} >= set(symbols)
