"""Reading the kernels of a program in the Metal shading language with libclang, which needs no Mac.

What is read is the payload's own text, so that its lines are those of the sources by its ``#line``. Syntax errors are errors. Of the rest
that libclang finds, only names that nobody declares are told of, as warnings: what Metal's own functions take and give is not known here
in full, and Metal's compiler has the last word.
"""

from __future__ import annotations

import os
import re
from functools import cache

from devmod._info import Param
from devmod._launch.constants import Constant
from devmod.errors import CompileError, source_refused
from devmod.targets._declared import Found
from devmod.targets._libclang import MOST_ERRORS, NOWHERE, Libclang, element, kind_id, lane, libclang
from devmod.targets.metal.spec import SPEC
from devmod_targets.metal import _prelude
from devmod_targets.metal._attributes import Rewritten
from devmod_targets.metal._names import Names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from devmod._payload import CompileRequest
    from devmod.targets._source import Complete

_ARGUMENTS = [
    *("-x", "c++", "-std=c++20", "-target", "x86_64-unknown-linux-gnu", "-nostdinc", "-w", "-ferror-limit=0", "-fno-char8_t"),
    *("-Xclang", "-fsycl-is-device", "-Xclang", "-cl-single-precision-constant"),
    *("-isystem", NOWHERE, "-include", os.path.join(NOWHERE, _prelude.NAME)),
]
_MAIN = os.path.join(NOWHERE, "program.metal")
_STANDARD = re.compile(r"-std=(?:macos-|ios-)?metal(\d)\.(\d)")
_DEFAULT = "32"
#: What comes of attributes that stand where an annotation may not.
_OURS = "'annotate' attribute cannot be applied to types"
#: clang has no parameters that are arrays in an address space: they are read as the pointers that they are.
_ARRAY = "parameter may not be qualified with an address space"
#: The categories of clang's errors that do not hang on what the prelude declares.
_CERTAIN = ("Parse Issue", "Lexical or Preprocessor Issue")
#: Names that begin with two underscores are Metal's own, for its headers.
#: Errors that do hang on the program alone.
_PLAIN_ERRORS = re.compile(
    r"redefinition of '|no member named '\w+' in '(?!metal::|__devmod|\w+\s*\(vector)|statement not in (?:a )?(?:loop|switch)"
)
_UNKNOWN = re.compile(
    r"(?:use of undeclared identifier|unknown type name|no template named) '(?!__)|no (?:member|type|template) named '(?!__).* in namespace"
)
_POINTER, _REFERENCE, _RECORD = 101, 103, 105
_ARRAYS = (112, 114)  # of so many, of nobody knows how many
_LARGEST_SCALAR = 4096
_ATOMIC = re.compile(r"^(?:const |volatile |__\w+ )*metal::_?atomic<(.+)>$")
_VALUE = re.compile(r"=\s*(\d+)[uUlL]*\s*\Z")
_SUFFIX = re.compile(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b")
_OPERATORS = {"Add": int.__add__, "Sub": int.__sub__, "Mult": int.__mul__}
_QUALIFIERS = re.compile(r"\b(?:const|volatile|__global|__local|__global_host) ")
_PACKED = re.compile(r"^(?:const |volatile |__\w+ )*metal::__devmod_packed<[^<>]+, (\d)>$")
_TEXTURE = re.compile(r"^(?:const )?(?:metal::array<)?metal::(?:texture|depth)\w*<[^,>]+(?:, (?:metal::access::|\(metal::access\))(\w+))?")
_SAMPLER = re.compile(r"^(?:const )?(?:metal::array<)?metal::sampler\b")
_ACCESS = {"sample": "r", "read": "r", "write": "w", "read_write": "rw", "0": "r", "1": "r", "2": "w", "3": "rw"}
#: What an argument may be declared with that Metal fills in itself.
_TABLES = ("buffer", "texture", "sampler", "threadgroup")
#: How many places each of them has.
_PLACES = {"buffer": 31, "texture": 128, "sampler": 16, "threadgroup": 31}
_BESIDE = (*_TABLES, "function_constant", "raster_order_group", "user")


def read(request: CompileRequest, done: Complete) -> tuple[dict[str, Found], list[str], str]:
    """The kernels of a program by name, the warnings that are due, and the toolchain, as "libclang 18.1.1".

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or does not load.
    CompileError
        The program has syntax errors, or a kernel that takes what cannot be passed.
    """
    library = libclang(SPEC, "Metal")
    program = Rewritten(done.text)
    unit = _parse(library, request, done, program.text)
    for _ in range(3):  # of a function with two such parameters clang may tell of one
        places = [found.location.offset for found in unit.diagnostics if found.spelling == _ARRAY]
        if not places or not program.decay(places):
            break
        unit = _parse(library, request, done, program.text)
    errors, warnings, unknown = _diagnostics(library, unit, request.name, done.text, program)
    if errors:
        raise source_refused("metal", "Metal", errors, "\n".join((*errors, *warnings)))
    told = ["\n".join(("the Metal source has names that are not Metal's own:", *warnings))] if warnings else []
    reader = _Reader(library, unit, request.name, program.text, unknown)
    kernels = reader.kernels()
    if reader.unmade:
        # What stands behind a reference alone clang does not lay out: it is asked for behind the program, once.
        asked = "".join(f"\nstatic_assert(sizeof({name}));" for name in sorted(reader.unmade))
        unit = _parse(library, request, done, program.text + asked)
        kernels = _Reader(library, unit, request.name, program.text, unknown).kernels()
    return kernels, told, library.toolchain


def _parse(library: Libclang, request: CompileRequest, done: Complete, text: str) -> Any:
    standard = next((found[1] + found[2] for found in map(_STANDARD.fullmatch, reversed(done.options)) if found), _DEFAULT)
    files = [(_MAIN, text), (os.path.join(NOWHERE, _prelude.NAME), _prelude.text())]
    files += [(os.path.join(NOWHERE, *name.split("/")), "") for name in _prelude.HEADERS]
    arguments = [*_ARGUMENTS, f"-D__METAL_VERSION__={standard}0"]
    return library.parse(_MAIN, arguments, files, kind="metal", what=f"the Metal source {request.name}")


def _diagnostics(
    library: Libclang, unit: Any, name: str, source: str, program: Rewritten
) -> tuple[list[str], list[str], list[tuple[int, int]]]:
    """The errors, the names that nobody knows as warnings, and where those stand in the program."""
    errors: list[str] = []
    warnings: list[str] = []
    unknown: list[tuple[int, int]] = []
    last = -1  # where the last such name stands
    for found in unit.diagnostics:
        if found.severity < found.Error or found.spelling == _OURS:
            continue
        place = found.location
        file, line, _ = library.place(place)
        origin = program.origin(place.offset)
        where = f"{name if file == _MAIN else file}:{line}:{origin - source.rfind(chr(10), 0, origin)}" if file else "<options>"
        certain = found.severity > found.Error or found.category_name in _CERTAIN or _PLAIN_ERRORS.search(found.spelling)
        if certain and last >= 0 and found.severity == found.Error and ";" not in program.text[last : place.offset]:
            certain = False  # in the statement of a name that may be a type, nobody knows what else is wrong
        elif not certain and _UNKNOWN.search(found.spelling):
            unknown.append((place.line, place.column))
            last = place.offset
        elif not certain:
            continue
        (errors if certain else warnings).append(f"{where}: {'error' if certain else 'warning'}: {found.spelling}")
        if len(errors) == MOST_ERRORS:
            break
    return errors, warnings, unknown


@cache
def _spaces(library: Libclang) -> tuple[int, int, int]:
    """clang's numbers of device, constant and threadgroup memory."""
    files = [(_MAIN, _prelude.SPACES)]
    unit = library.cindex.Index.create().parse(_MAIN, args=_ARGUMENTS[:-2], unsaved_files=files)
    device, constant, threadgroup = (each.type.get_pointee().get_address_space() for each in unit.cursor.get_children())
    return device, constant, threadgroup


class _Reader:
    """Reads what a parsed program declares."""

    def __init__(self, library: Libclang, unit: Any, name: str, text: str, unknown: Sequence[tuple[int, int]]) -> None:
        self._library = library
        self._kinds = library.cindex.CursorKind
        self._unit, self._name = unit, name
        self._unknown = unknown
        self._names = Names(text)
        #: Types that have no size yet.
        self.unmade: set[str] = set()
        self._device, self._constant, self._threadgroup = _spaces(library)
        self._numbers: dict[str, int] = {}
        self._constants: dict[str, Constant] = {}

    def kernels(self) -> dict[str, Found]:
        """The kernels by the name that Metal gives them."""
        found: list[tuple[str, Any, list[str]]] = []
        for scope, cursor in self._declarations(self._unit.cursor, ""):
            kind = cursor.kind
            if kind == self._kinds.ENUM_DECL:
                self._numbers |= {
                    each.spelling: each.enum_value for each in cursor.get_children() if each.kind == self._kinds.ENUM_CONSTANT_DECL
                }
            elif kind == self._kinds.VAR_DECL:
                self._variable(cursor)
            end = cursor.extent.end.offset
            if kind == self._kinds.VAR_DECL:
                end = self._names.end_of_statement(end)  # clang drops a value that it does not understand
            self._names.declare(cursor.spelling, cursor.extent.start.offset, end)
            if kind == self._kinds.FUNCTION_DECL:
                marks = self._marks(cursor)
                pattern = self._pattern(cursor)
                if "metal.kernel" in marks or "metal.kernel=" in marks or (pattern is not None and self._is_kernel(pattern)):
                    host = next((mark[16:] for mark in marks if mark.startswith("metal.host_name=")), "")
                    if host or pattern is None:
                        found.append((host or scope + cursor.spelling, cursor, marks))
        kernels: dict[str, Found] = {}
        first: dict[str, Any] = {}
        for name, cursor, marks in found:
            # A declaration and its definition are one.
            if first.setdefault(name, cursor.canonical) != cursor.canonical:
                lines = " and ".join(f"{self._name}:{self._library.place(each.location)[1]}" for each in (first[name], cursor))
                raise CompileError(
                    f"{lines}: two kernels are called {name!r}, and a library has one of each name", kind="metal", function=name
                )
            kernels[name] = self._kernel(name, cursor, marks)
        return kernels

    def _declarations(self, cursor: Any, scope: str) -> Iterator[tuple[str, Any]]:
        for each in cursor.get_children():
            file = each.location.file
            if file is None or str(file) != _MAIN:
                continue
            if each.kind == self._kinds.NAMESPACE:
                yield from self._declarations(each, f"{scope}{each.spelling}::" if each.spelling else scope)
            elif each.kind in (self._kinds.LINKAGE_SPEC, self._kinds.UNEXPOSED_DECL):
                yield from self._declarations(each, scope)
            else:
                yield scope, each

    def _marks(self, cursor: Any) -> list[str]:
        return [each.spelling for each in cursor.get_children() if each.kind == self._kinds.ANNOTATE_ATTR]

    def _is_kernel(self, cursor: Any) -> bool:
        return any(mark in ("metal.kernel", "metal.kernel=") for mark in self._marks(cursor))

    def _pattern(self, cursor: Any) -> Any:
        """The template that a declared instance is one of."""
        found = self._library.cindex.conf.lib.clang_getSpecializedCursorTemplate(cursor)
        return found if found is not None and found.kind == self._kinds.FUNCTION_TEMPLATE else None

    def _variable(self, cursor: Any) -> None:
        name, type_ = cursor.spelling, cursor.type.get_canonical()
        number = next((mark[24:] for mark in self._marks(cursor) if mark.startswith("metal.function_constant=")), None)
        if number is not None:
            position, (element_type, align) = self._number(number), element(type_)
            # Vectors cannot be set one by one, so they are left to their tests for being defined.
            if position is not None and element_type and not align and "x" not in element_type and element_type != "bfloat16":
                self._constants[name] = Constant(name, element_type, position)
        elif type_.is_const_qualified() and kind_id(type_) in (5, 8, 9, 10, 13, 14, 16, 17, 18):
            text = _VALUE.search(self._names.text(cursor.extent.start.offset, cursor.extent.end.offset))
            if text:
                self._numbers[name] = int(text[1])

    def _number(self, text: str) -> int | None:
        """The value of an attribute's expression of numbers and names of constants; None where it is more than that."""
        import ast

        try:
            value = self._value(ast.parse(_SUFFIX.sub(r"\1", text.replace("::", ".")).strip(), mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        return value if 0 <= value < 1 << 32 else None

    def _value(self, node: Any) -> int:
        import ast

        if isinstance(node, ast.BinOp) and type(node.op).__name__ in _OPERATORS:
            return _OPERATORS[type(node.op).__name__](self._value(node.left), self._value(node.right))
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name not in self._numbers:
            raise ValueError(name)
        return self._numbers[name]

    # -- one kernel

    def _kernel(self, name: str, cursor: Any, marks: Sequence[str]) -> Found:
        file, line, _ = self._library.place(cursor.location)
        pattern = self._pattern(cursor)
        described = self._parameters(cursor)
        if pattern is not None:
            # An instance may say less of its arguments than its template.
            described = [
                (own[0] or named[0], own[1] or named[1], own[2] or named[2])
                for own, named in zip(described or [("", [], None)] * 99, self._parameters(pattern), strict=False)
            ]
        where = f"{self._name if file == _MAIN else os.path.basename(file)}:{line}"
        arguments = []
        types = list(cursor.type.get_canonical().argument_types())
        for (own, given, extent), type_ in zip(described, types, strict=False):
            unknown = extent is not None and any(_within(extent, place) for place in self._unknown)
            argument = self._argument(name, where, own, given, type_.get_canonical(), unknown)
            if argument is not None:
                arguments.append(argument)
        params = _placed(arguments)
        self._check(name, where, [param for _, param in params], [mark for _, given, _ in described for mark in given])
        extra: dict[str, Any] = {}
        used = self._names.used_by(cursor.spelling) if self._constants else ()
        constants = [constant.to_dict() for constant in self._constants.values() if constant.name in used]
        if constants:
            extra["constants"] = constants
        attributes = [*marks, *(self._marks(pattern) if pattern is not None else ())]
        block, most = self._block(attributes)
        if most:
            extra["max_total_threads_per_threadgroup"] = most
        return Found(name, [type_name for type_name, _ in params], [param for _, param in params], block, where, extra=extra)

    def _check(self, function: str, where: str, params: Sequence[Param], marks: Sequence[str]) -> None:
        """Indices that no receiver takes are refused here."""
        taken: dict[tuple[str, object], str] = {}
        for param in params:
            table = {"local": "threadgroup", "image": "texture", "sampler": "sampler"}.get(param.kind, "buffer")
            assert isinstance(param.at, int)
            if param.at >= _PLACES[table]:
                last = _PLACES[table] - 1
                raise self._refused(function, where, param.name, f"is at the {table} index {param.at}, and Metal's last is {last}")
            other = taken.setdefault((table, param.at), param.name)
            # Which of two there is a function constant may say.
            if other != param.name and not any(mark.startswith("metal.function_constant=") for mark in marks):
                raise self._refused(function, where, param.name, f"is at the {table} index {param.at}, where {other!r} is")

    def _parameters(self, cursor: Any) -> list[tuple[str, list[str], Any]]:
        return [(each.spelling, self._marks(each), each.extent) for each in cursor.get_children() if each.kind == self._kinds.PARM_DECL]

    def _block(self, marks: Sequence[str]) -> tuple[tuple[int, int, int] | None, int]:
        block, most = None, 0
        for mark in marks:
            word, _, text = mark[6:].partition("=")
            if word == "max_total_threads_per_threadgroup":
                most = most or self._number(text) or 0
            elif word == "required_threads_per_threadgroup" and block is None:
                sizes = [self._number(part) for part in text.split(",")]
                x, y, z = (*sizes, 1, 1)[:3]
                if x and y and z:
                    block = (x, y, z)
        return block, most

    def _argument(
        self, function: str, where: str, name: str, marks: Sequence[str], type_: Any, unknown: bool
    ) -> tuple[str, int | None, str, Param] | None:
        """Its table, its index where that is given, its type for arg_types, and its param; None for what Metal fills in itself."""
        given = {mark[6:].partition("=")[0]: mark[6:].partition("=")[2] for mark in marks if mark.startswith("metal.")}
        if any(word not in _BESIDE for word in given):
            return None
        kind, spelled = kind_id(type_), type_.spelling
        texture = _TEXTURE.match(spelled)
        table = "sampler" if _SAMPLER.match(spelled) else "texture" if texture else "buffer"
        if kind in (_POINTER, _REFERENCE):
            target = type_.get_pointee().get_canonical()
            if target.get_address_space() == self._threadgroup:
                table = "threadgroup"
        index: int | None = None
        for word in _TABLES:
            if word in given:
                index = self._number(given[word])
                if index is None:
                    text = given[word] if len(given[word]) < 100 else f"{given[word][:100]}…"
                    raise self._refused(function, where, name, f"has the attribute [[{word}({text})]], and what it counts is not known")
        if table == "texture" or (unknown and "texture" in given):
            return "texture", index, "handle", Param(name, "image", "", _ACCESS.get((texture[1] if texture else "") or "sample", ""))
        if table == "sampler":
            return table, index, "handle", Param(name, "sampler")
        if kind not in (_POINTER, _REFERENCE):
            if unknown:
                return table, index, "", Param(name, "scalar")
            raise self._refused(function, where, name, f"is of the type {_plain(spelled)!r}, which devmod cannot pass")
        if kind_id(target) == _RECORD and _size(target) < 0:
            self.unmade.add(_QUALIFIERS.sub("", target.spelling))
        element_type, align = ("", 0) if unknown else _element(target)
        if table == "threadgroup":
            return table, index, "handle", Param(name, "local", element_type, align=align)
        space = target.get_address_space()
        if space not in (self._device, self._constant):
            raise self._refused(function, where, name, "points into no address space; it is device, constant or threadgroup")
        if kind == _REFERENCE and space == self._constant and element_type and _size(target) <= _LARGEST_SCALAR:
            return table, index, element_type, Param(name, "scalar", element_type, align=align)
        access = "r" if target.is_const_qualified() else "rw"
        if _PACKED.match(target.spelling):
            # Packed vectors stand without a gap: as many numbers.
            element_type, align = element(target.get_template_argument_type(0).get_canonical())
        if kind == _REFERENCE and kind_id(target) == _RECORD and not unknown:
            element_type, align = _open_ended(target) or (element_type, align)
        return table, index, "handle", Param(name, "buffer", element_type, access, align=align)

    def _refused(self, function: str, where: str, name: str, text: str) -> CompileError:
        argument = f"the argument {name!r}" if name else "an argument"
        return CompileError(f"{where}: {argument} of the kernel {function!r} {text}", kind="metal", function=function, argument=name)


def _element(type_: Any) -> tuple[str, int]:
    """As `element`, for atomics and packed vectors too."""
    if kind_id(type_) == _RECORD:
        atomic, packed = _ATOMIC.match(type_.spelling), _PACKED.match(type_.spelling)
        if atomic or packed:
            number, _ = element(type_.get_template_argument_type(0).get_canonical())
            return (f"{number}x{packed[1]}" if packed else number), 0
    return element(type_)


def _open_ended(type_: Any) -> tuple[str, int] | None:
    """The elements of a struct that ends in an array of one, which stands for as many as there are; as compilers of other languages write
    a buffer's content, ``struct { float x[1]; } &``. None for other structs."""
    fields = list(type_.get_fields())
    last = fields[-1].type.get_canonical() if fields else None
    if last is None or kind_id(last) not in _ARRAYS or (kind_id(last) == _ARRAYS[0] and last.element_count > 1):
        return None
    return element(lane(last)) if len(fields) == 1 else ("", 0)


def _size(type_: Any) -> int:
    return int(type_.get_size())


def _plain(text: str) -> str:
    return text.replace("__global_host ", "constant ").replace("__global ", "device ").replace("__local ", "threadgroup ")


def _within(extent: Any, place: tuple[int, int]) -> bool:
    start, end = extent.start, extent.end
    return (start.line, start.column) <= place <= (end.line, end.column)


def _placed(arguments: Sequence[tuple[str, int | None, str, Param]]) -> list[tuple[str, Param]]:
    """The arguments table by table in the order of their indices. Those without one take the first that are free, as Metal has it."""
    made = []
    for table in ("buffer", "threadgroup", "texture", "sampler"):
        here = [each for each in arguments if each[0] == table]
        taken = {index for _, index, _, _ in here if index is not None}
        placed = []
        for _, index, type_name, param in here:
            if index is None:
                index = next(number for number in range(len(here) + len(taken)) if number not in taken)
                taken.add(index)
            placed.append((index, type_name, param))
        placed.sort(key=lambda each: each[0])
        made += [
            (type_name, Param(param.name, param.kind, param.type, param.access, index, param.align)) for index, type_name, param in placed
        ]
    return made
