"""The classes by which a backend implements calls: a Launcher for each function, a Kernel for each
device.

`devmod_runtime._launch.function` checks and converts every argument, copies host arrays, parses
grid and block, chooses device and stream, and builds once for all threads. A backend turns the
result into one call of its driver:

- a Launcher finds or builds the kernel of one function for a device;
- a Kernel checks a launch's configuration against the device's limits once, and enqueues.

A kernel receives the values in the order of ``FunctionInfo.arg_types``: for a buffer the object
that `Device.allocate` returned, for a scalar its bytes in little-endian order, for a `Local` the
result of `Launcher.local`, for an image or a sampler the `Image` or the `Sampler`. For a scalar of
the type "handle" it is the object of `Device.allocate`, or the bytes of an int. A backend that
passes scalars in blocks of memory packs them with `block_packer`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod
from typing import NamedTuple

from devmod.backend import ConversionError
from devmod.errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from devmod import Interface
    from devmod.backend import PipelineConstant
    from devmod_runtime._device.device import Device
    from devmod_runtime._device.device_array import DeviceArray
    from devmod_runtime._device.image import Image, Sampler
    from devmod_runtime._device.stream import Stream
    from devmod_runtime._launch.arguments import Argument

    Dims = tuple[int, int, int]


def _fit_block(threads: Dims | None, most: int, row: int) -> Dims:
    """Return a block of powers of two with at most `most` threads, which has no more threads in a
    dimension than the launch needs.
    """
    needed = [1 << max(count - 1, 0).bit_length() for count in threads or (most, 1, 1)]
    block = [1, 1, 1]
    for axis, limit in ((0, row), (1, most), (2, most), (0, most)):
        largest = min(needed[axis], limit, block[axis] * (most // prod(block)))
        block[axis] = 1 << largest.bit_length() - 1
    x, y, z = block
    return x, y, z


class LaunchConfig(NamedTuple):
    """The configuration of a launch. `Function.launch_config` returns one.

    Attributes
    ----------
    grid : tuple of int
        Blocks in x, y, z. A grid with a zero launches nothing; a kernel never receives it.
    block : tuple of int
        Threads of a block in x, y, z; each 1 or more.
    cluster : tuple of int
        Blocks of a cluster in x, y, z; (1, 1, 1) without a cluster.
    shared_memory : int
        Dynamic shared memory in bytes.
    preferred_cluster : tuple of int
        The preferred size of a cluster, in blocks; (1, 1, 1) without a preference.
    """

    grid: Dims
    block: Dims
    cluster: Dims = (1, 1, 1)
    shared_memory: int = 0
    preferred_cluster: Dims = (1, 1, 1)

    @property
    def blocks(self) -> int:
        """The number of blocks of the grid."""
        x, y, z = self.grid
        return x * y * z

    def __repr__(self) -> str:
        more = []
        for name in ("cluster", "shared_memory", "preferred_cluster"):
            value = getattr(self, name)
            if value not in ((1, 1, 1), 0):
                more.append(f", {name}={value!r}")
        return f"LaunchConfig(grid={self.grid}, block={self.block}{''.join(more)})"


class Kernel(ABC):
    """One function on one device. Several threads may call its methods at once. A `stream` is one
    that the device made.
    """

    @abstractmethod
    def shape(self, launch: LaunchConfig) -> Any:
        """Return the launch's shape in the form that the other methods take. The result is stored
        and passed to them.

        Raises
        ------
        LaunchError
            The launch exceeds a limit of the device; the message has the limit, its value and the
            requested value. With ``argument="grid"`` the limit is one of blocks: the message gets
            what the caller can do.
        """

    def choose_block(self, threads: Dims | None) -> Dims:
        """Return the block of a launch that names none, for a kernel that gives the same result
        with every block.

        By default each dimension is a power of two. The block has `preferred_block` threads at
        most, and `shape` accepts it.

        Parameters
        ----------
        threads
            The threads of the launch in x, y, z; None if the caller gives the number of blocks.

        Raises
        ------
        LaunchError
            `shape` refuses every block.
        """
        most, row = self.preferred_block()
        while True:
            block = _fit_block(threads, most, row)
            try:
                self.shape(LaunchConfig((1, 1, 1), block))
                return block
            except LaunchError:
                if most <= 1:
                    raise
                most //= 2

    def preferred_block(self) -> tuple[int, int]:
        """Return the most threads of a chosen block, and the threads that it has in x before it has
        others in y and z.
        """
        return 256, 32

    def check_local(self, sizes: Sequence[int]) -> str:
        """Return why the device cannot give a block `Local` arguments of these sizes in bytes; ""
        if it can.

        The text ends a sentence: ``its local_mem_size is 32768, got devmod.Local arguments of 65536
        bytes``.
        """
        return ""

    def check_images(self, images: Mapping[int, Image | Sampler]) -> tuple[int, str] | None:
        """Return the number of an image or a sampler that the kernel cannot take with the others,
        and the reason; None if it takes all.

        `images` has them by the number of the argument. The reason ends a sentence that begins with
        the argument.
        """
        return None

    def check_buffers(self, values: Sequence[Any]) -> None:  # noqa: B027 - few kernels have such limits
        """Raise what the function of `caller` raises for memory that the kernel cannot take.
        `values` are those of `caller`.

        A program asks each kernel before its first launch.

        Raises
        ------
        ArgumentError, LaunchError
            The memory is too large or too small, or two arguments cannot share it.
        """

    @abstractmethod
    def caller(self, stream: Any, shape: Any) -> Callable[[Sequence[Any]], Any]:
        """Return a function that queues one launch with the values that it receives. It returns
        None, or waits for the kernel's result.

        A value is what `Device.allocate` returned for a buffer, the little-endian bytes of a
        scalar, an `Image` or a `Sampler`, whose ``handle`` is the backend's, or what
        `Launcher.local` returned.

        This method is called once for a stream and a shape, and the returned function for every
        such launch. The memory of the values must stay valid in the driver until the launch is
        done. The function raises LaunchError if the driver refuses the launch.
        """

    def plain_caller(
        self, stream: Any, shape: Any, arguments: Sequence[Argument]
    ) -> Callable[..., Any]:
        """Return a function that does what that of `caller` does. It takes each value as an
        argument of its own: the memory of an array, and a number unconverted.

        It is called for functions of which `Launcher.packs_numbers` returns True. The returned
        function queues nothing and raises ConversionError if a number does not fit. For a float it
        gets a float or an int, for an int any object.
        """
        raise NotImplementedError

    def prepare(self, stream: Any, shape: Any, values: Sequence[Any]) -> Callable[[], object]:
        """Return a function that queues this launch at each call, with as little work as possible.

        Several threads may call the function, also before the previous launch has finished. Its
        return value is ignored. Exceptions of the driver are raised unchanged. `Launch` wraps the
        function, so that a call with arguments raises ArgumentError. It does not wrap a method of C
        without arguments, such as ``itertools.starmap(driver_function,
        itertools.repeat(arguments)).__next__``.
        """
        call = self.caller(stream, shape)
        fixed_values = tuple(values)
        return lambda: call(fixed_values)

    @abstractmethod
    def time(self, stream: Any, shape: Any, values: Sequence[Any]) -> float:
        """Launch once after the stream's queued work, wait, and return the seconds that the launch
        took on the device.
        """


class Launcher(ABC):
    """A backend's part of one function. The class attributes apply to all functions of the kind.

    Attributes
    ----------
    kind : str
        The backend's kind, as messages name it.
    has_grid : bool
        Whether a launch has a grid and a block.
    has_clusters : bool
        Whether a launch may have clusters of blocks. Without it, one with a cluster is a
        LaunchError.
    bool_bytes, vec3_lanes : int
        The bytes of a bool, and the lanes that a three-vector takes
        (`devmod_runtime._launch.scalars.packer`).
    no_shared_memory : str
        Why ``shared_memory=`` is not supported, as the end of a sentence; "" if it is supported.
    has_images : bool
        Whether a call takes images and samplers.
    has_addresses : bool
        Whether a call takes scalars of the type "handle", which are addresses of device arrays.
    has_null : bool
        Whether a call takes `ctypes.c_void_p()` for an array that the kernel compares with NULL. A
        kernel then receives `null`.
    null : object
        The memory of no array, as `Device.allocate` returns that of an array.
    has_packs : bool
        Whether a call takes buffers that are several values of the kernel (`devmod.Param.pack`). A
        kernel then receives one value for each of ``FunctionInfo.arg_types``: the object of
        `Device.allocate` for "ptr", and the bytes of the numbers. `Interface.values` has one Param
        for each value, and `Interface.params` is shorter. Without it, get_function raises
        LaunchError for such a function.
    plain_classes : tuple of types
        The classes of another library's buffers that plain calls take (`plain_memory`). For others,
        `KernelCall` asks `adopt` in each call.
    interface : Interface or None
        The interface, if it is not that of the payload.
    """

    kind: str
    has_grid: bool = True
    has_clusters: bool = False
    bool_bytes: int = 1
    vec3_lanes: int = 4
    no_shared_memory: str = "this kind has no dynamic shared memory"
    has_images: bool = False
    has_addresses: bool = False
    has_null: bool = False
    null: object = None
    has_packs: bool = False
    plain_classes: tuple[type, ...] = ()
    interface: Interface | None = None

    @property
    def format(self) -> str:
        """The payload's format, if there are devices of the kind that do not take it
        (`devmod.backend.Capabilities`); "" by default.
        """
        return ""

    @property
    def constants(self) -> Sequence[str]:
        """The known names of the constants that `specialize` sets; by default those of the
        interface.
        """
        from devmod.backend import constants_of

        return [each.label for each in constants_of(self.interface)]

    @property
    def unset_constants(self) -> Sequence[PipelineConstant]:
        """The constants that a call needs and that have no value. A call is then an error."""
        return ()

    def lengths_read(self) -> Collection[int] | None:
        """Return the numbers of the buffers whose run-time length the kernel uses, for a kind that
        binds each buffer with its size.

        None, the default, is for kinds whose kernels take pointers. `devmod.guard` binds a buffer
        with the zone behind it, unless the kernel uses its length.
        """
        return None

    def plain_device(self, value: Any) -> Device:
        """Return the device of an instance of one of `plain_classes`, as `adopt` does."""
        raise NotImplementedError

    def plain_memory(self, value: Any, device: Any, written: bool, stream: Any) -> Any:
        """Return what the kernel takes for a buffer of another library in a plain call.

        It is called in each call with such a buffer, since the buffer may be another one at an
        address that was used before.

        Parameters
        ----------
        value
            An array of the call that is none of devmod's.
        device, stream
            The device of the call, and its ``stream=``.
        written
            Whether the kernel may write to the buffer.

        Raises
        ------
        ConversionError
            `KernelCall` must check the value, or wait after the launch.
        """
        raise NotImplementedError

    def packs_numbers(self, arguments: Sequence[Argument]) -> bool:
        """Return whether the kernels convert the numbers of plain calls, by `Kernel.plain_caller`;
        by default, they do not.

        It saves time where a driver takes many numbers at once: the runtime converts them one by
        one.
        """
        return False

    @abstractmethod
    def default_device(self) -> Device:
        """Return the device of a call that names none, if ``DEVMOD_DEVICE`` names none of the kind
        either.

        Raises
        ------
        DeviceNotFoundError
            There is no device of the kind.
        """

    @abstractmethod
    def kernel(self, device: Any) -> Kernel:
        """Return the kernel for a device of this kind, and build it if necessary. It is called once
        for each device, from one thread.

        Raises
        ------
        CompileError, FormatError
            The kernel cannot be built for the device; the message has the reason.
        DeviceNotFoundError
            The build shows that the device lacks something for good, which full memory is not. A
            bundle then tries the next candidate.
        """

    def adopt(self, value: object) -> tuple[DeviceArray | Image | Sampler, Stream | None] | None:
        """Return a devmod array, image or sampler over one of the backend's own libraries, without
        a copy; None for other objects.

        The second value is the stream in which the library queues its work. If it is None, a call
        waits for the launch before it returns. Untyped memory has the element type "void" and one
        byte per element.

        Raises
        ------
        ConversionError
            The array cannot be used (strided, of another context); the text ends a sentence that
            begins with the argument.
        """
        return None

    def adopt_stream(self, value: object) -> Stream | None:
        """Return a Stream over a stream of the backend's own libraries; None for other objects."""
        return None

    def local(self, nbytes: int) -> Any:
        """Return a kernel's value for a `Local` of `nbytes` bytes.

        Raises
        ------
        ConversionError
            The kind does not support it; the text ends a sentence that begins with the argument.
        """
        raise ConversionError("is a Local, which this kind does not support")

    def specialize(self, constants: Mapping[str, object]) -> Launcher:
        """Return a launcher of the function with constants of the source or of the pipeline set.

        Raises
        ------
        ArgumentError
            There is no such constant, or a value does not fit it.
        LaunchError
            This payload cannot be specialized.
        """
        raise LaunchError(
            f"a {self.kind} function of this format cannot be specialized", kind=self.kind
        )
