"""Trees from untrusted files: 41 modules that each import the next one twice have 2**40 paths.
Every walk visits a module once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stored import Raw, entry, file_of
from support import sample

import devmod
from devmod.interop import tvm
from devmod_workbench._cli import main

DEPTH = 41
BLOB = b"\xa2cl\x81\xa1f\x94\xa1f\x90\x90\x90\xc4\x01x"


def twice(kind: str, count: int = DEPTH) -> bytes:
    """Return a bundle in which each module imports the next one twice. The last is an opencl
    module.
    """
    nodes: list[dict[str, Any]] = [
        {"kind": kind, "imports": [number, number]} for number in range(1, count)
    ]
    return file_of({"roots": [0], "modules": [*nodes, entry(BLOB)]}, BLOB)


def imports_twice(count: int) -> bytes:
    """Return the same tree in TVM's format, with host libraries as modules."""

    def vector(values: list[int]) -> bytes:
        return b"".join(value.to_bytes(8, "little") for value in (len(values), *values))

    rows = [min(2 * number, 2 * (count - 1)) for number in range(count + 1)]
    children = [number for number in range(1, count) for _ in range(2)]
    body = (
        vector(rows) + vector(children) + (4).to_bytes(8, "little").join([b"", *[b"_lib"] * count])
    )
    return len(body).to_bytes(8, "little") + body


def chain(count: int) -> bytes:
    """Return a chain of modules in TVM's format."""

    def vector(values: list[int]) -> bytes:
        return b"".join(value.to_bytes(8, "little") for value in (len(values), *values))

    body = (
        vector([*range(count), count - 1])
        + vector(list(range(1, count)))
        + ((4).to_bytes(8, "little") + b"_lib") * count
    )
    return len(body).to_bytes(8, "little") + body


def inspected(
    capsys: pytest.CaptureFixture[str], path: Path, data: bytes, *options: str
) -> tuple[int, str, str]:
    path.write_bytes(data)
    code = main(["inspect", *options, str(path)])
    return (code, *capsys.readouterr())


@pytest.mark.row("R21")
@pytest.mark.parametrize("kind", ["bundle", "_lib"])
def test_a_module_imported_along_many_paths_is_visited_once(kind: str) -> None:
    root = devmod.loads(twice(kind))
    assert list(root.functions) == (["f"] if kind == "bundle" else [])
    assert repr(root) == (
        "<BundleModule bundle: f>" if kind == "bundle" else "<LibraryModule _lib: no functions>"
    )
    assert len(devmod.dumps(root)) < 5000
    for query_imports in (False, True):
        with pytest.raises(devmod.DevmodError):
            root.get_function("f", query_imports=query_imports)
        with pytest.raises(devmod.FunctionNotFoundError):
            root.get_function("g", query_imports=query_imports)
    with pytest.raises(devmod.DevmodError):
        root.get_global("w")
    root.import_module(devmod.loads(twice(kind)))
    with pytest.raises(devmod.FormatError, match="cycle"):
        root.imports[-1].imports[-1].import_module(root)


@pytest.mark.row("R21")
def test_tvms_trees_with_many_paths_are_read_and_written() -> None:
    data = imports_twice(DEPTH)
    root = tvm.load_imports(data)
    assert tvm.dump_imports(root) == data
    with pytest.raises(devmod.FunctionNotFoundError):
        root.get_function("f", query_imports=True)
    assert len(devmod.dumps(root)) < 5000


