"""What TVM calls: the modules, the kernels and the memory of the kinds that devmod runs.

A pointer of TVM is a handle: the key of an array of bytes. No handle is used twice, and none is an
address, so a pointer of another owner, or of freed memory, is an error.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import prod
from operator import itemgetter
from typing import Any

import tvm_ffi

import devmod
from devmod.backend import RLock, walk
from devmod.errors import ArgumentError, DevmodError, NotRegisteredError, list_names, pip_install
from devmod.interop import tvm as interop
from devmod_tvm._kinds import FILE, registered

#: The array of bytes of each handle, and the stream of each handle of a stream.
_arrays: dict[int | None, Any] = {}
_streams: dict[int, devmod.Stream] = {}
# Without it, Ctrl-C in a callback is a RuntimeError without a text.
tvm_ffi.register_error("KeyboardInterrupt", KeyboardInterrupt)
#: No processor has such addresses. A handle and the offsets in its array are no other array's.
_next_handle = 1 << 56
_lock = RLock()
_make_module, _make_tensor, _offset = (
    tvm_ffi.get_global_func(f"devmod.tvm.{name}") for name in ("module", "tensor", "offset")
)
_view = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)(
    ("PyMemoryView_FromMemory", ctypes.pythonapi)
)
_READ = 0x100
_WRITE = 0x200
#: The properties of TVM's module: its bytes can be saved, and its functions called.
_MASK = 0b011
#: TVM's names of modules that have another name than their kind.
_MODULE_KINDS = {"rocm": "hip"}


# -- Memory


def tensor(array: devmod.Array) -> Any:
    """Return a tensor of TVM over an array of devmod, without a copy. The tensor keeps the array
    alive.

    Parameters
    ----------
    array
        An array in the memory of a device that TVM uses through devmod.

    Raises
    ------
    ArgumentError
        The array is in the memory of the host, or on a device of another kind.
    """
    device: Any = getattr(array, "device", None)
    if not isinstance(array, devmod.Array) or device is None or device.kind not in registered:
        raise ArgumentError(
            f"tensor: expected an array of devmod on a device of {list_names(registered)}, got {array!r}; "
            "tvm.runtime.tensor(array, device) copies an array of the host",
            argument="array",
        )
    handle = _handle_of(array.viewed((array.nbytes,), "uint8"))  # type: ignore[attr-defined]
    return _make_tensor(
        handle, array.shape, tvm_ffi.dtype(array.dtype), tvm_ffi.device(device.kind, device.index)
    )


def array(tensor: Any) -> devmod.Array:
    """Return an array of devmod over a tensor of TVM, without a copy. The array keeps the tensor
    alive.

    Parameters
    ----------
    tensor
        A contiguous tensor of TVM on a device that TVM uses through devmod.

    Raises
    ------
    ArgumentError
        It is no such tensor.
    """
    if not isinstance(tensor, tvm_ffi.Tensor):
        raise ArgumentError(
            f"array: expected a tensor of TVM, got {type(tensor).__name__}", argument="tensor"
        )
    result = _tensor_bytes(tensor, "array: the tensor").viewed(
        tuple(tensor.shape), str(tensor.dtype)
    )
    result.owner = tensor
    return result  # type: ignore[no-any-return]


def _new_handle(nbytes: int) -> int:
    global _next_handle
    with _lock:
        handle = _next_handle
        _next_handle += (nbytes | 0xFFF) + 1
    return handle


def _handle_of(array: Any) -> int:
    handle = _new_handle(array.nbytes)
    _arrays[handle] = array
    return handle


def _part(handle: int | None, offset: int, nbytes: int, subject: str) -> Any:
    """Return bytes of the array of a handle. `subject` begins the error's sentence."""
    found = _arrays.get(handle or 0)
    if found is None:
        raise ArgumentError(
            f"{subject} is {hex(handle or 0)}, which is no memory that devmod has for TVM: it is freed, or another library's. Allocate it "
            "with TVM on this device, or take devmod_tvm.tensor(array)"
        )
    if nbytes == found.nbytes:
        return found
    return found[offset : offset + nbytes]


