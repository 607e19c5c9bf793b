"""The options of a request for clang: the toolchain, the optimization level, the standard and the macros."""

from __future__ import annotations

import re
from dataclasses import dataclass

from devmod import Origin
from devmod.errors import CompileError
from devmod_targets.authoring._source import options_and_defines
from devmod_targets.authoring.llvm import LlvmToolchain, find_toolchain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from devmod import FunctionInfo, TargetSpec
    from devmod_targets.authoring import CompileRequest

TOOLCHAIN = "-toolchain="
#: clang's option for intermediate results. They go to `Payload.source`, and the code does not depend on it.
SAVE_TEMPS = "-save-temps"
#: The switches after ``-f`` and ``-fno-``. Others read and write files, search headers in other places or start programs, and new versions
#: of clang have more of them.
_SWITCHES = (
    # numbers
    "approx-func associative-math cx-fortran-rules cx-limited-range enable-matrix fast-math finite-math-only fixed-point "
    "honor-infinities honor-nans math-errno protect-parens reciprocal-math rounding-math signed-zeros strict-float-cast-overflow "
    "trapping-math unsafe-math-optimizations "
    # optimizations
    "assume-sane-operator-new assume-unique-vtables convergent-functions delete-null-pointer-checks finite-loops inline "
    "inline-functions inline-hint-functions jump-tables keep-static-consts merge-all-constants omit-frame-pointer openmp-simd "
    "optimize-sibling-calls reroll-loops slp-vectorize split-lsr strict-aliasing strict-enums strict-overflow strict-return "
    "strict-vtable-pointers trapv tree-slp-vectorize tree-vectorize unroll-loops vectorize wrapv "
    # languages
    "access-control addrsig aligned-allocation aligned-new asm asynchronous-unwind-tables blocks builtin char8_t common coroutines "
    "cxx-exceptions data-sections declspec digraphs dollars-in-identifiers elide-constructors exceptions freestanding function-sections "
    "gnu-inline-asm gnu-keywords gnu89-inline hosted ident lax-vector-conversions new-infallible operator-names pack-struct "
    "relaxed-template-template-args rtti rtti-data semantic-interposition short-enums short-wchar signed-char signed-wchar "
    "sized-deallocation stack-protector threadsafe-statics trigraphs unique-section-names unsigned-char unwind-tables use-cxa-atexit "
    "verbose-asm visibility-inlines-hidden zero-initialized-in-bss "
    # GPUs
    "gpu-allow-device-init gpu-approx-transcendentals gpu-defer-diag gpu-exclude-wrong-side-overloads gpu-flush-denormals-to-zero "
    "hip-fp32-correctly-rounded-divide-sqrt hip-kernel-arg-name metal-enable-logging offload-implicit-host-device-templates "
    "offload-uniform-block preserve-invariance "
    # diagnostics
    "caret-diagnostics color-diagnostics diagnostics-color diagnostics-fixit-info diagnostics-show-note-include-stack "
    "diagnostics-show-option diagnostics-show-template-tree elide-type show-column show-source-location spell-checking "
)
#: The options that change the code or the diagnostics. clang has others, which name files, programs and plugins.
_SUPPORTED = re.compile(
    "|".join(
        [
            r"-O(?:[0-3gsz]|fast)?",
            r"-std=[a-z]+(?:\+\+)?[\w.]+",
            r"-U[A-Za-z_]\w*",
            # No comma: -Wa, -Wl, and -Wp, pass options to other programs.
            r"-w|-pedantic(?:-errors)?|-W[\w#+-]*(?:=[\w+-]+)?",
            r"-Rpass(?:-missed|-analysis)?=.+",
            "-f(?:no-)?(?:" + "|".join(_SWITCHES.split()) + r")|-fno-builtin-\w+",
            r"-f(?:align-(?:functions|loops)|bracket-depth|caret-diagnostics-max-lines|complex-arithmetic|constexpr-(?:backtrace-limit|depth|steps)|"
            r"denormal-fp-math|diagnostics-color|error-limit|excess-precision|fp-(?:contract|eval-method|exception-behavior|model)|"
            r"gpu-default-stream|inline-max-stacksize|lax-vector-conversions|macro-backtrace-limit|matrix-memory-layout|max-type-align|"
            r"message-length|new-alignment|pack-struct|strict-flex-arrays|template-(?:backtrace-limit|depth)|trivial-auto-var-init|"
            r"visibility)=[\w+-]+",
            r"-m(?:no-)?(?:amdgpu-[a-z-]+|cabac|cumode|hvx|hvx-ieee-fp|hvx-qfloat|long-calls|memops|nv[js]|packets|tgsplit|unsafe-fp-atomics|"
            r"wavefrontsize64)",
            r"-m(?:code-object-version|hvx|hvx-length|macosx-version-min)=[\w.]+",
            r"--gpu-max-threads-per-block=\d+",
        ]
    ),
    re.ASCII,
)
_LEVELS = re.compile(r"-O[0-3sz]?|-Ofast")