@pytest.mark.parametrize("kind", ["bundle", "_lib"])
def test_inspect_shows_a_module_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str
) -> None:
    code, out, _ = inspected(capsys, tmp_path / "k.devmod", twice(kind))
    assert code == 0
    lines = out.splitlines()[1 : 1 + 2 * DEPTH]
    head = "opencl cl, 15 B — runtime: not installed"
    assert [line.strip() for line in lines[: DEPTH + 1]] == [*[kind] * (DEPTH - 1), head, "f()"]
    assert [line.strip() for line in lines[DEPTH + 1 :]] == [
        "also imports, shown above: opencl cl",
        *[f"also imports, shown above: {kind}"] * (DEPTH - 2),
    ]
    code, out, _ = inspected(capsys, tmp_path / "k.devmod", twice(kind), "--json")
    assert code == 0
    node, number = json.loads(out)["module"], 0
    while node["imports"]:
        assert (node["number"], node["kind"]) == (number, kind)
        below, again = node["imports"]
        assert again == below["number"] == number + 1
        node, number = below, number + 1
    assert (node["kind"], number) == ("opencl", DEPTH - 1)
    assert inspected(capsys, tmp_path / "k.tvmimports", imports_twice(DEPTH))[0] == 0


@pytest.mark.once
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_inspect_refuses_a_deeper_tree(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = tmp_path / "k.tvmimports"
    assert inspected(capsys, path, chain(64), *options)[0] == 0
    code, out, err = inspected(capsys, path, chain(20_000), *options)
    text = f"devmod: error: {str(path)!r}: its modules import each other more than 64 deep, which is the maximum of inspect\n"
    assert (code, err, out.count('"kind": "_lib"') < 65) == (1, text, True)


@pytest.mark.once
def test_a_chain_of_20000_modules_is_read_and_written_without_recursion() -> None:
    data = chain(20_000)
    root = tvm.load_imports(data)
    assert tvm.dump_imports(root) == data
    assert repr(root) == "<LibraryModule _lib: no functions>"
    with pytest.raises(devmod.FunctionNotFoundError):
        root.get_function("f", query_imports=True)


class Counted(Raw):
    """A module that counts the calls of its property `functions`."""

    asked = 0

    @property
    def functions(self) -> dict[str, devmod.FunctionInfo]:
        type(self).asked += 1
        return super().functions


@pytest.mark.once
@pytest.mark.parametrize("nested", [True, False])
def test_bundles_that_share_candidates_search_each_once(
    register: Callable[..., None], nested: bool
) -> None:
    """100 bundles over the same 100 candidates: 10,000 pairs, and 100 modules."""
    Counted.asked = 0
    # mixed=True: the check of the arguments reads the names of all candidates of each bundle.
    shared = devmod.bundle(
        *[Counted("npu", b"", functions=(f"f{number}",)) for number in range(100)], mixed=True
    )
    bundles = [
        devmod.bundle(shared, mixed=True) if nested else devmod.bundle(*shared.imports, mixed=True)
        for _ in range(100)
    ]
    roots = []
    for each in bundles:
        code, fmt, fmap = sample("opencl")
        roots.append(devmod.create_with_fallback("opencl", code, fmt, fmap))
        roots[-1].import_module(each)
    whole = devmod.bundle(*roots, mixed=True)
    with pytest.raises(devmod.FunctionNotFoundError):
        whole.get_function("g", query_imports=True)
    assert Counted.asked <= 200  # once as a candidate, once in the tree
    Counted.asked = 0
    assert whole.get_function("f99", query_imports=True)() == "f99"
    assert Counted.asked < 500


def test_the_owner_of_a_function_is_the_first_in_each_candidate() -> None:
    """A tree shared by two candidates has the same owner for both."""
    inner = Raw("npu", b"", functions=("f",))
    behind = Raw("npu", b"", functions=("f",))
    shared = Raw("npu", b"", functions=("g",))
    shared.import_module(inner)
    one, two = Raw("npu", b"", functions=("one",)), Raw("npu", b"", functions=("two",))
    for each in (one, two):
        each.import_module(shared)
    two.import_module(behind)
    from devmod._modules.module import owner_of, owners_of

    assert list(owners_of("f", one, two)) == [inner, inner]
    assert list(owners_of("f", one, behind)) == [inner, behind]
    assert list(owners_of("g", behind, two)) == [shared]
    assert owner_of("two", one, two) is two
    assert owner_of("none", one, two) is None
    outer = devmod.bundle(devmod.bundle(one), two)
    assert owner_of("f", outer) is inner
    assert owner_of("two", outer) is outer
