"""The functions of a module, and their kernels on a device: the limits of a launch, and launches
with packed parameters.
"""

from __future__ import annotations

from collections import deque
from ctypes import create_string_buffer
from functools import partial
from itertools import repeat
from math import prod
from struct import Struct
from typing import Any, NamedTuple

from devmod import Param
from devmod.backend import (
    COOPERATIVE_TAG,
    ConversionError,
    array_bytes,
    describe_value,
    parse_dtype,
)
from devmod.errors import ArgumentError, DevmodError, FormatError, LaunchError, describe_error
from devmod_driver_api.adoption import FOREIGN_ERRORS
from devmod_driver_api.api import DriverError
from devmod_driver_api.device import DriverStream
from devmod_driver_api.driver import Dims, DriverLaunchConfig
from devmod_readers.parameters import follower_numbers, group_values
from devmod_runtime import BuildLauncher, Kernel, LaunchConfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from devmod import Device, FunctionInfo, Stream
    from devmod_driver_api.adoption import Adopted, AdoptedImage, Adoption
    from devmod_driver_api.binaries import LoadedBinary

# -- The parameter block of a kernel: the places of its arguments, and the bytes of a launch.
#
# The binary of a kernel has the offsets and the sizes of its parameters.


#: The bytes and the alignment of a pointer.
POINTER_BYTES = 8
#: The bytes of a parameter of kind "local", which is an offset into dynamic shared memory.
OFFSET_BYTES = 4
#: The least alignment of the memory of a `Local`.
_LOCAL_ALIGN = 16
#: The most sizes of dynamic shared memory whose launches are cached.
_MAX_SIZES = 64
#: The largest alignment of a vector type.
_MAX_ALIGN = 16


#: The offset and the bytes of an argument in the block, and whether it is a pointer.
Place = tuple[int, int, bool]


class DeclaredArgument(NamedTuple):
    """An argument as the payload's fmap declares it.

    Attributes
    ----------
    title : str
        Its type in messages: "float32" or "a buffer".
    size, align : int
        Its bytes, and its natural alignment.
    is_pointer : bool
        Whether its value is an address; that of others is bytes.
    follows : bool
        Whether it may lie behind the argument before it in one parameter, as a member of a struct.
    """

    title: str
    size: int
    align: int
    is_pointer: bool = False
    follows: bool = False


class ParameterLayout(NamedTuple):
    """The parameters of a kernel.

    Attributes
    ----------
    size : int
        The bytes of the block.
    offsets : sequence of int
        The offset of each parameter.
    pack : callable
        Takes the value of each argument, and returns the bytes of the block. The value of a pointer
        is an int, and that of others is bytes.
    """

    size: int
    offsets: Sequence[int]
    pack: Callable[..., bytes]


def parameter_layout(
    kind: str,
    info: FunctionInfo,
    arguments: Sequence[DeclaredArgument],
    places: Sequence[Any],
    find_problem: Callable[[Any, str], str],
) -> ParameterLayout:
    """Return the parameter block of a kernel.

    Parameters
    ----------
    kind, info, arguments
        The kind, the function, and its arguments as `declared_arguments` returns them.
    places
        The parameters in the binary. Each has the attributes `offset` and `size`. Several arguments
        may be one of them.
    find_problem
        A further check of a parameter in the binary, and the title of its argument: returns what
        the kernel takes in its place; "" if it is right.

    Raises
    ------
    FormatError
        The binary declares other parameters than the function.
    """
    label = f"the {kind} kernel {info.name!r}"
    followers = (number for number, argument in enumerate(arguments) if argument.follows)
    sizes = [(argument.size, argument.align) for argument in arguments]
    groups = group_values(sizes, followers, [place.size for place in places])
    if len(places) != len(groups):
        raise FormatError(
            f"{label} takes {len(places)} arguments, and the payload's fmap has {len(groups)}",
            kind=kind,
        )
    end = 0
    value_places: list[Place] = []
    for number, (place, group) in enumerate(zip(places, groups, strict=True)):
        values = arguments[len(value_places) : len(value_places) + len(group.offsets)]
        title = " and ".join(value.title for value in values)
        if place.size != group.size:
            raise FormatError(
                f"{label} takes {place.size} bytes as argument {number + 1}, and the payload's fmap has {title} of {group.size} bytes",
                kind=kind,
            )
        problem = find_problem(place, title)
        if problem:
            raise FormatError(
                f"{label} takes {problem} as argument {number + 1}, and the payload's fmap has {title}",
                kind=kind,
            )
        if place.offset < end:
            raise FormatError(
                f"{label} is damaged: its argument {number + 1} overlaps the one before it",
                kind=kind,
            )
        end = place.offset + place.size
        for offset, value in zip(group.offsets, values, strict=True):
            value_places.append((place.offset + offset, value.size, value.is_pointer))
    return ParameterLayout(end, [place.offset for place in places], _packer(value_places, end))


