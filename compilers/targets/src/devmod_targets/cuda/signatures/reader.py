"""Read the signatures of the kernels of a CUDA C++ program.

libclang reads the types in the source. The binary (PTX) has the symbols, the sizes of the
parameters, and the limits of the block and the cluster. All types are compared with it. If libclang
lacks a header, NVRTC returns the types: it compiles the text a second time with the name expression
``&devmod_signature<decltype(k)>``. The mangled name of that variable contains the types of the
parameters.
"""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import chain, islice

from devmod import FunctionInfo, Param
from devmod.errors import CompileError, FormatError, ToolchainNotFoundError
from devmod.targets.cuda import SPEC
from devmod_readers.nvidia import TENSOR_MAP_TAG, KernelEntry, ParamPlace, check_declared, read_ptx
from devmod_readers.reflection import ReflectedFunction
from devmod_targets._groups import grouped
from devmod_targets._text import split_arguments
from devmod_targets.authoring import CompileRequest, SelfContainedSource, merge_declared
from devmod_targets.authoring._mangled import MangledName, TypeNode, parse_function, parse_signature
from devmod_targets.authoring._open_block import open_kernels
from devmod_targets.authoring.c_functions import with_globals
from devmod_targets.authoring.const_casts import written_param
from devmod_targets.authoring.instances import function_name, source_instances
from devmod_targets.cuda._textures import ObjectUse, object_params, object_type, object_uses, use_of
from devmod_targets.cuda.nvrtc import compile_program
from devmod_targets.cuda.signatures.declared import declared_kernels, with_entry
from devmod_targets.cuda.signatures.source import (
    SourceKernel,
    SourceKernels,
    read_source,
    signature_key,
)
from devmod_targets.cuda.signatures.types import (
    Argument,
    bytes_argument,
    clang_argument,
    mangled_argument,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from devmod_targets.cuda.nvcc import PreprocessedSource

    #: The PTX, the symbol of each name expression, and the kernels of `own_kernels`.
    Binary = tuple[str, Mapping[str, str], Mapping[str, KernelEntry]]


#: The variable of the probe.
_PROBE = "devmod_signature"
#: The instance in a launch such as ``scale<float><<<1, 32>>>(x)``.
_LAUNCHED = re.compile(r"([A-Za-z_:][\w:]*<[^<>;{}()]*>)\s*<<<")
_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)", re.MULTILINE)
_DEFAULT_ARCH = "90"

#: The symbols of the kernels that Thrust and CUB launch from host code. They contain the
#: architecture.
_OF_HEADERS = re.compile(r"_ZN(?:3cub|6thrust)\d")

