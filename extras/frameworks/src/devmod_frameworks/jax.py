"""Programs as functions of JAX: ``register(devmod.load("normalize.devmod"))`` has ``normalize``,
for `jax.jit` and `jax.grad`.

docs/frameworks.md has the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from operator import index
from types import SimpleNamespace
from typing import Any

import devmod
from devmod.backend import parse_dtype
from devmod_frameworks._programs import Program, not_importable, programs_of, rank_of
from devmod_readers.programs import Array, Scalar

try:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.custom_derivatives import SymbolicZero
except ImportError as error:
    raise not_importable("jax", "devmod-frameworks[jax]", error) from error

#: Stands for an argument that JAX passes to the callback. The others are numbers.
_OPERAND = None
_type_of = getattr(jax, "typeof", type)


def register(module: devmod.Module, device: devmod.Device | str | None = None) -> SimpleNamespace:
    """Return a namespace with a function for each program of a module.

    A function takes arrays and scalars as the program does, and returns arrays. The arrays are
    copied to a device of the file and back, in a callback of JAX. It runs under `jax.jit`;
    `jax.vmap` calls it once for each element. Its gradient is the program that the key ``backward``
    of the program names. Updates are not written in place: the function returns the new arrays
    after its outputs.

    Parameters
    ----------
    module
        The module of a file, as `devmod.load` returns it.
    device
        Where the programs run, such as "opencl:0". Default: the device that the file chooses.

    Raises
    ------
    FormatError
        The module has no programs, or one has a type, a name or gradients that a function cannot
        have.
    """
    programs = programs_of(module)
    functions: dict[str, _Function] = {}
    for name, program in programs.items():
        functions[name] = _Function(program, programs, functions, device)
    return SimpleNamespace(**functions)


@dataclass(frozen=True)
class _Callback:
    """What JAX calls. It compares callbacks, and compiles one for those that are equal: of one
    program with the same numbers.
    """

    function: _Function
    numbers: str
    static: tuple[Any, ...] = field(compare=False)

    def __call__(self, *operands: Any) -> tuple[Any, ...]:
        """Run the program."""
        return self.function.run_batch(self.static, *operands)


class _Function:
    """A program as a function."""

    def __init__(
        self,
        program: Program,
        programs: Mapping[str, Program],
        functions: Mapping[str, _Function],
        device: devmod.Device | str | None,
    ) -> None:
        self._program = program
        self._functions = functions
        self._device = device
        self._gradient = program.gradient(programs)
        self._types = {
            each.name: _numpy_type(program, each) for each in (*program.arrays, *program.outputs)
        }
        #: The places of the updates among the arguments, and the number of dimensions of each.
        self._updates = []
        self._ranks = []
        for place, each in enumerate(program.arguments):
            rank = 0
            if isinstance(each, Array):
                rank = rank_of(each)
                if each.role == "update":
                    self._updates.append(place)
            self._ranks.append(rank)
        self._function: Any = None
        self._run = jax.custom_vjp(self._call, nondiff_argnums=(0,))
        self._run.defvjp(self._forward, self._backward, symbolic_zeros=True)
        self.__name__ = self.__qualname__ = program.name
        #: For static_argnames of `jax.jit`, too.
        self.__signature__ = _signature(program)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run the program, or record it."""
        static, operands = self._bind(args, keywords)
        operands = _vary(operands, operands)
        try:
            results = self._run(static, *operands)
        except NotImplementedError:  # of `jax.shard_map` outside of jit: its tracers have no `custom_vjp` with symbolic zeros
            results = self._call(static, *operands)
        if len(results) == 1:
            return results[0]
        return results

    def _bind(
        self, args: Sequence[Any], keywords: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], list[Any]]:
        """Return the numbers, with _OPERAND for each other argument, and these others, after a
        check of types and dimensions.
        """
        program = self._program
        try:
            given = self.__signature__.bind(*args, **keywords)
        except TypeError as error:
            raise program.error(f"{error}; its arguments are {self.__signature__}") from None
        given.apply_defaults()
        static: list[Any] = []
        operands: list[Any] = []
        for each, value in zip(program.arguments, given.args, strict=True):
            if value is None:  # it has no default, and one before it has
                raise program.error(f"missing a required argument: {each.name!r}", each.name)
            if isinstance(each, Scalar) and getattr(value, "shape", ()) != ():
                raise program.error(
                    f"the argument {each.name!r}: an array of shape {value.shape} is not a number",
                    each.name,
                )
            if isinstance(each, Scalar) and not isinstance(value, jax.core.Tracer):
                if hasattr(value, "item"):
                    value = value.item()
                static.append(value)
                continue
            static.append(_OPERAND)
            operands.append(self._operand(each, value))
        return tuple(static), operands

    def _operand(self, argument: Array | Scalar, value: Any) -> Any:
        program = self._program
        name = argument.name
        if isinstance(argument, Scalar):
            if name in program.sizes:
                text = f"the argument {name!r} is traced, and shapes depend on it: pass a number of Python, or name it in static_argnames"
                raise program.error(text, name)
            is_integer = jnp.issubdtype(value.dtype, jnp.integer) or value.dtype == bool
            if argument.is_integer and not is_integer:
                raise program.error(
                    f"the argument {name!r} is {value.dtype}; expected an integer", name
                )
            return value
        if not hasattr(value, "dtype") or not hasattr(value, "shape"):
            raise program.error(
                f"the argument {name!r} is {type(value).__name__}; expected an array: jnp.asarray({name})",
                name,
            )
        program.check_array(
            argument, str(value.dtype), value.shape, f"{name}.astype(jnp.{argument.type})"
        )
        self._check_width(name)
        return value

    def _check_width(self, name: str) -> None:
        """Raise ArgumentError if JAX has elements of 64 bits only as 32, as it does by default."""
        dtype = self._types[name]
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            text = f"{name!r} is an array of {dtype}, which JAX has only after jax.config.update('jax_enable_x64', True)"
            raise self._program.error(text, name)

    def _call(self, static: tuple[Any, ...], *operands: Any) -> tuple[Any, ...]:
        """Return the outputs and the new arrays of updates."""
        results = self._results(static, operands)
        if not any(isinstance(each, jax.core.Tracer) for each in operands):
            # JAX would compile a callback.
            return tuple(map(jnp.asarray, self._run_here(static, *map(np.asarray, operands))))
        outputs = jax.pure_callback(
            _Callback(self, repr(static), static), results, *operands, vmap_method="expand_dims"
        )
        return tuple(_vary(outputs, operands))

    def _results(self, static: tuple[Any, ...], operands: Sequence[Any]) -> tuple[Any, ...]:
        """Return the shape and the type of each output and update, for operands without the axes of
        `jax.vmap`.
        """
        program = self._program
        values = _merge(static, operands)
        shapes = []
        scalars = {}
        for each, value in zip(program.arguments, values, strict=True):
            if isinstance(each, Array):
                shapes.append(value.shape)
            else:
                scalars[each.name] = value
        for name in program.sizes:
            scalars[name] = self._size(name, scalars[name])

        results = []
        output_shapes = program.output_shapes(shapes, scalars)
        for output, shape in zip(program.outputs, output_shapes, strict=True):
            self._check_width(output.name)
            results.append(jax.ShapeDtypeStruct(shape, self._types[output.name]))
        for place in self._updates:
            results.append(jax.ShapeDtypeStruct(values[place].shape, values[place].dtype))
        return tuple(results)

    def _size(self, name: str, value: Any) -> int:
        try:
            return index(value)
        except TypeError:
            raise self._program.error(
                f"the argument {name!r} is {value!r}; expected an integer", name
            ) from None

    def run_batch(self, static: tuple[Any, ...], *operands: Any) -> tuple[Any, ...]:
        """Run the program for each element of arrays of the host with the axes of `jax.vmap`: the
        callback.
        """
        arrays = [np.asarray(each) for each in operands]
        ranks = [rank for rank, value in zip(self._ranks, static, strict=True) if value is _OPERAND]
        outer = [each.shape[: each.ndim - rank] for each, rank in zip(arrays, ranks, strict=True)]
        if not any(outer):  # 15 µs before NumPy says the same
            return self._run_here(static, *arrays)
        lengths = np.broadcast_shapes(*outer)
        arrays = [
            np.broadcast_to(each, lengths + each.shape[each.ndim - rank :])
            for each, rank in zip(arrays, ranks, strict=True)
        ]
        structs = self._results(
            static, [np.empty(each.shape[len(lengths) :], each.dtype) for each in arrays]
        )
        results = tuple(np.empty(lengths + each.shape, each.dtype) for each in structs)
        for place in np.ndindex(lengths):
            values = self._run_here(static, *[each[place] for each in arrays])
            for result, value in zip(results, values, strict=True):
                result[place] = value
        return results

    def _run_here(self, static: tuple[Any, ...], *operands: Any) -> tuple[Any, ...]:
        """Run the program for arrays of the host."""
        values = _merge(static, operands)
        for place, each in enumerate(self._program.arguments):
            if isinstance(each, Scalar) and static[place] is _OPERAND:
                values[place] = values[place].item()
        for place in self._updates:
            values[place] = values[place].copy()
        if self._function is None:
            self._function = self._program.function(self._device)
        results = self._function(*values)
        updated = [values[place] for place in self._updates]
        if results is None:
            return tuple(updated)
        if isinstance(results, tuple):
            return (*results, *updated)
        return (results, *updated)

    def _forward(self, static: tuple[Any, ...], *given: Any) -> tuple[tuple[Any, ...], Any]:
        """Run the program, and keep what its gradient takes."""
        program = self._program
        gradient = self._gradient
        for each, argument in zip(_merge(static, given), program.arguments, strict=True):
            name = argument.name
            if not getattr(each, "perturbed", False) or (
                gradient is not None and f"grad_{name}" in gradient.results
            ):
                continue
            reason = "the program has no 'backward'"
            if program.definition.backward:
                reason = f"the backward {program.definition.backward!r} has no 'grad_{name}'"
            raise program.error(
                f"a gradient by the argument {name!r} is asked for, and {reason}: pass jax.lax.stop_gradient({name})",
                name,
            )
        operands = [each.value for each in given]
        results = self._call(static, *operands)
        kept = {"input": _merge(static, operands), "output": results}
        if gradient is None:
            return results, []
        return results, [kept[role][number] for role, number in gradient.sources if role != "grad"]

    def _backward(
        self, static: tuple[Any, ...], kept: Sequence[Any], grads: Sequence[Any]
    ) -> tuple[Any, ...]:
        """Return the gradients by the operands, for those by the results."""
        if self._gradient is None:  # no operand is differentiated, as `_forward` has checked
            return tuple(None for each in static if each is _OPERAND)
        others = iter(kept)
        args = []
        for role, number in self._gradient.sources:
            if role != "grad":
                args.append(next(others))
                continue
            grad = grads[number]
            if isinstance(grad, SymbolicZero):
                grad = jnp.zeros(grad.shape, grad.dtype)
            args.append(grad)
        results = self._functions[self._program.definition.backward](*args)
        if not isinstance(results, (tuple, list)):
            results = (results,)
        named = dict(zip(self._gradient.results, results, strict=True))
        given = zip(self._program.arguments, static, strict=True)
        return tuple(named.get(f"grad_{each.name}") for each, value in given if value is _OPERAND)


