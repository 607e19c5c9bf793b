"""Sources in a file, beside the bytes of the modules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from alone import core_alone as core_alone
from each_case import refusal
from stored import blobs_of, file_of, pages_of

import devmod
from devmod_workbench._cli import main

INFO = {"f": devmod.FunctionInfo("f", ["handle"])}
CUDA = "__global__ void f() {} // \N{GREEK SMALL LETTER MU}\n"


def cubin(*extra: int, source: dict[str, str | bytes] | None = None) -> devmod.Module:
    return devmod.create_with_fallback(
        "cuda",
        b"\x7fELF" + bytes(extra),
        "cubin",
        INFO,
        {"cuda": CUDA} if source is None else source,
    )


@pytest.mark.row("R13", "R26")
def test_sources_are_saved_when_they_are_asked_for() -> None:
    assert devmod.loads(devmod.dumps(cubin())).source == {}
    loaded = devmod.loads(devmod.dumps(cubin(), with_sources=True))
    assert loaded.source == {"cuda": CUDA}
    assert [loaded.inspect_source(key) for key in ("", "cuda", "ptx")] == [CUDA, CUDA, ""]
    assert loaded.save_to_bytes() == cubin().save_to_bytes()


@pytest.mark.row("R26")
def test_inspect_shows_shared_sources_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.devmod"
    ptx = devmod.create_with_fallback("cuda", b".version 8.0", "ptx", INFO, {"cuda": CUDA})
    devmod.save(
        devmod.bundle(cubin(), ptx, cubin(2, source={"cuda": "other"})), path, with_sources=True
    )
    assert main(["inspect", str(path), "--source", "--json"]) == 0
    found = [each["source"] for each in json.loads(capsys.readouterr().out)["module"]["imports"]]
    assert found == [{"cuda": CUDA}, {"ptx": ".version 8.0", "cuda": 1}, {"cuda": "other"}]
    assert main(["inspect", str(path), "--source"]) == 0
    out = capsys.readouterr().out
    assert out.count(CUDA.strip()) == 1
    assert "    source cuda:\n      of the cuda cubin module above\n" in out


@pytest.mark.row("R19")
def test_sources_of_a_file_are_saved_again() -> None:
    for compress in (None, "zstd"):
        data = devmod.dumps(devmod.bundle(cubin(), cubin(1)), with_sources=True, compress=compress)
        assert devmod.dumps(devmod.loads(data)) == data
        (module, _) = devmod.loads(data).imports
        assert devmod.loads(devmod.dumps(module)).source == {"cuda": CUDA}


def test_equal_sources_are_one_part_of_the_file() -> None:
    other = cubin(2, source={"cuda": CUDA * 2})
    data = devmod.dumps(
        devmod.bundle(cubin(0), cubin(1), other, cubin(3, source={})), with_sources=True
    )
    assert data.count(CUDA.encode()) == 3  # one part has it twice
    (page,) = pages_of(data)
    assert [each.get("sources") for each in page["modules"]] == [4, 4, 5, None]
    assert len(page["sources"]) == 2
    first, second = devmod.loads(data), devmod.loads(devmod.dumps(cubin(4), with_sources=True))
    merged = devmod.dumps(devmod.bundle(*first.imports, second))
    assert merged.count(CUDA.encode()) == 3


def test_a_payload_of_text_is_not_repeated() -> None:
    text = "kernel void f() {}"
    module = devmod.create_with_fallback("opencl", text.encode(), "cl", INFO, {"cl": text})
    assert devmod.dumps(module, with_sources=True) == devmod.dumps(module)
    ptx = devmod.create_with_fallback(
        "cuda", b".version 8.3\n", "ptx", INFO, {"cuda": CUDA, "ptx": ".version 8.3\n"}
    )
    assert devmod.loads(devmod.dumps(ptx, with_sources=True)).source == {"cuda": CUDA}


def test_a_source_of_bytes_stays_bytes_and_is_not_shown_as_text() -> None:
    module = devmod.create_with_fallback(
        "hexagon", b"\x7fELF", "so", INFO, {"asm": "f:", "bc": b"BC\xc0\xde"}
    )
    loaded = devmod.loads(devmod.dumps(module, with_sources=True))
    assert loaded.source == {"asm": "f:", "bc": b"BC\xc0\xde"}
    assert [loaded.inspect_source(key) for key in ("", "asm", "bc")] == ["f:", "f:", ""]


def test_sources_can_be_compressed_and_unpacked() -> None:
    module = cubin(source={"cuda": CUDA * 100})
    packed = devmod.dumps(module, with_sources=True, compress="zstd")
    plain = devmod.dumps(module, with_sources=True)
    assert len(packed) < len(plain) // 2
    assert devmod.loads(packed).source == {"cuda": CUDA * 100}
    assert devmod.dumps(devmod.loads(packed), compress="none") == plain
    assert devmod.dumps(devmod.loads(plain), compress="zstd") == packed


def test_a_module_of_an_unknown_kind_shows_its_sources() -> None:
    data = devmod.dumps(cubin(), with_sources=True)
    (page,) = pages_of(data)
    page["modules"][0]["kind"] = "cudx"
    loaded = devmod.loads(file_of(page, blobs_of(data)))
    assert (loaded.kind, loaded.inspect_source("cuda"), loaded.inspect_source()) == (
        "cudx",
        CUDA,
        "",
    )


def test_damaged_sources_leave_the_module_usable() -> None:
    data = bytearray(devmod.dumps(cubin(), with_sources=True))
    data[-1] ^= 1
    loaded = devmod.loads(bytes(data))
    assert loaded.save_to_bytes() == cubin().save_to_bytes()
    assert loaded.functions == INFO
    text = "the bundle in memory: the sources of the cuda module are damaged: their SHA-256 is not the one in the index. Get the file again"
    for act in (lambda: loaded.source, loaded.inspect_source, lambda: devmod.dumps(loaded)):
        assert refusal(devmod.FormatError, act) == text
