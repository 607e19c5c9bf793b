"""The programs of an OpenCL module, its kernels and functions, and arrays, images and queues of
pyopencl as their arguments.
"""

from __future__ import annotations

import builtins
import re
from collections import deque
from functools import cached_property, lru_cache, partial
from itertools import chain, repeat, starmap
from math import prod
from operator import mul
from struct import Struct, calcsize
from types import CodeType, FunctionType

from devmod.backend import (
    STRUCT_FORMATS,
    ConversionError,
    DiskCache,
    device_of_call,
    dtype_name_of,
    usable_functions,
)
from devmod.errors import ArgumentError, FormatError, LaunchError, condition_hint
from devmod_opencl import _driver
from devmod_opencl._adopt import device_of, stream_of
from devmod_opencl._device import (
    OpenCLDevice,
    OpenCLStream,
    devices,
    is_complete,
    no_time,
)
from devmod_opencl._driver import cl, driver_error
from devmod_opencl._linker import try_linker
from devmod_opencl._pocl import check_space, name_processor
from devmod_readers.options.opencl import is_supported
from devmod_runtime import (
    BuildLauncher,
    Builds,
    DeviceArray,
    DeviceCache,
    Kernel,
    LaunchConfig,
    call_uninterrupted,
    wait_interruptibly,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod import Device, FunctionInfo, Param, Stream
    from devmod_readers.spirv import SpirvKernel
    from devmod_runtime import Argument, Image, Sampler

    #: The values of a launch.
    Values = Sequence[Any]
    #: The address space, the type and the access of each argument of a kernel.
    Spaces = Sequence[Sequence[str]]
    #: A program, and the words of `arguments_of` its kernels; None if its driver has them.
    _Program = tuple[Any, Mapping[str, Spaces] | None]
    #: A kernel object and what sets its arrays; with numbers also the objects of these, and what
    #: other numbers need: the bytes of these, the place and the bytes of each, and their memory.
    _PlainKernel = Sequence[Any]


# -- Programs: the payload of one module, built for each device, and the cache of the binaries.


#: The platforms that keep what they build from a source on the disk. A cache of binaries beside
#: theirs costs time: for a binary PoCL compiles every kernel to machine code, and without one those
#: that run.
_KEEP_BUILDS = (_driver.POCL, "NVIDIA CUDA")
#: The version of the cache entries: a line for each kernel (its name, and the words of
#: `arguments_of` it, which a binary does not contain), an empty line, and the binary. json would be
#: imported for this alone.
_FORM = "lines of arguments, and binary"
_BINARIES = DiskCache("opencl")


class OpenCLPrograms(Builds):
    """The programs of one payload, one for each device and set of constants.

    Parameters
    ----------
    fmt, code
        The payload, or what a replaced compiler returned for it.
    constants
        Values for constants of the source.
    functions
        The functions of the module by name, which the trial of a binary runs.
    """

    kind = "opencl"
    source_format = "cl"
    compiler = "a driver"
    is_option = staticmethod(is_supported)

    def __init__(
        self,
        fmt: str,
        code: bytes,
        constants: Mapping[str, object] | None = None,
        functions: Mapping[str, FunctionInfo] | None = None,
    ) -> None:
        super().__init__(fmt, code, constants)
        if self.text:
            self.check_options()
        # Not `or`, which would count functions that nothing needs.
        if functions is None:
            functions = {}
        self._functions = functions
        self._built = DeviceCache()

    def with_constants(self, constants: Mapping[str, object]) -> OpenCLPrograms:
        return OpenCLPrograms(self.fmt, self.code, constants)

    def get(self, device: OpenCLDevice) -> Any:
        """Return the program built for a device, once for all threads.

        Raises
        ------
        CompileError, FormatError
            The driver refuses the payload.
        DeviceNotFoundError
            PoCL does not know the processor.
        """
        return self._get(device)[0]

    def _get(self, device: OpenCLDevice) -> _Program:
        return self._built.get(device, lambda: self._build(device))

    def arguments(self, device: OpenCLDevice, name: str) -> Spaces:
        """Return the address space, type and access of each argument of a kernel, as
        `_driver.arguments_of` does; empty if unknown.
        """
        program, arguments = self._get(device)
        if self.fmt == "il":  # drivers have no information about the arguments of SPIR-V
            kernel = self._il_kernels.get(name)
            if kernel is None:
                return ()
            return [[each.space, each.type, each.access] for each in kernel.arguments]
        if not self.text:
            return ()
        if arguments is not None:
            return arguments.get(name, ())
        # An interrupt of pyopencl 2025.1 ends the process.
        return call_uninterrupted(_driver.arguments_of, program, name)

    @cached_property
    def _il_kernels(self) -> Mapping[str, SpirvKernel]:
        """The kernels of SPIR-V by name.

        Raises
        ------
        FormatError
            The SPIR-V is damaged.
        """
        from devmod_readers.spirv import read_kernels, read_module

        try:
            return read_kernels(read_module(self.code))
        except FormatError as error:
            raise FormatError(f"the opencl payload of format 'il' {error}", kind="opencl") from None

    def _build(self, device: OpenCLDevice) -> _Program:
        check_space(device.handle)
        name_processor(device.handle)
        try_linker(device)
        if self.fmt in ("cl", "il"):
            return self._build_portable(device)
        from devmod_opencl._trial import try_binary

        readable = [info for _, info in usable_functions(self._functions)]
        try_binary(device, self.code, readable)
        return _driver.build_binary(device.context, device.handle, self.code), None

    def _build_portable(self, device: OpenCLDevice) -> _Program:
        """Build a source or SPIR-V, or load the cached result."""
        if device.platform in _KEEP_BUILDS:
            return self._compile(device), None
        key = _BINARIES.key(_FORM, device.identity, "\0".join(self.options), self.text or self.code)
        head, _, binary = (_BINARIES.read(key) or b"").partition(b"\n\n")
        if binary:
            try:
                program = _driver.build_binary(device.context, device.handle, binary)
                kernels = (line.split("\0") for line in head.decode().split("\n"))
                return program, {
                    name: list(zip(*[iter(words)] * 3, strict=True)) for name, *words in kernels
                }
            except FormatError:
                pass  # the driver changed without a new version and refuses its old binaries
        program = self._compile(device)
        arguments = {
            name: _driver.arguments_of(program, name) for name in _driver.kernel_names(program)
        }
        binary = _driver.binary_of(program)
        if binary:
            lines = "\n".join(
                "\0".join([name, *chain.from_iterable(each)]) for name, each in arguments.items()
            )
            _BINARIES.write(key, lines.encode() + b"\n\n" + binary)
        return program, arguments

    def _compile(self, device: OpenCLDevice) -> Any:
        if self.fmt == "cl":
            return _driver.build_source(
                device.context, device.handle, self.text, self.options, "the opencl source"
            )
        from devmod_opencl._trial import try_binary

        try_binary(device, self.code, list(self._functions.values()), is_il=True)
        return _driver.build_il(device.context, device.handle, self.code)


# -- Kernels: packing arguments and launching. Calls share kernel objects; each prepared launch has
# its own.


#: In the place of a number that no call has set.
_UNSET = object()
# pyopencl's stubs do not allow all arguments by position.
_enqueue: Callable[..., Any] = cl.enqueue_nd_range_kernel


def _enqueue_for(stream: OpenCLStream) -> Callable[..., Any]:
    """Return pyopencl's function that queues a launch, with barriers for an out-of-order queue."""
    if stream.is_unordered:
        return _enqueue_between_barriers
    return _enqueue


def _enqueue_between_barriers(queue: Any, *arguments: Any) -> Any:
    cl.enqueue_barrier(queue)
    event = _enqueue(queue, *arguments)
    cl.enqueue_barrier(queue)
    return event


class OpenCLKernel(Kernel):
    """A kernel on one device. clSetKernelArg is not thread-safe, so each call and each prepared
    launch has its own kernel object.
    """

    def __init__(self, info: FunctionInfo, programs: OpenCLPrograms, device: OpenCLDevice) -> None:
        self._program = programs.get(device)
        self._device = device
        self._name = info.name
        self._text = programs.text
        handle = self._new()
        count = handle.num_args
        if count != len(info.arg_types):
            raise FormatError(
                f"the opencl kernel {info.name!r} takes {count} arguments, and the payload's fmap has {len(info.arg_types)}",
                kind="opencl",
            )
        params: Sequence[Param] = ()
        if info.interface is not None:
            params = info.interface.params
        kinds = [param.kind for param in params] or list(info.arg_types)
        spaces = programs.arguments(device, info.name)
        # A number in place of a pointer may have its size. The driver would use it as an address
        # and crash. An image, a sampler and a pointer have the same size too.
        for number, (kind, space) in enumerate(zip(kinds, spaces, strict=False)):
            image_type = ""
            if kind == "image":
                image_type = params[number].type
            _check_argument(info, number, kind, image_type, space)

        # Kernel objects that no call is using. Only one thread sets the arguments of one; pop and
        # append of a deque are atomic. A list of one item frees its memory with each pop.
        self._free = deque([handle])
        self._plain: deque[_PlainKernel] = deque()
        self._objects = tuple(number for number, kind in enumerate(kinds) if kind in _OBJECTS)
        self._scalars = tuple(number for number, kind in enumerate(kinds) if kind not in _OBJECTS)
        #: The arguments that are images or samplers.
        self._images = [number for number, kind in enumerate(kinds) if kind in ("image", "sampler")]
        self._image_arguments = _image_arguments(params, spaces)
        self._pointers = _pointers(kinds, spaces)
        group = cl.kernel_work_group_info
        self._max_threads = min(
            device.limits["max_work_group_size"],
            handle.get_work_group_info(group.WORK_GROUP_SIZE, device.handle),
        )
        self._multiple = handle.get_work_group_info(
            group.PREFERRED_WORK_GROUP_SIZE_MULTIPLE, device.handle
        )
        required = tuple(handle.get_work_group_info(group.COMPILE_WORK_GROUP_SIZE, device.handle))
        #: The block that the kernel requires; None if it runs with every block.
        self.required_block = None
        if any(required):
            self.required_block = required

    def _new(self) -> Any:
        try:
            # Older versions of pyopencl call Python from C++ there. An interrupt of that call ends
            # the process.
            return call_uninterrupted(_driver.create_kernel, self._program, self._name)
        except ImportError as error:  # pyopencl imports modules when it creates kernels
            raise self._device.closed_error() from error
        except _driver.Error as error:
            names = _driver.kernel_names(self._program)
            advice = ""
            # The macros of PoCL's headers rename such a kernel.
            if f"_cl_{self._name}" in names:
                advice = ". OpenCL C has a built-in function of that name: rename the kernel"
            raise FormatError(
                f"the built opencl program has no kernel {self._name!r}, which the payload's fmap names; it has: "
                f"{', '.join(names) or 'none'}{advice}{condition_hint(self._text or '', self._name)}",
                kind="opencl",
            ) from error

    def shape(self, launch: LaunchConfig) -> tuple[tuple[int, ...], tuple[int, ...]]:
        size = tuple(map(mul, launch.grid, launch.block))
        problem = self._problem(launch, size)
        if problem:
            raise self._device.invalid_launch(self._name, problem)
        # Unused dimensions slow the driver down.
        dimensions = 1
        if size[2] > 1:
            dimensions = 3
        elif size[1] > 1:
            dimensions = 2
        return size[:dimensions], launch.block[:dimensions]

    def _problem(self, launch: LaunchConfig, size: Sequence[int]) -> str:
        """Return the limit that a launch exceeds, for a message; "" if it exceeds none. `size` has
        the threads of each dimension.
        """
        limits = self._device.limits
        for axis, count in enumerate(launch.block):
            limit = limits.get(f"max_work_item_sizes[{axis}]", 1)
            if count > limit:
                return f"its max_work_item_sizes[{axis}] is {limit}, got block={launch.block}"
        threads = prod(launch.block)
        if threads > self._max_threads:
            name = "CL_KERNEL_WORK_GROUP_SIZE"
            if self._max_threads == limits["max_work_group_size"]:
                name = "max_work_group_size"
            return (
                f"its {name} is {self._max_threads}, and block={launch.block} has {threads} threads"
            )
        if self.required_block not in (None, launch.block):
            return f"the kernel is built for blocks of {self.required_block} threads, got block={launch.block}"
        # Drivers count all threads in one size_t. If it overflows, they run only some of them.
        bits = limits["address_bits"]
        if prod(size) < 1 << bits:
            return ""
        threads_text = f"{prod(size)} threads in all"
        for axis, count in enumerate(size):
            if count >= 1 << bits:
                threads_text = f"{count} threads in {'xyz'[axis]}"
                break
        return f"its address_bits are {bits}, and grid={launch.grid} of block={launch.block} has {threads_text}"

    def preferred_block(self) -> tuple[int, int]:
        most, row = super().preferred_block()
        return min(most, self._max_threads), max(row, self._multiple)

    def check_local(self, sizes: Sequence[int]) -> str:
        limit = self._device.limits["local_mem_size"]
        if sum(sizes) <= limit:
            return ""
        return f"its local_mem_size is {limit}, got devmod.Local arguments of {sum(sizes)} bytes"

    def caller(self, stream: OpenCLStream, shape: Any) -> Callable[[Values], None]:
        code = _call_code(self._objects, self._scalars)
        call = self._function(code, stream, shape, self._free, self._new)
        if self._images:
            return lambda values: call(self._with_handles(values))
        if not self._pointers:
            return call

        def check_and_call(values: Values) -> None:
            self._check_pointers(values)
            call(values)

        return check_and_call

    def check_images(self, images: Mapping[int, Image | Sampler]) -> tuple[int, str] | None:
        from devmod_opencl._image import check_images

        return check_images(images, self._image_arguments)

    def _with_handles(self, values: Values) -> Values:
        """Return the values with pyopencl's objects in place of images and samplers."""
        result = [*values]
        for number in self._images:
            result[number] = result[number].handle
        return result

    def plain_caller(
        self, stream: OpenCLStream, shape: Any, arguments: Sequence[Argument]
    ) -> Callable[..., Any]:
        # The numbers are packed together, and one call of pyopencl sets them all if they are not
        # those of the call before. For an int the struct module takes what `KernelCall` takes.
        formats = [STRUCT_FORMATS[arguments[number].type] for number in self._scalars]
        packer = Struct(f"<{''.join(formats)}")
        no_objects: object = _UNSET
        if len(formats) > 1:
            no_objects = (_UNSET,) * len(formats)
        return self._function(
            _plain_call_code(self._objects, self._scalars),
            stream,
            shape,
            self._plain,
            partial(self._new_plain, packer, formats, no_objects),
            pack=packer.pack,
            NO_OBJECTS=no_objects,
            ConversionError=ConversionError,
        )

    def _function(
        self,
        code: CodeType,
        stream: OpenCLStream,
        shape: Any,
        free: deque[Any],
        new: Callable[[], Any],
        **names: Any,
    ) -> Callable[..., None]:
        """Return the function of a code that queues launches of one shape.

        Its names are globals: Python copies all cells of a closure at each call. It has a copy of
        the code, which Python specializes for one dictionary of globals.
        """
        size, block = shape
        names |= {
            "__builtins__": builtins,  # pyopencl imports a module when it warns
            "queue": stream.queue,
            "size": size,
            "block": block,
            "take": free.pop,
            "give": free.append,
            "new": new,
            "enqueue": _enqueue_for(stream),
            "Error": _driver.Error,
            "explain": self._launch_error,
        }
        return FunctionType(code.replace(), names)

    def _new_plain(
        self, packer: Struct, formats: Sequence[str], no_objects: object
    ) -> _PlainKernel:
        """Return a kernel object with memory for its numbers, which no call has set."""
        try:
            handle = self._free.pop()
        except IndexError:
            handle = self._new()
        set_objects = handle._set_arg_multi
        if len(self._objects) == 1:
            set_objects = handle.set_arg
        if not formats:
            return handle, set_objects
        memory = memoryview(bytearray(packer.size))
        pairs: list[Any] = []
        start = 0
        for number, each in zip(self._scalars, formats, strict=True):
            end = start + calcsize(f"<{each}")
            pairs += (number, memory[start:end])
            start = end
        return [handle, set_objects, no_objects, [b"", tuple(pairs), memory]]

    def prepare(self, stream: OpenCLStream, shape: Any, values: Values) -> Callable[[], object]:
        # A C function without arguments. A functools.partial would pass its arguments on to
        # pyopencl.
        arguments = (
            stream.queue,
            self._with_arguments(values),
            shape[0],
            shape[1],
            None,
            None,
            False,
            False,
        )
        return starmap(_enqueue_for(stream), repeat(arguments)).__next__

    def _launch_error(self, error: Exception) -> LaunchError:
        if _driver.is_memory_error(error):
            return self._device.memory_error(
                0, f"{_driver.code_name(error)} in a launch of the opencl function {self._name!r}"
            )
        return driver_error(
            f"{self._device} refused a launch of the opencl function {self._name!r}", error
        )

    def time(self, stream: OpenCLStream, shape: Any, values: Values) -> float:
        handle = self._with_arguments(values)
        try:
            event = _enqueue_for(stream)(stream.queue, handle, shape[0], shape[1])
            stream.queue.flush()
            wait_interruptibly(lambda: _driver.wait_for_event(event), lambda: is_complete(event))
        except _driver.Error as error:
            raise self._launch_error(error) from error
        try:
            return float(event.profile.end - event.profile.start) * 1e-9
        except _driver.Error as error:
            raise no_time(f"{self._device} gives no time of a launch", error) from error

    def _with_arguments(self, values: Values) -> Any:
        """Return a new kernel object with its arguments."""
        self._check_pointers(values)
        values = self._with_handles(values)
        handle = self._new()
        try:
            pairs: list[Any] = []
            for number in self._objects:
                pairs += (number, values[number])
            handle._set_arg_multi(tuple(pairs))
            for number in self._scalars:
                handle._set_arg_buf(number, values[number])
        except _driver.Error as error:
            raise self._launch_error(error) from error
        return handle

    def _check_pointers(self, values: Values) -> None:
        for number, local in self._pointers:
            if (type(values[number]) is cl.LocalMemory) is not local:
                problem = "a Local, and the kernel takes an array"
                if local:
                    problem = "an array, and the kernel takes shared memory of a block: pass devmod.Local(nbytes)"
                raise ArgumentError(
                    f"the opencl function {self._name!r}: argument {number + 1} is {problem}",
                    kind="opencl",
                    function=self._name,
                    argument=str(number + 1),
                )


#: The text for each address space in a message.
_SPACES = {
    "GLOBAL": "a __global pointer",
    "CONSTANT": "a __constant pointer",
    "LOCAL": "a __local pointer",
    "PRIVATE": "a value",
}


#: The kinds of arguments that are objects of the driver. Without an interface, a pointer is a
#: handle.
_OBJECTS = ("buffer", "local", "handle", "image", "sampler")
_SAMPLER = "sampler_t"
_IMAGE = re.compile(r"\bimage[123]d\w*_t\b")


def _image_type(type_name: str) -> str:
    """Return OpenCL C's type of an image, such as "image2d_t"; "" for other types and for the name
    of a typedef.
    """
    match = _IMAGE.search(type_name)
    if match is None:
        return ""
    return match[0]


def _check_argument(
    info: FunctionInfo, number: int, kind: str, image_type: str, space: Sequence[str]
) -> None:
    """Raise FormatError if an argument cannot be what the driver has: `space` is the address space,
    the type and the access.
    """
    address_space, type_name, access = space
    if _is_compatible(kind, image_type, address_space, type_name, access):
        return
    arg_type = f"{kind} {image_type}".strip()
    if kind == "scalar":
        arg_type = info.arg_types[number]
    if _image_type(type_name) or access:
        takes = "an image"
    elif type_name == _SAMPLER:
        takes = "a sampler"
    else:
        takes = _SPACES[address_space]
    raise FormatError(
        f"the opencl kernel {info.name!r} takes {takes} ({type_name}) as argument {number + 1}, and the payload's fmap has "
        f"{arg_type}",
        kind="opencl",
    )


def _image_arguments(params: Sequence[Param], spaces: Spaces) -> dict[int, tuple[str, str]]:
    """Return OpenCL C's type and the access of each image. The type is "" if the driver has none of
    `spaces`.
    """
    result: dict[int, tuple[str, str]] = {}
    for number, param in enumerate(params):
        if param.kind != "image":
            continue
        if spaces:
            _, type_name, access = spaces[number]
            result[number] = (_image_type(type_name), access)
        else:
            result[number] = ("", param.access or "rw")
    return result


def _pointers(kinds: Sequence[str], spaces: Spaces) -> list[tuple[int, bool]]:
    """Return the pointers of a kernel without an interface, each with whether it is __local. The
    list is empty if the driver has no address spaces.
    """
    if not spaces:
        return []
    numbers = [number for number, kind in enumerate(kinds) if kind == "handle"]
    return [(number, spaces[number][0] == "LOCAL") for number in numbers]


def _is_compatible(kind: str, image_type: str, space: str, type_name: str, access: str) -> bool:
    """Return whether an argument of a kind can be what the driver has: an address space, a type and
    an access.

    An unknown space is compatible. The type may be the name of a typedef.
    """
    if space not in _SPACES:
        return True
    type_of_kernel = _image_type(type_name)
    if access or type_of_kernel:
        return kind == "image" and (
            not image_type or type_of_kernel in ("", f"image{image_type}_t")
        )
    if kind == "image":
        return False
    if type_name == _SAMPLER:
        return kind == "sampler"
    if kind == "handle":  # without an interface: any pointer
        return space != "PRIVATE"
    if kind == "buffer":
        return space in ("GLOBAL", "CONSTANT")
    if kind == "local":
        return space == "LOCAL"
    return space == "PRIVATE"


@lru_cache(256)
def _call_code(objects: tuple[int, ...], scalars: tuple[int, ...]) -> CodeType:
    """Return the code of the function that queues a launch with the values of a kernel, unrolled
    over the arguments: a loop takes three times as long.

    Parameters
    ----------
    objects
        The arguments that are objects of the driver. One call of pyopencl sets them all. Bytes have
        their own, faster setter.
    scalars
        The others.
    """
    setters = [f"    handle._set_arg_buf({each}, values[{each}])" for each in scalars]
    if objects:
        pairs = [f"{number}, values[{number}], " for number in objects]
        setters.insert(0, f"    handle._set_arg_multi(({''.join(pairs)}))")
    return _compiled_code("values", ["handle = item", "try:", *setters])


@lru_cache(256)
def _plain_call_code(objects: tuple[int, ...], scalars: tuple[int, ...]) -> CodeType:
    """Return the code of the function that queues a plain launch. For two arrays and a number it
    is::

        def call(v0, v1, v2):
            try: item = take()
            except IndexError: item = new()
            handle, set_objects, l2, others = item
            try:
                set_objects((0, v0, 1, v1, ))
                if v2 is not l2:
                    try: numbers = pack(v2)
                    except Exception: give(item); raise ConversionError from None
                    if numbers != others[0]:
                        others[0] = numbers
                        item[2] = NO_OBJECTS
                        handle._set_arg_buf(2, numbers)
                    elif (type(v2) is int or type(v2) is float):
                        item[2] = v2
                enqueue(queue, handle, size, block, None, None, False, False)
            except Error as error: raise explain(error) from error
            give(item)

    Most loops give the same objects again, which need not be packed: an int or a float that the
    kernel object has already. Equal numbers may have other bytes: 0.0 and -0.0.

    Parameters
    ----------
    objects, scalars
        The arguments that are arrays, and those that are numbers.
    """
    places = [f"v{number}" for number in range(len(objects) + len(scalars))]
    pairs = [f"{number}, {places[number]}" for number in objects]
    lines = []
    if len(objects) == 1:
        lines = [f"    set_objects({pairs[0]})"]
    elif objects:
        lines = [f"    set_objects(({', '.join(pairs)}))"]
    if not scalars:
        taken = "handle, set_objects = item"
        return _compiled_code(", ".join(places), [taken, "try:", *lines])

    kept = ", ".join([f"l{number}" for number in scalars])
    given = ", ".join([places[number] for number in scalars])
    are_other = " or ".join([f"{places[each]} is not l{each}" for each in scalars])
    are_plain = " and ".join(
        [f"(type({places[each]}) is int or type({places[each]}) is float)" for each in scalars]
    )
    setter = [
        "_, parts, memory = others",
        "memory[:] = numbers",
        "handle._set_arg_buf_multi(parts)",
    ]
    if len(scalars) == 1:
        setter = [f"handle._set_arg_buf({scalars[0]}, numbers)"]
    else:
        kept = f"({kept})"
    lines += [
        f"    if {are_other}:",
        # What the `__index__` of a value raises: `KernelCall` converts the value, or names it.
        f"        try: numbers = pack({given})",
        "        except Exception: give(item); raise ConversionError from None",
        "        if numbers != others[0]:",
        "            others[0] = numbers",
        "            item[2] = NO_OBJECTS",
        *(f"            {each}" for each in setter),
        f"        elif {are_plain}:",
        f"            item[2] = {given}",
    ]
    # What only other numbers need is apart: each name takes time in each call.
    taken = f"handle, set_objects, {kept}, others = item"
    return _compiled_code(", ".join(places), [taken, "try:", *lines])


def _compiled_code(parameters: str, setters: Sequence[str]) -> CodeType:
    """Return the code of a function that takes a kernel object from the pool, sets its arguments
    and queues it.
    """
    lines = [
        f"def call({parameters}):",
        # Atomic: only one thread sets the arguments of one kernel object.
        "try: item = take()",
        "except IndexError: item = new()",
        *setters,
        # With all arguments: nanobind fills in defaults slowly.
        "    enqueue(queue, handle, size, block, None, None, False, False)",
        "except Error as error: raise explain(error) from error",
        "give(item)",
    ]
    space: dict[str, Any] = {}
    exec("\n    ".join(lines), space)  # noqa: S102 - it has no text but the numbers of arguments
    code: CodeType = space["call"].__code__
    return code


#: The classes of buffers. A pool of memory (`pyopencl.tools.MemoryPool`) has one of its own.
_BUFFERS = (cl.Buffer, cl._cl.PooledBuffer)
#: An int: pyopencl's flags are compared slowly.
_READ_ONLY = int(cl.mem_flags.READ_ONLY)


def _plain_memory(value: Any, device: OpenCLDevice, written: bool, stream: object) -> Any:
    # pyopencl's buffers have no weak references, so nothing can be known of one without asking. A
    # buffer has no queue: the call waits, unless the queue is the caller's.
    if type(value) not in _BUFFERS or (stream is None and not device.is_callers_queue):
        raise ConversionError
    try:
        if value.context.int_ptr != device.context_pointer:
            raise ConversionError
        if written and value.flags & _READ_ONLY:
            raise ConversionError
    except _driver.Error:  # it was released
        raise ConversionError from None
    return value


class OpenCLLauncher(BuildLauncher):
    """One function of an OpenCL module."""

    kind = "opencl"
    has_images = True
    has_null = True
    plain_classes = _BUFFERS
    plain_device = staticmethod(device_of)
    plain_memory = staticmethod(_plain_memory)
    no_shared_memory = (
        "in OpenCL the shared memory of a block is an argument; pass devmod.Local(nbytes)"
    )

    @property
    def format(self) -> str:
        fmt: str = self.builds.fmt
        return fmt

    def default_device(self) -> Device:
        # Each device takes a source, and asking takes time at each call.
        if self.builds.text:
            return devices()[0]
        return device_of_call(devices(), self.format)

    def packs_numbers(self, arguments: Sequence[Argument]) -> bool:
        for each in arguments:
            if each.plain_packer is not None:
                continue
            # Without an interface, a pointer may be __local, which the function of `caller` checks.
            if each.kind != "buffer" or each.size or each.accepts_local or each.is_padded:
                return False
        return True

    def kernel(self, device: OpenCLDevice) -> OpenCLKernel:
        return OpenCLKernel(self.info, self.builds, device)

    def local(self, nbytes: int) -> Any:
        return cl.LocalMemory(nbytes)

    def adopt(self, value: object) -> tuple[DeviceArray | Image | Sampler, Stream | None] | None:
        if isinstance(value, _BUFFERS):
            device = device_of(value)
            memory = _buffer_of(value)
            return DeviceArray(
                device, memory, (value.size,), "void", value, read_only=_is_read_only(memory)
            ), None
        if isinstance(value, (cl.Image, cl.Sampler)):
            from devmod_opencl._image import adopt_image, adopt_sampler

            device = device_of(value)
            if isinstance(value, cl.Image):
                return adopt_image(value, device), None
            return adopt_sampler(value, device), None
        if isinstance(value, cl.MemoryObjectHolder):
            raise ConversionError(
                f"is a pyopencl {type(value).__name__}; expected a buffer, an image or a pyopencl.array.Array"
            )
        # By name: importing pyopencl.array for isinstance takes 30 ms.
        if type(value).__module__ == "pyopencl.array" and hasattr(value, "base_data"):
            return _adopt_array(value)
        return None

    def adopt_stream(self, value: object) -> Stream | None:
        if isinstance(value, cl.CommandQueue):
            try:
                return stream_of(value)
            except ConversionError as error:
                raise ArgumentError(f"stream= {error}", kind="opencl", argument="stream") from None
        return None


def _adopt_array(array: Any) -> tuple[DeviceArray, Stream | None]:
    if not array.flags.c_contiguous:
        raise ConversionError("is a strided pyopencl Array; pass array.copy()")
    memory = _buffer_of(array.base_data)
    queue = array.queue
    device = device_of(array)
    if memory is None:  # an empty Array has no memory
        memory = device.allocate(1)
    elif array.offset:
        try:
            memory = memory.get_sub_region(array.offset, max(array.nbytes, 1))
        except _driver.Error as error:
            raise ConversionError(
                f"is a pyopencl Array that begins {array.offset} bytes "
                f"into its buffer, which this device does not support ({_driver.code_name(error)}); pass array.copy()"
            ) from None
    try:
        dtype = dtype_name_of(array.dtype)
    except FormatError as error:
        raise ConversionError(
            f"has elements of a type that devices do not support: {error}"
        ) from None
    if array.events:
        cl.wait_for_events(array.events)
    result = DeviceArray(device, memory, array.shape, dtype, array, read_only=_is_read_only(memory))
    if queue is None:
        return result, None
    return result, stream_of(queue)


def _buffer_of(memory: Any) -> Any:
    """Return the Buffer of a memory object; None without one. That of a pool is in the pool again
    when its own object is deleted.
    """
    if memory is None or isinstance(memory, cl.Buffer):
        return memory
    return cl.Buffer.from_int_ptr(memory.int_ptr, retain=True)


def _is_read_only(memory: Any) -> bool:
    """Return whether kernels cannot write to a buffer.

    A sub-buffer inherits this from its buffer.
    """
    return bool(memory.flags & _READ_ONLY)
