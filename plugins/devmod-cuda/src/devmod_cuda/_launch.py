"""The functions of a CUDA module, and their kernels on a device."""

from __future__ import annotations

from ctypes import byref
from math import prod
from struct import pack

import numpy as np

from devmod import Interface, Param
from devmod.backend import (
    PROGRAMMATIC_TAG,
    REQUIRED_BLOCK_TAG,
    ConversionError,
    RLock,
    dtype_name_of,
)
from devmod.errors import ArgumentError, FormatError
from devmod_cuda._binaries import UNKNOWN
from devmod_cuda._calls import CUDA, CudaDriver
from devmod_cuda._device import CudaDevice, devices
from devmod_cuda._tensor_map import TensorMap
from devmod_driver_api.adoption import (
    Adoption,
    is_contiguous,
    library_of,
    number_of,
    strided_error,
)
from devmod_driver_api.api import COOPERATIVE, DriverError, describe
from devmod_driver_api.driver import DriverLaunchConfig
from devmod_driver_api.kernel import (
    DeclaredArgument,
    DriverKernel,
    DriverLauncher,
    ParameterLayout,
    declared_arguments,
)
from devmod_driver_api.kernel import parameter_layout as make_layout
from devmod_readers.nvidia import TENSOR_MAP_BYTES, TENSOR_MAP_TAG, KernelEntry, ParamPlace
from devmod_runtime import DeviceArray, LaunchConfig, check_driver, fork_safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod import FunctionInfo, Image, Sampler
    from devmod_cuda._textures import ImagePlaces
    from devmod_driver_api.adoption import Adopted, AdoptedImage
    from devmod_driver_api.binaries import DriverBinaries, LoadedBinary
    from devmod_driver_api.device import DriverDevice, DriverStream

    Dims = tuple[int, int, int]


# -- Use arrays and streams of PyTorch, CuPy, JAX, Numba, pycuda and cuda.core as devmod's, without
# a copy.
#
# ``__cuda_array_interface__`` names the stream of an array's work. pycuda and cuda.core have
# objects for untyped memory.


#: The CUDA arrays of other libraries, each with its attribute for the handle.
_ARRAYS = {("cupy", "CUDAarray"): "ptr", ("pycuda", "Array"): "handle"}
#: The contexts of other libraries, which have an attribute `handle`.
_CONTEXTS = {("cuda", "Context"), ("numba", "Context"), ("pycuda", "Context")}
#: pycuda's objects for untyped memory.
_ALLOCATIONS = ("DeviceAllocation", "PooledDeviceAllocation", "ManagedAllocation")

#: Numbers of CUfunction_attribute.
_MAX_THREADS = 0
_STATIC_SHARED = 1
_MAX_DYNAMIC_SHARED = 8
_NON_PORTABLE_CLUSTER = 14
#: The blocks of the greatest cluster that every device with clusters can run.
_PORTABLE_CLUSTER = 8
#: The greatest dynamic shared memory without the attribute.
_SHARED_WITHOUT_ATTRIBUTE = 48 << 10
_ONE = (1, 1, 1)
#: Numbers of CUlaunchAttributeID.
_CLUSTER = 4
_PROGRAMMATIC = 6
_PREFERRED_CLUSTER = 11
#: CU_LAUNCH_KERNEL_REQUIRED_BLOCK_DIM: the driver takes the block that the kernel requires.
_REQUIRED_BLOCK = _ONE

#: The bytes and the alignment of a CUtensorMap.
_TENSOR_MAP = (TENSOR_MAP_BYTES, 64)


