"""Error texts in other words than Python's. Errors name the arguments of `devmod.compile`; the
command line has options for them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from shlex import quote
from typing import Any, TypeVar

from devmod.errors import DevmodError
from devmod_targets.build import options as build_options

Result = TypeVar("Result")

#: The parameters of `devmod.compile` and the options of `devmod compile`.
OPTIONS = {
    "source": "SOURCE",
    "target": "-t",
    **{name: option.flags[0] for name, option in build_options.OPTIONS.items()},
}
_NAMES = "|".join(OPTIONS)
_STRING = r"'[^']*'|\"[^\"]*\""
#: ``devmod.compile(…, language='GLSL')``, where the argument alone is of interest.
_CALL = re.compile(r"devmod\.compile\((?:…|\.\.\.), (\w+=.*?[\w'\]}])\)(?=[\s.,;)]|$)")
#: ``language='GLSL'``, ``name_expressions=['scale<float>']``
_VALUE = re.compile(rf"(?<![\w.=-])({_NAMES})=({_STRING}|\[(?:'[^']*'(?:, )?)+\])")
#: ``block=(64, 1, 1)``, ``block=64``
_BLOCK = re.compile(r"(?<![\w.=-])block=(?:\(([\d, ]+)\)|(\d+))")
#: ``block={'f': 64, 'g': (16, 16)}``
_BLOCK_OF = r"'([^']*)': (?:\(([\d, ]+)\)|(\d+))"
_BLOCKS = re.compile(rf"(?<![\w.=-])block=\{{({_BLOCK_OF}(?:, {_BLOCK_OF})*)\}}")
#: ``subgroup=32``
_SUBGROUP = re.compile(r"(?<![\w.=-])subgroup=(\d+)")
#: ``defines={'cl_khr_fp16': 1}``
_DEFINES = re.compile(r"(?<![\w.=-])defines=\{'(\w+)': 1\}")
#: ``local={'sum': {'scratch': Local(per_thread=4)}}``
_LOCAL = re.compile(
    r"(?<![\w.=-])local=\{'([^']*)': \{'([^']*)': Local\((?:per_thread(=))?(\d+)\)\}\}"
)
#: ``shared_memory={'sum': Local(per_thread=4)}``
_SHARED_MEMORY = re.compile(
    r"(?<![\w.=-])shared_memory=\{'([^']*)': (?:Local\((?:per_thread(=))?)?(\d+)\)?\}"
)
#: ``fmap={'f': devmod.FunctionInfo('f', ('handle',)), …}``
_FUNCTION = r"'([^']*)': devmod\.FunctionInfo\('([^']*)', \(([^()]*)\)\)"
_FUNCTIONS = re.compile(rf"(?<![\w.=-])fmap=\{{({_FUNCTION}.*?)\}}")
#: The declaration of any function.
_DECLARATION = "fmap={name: devmod.FunctionInfo(name, arg_types)}"
#: ``language=`` as a word: an argument's name without a value.
_ARGUMENT = re.compile(rf"(?<![\w.=-])({_NAMES})=(?=[\s.,;:)]|$)")


@dataclass(frozen=True)
class Spelling:
    """How a text spells the arguments of `devmod.compile`.

    Parameters
    ----------
    argument
        Returns an argument by its name.
    value
        Returns an argument with its values, which are strings.
    blocks
        Returns the blocks of functions by their names.
    local
        Returns a default size of local memory: function, parameter, and the size as in
        ``4/thread``.
    shared_memory
        Returns a default size of dynamic shared memory: function, and the size as for `local`.
    function
        Returns the declaration of a function: its name, its symbol and its types.
    mixed
        The permission for different arguments in a bundle.
    call
        What precedes the arguments of a call of `devmod.compile`.
    """

    argument: Callable[[str], str]
    value: Callable[[str, list[str]], str]
    blocks: Callable[[dict[str, list[str]]], str]
    local: Callable[[str, str, str], str]
    shared_memory: Callable[[str, str], str]
    function: Callable[[str, str, list[str]], str]
    mixed: str
    call: str = ""


def respell(text: str, spelling: Spelling) -> str:
    """Replace Python's arguments in an error's text."""

    def value(match: re.Match[str]) -> str:
        return spelling.value(match[1], _strings(match[2]))

    def functions(match: re.Match[str]) -> str:
        words = []
        for each in re.finditer(_FUNCTION, match[1]):
            words.append(spelling.function(each[1], each[2], _strings(each[3])))
        if match[1].endswith("…"):
            words.append("…")
        return " ".join(words)

    def blocks(match: re.Match[str]) -> str:
        found = re.finditer(_BLOCK_OF, match[1])
        return spelling.blocks({each[1]: (each[2] or each[3]).split(", ") for each in found})

    def local(match: re.Match[str]) -> str:
        return spelling.local(match[1], match[2], _size(match[4], match[3]))

    def shared_memory(match: re.Match[str]) -> str:
        return spelling.shared_memory(match[1], _size(match[3], match[2]))

    text = _CALL.sub(lambda match: spelling.call + match[1], text)
    text = text.replace(_DECLARATION, spelling.function("NAME", "NAME", ["TYPE", "..."]))
    text = _LOCAL.sub(local, text)
    text = _SHARED_MEMORY.sub(shared_memory, text)
    text = _BLOCKS.sub(blocks, text)
    text = _DEFINES.sub(lambda match: spelling.value("defines", [f"{match[1]}=1"]), text)
    text = _SUBGROUP.sub(lambda match: spelling.value("subgroup", [match[1]]), text)
    text = _VALUE.sub(value, text)
    text = _FUNCTIONS.sub(functions, text)
    text = _BLOCK.sub(
        lambda match: spelling.value("block", (match[1] or match[2]).split(", ")), text
    )
    text = _ARGUMENT.sub(lambda match: spelling.argument(match[1]), text)
    return text.replace("mixed=True", spelling.mixed).replace(" more in .log)", " more)")


def _size(nbytes: str, per_thread: str | None) -> str:
    """Return a size as in ``4/thread``. The second text is empty for a size in all."""
    if per_thread:
        return f"{nbytes}/thread"
    return nbytes


def _strings(text: str) -> list[str]:
    """Return the strings in the text of a string, a list or a tuple."""
    return [one or other for one, other in re.findall(r"'([^']*)'|\"([^\"]*)\"", text)]


def _value(name: str, values: list[str]) -> str:
    if name == "block":
        values = [",".join(values)]
    return " ".join(f"{OPTIONS[name]} {quote(each)}" for each in values)


def _blocks(blocks: dict[str, list[str]]) -> str:
    options = [f"{name}={','.join(dims)}" for name, dims in blocks.items()]
    return " ".join(f"--block {quote(each)}" for each in options)


def _local(function: str, parameter: str, size: str) -> str:
    return f"--local {quote(f'{function}.{parameter}={size}')}"


def _shared_memory(function: str, size: str) -> str:
    return f"--shared-memory {quote(f'{function}={size}')}"


def _function(name: str, symbol: str, types: list[str]) -> str:
    if name != symbol:
        name = f"{name}={symbol}"
    return f"--function '{name}({', '.join(types)})'"


_SHELL = Spelling(
    argument=OPTIONS.__getitem__,
    value=_value,
    blocks=_blocks,
    local=_local,
    shared_memory=_shared_memory,
    function=_function,
    mixed="--mixed",
)


#: The words of a command that compiles nothing.
_SHELL_OF_OTHERS = replace(_SHELL, call="devmod compile … ")


def in_shell(command: Callable[..., Result]) -> Callable[..., Result]:
    """Decorate `devmod compile`: its errors and warnings name the options of the command line in
    place of Python's arguments.
    """
    return _in_words(command, _SHELL)


def in_shell_of_others(command: Callable[..., Result]) -> Callable[..., Result]:
    """Decorate another command: errors and warnings name the options of `devmod compile`."""
    return _in_words(command, _SHELL_OF_OTHERS)


def _in_words(command: Callable[..., Result], spelling: Spelling) -> Callable[..., Result]:
    @wraps(command)
    def run(*args: Any, **options: Any) -> Result:
        try:
            with warnings.catch_warnings():
                show: Callable[..., None] = warnings.showwarning
                warnings.showwarning = lambda each, *place, **more: show(
                    type(each)(respell(str(each), spelling)), *place, **more
                )
                return command(*args, **options)
        except DevmodError as error:
            error.args = (respell(str(error), spelling),)
            raise

    return run