def _tensor_bytes(tensor: Any, subject: str) -> Any:
    if not tensor.is_contiguous():
        raise ArgumentError(f"{subject} is not contiguous; copy it")
    offset = _offset(tensor)
    dtype = tensor.dtype
    return _part(
        tensor.data_ptr() - offset,
        offset,
        (prod(tensor.shape) * dtype.bits * dtype.lanes + 7) // 8,
        subject,
    )


def _missing(kind: str, error: NotRegisteredError) -> NotRegisteredError:
    """Return the error of a kind without a runtime, with the extra of this wheel that installs
    it.
    """
    return NotRegisteredError(
        f"{error}\nTogether with devmod-tvm: {pip_install(f'devmod-tvm[{kind}]')}", kind=kind
    )


class _Devices:
    """The devices of one kind. TVM calls the public methods: most have the number of the device
    first.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def _device(self, index: int) -> Any:
        try:
            return devmod.device(self.kind, index)
        except NotRegisteredError as error:
            raise _missing(self.kind, error) from None

    def attribute(self, index: int, number: int) -> Any:
        """Return an attribute by its number in TVM's `DeviceAttrKind`; None for one that devmod
        does not know.
        """
        if number == 0:
            with suppress(DevmodError):
                return int(bool(self._device(index)))
            return 0
        device = self._device(index)
        names = device.capabilities.limits or {}

        def limit(name: str) -> int | None:
            return device.limits.get(names.get(name, ""))  # type: ignore[no-any-return]

        def block() -> str | None:
            dimensions = [limit(f"block_{axis}") for axis in "xyz"]
            if None in dimensions:
                return None
            return json.dumps(dimensions)

        values: dict[int, Callable[[], Any]] = {
            1: lambda: limit("block"),
            2: lambda: max(device.subgroup_sizes, default=1),
            3: lambda: limit("shared_memory"),
            4: lambda: device.arch or None,
            5: lambda: device.name,
            7: lambda: device.limits.get("max_compute_units"),
            8: block,
            10: lambda: device.arch or None,
            12: lambda: device.driver_version or None,
            14: lambda: device.memory or None,
            15: device.free_memory,
        }
        if number not in values:
            return None
        return values[number]()

    def allocate(self, index: int, nbytes: int) -> int:
        """Return the handle of new memory."""
        return _handle_of(self._device(index).empty((nbytes or 1,), "uint8"))

    def scope(self, index: int, name: str) -> None:
        """Raise the error of memory that is no plain buffer."""
        raise ArgumentError(
            f"devmod-tvm allocates no memory of the scope {name!r} on {self.kind}:{index}; expected 'global'. Compile without textures",
            kind=self.kind,
        )

    def free(self, handle: int) -> None:
        """Free memory, in any order."""
        _arrays.pop(handle, None)

    def write(
        self, source: int, start: int, target: int, offset: int, nbytes: int, stream: int
    ) -> None:
        """Copy from the host, and wait."""
        if nbytes:
            part = _part(target, offset, nbytes, "the target of a copy")
            part.copy_from(_view(source + start, nbytes, _READ), stream=_streams.get(stream))

    def read(
        self, source: int, start: int, target: int, offset: int, nbytes: int, stream: int
    ) -> None:
        """Copy to the host, and wait."""
        if nbytes:
            part = _part(source, start, nbytes, "the source of a copy")
            self._order(part.device, stream)
            part.copy_to(_view(target + offset, nbytes, _WRITE), stream=_streams.get(stream))

    def copy(
        self, source: int, start: int, target: int, offset: int, nbytes: int, stream: int
    ) -> None:
        """Copy between the devices of the kind."""
        if nbytes:
            part = _part(target, offset, nbytes, "the target of a copy")
            taken = _part(source, start, nbytes, "the source of a copy")
            self._order(part.device, stream)
            part.copy_from(taken, stream=_streams.get(stream), wait=bool(_streams))

    def _order(self, device: Any, stream: int) -> None:
        """Wait for all streams before a copy in no stream, as in CUDA. A program without streams
        has one queue.
        """
        if _streams and not stream:
            device.synchronize()

    def stream(self, index: int) -> int:
        """Return the handle of a new stream."""
        handle = _new_handle(1)
        _streams[handle] = self._device(index).stream()
        return handle

    def free_stream(self, handle: int) -> None:
        """Free a stream. Its work goes on."""
        _streams.pop(handle, None)

    def synchronize(self, index: int, stream: int) -> None:
        """Wait for a stream, or for all."""
        (_streams.get(stream) or self._device(index)).synchronize()

    def order(self, index: int, source: int, target: int) -> None:
        """Delay the work of one stream until another has done its own."""
        default = self._device(index).default_stream
        _streams.get(target, default).wait(_streams.get(source, default).record())


_devices: dict[str, _Devices] = {}


def call(kind: str, name: str, *args: Any) -> Any:
    """Call a method of the devices of a kind, for TVM's `DeviceAPI`."""
    devices = _devices.get(kind) or _devices.setdefault(kind, _Devices(kind))
    return getattr(devices, name)(*args)


