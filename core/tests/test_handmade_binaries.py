"""The variant of a payload, read from headers that a test makes: each field, and each bound."""

from __future__ import annotations

import struct

import pytest

from devmod._plugins.specs import find_spec

pytestmark = pytest.mark.once  # bytes and texts, which core reads itself

CUDA, HEXAGON, AMDGPU = 190, 164, 224


def variant(kind: str, fmt: str, code: bytes) -> str:
    spec = find_spec(kind)
    assert spec is not None
    assert spec.architecture is not None
    return spec.architecture(fmt, code)


def rank(kind: str, payload: str, device: str) -> int | None:
    spec = find_spec(kind)
    assert spec is not None
    assert spec.rank is not None
    return spec.rank(payload, device)


def elf(
    machine: int,
    flags: int,
    *,
    wide: bool = True,
    osabi: int = 0,
    abi: int = 0,
    table: int = 0,
    step: int = 64,
    count: int = 0,
    names: int = 0,
) -> bytes:
    """Return the header of an ELF file."""
    ident = bytes((0x7F, *b"ELF", 1 + wide, 1, 1, osabi, abi)).ljust(16, b"\0")
    sizes = (52, 0, 0, step, count, names)
    if wide:
        return struct.pack("<16sHHIQQQI6H", ident, 3, machine, 1, 5, 6, table, flags, *sizes)
    return struct.pack("<16sHHIIIII6H", ident, 3, machine, 1, 5, 6, table, flags, *sizes)


NAMES = b"\0.x.nv.compat\0.nv.compat2\0.nv.compat\0.text\0"


def section(name: bytes, offset: int, size: int, beyond: int = 0) -> bytes:
    """Return the header of a section. The place of its name has so many bytes more."""
    at = NAMES.index(b"\0" + name + b"\0") + 1 + beyond
    return struct.pack("<IIQQQQIIQQ", at, 1, 7, 7, offset, size, 7, 7, 7, 7)


def cubin(compat: bytes, **changes: int) -> bytes:
    """Return a cubin for sm_100 with the section .nv.compat behind others. The table of sections is
    at its end.
    """
    body = compat + NAMES
    table = 64 + len(body)
    rows = [
        section(b".x.nv.compat", 0, 4),
        section(b".nv.compat2", 0, 4),
        # that of the names
        section(
            b".text",
            64 + len(compat) + changes.pop("names_shift", 0),
            changes.pop("names_size", len(NAMES)),
        ),
        section(
            b".nv.compat",
            64 + changes.pop("shift", 0),
            changes.pop("size", len(compat)),
            changes.pop("beyond", 0),
        ),
    ]
    step = changes.setdefault("step", 64)
    fields = {"abi": 8, "table": table, "count": len(rows), "names": 2, **changes}
    return (
        elf(CUDA, 100 << 8 | 90, **fields) + body + b"".join(row[:step].ljust(step) for row in rows)
    )


MARK = bytes((2, 9, 1, 0))


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("compat", "expected"),
    [
        (MARK, "sm_100a"),
        (b"\2\5\1\0" + MARK, "sm_100a"),
        (b"\3\5\4\0" + MARK, "sm_100a"),
        (b"\4\5\3\0abc" + MARK, "sm_100a"),  # the form 4 has a size, and as many bytes
        (b"\4\5\0\1" + bytes(256) + MARK, "sm_100a"),
        (b"\2\x09\0\0" + MARK, "sm_100"),
        (b"\1\x09\1\0", "sm_100"),
        (b"\2\x08\1\0", "sm_100"),
        (b"\2\x09\2\0", "sm_100"),
        (b"\4\5\4\0" + MARK, "sm_100"),
        (MARK[:3], "sm_100"),
        (b"", "sm_100"),
    ],
)
def test_the_attributes_of_a_cubin(compat: bytes, expected: str) -> None:
    assert variant("cuda", "cubin", cubin(compat)) == expected


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("changes", "is_read"),
    [
        ({}, True),
        ({"step": 72}, True),
        ({"step": 320}, True),
        ({"step": 63}, False),
        ({"names": 4}, False),
        ({"names": 3}, False),  # no name is there
        ({"count": 3}, False),
        ({"count": 5}, False),  # the table ends behind the file
        ({"count": 4 + 256}, False),
        ({"table": 64 + 4 + len(NAMES) + (1 << 56)}, False),
        ({"names_size": NAMES.index(b".text")}, True),  # to the end of the name
        ({"names_size": NAMES.index(b".text") - 1}, False),
        ({"names_size": len(NAMES) + 4 * 64}, True),  # to the end of the file
        ({"names_size": len(NAMES) + 4 * 64 + 1}, False),
        ({"names_size": len(NAMES) + (1 << 56)}, False),
        ({"names_shift": 1 << 56}, False),
        ({"beyond": 1 << 24}, False),
        ({"shift": 1 << 56}, False),
        ({"size": 4 + (1 << 56)}, False),
        ({"size": len(NAMES) + 4 * 65}, True),
        ({"size": len(NAMES) + 4 * 65 + 1}, False),
    ],
)
def test_a_section_is_inside_the_file(changes: dict[str, int], is_read: bool) -> None:
    data = cubin(MARK, **changes)
    assert ("a" in variant("cuda", "cubin", data)) is is_read


