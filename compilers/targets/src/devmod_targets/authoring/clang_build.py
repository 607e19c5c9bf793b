"""Compile one source with clang and ld.lld for a device. Their output contains no path of the build
machine.
"""

from __future__ import annotations

import os
import re
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from devmod import Origin
from devmod.backend import environment_text, find_program, temporary_folder
from devmod.errors import ToolchainNotFoundError, compile_error
from devmod_readers.options.table import OptionTable
from devmod_targets._paths import name_in
from devmod_targets.authoring._process import dependencies, digests_of, own_environment, run_program
from devmod_targets.authoring._source import define_options, options_and_defines
from devmod_targets.authoring._types import Messages
from devmod_targets.authoring.instances import FILE, expression_error
from devmod_targets.authoring.zig import LibraryHeaders, find_zig, toolchain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from devmod import FunctionInfo, TargetSpec
    from devmod_targets.authoring._request import CompileRequest


# -- clang and lld for devices: those of the wheel ziglang, or those that the user names. No other
# clang is searched for.
#
# The wheel's program `zig` is clang and lld for every target of LLVM (``zig clang``, ``zig
# ld.lld``). Each run has a temporary folder, an environment without the user's variables, and files
# with fixed names, so that its output depends on its inputs alone.


#: The environment variable that names a clang.
VARIABLE = "DEVMOD_CLANG"
_VERSION = re.compile(r"clang version (\d+(?:\.\d+)+)")

TOOLCHAIN = "-toolchain="
#: clang's option for intermediate results. They go to `Payload.source`, and the code does not
#: depend on it.
SAVE_TEMPS = "-save-temps"

_VALUES = (
    "align-functions align-loops bracket-depth caret-diagnostics-max-lines complex-arithmetic constexpr-backtrace-limit "
    "constexpr-depth constexpr-steps denormal-fp-math diagnostics-color error-limit excess-precision fp-contract fp-eval-method "
    "fp-exception-behavior fp-model gpu-default-stream inline-max-stacksize lax-vector-conversions macro-backtrace-limit "
    "matrix-memory-layout max-type-align message-length new-alignment pack-struct strict-flex-arrays template-backtrace-limit "
    "template-depth trivial-auto-var-init visibility"
)

#: clang only warns about an unknown name of a warning, which may be a misspelt one.
_KNOWN_WARNINGS = "-Werror=unknown-warning-option"
#: Options that devmod sets itself, or that change the kind of output.
_RESERVED = re.compile(
    r"-(?:o.*|c|S|E|x.*|target.*|-target.*|-offload.*|-cuda.*|-rocm.*|-hip.*|mcpu.*|march.*|mv\d+t?|shared|static|fPIC|fpic|g.*|M.*|emit-llvm|"
    r"isystem.*|-sysroot.*|nostd.*|nogpu.*|fgpu-rdc|fuse-cuid.*|fdebug.*|ffile-prefix-map.*|save-temps.*|v|###)$"
)
_LEVELS = re.compile(r"-O[0-3sz]?|-Ofast")

_SUFFIXES = {
    "c": ".c",
    "c++": ".cpp",
    "hip": ".hip",
    "ir": ".ll",
    "assembler": ".s",
    "object": ".o",
}
_PREPROCESSED = ("c", "c++", "hip")
_OBJECT = "devmod.o"
#: clang's driver has an option for this, which has no effect for HIP.
_LIST_FILES = (
    "-Xclang",
    "-dependency-file",
    "-Xclang",
    "devmod.d",
    "-Xclang",
    "-MT",
    "-Xclang",
    "devmod",
)
#: Inline assembly stays as it is in the source, so that the assembler reads it after the guard.
_TO_ASSEMBLY = ("-S", "-fno-integrated-as", "-fbinutils-version=none", "-faddrsig")
#: The folder of the target's own headers, in the temporary folder.
HEADERS = "devmod-headers"
_ERROR = re.compile(r": (?:fatal )?error: |^(?:clang|ld\.lld|error): ")
_MESSAGE = re.compile(r": (?P<level>warning|remark|(?:fatal )?error): ")
_SUMMARY = re.compile(
    r"^\d+ (?:warning|error)s?(?: and \d+ errors?)? generated(?: when compiling for \S+)?\.$"
)

