"""Specializations of Triton's functions: what identifies one, and the text of a record of them.

Nothing here imports Triton. What its types mean is read from their attributes.

A record is a JSON document, which a person may edit::

    {
      "triton": "3.9.0",
      "kernels": [
        {
          "function": "package.module:add",
          "arguments": {"x": "*fp32:16", "n": "i32", "BLOCK": {"value": 128}},
          "options": {"num_warps": 4}
        }
      ]
    }

- A type has hints: ``:16`` is a multiple of 16, ``:2G`` a pointer to less than 2 GB. An argument of
  a tuple is a list.
- A value is that of a constant. It is plain JSON, or an object with one key: ``type`` (a type of
  triton.language), ``function`` (a JIT function or a builtin of Triton), ``float`` (inf or nan),
  ``tuple``.
- The options are those that differ from Triton's defaults, which depend on the target, and
  enable_fp_fusion, whose default differs between versions.
"""

from __future__ import annotations

import ast
import enum
import inspect
import json
import os
import re
import sys
import sysconfig
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, TypeGuard

from devmod.errors import FormatError

#: The bounds of a record: its bytes, its kernels, the depth of a tuple, the characters of a name,
#: and the arguments and options of a kernel.
MAX_BYTES = 1 << 26
MAX_KERNELS = 1 << 17
MAX_DEPTH = 8
MAX_NAME = 1024
MAX_ARGUMENTS = 4096
#: The characters of a value in a message.
MAX_SHOWN = 100
#: The length of an identity, in characters.
IDENTITY = 32
#: The name of the constant of a file that has autotune's choices.
CHOICES = "autotune"
#: Variables that Triton adds to its key, and that change no code, or an option that is compared.
_HARMLESS = {"TRITON_DISABLE_LINE_INFO", "TRITON_DEFAULT_FP_FUSION"}
#: Options with a path: their files are compared by their content.
_LIBRARIES = "extern_libs"
#: Options that follow from the target.
TARGET_OPTIONS = frozenset(
    (
        *("arch", "base_arch", "backend_name", "warp_size", "ptx_version", _LIBRARIES),
        *("supported_fp8_dtypes", "deprecated_fp8_dot_operand_dtypes"),
        *("default_dot_input_precision", "allowed_dot_input_precisions"),
        "max_num_imprecise_acc_default",
    )
)
#: Options that a record always has: Triton 3.10 has another default.
_ALWAYS = ("enable_fp_fusion",)
#: The option with words for ptxas; and one of them: not -o, --output-file, --options-file, a path.
_ASSEMBLER = "ptx_options"
_ASSEMBLER_OPTION = re.compile(r"(?:--?(?!o)[A-Za-z][A-Za-z0-9-]*(?:=[A-Za-z0-9,-]+)?)?")
#: The hints of an argument, by the attribute of Triton that each is.
HINTS = {("tt.divisibility", 16): "16", ("tt.pointer_range", 32): "2G"}
#: The folder to which a program below `devmod triton record` writes what it compiles.
RECORD_VARIABLE = "DEVMOD_TRITON_RECORD"
#: The targets for which such a program compiles at once, separated by line ends.
TARGETS_VARIABLE = "DEVMOD_TRITON_TARGETS"
#: Triton's variable, and what it names.
MANAGER = {"TRITON_CACHE_MANAGER": "devmod_runtime.triton:CacheManager"}
#: Triton's own package, whose version an identity has.
_TRITON = "triton"
#: The libraries that Triton compiles for its drivers, by its names of backends, with the folders
#: of their sources in triton.backends.
DRIVERS = {"cuda": ("cuda_utils", "nvidia"), "hip": ("hip_utils", "amd")}
#: The library that Triton 3.6 compiles for each signature.
LAUNCHER = "__triton_launcher"
#: What the sources for AMD have in place of the path of HIP's library, which is the machine's; and
#: what a library of a file has there. The text is as long as a path may be.
HIP_PATH = "/*py_libhip_search_path*/"
HIP_PLACE = HIP_PATH.ljust(4096, "/")
_FUNCTION = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.(?:[^\W\d]\w*|<locals>))*")
#: A version of Triton, such as 3.9.0 or 3.8.0+fb.
_VERSION = re.compile(r"\d[\w.+-]{0,99}")


