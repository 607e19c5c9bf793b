"""The reader of SPIR-V: reflected entry points, and devmod's errors for damaged and untrusted
modules.
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import devmod
from devmod import Interface, Param
from devmod_readers.reflection import ReflectedShader, reflected_function
from devmod_readers.spirv import read_axes, read_module, read_samplings, reflect

pytestmark = pytest.mark.once  # bytes, which the reader reads itself

KERNELS = Path(__file__).parents[3] / "compilers" / "targets" / "tests" / "kernels" / "vulkan"
needs_assembler = pytest.mark.skipif(
    not shutil.which("spirv-as"), reason="spirv-tools is not installed"
)
needs_compiler = pytest.mark.skipif(
    not (shutil.which("glslangValidator") and shutil.which("spirv-opt")),
    reason="glslang-tools or spirv-tools is not installed",
)


def assemble(text: str, folder: Path, version: str = "1.3") -> bytes:
    (folder / "k.spvasm").write_text(text)
    command = ["spirv-as", "--target-env", f"spv{version}", "k.spvasm", "-o", "k.spv"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    return (folder / "k.spv").read_bytes()


def words(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4, "little") for number in numbers)


def op(opcode: int, *operands: int) -> tuple[int, ...]:
    return (len(operands) + 1 << 16 | opcode, *operands)


HEAD = (0x07230203, 0x00010300, 0, 1000, 0)
MAIN = int.from_bytes(b"main", "little")
#: A function 1 without a body.
VOID = (*op(54, 2, 1, 0, 3), *op(56))


def read(data: bytes, *, include_unused: bool = True) -> list[ReflectedShader]:
    return reflect(read_module(data), "k.spv", include_unused=include_unused)


def refused(data: bytes) -> str:
    with pytest.raises(devmod.FormatError) as caught:
        read(data)
    return str(caught.value)


def refused_source(data: bytes) -> str:
    with pytest.raises(devmod.CompileError) as caught:
        devmod.compile(data, "vulkan")
    return str(caught.value)


# -- heads


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "begins with 0x00000000; expected SPIR-V's magic number 0x07230203"),
        (
            b"#version 450\nvoid main() {}",
            "begins with 0x72657623; expected SPIR-V's magic number 0x07230203",
        ),
        (words(*HEAD)[:-4], "is truncated: it has 16 bytes; expected at least 20"),
        (words(*HEAD) + b"\x01", "is truncated: it has 21 bytes; expected a multiple of 4"),
        (
            words(0x03022307, 0x00000100, 0, 0, 0),
            "is big-endian; expected little-endian words. Swap the bytes of each word",
        ),
        (
            words(0x07230203, 0x00010700, 0, 1, 0),
            "has version 1.7; this devmod supports versions up to 1.6",
        ),
        (
            words(0x07230203, 0x00020000, 0, 1, 0),
            "has version 2.0; this devmod supports versions up to 1.6",
        ),
        (words(0x07230203, 0x12345678, 0, 1, 0), "has the invalid version word 0x12345678"),
        (words(*HEAD), "has no entry point"),
        (words(*HEAD, 0), "is truncated or damaged: the instruction at word 5 has the length 0"),
        (
            words(*HEAD, 5 << 16 | 17, 1),
            "is truncated or damaged: the instruction at word 5 has a length of 5 words, but only 2 words remain",
        ),
        (
            words(*HEAD, *op(71, 1)),
            "is damaged: the instruction 71 at word 5 has 1 operands; expected at least 2",
        ),
        (words(*HEAD, *op(5, 1, MAIN)), "is damaged: the string at word 5 has no end"),
        (words(*HEAD, *op(5, 1, 0xFF)), "is damaged: the string at word 5 is not UTF-8"),
        (words(*HEAD, *op(19, 1), *op(19, 1)), "is damaged: the id 1 at word 7 is defined twice"),
        (words(*HEAD, *op(54, 1, 2, 0, 3)), "is truncated: its last function has no end"),
        (
            words(*HEAD, *op(74, 1, 2)),
            "uses decoration groups, which devmod does not support; rewrite it with spirv-opt --flatten-decorations",
        ),
        (
            words(*HEAD, *op(15, 0, 1, MAIN, 0), *VOID),
            "has no compute shader: its entry 'main' is a vertex shader; expected a compute shader (GLCompute)",
        ),
        (
            words(*HEAD, *op(15, 6, 1, MAIN, 0), *VOID),
            "has no compute shader: its entry 'main' is an OpenCL kernel; expected a compute shader (GLCompute)",
        ),
        (
            words(*HEAD, *op(15, 5365, 1, MAIN, 0), *VOID),
            "has no compute shader: its entry 'main' is a mesh shader; expected a compute shader (GLCompute)",
        ),
        (
            words(*HEAD, *op(15, 77, 1, MAIN, 0), *VOID),
            "has no compute shader: its entry 'main' is of the execution model 77; expected a compute shader (GLCompute)",
        ),
        (words(*HEAD, *op(15, 5, 1, MAIN, 0)), "is truncated: the function 1 is missing"),
        (
            words(*HEAD, *op(15, 5, 1, MAIN, 0), *VOID),
            "has the entry 'main' without a valid workgroup size",
        ),
        (words(*HEAD, *op(15, 5, 1, MAIN, 0) * 1025), "has more than 1024 entry points"),
    ],
)
def test_modules_without_vulkan_compute_shaders_are_refused(data: bytes, said: str) -> None:
    assert refused(data) == said
    assert refused_source(data) == f"the SPIR-V of <bytes> {said}"


def test_two_entries_with_the_same_name_are_refused() -> None:
    entry = op(15, 5, 1, MAIN, 0)
    data = words(*HEAD, *entry, *entry, *op(16, 1, 17, 1, 1, 1), *VOID)
    assert refused_source(data) == "the SPIR-V of <bytes> has two compute entries named 'main'"


# -- what modules say

SEVERAL = """
OpCapability Shader
OpExtension "SPV_KHR_non_semantic_info"
%ext = OpExtInstImport "NonSemantic.ClspvReflection.1"
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %first "first"
OpEntryPoint GLCompute %second "main"
OpEntryPoint Vertex %third "third"
OpExecutionMode %first LocalSize 8 4 1
OpExecutionMode %second LocalSize 2 1 1
OpName %a "a"
OpName %b "b"
OpName %c "c"
OpDecorate %a Binding 0
OpDecorate %a DescriptorSet 0
OpDecorate %b Binding 1
OpDecorate %b DescriptorSet 0
OpDecorate %c Binding 2
OpDecorate %c DescriptorSet 0
OpDecorate %c NonWritable
OpDecorate %array ArrayStride 4
OpMemberDecorate %block 0 Offset 0
OpDecorate %block Block
%void = OpTypeVoid
%function = OpTypeFunction %void
%uint = OpTypeInt 32 0
%zero = OpConstant %uint 0
%float = OpTypeFloat 32
%array = OpTypeRuntimeArray %float
%block = OpTypeStruct %array
%pointer = OpTypePointer StorageBuffer %block
%element = OpTypePointer StorageBuffer %float
%a = OpVariable %pointer StorageBuffer
%b = OpVariable %pointer StorageBuffer
%c = OpVariable %pointer StorageBuffer
%inner = OpFunction %void None %function
%l0 = OpLabel
%p0 = OpAccessChain %element %b %zero %zero
%v0 = OpLoad %float %p0
OpReturn
OpFunctionEnd
%first = OpFunction %void None %function
%l1 = OpLabel
%p1 = OpAccessChain %element %a %zero %zero
%v1 = OpLoad %float %p1
%r1 = OpFunctionCall %void %inner
OpReturn
OpFunctionEnd
%second = OpFunction %void None %function
%l2 = OpLabel
%n2 = OpArrayLength %uint %c 0
OpReturn
OpFunctionEnd
%third = OpFunction %void None %function
%l3 = OpLabel
OpReturn
OpFunctionEnd
"""


@needs_assembler
@pytest.mark.row("R12")
def test_each_of_several_entries_has_the_variables_that_it_uses(tmp_path: Path) -> None:
    (tmp_path / "both.spv").write_bytes(assemble(SEVERAL, tmp_path))
    module = devmod.compile(tmp_path / "both.spv", "vulkan")
    assert {name: (info.name, info.interface) for name, info in module.functions.items()} == {
        "first": (
            "first",
            Interface(
                [
                    Param("a", "buffer", "float32", "rw", (0, 0)),
                    Param("b", "buffer", "float32", "rw", (0, 1)),
                ],
                block=(8, 4, 1),
            ),
        ),
        "both": (
            "main",
            Interface([Param("c", "buffer", "float32", "r", (0, 2))], block=(2, 1, 1)),
        ),
    }
    code = module.code  # type: ignore[attr-defined]
    assert list(code) == ["first", "both"]
    assert code["first"] == code["both"]  # the runtime compiles them once
    assert (
        module.inspect_source().count("OpMemoryModel") == 1 if shutil.which("spirv-dis") else True
    )


@needs_assembler
def test_main_keeps_its_name_where_another_entry_is_called_as_the_file(tmp_path: Path) -> None:
    (tmp_path / "first.spv").write_bytes(assemble(SEVERAL, tmp_path))
    assert list(devmod.compile(tmp_path / "first.spv", "vulkan").functions) == ["first", "main"]


@needs_assembler
@pytest.mark.parametrize(
    ("marks", "access"),
    [
        ("NonReadable", "w"),
        ("NonWritable", "r"),
        ("NonReadable NonWritable", "r"),
        ("Restrict", "rw"),
    ],
)
def test_decorations_of_a_variable_apply_like_those_of_its_members(
    marks: str, access: str, tmp_path: Path
) -> None:
    body = f"%block = OpTypeStruct %float\n{STORAGE}"
    for place in ("OpDecorate %v", "OpMemberDecorate %block 0"):
        (shader,) = read(
            assemble(
                one(
                    body, decorations=BOUND + "".join(f"{place} {mark}\n" for mark in marks.split())
                ),
                tmp_path,
            )
        )
        assert reflected_function("vulkan", shader).params == (
            Param("v", "buffer", "float32", access, (0, 0), size=4),
        )


def one(
    body: str, *, decorations: str = "", mode: str = "LocalSize 1 1 1", constants: str = ""
) -> str:
    """Return an entry point with one variable %v of the type %pointer from `body`."""
    return f"""
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main"
OpExecutionMode{"Id" if "LocalSizeId" in mode else ""} %main {mode}
OpName %v "v"
{decorations}
%void = OpTypeVoid
%function = OpTypeFunction %void
%uint = OpTypeInt 32 0
%float = OpTypeFloat 32
%four = OpConstant %uint 4
{constants}
{body}
%main = OpFunction %void None %function
%label = OpLabel
OpReturn
OpFunctionEnd
"""


BOUND = "OpDecorate %v Binding 0\nOpDecorate %v DescriptorSet 0\nOpMemberDecorate %block 0 Offset 0\nOpDecorate %block Block\n"
STORAGE = "%pointer = OpTypePointer StorageBuffer %block\n%v = OpVariable %pointer StorageBuffer"


@needs_assembler
@pytest.mark.parametrize(
    ("body", "decorations", "said"),
    [
        (
            f"%block = OpTypeStruct %float\n{STORAGE}",
            BOUND.replace("OpDecorate %v Binding 0", ""),
            "has the variable 'v' without a binding; add layout(set = 0, binding = N)",
        ),
        (
            f"%block = OpTypeStruct %float\n{STORAGE}",
            BOUND.replace("OpMemberDecorate %block 0 Offset 0", ""),
            "has a block of memory whose members have no offsets; expected Offset",
        ),
        (
            f"%array = OpTypeRuntimeArray %float\n%block = OpTypeStruct %array\n{STORAGE}",
            BOUND,
            "has an array without a stride in a block of memory; expected ArrayStride",
        ),
        (
            f"%four4 = OpTypeVector %float 4\n%m = OpTypeMatrix %four4 4\n%block = OpTypeStruct %m\n{STORAGE}",
            BOUND,
            "has a matrix without a stride in a block of memory; expected MatrixStride",
        ),
        (
            f"%bool = OpTypeBool\n%block = OpTypeStruct %bool\n{STORAGE}",
            BOUND,
            "has a bool in a block of memory, where that type has no layout",
        ),
        (
            f"%odd = OpTypeInt 24 0\n%block = OpTypeStruct %odd\n{STORAGE}",
            BOUND,
            "has a number of 24 bits in an encoding that devmod does not support",
        ),
        (f"%block = OpTypeStruct\n{STORAGE}", BOUND, ""),
        (
            "%pointer = OpTypePointer StorageBuffer %float\n%v = OpVariable %pointer StorageBuffer",
            "OpDecorate %v Binding 0",
            "is damaged: the type",
        ),
        (
            "%v = OpVariable %uint StorageBuffer",
            "OpDecorate %v Binding 0",
            "is damaged: a variable has the type",
        ),
        (
            "%pointer = OpTypePointer AtomicCounter %uint\n%v = OpVariable %pointer AtomicCounter",
            "",
            "has an atomic counter, which Vulkan does not support; use an atomic operation on a buffer",
        ),
        (
            "%t = OpTypeAccelerationStructureKHR\n%pointer = OpTypePointer UniformConstant %t\n%v = OpVariable %pointer UniformConstant",
            "OpDecorate %v Binding 0",
            "has the variable 'v', an acceleration structure (for ray queries), which devmod does not support",
        ),
        (
            "%array = OpTypeRuntimeArray %float\n%block = OpTypeStruct %array\n%pointer = OpTypePointer Uniform %block\n%v = OpVariable %pointer Uniform",
            BOUND + "OpDecorate %array ArrayStride 16",
            "has a runtime array in a uniform or push-constant block; expected a fixed size",
        ),
        (
            f"%array = OpTypeRuntimeArray %float\n%block = OpTypeStruct %array %float\n{STORAGE}",
            BOUND + "OpDecorate %array ArrayStride 4\nOpMemberDecorate %block 1 Offset 64",
            "is damaged: it has a runtime array that is not the last member of its struct",
        ),
        (
            f"%big = OpConstant %uint 4294967295\n%array = OpTypeArray %float %big\n%block = OpTypeStruct %array\n{STORAGE}",
            BOUND + "OpDecorate %array ArrayStride 4294967295",
            "has a block of more than 2**62 bytes",
        ),
    ],
)
def test_unsupported_blocks_are_refused(
    body: str, decorations: str, said: str, tmp_path: Path
) -> None:
    data = assemble(one(body, decorations=decorations), tmp_path)
    if said:
        assert refused(data).startswith(said)
    else:  # a block of nothing is an argument like another
        (shader,) = read(data)
        assert reflected_function("vulkan", shader).params == (
            Param("v", "buffer", "", "rw", (0, 0)),
        )


@needs_assembler
@pytest.mark.parametrize(
    ("mode", "constants", "decorations", "block", "sources"),
    [
        ("LocalSizeId %four %four %four", "", "", (4, 4, 4), ()),
        (
            "LocalSizeId %s %four %t",
            "%s = OpSpecConstant %uint 6\n%t = OpSpecConstantOp %uint IMul %s %four",
            "OpDecorate %s SpecId 3",
            (6, 4, 24),
            (0, -1, (0,)),
        ),
        (
            "LocalSizeId %t %four %t",
            "%s = OpSpecConstant %uint 6\n%r = OpSpecConstant %uint 2\n%t = OpSpecConstantOp %uint UDiv %s %r",
            "OpDecorate %s SpecId 3\nOpDecorate %r SpecId 1",
            (3, 4, 3),
            ((0, 1), -1, (0, 1)),
        ),
        (
            "LocalSizeId %t %four %four",
            "%s = OpSpecConstant %uint 6\n%t = OpSpecConstantOp %uint UDiv %s %z\n%z = OpConstant %uint 0",
            "OpDecorate %s SpecId 3",
            None,
            ((0,), -1, -1),
        ),
        (
            "LocalSizeId %t %four %four",
            "%bool = OpTypeBool\n%s = OpSpecConstantTrue %bool\n%n = OpSpecConstantOp %bool LogicalNot %s\n%six = OpConstant %uint 6\n%more = OpSpecConstantOp %bool ULessThan %four %six\n%both = OpSpecConstantOp %bool LogicalAnd %n %more\n%t = OpSpecConstantOp %uint Select %both %four %six",
            "OpDecorate %s SpecId 3",
            (6, 4, 4),
            ((0,), -1, -1),
        ),
        (
            "LocalSize 1 1 1",
            "%v3 = OpTypeVector %uint 3\n%size = OpConstantComposite %v3 %four %four %four",
            "OpDecorate %size BuiltIn WorkgroupSize",
            (4, 4, 4),
            (),
        ),
    ],
)
def test_where_a_workgroup_gets_its_size(
    mode: str,
    constants: str,
    decorations: str,
    block: object,
    sources: tuple[object, ...],
    tmp_path: Path,
) -> None:
    data = assemble(
        one("", decorations=decorations, mode=mode, constants=constants), tmp_path, "1.6"
    )
    (shader,) = read(data)
    assert shader.block == block
    assert (
        tuple(source for source in shader.block_constants if shader.block_constants != (-1, -1, -1))
        == sources
    )


@needs_assembler
@pytest.mark.parametrize(
    ("worked", "size"),
    [
        ("SDiv %minus %two", -3),
        ("SRem %minus %two", -1),
        ("SMod %minus %two", 1),
        ("SNegate %minus", 7),
        ("Not %minus", 6),
        ("ShiftRightArithmetic %minus %two", -2),
        ("ShiftLeftLogical %two %two", 8),
        ("BitwiseXor %two %three", 1),
        # The instruction determines whether its operands are signed.
        ("UDiv %minus %many", 21),
        ("UMod %minus %many", 94_967_289),
        ("ShiftRightLogical %minus %most", 1),
        ("ShiftRightArithmetic %big %most", -1),
        ("SDiv %big %two", -1),
        ("SRem %big %three", -2),
        ("Select %less %one %two", 1),
        ("Select %signed_less %one %two", 2),
        ("Select %same %one %two", 1),
        ("SDiv %two %none", None),
        ("SDiv %least %all", None),
        ("ShiftLeftLogical %two %width", None),
        ("SConvert %small", -2),
        ("UConvert %small", 65534),
        ("SConvert %wide", -2),
        ("UConvert %wide", 65534),
    ],
)
def test_operations_on_constants_are_evaluated(
    worked: str, size: int | None, tmp_path: Path
) -> None:
    numbers = "\n".join(
        f"%{name} = OpConstant %{'uint' if value > 9 else 'int'} {value}"
        for name, value in {
            "minus": -7,
            "one": 1,
            "two": 2,
            "three": 3,
            "none": 0,
            "ten": 10,
            "many": 200_000_000,
            "most": 31,
            "width": 32,
            "big": 2**32 - 2,
            "all": 2**32 - 1,
            "least": -(2**31),
        }.items()
    )
    numbers += "\n%bool = OpTypeBool\n%less = OpSpecConstantOp %bool ULessThan %two %minus"
    numbers += "\n%signed_less = OpSpecConstantOp %bool SLessThan %two %big\n%same = OpSpecConstantOp %bool IEqual %big %minus_two"
    numbers += "\n%short = OpTypeInt 16 1\n%small = OpConstant %short -2\n%ushort = OpTypeInt 16 0\n%wide = OpConstant %ushort 65534"
    constants = f"%int = OpTypeInt 32 1\n%minus_two = OpConstant %int -2\n{numbers}\n%made = OpSpecConstantOp %int {worked}\n%t = OpSpecConstantOp %int IAdd %made %ten"
    data = assemble(
        one("", mode="LocalSizeId %t %four %four", constants=constants), tmp_path, "1.6"
    )
    if size is None:
        assert (
            refused(data)
            == "has the entry 'main' with a workgroup size that devmod does not evaluate"
        )
    else:
        assert read(data)[0].block == (size + 10, 4, 4)


@needs_assembler
def test_a_workgroup_size_that_is_computed_as_a_vector(tmp_path: Path) -> None:
    constants = "%v3 = OpTypeVector %uint 3\n%all = OpConstantComposite %v3 %four %four %four\n%size = OpSpecConstantOp %v3 IAdd %all %all"
    data = assemble(
        one("", decorations="OpDecorate %size BuiltIn WorkgroupSize", constants=constants), tmp_path
    )
    assert re.fullmatch(
        r"has the workgroup size %\d+, which devmod does not evaluate; expected a composite",
        refused(data),
    )


@needs_assembler
def test_a_workgroup_of_no_threads(tmp_path: Path) -> None:
    data = assemble(
        one("", mode="LocalSizeId %four %zero %four", constants="%zero = OpConstant %uint 0"),
        tmp_path,
        "1.6",
    )
    assert refused(data) == "has the entry 'main' with a workgroup size of (4, 0, 4)"


UNIFORM = STORAGE.replace("StorageBuffer", "Uniform")


def nested(depth: int, count: int = 1, size: int = 4) -> tuple[str, str]:
    """Return the types and decorations of a block with `depth` structs, each of `count` members of
    the struct in it.
    """
    names = ["%float", *(f"%s{number}" for number in range(depth - 1)), "%block"]
    types = "\n".join(
        f"{name} = OpTypeStruct {' '.join([inner] * count)}"
        for inner, name in itertools.pairwise(names)
    )
    offsets = [
        f"OpMemberDecorate {name} {number} Offset {number * size}"
        for name in names[1:]
        for number in range(count)
    ]
    return f"{types}\n{UNIFORM}", "\n".join(
        [*BOUND.split("\n")[:2], "OpDecorate %block Block", *offsets]
    )


@needs_assembler
@pytest.mark.parametrize(
    ("depth", "count", "size", "described"),
    [
        (8, 1, 4, True),
        (9, 1, 4, False),  # nested too deeply
        (4, 3, 0, False),  # members at one place
        (8, 3, 4, False),  # more than 1024 members, which overlap
    ],
)
def test_a_block_with_no_plain_layout_has_no_members(
    depth: int, count: int, size: int, described: bool, tmp_path: Path
) -> None:
    body, decorations = nested(depth, count, size)
    (shader,) = read(assemble(one(body, decorations=decorations), tmp_path))
    (param,) = reflected_function("vulkan", shader).params
    assert (param.kind, param.type) == ("uniform", f"uint8x{shader.resources[0].size}")
    assert bool(param.members) is described


@needs_assembler
def test_a_struct_that_contains_itself_is_refused(tmp_path: Path) -> None:
    text = one(
        f"%block = OpTypeStruct %float %float\n{STORAGE}",
        decorations=BOUND + "OpMemberDecorate %block 1 Offset 4",
    )
    data = assemble(text, tmp_path)
    # Every member of the struct is made the struct itself.
    at = next(
        i
        for i in range(20, len(data), 4)
        if data[i : i + 4] == (4 << 16 | 30).to_bytes(4, "little")
    )
    own = data[at + 4 : at + 8]
    assert (
        refused(data[: at + 8] + own * 2 + data[at + 16 :])
        == "has a block of memory that contains itself"
    )
    body, decorations = nested(33)
    deep = assemble(one(body, decorations=decorations), tmp_path)
    assert refused(deep) == "has a block of memory that is nested more than 32 levels deep"


# -- images


def image_module(
    *image: int,
    sampled: tuple[int, ...] = (22, 10, 32),
    combined: bool = False,
    rest: tuple[int, ...] = (),
    body: tuple[int, ...] = (),
) -> bytes:
    """Return a module with one image: the operands of its type are the dimension, depth, arrayed,
    multisampled, sampled and format.
    """
    entry = (
        *op(15, 5, 1, MAIN, 0),
        *op(16, 1, 17, 1, 1, 1),
        *op(5, 13, int.from_bytes(b"pic", "little")),
        *op(71, 13, 33, 4),
    )
    types = (*op(*sampled), *op(25, 11, 10, *image), *op(27, 14, 11), *rest)
    function = (*op(54, 2, 1, 0, 3), *body, *op(56))
    return words(
        *HEAD, *entry, *types, *op(32, 12, 0, 14 if combined else 11), *op(59, 12, 13, 0), *function
    )


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (image_module(0, 0, 0, 0, 1, 0), "pic: image 1d float r"),
        (image_module(0, 0, 1, 0, 1, 0), "pic: image 1d_array float r"),
        (image_module(1, 2, 1, 0, 1, 0), "pic: image 2d_array float r"),
        (
            image_module(2, 0, 0, 0, 1, 0, combined=True),
            "pic: image 3d float r, pic_sampler: sampler",
        ),
        (image_module(1, 0, 0, 0, 2, 4), "pic: image 2d rgba8unorm rw"),
        (image_module(1, 0, 0, 0, 2, 0), "pic: image 2d float rw"),
        (image_module(1, 0, 0, 0, 2, 24, sampled=(21, 10, 32, 1)), "pic: image 2d r32sint rw"),
        (image_module(1, 0, 0, 0, 1, 0, sampled=(21, 10, 32, 0)), "pic: image 2d uint r"),
    ],
)
def test_images(data: bytes, text: str) -> None:
    (shader,) = read(data)
    assert repr(Interface(reflected_function("vulkan", shader).params)) == f"<Interface ({text})>"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            image_module(3, 0, 0, 0, 1, 0),
            "a cube map, which devmod does not support; use a 2-D image with 6 layers",
        ),
        (image_module(4, 0, 0, 0, 1, 0), "a rectangle image, which Vulkan does not support"),
        (
            image_module(5, 0, 0, 0, 2, 3),
            "a texel buffer (samplerBuffer, imageBuffer), which devmod does not support; use a buffer",
        ),
        (image_module(6, 0, 0, 0, 2, 0), "a subpass input, which compute shaders do not have"),
        (
            image_module(9, 0, 0, 0, 1, 0),
            "an image of the dimension 9, which devmod does not support",
        ),
        (image_module(1, 0, 0, 1, 1, 0), "a multisampled image, which devmod does not support"),
        (
            image_module(1, 1, 0, 0, 1, 0),
            "an image for depth comparison, which devmod does not support; compare in the shader",
        ),
        (
            image_module(1, 0, 0, 0, 2, 8),
            "an image of the format r11f_g11f_b10f, which devmod does not support",
        ),
        (
            image_module(1, 0, 0, 0, 2, 99),
            "an image of the format 99, which devmod does not support",
        ),
        (
            image_module(1, 0, 0, 0, 2, 41, sampled=(21, 10, 64, 1)),
            "an image of the format r64i, which devmod does not support",
        ),
        (
            image_module(1, 0, 0, 0, 1, 0, sampled=(22, 10, 16)),
            "an image whose texels are no 32-bit numbers, which devmod does not support",
        ),
    ],
)
def test_images_that_are_not_supported(data: bytes, text: str) -> None:
    assert refused(data) == f"has the variable 'pic', {text}"


@pytest.mark.parametrize(
    "data",
    [
        image_module(1, 0, 0, 0, 0, 0),  # OpenCL's, known when the kernel runs
        image_module(1, 0, 0, 0, 3, 0),
        image_module(1, 0, 0, 0, 2, 0, combined=True),
        image_module(2, 0, 1, 0, 1, 0),
    ],
)
def test_types_of_images_that_vulkan_does_not_have(data: bytes) -> None:
    assert refused(data) == "is damaged: the type of the image 'pic' is invalid"


@pytest.mark.parametrize("opcode", [89, 90, 93, 94, 97])
def test_depth_comparisons_of_an_image_that_does_not_say_so(opcode: int) -> None:
    """dxc leaves it open in the image's type."""
    data = image_module(1, 2, 0, 0, 1, 0, combined=True, body=op(opcode, 10, 20, 21, 22, 23))
    assert (
        refused(data)
        == "samples an image by depth comparison, which devmod does not support; compare in the shader"
    )


