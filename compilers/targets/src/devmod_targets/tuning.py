"""The variants of a tuned function: `tune`, `constraints`, `sizes`, `grid` and `block` of
`devmod.compile`.

Each variant is compiled. Where the receiver can set the constants, the payload of the first one
stands for all of them: a source with a C preprocessor has them as defines, a shader as constants of
its pipeline. Other payloads are candidates, and equal ones are one candidate with several variants.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any, NamedTuple

from devmod import FunctionInfo, Interface
from devmod.backend import (
    COMPARISONS,
    MAX_VARIANTS,
    TUNED,
    Expression,
    ExpressionError,
    PipelineConstant,
    Variant,
    constants_of,
    evaluate,
    integer_arguments,
    names_in,
    read_expression,
    tuning_of,
    variant_interface,
)
from devmod.errors import (
    ArgumentError,
    CompileError,
    FormatError,
    ToolchainNotFoundError,
    list_names,
)
from devmod_targets._arguments import Arguments
from devmod_targets.authoring import CompileRequest, Payload

Constant = bool | int | float | str
Constants = Mapping[str, Constant]
_Names = tuple[str, ...]
_Compile = Callable[[CompileRequest], Payload]
_Configurations = Callable[[CompileRequest], tuple[list[dict[str, Any]], _Names]]
#: The most combinations of values that the constraints are for.
_MAX_COMBINATIONS = 1_000_000
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
#: The constants of a Triton function that are options of its compile.
TRITON_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


def compile_variants(
    request: CompileRequest,
    given: Arguments,
    compile_one: _Compile,
    configurations: _Configurations | None,
) -> list[Payload]:
    """Compile each variant of a source, and return the payloads with the tuned functions: one if
    the receiver can set the constants, else one for all variants with equal ones.

    Parameters
    ----------
    request, given
        The request, and the arguments of `devmod.compile`.
    compile_one
        Compiles a request. Its functions have the expressions of `grid` and `block` in their key
        ``tune``.
    configurations
        Returns the variants that the source has itself, and the sizes that decide; None for a
        language without them.

    Raises
    ------
    CompileError
        A variant does not compile, and a note names it; or an argument is invalid.
    """
    keys: _Names = ()
    variants: Sequence[dict[str, Constant]] = ()
    if given.tune:
        variants = _read_variants(given.tune, given.constraints)
    elif configurations is not None:
        variants, keys = configurations(request)
    if not variants:
        return [_plain_payload(request, given, compile_one)]
    for name in variants[0]:
        if name in request.defines:
            raise request.error(
                f"the constant {name!r} is in tune= and in defines=; expected one of them",
                argument="tune",
            )
    shader = None
    if request.spec.shader_map:
        shader = _shader(request, compile_one)

    def compile_variant(constants: Constants) -> Payload:
        return compile_one(_with_constants(request, constants))

    return join_variants(request, given, compile_variant, variants, keys, shader)


def join_variants(
    request: CompileRequest,
    given: Arguments,
    compile_variant: Callable[[Constants], Payload],
    variants: Sequence[Constants],
    keys: Sequence[str] = (),
    shader: Payload | None = None,
) -> list[Payload]:
    """Compile variants, and return the payloads with the tuned functions.

    Parameters
    ----------
    request, given
        The request, for messages, and the arguments of `devmod.compile`, for `sizes` and `grid`.
    compile_variant
        Compiles a variant, given its constants.
    variants
        The constants of each variant.
    keys
        The sizes without the argument `sizes`, as far as they are integer arguments.
    shader
        The payload without the constants, whose pipelines may have them.
    """
    sizes = _texts("sizes", given.sizes)
    build = _Build(request, compile_variant, variants, sizes or keys, has_grid=bool(given.grid))
    payloads = build.payloads(shader)
    for name in sizes:
        if name not in build.sizes_found:
            raise request.error(
                f"sizes= has {name!r}, which is no integer argument of the source's functions",
                argument="sizes",
            )
    return payloads


def _plain_payload(request: CompileRequest, given: Arguments, compile_one: _Compile) -> Payload:
    """Return the payload of a source without variants, which no argument may be for."""
    for argument in ("constraints", "sizes", "grid", "block"):
        value = getattr(given, argument)
        if value and (argument != "block" or isinstance(value, str)):
            raise request.error(
                f"{argument}= is for a tuned function: pass tune= too",
                argument=argument,
            )
    return compile_one(request)


def _shader(request: CompileRequest, compile_one: _Compile) -> Payload | None:
    """Return the payload without the constants; None for a source that needs them as macros."""
    try:
        return compile_one(request)
    except ToolchainNotFoundError:
        raise
    except CompileError:
        return None


def _with_constants(request: CompileRequest, constants: Constants) -> CompileRequest:
    """Return the request of a variant, whose constants are macros, or options of Triton."""
    from devmod_readers.source_constants import source_literal

    defines = dict(request.defines)
    options = list(request.options)
    for name, value in constants.items():
        if request.language != "Triton":
            try:
                defines[name] = source_literal(request.target.kind, name, value)
            except ArgumentError as error:
                raise request.error(f"tune= is invalid: {error}", argument="tune") from None
        elif name in TRITON_OPTIONS:
            options.append(f"{name}={value}")
        else:
            defines[name] = str(value)
    return request.replace(defines=defines, options=options)


# -- the arguments


def _read_variants(tune: Any, constraints: Any) -> list[dict[str, Constant]]:
    """Return the constants of each variant: the combinations of values that meet the
    constraints.
    """
    if not hasattr(tune, "items"):
        raise _error("tune", "a map of constants to lists of values", tune)
    for name, values in tune.items():
        if not _NAME.fullmatch(str(name)) or not isinstance(values, (list, tuple)):
            raise _error("tune", "constants with lists of values, such as {'BLOCK': [64]}", tune)
    count = math.prod(map(len, tune.values()))
    tests = [_constraint(tune, text) for text in _texts("constraints", constraints)]
    variants = []
    if count <= _MAX_COMBINATIONS:
        for values in product(*tune.values()):
            constants = dict(zip(tune, values, strict=True))
            if all(test(constants) for test in tests):
                variants.append(constants)
        count = len(variants)
    if not 0 < count <= MAX_VARIANTS:
        raise CompileError(
            f"tune= has {count:,} variants that meet constraints=; expected 1 to {MAX_VARIANTS:,}",
            argument="tune",
        )
    return variants


def _error(argument: str, expected: str, value: object) -> CompileError:
    return CompileError(f"{argument}=: expected {expected}, got {value!r:.200}", argument=argument)


def _texts(argument: str, values: Any) -> _Names:
    values = values or ()
    if not isinstance(values, (list, tuple)) or not all(isinstance(each, str) for each in values):
        raise _error(argument, "a list of strings", values)
    return tuple(values)


def _constraint(names: Iterable[str], text: str) -> Callable[[dict[str, Constant]], bool]:
    """Return whether constants meet a constraint, as a function."""
    from devmod_targets._program_text import parse_comparisons

    try:
        comparisons = parse_comparisons(text)
    except ValueError as error:
        raise CompileError(f"constraints=: {text!r} {error}", argument="constraints") from None
    for _, left, right in comparisons:
        for name in {*names_in(left), *names_in(right)}.difference(names):
            raise CompileError(
                f"constraints=: {text!r} has the unknown name {name!r}; the constants are {list_names(names)}",
                argument="constraints",
            )

    def test(constants: dict[str, Any]) -> bool:
        for name, left, right in comparisons:
            try:
                sides = evaluate(left, {**constants}), evaluate(right, {**constants})
                if not COMPARISONS[name](*sides):
                    return False
            except (ExpressionError, TypeError) as error:
                raise CompileError(
                    f"constraints=: {text!r} has no value for {_label(constants)}: {error}",
                    argument="constraints",
                ) from None
        return True

    return test


def read_expressions(argument: str, subject: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the expressions of a grid or a block, as files have them."""
    from devmod_targets._program_text import parse_integer

    if not 1 <= len(values) <= 3:
        raise CompileError(
            f"{subject}: expected one to three expressions, got {len(values)}", argument=argument
        )
    try:
        return tuple(_as_list(parse_integer(each)) for each in values)
    except ValueError as error:
        raise CompileError(f"{subject}: {error}", argument=argument) from None


