"""Files with compressed bytes: what is written, what a save keeps, and the limits on what is
unpacked.
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import IO, Any

import pytest
from alone import core_alone as core_alone
from each_case import raised, refusal
from stored import file_of as handmade_file
from stored import pages_of
from work import work
from zstandard_library import NAME, zstd

import devmod
from devmod._formats import blobs
from devmod._formats.blobs import library_text
from devmod._formats.index import FREE_UNPACKED, MAX_RATIO
from devmod_workbench._cli import main

INFO = {"f": devmod.FunctionInfo("f", ["handle"])}
CODE = b"\x7fELF" + b"a payload with repeated parts " * 3000
RANDOM = b"".join(hashlib.sha256(bytes([each])).digest() for each in range(256))


def module(code: bytes = CODE) -> devmod.Module:
    return devmod.create_with_fallback("cuda", code, "cubin", INFO)


def index_of(data: bytes) -> dict[str, Any]:
    (page,) = pages_of(data)
    return page


@pytest.mark.row("R18", "R19", "R42")
def test_compressed_bytes_come_out_as_they_were() -> None:
    plain, packed = devmod.dumps(module()), devmod.dumps(module(), compress="zstd")
    assert (plain[8], packed[8]) == (6, 6)
    assert 20 * len(packed) < len(plain)
    loaded = devmod.loads(packed)
    assert loaded.save_to_bytes() == module().save_to_bytes()
    assert loaded.functions == INFO
    assert loaded.origin == devmod.Origin("", extra={"compression": library_text(3)})
    (entry,) = index_of(packed)["modules"]
    wire = module().save_to_bytes()
    stored = zstd.compress(wire, 3)
    assert entry["zstd"] == [len(wire), hashlib.sha256(wire).digest()]
    assert (entry["size"], entry["sha256"]) == (len(stored), hashlib.sha256(stored).digest())
    assert packed.endswith(stored)


def test_a_save_keeps_compressed_bytes_unless_it_is_asked() -> None:
    packed = devmod.dumps(module(), compress="zstd:19")
    assert devmod.dumps(devmod.loads(packed)) == packed
    # Another level does not compress them again.
    assert devmod.dumps(devmod.loads(packed), compress="zstd") == packed
    assert devmod.dumps(devmod.loads(packed), compress="none") == devmod.dumps(module())
    assert devmod.dumps(devmod.loads(devmod.dumps(module())), compress="zstd:19") == packed


def test_the_origin_of_a_module_stays_without_the_library() -> None:
    made = module()
    origin = devmod.Origin("cuda -arch=sm_90", "NVRTC 13.0", extra={"of tomorrow": 1})
    made.__dict__["_devmod_origin"] = origin
    packed = devmod.loads(devmod.dumps(made, compress="zstd:5"))
    assert packed.origin == origin.replace(extra={"of tomorrow": 1, "compression": library_text(5)})
    assert devmod.loads(devmod.dumps(packed, compress="none")).origin == origin


@pytest.mark.row("R19")
def test_compressed_bytes_of_many_megabytes_come_out_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those beyond 16 MiB wait in a temporary file until they are written."""
    codes = [random.Random(seed).randbytes(9 << 20).hex().encode() for seed in range(3)]
    modules = [module(code) for code in codes]
    folders: list[str] = []
    make = tempfile.TemporaryFile

    def record(*, dir: str) -> IO[bytes]:
        folders.append(dir)
        return make(dir=dir)

    monkeypatch.setattr(tempfile, "TemporaryFile", record)
    devmod.save(devmod.bundle(*modules, mixed=True), tmp_path / "k.devmod", compress="zstd:1")
    assert folders == [str(tmp_path)]  # the one for temporary files may be small
    stored = devmod.load(tmp_path / "k.devmod")
    assert 24 << 20 < (tmp_path / "k.devmod").stat().st_size < 36 << 20
    assert [each.code for each in stored.imports] == codes
    assert [path.name for path in tmp_path.iterdir()] == ["k.devmod"]


