"""Write `.devmod` files by hand, with everything that devmod would refuse to write: for tests, the
corpus of bad files and the fuzzer.

Nothing of devmod is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgpack  # type: ignore[import-untyped]

MAGIC = b"\x89devmod\n"
NUMBER = 6


def aligned(offset: int) -> int:
    """Return the next multiple of 64."""
    return -(-offset // 64) * 64


def file_of(index: Any, blobs: bytes = b"", *, roots: Sequence[Any] = (0,), **header: Any) -> bytes:
    """Return a file whose index is one page.

    Parameters
    ----------
    index
        The page, and in it the ``roots``, which are in the head; or the bytes of the page. Modules
        get their ranks.
    blobs
        The bytes of the records.
    roots
        The roots, if the page is given as bytes.
    **header
        As for `headed`.
    """
    if not isinstance(index, dict):
        page = index if isinstance(index, bytes) else msgpack.packb(index)
        try:
            records = len(msgpack.unpackb(page)["modules"])
        except (ValueError, TypeError, KeyError):
            records = min(len(page), 1)
        return headed(
            {"candidates": 1, "roots": list(roots), "pages": [row(page, records, len(blobs))]},
            page,
            blobs,
            **header,
        )
    parts = {key: value for key, value in index.items() if key != "roots"}
    modules = parts.get("modules")
    others = [*_list(parts.get("sources")), *_list(parts.get("parts"))]
    found = index.get("roots", [0])
    candidates = 0
    if isinstance(modules, list) and all(isinstance(each, dict) for each in modules):
        order = candidates_of(found, modules)
        parts["modules"] = list(modules)
        for rank, number in enumerate(order):
            parts["modules"][number] = {**modules[number], "rank": rank}
        candidates = len(order)
    records = sum(len(each) for each in (modules, others) if isinstance(each, list))
    page = msgpack.packb(parts)
    return headed(
        {"candidates": candidates, "roots": found, "pages": [row(page, records, len(blobs))]},
        page,
        blobs,
        **header,
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def row(page: bytes, records: int, size: int, *name: Any) -> list[Any]:
    """Return what a head says of a page. `size` is that of the records' bytes; `name` is by default
    that of the first page.
    """
    return [records, len(page), size, hashlib.sha256(page).digest(), *(name or (0, b""))]


def headed(
    head: Any,
    pages: bytes = b"",
    blobs: bytes = b"",
    *,
    number: int = NUMBER,
    digest: bytes = b"",
    length: int = -1,
) -> bytes:
    """Return a file with that head (an object, or bytes as they are), pages, and bytes of
    records.
    """
    packed = head if isinstance(head, bytes) else msgpack.packb(head)
    start = (
        MAGIC
        + number.to_bytes(4, "little")
        + (len(packed) if length < 0 else length).to_bytes(4, "little")
    )
    start += (digest or hashlib.sha256(packed).digest()) + packed + pages
    align = 64
    if isinstance(head, dict):
        align = head.get("align", 64)
    return start.ljust(-(-len(start) // align) * align, b"\0") + blobs


def head_of(data: bytes) -> dict[str, Any]:
    """Return the head of a file."""
    head: dict[str, Any] = msgpack.unpackb(data[48 : 48 + int.from_bytes(data[12:16], "little")])
    return head


def pages_of(data: bytes) -> list[dict[str, Any]]:
    """Return the pages of a file."""
    at = 48 + int.from_bytes(data[12:16], "little")
    pages = []
    for _, size, *_ in head_of(data)["pages"]:
        pages.append(msgpack.unpackb(data[at : at + size]))
        at += size
    return pages


def blobs_of(data: bytes) -> bytes:
    """Return the bytes of the records of a file."""
    head = head_of(data)
    end = 48 + int.from_bytes(data[12:16], "little") + sum(row[1] for row in head["pages"])
    align = head.get("align", 64)
    return data[-(-end // align) * align :]


def with_pages(data: bytes, head: Mapping[str, Any], pages: Sequence[Any]) -> bytes:
    """Return a file with another head and other pages. The head gets their sizes and digests."""
    packed = []
    rows = []
    for old, page in zip(head["pages"], pages, strict=True):
        if not isinstance(page, bytes):
            page = msgpack.packb(page)
        packed.append(page)
        rows.append([old[0], len(page), old[2], hashlib.sha256(page).digest(), *old[4:]])
    return headed({**head, "pages": rows}, b"".join(packed), blobs_of(data), number=data[8])


def candidates_of(roots: Any, modules: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the numbers of the candidates, as far as roots and imports are valid."""
    pending, seen, results = [*reversed(roots)] if isinstance(roots, list) else [], set(), []
    while pending:
        number = pending.pop()
        if type(number) is int and 0 <= number < len(modules) and number not in seen:
            seen.add(number)
            imports = modules[number].get("imports", [])
            if modules[number].get("kind") != "bundle":
                results.append(number)
            elif isinstance(imports, list):
                pending.extend(reversed(imports))
    return results
