"""Models of PyTorch as programs, by torch.onnx's own exporter. Importing this imports no torch."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from inspect import Parameter, Signature, signature
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import devmod
from devmod.backend import temporary_folder
from devmod.errors import (
    ArgumentError,
    CompileError,
    ToolchainNotFoundError,
    describe_error,
    list_names,
    not_installed,
)
from devmod_models._buckets import read_buckets
from devmod_models._command import ask
from devmod_models._patched import patched
from devmod_models._progress import progress_line
from devmod_models._torch_calls import Arguments, tensors_of_results
from devmod_models._torch_state import States, restoring
from devmod_models.onnx import FIXED_LENGTH, SMALLER_LENGTHS, Range
from devmod_models.tinygrad import check_architectures, texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from devmod import Target
    from devmod_models._buckets import Buckets

__all__ = ["export"]

#: A length that each call chooses: its name, its least and its largest value.
Length = tuple[str, int, int]
#: How errors of the model's process call an argument of `export`.
_WRITTEN = {
    FIXED_LENGTH: "leave it out of `dynamic`",
    SMALLER_LENGTHS: "in `dynamic`",
    "buckets": "in `buckets`",
}
#: The calls that show what the model changes, and that the check compares for a model with state.
_CALLS = 3
#: The names in ONNX's file of states, and of their next values.
_INPUT = "devmod_state_{}"
_OUTPUT = "devmod_next_{}"
#: What writes sequences.
_BAGS = (
    "torch.onnx writes an EmbeddingBag with offsets, a padding_idx or a max_norm by them: "
    "give it indices of two dimensions without these, or use Embedding and a sum"
)


def export(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] = MappingProxyType({}),
    *,
    targets: str | Target | Iterable[str | Target],
    dynamic: Mapping[str, Mapping[int, Length]] | None = None,
    buckets: Mapping[str, Sequence[int]] | None = None,
    name: str | None = None,
    outputs: Sequence[str] | None = None,
    half: str = "",
    report: Callable[[str], object] | None = None,
    progress: bool | None = None,
) -> devmod.Module:
    """Return a module with a program that computes what a model of PyTorch computes.

    torch.onnx writes the model, and `devmod onnx` makes the program. Its results for the arguments
    are compared with those of the model itself: tinygrad's on the CPU, and those of each device of
    the targets that is here.

    Buffers and other tensors that a call changes are state: ``program(x, state=program.state())``.
    It begins with the values at the export. Three calls in a row, with other numbers in the
    arguments, are compared then. The model and its buffers stay as they are.

    Parameters
    ----------
    model
        The module. It is exported as in ``model.eval()``, and keeps its mode.
    args, kwargs
        Its arguments: tensors, also in lists, tuples and dicts. Numbers and texts of `kwargs` are
        options, and no inputs. A cache that the model changes, such as a ``StaticCache`` of
        transformers, is state.
    targets
        The targets, such as "opencl", "webgpu" or "cuda -arch=sm_80", one for each kind.
    dynamic
        The lengths that each call chooses, by the name of an argument and the axis: a name, the
        least and the largest length. ``{"x": {0: ("batch", 1, 64)}}``
    buckets
        Ranges of one of these lengths that have kernels of their own: its name, and the last length
        of each range. ``{"batch": [1, 8, 64]}`` The check calls the model with both ends of each.
    name
        The name of the program. Default: that of the model's class.
    outputs
        The names of the results. Default: the keys of a dict, such as a ``ModelOutput`` of
        transformers, or ``y``, or ``y0``, ``y1`` of several.
    half
        "all" for weights and layers in float16, "weights" for weights alone.
    report
        A function that gets lines about the program and the comparison.
    progress
        Whether a line on standard error shows the phase from the second second on. None: in a
        terminal alone.

    Returns
    -------
    Module
        The module. `devmod.save` writes it. A reader of the file needs neither torch nor tinygrad.

    Raises
    ------
    ToolchainNotFoundError
        torch is not installed, or what its exporter needs.
    ArgumentError
        The model is no module, an argument or a result no tensor that NumPy can have, or `dynamic`
        does not fit; or calls change what cannot be state, and depend on it.
    CompileError
        torch.onnx or tinygrad cannot export the model, or a result differs.

    Examples
    --------
    >>> from devmod.interop import torch as devmod_torch
    >>> module = devmod_torch.export(model, (x,), targets=["opencl", "webgpu"])  # doctest: +SKIP
    >>> devmod.save(module, "model.devmod")  # doctest: +SKIP
    """
    try:
        import torch
    except ImportError as error:
        missing = not_installed("PyTorch", "torch", "torch")
        raise ToolchainNotFoundError(
            f"models of PyTorch cannot be exported here: {missing}"
        ) from error
    if not isinstance(model, torch.nn.Module):
        raise ArgumentError(
            f"torch.export: the model is {type(model).__name__}; expected a torch.nn.Module",
            argument="model",
        )
    dynamic = dynamic or {}
    label = name or re.sub(r"\W|^(?=\d)", "_", type(model).__name__, flags=re.ASCII).lower()
    check_architectures(targets)
    own = Arguments(model, args, kwargs)
    dims = _dims(dynamic, [*own.tensors])
    parts = _buckets(buckets or {}, dynamic)
    with (
        progress_line(label, progress=progress) as show,
        _evaluating(model),
        temporary_folder() as folder,
    ):
        show("calling the model")
        calls = _Calls(model, own, outputs)
        if parts is not None:
            calls.add_runs(parts, dynamic)
        path = os.path.join(folder, f"{label}.onnx")
        show("writing it as ONNX")
        calls.write(path, dynamic)
        request: dict[str, Any] = {
            "model": path,
            "targets": texts_of(targets),
            "name": label,
            "dims": dims,
            "buckets": {name: [*ends] for name, ends in (buckets or {}).items()},
            "constants": {},
            "file": f"{label}.devmod",
            **calls.saved(folder),
            "output": os.path.join(folder, f"{label}.devmod"),
            "is_checked": True,
            "is_tuned": False,
            "half": half,
        }
        try:
            answer = ask(request, label, show, _WRITTEN)
        except CompileError as error:
            if "SequenceEmpty" not in str(error):
                raise
            raise CompileError(f"{error}. {_BAGS}", log=error.log) from None
        if report is not None:
            for line in (*answer["lines"], *answer["notes"], *calls.notes):
                report(line)
        with open(request["output"], "rb") as file:
            return devmod.loads(file.read())


class _Run(NamedTuple):
    """Calls in a row: the tensors of each, its results, and the next values of states."""

    inputs: list[dict[str, Any]]
    results: list[Sequence[Any]]
    nexts: list[Sequence[Any]]


class _Calls:
    """The calls of a model that the check compares, and the model as torch.onnx writes it.

    Attributes
    ----------
    notes
        Sentences about what is left out.
    """

    def __init__(self, model: Any, arguments: Arguments, outputs: Sequence[str] | None) -> None:
        self._model = model
        self._forward = model.forward
        self._arguments = arguments
        self._outputs = outputs
        self._names: list[str] = []
        self.notes: list[str] = []
        self._fill_caches()
        self._states = States({})
        self._inputs: list[dict[str, Any]] = []
        self._results: list[Sequence[Any]] = []
        #: The runs with other lengths: the inputs and the results of each call, with the states.
        self._others: list[_Run] = []
        with _compiled_buffers(model):
            self._make()
        if not self._states.values:
            del self._inputs[1:], self._results[1:]
        self.notes = [*dict.fromkeys([*self.notes, *self._states.notes])]

    def _fill_caches(self) -> None:
        """Let the model give caches their tensors: some get them in a first call."""
        caches = self._arguments.caches.values()
        empty = [each for each in caches if getattr(each, "is_initialized", True) is False]
        if not empty:
            return
        with restoring({"": self._model}) as snapshot:
            snapshot.copy_tensors()
            self._called(self._arguments.tensors)
        for each in empty:
            each.reset()

    def _make(self) -> None:
        """Make the calls: with fresh numbers, or with those given if the model refuses others."""
        arguments = self._arguments
        numbers = range(1, _CALLS)
        attempts = [
            [arguments.fresh(each) for each in numbers],
            [arguments.fresh(each, has_steps=False) for each in numbers],
            [arguments.tensors for _ in numbers],
        ]
        for others in attempts:
            self._inputs = [arguments.tensors, *others]
            self._states = States({"": self._model, **arguments.caches})
            calls = [partial(self._called, each) for each in self._inputs]
            try:
                self._results = self._states.find(calls)
            except ArgumentError:
                raise
            except Exception:
                if others is attempts[-1]:
                    raise
            else:
                return

    def add_runs(self, buckets: Buckets, dynamic: Mapping[str, Mapping[int, Length]]) -> None:
        """Make the calls again with both ends of each range of a length.

        Raises
        ------
        CompileError
            The model cannot be called with a length.
        """
        for length in dict.fromkeys(chain.from_iterable(buckets.ranges)):
            inputs = [_with_length(each, dynamic, buckets.name, length) for each in self._inputs]
            states = States({"": self._model, **self._arguments.caches})
            try:
                results = states.find([partial(self._called, each) for each in inputs])
            except ArgumentError:
                raise
            except Exception as error:
                raise CompileError(
                    f"torch.export: the model cannot be called with {buckets.name} = {length}, which `buckets` has: {describe_error(error)}"
                ) from error
            self._others.append(_Run(inputs, results, states.nexts))

    def _called(self, tensors: Mapping[str, Any]) -> list[Any]:
        """Return the results of a call. The model may change its arguments, and what it returns."""
        copies = {name: each.clone() for name, each in tensors.items()}
        returned = self._arguments.call(self._model, copies)
        results = tensors_of_results(returned, self._outputs, self._arguments.caches, self.notes)
        self._names = [*results]
        return [each.detach().clone() for each in results.values()]

    def write(self, path: str, dynamic: Mapping[str, Mapping[int, Length]]) -> None:
        """Write the model, whose states are its last inputs and outputs."""
        tensors = self._arguments.tensors
        states = self._states.values
        if states or not self._arguments.is_plain:
            self._model.forward = self._functional()
        args = [each.clone() for each in (*tensors.values(), *states.values())]
        names = [*tensors, *map(_INPUT.format, range(len(states)))]
        outputs = [*self._names, *map(_OUTPUT.format, range(len(states)))]
        with _bags_as_sums():
            _write(self._model, args, path, names, outputs, dynamic)
        _add_unused_inputs(path, dict(zip(names, args, strict=True)), dynamic)

    def _functional(self) -> Callable[..., Any]:
        """Return a function of all tensors and states that returns all results and next states."""
        names = [*self._arguments.tensors]
        count = len(names)

        def forward(*values: Any) -> Any:
            def called() -> list[Any]:
                tensors = dict(zip(names, values[:count], strict=True))
                returned = self._arguments.call(self._forward, tensors)
                caches = self._arguments.caches
                return [*tensors_of_results(returned, self._outputs, caches, []).values()]

            results, states = self._states.functional(called, values[count:])
            return (*results, *states)

        parameters = []
        for number in range(count + len(self._states.values)):
            parameters.append(Parameter(f"value{number}", Parameter.POSITIONAL_OR_KEYWORD))
        forward.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return forward

    def saved(self, folder: str) -> dict[str, Any]:
        """Write the arrays of the calls, and return what a request has about them."""
        states = {}
        labels = {}
        firsts = {}
        for number, (label, value) in enumerate(self._states.values.items()):
            name = _INPUT.format(number)
            states[name] = _OUTPUT.format(number)
            labels[name] = label
            firsts[name] = value
        inputs = []
        expected = []
        runs = [*self._others, _Run(self._inputs, self._results, self._states.nexts)]
        for run, each in enumerate(runs):
            own = []
            wanted = []
            for number, (tensors, results) in enumerate(
                zip(each.inputs, each.results, strict=True)
            ):
                given = {**tensors}
                if number == 0 and run == len(runs) - 1:
                    given |= firsts
                own.append(_saved(folder, f"input{run}_{number}_", given, labels))
                named = dict(zip(self._names, results, strict=True))
                if states:
                    named |= zip(states.values(), each.nexts[number], strict=True)
                wanted.append(_saved(folder, f"output{run}_{number}_", named, labels))
            inputs.append(own)
            expected.append(wanted)
        return {"states": states, "labels": labels, "inputs": inputs, "expected": expected}


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Run a block with a model in the mode of evaluation. The end restores the mode of each module,
    and all that the block has changed.
    """
    import torch

    modules = [*model.modules()]
    modes = [each.training for each in modules]
    try:
        with torch.no_grad(), restoring({"": model}):
            model.eval()
            _choose_experts(modules)
            yield
    finally:
        for each, mode in zip(modules, modes, strict=True):
            each.training = mode


