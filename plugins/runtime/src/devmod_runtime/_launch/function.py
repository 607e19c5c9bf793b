"""Functions: a call checks, converts and launches in the same way for every backend.

From its second call on, a function has code of its own for a plain call (`plain_call`): device
arrays of the exact type, ints and floats, a repeated launch configuration. Any other call goes to
`KernelCall`, which implements everything and raises the errors.
"""

from __future__ import annotations

import sys
from _weakref import ref
from functools import partial
from typing import Any, NamedTuple, NoReturn, Self
from weakref import WeakKeyDictionary, WeakSet

from devmod import device as find_device
from devmod._modules.choice import UNAVAILABLE
from devmod._modules.following import CannotFollowError
from devmod._plugins.devices import VARIABLE
from devmod.backend import (
    LAUNCH_KEYWORDS,
    ConversionError,
    ProcessLocal,
    block_text,
    constants_of,
    default_device,
    describe_value,
    environment_text,
    escape,
    escape_line,
    html_table,
    np,
    tag_problem,
    type_text,
)
from devmod.errors import (
    ArgumentError,
    DevmodError,
    FormatError,
    LaunchError,
    did_you_mean,
    list_names,
)
from devmod_runtime import _fork
from devmod_runtime._device.device import Device, DeviceCache
from devmod_runtime._device.device_array import DeviceArray
from devmod_runtime._device.stream import Stream
from devmod_runtime._fork import check_driver
from devmod_runtime._launch.arguments import Argument, BlockBytes, Signature
from devmod_runtime._launch.call import KernelCall
from devmod_runtime._launch.call_class import CallBase, class_of_call
from devmod_runtime._launch.checks import FollowError
from devmod_runtime._launch.config import LaunchConfigReader
from devmod_runtime._launch.host_call import host_call, repeated_types
from devmod_runtime._launch.opening import Opening, keep
from devmod_runtime._launch.order import ArgumentOrder, MemberArgument
from devmod_runtime._launch.plain_call import MISSING, Callers, packed_call, plain_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping, Sequence
    from inspect import Signature as PythonSignature

    from devmod import FunctionInfo, Interface, Module, Origin, TuningRecord
    from devmod._modules.following import Following
    from devmod.backend import Binary
    from devmod_runtime._launch.config import LaunchRequest
    from devmod_runtime._launch.launcher import Kernel, LaunchConfig, Launcher

    Dims = int | Sequence[int] | None


# -- The signature, docstring and table of a function.


class PerInstance:
    """A ``__doc__`` or ``__signature__`` that is ``make(instance)`` for an instance, and the
    class's own for the class.
    """

    def __init__(self, of_class: str | None, make: Callable[[Any], Any]) -> None:
        self._of_class = of_class
        self._make = make

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self._of_class
        return self._make(instance)


def describe(function: Function) -> str:
    """Return the docstring of a function: parameters with types and access, block, variants,
    origin.

    Raises
    ------
    FormatError
        The origin in the file is invalid.
    """
    lines = [f"The {function.kind} kernel {function.name}.", ""]
    if function._order.arguments:
        lines += _parameter_lines(function)
    if function._order.keywords_only:
        lines += [f"Arguments are given by name: {function._order.keywords_only}.", ""]
    if function._launcher.has_grid:
        lines += ["Launch", "------", f"    {function.launch_text()}", ""]
    variants = function._rules.variants()
    if variants:
        lines += ["Variants", "--------", *(f"    {variant}" for variant in variants), ""]
    origin = function._rules.origin
    if callable(origin):
        origin = origin()
    if origin is not None:
        build = [f"target {origin.target!r}", origin.toolchain, " ".join(origin.options)]
        lines += ["Origin", "------", f"    {', '.join(filter(None, build))}"]
        if origin.sources:
            lines.append(f"    from {list_names(origin.sources)}")
    return escape("\n".join(lines).rstrip())


def _parameter_lines(function: Function) -> list[str]:
    order = function._order
    lines = ["Parameters", "----------"]
    for argument, name in zip(order.arguments, order.parameter_names(), strict=True):
        line = f"{name} : {type_of(function, argument)}"
        if argument.default is not None:
            line += f" = {argument.default!r}"
        lines.append(line)
    for keyword, record in order.records.items():
        names = list_names(order.arguments[number].name for number in record.numbers)
        lines += [f"{escape_line(keyword)} : record", f"    In place of {names}."]
    return [*lines, ""]


