"""Functions of tinygrad's Tensors as programs, for several kinds. Importing this imports no tinygrad.

Each kind has the kernels and the launches that tinygrad's renderer for it chooses. No device and no driver is needed.
"""

from __future__ import annotations

import inspect
import os
import pickle
import re
from base64 import b64encode
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import devmod
from devmod import Target
from devmod.backend import create_own
from devmod.errors import (
    ArgumentError,
    CompileError,
    DeviceMemoryError,
    DeviceNotFoundError,
    ToolchainNotFoundError,
    list_names,
    not_installed,
    pip_install,
)
from devmod.worker import answers
from devmod_targets._executables import version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from devmod_targets.tinygrad.record import Recording


__all__ = ["check", "cpu", "export"]

#: The one version that this was tested with.
VERSION = "0.14.0"
#: Kinds whose compilers take one kernel at a time: their modules have the whole text under each kernel's name.
_SEPARATE = ("metal", "webgpu")
#: WebGPU's storage buffers of a kernel.
_MOST_BUFFERS = {"webgpu": 8}
#: The element types that a kind does not have.
_MISSING = {"webgpu": ("float64", "bfloat16"), "metal": ("float64",)}
#: The kernels from which other processes render: each process imports tinygrad first.
_MANY = 6


def export(
    fn: Callable[..., Any],
    *inputs: Any,
    targets: str | Target | Iterable[str | Target],
    name: str,
    names: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    constants: Mapping[str, Any] | None = None,
    report: Callable[[str], object] | None = None,
) -> devmod.Module:
    """Return a module with a program that computes what a function of Tensors computes.

    The function is called once or twice, and its kernels do not run. Tensors that it uses are constants. Those that it assigns, such as a
    cache of keys and values, are state: ``program(x, state=program.state())``.

    Parameters
    ----------
    fn
        The function. Its result is a Tensor, several, or a dict of them by name.
    inputs
        Its arguments: Tensors, of which only the shape and the element type count, and bound variables, as in
        ``Variable("position", 1, 512).bind(3)``. A variable is an integer input, or the length of a Tensor that was sliced by it.
    targets
        The targets, such as "opencl", "webgpu" or "cuda -arch=sm_80", one for each kind.
    name
        The name of the program.
    names
        The names of the inputs. Default: those of the function's parameters. A variable keeps its own.
    outputs
        The names of the results. Default: ``y``, or ``y0``, ``y1`` of several.
    constants
        Tensors that the function uses, by the names that the file gives them. Default: the names of `get_state_dict`, or of variables.
    report
        A function that gets lines of text: the progress, and which constants this machine's processor computed.

    Returns
    -------
    Module
        The module. `devmod.save` writes it. A reader of the file needs no tinygrad.

    Raises
    ------
    ToolchainNotFoundError
        tinygrad is not installed, or not the version that this is for; or a compiler is missing.
    ArgumentError
        The function does what a program or a kind does not have. The message names the result and the operator.
    CompileError
        A kernel cannot be rendered or compiled.

    Examples
    --------
    >>> module = tinygrad.export(model, x, targets=["opencl", "webgpu"], name="classify")  # doctest: +SKIP
    >>> devmod.save(module, "classify.devmod")  # doctest: +SKIP
    """
    check_version()
    from devmod_targets.tinygrad.record import record, settings
    from devmod_targets.tinygrad.render import KINDS

    report = report or (lambda _: None)
    several = [targets] if isinstance(targets, (str, Target)) else list(targets)
    parsed = [Target.parse(each) if isinstance(each, str) else each for each in several]
    kinds = [each.kind for each in parsed]
    unknown = [each for each in kinds if each not in KINDS]
    if unknown or len(set(kinds)) < len(kinds) or not kinds:
        problem = (
            f"tinygrad has no kernels for {unknown[0]!r}"
            if unknown
            else f"expected one target of each kind, got {list_names(map(str, parsed))}"
        )
        raise ArgumentError(f"tinygrad.export: {problem}; its kinds are {list_names(KINDS)}", argument="targets")
    given = _named(fn, inputs, names)
    recordings: dict[int, Recording] = {}
    plans = {}
    with settings():
        for target in parsed:
            limit = _MOST_BUFFERS.get(target.kind, 0)
            if limit not in recordings:
                with settings(MAX_KERNEL_BUFFERS=limit):
                    recordings[limit] = record(fn, given, outputs, constants or {})
            plans[target.kind] = _Plan(name, target, recordings[limit])
        _render(list(plans.values()), report)
    programs = []
    for plan in plans.values():
        report(f"{plan.target.kind}: compiling {len(plan.kernels)} kernels")
        programs.append(plan.program())
    computed = list(dict.fromkeys(each for plan in plans.values() for each in plan.computed))
    if computed:
        report(f"computed on this machine's processor, whose last bits may differ from another's: {list_names(computed)}")
    return devmod.bundle(*programs) if len(programs) > 1 else programs[0]


