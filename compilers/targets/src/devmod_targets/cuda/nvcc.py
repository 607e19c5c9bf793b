"""Compile CUDA C++ with nvcc, the compiler program of the wheels nvidia-cuda-nvcc and nvidia-nvvm.
It takes host code.

nvcc itself runs three programs: the preprocessor of the host's g++, cicc, and ptxas. It writes the
path of the source into symbols and into debug information. So devmod asks nvcc for its commands
(``--dryrun``) and runs them itself. Between the first two, the paths of headers become their names
in an include. The result is the same in every folder.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple, NoReturn

from devmod.backend import compile_error, find_program
from devmod.errors import CompileError, ToolchainNotFoundError, list_names, not_installed
from devmod_targets._executables import state_of
from devmod_targets._text import check_source_text
from devmod_targets.authoring import line_directive
from devmod_targets.authoring._process import (
    compiler_folder,
    dependencies,
    own_environment,
    run_program,
)
from devmod_targets.authoring.clang import VIRTUAL_FOLDER
from devmod_targets.authoring.instances import FILE, expression_error
from devmod_targets.cuda import _wheels
from devmod_targets.cuda._headers import hip_headers, missing_header
from devmod_targets.cuda.nvrtc import (
    MISSING_HEADER,
    Program,
    clock_error,
    diagnostics,
    names_of_archs,
)

__all__ = [
    "TITLE",
    "PreprocessedSource",
    "arch_names",
    "compile_program",
    "host_compiler",
    "include_folders",
    "toolchain",
    "version",
]

#: The compiler's name in messages.
TITLE = "nvcc"
#: What pip installs for the compiler where kernels are built.
DISTRIBUTION = "devmod-core[build-cuda-nvcc]"
_FAILURE = "CUDA C++ cannot be compiled here with -compiler=nvcc"
#: The host's compiler, as nvcc calls it on Linux.
_HOST = "g++"
#: The distributions of the compiler, and the part of their names in an origin.
_WHEELS = {"nvcc": "nvidia-cuda-nvcc", "nvvm": "nvidia-nvvm"}
#: The file of the program, whose name is a part of symbols with internal linkage.
_SOURCE = "program.cu"
#: The options of cicc whose values are paths that it writes into symbols and debug information.
_PLACES = {"--orig_src_file_name": _SOURCE, "--orig_src_path_name": f"{VIRTUAL_FOLDER}/{_SOURCE}"}
#: The preprocessor lists the files, by their names in the folders of the search. Without a caret,
#: no message has a line of another file.
_PREPROCESSED = (
    "-MD",
    "-MT",
    "devmod",
    "-fno-canonical-system-headers",
    "-fno-diagnostics-show-caret",
    "-Werror=date-time",
)
_VARIABLE = re.compile(r"(\w+)=(.*)")
#: ``# 12 "cuda_fp16.h" 1 3``, in the output of the preprocessor, which has megabytes: a pattern
#: that begins with a letter is fast.
_MARKER = re.compile(r'\n# (\d+) "((?:\\.|[^"\\\n])*)"(.*)')
#: The names of what precedes the program.
_PREDEFINED = ("<built-in>", "<command-line>")
#: A message of the preprocessor: ``k.cu:3:10: fatal error: a.h: No such file or directory``.
_MESSAGE = re.compile(
    r"^(?P<file>[^\n]+?):(?P<line>\d+):(?:\d+:)? (?:fatal )?(?P<level>error|warning): (?P<text>.*)$",
    re.MULTILINE,
)
#: A raw string. Other strings, characters and numbers (``1'000``) match too, because ``R"(`` inside
#: them begins no raw string.
_RAW = re.compile(
    r"""(?<![\w$])(?P<prefix>u8|[uUL]?)R"(?P<mark>[^()\\\s"]{0,16})\((?:(?P<text>.*?)\)(?P=mark)"|.*)|(?<![\w$])\d(?:'?[\w.])*"""
    r"""|"(?:\\[^\n]|[^"\\\n])*"?|'(?:\\[^\n]|[^'\\\n])*'?""",
    re.DOTALL,
)
#: What may begin a raw string of many lines.
_RAW_LINES = re.compile(r'R"(?P<mark>[^()\\\s"]{0,16})\((?![^\n]*\)(?P=mark)")')
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "?": r"\?", "\r": r"\r"})
#: What cicc takes for a directive, also after blanks, and a backslash that joins two lines.
_DIRECTIVES = (re.compile(r"\n[^\S\n]*(?:#|%:)"), re.compile(r"\\[^\S\n]*$", re.MULTILINE))
#: The directives that the preprocessor writes, besides the line markers; and a pragma that a macro
#: makes: CUTLASS relies on it.
_KEPT = re.compile(r"\n(?:[ \t]*#[ \t]*pragma\b|#ident\b)")
_DATE = re.compile(r'macro "(__\w+__)" might prevent reproducible builds')
_NO_FILE = re.compile(r"(.+): No such file or directory")