class UnsupportedError(Exception):
    """A specialization that a record cannot have; the text has the reason."""


class Specialization(NamedTuple):
    """One specialization of a function, as a record has it.

    Attributes
    ----------
    function
        The import path of the function: ``package.module:add``.
    arguments
        The type of each argument, or its value, by name.
    options
        Options of Triton by name.
    """

    function: str
    arguments: dict[str, Any]
    options: dict[str, Any]

    def __str__(self) -> str:
        parts = []
        for name, argument in self.arguments.items():
            parts.append(f"{name}{_argument_text(argument)}")
        options = [f"{name}={value}" for name, value in sorted(self.options.items())]
        return f"{self.function}({', '.join(parts)}) {' '.join(options)}".strip()


def _argument_text(argument: Any) -> str:
    if isinstance(argument, dict):
        return f"={json.dumps(argument.get('value'))}"
    if isinstance(argument, list):
        return f": {json.dumps(argument)}"
    return f": {argument}"


class Choice(NamedTuple):
    """What ``triton.autotune`` measured for a function and its key, as a record has it.

    Attributes
    ----------
    function
        The import path of the function.
    source
        The digest of the source of the function.
    gpu
        The processor, the threads of a warp, and the number of multiprocessors: "cuda:90:32:132".
    key
        The values and the types for which the configurations were measured.
    config
        The fastest configuration.
    milliseconds
        Its time.
    others
        The other configurations, each with its time; None for one that cannot be launched.
    """

    function: str
    source: str
    gpu: str
    key: list[Any]
    config: dict[str, Any]
    milliseconds: float
    others: list[tuple[dict[str, Any], float | None]]

    @property
    def place(self) -> str:
        """What the choice is for."""
        return json.dumps([self.function, self.source, self.gpu, self.key])


# -- names and sources of functions


def function_name(function: Any) -> str:
    """Return the import path of a JIT function: ``package.module:add``."""
    inner = getattr(function, "fn", function)
    return f"{_import_name(str(inner.__module__))}:{inner.__qualname__}"


#: The import names of modules in a record, by those that they have in this process.
_recorded_names: dict[str, str] = {}


def rename_modules(names: Mapping[str, str]) -> None:
    """Let a record have other import names for packages or modules of this process, which a loader
    has imported under names of its own.
    """
    _recorded_names.update(names)


def _import_name(module: str) -> str:
    """Return the name of a module in a record; for the program that runs, that which an import of
    it has.
    """
    if module != "__main__":
        name = module
        while name:
            if name in _recorded_names:
                return _recorded_names[name] + module[len(name) :]
            name = name.rpartition(".")[0]
        return module
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    path = getattr(main, "__file__", None) or "__main__"
    return os.path.splitext(os.path.basename(path))[0]


def source_digest(function: Any) -> str:
    """Return a digest of the source of a JIT function, of all that it calls, and of the global
    constants that they use. It depends on no path and no line number.

    Raises
    ------
    UnsupportedError
        They use a value whose content cannot be compared.
    """
    walk = _Walk()
    walk.add(function, 0)
    return sha256("\0".join(walk.texts).encode("utf-8", "surrogatepass")).hexdigest()


