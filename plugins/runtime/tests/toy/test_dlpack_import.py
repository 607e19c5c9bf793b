"""DLPack: arrays of other libraries as host arrays, and arrays of devices for other libraries."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import toy_backend as toy
from each_case import refusal
from support import needs_dlpack_1

import devmod
from devmod._arrays.array import Array
from devmod._arrays.buffer import Pinned
from devmod._arrays.dlpack import Versioned, capsule, host_capsule
from devmod._values.dtypes import parse_dtype
from devmod_runtime._device.device_array import DeviceArray

USED = (
    "has a DLPack capsule that was used before; a capsule can be used once: export the array again"
)


@pytest.fixture
def device(devices: list[toy.ToyDevice]) -> toy.ToyDevice:
    return devices[0]


class Memory(bytearray):
    """Memory that supports weak references."""


class Tensor:
    """A tensor of another library: it has DLPack, and neither a buffer nor ``__array__``."""

    def __init__(
        self, data: bytes, shape: tuple[int, ...], dtype: str, device: tuple[int, int] = (1, 0)
    ) -> None:
        self.memory, self.shape, self.type, self.device = (
            Memory(data),
            shape,
            parse_dtype(dtype),
            device,
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: Any = None,
    ) -> object:
        if self.device != (1, 0):
            pinned = Pinned(self.memory)
            return capsule(
                pinned,
                self.device,
                pinned.address,
                0,
                self.shape,
                self.type,
                0,
                max_version is not None,
            )
        return host_capsule(memoryview(self.memory), self.shape, self.type, max_version, None, copy)


class OldTensor(Tensor):
    """A tensor of PyTorch before it had DLPack 1."""

    def __dlpack__(self) -> object:  # type: ignore[override]
        return super().__dlpack__()


OldTensor.__module__ = "torch"


MODULE = {"double": devmod.FunctionInfo("double", ["handle"], ["blockIdx.x", "threadIdx.x"])}


def double(_: object, memory: Any) -> None:
    toy.floats(memory)[:] *= 2


@pytest.mark.parametrize("kind", [Tensor, OldTensor])
@pytest.mark.parametrize("where", [(1, 0), (3, 0)])  # kDLCUDAHost is pinned memory of the host
def test_a_tensor_is_a_host_array(
    kind: type[Tensor], where: tuple[int, int], device: toy.ToyDevice
) -> None:
    tensor = kind(np.arange(6, dtype="float32").tobytes(), (2, 3), "float32", where)
    array = device.from_numpy(tensor)  # type: ignore[arg-type]
    assert (array.shape, array.dtype, array.numpy().tolist()) == (
        (2, 3),
        "float32",
        [[0, 1, 2], [3, 4, 5]],
    )
    toy.module(MODULE, {"double": double})["double"](tensor, grid=1, block=1)
    array.copy_from(tensor)
    assert array.numpy().tolist() == [[0, 2, 4], [6, 8, 10]]
    device.zeros((2, 3), "float32").copy_to(tensor)
    assert np.frombuffer(tensor.memory, "float32").tolist() == [0] * 6


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "bool", "complex64"])
def test_types_that_numpy_lacks(dtype: str, device: toy.ToyDevice) -> None:
    size = parse_dtype(dtype)[1] // 8
    tensor = Tensor(bytes(range(1, 4 * size + 1)) if dtype != "bool" else b"\1\0\1\1", (4,), dtype)
    array: Any = device.from_numpy(tensor)  # type: ignore[arg-type]
    assert (array.dtype, bytes(array.memory)) == (dtype, bytes(tensor.memory))
    other = Tensor(bytes(4 * size), (4,), dtype)
    array.copy_to(other)
    assert other.memory == tensor.memory
    with pytest.raises(
        devmod.ArgumentError,
        match=r"^copy_from: the source has elements of \w+, and the target of float64",
    ):
        device.zeros(4, "float64").copy_from(tensor)


class Wrapper:
    """An array of which only DLPack is visible; with `old`, only DLPack before version 1."""

    def __init__(self, array: Any, *, old: bool) -> None:
        self.array, self.old = array, old

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> object:
        if self.old and options:
            raise TypeError
        return self.array.__dlpack__(**options)


@pytest.mark.parametrize("old", [True, False])
def test_the_memory_of_numpy_is_writable(old: bool, device: toy.ToyDevice) -> None:
    """NumPy itself takes capsules without a flag as read-only; before 2.2, all of them."""
    if not old and np.lib.NumpyVersion(np.__version__) < "2.1.0":
        pytest.skip(f"NumPy {np.__version__} has DLPack before version 1 alone")
    numbers = np.arange(12, dtype="float32").reshape(3, 4)
    array = device.from_numpy(np.full((3, 2), 7, "float32"))
    array.copy_to(Wrapper(numbers[:, ::2], old=old))
    assert numbers.tolist() == [[7, 1, 7, 3], [7, 5, 7, 7], [7, 9, 7, 11]]
    toy.module(MODULE, {"double": double})["double"](Wrapper(numbers, old=old), grid=1, block=1)
    assert numbers[0].tolist() == [14, 2, 14, 6]


def test_read_only_memory_of_numpy(device: toy.ToyDevice) -> None:
    numbers = np.arange(4, dtype="float32")
    numbers.flags.writeable = False
    is_old = np.lib.NumpyVersion(np.__version__) < "2.1.0"  # it does not export the array
    with pytest.raises(
        devmod.ArgumentError,
        match="Cannot export readonly array" if is_old else r"^copy_to: the target is read-only$",
    ):
        device.zeros(4, "float32").copy_to(Wrapper(numbers, old=False))
    with pytest.raises(devmod.ArgumentError, match="Cannot export readonly array"):
        device.zeros(4, "float32").copy_to(Wrapper(numbers, old=True))


@pytest.mark.parametrize("dtype", ["float32x2", "int4", "uint128"])
def test_elements_that_no_host_array_has(dtype: str, device: toy.ToyDevice) -> None:
    class Odd(Tensor):
        def __dlpack__(self, **_: Any) -> object:
            pinned = Pinned(self.memory)
            return capsule(pinned, (1, 0), pinned.address, 0, self.shape, self.type, 0, True)

    with pytest.raises(
        devmod.ArgumentError,
        match=f"^from_numpy: the array has elements of {dtype}, which no host array can have$",
    ):
        device.from_numpy(Odd(bytes(64), (2,), dtype))  # type: ignore[arg-type]


def test_an_old_capsule_is_read_only(device: toy.ToyDevice) -> None:
    capsule: Any = Tensor(bytes(8), (2,), "float32").__dlpack__()
    with pytest.raises(devmod.ArgumentError, match=r"^copy_to: the target is read-only$"):
        device.zeros(2, "float32").copy_to(capsule)


def test_the_memory_is_released_after_the_copy(device: toy.ToyDevice) -> None:
    tensor = Tensor(bytes(8), (4,), "bfloat16")
    memory = weakref.ref(tensor.memory)
    device.from_numpy(tensor)  # type: ignore[arg-type]
    del tensor
    gc.collect()
    host_capsule(
        memoryview(b""), (0,), (0, 8, 1), None, None, None
    )  # frees what unused capsules hold
    assert memory() is None


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_is_used_once(version: tuple[int, int] | None, device: toy.ToyDevice) -> None:
    tensor = Tensor(np.arange(4, dtype="float32").tobytes(), (4,), "float32")
    capsule: Any = tensor.__dlpack__(max_version=version)
    assert device.from_numpy(capsule).numpy().tolist() == [0, 1, 2, 3]
    target = device.zeros(4, "float32")
    function = toy.module(MODULE, {"double": double})["double"]
    for call, text in (
        (lambda: device.from_numpy(capsule), f"from_numpy: the array {USED}"),
        (lambda: target.copy_from(capsule), f"copy_from: the source {USED}"),
        (
            lambda: function(capsule, grid=1, block=1),
            f"the toy function 'double': argument 1 {USED}",
        ),
    ):
        assert refusal(devmod.ArgumentError, call) == text
    assert device.from_numpy(tensor).numpy().tolist() == [0, 1, 2, 3]  # type: ignore[arg-type]


class Repeating(Tensor):
    """An exporter that returns one capsule again."""

    capsule: object = None

    def __dlpack__(self, **options: Any) -> object:
        self.capsule = self.capsule or super().__dlpack__(**options)
        return self.capsule


class Foreign(Tensor):
    def __dlpack__(self, **_: Any) -> object:
        new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(("PyCapsule_New", ctypes.pythonapi))(1, b"other", None)


class Later(Tensor):
    """A tensor of a library with DLPack 2."""

    def __dlpack__(self, **options: Any) -> object:
        capsule = super().__dlpack__(**{**options, "max_version": (1, 0)})
        _pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
            ("PyCapsule_GetPointer", ctypes.pythonapi)
        )
        Versioned.from_address(_pointer(capsule, b"dltensor_versioned")).major = 2
        return capsule


class Invalid(Tensor):
    """A tensor whose fields NumPy cannot have."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(bytes(8), (2,), "float32")
        self.fields = fields

    def __dlpack__(self, **options: Any) -> object:
        capsule = super().__dlpack__(**{**options, "max_version": (1, 0)})
        _pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
            ("PyCapsule_GetPointer", ctypes.pythonapi)
        )
        structure = Versioned.from_address(_pointer(capsule, b"dltensor_versioned")).tensor
        for name, value in self.fields.items():
            setattr(structure, name, value)
        return capsule


