"""Mutators by a file's structure, so that a changed file still reaches the code behind the first
checks.

Each takes the bytes and a `random.Random`, and returns changed bytes. Input that does not have the
structure is changed byte by byte.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from random import Random
from typing import Any

import msgpack  # type: ignore[import-untyped]

from handmade import MAGIC, candidates_of, head_of, headed, row

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Mutator = Callable[[bytes, Random], bytes]

#: The most bytes of an input.
MOST = 1 << 16
#: Integers at the bounds of types and sizes.
NUMBERS: tuple[int, ...] = (
    *(
        0,
        1,
        2,
        3,
        4,
        7,
        8,
        15,
        16,
        31,
        32,
        63,
        64,
        127,
        128,
        255,
        256,
        1023,
        4096,
        65528,
        65535,
        65536,
        1 << 20,
    ),
    *(
        (1 << 31) - 1,
        1 << 31,
        (1 << 32) - 1,
        1 << 32,
        1 << 53,
        1 << 62,
        (1 << 63) - 1,
        1 << 63,
        (1 << 64) - 1,
    ),
    *(-1, -2, -32, -33, -128, -(1 << 31), -(1 << 63)),
)
_WORDS = """
nan -0 1e999 bundle _lib const_loader cuda rocm hip hsaco metal vulkan opencl hexagon webgpu npu cl spv wgsl ptx cubin fatbin so metallib
clbin kind imports functions roots modules origin offset size sha256 zstd lookup tree_lookup compression variant format target toolchain
options sources params
blocks block constants
block_constants name id type default access at align push buffer scalar uniform local image sampler r w rw handle void bool uint1 uint1x64
uint1x65528 int4 int4x2 float6_e2m3fn float16x4 float4_e2m1fn bfloat16 uint8x65535 int0 int255x65535 type200_3 complex64 float32x0
float8_e4m3fn add init thread_axis_tags blockIdx.x threadIdx.x clusterCtaIdx.x paramWriteAccess:[0,1] paramWriteAccess:[
tirx.use_dyn_shared_memory tirx.use_programtic_dependent_launch tirx.use_cooperative_launch tirx.use_required_block_dimension
"""
#: Control characters, directions of text, invalid UTF-8, and words of the formats.
STRINGS = (
    *(
        "",
        "a",
        "\0",
        "\x1b[2J",
        "\x1b]0;title\x07",
        "\x9b31m",
        "\u202e",
        "\u2066x\u2069",
        "\u200b",
        "\r",
        "\n",
        "\t",
        "\x7f",
        "\udcff",
    ),
    *(
        "\N{THUMBS UP SIGN}",
        "e\u0301",
        "a" * 33,
        "x" * 5000,
        "../../etc/passwd",
        "a; rm -rf /",
        "__proto__",
        "constructor",
    ),
    *_WORDS.split(),
)
_TYPES = (
    *(
        [3, 64, 1],
        [0, 1, 65528],
        [1, 1, 1],
        [1, 1, 64],
        [0, 4, 1],
        [2, 6, 3],
        [15, 6, 1],
        [17, 4, 7],
    ),
    *([0, 0, 0], [255, 255, 65535], [2, 16, 1]),
)

#: msgpack.packb makes a new packer for each value.
_PACKER = msgpack.Packer()
#: Packs bytes as a text.
_TEXT_PACKER = msgpack.Packer(use_bin_type=False)

_FILE = {
    16: 2,
    18: 2,
    20: 4,
    24: 8,
    32: 8,
    40: 8,
    48: 4,
    52: 2,
    54: 2,
    56: 2,
    58: 2,
    60: 2,
    62: 2,
    4: 1,
    5: 1,
}
_SECTION = {0: 4, 4: 4, 8: 8, 16: 8, 24: 8, 32: 8, 40: 4, 44: 4, 48: 8, 56: 8}
_SEGMENT = {0: 4, 4: 4, 8: 8, 16: 8, 24: 8, 32: 8, 40: 8, 48: 8}
_SYMBOL = {0: 4, 4: 1, 5: 1, 6: 2, 8: 8, 16: 8}

_TOKEN = re.compile(r"\w+|\s+|//[^\n]*|[^\w\s]")
_SIGNS = (*"()[]{}<>,;:=*&-+@#/", "//", "/*", "*/", "->", "\\", '"', "'", "\n")
_LITERALS = (
    *("0", "1", "-1", "2147483648", "4294967295", "4294967296", "18446744073709551616"),
    *("0x", "0xffffffffffffffffff", "1e999", "0.5f", "1u"),
)
_BRACKETS = (
    ("(", ")"),
    ("[", "]"),
    ("{", "}"),
    ("array<", ", 2>"),
    ("-", ""),
    ("*", ""),
    ("/*", "*/"),
)

#: json.dumps makes a new encoder for each value.
_JSON = json.JSONEncoder(ensure_ascii=False)


# -- bytes


def mutate_bytes(data: bytes, random: Random) -> bytes:
    """Change, cut, insert, remove or repeat a few bytes; or write a number of 1, 2, 4 or 8
    bytes.
    """
    result = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 5))):
        at = random.randrange(len(result) + 1)
        match random.randrange(8):
            case 0 if result:
                result[at % len(result)] ^= 1 << random.randrange(8)
            case 1 if result:
                result[at % len(result)] = random.randrange(256)
            case 2:
                del result[at:]
            case 3:
                result[at:at] = random.randbytes(random.randrange(1, 9))
            case 4:
                del result[at : at + random.randrange(1, 20)]
            case 5:
                size = random.choice((1, 2, 4, 8))
                result[at : at + size] = (random.choice(NUMBERS) % (1 << 8 * size)).to_bytes(
                    size, random.choice(("little", "big"))
                )
            case 6:
                part = result[at : at + random.randrange(1, 64)]
                result[at:at] = part * random.choice((1, 1, 2, 30))
            case _:
                result[at:at] = random.choice(STRINGS).encode("utf-8", "surrogateescape")
    return bytes(result[:MOST])


# -- msgpack


class Pairs(list[Any]):
    """A map as a list of pairs, in which a key may occur twice."""


def unpack_all(data: bytes) -> list[Any]:
    """Return the msgpack objects in `data`, maps as Pairs; raise ValueError if it is not
    msgpack.
    """
    unpacker = msgpack.Unpacker(
        raw=False,
        strict_map_key=False,
        object_pairs_hook=Pairs,
        unicode_errors="surrogateescape",
        max_buffer_size=max(len(data), 1),
    )
    unpacker.feed(data)
    try:
        result = list(unpacker)
    except Exception as error:
        raise ValueError(str(error)) from error
    if unpacker.tell() != len(data):
        raise ValueError("the last object is truncated")
    return result


def pack(value: Any, random: Random | None = None, depth: int = 0) -> bytes:
    """Return an object in msgpack, down to a depth of 100. With `random`, one length in 50 has a
    longer form than necessary.
    """
    if depth > 100:
        return b"\xc0"
    longer = random is not None and not random.randrange(50)
    if value is None or isinstance(value, (bool, float)):
        return bytes(_PACKER.pack(value))
    if isinstance(value, int):
        if longer and 0 <= value < 1 << 32:
            return b"\xcf" + value.to_bytes(8, "big")
        return bytes(_PACKER.pack(max(-(1 << 63), min(value, (1 << 64) - 1))))
    if isinstance(value, (str, bytes)):
        data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        tag = 0xDB if isinstance(value, str) else 0xC6
        if longer:
            return bytes([tag]) + struct.pack(">I", len(data)) + data
        if isinstance(value, bytes):
            return bytes(_PACKER.pack(data))
        return bytes(_TEXT_PACKER.pack(data))
    if isinstance(value, Pairs):
        result = bytearray(_head_of(0xDF, 0x80, len(value), longer))
        for key, each in value:
            result += pack(key, random, depth + 1)
            result += pack(each, random, depth + 1)
        return bytes(result)
    if isinstance(value, (list, tuple)):
        return _head_of(0xDD, 0x90, len(value), longer) + pack_all(value, random, depth + 1)
    return bytes(_PACKER.pack(value))


def pack_all(values: Iterable[Any], random: Random | None = None, depth: int = 0) -> bytes:
    """Return objects in msgpack, one after the other, each as `pack` does."""
    return b"".join([pack(each, random, depth) for each in values])


def _head_of(tag: int, short_tag: int, count: int, longer: bool) -> bytes:
    """Return the head of a map or an array, with its tag for a count of 32 bits and of 4 bits."""
    if longer or count > 15:
        return bytes([tag]) + struct.pack(">I", count)
    return bytes([short_tag | count])


def copy_tree(value: Any, depth: int = 0) -> Any:
    """Return a deep copy, down to a depth of 40."""
    if depth > 40:
        return None
    if isinstance(value, Pairs):
        return Pairs((key, copy_tree(each, depth + 1)) for key, each in value)
    if isinstance(value, (list, tuple)):
        return [copy_tree(each, depth + 1) for each in value]
    return value


def _places(value: Any, result: list[tuple[list[Any], int]], depth: int = 0) -> None:
    if depth > 40 or len(result) > 3000:
        return
    if isinstance(value, list):
        for index, each in enumerate(value):
            result.append((value, index))
            _places(each[1] if isinstance(value, Pairs) else each, result, depth + 1)


def _interesting(random: Random, like: Any) -> Any:
    pick = random.randrange(10)
    if pick < 6 and isinstance(like, bool):
        return not like
    if pick < 7 and isinstance(like, int):
        return random.choice(
            (random.choice(NUMBERS), like + 1, like - 1, like * 2, random.randrange(300))
        )
    if pick < 7 and isinstance(like, str):
        other = random.choice(STRINGS)
        return random.choice((other, like + other, other + like, like[: len(like) // 2]))
    if pick < 7 and isinstance(like, bytes):
        return mutate_bytes(like, random)
    if pick < 7 and isinstance(like, list) and len(like) == 3 and not isinstance(like, Pairs):
        return list(random.choice(_TYPES))
    odd: tuple[Any, ...] = (
        None,
        True,
        0.5,
        float("nan"),
        float("inf"),
        -0.0,
        b"",
        b"\0" * 32,
        [],
        Pairs(),
        [[]],
        [0, 0],
        [-1, [0], 0],
    )
    whole: Any = random.choice(odd)
    return random.choice((whole, random.choice(NUMBERS), random.choice(STRINGS)))


def mutate_tree(objects: list[Any], random: Random) -> None:
    """Change a few values in a list of objects, in place."""
    for _ in range(random.choice((1, 1, 1, 2, 2, 4))):
        places: list[tuple[list[Any], int]] = []
        _places(objects, places)
        if not places:
            objects.append(_interesting(random, None))
            return
        parent, index = random.choice(places)
        holder = parent[index]
        paired = isinstance(parent, Pairs)
        value = holder[1] if paired else holder

        def put(
            new: Any,
            parent: list[Any] = parent,
            index: int = index,
            holder: Any = holder,
            paired: bool = paired,
        ) -> None:
            parent[index] = (holder[0], new) if paired else new

        match random.randrange(9):
            case 0 | 1 | 2:
                put(_interesting(random, value))
            case 3:
                del parent[index]
            case 4:
                parent[index:index] = [
                    copy_tree(holder) if not paired else (holder[0], copy_tree(value))
                ] * random.choice((1, 1, 2, 40))
            case 5:
                other, at = random.choice(places)
                if at < len(other):
                    subtree = other[at][1] if isinstance(other, Pairs) else other[at]
                    put(copy_tree(subtree))
            case 6 if paired:
                parent[index] = (random.choice(STRINGS), value)
            case 7:
                nested = value
                for _ in range(random.choice((1, 1, 2, 35))):
                    nested = [nested]
                put(nested)
            case _:
                if isinstance(value, Pairs):
                    value.append((random.choice(STRINGS), _interesting(random, None)))
                elif isinstance(value, list):
                    value.insert(
                        random.randrange(len(value) + 1),
                        _interesting(random, value[0] if value else None),
                    )
                else:
                    put(_interesting(random, value))


def mutate_msgpack(data: bytes, random: Random) -> bytes:
    """Change values of a sequence of msgpack objects."""
    try:
        objects = unpack_all(data)
    except ValueError:
        return mutate_bytes(data, random)
    if not random.randrange(8):
        return mutate_bytes(data, random)
    mutate_tree(objects, random)
    return pack_all(objects, random)[:MOST]


def mutate_program(data: bytes, random: Random) -> bytes:
    """Change values of a module of programs, and of the steps in it."""
    try:
        fmt, functions, codes = unpack_all(data)
        at = random.randrange(len(codes))
        name, code = codes[at]
        objects = unpack_all(code)
    except (ValueError, TypeError):
        return mutate_msgpack(data, random)
    if not random.randrange(3):
        return mutate_msgpack(data, random)
    mutate_tree(objects, random)
    codes[at] = (name, pack_all(objects, random))
    return pack_all((fmt, functions, codes), random)[:MOST]


# -- bundles


def bundle_of(page: bytes, blobs: bytes) -> bytes:
    """Return a bundle with that page, with its digest. The roots in the head are those in the page,
    where devmod ignores them.
    """
    try:
        fields = msgpack.unpackb(page, strict_map_key=False)
        modules = fields["modules"]
        records = len(modules) + len(fields.get("sources", ()))
        roots = fields.get("roots", [0])
        candidates = sum("rank" in each for each in modules if isinstance(each, dict))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        records = min(len(page), 1)
        roots = [0]
        candidates = 1
    try:
        return headed(
            {"candidates": candidates, "roots": roots, "pages": [row(page, records, len(blobs))]},
            page,
            blobs,
        )
    except (ValueError, TypeError, OverflowError):
        return headed(
            {"candidates": 1, "roots": [0], "pages": [row(page, records, len(blobs))]}, page, blobs
        )


def split_bundle(data: bytes) -> tuple[dict[str, Any], list[bytes], bytes]:
    """Return the head, the pages and the blobs. Raise ValueError if `data` is no bundle."""
    try:
        head = head_of(data)
        at = 48 + int.from_bytes(data[12:16], "little")
        pages: list[bytes] = []
        for each in head["pages"]:
            if type(each) is not list or len(each) < 4:
                raise ValueError("no row of a page")
            if not all(type(number) is int and 0 <= number < 2**32 for number in each[:3]):
                raise ValueError("no numbers")
            pages.append(data[at : at + each[1]])
            at += each[1]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise ValueError("no bundle") from error
    if data[:8] != MAGIC or not pages or not all(pages):
        raise ValueError("no bundle")
    return head, pages, data[at + (-at % 64) :]


def assemble(
    index: list[Any], blobs: Sequence[bytes | None], frames: Mapping[int, bytes] | None = None
) -> tuple[bytes, bytes]:
    """Return a page and blobs in which the modules and sources have these bytes: size, sha256 and
    zstd are correct.

    Candidates without a rank get the right one. None leaves a module as it is. `frames` are
    compressed bytes by number, in place of those of the compressor.
    """
    joined = bytearray()
    modules = [dict(_texts(each)) for each in _maps(index, "modules")]
    order = candidates_of(dict(_texts(index[0])).get("roots"), modules) if index else []
    for number, (entry, blob) in enumerate(zip(_entries(index), blobs, strict=False)):
        if not isinstance(entry, Pairs):
            continue
        keys = [key for key, _ in entry]
        if number in order and "rank" not in keys:
            entry.append(("rank", order.index(number)))
        if blob is None:
            continue
        correct: dict[str, Any] = {}
        if "zstd" in keys:
            correct["zstd"] = [len(blob), hashlib.sha256(blob).digest()]
            blob = (frames or {}).get(number) or zstd.compress(blob, 1)
        correct |= {"size": len(blob), "sha256": hashlib.sha256(blob).digest()}
        names = list(correct)  # a key may be a list, which no dict has
        others = [pair for pair in entry if pair[0] not in names]
        entry[:] = [*others, *correct.items()]
        if blob:
            joined += bytes(-len(joined) % 64 + _shift_of(dict(_texts(entry)))) + blob
    return pack_all(index), bytes(joined)


def _texts(value: Any) -> list[tuple[str, Any]]:
    """Return the pairs of a map whose keys are texts."""
    if not isinstance(value, Pairs):
        return []
    return [(key, each) for key, each in value if isinstance(key, str)]


def _maps(index: list[Any], name: str) -> list[Any]:
    """Return an array of the index, "modules" or "sources"."""
    if index and isinstance(index[0], Pairs):
        for key, value in index[0]:
            if key == name and type(value) is list:  # a map is a list too
                return value
    return []


def _entries(index: list[Any]) -> list[Any]:
    """Return the maps of the modules, then those of the sources."""
    return _maps(index, "modules") + _maps(index, "sources")


def _shift_of(entry: Mapping[str, Any]) -> int:
    """Return how far behind a multiple of 64 the bytes of a record begin."""
    shift = entry.get("shift", 0)
    if type(shift) is int and 0 <= shift < 64:
        return shift
    return 0


def _blobs_of(index: list[Any], blobs: bytes) -> list[bytes | None]:
    results: list[bytes | None] = []
    at = 0
    for entry in _entries(index):
        result = dict(_texts(entry))
        size = result.get("size")
        blob = None
        if isinstance(size, int) and 0 <= size <= len(blobs) - at:
            start = at
            if size:
                start += -at % 64 + _shift_of(result)
            blob = blobs[start : start + size]
            at = start + size
        if blob is not None and "zstd" in result:
            try:
                blob = zstd.ZstdDecompressor().decompress(blob, max_length=MOST)
            except zstd.ZstdError:
                blob = b""
        results.append(blob)
    return results


def mutate_bundle(data: bytes, random: Random) -> bytes:
    """Change the index or a module's bytes, and correct the digests in most cases."""
    try:
        head, pages, blobs = split_bundle(data)
        objects = unpack_all(pages[0])
    except ValueError:
        return mutate_bytes(data, random)
    choice = random.randrange(12)
    if len(pages) > 1 or choice == 11:
        return mutate_pages(data, random)
    if choice == 0:
        return mutate_bytes(data, random)
    if choice == 1:
        return bundle_of(mutate_bytes(pages[0], random), blobs)
    if objects and isinstance(objects[0], Pairs):
        objects[0].append(("roots", head.get("roots", _roots_by_rank(objects))))
    parts = _blobs_of(objects, blobs)
    references = [number for number, part in enumerate(parts) if part is not None]
    frames = {}
    if choice == 2 and any("zstd" in dict(_texts(each)) for each in _entries(objects)):
        for number in references:
            frame = zstd.compress(parts[number] or b"", random.choice((1, 19)))
            frames[number] = mutate_bytes(frame, random)
    elif choice < 7 and references:
        number = random.choice(references)
        parts[number] = mutate_msgpack(parts[number] or b"", random)
        if random.randrange(3):
            _correct_names(_entries(objects)[number], parts[number] or b"")
    elif choice < 8:
        _change_modules(objects, parts, random)
    elif choice < 9:
        _change_repeats(objects, random)
    else:
        mutate_tree(objects, random)
        if random.randrange(3):
            return bundle_of(pack_all(objects, random), blobs)
    return bundle_of(*assemble(objects, parts, frames))


def _roots_by_rank(objects: list[Any]) -> list[int]:
    """Return the numbers of the modules that have a rank, in its order."""
    ranks = {}
    for at, each in enumerate(_maps(objects, "modules")):
        rank = dict(_texts(each)).get("rank")
        if isinstance(rank, int):
            ranks[rank] = at
    return [ranks[rank] for rank in sorted(ranks)]


def mutate_pages(data: bytes, random: Random) -> bytes:
    """Change the head or a page, and correct the digests. What the head says of a page stays in
    part.
    """
    try:
        head, pages, blobs = split_bundle(data)
        number = random.randrange(len(pages))
        objects = unpack_all(pages[number])
    except ValueError:
        return mutate_bytes(data, random)
    rows = head["pages"]
    if random.randrange(3):
        if random.randrange(4):
            mutate_tree(objects, random)
            pages[number] = pack_all(objects, random)
        else:
            pages[number] = mutate_bytes(pages[number], random)
        count = random.choice(
            (rows[number][0], rows[number][0], rows[number][0] + 1, max(rows[number][0] - 1, 0))
        )
        rows[number] = [
            count,
            len(pages[number]),
            rows[number][2],
            hashlib.sha256(pages[number]).digest(),
            *rows[number][4:],
        ]
    if random.randrange(3) == 0:
        one = random.randrange(len(pages))
        other = random.randrange(len(pages))
        pages[one], pages[other] = pages[other], pages[one]
        rows[one][:4], rows[other][:4] = rows[other][:4], rows[one][:4]
    try:
        packed = unpack_all(msgpack.packb(head))
    except (ValueError, OverflowError):  # a map with a list as a key
        return mutate_bytes(data, random)
    if random.randrange(2):
        mutate_tree(packed, random)
    return headed(pack_all(packed, random), b"".join(pages), blobs)[:MOST]


def mutate_kpack(data: bytes, random: Random) -> bytes:
    """Change the table of AMD's archives of code objects."""
    start = int.from_bytes(data[8:16], "little")
    if data[:4] != b"KPAK" or not 16 <= start < len(data) or not random.randrange(6):
        return mutate_bytes(data, random)
    return (data[:start] + mutate_msgpack(data[start:], random))[:MOST]


def _correct_names(entry: Any, blob: bytes) -> None:
    """Replace the names of functions in an entry of the index with those in the module's bytes."""
    try:
        maps = [each for each in unpack_all(blob) if isinstance(each, Pairs)]
    except ValueError:
        return
    names = []
    if maps:
        names = [key for key, _ in maps[0]]
    if not isinstance(entry, Pairs):
        return
    for at, (key, _) in enumerate(entry):
        if key == "functions":
            entry[at] = (key, names)


def _change_modules(objects: list[Any], parts: list[bytes | None], random: Random) -> None:
    """Replace the imports of a module, or add a chain of nodes before all modules."""
    entries = _maps(objects, "modules")
    if not entries:
        return
    count = len(entries)
    if random.randrange(2):
        number = random.randrange(count)
        later = []
        if number + 1 < count:
            for _ in range(random.randrange(4)):
                later.append(random.randrange(number + 1, count))
        entry = entries[number]
        if isinstance(entry, Pairs):
            entry[:] = [pair for pair in entry if pair[0] != "imports"]
            entry.append(("imports", later))
        return
    # A chain of nodes, each of which imports the next one twice.
    depth = random.choice((1, 2, 5, 30))
    for entry in entries:
        if not isinstance(entry, Pairs):
            continue
        for at, (key, value) in enumerate(entry):
            if key == "imports":
                entry[at] = (key, _add_to_each(value, depth))
    chain = [
        Pairs(
            [
                ("kind", random.choice(("bundle", "_lib"))),
                ("imports", [number + 1] * random.choice((1, 2))),
            ]
        )
        for number in range(depth)
    ]
    entries[:0] = chain
    parts[:0] = [None] * depth
    for at, (key, value) in enumerate(objects[0]):
        if key == "roots" and isinstance(value, list):
            objects[0][at] = (key, [0, *_add_to_each(value, depth)])


def _change_repeats(objects: list[Any], random: Random) -> None:
    """Change, add or remove a number in the repeats of a module."""
    numbers: list[list[Any]] = []
    for entry in _maps(objects, "modules"):
        if not isinstance(entry, Pairs):
            continue
        for key, value in entry:
            if key == "repeats" and type(value) is list:
                # No maps: `Pairs` are lists.
                numbers += [each for each in value if type(each) is list]
    if not numbers:
        return
    chosen = random.choice(numbers)
    known = [each for each in random.choice(numbers) if isinstance(each, int)] or [0]
    at = random.randrange(len(chosen) + 1)
    number = random.choice((*NUMBERS, *known, random.choice(known) + random.choice((-1, 1))))
    chosen[at : at + random.randrange(2)] = [number] * random.choice((0, 1, 1, 1, 2))


def _add_to_each(numbers: Any, by: int) -> Any:
    if not isinstance(numbers, list):
        return numbers
    results = list(numbers)
    for at, each in enumerate(numbers):
        if isinstance(each, int):
            results[at] = each + by
    return results


# -- TVM


def mutate_tvm(data: bytes, random: Random) -> bytes:
    """Change 64-bit counts and strings of TVM's serialization, and correct the length in front of a
    blob in most cases.
    """
    result = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 3))):
        small = [at for at in range(len(result) - 8) if result[at + 3 : at + 8] == b"\0\0\0\0\0"]
        pick = random.randrange(5)
        if pick < 2 and small:
            at = random.choice(small)
            now = int.from_bytes(result[at : at + 8], "little")
            new = random.choice((now + 1, now - 1, 0, random.choice(NUMBERS), random.randrange(64)))
            result[at : at + 8] = (new % (1 << 64)).to_bytes(8, "little")
        elif pick == 2 and small:  # another string in the place of one, with its length
            at = random.choice(small)
            size = int.from_bytes(result[at : at + 8], "little")
            if size < 4096:
                text = random.choice(STRINGS).encode("utf-8", "surrogateescape")
                result[at : at + 8 + size] = len(text).to_bytes(8, "little") + text
        else:
            result[:] = mutate_bytes(bytes(result), random)
    if (
        random.randrange(8)
        and len(result) >= 8
        and int.from_bytes(data[:8], "little") == len(data) - 8
    ):
        result[:8] = (len(result) - 8).to_bytes(8, "little")
    return bytes(result[:MOST])