def type_of(function: Function, argument: Argument | MemberArgument) -> str:
    if isinstance(argument, MemberArgument):
        return argument.description
    if function._signature.interface is None:
        return function.info.arg_types[argument.number]
    return type_text(argument.param.replace(default=None))


def _signature(function: Function) -> PythonSignature:
    from inspect import Parameter, Signature

    names = [*function.launch_keywords, "stream"]
    if not function._launcher.no_shared_memory:
        names.append("shared_memory")
    parameters = function._order.parameters(lambda argument: type_of(function, argument))
    parameters += [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in names]
    return Signature(parameters, return_annotation=None)


class Rules(NamedTuple):
    """The rules for the calls of a function.

    Attributes
    ----------
    keywords_only
        Why its arguments are given by name alone, as a clause of a message: ``its candidates take
        them in different orders``.
    flattened
        The structs whose members are arguments of the call, in the place of the struct.
    following
        How it follows its arrays to the candidates for other devices; None if it does not.
    resolve
        What `Function.on` returns for a device.
    find_devices
        Returns the devices on which it runs.
    device
        The device of a call that names none.
    variants
        Returns the candidates among which the function was chosen, for its docstring.
    find_block
        Returns the block that the other candidates have, for the error of a call without one; None
        if they have none.
    origin
        The origin of the payload, or a function that returns it, for the docstring.
    payload
        The format and the bytes, for tools that read them.
    own, joined
        The payload of a tuned function as a module, and the candidates of a bundle whose variants
        it has; () for those of its payload.
    find_records
        Returns the records of the file, for the name of a tuned function.
    constants, only
        The constants that `specialize` sets in each variant, and those of the only variant; None
        for all variants.
    """

    keywords_only: str = ""
    flattened: frozenset[str] = frozenset()
    following: Following | None = None
    resolve: Callable[[Device], Any] | None = None
    find_devices: Callable[[], list[Device]] = list
    device: Device | None = None
    variants: Callable[[], Sequence[str]] = list
    find_block: Callable[[], Dims] = lambda: None
    origin: Origin | Callable[[], Origin] | None = None
    payload: tuple[str, Binary] | None = None
    own: Module | None = None
    joined: Sequence[Module] = ()
    find_records: Callable[[str], Sequence[TuningRecord]] = lambda _: ()
    constants: Mapping[str, object] = {}
    only: Mapping[str, Any] | None = None


_NO_RULES = Rules()
Opening.kernel_call = KernelCall


