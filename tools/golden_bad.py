"""The corpus of bad files: invalid bytes, and the exact text of each error.

Each is made from a valid file by one change, or by hand. A case's name describes its fault, and its
suffix determines its reader.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]

import devmod
import golden_readers
from devmod.backend import decode
from handmade import file_of, head_of, headed, pages_of, row

EXPECTATIONS = "expectations.json"
ABOUT = (
    "Files that devmod refuses, and the exact error of each, in Python (`message`) and in each other reader of such files. "
    "Written by `make golden` alone, from tools/golden_bad.py, which says how each "
    "is made; the words are those of the devmod that wrote them, and a change of them is a change for users, to be looked at. No file "
    "comes from anywhere else."
)

BLOB = b"\xa2cl\x80\xc4\x03abc"

#: The bytes of a module with the functions "f" and "x".
NAMED = b"\xa2cl\x82\xa1f\x94\xa1k\x90\x90\x90\xa1x\x94\xa1k\x90\x90\x90\xc4\x00"

#: The bytes of constants of which one is a part, and of its elements.
WITH_PART = b"\x81\xa1w\x93\x93\x02\x20\x01\x91\x02\x00\x80"
ELEMENTS = bytes(range(8))

#: For rules of UTF-8, invalid bytes and the nearest valid ones.
_TEXTS = {
    "the first surrogate": (b"\xed\x9f\xbf", b"\xed\xa0\x80"),
    "the last surrogate": (b"\xee\x80\x80", b"\xed\xbf\xbf"),
    "a long form of two bytes": (b"a\xc2\x80", b"a\xc1\xbf"),
    "a long form of three bytes": (b"\xe0\xa0\x80", b"\xe0\x9f\xbf"),
    "a long form of four bytes": (b"\xf0\x90\x80\x80", b"\xf0\x8f\xbf\xbf"),
    "a character above the last one": (b"\xf4\x8f\xbf\xbf", b"\xf4\x90\x80\x80"),
    "a first byte above the last one": (b"\xf4\x80\x80\x80", b"\xf5\x80\x80\x80"),
    "a second byte that is a first one": (b"\xc3\xbf", b"\xc3\xc0"),
    "a third byte that is a first one": (b"\xe1\x80\xbf", b"\xe1\x80\xc0"),
    "a fourth byte of ASCII": (b"\xf1\x80\x80\x80", b"\xf1\x80\x80\x7f"),
    "a character that is cut": (b"a\xe1\x80\x80", b"aa\xe1\x80"),
}

_INSIDE = {"type": "", "members": [{"name": "b", "offset": 0, "type": "int64"}]}


# -- the readers


def _bundle(data: bytes) -> None:
    use(devmod.loads(data))


def use(root: devmod.Module) -> None:
    """Use everything of a bundle that needs no runtime."""
    seen: set[int] = set()
    pending = [root]
    while pending:
        module = pending.pop(0)
        if id(module) not in seen:
            seen.add(id(module))
            pending += module.imports
            if module.kind not in ("bundle", "_lib"):
                module.save_to_bytes()
            dict(module.functions)
            _ = module.origin
            _ = module.source


def _module(kind: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        if kind == "const_loader":
            devmod.load_from_bytes(kind, data)
        else:
            spec = devmod.backend.find_spec(kind)
            assert spec is not None
            dict(decode(spec, memoryview(data))[1])

    return read


#: The reader of a file, by the last two parts of its name.
READERS: dict[str, Callable[[bytes], None]] = {
    "devmod": _bundle,
    "tvmimports": lambda data: (devmod.interop.tvm.load_imports(data), None)[1],
    "tvm_meta.json": lambda data: (devmod.load_metadata_from_json(data), None)[1],
    **{f"{kind}.bytes": _module(kind) for kind in ("opencl", "webgpu", "vulkan", "const_loader")},
    **{
        f"{kind}.tvmbytes": lambda data, kind=kind: (
            devmod.interop.tvm.load_module_bytes(kind, data),
            None,
        )[1]  # type: ignore[misc]
        for kind in ("opencl", "metal", "const_loader", "npu")
    },
}


def reader_of(name: str) -> Callable[[bytes], None]:
    """Return the reader of a file by its name."""
    return next(reader for suffix, reader in READERS.items() if name.endswith(f".{suffix}"))


# -- bundles


def entry(blob: bytes = BLOB, **changes: Any) -> dict[str, Any]:
    """Return the record of a module with these bytes. None removes a field."""
    made: dict[str, Any] = {
        "kind": "opencl",
        "format": "cl",
        "size": len(blob),
        "sha256": hashlib.sha256(blob).digest(),
    }
    return {key: value for key, value in (made | changes).items() if value is not None}


def _file(index: Any, blobs: bytes = BLOB, **header: Any) -> bytes:
    return file_of(index, blobs, **header)


def _tree(*modules: Any, roots: Any = (0,), **more: Any) -> dict[str, Any]:
    return {"roots": list(roots), "modules": list(modules), **more}


def _bundles() -> Iterator[tuple[str, bytes]]:  # noqa: PLR0915 - a list of files
    good = _file(_tree(entry()))
    node = {"kind": "bundle"}
    yield "empty", b""
    yield "not a bundle", b"\x7fELF" + bytes(100)
    yield "sent as text", good.replace(b"\n", b"\r\n", 1)
    yield "cut in the magic", good[:5]
    yield "cut in the header", good[:47]
    yield "cut in the index", good[:60]
    yield "cut behind the index", good[:150]
    yield "cut in a module", good[:-1]
    yield "longer than it says", good + b"!"
    yield "newer version", _file(_tree(entry()), number=7)
    yield "much newer version", _file(b"\xc1", number=2**32 - 1)
    yield "version 0", _file(_tree(entry()), number=0)
    for number in (1, 2, 3, 4, 5):
        yield f"development file {number}", _file(_tree(entry()), number=number)
    yield "oversized head", _file({}, length=2**32 - 1)
    yield "head longer than the file", _file({}, length=2000)
    yield "wrong head digest", _file(_tree(entry()), digest=bytes(32))
    yield "flipped bit in the head", good[:60] + bytes([good[60] ^ 1]) + good[61:]
    yield "flipped bit in a page", good.replace(b"opencl", b"openCL")
    yield "wrong module digest", _file(_tree(entry(sha256=bytes(32))))
    yield "flipped bit in a module", good[:-1] + b"b"
    yield "page is no map", _file([])
    yield "page is no msgpack", _file(b"\xc1")
    yield "page is cut", _file(msgpack.packb(pages_of(good)[0])[:-3])
    yield "two objects in a page", _file(b"\x80\x80")
    yield "no modules", _file({"roots": [0]})
    yield "duplicate key", _file(b"\x82\xa7modules\x90\xa7modules\x90")
    yield "duplicate key in a module", _file(b"\x81\xa7modules\x91\x82\xa4kind\xa1a\xa4kind\xa1b")
    yield "key that is no string", _file(b"\x81\x01\x02")
    yield "extension type", _file(b"\x81\xa1x\xd4\x01\x02")
    yield "string that is not UTF-8", _file(b"\x81\xa2\xff\xfe\x00")
    yield "nested too deep", _file(b"\x81\xa1x" + b"\x91" * 40 + b"\xc0")
    yield "array longer than the page", _file(b"\x81\xa7modules\xdd\xff\xff\xff\xff")
    yield "map longer than the page", _file(b"\xdf\xff\xff\xff\xff")
    yield "string longer than the page", _file(b"\x81\xdb\xff\xff\xff\xff")
    yield "module of another type", _file(_tree(1))
    yield "no kind", _file(_tree({}))
    yield "kind of another form", _file(_tree(entry(kind="a; rm -rf /")))
    yield "kind too long", _file(_tree(entry(kind="k" * 33)))
    yield "kind of another type", _file(_tree(entry(kind=b"opencl")))
    yield "no size", _file(_tree(entry(size=None)))
    yield "no digest", _file(_tree(entry(sha256=None)))
    yield "digest too short", _file(_tree(entry(sha256=bytes(31))))
    yield "node with bytes", _file(_tree(entry(kind="bundle")))
    yield "negative size", _file(_tree(entry(size=-1)))
    yield "size of another type", _file(_tree(entry(size=9.0)))
    yield "oversized module", _file(_tree(entry(size=2**62)))
    yield "module of more bytes than its page", _file(_tree(entry(size=8)))
    yield "functions of another type", _file(_tree(entry(functions="f")))
    yield "functions that the module has not", _file(_tree(entry(functions=["f"])))
    yield "origin of another type", _file(_tree(entry(origin=[])))
    for key in ("target", "toolchain", "options", "sources"):
        yield f"origin with nil for its {key}", _file(_tree(entry(origin={key: None})))
    yield "origin with a number for a target", _file(_tree(entry(origin={"target": 1})))
    yield "module that imports itself", _file(_tree(node | {"imports": [0]}), b"")
    yield "cycle", _file(_tree(node | {"imports": [1]}, node | {"imports": [0]}), b"")
    yield "import that is not there", _file(_tree(node | {"imports": [7]}), b"")
    yield "module outside the tree", _file(_tree(node, node), b"")
    yield "nodes alone", _file(_tree(entry(), *[node] * 1026, roots=range(1027)))
    yield "origin of many maps", _file(_tree(entry(origin={"target": "opencl", "x": [{}] * 1200})))
    yield "key of many arrays", _file(_tree(entry(), x=[[]] * 1200))
    yield (
        "imports too deep",
        _file(_tree(*(node | {"imports": [number + 1]} for number in range(70)), node), b""),
    )
    yield "rank of another type", headed(_head(entry(rank="0")), _page(entry(rank="0")), BLOB)
    junk = b"\xa2cl\x80\xa3abc"
    yield "module whose bytes are none", _file(_tree(entry(junk)), junk)


def _page(*modules: Any, **more: Any) -> bytes:
    page: bytes = msgpack.packb(({"modules": list(modules)} if modules else {}) | more)
    return page


def _head(*modules: Any, pages: Any = None, **more: Any) -> dict[str, Any]:
    """Return the head of a page with these modules, or of others."""
    rows = [row(_page(*modules), len(modules), len(BLOB))] if pages is None else pages
    return {
        key: value
        for key, value in ({"candidates": 1, "pages": rows} | more).items()
        if value is not None
    }


def _heads() -> Iterator[tuple[str, bytes]]:
    first = entry(rank=0)
    page = _page(first)
    good = row(page, 1, len(BLOB))

    def one(*rows: Any, **more: Any) -> bytes:
        return headed(
            _head(pages=list(rows) or None, **more) if rows else _head(first, **more), page, BLOB
        )

    assert _use_sound(one())
    assert _use_sound(one(roots=[0], later=[{}]))
    yield "head is empty", headed(b"", page, BLOB)
    yield "head is no map", headed([], page, BLOB)
    yield "head is no msgpack", headed(b"\xc1", page, BLOB)
    yield "head is cut", headed(msgpack.packb(_head(first))[:-3], page, BLOB)
    yield "two heads", headed(b"\x80\x80", page, BLOB)
    yield "head of many arrays", one(x=[[]] * 1200)
    yield "no candidates", one(candidates=None)
    yield "candidates of another type", one(candidates=[0])
    yield "fewer candidates than ranks", one(candidates=0, roots=[0])
    yield "more candidates than ranks", one(candidates=2)
    yield "more candidates than fit into memory", one(candidates=2**32 - 1)
    yield "no pages", headed({"candidates": 1}, page, BLOB)
    yield "empty pages", headed({"candidates": 1, "pages": []}, page, BLOB)
    yield "pages of another type", headed({"candidates": 1, "pages": {}}, page, BLOB)
    yield "empty roots", one(roots=[])
    yield "root that is not there", one(roots=[1])
    yield "root twice", one(roots=[0, 0])
    yield "negative root", one(roots=[-1])
    yield "roots of another type", one(roots=0)
    yield "page of five parts", one(good[:5])
    yield "page of no bytes", one([1, 0, *good[2:]])
    yield "page of more than the limit", one([1, 2**27, *good[2:]])
    yield "page beyond the file", one([1, len(page) + 200, *good[2:]])
    yield "page of another size", one([1, len(page) - 1, *good[2:]])
    yield "page with a digest too short", one([*good[:3], bytes(31), *good[4:]])
    yield "page with a wrong digest", one([*good[:3], bytes(32), *good[4:]])
    yield "page of fewer records", one([0, *good[1:]])
    yield "page of more records", one([2, *good[1:]])
    yield "page of more records than bytes", one([2**31, *good[1:]])
    yield "page of other bytes", one([*good[:2], 2**40, *good[3:]])
    yield "first page with a name", one([*good[:4], 0, b"a"])
    yield "first page that keeps a name", one([*good[:4], 1, b""])
    yield (
        "only page without names",
        headed(_head(pages=[row(_named(), 1, len(BLOB))[:4]]), _named(), BLOB),
    )


def _padding() -> Iterator[tuple[str, bytes]]:
    """Yield files in which one of the bytes between two parts is not zero."""
    text = b"\x81\xa4cuda\xa3abc"
    sources = [{"size": len(text), "sha256": hashlib.sha256(text).digest()}] * 2
    modules = [entry(sources=2 + number) for number in range(2)]
    blobs = b"".join(part.ljust(64, b"\0") for part in (BLOB, BLOB, text)) + text
    good = bytearray(_file(_tree(*modules, roots=[0, 1], sources=sources), blobs))
    start = len(good) - len(blobs)
    node = bytearray(_file(_tree({"kind": "bundle"}), b""))
    _use_sound(bytes(good))
    _use_sound(bytes(node))

    def changed(data: bytearray, at: int) -> bytes:
        assert data[at] == 0
        return bytes(data[:at] + b"\1" + data[at + 1 :])

    pages_end = (
        48
        + int.from_bytes(good[12:16], "little")
        + sum(size for _, size, *_ in head_of(bytes(good))["pages"])
    )
    yield "no zero behind the pages", changed(good, pages_end)
    yield "no zero before the first module", changed(good, start - 1)
    yield "no zero at the end of a file without bytes", changed(node, len(node) - 1)
    yield "no zero behind a module", changed(good, start + len(BLOB))
    yield "no zero before a module", changed(good, start + 63)
    yield "no zero behind sources", changed(good, start + 128 + len(text))
    yield "no zero before sources", changed(good, start + 191)


def _named(**changes: Any) -> bytes:
    return _page(entry(NAMED, functions=["f"], rank=0) | changes)


def _pages() -> Iterator[tuple[str, bytes]]:
    """Yield files of two pages. The first one has the module with "f" and "x", and the second one
    has the names from "m" on.
    """
    both = entry(NAMED, functions=["f", "x"], rank=0)
    other = entry(functions=[], rank=1)

    def two(
        one: bytes,
        other: bytes,
        *,
        candidates: int = 1,
        name: bytes = b"m",
        nameless: bool = False,
        **more: Any,
    ) -> bytes:
        rows = [row(one, 1, len(NAMED)), row(other, 0, 0, 0, name)[: 4 if nameless else 6]]
        return headed({"candidates": candidates, "pages": rows} | more, one + other, NAMED)

    variants = [["opencl", "cl", ""]]

    def further(*names: Any, variants: Any = variants, **more: Any) -> bytes:
        """Return a page with what it says of candidates of the other one."""
        return _page(**more, names=list(names), variants=variants)

    x = ["x", [0, 0, 0]]
    first = _page(both)
    second = further(x)
    assert _use_sound(two(first, second))
    again = ["x", [0, 0, 2]]
    assert _use_sound(two(first, further(again, variants=[["", "", ""], *variants, *variants])))
    yield "second name without a number", two(first, further(["x", []]))
    yield "second name that no page has", two(first, _page())
    yield "second name of a module that has it not", two(first, further(x, ["y", [0, 0, 0]]))
    yield "second name of no module", two(first, further(x, ["y", [7, 1, 0]]))
    yield (
        "second name in the wrong page",
        two(_page(both, names=[x], variants=variants), _page()),
    )
    yield (
        "second name in the page of its module",
        two(_page(both, names=[["f", [0, 0, 0]]], variants=variants), second),
    )
    yield "second name twice", two(first, further(x, x))
    yield "second name with a number twice", two(first, further(["x", [0, 0, 0, 0, 0, 0]]))
    yield "second name with a number alone", two(first, further(["x", [0]]))
    yield "second name with two numbers", two(first, further(["x", [0, 0]]))
    yield "second name with four numbers", two(first, further(["x", [0, 0, 0, 0]]))
    yield "second name with a negative rank", two(first, further(["x", [0, -1, 0]]))
    yield "second name with another rank", two(first, further(["x", [0, 1, 0]]))
    yield "second name with no such variant", two(first, further(["x", [0, 0, 1]]))
    yield "second name of another kind", two(first, further(x, variants=[["metal", "cl", ""]]))
    yield "second name of another format", two(first, further(x, variants=[["opencl", "il", ""]]))
    yield "second name of another variant", two(first, further(x, variants=[["opencl", "cl", "v"]]))
    yield "second name that is a number", two(first, further([1, [0, 0, 0]]))
    yield "second name of three parts", two(first, further([*x, 0]))
    yield "second names that are a map", two(first, _page(names={"x": [0, 0, 0]}))
    yield "variant of two parts", two(first, further(x, variants=[["opencl", "cl"]]))
    yield "variant that is a string", two(first, further(x, variants=["opencl"]))
    yield "variant of a number", two(first, further(x, variants=[["opencl", "cl", 0]]))
    yield "variants that are a map", two(first, further(x, variants={}))
    yield "module in the page of another name", two(first, second, name=b"a")
    only = _page(both, names=[x], variants=variants)
    yield "names in the only page", headed(_head(pages=[row(only, 1, len(NAMED))]), only, NAMED)
    only = further(["f", [0, 0, 0]], x)
    yield (
        "module in a page of none of its names",
        headed(
            _head(pages=[row(only, 0, 0), row(first, 1, len(NAMED), 0, b"z")]), only + first, NAMED
        ),
    )
    # A module may be in the page of any of its names.
    only = further(["f", [0, 0, 0]])
    rows = [row(only, 0, 0), row(first, 1, len(NAMED), 0, b"m")]
    assert _use_sound(headed({"candidates": 1, "pages": rows}, only + first, NAMED))
    yield "pages out of order", two(first, second, name=b"")
    yield "names in a page without names", two(first, second, nameless=True)
    page = _page(other)
    rows = [row(first, 1, len(NAMED)), row(page, 1, len(BLOB), 0, b"m"), row(second, 0, 0, 0, b"n")]
    blobs = NAMED.ljust(64, b"\0") + BLOB
    assert _use_sound(headed({"candidates": 2, "pages": rows}, first + page + second, blobs))
    rows[1] = rows[1][:4]
    yield (
        "page with names behind one without",
        headed({"candidates": 2, "pages": rows}, first + page + second, blobs),
    )
    twice = _page(entry(functions=["g"], rank=0))
    rows = [
        row(first, 1, len(NAMED)),
        row(twice, 1, len(BLOB), 0, b"g"),
        row(second, 0, 0, 0, b"m"),
    ]
    yield "rank twice", headed({"candidates": 2, "pages": rows}, first + twice + second, blobs)


# -- compressed bytes and sources


def _frame(data: bytes, *, size: int = -1) -> bytes:
    """Return one frame of zstd without compression (RFC 8878): a header with the size, and one raw
    block.
    """
    header = b"\x28\xb5\x2f\xfd\xa0" + (len(data) if size < 0 else size).to_bytes(4, "little")
    return header + (len(data) << 3 | 1).to_bytes(3, "little") + data


def _run(count: int) -> bytes:
    """Return a frame whose one block repeats a zero."""
    return (
        b"\x28\xb5\x2f\xfd\xa0"
        + count.to_bytes(4, "little")
        + (count << 3 | 3).to_bytes(3, "little")
        + b"\0"
    )


def _unpacked(data: bytes, size: int = -1) -> list[Any]:
    return [len(data) if size < 0 else size, hashlib.sha256(data).digest()]


def _compressed() -> Iterator[tuple[str, bytes]]:
    frame = _frame(BLOB)

    def one(stored: bytes, unpacked: Any, **changes: Any) -> bytes:
        return _file(_tree(entry(stored, zstd=unpacked, **changes)), stored)

    assert _use_sound(one(frame, _unpacked(BLOB)))
    yield "compressed in no known way", one(b"not zstd at all", _unpacked(BLOB))
    yield "compressed to a frame that is cut", one(frame[:-1], _unpacked(BLOB))
    yield "compressed to two frames", one(frame + frame, _unpacked(BLOB))
    yield "compressed with a byte behind the frame", one(frame + b"\0", _unpacked(BLOB))
    yield "compressed to more than it says", one(_frame(BLOB + b"more"), _unpacked(BLOB))
    yield "compressed to less than it says", one(_frame(BLOB[:-1]), _unpacked(BLOB))
    yield "compressed with a header of another size", one(_frame(BLOB, size=2**31), _unpacked(BLOB))
    yield "compressed to other bytes", one(_frame(BLOB[:-1] + b"b"), _unpacked(BLOB))
    yield (
        "compressed bytes that are damaged",
        one(frame[:-1] + b"b", _unpacked(BLOB), sha256=hashlib.sha256(frame).digest()),
    )
    yield "compressed bytes that say more than all memory", one(frame, _unpacked(BLOB, 2**40))
    yield (
        "compressed run of more than the limit",
        one(_run(100_000), _unpacked(bytes(2**20 + 2**16))),
    )
    two = [entry(_run(100_000), zstd=_unpacked(bytes(2**20)))] * 2
    yield (
        "compressed runs of more than the limit",
        _file(_tree(*two, roots=[0, 1]), _run(100_000).ljust(64, b"\0") + _run(100_000)),
    )
    yield (
        "compressed with a window beyond the size",
        one(b"\x28\xb5\x2f\xfd\x00\x88" + frame[9:], _unpacked(BLOB)),
    )
    yield "compressed with a size alone", one(frame, [9])
    yield "compressed with a digest too short", one(frame, [9, bytes(31)])
    yield "compressed with a negative size", one(frame, [-1, bytes(32)])
    yield "compressed node", _file(_tree({"kind": "bundle", "zstd": _unpacked(BLOB)}), b"")

    def sources(data: bytes, *numbers: int, **changes: Any) -> bytes:
        modules = [entry(sources=len(numbers) + number) for number in numbers]
        blobs = b"".join(BLOB.ljust(64, b"\0") for _ in numbers)
        table = {"size": len(data), "sha256": hashlib.sha256(data).digest()} | changes
        index = _tree(
            *modules,
            roots=range(len(modules)),
            sources=[{key: value for key, value in table.items() if value is not None}],
        )
        return _file(index, blobs + data)

    text = b"\x81\xa4cuda\xa3abc"
    assert _use_sound(sources(text, 0))
    yield "sources that are not there", sources(text, 1)
    yield (
        "sources that no module has",
        _file(_tree(entry(), sources=[{"size": 0, "sha256": bytes(32)}]), BLOB),
    )
    yield "sources without a size", sources(text, 0, size=None)
    yield "sources with a digest too short", sources(text, 0, sha256=bytes(31))
    yield "sources that are damaged", sources(text, 0, sha256=bytes(32))
    yield "sources beyond the file", sources(text, 0, size=2**40)
    yield "sources of another type", sources(b"\x90", 0)
    yield "sources that are a number", sources(b"\x81\xa4cuda\x07", 0)
    yield "sources that are an array", sources(b"\x81\xa4cuda\x90", 0)
    yield "sources with a key twice", sources(b"\x82\xa1a\xa0\xa1a\xa0", 0)
    yield "sources with a byte behind", sources(text + b"\0", 0)
    yield "sources by a name", _file(_tree(entry(sources="cuda")))
    yield "sources of a node", _file(_tree({"kind": "bundle", "sources": 0}, sources=[]), b"")
    yield "compressed sources of another size", sources(_frame(text), 0, zstd=_unpacked(text, 3))


# -- features, places and parts


def _of(data: bytes, **changes: Any) -> dict[str, Any]:
    """Return a record that is no module."""
    made: dict[str, Any] = {"size": len(data), "sha256": hashlib.sha256(data).digest()} | changes
    return {key: value for key, value in made.items() if value is not None}


def _features() -> Iterator[tuple[str, bytes]]:
    node = {"kind": "bundle"}
    yield "features that are a string", _file(_tree(entry(features="brotli")))
    yield "feature that is a number", _file(_tree(entry(features=[1])))
    yield "features of a node", _file(_tree(node | {"features": ["brotli"]}), b"")
    yield (
        "unknown feature with a digest too short",
        _file(_tree(entry(features=["a"], sha256=b""))),
    )
    yield "unknown feature without a kind", _file(_tree(entry(features=["a"], kind=None)))
    yield "unknown feature with a size too large", _file(_tree(entry(features=["a"], size=8)))
    yield "unknown feature with a negative rank", _page_of(entry(features=["a"], rank=-1))


def _page_of(*modules: Any) -> bytes:
    return headed(_head(*modules), _page(*modules), BLOB)


def _places() -> Iterator[tuple[str, bytes]]:
    node = {"kind": "bundle"}
    assert _use_sound(_file(_tree(entry(shift=0))))
    for shift in (1, 63, 64, 4095, 65535):
        assert _use_sound(_file(_tree(entry(shift=shift)), bytes(shift) + BLOB))
    for name, zeros in (("first", b"\1" + bytes(6)), ("last", bytes(6) + b"\1")):
        yield f"no zero at the {name} byte of a shift", _file(_tree(entry(shift=7)), zeros + BLOB)
    yield "shift of 64 KiB", _file(_tree(entry(shift=65536)), bytes(65536) + BLOB)
    yield "negative shift", _file(_tree(entry(shift=-1)))
    yield "shift of another type", _file(_tree(entry(shift="1")), b"\0" + BLOB)
    yield "shift of a node", _file(_tree(node | {"shift": 0}), b"")
    yield "shift that the page does not count", _file(_tree(entry(shift=7)))
    yield "format of other bytes", _file(_tree(entry(format="il")))
    yield "no format", _file(_tree(entry(format=None)))

    first = entry(rank=0)

    def aligned(align: Any) -> bytes:
        return headed(_head(first, align=align), _page(first), BLOB)

    for align in (64, 4096, 65536):
        assert _use_sound(aligned(align))
    for align in (32, 96, 131072, -64):
        packed = {"candidates": 1, "align": align, "pages": [row(_page(first), 1, len(BLOB))]}
        yield f"alignment of {align}", headed(msgpack.packb(packed), _page(first), BLOB)
    packed = {"candidates": 1, "align": "64", "pages": [row(_page(first), 1, len(BLOB))]}
    yield "alignment that is a string", headed(msgpack.packb(packed), _page(first), BLOB)


def _attached() -> Iterator[tuple[str, bytes]]:
    data = b"notes of tomorrow"
    sound = {"function": "f", "tag": "notes"}

    def one(*rows: Any, behind: bytes = data) -> bytes:
        return _file(_tree(entry(), attached=list(rows)), BLOB.ljust(64, b"\0") + behind)

    def of(**changes: Any) -> dict[str, Any]:
        made = sound | _of(data) | changes
        return {key: value for key, value in made.items() if value is not None}

    assert _use_sound(one(of()))
    assert _use_sound(_file(_tree(entry(), attached=[of(**_of(b""))])))
    assert _use_sound(one(of(function="")))
    assert _use_sound(one(of(shift=3), behind=bytes(3) + data))
    second = data.ljust(64, b"\0") + data
    assert _use_sound(one(of(), of(tag="more"), of(tag="", **_of(b"")), behind=second))
    yield "attachment without a function", one(of(function=None))
    yield "attachment without a tag", one(of(tag=None))
    yield "attachment of a number", one(of(function=7))
    yield "attachment with a number for a tag", one(of(tag=7))
    yield "attachment without a size", one(of(size=None))
    yield "attachment without a digest", one(of(sha256=None))
    yield "attachment twice", one(of(), of(), behind=second)
    yield "attachments that are a map", _file(_tree(entry(), attached={"f": of()}))
    yield "attachment that is a string", _file(_tree(entry(), attached=["f"]))
    yield "attachment that the page does not count", _file(_tree(entry(), attached=[of()]))
    yield "attachment with a large shift", one(of(shift=65536), behind=bytes(65536) + data)
    yield "no zero before an attachment", one(of(), behind=data)[: -len(data) - 1] + b"\1" + data


def _with_part(
    data: bytes = WITH_PART, elements: bytes = ELEMENTS, *, part: Any = (), **changes: Any
) -> bytes:
    """Return a file with one constant, which is a part."""
    module = entry(data, **{"kind": "const_loader", "format": None, "parts": [1]} | changes)
    tree = _tree(module, parts=[_of(elements, **dict(part))])
    return _file(tree, data.ljust(64, b"\0") + elements)


def _parts() -> Iterator[tuple[str, bytes]]:
    plain = WITH_PART.replace(b"\x91\x02\x00", b"\x91\x02\xc4\x08" + ELEMENTS)
    assert _use_sound(_with_part())
    assert _use_sound(_with_part(parts=[1, 1]))
    assert _use_sound(
        _with_part(WITH_PART.replace(b"\x02\x00\x80", b"\x02\xcd\x00\x01\x80"), parts=[1, 1])
    )
    assert _use_sound(_with_part(plain))
    frame = _frame(ELEMENTS)
    assert _use_sound(_with_part(elements=frame, part={"zstd": _unpacked(ELEMENTS)}))
    empty = WITH_PART.replace(b"\x91\x02", b"\x91\x00")
    assert _use_sound(
        _file(_tree(entry(empty, kind="const_loader", parts=[1]), parts=[_of(b"")]), empty)
    )
    yield "part that is not there", _with_part(parts=[2])
    yield "part that is a module", _with_part(parts=[0, 1])
    yield (
        "part that is sources",
        _file(
            _tree(entry(WITH_PART, kind="const_loader", parts=[1], sources=1), sources=[_of(b"")]),
            WITH_PART,
        ),
    )
    yield "sources that are a part", _with_part(sources=1)
    yield "part that no module has", _with_part(plain, parts=None)
    yield "part of another kind", _with_part(kind="metal")
    yield "part of another kind with no feature", _with_part(kind="metal", features=[])
    yield "part of a node", _file(_tree({"kind": "bundle", "parts": []}), b"")
    yield "parts that are a number", _with_part(parts=1)
    yield "part by a negative number", _with_part(parts=[-1])
    yield "part without a size", _with_part(part={"size": None})
    yield "part without a digest", _with_part(part={"sha256": None})
    yield "part with a digest too short", _with_part(part={"sha256": bytes(31)})
    yield "part that is damaged", _with_part(part={"sha256": bytes(32)})
    yield "part beyond the file", _with_part(part={"size": 2**62})
    yield "part with a kind alone", _file(_tree(entry(), parts=[{"kind": "opencl"}]))
    yield "part of fewer elements", _with_part(elements=ELEMENTS[:7])
    yield "part of more elements", _with_part(elements=ELEMENTS + b"\0")
    yield "constant of no such part", _with_part(WITH_PART.replace(b"\x02\x00", b"\x02\x01"))
    yield "constant of a negative part", _with_part(WITH_PART.replace(b"\x02\x00", b"\x02\xff"))
    yield "constant of a part by its name", _with_part(WITH_PART.replace(b"\x02\x00", b"\x02\xa0"))
    yield "constant of a part without parts", _with_part(parts=None)
    other = {"zstd": _unpacked(ELEMENTS[:7] + b"\0")}
    yield "compressed part of other elements", _with_part(elements=frame, part=other)
    yield (
        "compressed part of more than the limit",
        _with_part(elements=_run(100_000), part={"zstd": _unpacked(bytes(2**20 + 2**16))}),
    )


def _sections() -> Iterator[tuple[str, bytes]]:
    first = entry(rank=0)
    page = _page(first)

    def one(sections: Any, blobs: bytes = BLOB) -> bytes:
        return headed(_head(first, sections=sections), page, blobs)

    tuning = [b"tuning of tomorrow", b"more"]
    rows = [
        [name, len(data), hashlib.sha256(data).digest()]
        for name, data in zip("ab", tuning, strict=True)
    ]
    behind = BLOB.ljust(64, b"\0") + tuning[0]
    assert _use_sound(one([]))
    assert _use_sound(one(rows[:1], behind))
    assert _use_sound(one(rows, behind.ljust(128, b"\0") + tuning[1]))
    assert _use_sound(one([["a", 0, bytes(32)]]))
    yield "no zero before a section", one(rows[:1], BLOB + b"\1" + behind[len(BLOB) + 1 :])
    yield "section that is cut", one(rows[:1], behind[:-1])
    yield "section with a byte behind", one(rows[:1], behind + b"\0")
    yield "section that no row names", one([], behind)
    yield "section without bytes", one(rows[:1])
    yield "section of two parts", one([rows[0][:2]], behind)
    yield "section that is a string", one(["a"], behind)
    yield "sections that are a map", one({"a": rows[0]}, behind)
    yield "section by a number", one([[1, *rows[0][1:]]], behind)
    yield "section twice", one([rows[0], rows[0]], behind.ljust(128, b"\0") + tuning[0])
    yield "section of a negative size", one([["a", -1, bytes(32)]], behind)
    yield "section beyond the file", one([["a", 2**40, bytes(32)]], behind)
    yield "section with a digest too short", one([["a", len(tuning[0]), bytes(31)]], behind)


# -- repeats


def _repeated() -> Iterator[tuple[str, bytes]]:
    shader = b"fn f() {}" * 3
    head, second = b"\x80\x82\xa1f\xc4\x1b", b"\xa1g\xc4\x1b"
    stored = head + shader + second
    at = len(head)
    end = at + len(shader)

    def one(repeats: Any, stored: bytes = stored, **changes: Any) -> bytes:
        return _file(
            _tree(entry(stored, kind="webgpu", format="wgsl", repeats=repeats, **changes)), stored
        )

    good = [[at, len(shader), len(stored)]]
    assert _use_sound(one(good))
    yield "repeats that are a map", one({})
    yield "repeat that is a number", one([7])
    yield "repeat without a position", one([[at, len(shader)]])
    yield "repeat of no bytes", one([[at, 0, len(stored)]])
    yield "repeat beyond the bytes", one([[at, 2**40, len(stored)]])
    yield "repeat at a negative position", one([[at, len(shader), -1]])
    yield "repeat before its bytes", one([[at, len(shader), 2]])
    yield "repeat behind the end", one([[at, len(shader), len(stored) + 1]])
    yield "repeats at one position", one([[at, len(shader), len(stored), len(stored)]])
    yield "repeats out of order", one([[at, len(shader), len(stored), end]])
    yield "repeats that overlap", one([[at, len(shader), len(stored)], [end - 1, 1, len(stored)]])
    yield "repeats of ranges out of order", one([[end, 1, len(stored)], [at, 1, end]])
    frame = _run(100_000)
    half = 2**19
    many = entry(
        frame, kind="npu", zstd=[2 * half, bytes(32)], repeats=[[0, half, *range(half, half + 400)]]
    )
    yield "repeats of more than the limit", _file(_tree(many), frame)
    yield (
        "repeat of a part of a shader",
        one([[at, len(shader) - 1, len(stored)]], head + shader + b"\xa1g\xc4\x1a"),
    )
    yield "repeat of another size than its binary", one(good, head + shader + b"\xa1g\xc4\x1c")
    yield "repeat where no shader is", one([[at, len(shader), end]])
    yield "repeat in a shader", one([[at, 3, at + 9]], b"\x80\x81\xa1f\xc4\x1e" + shader)
    code = b"\xa2cl\x80\xc4\x06abc"
    yield "repeat in a kind without shaders", _file(_tree(entry(code, repeats=[[6, 3, 9]])), code)
    yield "repeats of a node", _file(_tree({"kind": "bundle", "repeats": []}), b"")


# -- ranges: what is at an end is valid, and what is one beyond it is not


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _paged(*pages: list[tuple[dict[str, Any], bytes]]) -> bytes:
    """Return a file of pages of records without functions, and of their bytes."""
    rows = []
    packed = blobs = b""
    for number, records in enumerate(pages):
        start = len(blobs) + -len(blobs) % 64
        for _, blob in records:
            blobs = blobs.ljust(len(blobs) + -len(blobs) % 64, b"\0") + blob
        page = _page(*[record for record, _ in records])
        name = (0, b"p%d" % number) if number else ()
        rows.append(row(page, len(records), len(blobs) - start, *name))
        packed += page
    candidates = sum(len(records) for records in pages)
    return headed({"candidates": candidates, "pages": rows}, packed, blobs)


def _zeros(count: int) -> bytes:
    """Return a frame that unpacks to zeros, in blocks of at most 128 KiB."""
    frame = b"\x28\xb5\x2f\xfd\xa0" + count.to_bytes(4, "little")
    while count:
        block = min(count, 1 << 17)
        count -= block
        frame += (block << 3 | 2 | (not count)).to_bytes(3, "little") + b"\0"
    return frame


def _unpacking(beyond: int, rank: int, **more: Any) -> tuple[dict[str, Any], bytes]:
    """Return a record of a frame that unpacks to so much more than 256 times its size."""
    frame = b""
    while len(frame) != len(_zeros(beyond + 256 * len(frame))):
        frame = _zeros(beyond + 256 * len(frame))
    count = beyond + 256 * len(frame)
    frame = _zeros(count)
    record = entry(frame, kind="npu", rank=rank, zstd=_unpacked(bytes(count)), **more)
    return record, frame


def _ends() -> Iterator[tuple[Any, ...]]:
    """Yield the name of a fault, a valid file, and the one with the fault."""
    for fault, (valid, invalid) in _TEXTS.items():
        page = _page(entry(rank=0, variant="@" * len(valid)))
        place = b"@" * len(valid)
        yield (
            f"string with {fault}",
            _file(page.replace(place, valid)),
            _file(page.replace(b"@" * len(invalid), invalid)),
        )
    yield from _tree_ends()
    yield from _frame_ends()
    yield from _repeat_ends()

    names = {"functions": ["f", "f"]}
    blob = b"\xa2cl\x81\xa1f\x94\xa1k\x90\x90\x90\xc4\x00"
    yield (
        "name twice in the functions of a known kind",
        _file(_tree(entry(blob, kind="npu", **names)), blob),
        _file(_tree(entry(blob, **names)), blob),
    )
    page = _page(entry(rank=0))
    head = msgpack.packb(_head(entry(rank=0)))
    yield "byte behind the page", _file(page), _file(page + b"\0")
    yield "byte behind the head", headed(head, page, BLOB), headed(head + b"\0", page, BLOB)

    good = _paged([(entry(rank=0), BLOB)], [(entry(rank=1), BLOB)])
    at = good.rindex(b"opencl")
    yield "flipped bit in the last of two pages", good, good[:at] + b"n" + good[at + 1 :]


def _tree_ends() -> Iterator[tuple[Any, ...]]:
    yield "imports 65 deep", _chain(63), _chain(64)
    yield "1025 nodes more than modules", _nodes(1025), _nodes(1026)
    valid = _tree(entry(), x=_nested(32))
    yield "value in 33 arrays", _file(valid), _file(_tree(entry(), x=_nested(33)))
    count = 0
    while True:
        page = _page(entry(rank=0), x=[[]] * count)
        if count + 1 > 1024 + len(page) // 8:
            break
        count += 1
    fewer = _page(entry(rank=0), x=[[]] * (count - 1))
    yield "one array too many", _file(fewer), _file(_page(entry(rank=0), x=[[]] * count))
    valid = _tree(entry(kind="k" * 32))
    yield "kind of 33 letters", _file(valid), _file(_tree(entry(kind="k" * 33)))


def _chain(count: int) -> bytes:
    """Return a file of so many nodes, each of which imports the next one, and a module."""
    nodes = [{"kind": "bundle", "imports": [at + 1]} for at in range(count)]
    return _file(_tree(*nodes, entry()))


def _nodes(count: int) -> bytes:
    """Return a file of a module and so many nodes, each a root."""
    return _file(_tree(entry(), *[{"kind": "bundle"}] * count, roots=[*range(count + 1)]))


def _frame_ends() -> Iterator[tuple[Any, ...]]:
    free = 1 << 20
    half = 1 << 19
    valid = _unpacking(free, 0)
    invalid = _unpacking(free + 1, 0)
    yield "frame of one byte too many", _paged([valid]), _paged([invalid])
    one = _unpacking(half, 0)
    other = _unpacking(half, 1)
    larger = _unpacking(half + 1, 1)
    yield "frames of one byte too many", _paged([one, other]), _paged([one, larger])
    yield "pages of one byte too many", _paged([one], [other]), _paged([one], [larger])


def _repeat_ends() -> Iterator[tuple[Any, ...]]:
    def repeated(*repeats: list[int]) -> bytes:
        return _paged([_unpacking(0, 0, repeats=[*repeats])])

    # The frame of 13 bytes unpacks to 3,328 zeros, and the repeats add 65,536 * 13 - 3,328.
    most = [0, 1664, *range(1664, 1664 + 510)]
    yield "repeats of one byte too many", repeated(most), repeated(most, [1664, 1, 3000])
    yield "repeat one behind the end", repeated([0, 1, 3328]), repeated([0, 1, 3329])
    yield (
        "last repeat of a range one behind the end",
        repeated([3327, 1, 3328]),
        repeated([3328, 1, 3329]),
    )


def _use_sound(data: bytes) -> bool:
    _bundle(data)
    return True


# -- module bytes


def _members(*members: Any, **more: Any) -> dict[str, Any]:
    return {
        "param": {
            "members": [{"name": "a", "offset": 0, "type": "int32"} | member for member in members],
            **more,
        }
    }


#: Interfaces with one invalid field.
_INTERFACES: dict[str, dict[str, Any]] = {
    "members of a type that is no struct": _members({}, type="float32x2"),
    "members of local memory": _members({}, kind="local"),
    "member outside its struct": _members({"offset": 6}),
    "members that overlap": _members({}, {"name": "b", "offset": 2}),
    "members with one name": _members({}, {"offset": 4}),
    "member without an offset": {"param": {"members": [{"name": "a", "type": "int32"}]}},
    "member with a type and members": _members(_INSIDE | {"type": "int32"}),
    "member of no type": _members({"type": ""}),
    "member of packed bits": _members({"type": "int4"}),
    "struct without a size": _members(_INSIDE),
    "struct too small for its member": _members(_INSIDE | {"size": 4}),
    "array of no elements": _members({"shape": [0], "strides": [4]}),
    "array with overlapping elements": _members({"shape": [2], "strides": [2]}),
    "array beyond its struct": _members({"shape": [2**20], "strides": [2**30]}),
    "array of too many dimensions": _members({"shape": [1] * 17, "strides": [4] * 17}),
    "array with too few strides": _members({"shape": [1, 2], "strides": [4]}),
    "default of a parameter that is not local": {"param": {"default": {"bytes": 4}}},
    "default of no bytes": {"param": {"kind": "local", "default": {"bytes": 0}}},
    "values without an address": {"param": {"kind": "buffer", "type": "", "pack": ["count:int32"]}},
    "values with a shape missing": {
        "param": {"kind": "buffer", "type": "", "pack": ["ptr:handle", "shape1:int32"]}
    },
    "values twice": {
        "param": {
            "kind": "buffer",
            "type": "",
            "pack": ["ptr:handle", "count:int32", "count:int64"],
        }
    },
    "values of a scalar": {"param": {"pack": ["ptr:handle"]}},
    "values that are no list": {"param": {"kind": "buffer", "pack": "ptr:handle"}},
    "default block of zero threads": {"default_block": [0, 1, 1]},
    "default block of two numbers": {"default_block": [64, 1]},
    "open block that is a number": {"open_block": 1},
    "shared memory below zero": {"shared_memory": -1},
    "shared memory of no bytes a thread": {"shared_memory": {"per_thread": 0}},
    "shared memory beyond 63 bits a thread": {"shared_memory": {"per_thread": 2**63}},
    "shared memory of another key": {"shared_memory": {"bytes": 4}},
    "shared memory of two keys": {"shared_memory": {"per_thread": 4, "bytes": 4}},
    "value as the default of local memory": {"param": {"kind": "local", "default": {"value": 4}}},
}


def _modules() -> Iterator[tuple[str, bytes]]:
    info = b"\x94\xa1k\x91\x93\x02\x20\x01\x90\x90"
    good = b"\xa2cl\x81\xa1f" + info + b"\xc4\x03abc"
    pack = msgpack.packb
    yield "empty.opencl", b""
    yield "cut in the format.opencl", good[:2]
    yield "cut in the code.opencl", good[:-1]
    yield "trailing byte.opencl", good + b"\0"
    yield "format that is a binary.opencl", b"\xc4\x02cl" + good[3:]
    yield "format that is an extension.opencl", b"\xd4\x01\x02" + good[3:]
    yield "format that is not UTF-8.opencl", b"\xa2\xffl" + good[3:]
    yield "byte that msgpack does not use.opencl", b"\xa2cl\xc1\xc4\0"
    yield "fmap that is an array.opencl", b"\xa2cl\x90\xc4\0"
    yield "fmap longer than the bytes.opencl", b"\xa2cl\xdf\xff\xff\xff\xff"
    yield "function twice.opencl", b"\xa2cl\x82" + (b"\xa1f" + info) * 2 + b"\xc4\0"
    yield "function of three fields.opencl", b"\xa2cl\x81\xa1f\x93\xa1k\x90\x90\xc4\0"
    seven = b"\x97\xa1k\x90\x90\x90\x80\x80\x80"
    yield "function of seven fields.opencl", b"\xa2cl\x81\xa1f" + seven + b"\xc4\0"
    yield "function without a name.opencl", b"\xa2cl\x81\xa1f\x94\xc0\x90\x90\x90\xc4\0"
    yield "type of two numbers.opencl", b"\xa2cl\x81\xa1f\x94\xa1k\x91\x92\x02\x20\x90\x90\xc4\0"
    yield (
        "type out of range.opencl",
        b"\xa2cl\x81\xa1f\x94\xa1k\x91\x93\xcd\x01\x00\x20\x01\x90\x90\xc4\0",
    )
    yield "tag that is a number.opencl", b"\xa2cl\x81\xa1f\x94\xa1k\x90\x91\x01\x90\xc4\0"
    yield (
        "extra tag out of range.opencl",
        b"\xa2cl\x81\xa1f\x94\xa1k\x90\x90\x91\xce\x80\0\0\0\xc4\0",
    )
    yield "interface that is nil.opencl", b"\xa2cl\x81\xa1f\x95\xa1k\x90\x90\x90\xc0\xc4\0"
    yield (
        "interface with a key twice.opencl",
        b"\xa2cl\x81\xa1f\x95\xa1k\x90\x90\x90\x82\xa1x\xc0\xa1x\xc0\xc4\0",
    )
    yield (
        "interface of other arguments.opencl",
        b"\xa2cl\x81\xa1f\x95\xa1k\x91\x93\x02\x20\x01\x90\x90\x80\xc4\0",
    )
    yield (
        "interface nested too deep.opencl",
        b"\xa2cl\x81\xa1f\x95\xa1k\x90\x90\x90\x81\xa1x" + b"\x91" * 40 + b"\xc0\xc4\0",
    )
    yield (
        "interface of many arrays.opencl",
        b"\xa2cl\x81\xa1f\x95\xa1k\x90\x90\x90\x81\xa1x\xdc\x04\xff" + b"\x90" * 1279 + b"\xc4\0",
    )
    yield (
        "parameter without a name.opencl",
        b"\xa2cl\x81\xa1f\x95\xa1k\x90\x90\x90\x81\xa6params\x91\x80\xc4\0",
    )
    for case, change in _INTERFACES.items():
        param = {"name": "p", "kind": "scalar", "type": "uint8x8"} | change.get("param", {})
        interface = {"params": [param]} | {
            key: value for key, value in change.items() if key != "param"
        }
        yield (
            f"{case}.opencl",
            b"\xa2cl" + pack({"f": ["k", [[1, 8, 8]], [], [], interface]}) + b"\xc4\0",
        )
    yield "code that is a string.opencl", b"\xa2cl\x80\xa3abc"
    yield "code longer than the bytes.opencl", b"\xa2cl\x80\xc6\xff\xff\xff\xff"
    yield "shaders that are a binary.webgpu", b"\x80\xc4\x01x"
    yield "shader that is a string.webgpu", b"\x80\x81\xa1f\xa1x"
    yield "shader twice.webgpu", b"\x80\x82\xa1f\xc4\0\xa1f\xc4\0"
    yield "format before the fmap.webgpu", b"\xa4wgsl\x80\x80"
    yield "shaders cut.vulkan", b"\xa3spv\x80\x82\xa1f\xc4\x02ab"
    yield "empty.const_loader", b""
    yield "no symbols.const_loader", b"\x80"
    yield "trailing byte.const_loader", b"\x80\x80\x00"
    yield "constant twice.const_loader", b"\x82\xa1x\x93\x93\x02\x20\x01\x90\xc4\x040000\xa1x"
    yield "constant of two fields.const_loader", pack({"x": [[2, 32, 1], [1]]}) + pack({})
    yield (
        "fewer elements than the shape.const_loader",
        pack({"x": [[2, 32, 1], [2], b"0000"]}) + pack({}),
    )
    yield "negative length.const_loader", pack({"x": [[2, 32, 1], [-1], b"0000"]}) + pack({})
    yield (
        "shape beyond all memory.const_loader",
        pack({"x": [[2, 32, 1], [2**62] * 3, b"0000"]}) + pack({}),
    )
    yield (
        "too many dimensions.const_loader",
        pack({"x": [[2, 32, 1], [1] * 65, b"0000"]}) + pack({}),
    )
    yield "symbol with a constant that is not there.const_loader", pack({}) + pack({"i": ["x"]})
    yield "constant of a part.const_loader", pack({"x": [[2, 32, 1], [1], 0]}) + pack({})
    yield "symbol with a number.const_loader", pack({}) + pack({"i": [1]})


# -- TVM's bytes


def _u64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def _text(value: bytes) -> bytes:
    return _u64(len(value)) + value


def _imports(rows: list[int], children: list[int], *modules: bytes) -> bytes:
    body = _u64(len(rows), *rows) + _u64(len(children), *children) + b"".join(modules)
    return _u64(len(body)) + body


def _blobs() -> Iterator[tuple[str, bytes]]:
    fmap = _u64(1) + _text(b"f") + _text(b"k") + _u64(1) + b"\x03\x40\x01\x00" + _u64(0) + _u64(0)
    opencl = _text(b"opencl") + _text(_text(b"cl") + fmap + _text(b"code"))
    good = _imports([0, 1, 1], [1], _text(b"_lib"), opencl)
    yield "empty", b""
    yield "cut in the length", good[:7]
    yield "cut in a module", good[:-1]
    yield "longer than it says", good + b"\0"
    yield "length at the end of numbers", _u64(2**64 - 1) + good[8:]
    yield "no module", _imports([0], [])
    yield "row pointers that fall", _imports([0, 2, 1], [1, 1], _text(b"_lib"), opencl)
    yield "row pointers without end", _u64(24) + _u64(2**61) + bytes(16)
    yield "import that is not there", _imports([0, 1, 1], [9], _text(b"_lib"), opencl)
    yield "cycle", _imports([0, 1, 2], [1, 0], opencl, opencl)
    yield "module that imports itself", _imports([0, 1], [0], opencl)
    yield "module outside the tree", _imports([0, 0, 0], [], opencl, opencl)
    yield "kind that is not UTF-8", _imports([0, 0], [], _text(b"\xff\xfe") + _text(b""))
    yield "kind longer than the blob", _imports([0, 0], [], _u64(2**40))
    yield "module whose bytes are none", _imports([0, 0], [], _text(b"opencl") + _text(b"junk"))
    yield (
        "constants whose bytes are none",
        _imports([0, 0], [], _text(b"const_loader") + _text(_u64(3))),
    )


def _tvm_modules() -> Iterator[tuple[str, bytes]]:
    head = _text(b"cl") + _u64(1) + _text(b"f") + _text(b"k")
    good = head + _u64(1) + b"\x03\x40\x01\x00" + _u64(0) + _u64(0) + _text(b"code")
    yield "of no known kind.npu", good
    yield "empty.opencl", b""
    yield "trailing byte.opencl", good + b"\0"
    yield "cut in the code.opencl", good[:-1]
    yield (
        "function twice.opencl",
        _text(b"cl") + _u64(2) + (_text(b"f") + _text(b"k") + _u64(0, 0, 0)) * 2 + _text(b""),
    )
    yield "types without end.opencl", head + _u64(2**62)
    yield "function name that is not UTF-8.opencl", _text(b"cl") + _u64(1) + _text(b"\xff")
    yield (
        "shader twice.metal",
        _text(b"metal") + _u64(0) + _u64(2) + (_text(b"f") + _text(b"x")) * 2,
    )
    tensor = (
        _u64(0xDD5E40F096B4A13F, 0)
        + struct.pack("<iii", 1, 0, 1)
        + b"\x02\x20\x01\x00"
        + struct.pack("<qq", 1, 4)
        + b"1234"
    )
    end = _u64(0, 0)
    one = _u64(1) + _text(b"x") + _u64(1)
    assert (
        devmod.interop.tvm.load_module_bytes("const_loader", one + tensor + end).kind
        == "const_loader"
    )
    yield "tensor with another magic.const_loader", one + bytes(8) + tensor[8:] + end
    yield (
        "tensor of a device.const_loader",
        one + tensor[:16] + struct.pack("<i", 2) + tensor[20:] + end,
    )
    yield (
        "tensor of minus one dimensions.const_loader",
        one + tensor[:24] + struct.pack("<i", -1) + tensor[28:] + end,
    )
    yield (
        "tensor of a negative length.const_loader",
        one + tensor[:32] + struct.pack("<q", -1) + tensor[40:] + end,
    )
    yield (
        "tensor with fewer bytes than its shape.const_loader",
        one + tensor[:40] + struct.pack("<q", 3) + tensor[48:] + end,
    )
    yield (
        "two names and one tensor.const_loader",
        _u64(2) + _text(b"x") + _text(b"y") + _u64(1) + tensor + end,
    )
    yield "symbols without names.const_loader", one + tensor + _u64(1) + _text(b"i") + _u64(0)


# -- metadata beside a raw payload


def _metadata() -> Iterator[tuple[str, bytes]]:
    yield "empty", b""
    yield "not JSON", b"{'func_info': 1}"
    yield "not UTF-8", b'{"func_info": {"\xff": 1}}'
    yield "an array", b"[]"
    yield "no functions", b"{}"
    yield "functions that are an array", b'{"func_info": []}'
    yield "function that is a number", b'{"func_info": {"f": 1}}'
    yield "function without a name", b'{"func_info": {"f": {"arg_types": []}}}'
    yield (
        "tags that differ from those of the older name",
        b'{"func_info": {"f": {"name": "f", "arg_types": [], "launch_param_tags": [], "thread_axis_tags": ["blockIdx.x"]}}}',
    )
    yield (
        "arguments that are a number",
        b'{"func_info": {"f": {"name": "k", "arg_types": 1, "launch_param_tags": []}}}',
    )
    yield (
        "type that is none",
        b'{"func_info": {"f": {"name": "k", "arg_types": ["float"], "launch_param_tags": []}}}',
    )
    yield "type that is an array", b'{"func_info": {"f": {"name": "k", "arg_types": [[]]}}}'
    # Python 3.14 takes some 50,000, and raises RecursionError where its stack ends.
    yield "nested too deep", b'{"func_info": ' + b"[" * 200_000
    yield (
        "function of a key twice",
        b'{"func_info": {"f": {"name": "k", "arg_types": [], "name": "j"}}}',
    )
    yield "unknown key that is no number", b'{"func_info": {}, "later": -Infinity}'
    yield (
        "extra tag that is a float",
        b'{"func_info": {"f": {"name": "k", "arg_types": [], "arg_extra_tags": [1.0]}}}',
    )
    yield (
        "extra tag that is a boolean",
        b'{"func_info": {"f": {"name": "k", "arg_types": [], "arg_extra_tags": [true]}}}',
    )


def sound() -> dict[str, bytes]:
    """Return the valid files that are nearest to bad ones, by the names of these."""
    return {f"{name.replace(' ', '-')}.devmod": data for name, data, _ in _ends()}


def cases() -> dict[str, bytes]:
    """Return every bad file by its name."""
    bundles = chain(
        _bundles(),
        _heads(),
        _padding(),
        _pages(),
        _compressed(),
        _features(),
        _places(),
        _attached(),
        _parts(),
        _sections(),
        _repeated(),
    )
    made = {f"{name}.devmod": data for name, data in bundles}
    made |= {f"{name}.devmod": data for name, _, data in _ends()}
    made |= {f"{name}.bytes": data for name, data in _modules()}
    made |= {f"{name}.tvmimports": data for name, data in _blobs()}
    made |= {f"{name}.tvmbytes": data for name, data in _tvm_modules()}
    made |= {f"{name}.tvm_meta.json": data for name, data in _metadata()}
    return {name.replace(" ", "-"): data for name, data in made.items()}


def refusal(name: str, data: bytes) -> tuple[str, str]:
    """Return the type and the text of the error of a bad file."""
    try:
        reader_of(name)(data)
    except devmod.DevmodError as error:
        return type(error).__name__, str(error)
    raise AssertionError(f"{name} is read as if it were sound")


def write(folder: Path) -> None:
    """Write the files and their errors. Files of removed cases stay: every later version refuses
    them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in cases().items():
        (folder / name).write_bytes(data)
    files = {}
    entries = {}
    for path in sorted(folder.iterdir()):
        if path.name != EXPECTATIONS:
            files[path.name] = path.read_bytes()
            error, message = refusal(path.name, files[path.name])
            entries[path.name] = {"error": error, "message": message}
    path = folder / EXPECTATIONS
    golden_readers.add_readers(entries, files, path, golden_readers.first_error)
    golden_readers.write_entries(path, ABOUT, entries)
