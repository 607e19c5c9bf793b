"""Compile one source with clang and ld.lld for a device. Their output contains no path of the build machine."""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache, cached_property
from itertools import product
from pathlib import Path

from devmod.errors import CompileError, compile_error
from devmod_targets.authoring._process import digests_of
from devmod_targets.authoring.instances import FILE, expression_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import NoReturn

    from devmod_targets.authoring._request import CompileRequest
    from devmod_targets.authoring.llvm import LlvmToolchain


_SUFFIXES = {"c": ".c", "c++": ".cpp", "hip": ".hip", "ir": ".ll", "assembler": ".s", "object": ".o"}
_PREPROCESSED = ("c", "c++", "hip")
_OBJECT = "devmod.o"
#: clang's driver has an option for this, which has no effect for HIP.
_LIST_FILES = ("-Xclang", "-dependency-file", "-Xclang", "devmod.d", "-Xclang", "-MT", "-Xclang", "devmod")
#: Inline assembly stays as it is in the source, so that the assembler reads it after the guard.
_TO_ASSEMBLY = ("-S", "-fno-integrated-as", "-fbinutils-version=none", "-faddrsig")
#: The folder of the target's own headers, in the temporary folder.
HEADERS = "devmod-headers"
_ERROR = re.compile(r": (?:fatal )?error: |^(?:clang|ld\.lld|error): ")
_MESSAGE = re.compile(r": (?P<level>warning|remark|(?:fatal )?error): ")
_SUMMARY = re.compile(r"^\d+ (?:warning|error)s?(?: and \d+ errors?)? generated(?: when compiling for \S+)?\.$")