class _Walk:
    """The texts of a function and of what it uses, each function once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []
        self._packages: set[str] = set()

    def add(self, value: Any, depth: int) -> None:
        """Add the texts of a value that a function uses."""
        value_type = type(value).__name__
        if value_type == "constexpr" and hasattr(value, "value"):
            value = value.value
        if isinstance(value, enum.Enum):
            self.texts.append(f"{type(value).__qualname__}.{value.name}={value.value!r}")
        elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            self.texts.append(f"{type(value).__name__} {value!r}")
        elif isinstance(value, ModuleType):
            # getattr(), or another name of it, may take anything from it.
            if value.__name__.partition(".")[0] != _TRITON:
                raise UnsupportedError(f"it uses the module {value.__name__} as a value")
            self.texts.append(f"module {value.__name__}")
        elif isinstance(value, (tuple, list, set, frozenset, dict)):
            self._add_items(value, depth)
        elif callable(value) or isinstance(getattr(value, "src", None), str):
            self._add_callable(value, depth)
        else:
            text = repr(value)
            name = f"{type(value).__module__}.{type(value).__qualname__}"
            if " at 0x" in text:
                raise UnsupportedError(f"it uses an object of {name}, whose content has no text")
            self.texts.append(f"{name} {text}")

    def _add_items(self, value: Any, depth: int) -> None:
        self.texts.append(f"{type(value).__name__} {len(value)}")
        if depth > MAX_DEPTH:
            raise UnsupportedError(f"it uses a value that is nested more than {MAX_DEPTH} times")
        items: Iterable[Any] = value
        if isinstance(value, dict):
            items = value.items()
        elif isinstance(value, (set, frozenset)):
            items = sorted(value, key=repr)
        for each in items:
            self.add(each, depth + 1)

    def _add_callable(self, value: Any, depth: int) -> None:
        if id(value) in self._numbers:
            self.texts.append(f"again {self._numbers[id(value)]}")
            return
        self._numbers[id(value)] = len(self._numbers)
        self._kept.append(value)  # its number is that of no later object
        inner = value
        while not isinstance(inner, (FunctionType, type)) and hasattr(inner, "fn"):
            inner = inner.fn
        if isinstance(inner, FunctionType):
            inner = inspect.unwrap(inner)
        module = _import_name(str(getattr(inner, "__module__", "")))
        name = getattr(inner, "__qualname__", type(inner).__qualname__)
        self.texts.append(f"{module}:{name} {getattr(value, 'noinline', None)}")
        package = module.partition(".")[0]
        text = getattr(value, "src", None)
        if isinstance(text, str) or getattr(value, "__triton_builtin__", False):
            self._packages.add(package)
        if not isinstance(text, str):
            text = self._python_text(inner, package)
        self.texts.append(text)
        if text:
            # Python evaluates them once, so the names in the source may have other values now.
            for defaults in ("__defaults__", "__kwdefaults__"):
                self.add(getattr(inner, defaults, None), depth)
            for chain, used in _used(text, inner):
                self.texts.append(chain)
                self.add(used, depth)

    def _python_text(self, inner: Any, package: str) -> str:
        """Return the source of a function or a class of Python; "" for one of a package without
        Triton functions: Triton calls no function of Python but its own, which its version stands
        for, and those that a project marks as such.
        """
        is_function = isinstance(inner, FunctionType)
        if not is_function and not hasattr(inner, "__triton_aggregate__"):
            return ""
        if package == _TRITON or package not in self._packages:
            return ""
        try:
            return inspect.getsource(inner)
        except (OSError, TypeError):
            code = getattr(inner, "__code__", None)
            consts = [each for each in getattr(code, "co_consts", ()) if " at 0x" not in repr(each)]
            self.texts.append(f"{getattr(code, 'co_code', None)!r} {consts!r}")
            return ""


def _used(text: str, inner: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names from outside that a function or a class uses, with their values."""
    module = sys.modules.get(str(getattr(inner, "__module__", "")))
    scope = dict(getattr(inner, "__globals__", None) or getattr(module, "__dict__", {}))
    closure = getattr(inner, "__closure__", None) or ()
    if closure:
        for name, cell in zip(inner.__code__.co_freevars, closure, strict=True):
            with suppress(ValueError):  # it is not set yet
                scope[name] = cell.cell_contents
    chains, stored, params = _names_in(text)
    for chain in chains:
        first, *rest = chain.split(".")
        if first in params or first not in scope:
            continue
        value = scope[first]
        if first in stored and not isinstance(value, ModuleType) and not _is_plain(value):
            continue
        for name in rest:
            try:
                value = getattr(value, name)
            except Exception:  # noqa: BLE001 - the attribute of a result, or a property that fails
                if isinstance(value, ModuleType):  # a branch that Triton does not compile
                    value = None
                break
        if first not in stored or _is_plain(value):
            yield chain, value


def _is_plain(value: Any) -> bool:
    """Return whether a global value may be used in code, although a local name hides it later."""
    if type(value).__name__ == "constexpr" and hasattr(value, "value"):
        return _is_plain(value.value)
    plain = (bool, int, float, complex, str, bytes, tuple, enum.Enum)
    return value is None or callable(value) or isinstance(value, plain)