class CudaAdoption(Adoption):
    """The arrays and the streams of other libraries for CUDA."""

    advice = (
        "devmod.device(context), or with devmod_cuda.current_device() while the context is current"
    )
    stream_attributes: Mapping[str, str] = {
        **Adoption.stream_attributes,
        "numba": "handle",
        "pycuda": "handle",
    }

    def current_device(self) -> CudaDevice:
        """Return the device over the thread's current context."""
        check_driver("cuda")
        handle = self.devices()[0].driver.call("current_context")
        if not handle:
            raise ArgumentError(
                "current_device: no CUDA context is current in this thread. Make one current with its library, or use "
                "devmod.device('cuda')",
                kind="cuda",
            )
        device = self.adopted.over_context(handle, None, "a context that was current")
        assert isinstance(device, CudaDevice)
        return device

    def _adopt_device(self, value: Any, title: str) -> DriverDevice | None:
        if library_of(value) == "cuda" and type(value).__name__ == "Device":
            return self.device(value.device_id)
        return super()._adopt_device(value, title)

    def context_handle(self, value: Any) -> int | None:
        if (library_of(value), type(value).__name__) not in _CONTEXTS:
            return None
        handle = value.handle
        if handle is None:
            raise ValueError("it is closed")
        return number_of(handle)

    def adopt_array(self, value: Any) -> Adopted | AdoptedImage | None:
        library = library_of(value)
        if (library, type(value).__name__) in _ARRAYS:
            return self._adopt_image(
                value, int(getattr(value, _ARRAYS[library, type(value).__name__]))
            )
        if library == "pycuda" and type(value).__name__ in _ALLOCATIONS:
            return self._adopt_allocation(value)
        if library == "cuda" and type(value).__name__ == "Buffer" and hasattr(value, "handle"):
            return self._adopt_untyped(value, int(value.handle), value.size), None
        if library != "torch":
            interface = getattr(value, "__cuda_array_interface__", None)
            if isinstance(interface, dict) and (
                interface.get("stream") is not None
                or library == "pycuda"
                or not self.has_dlpack(value)
            ):
                return self._adopt_interface(value, interface)
        return super().adopt_array(value)

    def stream_handle(self, value: Any) -> int | None:
        if getattr(type(value), "__cuda_stream__", None) is not None:
            _, handle = value.__cuda_stream__()
            return int(handle)
        return super().stream_handle(value)

    def _adopt_interface(self, value: Any, interface: dict[str, Any]) -> Adopted:
        """Adopt an array by ``__cuda_array_interface__``."""
        version = interface.get("version", 0)
        if version < 2:
            raise ConversionError(
                f"has a __cuda_array_interface__ of version {version}, expected 2 or 3"
            )
        if interface.get("mask") is not None:
            raise ConversionError("has a mask, which kernels do not take")
        shape = tuple(interface["shape"])
        address, read_only = interface["data"]
        dtype = np.dtype(interface["typestr"])
        try:
            name = dtype_name_of(dtype)
        except FormatError as error:
            raise ConversionError(
                f"has elements of a type that devices do not support: {error}"
            ) from None
        strides = interface.get("strides")
        if strides is not None and not is_contiguous(shape, tuple(strides), dtype.itemsize):
            raise strided_error(value)
        array = self.array(None, int(address or 0), shape, name, value, read_only=bool(read_only))
        handle = interface.get("stream")
        if handle is None:
            if library_of(value) == "pycuda":
                return array, self.default_order(array.device)  # type: ignore[arg-type]
            return array, None
        return array, self.stream_over(int(handle), value, array.device)  # type: ignore[arg-type]

    def _adopt_allocation(self, value: Any) -> Adopted:
        """Adopt untyped memory of pycuda."""
        address = int(value)
        device = self.check_pointer(address, None)
        if hasattr(value, "__len__"):
            nbytes = len(value)
        else:
            with device.context:
                start, size = device.driver.call("memory_range", address)
            nbytes = start + size - address
        return self._adopt_untyped(value, address, nbytes), self.default_order(device)

    def _adopt_image(self, value: Any, handle: int) -> AdoptedImage:
        """Adopt a CUDA array. It has no device of its own: it is used in the thread's current
        context, or on the first device.
        """
        from devmod_cuda._textures import image_over

        device = self.context_device()
        stream: Any = device.default_stream
        if library_of(value) != "pycuda":
            stream = self.current_stream(value, device)
        try:
            return image_over(device, handle, value), stream
        except DriverError as error:
            raise ConversionError(f"is a CUDA array that the driver refuses: {error}") from None

    def _adopt_untyped(self, value: object, address: int, nbytes: int) -> DeviceArray:
        return self.array(None, address, (nbytes,), "void", value)


ADOPTION = CudaAdoption(CUDA, devices)


class _Attributes:
    """The attributes of a kernel of a binary that launches have raised. The driver has one value
    for all functions of the kernel.
    """

    __slots__ = ("has_large_clusters", "lock", "shared_memory")

    def __init__(self, shared_memory: int) -> None:
        self.lock = fork_safe(RLock())
        self.shared_memory = shared_memory
        self.has_large_clusters = False