class Function(ProcessLocal, CallBase):
    """A callable function of a module. `Module.get_function` returns one.

    Attributes
    ----------
    name : str
        The name by which `get_function` finds it.
    info : FunctionInfo
        The types of its arguments, its launch tags and its interface.

    Notes
    -----
    A function has the name, the signature and the docstring of its kernel: ``help(f)`` and
    ``inspect.signature(f)`` work.
    """

    _pickle_advice = "pass devmod.dumps(module) or the path of a file, and load it there"

    __doc__ = PerInstance(__doc__, describe)
    __signature__ = PerInstance(None, _signature)

    def __init__(
        self,
        name: str,
        info: FunctionInfo,
        launcher: Launcher,
        *,
        kernels: DeviceCache | None = None,
        interface: Interface | None = None,
        rules: Rules = _NO_RULES,
    ) -> None:
        """Make a function.

        Parameters
        ----------
        name, info, launcher
            The name by which `get_function` finds it, its FunctionInfo, and the backend's part of
            it.
        kernels
            The kernels by device, of the function from which this one is derived.
        interface
            The interface, if it is not the launcher's or that of `info`.
        rules
            The rules for its calls.
        """
        self.name = name
        self.info = info
        self._launcher = launcher
        #: The class without the method of a plain call.
        self._class: type[Self] = type(self)  # type: ignore[assignment]
        self._rules = rules
        #: The value of DEVMOD_DEVICE, and the device that it names.
        self._named_device: tuple[str, Device] | None = None
        if kernels is None:
            kernels = DeviceCache()
        self._kernels = kernels
        self._signature = Signature(self.label, name, info, launcher, interface)
        if problem := tag_problem(info.launch_param_tags):
            raise self._signature.error(f" cannot be called: {problem}", family=FormatError)
        #: The buffers that are several values of the kernel, the last one first.
        self._packs = [
            (each.number, each.packed)
            for each in reversed(self._signature.arguments)
            if each.packed is not None
        ]
        if self._packs and not launcher.has_packs:
            raise self.unsupported(
                self._signature.arguments[self._packs[-1][0]], "several values of the kernel"
            )
        self._config_reader = LaunchConfigReader(launcher, self._signature, self._rules.find_block)
        self._order = ArgumentOrder(
            self._signature, self._rules.keywords_only, self._rules.flattened
        )
        signature = self._signature
        self._plans = self._order.plans
        self._has_plain_caller = launcher.packs_numbers(signature.arguments)
        #: The method of a plain call; None before the second call.
        self._plain_call: Callable[..., Any] | None = None
        #: The globals of the methods of plain calls.
        self._plain_globals: list[dict[str, Any]] = []
        #: Whether a call has given arguments by name, and buffers of another library: without
        #: them, a plain call takes less time.
        self._has_names = self._has_foreign = False
        #: The number of arguments by position that need no other order; -1 if there is no such
        #: number.
        self._count = -1
        if self._order.is_plain:
            self._count = len(signature.arguments)
        self._first_buffer = -1
        for each in signature.arguments:
            if each.kind == "buffer" or each.is_address:
                self._first_buffer = each.number
                break
        #: The arguments whose values are part of the keys of calls too.
        self.key_arguments: Sequence[Argument] = ()
        self._callers = self._new_callers(is_unpacked=self._has_plain_caller)
        self._forget_others()
        _references.add(ref(self, _references.discard))
        if "numpy" in sys.modules:
            np.import_numpy()  # finalizers at the interpreter's exit cannot import it

    def __call__(
        self,
        /,
        *args: Any,
        grid: Dims = None,
        block: Dims = None,
        threads: Dims = None,
        stream: Stream | None = None,
        shared_memory: int | None = None,
        **keywords: Any,
    ) -> Any:
        """Launch the function.

        Parameters
        ----------
        *args
            The arguments in order: arrays (NumPy, buffers, DLPack on the host, devmod's, the
            backend's own), numbers, sequences of lanes, structs (records, mappings, tuples or
            bytes), `Local`. TVM's launch values may follow as plain integers in place of `grid` and
            `block`.
        grid
            Blocks in x, y, z: an int, or up to three ints. A zero launches nothing. Exactly one of
            `grid` and `threads` is given.
        block
            Threads of a block in x, y, z. It may be omitted if the payload fixes it, or if the
            interface has a default. The backend chooses it if the interface has an open block.
        threads
            The threads in x, y, z. The grid is the number of blocks that has at least as many, so
            the kernel checks its bounds.
        stream
            The stream of the launch. Default: the device's current stream.
        shared_memory
            Dynamic shared memory in bytes, for kinds that have it. Default: that of the interface.
            A kernel that uses some needs one of both.
        **keywords
            Arguments by the names of the interface's parameters, in any order. A name that is a
            keyword of Python, or one of the five keywords above, has an underscore behind it. A
            block of scalars may be one argument under its name, in place of its members: a mapping,
            a tuple, a NumPy record, or bytes.

        Returns
        -------
        None or number
            What the function returns, for kinds whose functions return values (Hexagon). The call
            then waits for it.

        Raises
        ------
        ArgumentError
            An argument is invalid; the message names it. Nothing was launched.
        LaunchError
            The launch exceeds a limit of the device, or the driver refuses it.

        Notes
        -----
        With a host array the call returns after the results are copied back. With device arrays
        alone it returns when the launch is queued.

        The function of a bundle takes the candidate for the device of its arrays or its stream.
        """
        given = args
        if keywords and not self._has_names:
            self._has_names = True
            self._forget_plain_calls()
        if keywords or len(args) != self._count:
            try:
                count, get, rearrange = self._plans[*keywords,]
            except KeyError:  # the first call of this form, or a wrong name
                count = -1
            if count != len(args):
                args = self._order.arrange(args, keywords)
            else:
                args += get(keywords)
                if rearrange is not None:
                    args = rearrange(args)
        plain = self._plain_call
        has_repeats = self._callers or self._callers.is_elsewhere or self._others
        if has_repeats and (plain is None or (self._count >= 0 and type(self) is self._class)):
            plain = self._take_plain_calls()
        is_plain = (
            plain is not None
            and shared_memory is None
            and len(args) == len(self._signature.arguments)
        )
        try:
            if is_plain:
                assert plain is not None
                return plain(self, *args, grid=grid, block=block, threads=threads, stream=stream)
            return Opening.kernel_call(
                self, args, grid, block, threads, stream, shared_memory
            ).launch()
        except FollowError as follow:
            function = follow.function
        # With the arguments as they were given: its order may be another one.
        return _call_other(
            function,
            *given,
            grid=grid,
            block=block,
            threads=threads,
            stream=stream,
            shared_memory=shared_memory,
            **keywords,
        )

    def _call_checked(self, args: tuple[Any, ...], *launch: Any) -> Any:
        """Call with the arguments of a plain call that is not like one before it. `launch` has the
        values of `LAUNCH_KEYWORDS`.
        """
        function: Any = None
        if self._others and type(args[self._first_buffer]) is DeviceArray:
            function = self._others.get(args[self._first_buffer].device)
        if function is None:
            try:
                return Opening.kernel_call(self, args, *launch).launch()
            except FollowError as follow:
                function = follow.function
        # `__call__` has what was given in the place of these arguments.
        if self._count < 0 or any(isinstance(each, BlockBytes) for each in args):
            raise FollowError(function)
        return _call_other(function, *args, **dict(zip(LAUNCH_KEYWORDS, launch, strict=True)))

    @property
    def following(self) -> Following | None:
        """How calls follow their arrays to the candidates for other devices; None if they do
        not.
        """
        return self._rules.following

    @property
    def fixed_device(self) -> Device | None:
        """The only device of its calls; None if their stream or their first array decides."""
        if self._rules.following is not None:
            return None
        return self._rules.device

    def followed(self, device: Device) -> Any:
        """Return the function that takes calls with arrays on a device: this one, or that of
        another candidate, which is made once.

        Raises
        ------
        ConversionError
            No candidate takes them; the text ends a sentence that begins with the array.
        CompileError, FormatError
            The candidate cannot be built for the device.
        """
        # In this order: `reopen` replaces the callers first.
        others = self._others
        callers = self._callers
        if device in self._own_devices:
            return self
        if device in others:
            return others[device]
        following = self._rules.following
        assert following is not None
        found: Any = None
        own_device = self.default_device()
        if device is not own_device:
            found = follow_to(following, device, f"the function is on {own_device}")
        if found is None:
            self._own_devices.add(device)
            return self
        if isinstance(found, Function):
            # The caches may not keep an adopted device.
            fixed_device = None if device.is_adopted else device
            found = found.replace(following=following, device=fixed_device)
            found._own_devices.add(device)
            if found._form == self._form:
                if found._has_plain_caller and not callers.is_unpacked:
                    callers = self._unpack_numbers()
                # The code of a plain call then finds what queues a launch of either function.
                found._callers = callers
        others[device] = found
        return found

    def _unpack_numbers(self) -> Callers:
        """Let plain calls leave the numbers to what queues the launch, and return the new cache."""
        old = self._callers
        callers = self._callers = self._new_callers(is_unpacked=True)
        self._forget_plain_calls()
        for each in [*self._others.values()]:
            if isinstance(each, Function) and each._callers is old:
                each._callers = callers
                each._forget_plain_calls()
        return callers

    def _new_callers(self, *, is_unpacked: bool) -> Callers:
        return Callers(len(self.key_arguments), self._rules.device, is_unpacked=is_unpacked)

    @property
    def _form(self) -> Any:
        """What the code of a plain call depends on; equal for functions whose plain calls are
        alike.
        """
        arguments = []
        for each in self._signature.arguments:
            is_plain = each.kind == "buffer" or each.plain_packer is not None
            if not is_plain or each.packed is not None or each.is_address:
                return self  # it has conversions of its own
            elements = each.type, each.size, each.is_padded, each.accepts_local
            arguments.append((each.name, each.kind, *elements))
        keys = [each.number for each in self.key_arguments]
        return self._class, self._count, self._first_buffer, arguments, keys

    def _take_plain_calls(self) -> Callable[..., Any]:
        """Make the method of a plain call that of this function, unless an observer has another
        one.
        """
        callers = self._callers
        plain = self._plain_call
        if plain is None:
            plain = self._plain_call = plain_call(self, callers)
            self._plain_globals.append(plain.__globals__)
        own = self._class
        if self._count >= 0 and type(self) is own and own.__call__ is _CALL:
            # The class of one object: Python takes a call's method from the class.
            self.__class__ = class_of_call(self, plain, own, Function.__dict__["__doc__"])
            if own.__call__ is not _CALL:  # an observer has begun in another thread
                self.__class__ = own
        if self._callers is not callers:  # it has begun or ended
            self._forget_plain_calls()
        return plain

    def _forget_plain_calls(self) -> None:
        self._plain_call = None
        if self.__class__ is not self._class:
            self.__class__ = self._class

    def __del__(self) -> None:
        """Release what queues launches: the class of one object is in a cycle, and so would keep
        kernels and modules until the collector runs.
        """
        # To read `self.__dict__`, or to set the class for the first time, would make a dictionary
        # that the collector does not know as garbage: all that it refers to would stay until the
        # next collection.
        plain_globals = getattr(self, "_plain_globals", None)
        if plain_globals is None:  # `__init__` raised
            return
        # Another finalizer of the same collection may still call it.
        self._forget_plain_calls()
        for each in plain_globals:
            each.clear()

    def _call_in_other_form(
        self, given: Sequence[Any], by_name: Sequence[Any], keywords: dict[str, Any], *launch: Any
    ) -> Any:
        """Call with the parameters of a plain call, those that are missing included. `launch` has
        the values of `LAUNCH_KEYWORDS`.
        """
        args = [each for each in given if each is not MISSING]
        # Python gives more arguments by position to those by name.
        if len(args) == len(given):
            args += [each for each in by_name if each is not MISSING]
            by_name = ()
        keywords |= {
            name: each
            for name, each in zip(self._order.names, by_name, strict=False)
            if each is not MISSING
        }
        return Function.__call__(
            self, *args, **dict(zip(LAUNCH_KEYWORDS, launch, strict=True)), **keywords
        )

    def bind(
        self,
        /,
        *args: Any,
        grid: Dims = None,
        block: Dims = None,
        threads: Dims = None,
        stream: Stream | None = None,
        shared_memory: int | None = None,
        **keywords: Any,
    ) -> Launch:
        """Check the arguments, and return a prepared launch.

        Parameters
        ----------
        *args, **keywords
            As in a call, but arrays must be in the device's memory. The Launch keeps them alive.
        grid, block, threads, stream, shared_memory
            As in a call. Without `stream`, the launch uses the device's current stream at this
            time.

        Raises
        ------
        ArgumentError, LaunchError
            As in a call. A host array is an ArgumentError.
        """
        given = args
        args = self._order.arrange(args, keywords)
        launch = grid, block, threads, stream, shared_memory
        try:
            call = Opening.kernel_call(self, args, *launch, bound=True)
        except FollowError as follow:
            function = follow.function
            named = dict(zip(LAUNCH_KEYWORDS, launch, strict=True))
            return function.bind(*given, **named, **keywords)  # type: ignore[no-any-return]
        return Launch(self, call.kernel, call.stream, call.shape, call.values, args, call.checked)

    def keep_caller(
        self, call: KernelCall, callers: Callers, args: Sequence[Any], key: tuple[Any, ...]
    ) -> None:
        """Cache the function that queues a launch for the next plain call with the key. `args` are
        those of this call.
        """
        cache: dict[Any, Any] = callers
        device = call.stream.device
        if device.is_adopted and self._rules.device is not device:
            if key[0] is not device:  # with host arrays
                return
            cache = device.cache_of(callers.owner)
            callers.is_elsewhere = True
        if call.has_foreign and not self._has_foreign and self._launcher.plain_classes:
            self._has_foreign = True
            self._forget_plain_calls()
        arguments = self._signature.arguments
        enqueue = call.enqueue
        if callers.is_unpacked and self._has_plain_caller:
            plain = call.kernel.plain_caller(call.stream, call.shape, arguments)
            enqueue = Opening.queue(plain, self.name, call.stream, None)
        elif callers.is_unpacked:
            enqueue = packed_call(arguments, enqueue)
        if call.transfers:
            dtypes = repeated_types(arguments, args, len(call.transfers))
            if not dtypes:
                return
            enqueue = host_call(arguments, dtypes, call.stream, enqueue, callers.is_unpacked)
        keep(cache, key, enqueue)

    @property
    def block(self) -> tuple[int, int, int] | None:
        """The block of a call that names none: the fixed block, or the default; None if the call or
        the backend chooses it.
        """
        return self._config_reader.block

    @property
    def max_block_threads(self) -> int:
        """The most threads of a block on the function's device, all in x: what the device or the
        registers of the kernel allow, or the threads of the fixed block; 1 for a kind without
        blocks.

        Raises
        ------
        DeviceNotFoundError, CompileError, FormatError
            The kernel cannot be built for the device.
        LaunchError
            The kernel runs with no block that has all its threads in x.
        """
        return self._config_reader.max_block_threads(self.open())

    def launch_config(
        self,
        *,
        threads: Dims = None,
        grid: Dims = None,
        block: Dims = None,
        shared_memory: int | None = None,
    ) -> LaunchConfig:
        """Return the grid and the block that a call would use on the function's device. Nothing is
        launched.

        Parameters
        ----------
        threads, grid, block, shared_memory
            As in a call.

        Raises
        ------
        ArgumentError, LaunchError
            As in a call.
        """
        request = self._config_reader.read((), grid, block, threads, shared_memory)
        return self._config_reader.resolve(request, self.open())[0]

    def specialize(self, **constants: object) -> Self:
        """Return the function with constants set: defines of a source payload, or constants of a
        pipeline.

        Raises
        ------
        ArgumentError
            There is no such constant, or a value does not fit its type.
        LaunchError
            The payload's format does not support constants.
        """
        self._refuse_parameters(constants)
        launcher = self._launcher.specialize(constants)
        interface = launcher.interface or self.info.interface
        if interface is not None and interface.open_block:
            # Another define makes another source: reflection did not read it, and it may depend on
            # the block.
            pipeline: set[str] = set()
            for each in constants_of(interface):
                pipeline |= {str(each.name), str(each.id)}
            own = self._signature.interface
            was_open = own is not None and own.open_block
            interface = interface.replace(open_block=was_open and constants.keys() <= pipeline)
        rules = self._specialized_rules(constants)
        return self._class(self.name, self.info, launcher, interface=interface, rules=rules)

    def _specialized_rules(self, constants: Mapping[str, object]) -> Rules:
        """Return the rules of the function with constants set."""
        resolve = self._rules.resolve
        if resolve is None:
            return self._rules
        following = self._rules.following
        if following is not None:
            following = following.specialized(constants)
        return self._rules._replace(
            following=following,
            resolve=lambda device: resolve(device).specialize(**constants),
        )

    def _refuse_parameters(self, constants: Mapping[str, object]) -> None:
        """Raise ArgumentError if one of the constants is an argument of a call."""
        arguments = {each.name for each in self._signature.arguments if each.name}
        for name in constants.keys() & arguments:
            known = self._launcher.constants
            if name not in known:
                raise self._signature.error(
                    f" has no constant {name!r} to specialize: {name!r} is an argument of a call; it has the constants: "
                    f"{list_names(known)}{did_you_mean(name, known)}",
                    name,
                )

    def __getitem__(self, dims: object) -> NoReturn:
        """Raise ArgumentError: ``f[grid, block](…)`` is the call of other libraries."""
        parts: tuple[object, ...] = (dims,)
        if isinstance(dims, tuple) and len(dims) <= 2:
            parts = dims
        given = ", ".join(
            f"{word}={escape_line(repr(each))}"
            for word, each in zip(("grid", "block"), parts, strict=False)
        )
        raise self._signature.error(
            f": f[…] is no launch; give the grid and the block in the call: f(…, {given})",
            "grid",
        )

    def on(self, device: Device | str) -> Self:
        """Return the function on one device: its calls take arrays of that device, and copy host
        arrays there.

        The function of a bundle is that of the best candidate for the device. A text is that of
        `devmod.device`, such as "opencl:1".

        Raises
        ------
        ArgumentError
            The function does not run on devices of that kind.
        DeviceNotFoundError, CompileError, FormatError
            The function cannot be built for the device; the message has the reason.
        """
        if isinstance(device, str):
            device = find_device(device)
        if not isinstance(device, Device):
            raise self._signature.error(
                f": on() takes a device, such as {self.kind!r}, or devmod.device({self.kind!r}); got "
                f"{describe_value(device)}",
                "device",
            )
        if self._rules.resolve is not None:
            return self._rules.resolve(device)  # type: ignore[no-any-return]
        if device.kind != self.kind:
            raise self._signature.error(
                f" cannot run on {device}: expected a device of kind {self.kind}",
                "device",
            )
        function = self.replace(device=device)
        function.open_early()
        return function

    def devices(self) -> list[Device]:
        """Return the devices of this machine on which the function runs, in the order of
        `devmod.devices`.

        Nothing is compiled: `on` raises the error of a device whose compiler refuses the function.
        """
        return self._rules.find_devices()

    def replace(self, **rules: Any) -> Self:
        """Return the same function with other rules for its calls. It shares the kernels.

        Parameters
        ----------
        **rules
            Fields of `Rules`.
        """
        return self._class(
            self.name,
            self.info,
            self._launcher,
            kernels=self._kernels,
            interface=self._signature.interface,
            rules=self._rules._replace(**rules),
        )

    def open(self, device: Device | None = None) -> Kernel:
        """Return the kernel for a device (default: `default_device`). It is built at the first use,
        once for all threads.

        Raises
        ------
        DeviceNotFoundError, CompileError, FormatError
            The kernel cannot be built for the device; the message has the reason.
        """
        check_driver(self.kind)
        target = device
        if target is None:
            target = self.default_device()
        return self._kernels.get(target, lambda: Opening.build(self, target))

    def open_early(self) -> object:
        """Build what the first call needs, as far as that is known."""
        return self.open()

    def requested(self, *given: Any) -> Any:
        """Return the launch that a call requests, for `chosen`. The parameters are those of
        `LaunchConfigReader.read`.
        """
        return self._config_reader.read(*given)

    def chosen(
        self, device: Device, request: Any, values: list[Any]
    ) -> tuple[Function, LaunchRequest]:
        """Return what a call launches, this function or a variant of it, and the request for it.
        `values` are those of the kernel.
        """
        return self, request

    def reopen(self) -> None:
        """Let the next call ask `Opening` again."""
        # In this order: what the calls of another thread cache of the old ones is lost.
        self._callers = self._new_callers(is_unpacked=self._callers.is_unpacked)
        self._forget_others()
        self._forget_plain_calls()

    def _forget_others(self) -> None:
        #: By the device of an array, the function of the candidate that takes it.
        self._others: MutableMapping[Device, Any] = {}
        if self._rules.following is not None:
            self._others = WeakKeyDictionary()
        #: The devices whose arrays this function takes.
        self._own_devices: WeakSet[Device] = WeakSet()

    def default_device(self) -> Device:
        """Return the device of a call that names none: that of `on`, or else of ``DEVMOD_DEVICE``,
        or else the backend's choice.

        Raises
        ------
        DeviceNotFoundError
            There is no device of the kind.
        """
        if self._rules.device is not None:
            return self._rules.device
        text = environment_text(VARIABLE)
        if not text:
            return self._launcher.default_device()
        # The look-up of the kinds takes 1 ms.
        if self._named_device is None or self._named_device[0] != text:
            device = default_device(self.kind) or self._launcher.default_device()
            self._named_device = (text, device)
        return self._named_device[1]

    @property
    def launch_keywords(self) -> tuple[str, ...]:
        """The keywords by which a call gives its grid and its block."""
        if self._launcher.has_grid:
            return "grid", "block", "threads"
        return ()

    def launch_text(self) -> str:
        """Return how a call gives the grid and the block, for the docstring."""
        interface = self._signature.interface
        if interface is not None and (block := block_text(interface)):
            return f"threads= or grid=; {block}"
        return "threads= or grid=, and block="

    def unsupported(self, argument: Argument, what: str) -> DevmodError:
        """Return the error for an argument that the backend does not support. `what` it is."""
        return self._signature.error(
            f" cannot be called: {argument.label} is {what}, and the {self.kind} backend does not support such arguments",
            argument.name,
            LaunchError,
        )

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def kind(self) -> str:
        """The kind of the devices on which it runs."""
        return self._launcher.kind

    @property
    def label(self) -> str:
        """The function in a message, as in ``the opencl function 'vadd'``."""
        return f"the {self.kind} function {self.name!r}"

    def __repr__(self) -> str:
        return escape_line(f"<Function {self.kind} {self.name}({self._signature.text})>")

    def _repr_html_(self) -> str:
        interface = self._signature.interface
        title = f"{self.kind} function {self.name}"
        if interface is None:
            return html_table(title, list(enumerate(self.info.arg_types, 1)), ("argument", "type"))
        rows = []
        for argument in self._order.arguments:
            text = type_of(self, argument)
            if argument.default is not None:
                text += f" = {argument.default!r}"
            rows.append((argument.name, text))
        return html_table(
            " ".join(filter(None, (title, block_text(interface)))), rows, ("argument", "type")
        )