_DIRECTIVES = (".include", ".incbin")
_REFUSED = re.compile(r"error: devmod: (\.\w+)\n")
#: The directives that remove the guard, so that the files that the assembly reads are unknown.
_REMOVES = re.compile(rb"purgem|macros_off", re.IGNORECASE)


class LlvmToolchain:
    """A clang with its lld.

    Attributes
    ----------
    name
        The names and versions for an origin, such as "clang 22.1.8 (ziglang 0.17.0)".
    include
        The folders of system headers, in the order of the search: that of clang's own, such as
        stdint.h, and those of `with_library`.
    version
        The major version of clang; 0 if it is unknown.
    """

    def __init__(
        self, clang: Sequence[str], linker: Sequence[str], name: str, include: Sequence[str]
    ) -> None:
        self._clang = tuple(clang)
        self._linker = tuple(linker)
        self.name = name
        self.include = tuple(include)
        number = re.match(r"clang (\d+)", name)
        self.version = int(number[1]) if number else 0

    def clang(self, arguments: Sequence[str], folder: str, kind: str) -> tuple[int, str]:
        """Run clang in a folder. Return its exit status and its output.

        Raises
        ------
        CompileError
            It cannot be run, or exceeds the time limit.
        """
        command = [*self._clang]
        if self.version >= 16:
            # A distribution's file with default options would be another input.
            command.append("--no-default-config")
        return _run([*command, *arguments], folder, kind, "clang")

    def link(self, arguments: Sequence[str], folder: str, kind: str) -> tuple[int, str]:
        """Run ld.lld in a folder. The result and the errors are those of `clang`."""
        return _run([*self._linker, *arguments], folder, kind, "ld.lld")

    @property
    def own_folders(self) -> tuple[str, ...]:
        """The folders whose files are the compiler's own: those of its headers, and the folders
        around them.
        """
        return (*self.include, *map(os.path.dirname, self.include))

    def with_library(self, library: LibraryHeaders, *, is_cpp: bool) -> LlvmToolchain:
        """Return the toolchain with the headers of a C library, and for C++ with those of a C++
        library. Its name has their version too.
        """
        name = self.name
        if library.version not in name:
            name += f", headers of {library.version}"
        include = [*self.include, *library.c]
        if is_cpp:
            include = [*library.cpp, *include]
        return LlvmToolchain(self._clang, self._linker, name, include)


def find_toolchain(spec: TargetSpec, language: str, program: str = "") -> LlvmToolchain:
    """Return the toolchain.

    Parameters
    ----------
    spec
        The target, for the error's install command.
    language
        The language of the source, for the error.
    program
        A clang, as a path or as a name in PATH. By default that of DEVMOD_CLANG, else that of the
        wheel ziglang.

    Raises
    ------
    ToolchainNotFoundError
        It is not installed.
    """
    name = program or environment_text(VARIABLE)
    if name:
        path = find_program(name)
        linker = path and _linker_beside(path)
        if linker:
            return _named_toolchain(path, linker, os.stat(path).st_mtime_ns)
        source = f"the option -toolchain={name}" if program else f"{VARIABLE}={name}"
        problem = "is not a program"
        if path:
            problem = "has no ld.lld beside it; install lld of the same version"
        raise ToolchainNotFoundError(
            f"cannot compile the {language} source: {source} {problem}", kind=spec.kind
        )
    return _zig_toolchain(find_zig(kind=spec.kind, distribution=spec.build_distribution))


@cache
def _zig_toolchain(zig: str) -> LlvmToolchain:
    clang = [zig, "clang"]
    name = f"{_clang_version(clang)} ({toolchain()})"
    include = str(Path(zig).parent / "lib" / "include")
    return LlvmToolchain(clang, [zig, "ld.lld"], name, [include])


