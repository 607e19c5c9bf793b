"""Compressed bytes and sources in a file. Python has zstd from 3.14 on; before, backports.zstd has
it.
"""

from __future__ import annotations

import sys

from devmod._formats.msgpack import Reader
from devmod._util.digest import sha256_of
from devmod.errors import ArgumentError, FormatError, NotRegisteredError, count_text, not_installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod._values.code import Binary, Fields, Source


#: n compressed bytes unpack to at most so many objects of msgpack, and n more. Elsewhere each
#: object takes a byte of the file.
FREE_VALUES = 1 << 20
# Where to change: a compression of payloads
#   here: `COMPRESS_LEVELS`, `compress`, `decompress`, `core/src/devmod/_formats/index.py`
#     (`COMPRESSED`); the other readers, as for a field of a file, and
#     `extras/browser/js/src/bundle.js`; `compilers/targets/src/devmod_targets/build/read.py` and
#     the options `--compress`; `core/src/devmod/_files/save.py` (`_compress`),
#     `core/src/devmod/_modules/stored.py` and `core/src/devmod/_formats/parts.py`, which call them;
#     the extra in `core/pyproject.toml`; texts that name zstd:
#     `core/src/devmod/_files/bundle_file.py`, `schema_frame.json` beside `read.py`,
#     `docs/bundles.md`, `docs/browser.md`
#   tests: `core/tests/test_compressed.py`, `core/tests/test_parts.py`, `tests/test_readers.py`
#: The values of the argument `compress` of a save, each with the level of zstd: 0 compresses
#: nothing, -1 leaves bytes as they are.
COMPRESS_LEVELS: dict[str | None, int] = {
    None: -1,
    "none": 0,
    "zstd": 3,
    **{f"zstd:{level}": level for level in range(1, 23)},
}


def level_of(compress: str | None) -> int:
    """Return the level of an argument `compress`. ArgumentError if it is invalid."""
    if compress not in list(COMPRESS_LEVELS):  # it may be no key of a map
        raise ArgumentError(
            f"compress: expected 'zstd', 'zstd:LEVEL' with a level from 1 to 22, or 'none', got {compress!r}",
            argument="compress",
        )
    return COMPRESS_LEVELS[compress]


def compress(data: Binary, level: int) -> bytes:
    """Return one frame of zstd, which has the size of its content."""
    return bytes(_library("the file cannot be compressed: ").compress(data, level))


def library_text(level: int) -> str:
    """Return the name and the version of the library, with the level: other versions give other
    bytes.
    """
    return f"libzstd {_library().zstd_version} level {level}"


def decompress(
    data: Binary,
    unpacked: tuple[int, bytes],
    subject: str,
    kind: str,
    *,
    is_msgpack: bool = True,
) -> memoryview:
    """Return the bytes that were compressed to `data`.

    Memory is allocated for bytes that the library returns, never for a number in the data, and at
    most for one byte more than the expected size. `check_blob` has compared that with the size of
    the data.

    Parameters
    ----------
    data
        The frame.
    unpacked
        The size and the SHA-256 of the result.
    subject, kind
        For messages.
    is_msgpack
        Whether the result is objects of msgpack, of which there is a limit.

    Raises
    ------
    FormatError
        The data is not one frame with that result.
    NotRegisteredError
        The library is not installed.
    """
    size, digest = unpacked
    library = _library(f"{subject} cannot be read: the bytes are compressed with zstd, and ", kind)
    window = min(max(size.bit_length(), 10), 27)
    decompressor = library.ZstdDecompressor(
        options={library.DecompressionParameter.window_log_max: window}
    )
    problem = None
    try:
        result = decompressor.decompress(data, max_length=size + 1)
        if (
            len(result) == size
            and decompressor.eof
            and not decompressor.unused_data
            and sha256_of(result) == digest
        ):
            most = 0
            if is_msgpack:
                most = too_many_values(result, len(data))
            if not most:
                return memoryview(result)
            raise FormatError(
                f"{subject} cannot be read: its {len(data)} compressed bytes unpack to more than {most} objects",
                kind=kind,
            )
    except library.ZstdError as error:
        problem = error
    raise FormatError(
        f"{subject} cannot be read: the compressed bytes do not unpack to the {count_text(size, 'byte')} with the SHA-256 in the index. "
        "Nothing of them was used",
        kind=kind,
    ) from problem


def too_many_values(result: Binary, size: int) -> int:
    """Return 0, or the limit on the objects that `size` compressed bytes unpack to, if `result`
    exceeds it.
    """
    left = most = FREE_VALUES + size
    reader = Reader(result, "")
    if len(result) <= most:
        return 0
    # The reader of the fields, of which a kind has at most three, raises the error for other bytes.
    for _ in range(3):
        values = reader.skip(most=left)
        if not 0 <= values <= left:
            return most
        left -= values
    return 0


def _library(purpose: str = "", kind: str = "") -> Any:
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError as error:
        text = not_installed("backports.zstd", "devmod-core[zstd]", "backports")
        raise NotRegisteredError(
            purpose + text, kind=kind, distribution="backports.zstd"
        ) from error
    return zstd


# Sources are a msgpack map of format to text, or to bytes (R13).


def read_sources(data: memoryview, subject: str, kind: str) -> Source:
    """Return the sources in the bytes of a file."""
    reader = Reader(data, subject, kind)
    source: Fields = {}
    for _ in range(reader.read_map()):
        name = reader.field = reader.read_key(source)
        start = reader.at
        source[name] = reader.read_value()
        if not isinstance(source[name], (str, bytes)):
            raise reader.error("expected a string or a binary", start)
    reader.finish()
    return source