def _choose_experts(modules: Iterable[Any]) -> None:
    """Let mixtures of experts of transformers compute all products of a layer as one: the default
    is an operator that torch.onnx lacks. The end of the export restores it.
    """
    for each in modules:
        config = vars(each).get("config")
        if getattr(config, "_experts_implementation", None) == "grouped_mm":
            config._experts_implementation = "batched_mm"


@contextmanager
def _bags_as_sums() -> Iterator[None]:
    """Run a block in which bags of one length compute sums, means or maxima of rows: torch.onnx
    writes EmbeddingBag by a loop over sequences, which no program has.
    """
    import torch

    own = torch.nn.functional.embedding_bag

    def summed(*args: Any, **named: Any) -> Any:
        bound = signature(own).bind(*args, **named)
        bound.apply_defaults()
        given = bound.arguments
        indices = given["input"]
        has_others = given["max_norm"] is not None or given["padding_idx"] is not None
        if indices.dim() != 2 or has_others:
            return own(*args, **named)
        rows = torch.nn.functional.embedding(indices, given["weight"])
        weights = given["per_sample_weights"]
        if weights is not None:
            rows = rows * weights.unsqueeze(-1)
        reduced = {"sum": rows.sum, "mean": rows.mean, "max": rows.amax}
        return reduced[given["mode"]](1)

    with patched(torch.nn.functional, "embedding_bag", summed):
        yield