#: The method without an observer.
_CALL = Function.__call__


def follow_to(following: Following, device: Device, place: str) -> Any:
    """Return what `Following.function_on` does.

    Parameters
    ----------
    following, device
        How calls follow their arrays, and the device of one.
    place
        The clause with the device of other calls.

    Raises
    ------
    ConversionError
        No candidate is taken; the text ends a sentence that begins with the array.
    CompileError, FormatError
        The candidate cannot be built for the device.
    """
    try:
        return following.function_on(device)
    except CannotFollowError as error:
        raise ConversionError(str(error)) from None
    except UNAVAILABLE as error:
        raise ConversionError(f"is on {device}, and {place}; {error}") from None


def _call_other(function: Any, /, *args: Any, **keywords: Any) -> Any:
    """Call the function of another candidate. An observer has seen the call."""
    if isinstance(function, Function):
        return _CALL(function, *args, **keywords)
    return function(*args, **keywords)


# -- Prepared launches, made by `Function.bind`.


class Launch(ProcessLocal):
    """A prepared launch. `Function.bind` returns one; a call without arguments queues the launch.

    The Launch keeps its arrays alive. Several threads may call it, also before the previous launch
    has finished. `Function.bind` checks everything. The return value of a call is ignored. An
    exception of the driver (out of resources, device lost) is raised unchanged.
    `Stream.synchronize` raises a failure that the device reports later.

    Attributes
    ----------
    function : Function
        The launched function.
    stream : Stream
        The stream in which it is queued.
    """

    _pickle_advice = "pass devmod.dumps(module) or the path of a file, and load it there"

    # `__call__` is a slot with the kernel's own callable: if that is a C function, a launch runs no
    # Python code. A method `__call__` costs 110 ns more, a sixth of the whole launch.
    __slots__ = (
        "__call__",
        "__weakref__",
        "_kernel",
        "_queue",
        "_shape",
        "_time",
        "_values",
        "function",
        "stream",
    )

    if TYPE_CHECKING:
        function: Function
        stream: Stream

        def __call__(self) -> object: ...

    def __init__(
        self,
        function: Function,
        kernel: Kernel,
        stream: Stream,
        shape: Any,
        values: Sequence[Any],
        arguments: Sequence[Any],
        checked: Callable[[Callable[[], Any]], Callable[[], Any]] = lambda launch: launch,
    ) -> None:
        self.function = function
        self._kernel = kernel
        self.stream = stream
        self._shape = shape
        #: The kernel's values, and the arguments, which own them.
        self._values = (values, arguments)
        self._time: Callable[[], float] = checked(partial(kernel.time, stream, shape, values))
        prepared: Callable[[], Any] = _launch_nothing
        if shape is not None:
            prepared = checked(kernel.prepare(stream, shape, values))
        #: What a call does without an observer. A method-wrapper raises TypeError for arguments.
        self._queue: Callable[..., Any] = prepared
        if type(prepared) is not _METHOD_WRAPPER:
            self._queue = _refuse_arguments(prepared, function)
        _references.add(ref(self, _references.discard))
        self.reopen()

    def reopen(self) -> None:
        """Ask `Opening` again."""
        queue = None
        while queue is not Opening.queue:  # another thread may begin or end an observer
            queue = Opening.queue
            object.__setattr__(
                self,
                "__call__",
                queue(self._queue, self.function.name, self.stream, self._values[1]),
            )

    def time(self) -> float:
        """Launch once, wait, and return the seconds that the launch took on the device (0.0 for an
        empty grid).

        Raises
        ------
        LaunchError
            The driver refuses the launch or reports a fault.
        """
        _fork.check_driver(self.function.kind)
        if self._shape is None:
            return 0.0
        return self._time()

    def __repr__(self) -> str:
        return f"<Launch of {self.function!r} on {self.stream.device}>"


