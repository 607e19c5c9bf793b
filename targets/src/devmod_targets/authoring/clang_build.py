"""Compile one source with clang and ld.lld for a device. Their output contains no path of the build machine."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from devmod.errors import compile_error
from devmod_targets.authoring.instances import FILE, expression_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from devmod_targets.authoring import CompileRequest
    from devmod_targets.authoring.llvm import LlvmToolchain

_SUFFIXES = {"c": ".c", "c++": ".cpp", "hip": ".hip", "ir": ".ll", "assembler": ".s", "object": ".o"}
_OBJECT = "devmod.o"
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
        output = self._frontend(name, flags, defines, "-S", "devmod.s")
        lines = self._user_lines(output, name)
        text = Path(self._folder, "devmod.s").read_text(encoding="utf-8", errors="replace")
        warnings, remarks = _by_level(lines)
        report = [f"clang's report on {self._request.name}:", *remarks]
        return text, ["\n".join(warnings)] if warnings else [], ["\n".join(report)] if remarks else []

    def intermediates(self, flags: Sequence[str], defines: Mapping[str, str]) -> tuple[str, bytes]:
        """Return the source as LLVM IR, in text and as bitcode, with the optimizations of `flags`.

        Parameters
        ----------
        flags, defines
            As for `compile`.

        Raises
        ------
        CompileError
            The source has errors.
        """
        self._frontend(self._write_source(), [*flags, "-emit-llvm"], defines, "-S", "devmod.ll")
        text = Path(self._folder, "devmod.ll").read_text(encoding="utf-8", errors="replace")
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
        return text, Path(self._folder, "devmod.bc").read_bytes()

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
            name = self._write_source() if self._language == "assembler" else "devmod.s"
            self._step(self._toolchain.clang, ["-x", "assembler", *flags, "-c", name, "-o", _OBJECT], name)
        return self.link_object(link_flags)

    def link_object(self, link_flags: Sequence[str]) -> bytes:
        """Link the object again, with other flags. Return the linked file.

        Raises
        ------
        CompileError
            The linker refuses it.
        """
        self._step(self._toolchain.link, [*link_flags, _OBJECT, "-o", "devmod.so"])
        return Path(self._folder, "devmod.so").read_bytes()

    def object(self) -> bytes:
        """Return the object of `link`."""
        return Path(self._folder, _OBJECT).read_bytes()

    def _frontend(self, name: str, flags: Sequence[str], defines: Mapping[str, str], mode: str, output: str) -> str:
        """Run clang on the source. Return its messages."""
        arguments = ["-x", self._language, *flags]
        if self._language != "ir":
            arguments += self._preprocessor(defines)
        return self._step(self._toolchain.clang, [*arguments, mode, name, "-o", output], name)

    def _step(self, run: Callable[[Sequence[str], str, str], tuple[int, str]], arguments: Sequence[str], name: str = "") -> str:
        """Run a program, and raise CompileError with its errors if it fails. Return its messages."""
        request = self._request
        code, output = run(arguments, self._folder, self._kind)
        if code:
            lines = self._user_lines(output, name)
            errors = [line for line in lines if _ERROR.search(line)]
            if errors and errors[0].startswith(f"{FILE}:"):
                reason = errors[0].partition(" error: ")[2]
                raise expression_error(self._kind, request.name_expressions, reason, "\n".join(lines))
            raise compile_error(
                self._kind, request.language, errors or lines[:1] or [f"the program ended with status {code}"], "\n".join(lines)
            )
        return output

    def sources(self) -> dict[str, str]:
        """Return the SHA-256 of the source and of each user header that it includes, by their names."""
        request = self._request
        content = request.data or request.text.encode()
        results = {request.name: hashlib.sha256(content).hexdigest()}
        dependencies = Path(self._folder, "devmod.d")
        if dependencies.exists():
            for path in _dependencies(dependencies.read_text(encoding="utf-8", errors="replace")):
                name = self._header_name(path)
                if name:
                    results.setdefault(name, hashlib.sha256(Path(self._folder, path).read_bytes()).hexdigest())
        return results

    def _header_name(self, path: str) -> str:
        """Return a header as an include names it; "" for the source itself and for headers of devmod and the toolchain."""
        full = os.path.realpath(os.path.join(self._folder, path))
        for folder in (self._folder, self._toolchain.include):
            if full.startswith(os.path.realpath(folder) + os.sep):
                return ""
        folders = [os.path.realpath(each) for each in (*self._request.include, self._request.folder) if each]
        for each in sorted(folders, key=len, reverse=True):
            if full.startswith(each + os.sep):
                return os.path.relpath(full, each).replace(os.sep, "/")
        return os.path.basename(full)

    def _write_source(self) -> str:
        request = self._request
        name = os.path.basename(request.name) if re.fullmatch(r"\w[\w.+-]*", request.name) else "source" + _SUFFIXES[self._language]
        path = Path(self._folder, name)
        if request.data:
            path.write_bytes(request.data)
        else:
            path.write_text(request.text + self._ending, encoding="utf-8", newline="")
        return name

    def _preprocessor(self, defines: Mapping[str, str]) -> list[str]:
        request = self._request
        for name, text in self._headers.items():
            path = Path(self._folder, HEADERS, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
        folders = [os.path.abspath(each) for each in (request.folder, *request.include) if each]
        return [
            *("-fno-ident", "-nostdinc"),
            *(f"-D{name}={value}" for name, value in defines.items()),
            *(f"-iquote{each}" for each in folders[:1] if request.folder),
            *(f"-I{os.path.abspath(each)}" for each in request.include),
            *("-isystem", HEADERS, "-isystem", self._toolchain.include),
            # __FILE__ has the header's name without its folder.
            *(f"-fmacro-prefix-map={each}{os.sep}=" for each in folders),
            # The option of clang's driver for this has no effect for HIP.
            *("-Xclang", "-dependency-file", "-Xclang", "devmod.d", "-Xclang", "-MT", "-Xclang", "devmod"),
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
    return [each.replace("\\ ", " ") for each in re.findall(r"(?:\\ |\S)+", rule)]