@contextmanager
def _compiled_buffers(model: Any) -> Iterator[None]:
    """Run a block that may write the buffers of modules that torch.jit has compiled: they have no
    other place. The end restores them.

    Raises
    ------
    ArgumentError
        The block has changed one.
    """
    import torch

    buffers = {}
    for name, each in model.named_modules():
        if isinstance(each, torch.jit.ScriptModule):
            for key, own in each.named_buffers(name):
                buffers[key] = (own, own.clone())
    changed = []
    try:
        yield
    finally:
        for name, (own, before) in buffers.items():
            if not torch.equal(own, before):
                own.copy_(before)
                changed.append(name)
    if changed:
        raise ArgumentError(
            f"torch.export: a module that torch.jit has compiled changes its buffer {list_names(changed)}. "
            "Only buffers of modules of Python become state: export the model before torch.jit.script or torch.jit.trace",
            argument="model",
        )


def _dims(dynamic: Mapping[str, Mapping[int, Length]], names: Sequence[str]) -> dict[str, str]:
    """Return the lengths that a call chooses as for `devmod onnx --dim`."""
    dims = {}
    for name, axes in dynamic.items():
        if name not in names:
            raise ArgumentError(
                f"torch.export: dynamic has {name!r}; the arguments are {', '.join(names)}",
                argument="dynamic",
            )
        for label, low, high in axes.values():
            dims[label] = f"{low}..{high}"
    return dims


