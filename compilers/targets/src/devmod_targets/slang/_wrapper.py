"""The functions that callers call, around the kernels in Slang's CUDA and C++ text.

Slang's CUDA kernels take a buffer as a struct of address and count, and the parameters of a file
from a global variable. Its C++ kernels take pointers to structs. The functions here take the
arguments of `read_arguments`: an address a buffer, and a value a number or a struct.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from devmod import FunctionInfo, Member, Param
from devmod.backend import GRID_TAGS, array_bytes, dtype_name, parse_dtype
from devmod.errors import CompileError, ToolchainNotFoundError
from devmod_readers.reflection import ReflectedFunction, with_members
from devmod_targets._compilers import function_name
from devmod_targets._text import header_text, split_arguments
from devmod_targets.authoring import CompileRequest, Payload, merge_declared
from devmod_targets.authoring._source import line_directive
from devmod_targets.slang._driver import Entry, Translation
from devmod_targets.slang._interface import ReflectedArgument, numbers_of, read_arguments

#: The type and the name of a declaration, or the declaration and its statement.
_Texts = tuple[str, str]
#: What compiles the text for a kind.
Compiler = Callable[[CompileRequest], Payload]

_BUFFER = re.compile(r"(?:RW)?StructuredBuffer<(.*)>")
#: A ByteAddressBuffer with atomics has the type of one of them.
_BYTES = re.compile(
    r"(?:RW)?ByteAddressBuffer|RWStructuredBuffer<(uint(?:32_t)?|int|float|u?longlong)\s*>"
)
#: A line that Slang adds for the place in the source, and that may be between two fields.
_LINE = re.compile(r"^#line [^\n]*\n?", re.MULTILINE)
_STRUCT = re.compile(r"^struct (\w+)\n\{\n(.*?)^\};", re.MULTILINE | re.DOTALL)
_DECLARED = re.compile(r"(.*?)\s*\b(\w+)")
#: The words that no function in C++ can have as its name, and the macros of the prelude.
_WORDS_TEXT = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl concept const consteval
constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double dynamic_cast else enum explicit export
extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
public register reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template this
thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
main slang threadIdx blockIdx blockDim gridDim warpSize abs min max printf vprintf malloc free
"""
_WORDS = frozenset(_WORDS_TEXT.split())
#: The end of the names of parameters. Slang's names end with a number, and those of C++ and of the
#: prelude have other ends.
_ARGUMENT = "_argument"
#: The start of the names of the parameters with the numbers of a buffer's elements.
_COUNT = "slang_count_of_"
#: The types of Slang's CUDA text for images and samplers.
_OBJECT = re.compile(r"\b(?:CUtexObject|CUsurfObject|SamplerState)\b")

#: The name of the prelude in lines of a source.
_HEADER = "slang/include/prelude.h"
#: What the kinds lack that a parameter may be.
_LACKING = {"image": "a texture", "combined": "a texture with its sampler", "sampler": "a sampler"}

#: A function in an error of a compiler that the prelude does not have, or that it does not find
#: among those of C.
_MISSING = re.compile(
    r"(?:undeclared identifier|no member named|identifier|has no member) ['\"](\w+)['\"]"
)
#: A message of headers/images.h. Other errors of the compiler may precede it.
_ASSERTED = re.compile(r"static assertion failed with \"([^\"\n]+)\"")
#: The limit on the numbers of a struct that are compared.
_MAX_NUMBERS = 1 << 16


class Wrapped(NamedTuple):
    """A function that callers call.

    Attributes
    ----------
    name, symbol
        The name for callers, and that in the program.
    arguments, block
        Its arguments, and its block of threads.
    text
        Its text.
    """

    name: str
    symbol: str
    arguments: Sequence[ReflectedArgument]
    block: tuple[int, int, int]
    text: str


class Variable(NamedTuple):
    """A variable in the text, its type there, and its type in Slang's reflection."""

    expression: str
    type: str
    reflected: Mapping[str, Any]

    @property
    def is_constant_buffer(self) -> bool:
        """Whether Slang takes the address of a value."""
        return self.reflected["kind"] in ("constantBuffer", "parameterBlock")

    @property
    def value(self) -> Variable:
        """The variable with the value of a constant buffer; for another variable, that itself."""
        if not self.is_constant_buffer:
            return self
        name = self.expression.rpartition(".")[2]
        return Variable(
            f"memory_of_{name}", self.type.removesuffix("*").rstrip(), self.reflected["elementType"]
        )


