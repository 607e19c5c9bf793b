"""The global variables of an image, by their names in the source."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from work import assert_linear

from devmod_readers.variables import read_variables, variable_name


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("taps", "taps"),
        ("_ZN7filters7weightsE", "filters::weights"),
        ("_ZL4taps", "taps"),
        ("_ZN7filters12_GLOBAL__N_16hiddenE", "filters::hidden"),
        (
            "_ZN27_INTERNAL_00000000_4_g_cu_k7filters29_GLOBAL__N__00000000_4_g_cu_k6hiddenE",
            "filters::hidden",
        ),
        # A function, an instance of a template, and names that end early.
        ("_Z4tapsi", "_Z4tapsi"),
        ("_ZN7filters7weightsIfEE", "_ZN7filters7weightsIfEE"),
        ("_ZN7filters7weights", "_ZN7filters7weights"),
        ("_ZN7filters99weightsE", "_ZN7filters99weightsE"),
        ("_ZN1", "_ZN1"),
        ("_Z", "_Z"),
        ("", ""),
    ],
)
def test_the_name_of_a_symbol(symbol: str, name: str) -> None:
    assert variable_name(symbol) == name


def test_variables_of_ptx() -> None:
    text = b"""
.visible .const .align 4 .b8 taps[20] = {0, 0, 128, 63};
.global .align 4 .u32 _ZN7filters5countE;
\t.extern .global .f32 far;
.visible .global .attribute(.managed) .align 4 .b8 _ZN7filters6sharedE[8];
.visible .entry k() { ld.const.f32 %f1, [taps]; ld.global.u32 %r1, [%rd1]; .shared .b8 own[4]; }
"""
    assert read_variables(text) == {
        "taps": "taps",
        "filters::count": "_ZN7filters5countE",
        "far": "far",
        "filters::shared": "_ZN7filters6sharedE",
    }
    assert read_variables(b".global .attribute(%s) .b8 x;" % (b"a" * 100)) == {}


@pytest.mark.parametrize(
    "code",
    [b"", b"\x7fELF", b"\x7fELF\2\1" + bytes(58), b"\x7fELF" + b"\xff" * 300, b".global " * 5],
)
def test_a_damaged_image_has_no_variables(code: bytes) -> None:
    assert read_variables(code) == {}


@pytest.mark.once
@pytest.mark.parametrize(
    "make",
    [
        lambda count: b".global " * count,
        lambda count: b".global .u32" + b" " * count + b".global",
        lambda count: b".global .align 1" + b"1 " * count,
        lambda count: b"".join(b".global .u32 x%d;" % number for number in range(count)),
        lambda count: elf(b"\0" + b"x" * count + b"\0", count),
        lambda count: elf(b"\0" + b"x" * count, count),
    ],
    ids=["words", "blanks", "numbers", "variables", "symbols", "name without an end"],
)
def test_the_time_is_linear_in_the_size(make: Callable[[int], bytes]) -> None:
    def run(count: int) -> Callable[[], object]:
        data = make(count)
        return lambda: read_variables(data)

    assert_linear(run, 400)


def elf(names: bytes, count: int) -> bytes:
    """Return an ELF file of 64 bits with a table of symbols, all of the same name, and the
    names.
    """
    symbols = struct.pack("<IBBHQQ", 1, 17, 0, 1, 64, 8) * count
    start = 64 + 3 * 64
    header = (
        b"\x7fELF\2\1\1"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 3, 224, 1, 0, 0, 64, 0, 64, 0, 0, 64, 3, 0)
    )
    sections = bytes(64)
    for kind, at, size, link, step in (
        (3, start, len(names), 0, 0),
        (11, start + len(names), len(symbols), 1, 24),
    ):
        sections += struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, at, size, link, 0, 1, step)
    return header + sections + names + symbols


def test_variables_of_an_elf_file() -> None:
    names = b"\0_ZN7filters7weightsE\0"
    assert read_variables(elf(names, 3)) == {"filters::weights": "_ZN7filters7weightsE"}
    assert (
        read_variables(elf(b"\0k.kd\0", 1))
        == read_variables(elf(b"\0__own\0", 1))
        == read_variables(elf(b"\0" + b"x" * 5000, 1))
        == {}
    )
    for end in range(0, len(elf(names, 3)), 7):
        read_variables(elf(names, 3)[:end])