@cache
def _named_toolchain(path: str, linker: str, _: int) -> LlvmToolchain:
    include = os.path.join(_query([path, "-print-resource-dir"]), "include")
    return LlvmToolchain([path], [linker], _clang_version([path]), [include])


def _clang_version(clang: Sequence[str]) -> str:
    match = _VERSION.search(_query([*clang, "--version"]))
    if match is None:
        return "clang unknown"
    return f"clang {match[1]}"


def _linker_beside(clang: str) -> str:
    """Return the ld.lld of a clang: with the same suffix (clang-19 and ld.lld-19), in its folder or
    in PATH; "" if it is missing.
    """
    real = os.path.realpath(clang)
    names = ["ld.lld"]
    suffix = re.search(r"-\d+(?=$|\.exe$)", os.path.basename(clang))
    if suffix:
        names.insert(0, f"ld.lld{suffix[0]}")
    for name in names:
        for folder in (os.path.dirname(clang), os.path.dirname(real)):
            path = find_program(os.path.join(folder, name))
            if path:
                return path
    # A linker of another version than the clang would be in PATH without the suffix.
    return find_program(names[0]) if suffix else ""


def _run(command: Sequence[str], folder: str, kind: str, name: str) -> tuple[int, str]:
    # A clang that the user names may be a script.
    return run_program(
        command,
        folder,
        name=name,
        kind=kind,
        environment=own_environment(folder, os.environ.get("PATH", "")),
    )


def _query(command: Sequence[str]) -> str:
    """Return the output of a command of clang that compiles nothing."""
    with temporary_folder() as folder:
        return _run(command, folder, "", "clang")[1].strip()


# -- The options of a request for clang: the toolchain, the optimization level, the standard and the
# macros.


#: The switches after ``-f`` and ``-fno-``. Others read and write files, search headers in other
#: places or start programs, and new versions of clang have more of them.
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
# Where to change: an option of the compiler of Hexagon, or of ROCm and CUDA by clang
#   here: `_SWITCHES`, `_MACHINE`, `_VALUES`
#   tests: `compilers/targets/tests/test_compile_hexagon.py`,
#     `compilers/targets/tests/test_hostile_options.py`
#: The options that change the code or the diagnostics. clang has others, which name files, programs
#: and plugins.
_MACHINE = "cabac cumode hvx hvx-ieee-fp hvx-qfloat long-calls memops nvj nvs packets tgsplit unsafe-fp-atomics wavefrontsize64"
_WORDS = ["-O", *(f"-O{level}" for level in ("0", "1", "2", "3", "g", "s", "z", "fast"))]
_WORDS += ["-w", "-pedantic", "-pedantic-errors"]
for _start, _names in (("-f", _SWITCHES), ("-m", _MACHINE)):
    for _name in _names.split():
        _WORDS += [f"{_start}{_name}", f"{_start}no-{_name}"]
_SUPPORTED = OptionTable(
    _WORDS,
    {
        "-std": r"[a-z]+(?:\+\+)?[\w.]+",
        "--gpu-max-threads-per-block": r"\d+",
        "-Rpass": ".+",
        "-Rpass-missed": ".+",
        "-Rpass-analysis": ".+",
        "-mcode-object-version": r"[\w.]+",
        "-mhvx": r"[\w.]+",
        "-mhvx-length": r"[\w.]+",
        "-mmacosx-version-min": r"[\w.]+",
        **{f"-f{name}": r"[\w+-]+" for name in _VALUES.split()},
    },
    # No comma: -Wa, -Wl, and -Wp, pass options to other programs.
    r"-U[A-Za-z_]\w*|-W[\w#+-]*(?:=[\w+-]+)?|-fno-builtin-\w+|-m(?:no-)?amdgpu-[a-z-]+",
)


