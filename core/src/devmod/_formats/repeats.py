"""Equal shaders of a module. A file has each of them once, and its index has the positions at which
the module's bytes repeat it.

The bytes of a module are those in the file, in which each range is inserted again at each of its
positions (R17 to R19). So they can be saved and checked without knowledge of the kind.
"""

from __future__ import annotations

from devmod.errors import FormatError, count_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod._formats.msgpack import Reader
    from devmod._values.code import Binary

    #: For each range of a module's stored bytes that repeats: its offset, its size, and the
    #: positions at which it is inserted.
    Repeats = Sequence[Sequence[int]]

#: The limit: n bytes in the file are at most ``n * MAX_REPEATS`` bytes of a module. A shader with
#: more uses is stored again.
MAX_REPEATS = 1 << 16
#: Repeats that save less are stored: such a file has an older version.
_MIN_SAVED = 4096


def repeated_size(repeats: Repeats) -> int:
    """Return the number of bytes that repeats add."""
    return sum(each[1] * (len(each) - 2) for each in repeats)


def check_repeats(repeats: Repeats, size: int, stored: int, subject: str) -> None:
    """Check the repeats in `size` bytes, which take `stored` bytes in the file.

    Raises
    ------
    FormatError
        They are invalid, or add too many bytes. The message begins with `subject`.
    """
    end = 0
    positions = set()
    for each in repeats:
        if len(each) < 3:
            raise FormatError(f"{subject} have a repeat without a position")
        start, length, *inserted = each
        if start < end or not 0 < length <= size - start:
            raise FormatError(
                f"{subject} have repeats that are empty, not in order or not within {count_text(size, 'byte')}: "
                f"{count_text(length, 'byte')} at {start}"
            )
        end = before = start + length
        for position in inserted:
            if not before <= position <= size or position in positions:
                raise FormatError(
                    f"{subject} have repeats at positions that are not in order or not within {count_text(size, 'byte')}: {position}"
                )
            positions.add(position)
            before = position
    total = size + repeated_size(repeats)
    if total > stored * MAX_REPEATS:
        raise FormatError(
            f"{subject} have repeats to {count_text(total, 'byte')}; the limit for {count_text(stored, 'byte')} is {stored * MAX_REPEATS}"
        )


def expand(data: memoryview, repeats: Repeats) -> list[memoryview]:
    """Return a module's bytes, in parts that share memory, from those in the file."""
    inserted = []
    for start, length, *positions in repeats:
        part = data[start : start + length]
        inserted += [(position, part) for position in positions]
    inserted.sort(key=lambda each: each[0])  # no two have one position
    parts: list[memoryview] = []
    at = 0
    for position, part in inserted:
        parts += (data[at:position], part)
        at = position
    return [*parts, data[at:]]


def share(parts: Sequence[Binary]) -> tuple[Sequence[Binary], Repeats]:
    """Return the parts without those that are equal to an earlier one, and their repeats. Every
    second part is a shader.
    """
    sizes: dict[int, int] = {}
    for part in parts[1::2]:
        sizes[len(part)] = sizes.get(len(part), 0) + 1
    groups = []
    latest: dict[Binary, list[int]] = {}
    kept = []
    at = 0
    for number, part in enumerate(parts):
        if number % 2 and len(part) and sizes[len(part)] > 1:  # only these are hashed
            group = latest.get(part)
            if group is not None and len(group) <= MAX_REPEATS:
                group.append(at)
                continue
            latest[part] = [at, len(part)]
            groups.append(latest[part])
        kept.append(part)
        at += len(part)
    repeats = [group for group in groups if len(group) > 2]
    if repeated_size(repeats) < _MIN_SAVED:
        return parts, ()
    return kept, repeats


def read_shaders(reader: Reader, repeats: Repeats) -> Mapping[str, memoryview]:
    """Read a shader map. Repeated shaders are one object.

    Raises
    ------
    FormatError
        A repeat is not a whole shader of the map.
    """
    ranges: dict[int, tuple[int, int]] = {}
    for start, length, *positions in repeats:
        ranges |= dict.fromkeys(positions, (start, length))
    stored = {}
    shaders: dict[str, memoryview] = {}
    for _ in range(reader.read_map()):
        name = reader.read_key(shaders)
        size = reader.read_bin_head()
        at = reader.at
        if at not in ranges:
            shaders[name] = stored[at] = reader.take(size)
            continue
        start, length = ranges.pop(at)
        if start not in stored or not size == length == len(stored[start]):
            raise reader.error(
                f"a repeat of {count_text(length, 'byte')} at {start}, which is no earlier shader of {size}"
            )
        shaders[name] = stored[start]
    if ranges:
        raise reader.error(f"a repeat at {min(ranges)}, where no shader is expected")
    return shaders
