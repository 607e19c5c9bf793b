"""The bytes between two parts of a file are zero, and every form of a file is refused otherwise
when the part before them is read.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checker import checker, policy
from each_case import refusal
from http_server import Server
from stored import Raw, head_of

import devmod

__all__ = ["checker", "policy"]

SMALL = devmod.dumps(
    devmod.bundle(
        Raw("first", b"1", functions=("f",)), Raw("second", b"2", functions=("f",)), mixed=True
    )
)
LARGE = devmod.dumps(
    devmod.bundle(
        *(Raw("toy", b"%d" % number, functions=(f"f{number:04}",)) for number in range(2000))
    )
)
TEXT = " is damaged: the bytes between two of its parts are not zero. Get the file again"

Load = Callable[[bytes], Any]


@pytest.fixture(params=["without a policy", "under a policy"])
def signature(request: pytest.FixtureRequest) -> bytes | None:
    """A signature that the policy takes."""
    if request.param == "without a policy":
        return None
    request.getfixturevalue("checker")
    return b"signed"


@pytest.fixture(params=["path", "bytes", "object", "local URL", "URL"])
def load(
    request: pytest.FixtureRequest, signature: bytes | None, server: Server, tmp_path: Path
) -> Load:
    """A function that loads the bytes of a file in one form."""

    def load(data: bytes) -> Any:
        path = tmp_path / "k.devmod"
        path.write_bytes(data)
        server.files["k.devmod"] = data
        match request.param:
            case "path":
                return devmod.load(path, signature=signature)
            case "bytes":
                return devmod.loads(data, signature=signature)
            case "object":
                return devmod.load(io.BytesIO(data), signature=signature)
            case "local URL":
                return devmod.load(path.as_uri(), signature=signature)
            case _:
                return devmod.load(server.url(), signature=signature)

    return load


def changed(data: bytes, at: int) -> bytes:
    assert data[at] == 0
    return data[:at] + b"\1" + data[at + 1 :]


def refused(act: Callable[[], object]) -> None:
    assert refusal(devmod.FormatError, act).endswith(TEXT)


def pages_end(data: bytes) -> int:
    head = int.from_bytes(data[12:16], "little")
    sizes = [int(size) for _, size, *_ in head_of(data)["pages"]]
    return 48 + head + sum(sizes)


@pytest.mark.row("R41", "R46")
def test_behind_the_pages(load: Load) -> None:
    start = SMALL.rindex(b"1")
    assert load(SMALL).imports[0].save_to_bytes() == b"1"
    for at in (pages_end(SMALL), start - 1):
        refused(lambda at=at: load(changed(SMALL, at)))  # type: ignore[misc]


@pytest.mark.row("R41", "R46")
def test_behind_a_module(load: Load) -> None:
    first = SMALL.rindex(b"1")
    for at in (first + 1, first + 63):
        root = load(changed(SMALL, at))
        assert root.imports[1].save_to_bytes() == b"2"
        refused(root.imports[0].save_to_bytes)


@pytest.mark.row("R41", "R46", "R50")
def test_of_several_pages_the_last_one_is_read_with_the_zeros_behind_it(load: Load) -> None:
    root = load(changed(LARGE, pages_end(LARGE)))
    assert root._owners_of("f0000")[0].save_to_bytes() == b"0"
    refused(lambda: root._owners_of("f1999"))
    refused(lambda: root.imports)
    assert load(LARGE)._owners_of("f1999")[0].save_to_bytes() == b"1999"


@pytest.mark.row("R41")
def test_a_part_from_the_cache_is_not_read_again(server: Server) -> None:
    """It is the same part, whatever is behind it."""
    server.files["k.devmod"] = LARGE
    assert devmod.load(server.url())._owners_of("f1999")[0].save_to_bytes() == b"1999"  # type: ignore[attr-defined]
    server.files["other.devmod"] = changed(LARGE, pages_end(LARGE))
    assert devmod.load(server.url("other.devmod"))._owners_of("f1999")[0].save_to_bytes() == b"1999"  # type: ignore[attr-defined]