# -- The text.


#: The formats of images that are written, and what is read from others, by the type of their
#: texels.
_FORMATS = {}
for _type, _suffix in (("float", "float"), ("int", "sint"), ("uint", "uint")):
    for _lanes, _channels in (("", "r"), ("x2", "rg"), ("x4", "rgba")):
        _FORMATS[f"{_type}32{_lanes}"] = (f"{_channels}32{_suffix}", _type)


def prelude(text: str) -> str:
    """Return the prelude for a text of Slang. A text with lines of the source gets it as a header:
    what is inlined from there belongs to the line that calls it.
    """
    has_half = re.search("half|f16", text) is not None
    headers = header_text(__package__, "headers/prelude.h")
    if _OBJECT.search(text):
        headers += header_text(__package__, "headers/images.h")
    result = f"#define SLANG_HALF {int(has_half)}\n{headers}"
    if _LINE.search(text):
        return line_directive(1, _HEADER) + result
    return result


def symbol_for(name: str) -> str:
    """Return the symbol of a function: its name, or another one if C, CUDA or the prelude may have
    that one.
    """
    headers = "".join(
        header_text(__package__, f"headers/{each}.h") for each in ("prelude", "images")
    )
    of_library = (
        name in _WORDS
        or name.startswith("__")
        or re.search(rf"::{name}f?\(|\b(?:struct|using) {name}\b", headers)
    )
    if of_library:
        return f"slang_{name}"
    return name


def check_arguments(request: CompileRequest, entry: Entry) -> None:
    """Raise CompileError for an argument that the kind lacks."""
    arguments = read_arguments(request, entry).arguments
    for argument in arguments:
        if argument.kind in _LACKING and not _is_object(request, argument):
            name = ".".join(argument.path)
            what, advice = _lacking(request, argument)
            raise request.error(
                f"the Slang function {entry.name!r} takes {name!r}, {what}, which Slang's code for {request.target.kind} cannot take here: "
                f"{advice}",
                function=entry.name,
                argument=name,
            )
    samplers = [argument.name for argument in arguments if argument.kind == "sampler"]
    if len(samplers) > 1:
        raise request.error(
            f"the Slang function {entry.name!r} takes the samplers {' and '.join(map(repr, samplers[:2]))}, and Slang's code for cuda does "
            "not have the sampler of a read: use one sampler in the file, or write the kernel in OpenCL C or CUDA C++",
            function=entry.name,
            argument=samplers[1],
        )


def _lacking(request: CompileRequest, argument: ReflectedArgument) -> _Texts:
    """Return what a kind lacks, for an error, and what to use."""
    what = _LACKING[argument.kind]
    advice = "use a StructuredBuffer or a RWStructuredBuffer"
    if request.target.kind != "cuda":
        return what, advice
    if len(argument.path) > 1:
        return f"{what} in a struct", "declare it as a parameter"
    if argument.kind == "combined":
        return what, "use a Texture2D and a SamplerState"
    if argument.type == "2d":
        return (
            f"{what} of {argument.members[0].type}",
            "use float, int or uint with 1, 2 or 4 lanes",
        )
    return (
        f"{what} of type {argument.type}",
        f"{advice}, or write the kernel in OpenCL C or CUDA C++",
    )


def _is_object(request: CompileRequest, argument: ReflectedArgument) -> bool:
    """Return whether an image or a sampler can be an argument: Slang's CUDA text has the objects of
    CUDA for them.
    """
    if request.target.kind != "cuda" or len(argument.path) > 1:
        return False
    if argument.kind == "image" and argument.type == "2d":
        return argument.members[0].type in _FORMATS
    return argument.kind == "sampler"


def strange_text(request: CompileRequest, what: str) -> CompileError:
    """Return the error for a text that Slang does not write."""
    return request.error(f"Slang's translation of {request.name} cannot be read: it has {what}")


def missing_function(
    request: CompileRequest, language: str, name: str, log: str = ""
) -> CompileError:
    """Return the error for a function in Slang's text that devmod does not define."""
    return request.error(
        f"the Slang source {request.name} uses {name} of Slang's {language}, which devmod does not have for {request.target.kind}: compute "
        "it otherwise there",
        log=log,
    )


def parameter_name(argument: ReflectedArgument) -> str:
    """Return the name in C++ of the parameter for an argument."""
    return f"{argument.name}{_ARGUMENT}"


