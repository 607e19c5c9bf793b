"""Functions of tinygrad's Tensors as programs, for several kinds. Importing this imports no
tinygrad.

Each kind has the kernels and the launches that tinygrad's renderer for it chooses. No device and no
driver is needed.
"""

from __future__ import annotations

import pickle
import re
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING, Any

import devmod
from devmod import Origin, Target
from devmod.backend import (
    TUNED,
    HostArray,
    Payload,
    constant_identity,
    module_of,
    payload_of,
    release_import_lock,
    walk,
)
from devmod.errors import (
    ArgumentError,
    CompileError,
    ToolchainNotFoundError,
    list_names,
    not_installed,
)
from devmod.plugins import lookup
from devmod.worker import answers, processors
from devmod_models._names import default_names
from devmod_models._progress import progress_line
from devmod_models.onnx import FIXED_LENGTH
from devmod_targets.compilation import check_architecture
from devmod_targets.cuda import nvrtc
from devmod_targets.programs import make_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from devmod.backend import Source
    from devmod_models._tinygrad.record import Recording, Report


__all__ = ["check", "cpu", "export"]

#: The one version that this was tested with.
_VERSION = "0.14.0"
#: The languages of the texts, where a kind has several.
_OPENCL_C = "OpenCL C"
_LANGUAGES = {"cuda": "CUDA C++", "rocm": _OPENCL_C, "vulkan": _OPENCL_C}
#: The kinds whose compilers take one kernel at a time: their modules have a text for each.
_SEPARATE = ("metal", "webgpu")
#: The buffers that a kernel may have, by kind: Vulkan's are those of its Roadmap 2022 profile.
_MOST_BUFFERS = {"vulkan": 30, "webgpu": 8}
#: The least limit of buffers that tinygrad follows: those of a function of two arrays.
_LEAST_BUFFERS = 3
#: The bytes that an array of a kernel may have, by kind: what every device binds.
_MOST_BYTES = {"vulkan": 128 << 20, "webgpu": 128 << 20}
#: No limit of bytes.
_ANY = 1 << 63
#: The element types that a kind does not have.
_MISSING = {"webgpu": ("float64", "bfloat16"), "metal": ("float64",)}
#: The number of kernels from which other processes render some, and the most processes: each
#: imports tinygrad first, in 60 MB.
_MANY = 6
_MOST_PROCESSES = 16
#: What kernels of OpenCL that are written by hand need of a device.
_PROCESSOR = ("processor",)
_RENDER = "devmod_models._tinygrad.render"
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def export(
    fn: Callable[..., Any],
    *inputs: Any,
    targets: str | Target | Iterable[str | Target],
    name: str,
    names: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    constants: Mapping[str, Any] | None = None,
    folded: Mapping[str, str] | None = None,
    report: Callable[[str], object] | None = None,
    tune: Sequence[Any] | None = None,
    progress: bool | None = None,
) -> devmod.Module:
    """Return a module with a program that computes what a function of Tensors computes.

    The function is called up to four times, and its kernels do not run. Tensors that it uses are
    constants. Those that it assigns, such as a cache of keys and values, are state: ``program(x,
    state=program.state())``. State without values (`Tensor.empty`) begins with zeros.

    Parameters
    ----------
    fn
        The function. Its result is a Tensor, several, or a dict of them by name.
    inputs
        Its arguments: Tensors, of which only the shape and the element type count, and bound
        variables, as in ``Variable("position", 1, 512).bind(3)``. A variable is an integer input,
        or the length of a Tensor that was sliced by it.
    targets
        The targets, such as "opencl", "webgpu" or "cuda -arch=sm_80", one for each kind.
    name
        The name of the program.
    names
        The names of the inputs. Default: those of the function's parameters. A variable keeps its
        own.
    outputs
        The names of the results. Default: the keys of a dict, or ``y``, or ``y0``, ``y1`` of
        several.
    constants
        Tensors that the function uses, by the names that the file gives them. Default: the names of
        `get_state_dict`, or of variables.
    folded
        The `devmod.backend.constant_identity` of numbers, and of constants whose values the
        function has read: `devmod.replace_constants` refuses other values of them.
    report
        A function that gets lines of text: the names that differ in the program, and the progress.
    tune
        Arrays of NumPy and integers, one for each input. With them other optimizations of slow
        kernels are measured on the devices of the targets that are here. The fastest become
        variants in the file, with the times (`devmod.TuningRecord`).
    progress
        Whether a line on standard error shows the phase from the second second on. None: in a
        terminal alone.

    Returns
    -------
    Module
        The module. `devmod.save` writes it. A reader of the file needs no tinygrad.

    Raises
    ------
    ToolchainNotFoundError
        tinygrad is not installed, or not the version that this is for; or a compiler is missing.
    ArgumentError
        The function does what a program or a kind does not have. The message names the result and
        the operator.
    CompileError
        A kernel cannot be rendered or compiled.

    Examples
    --------
    >>> targets = ["opencl", "webgpu"]
    >>> module = tinygrad.export(model, x, targets=targets, name="classify")  # doctest: +SKIP
    >>> devmod.save(module, "classify.devmod")  # doctest: +SKIP
    """
    _check_version()
    from devmod_models._tinygrad.record import record

    fn = getattr(fn, "fxn", fn)  # a TinyJit, which captures by itself
    given = _named(fn, inputs, names)
    if tune is not None and len(tune) != len(inputs):
        raise ArgumentError(
            f"tune has {len(tune)} values; expected {len(inputs)}, one for each input",
            argument="tune",
        )
    with progress_line(name, progress=progress) as show:

        def reported(text: str, _: float) -> None:
            show(text)
            if report is not None:
                report(text)

        show("tracing")
        module, _ = make(
            partial(record, fn, given, outputs, constants or {}),
            targets=targets,
            name=name,
            folded=folded or {},
            report=reported,
            tune=tune,
        )
    return module


