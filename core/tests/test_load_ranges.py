"""`devmod.load` of file objects and of resources of packages."""

from __future__ import annotations

import importlib
import importlib.resources
import io
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributions import SOURCE
from each_case import raised, refusal
from hypothesis import given
from hypothesis import strategies as st
from stored import Raw, blobs_of

import devmod

A, B = b"a" * 50_000, b"b" * 70_000
BUNDLE = devmod.dumps(
    devmod.bundle(Raw("first", A, functions=("f",)), Raw("second", B, functions=("f",)), mixed=True)
)


class Reads(io.BytesIO):
    """A file that notes the ranges that are read, and returns at most 1000 bytes at once."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.ranges: list[tuple[int, int]] = []

    def read(self, size: int | None = -1) -> bytes:
        start = self.tell()
        data = super().read(min(size or 0, 1000))
        if data:
            self.ranges.append((start, self.tell()))
        return data

    @property
    def bytes_read(self) -> int:
        return sum(stop - start for start, stop in self.ranges)


def test_a_file_object_is_read_by_ranges() -> None:
    file = Reads(BUNDLE)
    module = devmod.load(file)
    assert [each.kind for each in module.imports] == ["first", "second"]
    assert file.bytes_read == 4096
    assert module.imports[1].save_to_bytes() == B
    assert file.bytes_read == 4096 + len(B)
    assert module.imports[1].save_to_bytes() == B
    assert file.bytes_read == 4096 + len(B)


def test_constants_are_read_together_and_once() -> None:
    tensors = {name: np.full(5000, at, "uint8") for at, name in enumerate("abc")}
    module = devmod.const_loader(tensors, {"two": ["a", "b"], "all": ["c", "b", "a"]})
    file = Reads(devmod.dumps(module))
    constants = devmod.load(file)
    constants["two"]()
    before = file.bytes_read
    values = [each.numpy()[[0, -1]].tolist() for each in constants["all"]()]
    assert values == [[2, 2], [1, 1], [0, 0]]
    assert file.bytes_read == before + 5000


def test_an_index_of_several_kB_is_read_whole() -> None:
    modules = [Raw("toy", b"data", functions=(f"f{number}",)) for number in range(200)]
    data = devmod.dumps(devmod.bundle(*modules))
    file = Reads(data)
    module = devmod.load(file)
    assert list(module) == [f"f{number}" for number in range(200)]
    pages_start = 48 + int.from_bytes(data[12:16], "little")
    zeros_end = len(data) - len(blobs_of(data))
    assert file.bytes_read == 4096 + zeros_end - pages_start
    assert devmod.dumps(module) == file.getvalue()


def test_a_file_object_is_read_from_its_start_wherever_it_stands() -> None:
    file = io.BytesIO(BUNDLE)
    file.seek(100)
    assert devmod.dumps(devmod.load(file)) == BUNDLE


def test_prefer_and_the_name_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "k.devmod").write_bytes(BUNDLE[:-1])
    with (tmp_path / "k.devmod").open("rb") as file, pytest.raises(devmod.FormatError) as caught:
        devmod.load(file, prefer=["second"])
    text = f"is cut short: {len(BUNDLE) - 1} bytes; expected are {len(BUNDLE)}"
    assert str(caught.value) == f"'{tmp_path / 'k.devmod'}' {text}"


@given(st.integers(0, len(BUNDLE) - 1), st.integers(0, 300), st.integers(1, 255))
def test_the_errors_are_those_of_loads(end: int, at: int, change: int) -> None:
    """A file object and bytes in memory give the same tree, or the same error."""
    for data in (BUNDLE[:end], BUNDLE[:at] + bytes([BUNDLE[at] ^ change]) + BUNDLE[at + 1 :]):
        results = []
        for load, value in ((devmod.loads, data), (devmod.load, io.BytesIO(data))):
            try:
                results.append(devmod.dumps(load(value)))  # type: ignore[operator]
            except devmod.FormatError as error:
                results.append(
                    str(error).replace("'the file object'", "the bundle in memory").encode()
                )
        assert results[0] == results[1]


def test_threads_share_a_file_object() -> None:
    """Each seek waits, so that without a lock another thread would seek before the read."""

    class Slow(io.BytesIO):
        def seek(self, offset: int, whence: int = 0) -> int:
            position = super().seek(offset, whence)
            time.sleep(0.001)
            return position

    modules = [
        Raw("toy", bytes([number]) * 1000, functions=(f"f{number}",)) for number in range(32)
    ]
    module = devmod.load(Slow(devmod.dumps(devmod.bundle(*modules))))
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda each: each.save_to_bytes(), module.imports)) == [
            each.save_to_bytes() for each in modules
        ]


def test_a_file_that_shrinks_after_load() -> None:
    file = io.BytesIO(BUNDLE)
    module = devmod.load(file)
    file.truncate(60_000)
    assert (
        refusal(devmod.FormatError, module.imports[1].save_to_bytes)
        == "'the file object' is cut short: a part of it has 70000 bytes, and 9632 are left"
    )


def test_a_file_that_is_closed_after_load() -> None:
    file = io.BytesIO(BUNDLE)
    module = devmod.load(file)
    file.close()
    assert refusal(devmod.FetchError, module.imports[1].save_to_bytes) == (
        "'the file object' cannot be read: ValueError: I/O operation on closed file. A file object must be open while modules are first used"
    )


def test_a_file_open_as_text() -> None:
    error = raised(devmod.ArgumentError, lambda: devmod.load(io.StringIO("text")))
    assert str(error) == "load(path): 'the file object' is open as text; open it in the mode 'rb'"
    assert error.argument == "path"


def test_a_pipe() -> None:
    with (
        subprocess.Popen([sys.executable, "-c", "pass"], stdout=subprocess.PIPE) as process,
        pytest.raises(devmod.ArgumentError) as caught,
    ):
        devmod.load(process.stdout)  # type: ignore[arg-type]
    assert process.stdout is not None
    assert str(caught.value) == (
        f"load(path): '{process.stdout.name}' cannot seek (UnsupportedOperation: File or stream is not seekable.). "
        "devmod.loads(file.read()) reads all of it"
    )


@pytest.mark.parametrize("value", [BUNDLE, None, 7, ["k.devmod"]])
def test_another_object(value: Any) -> None:
    assert refusal(devmod.ArgumentError, devmod.load, value).startswith(
        f"load(path): path is a str or an os.PathLike, not {type(value).__name__}"
    )


# -- resources


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of sys.path for packages."""
    monkeypatch.syspath_prepend(tmp_path / "path")
    (tmp_path / "path").mkdir()
    return tmp_path / "path"


