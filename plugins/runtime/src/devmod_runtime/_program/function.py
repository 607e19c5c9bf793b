"""ProgramFunction: a program on the devices of one kind."""

from __future__ import annotations

from _collections_abc import Mapping  # collections.abc, without the package collections
from _weakref import ref
from functools import partial
from struct import Struct
from struct import error as struct_error
from sys import intern

from devmod._modules.bundle import BundleModule
from devmod._modules.choice import program_kernels
from devmod._modules.following import Following
from devmod.backend import (
    STRUCT_FORMATS,
    ConversionError,
    ProcessLocal,
    declaration_text,
    escape,
    escape_line,
    html_table,
    interface_text,
)
from devmod.errors import ArgumentError, LaunchError, count_text, did_you_mean, list_names
from devmod_readers.programs import Sampler, bind_lengths, names_in
from devmod_runtime._device.device_array import DeviceArray
from devmod_runtime._fork import check_driver
from devmod_runtime._launch.checks import FollowError
from devmod_runtime._launch.function import Launch, PerInstance, follow_to
from devmod_runtime._launch.function import _references as references
from devmod_runtime._launch.opening import Opening
from devmod_runtime._launch.scalars import packer, plain_packer
from devmod_runtime._program.call import CheckedProgramCall, ProgramArgument, repeat
from devmod_runtime._program.plan import forms_of, lengths_of, measure, steps_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from inspect import Signature
    from typing import Any, NoReturn, Self

    from devmod import Array, FunctionInfo
    from devmod_readers.programs import Program, Scalar
    from devmod_runtime._device.device import Device
    from devmod_runtime._device.stream import Stream
    from devmod_runtime._launch.function import Function
    from devmod_runtime._program.plan import LaunchPlan, Layout

Opening.program_call = CheckedProgramCall
#: The roles of parameters that a call has.
_CALL_ROLES = ("input", "update", "output")
#: The roles and formats of the arrays of a program whose calls may be plain.
_PLAIN = {("input", ""), ("output", "")}
_NO_GRID = "the steps of a program have their own, which follow from the shapes and the scalars of the call"


def _describe(function: ProgramFunction) -> str:
    """Return the docstring of a program: its signature, its parameters and its kernels."""
    program = function.program
    interface = function.interface
    lines = [
        f"The program {function.name}{interface_text(interface)} on {function.kind}.",
        "",
        "Parameters",
        "----------",
    ]
    by_name = {each.name: each for each in interface.params}
    for name in function.names:
        lines.append(declaration_text(by_name[name]))
    for array in program.arrays("output"):
        lines.append(
            f"{declaration_text(by_name[array.name])}, by name; default: a new array, which is returned"
        )
    steps = count_text(len(program.steps), "step")
    lines += ["", "Kernels", "-------", f"    {', '.join(program.kernels)}, in {steps}"]
    return escape("\n".join(lines))


def _signature(function: ProgramFunction) -> Signature:
    from inspect import Parameter, Signature

    texts = {
        each.name: declaration_text(each).partition(": ")[2].partition(" = ")[0]
        for each in function.interface.params
    }
    parameters = []
    for name in function.names:
        default = function.defaults.get(name, Parameter.empty)
        parameters.append(
            Parameter(
                name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=texts[name]
            )
        )
    outputs = [each.name for each in function.program.arrays("output")]
    parameters += [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=texts[name])
        for name in outputs
    ]
    if function.states:
        parameters.append(Parameter("state", Parameter.KEYWORD_ONLY))
    parameters.append(Parameter("stream", Parameter.KEYWORD_ONLY, default=None))
    return Signature(
        parameters, return_annotation=", ".join(texts[name] for name in outputs) or None
    )