class NoCapsule(Tensor):
    def __dlpack__(self, **_: Any) -> object:
        return 5


class Refusing(Tensor):
    def __dlpack__(self, **_: Any) -> object:
        raise BufferError("use tensor.detach()")


def repeated() -> Tensor:
    tensor = Repeating(bytes(8), (2,), "float32")
    toy.DEVICES[0].from_numpy(tensor)  # type: ignore[arg-type]
    return tensor


ELSEWHERE = (
    "is an array of shape (2,) on {} device 0, whose memory this backend cannot use; copy it to the host first: tensor.cpu() in PyTorch, "
    "array.get() in CuPy, jax.device_get(array) in JAX"
)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (repeated, USED),
        (lambda: NoCapsule(bytes(8), (2,), "float32"), "exports int by DLPack, expected a capsule"),
        (
            lambda: Invalid(ndim=-1),
            "is an array of shape (2,) that its library does not export by DLPack: Array length must be >= 0, not -1",
        ),
        (
            lambda: Invalid(byte_offset=2**64 - 1),
            "is an array of shape (2,) that its library does not export by DLPack: Python int too large to convert to C unsigned long",
        ),
        (
            lambda: Foreign(bytes(8), (2,), "float32"),
            "exports a capsule named 'other', expected 'dltensor' or 'dltensor_versioned'",
        ),
        (
            lambda: Later(bytes(8), (2,), "float32"),
            "exports DLPack 2.0; this devmod reads version 1 and older",
        ),
        (
            lambda: Refusing(bytes(8), (2,), "float32"),
            "is an array of shape (2,) that its library does not export by DLPack: use tensor.detach()",
        ),
        (lambda: Tensor(bytes(8), (2,), "float32", (2, 0)), ELSEWHERE.format("CUDA")),
        (lambda: Tensor(bytes(8), (2,), "float32", (8, 0)), ELSEWHERE.format("Metal")),
        (lambda: Tensor(bytes(8), (2,), "float32", (99, 0)), ELSEWHERE.format("DLPack type 99")),
    ],
)
def test_tensors_that_are_refused(
    make: Callable[[], Any], text: str, device: toy.ToyDevice
) -> None:
    assert (
        refusal(
            devmod.ArgumentError,
            toy.module(MODULE, {"double": double})["double"],
            make(),
            grid=1,
            block=1,
        )
        == f"the toy function 'double': argument 1 {text}"
    )
    assert device.default_stream.queued == []