def test_a_resource_in_a_folder_is_mapped(folder: Path) -> None:
    (folder / "kernels_in_a_folder").mkdir()
    (folder / "kernels_in_a_folder" / "__init__.py").touch()
    (folder / "kernels_in_a_folder" / "k.devmod").write_bytes(BUNDLE)
    resource = importlib.resources.files("kernels_in_a_folder") / "k.devmod"
    module = devmod.load(resource)
    assert devmod.dumps(module) == BUNDLE
    with pytest.raises(FileNotFoundError):
        devmod.load(importlib.resources.files("kernels_in_a_folder") / "other.devmod")


PROGRAM = """
import sys
writes = []
def audit(event, arguments):
    if event == "open" and (arguments[2] or 0) & 3:
        writes.append(arguments[0])
    elif event in ("tempfile.mkstemp", "tempfile.mkdtemp", "os.mkdir"):
        writes.append(event)
import importlib.resources, devmod, tempfile
sys.addaudithook(audit)
module = devmod.load(importlib.resources.files("zipped_kernels") / "data" / "k.devmod")
print([each.save_to_bytes()[:1] for each in module.imports], list(module), writes)
"""


@pytest.mark.parametrize(
    "compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "deflated"]
)
def test_a_resource_in_a_zip_file_is_not_unpacked_to_the_disk(
    tmp_path: Path, compression: int
) -> None:
    path = tmp_path / "kernels.zip"
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("zipped_kernels/__init__.py", "")
        archive.writestr("zipped_kernels/data/k.devmod", BUNDLE)
    environment = {
        "PYTHONPATH": f"{path}:{SOURCE}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "error",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("[b'a', b'b'] ['f'] []\n", "")


def test_a_missing_resource_in_a_zip_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "k.zip", "w") as archive:
        archive.writestr("package/k.devmod", BUNDLE)
    with zipfile.ZipFile(tmp_path / "k.zip") as archive:
        place = zipfile.Path(archive, "package/")
        assert devmod.dumps(devmod.load(place / "k.devmod")) == BUNDLE
        with pytest.raises(FileNotFoundError) as caught:
            devmod.load(place / "other.devmod")
    assert (
        str(caught.value)
        == f"[Errno 2] No such file or directory: '{tmp_path / 'k.zip'}/package/other.devmod'"
    )


# -- URLs without devmod-remote


def test_a_url_without_devmod_remote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "devmod_remote", None)
    assert refusal(devmod.FetchError, devmod.load, "https://user:secret@host/k.devmod") == (
        'load(url): a URL with https:// cannot be read: devmod-remote is not installed. To add it: pip install "devmod-core[remote]"'
    )


def test_a_path_with_a_scheme_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "http:").mkdir()
    (tmp_path / "http:" / "k.devmod").write_bytes(BUNDLE)
    assert devmod.dumps(devmod.load(Path("http://k.devmod"))) == BUNDLE