class ClangBuild:
    """The compilation of one source.

    Parameters
    ----------
    request, toolchain
        The source, and the compiler.
    language
        clang's name of the language: "c", "c++", "hip", "ir" or "assembler"; or "object", which is linked alone.
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
        toolchain: LlvmToolchain,
        language: str,
        headers: Mapping[str, str],
        folder: str,
        *,
        ending: str = "",
    ) -> None:
        self._request, self._toolchain, self._language, self._headers, self._folder = request, toolchain, language, headers, folder
        self._ending = ending
        self._arguments: list[str] = []
        self._assembly = b""
        self._kind = str(request.target.kind)

    def compile(self, flags: Sequence[str], defines: Mapping[str, str]) -> tuple[str, list[str], list[str]]:
        """Compile the source to assembly.

        Parameters
        ----------
        flags
            clang's flags, with those of the processor.
        defines
            The macros, name to text.

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
        output = self._frontend(name, flags, defines, _TO_ASSEMBLY, "devmod.s")
        lines = self._user_lines(output, name)
        self._assembly = Path(self._folder, "devmod.s").read_bytes()
        text = Path(self._folder, "devmod.s").read_text(encoding="utf-8", errors="replace")
        warnings, remarks = _by_level(lines)
        report = [f"clang's report on {self._request.name}:", *remarks]
        return text, ["\n".join(warnings)] if warnings else [], ["\n".join(report)] if remarks else []

    def llvm_ir(self, flags: Sequence[str], defines: Mapping[str, str]) -> str:
        """Return the source as LLVM IR text, with the optimizations of `flags`.

        Parameters
        ----------
        flags, defines
            As for `compile`.

        Raises
        ------
        CompileError
            The source has errors.
        """
        self._frontend(self._write_source(), [*flags, "-emit-llvm"], defines, ("-S",), "devmod.ll")
        return Path(self._folder, "devmod.ll").read_text(encoding="utf-8", errors="replace")

    def bitcode(self) -> bytes:
        """Return the result of `llvm_ir` as bitcode."""
        arguments = [
            "-x",
            "ir",
            "-Wno-override-module",
            "-Xclang",
            "-disable-llvm-passes",
            "-emit-llvm",
            "-c",
            "devmod.ll",
            "-o",
            "devmod.bc",
        ]
        self._step(self._toolchain.clang, arguments)
        return Path(self._folder, "devmod.bc").read_bytes()

    def link(self, flags: Sequence[str], link_flags: Sequence[str]) -> bytes:
        """Assemble and link the output of `compile`, or a source that is assembly or an object. Return the linked file.

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
        return self.link_object(link_flags)

    def link_object(self, link_flags: Sequence[str]) -> bytes:
        """Link the object again, with other flags. Return the linked file.

        Raises
        ------
        CompileError
            The linker refuses it.
        """
        # ``#pragma comment(lib, …)`` names libraries, which lld would read.
        self._step(self._toolchain.link, [*link_flags, "--no-dependent-libraries", _OBJECT, "-o", "devmod.so"])
        return Path(self._folder, "devmod.so").read_bytes()

    def relink(self, data: bytes, link_flags: Sequence[str]) -> bytes:
        """Link another object in the place of that of `link`. Return the linked file."""
        Path(self._folder, _OBJECT).write_bytes(data)
        return self.link_object(link_flags)

    def object(self) -> bytes:
        """Return the object of `link` or `relink`."""
        return Path(self._folder, _OBJECT).read_bytes()

    def _assemble(self, flags: Sequence[str]) -> None:
        """Assemble the output of `compile`, or a source that is assembly."""
        is_source = self._language == "assembler"
        name = self._source_name if is_source else "devmod.s"
        if is_source:
            self._assembly = self._request.text.encode()
        Path(self._folder, "guarded.s").write_bytes(guarded(self._assembly, name))
        arguments = ["-x", "assembler", *flags, "-c", "guarded.s", "-o", _OBJECT]
        code, output = self._toolchain.clang(arguments, self._folder, self._kind)
        if code:
            check_guard(self._request, output, name)
            if not is_source:  # clang itself has the lines of the source for errors in inline assembly
                self._step(self._toolchain.clang, [*self._arguments, "-c", "-o", _OBJECT], self._arguments[-1])
            self._fail(code, output, name)

    def _frontend(self, name: str, flags: Sequence[str], defines: Mapping[str, str], mode: Sequence[str], output: str) -> str:
        """Run clang on the source. Return its messages."""
        is_preprocessed = self._language in _PREPROCESSED
        self._arguments = ["-x", self._language, *flags, *(self._preprocessor(defines) if is_preprocessed else ()), name]
        messages = self._step(
            self._toolchain.clang, [*self._arguments, *(_LIST_FILES if is_preprocessed else ()), *mode, "-o", output], name
        )
        if is_preprocessed and not Path(self._folder, "devmod.d").exists():
            # With a list of files, clang accepts an #embed of a missing file, and then writes no list.
            self._step(self._toolchain.clang, [*self._arguments, "-fsyntax-only"], name)
        return messages

    def _step(self, run: Callable[[Sequence[str], str, str], tuple[int, str]], arguments: Sequence[str], name: str = "") -> str:
        """Run a program, and raise CompileError with its errors if it fails. Return its messages."""
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
            self._kind, request.language, errors or lines[:1] or [f"the program ended with status {code}"], "\n".join(lines)
        )

    def sources(self) -> dict[str, str]:
        """Return the SHA-256 of the source and of each user header that it includes, by their names."""
        request = self._request
        content = request.data or request.text.encode()
        results = {request.name: hashlib.sha256(content).hexdigest()}
        for path, digest in self.files.items():
            if digest:
                results.setdefault(self._header_name(path), digest)
        return results

    def contents(self) -> Iterator[bytes]:
        """Yield the source, and each user header that it includes."""
        yield self._request.data or self._request.text.encode()
        for path, digest in self.files.items():
            if digest:
                yield Path(path).read_bytes()

    @cached_property
    def files(self) -> dict[str, str]:
        """The SHA-256 of each user header that clang has read, by its path (`Payload.files`). Known after `link`."""
        unknown = ["a file that assembly names"] if removes_guard(self._assembly) else []
        text = ""
        if self._language in _PREPROCESSED:
            try:
                text = Path(self._folder, "devmod.d").read_text(encoding="utf-8", errors="surrogateescape")
            except FileNotFoundError:
                unknown.append("a file that clang does not list")
        paths = [os.path.join(self._folder, path) for path in _dependencies(text)]
        return digests_of(paths, (self._folder, self._toolchain.include)) | dict.fromkeys(unknown, "")

    def _header_name(self, path: str) -> str:
        """Return a header as an include names it."""
        full = os.path.normpath(path)
        for each in sorted(filter(None, (*self._request.include, self._request.folder)), key=len, reverse=True):
            if full.startswith(os.path.join(each, "")):
                return os.path.relpath(full, each).replace(os.sep, "/")
        return os.path.basename(full)

    @property
    def _source_name(self) -> str:
        name: str = self._request.name
        return name if re.fullmatch(r"\w[\w.+-]*", name) else "source" + _SUFFIXES[self._language]

    def _write_source(self) -> str:
        request = self._request
        path = Path(self._folder, self._source_name)
        if request.data:
            path.write_bytes(request.data)
        else:
            path.write_text(request.text + self._ending, encoding="utf-8", newline="")
        return path.name

    def _preprocessor(self, defines: Mapping[str, str]) -> list[str]:
        request = self._request
        for name, text in self._headers.items():
            path = Path(self._folder, HEADERS, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
        folders = [os.path.abspath(each) for each in (request.folder, *request.include) if each]
        return [
            *("-fno-ident", "-nostdinc", "-Werror=date-time"),
            *(f"-D{name}={value}" for name, value in defines.items()),
            *(f"-iquote{each}" for each in folders[:1] if request.folder),
            *(f"-I{os.path.abspath(each)}" for each in request.include),
            *("-isystem", HEADERS, "-isystem", self._toolchain.include),
            # __FILE__ has the header's name without its folder.
            *(f"-fmacro-prefix-map={each}{os.sep}=" for each in folders),
            # clang does not look for the file of an #embed in the folders of includes.
            *(f"--embed-dir={each}" for each in folders if self._toolchain.version >= 19),
        ]

    def _user_lines(self, output: str, name: str) -> list[str]:
        """Return the compiler's lines with the user's names: no folder, and the request's name for the source."""
        for folder in sorted({os.path.abspath(each) for each in (self._request.folder, *self._request.include) if each}, key=len)[::-1]:
            output = output.replace(folder + os.sep, "")
        if name and name != self._request.name:
            output = re.sub(rf"(?m)^{re.escape(name)}(?=:)", lambda _: self._request.name, output)
        return [line for line in output.splitlines() if not _SUMMARY.match(line)]