@pytest.mark.row("R40")
def test_sections_of_a_32_bit_file_are_not_read() -> None:
    data = bytearray(cubin(MARK))
    assert variant("cuda", "cubin", bytes(data)) == "sm_100a"
    data[4] = 1
    data[36:40] = struct.pack("<I", 100 << 8)  # the flags of such a file
    assert variant("cuda", "cubin", bytes(data)) == "sm_100"


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("flags", "abi", "expected"),
    [
        (100 << 8 | 90, 7, "sm_90"),
        (100 << 8 | 90, 8, "sm_100"),
        (0x800 | 90, 7, "sm_90a"),
        (0xFFFFF700 | 90, 7, "sm_90"),
        (0x1000000 | 9, 7, ""),
        (10, 7, "sm_10"),
        (255, 0, "sm_255"),
        (9 << 8 | 90, 8, ""),
        (0xFF0A00, 8, "sm_10"),
    ],
)
def test_the_number_of_a_cubin(flags: int, abi: int, expected: str) -> None:
    assert variant("cuda", "cubin", elf(CUDA, flags, abi=abi)) == expected


@pytest.mark.row("R40")
def test_the_header_of_an_elf_file_is_complete() -> None:
    assert variant("cuda", "cubin", elf(CUDA, 90)[:63]) == ""
    assert variant("cuda", "cubin", elf(CUDA | 0x100, 90)) == ""
    assert variant("hexagon", "so", elf(HEXAGON, 0x68, wide=False)) == "v68"
    assert variant("hexagon", "so", elf(HEXAGON, 0x68, wide=False)[:51]) == ""
    for at, value in ((0, 0), (3, 0), (4, 0), (4, 3), (5, 0), (5, 2)):
        data = bytearray(elf(CUDA, 90))
        data[at] = value
        assert variant("cuda", "cubin", bytes(data)) == ""


def entry(
    kind: int, number: int, flags: int = 0, data: bytes = b"", head: int = 48, size: int = -1
) -> bytes:
    """Return an entry of a fatbin."""
    if size < 0:
        size = len(data)
    fields = struct.pack("<HHIQ12xI8xQ", kind, 257, head, size, number, flags)
    return fields.ljust(head, b"\7") + data


def fatbin(*entries: bytes, head: int = 16, cut: int = 0) -> bytes:
    body = b"".join(entries)
    fields = struct.pack("<IHHQ", 0xBA55ED50, 1, head, len(body) - cut)
    return fields.ljust(head, b"\7") + body


PTX = b".version 8.4 .target sm_75 "


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (fatbin(entry(1, 90), entry(2, 80)), "compute_90,sm_80"),
        (fatbin(entry(2, 80), entry(1, 90), entry(2, 80)), "sm_80,compute_90"),
        (fatbin(entry(1, 90, 1 << 20), entry(2, 80, 1 << 21)), "compute_90a,sm_80f"),
        (fatbin(entry(2, 80, 3 << 20), entry(2, 81, 0xFFCFFFFF)), "sm_80a,sm_81"),
        (fatbin(entry(0, 80), entry(3, 80), entry(2, 81)), "sm_81"),
        (fatbin(entry(2 | 256, 80), entry(2, 80 | 1 << 24), entry(2, 81)), "sm_81"),
        (fatbin(entry(2, 80), entry(2, 81), head=272), "sm_80,sm_81"),
        (fatbin(entry(2, 80), entry(2, 81), cut=48 - (1 << 56)), "sm_80,sm_81"),
        (fatbin(entry(2, 80, size=1 << 56), entry(2, 81)), ""),
        (fatbin(entry(2, 80)[:4] + struct.pack("<I", 48 | 1 << 24) + entry(2, 80)[8:]), ""),
        (fatbin(*(entry(2, each) for each in (9, 10, 999, 1000))), "sm_10,sm_999"),
        (fatbin(entry(1, 90, 0, PTX), entry(2, 80, 0, PTX)), "compute_75:ptx8.4,sm_80"),
        (fatbin(entry(2, 90, 0, elf(CUDA, 70)), entry(1, 80, 0, b"?")), "sm_70,compute_80"),
        (fatbin(entry(2, 80, head=56), entry(2, 90), head=24), "sm_80,sm_90"),
        (fatbin(entry(2, 80), entry(2, 90, head=47) + b"x"), "sm_80"),
        (fatbin(entry(2, 80), entry(2, 90), cut=1), "sm_80"),  # 95 of 96 bytes
        (fatbin(entry(2, 80), entry(2, 90, 0, b"abc"), cut=1), "sm_80"),
        (fatbin(entry(2, 80), entry(2, 90), cut=-1), "sm_80,sm_90"),
        (fatbin(entry(2, 80), entry(2, 90), cut=-1)[:-1], "sm_80"),
        (fatbin(entry(2, 80), entry(2, 90, size=1)), "sm_80"),
        (fatbin(entry(2, 90), head=16)[:15], ""),
        (fatbin(), ""),
    ],
)
def test_the_entries_of_a_fatbin(data: bytes, expected: str) -> None:
    assert variant("cuda", "fatbin", data) == expected


