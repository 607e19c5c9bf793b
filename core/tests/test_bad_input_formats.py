"""Untrusted bytes: any input is read or refused with an error of devmod."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stored import blobs_of, entry, file_of, from_wire, head_of, headed, with_pages
from support import KINDS, sample

import devmod
from devmod.interop import tvm

pytestmark = pytest.mark.once  # bytes, which core reads itself

VECTORS = Path(__file__).parent / "vectors" / "tvm"
INTERFACE = devmod.Interface(
    [
        devmod.Param("x", "buffer", "float32", "rw", (0, 1)),
        devmod.Param("n", "scalar", "int32", at=(0, 4), extra={"new": [1, b"2"]}),
    ],
    [devmod.Block("push", 16)],
    (64, 1, 1),
)
#: tests/fuzz reads more of them.
many = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def module_of(kind: str) -> devmod.Module:
    code, fmt, fmap = sample(kind)
    fmap["scale"] = devmod.FunctionInfo(
        "main", ["handle", "int32"], ["blockIdx.x"], (0, 1), INTERFACE
    )
    return devmod.create_with_fallback(kind, code, fmt, fmap)


def constants() -> devmod.Module:
    return devmod.const_loader(
        {"w": b"1234", "b": memoryview(bytes(8)).cast("i")}, {"init": ["w", "b"]}
    )


def tree() -> bytes:
    root = module_of("cuda")
    root.__dict__["_devmod_origin"] = devmod.Origin("cuda", "nvcc 13", ["-O3"], {"k.cu": "00"})
    for kind in KINDS[1:]:
        root.import_module(module_of(kind))
    root.import_module(constants())
    return devmod.dumps(devmod.bundle(root, devmod.bundle(module_of("opencl"))))


WIRE = {kind: module_of(kind).save_to_bytes() for kind in KINDS} | {
    "const_loader": constants().save_to_bytes()
}
TREE = tree()
HEAD_END = 48 + int.from_bytes(TREE[12:16], "little")
HEAD, PAGE = TREE[48:HEAD_END], TREE[HEAD_END : HEAD_END + head_of(TREE)["pages"][0][1]]
TVM = {path.name: path.read_bytes() for path in sorted(VECTORS.glob("*.tvmimports"))}


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Return `data` with a few changes, as accidents and attackers make them."""
    result = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(result) - 1, 0)))
        match draw(st.sampled_from(["byte", "cut", "insert", "remove", "number", "repeat"])):
            case "byte" if result:
                result[at] = draw(st.integers(0, 255))
            case "cut":
                del result[at:]
            case "insert":
                result[at:at] = draw(st.binary(max_size=9))
            case "remove":
                del result[at : at + draw(st.integers(1, 20))]
            case "number":
                result[at : at + 8] = draw(
                    st.sampled_from(
                        [
                            b"\xff" * 8,
                            bytes(8),
                            b"\xff" * 7 + b"\x7f",
                            b"\x01" + bytes(7),
                            bytes(7) + b"\x80",
                        ]
                    )
                )
            case "repeat":
                result[at:at] = result[at : at + draw(st.integers(1, 40))]
    return bytes(result)


def walk(module: devmod.Module) -> list[devmod.Module]:
    results: dict[int, devmod.Module] = {}
    pending = [module]
    while pending:
        each = pending.pop()
        if id(each) not in results:
            results[id(each)] = each
            pending.extend(each.imports)
    return list(results.values())


def use(module: devmod.Module) -> None:
    """Do everything that needs no runtime. Only errors of devmod are raised."""
    for each in walk(module):
        for act in (
            lambda each=each: dict(each.functions),
            lambda each=each: each.inspect_source(),
            lambda each=each: each.save_to_bytes(),
        ):
            with suppress(devmod.FormatError):
                act()
        with suppress(devmod.DevmodError):
            each.get_function("init")()  # constants alone can be used here
        if each.kind not in ("const_loader", "bundle"):
            with pytest.raises(devmod.DevmodError):
                each.get_function("add")
    attempted(lambda: devmod.loads(devmod.dumps(module)))


