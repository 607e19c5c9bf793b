"""Addresses: GLSL's `buffer_reference` in push constants and uniform blocks is an argument that
takes a device array.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from each_case import refusal
from vulkan_kernels import TWICE, blocked, compiled, fresh, kernel

import devmod
from devmod import Block, FunctionInfo, Interface, Param

HEAD = """
#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 4) in;
layout(buffer_reference, std430) buffer Data { float x[]; };
layout(buffer_reference, std430) readonly buffer Source { float x[]; };
"""
#: It adds `a` and the sources to `data`.
ADD = (
    HEAD
    + """
struct More { Source b; float scale; };
layout(push_constant) uniform Push { Data data; Source a; uint n; More more; Source last[2]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < n) data.x[i] += a.x[i] + more.scale * more.b.x[i] + last[0].x[i] + last[1].x[i];
}
"""
)
#: Its uniform block has scalars alone, which are arguments.
UNIFORM = (
    HEAD
    + """
layout(binding = 0) uniform Params { Source a; uint n; };
layout(binding = 1) buffer Y { float y[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) y[i] += a.x[i]; }
"""
)
#: Its uniform block has an array, so it is one argument.
STRUCT = UNIFORM.replace("uint n; };", "uint n; float w[2]; };")
NODES = """
#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 1) in;
layout(buffer_reference) buffer Node;
layout(buffer_reference, std430) buffer Node { Node next; float value; };
layout(push_constant) uniform Push { Node head; uint n; };
layout(binding = 0) buffer Y { float y[]; };
void main() { Node node = head; for (uint i = 0; i < n; i++) { y[i] = node.value; node = node.next; } }
"""
#: The same, with the address as a number: SwiftShader's compiler crashes on a variable that is an
#: address.
WORDS = NODES.replace("void main() { Node node = head;", "void main() { uvec2 node = uvec2(head);")
WORDS = WORDS.replace(
    "node.value; node = node.next", "Node(node).value; node = uvec2(Node(node).next)"
)
WORDS = WORDS.replace(
    ": require", ": require\n#extension GL_EXT_buffer_reference_uvec2 : require", 1
)


message = partial(refusal, devmod.ArgumentError)


def arrays(device: Any, *values: float) -> list[Any]:
    return [device.from_numpy(np.full(8, value, "float32")) for value in values]


@pytest.mark.row("R12")
def test_the_interface_has_addresses() -> None:
    info = compiled(ADD, "k").functions["k"]
    assert repr(info) == (
        "<FunctionInfo main(data: handle rw, a: handle r, n: uint32, more: {b: handle, scale: float32}, last: handle[2]) record Push "
        "block 4×1×1>"
    )
    assert info.arg_types == ("uint64", "uint64", "uint32", "uint8x16", "uint8x16")
    assert info.interface is not None
    assert info.interface.params[1] == Param("a", "scalar", "handle", "r", (0, 8))
    assert info.interface.params[1].dtype == np.dtype("uint64")
    (only, _) = compiled(STRUCT, "k").functions["k"].interface.params  # type: ignore[union-attr]
    assert (only.kind, only.members[0].type) == ("uniform", "handle")
    # A pointer inside of a buffer is a number of the user's.
    node = (
        HEAD
        + "struct Node { Data at; uint n; };\nlayout(binding = 0) buffer X { Node x[]; };\nvoid main() { x[0].at.x[0] = 1.0; }"
    )
    (buffer,) = compiled(node, "k").functions["k"].interface.params  # type: ignore[union-attr]
    assert [member.type for member in buffer.members] == ["uint64", "uint32"]


@pytest.mark.row("R18")
def test_arrays_ints_structs_and_records(device: Any) -> None:
    f = kernel(ADD)
    data, a, b, c, d = arrays(device, 0, 1, 2, 3, 4)
    calls: list[Callable[[], object]] = [
        lambda: f(data, a, 8, {"b": b, "scale": 0.5}, [c, d], threads=8),
        lambda: f(data, a, 8, {"b": b, "scale": 0.5}, [c, d], threads=8),
        lambda: f(
            data=data, a=a.address, n=8, more=(b.address, 0.5), last=[c.address, d], threads=8
        ),
        lambda: f(data.address, np.uint64(a.address), 8, {"b": b, "scale": 0.5}, [c, d], threads=8),
        lambda: f(
            Push={
                "data": data,
                "a": a,
                "n": 8,
                "more": {"b": b, "scale": 0.5},
                "last": (c, d.address),
            },
            threads=8,
        ),
        f.bind(data, a, 8, {"b": b, "scale": 0.5}, [c, d], threads=8),
        f.bind(
            Push={"data": data, "a": a, "n": 8, "more": {"b": b, "scale": 0.5}, "last": [c, d]},
            threads=8,
        ),
    ]
    for number, call in enumerate(calls, 1):
        call()
        assert data.numpy().tolist() == [9 * number] * 8
    dtype = f.info.interface.params[3].dtype  # type: ignore[union-attr]
    f(data, a, 8, np.array((b.address, 0.5), dtype)[()], [c, d], threads=8)
    assert data.numpy()[0] == 9 * 8


@pytest.mark.row("R18")
def test_uniform_blocks(device: Any) -> None:
    (a,) = arrays(device, 3)
    for host in (False, True):
        y: Any = np.ones(8, "float32")
        y = y if host else device.from_numpy(y)
        for _ in range(2):
            kernel(UNIFORM)(a=a, n=8, y=y, threads=8)
            kernel(UNIFORM)(Params={"a": a, "n": 8}, y=y, threads=8)
            kernel(STRUCT)({"a": a, "n": 8, "w": [0, 0]}, y, threads=8)
        assert (y if host else y.numpy()).tolist() == [19] * 8


def test_views_have_the_address_of_their_start(device: Any) -> None:
    f = kernel(UNIFORM)
    align = device.limits["view_alignment"]
    step = align // 4
    a = device.from_numpy(np.arange(4 * step, dtype="float32"))
    y = device.zeros(4, "float32")
    assert a[step:].address == a.address + align
    assert a[1:].address == a.address + 4
    f(a[step:], 4, y, threads=4)
    f(a[step:][step:], 4, y, threads=4)
    assert y.numpy().tolist() == [3 * step + 2 * number for number in range(4)]
    assert message(f, a[1:], 4, y, threads=4) == (
        f"the vulkan function 'k': argument 1 'a' is a view that begins 4 bytes into its memory, and {device} takes arguments that begin at "
        f"a multiple of {align} bytes (view_alignment); copy it: array = device.empty(view.shape, view.dtype); array.copy_from(view)"
    )


def test_pointers_in_a_buffer_are_addresses_of_arrays(device: Any) -> None:
    dtype = np.dtype([("next", "u8"), ("value", "f4"), ("", "f4")])
    nodes: list[Any] = []
    for value in (3, 2, 1):
        content = np.array([(nodes[-1].address if nodes else 0, value, 0)], dtype)
        nodes.append(device.from_numpy(content.view("uint8")))
    y = device.zeros(3, "float32")
    if device.name.startswith("SwiftShader"):
        assert refusal(devmod.DeviceNotFoundError, kernel, NODES) == (
            "the SPIR-V of the vulkan function 'k' has a variable or a choice of addresses, and SwiftShader's compiler crashes on them. Store "
            "an address as a uvec2 (GL_EXT_buffer_reference_uvec2), or use another device"
        )
    else:
        kernel(NODES)(y, nodes[-1], 3, threads=1)
        assert y.numpy().tolist() == [1, 2, 3]
    kernel(WORDS)(y, nodes[-1], 2, threads=1)
    assert y.numpy().tolist()[:2] == [1, 2]


def test_what_is_not_an_address(device: Any) -> None:
    f = kernel(ADD)
    data, a, b = arrays(device, 0, 1, 2)
    host = np.ones(8, "float32")
    start, more, last = "the vulkan function 'k': argument ", {"b": b, "scale": 1}, [a, a]
    expected = ", and the kernel takes the address of a device array"
    assert message(f, data, host, 8, more, last, threads=8) == (
        f"{start}2 'a' is an array of shape (8,){expected}; pass device.from_numpy(array)"
    )
    assert (
        message(f.bind, data, bytes(32), 8, more, last, threads=8)
        == f"{start}2 'a' is a bytes{expected}; pass device.from_numpy(array)"
    )
    assert message(f, data, a, 8, {"b": host, "scale": 1}, last, threads=8) == (
        f"{start}4 'more': member 'more.b': is an array of shape (8,){expected}; pass device.from_numpy(array)"
    )
    assert message(f, data, None, 8, more, last, threads=8) == f"{start}2 'a' is None{expected}"
    assert message(f, data, 1.5, 8, more, last, threads=8) == f"{start}2 'a' is 1.5{expected}"
    assert (
        message(f, data, -1, 8, more, last, threads=8)
        == f"{start}2 'a' is -1, and an address is from 0 to 2**64 - 1"
    )
    assert message(f, data, a, 8, more, [a, 1 << 64], threads=8) == (
        f"{start}5 'last': member 'last[1]': is {1 << 64}, and an address is from 0 to 2**64 - 1"
    )
    assert message(
        f, Push={"data": data, "a": a, "n": 8, "more": more, "last": [a, host]}, threads=8
    ) == (
        f"the vulkan function 'k' got an invalid record Push=: member 'Push.last[1]': is an array of shape (8,){expected}; "
        "pass device.from_numpy(array)"
    )
    data.read_only = a.read_only = True
    assert message(f, data, a, 8, more, [b, b], threads=8) == (
        f"{start}1 'data' is an array of shape (8,) that is read-only, and the kernel may write to it; pass an array that kernels may "
        "write to"
    )
    data.read_only = False
    f(data, a, 8, more, [b, b], threads=8)  # the kernel reads `a` alone
    assert data.numpy().tolist() == [7] * 8


def test_an_array_of_another_device(device: Any) -> None:
    from devmod_vulkan._device import VulkanDevice

    f, other = kernel(ADD), VulkanDevice(device.physical, 7)
    data, a, b = arrays(device, 0, 1, 2)
    (foreign,) = arrays(other, 1)
    f(data, a, 8, {"b": b, "scale": 1}, [a, a], threads=8)
    y, struct = np.zeros(8, "float32"), kernel(STRUCT)
    struct({"a": a, "n": 8, "w": [0, 0]}, y, threads=8, stream=device.default_stream)
    tail = f"is on {other}, and argument 1 'data' is on {device}; a launch runs on one device: copy the array through the host"
    start = "the vulkan function 'k': argument "
    assert (
        message(f, data, foreign, 8, {"b": b, "scale": 1}, [a, a], threads=8)
        == f"{start}2 'a' {tail}"
    )
    assert (
        message(f, data, a, 8, {"b": foreign, "scale": 1}, [a, a], threads=8)
        == f"{start}4 'more': member 'more.b': {tail}"
    )
    assert "member 'Push.more.b': is on" in message(
        f,
        Push={"data": data, "a": a, "n": 8, "more": {"b": foreign, "scale": 1}, "last": [a, a]},
        threads=8,
    )
    assert "member 'Params.a': is on" in message(
        struct, {"a": foreign, "n": 8, "w": [0, 0]}, y, threads=8, stream=device.default_stream
    )


@pytest.mark.parametrize("way", ["call", "bind", "batch"])
@pytest.mark.parametrize("form", ["argument", "struct", "record"])
def test_a_launch_keeps_the_memory(way: str, form: str, device: Any) -> None:
    """No descriptor refers to the memory, so the submission does."""
    f = kernel(ADD)
    data, a, b = arrays(device, 0, 1, 2)
    f(data, a, 8, {"b": b, "scale": 0.5}, [b, b], threads=8)
    device.synchronize()
    stream = device.default_stream
    (watched,) = arrays(device, 5)
    memory = weakref.ref(watched.memory)
    values: dict[str, Any] = {
        "data": data,
        "a": a,
        "n": 8,
        "more": {"b": b, "scale": 0.5},
        "last": [b, b],
    }
    if form == "argument":
        values["a"] = watched
    else:
        values["more"]["b"] = watched
    if form == "record":
        values = {"Push": values}

    def launch() -> None:
        if way == "bind":
            f.bind(**values, threads=8)()
        elif way == "batch":
            with stream.batch():
                f(**values, threads=8)
        else:
            f(**values, threads=8)

    expected = 6 + (5 + 1 + 4 if form == "argument" else 1 + 2.5 + 4)
    with blocked(stream):
        launch()
        values.clear()
        del watched
        gc.collect()
        assert memory() is not None
        others = [device.empty(8, "float32") for _ in range(20)]
    device.synchronize()
    assert data.numpy().tolist() == [expected] * 8
    del others


def test_launches_are_in_order(device: Any) -> None:
    f, twice = kernel(ADD), kernel(TWICE)
    data, a, zero = arrays(device, 0, 1, 0)
    for _ in range(10):
        f(data, a, 8, {"b": zero, "scale": 0}, [zero, zero], threads=8)
        twice(data, threads=8)
    data.copy_from(data.numpy())
    assert data.numpy().tolist() == [2046] * 8


def test_a_device_without_addresses(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test takes the feature from the device's properties."""
    from devmod_vulkan._device import VulkanDevice

    monkeypatch.setattr(
        device.physical, "features", device.physical.features - {"12.bufferDeviceAddress"}
    )
    other = VulkanDevice(device.physical, 8)
    array = other.from_numpy(np.ones(8, "float32"))
    assert array.numpy().tolist() == [1] * 8
    text = f"is on {other}, which gives arrays no addresses (missing feature: bufferDeviceAddress)"
    assert message(lambda: array.address) == f"the array {text}"
    assert refusal(devmod.DeviceNotFoundError, lambda: fresh(UNIFORM)["k"].on(other)) == (
        f"the SPIR-V of the vulkan function 'k' needs the capability PhysicalStorageBufferAddresses, which {device} does not support "
        "(missing feature: bufferDeviceAddress)"
    )