class CudaKernel(DriverKernel):
    """A kernel on one device."""

    device: CudaDevice
    driver: CudaDriver
    entry: KernelEntry
    shared_memory_limit = "max_shared_memory_per_block_optin"

    def __init__(self, info: FunctionInfo, binary: LoadedBinary) -> None:
        super().__init__(info, binary)
        driver = self.driver
        function = self.function
        params: Sequence[ParamPlace] | None = self.entry.params
        try:
            with self.context, driver.relaxed():  # the first query loads the function
                if params is None:
                    pairs = driver.param_places(function)
                    if pairs is not None:
                        params = [ParamPlace(offset, size) for offset, size in pairs]
                self._max_threads = driver.call("function_attribute", _MAX_THREADS, function)
                static = driver.call("function_attribute", _STATIC_SHARED, function)
        except DriverError as error:
            raise self.refusal("query", error) from error
        self.layout = parameter_layout(info, params)
        self.static_shared_memory = static
        self._attributes: _Attributes = binary.states.setdefault(
            info.name, _Attributes(max(_SHARED_WITHOUT_ATTRIBUTE - static, 0))
        )
        self._tensor_maps = tensor_map_numbers(info)
        self._images = _image_places(info.interface)
        self.pack = self.layout.pack
        if self._images is not None:
            self.pack = self._images.packer(self.layout.pack)

    def check_images(self, images: Mapping[int, Image | Sampler]) -> tuple[int, str] | None:
        if self._images is None:
            return None
        return self._images.check(images)

    def shape(self, launch: LaunchConfig) -> DriverLaunchConfig:
        shape = self._driver_config(launch)
        self.allow_shared_memory(launch.shared_memory)
        cluster = self._cluster_of(launch)
        if prod(cluster) > _PORTABLE_CLUSTER:
            self._allow_large_cluster(launch, cluster, shape)
        self.check_cooperative(launch)
        return shape

    def _driver_config(self, launch: LaunchConfig) -> DriverLaunchConfig:
        """Return the configuration of a launch for the driver. LaunchError: it exceeds a limit."""
        self.check_block(launch)
        self._check_registers(launch)
        self.check_shared_memory(launch)
        cluster = self._cluster_of(launch)
        self._check_cluster(launch, cluster)
        self.check_dims("grid", launch.grid)
        entry = self.entry
        attributes = []
        grid = launch.grid
        block = launch.block
        has_required_block = REQUIRED_BLOCK_TAG in self.info.launch_param_tags
        counts_clusters = entry.blocks_are_clusters
        if entry is UNKNOWN:
            counts_clusters = has_required_block
        if counts_clusters:
            x, y, z = (blocks // size for blocks, size in zip(grid, cluster, strict=True))
            grid = x, y, z
        if counts_clusters or has_required_block:
            block = _REQUIRED_BLOCK
        else:
            if cluster != _ONE and entry.cluster is None:
                attributes.append((_CLUSTER, pack("<3I", *cluster)))
            if launch.preferred_cluster != _ONE:
                attributes.append((_PREFERRED_CLUSTER, pack("<3I", *launch.preferred_cluster)))
        if self.is_cooperative:
            attributes.append((COOPERATIVE, pack("<i", 1)))
        if PROGRAMMATIC_TAG in self.info.launch_param_tags:
            attributes.append((_PROGRAMMATIC, pack("<i", 1)))
        return DriverLaunchConfig(grid, block, launch.shared_memory, tuple(attributes))

    def _cluster_of(self, launch: LaunchConfig) -> Dims:
        """Return the cluster of a launch: its own, or that which the kernel requires."""
        if launch.cluster == _ONE:
            return self.entry.cluster or _ONE
        return launch.cluster

    def _check_registers(self, launch: LaunchConfig) -> None:
        block = launch.block
        threads = prod(block)
        if threads > self._max_threads:
            raise self.launch_error(
                f"the kernel's registers allow {self._max_threads} threads in a block (CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), and "
                f"block={block} has {threads}; compile it with __launch_bounds__({threads})",
                "block",
            )

    def _check_cluster(self, launch: LaunchConfig, cluster: Dims) -> None:
        entry = self.entry
        self._check_required_cluster(entry, cluster)
        preferred = launch.preferred_cluster
        if cluster == preferred == _ONE:
            return
        if not self.device.limits["cluster_launch"]:
            arch = self.device.arch.partition(":")[0]
            raise self.launch_error(
                f"{arch} does not support clusters, which sm_90 and newer have; got cluster={cluster}"
            )
        blocks = prod(cluster)
        if entry.max_cluster and blocks > entry.max_cluster:
            raise self.launch_error(
                f"the kernel is built for clusters of at most {entry.max_cluster} blocks, and cluster={cluster} has {blocks}"
            )
        for name, size in (("cluster", cluster), ("preferred_cluster", preferred)):
            if not _is_multiple(launch.grid, size):
                raise self.launch_error(
                    f"grid={launch.grid} is not a multiple of {name}={size}; a grid has whole clusters"
                )
        if preferred != _ONE and not _is_multiple(preferred, cluster):
            raise self.launch_error(
                f"preferred_cluster={preferred} is not a multiple of cluster={cluster}"
            )

    def _check_required_cluster(self, entry: KernelEntry, cluster: Dims) -> None:
        """Raise LaunchError for another cluster than the kernel requires."""
        if entry.cluster is not None:
            if cluster != entry.cluster:
                raise self.launch_error(
                    f"the kernel is built for clusters of {entry.cluster} blocks, got cluster={cluster}"
                )
        elif entry.explicit_cluster and cluster == _ONE:
            raise self.launch_error(
                "the kernel requires a cluster, and the launch has none; declare the tags clusterCtaIdx in its fmap"
            )

    def preferred_block(self) -> tuple[int, int]:
        try:
            with self.context:
                _, threads = self.driver.call("preferred_block", self.function, 0, 0, 0)
        except DriverError as error:
            raise self.refusal("query", error) from error
        most = 1 << max(threads, 1).bit_length() - 1
        return most, min(self.device.limits["warp_size"], most)

    def caller(
        self, stream: DriverStream, shape: DriverLaunchConfig
    ) -> Callable[[Sequence[Any]], None]:
        call = super().caller(stream, shape)
        if not self._tensor_maps:
            return call

        def checked(values: Sequence[Any]) -> None:
            self._check_tensor_maps(values)
            call(values)

        return checked

    def prepare(
        self, stream: DriverStream, shape: DriverLaunchConfig, values: Sequence[Any]
    ) -> Callable[[], object]:
        self._check_tensor_maps(values)
        return super().prepare(stream, shape, values)

    def _check_tensor_maps(self, values: Sequence[Any]) -> None:
        """Check that the arrays of the tensor maps are on the device of the launch: the packed
        bytes do not contain it.
        """
        for number in self._tensor_maps:
            value = values[number]
            if not isinstance(value, TensorMap):
                continue
            if value.array.device.memory_space is self.device.memory_space:
                continue
            interface = self.info.interface
            name = ""
            place = number
            if interface is not None:
                param = interface.values[number]
                name = param.name
                place = interface.params.index(param)
            label = f"argument {place + 1}"
            if name:
                label += f" {name!r}"
            raise ArgumentError(
                f"the cuda function {self.info.name!r}: {label} is a tensor map of an array on {value.array.device}, and the launch is on "
                f"{self.device}; make the tensor map of an array on that device, or call f.on(array.device)",
                kind="cuda",
                function=self.info.name,
                argument=name or str(place + 1),
            )

    def allow_shared_memory(self, nbytes: int) -> None:
        """Raise the function's limit of dynamic shared memory, which is 48 KiB with the kernel's
        own at first.
        """
        attributes = self._attributes
        if nbytes <= attributes.shared_memory:
            return
        with attributes.lock:
            if nbytes > attributes.shared_memory:
                self._set_attribute(_MAX_DYNAMIC_SHARED, nbytes, f"shared_memory={nbytes}")
                attributes.shared_memory = nbytes

    def _allow_large_cluster(
        self, launch: LaunchConfig, cluster: tuple[int, ...], shape: DriverLaunchConfig
    ) -> None:
        """Allow a cluster of a size that not every device supports, and check that the device runs
        one.
        """
        attributes = self._attributes
        with attributes.lock:
            if not attributes.has_large_clusters:
                self._set_attribute(_NON_PORTABLE_CLUSTER, 1, f"cluster={cluster}")
                attributes.has_large_clusters = True
        config = byref(self.driver.launch_config(shape, 0))
        try:
            with self.context:
                count = self.driver.call("max_active_clusters", self.function, config)
        except DriverError:
            count = 0
        if not count:
            raise self.launch_error(
                f"it runs no cluster of {prod(cluster)} blocks with block={launch.block} and shared_memory={launch.shared_memory}; every "
                f"device with clusters runs {_PORTABLE_CLUSTER} blocks"
            )

    def _set_attribute(self, attribute: int, value: int, what: str) -> None:
        """Set an attribute of the function. `what` is the argument of the launch in the message."""
        try:
            with self.context:
                self.driver.call("set_function_attribute", self.function, attribute, value)
        except DriverError as error:
            raise self.launch_error(f"the driver refuses {what}: {describe(error)}") from error


class CudaLauncher(DriverLauncher):
    """One function of a CUDA module."""

    kind = "cuda"
    adoption = ADOPTION
    kernel_type = CudaKernel
    has_clusters = True
    has_images = True

    def __init__(
        self, info: FunctionInfo, binaries: DriverBinaries, interface: Interface | None = None
    ) -> None:
        if interface is None:
            interface = tensor_map_interface(info)
        super().__init__(info, binaries, interface)


# -- The parameters of CUDA's kernels: tensor maps, and the types that PTX has.


def parameter_layout(info: FunctionInfo, params: Sequence[ParamPlace] | None) -> ParameterLayout:
    """Return the parameter block of a kernel.

    Parameters
    ----------
    info
        The function.
    params
        The parameters in the binary; None if they are unknown.

    Raises
    ------
    FormatError
        The binary declares other parameters than the function.
    """
    tensor_map = DeclaredArgument("a tensor map", *_TENSOR_MAP)

    def declared(number: int) -> DeclaredArgument | None:
        if is_tensor_map(info, number):
            return tensor_map
        return None

    def find_problem(place: ParamPlace, title: str) -> str:
        if _is_float(place.type) in (None, _is_float(title)):
            return ""
        return f"a parameter of PTX's type .{place.type}"

    arguments = declared_arguments("cuda", info, declared)
    if params is None:
        params = _natural_places(arguments)
    return make_layout("cuda", info, arguments, params, find_problem)


def _natural_places(arguments: Sequence[DeclaredArgument]) -> list[ParamPlace]:
    """Return the places that a C++ compiler chooses for arguments, by their alignment."""
    end = 0
    places = []
    for argument in arguments:
        offset = -(-end // argument.align) * argument.align
        places.append(ParamPlace(offset, argument.size))
        end = offset + argument.size
    return places


def _is_float(type_: str) -> bool | None:
    """Return whether a type of PTX or of a FunctionInfo is a floating-point number; None for PTX's
    untyped bits.
    """
    if type_ in ("", "b8", "b16", "b32", "b64", "b128"):
        return None
    return type_.startswith("f")


def _is_multiple(counts: Dims, of: Dims) -> bool:
    """Return whether a grid consists of whole clusters in each dimension."""
    return not any(count % each for count, each in zip(counts, of, strict=True))


def is_tensor_map(info: FunctionInfo, number: int) -> bool:
    """Return whether an argument is a CUtensorMap by value."""
    return number < len(info.arg_extra_tags) and info.arg_extra_tags[number] == TENSOR_MAP_TAG


def _image_places(interface: Interface | None) -> ImagePlaces | None:
    """Return the images among the arguments of a kernel; None if it has none."""
    if interface is None or all(
        param.kind not in ("image", "sampler") for param in interface.params
    ):
        return None
    from devmod_cuda._textures import ImagePlaces

    return ImagePlaces(interface)


def tensor_map_numbers(info: FunctionInfo) -> tuple[int, ...]:
    """Return the numbers of the arguments that have the size of a tensor map, by TVM's tag or by
    their type.
    """
    values: Sequence[Param] = ()
    if info.interface is not None:
        values = info.interface.values
    type_ = f"uint8x{_TENSOR_MAP[0]}"
    by_type = {number for number, param in enumerate(values) if param.type == type_}
    by_tag = {number for number in range(len(info.arg_types)) if is_tensor_map(info, number)}
    return tuple(sorted(by_type | by_tag))


def tensor_map_interface(info: FunctionInfo) -> Interface | None:
    """Return the interface of a function with tensor maps, each an argument of 128 bytes by value;
    None for other functions.
    """
    if not any(is_tensor_map(info, number) for number in range(len(info.arg_types))):
        return None
    if info.interface is None:
        return Interface([_undeclared_param(info, number) for number in range(len(info.arg_types))])
    params = []
    number = 0
    for param in info.interface.params:
        if is_tensor_map(info, number):
            params.append(_tensor_map_param(param.name))
        else:
            params.append(param)
        number += len(param.pack) or 1
    return info.interface.replace(params=params)


def _tensor_map_param(name: str) -> Param:
    size, align = _TENSOR_MAP
    return Param(name, "scalar", f"uint8x{size}", align=align)


def _undeclared_param(info: FunctionInfo, number: int) -> Param:
    """Return the parameter of an argument of which only the type is known."""
    if is_tensor_map(info, number):
        return _tensor_map_param("")
    if info.arg_types[number] == "handle":
        return Param("", "buffer")
    return Param("", "scalar", info.arg_types[number])
