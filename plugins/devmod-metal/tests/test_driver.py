"""The file that calls pyobjc: its selectors, their order and arguments, on a double of the
framework.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from each_case import refusal
from metal_standin import FrameworkDouble

import devmod
from devmod_metal._interface import ConstantValue, DeviceProperties, MetalError


@pytest.fixture
def framework(monkeypatch: pytest.MonkeyPatch) -> FrameworkDouble:
    double = FrameworkDouble()
    for name, module in double.modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return double


@pytest.fixture
def driver(framework: FrameworkDouble, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.delitem(sys.modules, "devmod_metal._driver", raising=False)
    module = importlib.import_module("devmod_metal._driver")
    yield module.Framework()
    sys.modules.pop("devmod_metal._driver", None)
    vars(sys.modules["devmod_metal"]).pop("_driver", None)


def sent(framework: FrameworkDouble, start: int = 0) -> list[str]:
    return [f"{entry[0]} {entry[1]}" for entry in framework.log[start:]]


def test_pyobjcs_metadata_have_every_selector_of_the_driver() -> None:
    source = (Path(__file__).parents[1] / "src" / "devmod_metal" / "_driver.py").read_text()
    own = {
        "autorelease_pool",
        "registerMetaDataForSelector",
        "protocolNamed",
        "dispatch_data_create",
        "pyobjc_id",
    }
    own |= {"MTLCopyAllDevices", "MTLSizeMake", "MTLOriginMake"}
    python = {
        "capitalize",
        "cast",
        "endswith",
        "fullmatch",
        "get",
        "ljust",
        "partition",
        "rpartition",
        "startswith",
        "upper",
    }
    called = {
        node.func.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert called - own - python == FrameworkDouble.selectors
    named = {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and node.attr.startswith("MTL")
    }
    assert named - own - set(FrameworkDouble.classes) <= FrameworkDouble.enums


def test_devices_and_their_properties(framework: FrameworkDouble, driver: Any) -> None:
    first, second = driver.devices()
    assert driver.properties(first) == DeviceProperties(
        "Apple M1", "Version 15.0", 1 << 33, (1024, 1024, 64), 32768, 1 << 30, 2, False, True
    )
    assert driver.properties(second).name == "Intel"


def test_a_launch_is_encoded_in_order(framework: FrameworkDouble, driver: Any) -> None:
    device = driver.devices()[0]
    queue, buffer = driver.queue(device), driver.buffer(device, 64)
    pipeline = driver.pipeline(device, driver.compile(device, "kernel void k() {}", ()), "k", ())
    assert (pipeline.max_threads, pipeline.static_memory, pipeline.execution_width) == (512, 64, 16)
    start, pools = len(framework.log), framework.pools
    commands = driver.launch(
        queue,
        pipeline.handle,
        [(0, buffer, 0), (3, buffer, 32)],
        [(1, b"\1\0\0\0")],
        [(0, 32)],
        [(5, buffer)],
        [(2, buffer)],
        (4, 2, 1),
        (8, 8, 1),
    )
    assert framework.log[start:] == [
        ("queue", "commandBuffer"),
        ("commands", "computeCommandEncoder"),
        ("encoder", "setComputePipelineState_", pipeline.handle),
        ("encoder", "setBuffer_offset_atIndex_", buffer, 0, 0),
        ("encoder", "setBuffer_offset_atIndex_", buffer, 32, 3),
        ("encoder", "setBytes_length_atIndex_", b"\1\0\0\0", 4, 1),
        ("encoder", "setThreadgroupMemoryLength_atIndex_", 32, 0),
        ("encoder", "setTexture_atIndex_", buffer, 5),
        ("encoder", "setSamplerState_atIndex_", buffer, 2),
        ("encoder", "dispatchThreadgroups_threadsPerThreadgroup_", (4, 2, 1), (8, 8, 1)),
        ("encoder", "endEncoding"),
        ("commands", "commit"),
    ]
    assert framework.pools == pools + 1
    driver.wait(commands)
    assert driver.is_complete(commands)
    assert driver.failure(commands) == ""
    assert driver.times(commands) == (1.0, 1.5)
    framework.command_error = "Caused GPU Timeout Error"
    assert driver.failure(commands) == "Caused GPU Timeout Error"


def test_a_copy_is_encoded_in_order(framework: FrameworkDouble, driver: Any) -> None:
    device = driver.devices()[0]
    queue, source, target = (
        driver.queue(device),
        driver.buffer(device, 64),
        driver.buffer(device, 64),
    )
    start, pools = len(framework.log), framework.pools
    commands = driver.copy(queue, source, 4, target, 32, 16)
    assert framework.log[start:] == [
        ("queue", "commandBuffer"),
        ("commands", "blitCommandEncoder"),
        (
            "encoder",
            "copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_",
            source,
            4,
            target,
            32,
            16,
        ),
        ("encoder", "endEncoding"),
        ("commands", "commit"),
    ]
    assert framework.pools == pools + 1
    driver.wait(commands)
    assert driver.address(source) == id(source)
    assert driver.allocated(device) == 1 << 20


def test_a_texture_is_described(framework: FrameworkDouble, driver: Any) -> None:
    device = driver.devices()[0]
    start = len(framework.log)
    texture = driver.texture(device, "2d_array", "bgra8unorm", (7, 5, 1), 3)
    assert texture is not None
    assert [entry[1:] for entry in framework.log[start:] if entry[1].startswith("set")] == [
        ("setTextureType_", 3),
        ("setPixelFormat_", 80),
        ("setWidth_", 7),
        ("setHeight_", 5),
        ("setDepth_", 1),
        ("setArrayLength_", 3),
        ("setStorageMode_", 2),
        ("setUsage_", 3),
    ]
    for name, value in (("1d", 0), ("1d_array", 1), ("2d", 2), ("3d", 7)):
        start = len(framework.log)
        driver.texture(device, name, "r32float", (7, 1, 1), 0)
        sent = {entry[1]: entry[2] for entry in framework.log[start:] if entry[1].startswith("set")}
        assert (sent["setTextureType_"], sent["setArrayLength_"], sent["setPixelFormat_"]) == (
            value,
            1,
            55,
        )


def test_a_sampler_is_described(framework: FrameworkDouble, driver: Any) -> None:
    start = len(framework.log)
    sampler = driver.sampler(driver.devices()[0], "linear", "border", False)
    assert [entry[1:] for entry in framework.log[start:] if entry[1].startswith("set")] == [
        ("setMinFilter_", 1),
        ("setMagFilter_", 1),
        ("setSAddressMode_", 4),
        ("setTAddressMode_", 4),
        ("setRAddressMode_", 4),
        ("setNormalizedCoordinates_", False),
    ]
    assert (
        driver.texture_properties(sampler)
        is driver.sampler_device(sampler)
        is driver.sampler_device(3)
        is None
    )


def test_the_properties_of_a_texture_of_pyobjc(framework: FrameworkDouble, driver: Any) -> None:
    answers = {
        "conformsToProtocol_": lambda name: name == "MTLTexture",
        "width": 7,
        "height": 5,
        "depth": 1,
        "arrayLength": 4,
    }
    device = driver.devices()[0]
    texture = framework.object(
        "texture", **answers, device=device, textureType=3, pixelFormat=73, usage=1
    )
    assert driver.texture_properties(texture) == (
        device,
        "2d_array",
        "rgba8uint",
        (7, 5, 1),
        4,
        ("MTLTextureUsageShaderWrite",),
    )
    texture = framework.object(
        "texture", **answers, device=device, textureType=5, pixelFormat=71, usage=0
    )
    assert driver.texture_properties(texture) == (device, 5, 71, (7, 5, 1), 0, ())
    sampler = framework.object(
        "sampler", conformsToProtocol_=lambda name: name == "MTLSamplerState", device=device
    )
    assert driver.sampler_device(sampler) is device
    assert driver.texture_properties(sampler) is None


def test_a_copy_of_a_texture_has_its_layers_and_planes(
    framework: FrameworkDouble, driver: Any
) -> None:
    device = driver.devices()[0]
    queue, buffer, texture = (
        driver.queue(device),
        driver.buffer(device, 560),
        driver.texture(device, "2d_array", "r32float", (7, 5, 1), 2),
    )
    start = len(framework.log)
    driver.copy_texture(queue, buffer, texture, (7, 5, 1), 2, 28, is_read=False)
    size, origin = (7, 5, 1), (0, 0, 0)
    assert [entry[2:] for entry in framework.log[start:] if "copyFromBuffer" in entry[1]] == [
        (buffer, 0, 28, 0, size, texture, 0, 0, origin),
        (buffer, 140, 28, 0, size, texture, 1, 0, origin),
    ]
    assert [entry[1] for entry in framework.log[start:] if "copy" not in entry[1]] == [
        *("commandBuffer", "blitCommandEncoder", "endEncoding", "commit")
    ]
    start = len(framework.log)
    driver.copy_texture(queue, buffer, texture, (7, 5, 3), 0, 28, is_read=True)
    assert [entry[2:] for entry in framework.log[start:] if "copyFromTexture" in entry[1]] == [
        (texture, 0, 0, origin, (7, 5, 3), buffer, 0, 28, 140)
    ]


def test_memory_is_shared_and_not_copied(framework: FrameworkDouble, driver: Any) -> None:
    buffer = driver.buffer(driver.devices()[0], 64)
    assert framework.log[-1] == ("device", "newBufferWithLength_options_", 64, 0)
    driver.contents(buffer, 64)[:4] = b"abcd"
    assert bytes(driver.contents(buffer, 8)) == b"abcd\0\0\0\0"


def test_options_and_constants(framework: FrameworkDouble, driver: Any) -> None:
    device = driver.devices()[0]
    start = len(framework.log)
    library = driver.compile(device, "text", ("-std=metal3.1", "-fno-fast-math", "-ffast-math"))
    assert [entry[1:] for entry in framework.log[start:] if "set" in entry[1]] == [
        ("setLanguageVersion_", 196609),
        ("setFastMathEnabled_", False),
        ("setFastMathEnabled_", True),
    ]
    start = len(framework.log)
    driver.pipeline(
        device,
        library,
        "k",
        (
            ConstantValue(3, "int32", b"\7\0\0\0"),
            ConstantValue(1, "bool", b"\1"),
            ConstantValue(0, "float16", b"\0<"),
        ),
    )
    assert [
        entry[2:] for entry in framework.log[start:] if entry[1] == "setConstantValue_type_atIndex_"
    ] == [
        (b"\7\0\0\0\0\0\0\0", 29, 3),
        (b"\1\0\0\0\0\0\0\0", 53, 1),
        (b"\0<\0\0\0\0\0\0", 16, 0),
    ]
    # The metadata that the driver registers set the number of bytes that pyobjc copies.
    ((name, selector),) = framework.registered
    assert (name, selector) == (b"MTLFunctionConstantValues", b"setConstantValue:type:atIndex:")
    assert framework.registered[name, selector]["arguments"][2] == {
        "type": b"^v",
        "type_modifier": b"n",
        "c_array_of_fixed_length": 8,
    }


def test_a_metallib_is_passed_as_dispatch_data(framework: FrameworkDouble, driver: Any) -> None:
    driver.load(driver.devices()[0], b"MTLB")
    assert framework.log[-1] == ("device", "newLibraryWithData_error_", b"MTLB", None)


def test_events(framework: FrameworkDouble, driver: Any) -> None:
    device = driver.devices()[0]
    queue, event, scratch = driver.queue(device), driver.event(device), driver.buffer(device, 8)
    start = len(framework.log)
    driver.signal(queue, event, 1, scratch)
    driver.wait_for(queue, event, 1)
    assert framework.log[start:] == [
        ("queue", "commandBuffer"),
        ("commands", "blitCommandEncoder"),
        (
            "encoder",
            "copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_",
            scratch,
            0,
            scratch,
            4,
            4,
        ),
        ("encoder", "endEncoding"),
        ("commands", "encodeSignalEvent_value_", event, 1),
        ("commands", "commit"),
        ("queue", "commandBuffer"),
        ("commands", "encodeWaitForEvent_value_", event, 1),
        ("commands", "commit"),
    ]


def test_errors_have_the_text_of_metal(framework: FrameworkDouble, driver: Any) -> None:
    device = driver.devices()[0]
    library = driver.compile(device, "text", ())
    for options, text in (
        (
            ("-std=metal9.9",),
            "error: this macOS does not support Metal 9.9 of the option '-std=metal9.9'",
        ),
        (("-O2",), "error: Metal's compiler does not support the option '-O2'"),
    ):
        assert refusal(MetalError, driver.compile, device, "text", options) == text
    framework.function_error = "Function k was not found"
    with pytest.raises(MetalError, match=r"^Function k was not found$"):
        driver.pipeline(device, library, "k", ())
    framework.library_error = "program_source:1:1: error: unknown type name"
    with pytest.raises(MetalError, match=r"^program_source:1:1: error: unknown type name$"):
        driver.compile(device, "text", ())
    with pytest.raises(MetalError, match=r"^program_source:1:1"):
        driver.load(device, b"MTLB")
    framework.nothing = {
        "newBufferWithLength_options_",
        "newCommandQueue",
        "commandBuffer",
        "newSharedEvent",
    }
    framework.nothing |= {"newTextureWithDescriptor_", "newSamplerStateWithDescriptor_"}
    poor = framework.device("poor")
    for ask, text in (
        (lambda: driver.buffer(poor, 8), "no buffer"),
        (lambda: driver.queue(poor), "no command queue"),
        (lambda: driver.event(poor), "no event"),
        (lambda: driver.texture(poor, "2d", "r8unorm", (1, 1, 1), 0), "no texture"),
        (lambda: driver.sampler(poor, "linear", "clamp", True), "no sampler"),
        (lambda: driver.signal(framework.queue(), None, 1, None), "no command buffer"),
    ):
        assert refusal(MetalError, ask) == text


@pytest.mark.row("R23")
def test_without_pyobjc_on_a_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Foundation", None)
    monkeypatch.delitem(sys.modules, "devmod_metal._driver", raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert refusal(devmod.DeviceNotFoundError, importlib.import_module, "devmod_metal._driver") == (
        "no Metal device can be used: pyobjc is not installed. To add it: pip install pyobjc-framework-Metal pyobjc-framework-libdispatch"
    )