@lru_cache(maxsize=4096)
def _names_in(text: str) -> tuple[tuple[str, ...], frozenset[str], frozenset[str]]:
    """Return the names, with the attributes after them, in a source; those that it stores; and
    those of the parameters of its only function.
    """
    tree = ast.parse(textwrap.dedent(text))
    chains = set()
    stored = set()
    params: set[str] = set()
    inner = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name)) and id(node) not in inner:
            chain = []
            step: ast.expr = node
            while isinstance(step, ast.Attribute):
                chain.append(step.attr)
                step = step.value
                inner.add(id(step))
            if isinstance(step, ast.Name):
                chains.add(".".join([step.id, *reversed(chain)]))
                if isinstance(step.ctx, ast.Store):
                    stored.add(step.id)
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            defaults = {each.id for each in ast.walk(statement.args) if isinstance(each, ast.Name)}
            own = statement.args
            params = {each.arg for each in (*own.posonlyargs, *own.args, *own.kwonlyargs)}
            params -= defaults
    return tuple(sorted(chains)), frozenset(stored), frozenset(params)


# -- identities


class Parts(NamedTuple):
    """What an identity is a digest of, as texts. A difference in one of them has a name in
    messages.
    """

    function: str
    source: str
    arguments: str
    options: str
    target: str
    triton: str
    environment: str

    @property
    def identity(self) -> str:
        """The digest, of IDENTITY characters."""
        return sha256(json.dumps(list(self)).encode()).hexdigest()[:IDENTITY]

    @property
    def symbol(self) -> str:
        """The last part of the function's import path, which names its kernels in a file."""
        return self.function.rpartition(":")[2].rpartition(".")[2]


def parts_of(
    function: Any,
    signature: Mapping[str, Any],
    constants: Mapping[Any, Any],
    attributes: Mapping[Any, Any],
    options: Mapping[str, Any],
    target: Any,
    triton: str,
    environment: Mapping[str, str],
) -> Parts:
    """Return what identifies a specialization, as Triton has it, for a target.

    Parameters
    ----------
    function
        The JIT function.
    signature, constants, attributes
        Those of Triton's ASTSource.
    options
        All options of Triton for the target.
    target
        Triton's GPUTarget.
    triton
        The version of Triton.
    environment
        The variables that Triton adds to its key.

    Raises
    ------
    UnsupportedError
        A constant has no text.
    """
    arguments = arguments_of(signature, constants, attributes, digests=True)
    own = dict(options)
    own[_LIBRARIES] = sorted((name, _digest(path)) for name, path in own.get(_LIBRARIES) or ())
    variables = {key: value for key, value in environment.items() if key not in _HARMLESS}
    name = function_name(function)
    return Parts(
        name,
        source_digest(function),
        json.dumps(arguments),
        json.dumps(own, sort_keys=True, default=repr),
        f"{target.backend}:{target.arch}:{target.warp_size}",
        triton,
        json.dumps(variables, sort_keys=True),
    )


def driver_source(triton: ModuleType, backend: str) -> str:
    """Return the source of the library of a driver of Triton."""
    path = os.path.join(str(triton.__path__[0]), "backends", DRIVERS[backend][1], "driver.c")
    with open(path, encoding="utf-8") as file:
        return file.read()


def launcher_source(driver: ModuleType, parts: Parts, metadata: Mapping[str, Any]) -> str:
    """Return the source of the library that Triton 3.6 compiles for the signature of a kernel; ""
    with a later Triton, which has one launcher for all.

    Parameters
    ----------
    driver
        Triton's module of the driver.
    parts, metadata
        What a file has of the kernel.
    """
    make = getattr(driver, "make_launcher", None)
    if make is None:
        return ""
    arguments = json.loads(parts.arguments).values()
    signature = {number: _type_in(argument) for number, argument in enumerate(arguments)}
    descriptors = metadata.get("tensordesc_meta")
    if parts.target.startswith("hip"):
        return str(make({}, signature, metadata["warp_size"], descriptors))
    return str(make({}, signature, descriptors))