# -- ELF


def mutate_elf(data: bytes, random: Random) -> bytes:
    """Change fields of the header, of the section and program headers and of symbols, or the bytes
    of a section.
    """
    if len(data) < 64 or data[:4] != b"\x7fELF" or data[4] != 2 or not random.randrange(6):
        return mutate_bytes(data, random)
    result = bytearray(data)

    def number(at: int, size: int) -> int:
        return int.from_bytes(result[at : at + size], "little")

    for _ in range(random.choice((1, 1, 2, 3))):
        sections = [
            (number(40, 8) + 64 * index, _SECTION) for index in range(min(number(60, 2), 64))
        ]
        segments = [
            (number(32, 8) + 56 * index, _SEGMENT) for index in range(min(number(56, 2), 32))
        ]
        tables: list[tuple[int, dict[int, int]]] = [(0, _FILE), *sections, *segments]
        for start, _form in sections:
            if number(start + 4, 4) in (2, 11):
                first, size = number(start + 24, 8), number(start + 32, 8)
                tables += [(first + 24 * index, _SYMBOL) for index in range(min(size // 24, 64))]
        start, form = random.choice(tables)
        offset, size = random.choice(list(form.items()))
        now = number(start + offset, size)
        new = random.choice(
            (
                random.choice(NUMBERS),
                now + 1,
                now - 1,
                len(result),
                len(result) - 1,
                random.randrange(max(len(result), 1)),
            )
        )
        if start + offset + size <= len(result):
            result[start + offset : start + offset + size] = (new % (1 << 8 * size)).to_bytes(
                size, "little"
            )
    return bytes(result)


# -- SPIR-V


def mutate_spirv(data: bytes, random: Random) -> bytes:
    """Change, remove, repeat and move instructions. The word counts are correct in most cases."""
    words = [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data) - 3, 4)]
    if len(words) < 6 or not random.randrange(10):
        return mutate_bytes(data, random)
    parts: list[list[int]] = []
    at = 5
    while at < len(words):
        count = max(words[at] >> 16, 1)
        parts.append(words[at : at + count])
        at += count
    bound = max(words[3], 1)
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        if not parts:
            break
        where = random.randrange(len(parts))
        part = parts[where]
        match random.randrange(6):
            case 0 | 1 | 2 if len(part) > 1:
                other = random.choice(parts)
                new = (
                    random.choice(NUMBERS),
                    random.randrange(1, bound + 2),
                    random.choice(other),
                    part[-1] + 1,
                )
                part[random.randrange(1, len(part))] = random.choice(new) & 0xFFFFFFFF
            case 3:
                del parts[where]
            case 4:
                parts[where:where] = [list(part) for _ in range(random.choice((1, 1, 3, 100)))]
            case _:
                parts.insert(random.randrange(len(parts)), parts.pop(where))
    if not random.randrange(8):
        words[random.randrange(1, 5)] = random.choice(NUMBERS) & 0xFFFFFFFF
    for part in parts:
        if random.randrange(200):
            part[0] = (len(part) << 16) | (part[0] & 0xFFFF)
    flat = [*words[:5], *chain.from_iterable(parts)]
    return struct.pack(f"<{len(flat)}I", *flat)[:MOST]


# -- text


def mutate_text(words: Sequence[str]) -> Mutator:
    """Return a mutator of programs that moves, repeats, nests and replaces tokens, and takes others
    from `words`.
    """

    def mutate(data: bytes, random: Random) -> bytes:
        if not random.randrange(15):
            return mutate_bytes(data, random)
        tokens = _TOKEN.findall(data.decode("utf-8", "surrogateescape"))
        for _ in range(random.choice((1, 1, 2, 3, 6))):
            if not tokens:
                tokens = [random.choice(words)]
            at = random.randrange(len(tokens))
            far = min(at + random.randrange(1, 12), len(tokens))
            new = random.choice(
                (
                    random.choice(words),
                    random.choice(_SIGNS),
                    random.choice(_LITERALS),
                    random.choice(tokens),
                )
            )
            match random.randrange(8):
                case 0 | 1:
                    tokens[at] = new
                case 2:
                    del tokens[at:far]
                case 3:
                    tokens[at:at] = [new]
                case 4:
                    tokens[at:at] = tokens[at:far] * random.choice((1, 1, 3, 60))
                case 5:
                    other = random.randrange(len(tokens))
                    tokens[at:far] = tokens[other : other + random.randrange(1, 30)]
                case 6:
                    times = random.choice((1, 2, 10, 100))
                    opened, closed = random.choice(_BRACKETS)
                    tokens[at:far] = [opened * times, *tokens[at:far], closed * times]
                case _:
                    tokens[at:at] = [random.choice(STRINGS)]
        return "".join(tokens).encode("utf-8", "surrogateescape")[:MOST]

    return mutate


# -- JSON


def mutate_json(data: bytes, random: Random) -> bytes:
    """Change values of a JSON text."""
    try:
        tree = json.loads(data, object_pairs_hook=Pairs)
    except (ValueError, RecursionError):
        return mutate_bytes(data, random)
    if not random.randrange(8):
        return mutate_bytes(data, random)
    objects = [tree]
    mutate_tree(objects, random)
    return _json_text(objects[0] if objects else None).encode("utf-8", "surrogateescape")[:MOST]


def _json_text(value: Any) -> str:
    if isinstance(value, Pairs):
        return (
            "{"
            + ", ".join(f"{_JSON.encode(str(key))}: {_json_text(each)}" for key, each in value)
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_json_text, value)) + "]"
    if isinstance(value, bytes):
        return json.dumps(value.decode("latin-1"))
    return _JSON.encode(value)