class Text:
    """A text of Slang.

    Attributes
    ----------
    text
        The text.
    has_counts
        Whether it reads the number of a buffer's elements.
    elements
        The types of the elements of buffers.
    """

    def __init__(self, request: CompileRequest, text: str) -> None:
        self._request = request
        self.text = text
        self.has_counts = ".GetDimensions(" in text
        self.elements: dict[str, None] = {}
        self._structs = {match[1]: match[2] for match in _STRUCT.finditer(text)}

    def fields(self, name: str) -> list[_Texts]:
        """Return the type and the name of each field of a struct; [] without the struct."""
        body = _LINE.sub("", self._structs.get(name, "")).strip()
        if not body:
            return []
        return self._declared(body.removesuffix(";").split(";\n"))

    def parameters(self, start: int) -> list[_Texts]:
        """Return the type and the name of each parameter of a function. `start` is the place behind
        its opening parenthesis.
        """
        declarations = split_arguments(self.text[start : self.text.find("\n", start)])
        if declarations is None:
            raise strange_text(self._request, "a kernel without a list of parameters")
        return self._declared(declarations)

    def instances(self) -> str:
        """Return a text that makes the types of elements complete. libclang does not know the size
        of a template's instance otherwise.
        """
        return "".join(f"static_assert(sizeof({each}) > 0);\n" for each in self.elements)

    def _declared(self, declarations: Iterable[str]) -> list[_Texts]:
        result = []
        for declaration in declarations:
            match = _DECLARED.fullmatch(declaration.strip())
            if match is None:
                raise strange_text(self._request, "a declaration without a name")
            result.append((match[1], match[2]))
        return result

    def variables(self, parameters: Sequence[Any], declared: Sequence[_Texts]) -> list[Variable]:
        """Return a variable for each parameter of the reflection that has a place, with its name
        and its type in the text.
        """
        placed = []
        for parameter in parameters:
            if "binding" in parameter or "bindings" in parameter:
                placed.append(parameter)
        if len(placed) != len(declared):
            raise strange_text(
                self._request, f"{len(declared)} parameters, and the source {len(placed)}"
            )
        return [
            Variable(name, type_, {**each["type"], "name": each["name"]})
            for each, (type_, name) in zip(placed, declared, strict=True)
        ]

    def declaration(
        self, argument: ReflectedArgument, variables: Iterable[Variable], sampler: str = ""
    ) -> _Texts:
        """Return the declaration of an argument as a parameter, and the statement that assigns it
        to Slang's variables.

        A buffer's type of elements is added to `elements`. `sampler` is the name of the parameter
        with the sampler of all images.
        """
        name = parameter_name(argument)
        variables = list(variables)
        is_object = argument.kind in ("image", "sampler")
        if not variables:  # nothing uses the parameters of the file
            if is_object:
                return f"uint64_t {name}", ""
            return f"{_unused_type(argument)}{name}", ""
        place = self._find(argument, variables)
        if is_object:
            value = name
            if argument.kind == "image":
                value = f"{{(const slang::Description *){name}, (uint){sampler or 0}}}"
            return f"uint64_t {name}", f"{place.expression} = {value};"
        if argument.kind != "buffer":
            return f"{place.type} {name}", f"{place.expression} = {name};"
        return self._buffer(argument, place)

    def _buffer(self, argument: ReflectedArgument, place: Variable) -> _Texts:
        """Return the same as `declaration`, for a buffer."""
        is_bytes = place.reflected.get("baseShape") == "byteAddressBuffer"
        pattern = _BUFFER
        if is_bytes:
            pattern = _BYTES
        match = pattern.fullmatch(place.type)
        if match is None:
            raise strange_text(self._request, f"the type {place.type[:80]!r} of {argument.name!r}")
        element = (match[1] or "uint").strip()
        pointee = element
        if is_bytes:
            pointee = "uint"
        self.elements[pointee] = None
        name = parameter_name(argument)
        declaration = f"{_const(argument)}{pointee} *{name}"
        if not self.has_counts:
            return declaration, f"{place.expression} = {{({element} *){name}, 0}};"

        step = ""
        # The caller's count is that of the numbers where the elements of the parameter are numbers.
        number = _number_type(self._request, argument)
        if number:
            step = f" / (sizeof({element}) / {array_bytes(parse_dtype(number))})"
        return (
            f"{declaration}, ulonglong {_COUNT}{name}",
            f"{place.expression} = {{({element} *){name}, (size_t){_COUNT}{name}{step}}};",
        )

    def root_of(
        self, argument: ReflectedArgument, variables: Iterable[Variable]
    ) -> Variable | None:
        """Return the variable with an argument; None without one."""
        for variable in variables:
            value = variable.value.reflected
            if (
                variable.is_constant_buffer
                and value.get("kind") == "struct"
                and "name" not in value
            ):
                if argument.path[0] in self._members(variable):
                    return variable
            elif variable.reflected["name"] == argument.path[0]:
                return variable
        return None

    def _find(self, argument: ReflectedArgument, variables: Iterable[Variable]) -> Variable:
        """Return the variable or the field that is an argument. The fields of a constant buffer
        without a type have no parent in a path.
        """
        roots: dict[str, Variable] = {}
        for variable in variables:
            value = variable.value.reflected
            is_struct = variable.is_constant_buffer and value.get("kind") == "struct"
            if is_struct and "name" not in value:  # the members of a cbuffer
                roots |= self._members(variable)
            else:
                roots[variable.reflected["name"]] = variable
        found = roots.get(argument.path[0])
        for name in argument.path[1:]:
            if found is not None:
                found = self._members(found).get(name)
        if found is None:
            raise strange_text(self._request, f"no {'.'.join(argument.path)!r}")
        return found.value

    def _members(self, variable: Variable) -> dict[str, Variable]:
        """Return the fields of a struct by their names in the source."""
        parent, type_, reflected = variable.value
        fields = self.fields(type_)
        own = reflected.get("fields", [])
        if len(own) != len(fields):
            raise strange_text(
                self._request,
                f"a struct {type_[:80]!r} of {len(fields)} fields, and the source {len(own)}",
            )
        return {
            each["name"]: Variable(f"{parent}.{name}", text, {**each["type"], "name": each["name"]})
            for each, (text, name) in zip(own, fields, strict=True)
        }