def test_the_objects_of_all_fields_have_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "FREE_VALUES", 10)
    fields = {size: b"\xdc\0" + bytes((size,)) + b"\5" * size for size in range(20)}
    for sizes, size, limit in (
        ((2, 2, 3), 0, 0),  # 10 objects with the arrays
        ((2, 3, 3), 0, 10),
        ((2, 3, 3), 1, 0),
        ((3, 3, 3), 1, 11),
        ((9, 0, 0), 0, 10),
        ((8, 0), 0, 0),
        ((10, 0), 0, 10),
        ((0, 0, 10), 0, 10),
    ):
        data = b"".join(fields[each] for each in sizes)
        assert blobs.too_many_values(data, size) == limit
    assert blobs.too_many_values(b"\xc1" * 20, 0) == 0  # a reader has the error
    assert blobs.too_many_values(b"\x9f" + b"\5" * 10, 1) == 0
    assert blobs.too_many_values(b"\xdc\0\xff" + b"\5" * 7, 0) == 0  # few bytes


def test_bytes_that_do_not_get_smaller_are_not_compressed() -> None:
    assert devmod.dumps(module(RANDOM), compress="zstd") == devmod.dumps(module(RANDOM))
    both = devmod.bundle(module(RANDOM), module())
    assert [
        each.origin is not None
        for each in devmod.loads(devmod.dumps(both, compress="zstd")).imports
    ] == [False, True]