def _type_in(argument: Any) -> Any:
    """Return the type in Triton's signature of an argument of a record."""
    if isinstance(argument, dict):
        return "constexpr"
    if isinstance(argument, list):
        return tuple(map(_type_in, argument))
    return argument.partition(":")[0]


def library_name(stem: str, source: str) -> str:
    """Return the name of a library in a file: it fits one source, one ABI of Python and one
    platform.
    """
    digest = sha256(source.encode()).hexdigest()[:IDENTITY]
    return f"{stem}.{digest}{sysconfig.get_config_var('EXT_SUFFIX')}"


def _digest(path: Any) -> str:
    about = os.stat(path)
    return _file_digest(str(path), about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=64)
def _file_digest(path: str, _size: int, _time: int) -> str:
    with open(path, "rb") as file:
        return sha256(file.read()).hexdigest()


def arguments_of(
    signature: Mapping[str, Any],
    constants: Mapping[Any, Any],
    attributes: Mapping[Any, Any],
    *,
    digests: bool = False,
) -> dict[str, Any]:
    """Return the arguments of a specialization as a record has them. With `digests`, a function has
    that of its source.

    Raises
    ------
    UnsupportedError
        A constant or an attribute has no text.
    """

    def text_of(type_: Any, path: tuple[int, ...]) -> Any:
        if path in constants:
            return {"value": encode(constants[path], digests=digests)}
        if isinstance(type_, (tuple, list)):
            return [text_of(each, (*path, number)) for number, each in enumerate(type_)]
        text = str(type_)
        for attribute in attributes.get(path) or ():
            hint = HINTS.get(tuple(attribute))
            if hint is None:
                raise UnsupportedError(f"an argument has the attribute {attribute!r}")
            text += f":{hint}"
        return text

    return {
        str(name): text_of(type_, (number,))
        for number, (name, type_) in enumerate(signature.items())
    }


def encode(value: Any, *, digests: bool = False) -> Any:
    """Return a constant as JSON.

    Raises
    ------
    UnsupportedError
        It is none of the values that a record has.
    """
    if type(value).__name__ == "constexpr" and hasattr(value, "value"):
        return encode(value.value, digests=digests)
    if isinstance(value, enum.Enum):  # one of IntEnum differs from its int: by "is", and its name
        raise UnsupportedError(f"the constant {value!r} is an enum")
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if value == value and abs(value) != float("inf"):
            return float(value)
        return {"float": repr(float(value))}
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return {"tuple": [encode(each, digests=digests) for each in value]}
    is_jit = hasattr(value, "src") and hasattr(value, "fn")
    if is_jit or getattr(value, "__triton_builtin__", False):
        own = {"function": function_name(value)}
        if digests:
            own["source"] = source_digest(value)
        return own
    if type(value).__name__ == "dtype" and hasattr(value, "primitive_bitwidth"):
        return {"type": str(value)}
    raise UnsupportedError(f"the constant {value!r} is a {type(value).__qualname__}")