def attempted(read: Callable[[], devmod.Module]) -> devmod.Module | None:
    """Return the result, or None if it was refused. The text of the error is neither too short nor
    a dump of the file.
    """
    try:
        return read()
    except devmod.FormatError as error:
        error_text = str(error)
    assert 20 < len(error_text) < 2000
    return None


@pytest.mark.row("R4", "R19")
@pytest.mark.parametrize("kind", WIRE)
@many
@given(data=st.data())
def test_module_bytes(kind: str, data: st.DataObject) -> None:
    wire = data.draw(st.binary(max_size=60) | damaged(WIRE[kind]))
    if kind == "const_loader":
        module = attempted(lambda: devmod.load_from_bytes(kind, wire))
    else:
        module = from_wire(kind, wire, ("add", "scale"))
        with suppress(devmod.FormatError):
            assert list(module.functions) == ["add", "scale"]
    if module is not None:
        assert module.save_to_bytes() == wire


@pytest.mark.row("R41")
@many
@given(data=damaged(TREE))
def test_bundle_files(data: bytes) -> None:
    module = attempted(lambda: devmod.loads(data))
    if module is not None:
        use(module)


@pytest.mark.row("R41")
@many
@given(
    data=damaged(HEAD).map(lambda head: headed(head, PAGE, blobs_of(TREE)))
    | damaged(PAGE).map(lambda page: with_pages(TREE, head_of(TREE), [page]))
)
def test_heads_and_pages_with_a_true_digest(data: bytes) -> None:
    module = attempted(lambda: devmod.loads(data))
    if module is not None:
        use(module)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=33),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner, max_size=4)
    ),
    max_leaves=12,
)
keys = st.sampled_from(
    [
        "kind",
        "imports",
        "format",
        "functions",
        "variant",
        "origin",
        "rank",
        "size",
        "sha256",
        "sources",
    ]
)
numbers = st.integers(0, 4) | st.sampled_from([64, 128, 2**31, 2**32, 2**63 - 1, 2**64 - 1, -1])


@pytest.mark.row("R41")
@many
@given(
    roots=st.lists(numbers, max_size=3) | anything,
    changes=st.lists(
        st.dictionaries(
            keys, st.just(None) | anything | numbers | st.lists(numbers, max_size=3), max_size=3
        ),
        max_size=4,
    ),
)
def test_indexes_made_of_anything(roots: Any, changes: list[dict[str, Any]]) -> None:
    blob = WIRE["opencl"]
    step = -(-len(blob) // 64) * 64
    modules = [entry(blob, **change) for change in changes]
    blobs = b"".join(blob.ljust(step, b"\0") for _ in modules)[
        : (len(modules) - 1) * step + len(blob)
    ]
    module = attempted(lambda: devmod.loads(file_of({"roots": roots, "modules": modules}, blobs)))
    if module is not None:
        use(module)


@pytest.mark.row("R19")
@pytest.mark.parametrize("name", TVM)
@many
@given(data=st.data())
def test_tvms_blobs(name: str, data: st.DataObject) -> None:
    blob = data.draw(damaged(TVM[name]))
    if data.draw(st.booleans()):  # a true length, so that what follows it is reached
        blob = (len(blob[8:])).to_bytes(8, "little") + blob[8:]
    module = attempted(lambda: tvm.load_imports(blob))
    if module is not None:
        assert tvm.dump_imports(module) == blob
        use(module)


@pytest.mark.parametrize("kind", [*KINDS, "const_loader"])
@many
@given(data=st.binary(max_size=80))
def test_tvms_module_bytes(kind: str, data: bytes) -> None:
    module = attempted(lambda: tvm.load_module_bytes(kind, data))
    if module is not None:
        assert tvm.dump_module_bytes(module) == data
