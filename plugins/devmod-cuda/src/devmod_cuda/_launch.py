"""The functions of a CUDA module, and their kernels on a device."""

from __future__ import annotations

from math import prod
from threading import Lock

from devmod import Interface, Param
from devmod.errors import ArgumentError
from devmod_cuda._adopt import ADOPTION
from devmod_cuda._config import CudaLimits
from devmod_cuda._tensor_map import TensorMap
from devmod_readers.nvidia import TENSOR_MAP_BYTES, TENSOR_MAP_TAG, ParamPlace
from devmod_runtime import fork_safe
from devmod_runtime.driver_api.api import DriverError, describe
from devmod_runtime.driver_api.kernel import DriverKernel, DriverLauncher
from devmod_runtime.driver_api.parameters import Argument, ParameterLayout, Place, declared_arguments
from devmod_runtime.driver_api.parameters import parameter_layout as make_layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod import FunctionInfo, Interface, Stream
    from devmod_cuda._calls import CudaDriver
    from devmod_cuda._device import CudaDevice
    from devmod_readers.nvidia import KernelEntry, ParamPlace
    from devmod_runtime import LaunchConfig
    from devmod_runtime.driver_api.images import DriverImages, LoadedImage
    from devmod_runtime.driver_api.kernel import DriverLaunchConfig


#: Numbers of CUfunction_attribute.
_MAX_THREADS, _STATIC_SHARED, _MAX_DYNAMIC_SHARED, _NON_PORTABLE_CLUSTER = 0, 1, 8, 14
#: The blocks of the greatest cluster that every device with clusters can run.
_PORTABLE_CLUSTER = 8
#: The greatest dynamic shared memory without the attribute.
_SHARED_WITHOUT_ATTRIBUTE = 48 << 10


class _Attributes:
    """The attributes of a kernel of an image that launches have raised. The driver has one value for all functions of the kernel."""

    __slots__ = ("has_large_clusters", "lock", "shared_memory")

    def __init__(self, shared_memory: int) -> None:
        self.lock = fork_safe(Lock())
        self.shared_memory = shared_memory
        self.has_large_clusters = False


class CudaKernel(DriverKernel):
    """A kernel on one device."""

    device: CudaDevice
    driver: CudaDriver
    limits: CudaLimits

    def __init__(self, info: FunctionInfo, image: LoadedImage) -> None:
        super().__init__(info, image)
        driver, function = self.driver, self.function
        self._entry: KernelEntry | None = image.entry(info.name)
        params: Sequence[ParamPlace] | None = self._entry.params if self._entry is not None else None
        try:
            with self.context, driver.relaxed():  # the first query loads the function
                if params is None:
                    pairs = driver.param_places(function)
                    params = None if pairs is None else [ParamPlace(offset, size) for offset, size in pairs]
                max_threads, static = (driver.call("function_attribute", each, function) for each in (_MAX_THREADS, _STATIC_SHARED))
        except DriverError as error:
            raise self.query_error(error) from error
        self.layout = parameter_layout(info, params)
        self.limits = CudaLimits(self.device, info, self._entry, max_threads, static)
        self._attributes: _Attributes = image.state(info.name, lambda: _Attributes(max(_SHARED_WITHOUT_ATTRIBUTE - static, 0)))
        self._info = info
        self._tensor_maps = tensor_map_numbers(info)

    @property
    def required_block(self) -> tuple[int, int, int] | None:
        return self._entry.block if self._entry is not None else None

    def shape(self, launch: LaunchConfig) -> DriverLaunchConfig:
        shape = self.limits.check(launch)
        if launch.shared_memory > self._attributes.shared_memory:
            self._raise_shared_memory(launch.shared_memory)
        cluster = self.limits.cluster_of(launch)
        if prod(cluster) > _PORTABLE_CLUSTER:
            self._allow_large_cluster(launch, cluster, shape)
        self.check_cooperative(launch)
        return shape

    def preferred_block(self) -> tuple[int, int]:
        try:
            with self.context:
                _, threads = self.driver.call("preferred_block", self.function, 0, 0, 0)
        except DriverError as error:
            raise self.query_error(error) from error
        most = 1 << max(threads, 1).bit_length() - 1
        return most, min(self.device.limits["warp_size"], most)

    def caller(self, stream: Stream, shape: DriverLaunchConfig) -> Callable[[Sequence[Any]], None]:
        call = super().caller(stream, shape)
        if not self._tensor_maps:
            return call

        def checked(values: Sequence[Any]) -> None:
            self._check_tensor_maps(values)
            call(values)

        return checked

    def prepare(self, stream: Stream, shape: DriverLaunchConfig, values: Sequence[Any]) -> Callable[[], object]:
        self._check_tensor_maps(values)
        return super().prepare(stream, shape, values)

    def _check_tensor_maps(self, values: Sequence[Any]) -> None:
        """Check that the arrays of the tensor maps are on the device of the launch: the packed bytes do not contain it."""
        for number in self._tensor_maps:
            value = values[number]
            if not isinstance(value, TensorMap) or value.array.device is self.device:
                continue
            interface = self._info.interface
            name = interface.params[number].name if interface is not None else ""
            label = f"argument {number + 1} {name!r}" if name else f"argument {number + 1}"
            raise ArgumentError(
                f"the cuda function {self._info.name!r}: {label} is a tensor map of an array on {value.array.device}, and the launch is on "
                f"{self.device}; make the tensor map of an array on that device, or call f.on(array.device)",
                kind="cuda",
                function=self._info.name,
                argument=name or str(number + 1),
            )

    def _raise_shared_memory(self, nbytes: int) -> None:
        """Raise the function's limit of dynamic shared memory, which is 48 KiB with the kernel's own at first."""
        attributes = self._attributes
        with attributes.lock:
            if nbytes > attributes.shared_memory:
                self._set_attribute(_MAX_DYNAMIC_SHARED, nbytes, f"shared_memory={nbytes}")
                attributes.shared_memory = nbytes

    def _allow_large_cluster(self, launch: LaunchConfig, cluster: tuple[int, ...], shape: DriverLaunchConfig) -> None:
        """Allow a cluster of a size that not every device supports, and check that the device runs one."""
        attributes = self._attributes
        with attributes.lock:
            if not attributes.has_large_clusters:
                self._set_attribute(_NON_PORTABLE_CLUSTER, 1, f"cluster={cluster}")
                attributes.has_large_clusters = True
        config = self.driver.launch_config(shape.grid, shape.block, shape.shared_memory, 0, shape.attributes)
        try:
            with self.context:
                count = self.driver.max_active_clusters(self.function, config)
        except DriverError:
            count = 0
        if not count:
            raise self.limits.error(
                f"it runs no cluster of {prod(cluster)} blocks with block={launch.block} and shared_memory={launch.shared_memory}; every "
                f"device with clusters runs {_PORTABLE_CLUSTER} blocks"
            )

    def _set_attribute(self, attribute: int, value: int, what: str) -> None:
        """Set an attribute of the function. `what` is the argument of the launch in the message."""
        try:
            with self.context:
                self.driver.call("set_function_attribute", self.function, attribute, value)
        except DriverError as error:
            raise self.limits.error(f"the driver refuses {what}: {describe(error)}") from error


