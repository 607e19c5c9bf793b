"""Pipes, sockets and devices are rejected with their type, and never opened."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from each_case import refusal
from forked import python
from stored import module_of
from support import sample

import devmod
from devmod._plugins.specs import find_spec
from devmod.backend import read_payload

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(params=["a pipe (FIFO)", "a socket", "a character device"])
def strange(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Callable[[str], str], str]]:
    """Return a function that makes such a file, and its type in errors."""
    sockets = []

    def make(name: str) -> str:
        path = str(tmp_path / name)
        if request.param == "a pipe (FIFO)":
            os.mkfifo(path)
        elif request.param == "a socket":
            sockets.append(socket.socket(socket.AF_UNIX))
            folder = os.open(tmp_path, os.O_RDONLY)  # the path of a socket has at most 100 bytes
            sockets[-1].bind(f"/proc/self/fd/{folder}/{name}")
            os.close(folder)
        else:
            os.symlink("/dev/null", path)
        return path

    yield make, request.param
    for each in sockets:
        each.close()


Strange = tuple[Callable[[str], str], str]


refused = partial(refusal, devmod.FormatError)


def test_load(strange: Strange) -> None:
    make, what = strange
    path = make("k.devmod")
    assert (
        refused(devmod.load, path)
        == f"{path!r} is {what}; expected a regular file. For bytes in memory there is devmod.loads"
    )


def test_save(strange: Strange) -> None:
    make, what = strange
    path = make("k.devmod")
    said = refused(lambda: devmod.save(module_of(), path))
    assert (
        said == f"{path!r} is {what}, which saving would replace. Give the path of a regular file"
    )
    assert not os.path.isfile(path)


def test_write_to_file(strange: Strange, tmp_path: Path) -> None:
    make, what = strange
    code, fmt, fmap = sample("cuda")
    module = devmod.create_with_fallback("cuda", code, fmt, fmap)
    path = make(f"k.{fmt}")
    assert (
        refused(module.write_to_file, path)
        == f"{path!r} is {what}, which saving would replace. Give the path of a regular file"
    )
    beside = make("other.tvm_meta.json")
    assert (
        refused(module.write_to_file, tmp_path / f"other.{fmt}")
        == f"{beside!r} is {what}; expected a regular file"
    )
    assert sorted(os.listdir(tmp_path)) == sorted([f"k.{fmt}", "other.tvm_meta.json"])


def test_a_payload_and_its_metadata(strange: Strange, tmp_path: Path) -> None:
    make, what = strange
    spec = find_spec("cuda")
    assert spec is not None
    path = make("k.ptx")
    assert (
        refused(read_payload, spec, path, "ptx") == f"{path!r} is {what}; expected a regular file"
    )
    beside = make("other.tvm_meta.json")
    (tmp_path / "other.ptx").write_bytes(b"code")
    said = refused(read_payload, spec, str(tmp_path / "other.ptx"), "ptx")
    assert said == f"{beside!r} is {what}; expected a regular file"


@pytest.mark.parametrize("suffix", ["npu", "so"])
def test_load_from_file_with_any_loader(
    strange: Strange, suffix: str, register: Callable[[str, str, object], None]
) -> None:
    """The loader of a plugin may open the path without a check."""
    make, what = strange

    def loader(path: str, fmt: str) -> devmod.Module:
        with open(path, "rb") as file:
            file.read()
        return module_of()

    if suffix == "npu":
        register("devmod.load_from_file", "npu", loader)
    path = make(f"k.{suffix}")
    assert refused(devmod.load_from_file, path) == f"{path!r} is {what}; expected a regular file"


@pytest.mark.parametrize("suffix", ["devmod", "tvmimports", "so", "ptx"])
def test_inspect(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"k.{suffix}"
    os.mkfifo(path)
    done = python("-m", "devmod", "inspect", str(path))
    assert (done.returncode, done.stderr) == (
        1,
        f"devmod: error: {str(path)!r} is a pipe (FIFO); expected a regular file\n",
    )


def test_a_library_exported_by_tvm(strange: Strange) -> None:
    make, what = strange
    path = make("lib.so")
    assert (
        refused(devmod.interop.tvm.load_library, path)
        == f"{path!r} is {what}; expected a regular file"
    )