def _by_level(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the lines of warnings and those of remarks. Lines without a level, such as notes and quoted source, follow their message."""
    warnings: list[str] = []
    remarks: list[str] = []
    includes: list[str] = []
    current = warnings
    for line in lines:
        message = _MESSAGE.search(line)
        if line.startswith("In file included from "):  # it precedes its message
            includes.append(line)
            continue
        if message:
            current = remarks if message["level"] == "remark" else warnings
            current += includes
            includes.clear()
        current.append(line)
    return (warnings if any(map(_MESSAGE.search, warnings)) else []), remarks


def _dependencies(text: str) -> list[str]:
    """Return the files of a make rule, without its target."""
    rule = text.partition(":")[2].replace("\\\n", " ")
    return [re.sub(r"\\([ #])", r"\1", each).replace("$$", "$") for each in re.findall(r"(?:\\ |\S)+", rule)]


# -- The guard of assembly: no directive reads a file, because a payload depends on its inputs alone (R38).
#
# The assembler looks for a macro before it looks for a directive, also for a name that another macro puts together. So macros with the
# names of these directives make them errors. The names of directives have no case, and those of macros do.


_DIRECTIVES = (".include", ".incbin")
_REFUSED = re.compile(r"error: devmod: (\.\w+)\n")
#: The directives that remove the guard.
_REMOVES = re.compile(rb"purgem|macros_off", re.IGNORECASE)


def guarded(text: bytes, name: str) -> bytes:
    """Return assembly after the guard. The messages of the assembler have the lines of the text."""
    return _guard() + b'# 1 "%s"\n' % name.encode() + text


def removes_guard(text: bytes) -> bool:
    """Return whether assembly may remove the guard, so that the files that it reads are unknown."""
    return _REMOVES.search(text) is not None


def check_guard(request: CompileRequest, output: str, name: str) -> None:
    """Raise CompileError if the output of the assembler has an error of the guard. `name` is that of the text."""
    found = _REFUSED.search(output)
    if not found:
        return
    line = re.compile(rf"^{re.escape(name)}:(\d+):", re.MULTILINE).search(output, found.end())
    if request.language == "assembly" and line:
        place = f"{request.name}:{line[1]}: the directive {found[1]}"
    else:
        place = f"{request.name}: the directive {found[1]} in its inline assembly"
    raise CompileError(
        f"{place} reads a file of the build machine, and equal sources give equal payloads; write the contents into the source",
        kind=request.target.kind,
    )


@cache
def _guard() -> bytes:
    names = [(name, "".join(letters)) for name in _DIRECTIVES for letters in product(*({each, each.upper()} for each in name))]
    return "".join(f'.macro {spelled} rest:vararg\n.error "devmod: {name}"\n.endm\n' for name, spelled in sorted(names)).encode()
