"""Error texts for the command line. Errors name the arguments of Python functions; this module replaces them with options."""

from __future__ import annotations

import re
from shlex import quote

#: The parameters of `devmod.compile` and the options of `devmod compile`; "" without an option.
OPTIONS = {
    "source": "SOURCE",
    "target": "-t",
    "name": "--name",
    "language": "--language",
    "fmap": "",
    "options": "--option",
    "defines": "-D",
    "include": "-I",
    "name_expressions": "",
    "block": "--block",
    "local": "--local",
}
_NAMES = "|".join(OPTIONS)
#: ``devmod.compile(…, language='GLSL')``
_CALL = re.compile(rf"devmod\.compile\((?:…|\.\.\.), ({_NAMES})=('[^']*'|\"[^\"]*\")\)")
#: ``devmod.compile(pathlib.Path('k.cl'), 'opencl')``
_COMPILE = re.compile(r"devmod\.compile\(pathlib\.Path\(('[^']*'|\"[^\"]*\")\), ('[^']*')\)")
#: ``devmod.load_from_file('k.ptx')``
_LOAD = re.compile(r"devmod\.(?:load|load_from_file)\(('[^']*'|\"[^\"]*\")\)")
#: ``local={'sum': {'scratch': Local(4)}}``
_LOCAL = re.compile(r"local=\{'([^']*)': \{'([^']*)': Local\((?:per_thread(=))?(\d+)\)\}\}")
#: ``language=`` as a word: an argument's name without a value.
_ARGUMENT = re.compile(rf"(?<![\w.=-])({_NAMES})=(?=[\s.,;:)]|$)")


def to_shell(text: str) -> str:
    """Replace Python's arguments in an error's text with the options of the command line."""

    def call(match: re.Match[str]) -> str:
        name, value = match[1], match[2][1:-1]
        return f"devmod compile … {OPTIONS[name]} {quote(value)}" if OPTIONS[name] else match[0]

    def compile_file(match: re.Match[str]) -> str:
        return f"devmod compile {quote(match[1][1:-1])} -t {match[2][1:-1]}"

    def load(match: re.Match[str]) -> str:
        return f"devmod inspect {quote(match[1][1:-1])}"

    def argument(match: re.Match[str]) -> str:
        return OPTIONS[match[1]] or f"the argument {match[1]} of devmod.compile (in Python)"

    def local(match: re.Match[str]) -> str:
        return f"--local {match[1]}.{match[2]}={match[4]}{'/thread' if match[3] else ''}"

    text = _LOCAL.sub(local, text)
    text = _LOAD.sub(load, _COMPILE.sub(compile_file, text))
    return _ARGUMENT.sub(argument, _CALL.sub(call, text))