def file_of(entries: list[dict[str, Any]], *blobs: bytes) -> bytes:
    """Return a file with those modules, whose sizes and digests are added."""
    joined, modules = b"", []
    for entry, blob in zip(entries, blobs, strict=True):
        modules.append(entry | {"size": len(blob), "sha256": hashlib.sha256(blob).digest()})
        joined += blob.ljust(-(-len(blob) // 64) * 64, b"\0")
    return handmade_file(
        {"roots": [*range(len(modules))], "modules": modules},
        joined.removesuffix(bytes(-len(blobs[-1]) % 64)),
    )


def not_compressed(act: Callable[[], object]) -> str:
    """Return the text of the one warning of a save."""
    with pytest.warns(UserWarning, match="without compression") as caught:
        act()
    (warning,) = caught
    assert warning.filename == __file__
    return str(warning.message)


def test_bytes_beyond_the_limit_of_readers_are_not_compressed(tmp_path: Path) -> None:
    small, large = (module(bytes(FREE_UNPACKED + extra)) for extra in (-1000, 200_000))
    assert len(devmod.dumps(small, compress="zstd")) < 1000
    size, packed = len(large.save_to_bytes()), len(zstd.compress(large.save_to_bytes(), 3))
    text = (
        f"the cuda module with 'f' is stored without compression: its {size} bytes compress to {packed}, and readers of a file accept at "
        f"most {FREE_UNPACKED + MAX_RATIO * packed} from these"
    )
    assert (
        not_compressed(lambda: devmod.save(large, tmp_path / "k.devmod", compress="zstd")) == text
    )
    assert (tmp_path / "k.devmod").read_bytes() == devmod.dumps(large)


@pytest.mark.row("R41")
def test_the_limit_is_that_of_a_whole_file() -> None:
    """Else a file of many small modules unpacks to a megabyte for each of them."""
    made = [
        devmod.create_with_fallback(
            "cuda", bytes(700_000), "cubin", {name: devmod.FunctionInfo(name, [])}
        )
        for name in "fgh"
    ]
    files: list[bytes] = []
    text = not_compressed(lambda: files.append(devmod.dumps(devmod.bundle(*made), compress="zstd")))
    assert text.startswith("the cuda module with 'g' is stored without compression: its 700")
    assert text.endswith(" from these. So are 1 more")
    loaded = devmod.bundle(*(devmod.loads(devmod.dumps(each, compress="zstd")) for each in made))
    assert not_compressed(lambda: files.append(devmod.dumps(loaded))) == text
    for data in files:
        assert ["zstd" in each for each in index_of(data)["modules"] if "size" in each] == [
            True,
            False,
            False,
        ]
        assert [each.save_to_bytes() for each in devmod.loads(data).imports] == [
            each.save_to_bytes() for each in made
        ]

    frame = zstd.compress(bytes(700_000), 3)
    entry = {
        "kind": "cuda",
        "format": "cubin",
        "zstd": [700_000, hashlib.sha256(bytes(700_000)).digest()],
    }
    assert devmod.loads(file_of([entry], frame)).size == 700_000  # type: ignore[attr-defined]
    message = refusal(devmod.FormatError, devmod.loads, file_of([entry, entry], frame, frame))
    rest = FREE_UNPACKED - (700_000 - MAX_RATIO * len(frame))
    assert message == (
        f"the index of the bundle in memory: the bytes of module 1 (cuda) unpack from {len(frame)} to 700000 bytes; the limit is "
        f"{rest + MAX_RATIO * len(frame)}"
    )


@pytest.mark.row("R41")
@pytest.mark.once
def test_compressed_bytes_have_as_many_objects_as_the_file_explains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a small file has objects that take gigabytes, and minutes to read."""
    assert blobs.FREE_VALUES == 2**20
    monkeypatch.setattr(blobs, "FREE_VALUES", 2**16)
    fewer, more = (  # a type is four objects
        devmod.create_with_fallback(
            "cuda", RANDOM, "cubin", {"f": devmod.FunctionInfo("f", ["int32"] * count)}
        )
        for count in (16_000, 20_000)
    )
    packed = devmod.loads(devmod.dumps(fewer, compress="zstd"))
    assert packed.functions == fewer.functions
    wire = more.save_to_bytes()
    frame = zstd.compress(wire, 3)
    limit = 2**16 + len(frame)
    files: list[bytes] = []
    text = not_compressed(lambda: files.append(devmod.dumps(more, compress="zstd")))
    assert text.endswith(f" readers of a file accept at most {limit} msgpack objects from these")
    assert files == [devmod.dumps(more)]
    assert devmod.loads(files[0]).functions == more.functions
    entry = {
        "kind": "cuda",
        "format": "cubin",
        "functions": ["f"],
        "zstd": [len(wire), hashlib.sha256(wire).digest()],
    }
    loaded = devmod.loads(file_of([entry], frame))
    for act in (loaded.save_to_bytes, lambda: loaded.functions):
        assert refusal(devmod.FormatError, act) == (
            f"the bundle in memory: the cuda module with 'f' cannot be read: its {len(frame)} compressed bytes unpack to more than "
            f"{limit} objects"
        )


def test_objects_behind_the_fields_are_not_counted() -> None:
    """A file of a megabyte unpacks to 256 million objects of one byte: to count them took a
    minute.
    """
    data = module(RANDOM).save_to_bytes() + bytes(2 << 20)
    data += RANDOM * (len(data) // 200 // len(RANDOM) + 1)
    frame = zstd.compress(data, 3)
    loaded = devmod.loads(
        file_of(
            [
                {
                    "kind": "cuda",
                    "functions": ["f"],
                    "zstd": [len(data), hashlib.sha256(data).digest()],
                }
            ],
            frame,
        )
    )

    def read() -> None:
        with pytest.raises(devmod.FormatError, match=r"more bytes follow the last field"):
            loaded.functions  # noqa: B018 - the access raises

    assert work(read) < 10_000


def test_large_bytes_are_hashed_in_a_second_thread_with_the_same_result() -> None:
    code = (RANDOM * 8 + bytes(1 << 16)) * 20
    packed = devmod.dumps(module(code), compress="zstd")
    assert (
        index_of(packed)["modules"][0]["zstd"][1]
        == hashlib.sha256(module(code).save_to_bytes()).digest()
    )
    assert devmod.loads(packed).save_to_bytes() == module(code).save_to_bytes()


@pytest.mark.parametrize(
    "compress", ["zstd:0", "zstd:23", "zstd:", "zstd:03", "gzip", "", 3, "zstd:٣"]
)
def test_another_value_of_compress_is_refused_before_the_file_is_touched(
    compress: Any, tmp_path: Path
) -> None:
    error = raised(
        devmod.ArgumentError,
        lambda: devmod.save(module(), tmp_path / "k.devmod", compress=compress),
    )
    assert (
        str(error)
        == f"compress: expected 'zstd', 'zstd:LEVEL' with a level from 1 to 22, or 'none', got {compress!r}"
    )
    assert error.argument == "compress"
    assert list(tmp_path.iterdir()) == []


def test_a_missing_library_is_named_with_its_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    packed = devmod.dumps(module(), compress="zstd")
    monkeypatch.setitem(sys.modules, NAME, None)
    monkeypatch.delattr(sys.modules[NAME.partition(".")[0]], "zstd")
    install = 'backports.zstd is not installed. To add it: pip install "devmod-core[zstd]"'
    assert (
        refusal(
            devmod.NotRegisteredError, devmod.save, module(), tmp_path / "k.devmod", compress="zstd"
        )
        == f"the file cannot be compressed: {install}"
    )
    assert list(tmp_path.iterdir()) == []
    loaded = devmod.loads(packed)
    assert (loaded.function_names, len(devmod.dumps(loaded))) == (("f",), len(packed))
    error = raised(devmod.NotRegisteredError, loaded.save_to_bytes)
    text = f"the bundle in memory: the cuda module with 'f' cannot be read: the bytes are compressed with zstd, and {install}"
    assert (str(error), error.distribution) == (text, "backports.zstd")


@pytest.mark.row("R41")
def test_a_file_that_says_too_much_takes_no_memory() -> None:
    """A run of 100 MB in some bytes: the index may say the limit, and the decompressor stops behind
    it.
    """
    frame = zstd.compress(bytes(100 << 20), 3)
    size = FREE_UNPACKED + MAX_RATIO * len(frame)
    assert size < 4 << 20
    for claim in (size, size + 1):
        data = file_of([{"kind": "cuda", "format": "cubin", "zstd": [claim, bytes(32)]}], frame)
        tracemalloc.start()
        try:
            with pytest.raises(devmod.FormatError) as caught:
                devmod.loads(data).save_to_bytes()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 4 * size
        assert ("the limit is" in str(caught.value)) is (claim > size)


def test_a_save_of_a_damaged_file_compresses_nothing_of_it() -> None:
    data = bytearray(devmod.dumps(module()))
    data[-1] ^= 1
    with pytest.raises(
        devmod.FormatError, match="is damaged: its SHA-256 is not the one in the index"
    ):
        devmod.dumps(devmod.loads(bytes(data)), compress="zstd")


def test_a_damaged_frame_is_found_by_its_digest_in_a_save_too() -> None:
    data = bytearray(devmod.dumps(module(), compress="zstd"))
    data[-1] ^= 1
    for compress in (None, "none", "zstd"):
        with pytest.raises(
            devmod.FormatError, match="is damaged: its SHA-256 is not the one in the index"
        ):
            devmod.dumps(devmod.loads(bytes(data)), compress=compress)


@pytest.mark.row("R41")
@pytest.mark.once
@pytest.mark.volume_but("--verify", "--source --json")
@pytest.mark.parametrize(
    "arguments",
    [(), ("--json",), ("--verify",), ("--source",), ("--source", "--json")],
    ids=" ".join,
)
def test_inspect_has_one_payload_in_memory(arguments: tuple[str, ...], tmp_path: Path) -> None:
    size = 1_500_000
    made = [
        devmod.create_with_fallback(
            "opencl",
            RANDOM.hex().encode().ljust(size),
            "cl",
            {f"f{number}": devmod.FunctionInfo("f", [])},
        )
        for number in range(20)
    ]
    path = tmp_path / "k.devmod"
    devmod.save(devmod.bundle(*made), path, compress="zstd")
    assert 100 * path.stat().st_size < 20 * size
    tracemalloc.start()
    try:
        with open(os.devnull, "w") as nothing, redirect_stdout(nothing):
            assert main(["inspect", str(path), *arguments]) == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12 * size