@contextmanager
def cpu() -> Iterator[None]:
    """Run tinygrad on its CPU device, with the clang of the wheel ziglang, fixed settings and no cache on disk.

    Tensors can be made here without a clang on PATH. The end restores tinygrad's settings.

    Raises
    ------
    ToolchainNotFoundError
        tinygrad is not installed, or not the version that this is for.

    Examples
    --------
    >>> with tinygrad.cpu():  # doctest: +SKIP
    ...     module = tinygrad.export(model, Tensor.empty(1, 784), targets="opencl", name="classify")
    """
    check_version()
    from devmod_targets.tinygrad.record import settings

    with settings():
        yield


def check_version() -> None:
    """Check the version of tinygrad, which has no stable interface. It is not imported.

    Raises
    ------
    ToolchainNotFoundError
        tinygrad is not installed, or has another version.
    """
    found = version("tinygrad")
    if found != VERSION:
        problem = (
            not_installed("tinygrad", "devmod-core[tinygrad]", "tinygrad")
            if not found
            else (
                f"tinygrad {found} is installed, and devmod was made for tinygrad {VERSION}, because tinygrad has no stable interface. "
                f"To install that one: {pip_install(f'tinygrad=={VERSION}')}"
            )
        )
        raise ToolchainNotFoundError(f"functions of tinygrad cannot be exported here: {problem}")


def _named(fn: Any, inputs: Sequence[Any], names: Sequence[str] | None) -> dict[str, Any]:
    """Return the inputs by their names."""
    from tinygrad import Tensor
    from tinygrad.uop.ops import UOp

    if names is None:
        try:
            parameters = list(inspect.signature(fn).parameters.values())
        except (TypeError, ValueError):
            parameters = []
        plain = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
        names = plain[: len(inputs)] if len(plain) >= len(inputs) else [f"x{number}" for number in range(len(inputs))]
    if len(names) != len(inputs) or len(set(names)) < len(names):
        raise ArgumentError(f"names has {list_names(names)}; expected {len(inputs)} different names, one for each input", argument="names")
    result = {}
    for label, each in zip(names, inputs, strict=True):
        if not isinstance(each, Tensor) and not (isinstance(each, UOp) and each.is_bound_var):
            raise ArgumentError(f"the input {label!r} is {type(each).__name__}; expected a Tensor or a bound Variable", argument=label)
        result[each.unbind()[0].expr if isinstance(each, UOp) else label] = each
    return result