_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_NAME = re.compile(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*\Z")
#: The limits on the declarations of one name, and on the characters of one.
_MAX_DECLARATIONS = 64
_MAX_LENGTH = 1 << 14


def read_functions(
    request: CompileRequest,
    source: SelfContainedSource,
    binaries: Sequence[Binary],
    version: tuple[int, int],
    preprocessed: PreprocessedSource | None = None,
    early: SourceKernels | None = None,
) -> tuple[list[dict[str, FunctionInfo]], str]:
    """Return the functions of a source in each of its programs.

    Parameters
    ----------
    request, source
        The request, and its self-contained source.
    binaries
        The result of the compiler for each architecture.
    version
        The version of the compiler.
    preprocessed
        The preprocessed program of nvcc; None for NVRTC. libclang then reads the symbols of the
        expressions, and nothing is compiled again.
    early
        The result of `read_early`.

    Returns
    -------
    list of dict of str to FunctionInfo
        For each program its functions: by name expression, or by qualified name; overloads with the
        types of their parameters.
    str
        The reader of their types, such as "libclang 18.1.1"; "" if they are all declared.

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded, and types are not declared.
    CompileError
        The source has no kernel, or the signature of a kernel contradicts its PTX.
    """
    try:
        kernels, reader = _read_kernels(request, source, binaries, version, preprocessed, early)
    except ToolchainNotFoundError:
        # Without reflection, empty fields of a declared function cannot be filled in.
        if not request.fmap or not all(info.arg_types for info in request.fmap.values()):
            raise
        # nvcc has no symbols of name expressions.
        if preprocessed and request.name_expressions:
            raise
        kernels = [
            declared_kernels(request, each.values(), lowered) for _, lowered, each in binaries
        ]
        reader = ""
    if not all(kernels):
        raise request.error(
            f"the {request.language} source {request.name} has no kernel: mark a function with __global__; a template needs an instance, "
            "such as name_expressions=['scale<float>']"
        )
    fmaps = [merge_declared(SPEC, each, request.fmap) for each in kernels]
    for fmap, (_, _, entries) in zip(fmaps, binaries, strict=True):
        _check_sizes(request, fmap, entries)
    return fmaps, reader


def _check_sizes(
    request: CompileRequest, fmap: Mapping[str, FunctionInfo], entries: Mapping[str, KernelEntry]
) -> None:
    """Raise CompileError for a declared function whose arguments have other sizes than those of the
    PTX.
    """
    declared = request.declared
    for name, info in fmap.items():
        if info.name in declared and info.name in entries:
            try:
                check_declared(info, entries[info.name])
            except FormatError as error:
                raise request.error(str(error), function=name) from None


def _read_kernels(
    request: CompileRequest,
    source: SelfContainedSource,
    binaries: Sequence[Binary],
    version: tuple[int, int],
    preprocessed: PreprocessedSource | None,
    early: SourceKernels | None,
) -> tuple[list[dict[str, ReflectedFunction]], str]:
    """Return the kernels of each binary by name, and the version of libclang."""
    target = _arch_of(binaries)
    named: set[str] = set()
    symbols: set[str] = set()
    for _, lowered, entries in binaries:
        named.update(lowered.values())
        symbols.update(entries)
    expressions = [*binaries[0][1], *source_instances(sorted(symbols - named))]
    if early is not None and set(expressions) <= set(_expected_instances(request, source)):
        source_kernels = early
    else:
        source_kernels = read_source(
            request, source, expressions, macros=_macros(target, version), preprocessed=preprocessed
        )
    if preprocessed is not None:
        binaries = [
            (ptx, source_kernels.lowered(lowered, kernels), kernels)
            for ptx, lowered, kernels in binaries
        ]
    matched = [match_kernels(kernels, lowered, source_kernels) for _, lowered, kernels in binaries]
    types = {}
    doubtful = _doubtful(matched)
    if doubtful and preprocessed is None:
        types = _probe(request, source, [*source.options, f"-arch=sm_{target}"], doubtful)
    open_names = set()
    if source_kernels.is_complete:
        open_names = open_kernels(source.text)
    declared = {
        name: len(info.arg_types) for name, info in request.declared.items() if info.arg_types
    }
    results = []
    for kernels, (ptx, _, _) in zip(matched, binaries, strict=True):
        uses = object_uses(ptx)
        functions = {
            name: each.function(types.get(each.expression), open_names, declared, uses)
            for name, each in kernels.items()
        }
        results.append(with_globals(functions, source_kernels.global_types(ptx)))
    return results, source_kernels.toolchain


def _doubtful(programs: Iterable[Mapping[str, CompiledKernel]]) -> list[str]:
    """Return the expressions of the kernels that need the probe."""
    expressions: dict[str, None] = {}
    for kernels in programs:
        for kernel in kernels.values():
            if kernel.needs_probe:
                expressions[kernel.expression] = None
    return list(expressions)


def _arch_of(binaries: Sequence[Binary]) -> str:
    """Return the number of the architecture of the first program that has one."""
    for ptx, _, _ in binaries:
        match = _TARGET.search(ptx)
        if match:
            return match[1]
    return _DEFAULT_ARCH


def read_early(
    request: CompileRequest, source: SelfContainedSource, preprocessed: PreprocessedSource
) -> SourceKernels | None:
    """Parse a preprocessed program while nvcc compiles it.

    The result is useless if the PTX has other instances of templates than those that are expected.
    Return None if libclang fails.
    """
    with suppress(CompileError):
        return read_source(
            request, source, _expected_instances(request, source), preprocessed=preprocessed
        )
    return None


def _expected_instances(request: CompileRequest, source: SelfContainedSource) -> list[str]:
    """Return the name expressions, and the instances of templates that host code launches."""
    return list(dict.fromkeys([*request.name_expressions, *_LAUNCHED.findall(source.text)]))


def own_kernels(ptx: str, *, is_nvcc: bool) -> dict[str, KernelEntry]:
    """Return the kernels of a binary by symbol, for nvcc without those that the host code of
    NVIDIA's headers launches.
    """
    kernels = read_ptx(ptx)
    if not is_nvcc:
        return kernels
    return {symbol: entry for symbol, entry in kernels.items() if not _OF_HEADERS.match(symbol)}


def _macros(target: str, version: tuple[int, int]) -> dict[str, str]:
    """Return the macros that NVRTC predefines for an architecture."""
    major, minor = version
    return {
        "__CUDA_ARCH__": f"{target}0",
        "__CUDA_ARCH_LIST__": f"{target}0",
        "__CUDACC_VER_MAJOR__": str(major),
        "__CUDACC_VER_MINOR__": str(minor),
        "CUDART_VERSION": str(major * 1000 + minor * 10),
    }


def _probe(
    request: CompileRequest,
    source: SelfContainedSource,
    options: Sequence[str],
    expressions: Iterable[str],
) -> dict[str, tuple[TypeNode, ...]]:
    """Return the types of the parameters of kernels as NVRTC spells them, by the expressions that
    name the kernels.

    The front end of NVRTC alone runs, once. Expressions that it rejects have no types.
    """
    names = {f"&{_PROBE}<decltype({each})>": each for each in expressions}
    text = f"{source.text}\ntemplate <class> __device__ int {_PROBE};\n"
    try:
        program = compile_program(
            text, request.name, [*options, "-fdevice-syntax-only"], name_expressions=names
        )
    except CompileError:
        return {}  # the program itself compiles, so an expression is at fault
    types = {}
    for name, symbol in program.lowered.items():
        signature = parse_signature(symbol)
        if signature is not None:
            types[names[name]] = signature
    return types


# -- Join what the source declares about a kernel with what its binary contains.


class CompiledKernel:
    """A kernel of a binary with its declaration in the source.

    Attributes
    ----------
    expression
        The C++ expression that names it.
    needs_probe
        Whether only the compiler resolves the types of its parameters.
    """

    def __init__(
        self,
        entry: KernelEntry,
        expression: str,
        declaration: SourceKernel | None,
        source: SourceKernels,
    ) -> None:
        self._entry = entry
        self._declaration = declaration
        self._source = source
        self._text = source.text
        name = entry.name
        #: The types in the symbol. Those of a template may depend on its arguments in ways that the
        #: symbol does not resolve.
        self._nodes: Sequence[TypeNode] | None = None
        parts = parse_function(entry.name)
        if parts is not None:
            self._nodes = parts.params
            name = parts.name
        self._arguments: list[Argument] | None = None
        self._is_certain = False
        if declaration is not None:
            name = declaration.name or name
            self._is_certain = _has_symbol(declaration, entry) or source.has_certain_types(
                declaration
            )
            self._arguments = _arguments_of(declaration, source)
        self.expression = expression or name
        self.needs_probe = self._nodes is None and not _has_types(self._arguments, self._is_certain)

    def function(
        self,
        nodes: Sequence[TypeNode] | None,
        open_names: Collection[str],
        declared: Mapping[str, int],
        uses: Mapping[str, ObjectUse],
    ) -> ReflectedFunction:
        """Return the signature.

        Parameters
        ----------
        nodes
            The types of the parameters that the probe found, or None.
        open_names
            The functions of the source that give the same result with every block.
        declared
            The symbols of the kernels whose types the caller declares, with the number of
            arguments. A contradiction makes their types unknown here. An object of a texture stays
            a number if the caller declares an argument for each parameter.
        uses
            The uses of the objects of textures and surfaces in the binary.

        Raises
        ------
        CompileError
            The types in the source contradict the binary.
        """
        entry = self._entry
        declaration = self._declaration
        joined = _join(self._arguments, nodes or self._nodes, self._is_certain)
        fitted = self._fit(joined, entry.name in declared)
        location = "the binary"
        is_open = False
        if declaration is not None:
            location = declaration.location
            name = declaration.cursor.spelling
            is_open = name in open_names
            if any(each.param.access == "r" for each in fitted):
                written = self._source.written_parameters
                fitted = [
                    each.replace(written_param(each.param, (name, number), written))
                    for number, each in enumerate(fitted)
                ]
        if declared.get(entry.name, 0) != len(fitted):
            fitted = self._with_images(fitted, uses)

        types = []
        tags = []
        for argument in fitted:
            if argument.is_tensor_map:
                types.append("handle")
                tags.append(TENSOR_MAP_TAG)
            else:
                types.append(argument.type)
                tags.append(0)
        if not any(tags):
            tags.clear()
        function = ReflectedFunction(
            entry.name,
            types,
            [argument.param for argument in fitted],
            location=location,
            open_block=is_open,
            extra_tags=tags,
        )
        return with_entry(function, entry)

    def _fit(self, arguments: Sequence[Argument] | None, is_declared: bool) -> list[Argument]:
        """Return the arguments with the sizes of the binary."""
        places = self._entry.params or ()
        is_certain = self._is_certain and not is_declared
        if arguments is None or (len(arguments) != len(places) and not is_certain):
            arguments = [Argument("", Param("", "scalar")) for _ in places]
        if self._arguments is None:
            names = parameter_names(self._text, self.expression)
            if len(names) == len(arguments):
                arguments = [
                    each.replace(each.param.replace(name=name))
                    for each, name in zip(arguments, names, strict=True)
                ]
        if len(arguments) != len(places):
            raise self._contradiction(
                f"has {len(arguments)} arguments in the source and {len(places)} in its PTX"
            )
        results = []
        for number, (argument, place) in enumerate(zip(arguments, places, strict=True), 1):
            size = argument.size
            if size not in (0, place.size):
                if is_certain:
                    name = ""
                    if argument.param.name:
                        name = f" ({argument.param.name!r})"
                    raise self._contradiction(
                        f"takes argument {number}{name} as {_described(argument)} of {size} bytes in the source, and as "
                        f"{_ptx_type(place)} of {place.size} bytes in its PTX"
                    )
                argument = argument.without_type()
            results.append(_place(argument, place))
        return results

    def _with_images(
        self, arguments: list[Argument], uses: Mapping[str, ObjectUse]
    ) -> list[Argument]:
        """Return the arguments with images and samplers in place of the objects of textures and
        surfaces.
        """
        if self._declaration is None:
            return arguments
        names = [object_type(each.type) for each in self._declaration.arguments]
        if len(names) != len(arguments) or not any(names):
            return arguments
        results = []
        for number, (argument, name) in enumerate(zip(arguments, names, strict=True)):
            params = None
            if name and argument.type == "uint64":
                use = use_of(uses, self._entry.name, number)
                params = object_params(argument.param.name, number, name, use)
            if params is None:
                results.append(argument)
            else:
                results += [Argument("handle", param) for param in params]
        return results

    def _contradiction(self, problem: str) -> CompileError:
        location = ""
        if self._declaration is not None:
            location = f" at {self._declaration.location}"
        return CompileError(
            f"the cuda kernel {self.expression!r}{location} {problem}. libclang and NVRTC read the source differently. Declare the "
            "kernel in fmap= with its arg_types",
            kind="cuda",
            function=self.expression,
        )


def _has_symbol(declaration: SourceKernel, entry: KernelEntry) -> bool:
    """Whether the compiler's symbol contains the types, and libclang's symbol is equal."""
    if declaration.is_c or declaration.is_template:
        return False
    return declaration.signature() == signature_key(entry.name)


def _arguments_of(declaration: SourceKernel, source: SourceKernels) -> list[Argument]:
    names = declaration.parameter_names(source.library)
    return [
        clang_argument(argument, name, source.unknown, source.is_certain, source.known_types)
        for argument, name in zip(declaration.arguments, names, strict=True)
    ]


def _has_types(arguments: Sequence[Argument] | None, is_certain: bool) -> bool:
    """Whether the types of libclang are those of the compiler, and all are known."""
    return is_certain and arguments is not None and all(each.type for each in arguments)


def match_kernels(
    entries: Mapping[str, KernelEntry], lowered: Mapping[str, str], source: SourceKernels
) -> dict[str, CompiledKernel]:
    """Return the kernels of a binary by the names for callers, in the order of the source.

    Parameters
    ----------
    entries
        The kernels of the binary by symbol.
    lowered
        The symbol of each name expression. Those of variables are ignored.
    source
        The kernels that the source declares.
    """
    expressions = {
        expression: symbol for expression, symbol in lowered.items() if symbol in entries
    }
    named_symbols = set(expressions.values())
    others = [symbol for symbol in entries if symbol not in named_symbols]
    results = {}
    for name, overloads in _matches(others, source).items():
        keys = _overload_names(name, [parts for _, _, parts in overloads])
        for key, (symbol, declaration, _) in zip(keys, overloads, strict=True):
            # Instances for two overloads of a function have one spelling, such as
            # ``map<&twice>(float*, int)``.
            if keys.count(key) > 1:
                key = symbol
            results[key] = CompiledKernel(entries[symbol], "", declaration, source)
    for expression, symbol in expressions.items():
        name = function_name(expression)
        declaration = source.by_expression.get(expression)
        results[name] = CompiledKernel(entries[symbol], name, declaration, source)
    return results


def _overload_names(name: str, overloads: Sequence[MangledName | None]) -> list[str]:
    """Return the names of the functions of one name, of several ones with their types."""
    if len(overloads) == 1:
        return [name]
    return [parts.signature() if parts is not None else name for parts in overloads]


#: A symbol, the kernel that the source declares, and the parts of the symbol.
_Match = tuple[str, "SourceKernel | None", "MangledName | None"]


def _matches(symbols: Iterable[str], source: SourceKernels) -> dict[str, list[_Match]]:
    """Return the symbols with their declarations, by the names of the functions in the order of the
    source.
    """
    by_signature = grouped((signature_key(symbol), symbol) for symbol in symbols)
    named: dict[str, list[_Match]] = {}
    # libclang may read another type, and so mangle another symbol. The name and the number of
    # parameters then identify the kernel.
    unmatched: dict[tuple[str, int], list[SourceKernel]] = {}
    for key, kernel in source.by_signature.items():
        if key not in by_signature:
            unmatched.setdefault((kernel.name, len(kernel.arguments)), []).append(kernel)
            continue
        for symbol in by_signature.pop(key):
            named.setdefault(kernel.name, []).append((symbol, kernel, parse_function(symbol)))
    # Instances of templates that the source requests, and kernels that libclang does not parse.
    for symbol in chain.from_iterable(by_signature.values()):
        name = symbol
        candidates: list[SourceKernel] = []
        parts = parse_function(symbol)
        if parts is not None:
            name = parts.name
            candidates = unmatched.get((name, len(parts.params)), [])
        declaration = source.by_expression.get(name)
        if len(candidates) == 1:
            declaration = candidates[0]
        named.setdefault(name, []).append((symbol, declaration, parts))
    return named


def _join(
    arguments: Sequence[Argument] | None, nodes: Sequence[TypeNode] | None, is_certain: bool
) -> Sequence[Argument] | None:
    """Return the arguments with the types of the compiler where libclang's are unknown or
    uncertain.
    """
    if _has_types(arguments, is_certain):
        return arguments
    if nodes is None:
        if is_certain or arguments is None:
            return arguments
        return [each.without_type() for each in arguments]
    if arguments is None or len(arguments) != len(nodes):
        return [mangled_argument("", node) for node in nodes]
    results = []
    for argument, node in zip(arguments, nodes, strict=True):
        other = mangled_argument(argument.param.name, node)
        # libclang's argument has the sizes and members of structs, which the compiler's name lacks.
        if argument.agrees(other):
            other = argument
        results.append(other)
    return results


def _place(argument: Argument, place: ParamPlace) -> Argument:
    """Return an argument with the alignment, and where it is unknown the type, of the binary."""
    param = argument.param
    is_struct = place.type in ("b8", "") and place.size > 0
    if not argument.type and is_struct:
        return bytes_argument(place, param.name)
    if not argument.type and argument.type_name and place.type[1:] in ("8", "16", "32", "64"):
        dtype = f"uint{place.type[1:]}"  # an enum
        return Argument(dtype, Param(param.name, "scalar", dtype))
    if param.align and param.kind == "scalar" and place.align:
        return argument.replace(param.replace(align=place.align))
    return argument


def _described(argument: Argument) -> str:
    return "a pointer" if argument.type == "handle" else argument.type


def _ptx_type(place: ParamPlace) -> str:
    if place.type == "b8":
        return f".align {place.align} .b8[{place.size}]"
    return f".{place.type}"


# -- Find the names of a kernel's parameters in the text, where libclang does not parse its
# declaration.


def parameter_names(text: str, expression: str) -> list[str]:
    """Return the names of the parameters of a kernel; [] if the text has no declaration that this
    function parses.

    Parameters
    ----------
    text
        The program.
    expression
        The kernel's qualified name, with template arguments where there are any.
    """
    name = expression.partition("<")[0].rpartition("::")[2].strip(" &(")
    if not name.isidentifier():
        return []
    kernel = re.compile(rf"\b__global__\b[^;{{}}]{{0,400}}?\b{name}\s*\(")
    for match in islice(kernel.finditer(text), _MAX_DECLARATIONS):
        start = match.end()
        pieces = split_arguments(_COMMENT.sub(" ", text[start : start + _MAX_LENGTH]))
        if not pieces:
            continue
        names = []
        for piece in pieces:
            found = _NAME.search(piece.partition("=")[0].rstrip())
            if found is not None:
                names.append(found[1])
        if len(names) == len(pieces) == len(set(names)):
            return names
    return []