@pytest.mark.row("R40")
def test_256_entries_are_read() -> None:
    many = [entry(2, 100 + number) for number in range(257)]
    expected = [f"sm_{100 + number}" for number in range(256)]
    assert variant("cuda", "fatbin", fatbin(*many)).split(",") == expected
    assert variant("rocm", "hsaco", offload(257)).split(",") == [f"gfx{n}" for n in range(256)]


#: The numbers of NVIDIA's integrated devices (CUDA_ARCH of Tegra and Thor).
TEGRA = {32, 53, 62, 72, 87, 101, 110}


@pytest.mark.row("R40")
def test_the_devices_of_each_number_of_cuda() -> None:
    numbers = range(30, 122)
    for needed in numbers:
        for present in numbers:
            device = f"sm_{present}"
            later = needed <= present
            family = later and needed // 10 == present // 10
            own = family
            if TEGRA & {needed, present}:
                own = needed == present
            expected = {
                f"sm_{needed}": own,
                f"sm_{needed}a": needed == present,
                f"compute_{needed}": later,
                f"compute_{needed}a": needed == present,
                f"compute_{needed}f": family,
            }
            found = {each: rank("cuda", each, device) is not None for each in expected}
            assert found == expected, device


#: EF_AMDGPU_MACH of LLVM's ELF.h, without the prefix "gfx".
MACH = (
    "20=600 21=601 22=700 23=701 24=702 25=703 26=704 28=801 29=802 2a=803 2b=810 2c=900 2d=902 2e=904 2f=906 30=908 31=909 32=90c "
    "33=1010 34=1011 35=1012 36=1030 37=1031 38=1032 39=1033 3a=602 3b=705 3c=805 3d=1035 3e=1034 3f=90a 40=940 41=1100 42=1013 43=1150 "
    "44=1103 45=1036 46=1101 47=1102 48=1200 49=1250 4a=1151 4b=941 4c=942 4e=1201 4f=950 50=1310 51=9-generic 52=10-1-generic "
    "53=10-3-generic 54=11-generic 55=1152 58=1153 59=12-generic 5a=1251 5b=12-5-generic 5c=1172 5d=1170 5e=1171 5f=9-4-generic"
)


@pytest.mark.row("R40")
def test_each_processor_of_rocm() -> None:
    names = dict.fromkeys(range(256), "")
    for each in MACH.split():
        number, _, name = each.partition("=")
        names[int(number, 16)] = f"gfx{name}"
    for number, name in names.items():
        code = elf(AMDGPU, number | 0xFFFF0000, osabi=64, abi=2)
        assert variant("rocm", "hsaco", code) == name


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("flags", "abi", "expected"),
    [
        (0x000, 1, ""),
        (0x100, 1, ":xnack+"),
        (0x200, 1, ":sramecc+"),
        (0x300, 1, ":sramecc+:xnack+"),
        (0xC00, 1, ""),
        (0x100, 2, ""),
        (0x200, 2, ":xnack-"),
        (0x300, 2, ":xnack+"),
        (0x400, 2, ""),
        (0x800, 2, ":sramecc-"),
        (0xC00, 2, ":sramecc+"),
        (0xE00, 3, ":sramecc+:xnack-"),
        (0xB00, 4, ":sramecc-:xnack+"),
    ],
)
def test_the_features_of_a_code_object(flags: int, abi: int, expected: str) -> None:
    code = elf(AMDGPU, 0x3F | flags, osabi=64, abi=abi)
    assert variant("rocm", "hsaco", code) == f"gfx90a{expected}"
    for other in ({"osabi": 63, "abi": abi}, {"osabi": 65, "abi": abi}, {"osabi": 64, "abi": 0}):
        assert variant("rocm", "hsaco", elf(AMDGPU, 0x3F | flags, **other)) == ""