def own_options(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a record has: without those of the target and Triton's defaults.

    Raises
    ------
    UnsupportedError
        An option has no text, or names a file.
    """
    result = {}
    for name, value in options.items():
        is_own = name in _ALWAYS or (name not in TARGET_OPTIONS and value != defaults.get(name))
        if not is_own:
            continue
        if name == "ir_override":
            raise UnsupportedError("the option ir_override names a file")
        if not (value is None or isinstance(value, (bool, int, float, str))):
            raise UnsupportedError(f"the option {name} is {value!r}")
        result[name] = value
    mine = dict(options.get(_LIBRARIES) or ())
    for name in mine:
        if name not in dict(defaults.get(_LIBRARIES) or ()):
            raise UnsupportedError(
                f"the option {_LIBRARIES} names a file, {os.path.basename(mine[name])}"
            )
    return result


# -- the text of a record


def lines_of(folder: str) -> Iterator[dict[str, Any]]:
    """Yield the lines that the processes of a run have written to a folder."""
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".jsonl"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            for line in file:
                with suppress(ValueError):  # the last line of a process that was killed
                    yield json.loads(line)


def write_record(
    triton: str, kernels: Iterable[Specialization], choices: Iterable[Choice] = ()
) -> str:
    """Return the text of a record: each kernel once, sorted, one argument of many on a line; and
    the last choice of each function, GPU and key.
    """
    lines = {}
    for each in kernels:
        fields = {
            "function": each.function,
            "arguments": each.arguments,
            "options": dict(sorted(each.options.items())),
        }
        lines[json.dumps(fields, sort_keys=True)] = fields
    ordered = [lines[key] for key in sorted(lines, key=lambda key: (lines[key]["function"], key))]
    document: dict[str, Any] = {"triton": triton, "kernels": ordered}
    choices = list(choices)
    # A function has the choices of its last source alone.
    sources = {each.function: each.source for each in choices}
    tuned = {each.place: each for each in choices if each.source == sources[each.function]}
    if tuned:
        document["choices"] = [tuned[key]._asdict() for key in sorted(tuned)]
    return f"{_text(document, 0)}\n"


def _text(value: Any, depth: int) -> str:
    """Return JSON with three levels on lines of their own."""
    inside = "  " * (depth + 1)
    if depth < 3 and isinstance(value, (dict, list)) and value:
        if isinstance(value, dict):
            items = [f"{json.dumps(key)}: {_text(each, depth + 1)}" for key, each in value.items()]
            first, last = "{}"
        else:
            items = [_text(each, depth + 1) for each in value]
            first, last = "[]"
        joined = f",\n{inside}".join(items)
        return f"{first}\n{inside}{joined}\n{'  ' * depth}{last}"
    return json.dumps(value)


def read_record(text: str | bytes, place: str) -> tuple[str, list[Specialization], list[Choice]]:
    """Return the version of Triton, the kernels, and autotune's choices of a record.

    Raises
    ------
    FormatError
        The text is no record.
    """
    if len(text) > MAX_BYTES:
        raise FormatError(f"{place} has more than {MAX_BYTES} bytes")
    try:
        document = json.loads(text)
    except RecursionError:  # its text differs by the version of Python
        raise FormatError(
            f"{place} is no record of Triton's kernels: it is nested too deeply"
        ) from None
    except ValueError as error:
        raise FormatError(f"{place} is no record of Triton's kernels: {error}") from None
    if not isinstance(document, dict):
        raise FormatError(f"{place} is no record of Triton's kernels: expected an object")
    version = document.get("triton")
    kernels = document.get("kernels")
    has_version = isinstance(version, str) and _VERSION.fullmatch(version)
    if not (isinstance(version, str) and has_version and isinstance(kernels, list)):
        raise FormatError(
            f'{place} is no record of Triton\'s kernels: expected "triton", a version, and "kernels", a list'
        )
    if len(kernels) > MAX_KERNELS:
        raise FormatError(f"{place} has more than {MAX_KERNELS} kernels")
    result = []
    for number, each in enumerate(kernels):
        result.append(_read_kernel(each, f"{place}: kernel {number + 1}"))
    return version, result, _read_choices(document, place)


def choices_text(triton: str, choices: Iterable[Choice]) -> bytes:
    """Return the text of the choices that a file of kernels has."""
    tuned = {each.place: each for each in choices}
    fields = [tuned[key]._asdict() for key in sorted(tuned)]
    return json.dumps({"triton": triton, "choices": fields}).encode()


def read_choices(text: bytes, place: str) -> tuple[str, list[Choice]]:
    """Return the version of Triton and the choices of a file of kernels.

    Raises
    ------
    FormatError
        The text has no choices.
    """
    if len(text) > MAX_BYTES:
        raise FormatError(
            f"{place}: the choices of Triton's autotune have more than {MAX_BYTES} bytes"
        )
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise FormatError(f"{place} has no choices of Triton's autotune")
    return str(document.get("triton")), _read_choices(document, place)


def _read_choices(document: dict[str, Any], place: str) -> list[Choice]:
    choices = document.get("choices", [])
    if not isinstance(choices, list) or len(choices) > MAX_KERNELS:
        raise FormatError(
            f'{place}: expected "choices" to be a list of at most {MAX_KERNELS} choices'
        )
    return [
        _read_choice(each, f"{place}: choice {number + 1}") for number, each in enumerate(choices)
    ]


def _read_choice(fields: Any, place: str) -> Choice:
    if not isinstance(fields, dict) or sorted(fields) != sorted(Choice._fields):
        raise FormatError(
            f"{place}: expected an object with {', '.join(Choice._fields)}: record again"
        )
    choice = Choice(**fields)
    others = choice.others
    is_list = isinstance(others, list) and all(
        isinstance(each, list) and len(each) == 2 for each in others
    )
    if not (
        isinstance(choice.function, str)
        and isinstance(choice.source, str)
        and isinstance(choice.gpu, str)
        and isinstance(choice.key, list)
        and is_list
        and all(isinstance(each, dict) for each in [choice.config, *(each for each, _ in others)])
    ):
        raise FormatError(f"{place}: a field has a value of another type: record again")
    return choice


def _read_kernel(fields: Any, place: str) -> Specialization:
    if not isinstance(fields, dict):
        raise FormatError(f"{place}: expected an object")
    function = fields.get("function")
    if not is_import_path(function):
        raise FormatError(
            f'{place}: expected "function", such as "package.module:add", got {_short(function)}'
        )
    arguments = fields.get("arguments")
    options = fields.get("options", {})
    if not isinstance(arguments, dict) or not isinstance(options, dict):
        raise FormatError(f'{place} ({function}): expected "arguments" and "options" to be objects')
    if len(arguments) + len(options) > MAX_ARGUMENTS:
        raise FormatError(
            f"{place} ({function}) has more than {MAX_ARGUMENTS} arguments and options"
        )
    for name, argument in arguments.items():
        _check_argument(argument, f"{place} ({function}), argument {_short(name)}", 0)
    for name, value in options.items():
        if name == _ASSEMBLER and not _is_assembler_text(value):
            raise FormatError(
                f"{place} ({function}), option {name!r}: expected options of ptxas that name no file, such as '-O1', got {_short(value)}"
            )
        if not (value is None or isinstance(value, (bool, int, float, str))):
            raise FormatError(
                f"{place} ({function}), option {_short(name)}: expected a number or a text"
            )
    return Specialization(function, arguments, options)


def _check_argument(argument: Any, place: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise FormatError(f"{place}: a tuple is nested more than {MAX_DEPTH} times")
    if isinstance(argument, list):
        for each in argument:
            _check_argument(each, place, depth + 1)
    elif isinstance(argument, dict):
        if list(argument) != ["value"]:
            raise FormatError(f'{place}: expected an object with "value" alone')
        _check_value(argument["value"], place, depth)
    elif not isinstance(argument, str) or not argument:
        raise FormatError(
            f'{place}: expected a type such as "*fp32:16", a list, or {{"value": …}}, got {_short(argument)}'
        )


def _check_value(value: Any, place: str, depth: int) -> None:
    """Check a constant, as `encode` writes it."""
    if depth > MAX_DEPTH:
        raise FormatError(f"{place}: a tuple is nested more than {MAX_DEPTH} times")
    if value is None or isinstance(value, (bool, int, float, str)):
        return
    if isinstance(value, dict) and len(value) == 1:
        ((form, content),) = value.items()
        if form == "tuple" and isinstance(content, list):
            for each in content:
                _check_value(each, place, depth + 1)
            return
        if form == "float" and content in ("inf", "-inf", "nan"):
            return
        if form == "type" and isinstance(content, str):
            return
        if form == "function" and is_import_path(content):
            return
    raise FormatError(
        f'{place}: expected a constant, or an object such as {{"type": "fp16"}}, got {_short(value)}'
    )


def is_import_path(path: Any) -> TypeGuard[str]:
    """Return whether a value has the form of the import path of a function."""
    return isinstance(path, str) and len(path) <= MAX_NAME and bool(_FUNCTION.fullmatch(path))


def _is_assembler_text(value: Any) -> bool:
    """Return whether options of ptxas name no file: Triton passes them as they are."""
    if value is None:
        return True
    return isinstance(value, str) and all(map(_ASSEMBLER_OPTION.fullmatch, value.split(" ")))


def _short(value: Any) -> str:
    """Return a value of a record for a message."""
    text = repr(value)
    if len(text) > MAX_SHOWN:
        text = f"{text[:MAX_SHOWN]}…"
    return text