def test_pairs_of_images_and_samplers() -> None:
    sampler = (*op(26, 15), *op(32, 16, 0, 15), *op(59, 16, 17, 0), *op(71, 17, 33, 9))
    loaded = (
        *op(61, 11, 20, 13),
        *op(83, 11, 21, 20),
        *op(61, 15, 22, 17),
        *op(86, 14, 23, 21, 22),
    )
    place, sampler_place = (0, 4), (0, 9)
    for instructions, expected in (
        (op(88, 10, 24, 23, 30, 2, 31), {(place, sampler_place): False}),
        (op(88, 10, 24, 23, 30, 2 | 8, 31, 32), {(place, sampler_place): True}),
        (op(87, 10, 24, 23, 30), {(place, sampler_place): True}),
        (op(91, 10, 24, 23, 30), {(place, sampler_place): True}),
        (op(92, 10, 24, 23, 30, 2, 31), {(place, sampler_place): True}),
        (op(96, 10, 24, 23, 30, 31), {(place, sampler_place): False}),
        (
            (*op(96, 10, 24, 23, 30, 31), *op(92, 10, 25, 23, 30, 2, 31)),
            {(place, sampler_place): True},
        ),
        (op(88, 10, 24, 99, 30, 2, 31), {}),  # an id that is no image
        (op(87, 10), {}),
        ((), {}),
    ):
        data = image_module(1, 0, 0, 0, 1, 0, rest=sampler, body=(*loaded, *instructions))
        assert read_samplings(read_module(data)) == expected


