"""Large constants are parts of a file: each is read, checked and decompressed alone."""

from __future__ import annotations

import io
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alone import core_alone as core_alone
from each_case import refusal
from stored import pages_of

import devmod
from devmod._formats.parts import MIN_PART

pytestmark = pytest.mark.row("R20", "R41", "R51")

LARGE = np.arange(MIN_PART // 4, dtype=np.float32)
OTHER = -1 - LARGE
SMALL = np.arange(MIN_PART // 4 - 1, dtype=np.float32)


def loader(**tensors: Any) -> devmod.Module:
    return devmod.const_loader(tensors, {"all": list(tensors)})


def offset_of(data: bytes, values: np.ndarray[Any, Any]) -> int:
    assert data.count(values.tobytes()) == 1
    return data.index(values.tobytes())


def test_a_constant_from_4000_bytes_on_is_a_part() -> None:
    module = loader(large=LARGE, small=SMALL)
    data = devmod.dumps(module)
    (page,) = pages_of(data)
    assert [page["modules"][0]["parts"], [each["size"] for each in page["parts"]]] == [[1], [4000]]
    assert offset_of(data, LARGE) % 64 == 0
    again = devmod.loads(data)
    assert again.save_to_bytes() == module.save_to_bytes()
    assert devmod.dumps(again) == data
    assert again.size == len(LARGE.tobytes()) + page["modules"][0]["size"]  # type: ignore[attr-defined]
    for name, values in (("large", LARGE), ("small", SMALL)):
        np.testing.assert_array_equal(again.get_global(name).numpy(), values)


@pytest.mark.parametrize("form", ["made", "loaded", "bytes"])
def test_the_bytes_of_a_module_stay(form: str) -> None:
    module = loader(large=LARGE, small=SMALL)
    wire = module.save_to_bytes()
    if form == "loaded":
        module = devmod.loads(devmod.dumps(module))
    elif form == "bytes":
        module = devmod.load_from_bytes("const_loader", wire)
    assert module.save_to_bytes() == wire
    assert devmod.dumps(module) == devmod.dumps(loader(large=LARGE, small=SMALL))
    tvm = devmod.interop.tvm
    assert tvm.dump_module_bytes(module) == tvm.dump_module_bytes(loader(large=LARGE, small=SMALL))
    from_tvm = tvm.load_module_bytes("const_loader", tvm.dump_module_bytes(module))
    assert devmod.dumps(from_tvm) == devmod.dumps(module)


def test_a_longer_form_of_a_binary_stays_in_its_module() -> None:
    wire = loader(large=LARGE).save_to_bytes()
    longer = wire.replace(b"\xc5\x0f\xa0", b"\xc6\x00\x00\x0f\xa0")
    data = devmod.dumps(devmod.load_from_bytes("const_loader", longer))
    assert "parts" not in pages_of(data)[0]
    assert devmod.loads(data).save_to_bytes() == longer


def test_equal_constants_are_in_a_file_once() -> None:
    one, other = loader(a=LARGE, b=LARGE.copy()), loader(c=LARGE.copy(), d=OTHER)
    data = devmod.dumps(devmod.bundle(one, other, mixed=True))
    assert [each["parts"] for each in pages_of(data)[0]["modules"]] == [[2, 2], [2, 3]]
    assert offset_of(data, LARGE)
    # A loaded file has digests, and a new constant is compared with them.
    loaded = devmod.loads(data)
    merged = devmod.dumps(devmod.bundle(*loaded.imports, loader(e=OTHER), mixed=True))
    assert [each["parts"] for each in pages_of(merged)[0]["modules"]] == [[3, 3], [3, 4], [4]]
    again = devmod.loads(merged)
    np.testing.assert_array_equal(again.imports[2].get_global("e").numpy(), OTHER)
    # Of two that are alike at the places that are compared first, both are stored.
    alike = np.zeros((2, 40_000), np.uint8)
    alike[1, 10_000] = 1
    two = devmod.dumps(loader(f=alike[0], g=alike[1]))
    assert [each["parts"] for each in pages_of(two)[0]["modules"]] == [[1, 2]]
    np.testing.assert_array_equal(devmod.loads(two).get_global("g").numpy(), alike[1])
    # Equal modules are one.
    same = devmod.dumps(devmod.bundle(one, loader(a=LARGE, b=LARGE), mixed=True))
    assert len(pages_of(same)[0]["modules"]) == 1


def test_a_mapped_file_gives_a_constant_without_a_copy(tmp_path: Path) -> None:
    devmod.save(loader(large=LARGE), tmp_path / "k.devmod")
    array: Any = devmod.load(tmp_path / "k.devmod").get_global("large")
    assert isinstance(array.data.obj, mmap.mmap)
    assert array.numpy().ctypes.data % 64 == 0


class File(io.BytesIO):
    """A file object that counts what is read of it."""

    count = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data


@pytest.mark.parametrize("compress", ["none", "zstd"])
def test_one_constant_is_read_alone(compress: str) -> None:
    values = [np.random.default_rng(number).random(100_000) for number in range(8)]
    module = loader(first=LARGE, **{f"w{number}": each for number, each in enumerate(values)})
    data = devmod.dumps(module, compress=compress)
    file = File(data)
    loaded = devmod.load(file)
    np.testing.assert_array_equal(loaded.get_global("first").numpy(), LARGE)
    assert file.count < 12_000
    np.testing.assert_array_equal(loaded.get_global("w3").numpy(), values[3])
    assert file.count < 12_000 + values[3].nbytes
    (found,) = [each for each in loaded["all"]() if each.shape == LARGE.shape]
    np.testing.assert_array_equal(found.numpy(), LARGE)
    assert loaded.save_to_bytes() == module.save_to_bytes()


def test_a_damaged_constant_leaves_the_others() -> None:
    data = devmod.dumps(loader(a=LARGE, b=OTHER))
    at = offset_of(data, LARGE)
    loaded = devmod.loads(data[:at] + b"\1" + data[at + 1 :])
    text = (
        "the bundle in memory: a constant of the const_loader module with 'all' is damaged: its "
        "SHA-256 is not the one in the index. Nothing of it was used. Get the file again from "
        "where it came"
    )
    np.testing.assert_array_equal(loaded.get_global("b").numpy(), OTHER)
    for use in (
        lambda: loaded.get_global("a"),
        loaded["all"],
        loaded.save_to_bytes,
        lambda: devmod.dumps(loaded),
        loaded.verify,  # type: ignore[attr-defined]
    ):
        assert refusal(devmod.FormatError, use) == text


def test_a_constant_beyond_a_binary_is_in_a_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A msgpack binary has less than 4 GiB, for which the test sets a lower limit."""
    monkeypatch.setattr("devmod._formats.wire.MAX_BIN", LARGE.nbytes - 1)
    module = loader(large=LARGE)
    text = (
        "the constant 'large' of the const_loader module is 4000 bytes; a module's bytes hold at "
        "most 3999 in one piece (4 GiB)"
    )
    loaded = devmod.loads(devmod.dumps(module))
    np.testing.assert_array_equal(loaded.get_global("large").numpy(), LARGE)
    for each in (module, loaded):
        assert refusal(devmod.FormatError, each.save_to_bytes) == text


def test_parts_have_no_limit_on_objects() -> None:
    """Elements are no objects of msgpack, whatever their bytes are: here an array of 4 Mi."""
    head = np.frombuffer(b"\xdd\x00\x40\x00\x00", np.uint8)
    elements = np.random.default_rng(1).integers(0, 4, 4 << 20, np.uint8)
    values = np.concatenate([head, elements])
    packed = devmod.dumps(loader(z=values), compress="zstd")
    assert len(packed) < len(values) // 3
    np.testing.assert_array_equal(devmod.loads(packed).get_global("z").numpy(), values)


def test_a_payload_that_is_not_text_begins_at_a_multiple_of_16() -> None:
    payloads = [b"\x7fELF%02d binary" % number for number in range(20)]
    modules = [
        devmod.create_with_fallback(
            "cuda", each, "cubin", {"f" * (number + 1): devmod.FunctionInfo("k", ())}
        )
        for number, each in enumerate(payloads)
    ]
    text = devmod.create_with_fallback(
        "opencl", b"a text", "cl", {"g": devmod.FunctionInfo("g", ())}
    )
    data = devmod.dumps(devmod.bundle(*modules, text, mixed=True))
    assert {data.index(each) % 16 for each in payloads} == {0}
    assert ["shift" in each for each in pages_of(data)[0]["modules"]].count(False) <= 3
    assert devmod.dumps(devmod.loads(data)) == data


def test_modules_of_small_constants_are_one_if_their_bytes_are_equal() -> None:
    modules = [loader(c=SMALL), loader(c=-1 - SMALL), loader(c=SMALL)]
    data = devmod.dumps(devmod.bundle(*modules, mixed=True))
    records = [each for page in pages_of(data) for each in page["modules"]]
    assert [each["kind"] for each in records].count("const_loader") == 2
    values = [each.get_global("c").numpy().tolist() for each in devmod.loads(data).imports]
    assert sorted(values) == [(-1 - SMALL).tolist(), SMALL.tolist()]
