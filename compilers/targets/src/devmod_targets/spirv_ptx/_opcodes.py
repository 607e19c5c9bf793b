"""The names of instructions in errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devmod_readers.spirv import SpirvInstruction

_FROM = {
    1: "Undef",
    56: """
FunctionEnd FunctionCall Reserved Variable ImageTexelPointer Load Store CopyMemory CopyMemorySized
AccessChain InBoundsAccessChain PtrAccessChain ArrayLength GenericPtrMemSemantics
InBoundsPtrAccessChain
""",
    77: """
VectorExtractDynamic VectorInsertDynamic VectorShuffle CompositeConstruct CompositeExtract
CompositeInsert CopyObject Transpose Reserved SampledImage ImageSampleImplicitLod
ImageSampleExplicitLod ImageSampleDrefImplicitLod ImageSampleDrefExplicitLod
ImageSampleProjImplicitLod ImageSampleProjExplicitLod ImageSampleProjDrefImplicitLod
ImageSampleProjDrefExplicitLod ImageFetch ImageGather ImageDrefGather ImageRead ImageWrite Image
ImageQueryFormat ImageQueryOrder ImageQuerySizeLod ImageQuerySize ImageQueryLod ImageQueryLevels
ImageQuerySamples
""",
    109: """
ConvertFToU ConvertFToS ConvertSToF ConvertUToF UConvert SConvert FConvert QuantizeToF16
ConvertPtrToU SatConvertSToU SatConvertUToS ConvertUToPtr PtrCastToGeneric GenericCastToPtr
GenericCastToPtrExplicit Bitcast
""",
    126: """
SNegate FNegate IAdd FAdd ISub FSub IMul FMul UDiv SDiv FDiv UMod SRem SMod FRem FMod
VectorTimesScalar MatrixTimesScalar VectorTimesMatrix MatrixTimesVector MatrixTimesMatrix
OuterProduct Dot IAddCarry ISubBorrow UMulExtended SMulExtended
""",
    154: """
Any All IsNan IsInf IsFinite IsNormal SignBitSet LessOrGreater Ordered Unordered LogicalEqual
LogicalNotEqual LogicalOr LogicalAnd LogicalNot Select IEqual INotEqual UGreaterThan SGreaterThan
UGreaterThanEqual SGreaterThanEqual ULessThan SLessThan ULessThanEqual SLessThanEqual FOrdEqual
FUnordEqual FOrdNotEqual FUnordNotEqual FOrdLessThan FUnordLessThan FOrdGreaterThan
FUnordGreaterThan FOrdLessThanEqual FUnordLessThanEqual FOrdGreaterThanEqual FUnordGreaterThanEqual
""",
    194: """
ShiftRightLogical ShiftRightArithmetic ShiftLeftLogical BitwiseOr BitwiseXor BitwiseAnd Not
BitFieldInsert BitFieldSExtract BitFieldUExtract BitReverse BitCount
""",
    224: """
ControlBarrier MemoryBarrier Reserved AtomicLoad AtomicStore AtomicExchange AtomicCompareExchange
AtomicCompareExchangeWeak AtomicIIncrement AtomicIDecrement AtomicIAdd AtomicISub AtomicSMin
AtomicUMin AtomicSMax AtomicUMax AtomicAnd AtomicOr AtomicXor
""",
    245: """
Phi LoopMerge SelectionMerge Label Branch BranchConditional Switch Kill Return ReturnValue
Unreachable
""",
    333: """
GroupNonUniformElect GroupNonUniformAll GroupNonUniformAny GroupNonUniformAllEqual
GroupNonUniformBroadcast GroupNonUniformBroadcastFirst GroupNonUniformBallot
GroupNonUniformInverseBallot GroupNonUniformBallotBitExtract GroupNonUniformBallotBitCount
GroupNonUniformBallotFindLSB GroupNonUniformBallotFindMSB GroupNonUniformShuffle
GroupNonUniformShuffleXor GroupNonUniformShuffleUp GroupNonUniformShuffleDown GroupNonUniformIAdd
GroupNonUniformFAdd GroupNonUniformIMul GroupNonUniformFMul GroupNonUniformSMin GroupNonUniformUMin
GroupNonUniformFMin GroupNonUniformSMax GroupNonUniformUMax GroupNonUniformFMax
GroupNonUniformBitwiseAnd GroupNonUniformBitwiseOr GroupNonUniformBitwiseXor
GroupNonUniformLogicalAnd GroupNonUniformLogicalOr GroupNonUniformLogicalXor
GroupNonUniformQuadBroadcast GroupNonUniformQuadSwap
""",
    4428: "SubgroupAllKHR SubgroupAnyKHR SubgroupAllEqualKHR",
    4450: "SDot UDot SUDot SDotAccSat UDotAccSat SUDotAccSat",
    4456: """
TypeCooperativeMatrixKHR CooperativeMatrixLoadKHR CooperativeMatrixStoreKHR
CooperativeMatrixMulAddKHR CooperativeMatrixLengthKHR
""",
    5056: "ReadClockKHR",
    5614: "AtomicFMinEXT AtomicFMaxEXT",
    6035: "AtomicFAddEXT",
}
_NAMES: dict[int, str] = {}
for _first, _names in _FROM.items():
    for _number, _name in enumerate(_names.split(), _first):
        _NAMES[_number] = f"Op{_name}"


def opcode_name(instruction: SpirvInstruction) -> str:
    """Return the name of an instruction."""
    return _NAMES.get(instruction.opcode, f"the instruction {instruction.opcode}")