def _vary(arrays: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    """Return arrays that vary over each axis of a mesh over which an operand varies, as the types
    in `jax.shard_map` have it.

    The gradient of an operand that varies over fewer axes is then a sum over the others. Older
    versions of JAX have no such types.
    """

    def axes_of(array: Any) -> frozenset[str]:
        return getattr(getattr(_type_of(array), "manual_axis_type", None), "varying", frozenset())

    axes = frozenset[str]().union(*map(axes_of, operands))
    return [
        jax.lax.pcast(each, tuple(axes - axes_of(each)), to="varying")
        if axes - axes_of(each)
        else each
        for each in arrays
    ]


def _merge(static: Sequence[Any], operands: Any) -> list[Any]:
    """Return the arguments in order, of the numbers and the others."""
    others = iter(operands)
    return [next(others) if each is _OPERAND else each for each in static]


def _signature(program: Program) -> Signature:
    """Return the parameters of a function. After one with a default, None is that of a required
    one: Python has no other.
    """
    parameters: list[Parameter] = []
    default: Any = Parameter.empty
    for each in program.arguments:
        own = getattr(each, "default", None)
        default = own if own is not None else default if default is Parameter.empty else None
        parameters.append(Parameter(each.name, Parameter.POSITIONAL_OR_KEYWORD, default=default))
    return Signature(parameters)


def _numpy_type(program: Program, array: Array) -> Any:
    try:
        result = jnp.dtype(array.type)
    except TypeError:
        result = None
    if result is None or result.itemsize * 8 != parse_dtype(array.type)[1]:
        raise program.format_error(
            f"{array.name!r} is an array of {array.type}, which JAX does not have"
        )
    return result