def make(
    record: Callable[[], Recording],
    *,
    targets: Any,
    name: str,
    folded: Mapping[str, str],
    report: Report,
    tune: Sequence[Any] | None,
    options: Sequence[str] = (),
) -> tuple[devmod.Module, Recording]:
    """Return what `export` returns, and the recording of the program: that without a limit of
    buffers, if a kind has none.

    Parameters
    ----------
    record
        A function that records the program. It is called for each limit of a kernel's buffers.
    options
        The options of the export that the file keeps.
    """
    from devmod_models._tinygrad.parts import in_parts
    from devmod_models._tinygrad.record import settings

    parsed = _parsed(targets)
    if not _NAME.fullmatch(name):
        raise ArgumentError(
            f"tinygrad.export: {name=} is no name of a program; expected letters, digits and _",
            argument="name",
        )
    limits = {kind: _MOST_BUFFERS.get(kind, 0) for kind in parsed}
    # Arrays are in parts for all kinds, so that these share constants.
    most = min(_MOST_BYTES.get(kind, _ANY) for kind in parsed)

    def recorded(limit: int) -> Recording:
        with settings(MAX_KERNEL_BUFFERS=limit):
            return in_parts(record(), most)

    with settings():
        recordings = _recordings(sorted({*limits.values()}), recorded)
        plans = []
        for kind, target in parsed.items():
            plans.append(_Plan(name, target, recordings[limits[kind]], folded, options))
        _render(plans, report)
        for plan in list(plans):
            if plan.has_kernels_by_hand():
                plan.needs = _PROCESSOR
                plans.insert(
                    plans.index(plan) + 1, plan.general(recordings[limits[plan.target.kind]])
                )
        _render(plans, report)
    for text, own in plans[0].names.renamed.items():  # those of each kind
        report(f"{text!r} is {own} in the program", 1.0)
    return _compiled(plans, report, tune), recordings[min(recordings)]