def _buckets(
    buckets: Mapping[str, Sequence[int]], dynamic: Mapping[str, Mapping[int, Length]]
) -> Buckets | None:
    """Return the ranges of a length that have kernels of their own."""
    ranges = []
    for axes in dynamic.values():
        ranges += [Range(*each) for each in axes.values()]
    try:
        return read_buckets(buckets, ranges)
    except ArgumentError as error:
        raise ArgumentError(f"torch.export: {error}", argument="buckets") from None


def _with_length(
    tensors: Mapping[str, Any],
    dynamic: Mapping[str, Mapping[int, Length]],
    name: str,
    length: int,
) -> dict[str, Any]:
    """Return tensors of which a length is another one: their elements again and again, or the first
    ones.
    """
    import torch

    result = {**tensors}
    for key, axes in dynamic.items():
        for axis, (label, *_) in axes.items():
            if label == name:
                own = result[key]
                places = torch.arange(length, device=own.device) % own.shape[axis]
                result[key] = own.index_select(axis, places)
    return result


def _write(
    model: Any,
    args: Sequence[Any],
    path: str,
    names: list[str],
    outputs: list[str],
    dynamic: Mapping[str, Mapping[int, Length]],
) -> None:
    """Write a model by torch.onnx: by its newer exporter if onnxscript, which that needs, is
    installed, or else by the one of TorchScript.
    """
    import torch

    options: dict[str, Any] = {"input_names": names, "output_names": outputs}
    if find_spec("onnxscript") is None:
        options["dynamo"] = False
        axes = {}
        for name, own in dynamic.items():
            axes[name] = {axis: label for axis, (label, _, _) in own.items()}
        options["dynamic_axes"] = axes
    elif dynamic:
        lengths: dict[str, Any] = {}
        shapes = []
        for name in names:
            sides = {}
            for axis, (label, low, high) in dynamic.get(name, {}).items():
                if label not in lengths:
                    lengths[label] = torch.export.Dim(label, min=low, max=high)
                sides[axis] = lengths[label]
            shapes.append(sides or None)
        options["dynamic_shapes"] = tuple(shapes)
    try:
        torch.onnx.export(model, tuple(args), path, verbose=False, **options)
    except Exception as error:
        raise CompileError(f"torch.onnx cannot export the model: {_reason(error)}") from error
    _check_dynamic(path, dynamic)