class ClangOptions(NamedTuple):
    """The options of a request, as clang takes them.

    Parameters
    ----------
    toolchain
        The clang that the option ``-toolchain=`` names, or the default one.
    options
        The request's options without ``-toolchain=`` and defines.
    defines
        The macros, name to text.
    flags
        `options` after the default optimization level and the default standard, for each that they
        do not set.
    """

    toolchain: LlvmToolchain
    options: tuple[str, ...]
    defines: Mapping[str, str]
    flags: tuple[str, ...]

    def origin(
        self, request: CompileRequest, readers: Iterable[str], sources: Mapping[str, str]
    ) -> Origin:
        """Return the origin of the payload. `readers` are the programs that read the signatures,
        such as "libclang 18.1.1".
        """
        return Origin(
            str(request.target),
            ", ".join([self.toolchain.name, *readers]),
            (*self.options, *define_options(self.defines)),
            sources,
        )


def split_option(request: CompileRequest, prefix: str) -> tuple[CompileRequest, str]:
    """Return the request without the options that start with `prefix`, and the value of the last of
    them; "" if there is none.
    """
    values = [option[len(prefix) :] for option in request.options if option.startswith(prefix)]
    rest = tuple(option for option in request.options if not option.startswith(prefix))
    value = values[-1] if values else ""
    return request.replace(options=rest), value


def take_flag(request: CompileRequest, flag: str) -> tuple[CompileRequest, bool]:
    """Return the request without an option, and whether the option is set."""
    rest = tuple(option for option in request.options if option != flag)
    return request.replace(options=rest), flag in request.options


def clang_options(request: CompileRequest, spec: TargetSpec, standard: str) -> ClangOptions:
    """Return the options of a request.

    Parameters
    ----------
    request, spec
        The request, and its target.
    standard
        The default of ``-std=``; "" for LLVM IR, which has neither a standard nor a preprocessor.

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
        if _RESERVED.match(option):
            raise request.error(
                f"the {kind} option {option!r} is not supported: devmod sets the architecture, the files, the headers and the kind of "
                "output itself"
            )
    check_supported(request, options)
    if not standard and (defines or request.include or request.name_expressions):
        raise request.error(
            f"defines=, include= and name_expressions= are not supported for {request.language}, which has no preprocessor"
        )
    toolchain = find_toolchain(spec, request.language, program)
    flags = [_KNOWN_WARNINGS]
    if not any(map(_LEVELS.fullmatch, options)):
        flags.append("-O2")
    if standard and not any(option.startswith("-std=") for option in options):
        flags.append(f"-std={standard}")
    return ClangOptions(toolchain, tuple(options), defines, (*flags, *options))


def check_supported(request: CompileRequest, options: Iterable[str]) -> None:
    """Raise CompileError for an option of clang that may name a file or a program, or that devmod
    does not know.
    """
    for option in options:
        if option not in _SUPPORTED:
            raise request.error(
                f"the {request.target.kind} option {option!r} is not supported; expected an option for the code or its diagnostics, such "
                f"as -O3, -ffast-math or -Wextra{_SUPPORTED.hint(option)}"
            )


def check_symbols(
    request: CompileRequest,
    fmap: Mapping[str, FunctionInfo],
    symbols: Iterable[str],
    noun: str,
    verb: tuple[str, str],
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
        The target's word for a function, and the verb for its definition, such as ("export",
        "exports").
    """
    known = list(symbols)
    kind = request.target.kind
    for name, info in fmap.items():
        if info.name not in known:
            raise request.error(
                f"the declared fmap names the {kind} {noun} {info.name!r}, which {request.name} does not {verb[0]}. It {verb[1]} "
                f"{', '.join(known)}",
                function=name,
            )


#: Assembly, the warnings and the remarks.
Assembly = tuple[str, list[str], list[str]]