def test_the_arrays_of_jax(device: toy.ToyDevice) -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    numbers = jax.numpy.arange(6, dtype="float32").reshape(2, 3)
    array: Any = device.from_numpy(numbers)
    assert array.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    rounded: Any = device.from_numpy(numbers.astype("bfloat16"))
    assert (rounded.dtype, rounded.nbytes) == ("bfloat16", 12)
    array.copy_from(numbers * 2)
    assert array.numpy().sum() == 30
    with pytest.raises(devmod.ArgumentError, match="the target is read-only"):
        array.copy_to(numbers)
    assert jax.numpy.asarray(array.numpy()).tolist() == array.numpy().tolist()


def test_the_tensors_of_pytorch(device: toy.ToyDevice) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    for dtype in ("float32", "bfloat16", "int64", "bool"):
        tensor = torch.ones(6, dtype=getattr(torch, dtype)).reshape(2, 3)
        array: Any = device.from_numpy(tensor)
        assert (array.dtype, array.shape) == (dtype, (2, 3))
        array.copy_to(other := torch.zeros_like(tensor))
        assert torch.equal(other, tensor)
    with pytest.raises(devmod.ArgumentError, match="detach"):
        device.from_numpy(torch.ones(2, requires_grad=True))


# -- arrays of devices


class PointerDevice(toy.ToyDevice):
    """A device whose pointers other libraries understand: those of CUDA."""

    dlpack_type = 2
    waited = 0

    def pointer(self, memory: Any) -> tuple[int, int]:
        return Pinned(memory).address, 0

    def synchronize(self) -> None:
        self.waited += 1
        super().synchronize()


