"""Models of PyTorch as programs, by torch.onnx's own exporter. Importing this imports no torch."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import devmod
from devmod.backend import temporary_folder
from devmod.errors import (
    ArgumentError,
    CompileError,
    ToolchainNotFoundError,
    describe_error,
    not_installed,
)
from devmod_models._command import ask
from devmod_models._names import default_names, named_results
from devmod_models.tinygrad import texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from devmod import Target

__all__ = ["export"]

#: A length that each call chooses: its name, its least and its largest value.
Length = tuple[str, int, int]


def export(
    model: Any,
    args: Sequence[Any],
    *,
    targets: str | Target | Iterable[str | Target],
    dynamic: Mapping[str, Mapping[int, Length]] | None = None,
    name: str | None = None,
    outputs: Sequence[str] | None = None,
    half: str = "",
    report: Callable[[str], object] | None = None,
) -> devmod.Module:
    """Return a module with a program that computes what a model of PyTorch computes.

    torch.onnx writes the model, and `devmod onnx` makes the program. Its results for `args` are
    compared with those of the model itself: tinygrad's on the CPU, and those of each device of the
    targets that is here.

    Parameters
    ----------
    model
        The module. It is exported as in ``model.eval()``, and keeps its mode.
    args
        Its arguments: tensors.
    targets
        The targets, such as "opencl", "webgpu" or "cuda -arch=sm_80", one for each kind.
    dynamic
        The lengths that each call chooses, by the name of an argument and the axis: a name, the
        least and the largest length. ``{"x": {0: ("batch", 1, 64)}}``
    name
        The name of the program. Default: that of the model's class.
    outputs
        The names of the results. Default: the keys of a dict, or ``y``, or ``y0``, ``y1`` of
        several.
    half
        "all" for weights and layers in float16, "weights" for weights alone.
    report
        A function that gets lines about the program and the comparison.

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
        does not fit.
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
    names = _names(model, args)
    dims = _dims(dynamic, names)
    args = [each.detach().clone() for each in args]  # the model may change them
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), temporary_folder() as folder:
            inputs = _saved(folder, "input", dict(zip(names, args, strict=True)))
            results = named_results(model(*args), outputs, torch.Tensor, "model")
            expected = _saved(folder, "output", results)
            path = os.path.join(folder, f"{label}.onnx")
            _write(model, args, path, names, [*results], dynamic)
            request: dict[str, Any] = {
                "model": path,
                "targets": texts_of(targets),
                "name": label,
                "dims": dims,
                "file": f"{label}.devmod",
                "states": {},
                "labels": {},
                "inputs": [inputs],
                "expected": [expected],
                "output": os.path.join(folder, f"{label}.devmod"),
                "is_checked": True,
                "is_tuned": False,
                "half": half,
            }
            answer = ask(request, label, lambda *_: None)
            if report is not None:
                for line in (*answer["lines"], *answer["notes"]):
                    report(line)
            with open(request["output"], "rb") as file:
                return devmod.loads(file.read())
    finally:
        model.train(was_training)


def _names(model: Any, args: Sequence[Any]) -> list[str]:
    """Return the names of a model's arguments: those of the parameters of `forward`."""
    for number, each in enumerate(args):
        if not hasattr(each, "numpy"):
            raise ArgumentError(
                f"torch.export: the argument {number} is {type(each).__name__}; expected a Tensor",
                argument="args",
            )
    return default_names(model.forward, len(args))


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
        raise CompileError(
            f"torch.onnx cannot export the model: {describe_error(error)}"
        ) from error


def _saved(folder: str, role: str, tensors: Mapping[str, Any]) -> dict[str, str]:
    """Write tensors as arrays of NumPy, and return their paths by name."""
    import numpy as np

    paths = {}
    for number, (name, tensor) in enumerate(tensors.items()):
        paths[name] = os.path.join(folder, f"{role}{number}.npy")
        try:
            array = tensor.cpu().numpy()
        except TypeError:
            raise ArgumentError(
                f"torch.export: {name!r} is {tensor.dtype}, which NumPy does not have. Export model.float() with other arguments",
                argument="args",
            ) from None
        np.save(paths[name], array)
    return paths