def offload(count: int, names: list[str] | None = None) -> bytes:
    """Return a bundle of clang's offload bundler."""
    data = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", count)
    for name in names or [f"amdgcn--gfx{number}" for number in range(count)]:
        data += struct.pack("<QQQ", 4096, 77, len(name)) + name.encode()
    return data


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (offload(1, ["amdgcn--gfx90a:xnack+", "amdgcn--gfx908"]), "gfx90a:xnack+"),
        (offload(2, ["amdgcn--gfx90a", "amdgcn--gfx908"])[:-1], "gfx90a"),
        (offload(2, ["x--gfx90a", "amdgcn--gfx908"]), "gfx908"),
        (offload(1 | 1 << 56, ["amdgcn--gfx90a", "amdgcn--gfx908"]), "gfx90a,gfx908"),
        (offload(1, ["amdgcn--gfx90a"])[:55] + b"\1" + b"amdgcn--gfx90a", ""),
        (offload(2, ["amdgcn--sm_90", "amdgcn--gfx908:sramecc-"]), "gfx908:sramecc-"),
        (offload(2, ["amdgcn--gfx9,gfx8", "amdgcn--gfx908"]), "gfx908"),
        (offload(2, ["amdgcn--gfx9é", "amdgcn--gfx908"]), ""),  # its length counts characters
        (offload(2, ["amdgcn--gfx".ljust(256, "9"), "amdgcn--gfx1"]), f"gfx{'9' * 245},gfx1"),
        (offload(2, ["amdgcn--gfx".ljust(257, "9"), "amdgcn--gfx1"]), ""),
    ],
)
def test_the_entries_of_an_offload_bundle(data: bytes, expected: str) -> None:
    assert variant("rocm", "hsaco", data) == expected


@pytest.mark.row("R40")
def test_the_versions_of_hexagon() -> None:
    expected = {1: "v2", 2: "v3", 3: "v4", 4: "v5", 5: "v55"}
    for tens in range(6, 10):
        for ones in range(10):
            expected[16 * tens + ones] = f"v{tens}{ones}"
    for version in range(0x400):
        name = expected.get(version, "")
        small = name and f"{name}t"
        for wide in (False, True):
            code = elf(HEXAGON, version | 0x3FFF_7C00, wide=wide)
            assert variant("hexagon", "so", code) == name
            assert variant("hexagon", "so", elf(HEXAGON, version | 0x8000, wide=wide)) == small


def shader(version: int, *capabilities: int, end: bytes = b"\x0e\0\3\0" + bytes(8)) -> bytes:
    data = struct.pack("<5I", 0x07230203, version, 7, 7, 0)
    return data + b"".join(struct.pack("<II", 2 << 16 | 17, each) for each in capabilities) + end


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (shader(0x10300, 1, 0, 11, 10), "spirv1.3:Float64+Int64"),
        (shader(0x10300, 10, end=b""), "spirv1.3:Float64"),
        (shader(0x10300, 10, 11, end=b"")[:-1], "spirv1.3:Float64"),
        (shader(0x10300, end=b""), "spirv1.3"),
        (shader(0x10300, end=b"")[:-1], ""),
        (shader(0x10300, 9999), "spirv1.3:9999"),
        (shader(0x10300, 10, end=struct.pack("<II", 3 << 16 | 17, 11)), "spirv1.3:Float64"),
        (shader(0x10300, 10, end=struct.pack("<II", 2 << 16 | 16, 11)), "spirv1.3:Float64"),
        (shader(0xFF0612FF), ""),
        (shader(0x000612FF), "spirv6.18"),
        (shader(0x10000), "spirv1.0"),
        (shader(0x90000), "spirv9.0"),
        (shader(0xA0000), ""),
        (shader(0x0FF00), ""),
        (
            shader(0x10300, *range(60000, 60257)),
            "spirv1.3:" + "+".join(map(str, range(60000, 60256))),
        ),
    ],
)
def test_the_header_and_the_capabilities_of_a_shader(data: bytes, expected: str) -> None:
    assert variant("vulkan", "spv", data) == expected
    assert variant("vulkan", "spv", bytes(12) + data) == expected
    assert variant("vulkan", "other", data) == ""