def _recordings(
    limits: Iterable[int], recorded: Callable[[int], Recording]
) -> dict[int, Recording]:
    """Return a recording for each limit of a kernel's buffers; 0 is none, and comes first. Kinds
    share one whose kernels have no more.
    """
    result: dict[int, Recording] = {}
    for limit in limits:
        own = result.get(0)
        if own is None or own.most_buffers > limit:
            own = recorded(limit)
            excess = own.most_buffers - limit
            if limit and excess > 0 and own.parts:
                own = recorded(max(limit - excess, _LEAST_BUFFERS))
        result[limit] = own
    return result


def _compiled(
    plans: Sequence[_Plan],
    report: Report,
    tune: Sequence[Any] | None,
) -> devmod.Module:
    """Return the module of all kinds. Their compilers run at the same time."""
    release_import_lock()
    with ThreadPoolExecutor(len(plans)) as threads:
        compiling = []
        for plan in plans:
            report(f"{plan.target.kind}: compiling {len(plan.kernels)} kernels", 1.0)
            compiling.append(threads.submit(plan.compile, plan.rendered))
        programs = []
        for plan, each in zip(plans, compiling, strict=True):
            kernels = each.result()
            program = plan.program(kernels)
            if tune is not None:
                from devmod_models._tinygrad.tuning import Search

                program = Search(plan, kernels, program, tune, report).tuned()
            programs.append(program)
    if len(programs) == 1:
        return programs[0]
    return devmod.bundle(*programs)


def check_architectures(targets: str | Target | Iterable[str | Target]) -> None:
    """Raise CompileError for a target that must name an architecture, before a trace takes time."""
    for text in texts_of(targets):
        target = Target.parse(text)
        check_architecture(target, _language(target.kind))


def _language(kind: str) -> str | None:
    """Return the language of a kind's texts, if it has several. Without NVRTC, cuda's is OpenCL C,
    which has no tensor cores.
    """
    if kind == "cuda":
        try:
            nvrtc.version()
        except ToolchainNotFoundError:
            return _OPENCL_C
    return _LANGUAGES.get(kind)


def texts_of(targets: str | Target | Iterable[str | Target]) -> list[str]:
    """Return the texts of targets, or of one."""
    if isinstance(targets, (str, Target)):
        targets = [targets]
    return list(map(str, targets))


def _parsed(targets: Any) -> dict[str, Target]:
    """Return the targets by their kinds."""
    from devmod_models._tinygrad.render import KINDS

    texts = texts_of(targets)
    parsed = {each.kind: each for each in map(Target.parse, texts)}
    if parsed and len(parsed) == len(texts) and parsed.keys() <= KINDS.keys():
        return parsed
    for kind in parsed:
        lookup("devmod.targets", kind)  # its error explains words such as gpu
    expected = f"expected one target of each kind, of {list_names(KINDS)}"
    raise ArgumentError(f"tinygrad.export: {expected}; got {list_names(texts)}", argument="targets")