class CudaLauncher(DriverLauncher):
    """One function of a CUDA module."""

    kind = "cuda"
    adoption = ADOPTION
    kernel_type = CudaKernel

    def __init__(self, info: FunctionInfo, images: DriverImages, interface: Interface | None = None) -> None:
        super().__init__(info, images, interface if interface is not None else tensor_map_interface(info))


# -- The parameters of CUDA's kernels: tensor maps, and the types that PTX has.


#: The bytes and the alignment of a CUtensorMap.
_TENSOR_MAP = (TENSOR_MAP_BYTES, 64)


def parameter_layout(info: FunctionInfo, params: Sequence[ParamPlace] | None) -> ParameterLayout:
    """Return the parameter block of a kernel.

    Parameters
    ----------
    info
        The function.
    params
        The parameters in the image; None if they are unknown.

    Raises
    ------
    FormatError
        The image declares other parameters than the function.
    """
    arguments = declared_arguments("cuda", "CUDA", info, lambda number: _tensor_map_argument(info, number))
    places = None if params is None else [Place(each.offset, each.size) for each in params]

    def find_problem(number: int) -> str:
        assert params is not None
        actual = params[number].type
        return f"a parameter of PTX's type .{actual}" if _is_float(actual) not in (None, _is_float(arguments[number].title)) else ""

    return make_layout("cuda", info, arguments, places, find_problem)


def _is_float(type_: str) -> bool | None:
    """Return whether a type of PTX or of a FunctionInfo is a floating-point number; None for PTX's untyped bits."""
    return None if type_ in ("", "b8", "b16", "b32", "b64", "b128") else type_.startswith("f")


def _tensor_map_argument(info: FunctionInfo, number: int) -> Argument | None:
    return Argument("a tensor map", *_TENSOR_MAP) if is_tensor_map(info, number) else None


def is_tensor_map(info: FunctionInfo, number: int) -> bool:
    """Return whether an argument is a CUtensorMap by value."""
    return number < len(info.arg_extra_tags) and info.arg_extra_tags[number] == TENSOR_MAP_TAG


def tensor_map_numbers(info: FunctionInfo) -> tuple[int, ...]:
    """Return the numbers of the arguments that have the size of a tensor map, by TVM's tag or by their type."""
    params = info.interface.params if info.interface is not None else ()
    by_type = {number for number, param in enumerate(params) if param.type == f"uint8x{_TENSOR_MAP[0]}"}
    return tuple(number for number in range(len(info.arg_types)) if number in by_type or is_tensor_map(info, number))


def tensor_map_interface(info: FunctionInfo) -> Interface | None:
    """Return the interface of a function with tensor maps, each an argument of 128 bytes by value; None for other functions."""
    if not any(is_tensor_map(info, number) for number in range(len(info.arg_types))):
        return None
    interface = info.interface
    params = []
    for number, arg_type in enumerate(info.arg_types):
        param = interface.params[number] if interface is not None else None
        if is_tensor_map(info, number):
            size, align = _TENSOR_MAP
            param = Param(param.name if param is not None else "", "scalar", f"uint8x{size}", align=align)
        elif param is None:
            param = Param("", "buffer") if arg_type == "handle" else Param("", "scalar", arg_type)
        params.append(param)
    return Interface(params) if interface is None else interface.replace(params=params)
