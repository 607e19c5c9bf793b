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
    from collections.abc import Mapping, Sequence

    from devmod_targets.authoring import CompileRequest
    from devmod_targets.authoring.llvm import LlvmToolchain

_SUFFIXES = {"c": ".c", "c++": ".cpp", "hip": ".hip", "ir": ".ll"}
#: The folder of the target's own headers, in the temporary folder.
HEADERS = "devmod-headers"
_ERROR = re.compile(r": (?:fatal )?error: |^(?:clang|ld\.lld|error): ")
_WARNING = re.compile(r": warning: ")
_SUMMARY = re.compile(r"^\d+ (?:warning|error)s?(?: and \d+ errors?)? generated\.$")


class ClangBuild:
    """The compilation of one source.

    Parameters
    ----------
    request, toolchain
        The source, and the compiler.
    language
        clang's name of the language: "c", "c++", "hip" or "ir".
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

    def compile(self, flags: Sequence[str], defines: Mapping[str, str]) -> tuple[str, list[str]]:
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

        Raises
        ------
        CompileError
            The source has errors.
        """
        request = self._request
        name = self._write_source()
        arguments = ["-x", self._language, *flags]
        if self._language != "ir":
            arguments += self._preprocessor(defines)
        code, output = self._toolchain.clang([*arguments, "-S", name, "-o", "devmod.s"], self._folder, self._kind)
        lines = self._user_lines(output, name)
        if code:
            errors = [line for line in lines if _ERROR.search(line)]
            if errors and errors[0].startswith(f"{FILE}:"):
                reason = errors[0].partition(" error: ")[2]
                raise expression_error(self._kind, request.name_expressions, reason, "\n".join(lines))
            raise compile_error(self._kind, request.language, errors or lines or [f"clang ended with status {code}"], "\n".join(lines))
        text = Path(self._folder, "devmod.s").read_text(encoding="utf-8", errors="replace")
        warnings = [line for line in lines if _WARNING.search(line)]
        return text, ["\n".join(lines)] if warnings else []

    def link(self, flags: Sequence[str], link_flags: Sequence[str]) -> bytes:
        """Assemble and link the output of `compile`. Return the linked file.

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
        steps = (
            (self._toolchain.clang, ["-x", "assembler", *flags, "-c", "devmod.s", "-o", "devmod.o"]),
            (self._toolchain.link, [*link_flags, "devmod.o", "-o", "devmod.so"]),
        )
        for run, arguments in steps:
            code, output = run(arguments, self._folder, self._kind)
            if code:
                lines = output.splitlines()
                raise compile_error(self._kind, self._request.language, lines[:1] or [f"the program ended with status {code}"], output)
        return Path(self._folder, "devmod.so").read_bytes()

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
        name = os.path.basename(request.name) if re.fullmatch(r"[\w.+-]+", request.name) else "source" + _SUFFIXES[self._language]
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
        if name != self._request.name:
            output = re.sub(rf"(?m)^{re.escape(name)}(?=:)", lambda _: self._request.name, output)
        return [line for line in output.splitlines() if not _SUMMARY.match(line)]


def _dependencies(text: str) -> list[str]:
    """Return the files of a make rule, without its target."""
    rule = text.partition(":")[2].replace("\\\n", " ")
    return [each.replace("\\ ", " ") for each in re.findall(r"(?:\\ |\S)+", rule)]