def _as_list(expression: Expression) -> Any:
    if isinstance(expression, tuple):
        return [*map(_as_list, expression)]
    return expression


def _label(constants: Constants) -> str:
    """Return a variant for a message: ``BLOCK=64, TILE=2``."""
    return ", ".join(f"{name}={value}" for name, value in constants.items())


@contextmanager
def _naming(constants: Constants) -> Iterator[None]:
    """Add a note of the variant to an error of its compile."""
    try:
        yield
    except ToolchainNotFoundError:
        raise
    except CompileError as error:
        error.add_note(f"The variant was {_label(constants)}")
        raise


# -- the payloads


class _Variant(NamedTuple):
    """A variant that has been compiled."""

    constants: Constants
    payload: Payload


class _Build:
    """The compiles of one source.

    Attributes
    ----------
    sizes_found
        The sizes that are arguments of a function.
    """

    def __init__(
        self,
        request: CompileRequest,
        compile_variant: Callable[[Constants], Payload],
        variants: Sequence[Constants],
        sizes: Sequence[str],
        *,
        has_grid: bool,
    ) -> None:
        self._has_grid = has_grid
        self._request = request
        self._compile_variant = compile_variant
        self._variants = variants
        self._names = list(variants[0])
        self._sizes = sizes
        self.sizes_found: set[str] = set()

    def payloads(self, shader: Payload | None) -> list[Payload]:
        if shader is not None:
            tuned = self._with_pipeline_constants(shader)
            if tuned is not None:
                return [tuned]
        variants = []
        for constants in self._variants:
            with _naming(constants):
                variants.append(_Variant(constants, self._compile_variant(constants)))
        first = variants[0].payload
        if self._request.language == "Triton" and not self._has_grid:
            self._check_triton_constants()
        if first.fmt in self._request.spec.source_formats and first.fmt != "wgsl":
            self._check_source(first)
            return [self._tuned(variants, specialized=True)]

        groups = _equal_payloads(variants)
        decides = _launch_names(first).intersection(self._names)
        if len(groups) == 1 and len(variants) > 1 and not decides:
            raise self._error(
                f"has no effect: the payloads of all variants are equal. Use {list_names(self._names)} in the source"
            )
        return [self._tuned(group) for group in groups]

    def _error(self, text: str, function: str = "") -> CompileError:
        return self._request.error(f"tune= {text}", function=function, argument="tune")

    def _check_source(self, payload: Payload) -> None:
        """Check that the receiver can set the constants in a source, or needs them for a launch."""
        from devmod_readers.source_constants import specialize_source, unused_constants

        codes: list[Any] = [payload.code]
        if isinstance(payload.code, Mapping):
            codes = [*payload.code.values()]
        unused = set(self._names).difference(_launch_names(payload))
        for code in codes:
            text = bytes(code).decode()
            unused.intersection_update(unused_constants(text, unused))
            try:
                specialize_source(payload.kind, text, self._variants[0])
            except ArgumentError as error:
                raise self._error(f"is invalid: {error}") from None
        for name in unused:
            raise self._error(f"has {name!r}, which neither the source nor grid= and block= use")

    def _tuned(self, variants: Sequence[_Variant], *, specialized: bool = False) -> Payload:
        """Return the payload of the first variant, with all of them in its functions."""
        first = variants[0].payload
        fmap = {}
        files: dict[str, str] | None = {}
        for name in first.fmap:
            fmap[name] = self._tuned_function(name, variants, specialized=specialized)
        for _, payload in variants:
            if payload.files is None or files is None:
                files = None
            else:
                files |= payload.files
        return first.replace(fmap=fmap, files=files)

    def _tuned_function(
        self, name: str, variants: Sequence[_Variant], *, specialized: bool
    ) -> FunctionInfo:
        first = variants[0].payload.fmap[name]
        if first.interface is None:
            raise self._error(
                f"needs the interface of {name!r}, and the compiler found none: declare it with fmap=",
                name,
            )
        bare = first.replace(interface=None)
        maps = []
        for constants, payload in variants:
            info = payload.fmap.get(name)
            if info is None or info.interface is None or info.replace(interface=None) != bare:
                with _naming(constants):
                    raise self._error(
                        f"is invalid: the function {name!r} of a variant takes other arguments than that of the first variant",
                        name,
                    )
            each: dict[str, Any] = {"values": [*constants.values()]}
            if info.interface != first.interface:
                each["interface"] = _plain(info.interface).to_dict()
            maps.append(each)

        tune: dict[str, Any] = {"constants": self._names, "variants": maps}
        if specialized:
            tune["specialized"] = True
        known = integer_arguments(first.interface)
        sizes = [each for each in self._sizes if each in known]
        if sizes:
            tune["sizes"] = sizes
            self.sizes_found.update(sizes)
        tune |= _expressions(first)
        interface = first.interface.replace(
            extra={**first.interface.extra, "tune": tune}, needs=(*first.interface.needs, TUNED)
        )
        self._check_launches(name, interface)
        return first.replace(interface=interface)

    def _check_launches(self, name: str, interface: Interface) -> None:
        """Check the expressions of a function, and the block of each variant."""
        try:
            tuning = tuning_of(interface)
            assert tuning is not None
            for variant in tuning.variants:
                with _naming(variant.constants):
                    self._check_launch(name, variant, variant_interface(interface, variant))
        except FormatError as error:
            raise self._error(f"of {name!r} is invalid: {error}", name) from None

    def _check_launch(self, name: str, variant: Variant, interface: Interface) -> None:
        def fail(text: str) -> CompileError:
            return self._request.error(
                f"block= of {name!r} {text}", function=name, argument="block"
            )

        try:
            block = variant.block_of()
        except ExpressionError as error:
            raise fail(f"is invalid: {error}") from None
        threads = (*block, 1, 1)[:3]
        if block and interface.block not in (None, threads):
            raise fail(
                f"is {threads}, and the source fixes blocks of {interface.block} threads. Leave block= out"
            )
        known = block or interface.block or interface.default_block
        if variant.grid and not known and self._request.spec.has_grid:
            raise fail("is missing: grid= counts blocks. Pass it, such as block='BLOCK'")

    def _check_triton_constants(self) -> None:
        """Check that no constant of a function without a grid may decide it."""
        for name in self._names:
            values = {each[name] for each in self._variants}
            if len(values) > 1 and name not in TRITON_OPTIONS:
                raise self._request.error(
                    f"the variants have different values of {name!r}, and no grid: pass grid=, such as grid='ceildiv(n, {name})'",
                    argument="grid",
                )

    def _with_pipeline_constants(self, payload: Payload) -> Payload | None:
        """Return the payload of shaders whose pipelines have the constants; None if they have none
        of them.
        """
        fmap = dict(payload.fmap)
        tuned = False
        for name, info in payload.fmap.items():
            known = {each.name: each for each in constants_of(info.interface)}
            missing = [each for each in self._names if each not in known]
            if len(missing) == len(self._names):
                if info.interface is not None:
                    fmap[name] = info.replace(interface=_plain(info.interface))
                continue
            if missing:
                raise self._error(
                    f"has {missing[0]!r}, and the {payload.kind} function {name!r} has the constants {list_names(known)}. Declare all "
                    "of tune= in the shader, or none",
                    name,
                )
            variants = []
            for constants in self._variants:
                values = {known[key]: value for key, value in constants.items()}
                with _naming(constants):
                    own = _with_values(payload, self._request, name, info, values)
                variants.append(_Variant(constants, payload.replace(fmap={name: own})))
            fmap[name] = self._tuned_function(name, variants, specialized=True)
            tuned = True
        if not tuned:
            return None
        return payload.replace(fmap=fmap)