class _Plan:
    """The kernels and steps of one kind."""

    def __init__(self, name: str, target: Target, recording: Recording) -> None:
        from devmod_targets.tinygrad.render import KINDS

        self.name, self.target, self.recording = name, target, recording
        self.kernels: dict[bytes, tuple[str, Any]] = {}  # by the key of the tree: the name, and the tree, then its text and its launch
        stem = re.sub(r"\W", "_", f"{name}_{target.kind}", flags=re.ASCII)
        for call in recording.calls:
            self._check(call)
            if call.src[0].key not in self.kernels:
                self.kernels[call.src[0].key] = f"{stem}_k{len(self.kernels)}", call.src[0]
        arch = re.search(r"(?:sm|compute)_(\d+)", target.arch or "")
        self._arch = f"sm_{arch[1]}" if arch else KINDS[target.kind][1]
        self.computed: list[str] = []
        self.rendered: dict[str, dict[str, Any]] = {}

    def _check(self, call: Any) -> None:
        """Raise an error for what the kind does not have."""
        from devmod_targets.tinygrad.record import Ops, dtype_of, dtypes

        kind, tree = self.target.kind, call.src[0]
        if tree.op is not Ops.SINK:
            raise self._error(call, "a copy between devices in each call, which a program does not have")
        for each in tree.toposort():
            missing = each.dtype not in (dtypes.void, *dtypes.weaks) and dtype_of(each.dtype)
            if missing in _MISSING.get(kind, ()):
                others = [other for other in ("opencl", "cuda", "rocm", "metal", "webgpu") if missing not in _MISSING.get(other, ())]
                place = "an array" if each.op is Ops.PARAM else each.op.name
                raise self._error(call, f"{missing} in {place}. Kinds that have {missing}: {', '.join(others)}")

    def _error(self, call: Any, what: str) -> ArgumentError:
        from devmod_targets.tinygrad.record import effects

        calls = self.recording.calls
        reached = set(effects(call)[0])
        for each in calls[calls.index(call) :]:
            written, used = effects(each)
            reached |= written if used & reached else set()
        results = [each.name for each in self.recording.outputs if each.buffer in reached]
        where = f"the output {list_names(results)}" if results else "the state"
        return ArgumentError(
            f"the program {self.name!r} cannot be made for {self.target.kind}: {where} needs {what}",
            argument="fn",
            kind=self.target.kind,
        )

    def items(self) -> list[list[str]]:
        """Return what `render` gets."""
        return [[self.target.kind, self._arch, kernel, b64encode(pickle.dumps(tree)).decode()] for kernel, tree in self.kernels.values()]

    def program(self) -> devmod.Module:
        """Compile the kernels, and return the module of the program."""
        from devmod_targets.tinygrad.record import effects, realize

        module = self._compile()
        recording = self.recording
        self._arrays = {each.buffer: each for each in (*recording.inputs, *recording.outputs)}
        self._declared: dict[str, list[str]] = {"temporaries": [], "constants": [], "states": []}
        self._data: dict[str, Any] = {}
        written: set[Any] = set()
        steps = []
        for call in recording.calls:
            kernel = self.kernels[call.src[0].key][0]
            rendered = self.rendered[kernel]
            buffers = realize.get_call_arg_uops(call)
            written |= effects(call)[0]
            numbers = self._numbers(call)
            types = {each.name: each.type for each in module.functions[kernel].interface.params}
            arguments = {}
            for parameter, slot, variable in rendered["parameters"]:
                if parameter in types:
                    arguments[parameter] = numbers.get(variable, variable) if variable else self._argument(buffers[slot], types[parameter])
            steps.append(devmod.step(kernel, grid=rendered["grid"], block=rendered["block"], **arguments))
        lengths = {word for each in recording.inputs for side in each.shape for word in re.findall(r"[A-Za-z_]\w*", str(side))}
        inputs = [each.text for each in recording.inputs if each.buffer not in written]
        inputs += [f"{name}: int32" for name in recording.variables if name not in lengths]
        if self._data:
            module = devmod.bundle(module, devmod.const_loader(self._data, {}), mixed=True)
        if not self._declared["states"]:
            del self._declared["states"]
        return devmod.program(
            self.name,
            module,
            inputs=inputs,
            outputs=[each.text for each in recording.outputs],
            updates=[each.text for each in recording.inputs if each.buffer in written],
            requires=[f"{int(each.vmin)} <= {name} <= {int(each.vmax)}" for name, each in recording.variables.items()],
            steps=steps,
            **self._declared,
        )

    def _numbers(self, call: Any) -> dict[str, Any]:
        """Return the values of a call's variables that the function has bound."""
        from devmod_targets.tinygrad.record import expression

        bound = {each.src[0].expr: each.src[1].src[1] for each in call.src[1:] if each.is_bound_var}
        return {name: expression(value) for name, value in bound.items() if name not in self.recording.variables}

    def _argument(self, buffer: Any, dtype: str) -> str:
        """Return a step's argument: an array, seen as the kernel's type of elements."""
        from devmod_targets.tinygrad.record import Array, dtype_of

        recording, array = self.recording, self._arrays.get(buffer)
        if array is None:
            role = "states" if buffer in recording.states else "constants" if buffer.is_realized else "temporaries"
            array = recording.held.get(buffer) if role != "temporaries" else None
            if array is None:
                label = recording.names.take(f"{role[0]}{len(self._declared[role])}")
                array = Array(buffer, label, dtype_of(buffer.dtype), (buffer.max_numel(),))
            if role != "temporaries" and buffer in recording.computed:
                self.computed.append(array.name)
            if role == "temporaries":
                self._declared[role].append(array.text)
            else:
                self._add_constant(array, role)
            self._arrays[buffer] = array
        return array.name if dtype == array.dtype else f"{array.name}.view({dtype})"

    def _add_constant(self, array: Any, role: str) -> None:
        values = array.buffer.buffer.numpy().reshape(array.shape)
        if role == "states":
            initial = self.recording.names.take(f"{array.name}_0") if values.any() else "0"
            self._declared[role].append(f"{array.text} = {initial}")
            if initial == "0":
                return
            array = array._replace(name=initial)
        self._declared["constants"].append(array.text)
        self._data[array.name] = values

    def _compile(self) -> devmod.Module:
        """Return the module of the kernels: of one source, or for kinds that compile each kernel by itself, of one for each."""
        kind, rendered = self.target.kind, self.rendered
        language = "CUDA C++" if kind in ("cuda", "rocm") else None
        # The names of WGSL's buffers are those of the whole text.
        parts = [{kernel: each} for kernel, each in rendered.items()] if kind == "webgpu" else [rendered]
        texts = [_text(each) for each in parts]
        modules = [
            devmod.compile(text, self.target, name=next(iter(part)), language=language) for text, part in zip(texts, parts, strict=True)
        ]
        if kind not in _SEPARATE:
            return modules[0]
        code = {kernel: _text({kernel: each}).encode() for kernel, each in rendered.items()}
        functions = {key: info for each in modules for key, info in each.functions.items()}
        return create_own(kind, code, modules[0].format, functions)


