"""Instances of function templates, which the caller requests with ``name_expressions=``, or the
source by an explicit instantiation.

A variable for each expression follows the program. It makes the compiler instantiate the template,
and libclang resolve the expression.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from devmod.errors import CompileError, list_names
from devmod_targets.authoring._mangled import parse_function
from devmod_targets.authoring.clang import Libclang

#: The file of the variables, in the compiler's messages.
FILE = "name_expressions="
_VARIABLE = "devmod_expression_"
_NAME = re.compile(r"[A-Za-z_:][\w:]*")
_INSTANCE = re.compile(r"[A-Za-z_:][\w:]*\s*<[^\"\\;{}]*>")


def instance_variables(expressions: Iterable[str]) -> str:
    """Return the text that follows a program: one variable for each expression. It is "" for no
    expression.
    """
    lines = ""
    for number, each in enumerate(expressions):
        variable = f"{_VARIABLE}{number}"
        lines += f"[[maybe_unused]] static auto *const {variable} = {_address(each)};\n"
    return ending_of(lines)


def check_explicit(kind: str, expressions: Iterable[str]) -> None:
    """Raise CompileError for an expression that is neither a template instance nor a name: a
    receiver compiles without expressions.
    """
    for expression in expressions:
        text = function_name(expression)
        if not (_INSTANCE.fullmatch(text) or _NAME.fullmatch(text)):
            raise CompileError(
                f"name_expressions= contains {expression!r}, which a source for the receiver cannot request; expected an instance such as "
                "'scale<float>', or a name",
                kind=kind,
                function=text,
            )


def explicit_instances(expressions: Iterable[str], qualifier: str = "") -> str:
    """Return an explicit instantiation for each expression that names a template instance.
    `qualifier` is such as "__global__ ".
    """
    instances = [text for text in map(function_name, expressions) if _INSTANCE.fullmatch(text)]
    return "".join(f"template {qualifier}decltype({text}) {text};\n" for text in instances)


def ending_of(lines: str) -> str:
    """Return lines as the end of a source. The compiler's messages about them name `FILE`. It is ""
    for no lines.
    """
    if not lines:
        return ""
    return f'\n#line 1 "{FILE}"\n{lines}'


def _address(expression: str) -> str:
    if expression.lstrip().startswith(("&", "(")):
        return expression
    return f"&{expression}"


def function_name(expression: str) -> str:
    """Return the name for callers of the function that an expression names, such as
    "scale<float>".
    """
    return expression.strip().removeprefix("&").strip()


def expression_error(kind: str, expressions: Iterable[str], reason: str, log: str) -> CompileError:
    """Return the error for expressions that the compiler rejects."""
    return CompileError(
        f"{FILE} ({list_names(expressions)}) does not compile: {reason}", kind=kind, log=log
    )


def source_instances(symbols: Iterable[str]) -> list[str]:
    """Return the expressions of the instances that a program itself requests. libclang does not
    list them.
    """
    result = []
    for symbol in symbols:
        parts = parse_function(symbol)
        if parts is not None and parts.name.endswith(">"):
            result.append(parts.name)
    return result


def expression_number(cursor: Any) -> int | None:
    """Return the number of the expression of a variable of `instance_variables`; None for another
    cursor.
    """
    number = cursor.spelling.removeprefix(_VARIABLE)
    if number == cursor.spelling or not number.isdecimal():
        return None
    return int(number)


def referenced_function(variable: Any, library: Libclang) -> Any:
    """Return the cursor of the function that a variable of `instance_variables` names, or None."""
    kinds = library.cindex.CursorKind
    for each in variable.walk_preorder():
        if each.kind != kinds.DECL_REF_EXPR:
            continue
        function = each.referenced
        if function is not None and function.kind == kinds.FUNCTION_DECL:
            return function
    return None


def template_of(cursor: Any, library: Libclang) -> Any:
    """Return the cursor of the template of an instance, or None."""
    template = library.cindex.conf.lib.clang_getSpecializedCursorTemplate(cursor)
    if template is None or template.kind != library.cindex.CursorKind.FUNCTION_TEMPLATE:
        return None
    return template


def parameter_names(cursor: Any, library: Libclang) -> list[str]:
    """Return the name of each parameter. Those of an explicit instance are in its template, and
    those of a pack get numbers.
    """
    names = [argument.spelling for argument in cursor.get_arguments()]
    template = template_of(cursor, library)
    if template is not None and not any(names):
        parameter = library.cindex.CursorKind.PARM_DECL
        children = template.get_children()
        parameters = [each.spelling for each in children if each.kind == parameter]
        if len(parameters) == len(names):
            names = parameters
    return _number_repeated(names)


def _number_repeated(names: Sequence[str]) -> list[str]:
    repeated = {name for name, count in Counter(names).items() if name and count > 1}
    numbers = dict.fromkeys(repeated, 0)
    results = []
    for name in names:
        if name in repeated:
            results.append(f"{name}_{numbers[name]}")
            numbers[name] += 1
        else:
            results.append(name)
    return results


def keys_of(functions: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the key of each function for callers by its symbol. Overloads of one name get the
    types of their parameters. An overload whose symbol cannot be parsed has the symbol.

    Parameters
    ----------
    functions
        The symbol and the qualified name of each function.
    """
    functions = list(functions)
    counts = Counter(name for _, name in functions)
    keys = {}
    for symbol, name in functions:
        if counts[name] == 1:
            keys[symbol] = name
            continue
        parts = parse_function(symbol)
        keys[symbol] = symbol if parts is None else parts.signature()
    return keys
