"""Where a file has its large parts: at places that devices take in place from a mapped file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stored import head_of

import devmod
from devmod.backend import verify_rest

pytestmark = pytest.mark.row("R51")

SIZES = (3_999, 4_000, 65_535, 65_536, 70_001, 2**20 - 1, 2**20, 2**20 + 7)


def constants(sizes: tuple[int, ...]) -> devmod.Module:
    values = {f"w{number}": np.full(size, number + 1, "uint8") for number, size in enumerate(sizes)}
    return devmod.const_loader(values, {"get": ["w0"]})


def multiple_of(size: int) -> int:
    """Of what number the place of a part is a multiple."""
    if size < 65_536:
        return 64
    return 4_096 if size < 2**20 else 16_384


@pytest.mark.parametrize("sizes", [SIZES, SIZES[::-1], SIZES[4:] + SIZES[:4], SIZES * 3])
@pytest.mark.parametrize("modules", [1, 300])
def test_a_large_part_begins_at_a_page_of_memory(
    sizes: tuple[int, ...], modules: int, tmp_path: Path
) -> None:
    """Also where the index is large, and has modules and names before the parts."""
    info = devmod.FunctionInfo("k", ["handle"])
    many = [
        devmod.create_with_fallback("opencl", f"// {number}".encode(), "cl", {f"f{number}": info})
        for number in range(modules)
    ]
    root = devmod.bundle(*many, constants(sizes), mixed=True)
    path = tmp_path / "k.devmod"
    devmod.save(root, path)
    loaded: Any = devmod.load(path)
    verify_rest(loaded)
    places = [
        (each.offset, each.size) for each in loaded._devmod_file.entries() if each.role == "part"
    ]
    assert [at % multiple_of(size) for at, size in places] == [0] * len(places)
    assert {size for _, size in places} == {size for size in sizes if size >= 4_000}
    assert devmod.dumps(loaded) == path.read_bytes()
    (loader,) = [each for each in loaded.imports if each.kind == "const_loader"]
    for number, size in enumerate(sizes):
        assert bytes(loader.get_global(f"w{number}")) == bytes([number + 1]) * size


def test_the_alignment_of_a_file_is_that_of_its_largest_part() -> None:
    for sizes, align in (
        (SIZES[:3], None),
        (SIZES[:4], 4_096),
        (SIZES[:6], 4_096),
        (SIZES, 16_384),
    ):
        assert head_of(devmod.dumps(constants(sizes))).get("align") == align


def test_compressed_parts_take_no_more_place() -> None:
    value = bytes(range(256)) * 512
    data = devmod.dumps(devmod.const_loader({"w": memoryview(value)}, {}), compress="zstd")
    assert "align" not in head_of(data)
    assert len(data) < 2_000


def test_the_places_of_10_000_parts_cost_6_percent_at_most() -> None:
    rng = np.random.default_rng(1)
    values = {f"w{number}": rng.bytes(65_536 + 64) for number in range(100)}
    data = devmod.dumps(devmod.const_loader({k: memoryview(v) for k, v in values.items()}, {}))
    size = 100 * (65_536 + 64)
    assert size < len(data) < size * 1.065
