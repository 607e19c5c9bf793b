"""Devices over a VkDevice that the caller opened (`devmod_vulkan.device`)."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from each_case import refusal
from vulkan_kernels import TWICE, compiled, kernel

import devmod
import devmod_vulkan

pytestmark = pytest.mark.row("R57")

INT64 = """
#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 1) in;
layout(binding = 0) buffer X { int64_t x[]; };
void main() { x[gl_GlobalInvocationID.x] *= 2L; }
"""


class Caller:
    """What a program with Vulkan of its own has, by the package vulkan."""

    def __init__(self, *features: str) -> None:
        import vulkan as vk

        self.vk = vk
        application = vk.VkApplicationInfo(apiVersion=vk.VK_MAKE_VERSION(1, 2, 0))
        self.instance = vk.vkCreateInstance(
            vk.VkInstanceCreateInfo(pApplicationInfo=application), None
        )
        self.physical = vk.vkEnumeratePhysicalDevices(self.instance)[0]
        families = vk.vkGetPhysicalDeviceQueueFamilyProperties(self.physical)
        self.family = next(
            number
            for number, each in enumerate(families)
            if each.queueFlags & vk.VK_QUEUE_COMPUTE_BIT
        )
        self.features = ["timelineSemaphore", *features]
        queues = vk.VkDeviceQueueCreateInfo(
            queueFamilyIndex=self.family, queueCount=1, pQueuePriorities=[1.0]
        )
        info = vk.VkDeviceCreateInfo(
            pNext=vk.VkPhysicalDeviceVulkan12Features(timelineSemaphore=1),
            queueCreateInfoCount=1,
            pQueueCreateInfos=[queues],
            pEnabledFeatures=vk.VkPhysicalDeviceFeatures(**dict.fromkeys(features, 1)),
        )
        self.device = vk.vkCreateDevice(self.physical, info, None)
        self.queue = vk.vkGetDeviceQueue(self.device, self.family, 0)

    def handles(self) -> dict[str, Any]:
        return {
            "instance": self.instance,
            "physical_device": self.physical,
            "device": self.device,
            "queue": self.queue,
            "family": self.family,
            "features": self.features,
        }

    def adopt(self, **changes: Any) -> Any:
        return devmod_vulkan.device(**{**self.handles(), **changes})

    def submit_copy(self, source: Any, target: Any, nbytes: int, lock: Any) -> None:
        """Submit the caller's own command buffer: a copy between arrays of devmod."""
        vk = self.vk
        pool = vk.vkCreateCommandPool(
            self.device, vk.VkCommandPoolCreateInfo(queueFamilyIndex=self.family), None
        )
        (commands,) = vk.vkAllocateCommandBuffers(
            self.device,
            vk.VkCommandBufferAllocateInfo(
                commandPool=pool, level=vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY, commandBufferCount=1
            ),
        )
        vk.vkBeginCommandBuffer(commands, vk.VkCommandBufferBeginInfo())
        region = vk.VkBufferCopy(srcOffset=source.offset, dstOffset=target.offset, size=nbytes)
        vk.vkCmdCopyBuffer(commands, source.buffer, target.buffer, 1, [region])
        vk.vkEndCommandBuffer(commands)
        self.pools = [*getattr(self, "pools", []), pool]
        with lock:
            vk.vkQueueSubmit(self.queue, 1, [vk.VkSubmitInfo(pCommandBuffers=[commands])], None)

    def close(self) -> None:
        self.vk.vkDeviceWaitIdle(self.device)
        for pool in getattr(self, "pools", []):
            self.vk.vkDestroyCommandPool(self.device, pool, None)
        self.vk.vkDestroyDevice(self.device, None)
        self.vk.vkDestroyInstance(self.instance, None)


@pytest.fixture
def caller(device: Any) -> Iterator[Caller]:
    made = Caller()
    yield made
    made.close()


def twice() -> Any:
    return kernel(TWICE)


def test_one_vkdevice_has_one_device(caller: Caller, device: Any) -> None:
    adopted = caller.adopt()
    assert caller.adopt() is adopted
    ffi_address = int(str(caller.device).rpartition("0x")[2].rstrip(">"), 16)
    assert caller.adopt(device=ffi_address) is adopted
    assert isinstance(adopted, type(device))
    queue_address = int(str(caller.queue).rpartition("0x")[2].rstrip(">"), 16)
    assert (
        repr(adopted)
        == f"vulkan device 0 ({adopted.name}) over the caller's VkQueue 0x{queue_address:x}"
    )
    adopted.close()
    again = caller.adopt()
    assert again is not adopted
    again.close()


