"""The language Triton of cuda and rocm: a Python file, and one of its JIT functions with the types
of its arguments.

The name expression is ``add(x: *fp32, n: i32)``, or ``wide = add(…)`` for another name of the
function. Defines are the values of the constant arguments, and options are Triton's:
``num_warps=8``. The file is executed, with its folder and those of ``include=`` in sys.path.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from types import ModuleType
from typing import Any

from devmod.errors import describe_error, list_names
from devmod_targets._paths import name_in
from devmod_targets._text import split_arguments
from devmod_targets.authoring import CompileRequest, Payload
from devmod_targets.authoring._source import define_options
from devmod_targets.interop.triton import payload_of
from devmod_targets.triton.kernels import (
    compile_kernel,
    configurations_of,
    import_triton,
    payload_format,
)

_EXPRESSION = re.compile(r"(?:([^\s=()]+)\s*=\s*)?([A-Za-z_]\w*)\s*\((.*\))", re.DOTALL)
_OPTION = re.compile(r"([a-z]\w*)=([\w.+-]+)")
_TYPE_NAME = re.compile(r"(?:tl|triton\.language)\.(\w+)")
_EXAMPLE = "name_expressions=['add(x: *fp32, out: *fp32, n: i32)']"
#: The folders of Python's own modules, and of installed packages: their versions stand for their
#: files.
_PYTHON = tuple(
    os.path.join(os.path.realpath(sysconfig.get_path(name)), "")
    for name in ("stdlib", "platstdlib")
)
_PACKAGES = re.compile(r"[/\\](?:site|dist)-packages[/\\]")


def compile(request: CompileRequest, _: Callable[[CompileRequest], Payload]) -> Payload:  # noqa: A001 - what it does
    """Compile a JIT function of a Python file to a cubin, PTX or a code object.

    Parameters
    ----------
    request
        The compile request.

    Raises
    ------
    ToolchainNotFoundError
        Triton is not installed.
    CompileError
        The request has no or several functions, the file raises an exception, or Triton refuses the
        function.
    """
    key, name, signature = _read_expression(request)
    options = dict(_read_option(request, option) for option in request.options)
    fmt = payload_format(request.target)
    with _executed(request) as (module, files):
        function = _function(request, module, name)
        names = getattr(function, "arg_names", signature)
        constants = {
            each: _constant(text, request.target.kind)
            for each, text in request.defines.items()
            if each in names
        }
        kernel = compile_kernel(function, signature, constants, options, request.target)
        payload = payload_of(kernel, fmt)
        read = files()

    folders = [request.folder, *request.include]
    sources = {request.name: request.digest}
    for path, digest in read.items():
        sources[name_in(path, folders)] = digest
    defines = define_options(request.defines)
    settings = [*request.options, *defines, *request.name_expressions]
    assert payload.origin is not None
    origin = payload.origin.replace(target=str(request.target), options=settings, sources=sources)
    fmap = {key or each: info for each, info in payload.fmap.items()}
    return payload.replace(fmap=fmap, origin=origin, files=read)


def configurations(request: CompileRequest) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return the `configurations_of` the function of a request; none if the request sets one of
    their constants.
    """
    name = _read_expression(request)[1]
    with _executed(request) as (module, _):
        function = _function(request, module, name)
        variants, sizes = configurations_of(function, request.target.kind)
    given = {*request.defines, *(each.partition("=")[0] for each in request.options)}
    if variants and given.intersection(variants[0]):
        return [], ()
    return variants, sizes


def _function(request: CompileRequest, module: ModuleType, name: str) -> Any:
    function = getattr(module, name, None)
    if function is None:
        found = [each for each, value in vars(module).items() if hasattr(value, "arg_names")]
        raise request.error(
            f"{request.name} has no function {name!r}; its Triton functions are {list_names(found) or 'none'}"
        )
    return function


def _read_expression(request: CompileRequest) -> tuple[str, str, dict[str, Any]]:
    """Return the key of the function ("" for its name), its name, and the types of its
    arguments.
    """
    if not request.folder:
        raise request.error(
            "a Triton source is a file, which Triton reads: pass its pathlib.Path. For a function: "
            "devmod.interop.triton.compile(function, …)"
        )
    if len(request.name_expressions) != 1:
        raise request.error(
            f"a Triton source is compiled for one function, with the types of its arguments: {_EXAMPLE}; got "
            f"{list_names(request.name_expressions) or 'none'}"
        )
    text = request.name_expressions[0]
    match = _EXPRESSION.fullmatch(text.strip())
    if match:
        signature = _read_signature(match[3])
        if signature is not None:
            return match[1] or "", match[2], signature
    raise request.error(
        f"name_expressions= has {text!r}; expected a function with the types of its arguments, as in {_EXAMPLE}"
    )


