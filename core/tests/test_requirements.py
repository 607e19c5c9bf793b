"""What a function requires of a device, and whether a device has it: `devmod.backend.requirements`
and `fits`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from devmod import Block, Interface, Param
from devmod._values.requirements import device_of_call
from devmod.backend import FEATURES, LIMITS, Capabilities, fits, requirements
from devmod.targets.vulkan.architecture import capability_name

#: An interface with everything that has a limit.
INTERFACE = Interface(
    [
        Param("x", "buffer", "float32", at=(2, 0), size=256),
        Param("y", "buffer", "float32", "w", at=(0, 1)),
        Param("settings", "uniform", "uint8x48", at=(0, 2)),
        Param("seen", "image", "2d", "r", at=(0, 3)),
        Param("drawn", "image", "2d", "w", at=(0, 4), format="rgba8unorm"),
        Param("changed", "image", "2d", "rw", at=(0, 5), format="r32float"),
        Param("kept", "image", "2d", "r", at=(0, 6), format="r32float"),
        Param("how", "sampler", at=(0, 7)),
    ],
    [Block("push", 96), Block((3, 0), 64)],
    block=(8, 4, 3),
    subgroup=32,
    extra={"workgroup_memory": 4096},
)
AMOUNTS = {
    "block_x": 8,
    "block_y": 4,
    "block_z": 3,
    "block": 96,
    "subgroups": 3,
    "shared_memory": 4096,
    "array": 256,
    "storage": 256,
    "push_constants": 96,
    "uniform": 64,
    "sets": 4,
    "storage_buffers": 2,
    "uniform_buffers": 2,
    "sampled_images": 1,
    "storage_images": 3,
    "samplers": 1,
    "resources": 8,
}


class Device:
    """A device that has what a test says."""

    def __init__(
        self,
        features: set[str] | None = None,
        subgroup_sizes: tuple[int, ...] = (),
        limits: dict[str, int] | None = None,
    ) -> None:
        self.features, self.subgroup_sizes, self.limits = features, subgroup_sizes, limits or {}

    def __str__(self) -> str:
        return "npu device 0"


def reason(interface: Interface | None, device: Device, **capabilities: Any) -> str:
    return fits(
        requirements(interface),
        Capabilities(device, {name: f"max {name}" for name in LIMITS}, **capabilities),
    )


@pytest.mark.row("R40")
def test_the_amounts_of_an_interface() -> None:
    largest: dict[str, int] = {}
    for name, amount in requirements(INTERFACE).amounts:
        largest[name] = max(amount, largest.get(name, 0))
    assert largest == AMOUNTS
    assert AMOUNTS.keys() == LIMITS.keys()


@pytest.mark.row("R40")
@pytest.mark.parametrize("limit", LIMITS)
def test_an_amount_up_to_the_limit_fits(limit: str) -> None:
    amount = AMOUNTS[limit]
    assert reason(INTERFACE, Device(subgroup_sizes=(32,), limits={f"max {limit}": amount})) == ""
    text = reason(INTERFACE, Device(subgroup_sizes=(32,), limits={f"max {limit}": amount - 1}))
    assert text.startswith(
        f"cannot run on npu device 0: its max {limit} is {amount - 1}, but the kernel "
    )


def test_the_last_subgroup_of_a_block_may_have_fewer_threads() -> None:
    assert ("subgroups", 2) in requirements(Interface(block=(33, 1, 1), subgroup=32)).amounts


@pytest.mark.parametrize(
    "interface",
    [Interface([Param("x", "buffer", "float32", at=(2, 0))]), Interface(blocks=[Block((2, 0), 4)])],
)
def test_the_sets_go_up_to_the_last_one_with_a_binding(interface: Interface) -> None:
    assert ("sets", 3) in requirements(interface).amounts


def test_what_is_unknown_fits() -> None:
    assert reason(None, Device(set())) == ""
    # A call may have another block.
    assert (
        reason(Interface(default_block=(2048, 1, 1)), Device(set(), limits={"max block": 1024}))
        == ""
    )
    assert (
        reason(
            Interface(extra={"workgroup_memory": "many"}), Device(limits={"max shared_memory": 0})
        )
        == ""
    )
    assert reason(Interface(), Device(limits={"max shared_memory": 0})) == ""
    # No features, no sizes of subgroups and no limits are reported.
    assert reason(INTERFACE, Device()) == ""
    assert fits(requirements(INTERFACE), None) == ""


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("interface", "device", "capabilities", "expected"),
    [
        (
            Interface(needs=["fp16", "fp64"]),
            Device({"fp16"}),
            {},
            "needs fp64, which npu device 0 does not have",
        ),
        (
            Interface(needs=["a\nb"]),
            Device(set()),
            {},
            "needs 'a\\nb', which neither this devmod nor npu device 0 has: pip install --upgrade devmod-core devmod-runtime",
        ),
        (
            Interface(needs=["fp16", "later"]),
            Device(),
            {},
            "needs 'later', which neither this devmod nor npu device 0 has: pip install --upgrade devmod-core devmod-runtime",
        ),
        (Interface(needs=["later"]), Device({"later"}), {}, ""),
        (Interface(extra={"features": ["shader-f16"]}), Device({"fp16"}), {}, ""),
        (
            Interface(extra={"features": "new-one"}),
            Device({"fp16"}),
            {},
            "needs new-one, which npu device 0 does not have",
        ),
        (
            Interface(subgroup=64, needs=["fp64"]),
            Device(set(), (16, 32)),
            {},
            "needs fp64 and subgroups of 64 threads (it has subgroups of 16, 32), which npu device 0 does not have",
        ),
        (
            Interface(),
            Device(),
            {"problem": "has no compiler on this machine"},
            "has no compiler on this machine",
        ),
        (
            Interface(subgroup=32),
            Device(),
            {"subgroup_problem": "whose number {} does not fix"},
            "needs subgroups of 32 threads, whose number npu device 0 does not fix",
        ),
        (Interface(), Device(), {"subgroup_problem": "whose number {} does not fix"}, ""),
        (
            INTERFACE,
            Device(),
            {
                "image_problem": lambda format_, access: (
                    f"no {access} of {format_}" if access == "rw" else ""
                )
            },
            "has the image 'changed' of r32float: no rw of r32float",
        ),
        (INTERFACE, Device(), {"image_problem": lambda format_, access: ""}, ""),
    ],
)
def test_the_first_thing_that_is_missing(
    interface: Interface, device: Device, capabilities: dict[str, Any], expected: str
) -> None:
    assert reason(interface, device, **capabilities) == expected


#: The names of each feature: SPIR-V's capabilities, OpenCL's extensions, WGSL's and WebGPU's.
NAMES_OF_FEATURES = {
    "fp16": ("Float16", "cl_khr_fp16", "f16", "shader-f16"),
    "fp64": ("Float64", "cl_khr_fp64 cl_amd_fp64", "", ""),
    "image_writes_3d": ("", "cl_khr_3d_image_writes", "", ""),
    "images": ("13 14 15", "", "", ""),
    "int64_atomics": ("Int64Atomics", "cl_khr_int64_base_atomics", "", ""),
    "launch_constants": ("", "", "", ""),
    "processor": ("", "", "", ""),
    "subgroup_size": ("", "cl_intel_required_subgroup_size", "", ""),
    "subgroups": (
        "58 GroupNonUniform",
        "cl_khr_subgroups cl_intel_subgroups",
        "subgroups",
        "subgroups",
    ),
}


def test_a_feature_has_the_names_of_each_api() -> None:
    names = {}
    for name, each in FEATURES.items():
        assert " " in each.meaning
        spirv = " ".join(map(capability_name, each.spirv))
        names[name] = (spirv, " ".join(each.opencl), each.wgsl, each.webgpu)
    assert names == NAMES_OF_FEATURES


def test_a_uniform_of_another_type_has_no_known_size() -> None:
    for type_, size in (("", 0), ("uint8", 1), ("uint8x48", 48), ("int8x4", 0), ("uint16x4", 0)):
        amounts = requirements(Interface([Param("p", "uniform", type_)])).amounts
        assert ("uniform", size) in amounts


def device_that(problem: Any) -> Any:
    return SimpleNamespace(capabilities=Capabilities(Device(), format_problem=problem))


def test_a_call_without_a_device_has_the_first_that_takes_the_format() -> None:
    refusing = device_that(lambda fmt: "no" if fmt == "cubin" else "")
    taking = device_that(lambda fmt: "")
    unknown = device_that(None)
    silent = SimpleNamespace(capabilities=None)
    for devices, fmt, expected in (
        ([refusing, taking], "cubin", taking),
        ([refusing, taking], "ptx", refusing),
        ([refusing, unknown, taking], "cubin", unknown),
        ([refusing, silent, taking], "cubin", silent),
        ([refusing, device_that(lambda fmt: "no")], "cubin", refusing),
    ):
        assert device_of_call(devices, fmt) is expected
