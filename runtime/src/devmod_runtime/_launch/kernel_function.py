"""What a function is, apart from its calls: its kernels on devices, its constants, its block."""

from __future__ import annotations

from devmod._plugins.devices import default_device
from devmod._values.conversion import describe_value
from devmod.backend import Once, constants_of, tag_problem
from devmod.errors import ArgumentError, FormatError, did_you_mean, list_names
from devmod_runtime._device.device import Device
from devmod_runtime._fork import check_driver
from devmod_runtime._launch.arguments import Signature
from devmod_runtime._launch.config import LaunchConfigReader
from devmod_runtime._launch.described import DescribedFunction
from devmod_runtime._launch.order import ArgumentOrder
from devmod_runtime._launch.shared import local_sizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Self

    from devmod import FunctionInfo, Interface, Origin
    from devmod_runtime._launch.launcher import Kernel, LaunchConfig, Launcher

    Dims = int | Sequence[int] | None


class KernelFunction(DescribedFunction):
    """The base of `Function`: everything but the calls.

    Parameters
    ----------
    name, info, launcher
        The name by which `get_function` finds it, its FunctionInfo, and the backend's part of it.
    keywords_only, flattened, resolve, device, variants
        As for `replace`.
    kernels
        The kernels by device, of the function from which this one is derived.
    interface
        The interface, if it is not the launcher's or that of `info`.
    origin
        The origin of the payload, or a function that returns it, for the docstring.
    """

    __slots__ = (
        "_config_reader",
        "_device",
        "_kernels",
        "_launcher",
        "_order",
        "_origin",
        "_resolve",
        "_signature",
        "_variants",
        "info",
        "name",
    )

    def __init__(
        self,
        name: str,
        info: FunctionInfo,
        launcher: Launcher,
        *,
        keywords_only: str = "",
        flattened: frozenset[str] = frozenset(),
        resolve: Callable[[Device], Self] | None = None,
        device: Device | None = None,
        variants: Callable[[], Sequence[str]] | None = None,
        kernels: Once | None = None,
        interface: Interface | None = None,
        origin: Origin | Callable[[], Origin] | None = None,
    ) -> None:
        self.name, self.info, self._launcher = name, info, launcher
        self._resolve, self._device = resolve, device
        self._origin, self._variants = origin, variants
        self._kernels = Once() if kernels is None else kernels
        if problem := tag_problem(info.launch_param_tags):
            raise FormatError(f"{self.label} cannot be called: {problem}", kind=launcher.kind, function=name)
        interface = interface or launcher.interface
        self._signature = Signature(info, interface=interface, bool_bytes=launcher.bool_bytes, vec3_lanes=launcher.vec3_lanes)
        self._config_reader = LaunchConfigReader(self.label, name, launcher, self._signature)
        self._order = ArgumentOrder(self.label, launcher.kind, name, self._signature, keywords_only, flattened)

    @property
    def block(self) -> tuple[int, int, int] | None:
        """The block of a call that names none: the fixed block, or the default; None if the call or the backend chooses it."""
        return self._config_reader.block

    @property
    def is_of_bundle(self) -> bool:
        """Whether `on` resolves the function for each device."""
        return self._resolve is not None

    def launch_config(self, *, threads: Dims = None, grid: Dims = None, block: Dims = None, shared_memory: int = 0) -> LaunchConfig:
        """Return the grid and the block that a call would use on the function's device. Nothing is launched.

        Parameters
        ----------
        threads, grid, block, shared_memory
            As in a call.

        Raises
        ------
        ArgumentError, LaunchError
            As in a call.
        """
        values = [None] * len(self._signature.arguments)
        _, request = self._config_reader.read(values, grid, block, threads, shared_memory)
        kernel = self.open()
        config = self._config_reader.resolve(request, kernel)
        self._config_reader.shape(request, config, kernel)
        return config

    def specialize(self, **constants: object) -> Self:
        """Return the function with constants set: defines of a source payload, or constants of a pipeline.

        Raises
        ------
        ArgumentError
            There is no such constant, or a value does not fit its type.
        LaunchError
            The payload's format does not support constants.
        """
        interface = self._signature.interface
        for name in constants.keys() & {param.name for param in interface.params if param.name} if interface is not None else ():
            known = self._launcher.constants
            if name not in known:
                raise ArgumentError(
                    f"{self.label} has no constant {name!r} to specialize: {name!r} is an argument of a call; it has the constants: "
                    f"{list_names(known)}{did_you_mean(name, known)}",
                    kind=self._launcher.kind,
                    function=self.name,
                    argument=name,
                )
        launcher, resolve = self._launcher.specialize(constants), self._resolve
        interface = launcher.interface or self.info.interface
        if interface is not None and interface.open_block:
            # Another define makes another source: reflection did not read it, and it may depend on the block.
            pipeline = {str(value) for each in constants_of(interface) for value in (each.name, each.id)}
            was_open = self._signature.interface is not None and self._signature.interface.open_block
            interface = interface.replace(open_block=was_open and constants.keys() <= pipeline)
        return type(self)(
            self.name,
            self.info,
            launcher,
            interface=interface,
            keywords_only=self._order.keywords_only,
            flattened=self._order.flattened,
            resolve=None if resolve is None else lambda device: resolve(device).specialize(**constants),
            device=self._device,
            origin=self._origin,
            variants=self._variants,
        )

    def on(self, device: Device) -> Self:
        """Return the function on one device: its calls take arrays of that device, and copy host arrays there.

        The function of a bundle is that of the best candidate for the device.

        Raises
        ------
        ArgumentError
            The function does not run on devices of that kind.
        DeviceNotFoundError, CompileError, FormatError
            The function cannot be built for the device; the message has the reason.
        """
        if not isinstance(device, Device):
            raise ArgumentError(
                f"{self.label}: on() takes a device, such as devmod.device({self._launcher.kind!r}), got {describe_value(device)}",
                kind=self._launcher.kind,
                function=self.name,
                argument="device",
            )
        if self._resolve is not None:
            return self._resolve(device)
        if device.kind != self._launcher.kind:
            raise ArgumentError(
                f"{self.label} cannot run on {device}: expected a device of kind {self._launcher.kind}",
                kind=self._launcher.kind,
                function=self.name,
                argument="device",
            )
        function = self.replace(device=device)
        function.open()
        return function

    def replace(
        self,
        *,
        keywords_only: str | None = None,
        flattened: frozenset[str] | None = None,
        resolve: Callable[[Device], Self] | None = None,
        device: Device | None = None,
        variants: Callable[[], Sequence[str]] | None = None,
    ) -> Self:
        """Return the same function with other rules for its calls. It shares the kernels.

        Parameters
        ----------
        keywords_only
            Why its arguments are given by name alone, as a clause of a message: ``its candidates take them in different orders``.
        flattened
            The structs whose members are arguments of the call, in the place of the struct.
        resolve
            What `on` returns for a device.
        device
            The device of a call that names none.
        variants
            Returns the candidates among which the function was chosen, for its docstring.
        """
        return type(self)(
            self.name,
            self.info,
            self._launcher,
            keywords_only=self._order.keywords_only if keywords_only is None else keywords_only,
            flattened=self._order.flattened if flattened is None else flattened,
            resolve=self._resolve if resolve is None else resolve,
            device=self._device if device is None else device,
            kernels=self._kernels,
            interface=self._signature.interface,
            origin=self._origin,
            variants=self._variants if variants is None else variants,
        )

    def open(self, device: Device | None = None) -> Kernel:
        """Return the kernel for a device (default: `default_device`). It is built at the first use, once for all threads.

        Raises
        ------
        DeviceNotFoundError, CompileError, FormatError
            The kernel cannot be built for the device; the message has the reason.
        """
        check_driver(self._launcher.kind)
        target = device if device is not None else self.default_device()
        kernel: Kernel = self._kernels.get(target, lambda: self._launcher.kernel(target))
        return kernel

    def default_device(self) -> Device:
        """Return the device of a call that names none: that of `on`, or else of ``DEVMOD_DEVICE``, or else the backend's choice.

        Raises
        ------
        DeviceNotFoundError
            There is no device of the kind.
        """
        if self._device is not None:
            return self._device
        device = default_device(self._launcher.kind)
        return device if device is not None else self._launcher.default_device()

    def local_sizer(self, kernel: Kernel, device: Device, config: LaunchConfig) -> Callable[[list[Any]], None] | None:
        """Return the function that sizes the `Local` arguments of a launch; None for a function without such arguments."""
        return local_sizer(self.name, self._signature.arguments, self._launcher, kernel, device, config)