@contextmanager
def cpu() -> Iterator[None]:
    """Run tinygrad on its CPU device, with the clang of the wheel ziglang, fixed settings and no
    cache on disk.

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
    _check_version()
    from devmod_models._tinygrad.record import settings

    with settings():
        yield


def _check_version() -> None:
    """Raise an error for a version of tinygrad that this was not tested with. tinygrad has no
    stable interface.
    """
    try:
        found = metadata.version("tinygrad")
    except metadata.PackageNotFoundError:
        found = ""
    if found != _VERSION:
        wanted = not_installed(f"tinygrad {_VERSION}", "devmod-core[tinygrad]", "tinygrad")
        other = ""
        if found:
            other = f"tinygrad {found} is installed, and its versions differ too much. "
        raise ToolchainNotFoundError(
            f"functions of tinygrad cannot be exported here: {other}{wanted}"
        )


def _named(fn: Any, inputs: Sequence[Any], names: Sequence[str] | None) -> dict[str, Any]:
    """Return the inputs by their names."""
    from tinygrad import Tensor, UOp, dtypes

    if names is None:
        names = default_names(fn, len(inputs))
    given = dict(zip(names, inputs, strict=False))
    if not len(given) == len(names) == len(inputs):
        raise ArgumentError(
            f"names has {list_names(names)}; expected {len(inputs)} different names, one for each input",
            argument="names",
        )
    for label, each in given.items():
        if not isinstance(each, Tensor) and not (isinstance(each, UOp) and each.is_bound_var):
            raise ArgumentError(
                f"the input {label!r} is {type(each).__name__}; expected a Tensor or a bound Variable",
                argument=label,
            )
        if each.dtype in dtypes.weaks and isinstance(each, Tensor):
            raise ArgumentError(
                f"the input {label!r} is a number without an element type; give it one, as in Tensor(1.5, dtype='float32')",
                argument=label,
            )
    return given


class _Plan:
    """The kernels and the steps of one kind. If opencl has kernels for processors that are written
    by hand, it has two: another one for all other devices, which is general.
    """

    def __init__(
        self,
        name: str,
        target: Target,
        recording: Recording,
        folded: Mapping[str, str],
        options: Sequence[str],
        *,
        is_general: bool = False,
    ) -> None:
        from tinygrad.uop.ops import Ops

        from devmod_models._tinygrad.attention import with_attention
        from devmod_models._tinygrad.layers import with_layers
        from devmod_models._tinygrad.record import each_call, effects
        from devmod_models._tinygrad.render import KINDS, OPENCL_C

        self.name = name
        self.target = target
        self.recording = recording
        self.is_general = is_general
        #: What its kernels need of a device beside what their texts show.
        self.needs: tuple[str, ...] = ()
        #: The names in use: kinds that share a recording have the same ones.
        self.names = deepcopy(recording.names)
        #: The digests of constants whose values the function has read, by their names.
        self._read = folded
        self.kernels: dict[Any, str] = {}  # by the tree
        self._options = options
        self.rendered: dict[str, dict[str, Any]] = {}
        self._arrays = {each.buffer: each for each in (*recording.inputs, *recording.outputs)}
        self._data: dict[str, Any] = {}
        #: The names in the model of constants, by their names in the program.
        self._originals: dict[str, str] = {}
        self.language = _language(target.kind)
        self.arch = KINDS[target.kind][1]
        if target.kind == "cuda" and self.language == _OPENCL_C:
            self.arch = OPENCL_C
        elif target.kind == "cuda" and target.arch:
            self.arch = re.sub(r"\Acompute", "sm", target.arch.split(",")[0])
        has_kernels_by_hand = target.kind == "opencl" and not is_general
        self._calls = with_layers(recording, for_processors=has_kernels_by_hand)
        if has_kernels_by_hand:
            self._calls = with_attention(recording._replace(calls=self._calls))
        self._effects = effects(each_call(self._calls))
        self._declared = self._interface()
        label = f"{name}_{target.kind}"
        if is_general:
            label += "_general"
        for call in self._effects:
            tree = call.src[0]
            if tree.op is not Ops.SINK:
                raise self.error(tree, "a copy between devices in each call, which no program has")
            if tree in self.kernels:
                continue
            self._check_types(tree)
            self._check_parts(call)
            kernel = f"{label}_k{len(self.kernels)}"
            self.kernels[tree] = kernel
            self.rendered[kernel] = {}  # the order of the file

    def has_kernels_by_hand(self) -> bool:
        """Return whether a kernel was rendered that is written by hand for processors."""
        return any(map(self._is_by_hand, self.kernels))

    def _is_by_hand(self, tree: Any) -> bool:
        from devmod_models._tinygrad.layers import LayerInfo
        from devmod_models._tinygrad.products import NAME

        if self.target.kind != "opencl" or self.is_general:
            return False
        rendered = self.rendered[self.kernels[tree]]
        return isinstance(tree.arg, LayerInfo) or rendered.get("optimizations") == NAME

    def general(self, recording: Recording) -> _Plan:
        """Return the plan for the other devices of the kind. It has those kernels of this one that
        are not written by hand.
        """
        result = _Plan(
            self.name, self.target, recording, self._read, self._options, is_general=True
        )
        for tree, kernel in self.kernels.items():
            if tree in result.kernels and not self._is_by_hand(tree):
                own = result.kernels[tree]
                text = re.sub(rf"\b{kernel}\b", own, self.rendered[kernel]["text"])
                result.rendered[own] = {**self.rendered[kernel], "text": text}
        return result

    def fits(self, device: str) -> bool:
        """Return whether a device, such as "opencl:0", gets the kernels of this plan."""
        is_processor = "processor" in (devmod.device(device).features or ())
        if self.is_general:
            return not is_processor
        return is_processor or not self.needs

    def pickled(self, tree: Any) -> str:
        """Return a kernel's tree as `render` takes it."""
        try:
            return b64encode(pickle.dumps(tree)).decode()
        except RecursionError:
            raise self.error(
                tree,
                f"a kernel of {len(tree.toposort())} operations, which depend on each other too deeply",
            ) from None

    def item(self, kernel: str, *optimizations: str) -> list[str]:
        """Return what `render` takes for a kernel beside its tree."""
        return [self.target.kind, self.arch, kernel, *optimizations]

    def results_of(self, items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield what `render` returns, as the function does."""
        return results_of(items)

    def add(self, tree: Any, rendered: dict[str, Any]) -> None:
        """Add what `render` has returned for a kernel, and its tree as it takes it.

        Raises
        ------
        CompileError, ArgumentError
            It cannot be rendered, or exceeds a limit of the kind.
        """
        kind = self.target.kind
        kernel = self.kernels[tree]
        if "error" in rendered:
            raise CompileError(
                f"tinygrad cannot render the kernel {kernel!r} for {kind}: {rendered['error']}",
                kind=kind,
                function=kernel,
            )
        if "length" in rendered:
            raise CompileError(
                f"the kernel {kernel!r} for {kind}: {rendered['length']}",
                kind=kind,
                function=kernel,
                argument=FIXED_LENGTH,
            )
        if "limit" in rendered:
            store = next(each for each in tree.toposort() if each.op.name == "STORE")
            raise self.error(
                tree,
                f"{rendered['limit']}, for {store.src[1].op.name}. Choose a smaller largest length",
            )
        self.rendered[kernel] = rendered

    def _check_types(self, tree: Any) -> None:
        """Raise an error for an element type of a kernel that the kind does not have."""
        from tinygrad import dtypes
        from tinygrad.uop.ops import Ops

        from devmod_models._tinygrad.record import dtype_of
        from devmod_models._tinygrad.render import KINDS

        missing = _MISSING.get(self.target.kind, ())
        for each in tree.toposort():
            if each.dtype in (dtypes.void, *dtypes.weaks):
                continue
            dtype = dtype_of(each.dtype)
            if dtype in missing:
                place = each.op.name
                if each.op is Ops.PARAM:
                    place = "an array"
                others = ", ".join(kind for kind in KINDS if dtype not in _MISSING.get(kind, ()))
                raise self.error(tree, f"{dtype} in {place}. Kinds with {dtype}: {others}")

    def _check_parts(self, call: Any) -> None:
        """Raise an error for a kernel that has too many buffers because an array is in parts."""
        from tinygrad.engine.realize import get_call_arg_uops

        kind = self.target.kind
        buffers = get_call_arg_uops(call)
        most = _MOST_BUFFERS.get(kind, len(buffers))
        parts = next(filter(None, map(self.recording.parts.get, buffers)), [])
        if not parts or len(buffers) <= most:
            return
        label = "an array"
        if parts[0] in self.recording.held:
            label = repr(self.recording.held[parts[0]].original)
        size = sum(each.max_numel() * each.dtype.itemsize for each in parts)
        raise self.error(
            call.src[0],
            f"a kernel with {len(buffers)} arrays, of which it has at most {most}: {label} has {size} bytes, and is "
            f"in {len(parts)} parts, since an array has at most {_MOST_BYTES[kind]}. Store it in float16, or leave out {kind}",
        )

    def error(self, tree: Any, what: str) -> ArgumentError:
        """Return the error of a kernel, with the outputs that need it."""
        from devmod_models._tinygrad.record import reached

        own = [written for call, written in self._effects.items() if call.src[0] is tree]
        changed = reached(self._effects, set().union(*own))
        results = list_names(each.name for each in self.recording.outputs if each.buffer in changed)
        text = f"the program {self.name!r} cannot be made for {self.target.kind}: its output {results} needs {what}"
        return ArgumentError(text, argument="fn", kind=self.target.kind)

    def program(self, module: devmod.Module) -> devmod.Module:
        """Return the module of the program. `module` has its kernels. Tuned ones have their own
        grids and blocks.
        """
        steps = self._steps(self._calls, module.functions)
        if self._data:
            module = devmod.bundle(module, devmod.const_loader(self._data, {}), mixed=True)
        return make_program(
            self.name,
            module,
            steps,
            self._declared,
            originals=self._originals,
            folded=self._folded(),
        )

    def _steps(self, calls: Iterable[Any], functions: Mapping[str, Any]) -> list[Any]:
        """Return the steps of calls. `functions` has the kernels."""
        from devmod_models._tinygrad.record import Repeat, expression

        steps: list[Any] = []
        for call in calls:
            if isinstance(call, Repeat):
                inner = self._steps(call.calls, functions)
                steps.append(devmod.repeat(expression(call.turns), call.variable, inner))
                continue
            kernel = self.kernels[call.src[0]]
            rendered = self.rendered[kernel]
            info = functions[kernel]
            arguments = self._arguments(call, rendered, info)
            launch = {"grid": rendered["grid"], "block": rendered["block"]}
            if TUNED in info.interface.needs:
                launch = {}
            steps.append(devmod.step(kernel, **launch, **arguments))
        return steps

    def _arguments(self, call: Any, rendered: Mapping[str, Any], info: Any) -> dict[str, str]:
        """Return the arguments of a step by the names of the kernel's parameters."""
        from tinygrad.engine.realize import get_call_arg_uops

        from devmod_models._tinygrad.record import identifier, number_text

        numbers = {}
        for each in call.src[1:]:
            if each.is_bound_var:
                bound, number = each.unbind()
                numbers[identifier(bound.expr)] = number
        buffers = get_call_arg_uops(call)
        types = {each.name: each.type for each in info.interface.params}
        arguments = {}
        for parameter, slot, variable in rendered["parameters"]:
            if parameter not in types:  # the text does not use it
                continue
            number = numbers.get(variable, variable)
            if variable in self.recording.variables:  # a number of the call
                number = number_text(variable)
            if number is False:  # no variable
                array = self._array(buffers[slot])
                number = array.name
                if types[parameter] != array.dtype:
                    number += f".view({types[parameter]})"
            arguments[parameter] = number
        return arguments

    def _interface(self) -> dict[str, list[str]]:
        """Return the declarations of a program that has no step yet."""
        from devmod_models._tinygrad.record import multiple_of

        declared: dict[str, list[str]] = {
            "inputs": [],
            "outputs": [each.text for each in self.recording.outputs],
            "updates": [],
            "requires": [],
            "temporaries": [],
            "constants": [],
            "states": [],
        }
        written = set[Any]().union(*self._effects.values())
        lengths = set()
        for array in self.recording.inputs:
            lengths.update(_NAME.findall(" ".join(map(str, array.shape))))
            role = "inputs"
            if array.buffer in written:
                role = "updates"
            declared[role].append(array.text)
        for variable, each in self.recording.variables.items():
            name, step = multiple_of(variable)
            least, most = int(each.vmin) * step, int(each.vmax) * step
            declared["requires"].append(f"{least} <= {name} <= {most}")
            if step > 1:
                declared["requires"].append(f"{name} % {step} == 0")
            if name not in lengths:
                declared["inputs"].append(f"{name}: int32")
        return declared

    def _folded(self) -> dict[str, str]:
        """Return the digests of what the function has from outside and is no constant of the
        program that may get another value.
        """
        result = {**self._read}
        free = {self._originals.get(name, name) for name in self._data}
        for array in self.recording.held.values():
            if array.buffer.is_realized and array.original not in ("", *free, *result):
                result[array.original] = constant_identity(array.original, _values(array))
        return dict(sorted(result.items()))

    def _array(self, buffer: Any) -> Any:
        """Return the array of a buffer, which a step uses."""
        if buffer not in self._arrays:
            # The parts of an array are declared in their order.
            for each in self.recording.parts.get(buffer, [buffer]):
                self._arrays[each] = self._declare(each)
        return self._arrays[buffer]

    def _declare(self, buffer: Any) -> Any:
        """Return the array of a buffer that is no input and no output, and declare it."""
        from devmod_models._tinygrad.record import Array, dtype_of

        names = self.names
        array = self.recording.held.get(buffer)
        role = "constants"
        if buffer in self.recording.states:
            role = "states"
        elif not buffer.is_realized:
            role = "temporaries"
            array = None
        if array is None:
            label = names.take(f"{role[0]}{len(self._declared[role])}")
            array = Array(buffer, label, dtype_of(buffer.dtype), (buffer.max_numel(),))

        text = array.text
        if role == "constants":
            self._add_values(array)
        elif role == "states":
            first = "0"
            if buffer.is_realized and buffer.buffer.numpy().any():
                first = names.take(f"{array.name}_0")
                constant = array._replace(name=first)
                self._declared["constants"].append(constant.text)
                self._add_values(constant)
            text += f" = {first}"
        self._declared[role].append(text)
        return array

    def _add_values(self, array: Any) -> None:
        """Add the elements of a constant."""
        self._data[array.name] = _values(array)
        # A computed constant has no name in the model, nor has one of which others are computed.
        original = array.original
        if array.buffer in self.recording.fixed or original in self._read:
            original = ""
        if original != array.name:
            self._originals[array.name] = original

    def compile(self, rendered: Mapping[str, Mapping[str, Any]]) -> devmod.Module:
        """Return the module of kernels: of one source, or for kinds that compile each kernel by
        itself, of one for each.
        """
        kind = self.target.kind
        options = []
        if kind == "opencl" or self.language == _OPENCL_C:
            options.append("-w")  # clang warns about parentheses and macros, also at the receiver
        parts = [rendered]
        if kind == "webgpu":  # in WGSL, the names of buffers are those of the whole text
            parts = [{kernel: each} for kernel, each in rendered.items()]
        functions: dict[str, devmod.FunctionInfo] = {}
        for part in parts:
            module = self._compile_part(part, options)
            functions |= module.functions

        if self.needs:
            functions = {name: _with_needs(each, self.needs) for name, each in functions.items()}
        toolchain = ""
        if module.origin:
            toolchain = module.origin.toolchain
        payload = payload_of(module)
        if payload is None:  # a bundle, of several architectures
            return module
        _, fmt, _, code = payload
        source: Source | None = module.source
        if kind in _SEPARATE:
            source = None
            code = {kernel: _text({kernel: each}).encode() for kernel, each in rendered.items()}
        origin = Origin(str(self.target), f"tinygrad {_VERSION}, {toolchain}", self._options)
        return module_of(Payload(kind, code, fmt, functions, source, origin))

    def _compile_part(
        self, kernels: Mapping[str, Mapping[str, Any]], options: Sequence[str]
    ) -> devmod.Module:
        """Return the module of the kernels of one source.

        clspv crashes if LLVM joins loads with conditions. It leaves volatile ones, which are
        slower: those of a kernel that is refused become volatile.

        Raises
        ------
        CompileError
            The compiler refuses one. The message names the outputs that need it.
        """
        from devmod_models._tinygrad.render import GUARDED, VOLATILE

        name = next(iter(kernels))
        texts = {**kernels}
        while True:
            try:
                return devmod.compile(
                    _text(texts), self.target, name=name, language=self.language, options=options
                )
            except ToolchainNotFoundError:
                raise
            except CompileError as error:
                refused = error.function
                if refused not in texts:
                    raise
                text = texts[refused]["text"]
                if VOLATILE not in text and GUARDED in text:
                    changed = text.replace(GUARDED, VOLATILE)
                    texts[refused] = {**texts[refused], "text": changed}
                    continue
                tree = next(tree for tree, kernel in self.kernels.items() if kernel == refused)
                reason = str(error).partition(". ")[0]
                what = f"the kernel {refused!r}, which its compiler refuses ({reason})"
                error.args = (f"{self.error(tree, what)}. Leave out {self.target.kind}",)
                raise


def _with_needs(info: Any, needs: Iterable[str]) -> Any:
    """Return a function that needs more of a device."""
    interface = info.interface
    return info.replace(interface=interface.replace(needs=[*interface.needs, *needs]))


def _values(array: Any) -> HostArray:
    """Return the elements of an array of a recording."""
    return HostArray(array.buffer.buffer.as_memoryview(), array.shape, array.dtype)


def _text(kernels: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the source of kernels."""
    prefix: dict[str, None] = {}
    texts = []
    for each in kernels.values():
        prefix |= dict.fromkeys(each["prefix"])
        texts.append(each["text"])
    return "\n".join([*prefix, *texts, ""])


def _render(plans: Sequence[_Plan], report: Report) -> None:
    """Render the kernels of all kinds that are not yet. Kinds whose kernels are equal share the
    work.
    """
    from devmod_models._tinygrad.render import HEURISTIC

    items: list[Any] = []
    owners = []
    trees: dict[Any, list[_Plan]] = {}
    for plan in plans:
        for tree, kernel in plan.kernels.items():
            if not plan.rendered[kernel]:
                trees.setdefault(tree, []).append(plan)
    for tree, own in trees.items():
        owners.append(own)
        kinds = []
        for plan in own:
            optimizations = [HEURISTIC] * plan.is_general
            kinds.append(plan.item(plan.kernels[tree], *optimizations))
        items.append([own[0].pickled(tree), kinds])
    rows = zip(trees, items, owners, results_of(items), strict=True)
    for number, (tree, (text, _), own, (results, end)) in enumerate(rows, 1):
        failed = {"error": f"the process that renders it {end}"}
        for plan, rendered in zip(own, results or [failed] * len(own), strict=True):
            plan.add(tree, {**rendered, "tree": text})
        report(f"kernel {number} of {len(items)}", number / len(items))


def results_of(items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the answers for kernels in order, each with how its process ended. If there are many
    kernels, this process and others render them in turns.
    """
    from devmod_models._tinygrad.render import render

    processes = 1
    if len(items) >= _MANY:
        processes = min(processors(), _MOST_PROCESSES)
    own = set(map(id, items[::processes]))
    return answers(
        _RENDER, items, render, here=lambda each: id(each) in own, processes=processes - 1
    )


def check(
    module: devmod.Module, name: str, inputs: Mapping[str, Any], expected: Sequence[Any]
) -> list[str]:
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
        A result differs by more than 1e-4 of the largest magnitude that was expected, or 1e-2 in a
        program with float16, or an integer differs at all.
    """
    from devmod_models._tinygrad.check import check_devices, device_labels, remarks, try_calls

    labels = device_labels(part.kind for part in walk(module))
    results = ((label, *try_calls(module, name, label, [((), inputs)])) for label in labels)
    return [*check_devices(module, name, results, [expected]), *remarks(expected)]