def _packer(places: Sequence[Place], size: int) -> Callable[..., bytes]:
    """Return the function that packs arguments into a block of `size` bytes."""
    # "N" is faster than "Q". It is native, and so aligned to 8 bytes, as pointers are in C++.
    layout = "@"
    pointer = "N"
    if any(is_pointer and offset % 8 for offset, _, is_pointer in places):
        layout = "<"
        pointer = "Q"
    end = 0
    for offset, nbytes, is_pointer in places:
        layout += f"{offset - end}x"
        if is_pointer:
            layout += pointer
        else:
            layout += f"{nbytes}s"
        end = offset + nbytes
    return Struct(f"{layout}{size - end}x").pack


def has_places(params: Iterable[Param]) -> bool:
    """Return whether the images and samplers among parameters have places: else each is a parameter
    of its own.
    """
    return any(param.at is not None for param in params if param.kind in ("image", "sampler"))


def declared_arguments(
    kind: str,
    info: FunctionInfo,
    special: Callable[[int], DeclaredArgument | None] = lambda number: None,
) -> list[DeclaredArgument]:
    """Return the arguments of a function that are parameters of its kernel: a sampler is a part of
    the image before it.

    Where no image and no sampler has a place, each is a parameter of its own, as in OpenCL C.

    Parameters
    ----------
    kind, info
        The kind and the function.
    special
        Returns the argument of a number if the kind has a type of its own for it, else None.

    Raises
    ------
    FormatError
        An image or a sampler has not the place of its parameter.
    """
    arguments: list[DeclaredArgument] = []
    values: Sequence[Param] = [Param("", "scalar", each) for each in info.arg_types]
    if info.interface is not None and info.interface.values:
        values = info.interface.values
    followers = frozenset(follower_numbers(info.interface))
    is_combined = has_places(values)
    for number, param in enumerate(values):
        argument = special(number)
        if argument is not None:
            arguments.append(argument)
            continue
        if param.kind in ("image", "sampler") and is_combined:
            _check_place(kind, info, number, len(arguments), has_followers=bool(followers))
            if param.kind == "sampler":
                continue
        argument = _declared_argument(param, info.arg_types[number])
        arguments.append(argument._replace(follows=number in followers))
    return arguments


def _check_place(
    kind: str, info: FunctionInfo, number: int, place: int, *, has_followers: bool
) -> None:
    """Raise FormatError if an image or a sampler has another place than that of its parameter."""
    assert info.interface is not None
    values = info.interface.values
    param = values[number]
    is_behind_image = True
    if param.kind == "sampler":
        place -= 1
        is_behind_image = number > 0 and values[number - 1].kind == "image"
    # An image behind a struct of several values has the number of the kernel's parameter, which the
    # binary has.
    if is_behind_image and (param.at == place or has_followers):
        return
    raise FormatError(
        f"the {kind} function {info.name!r} has the {param.kind} {param.name!r} at {param.at!r}; expected the number of the "
        f"kernel's parameter, {max(place, 0)}, and a sampler behind its image",
        kind=kind,
        function=info.name,
    )


def _declared_argument(param: Param, arg_type: str) -> DeclaredArgument:
    if param.kind == "local":
        return DeclaredArgument("an offset into shared memory", OFFSET_BYTES, OFFSET_BYTES)
    arg_type = param.type or arg_type
    title = f"a {param.kind}"
    if param.kind == "image":
        title = "an image"
    elif param.kind == "scalar":
        title = arg_type
    if param.kind in ("image", "sampler", "buffer") or arg_type == "handle":
        return DeclaredArgument(title, POINTER_BYTES, POINTER_BYTES, is_pointer=True)
    code, bits, lanes = parse_dtype(arg_type)
    if param.align:
        return DeclaredArgument(title, lanes, param.align)
    if (code, bits) == (1, 1):
        size = lanes
    else:
        size = array_bytes((code, bits, lanes))
    # float3 has the alignment of a float, and float4 of 16 bytes.
    align = size & -size
    if lanes == 3:
        align = size // lanes
    return DeclaredArgument(title, size, max(1, min(align, _MAX_ALIGN)))


