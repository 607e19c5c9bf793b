"""The npm package's decompressor of zstd, beside libzstd: the same results, and frames of strangers are refused at once."""

from __future__ import annotations

import base64
import random
import sys
from typing import Any

import pytest
from browser_driver import run_in_node

zstd = pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")

#: Returns the result of each frame in base64, or null.
READ = """
const { decompress } = await import("./zstd.js");
return argument.map(([frame, size]) => {
  const found = decompress(new Uint8Array(Buffer.from(frame, "base64")), size);
  return found && Buffer.from(found).toString("base64");
});
"""


def read(frames: list[tuple[bytes, int]]) -> list[bytes | None]:
    found = run_in_node(READ, [(base64.b64encode(frame).decode(), size) for frame, size in frames])
    return [None if each is None else base64.b64decode(each) for each in found]


def samples() -> list[bytes]:
    """Bytes for every form of a block: raw, runs, each form of literals, few and many sequences, short and long offsets."""
    rng = random.Random(5)
    words = [rng.randbytes(rng.randrange(1, 40)) for _ in range(60)]
    text = b"".join(rng.choice(words) for _ in range(9000))
    skewed = bytes(min(255, int(rng.expovariate(0.1))) for _ in range(30000))
    return [
        b"",
        b"a",
        bytes(300_000),
        rng.randbytes(5000),
        text,
        skewed,
        skewed[:700],
        rng.randbytes(140_000) * 2,
        bytes(rng.choices(b"ab", k=9000)),
    ]


def compressed(data: bytes, level: int, **options: int) -> bytes:
    chosen: dict[Any, int] = {zstd.CompressionParameter.compression_level: level}
    chosen |= {zstd.CompressionParameter[name]: value for name, value in options.items()}
    return bytes(zstd.ZstdCompressor(options=chosen).compress(data, zstd.ZstdCompressor.FLUSH_FRAME))


def test_frames_of_all_levels_are_read_as_libzstd_reads_them() -> None:
    expected = [(data, level) for data in samples() for level in (-5, 1, 3, 9, 17, 19, 22)]
    assert read([(compressed(data, level), len(data)) for data, level in expected]) == [data for data, _ in expected]
    checksums = samples()
    assert read([(compressed(data, 3, checksum_flag=1), len(data)) for data in checksums]) == checksums


def test_a_frame_of_another_size_is_refused() -> None:
    for data in samples():
        frame = compressed(data, 3)
        assert read([(frame, len(data) + 1), (frame, max(0, len(data) - 1)), (frame + b"\0", len(data)), (frame[:-1], len(data))]) == [
            None,
            b"" if not data else None,
            None,
            None,
        ]


def test_damaged_frames_are_refused_or_have_the_size() -> None:
    rng = random.Random(7)
    frames = []
    for data in samples():
        frame = compressed(data, 19)
        for _ in range(150):
            bad = bytearray(frame)
            bad[rng.randrange(min(len(bad), rng.choice((30, 300, len(bad)))))] ^= 1 << rng.randrange(8)
            frames.append((bytes(bad), len(data)))
    for (_, size), found in zip(frames, read(frames), strict=True):
        assert found is None or len(found) == size


#: A block of 13 bytes with 98,047 sequences of no bits, each of which repeats 32,771 bytes. fzstd 0.1.1 works on it for a minute.
ENDLESS = bytes([8, 0x41, 255, 0xFF, 0xFF, 0x54, 0, 0, 51, 1])


def test_a_block_that_writes_more_than_it_may_is_refused_at_once() -> None:
    head = (len(ENDLESS) << 3 | 2 << 1 | 1).to_bytes(3, "little")
    single = b"\x28\xb5\x2f\xfd\xa0" + (200_000).to_bytes(4, "little")
    assert read([(single + head + ENDLESS, 200_000)] * 100) == [None] * 100


def test_a_window_beyond_the_limit_is_refused() -> None:
    data = b"abc" * 1000
    streamed = zstd.ZstdCompressor(level=19)
    frame = streamed.compress(data[:10]) + streamed.compress(data[10:], streamed.FLUSH_FRAME)
    assert zstd.decompress(frame) == data
    with pytest.raises(zstd.ZstdError):
        zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: 12}).decompress(frame)
    assert read([(frame, len(data))]) == [None]
