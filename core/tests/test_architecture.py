"""The variant of a payload is read from its bytes, and ranked for a device (R40)."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import devmod
from devmod._plugins.specs import find_spec
from devmod.targets.vulkan.architecture import capability_name

pytestmark = pytest.mark.once  # bytes and texts, which core reads itself

VECTORS = Path(__file__).parent / "vectors" / "arch"
KINDS = {
    "cubin": "cuda",
    "ptx": "cuda",
    "fatbin": "cuda",
    "cuda": "cuda",
    "hsaco": "rocm",
    "hip": "rocm",
    "so": "hexagon",
    "spv": "vulkan",
}
WIDE = "spirv1.5:Int64+GroupNonUniform+GroupNonUniformArithmetic+StorageBuffer16BitAccess"
VARIANTS = {
    "sm_75.cubin": "sm_75",
    "sm_80.cubin": "sm_80",
    "sm_90.cubin": "sm_90",
    "sm_90a.cubin": "sm_90a",
    "sm_100a.cubin": "sm_100a",
    "cuda12_sm_75.cubin": "sm_75",
    "cuda12_sm_90.cubin": "sm_90",
    "cuda12_sm_90a.cubin": "sm_90a",
    "compute_90.ptx": "compute_90:ptx9.5",
    "compute_90a.ptx": "compute_90a:ptx9.5",
    "mixed.fatbin": "sm_80,sm_90a,compute_90",
    "compressed.fatbin": "sm_80,sm_90a,compute_100f",
    "gfx90a.hsaco": "gfx90a",
    "gfx1030.hsaco": "gfx1030",
    "gfx9-generic.hsaco": "gfx9-generic",
    "gfx11-generic.hsaco": "gfx11-generic",
    "gfx90a_srameccp_xnackm.hsaco": "gfx90a:sramecc+:xnack-",
    "gfx906_xnackp.hsaco": "gfx906:xnack+",
    "v4_gfx906.hsaco": "gfx906",
    "hv5.so": "v5",
    "hv68.so": "v68",
    "hv67t.so": "v67t",
    "hv73.so": "v73",
    "plain.spv": "spirv1.0",
    "wide.spv": WIDE,
}


def variant(fmt: str, code: bytes | memoryview) -> str:
    spec = find_spec(KINDS[fmt])
    assert spec is not None
    assert spec.architecture is not None
    return spec.architecture(fmt, code)


def rank(kind: str, payload: str, device: str) -> int | None:
    spec = find_spec(kind)
    assert spec is not None
    assert spec.rank is not None
    return spec.rank(payload, device)


@pytest.mark.row("R40")
@pytest.mark.parametrize("name", VARIANTS)
def test_the_variants_of_outputs_of_real_toolchains(name: str) -> None:
    data = (VECTORS / name).read_bytes()
    fmt = name.rpartition(".")[2]
    assert variant(fmt, data) == VARIANTS[name]
    assert variant(fmt, memoryview(data)) == VARIANTS[name]


def test_every_vector_is_read() -> None:
    assert {path.name for path in VECTORS.iterdir()} - {"README.md"} == set(VARIANTS)


@pytest.mark.row("R40", "R15")
@pytest.mark.parametrize("name", ["plain.spv", "wide.spv"])
def test_a_packed_shader_has_the_variant_of_its_words(name: str) -> None:
    words = (VECTORS / name).read_bytes()
    assert variant("spv", struct.pack("<IQ", 1, len(words) // 4) + words) == VARIANTS[name]


@pytest.mark.row("R40")
def test_source_has_no_variant_and_three_kinds_have_none_at_all() -> None:
    assert variant("cuda", b"__global__ void f() {}") == ""
    assert variant("hip", (VECTORS / "gfx90a.hsaco").read_bytes()) == ""
    for kind in ("opencl", "metal", "webgpu"):
        spec = find_spec(kind)
        assert spec is not None
        assert spec.architecture is None
        assert spec.rank is None


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".version 8.4\n.target sm_90\n", "compute_90:ptx8.4"),
        (
            "// .target sm_70\n/* .version 1.0 */ .version 7.0\n.target sm_80, texmode_independent\n",
            "compute_80:ptx7.0",
        ),
        (".version 8.6 .target debug, sm_100f .address_size 64", "compute_100f:ptx8.6"),
        (".target sm_90\n", ""),
        (".version 8.4 /* .target sm_90\n", ""),
        (".version 8.4\n", ""),
        (".version 8.4\n.target sm_9000000\n", ""),
        ("", ""),
    ],
)
def test_the_variant_of_ptx_is_read_from_its_directives(text: str, expected: str) -> None:
    assert variant("ptx", text.encode()) == expected


@pytest.mark.row("R40")
def test_a_bundle_of_code_objects_has_the_variants_of_its_entries() -> None:
    names = [
        b"host-x86_64-unknown-linux-gnu-",
        b"hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+",
        b"hipv4-amdgcn-amd-amdhsa--gfx1030",
    ]
    data = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names))
    for name in names:
        data += struct.pack("<QQQ", 4096, 0, len(name)) + name
    assert variant("hsaco", data) == "gfx90a:xnack+,gfx1030"
    assert variant("hsaco", data[:-20]) == "gfx90a:xnack+"


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("sm_90.cubin", 18, 62),  # another machine's ELF
        ("sm_90.cubin", 0x31, 0),  # no number
        ("gfx90a.hsaco", 48, 0xFF),  # an unknown processor
        ("gfx90a.hsaco", 8, 0),  # code object version 2 has the processor in notes
        ("gfx90a.hsaco", 5, 2),  # big-endian
        ("hv68.so", 36, 0x6B),  # the digits are not decimal
        ("plain.spv", 0, 0),
        ("plain.spv", 6, 0),  # no version
        ("mixed.fatbin", 0, 0),
    ],
)
def test_an_unreadable_payload_has_no_variant(name: str, at: int, value: int) -> None:
    data = bytearray((VECTORS / name).read_bytes())
    data[at] = value
    assert variant(name.rpartition(".")[2], bytes(data)) == ""


@pytest.mark.row("R40")
def test_a_truncated_fatbin_has_the_variants_of_its_complete_entries() -> None:
    assert variant("fatbin", (VECTORS / "mixed.fatbin").read_bytes()[:5000]) == "sm_80"


@pytest.mark.row("R40")
def test_code_object_version_3_has_a_bit_for_each_feature() -> None:
    data = bytearray((VECTORS / "gfx90a.hsaco").read_bytes())
    data[8], data[49] = 1, 3
    assert variant("hsaco", bytes(data)) == "gfx90a:sramecc+:xnack+"


SAMPLES = [((VECTORS / name).read_bytes(), name.rpartition(".")[2]) for name in sorted(VARIANTS)]


@pytest.mark.row("R40")
@settings(max_examples=100, deadline=None)
@given(sample=st.sampled_from(SAMPLES), fmt=st.sampled_from(sorted(KINDS)), data=st.data())
def test_a_reader_raises_on_no_bytes(
    sample: tuple[bytes, str], fmt: str, data: st.DataObject
) -> None:
    code = bytearray(sample[0])
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, len(code) - 1))
        code[at : at + 4] = data.draw(st.binary(min_size=1, max_size=4))
    code = code[: data.draw(st.integers(0, len(code)))]
    for form in (fmt, sample[1]):
        result = variant(form, bytes(code))
        assert isinstance(result, str)
        assert result.isprintable()
        assert isinstance(rank(KINDS[form], result, "sm_90"), int | None)


@settings(deadline=None)
@given(
    payload=st.text(max_size=40),
    device=st.text(max_size=40),
    kind=st.sampled_from(["cuda", "rocm", "hexagon", "vulkan"]),
)
def test_a_rank_function_raises_on_no_text(payload: str, device: str, kind: str) -> None:
    assert rank(kind, payload, device) is None or isinstance(rank(kind, payload, device), int)


FITS = [
    ("cuda", "sm_80", "sm_80", True),
    ("cuda", "sm_80", "sm_86", True),
    ("cuda", "sm_86", "sm_80", False),
    ("cuda", "sm_80", "sm_90", False),
    ("cuda", "sm_90a", "sm_90", True),
    ("cuda", "sm_100a", "sm_103", False),
    ("cuda", "sm_80", "sm_87", False),  # integrated devices run their own cubins alone
    ("cuda", "sm_87", "sm_89", False),
    ("cuda", "sm_87", "sm_87", True),
    ("cuda", "compute_80", "sm_90", True),
    ("cuda", "compute_90", "sm_80", False),
    ("cuda", "compute_90a", "sm_90", True),
    ("cuda", "compute_90a", "sm_100", False),
    ("cuda", "compute_100f", "sm_103", True),
    ("cuda", "compute_100f", "sm_120", False),
    ("cuda", "compute_90:ptx9.5", "sm_90", True),
    ("cuda", "compute_90:ptx9.5", "sm_90:ptx8.4", False),
    ("cuda", "compute_90:ptx8.4", "sm_90:ptx8.4", True),
    ("cuda", "sm_70,sm_80,compute_80", "sm_90", True),
    ("cuda", "sm_70,sm_80", "sm_90", False),
    ("cuda", "", "sm_90", True),
    ("cuda", "sm_90", "nonsense", False),
    ("rocm", "gfx90a", "gfx90a:sramecc+:xnack-", True),
    ("rocm", "gfx90a:xnack-", "gfx90a:sramecc+:xnack-", True),
    ("rocm", "gfx90a:xnack+", "gfx90a:sramecc+:xnack-", False),
    ("rocm", "gfx90a:xnack+", "gfx90a", False),
    ("rocm", "gfx908", "gfx90a:sramecc+:xnack-", False),
    ("rocm", "gfx9-generic", "gfx906:sramecc+:xnack-", True),
    ("rocm", "gfx9-generic", "gfx90a:sramecc+:xnack-", False),
    ("rocm", "gfx908,gfx90a", "gfx90a:sramecc+:xnack-", True),
    ("rocm", "", "gfx90a", True),
    ("hexagon", "v68", "v73", True),
    ("hexagon", "v73", "v68", False),
    ("hexagon", "v5", "v55", True),
    ("hexagon", "v67t", "v68", False),
    ("hexagon", "v67t", "v67t", True),
    ("hexagon", "v65", "v67t", False),
    ("hexagon", "", "v68", True),
    ("vulkan", "spirv1.3", "spirv1.6", True),
    ("vulkan", "spirv1.6", "spirv1.3", False),
    ("vulkan", WIDE, "spirv1.5", True),
    ("vulkan", WIDE, "spirv1.5:Int64", False),
    ("vulkan", WIDE, WIDE + "+Int8", True),
    ("vulkan", "", "spirv1.0", True),
]


#: Those that the oldest spirv-as here does not know, from the registry of SPIR-V.
NEW_CAPABILITIES = {
    5116: "BFloat16TypeKHR",
    5117: "BFloat16DotProductKHR",
    5118: "BFloat16CooperativeMatrixKHR",
    6022: "CooperativeMatrixKHR",
}


@pytest.mark.row("R40")
@pytest.mark.skipif(not shutil.which("spirv-as"), reason="spirv-as is missing")
def test_each_capability_has_its_name() -> None:
    names = {}
    for number in range(2, 7000):
        if capability_name(number) != str(number):
            names[number] = capability_name(number)
    assert len(names) == 70
    assert {number: names.pop(number) for number in NEW_CAPABILITIES} == NEW_CAPABILITIES

    text = "".join(f"OpCapability {name}\n" for name in names.values())
    command = ["spirv-as", "-", "-o", "-"]
    code = subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout
    words = struct.unpack(f"<{len(code) // 4}I", code)
    assert [*words[6::2]] == [*names]


@pytest.mark.row("R40")
@pytest.mark.parametrize(("kind", "payload", "device", "fits"), FITS)
def test_a_variant_runs_on_a_device(kind: str, payload: str, device: str, fits: bool) -> None:
    assert (rank(kind, payload, device) is not None) is fits


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("kind", "device", "best_first"),
    [
        (
            "cuda",
            "sm_90:ptx9.5",
            ["sm_90a", "sm_90", "compute_90a:ptx9.5", "compute_90:ptx9.5", "compute_80", ""],
        ),
        ("cuda", "sm_89", ["sm_89", "sm_86", "sm_80", "compute_89", "compute_70"]),
        (
            "rocm",
            "gfx906:sramecc+:xnack-",
            ["gfx906:sramecc+:xnack-", "gfx906:xnack-", "gfx906", "gfx9-generic", ""],
        ),
        ("hexagon", "v73", ["v73", "v69", "v55", "v5", ""]),
        ("vulkan", WIDE, [WIDE, "spirv1.5", "spirv1.0", ""]),
    ],
)
def test_the_closest_variant_ranks_highest(kind: str, device: str, best_first: list[str]) -> None:
    ranks = [rank(kind, payload, device) for payload in best_first]
    assert None not in ranks
    assert ranks == sorted(ranks, key=lambda result: result or 0, reverse=True)
    assert len(set(ranks)) == len(ranks)


@pytest.mark.row("R40", "R29")
def test_a_payload_of_any_kind_is_wrapped_and_saved() -> None:
    fmap = {"f": devmod.FunctionInfo("f", ["handle"])}
    for code in (b"", b"\x7fELF", (VECTORS / "hv68.so").read_bytes()):
        module = devmod.create_with_fallback("cuda", code, "cubin", fmap)
        assert code in module.save_to_bytes()


def test_specs_import_readers_at_their_first_call() -> None:
    script = (
        "import sys\n"
        "from devmod.targets.cuda import SPEC\n"
        "assert not [name for name in sys.modules if 'architecture' in name or name.endswith('_elf')], sys.modules\n"
        "assert SPEC.architecture('cubin', b'') == ''\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
