"""Texts as a command prints them: with its options and the names that it takes, in place of
Python's keywords and calls.

An error has the keywords that its text names (`DevmodError.keywords`); this module writes them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from importlib import import_module
from importlib.util import find_spec
from shlex import quote

from devmod.backend import LAUNCH_KEYWORDS

#: The value of a keyword of the launch: ``64``, ``(8, 8, 1)``, ``[64]``, ``…``.
_VALUE = r"(?:[(\[]([\d, ]*)[)\]]|(\d+|…))?"
#: The calls of Python for which there are commands: ``devmod.compile(pathlib.Path('k.cl'),
#: 'opencl')``, ``devmod.compile(source, 'rocm -arch=gfx942')``, ``devmod.load_from_file('k.ptx')``.
_COMPILE = re.compile(
    r"devmod\.compile\((?:pathlib\.Path\(('[^']*'|\"[^\"]*\")\)|source), '([^']*)'\)"
)
_DEFINES = re.compile(r"defines=\{'(\w+)': 1\}")
_LOAD = re.compile(r"devmod\.(?:load|load_from_file)\(('[^']*'|\"[^\"]*\")\)")
_DEFAULT = re.compile(r"devmod\.compile\(…, (\w+)=…\)")
_CALL = re.compile(r"Call it as f\((.*?)\)")
#: What a user of a command gives or types in place of an object of Python.
_ADVICE = (
    (r"\. Give '(\w+)' as \1=(?:, '(\w+)' as \2=)*", ""),
    (r"pass devmod\.Local\(nbytes\)", "give it as local:BYTES"),
    (r"pass np\.array\(values, [^)]*\)", "give a file .npy, or random[N]"),
    (r"; convert it before the call: array = .*", "; give an array of that type"),
    (r"(; )?pass (?:a copy, or )?device\.from_numpy\(array\)", ""),
    (r", such as device\.image_from_numpy\(array\), whose format you choose", ""),
    (r", such as device\.sampler\(\)", ""),
    (r"set them: f\.specialize", "set them in Python, with f.specialize"),
    (
        r"( is missing (?:an argument|arguments): [^\n]*; it takes [^\n]*)",
        r"\1. Give each as NAME=VALUE, such as x=random[1024] or n=1024",
    ),
    (
        # A call: the program of a device has the kind in its name.
        r"(the \w+ program '[^']*': it also needs '[^\n]*)",
        r"\1. Give each as NAME=VALUE, such as x=random or rows=64",
    ),
)


def typed(text: str, keywords: Collection[str] = ()) -> str:
    """Return a text of an error or a warning with what is typed for Python's keywords and calls.

    Parameters
    ----------
    text
        The text.
    keywords
        The keywords of the call that it names: those of the launch, and those with an underscore
        behind the name of an argument, such as "in_". Others are those of a step of a program, or
        of another call, and stay.
    """
    text = _DEFAULT.sub(lambda match: f"devmod compile … --{match[1].replace('_', '-')} …", text)
    for keyword in keywords:
        if keyword in LAUNCH_KEYWORDS:
            text = re.sub(rf"(?<![\w.(=-]){keyword}={_VALUE}", _option, text)
        else:
            text = re.sub(rf"(?<!\w){keyword}(?=['=])", keyword.removesuffix("_"), text)

    text = _COMPILE.sub(_compile_command, text)
    text = _DEFINES.sub(r"devmod compile -D \1=1", text)
    text = _LOAD.sub(lambda match: f"devmod inspect {quote(match[1][1:-1])}", text)
    text = _CALL.sub(lambda match: f"Give {match[1].replace(', ', ' ')}", text)
    for pattern, advice in _ADVICE:
        text = re.sub(pattern, advice, text)
    return text


def typed_error(error: BaseException) -> str:
    """Return the text of an error or a warning as a command prints it."""
    return typed(str(error), getattr(error, "keywords", ()))


def typed_compile(text: str) -> str:
    """Return a text with the options of `devmod compile` for the arguments of a call of
    `devmod.compile`, if it has one.
    """
    if "devmod.compile(" not in text or find_spec("devmod_targets") is None:
        return text
    spelling = import_module("devmod_targets.spelling")
    result: str = spelling.respell(text, spelling.SHELL_OF_OTHERS)
    return result


def _compile_command(match: re.Match[str]) -> str:
    """Return the command for a call of `devmod.compile`."""
    source = "SOURCE"
    if match[1]:
        source = quote(match[1][1:-1])
    target = match[2]
    if " " in target:
        target = f'"{target}"'
    return f"devmod compile {source} -t {target}"


def _option(match: re.Match[str]) -> str:
    """Return the option for a keyword of the launch, with its value."""
    keyword = match[0].partition("=")[0]
    option = f"--{keyword.replace('_', '-')}"
    value = match[2] or ",".join(re.findall(r"\d+", match[1] or ""))
    if value:
        return f"{option} {value}"
    return option