@dataclass(frozen=True, slots=True)
class ClangOptions:
    """The options of a request, as clang takes them.

    Attributes
    ----------
    toolchain
        The clang that the option ``-toolchain=`` names, or the default one.
    options
        The request's options without ``-toolchain=`` and defines.
    defines
        The macros, name to text.
    flags
        `options` after the default optimization level and the default standard, for each that they do not set.
    """

    toolchain: LlvmToolchain
    options: tuple[str, ...]
    defines: Mapping[str, str]
    flags: tuple[str, ...]

    def origin(self, request: CompileRequest, readers: Iterable[str], sources: Mapping[str, str]) -> Origin:
        """Return the origin of the payload. `readers` are the programs that read the signatures, such as "libclang 18.1.1"."""
        defines = (f"-D{name}={value}" for name, value in self.defines.items())
        return Origin(str(request.target), ", ".join([self.toolchain.name, *readers]), (*self.options, *defines), sources)


def split_option(request: CompileRequest, prefix: str) -> tuple[CompileRequest, str]:
    """Return the request without the options that start with `prefix`, and the value of the last of them; "" if there is none."""
    values = [option[len(prefix) :] for option in request.options if option.startswith(prefix)]
    rest = [option for option in request.options if not option.startswith(prefix)]
    return request.replace(options=rest), values[-1] if values else ""


def take_flag(request: CompileRequest, flag: str) -> tuple[CompileRequest, bool]:
    """Return the request without an option, and whether the option is set."""
    return request.replace(options=[option for option in request.options if option != flag]), flag in request.options


def clang_options(request: CompileRequest, spec: TargetSpec, standard: str, reserved: re.Pattern[str]) -> ClangOptions:
    """Return the options of a request.

    Parameters
    ----------
    request, spec
        The request, and its target.
    standard
        The default of ``-std=``; "" for LLVM IR, which has neither a standard nor a preprocessor.
    reserved
        Matches an option that devmod sets itself.

    Raises
    ------
    ToolchainNotFoundError
        The toolchain is not installed.
    CompileError
        An option is reserved or not supported, or LLVM IR has defines or include folders.
    """
    kind = spec.kind
    request, program = split_option(request, TOOLCHAIN)
    options, defines = options_and_defines(request)
    for option in options:
        if reserved.match(option):
            raise CompileError(
                f"the {kind} option {option!r} is not supported: devmod sets the architecture, the files, the headers and the kind of "
                "output itself",
                kind=kind,
            )
    check_supported(options, kind)
    if not standard and (defines or request.include or request.name_expressions):
        raise CompileError(
            f"defines=, include= and name_expressions= are not supported for {request.language}, which has no preprocessor", kind=kind
        )
    toolchain = find_toolchain(spec, request.language, program)
    flags = [] if any(map(_LEVELS.fullmatch, options)) else ["-O2"]
    flags += [f"-std={standard}"] if standard and not any(option.startswith("-std=") for option in options) else []
    return ClangOptions(toolchain, tuple(options), defines, (*flags, *options))


def check_supported(options: Iterable[str], kind: str) -> None:
    """Raise CompileError for an option of clang that may name a file or a program, or that devmod does not know."""
    for option in options:
        if not _SUPPORTED.fullmatch(option):
            raise CompileError(
                f"the {kind} option {option!r} is not supported; expected an option for the code or its diagnostics, such as -O3, "
                "-ffast-math or -Wextra",
                kind=kind,
            )


def check_symbols(
    request: CompileRequest, fmap: Mapping[str, FunctionInfo], symbols: Iterable[str], noun: str, verb: tuple[str, str]
) -> None:
    """Raise CompileError if `fmap` names a function that is not in the linked file.

    Parameters
    ----------
    request
        The request.
    fmap
        The functions.
    symbols
        The functions of the linked file.
    noun, verb
        The target's word for a function, and the verb for its definition, such as ("export", "exports").
    """
    known = list(symbols)
    kind = request.target.kind
    for name, info in fmap.items():
        if info.name not in known:
            raise CompileError(
                f"the declared fmap names the {kind} {noun} {info.name!r}, which {request.name} does not {verb[0]}. It {verb[1]} "
                f"{', '.join(known)}",
                kind=kind,
                function=name,
            )
