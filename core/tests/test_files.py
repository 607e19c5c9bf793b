"""Raw payload files and their metadata (R22)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from each_case import raised, refusal
from support import KINDS, MAP_KINDS, sample

import devmod
from devmod._plugins.specs import find_spec
from devmod.backend import read_payload

pytestmark = pytest.mark.row("R22")


def written(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("kind", KINDS)
def test_a_payload_and_its_metadata_come_back(kind: str, tmp_path: Path) -> None:
    code, fmt, fmap = sample(kind)
    module = devmod.create_with_fallback(kind, code, fmt, fmap)
    spec = find_spec(kind)
    assert spec is not None
    path = tmp_path / f"k.{fmt}"
    module.write_to_file(path)
    assert written(tmp_path) == sorted([path.name, "k.tvm_meta.json"])
    assert read_payload(spec, str(path), fmt) == (fmt, fmap, code)
    module.write_to_file(path)
    assert written(tmp_path) == sorted([path.name, "k.tvm_meta.json"])


def test_the_metadata_is_tvms(tmp_path: Path) -> None:
    info = devmod.FunctionInfo("vadd_kernel", ["handle", "float32"], ["blockIdx.x"], [0, 1])
    devmod.create_with_fallback("cuda", b".version 8.0", "ptx", {"vadd": info}).write_to_file(
        tmp_path / "x.ptx"
    )
    assert (tmp_path / "x.ptx").read_bytes() == b".version 8.0"
    assert json.loads((tmp_path / "x.tvm_meta.json").read_text()) == {
        "func_info": {
            "vadd": {
                "name": "vadd_kernel",
                "arg_types": ["handle", "float32"],
                "launch_param_tags": ["blockIdx.x"],
                "arg_extra_tags": [0, 1],
            }
        }
    }


def test_metadata_as_tvm_writes_it_is_read() -> None:
    text = """{"tvm_version": "0.27.0", "func_info": {"f": {"name": "f_k", "arg_types": ["handle", "float16x4"],
        "launch_param_tags": ["threadIdx.x"]}}}"""
    expected = {"f": devmod.FunctionInfo("f_k", ["handle", "float16x4"], ["threadIdx.x"])}
    assert devmod.load_metadata_from_json(text) == expected
    assert devmod.load_metadata_from_json(text.encode()) == expected


def test_the_older_name_of_the_launch_tags_is_read() -> None:
    fields = '{"func_info": {"f": {"name": "f", "arg_types": ["handle"], "thread_axis_tags": ["blockIdx.x", "threadIdx.x"]%s}}}'
    expected = {"f": devmod.FunctionInfo("f", ["handle"], ["blockIdx.x", "threadIdx.x"])}
    assert devmod.load_metadata_from_json(fields % "") == expected
    assert (
        devmod.load_metadata_from_json(
            fields % ', "launch_param_tags": ["blockIdx.x", "threadIdx.x"]'
        )
        == expected
    )
    assert (
        refusal(
            devmod.FormatError, devmod.load_metadata_from_json, fields % ', "launch_param_tags": []'
        )
        == "the metadata of the function 'f' has launch_param_tags, and other thread_axis_tags"
    )
    with pytest.raises(devmod.FormatError, match="a field that is not a list"):
        devmod.load_metadata_from_json(
            '{"func_info": {"f": {"name": "f", "arg_types": [], "thread_axis_tags": "blockIdx.x"}}}'
        )


def test_an_interface_travels_in_the_metadata(tmp_path: Path) -> None:
    interface = devmod.Interface([devmod.Param("a", "buffer", "float32", "rw")], block=(8, 8, 1))
    fmap = {"f": devmod.FunctionInfo("f", ["handle"], interface=interface)}
    devmod.create_with_fallback("opencl", b"kernel", "cl", fmap).write_to_file(tmp_path / "k.cl")
    assert devmod.load_metadata_from_json((tmp_path / "k.tvm_meta.json").read_text()) == fmap


@pytest.mark.parametrize("kind", MAP_KINDS)
def test_a_file_contains_one_shader(kind: str, tmp_path: Path) -> None:
    code, fmt, _ = sample(kind)
    module = devmod.create_with_fallback(kind, {**code, "second": code["add"]}, fmt, {})
    assert (
        refusal(devmod.FormatError, module.write_to_file, tmp_path / f"k.{fmt}")
        == f"the {kind} module has 2 shaders, and a {fmt!r} file holds one; use devmod.save"
    )
    assert written(tmp_path) == []


def test_a_shader_keeps_an_entry_name_that_is_no_function(tmp_path: Path) -> None:
    fmap = {"blur": devmod.FunctionInfo("main", ["handle"])}
    devmod.create_with_fallback("webgpu", {"main": b"fn main() {}"}, "wgsl", fmap).write_to_file(
        tmp_path / "k.wgsl"
    )
    spec = find_spec("webgpu")
    assert spec is not None
    assert read_payload(spec, str(tmp_path / "k.wgsl"), "wgsl") == (
        "wgsl",
        fmap,
        {"main": b"fn main() {}"},
    )


@pytest.mark.row("R15")
def test_a_spv_file_contains_the_words_alone(tmp_path: Path) -> None:
    words = b"\x03\x02\x23\x07" + bytes(range(16))
    value = bytes(4) + (5).to_bytes(8, "little") + words
    path = tmp_path / "k.spv"
    devmod.create_with_fallback(
        "vulkan", {"f": value}, "spv", {"f": devmod.FunctionInfo("main", [])}
    ).write_to_file(path)
    assert path.read_bytes() == words
    spec = find_spec("vulkan")
    assert spec is not None
    assert read_payload(spec, str(path), "spv")[2] == {"f": value}
    flagged = b"\x01" + value[1:]
    assert (
        refusal(
            devmod.FormatError,
            devmod.create_with_fallback("vulkan", {"f": flagged}, "spv", {}).write_to_file,
            tmp_path / "other.spv",
        )
        == "a .spv file cannot have the shader's flag 1; use devmod.save"
    )
    assert (
        refusal(
            devmod.FormatError,
            devmod.create_with_fallback("vulkan", {"f": value[:-1]}, "spv", {}).write_to_file,
            tmp_path / "other.spv",
        )
        == "the vulkan shader is not a flag, a number of words and that many words"
    )
    assert written(tmp_path) == ["k.spv", "k.tvm_meta.json"]
    path.write_bytes(b"abc")
    assert (
        refusal(devmod.FormatError, read_payload, spec, str(path), "spv")
        == "the size of a .spv file is not a multiple of 4 bytes: got 3 bytes"
    )


def test_other_functions_metadata_is_not_overwritten(tmp_path: Path) -> None:
    first = devmod.create_with_fallback(
        "cuda",
        b"one",
        "ptx",
        {"f": devmod.FunctionInfo("f", ["int32"]), "g": devmod.FunctionInfo("g", [])},
    )
    first.write_to_file(tmp_path / "k.ptx")
    before = {name: (tmp_path / name).read_bytes() for name in written(tmp_path)}
    second = devmod.create_with_fallback(
        "cuda",
        b"two",
        "cubin",
        {"f": devmod.FunctionInfo("f", ["int64"]), "h": devmod.FunctionInfo("h", [])},
    )
    text = refusal(devmod.FormatError, second.write_to_file, tmp_path / "k.cubin")
    meta = str(tmp_path / "k.tvm_meta.json")
    assert (
        text
        == f"{meta!r} already exists and describes other functions; different: 'f', 'g', 'h'. Choose another name"
    )
    assert {name: (tmp_path / name).read_bytes() for name in written(tmp_path)} == before
    same = devmod.create_with_fallback("cuda", b"two", "cubin", first.functions)
    same.write_to_file(tmp_path / "k.cubin")
    assert written(tmp_path) == ["k.cubin", "k.ptx", "k.tvm_meta.json"]


@pytest.mark.row("R22")
def test_an_interface_is_part_of_what_the_metadata_describes(tmp_path: Path) -> None:
    """Two payloads of one stem share the metadata file: the second must not replace the functions
    of the first.
    """

    def info(*places: Any) -> devmod.FunctionInfo:
        params = [devmod.Param("", "buffer", at=at) for at in places]
        return devmod.FunctionInfo(
            "f", ["handle"], interface=devmod.Interface(params) if places else None
        )

    def write(info: devmod.FunctionInfo, suffix: str) -> None:
        code: Any = {"f": b"\0\0\0\0\x01" + bytes(11)} if suffix == "spv" else b"code"
        devmod.create_with_fallback(
            "vulkan" if suffix == "spv" else "opencl", code, suffix, {"f": info}
        ).write_to_file(tmp_path / f"k.{suffix}")

    write(info(), "cl")  # as TVM writes it
    write(info((0, 1)), "spv")  # says more of the same function
    meta = tmp_path / "k.tvm_meta.json"
    before = meta.read_bytes()
    for other in (info(), info((0, 2))):
        assert (
            refusal(devmod.FormatError, write, other, "clbin")
            == f"{str(meta)!r} already exists and describes other functions; different: 'f'. Choose another name"
        )
    assert meta.read_bytes() == before
    assert written(tmp_path) == ["k.cl", "k.spv", "k.tvm_meta.json"]
    write(info((0, 1)), "spv")


@pytest.mark.row("R19", "R22")
@pytest.mark.parametrize("value", [b"binary", float("nan"), float("inf"), "\ud800"])
def test_values_without_a_json_form_are_refused_before_a_file_is_written(
    value: Any, tmp_path: Path
) -> None:
    """An unknown key of an interface is preserved, and msgpack represents more values than JSON."""
    interface = devmod.Interface(extra={"later": value})
    module = devmod.create_with_fallback(
        "opencl", b"kernel", "cl", {"f": devmod.FunctionInfo("f", [], interface=interface)}
    )
    text = refusal(devmod.FormatError, module.write_to_file, tmp_path / "k.cl")
    assert text.startswith("the metadata of the opencl functions cannot be written as JSON: ")
    assert text.endswith("; use devmod.save")
    assert written(tmp_path) == []


def test_metadata_is_text() -> None:
    error = raised(devmod.ArgumentError, devmod.load_metadata_from_json, Path("k.tvm_meta.json"))
    assert str(error) == "load_metadata_from_json(text): text is a str or bytes, not PosixPath"
    assert error.argument == "text"


def test_a_file_that_is_no_metadata_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "k.tvm_meta.json").write_text("my notes")
    text = refusal(
        devmod.FormatError,
        devmod.create_with_fallback("cuda", b"one", "ptx", {}).write_to_file,
        tmp_path / "k.ptx",
    )
    meta = str(tmp_path / "k.tvm_meta.json")
    assert text == (
        f"{meta!r} already exists and is not a metadata file (the metadata is not JSON: Expecting value: line 1 column 1 (char 0)); move it"
    )
    assert written(tmp_path) == ["k.tvm_meta.json"]


def test_a_suffix_of_another_format_is_refused(tmp_path: Path) -> None:
    assert (
        refusal(
            devmod.FormatError,
            devmod.create_with_fallback("cuda", b"one", "cubin", {}).write_to_file,
            tmp_path / "k.ptx",
        )
        == f"{str(tmp_path / 'k.ptx')!r} cannot contain 'cubin': its suffix is that of 'ptx'"
    )


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("k.ptx", "is that of 'ptx'"),
        ("k.SO", "is that of 'so'"),
        ("k.devmod", "is that of a bundle; devmod.save writes one"),
    ],
)
def test_a_suffix_of_another_kind_or_of_a_bundle_is_refused(
    name: str, named: str, tmp_path: Path
) -> None:
    module = devmod.create_with_fallback("opencl", b"kernel", "cl", {})
    assert (
        refusal(devmod.FormatError, module.write_to_file, tmp_path / name)
        == f"{str(tmp_path / name)!r} cannot contain 'cl': its suffix {named}"
    )
    assert written(tmp_path) == []
    module.write_to_file(tmp_path / "k.txt")
    assert written(tmp_path) == ["k.tvm_meta.json", "k.txt"]


def test_a_path_in_the_place_of_the_metadata_is_named_as_one() -> None:
    assert refusal(devmod.ArgumentError, devmod.load_metadata_from_json, "k.tvm_meta.json") == (
        "load_metadata_from_json(text): text is the content of the file, not its path; pass pathlib.Path('k.tvm_meta.json').read_text()"
    )


def test_a_payload_without_metadata(tmp_path: Path) -> None:
    path = tmp_path / "k.cl"
    path.write_text("kernel void f() {}")
    spec = find_spec("opencl")
    assert spec is not None
    text = refusal(devmod.FormatError, read_payload, spec, str(path), "cl")
    meta = str(tmp_path / "k.tvm_meta.json")
    assert text == (
        f"{str(path)!r} has no metadata file: expected {meta!r}, which describes its functions. "
        f"Module.write_to_file writes both; devmod.compile(pathlib.Path({str(path)!r}), 'opencl') compiles a source"
    )
    with pytest.raises(FileNotFoundError):
        read_payload(spec, str(tmp_path / "none.cl"), "cl")


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").mkdir()
    with pytest.raises(IsADirectoryError):
        devmod.create_with_fallback("cuda", b"one", "ptx", {}).write_to_file(tmp_path / "k.ptx")
    assert written(tmp_path) == ["k.ptx"]
    with pytest.raises(FileNotFoundError):
        devmod.create_with_fallback("cuda", b"one", "ptx", {}).write_to_file(
            tmp_path / "none" / "k.ptx"
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\xff\xfe\x00", None),
        ("[" * 100000, None),
        ('{"func_info": {}, "shader": 1}', "the metadata's 'shader' is not a string"),
        (
            '{"func_info": {"f": {"name": 3, "arg_types": []}}}',
            "the metadata of the function 'f': a function's name is a string, not int",
        ),
        (
            '{"func_info": {"f": {"name": "f", "arg_types": [3]}}}',
            "the metadata of the function 'f': a type is a string such as 'float32' or 'handle', not int",
        ),
        (
            '{"func_info": {"f": {"name": "f", "arg_types": [], "interface": 3}}}',
            "the metadata of the function 'f': an interface is a map with string keys, not int",
        ),
    ],
)
def test_wrong_metadata(text: Any, message: str | None) -> None:
    error = refusal(devmod.FormatError, devmod.load_metadata_from_json, text)
    assert message is None or error == message


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_metadata_is_in_utf_8(encoding: str, tmp_path: Path) -> None:
    text = '{"func_info": {"\xfc": {"name": "f", "arg_types": []}}}'
    assert list(devmod.load_metadata_from_json(text)) == ["\xfc"]
    data = text.encode(encoding)
    error = refusal(devmod.FormatError, devmod.load_metadata_from_json, data)
    assert error.startswith("the metadata is not JSON: ")
    (tmp_path / "k.ptx").write_bytes(b".version 8.0")
    (tmp_path / "k.tvm_meta.json").write_bytes(data)
    spec = find_spec("cuda")
    assert spec is not None
    problem = refusal(devmod.FormatError, read_payload, spec, str(tmp_path / "k.ptx"), "ptx")
    assert problem == f"{str(tmp_path / 'k.tvm_meta.json')!r}: {error}"


@pytest.mark.skipif(os.name != "posix", reason="Windows has files with such names")
@pytest.mark.parametrize("name", ["a\ud800", "a\0b"])
@pytest.mark.parametrize("call", ["load", "load_from_file", "save", "write_to_file"])
def test_a_path_that_no_file_can_have(call: str, name: str, tmp_path: Path) -> None:
    module = devmod.create_with_fallback(
        "cuda", b"code", "ptx", {"f": devmod.FunctionInfo("f", ["handle"])}
    )
    path = str(tmp_path / f"{name}.ptx")
    calls = {
        "load": lambda: devmod.load(path),
        "load_from_file": lambda: devmod.load_from_file(path),
        "save": lambda: devmod.save(module, path),
        "write_to_file": lambda: module.write_to_file(path),
    }
    assert refusal(devmod.ArgumentError, calls[call]) == f"no file can have the path {path!r}"
