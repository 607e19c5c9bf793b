"""The reader of what clspv writes into SPIR-V about the kernels of an OpenCL C source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from each_case import refusal, some

import devmod
from devmod import Block, Interface, Param
from devmod_readers.reflection import ReflectedShader, reflected_function
from devmod_readers.spirv import LaunchConstants, read_module, reflect

pytestmark = pytest.mark.once  # bytes, which the reader reads itself

#: make.py there has how clspv made them.
FOLDER = Path(__file__).parents[3] / "plugins" / "devmod-vulkan" / "tests" / "clspv"
KERNELS = (FOLDER / "kernels.spv").read_bytes()
VALUES = (FOLDER / "values.spv").read_bytes()
MODES = (FOLDER / "modes.spv").read_bytes()
NEEDS = ("launch_constants",)
BLOCK = [("block", axis) for axis in range(3)]
#: OpExtInst.
EXTENDED = 12


def shaders_of(data: bytes) -> dict[str, ReflectedShader]:
    shaders = reflect(read_module(data), "k.spv", include_unused=False)
    return {each.symbol: each for each in shaders}


def interface_of(data: bytes, name: str) -> Interface:
    function = reflected_function("vulkan", shaders_of(data)[name])
    return Interface(
        function.params,
        function.blocks,
        function.block,
        function.extra,
        needs=function.needs,
    )


def launch_of(data: bytes, name: str) -> LaunchConstants:
    kernel = shaders_of(data)[name].kernel
    assert kernel is not None
    return kernel.launch


def refused(data: bytes) -> str:
    with pytest.raises(devmod.FormatError) as caught:
        shaders_of(data)
    return str(caught.value)


def instructions(data: bytes) -> list[list[int]]:
    """Return the instructions of a module, each a list of words."""
    words = memoryview(data).cast("I")
    result = []
    at = 5
    while at < len(words):
        length = words[at] >> 16
        result.append(list(words[at : at + length]))
        at += length
    return result


def changed(
    data: bytes, number: int, operands: Sequence[int] = (), becomes: int = 0, kept: int = 9
) -> bytes:
    """Return a module in which the first instruction of clspv's with a number has other operands or
    fewer, or another number.
    """
    result = instructions(data)
    for words in result:
        if words[0] & 0xFFFF == EXTENDED and words[4] == number:
            words[4:] = [becomes or number, *(operands or words[5 : 5 + kept])]
            words[0] = len(words) << 16 | EXTENDED
            break
    return data[:20] + b"".join(word.to_bytes(4, "little") for words in result for word in words)


def test_arguments_have_the_order_the_names_and_the_types_of_the_source() -> None:
    assert interface_of(KERNELS, "dot_parts") == Interface(
        [
            Param("x", "buffer", "float32", "r", (1, 0)),  # the set 0 has the source's samplers
            Param("y", "buffer", "float32", "r", (1, 1)),
            Param("parts", "buffer", "float32", "rw", (1, 2)),
            Param("n", "scalar", "int32", at=(0, 0)),
            Param("scratch", "local", "float32"),
        ],
        [Block("push", 4)],
        extra={"workgroup_memory": 4},
        needs=NEEDS,
    )
    launch = launch_of(KERNELS, "dot_parts")
    assert launch.local["scratch"][1] == 4
    assert sorted(set(launch.constants.values())) == [*BLOCK, ("local", 0), ("work_dim", 0)]


def test_values_of_all_kinds_lie_in_one_block() -> None:
    assert interface_of(VALUES, "values") == Interface(
        [
            Param("x", "buffer", "float32", "rw", (0, 0)),
            Param("options", "scalar", "uint8x48", at=(0, 0), align=1),
            Param("c", "scalar", "int8", at=(0, 48)),
            Param("l", "scalar", "int64", at=(0, 56)),
            Param("u", "scalar", "uint8x4", at=(0, 64)),
            Param("v", "scalar", "float32x3", at=(0, 80)),
        ],
        [Block("push", 96)],
        needs=NEEDS,
    )
    large = interface_of(KERNELS, "table")
    assert large.params[1] == Param("table", "scalar", "uint8x160", at=(0, 0), align=1)
    assert large.blocks == (Block((1, 1), 164),)  # more than push constants hold


def test_the_required_block_is_fixed_and_any_other_open_to_the_call() -> None:
    assert interface_of(KERNELS, "fixed_block").block == (4, 2, 1)
    assert interface_of(KERNELS, "launch").block is None
    # The constants are those of launches, not of `Function.specialize`.
    assert all(not each.constants for each in some(shaders_of(KERNELS).values()))


def test_an_image_and_the_samplers_of_the_source() -> None:
    image = interface_of(KERNELS, "texels").params[0]
    assert (image.kind, image.type, image.sample, image.access) == ("image", "2d", "float", "r")
    # The bits of each: normalized coordinates 1; the edge 2, the border 4, repeated 6, mirrored 8;
    # nearest 16, linear 32.
    assert sorted(launch_of(KERNELS, "texels").samplers.values()) == [18, 21, 23, 41]


def test_numbers_and_constants_in_buffers_and_numbers_of_the_launch() -> None:
    assert interface_of(MODES, "modes") == Interface(
        [
            Param("x", "buffer", "uint32", "rw", (0, 0)),
            Param("n", "scalar", "int32", at=(0, 0)),
        ],
        [Block((0, 1), 4), Block("push", 48)],
        needs=NEEDS,
    )
    assert launch_of(MODES, "modes") == LaunchConstants(
        dict(enumerate([*BLOCK, ("offset", 0), ("offset", 1), ("offset", 2)])),
        {},
        [(0, 12, "grid"), (16, 12, "block"), (32, 12, "threads")],
        {},
        {(1, 0): ("buffer", bytes([5, 0, 0, 0, 6, 0, 0, 0]))},
    )


#: The numbers of instructions of clspv, and the errors.
UNSUPPORTED = {
    4: "has an array of constants in a uniform buffer; compile it without -constant-args-ubo",
    26: "takes addresses; compile it without -physical-storage-buffers",
    30: "asks for the channels of an image (get_image_channel_order, get_image_channel_data_type), which devmod does not pass",
    35: "takes an image over a buffer (image1d_buffer_t), which devmod does not support; use a buffer",
    41: "reads a 3-D image with a sampler that is an argument, which devmod does not support; declare the sampler in the source",
    25: "uses the size of subgroups (get_max_sub_group_size), which devmod does not pass",
    28: "uses variables of the program, which devmod does not allocate; make them arguments",
    38: "calls printf, which has no output on Vulkan; write the values to an array",
}


@pytest.mark.parametrize("number", UNSUPPORTED)
def test_what_devmod_does_not_pass_names_the_kernel(number: int) -> None:
    of_kernel = changed(MODES, 3, becomes=number)
    assert refused(of_kernel) == f"has the kernel 'modes', which {UNSUPPORTED[number]}"
    of_module = changed(MODES, 12, becomes=number)
    assert refused(of_module) == f"has a kernel, which {UNSUPPORTED[number]}"


def test_what_a_newer_clspv_adds_is_ignored() -> None:
    data = changed(MODES, 13, becomes=4242)
    assert [*launch_of(data, "modes").constants.values()] == BLOCK


def test_spirv_without_names_or_types_names_the_option() -> None:
    nameless = changed(MODES, 3, kept=4)
    expected = "has no names of arguments: compile it by clspv with -cl-kernel-arg-info (the kernel 'modes', argument 1)"
    assert refused(nameless) == expected
    untyped = changed(MODES, 2, kept=1)
    assert refusal(devmod.CompileError, devmod.compile, untyped, "vulkan") == (
        "the SPIR-V of <bytes> has the kernel 'modes' of clspv without the types of its arguments, such as 'x'; compile it by clspv with "
        "-cl-kernel-arg-info, or compile the OpenCL C with devmod"
    )


@pytest.mark.parametrize(
    ("data", "number", "operands", "problem"),
    [
        (MODES, 1, [1], "text"),
        (MODES, 3, [1, 1, 1], "valid number"),
        (KERNELS, 24, [7, 7], "valid number"),
        (MODES, 12, [9999, 9999, 9999], "valid number"),
        (MODES, 21, [1, 1], "valid number"),
    ],
)
def test_damaged_instructions_are_refused(
    data: bytes, number: int, operands: list[int], problem: str
) -> None:
    expected = f"is damaged: an instruction of clspv has no {problem}"
    assert refused(changed(data, number, operands)) == expected