class ProgramFunction(ProcessLocal):
    """A program of a module. `Module.get_function` returns one.

    Attributes
    ----------
    name : str
        The name by which `get_function` finds it.
    info : FunctionInfo
        Its declarations.
    device : Device
        The device of a call without device arrays.
    names : tuple of str
        The arguments in their order: inputs without a default, updates, and scalars with one.
    """

    _pickle_advice = "pass devmod.dumps(module) or the path of a file, and load it there"

    __doc__ = PerInstance(__doc__, _describe)
    __signature__ = PerInstance(None, _signature)

    def __init__(
        self,
        module: Any,
        program: Program,
        info: FunctionInfo,
        device: Device,
        functions: Mapping[str, Function],
        *,
        fixed_device: Device | None,
    ) -> None:
        self._begin(module, program, info, device)
        self.functions = functions
        #: The only device of its calls; None if their arrays decide.
        self.fixed_device = fixed_device
        self.scalars = {each.name: each for each in program.scalars}
        self.defaults = {
            each.name: each.default for each in program.scalars if each.default is not None
        }
        self.names = tuple(each.name for each in program.arguments)
        self.outputs = [each.name for each in program.arrays("output")]
        self.packers = {each.name: packer(each.type) for each in program.scalars}
        #: The exact type of a plain number, and the functions that pack and unpack it: 0.2 µs of a
        #: call, where `packers` take 1.4.
        self._plain: dict[str, Any] = {}
        for scalar in program.scalars:
            self._plain[scalar.name] = (None, None, None)
            plain = plain_packer(scalar.type)
            if plain is not None:
                unpack = Struct("<" + STRUCT_FORMATS[scalar.type]).unpack
                self._plain[scalar.name] = (*plain, unpack)
        #: Those of the constants by name. An error of theirs is one of the look-up.
        self.constant_shapes = {
            name: each.shape for name, each in module.constants(program, device).items()
        }
        self.states = [each.name for each in program.arrays("state")]
        self.arrays = {
            each.name: each for each in program.arrays("input", "update", "output", "state")
        }
        self.arguments = [ProgramArgument(*each) for each in enumerate(self.arrays.values())]
        self._find_places()
        self.new_arrays = {each.name: each for each in program.arrays("output", "temporary")}
        #: Those that are cleared before their first step, whatever the shapes are.
        self.cleared = [each.name for each in self.new_arrays.values() if each.cleared]
        self.lifetimes = program.lifetimes()
        self.forms = forms_of(program)
        #: The arrays whose shapes decide about those of `forms`.
        self.given = [*program.arrays("input", "update", "state"), *program.arrays("constant")]
        self.steps = steps_of(self)
        #: A step of each grid, block, threads and sizes of a tuned kernel, which may have a grid of
        #: its own.
        self.extents = {each.extent: each for each in reversed(self.steps)}
        sizes = program.size_names
        for *_, tuned in self.extents:
            for each in tuned:
                sizes.update(names_in(each))
        #: The integer scalars by which the shapes and the launches differ.
        self.sizes = tuple(sorted(sizes & self.scalars.keys()))
        #: The cached launches for shapes and a stream.
        self._plans: dict[Any, LaunchPlan] = {}
        #: The cached places of the values of launches, which several plans have.
        self._layouts: dict[Any, Layout] = {}
        #: The cached launches of steps, which several plans have.
        self._calls: dict[Any, Any] = {}
        references.add(ref(self, references.discard))

    def _find_places(self) -> None:
        """Find what `repeat` needs."""
        places = {name: place for place, name in enumerate(self.names)}
        #: Where the arguments of a call by position have the arrays, None for an output, each with
        #: its type; where they have the scalars; and the default at each place.
        self.array_places = [
            (places.get(each.name), intern(each.type)) for each in self.arrays.values()
        ]
        self.scalar_places = [(places[each.name], each) for each in self.program.scalars]
        self.samplers = [
            each for each in self.program.declared.values() if isinstance(each, Sampler)
        ]
        self.defaults_at = tuple([self.defaults.get(name) for name in self.names])
        #: The most arguments of a call that `repeat` takes. It takes none unless all arrays are
        #: read or returned, and none is an image.
        self.plain_count = -1
        if {(each.role, each.format) for each in self.arrays.values()} == _PLAIN:
            self.plain_count = len(self.names)

    def _begin(self, module: Any, program: Program, info: FunctionInfo, device: Device) -> None:
        self.module = module
        self.program = program
        self.info = info
        self.device = device
        self.name = program.name
        self.kind = device.kind
        assert info.interface is not None
        self.interface = info.interface
        self._resolve: Callable[[Device], ProgramFunction] = partial(module._function_on, self.name)
        #: The program to which the steps refer, by a weak reference; None for itself.
        self._of_steps: ProgramFunction | None = None
        #: The modules that have it: several of a merged file.
        self._modules: Sequence[Any] = [module]
        self._following: Following | None = None
        #: By the device of an array, the program of its kind that takes it.
        self._others: dict[Device, Any] = {}
        #: Returns the devices on which it runs; None: those of its module.
        self._find_devices: Callable[[], list[Device]] | None = None

    def __call__(self, /, *args: Any, stream: Stream | None = None, **keywords: Any) -> Any:
        """Run the program.

        Parameters
        ----------
        *args
            The arguments in order (`names`): arrays of the declared types and shapes, images,
            numbers.
        stream
            The stream of the launches. Default: the device's current stream.
        **keywords
            Arguments by name. An output that is given is written, in place of a new array.
            ``state=`` gives a program with a state the arrays of `state`, which it reads and
            writes.

        Returns
        -------
        array, tuple of arrays, or None
            The outputs. If a device array is among the arguments, they are device arrays, and the
            call returns when its launches are queued. Otherwise they are NumPy arrays.

        Raises
        ------
        ArgumentError
            An argument is invalid; the message names it. Nothing was launched.
        LaunchError
            A launch exceeds a limit of the device, or the driver refuses it.
        """
        check_driver(self.kind)
        if self._others and (other := self._other_of(args)) is not None:
            return _CALL(other, *args, stream=stream, **keywords)
        try:
            # An observer that replaces calls has emptied the caches, so none is repeated.
            if len(args) <= self.plain_count and not keywords:
                result = repeat(self, args + self.defaults_at[len(args) :], stream)
                if result is not NotImplemented:
                    return result
            return Opening.program_call(self, self._arrange(args, keywords), stream).run()
        except FollowError as follow:
            function = follow.function
        except LaunchError as error:
            self.add_name(error)
            raise
        return _CALL(function, *args, stream=stream, **keywords)

    def call_into_new(self, /, *args: Any, stream: Stream | None = None, **keywords: Any) -> None:
        """Run the program as a call does. The outputs that are given are new memory: one that no
        thread writes is cleared.
        """
        check_driver(self.kind)
        try:
            Opening.program_call(self, self._arrange(args, keywords), stream, new=True).run()
        except FollowError as follow:
            follow.function.call_into_new(*args, stream=stream, **keywords)

    def bind(self, /, *args: Any, stream: Stream | None = None, **keywords: Any) -> Launch:
        """Check the arguments, and return all launches as one prepared launch.

        Parameters
        ----------
        *args, **keywords
            As in a call, but all arrays are on the device, and the outputs are given.
        stream
            As in a call.

        Raises
        ------
        ArgumentError, LaunchError
            As in a call. A host array and a missing output are an ArgumentError.
        """
        values = self._arrange(args, keywords)
        missing = [name for name in self.outputs if values.get(name) is None]
        if missing:
            raise self.error(f"bind needs its outputs by name: {list_names(missing)}", missing[0])
        check_driver(self.kind)
        try:
            return Opening.program_call(self, values, stream, bound=True).bound()  # type: ignore[no-any-return]
        except FollowError as follow:
            return follow.function.bind(*args, stream=stream, **keywords)  # type: ignore[no-any-return]
        except LaunchError as error:
            self.add_name(error)
            raise

    # -- other kinds

    @property
    def following(self) -> Following | None:
        """How calls follow their arrays to the candidates of other kinds; None if they do not."""
        if self.fixed_device is not None:
            return None
        if self._following is None:
            functions = []
            for module in self._modules:
                kernels = program_kernels(self.name, module)
                kinds = set.intersection(
                    *({each.kind for each in owners} for owners in kernels.values())
                )
                for kernel, owners in kernels.items():
                    functions += [(each, kernel) for each in owners if each.kind in kinds]
            bundles = [each for each in self.module.imports if isinstance(each, BundleModule)]
            prefer = bundles[0]._prefer if bundles else ()
            self._following = Following(functions, self.kind, prefer, self._resolve)
        return self._following

    def followed(self, device: Device) -> Any:
        """Return the program that takes calls with arrays on a device: this one for its kind, or
        that of another kind, which is made once.

        Raises
        ------
        ConversionError
            No candidates take them; the text ends a sentence that begins with the array.
        CompileError, FormatError
            A kernel cannot be built for the device.
        """
        if device.kind == self.kind:
            return self
        found = self._others.get(device)
        if found is None:
            following = self.following
            assert following is not None
            found = follow_to(following, device, f"the program is on {self.device}")
            if not device.is_adopted:  # the cache may not keep an adopted device
                self._others[device] = found
        return found

    def _other_of(self, args: Sequence[Any]) -> ProgramFunction | None:
        """Return the program of another kind that took arrays of the device of the first one."""
        for each in args:
            if type(each) is DeviceArray:
                return self._others.get(each.device)
        return None

    def add_name(self, error: LaunchError) -> None:
        """Put the program into the message of a failed launch, or of a device without memory,
        unless it is there.
        """
        if not str(error).startswith(self.label):
            error.args = (f"{self.label}: {error}", *error.args[1:])

    @property
    def open_lengths(self) -> list[str]:
        """The lengths that `state` takes: those in the shapes of the state that no constant has."""
        own: dict[str, None] = {}
        for state in self.program.arrays("state"):
            for length in state.shape:
                own |= dict.fromkeys(names_in(length))
        known: set[Any] = set()
        for constant in self.program.arrays("constant"):
            known.update(constant.shape)
        return [name for name in own if name not in known]

    def state(self, **lengths: int) -> dict[str, Array]:
        """Return new arrays for the state of the program, with their first values, by name: ``s =
        f.state()``, then ``f(x, state=s)``.

        Parameters
        ----------
        **lengths
            `open_lengths`.

        Raises
        ------
        ArgumentError
            The program has no state; or a length is missing, unknown, or none that the state can
            have.
        """
        program = self.program
        device = self.device
        if not self.states:
            raise self.error("it has no state", "state")
        names = self.open_lengths
        constants = self.constants
        if unknown := [each for each in lengths if each not in names]:
            raise self.error(
                f"its state has no length {unknown[0]!r} to give{did_you_mean(unknown[0], names)}",
                unknown[0],
            )
        values: dict[Any, int] = lengths_of(lengths, self.error)
        if missing := [each for each in names if each not in lengths]:
            raise self.error(
                f"its state also needs {list_names(missing)}: f.state({missing[0]}=…)", missing[0]
            )
        bind_lengths(
            [(each, each.shape, constants[each.name].shape) for each in program.arrays("constant")],
            values,
        )
        result: dict[str, Array] = {}
        for each in program.arrays("state"):
            shape, _ = measure(each, values, self.error)
            if not each.initial:
                result[each.name] = device.zeros(shape, each.type)
                continue
            first = constants[each.initial]
            if first.shape != shape:
                raise self.error(
                    f"the state {each.name!r} has the shape {shape}, and {each.initial!r} has {first.shape}",
                    each.name,
                )
            result[each.name] = device.empty(shape, each.type)
            result[each.name].copy_from(first)
        return result

    def on(self, device: Device | str) -> ProgramFunction:
        """Return the program on one device. Its calls take arrays of that device, and copy host
        arrays there.

        Raises
        ------
        ArgumentError
            A kernel of the program has no candidate for devices of that kind.
        DeviceNotFoundError, RuntimeNotLinkedError, NotRegisteredError, CompileError, FormatError
            The program cannot run there; the message has the reason.
        """
        from devmod import device as find_device
        from devmod_runtime._device.device import Device

        found: Any = device
        if isinstance(device, str):
            found = find_device(device)
        if not isinstance(found, Device):
            raise self.error(
                f"on() takes a device, such as {self.kind!r}, got {type(device).__name__}", "device"
            )
        return self._resolve(found)

    def devices(self) -> list[Device]:
        """Return the devices of this machine on which the program runs, in the order of
        `devmod.devices`.

        Nothing is compiled: `on` raises the error of a device whose compiler refuses a kernel.
        """
        if self._find_devices is not None:
            return self._find_devices()
        from devmod.backend import fitting_devices

        return fitting_devices(self.name, [self.module])

    def replace(
        self,
        *,
        modules: Sequence[Any],
        resolve: Callable[[Device], Any],
        find_devices: Callable[[], list[Device]],
    ) -> Self:
        """Return the same program with other rules.

        Parameters
        ----------
        modules
            The modules that have it.
        resolve
            What `on` returns for a device.
        find_devices
            Returns the devices on which it runs.
        """
        result = object.__new__(type(self))
        result.__dict__.update(
            self.__dict__,
            _modules=modules,
            _following=None,
            _others={},
            _resolve=resolve,
            _find_devices=find_devices,
        )
        result._of_steps = self
        references.add(ref(result, references.discard))
        return result

    def __getitem__(self, dims: object) -> NoReturn:
        """Raise ArgumentError: ``f[grid, block](…)`` is the call of other libraries."""
        raise self.error(f"f[…] is no launch: {_NO_GRID}", "grid")

    @property
    def constants(self) -> dict[str, Any]:
        """The constants on the device, by name."""
        if not self.constant_shapes:
            return {}
        constants: dict[str, Any] = self.module.constants(self.program, self.device)
        return constants

    def default_device(self) -> Device:
        """Return the device of a call without device arrays, as for a function."""
        return self.device

    def reopen(self) -> None:
        """Let the next call ask `Opening` again."""
        self._plans = {}
        self._calls = {}

    def temporary_bytes(self, **lengths: int) -> int:
        """Return the bytes of the temporaries' buffers for lengths and integer scalars by name."""
        nbytes: int = self.module.temporary_bytes(self.name, lengths)
        return nbytes

    @property
    def label(self) -> str:
        """The program in a message, as in ``the opencl program 'normalize'``."""
        return f"the {self.kind} program {self.name!r}"

    @property
    def __name__(self) -> str:
        return self.name

    def error(self, text: str, argument: str = "") -> ArgumentError:
        """Return the error for an argument."""
        return ArgumentError(
            f"{self.label}: {text}", kind=self.kind, function=self.name, argument=argument
        )

    def scalar(self, declared: Scalar, value: Any) -> Any:
        """Return a scalar of a call as Python's number, rounded to its type. Raise ArgumentError if
        it does not fit the type.
        """
        kind, pack, unpack = self._plain[declared.name]
        if type(value) is kind:
            try:
                return unpack(pack(value))[0]
            except (struct_error, OverflowError):
                pass
        try:
            self.packers[declared.name](value)
        except ConversionError as error:
            raise self.error(f"the argument {declared.name!r}: {error}", declared.name) from None
        if declared.is_integer:
            return int(value.__index__())
        return declared.rounded(value)

    def _arrange(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name, with defaults."""
        names = self.names
        if self.states:
            keywords = {**keywords, **self._state_of(keywords)}
            del keywords["state"]
        if len(args) > len(names):
            raise self.error(
                f"it takes {count_text(len(names), 'argument')} by position, {list_names(names)}; {len(args)} given"
            )
        values = dict(zip(names, args, strict=False))
        for name, value in keywords.items():
            if name in values:
                raise self.error(f"the argument {name!r} is given by position and by name", name)
            if name not in names and name not in self.outputs and name not in self.states:
                if name in ("grid", "threads", "block", "shared_memory"):
                    refusal = self.error(f"it takes no {name}=: {_NO_GRID}", name)
                    refusal.keywords = (name,)
                    raise refusal
                known = [*names, *self.outputs]
                raise self.error(
                    f"it has no argument {name!r}; it has {list_names(known)}{did_you_mean(name, known)}",
                    name,
                )
            values[name] = value
        values = self.defaults | values
        missing = [each for each in names if each not in values]
        if missing:
            raise self.error(f"it also needs {list_names(missing)}", missing[0])
        return values

    def _state_of(self, keywords: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arrays of the state that a call gives."""
        given = keywords.get("state")
        if given is None:
            raise self.error(
                f"it has a state, {list_names(self.states)}: s = f.state() makes it, and f(…, state=s) uses it",
                "state",
            )
        if not isinstance(given, Mapping) or any(each not in given for each in self.states):
            got = type(given).__name__
            if isinstance(given, Mapping):
                got = list_names(given)
            raise self.error(
                f"state= takes what f.state() returns, arrays by name: {list_names(self.states)}; got {got}",
                "state",
            )
        if alone := [each for each in self.states if each in keywords]:
            raise self.error(f"{alone[0]!r} is of the state, which state= gives", alone[0])
        return {each: given[each] for each in self.states}

    def _repr_html_(self) -> str:
        rows = []
        for each in self.interface.params:
            if each.extra.get("role") in _CALL_ROLES:
                name, _, text = declaration_text(each).partition(": ")
                rows.append((name, text))
        return html_table(f"{self.kind} program {self.name}", rows, ("argument", "type"))

    def __repr__(self) -> str:
        return escape_line(
            f"<Program {self.kind} {self.name}{interface_text(self.interface, short=True)}>"
        )


#: The method without an observer, which has seen the call that another program takes.
_CALL = ProgramFunction.__call__


class UnbuiltProgram(ProgramFunction):
    """A program before its first use: `build` makes it when a call, or any attribute of it, needs
    it.

    A class with `__getattr__` has slow look-ups of all attributes, so this is not that of a program
    that is called.
    """

    def __init__(
        self,
        module: Any,
        program: Program,
        info: FunctionInfo,
        device: Device,
        build: Callable[[], ProgramFunction],
    ) -> None:
        self._begin(module, program, info, device)
        self._build = build

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            # What it has, such as the rules of `replace`, stays.
            built = self._build()
            self.__dict__.update(built.__dict__ | self.__dict__, _of_steps=built)
            references.add(ref(self, references.discard))
            self.__class__ = ProgramFunction  # type: ignore[assignment]
        return object.__getattribute__(self, name)


#: As messages and tools name it.
UnbuiltProgram.__name__ = ProgramFunction.__name__  # type: ignore[method-assign]