def _read_signature(text: str) -> dict[str, Any] | None:
    """Return the types of arguments by name; None if the text is not a list of them."""
    parts = split_arguments(text)
    if parts is None:
        return None
    signature = {}
    for part in parts:
        name, _, type_ = (each.strip() for each in part.partition(":"))
        if not name.isidentifier() or not type_ or name in signature:
            return None
        signature[name] = _read_type(type_)
    return signature


def _read_type(text: str) -> Any:
    """Return a type; a tuple of types for one in parentheses."""
    if not text.startswith("(") or not text.endswith(")"):
        return text
    parts = split_arguments(text, 1)
    if not parts:
        return text
    return tuple(map(_read_type, parts))


def _read_option(request: CompileRequest, option: str) -> tuple[str, Any]:
    match = _OPTION.fullmatch(option)
    if match is None:
        raise request.error(
            f"the option {option!r} is none of Triton's; expected options such as num_warps=8 or num_stages=3"
        )
    return match[1], _constant(match[2], request.target.kind)


def _constant(text: str | None, kind: str) -> Any:
    """Return the value of a constant: a number, a word of Python's, a type of triton.language, or a
    text.
    """
    if text is None:
        return 1
    type_ = _TYPE_NAME.fullmatch(text)
    if type_:
        return getattr(import_triton(kind, "triton.language"), type_[1], text)
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


@contextmanager
def _executed(request: CompileRequest) -> Iterator[tuple[ModuleType, Callable[[], dict[str, str]]]]:
    """Execute a file. Yield its module, and a function that returns the files of the modules that
    it has imported, path to SHA-256.

    At the end these modules are forgotten: the next file may have others of the same names.
    """
    # Before the file does, whose error names no package to install.
    import_triton(request.target.kind)
    path = os.path.join(request.folder, request.name)
    module = ModuleType(request.name.partition(".")[0])
    module.__file__ = path
    before = set(sys.modules)
    folders = [request.folder, *request.include]
    # Triton reads the source of a function from its file, which may have changed.
    linecache.cache[path] = (len(request.text), None, request.text.splitlines(keepends=True), path)
    sys.path[:0] = folders
    writes = sys.dont_write_bytecode
    sys.dont_write_bytecode = True

    def imported() -> dict[str, str]:
        found = {}
        for name in set(sys.modules) - before:
            file = _own_file(sys.modules[name])
            if file:
                found[name] = file
        return found

    def files() -> dict[str, str]:
        result = {}
        for each in sorted(set(imported().values())):
            with open(each, "rb") as file:
                result[each] = sha256(file.read()).hexdigest()
        return result

    try:
        try:
            exec(builtins.compile(request.text, path, "exec", dont_inherit=True), vars(module))  # noqa: S102 - the source is a program
        except (Exception, SystemExit) as error:
            raise request.error(
                f"{_place(error, folders, request.name)}: {describe_error(error)}",
                log="".join(traceback.format_exception(error)),
            ) from error
        yield module, files
    finally:
        sys.dont_write_bytecode = writes
        for folder in folders:
            if folder in sys.path:
                sys.path.remove(folder)
        for name in imported():
            del sys.modules[name]
        linecache.cache.pop(path, None)


def _own_file(module: ModuleType) -> str:
    """Return the file of a module of the user; "" for one of an installed package or of Python."""
    path = os.path.abspath(getattr(module, "__file__", None) or "")
    if not path.endswith(".py") or not os.path.isfile(path):
        return ""
    real = os.path.realpath(path)
    if real.startswith(_PYTHON) or _PACKAGES.search(real):
        return ""
    return path


def _place(error: BaseException, folders: list[str], name: str) -> str:
    """Return the place of an exception in the user's files: that of a syntax error, or of the last
    frame there.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{os.path.basename(error.filename)}:{error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if os.path.dirname(frame.filename) in folders:
            return f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return name
