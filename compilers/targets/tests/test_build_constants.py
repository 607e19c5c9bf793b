"""The constants of a manifest: .npy and .npz without pickles, and safetensors."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from each_case import refusal
from work import assert_linear

import devmod
from devmod_targets.build.build import build_manifest
from devmod_targets.build.constants import load_constants
from devmod_targets.build.manifest import Constants, ConstantsFile


def load(folder: Path, *names: str | ConstantsFile, **functions: tuple[str, ...]) -> devmod.Module:
    files = tuple(
        name if isinstance(name, ConstantsFile) else ConstantsFile(name) for name in names
    )
    return load_constants(str(folder), Constants(files, tuple(functions.items())))


def error_of(folder: Path, *names: str | ConstantsFile, **functions: tuple[str, ...]) -> str:
    return refusal(devmod.FormatError, load, folder, *names, **functions)


def write_safetensors(
    path: Path, header: Any, data: bytes = b"", length: int | None = None
) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)


def entry(dtype: object, shape: object, *offsets: object) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": list(offsets)}


@pytest.mark.row("R20")
def test_arrays_of_all_files_are_constants_of_the_bundle(tmp_path: Path) -> None:
    w = np.arange(6, dtype=">f4").reshape(2, 3).T  # big-endian, in Fortran's order
    np.save(tmp_path / "w.npy", w)
    np.savez_compressed(
        tmp_path / "z.npz", a=np.ones(3), b=np.array([True, False]), scalar=np.int64(-7)
    )
    write_safetensors(
        tmp_path / "m.safetensors",
        {"__metadata__": {"format": "pt"}, "bf": entry("BF16", [2], 0, 4)},
        b"\x80\x3f\x00\x40",
    )
    (tmp_path / "twice.cl").write_text(
        "kernel void twice(global float *x) { x[get_global_id(0)] *= 2; }\n"
    )
    (tmp_path / "devmod.toml").write_text(
        'targets = ["opencl"]\n[kernels.twice]\nsources = ["twice.cl"]\n'
        '[constants]\nfiles = ["w.npy", "z.npz", "m.safetensors"]\nfunctions = { load = ["b", "w"] }\n'
    )
    assert build_manifest(tmp_path, cache=False).written
    module = devmod.load(tmp_path / "kernels.devmod")
    b, read_w = module["load"]()
    assert (b.numpy().tolist(), b.dtype) == ([True, False], "bool")
    np.testing.assert_array_equal(read_w.numpy(), w)
    assert (module.get_global("scalar").shape, module.get_global("scalar").numpy()) == ((), -7)
    bf = module.get_global("bf")
    assert (bf.dtype, bf.shape, bf.numpy().tobytes()) == ("bfloat16", (2,), b"\x80\x3f\x00\x40")


def test_arrays_are_chosen_and_named(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.zeros(1))
    np.savez(tmp_path / "z.npz", a=np.ones(1), b=np.ones(2))
    module = load(
        tmp_path, ConstantsFile("w.npy", name="weights"), ConstantsFile("z.npz", names=("b",))
    )
    assert module.get_global("weights").shape == (1,)
    assert module.get_global("b").shape == (2,)
    with pytest.raises(devmod.FunctionNotFoundError):
        module.get_global("a")


@pytest.mark.row("R38")
def test_the_bytes_do_not_depend_on_the_order_of_the_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(4))
    np.save(tmp_path / "b.npy", np.arange(4).astype(">i8"))
    first, second = load(tmp_path, "a.npy", "b.npy"), load(tmp_path, "b.npy", "a.npy")
    assert first.save_to_bytes() == second.save_to_bytes()
    assert (
        first.save_to_bytes()
        == devmod.const_loader({"b": np.arange(4), "a": np.arange(4)}, {}).save_to_bytes()
    )


def test_every_type_of_safetensors(tmp_path: Path) -> None:
    sizes = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "BOOL": 1}
    sizes |= {f"{sign}{bits}": bits // 8 for sign in "IU" for bits in (8, 16, 32, 64)}
    header, start = {}, 0
    for code, size in sizes.items():
        header[code] = entry(code, [2], start, start + 2 * size)
        start += 2 * size
    write_safetensors(tmp_path / "m.safetensors", header, bytes(range(start)))
    module = load(tmp_path, "m.safetensors")
    assert {code: module.get_global(code).dtype for code in sizes} == {
        "F64": "float64",
        "F32": "float32",
        "F16": "float16",
        "BF16": "bfloat16",
        "F8_E4M3": "float8_e4m3fn",
        "F8_E5M2": "float8_e5m2",
        "BOOL": "bool",
        "I8": "int8",
        "I16": "int16",
        "I32": "int32",
        "I64": "int64",
        "U8": "uint8",
        "U16": "uint16",
        "U32": "uint32",
        "U64": "uint64",
    }
    assert module.get_global("F32").numpy().tobytes() == bytes(range(16, 24))


def test_a_pickle_is_not_read(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "executed",))

    np.save(tmp_path / "w.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "z.npz", a=np.array([Trap()], dtype=object))
    text = "cannot be read: Object arrays cannot be loaded when allow_pickle=False"
    assert error_of(tmp_path, "w.npy") == f"w.npy {text}"
    assert error_of(tmp_path, "z.npz") == f"'a' of z.npz {text}"
    assert not (tmp_path / "executed").exists()


def test_structures_and_strings_are_no_constants(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.zeros(2, dtype=[("x", "f4")]))
    assert (
        error_of(tmp_path, "w.npy")
        == "w.npy has elements of the type [('x', '<f4')]; a constant has numbers or booleans"
    )
    np.save(tmp_path / "w.npy", np.array(["text"]))
    assert error_of(tmp_path, "w.npy").startswith("w.npy has elements of the type <U4: ")


@pytest.mark.parametrize("name", ["w.npy", "w.npz", "w.safetensors"])
@pytest.mark.parametrize(
    "data", [b"", b"\x93NUMPY", b"PK\x03\x04", b"x" * 100, b"\x93NUMPY\x01\x00\x10\x00{'descr': (1"]
)
def test_damaged_files(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    assert error_of(tmp_path, name).startswith(name)


def test_every_truncation_of_a_file_is_an_error(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.arange(3))
    np.savez(tmp_path / "w.npz", a=np.arange(3))
    write_safetensors(tmp_path / "w.safetensors", {"a": entry("U8", [4], 0, 4)}, b"abcd")
    for name in ("w.npy", "w.npz", "w.safetensors"):
        data = (tmp_path / name).read_bytes()
        for length in range(0, len(data), 1 if len(data) < 200 else 7):
            (tmp_path / name).write_bytes(data[:length])
            assert name in error_of(tmp_path, name), length


@pytest.mark.parametrize(
    "header",
    [
        b"{]",
        [1],
        {"a": 1},
        {"a": entry("F32", [-1], 0, 4)},
        {"a": entry("F32", [1], 0, 8)},
        {"a": entry("F32", [1], 4, 0)},
        {"a": entry("F32", [1], 0)},
        {"a": entry("F32", [2**62, 2], 0, 4)},
        {"a": entry("F" * 300, [], 0, 4)},
        {name: entry("U8", [4], 0, 4) for name in "ab"},  # would multiply the file
    ],
)
def test_a_header_of_safetensors_that_contradicts_the_data(tmp_path: Path, header: Any) -> None:
    write_safetensors(tmp_path / "m.safetensors", header, b"abcd")
    message = error_of(tmp_path, "m.safetensors")
    assert message.startswith("m.safetensors: this is no file of safetensors: ")
    assert len(message) < 300


def test_the_length_of_a_header_is_checked_before_it_is_read(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "m.safetensors", {}, length=2**63)
    message = error_of(tmp_path, "m.safetensors")
    assert message.startswith("m.safetensors: this is no file of safetensors: ")


@pytest.mark.once
def test_an_archive_of_many_arrays_takes_linear_time(tmp_path: Path) -> None:
    """The directory of the archive is read once, not for each array."""

    def call(count: int) -> Callable[[], object]:
        np.savez(
            tmp_path / f"{count}.npz",
            **{f"a{number}": np.zeros(1, np.uint8) for number in range(count)},
        )
        return lambda: load(tmp_path, f"{count}.npz")

    assert_linear(call, 60)


def test_names_that_clash_or_do_not_exist(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.zeros(1))
    np.savez(tmp_path / "z.npz", w=np.zeros(1), bias=np.zeros(1))
    assert (
        error_of(tmp_path, "z.npz", "w.npy")
        == "the constant 'w' is in z.npz and in w.npy; rename one: { path = …, name = … }"
    )
    assert (
        error_of(tmp_path, ConstantsFile("z.npz", names=("bia",)))
        == "z.npz has no array 'bia'; it has 'w', 'bias'. Did you mean 'bias'?"
    )
    assert error_of(tmp_path, "z.npz", load=("w", "bis")) == (
        "constants.functions.load has 'bis'; the constants are 'w', 'bias'. Did you mean 'bias'?"
    )
    np.save(tmp_path / "renamed.npz", np.zeros(1))
    (tmp_path / "renamed.npz.npy").rename(tmp_path / "renamed.npz")
    assert (
        error_of(tmp_path, "renamed.npz")
        == "renamed.npz is one array, not an archive; its suffix would be .npy"
    )
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("readme.txt", "text")
    assert error_of(tmp_path, "text.npz") == "text.npz has 'readme.txt', which is not an array"


def test_a_damaged_file_of_constants_leaves_the_bundle_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "w.npy").write_bytes(b"damaged")
    (tmp_path / "kernels.devmod").write_bytes(b"old")
    (tmp_path / "devmod.toml").write_text('targets = ["opencl"]\n[constants]\nfiles = ["w.npy"]\n')
    with pytest.raises(devmod.FormatError, match=r"w\.npy cannot be read: "):
        build_manifest(tmp_path, cache=False)
    assert (tmp_path / "kernels.devmod").read_bytes() == b"old"
    np.save(tmp_path / "w.npy", np.arange(3))
    assert build_manifest(tmp_path, cache=False).written
    assert devmod.load(tmp_path / "kernels.devmod").get_global("w").numpy().tolist() == [0, 1, 2]