def test_an_old_file_takes_ints(device: Any) -> None:
    module: Any = compiled(UNIFORM, "k")
    info = module.functions["k"]
    params = [
        each.replace(type="uint64", access="") if each.name == "a" else each
        for each in info.interface.params
    ]
    old = FunctionInfo(
        info.name, info.arg_types, info.launch_param_tags, (), info.interface.replace(params=params)
    )
    f = devmod.create("vulkan", module.code, "spv", {"k": old})["k"]
    (a,) = arrays(device, 3)
    y = device.zeros(8, "float32")
    f(a.address, 8, y, threads=8)
    assert y.numpy().tolist() == [3] * 8


@pytest.mark.row("R40")
def test_an_address_for_a_shader_without_addresses(device: Any) -> None:
    module: Any = compiled(
        "#version 450\nlayout(push_constant) uniform P { uvec2 n; };\nvoid main() {}\n", "k"
    )
    interface = Interface(
        [Param("n", "scalar", "handle", at=(0, 0))], [Block("push", 8)], (1, 1, 1)
    )
    assert (
        refusal(
            devmod.FormatError,
            devmod.create(
                "vulkan",
                module.code,
                "spv",
                {"k": FunctionInfo("main", ["uint64"], (), (), interface)},
            ).get_function,
            "k",
        )
        == "the interface of the vulkan function 'k' gives argument 1 as an address, which the shader cannot use"
    )


@pytest.mark.filterwarnings("ignore:a call of 'k' needs block=")
def test_a_bundle_with_a_buffer_of_the_same_name(device: Any) -> None:
    """A device array is a value for both."""
    interface = Interface(
        [
            Param("a", "buffer", "float32", "r"),
            Param("n", "scalar", "uint32"),
            Param("y", "buffer", "float32", "rw"),
        ]
    )
    other = FunctionInfo("k", ["handle", "uint32", "handle"], (), (), interface)
    source = b"kernel void k(global const float *a, uint n, global float *y) {}"
    bundle = devmod.bundle(
        devmod.create_with_fallback("opencl", source, "cl", {"k": other}), fresh(UNIFORM)
    )
    (a,), y = arrays(device, 3), device.zeros(8, "float32")
    bundle["k"].on(device)(a=a, n=8, y=y, threads=8)
    assert y.numpy().tolist() == [3] * 8
