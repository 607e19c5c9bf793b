"""Programs as operations of PyTorch: ``register(devmod.load("normalize.devmod"), "mylib")`` makes
``torch.ops.mylib.normalize``.

docs/frameworks.md has the rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import devmod
from devmod.backend import RLock
from devmod.errors import ArgumentError
from devmod_frameworks._programs import (
    Program,
    identity_of,
    new_programs,
    not_importable,
    programs_of,
)
from devmod_readers.programs import OPERATORS, Array, Gradient, Scalar
from devmod_runtime import fork_safe

try:
    import torch
    from torch.autograd import forward_ad
except ImportError as error:
    raise not_importable("torch", "devmod-frameworks[torch]", error) from error

#: The operators of shapes for symbolic integers.
_SYMBOLIC = {
    **OPERATORS,
    "min": lambda *values: _fold(torch.sym_min, values),
    "max": lambda *values: _fold(torch.sym_max, values),
}
#: The shapes whose results are kept for each program.
_MAX_SHAPES = 64
#: For each namespace the place, the identity and the options of the file of each program.
_registered: dict[str, dict[str, tuple[str, object]]] = {}
#: The operations exist as long as these objects.
_libraries: list[Any] = []
_lock = fork_safe(RLock())


def register(
    module: devmod.Module,
    namespace: str,
    device: devmod.Device | str | None = None,
    strict: bool = False,
) -> Any:
    """Make an operation of each program of a module: ``torch.ops.<namespace>.<program>``.

    An operation takes CUDA tensors (of ROCm builds too), or CPU tensors, which are copied to a
    device of the file and back. It runs under `torch.compile` and `torch.export`. Its gradient is
    the program that the key ``backward`` of the program names.

    Parameters
    ----------
    module
        The module of a file, as `devmod.load` returns it.
    namespace
        The name behind ``torch.ops``. Several files may share one, if their programs have different
        names.
    device
        Where CPU tensors are computed, such as "opencl:0". Default: the device that the file
        chooses.
    strict
        Refuse tensors that are not contiguous. Default: they are copied.

    Returns
    -------
    namespace
        ``torch.ops.<namespace>``. A second call with the same file and options registers nothing.

    Raises
    ------
    FormatError
        The module has no programs, or one has a type, a name or gradients that an operation cannot
        have. Nothing is registered.
    ArgumentError
        The namespace is no identifier, or it has an operation of such a name already.
    """
    if not isinstance(namespace, str) or not (namespace.isascii() and namespace.isidentifier()):
        raise ArgumentError(
            f"register: the namespace is {namespace!r}; expected an identifier, such as 'mylib'",
            argument="namespace",
        )
    programs = programs_of(module)
    digest = identity_of(module)
    identity = digest, str(device or ""), bool(strict)
    operations = {}
    for name, each in programs.items():
        parts = each.gradient(programs)
        gradient = None
        if parts:
            gradient = _Gradient(each, parts, namespace)
        operations[name] = _Operation(each, gradient, digest, device, strict)
    with _lock:
        known = _registered.setdefault(namespace, {})
        found = getattr(torch.ops, namespace)
        names = new_programs(
            known, programs, identity, lambda name: hasattr(found, name), f"torch.ops.{namespace}"
        )
        library = torch.library.Library(namespace, "FRAGMENT")
        for name in names:
            operation = operations[name]
            _define(library, namespace, name, operation)
            operation.overload = getattr(found, name).default
        _libraries.append(library)
        known.update({name: (programs[name].place, identity) for name in names})
    return found


def _define(library: Any, namespace: str, name: str, operation: _Operation) -> None:
    """Define an operation in a library of PyTorch."""
    library.define(operation.schema, tags=[torch.Tag.pt2_compliant_tag])
    library.impl(name, operation.run, "CompositeExplicitAutograd")
    library.impl(name, operation.differentiate, "Autograd", with_keyset=True)
    torch.library.register_fake(f"{namespace}::{name}", operation.fake, lib=library)
    if operation.updates:
        for key in ("Conjugate", "Negative"):
            library.impl(name, operation.update_view, key)


class _Operation:
    """A program as an operation.

    Attributes
    ----------
    schema : str
        The schema. Its names are identifiers, which `programs_of` checks, and its other parts are
        from here.
    updates : list of int
        The places of the updates among the arguments.
    run
        Runs the program. Autograd and the transformations of PyTorch are done with the arguments.
    gradient : _Gradient or None
        The gradient.
    overload
        The operation of PyTorch.
    """

    overload: Any

    def __init__(
        self,
        program: Program,
        gradient: _Gradient | None,
        digest: str,
        device: devmod.Device | str | None,
        strict: bool,
    ) -> None:
        self._program = program
        self.gradient = gradient
        self._digest = digest
        self._device = device
        self._strict = strict
        #: The places of the arrays among the arguments; the default of each scalar, None for
        #: arrays.
        self._places = []
        self._defaults = []
        self.updates = []
        for place, each in enumerate(program.arguments):
            if isinstance(each, Scalar):
                self._defaults.append(each.default)
                continue
            self._defaults.append(None)
            self._places.append(place)
            if each.role == "update":
                self.updates.append(place)
        self.run = self.call
        if self.updates:
            self.run = self.update
        types = [_torch_type(program, each) for each in (*program.arrays, *program.outputs)]
        self._types = types[len(program.arrays) :]
        key = torch._C.DispatchKey
        keys = torch._C.DispatchKeySet
        #: The dispatch keys of a call with ordinary tensors of the CPU or of CUDA, where nothing
        #: lies between autograd and the program.
        self._ordinary = [
            (keys(one) | keys(two)).raw_repr()
            for one, two in ((key.CPU, key.AutogradCPU), (key.CUDA, key.AutogradCUDA))
        ]
        self._host: Any = None
        self._functions: dict[Any, Any] = {}
        self._shapes: dict[Any, list[tuple[int, ...]]] = {}
        parts = [
            _parameter(program, each, f"a{place}") for place, each in enumerate(program.arguments)
        ]
        results = ", ".join(["Tensor"] * len(program.outputs))
        if len(program.outputs) != 1:
            results = f"({results})"
        self.schema = f"{program.name}({', '.join(parts)}) -> {results}"

    def differentiate(self, keys: Any, *args: Any) -> Any:
        """Run the program as autograd calls it. `keys` are those of the dispatcher.

        A transformation of `torch.func` marks its tensors for this call alone: `run` does not see
        the marks.
        """
        needs_gradient = torch.is_grad_enabled() and any(
            args[place].requires_grad for place in self._places
        )
        if needs_gradient or forward_ad._current_level >= 0:
            self._check_gradients(args, needs_gradient)
            if needs_gradient:
                return _Recorded.apply(self, *args, *self._defaults[len(args) :])
        elif keys.raw_repr() in self._ordinary:
            return self.run(*args)  # 2 µs less than through the dispatcher
        return self.run_below(*args)

    def run_below(self, *args: Any) -> Any:
        """Run the program through what PyTorch has below autograd."""
        with torch._C._AutoDispatchBelowAutograd():
            return self.overload(*args)

    def _check_gradients(self, args: Sequence[Any], needs_gradient: bool) -> None:
        """Raise ArgumentError for a tensor whose derivatives the program does not have."""
        program = self._program
        for place, array in zip(self._places, program.arrays, strict=True):
            tensor = args[place]
            name = array.name
            is_forward = forward_ad._current_level >= 0
            if is_forward and forward_ad.unpack_dual(tensor).tangent is not None:
                raise program.error(
                    f"the argument {name!r} has a tangent, and programs have no forward mode: pass {name}.detach()",
                    name,
                )
            if not needs_gradient or not tensor.requires_grad:
                continue
            if self.gradient is None:
                text = (
                    f"the argument {name!r} requires a gradient, and the program has no 'backward'"
                )
                raise program.error(
                    f"{text}: call it in torch.no_grad(), or pass {name}.detach()", name
                )
            if torch._C._are_functorch_transforms_active():
                text = f"the argument {name!r} requires a gradient of torch.func, which programs do not have"
                raise program.error(
                    f"{text}: use torch.autograd.grad, or pass {name}.detach()", name
                )

    def update(self, *args: Any) -> Any:
        """Run a program with updates, after which autograd refuses a gradient that needs an array
        as it was.
        """
        results = self.call(*args)
        for place in self.updates:
            if not args[place].is_inference():
                torch.autograd.graph.increment_version(args[place])  # older ones take no list
        return results

    def update_view(self, *args: Any) -> Any:
        """Run a program with updates for views that negate or conjugate. PyTorch's own function for
        them needs operations with results.
        """
        values = []
        for each in args:
            if isinstance(each, torch.Tensor):
                each = each.resolve_conj().resolve_neg()
            values.append(each)
        results = self.overload(*values)
        for place in self.updates:
            if values[place] is not args[place]:
                args[place].copy_(values[place])
        return results

    def call(self, *args: Any) -> Any:
        """Run the program. Defaults that the call repeats are missing in `args`."""
        host = self._host
        if host is None:
            return self._call(args)
        values = [*args]
        try:
            for place in self._places:
                values[place] = values[place].numpy()  # passed as it is, a tensor takes 30 µs more
        except (RuntimeError, TypeError):
            # On another device, of a type that NumPy lacks, or with a gradient.
            return self._call(args)
        try:
            result = host(*values)
        except ArgumentError:
            # This raises the error in the words of PyTorch.
            self._check([args[place] for place in self._places])
            raise
        if result.__class__ is tuple:
            return tuple(map(torch.from_numpy, result))
        if result is None:
            return None
        return torch.from_numpy(result)

    def _call(self, args: Sequence[Any]) -> Any:
        """Run the program for tensors of any device and type, on outputs that PyTorch allocates."""
        program = self._program
        tensors = [args[place] for place in self._places]
        device = self._check(tensors)
        function = self._function(device)
        values = [*args]
        copies = []
        for place, array, tensor in zip(self._places, program.arrays, tensors, strict=True):
            plain = tensor
            if tensor.requires_grad:
                plain = tensor.detach()
            values[place] = plain
            if not plain.is_contiguous():
                values[place] = self._contiguous(array, plain)
                if array.role == "update":
                    copies.append((plain, values[place]))

        # An output is where the arguments are.
        empty: Callable[..., Any] = torch.empty
        if tensors:
            empty = tensors[0].new_empty
        outputs = []
        for shape, dtype in zip(self._output_shapes(args, tensors), self._types, strict=True):
            outputs.append(empty(shape, dtype=dtype))

        names = [each.name for each in program.outputs]
        if device.type == "cpu":
            for place in self._places:
                values[place] = _host_array(values[place])
            arrays = map(_host_array, outputs)
            function.call_into_new(*values, **dict(zip(names, arrays, strict=True)))
        else:
            stream = torch.cuda.current_stream(device)
            keywords = dict(zip(names, outputs, strict=True))
            function.call_into_new(*values, **keywords, stream=stream)
        for tensor, copy in copies:
            tensor.copy_(copy)
        return _results(outputs)

    def _contiguous(self, array: Array, tensor: Any) -> Any:
        """Return a copy of a tensor that is not contiguous. Raise ArgumentError where that is
        refused.
        """
        name = array.name
        if self._strict:
            text = f"the argument {name!r} is not contiguous, and strict=True refuses that: {name}.contiguous()"
            raise self._program.error(text, name)
        if array.role == "update":
            for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
                if length > 1 and not stride:
                    text = f"the argument {name!r} has elements that share memory, and the program writes to it"
                    raise self._program.error(f"{text}: {name}.clone()", name)
        return tensor.contiguous()

    def fake(self, *args: Any) -> Any:
        """Return results without contents, for sizes that may be symbols.

        The caches of `torch.compile` on the disk know an operation by its name, and compare a tag.
        The tag is one of this thread, which compiles. It has the digest of the file, so a cached
        graph has the gradients and the shapes of this version of the file.
        """
        config = getattr(torch.compiler, "config", None)
        tag = getattr(config, "cache_key_tag", self._digest)  # older ones have no tag
        if self._digest not in tag:
            config.cache_key_tag += f" {self._digest}"  # type: ignore[union-attr]
        tensors = [args[place] for place in self._places]
        device = self._check(tensors)
        shapes = self._program.output_shapes(
            [each.shape for each in tensors], self._scalars(args), torch._check, _SYMBOLIC
        )
        results = []
        for shape, dtype in zip(shapes, self._types, strict=True):
            results.append(torch.empty(shape, dtype=dtype, device=device))
        return _results(results)

    def _scalars(self, args: Sequence[Any]) -> dict[str, Any]:
        result = {}
        for each, value, default in zip_longest(self._program.arguments, args, self._defaults):
            if not isinstance(each, Scalar):
                continue
            if value is None:
                value = default
            result[each.name] = value
        return result

    def _output_shapes(self, args: Sequence[Any], tensors: Sequence[Any]) -> list[tuple[int, ...]]:
        shapes = [tuple(each.shape) for each in tensors]
        scalars = self._scalars(args)
        key = (*shapes, *[scalars[name] for name in self._program.sizes])
        result = self._shapes.get(key)
        if result is None:
            if len(self._shapes) >= _MAX_SHAPES:
                self._shapes.clear()
            result = self._shapes[key] = self._program.output_shapes(shapes, scalars)
        return result

    def _check(self, tensors: Sequence[Any]) -> Any:
        """Return the device of the tensors, after a check of their devices, types and numbers of
        dimensions.
        """
        program = self._program
        device = None
        for array, tensor in zip(program.arrays, tensors, strict=True):
            name = array.name
            if device is not None and tensor.device != device:
                text = f"the argument {name!r} is on {tensor.device}, and {program.arrays[0].name!r} on {device}; expected one device"
                raise program.error(f"{text}: {name}.to({str(device)!r})", name)
            device = tensor.device
            program.check_array(
                array, _name_of(tensor.dtype), tensor.shape, f"{name}.to(torch.{array.type})"
            )
        if device is None:
            return torch.device("cpu")
        return device

    def _function(self, device: Any) -> Any:
        """Return the program on the device of tensors."""
        function = self._functions.get(device)
        if function is not None:
            return function
        program = self._program
        kind = "cuda"
        if torch.version.hip:
            kind = "rocm"
        if device.type == "cpu":
            function = program.function(self._device)
            # An array of a type that NumPy lacks cannot be returned by a call.
            samples = [_host_array(torch.empty(0, dtype=each)) for each in self._types]
            is_plain = all(each.__class__.__module__ == "numpy" for each in samples)
            if is_plain and not self._strict:
                self._host = function
        elif device.type != "cuda":
            raise program.error(
                f"the tensors are on {device}; expected the CPU, or CUDA with kernels of kind {kind}: pass x.cpu()"
            )
        elif program.has_images:
            raise program.error(
                f"the tensors are on {device}, and an image is no tensor there: pass x.cpu()"
            )
        else:
            try:
                function = program.function(devmod.device(f"{kind}:{device.index}"))
            except ArgumentError as error:
                advice = f"Build the file with a target of kind {kind}, or pass x.cpu()"
                raise program.error(
                    f"the tensors are on {device}, where the file has nothing to run: {error}. {advice}"
                ) from error
        self._functions[device] = function
        return function


class _Recorded(torch.autograd.Function):  # type: ignore[misc]
    """A call that autograd records."""

    @staticmethod
    def forward(ctx: Any, operation: _Operation, *args: Any) -> Any:
        """Run the program, and keep what its gradient takes."""
        results = operation.run_below(*args)
        ctx.gradient = operation.gradient
        ctx.gradient.save(ctx, args, results)
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """Return the gradient of each argument of `forward`."""
        return (None, *ctx.gradient.run(ctx, *grads))


class _Gradient:
    """The gradient of a program: another program of the module."""

    def __init__(self, program: Program, gradient: Gradient, namespace: str) -> None:
        self._program = program
        self._sources, self._results = gradient
        self._label = namespace, program.definition.backward

    def save(self, ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        """Keep what the gradient takes of a call."""
        if not isinstance(output, (tuple, list)):
            output = (output,)
        given = {"input": inputs, "output": output}
        tensors = []
        #: What is kept, with None in the places of tensors.
        ctx.numbers = []
        for role, number in self._sources:
            if role == "grad":
                continue
            each = given[role][number]
            if isinstance(each, torch.Tensor):
                tensors.append(each)
                each = None
            ctx.numbers.append(each)
        ctx.save_for_backward(*tensors)

    def run(self, ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """Return the gradient of each argument for those of the results."""
        tensors = iter(ctx.saved_tensors)
        numbers = iter(ctx.numbers)
        args = []
        for role, number in self._sources:
            if role == "grad":
                # The gradient of a sum is one number in all places.
                args.append(grads[number].contiguous())
                continue
            each = next(numbers)
            if each is None:
                each = next(tensors)
            args.append(each)
        results = getattr(getattr(torch.ops, self._label[0]), self._label[1])(*args)
        if not isinstance(results, (tuple, list)):
            results = (results,)
        named = dict(zip(self._results, results, strict=True))
        arguments = zip(self._program.arguments, ctx.needs_input_grad[1:], strict=True)
        for argument, is_needed in arguments:
            name = argument.name
            if is_needed and f"grad_{name}" not in named:
                text = f"the argument {name!r} requires a gradient, and the backward {self._label[1]!r} has no"
                raise self._program.error(f"{text} 'grad_{name}': pass {name}.detach()", name)
        return tuple(named.get(f"grad_{each.name}") for each in self._program.arguments)


def _parameter(program: Program, argument: Array | Scalar, alias: str) -> str:
    """Return an argument in a schema. `alias` is a name that no other argument has."""
    if isinstance(argument, Array):
        if argument.role == "update":
            return f"Tensor({alias}!) {argument.name}"
        return f"Tensor {argument.name}"
    convert: Callable[[Any], Any]
    if argument.type == "bool":
        convert = bool
        kind = "bool"
    elif argument.is_integer:
        convert = int
        kind = "SymInt"
    else:
        convert = float
        kind = "float"
    if argument.default is None:
        return f"{kind} {argument.name}"
    value = convert(argument.default)
    if kind == "float":
        is_possible = math.isfinite(value)
    else:
        is_possible = -(2**63) <= value < 2**63
    if not is_possible:
        raise program.format_error(
            f"the argument {argument.name!r} has the default {value}, which a schema cannot have"
        )
    return f"{kind} {argument.name}={value!r}"


def _torch_type(program: Program, array: Array) -> Any:
    result = getattr(torch, array.type, None)
    if not isinstance(result, torch.dtype) or array.type == "uint1":
        raise program.format_error(
            f"{array.name!r} is an array of {array.type}, which PyTorch does not have"
        )
    return result


def _name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _host_array(tensor: Any) -> Any:
    """Return a CPU tensor as a NumPy array over its memory; the tensor itself if NumPy does not
    have its type.
    """
    try:
        return tensor.numpy()
    except TypeError:
        return tensor


def _results(tensors: Sequence[Any]) -> Any:
    if not tensors:
        return None
    if len(tensors) == 1:
        return tensors[0]
    return tuple(tensors)


def _fold(function: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
    result, *others = values
    for each in others:
        result = function(result, each)
    return result