# -- Modules


def load(kind: str, name: str, data: bytes) -> Any:
    """Return TVM's module of the bytes of one, for `ffi.Module.load_from_bytes.<name>`."""
    data = bytes(data)
    stored = interop.load_module_bytes(name, data)
    try:
        real = devmod.load_from_bytes(kind, stored.save_to_bytes())
    except NotRegisteredError as error:
        raise _missing(kind, error) from None
    # The wheel may have been installed since TVM's import, which registers it for an installed one.
    tvm_ffi.register_global_func(f"ffi.Module.create.{kind}", partial(create, kind), override=True)
    return _module(_MODULE_KINDS.get(name, name), real, lambda: data)


def create(
    kind: str, code: Any, fmt: str, functions: Mapping[str, Any], source: Mapping[str, Any]
) -> Any:
    """Return TVM's module of what its compiler wrote, for `ffi.Module.create.<kind>`."""
    infos = {}
    for name, each in functions.items():
        infos[str(name)] = devmod.FunctionInfo(
            str(each.name),
            [*map(str, each.arg_types)],
            [*map(str, each.launch_param_tags)],
            [*map(int, each.arg_extra_tags)],
        )

    shaders: bytes | dict[str, bytes]
    if hasattr(code, "items"):
        shaders = {str(name): bytes(each) for name, each in code.items()}
    else:
        shaders = bytes(code)

    texts = {}
    for key, text in source.items():
        if not isinstance(text, bytes):
            text = str(text)
        texts[str(key)] = text

    real = devmod.create(kind, shaders, str(fmt), infos, texts)
    return _module(_MODULE_KINDS.get(kind, kind), real, lambda: interop.dump_module_bytes(real))


def load_file(path: str, *_: str) -> Any:
    """Return TVM's module of a ``.devmod`` file. Each call of a function uses the candidate that
    fits the device of its arrays.
    """
    return _file(devmod.load(str(path)))


def load_file_bytes(data: bytes) -> Any:
    """Return TVM's module of the bytes of a ``.devmod`` file, such as one that a library of TVM
    imports.
    """
    return _file(devmod.loads(bytes(data)))


def _file(root: devmod.Module) -> Any:
    return _module(FILE, root, lambda: devmod.dumps(root))


def _module(kind: str, module: devmod.Module, save: Callable[[], bytes]) -> Any:
    functions: dict[str, Any] = {}

    def function(name: str) -> Any:
        if name not in functions:
            for owner in walk(module):
                if name in owner.functions:
                    functions.setdefault(name, tvm_ffi.convert(_Kernel(owner, name).call))
                    break
        return functions.get(name)

    def serve(request: str, *args: str) -> Any:
        if request == "function":
            return function(*args)
        if request == "save":
            return save()
        return module.inspect_source(*args)

    return _make_module(kind, _MASK, tvm_ffi.convert(serve))