class LocalPlaces:
    """The places of `Local` arguments in the dynamic shared memory of a launch.

    Parameters
    ----------
    params
        The parameters of the kernel's values.
    """

    def __init__(self, params: Sequence[Param]) -> None:
        #: The number of each local argument, and the alignment of its memory.
        self._aligns = {
            number: _local_align(param)
            for number, param in enumerate(params)
            if param.kind == "local"
        }

    def __bool__(self) -> bool:
        return bool(self._aligns)

    def size(self, sizes: Sequence[int]) -> int:
        """Return the bytes of arguments of these sizes."""
        values = dict(zip(self._aligns, sizes, strict=True))
        _, end = self._offsets(values, 0)
        return end

    def place(self, values: Sequence[Any], start: int) -> tuple[list[Any], int]:
        """Return the values of a launch with an offset in place of each size, and the bytes of
        dynamic shared memory. The first `start` bytes are the launch's own.
        """
        offsets, end = self._offsets(values, start)
        placed = list(values)
        for number, offset in offsets.items():
            placed[number] = offset.to_bytes(OFFSET_BYTES, "little")
        return placed, end

    def _offsets(
        self, sizes: Sequence[int] | dict[int, int], start: int
    ) -> tuple[dict[int, int], int]:
        offsets = {}
        end = start
        for number, align in self._aligns.items():
            offsets[number] = -(-end // align) * align
            end = offsets[number] + sizes[number]
        return offsets, end


def _local_align(param: Param) -> int:
    """Return the alignment of the memory of a local parameter: that of its largest elements."""
    if not param.type:
        return _LOCAL_ALIGN
    code, bits, lanes = parse_dtype(param.type)
    align = param.align or array_bytes((code, bits, lanes + (lanes == 3)))
    return max(align, _LOCAL_ALIGN)


class DriverKernel(Kernel):
    """A kernel on one device. A subclass sets the layout and defines `shape`, with the limits that
    its driver has of its own.

    Parameters
    ----------
    info, binary
        The function, and the loaded binary.

    Attributes
    ----------
    layout : ParameterLayout
        The parameters of a launch.
    pack : callable
        Takes the value of each argument, and returns the bytes of the parameter block.
    static_shared_memory : int
        The bytes of shared memory that the kernel declares.
    shared_memory_limit : str
        The name of the device's limit of shared memory in a block.
    function : int
        The driver's handle.
    entry
        What the binary declares about the kernel: `block`, the block that it requires or None,
        `max_threads`, the most threads of a block or 0, and what the kind has of its own.
    required_block : tuple of int or None
        The block that the kernel requires; None if it runs with every block.
    """

    layout: ParameterLayout
    pack: Callable[..., bytes]
    static_shared_memory = 0
    shared_memory_limit = "max_shared_memory_per_block"

    def __init__(self, info: FunctionInfo, binary: LoadedBinary) -> None:
        self.binary = binary
        self.device = binary.device
        self.context = binary.context
        self.driver = binary.context.driver
        self.info = info
        self.function = binary.function(info.name)
        self.entry: Any = binary.kernels[info.name]
        self.required_block: Dims | None = self.entry.block
        values: Sequence[Param] = ()
        if info.interface is not None:
            values = info.interface.values
        self._local = LocalPlaces(values)

    def caller(
        self, stream: DriverStream, shape: DriverLaunchConfig
    ) -> Callable[[Sequence[Any]], None]:
        if not self._local:
            return self._caller(stream, shape)
        callers: dict[int, Callable[[Sequence[Any]], None]] = {}

        def call(values: Sequence[Any]) -> None:
            placed, nbytes = self._local.place(values, shape.shared_memory)
            own = callers.get(nbytes)
            if own is None:
                if len(callers) >= _MAX_SIZES:
                    callers.clear()
                own = callers[nbytes] = self._caller(stream, self._with_local(shape, nbytes))
            own(placed)

        return call

    def _caller(
        self, stream: DriverStream, shape: DriverLaunchConfig
    ) -> Callable[[Sequence[Any]], None]:
        # Every call runs this function, so it uses local names.
        pack = self.pack
        lock = stream.lock
        # Launches that no call is using. Only one thread writes to a parameter block; pop and
        # append of a deque are atomic. A list of one item frees its memory with each pop.
        free = deque([self._new_launch(stream, shape)])
        take = free.pop
        give = free.append

        def call(values: Sequence[Any]) -> None:
            try:
                buffer, launch = slot = take()
            except IndexError:
                buffer, launch = slot = self._new_launch(stream, shape)
            buffer.raw = pack(*values)
            if stream.is_captured:
                with lock:
                    launch()
            else:
                launch()
            give(slot)

        return call

    def prepare(
        self, stream: DriverStream, shape: DriverLaunchConfig, values: Sequence[Any]
    ) -> Callable[[], object]:
        if self._local:
            values, nbytes = self._local.place(values, shape.shared_memory)
            shape = self._with_local(shape, nbytes)
        buffer, launch = self._new_launch(stream, shape)
        buffer.raw = self.pack(*values)
        if stream.is_default:
            return launch

        def launch_in_order(_: None) -> None:
            if stream.is_captured:
                with stream.lock:
                    launch()
            else:
                launch()

        # A function of C without parameters, as `launch` is.
        return map(launch_in_order, repeat(None)).__next__

    def time(self, stream: DriverStream, shape: DriverLaunchConfig, values: Sequence[Any]) -> float:
        call = self.caller(stream, shape)
        with stream.lock, stream.uncaptured():  # a graph would be created between the two events
            begin = stream.record()
            call(values)
            end = stream.record()
        return end.elapsed(begin)

    def _with_local(self, shape: DriverLaunchConfig, nbytes: int) -> DriverLaunchConfig:
        """Return the configuration of a launch with the shared memory of its `Local` arguments."""
        self.allow_shared_memory(nbytes)
        return shape._replace(shared_memory=nbytes)

    def allow_shared_memory(self, nbytes: int) -> None:
        """Let the driver launch the function with so much dynamic shared memory. HIP does so."""

    def _new_launch(
        self, stream: DriverStream, shape: DriverLaunchConfig
    ) -> tuple[Any, Callable[[], object]]:
        """Return the memory of a parameter block, and a C function that launches with the
        parameters in it.
        """
        self.binary.note_stream(stream)
        block = create_string_buffer(self.layout.size)
        launch = self.driver.launch_call(
            shape, stream.handle, self.function, block, self.layout.offsets
        )
        queue = self.driver.prepare_launch(
            self.context.handle,
            launch,
            partial(self.refusal, "launch"),
            stays=self.context.is_primary,
        )
        if self.context.is_primary and not hasattr(stream.owner, "is_closed"):
            return block, queue

        def queue_checked() -> None:
            # A driver may end the process for a handle that was destroyed.
            self.device.check_context()
            stream.check_open()
            queue()

        return block, queue_checked

    # -- the limits of a launch, checked before the driver is called

    def launch_error(self, text: str, argument: str = "") -> LaunchError:
        """Return the error of a launch that exceeds a limit. `text` ends the sentence."""
        return self.device.invalid_launch(self.info.name, text, argument)

    def check_block(self, launch: LaunchConfig) -> None:
        """Check the block against the device and the kernel."""
        block = launch.block
        self.check_dims("block", block)
        threads = prod(block)
        limit = self.device.limits["max_threads_per_block"]
        if threads > limit:
            raise self.launch_error(
                f"its max_threads_per_block is {limit}, and block={block} has {threads} threads",
                "block",
            )
        if self.required_block not in (None, block):
            raise self.launch_error(
                f"the kernel is built for blocks of {self.required_block} threads, got block={block}",
                "block",
            )
        built_threads = self.entry.max_threads
        if built_threads and threads > built_threads:
            raise self.launch_error(
                f"the kernel is built for blocks of at most {built_threads} threads (__launch_bounds__), and block={block} has {threads}",
                "block",
            )

    def check_dims(self, name: str, dims: Dims) -> None:
        """Check the dimensions of the "grid" or of the "block" against the device."""
        for axis, count in zip("xyz", dims, strict=True):
            limit_name = f"max_{name}_dim_{axis}"
            limit = self.device.limits[limit_name]
            if count > limit:
                raise self.launch_error(f"its {limit_name} is {limit}, got {name}={dims}", name)

    def check_shared_memory(self, launch: LaunchConfig) -> None:
        """Check the dynamic shared memory, with the kernel's own, against the device."""
        limit = self.device.limits[self.shared_memory_limit]
        static = self.static_shared_memory
        if launch.shared_memory + static > limit:
            own = ""
            if static:
                own = f", and the kernel declares {static} bytes of its own"
            raise self.launch_error(
                f"its {self.shared_memory_limit} is {limit}, got shared_memory={launch.shared_memory}{own}",
                "shared_memory",
            )

    def check_local(self, sizes: Sequence[int]) -> str:
        limit = self.device.limits[self.shared_memory_limit]
        nbytes = self._local.size(sizes)
        if nbytes + self.static_shared_memory <= limit:
            return ""
        own = ""
        if self.static_shared_memory:
            own = f", and the kernel declares {self.static_shared_memory} bytes of its own"
        return f"its {self.shared_memory_limit} is {limit}, got devmod.Local arguments of {nbytes} bytes{own}"

    @property
    def is_cooperative(self) -> bool:
        """Whether all blocks of a launch must run at once."""
        return COOPERATIVE_TAG in self.info.launch_param_tags

    def check_cooperative(self, launch: LaunchConfig) -> None:
        """Check that the device runs all blocks of a launch at once, if it must."""
        if not self.is_cooperative:
            return
        if not self.device.limits["cooperative_launch"]:
            raise self.launch_error("it does not support cooperative launches")
        try:
            with self.context:
                each = self.driver.call(
                    "max_active_blocks", self.function, prod(launch.block), launch.shared_memory
                )
        except DriverError as error:
            raise self.refusal("query", error) from error
        most = each * self.device.limits["multiprocessor_count"]
        if launch.blocks > most:
            raise self.launch_error(
                f"a cooperative launch runs all its blocks at once, and with block={launch.block} it runs {most}; got grid={launch.grid} "
                f"of {launch.blocks} blocks",
                "grid",
            )

    # -- errors of the driver

    def refusal(self, what: str, error: DriverError) -> LaunchError:
        """Return the error for what the driver refuses: a "launch", or a "query" of the kernel's
        attributes or its occupancy. A driver may load a function with its first use.
        """
        result = self.device.driver_error(
            f"{self.device} refused a {what} of the {self.device.kind} function {self.info.name!r}",
            error,
        )
        result.function = self.info.name
        return result


# -- The functions of a module.


class DriverLauncher(BuildLauncher):
    """One function of a module, whose builds are `DriverBinaries`.

    Attributes
    ----------
    adoption : Adoption
        The arrays and streams of other libraries for the kind.
    kernel_type : type
        The class of the kernels.
    """

    adoption: Adoption
    kernel_type: type[DriverKernel]
    vec3_lanes = 3
    no_shared_memory = ""
    has_null = True
    null = 0
    has_packs = True

    def kernel(self, device: Device) -> DriverKernel:
        return self.kernel_type(self.info, self.builds.get(device))

    def default_device(self) -> Device:
        return self.adoption.devices()[0]

    def adopt(self, value: object) -> Adopted | AdoptedImage | None:
        try:
            return self.adoption.adopt_array(value)
        except (DevmodError, ConversionError):
            raise
        except FOREIGN_ERRORS as error:
            raise ConversionError(
                f"is not exported by its library: {describe_error(error)}"
            ) from error

    def adopt_stream(self, value: object) -> Stream | None:
        try:
            return self.adoption.adopt_stream(value)
        except DevmodError:
            raise
        except FOREIGN_ERRORS as error:
            raise ArgumentError(
                f"stream= is {describe_value(value)} that is not exported by its library: {describe_error(error)}",
                kind=self.kind,
                argument="stream",
            ) from error

    def local(self, nbytes: int) -> Any:
        interface = self.info.interface
        if interface is not None and any(param.kind == "local" for param in interface.params):
            return nbytes
        raise ConversionError(
            f"is a Local, and {self.adoption.api.title} kernels take no shared memory as an argument: declare it in the kernel as extern "
            "__shared__, and pass shared_memory="
        )
