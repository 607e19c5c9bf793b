"""Blocks whose size depends on specialization constants: the block that devmod reports is the block
that the device runs.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from each_case import refusal
from vulkan_kernels import packed

import devmod
from devmod import FunctionInfo

needs_assembler = pytest.mark.skipif(
    not shutil.which("spirv-as"), reason="spirv-tools is not installed"
)

COUNT = """
#version 450
{declared}
layout(binding = 0) buffer Y {{ uint y[]; }};
void main() {{
    atomicAdd(y[0], 1);
    y[4] = {n};
    y[1] = gl_WorkGroupSize.x; y[2] = gl_WorkGroupSize.y; y[3] = gl_WorkGroupSize.z;
}}
"""
UNSET = "the vulkan function 'k' has constants without a value; set them: f.specialize({})"


def compiled(declared: str, n: str, target: str = "vulkan") -> devmod.Function:
    try:
        return devmod.compile(
            COUNT.format(declared=declared, n=n), target, name="k", language="GLSL"
        )["k"]
    except devmod.ToolchainNotFoundError as error:
        pytest.skip(str(error))


def check(f: devmod.Function, block: tuple[int, int, int], n: int = 0, words: int = 5) -> None:
    """Launch three blocks, and compare what the threads saw with what the function reports."""
    assert f.block == block
    assert f.launch_config(threads=block[0] + 1).grid == (2, 1, 1)
    seen = np.zeros(words, "uint32")
    f(seen, grid=3)
    assert seen.tolist() == [3 * block[0] * block[1] * block[2], *block, n][:words]


SHAPES = {
    "x from a constant, y fixed": (
        "layout(local_size_x_id = 0, local_size_x = 4, local_size_y = 2) in;",
        "0",
        (4, 2, 1),
        {},
        0,
    ),
    "x, y and z from constants of the size alone": (
        "layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;",
        "0",
        (6, 1, 2),
        {"local_size_x": 6, "local_size_z": 2},
        0,
    ),
    "numbers behind those of others": (
        "layout(constant_id = 0) const int k = 7; layout(local_size_x_id = 233, local_size_y_id = 234) in;",
        "k",
        (3, 5, 1),
        {"local_size_x": 3, "234": 5},
        7,
    ),
    "a constant of the size and of the code": (
        "layout(constant_id = 3) const uint N = 8; layout(local_size_x_id = 3, local_size_x = 8) in; shared uint s[2 * N];",
        "N + s.length()",
        (8, 1, 1),
        {},
        24,
    ),
    "the same, set": (
        "layout(constant_id = 3) const int N = 8; layout(local_size_x_id = 3, local_size_x = 8) in;",
        "uint(N * 10)",
        (16, 1, 1),
        {"N": 16},
        160,
    ),
    "an expression in the code": (
        "layout(constant_id = 1) const uint N = 2; layout(local_size_y_id = 1, local_size_y = 2) in;",
        "gl_WorkGroupSize.y * N",
        (1, 4, 1),
        {"N": 4},
        16,
    ),
}


@pytest.mark.parametrize(
    "target", ["vulkan", "vulkan -arch=vulkan1.3"]
)  # with the builtin WorkgroupSize, and with LocalSizeId
@pytest.mark.parametrize("shape", SHAPES)
def test_the_reported_block_is_the_launched_block(shape: str, target: str, device: Any) -> None:
    declared, n, block, constants, value = SHAPES[shape]
    f = compiled(declared, n, target)
    check(f.specialize(**constants) if constants else f, block, value)


@pytest.mark.parametrize("target", ["vulkan", "vulkan -arch=vulkan1.3"])
@pytest.mark.parametrize(
    "uses", ["N * gl_WorkGroupSize.x", "gl_WorkGroupSize.x * N"]
)  # the first use has the first id in the SPIR-V
def test_two_defaults_of_one_id_must_be_set(uses: str, target: str, device: Any) -> None:
    declared = "layout(constant_id = 0) const uint N = 32; layout(local_size_x_id = 0, local_size_y = 2) in;"
    with pytest.warns(UserWarning, match="defaults that differ") as caught:
        f = compiled(declared, uses, target)
    assert [str(each.message) for each in caught] == [
        "<text> has the constant 'N' (id 0) with defaults that differ, one of them for the block's size in x, so each call needs "
        "f.specialize(N=…); give it one default (write local_size_x = N beside local_size_x_id)"
    ]
    assert f.block is None
    seen = np.zeros(5, "uint32")
    array = device.from_numpy(seen)
    calls = (
        lambda: f(seen, grid=1),
        lambda: f(seen, grid=1, block=(32, 2)),
        lambda: f(seen, 1, 1, 1, 32, 2, 1),
        lambda: f.bind(array, grid=1),
        lambda: f.launch_config(threads=9),
    )
    for call in calls:
        assert refusal(devmod.LaunchError, call) == UNSET.format("N=…")
    for constants in ({"N": 8}, {"0": 8}):
        check(f.specialize(**constants), (8, 2, 1), 64)


# -- SPIR-V of other compilers

ASSEMBLY = """
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main" {interface}
{mode}
OpDecorate %block Block
OpMemberDecorate %block 0 Offset 0
OpDecorate %v DescriptorSet 0
OpDecorate %v Binding 0
{decorations}
%void = OpTypeVoid
%fn = OpTypeFunction %void
%uint = OpTypeInt 32 0
%int = OpTypeInt 32 1
%float = OpTypeFloat 32
%v3 = OpTypeVector %uint 3
%block = OpTypeStruct %uint
%pb = OpTypePointer StorageBuffer %block
%pu = OpTypePointer StorageBuffer %uint
%zero = OpConstant %uint 0
%one = OpConstant %uint 1
%two = OpConstant %uint 2
{constants}
%v = OpVariable %pb StorageBuffer
%main = OpFunction %void None %fn
%entry = OpLabel
%p = OpAccessChain %pu %v %zero
%r = OpAtomicIAdd %uint %p %one %zero %one
OpReturn
OpFunctionEnd
"""


def assembled(mode: str, constants: str, decorations: str, folder: Path) -> bytes:
    """Return the SPIR-V of a kernel that counts its threads."""
    is_new = "LocalSizeId" in mode
    text = ASSEMBLY.format(
        mode=mode, constants=constants, decorations=decorations, interface="%v" if is_new else ""
    )
    (folder / "k.spvasm").write_text(text)
    command = [
        "spirv-as",
        "--target-env",
        "spv1.6" if is_new else "spv1.3",
        "k.spvasm",
        "-o",
        "k.spv",
    ]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    return (folder / "k.spv").read_bytes()


def wrapped(spirv: bytes) -> devmod.Function:
    """Wrap a module that devmod did not compile. It has no interface."""
    return devmod.create(
        "vulkan", {"k": packed(spirv)}, "spv", {"k": FunctionInfo("main", ["handle"])}
    )["k"]


ID = "OpExecutionModeId %main LocalSizeId"
SPEC = "%n = OpSpecConstant %uint 6\n"
FOREIGN = {
    "a constant": (f"{ID} %n %two %one", SPEC, "", (6, 2, 1), (4, 2, 1)),
    "a product": (
        f"{ID} %t %one %one",
        SPEC + "%t = OpSpecConstantOp %uint IMul %n %two",
        "",
        (12, 1, 1),
        (8, 1, 1),
    ),
    "a quotient and a choice": (
        f"{ID} %t %s %one",
        SPEC
        + "%t = OpSpecConstantOp %uint UDiv %n %two\n%b = OpTypeBool\n%five = OpConstant %uint 5\n%c = OpSpecConstantOp %b UGreaterThan %n %five\n"
        + "%s = OpSpecConstantOp %uint Select %c %two %one",
        "",
        (3, 2, 1),
        (2, 1, 1),
    ),
    "signed operations on unsigned constants, and the reverse": (
        f"{ID} %x %y %two",
        "%n = OpSpecConstant %uint 4294967290\n%m = OpConstant %int -2\n%most = OpConstant %uint 2147483645\n"
        + "%a = OpSpecConstantOp %uint ShiftRightArithmetic %n %one\n%b = OpSpecConstantOp %uint UDiv %m %most\n"
        + "%five = OpConstant %uint 8\n%x = OpSpecConstantOp %uint IAdd %a %five\n%y = OpSpecConstantOp %uint IAdd %b %one",
        "",
        (5, 3, 2),
        (10, 3, 2),
    ),
    "a member of a vector": (
        f"{ID} %t %one %one",
        SPEC
        + "%all = OpSpecConstantComposite %v3 %one %n %one\n%t = OpSpecConstantOp %uint CompositeExtract %all 1",
        "",
        (6, 1, 1),
        (4, 1, 1),
    ),
    "a signed constant": (
        f"{ID} %n %one %one",
        "%n = OpSpecConstant %int 6",
        "",
        (6, 1, 1),
        (4, 1, 1),
    ),
    "the builtin, over the mode": (
        "OpExecutionMode %main LocalSize 64 1 1",
        SPEC + "%size = OpSpecConstantComposite %v3 %n %two %one",
        "OpDecorate %size BuiltIn WorkgroupSize",
        (6, 2, 1),
        (4, 2, 1),
    ),
    "the builtin with two constants of one id": (
        "OpExecutionMode %main LocalSize 64 1 1",
        SPEC + "%m = OpSpecConstant %uint 6\n%size = OpSpecConstantComposite %v3 %n %m %one",
        "OpDecorate %size BuiltIn WorkgroupSize\nOpDecorate %m SpecId 0",
        (6, 6, 1),
        (4, 4, 1),
    ),
    "a default of no threads": (
        f"{ID} %n %one %one",
        "%n = OpSpecConstant %uint 0",
        "",
        None,
        (4, 1, 1),
    ),
    "a quotient of no threads": (
        f"{ID} %t %one %one",
        "%n = OpSpecConstant %uint 1\n%t = OpSpecConstantOp %uint UDiv %n %two",
        "",
        None,
        (2, 1, 1),
    ),
    "defaults that differ": (
        f"{ID} %n %m %one",
        SPEC + "%m = OpSpecConstant %uint 3",
        "OpDecorate %m SpecId 0",
        None,
        (4, 4, 1),
    ),
    "defaults that differ in sign": (
        f"{ID} %n %m %one",
        SPEC + "%m = OpSpecConstant %int 3",
        "OpDecorate %m SpecId 0",
        None,
        (4, 4, 1),
    ),
}


@needs_assembler
@pytest.mark.parametrize("compiles", [True, False], ids=["compiled", "wrapped"])
@pytest.mark.parametrize("shape", FOREIGN)
@pytest.mark.filterwarnings("ignore:<bytes> has the constant")
def test_modules_of_other_compilers(
    shape: str, compiles: bool, device: Any, tmp_path: Path
) -> None:
    mode, constants, decorations, default, block = FOREIGN[shape]
    spirv = assembled(mode, constants, f"OpDecorate %n SpecId 0\n{decorations}", tmp_path)
    tools = "--compiler=spirv-tools"  # newer validators refuse operators whose operands differ from the result in sign
    f = (
        devmod.compile(spirv, "vulkan -arch=vulkan1.3", name="k", options=tools)["k"]
        if compiles
        else wrapped(spirv)
    )
    if default is not None:
        check(f, default, words=1)
    else:
        text = refusal(devmod.LaunchError, f, np.zeros(1, "uint32"), grid=1, block=4)
        label = "local_size_x=…" if "quotient" not in shape else "**{'0': …}"
        assert text == UNSET.format(label)
    check(f.specialize(**{"0": 4}), block, words=1)


@needs_assembler
def test_constants_that_give_no_block(device: Any, tmp_path: Path) -> None:
    f = wrapped(
        assembled(
            f"{ID} %t %one %one",
            SPEC + "%t = OpSpecConstantOp %uint UDiv %n %two",
            "OpDecorate %n SpecId 0",
            tmp_path,
        )
    )
    for value in (0, 1):
        assert refusal(devmod.ArgumentError, f.specialize, **{"0": value}) == (
            "the vulkan function 'k' cannot be specialized: with these constants its block has no threads, or its size is an operation that "
            "devmod does not evaluate"
        )
    check(f, (3, 1, 1), words=1)


@needs_assembler
def test_two_types_of_one_id_are_refused(tmp_path: Path) -> None:
    decorations = 'OpDecorate %n SpecId 0\nOpDecorate %m SpecId 0\nOpName %m "m"'
    spirv = assembled(
        f"{ID} %n %one %one", SPEC + "%m = OpSpecConstant %float 6", decorations, tmp_path
    )
    text = (
        "has the specialization constant 'm' with the types float32 and uint32; expected one type"
    )
    assert (
        refusal(devmod.FormatError, wrapped, spirv)
        == f"the SPIR-V of the vulkan function 'k' {text}"
    )
    assert (
        refusal(devmod.CompileError, devmod.compile, spirv, "vulkan -arch=vulkan1.3", name="k")
        == f"the SPIR-V of <bytes> {text}"
    )