_METHOD_WRAPPER = type(iter(()).__next__)


def _launch_nothing() -> None:
    """Queue a grid with a zero."""


def _refuse_arguments(prepared: Callable[[], object], function: Function) -> Callable[..., object]:
    """Return a callable that raises ArgumentError for arguments: the kernel's own callable might
    interpret them.
    """

    def launch(*args: object, **keywords: object) -> object:
        if args or keywords:
            raise ArgumentError(
                f"a prepared launch of {function.label} takes no arguments: bind received them; to launch with others, call the function "
                "itself, or bind it again",
                kind=function.kind,
                function=function.name,
            )
        return prepared()

    return launch


def _refuse_in_child() -> None:
    """Make each function and each prepared launch raise LaunchError if its driver was opened by the
    parent process.
    """
    for each in [reference() for reference in [*_references]]:
        function = getattr(each, "function", each)  # that of a prepared launch
        if function is None or not _fork.is_inherited(function.kind):
            continue
        if isinstance(each, Launch):
            each._queue = partial(_fork.check_driver, function.kind)
            # Also in a profile, which would take the driver's locks.
            object.__setattr__(each, "__call__", each._queue)
        else:
            function.reopen()


#: All functions, programs and prepared launches, for the child of a fork. Weak references with a
#: callback add nothing to a launch's cost.
_references: set[ref[Any]] = set()
_fork.actions.append(_refuse_in_child)