class HostCompiler(NamedTuple):
    """The host's C++ compiler, whose preprocessor and headers nvcc uses.

    Parameters
    ----------
    path
        The path of the program.
    version
        Its version, such as "12.2.0".
    folders
        The folders of its headers, in the order of the search.
    """

    path: str
    version: str
    folders: tuple[str, ...]


class PreprocessedSource(NamedTuple):
    """The output of the preprocessor for one program.

    Parameters
    ----------
    main
        The user's part. An include replaces each run of lines of other headers.
    headers
        The text of each of these includes.
    host_headers
        A digest of the host's headers that the program includes.
    """

    main: str
    headers: Mapping[str, str]
    host_headers: str


def host_compiler() -> HostCompiler:
    """Return the host's C++ compiler.

    Raises
    ------
    ToolchainNotFoundError
        PATH has no g++, or it does not report its version and its folders.
    """
    path = find_program(_HOST)
    if not path:
        raise ToolchainNotFoundError(
            f"{_FAILURE}: nvcc needs the host's C++ compiler, and PATH has no {_HOST}. Install it with the system's package manager, as in "
            "apt install g++",
            kind="cuda",
        )
    text = _ask(path, state_of(path), _search_path())
    number = re.search(r"^gcc version (\S+)", text, re.MULTILINE)
    listed = re.search(
        r"^#include <\.\.\.>[^\n]*\n(.*?)^End of search list", text, re.MULTILINE | re.DOTALL
    )
    if number is None or listed is None:
        raise ToolchainNotFoundError(
            f"{_FAILURE}: {path} does not report its version and its folders as g++ does. Install g++",
            kind="cuda",
        )
    folders = dict.fromkeys(os.path.normpath(line.strip()) for line in listed[1].splitlines())
    return HostCompiler(path, number[1], tuple(folders))


def _search_path() -> str:
    """Return the absolute folders of PATH: g++ may be a program that looks for the real one there,
    as ccache does.
    """
    return os.pathsep.join(filter(os.path.isabs, os.environ.get("PATH", "").split(os.pathsep)))


@cache
def _ask(path: str, state: tuple[int, ...], search_path: str) -> str:  # noqa: ARG001 - another state is another program
    """Return what g++ prints about its version and its folders."""
    with compiler_folder() as folder:
        command = [path, "-v", "-E", "-x", "c++", os.devnull, "-o", os.devnull]
        status, output = run_program(
            command,
            folder,
            name=_HOST,
            kind="cuda",
            environment=own_environment(folder, search_path),
        )
    if status:
        return ""
    return output


def _root() -> str:
    """Return the folder of the wheels with nvcc.

    Raises
    ------
    ToolchainNotFoundError
        A wheel is not installed.
    """
    if sys.platform != "linux":
        raise ToolchainNotFoundError(f"{_FAILURE}: devmod runs nvcc on Linux alone", kind="cuda")
    root = _wheels.folder_of(os.path.join("bin", "nvcc"))
    missing = ""
    if not root:
        missing = _WHEELS["nvcc"]
    for wheel in (*_WHEELS.values(), *_wheels.HEADERS.values()):
        if not _wheels.version(wheel):
            missing = wheel
            break
    if missing:
        raise ToolchainNotFoundError(
            f"{_FAILURE}: {not_installed(f'nvcc (the wheel {missing})', DISTRIBUTION)}", kind="cuda"
        )
    return root


def include_folders() -> tuple[str, ...]:
    """Return the folders of the headers in NVIDIA's wheels and of the host's compiler."""
    return (*_nvidia_folders(), *host_compiler().folders)


def _nvidia_folders() -> tuple[str, str]:
    include = os.path.join(_root(), "include")
    return include, os.path.join(include, "cccl")


def version() -> tuple[int, int]:
    """Return the version of nvcc, such as (13, 5)."""
    major, minor = _wheels.version(_WHEELS["nvcc"]).split(".")[:2]
    return int(major), int(minor)


def toolchain(programs: Iterable[PreprocessedSource]) -> str:
    """Return the versions of nvcc, of the wheels with headers, and of the host's compiler and its
    headers, for an origin.
    """
    wheels = [
        f"{name} {_wheels.version(wheel)}"
        for name, wheel in (*_WHEELS.items(), *_wheels.HEADERS.items())
    ]
    headers = dict.fromkeys(f"host headers {each.host_headers}" for each in programs)
    return ", ".join([*wheels, f"{_HOST} {host_compiler().version}", *headers])