def _launch_names(payload: Payload) -> set[str]:
    """Return the names in the expressions of a payload's functions."""
    names: set[str] = set()
    for info in payload.fmap.values():
        for expressions in _expressions(info).values():
            for each in expressions:
                names.update(names_in(read_expression(each)))
    return names


def _expressions(info: FunctionInfo) -> dict[str, list[Any]]:
    """Return the expressions of a function by their key."""
    if info.interface is None:
        return {}
    tune = info.interface.extra.get("tune", {})
    return {key: tune[key] for key in ("grid", "block") if key in tune}


def _plain(interface: Interface) -> Interface:
    """Return an interface without the key ``tune``, which has the expressions."""
    return variant_interface(interface, Variant({}))


def _equal_payloads(variants: Iterable[_Variant]) -> list[list[_Variant]]:
    """Return groups of variants with equal payloads, in the order of the first ones."""
    groups: list[list[_Variant]] = []
    for variant in variants:
        for group in groups:
            other = group[0].payload
            if other.code == variant.payload.code and other.fmap == variant.payload.fmap:
                group.append(variant)
                break
        else:
            groups.append([variant])
    return groups


# -- constants of a pipeline


def _check_value(request: CompileRequest, constant: PipelineConstant, value: Constant) -> None:
    """Check that a value has the type of a constant."""
    import numpy as np

    try:
        fits = bool(np.dtype(constant.type).type(value) == value)
    except (TypeError, ValueError, OverflowError):
        fits = False
    if constant.type.startswith("float"):
        fits = type(value) in (int, float)
    if not fits:
        raise request.error(
            f"tune=: the constant {constant.name!r} has the type {constant.type}, and cannot be {value!r}",
            argument="tune",
        )