def _reason(error: BaseException) -> str:
    """Return the first line of the error that is the cause of others, and what to do. Those of
    torch.onnx have pages about its own development.
    """
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    text = describe_error(cause).strip().partition("\n")[0]
    text = re.sub(r"(?:\x1b|\\x1b)\[[0-9;]*m", "", text)
    if "data-dependent" in text:
        return (
            f"{text} A branch or a loop of Python depends on the values of a tensor, which no program has: "
            "compute it from shapes and numbers of Python, or by torch.where"
        )
    if "No ONNX function found" in text:
        return f"{text} Write the layer by other operations of torch, or register one for it: torch.onnx.export(custom_translation_table=…)"
    return text


def _check_dynamic(path: str, dynamic: Mapping[str, Mapping[int, Length]]) -> None:
    """Raise CompileError for a length that each call should choose, and that the model fixes."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    found = set[str]()
    for each in model.graph.input:
        found |= {side.dim_param for side in each.type.tensor_type.shape.dim}
    known = {each.name for each in model.graph.input}
    for name, axes in dynamic.items():
        for axis, (label, _, _) in axes.items():
            if name in known and label not in found:
                raise CompileError(
                    f"torch.onnx fixes the length {label!r}, axis {axis} of {name!r}: the Python code of the model depends on it, "
                    "as a loop over positions does. Leave it out of `dynamic`, and export the model for each length"
                )


def _add_unused_inputs(
    path: str, tensors: Mapping[str, Any], dynamic: Mapping[str, Mapping[int, Length]]
) -> None:
    """Add the inputs to a file of ONNX that an exporter has left out: the model ignores them."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    inputs = {each.name: each for each in model.graph.input}
    if inputs.keys() >= tensors.keys():
        return
    types = onnx.helper.np_dtype_to_tensor_dtype
    for name, tensor in tensors.items():
        if name not in inputs:
            shape: list[Any] = [*tensor.shape]
            for axis, (label, _, _) in dynamic.get(name, {}).items():
                shape[axis] = label
            dtype = types(tensor.new_empty(0, device="cpu").numpy().dtype)
            inputs[name] = onnx.helper.make_tensor_value_info(name, dtype, shape)
    del model.graph.input[:]
    model.graph.input.extend(inputs[name] for name in tensors)
    onnx.save(model, path)


def _saved(
    folder: str, role: str, tensors: Mapping[str, Any], labels: Mapping[str, str]
) -> dict[str, str]:
    """Write tensors as arrays of NumPy, and return their paths by name. `labels` has other names
    for errors.
    """
    import numpy as np

    paths = {}
    for number, (name, tensor) in enumerate(tensors.items()):
        paths[name] = os.path.join(folder, f"{role}{number}.npy")
        try:
            array = tensor.cpu().numpy()
        except TypeError:
            raise ArgumentError(
                f"torch.export: {labels.get(name, name)!r} is {tensor.dtype}, which NumPy does not have. "
                "Export model.float() with other arguments",
                argument="args",
            ) from None
        np.save(paths[name], array)
    return paths