def _number_type(request: CompileRequest, argument: ReflectedArgument) -> str:
    """Return the type of a number in a buffer of arrays, of matrices, or of vectors of three
    without padding; "" for others.
    """
    type_ = argument.type
    if type_:
        # CUDA's and HIP's vectors of three halves have the memory of four.
        is_padded = type_ == "float16x3" and request.target.kind != "hexagon"
        if not type_.endswith("x3") or is_padded:
            return ""
    elif not argument.members[0].name:
        type_ = argument.members[0].type
    if not type_:
        return ""
    code, bits, _ = parse_dtype(type_)
    return dtype_name((code, bits, 1))


def _const(argument: ReflectedArgument) -> str:
    return "const " if argument.access == "r" else ""


def _unused_type(argument: ReflectedArgument) -> str:
    """Return the type in C++ of an argument that the text does not have. Its size and its alignment
    are those of the argument.
    """
    if argument.kind == "buffer":
        return f"{_const(argument)}void *"
    if not argument.type:
        return f"FixedArray<uint, {-(-argument.size // 4)}> "
    scalar, _, lanes = argument.type.partition("x")
    name = {
        "float16": "half",
        "float32": "float",
        "float64": "double",
        "bool": "bool",
        "handle": "void *",
    }.get(scalar, f"{scalar}_t")
    if lanes:
        return f"Vector<{name}, {lanes}> "
    return f"{name} "


# -- The payload, with the functions of the source.


def finish(
    request: CompileRequest,
    translation: Translation,
    compiler: Compiler,
    program: str,
    language: str,
    functions: Sequence[Wrapped],
    *,
    blocks: Sequence[str] = (),
) -> Payload:
    """Compile a program with the kind's compiler.

    Parameters
    ----------
    request, translation
        The request for the source in Slang, and its translation.
    compiler, program, language
        The kind's compiler, and the program and its language.
    functions
        The functions of the program.
    blocks
        The parameters at the end of each function that have the numbers of blocks.

    Returns
    -------
    Payload
        The payload. Its functions have the arguments of the source.

    Raises
    ------
    CompileError
        The program does not compile, or its functions contradict Slang's reflection.
    """
    try:
        payload = compiler(
            request.replace(
                text=program,
                folder="",
                language=language,
                fmap=None,
                options=translation.rest,
                defines={},
                include=(),
                name_expressions=(),
            )
        )
    except ToolchainNotFoundError:
        raise
    except CompileError as error:
        reason = str(error)
        missing = _MISSING.search(error.log)
        asserted = _ASSERTED.search(error.log)
        if asserted:
            reason = asserted[1]
        elif missing:
            raise missing_function(request, language, missing[1], log=error.log) from None
        raise request.error(
            f"the Slang source {request.name} has no valid {language}: {reason}", log=error.log
        ) from None
    found = {info.name: info for info in payload.fmap.values()}
    reflected: dict[str, ReflectedFunction] = {}
    for each in functions:
        name = function_name(request, each.name, reflected)
        reflected[name] = _function(request, each, found, blocks)
    fmap = merge_declared(request.spec, reflected, request.fmap)
    return payload.replace(
        fmap={name: _packed(info) for name, info in fmap.items()},
        origin=translation.origin_of(payload),
        files={**(payload.files or {}), **translation.files},
    )