def mutate_head(head: Mutator, rest: Mutator) -> Mutator:
    """Return a mutator of inputs that have a byte that chooses something, a head, a zero and the
    rest.
    """

    def mutate(data: bytes, random: Random) -> bytes:
        choice = data[:1] or b"\0"
        if not random.randrange(6):
            choice = bytes([random.randrange(32)])
        first, _, second = data[1:].partition(b"\0")
        if random.randrange(2):
            return choice + head(first, random).replace(b"\0", b"") + b"\0" + second
        return choice + first + b"\0" + rest(second, random)

    return mutate


# -- ONNX


def mutate_onnx(data: bytes, random: Random) -> bytes:
    """Change fields of a message of protobuf, or bytes of a model."""
    import onnx
    from google.protobuf.message import DecodeError, EncodeError

    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError:
        return mutate_bytes(data, random)
    if not random.randrange(4):
        return mutate_bytes(data, random)
    messages: list[Any] = [model]
    for each in messages[: 1 << 12]:
        messages += _inner(each)
    for _ in range(random.choice((1, 1, 2, 4))):
        message = random.choice(messages)
        field = random.choice(message.DESCRIPTOR.fields)
        values = getattr(message, field.name)
        with suppress(ValueError, TypeError, OverflowError):
            if isinstance(values, (int, float)):
                setattr(
                    message,
                    field.name,
                    random.choice((-values, values * 2, random.choice(NUMBERS))),
                )
            elif isinstance(values, (str, bytes)):
                other = random.choice(STRINGS) if isinstance(values, str) else random.randbytes(4)
                setattr(message, field.name, random.choice((values * 2, values[:-1], other)))
            elif hasattr(values, "insert") and len(values):
                values.insert(0, random.choice((values[-1], random.choice(NUMBERS))))
            elif hasattr(values, "add"):
                values.add()
            elif hasattr(values, "append"):
                values.append(random.choice((random.choice(NUMBERS), random.choice(STRINGS))))
    try:
        return bytes(model.SerializeToString())[:MOST]
    except (EncodeError, UnicodeEncodeError, ValueError):
        return mutate_bytes(data, random)


def _inner(message: Any) -> list[Any]:
    """Return the messages in a message."""
    messages: list[Any] = []
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if hasattr(value, "__len__"):
            messages += value
        else:
            messages.append(value)
    return messages