@cache
def arch_names() -> tuple[str, ...]:
    """Return the architectures that nvcc compiles for, such as "sm_90", "sm_90a" and "compute_90",
    in ascending order.
    """
    with compiler_folder() as folder:
        command = [os.path.join(_root(), "bin", "nvcc"), "--list-gpu-arch"]
        _, output = run_program(
            command, folder, name="nvcc", kind="cuda", environment=own_environment(folder)
        )
    return names_of_archs(tuple(sorted(map(int, re.findall(r"compute_(\d+)", output)))))


def compile_program(
    text: str,
    name: str,
    arch: str,
    options: Sequence[str],
    name_expressions: Sequence[str],
    meanwhile: Callable[[PreprocessedSource], None] = lambda _: None,
) -> tuple[Program, PreprocessedSource]:
    """Compile a CUDA C++ program.

    Parameters
    ----------
    text
        The program, which contains its user includes, and the instances of its name expressions.
    name
        The program's file name, without folders, for diagnostics and ``__FILE__``.
    arch
        The architecture, such as "sm_90".
    options
        nvcc's options. They are not checked.
    name_expressions
        The expressions of the instances, for errors.
    meanwhile
        What to do with the preprocessed program while cicc compiles it.

    Returns
    -------
    Program
        The PTX, and for a real architecture the cubin. The symbols of the name expressions are "".
    PreprocessedSource
        The preprocessed program.

    Raises
    ------
    ToolchainNotFoundError
        nvcc or the host's compiler is not installed.
    CompileError
        The program has errors, or includes a file of this machine that is neither the user's nor a
        header of the compilers.
    """
    check_source_text(text, name, "cuda")
    with compiler_folder() as folder:
        run = _Run(folder, name, name_expressions)
        run.write(line_directive(1, name) + text)
        output = "-ptx"
        if arch.startswith("sm_"):
            output = "-cubin"
        first, second, *others = run.commands([output, f"-arch={arch}", *options])
        preprocessed, markers, host_headers = run.preprocess(first)
        sources = []

        def read() -> None:
            sources.append(PreprocessedSource(*_split(preprocessed, markers), host_headers))
            meanwhile(sources[0])

        ptx, cubin = [run.compile(second, read), *map(run.compile, others), b""][:2]
    return Program(ptx, cubin, run.log, dict.fromkeys(name_expressions, ""), version()), sources[0]