def test_launches_are_in_the_order_of_the_callers_commands(caller: Caller) -> None:
    adopted = caller.adopt()
    f = twice()
    x = adopted.from_numpy(np.ones(64, np.float32))
    y = adopted.zeros(64, "float32")
    z = adopted.zeros(64, "float32")
    f(x, grid=16)
    caller.submit_copy(x.memory, y.memory, 256, adopted.lock)
    f(x, grid=16)
    f(y, grid=16)
    caller.submit_copy(y.memory, z.memory, 256, adopted.lock)
    f.bind(z, grid=16)()
    event = adopted.default_stream.record()
    vk = caller.vk
    wait = vk.VkSemaphoreWaitInfo(
        semaphoreCount=1, pSemaphores=[event.stream.semaphore], pValues=[event.value]
    )
    vk.vkWaitSemaphores(caller.device, wait, 10**11)
    assert [each.numpy()[0] for each in (x, y, z)] == [4, 4, 8]
    host = np.ones(64, np.float32)
    f.on(adopted)(host, grid=16)
    assert host.tolist() == [2] * 64
    adopted.close()


def test_a_kernel_with_a_feature_that_was_not_enabled_is_an_error(device: Any) -> None:
    if "10.shaderInt64" not in device.physical.features:
        pytest.skip("the device has no shaderInt64")
    f = compiled(INT64)["k"]
    plain = Caller()
    adopted = plain.adopt()
    text = refusal(devmod.DeviceNotFoundError, f.on, adopted)
    assert text == (
        f"the SPIR-V of the vulkan function 'k' needs the capability Int64, which {adopted} does not support "
        "(missing feature: shaderInt64)"
    )
    adopted.close()
    plain.close()
    enabled = Caller("shaderInt64")
    adopted = enabled.adopt()
    x = adopted.from_numpy(np.arange(4, dtype=np.int64))
    f(x, grid=4)
    assert x.numpy().tolist() == [0, 2, 4, 6]
    adopted.close()
    enabled.close()


def test_what_cannot_be_used(caller: Caller) -> None:
    start = "devmod_vulkan.device"
    for changes, text in (
        (
            {"features": []},
            f"{start} cannot use the VkDevice: features= has no 'timelineSemaphore', which devmod's streams use",
        ),
        (
            {"features": "timelineSemaphore"},
            f"{start}: features is 'timelineSemaphore'; expected a list of names",
        ),
        ({"extensions": [3]}, f"{start}: extensions is [3]; expected a list of names"),
        ({"family": None}, f"{start}: family is None; expected the number of a queue family"),
        (
            {"version": (1, 1)},
            f"{start} cannot use the VkDevice: version=(1, 1), and devmod needs Vulkan 1.2",
        ),
        (
            {"queue": None},
            f"{start}: queue is None; expected a VkQueue of the package vulkan, or its address",
        ),
        (
            {"device": 0},
            f"{start}: device is 0; expected a VkDevice of the package vulkan, or its address",
        ),
    ):
        assert refusal(devmod.ArgumentError, caller.adopt, **changes) == text  # type: ignore[arg-type]
    text = refusal(devmod.ArgumentError, caller.adopt, family=99)
    assert text.startswith(f"{start} cannot use the VkDevice: family=99, and ")
    text = refusal(devmod.ArgumentError, caller.adopt, device=caller.queue)
    assert text.endswith("expected a VkDevice of the package vulkan, or its address")


def use(caller: Caller, f: Any) -> Callable[[], object]:
    adopted = caller.adopt()
    x = adopted.from_numpy(np.ones(64, np.float32))
    for _ in range(3):
        f(x, grid=16)
        f.on(adopted)(x, grid=16)
    f.bind(x, grid=16)()
    adopted.close()
    for call in (
        lambda: f(x, grid=16),
        lambda: adopted.zeros(4, "float32"),
        x.numpy,
        adopted.synchronize,
    ):
        assert refusal(devmod.LaunchError, call) == f"{adopted} is closed"
    adopted.close()
    return weakref.ref(adopted)


def test_nothing_is_kept_of_a_closed_device(caller: Caller) -> None:
    f = twice()
    for _ in range(2):
        reference = use(caller, f)
        gc.collect()
        assert reference() is None
    # The VkDevice still works.
    adopted = caller.adopt()
    x = adopted.from_numpy(np.ones(64, np.float32))
    f(x, grid=16)
    assert x.numpy().tolist() == [2] * 64
    adopted.close()


def test_a_device_that_is_never_closed_leaves_the_callers_alone(device: Any) -> None:
    """Its end destroys nothing: the caller may have destroyed the VkDevice before."""
    caller = Caller()
    adopted = caller.adopt()
    x = adopted.from_numpy(np.ones(64, np.float32))
    twice()(x, grid=16)
    adopted.synchronize()
    del adopted, x
    gc.collect()
    caller.close()
    gc.collect()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_cannot_use_the_device(caller: Caller) -> None:
    adopted = caller.adopt()
    f = twice()
    x = adopted.zeros(64, "float32")
    f(x, grid=16)
    child = os.fork()
    if not child:
        status = 1
        try:
            for each in (lambda: f(x, grid=16), x.numpy, adopted.synchronize, caller.adopt):
                text = refusal(devmod.LaunchError, each)
                assert text.startswith("vulkan devices cannot be used in this process"), text
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    f(x, grid=16)
    assert x.numpy().tolist() == [0] * 64
    adopted.close()