class ClangBuild:
    """The compilation of one source.

    Parameters
    ----------
    request, options
        The source, and its options.
    language
        clang's name of the language: "c", "c++", "hip", "ir" or "assembler"; or "object", which is
        linked alone.
    headers
        The target's own headers, name to text.
    folder
        An empty folder, which the caller removes.
    ending
        The text that follows the source, such as `instance_variables`.
    """

    def __init__(
        self,
        request: CompileRequest,
        options: ClangOptions,
        language: str,
        headers: Mapping[str, str],
        folder: str,
        *,
        ending: str = "",
    ) -> None:
        self._request = request
        self._toolchain = options.toolchain
        self._defines = options.defines
        self._language = language
        self._headers = headers
        self._folder = folder
        self._ending = ending
        self._arguments: list[str] = []
        self._assembly = b""
        self._kind = str(request.target.kind)

    def compile(self, flags: Sequence[str]) -> Assembly:
        """Compile the source to assembly.

        Parameters
        ----------
        flags
            clang's flags, with those of the processor.

        Returns
        -------
        str
            The assembly.
        list of str
            The warnings.
        list of str
            The remarks, which options such as ``-Rpass=inline`` request.

        Raises
        ------
        CompileError
            The source has errors.
        """
        name = self._write_source()
        output = self._frontend(name, flags, _TO_ASSEMBLY, "devmod.s")
        path = Path(self._folder, "devmod.s")
        self._assembly = path.read_bytes()
        text = path.read_text(encoding="utf-8", errors="replace")

        warnings, remarks = _by_level(self._user_lines(output, name))
        reports = []
        if remarks:
            remarks.insert(0, f"clang's report on {self._request.name}:")
            reports.append("\n".join(remarks))
        if not warnings:
            return text, [], reports
        return text, ["\n".join(warnings)], reports

    def llvm_ir(self, flags: Sequence[str]) -> str:
        """Return the source as LLVM IR text, with the optimizations of `flags`.

        Parameters
        ----------
        flags
            As for `compile`.

        Raises
        ------
        CompileError
            The source has errors.
        """
        self._frontend(self._write_source(), [*flags, "-emit-llvm"], ("-S",), "devmod.ll")
        return Path(self._folder, "devmod.ll").read_text(encoding="utf-8", errors="replace")

    def bitcode(self) -> bytes:
        """Return the result of `llvm_ir` as bitcode."""
        arguments = "-x ir -Wno-override-module -Xclang -disable-llvm-passes -emit-llvm -c devmod.ll -o devmod.bc"
        self._step(self._toolchain.clang, arguments.split())
        return Path(self._folder, "devmod.bc").read_bytes()

    def link(self, flags: Sequence[str], link_flags: Sequence[str]) -> bytes:
        """Assemble and link the output of `compile`, or a source that is assembly or an object.
        Return the linked file.

        Parameters
        ----------
        flags
            clang's flags for the processor.
        link_flags
            ld.lld's flags.

        Raises
        ------
        CompileError
            The assembler or the linker refuses it.
        """
        if self._language == "object":
            Path(self._folder, _OBJECT).write_bytes(self._request.data)
        else:
            self._assemble(flags)
        return self._link_object(link_flags)

    def _link_object(self, link_flags: Sequence[str]) -> bytes:
        """Link the object again, with other flags. Return the linked file.

        Raises
        ------
        CompileError
            The linker refuses it.
        """
        # ``#pragma comment(lib, …)`` names libraries, which lld would read.
        arguments = [*link_flags, "--no-dependent-libraries", _OBJECT, "-o", "devmod.so"]
        self._step(self._toolchain.link, arguments)
        return Path(self._folder, "devmod.so").read_bytes()

    def relink(self, data: bytes, link_flags: Sequence[str]) -> bytes:
        """Link another object in the place of that of `link`. Return the linked file."""
        Path(self._folder, _OBJECT).write_bytes(data)
        return self._link_object(link_flags)

    def object(self) -> bytes:
        """Return the object of `link` or `relink`."""
        return Path(self._folder, _OBJECT).read_bytes()

    def _assemble(self, flags: Sequence[str]) -> None:
        """Assemble the output of `compile`, or a source that is assembly."""
        is_source = self._language == "assembler"
        name = "devmod.s"
        if is_source:
            name = self._source_name
            self._assembly = self._request.text.encode()
        Path(self._folder, "guarded.s").write_bytes(guarded(self._assembly, name))
        arguments = ["-x", "assembler", *flags, "-c", "guarded.s", "-o", _OBJECT]
        code, output = self._toolchain.clang(arguments, self._folder, self._kind)
        if code:
            check_guard(self._request, output, name)
            if not is_source:
                # clang itself has the lines of the source for errors in inline assembly.
                again = [*self._arguments, "-c", "-o", _OBJECT]
                self._step(self._toolchain.clang, again, self._arguments[-1])
            self._fail(code, output, name)

    def _frontend(
        self,
        name: str,
        flags: Sequence[str],
        mode: Sequence[str],
        output: str,
    ) -> str:
        """Run clang on the source. Return its messages."""
        is_preprocessed = self._language in _PREPROCESSED
        self._arguments = ["-x", self._language, *flags]
        if is_preprocessed:
            self._arguments += self._preprocessor()
        self._arguments.append(name)
        arguments = [*self._arguments]
        if is_preprocessed:
            arguments += _LIST_FILES
        messages = self._step(self._toolchain.clang, [*arguments, *mode, "-o", output], name)
        if is_preprocessed and not Path(self._folder, "devmod.d").exists():
            # With a list of files, clang accepts an #embed of a missing file, and then writes no
            # list.
            self._step(self._toolchain.clang, [*self._arguments, "-fsyntax-only"], name)
        return messages

    def _step(
        self,
        run: Callable[[Sequence[str], str, str], tuple[int, str]],
        arguments: Sequence[str],
        name: str = "",
    ) -> str:
        """Run a program. Return its messages, or raise CompileError with its errors if it fails."""
        code, output = run(arguments, self._folder, self._kind)
        if code:
            self._fail(code, output, name)
        return output

    def _fail(self, code: int, output: str, name: str) -> NoReturn:
        """Raise CompileError with the errors in the output of a program."""
        request = self._request
        lines = self._user_lines(output, name)
        errors = [line for line in lines if _ERROR.search(line)]
        if errors and errors[0].startswith(f"{FILE}:"):
            reason = errors[0].partition(" error: ")[2]
            raise expression_error(self._kind, request.name_expressions, reason, "\n".join(lines))
        raise compile_error(
            self._kind,
            request.language,
            errors or lines[:1] or [f"the program ended with status {code}"],
            "\n".join(lines),
        )

    def sources(self) -> dict[str, str]:
        """Return the SHA-256 of the source and of each user header that it includes, by their
        names.
        """
        request = self._request
        results = {request.name: request.digest}
        for path, digest in self.files.items():
            if digest:
                results.setdefault(self._header_name(path), digest)
        return results

    def contents(self) -> Iterator[bytes]:
        """Yield the source, and each user header that it includes."""
        yield self._request.content
        for path, digest in self.files.items():
            if digest:
                yield Path(path).read_bytes()

    @cached_property
    def files(self) -> dict[str, str]:
        """The SHA-256 of each user header that clang has read, by its path (`Payload.files`). Known
        after `link`.
        """
        unknown = []
        if _REMOVES.search(self._assembly):
            unknown.append("a file that assembly names")
        text = ""
        if self._language in _PREPROCESSED:
            listing = Path(self._folder, "devmod.d")
            try:
                text = listing.read_text(encoding="utf-8", errors="surrogateescape")
            except FileNotFoundError:
                unknown.append("a file that clang does not list")
        paths = [os.path.join(self._folder, path) for path in dependencies(text)]
        digests = digests_of(paths, (self._folder, *self._toolchain.own_folders))
        return digests | dict.fromkeys(unknown, "")

    def _header_name(self, path: str) -> str:
        """Return a header as an include names it."""
        folders = [each for each in (*self._request.include, self._request.folder) if each]
        return name_in(os.path.normpath(path), sorted(folders, key=len, reverse=True))

    @property
    def _source_name(self) -> str:
        name = self._request.name
        if re.fullmatch(r"\w[\w.+-]*", name):
            return name
        return "source" + _SUFFIXES[self._language]

    def _write_source(self) -> str:
        request = self._request
        path = Path(self._folder, self._source_name)
        if request.data:
            path.write_bytes(request.data)
        else:
            path.write_text(request.text + self._ending, encoding="utf-8", newline="")
        return path.name

    def _preprocessor(self) -> list[str]:
        request = self._request
        for name, text in self._headers.items():
            path = Path(self._folder, HEADERS, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
        folders = [os.path.abspath(each) for each in (request.folder, *request.include) if each]
        result = ["-fno-ident", "-nostdinc", "-Werror=date-time"]
        result += define_options(self._defines)
        if request.folder:
            result.append(f"-iquote{folders[0]}")
        result += [f"-I{os.path.abspath(each)}" for each in request.include]
        for each in (HEADERS, *self._toolchain.include):
            result += ["-isystem", each]
        # __FILE__ has the header's name without its folder.
        result += [f"-fmacro-prefix-map={each}{os.sep}=" for each in folders]
        if self._toolchain.version >= 19:
            # clang does not look for the file of an #embed in the folders of includes.
            result += [f"--embed-dir={each}" for each in folders]
        return result

    def _user_lines(self, output: str, name: str) -> list[str]:
        """Return the compiler's lines with the user's names: no folder, and the request's name for
        the source.
        """
        folders = (self._request.folder, *self._request.include, *self._toolchain.include)
        for folder in sorted({os.path.abspath(each) for each in folders if each}, key=len)[::-1]:
            output = output.replace(folder + os.sep, "")
        if name and name != self._request.name:
            output = re.sub(rf"(?m)^{re.escape(name)}(?=:)", lambda _: self._request.name, output)
        return [line for line in output.splitlines() if not _SUMMARY.match(line)]


def _by_level(lines: Sequence[str]) -> Messages:
    """Return the lines of warnings and those of remarks. Lines without a level, such as notes and
    quoted source, follow their message.

    clang repeats a warning for each instance of a template. The first one is returned.
    """
    seen = set()
    warnings: list[str] = []
    remarks: list[str] = []
    includes = []
    current = warnings
    for line in lines:
        message = _MESSAGE.search(line)
        if line.startswith("In file included from "):  # it precedes its message
            includes.append(line)
            continue
        if message:
            if message["level"] == "remark":
                current = remarks
            elif line in seen:
                current = []
            else:
                current = warnings
            seen.add(line)
            current += includes
            includes.clear()
        current.append(line)
    if not any(map(_MESSAGE.search, warnings)):
        warnings = []
    return warnings, remarks


# -- The guard of assembly: no directive reads a file, because a payload depends on its inputs alone
# (R38).
#
# The assembler looks for a macro before it looks for a directive, also for a name that another
# macro puts together. So macros with the names of these directives make them errors. The names of
# directives have no case, and those of macros do.


def guarded(text: bytes, name: str) -> bytes:
    """Return assembly after the guard. The messages of the assembler have the lines of the text."""
    return _guard() + b'# 1 "%s"\n' % name.encode() + text


def check_guard(request: CompileRequest, output: str, name: str) -> None:
    """Raise CompileError if the output of the assembler has an error of the guard. `name` is that
    of the text.
    """
    found = _REFUSED.search(output)
    if not found:
        return
    line = re.compile(rf"^{re.escape(name)}:(\d+):", re.MULTILINE).search(output, found.end())
    if request.language == "assembly" and line:
        place = f"{request.name}:{line[1]}: the directive {found[1]}"
    else:
        place = f"{request.name}: the directive {found[1]} in its inline assembly"
    raise request.error(
        f"{place} reads a file of the build machine, and equal sources give equal payloads; write the contents into the source"
    )


@cache
def _guard() -> bytes:
    names = []
    for name in _DIRECTIVES:
        for letters in product(*({each, each.upper()} for each in name)):
            names.append((name, "".join(letters)))
    text = ""
    for name, spelled in sorted(names):
        text += f'.macro {spelled} rest:vararg\n.error "devmod: {name}"\n.endm\n'
    return text.encode()
