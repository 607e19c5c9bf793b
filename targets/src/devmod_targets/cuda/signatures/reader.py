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
        # Without reflection, empty fields of a declared function cannot be filled in. nvcc has no
        # symbols of name expressions.
        if (
            not request.fmap
            or not all(info.arg_types for info in request.fmap.values())
            or (preprocessed and request.name_expressions)
        ):
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
    declared = {info.name for info in (request.fmap or {}).values()}
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
    expressions = list(binaries[0][1])
    target = next(
        (match[1] for ptx, _, _ in binaries if (match := _TARGET.search(ptx))), _DEFAULT_ARCH
    )
    named = {symbol for _, lowered, _ in binaries for symbol in lowered.values()}
    expressions += source_instances(
        sorted({symbol for _, _, kernels in binaries for symbol in kernels} - named)
    )
    if early is not None and {*expressions} <= {*_expected_instances(request, source)}:
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
    doubtful = {
        kernel.expression: None
        for kernels in matched
        for kernel in kernels.values()
        if kernel.needs_probe
    }
    types = (
        _probe(request, source, [*source.options, f"-arch=sm_{target}"], doubtful)
        if doubtful and preprocessed is None
        else {}
    )
    open_names = open_kernels(source.text) if source_kernels.is_complete else set()
    declared = {
        info.name: len(info.arg_types) for info in (request.fmap or {}).values() if info.arg_types
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


#: The symbols of the kernels that Thrust and CUB launch from host code. They contain the
#: architecture.
_OF_HEADERS = re.compile(r"_ZN(?:3cub|6thrust)\d")


def own_kernels(ptx: str, *, is_nvcc: bool) -> dict[str, KernelEntry]:
    """Return the kernels of a binary by symbol, for nvcc without those that the host code of
    NVIDIA's headers launches.
    """
    return {
        symbol: entry
        for symbol, entry in read_ptx(ptx).items()
        if not (is_nvcc and _OF_HEADERS.match(symbol))
    }


def _macros(target: str, version: tuple[int, int]) -> list[tuple[str, str]]:
    """Return the macros that NVRTC predefines for an architecture."""
    major, minor = version
    return [
        ("__CUDA_ARCH__", f"{target}0"),
        ("__CUDA_ARCH_LIST__", f"{target}0"),
        ("__CUDACC_VER_MAJOR__", str(major)),
        ("__CUDACC_VER_MINOR__", str(minor)),
        ("CUDART_VERSION", str(major * 1000 + minor * 10)),
    ]


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
    types = {names[name]: parse_signature(symbol) for name, symbol in program.lowered.items()}
    return {name: each for name, each in types.items() if each is not None}


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

    __slots__ = (
        "_arguments",
        "_declaration",
        "_entry",
        "_is_certain",
        "_nodes",
        "_source",
        "_text",
        "expression",
        "needs_probe",
    )

    def __init__(
        self,
        entry: KernelEntry,
        expression: str,
        declaration: SourceKernel | None,
        source: SourceKernels,
    ) -> None:
        self._entry, self._declaration = entry, declaration
        parts = parse_function(entry.name)
        self.expression = (
            expression
            or (declaration.name if declaration is not None else "")
            or (parts.name if parts else entry.name)
        )
        #: The types in the symbol. Those of a template may depend on its arguments in ways that the
        #: symbol does not resolve.
        self._nodes = parts.params if parts is not None else None
        self._arguments: list[Argument] | None = None
        # The compiler's symbol contains the types, and libclang's symbol is equal.
        same_symbol = (
            declaration is not None
            and not declaration.is_c
            and not declaration.is_template
            and declaration.signature() == signature_key(entry.name)
        )
        self._is_certain = declaration is not None and (
            same_symbol or source.has_certain_types(declaration)
        )
        self._text, self._source = source.text, source
        if declaration is not None:
            self._arguments = [
                clang_argument(
                    argument, name, source.unknown, source.is_certain, source.known_types
                )
                for argument, name in zip(
                    declaration.arguments, declaration.parameter_names(source.library), strict=True
                )
            ]
        has_types = (
            self._is_certain
            and self._arguments is not None
            and all(each.type for each in self._arguments)
        )
        self.needs_probe = not has_types and self._nodes is None

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
        entry, declaration = self._entry, self._declaration
        fitted = self._fit(
            _join(self._arguments, nodes or self._nodes, self._is_certain), entry.name in declared
        )
        if declaration is not None and any(each.param.access == "r" for each in fitted):
            name, written = declaration.cursor.spelling, self._source.written_parameters
            fitted = [
                each.replace(written_param(each.param, (name, number), written))
                for number, each in enumerate(fitted)
            ]
        if declared.get(entry.name, 0) != len(fitted):
            fitted = self._with_images(fitted, uses)
        is_tensor_map = [each.is_tensor_map for each in fitted]
        function = ReflectedFunction(
            entry.name,
            ["handle" if each.is_tensor_map else each.type for each in fitted],
            [each.param for each in fitted],
            location=declaration.location if declaration is not None else "the binary",
            open_block=declaration is not None and declaration.cursor.spelling in open_names,
            extra_tags=[TENSOR_MAP_TAG * each for each in is_tensor_map]
            if any(is_tensor_map)
            else (),
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
            if size in (0, place.size):
                results.append(_place(argument, place))
            elif is_certain:
                name = f" ({argument.param.name!r})" if argument.param.name else ""
                raise self._contradiction(
                    f"takes argument {number}{name} as {_described(argument)} of {size} bytes in the source, and as {_ptx_type(place)} of "
                    f"{place.size} bytes in its PTX"
                )
            else:
                results.append(_place(argument.without_type(), place))
        return results

    def _with_images(
        self, arguments: list[Argument], uses: Mapping[str, ObjectUse]
    ) -> list[Argument]:
        """Return the arguments with images and samplers in place of the objects of textures and
        surfaces.
        """
        names = [
            object_type(each.type)
            for each in (self._declaration.arguments if self._declaration is not None else ())
        ]
        if len(names) != len(arguments) or not any(names):
            return arguments
        results = []
        for number, (argument, name) in enumerate(zip(arguments, names, strict=True)):
            use = use_of(uses, self._entry.name, number)
            params = (
                object_params(argument.param.name, number, name, use)
                if name and argument.type == "uint64"
                else None
            )
            results += (
                [argument] if params is None else [Argument("handle", each) for each in params]
            )
        return results

    def _contradiction(self, problem: str) -> CompileError:
        location = f" at {self._declaration.location}" if self._declaration is not None else ""
        return CompileError(
            f"the cuda kernel {self.expression!r}{location} {problem}. libclang and NVRTC read the source differently. Declare the "
            "kernel in fmap= with its arg_types",
            kind="cuda",
            function=self.expression,
        )


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
    by_signature = grouped(
        (signature_key(symbol), symbol) for symbol in entries if symbol not in named_symbols
    )
    ordered = [
        (symbol, kernel)
        for key, kernel in source.by_signature.items()
        for symbol in by_signature.pop(key, ())
    ]
    # libclang may read another type, and so mangle another symbol. The name and the number of
    # parameters then identify the kernel.
    matched = {id(kernel) for _, kernel in ordered}
    others = (kernel for kernel in source.by_signature.values() if id(kernel) not in matched)
    unmatched = grouped(((kernel.name, len(kernel.arguments)), kernel) for kernel in others)
    results: dict[str, CompiledKernel] = {}
    named: dict[str, list[tuple[str, SourceKernel | None, MangledName | None]]] = {}
    for symbol, kernel in ordered:
        named.setdefault(kernel.name, []).append((symbol, kernel, parse_function(symbol)))
    for symbol in (symbol for symbols in by_signature.values() for symbol in symbols):
        parts = parse_function(symbol)
        # An instance of a template that the source requests, or a kernel that libclang does not
        # parse.
        name = parts.name if parts is not None else symbol
        candidates = unmatched.get((name, len(parts.params)), []) if parts is not None else []
        declaration = candidates[0] if len(candidates) == 1 else source.by_expression.get(name)
        named.setdefault(name, []).append((symbol, declaration, parts))
    for name, overloads in named.items():
        keys = [
            parts.signature() if len(overloads) > 1 and parts is not None else name
            for _, _, parts in overloads
        ]
        for key, (symbol, declaration, _) in zip(keys, overloads, strict=True):
            # Instances for two overloads of a function have one spelling, such as
            # ``map<&twice>(float*, int)``.
            results[symbol if keys.count(key) > 1 else key] = CompiledKernel(
                entries[symbol], "", declaration, source
            )
    for expression, symbol in expressions.items():
        name = function_name(expression)
        results[name] = CompiledKernel(
            entries[symbol], name, source.by_expression.get(expression), source
        )
    return results


def _join(
    arguments: Sequence[Argument] | None, nodes: Sequence[TypeNode] | None, is_certain: bool
) -> Sequence[Argument] | None:
    """Return the arguments with the types of the compiler where libclang's are unknown or
    uncertain.
    """
    if nodes is None or (
        is_certain and arguments is not None and all(each.type for each in arguments)
    ):
        return (
            arguments
            if is_certain or arguments is None
            else [each.without_type() for each in arguments]
        )
    if arguments is None or len(arguments) != len(nodes):
        return [mangled_argument("", node) for node in nodes]
    results = []
    for argument, node in zip(arguments, nodes, strict=True):
        other = mangled_argument(argument.param.name, node)
        # libclang's argument has the sizes and members of structs, which the compiler's name lacks.
        results.append(argument if argument.agrees(other) else other)
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
    return f".{place.type}" if place.type != "b8" else f".align {place.align} .b8[{place.size}]"


# -- Find the names of a kernel's parameters in the text, where libclang does not parse its
# declaration.


_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_NAME = re.compile(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*\Z")
#: The limits on the declarations of one name, and on the characters of one.
_MAX_DECLARATIONS, _MAX_LENGTH = 64, 1 << 14


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
    for number, match in enumerate(
        re.finditer(rf"\b__global__\b[^;{{}}]{{0,400}}?\b{name}\s*\(", text)
    ):
        if number == _MAX_DECLARATIONS:
            break
        pieces = split_arguments(_COMMENT.sub(" ", text[match.end() : match.end() + _MAX_LENGTH]))
        names = [
            found[1]
            for piece in pieces or ()
            if (found := _NAME.search(piece.partition("=")[0].rstrip())) is not None
        ]
        if pieces and len(names) == len(pieces) == len({*names}):
            return names
    return []
