"""The global variables of an image, by their names in the source."""

from __future__ import annotations

import pytest

from devmod_readers.variables import read_variables, variable_name


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("taps", "taps"),
        ("_ZN7filters7weightsE", "filters::weights"),
        ("_ZL4taps", "taps"),
        ("_ZN7filters12_GLOBAL__N_16hiddenE", "filters::hidden"),
        ("_ZN27_INTERNAL_00000000_4_g_cu_k7filters29_GLOBAL__N__00000000_4_g_cu_k6hiddenE", "filters::hidden"),
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
.visible .entry k() { ld.const.f32 %f1, [taps]; ld.global.u32 %r1, [%rd1]; .shared .b8 own[4]; }
"""
    assert read_variables(text) == {"taps": "taps", "filters::count": "_ZN7filters5countE", "far": "far"}


@pytest.mark.parametrize("code", [b"", b"\x7fELF", b"\x7fELF\2\1" + bytes(58), b"\x7fELF" + b"\xff" * 300, b".global " * 5])
def test_a_damaged_image_has_no_variables(code: bytes) -> None:
    assert read_variables(code) == {}