def _with_values(
    payload: Payload,
    request: CompileRequest,
    name: str,
    info: FunctionInfo,
    values: Mapping[PipelineConstant, Constant],
) -> FunctionInfo:
    """Return a function with the block and the shared memory that follow from values of its
    constants.
    """
    for constant, value in values.items():
        _check_value(request, constant, value)
    interface = info.interface
    assert interface is not None  # it has the constants
    assert isinstance(payload.code, Mapping)
    code = bytes(payload.code[name])
    if payload.fmt == "spv":
        block, memory = _spirv_sizes(request, info.name, code, values)
    elif payload.fmt == "wgsl":
        from devmod_wgsl import read_wgsl

        by_name = {each.name: value for each, value in values.items()}
        shader = read_wgsl(code.decode(), name, by_name)[info.name]
        block, memory = shader.block, shader.extra.get("workgroup_memory", 0)
    else:
        return info
    extra = dict(interface.extra)
    if memory or "workgroup_memory" in extra:
        extra["workgroup_memory"] = memory
    return info.replace(interface=interface.replace(block=block, extra=extra))


def _spirv_sizes(
    request: CompileRequest, entry: str, code: bytes, values: Mapping[PipelineConstant, Constant]
) -> tuple[tuple[int, int, int] | None, int]:
    from devmod_readers.spirv import SpirvConstants, read_module, reflect

    assert request.spec.pack is not None
    module = read_module(request.spec.pack(code))
    by_number: dict[int, Any] = {}
    for each, value in values.items():
        if each.id is not None:
            by_number[each.id] = value
    constants = SpirvConstants(module, by_number)
    shaders = reflect(module, request.name, include_unused=False, constants=constants)
    shader = next(each for each in shaders if each.symbol == entry)
    return shader.block, shader.workgroup_memory