def _function(
    request: CompileRequest,
    wrapped: Wrapped,
    found: Mapping[str, FunctionInfo],
    blocks: Sequence[str],
) -> ReflectedFunction:
    """Return a function with the arguments of the source, from what the kind's compiler has found
    in the program.
    """
    info = found.get(wrapped.symbol)
    if info is None or info.interface is None:
        raise strange_text(request, f"no function {wrapped.symbol!r}")
    interface = info.interface
    types = list(info.arg_types)
    own = list(interface.params)
    params: list[Param] = []
    for argument in wrapped.arguments:
        number = len(params)
        if number >= len(own):
            raise strange_text(request, f"a function {wrapped.symbol!r} with other parameters")
        param = _param(request, argument, own[number])
        if argument.kind in ("image", "sampler"):
            types[number] = "handle"
        if argument.kind == "scalar" and not param.align and param.type:
            types[number] = param.type
        params.append(param)
        number += 1
        if number < len(own) and own[number].name.startswith(_COUNT):
            params.append(own[number])
    if len(own) != len(params) + len(blocks):
        raise strange_text(request, f"a function {wrapped.symbol!r} with other parameters")
    return ReflectedFunction(
        wrapped.symbol,
        types[: len(types) - len(blocks)],
        params,
        wrapped.block,
        request.name,
        tags=GRID_TAGS[: len(blocks)],
        needs=interface.needs,
        subgroup=interface.subgroup,
    )


def _packed(info: FunctionInfo) -> FunctionInfo:
    """Return a function with one parameter for a buffer and its count."""
    if info.interface is None:
        return info
    params: list[Param] = []
    for param in info.interface.params:
        if param.name.startswith(_COUNT):
            params[-1] = params[-1].replace(pack=("ptr:handle", f"count:{param.type}"))
        else:
            params.append(param)
    return info.replace(interface=info.interface.replace(params=params))


def _param(request: CompileRequest, argument: ReflectedArgument, own: Param) -> Param:
    """Return the parameter for an argument. Its layout is that of the program, which must agree
    with Slang's reflection.
    """
    name = argument.name
    access = argument.access
    param = own.replace(name=name)
    if own.kind == "buffer":
        # The program casts the const of a pointer away for Slang's structs, which have none.
        param = param.replace(access=access)
    if argument.type == "handle":
        return param
    if argument.kind == "sampler":
        return Param(name, "sampler")
    if argument.kind == "image":
        format_, sample = _FORMATS[argument.members[0].type]
        if access == "r":
            format_ = ""
        return Param(name, "image", argument.type, access, format=format_, sample=sample)
    return _with_layout(request, argument, own, param)


def _with_layout(
    request: CompileRequest, argument: ReflectedArgument, own: Param, param: Param
) -> Param:
    """Return a parameter with the type or the members of an argument, a buffer or a value."""
    members = argument.members or (Member("", argument.type),)
    if own.kind == "buffer" and not own.type:  # nothing uses it
        return param.replace(type=argument.type)
    # Those of a struct's buffers are arguments of their own.
    if not set(_numbers(members)) <= set(_numbers(own.members or [Member("", own.type)])):
        raise strange_text(request, f"another layout of {argument.name!r}")
    if argument.kind == "scalar":
        if argument.type and "x" not in argument.type:
            return param.replace(type=argument.type, align=0, members=())
        return with_members(param.replace(members=()), members)
    if argument.type or not argument.members[0].name:
        type_ = _number_type(request, argument) or argument.type
        if type_:
            return param.replace(type=type_, align=0, members=())
    return with_members(param.replace(members=()), argument.members)


def _numbers(members: Iterable[Member]) -> Iterator[tuple[int, int]]:
    """Yield the offset and the bytes of each number, up to a limit: the reflection may have arrays
    of any length.
    """
    return islice(numbers_of(members), _MAX_NUMBERS)