def _text(kernels: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the source of kernels."""
    prefix = dict.fromkeys(line for each in kernels.values() for line in each["prefix"])
    return "\n".join([*prefix, *(each["text"] for each in kernels.values()), ""])


def _render(plans: Sequence[_Plan], report: Callable[[str], object]) -> None:
    """Render the kernels of all kinds, in several processes if there are many."""
    from devmod_targets.tinygrad.render import render

    items = [item for plan in plans for item in plan.items()]
    owners = [plan for plan in plans for _ in plan.kernels]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    stream = answers("devmod_targets.tinygrad.render", items, render, here=lambda _: len(items) < _MANY, processes=min(cores, len(items)))
    for plan, item, (answer, end) in zip(owners, items, stream, strict=True):
        kind, kernel = plan.target.kind, item[2]
        if answer is None or "error" in answer:
            problem = answer["error"] if answer else f"the process that renders it {end}"
            raise CompileError(f"tinygrad cannot render the kernel {kernel!r} for {kind}: {problem}", kind=kind, function=kernel)
        plan.rendered[kernel] = answer
        report(f"{kind}: kernel {len(plan.rendered)} of {len(plan.kernels)}")


# -- The check of a program.


def check(module: devmod.Module, name: str, inputs: Mapping[str, Any], expected: Sequence[Any]) -> list[str]:
    """Compare a program's results on each device that is here with those of tinygrad on the CPU.

    Parameters
    ----------
    module
        The module.
    name
        The name of its program. One with state starts with its initial state.
    inputs
        The inputs by name: arrays of NumPy, and integers.
    expected
        The results of tinygrad, in the order of the program's outputs: arrays of NumPy.

    Returns
    -------
    list of str
        What was checked, and what was not and why, in lines for a terminal.

    Raises
    ------
    CompileError
        A result differs by more than 1e-4 of the largest magnitude that was expected, or 1e-2 in a program with float16, or an integer
        differs at all.
    """
    import numpy as np

    parts = [module]
    for each in parts:
        parts += each.imports
    types = {each.type for part in parts for info in part.functions.values() if info.interface for each in info.interface.params}
    allowed = 1e-2 if types & {"float16", "bfloat16"} else 1e-4
    lines, skipped = [], set()
    for number, each in enumerate(expected):
        if not np.isfinite(each.astype(np.float64)).all():
            lines.append(f"not checked: result {number} of tinygrad on the CPU is not finite")
            skipped.add(number)
        elif not each.any() or (each.size > 1 and (each == each.flat[0]).all()):
            lines.append(f"not checked: result {number} of tinygrad on the CPU is constant, with any kernel that does nothing")
            skipped.add(number)
    checked, worst = [], (0.0, 0.0)
    kinds = {each.kind for each in parts}
    for device in devmod.devices() if len(skipped) < len(expected) else ():
        if device.kind not in kinds:
            continue
        label = f"{device.kind}:{device.index}"
        try:
            function = module[name].on(device)
            results = function(**inputs, **({"state": function.state()} if function.states else {}))
        except (DeviceNotFoundError, DeviceMemoryError) as error:
            lines.append(f"not checked on {label}: {error}")
            continue
        for number, (got, wanted) in enumerate(zip(results if isinstance(results, tuple) else (results,), expected, strict=True)):
            if number not in skipped:
                worst = max(worst, _difference(f"result {number} of {name!r} on {label}", np.asarray(got), wanted, allowed))
        checked.append(label)
    if checked:
        lines.insert(0, f"checked on {' and '.join(checked)} against tinygrad on the CPU: worst error {worst[0]:.1e} of {worst[1]:.2g}")
    elif not lines:
        lines.append("not checked: no device of the file's kinds is here")
    return lines


def _difference(what: str, got: Any, expected: Any, allowed: float) -> tuple[float, float]:
    """Return the largest difference, and the largest magnitude that was expected."""
    import numpy as np

    if got.shape != expected.shape or got.dtype != expected.dtype:
        raise CompileError(f"{what} is {got.dtype}{list(got.shape)}; tinygrad gives {expected.dtype}{list(expected.shape)}")
    wanted = expected.astype(np.float64)
    largest = float(abs(wanted).max())
    error = abs(got.astype(np.float64) - wanted)
    limit = allowed * largest if expected.dtype.kind == "f" else 0.0
    if not error.max() <= limit:  # NaN is an error too
        raise CompileError(
            f"{what} differs from that of tinygrad on the CPU by {error.max():.1e}, and the largest magnitude is {largest:.2g}: at most "
            f"{limit:.1e} is allowed"
        )
    return float(error.max()), largest