class _Run:
    """The commands of nvcc for one program, in a folder.

    Attributes
    ----------
    log
        The messages of the commands so far, in the form of NVRTC's log.
    """

    def __init__(self, folder: str, name: str, expressions: Sequence[str]) -> None:
        self._folder = folder
        self._name = name
        self._expressions = expressions
        self._root = _root()
        self._host = host_compiler()
        self._environment = own_environment(folder, _search_path())
        self._source = os.path.join(folder, _SOURCE)
        self._module_id = os.path.join(folder, "devmod.id")
        self._nvidia = tuple(os.path.join(each, "") for each in _nvidia_folders())
        self._hip = os.path.join(folder, "headers", "")
        self._system = tuple(os.path.join(each, "") for each in self._host.folders)
        self.log = ""

    def write(self, text: str) -> None:
        """Write the program, and its identifier, which is a part of symbols with internal linkage
        and the same for each architecture.
        """
        data = text.encode()
        Path(self._source).write_bytes(data)
        if "hip/" in text:
            for header, content in hip_headers().items():
                path = Path(self._hip, header)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
        Path(self._module_id).write_text(f"_{sha256(data).hexdigest()[:16]}", encoding="utf-8")

    def commands(self, options: Sequence[str]) -> list[list[str]]:
        """Return the commands that nvcc would run: of the preprocessor, of cicc, and of ptxas."""
        place = [
            "--keep",
            "--keep-dir",
            self._folder,
            "-ccbin",
            self._host.path,
            "-o",
            os.path.join(self._folder, "devmod.out"),
        ]
        output = self._run(
            [os.path.join(self._root, "bin", "nvcc"), "--dryrun", *options, *place, self._source]
        )
        variables: dict[str, str] = {}
        commands = []
        for line in output.splitlines():
            line = line.removeprefix("#$ ")
            variable = _VARIABLE.fullmatch(line)
            if variable:
                variables[variable[1]] = variable[2]
                continue
            program, *words = shlex.split(line)
            # A shell replaces variables. nvcc writes its own in the path of the program, and the
            # user's options as they are.
            program = re.sub(r"\$(\w+)", lambda match: variables.get(match[1], match[0]), program)
            above = os.path.join(self._root, "bin", "..")
            words = [word.replace(above, self._root) for word in (program, *words)]
            # An absolute path stays as it is.
            words[0] = os.path.join(self._root, "bin", words[0])
            commands.append(words)
        programs = [os.path.basename(command[0]) for command in commands]
        # PTX may be checked by ptxas.
        if programs not in ([_HOST, "cicc", "ptxas"], [_HOST, "cicc"]):
            raise CompileError(
                f"nvcc {_wheels.version(_WHEELS['nvcc'])} cannot compile the CUDA C++ source {self._name} here: it runs "
                f"{list_names(programs)}, and devmod knows the commands of {_HOST}, cicc and ptxas. Install nvidia-cuda-nvcc 13.5",
                kind="cuda",
                log=output,
            )
        return commands

    def preprocess(self, command: Sequence[str]) -> tuple[str, list[re.Match[str]], str]:
        """Run the preprocessor. Return its output, the line markers in it, and the digest of the
        host's headers that it has read.

        The headers of the compilers get their names in an include, in the text of ``__FILE__`` and
        in the file for the next command.
        """
        folders = sorted({*self._nvidia, *self._system, self._hip}, key=len)
        # The last that matches has effect.
        names = [f"-fmacro-prefix-map={folder}=" for folder in folders]
        names.append(f"-fmacro-prefix-map={self._source}={self._name}")  # __BASE_FILE__
        listed = Path(self._folder, "devmod.d")
        self._run(
            [*command, *names, "-isystem", self._hip, *_PREPROCESSED, "-MF", str(listed)],
            self._folder,
        )
        digest = self._check_files(
            dependencies(listed.read_text(encoding="utf-8", errors="surrogateescape"))
        )
        path = Path(_output(command))
        text = "\n" + _without_raw_strings(path.read_bytes().decode("utf-8", "surrogateescape"))
        markers = [*_MARKER.finditer(text)]
        self._check_directives(text, markers)
        own: dict[str, str] = {}
        parts = []
        position = 1
        for each in markers:
            if each[2] not in own:
                own[each[2]] = _include_name(each[2], folders)
            parts.append(text[position : each.start() + 1])
            parts.append(f'# {each[1]} "{own[each[2]]}"{each[3]}')
            position = each.end()
        path.write_bytes("".join([*parts, text[position:]]).encode("utf-8", "surrogateescape"))
        return text, markers, digest

    def _check_directives(self, text: str, markers: Sequence[re.Match[str]]) -> None:
        """Raise CompileError for a directive that a macro makes, but for a pragma. cicc
        preprocesses the text again, and reads includes.
        """
        starts = {each.start() for each in markers}
        begins = []
        for match in chain.from_iterable(pattern.finditer(text) for pattern in _DIRECTIVES):
            begin = match.start()
            if begin not in starts and not _KEPT.match(text, begin):
                begins.append(begin)
        if begins:
            start = text.rfind("\n", 0, min(begins) + 1) + 1
            marker = [each for each in markers if each.end() < start][-1]
            number = int(marker[1]) + text.count("\n", marker.end() + 1, start)
            place = f"{marker[2]}:{number}"
            line = text[start:].partition("\n")[0].strip()
            raise CompileError(
                f"the CUDA C++ source does not compile: {place}: error: a macro makes {line!r}, of which nvcc makes a directive of the "
                "preprocessor. Write the directive without a macro",
                kind="cuda",
            )

    def _check_files(self, paths: Sequence[str]) -> str:
        """Return the digest of the host's headers among the files that the preprocessor has read.

        Raises
        ------
        CompileError
            A file is not in the folders of the compilers. The user's files are in the program.
        """
        digest = sha256()
        for path in sorted(set(map(os.path.normpath, paths)) - {self._source}):
            if path.startswith((*self._nvidia, self._hip)):
                continue
            if not path.startswith(self._system):
                raise CompileError(
                    f"the CUDA C++ source {self._name} includes the file {path!r}, which is outside the folders of the compilers' headers. "
                    "Write a path relative to a folder of include=",
                    kind="cuda",
                )
            digest.update(Path(path).read_bytes())
        return digest.hexdigest()[:16]

    def compile(
        self, command: Sequence[str], meanwhile: Callable[[], None] = lambda: None
    ) -> bytes:
        """Run cicc or ptxas, and return the output; b"" of a ptxas that checks the PTX alone."""
        values = {**_PLACES, "--module_id_file_name": self._module_id}
        words = []
        for option, word in pairwise(["", *command]):
            if word != "--gen_module_id_file":
                words.append(values.get(option, word))
        self._run(words, meanwhile=meanwhile)
        output = _output(words)
        if not output:
            return b""
        return Path(output).read_bytes()

    def _run(
        self,
        command: Sequence[str],
        folder: str = os.sep,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> str:
        """Run a command and return its messages. Debug information contains the current folder, and
        so it is the root.
        """
        name = os.path.basename(command[0])
        status, output = run_program(
            command,
            folder,
            name=name,
            kind="cuda",
            environment=self._environment,
            meanwhile=meanwhile,
        )
        if name == "nvcc" and not status:
            return output
        # The assembler names the file. The other programs have the names of the line markers.
        output = output.replace(os.path.join(self._folder, ""), "")
        output = re.sub(
            r"^ptxas [^\n,]+, line", "ptxas application ptx input, line", output, flags=re.MULTILINE
        )
        output = _MESSAGE.sub(
            lambda match: (
                f"{match['file']}({match['line']}): {match['level']}: {_text(match['text'])}"
            ),
            output,
        )
        self.log += output
        if status:
            self._fail(name)
        return output

    def _fail(self, tool: str) -> NoReturn:
        """Raise the CompileError of a command that failed."""
        errors, _ = diagnostics(self.log, self._name)
        if not errors:
            raise CompileError(
                f"{tool} failed on the CUDA C++ source {self._name}", kind="cuda", log=self.log
            )
        if self._expressions and errors[0].startswith(f"{FILE}:"):
            raise expression_error(
                "cuda", self._expressions, errors[0].partition(": error: ")[2], self.log
            )
        date = _DATE.search(errors[0])
        if date:
            raise clock_error(errors[0].partition(": error: ")[0], date[1], self.log)
        header = MISSING_HEADER.search(errors[0])
        if header:
            errors[0] += f". {missing_header(header[1], (), DISTRIBUTION, '')}"
        raise compile_error("cuda", "CUDA C++", errors, self.log)


def _text(message: str) -> str:
    """Return a message of the preprocessor, that about a missing header as NVRTC writes it."""
    return _NO_FILE.sub(r'cannot open source file "\1"', message)


def _output(command: Sequence[str]) -> str:
    """Return the output file of a command; "" if it has none."""
    if "-o" not in command:
        return ""
    return command[command.index("-o") + 1]


def _include_name(path: str, folders: Sequence[str]) -> str:
    """Return the name of a header in the last folder that has it; the path of another file."""
    for folder in reversed(folders):
        if path.startswith(folder):
            return path[len(folder) :]
    return path


def _without_raw_strings(text: str) -> str:
    """Return a preprocessed program in which a string on each line replaces a raw string of many
    lines.

    Each line of the result that looks like a line marker or a directive is one.
    """
    parts = []
    position = 0
    while begin := _RAW_LINES.search(text, position):
        # No other string goes on from the line before.
        line = max(position, text.rfind("\n", 0, begin.start()) + 1)
        token = next(each for each in _RAW.finditer(text, line) if each.end() > begin.start())
        parts += [text[position : token.start()], _plain_strings(token)]
        position = token.end()
    return "".join([*parts, text[position:]])


def _plain_strings(match: re.Match[str]) -> str:
    text = match["text"] or ""
    if "\n" not in text:
        return match[0]
    begin = f'{match["prefix"]}"'
    return begin + f'\\n"\n{begin}'.join(text.translate(_ESCAPES).split("\n")) + '"'


def _split(text: str, markers: Sequence[re.Match[str]]) -> tuple[str, dict[str, str]]:
    """Return the user's part of a preprocessed program, with an include for each run of lines of
    other headers; and these headers.

    libclang then visits and checks the user's part alone.
    """
    parts = []
    headers: dict[str, list[str]] = {}
    is_open = False
    depth = 0
    ends = [marker.start() + 1 for marker in markers[1:]]
    for match, end in zip(markers, (*ends, len(text)), strict=False):
        lines = text[match.end() + 1 : end]
        flags = match[3].split()
        if "1" in flags:  # a file begins
            depth += 1
        if "2" in flags:  # a file ends
            depth -= 1
        if match[2] in _PREDEFINED or depth > 0:
            if not is_open:
                name = f"{len(headers)}.h"
                headers[name] = []
                parts.append(f'#include "{name}"\n')
            headers[name].append(lines)
        else:
            parts.append(f'#line {match[1]} "{match[2]}"\n{lines}')
        is_open = not parts[-1].startswith("#line")
    return "".join(parts), {name: "".join(lines) for name, lines in headers.items()}
