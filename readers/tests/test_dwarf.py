"""Signatures in debug information: those of two versions of DWARF equal those that libclang reads in the source."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from backend_checks import check_error

import devmod
from devmod_readers.dwarf import read_functions
from devmod_readers.reflection import ReflectedFunction
from devmod_targets.authoring import merge_declared
from devmod_targets.hexagon.compile import described_functions, exported_functions

FOLDER = Path(__file__).parent / "vectors/dwarf"
VERSIONS = ("version2.so", "version5.so")
#: The functions that devmod can call. Debug information has no length of a parameter that is an array.
SOURCE = (FOLDER / "kernels.cpp").read_text().replace("void odd(_Complex float z) {}\n", "").replace("int grid[4]", "int *grid")
SCALE = "_ZN7filters5scaleERKNS_4PairEDv4_fNS_4ModeEbcPhS0_PKPS1_"


def functions(name: str) -> dict[str, ReflectedFunction]:
    code = (FOLDER / name).read_bytes()
    return described_functions(code, exported_functions(code))


@pytest.mark.parametrize("name", VERSIONS)
def test_signatures(name: str) -> None:
    from devmod.targets.hexagon import SPEC

    infos = merge_declared(SPEC, functions(name), None)  # without `odd`, whose argument has no type here
    assert [f"{key} {info}" for key, info in infos.items()] == [
        "filters::at<float> <FunctionInfo _ZN7filters2atIfEET_PKS1_i(p: float32* r, n: int32) -> float32>",
        f"{SCALE} <FunctionInfo {SCALE}(pair: {{x: float32, y: float32}}* r, four: float32x4, mode: int16, on: bool, c: uint8, bytes: uint8* rw, "
        "by_value: {x: float32, y: float32}, none: void* r)>",
        "filters::scale(long long, double) <FunctionInfo _ZN7filters5scaleExd(l: int64, d: float64)>",
        "filters::derived <FunctionInfo _ZN7filters7derivedENS_7DerivedE(d: uint8x8)>",
        "total <FunctionInfo total(p: int32* r) -> int32>",
        "structs <FunctionInfo structs(packed: {a: uint8, b: int32}, nested: {parts: {a: uint8, b: int32}[3], matrix: float32[2]…, "
        "bits: uint8x4, aligned: {n: int32}, unknown: void* rw, grid: int32* rw)>",
    ]
    compiled = devmod.compile(SOURCE, "hexagon -arch=v66", language="C++")
    assert dict(compiled.functions) == infos


@pytest.mark.parametrize("name", VERSIONS)
def test_damaged_debug_information_is_an_error(name: str) -> None:
    code = bytearray((FOLDER / name).read_bytes())
    table, size, count = struct.unpack_from("<I", code, 32)[0], 40, struct.unpack_from("<H", code, 48)[0]
    sections = [struct.unpack_from("<10I", code, table + size * number) for number in range(count)]
    names = sections[struct.unpack_from("<H", code, 50)[0]][4]
    info = next(each for each in sections if code[names + each[0] :].startswith(b".debug_info\0"))
    start = info[4]

    def change(offset: int, layout: str, value: int) -> bytes:
        damaged = code[:]
        struct.pack_into(layout, damaged, start + offset, value)
        return bytes(damaged)

    symbols = exported_functions(bytes(code))
    for data, reason in (
        (change(0, "<I", 1 << 20), "ValueError: a unit ends outside its section"),
        (change(0, "<I", 0xFFFFFFFF), "ValueError: a unit of 64-bit DWARF"),
        (change(4, "<H", 9), "ValueError: version 9 of DWARF"),
        (change(11 + (name == "version5.so"), "<B", 0x70), "KeyError: 112"),
        (bytes(code[:-200]), "ValueError: its table of sections is outside of the file"),
        (b"MZ" + bytes(code[2:]), "ValueError: the file is not a little-endian ELF file"),
    ):
        with pytest.raises(devmod.FormatError) as caught:
            read_functions(data, symbols)
        assert str(caught.value).startswith(f"the debug information is damaged: {reason}")


def test_an_object_has_signatures(tmp_path: Path) -> None:
    from devmod_targets.authoring.clang_build import find_toolchain
    from devmod_targets.hexagon.compile import SPEC

    source = "struct T { int a, b, c; };\nstruct T three(int a) { struct T t = {a, a, a}; return t; }\nint *place(int *x) { return x; }\n"
    (tmp_path / "k.c").write_text(source + "void set(float *x, int n) { x[n] = 1; }\nint get(const short *x) { return *x; }\n")
    flags = ["-target", "hexagon-unknown-none-elf", "-fPIC", "-O2", "-g", "-c", "k.c", "-o"]
    toolchain = find_toolchain(SPEC, "C")
    for arch in ("v66", "v68"):
        assert toolchain.clang([*flags, f"{arch}.o", f"-m{arch}"], str(tmp_path), "hexagon") == (0, "")
    path = tmp_path / "v66.o"
    module = devmod.compile(path, "hexagon -arch=v66")
    assert [str(info) for info in module.functions.values()] == [
        "<FunctionInfo set(x: float32* rw, n: int32)>",
        "<FunctionInfo get(x: int16* r) -> int32>",
    ]
    assert module.source == {"obj": path.read_bytes()}
    assert b".debug_info" not in bytes(module.code)  # type: ignore[arg-type]
    declared = devmod.compile(path, "hexagon -arch=v66", fmap={"put": devmod.FunctionInfo("set", ["handle", "int32"])})
    assert list(declared.functions) == ["put", "get"]
    check_error(
        devmod.CompileError,
        lambda: devmod.compile(tmp_path / "v68.o", "hexagon -arch=v66"),
        "the object source v68.o is for v68, which does not run on v66; write 'hexagon -arch=v68'",
    )
    check_error(
        devmod.CompileError,
        lambda: devmod.compile(bytes(module.code), "hexagon -arch=v66", language="object"),  # type: ignore[arg-type]
        "the object <bytes> is not a relocatable object for Hexagon: expected the output of clang -c -target hexagon",
    )