class _Kernel:
    """A kernel as TVM calls it: pointers and numbers, then the launch values of its tags.

    The first call on a device builds the kernel for it.
    """

    def __init__(self, module: devmod.Module, name: str) -> None:
        info = module.functions[name]
        self._module = module
        self._name = name
        self._count = len(info.arg_types)
        self._pointers = [number for number, each in enumerate(info.arg_types) if each == "handle"]
        #: The element types that kernels of devmod have. Those of TVM have none.
        self._types = {}
        if info.interface is not None:
            for number, param in enumerate(info.interface.params):
                if param.kind == "buffer" and param.type:
                    self._types[number] = param.type
        scopes = ("blockIdx.", "threadIdx.")
        tags = [each for each in info.launch_param_tags if each.startswith(scopes)]
        self._grid = _values("blockIdx", tags, self._count)
        self._block = _values("threadIdx", tags, self._count)
        #: The number of arguments of a call whose launch values are a grid and a block alone; -1 if
        #: there is none.
        self._plain = -1
        if self._grid and self._block:
            self._plain = self._count + len(tags)
        self._functions: dict[Any, Any] = {}

    def call(self, *args: Any) -> Any:
        """Launch the kernel."""
        values = [*args[: self._count]]
        arrays = _arrays
        if len(values) < self._count:
            text = f"the {self._module.kind} function {self._name!r} takes {self._count} arguments and its launch values, got {len(args)}"
            raise ArgumentError(text, kind=self._module.kind)
        for number in self._pointers:
            value = values[number]
            found = None
            if type(value) is ctypes.c_void_p:
                found = arrays.get(value.value)
            elif isinstance(value, tvm_ffi.Tensor) and value.is_contiguous():
                # A tensor at the begin of its array has its handle.
                found = arrays.get(value.data_ptr())
            if found is None:
                found = self._array(number, value)
            values[number] = found
        if self._pointers:
            device = values[self._pointers[0]].device
        else:
            device = devmod.device(self._module.kind)
        function = self._functions.get(device)
        if function is None:
            function = self._functions[device] = self._module.get_function(self._name).on(device)
        for number, dtype in self._types.items():
            values[number] = _typed(values[number], dtype)
        stream = None
        if _streams:
            raw = tvm_ffi.get_raw_stream(tvm_ffi.device(device.kind, device.index))
            stream = _streams.get(raw)
        if len(args) == self._plain:
            return function(*values, grid=self._grid(args), block=self._block(args), stream=stream)  # type: ignore[misc]
        return function(*values, *args[self._count :], stream=stream)

    def _array(self, number: int, value: Any) -> Any:
        """Return the array of an argument that is not the handle of memory: a tensor, or an
        error.
        """
        subject = f"the {self._module.kind} function {self._name!r}: argument {number + 1}"
        if isinstance(value, tvm_ffi.Tensor):
            return _tensor_bytes(value, subject)
        if value is None or isinstance(value, ctypes.c_void_p):
            return _part(getattr(value, "value", 0), 0, 0, subject)
        raise ArgumentError(
            f"{subject} is {value!r}; expected a tensor or a pointer", kind=self._module.kind
        )


def _values(scope: str, tags: Sequence[str], count: int) -> Callable[[Sequence[Any]], Any] | None:
    """Return what takes the launch values of a scope from the arguments, x first; None if they skip
    a dimension.
    """
    places = []
    for axis in "xyz":
        tag = f"{scope}.{axis}"
        if tag not in tags:
            break
        places.append(count + tags.index(tag))
    in_scope = [tag for tag in tags if tag.startswith(f"{scope}.")]
    if not places or len(places) != len(in_scope):
        return None
    return itemgetter(*places)


def _typed(array: Any, dtype: str) -> Any:
    """Return the bytes of an array as elements of a type."""
    nbytes = tvm_ffi.dtype(dtype).itemsize
    return array.viewed((array.nbytes // nbytes,), dtype)
