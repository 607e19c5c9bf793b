"""Saving a .devmod file: the whole file is written or the old one stays, whatever fails."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
from each_case import refusal
from forked import python
from stored import Raw, module_of

import devmod


def test_saving_over_an_open_file_does_not_change_loaded_modules(tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    devmod.save(module_of(), path)
    module = devmod.load(path)
    devmod.save(module_of("cuda"), path)
    assert module.save_to_bytes() == module_of().save_to_bytes()
    devmod.save(module, path)
    assert devmod.load(path).kind == "opencl"


def test_a_tree_that_cannot_be_saved_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    devmod.save(module_of(), path)
    before = path.read_bytes()

    class Unsaved(Raw):
        save_to_bytes = devmod.Module.save_to_bytes

    broken = module_of()
    broken.import_module(Unsaved("cuda", b""))
    assert (
        refusal(devmod.FormatError, devmod.save, broken, path)
        == "a module of kind 'cuda' cannot be saved to bytes"
    )
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_bundle_has_no_bytes_of_its_own() -> None:
    for act in (devmod.bundle(module_of()).save_to_bytes, devmod.bundle(module_of()).wire_parts):
        assert (
            refusal(devmod.FormatError, act)
            == "a bundle has no bytes of its own; devmod.save and devmod.dumps write it with its candidates"
        )


def test_permission_bits_links_and_sync(tmp_path: Path) -> None:
    path = tmp_path / "k.devmod"
    mask = os.umask(0o027)
    try:
        devmod.save(module_of(), path, sync=True)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    devmod.save(module_of("cuda"), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    link = tmp_path / "link.devmod"
    link.symlink_to(path.name)
    devmod.save(module_of("webgpu"), link)
    assert link.is_symlink()
    assert devmod.load(path).kind == "webgpu"
    long = tmp_path / ("n" * 255)
    devmod.save(module_of(), str(long))
    assert devmod.load(str(long)).kind == "opencl"
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "k.devmod",
        "link.devmod",
        "n" * 255,
    ]


@pytest.mark.skipif(os.name == "nt", reason="folders cannot be flushed there")
def test_sync_flushes_the_complete_file_before_the_move_and_the_folder_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash of the machine then leaves the old file or the new one, and never an empty one."""
    path = tmp_path / "k.devmod"
    events: list[Any] = []
    flush, replace = os.fsync, os.replace

    def fsync(handle: int) -> None:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            events.append(("folder", os.path.samestat(status, tmp_path.stat()), path.exists()))
        else:
            (partial,) = tmp_path.glob("*.partial")
            events.append(
                (
                    "file",
                    os.path.samestat(status, partial.stat()),
                    partial.read_bytes() == devmod.dumps(module_of()),
                )
            )
        flush(handle)

    def move(source: str, target: str) -> None:
        events.append("move")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", move)
    devmod.save(module_of(), path, sync=True)
    assert events == [("file", True, True), "move", ("folder", True, True)]
    events.clear()
    devmod.save(module_of(), path)
    assert events == ["move"]


@pytest.mark.parametrize(
    ("name", "error", "error_text"),
    [
        ("missing/k.devmod", FileNotFoundError, "[Errno 2] No such file or directory: {path!r}"),
        ("folder", IsADirectoryError, "[Errno 21] Is a directory: {path!r}"),
        ("file/k.devmod", NotADirectoryError, "[Errno 20] Not a directory: {path!r}"),
        ("n" * 256, OSError, "[Errno 36] File name too long: {path!r}"),
    ],
)
@pytest.mark.parametrize("act", ["save", "load"])
def test_errors_of_the_system_are_os_errors_with_the_path_of_the_caller(
    act: str, name: str, error: type[OSError], error_text: str, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    path = str(tmp_path / name)
    with pytest.raises(error) as caught:
        devmod.load(path) if act == "load" else devmod.save(module_of(), path)
    assert str(caught.value) == error_text.format(path=path)
    assert caught.value.filename == path
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "folder"]


PERMISSIONS = """
import os, pathlib, sys
import devmod
closed = pathlib.Path(sys.argv[1], "closed")
module = devmod.create_with_fallback("opencl", b"", "cl", {})
devmod.save(module, closed.with_name("k.devmod"))
devmod.load(closed.with_name("k.devmod"))
if os.geteuid() == 0:  # root may do all of this; what is imported so far is enough for nobody
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
closed.mkdir()
path = closed / "k.devmod"
devmod.save(module, path)
def failed(act):
    try:
        act()
    except PermissionError as error:
        return str(error)
path.chmod(0o400)
print(failed(lambda: devmod.save(module, path)) == f"[Errno 13] Permission denied: {str(path)!r}")
path.chmod(0)
print(failed(lambda: devmod.load(path)) == f"[Errno 13] Permission denied: {str(path)!r}")
closed.chmod(0o500)
new = closed / "new.devmod"
print(failed(lambda: devmod.save(module, new)) == f"[Errno 13] Permission denied: {str(new)!r}")
print(os.listdir(closed) == ["k.devmod"])
"""


def test_missing_permission_is_a_permission_error_with_the_path() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        process = python("-c", PERMISSIONS, folder)
        Path(folder, "closed").chmod(0o700)
    assert (process.stdout.split(), process.stderr) == (["True"] * 4, "")