def test_libraries_of_cuda_share_an_array() -> None:
    device = PointerDevice(0)
    array: Any = device.from_numpy(np.arange(8, dtype="float32"))
    view = array[4:].reshape(2, 2)
    waited = device.waited
    interface = view.__cuda_array_interface__
    address = Pinned(array.memory).address + 16
    assert interface == {
        "shape": (2, 2),
        "typestr": "<f4",
        "data": (address, False),
        "strides": None,
        "stream": None,
        "version": 3,
    }
    assert device.waited == waited + 1
    assert device.zeros((2,), "float32x4").__cuda_array_interface__["shape"] == (2, 4)
    assert device.zeros((0, 3), "float32").__cuda_array_interface__["data"] == (0, False)
    assert (
        DeviceArray(device, bytearray(4), (1,), "int32", read_only=True).__cuda_array_interface__[
            "data"
        ][1]
        is True
    )


@needs_dlpack_1
@pytest.mark.parametrize("version", [None, (1, 0)])
def test_dlpack_of_a_device_has_its_pointer(version: tuple[int, int] | None) -> None:
    device = PointerDevice(1)
    array: Any = device.from_numpy(np.arange(8, dtype="float32"))[4:]
    waited = device.waited
    for wanted in (None, (2, 1)):
        device.waited = waited
        capsule: Any = array.__dlpack__(max_version=version, dl_device=wanted, stream=-1)
        assert device.waited == waited + 1
        name = b"dltensor_versioned" if version else b"dltensor"
        get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
            ("PyCapsule_GetPointer", ctypes.pythonapi)
        )
        from devmod._arrays.dlpack import Managed, Versioned

        tensor = (Versioned if version else Managed).from_address(get(capsule, name)).tensor
        assert (tensor.data, tensor.device_type, tensor.device_id, tensor.ndim) == (
            Pinned(array.memory).address,
            2,
            1,
            1,
        )
    assert np.from_dlpack(array, device="cpu").tolist() == [4, 5, 6, 7]
    for options in ({"copy": True}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError, match=r"or call .numpy\(\)$"):
            array.__dlpack__(**options)
    fixed = DeviceArray(device, bytearray(4), (1,), "int32", read_only=True)
    with pytest.raises(
        BufferError,
        match="read-only, which DLPack before version 1 cannot express: pass max_version",
    ):
        fixed.__dlpack__()


def test_other_arrays_have_no_cuda_array_interface(device: toy.ToyDevice) -> None:
    arrays: list[Array] = [device.zeros(4, "float32"), PointerDevice(0).zeros(4, "bfloat16")]
    assert [hasattr(each, "__cuda_array_interface__") for each in arrays] == [False, False]