def test_a_place_that_is_read_without_an_axis_has_one_dimension() -> None:
    place = (*op(71, 13, 11, 28), *op(59, 12, 13, 1))
    entry = op(15, 5, 1, MAIN, 0, 13)
    body = (*op(54, 2, 1, 0, 3), *op(65, 12, 20, 13), *op(56))
    assert read_axes(read_module(words(*HEAD, *entry, *place, *body))) == 1


# -- damage


@pytest.fixture(scope="module")
def modules() -> list[bytes]:
    """Return the SPIR-V of the test's shaders, compiled by glslang."""
    found = []
    for name in ("blocks.comp", "images.comp", "constants.comp", "widths.comp", "scan.hlsl"):
        # glslang's HLSL for SPIR-V over 1.3 is not valid.
        for target in ("vulkan",) if name == "scan.hlsl" else ("vulkan", "vulkan -arch=vulkan1.3"):
            code = devmod.compile(KERNELS / name, target, options=["-O0"]).code  # type: ignore[attr-defined]
            found += [bytes(value[12:]) for value in code.values()]
    return found


@needs_compiler
def test_a_truncated_module_is_a_devmod_error(modules: list[bytes]) -> None:
    for data in modules[:2]:
        for end in range(0, len(data), 4):
            with pytest.raises(devmod.FormatError):
                read(data[:end])


@needs_compiler
def test_entry_points_are_immutable(modules: list[bytes]) -> None:
    """Entry points share their blocks, which are read once."""
    shaders = {shader for data in modules for shader in read(data)}
    assert any(shader.push for shader in shaders)
