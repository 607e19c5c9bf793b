"""Reports of naga as messages, with the places of the user's files."""

from __future__ import annotations

import pytest

from devmod_wgsl import naga_message

pytestmark = pytest.mark.once  # texts alone

TEXT = "fn f() {\n  let a = b;\n}\n"
#: naga's own command prints the headline first, wgpu some lines before it.
FRAME = """error: no definition in scope for identifier: `b`
{between}  ┌─ wgsl:2:11
  │
2 │   let a = b;
  │           ^ unknown identifier
  │
  = note: it is not declared
"""


@pytest.mark.parametrize("between", ["", "\n", "   \n\n"])
def test_a_report_with_a_place(between: str) -> None:
    """A blank line before the place does not hide the headline."""
    assert naga_message(FRAME.format(between=between), "k.wgsl", TEXT) == (
        "k.wgsl:2:11: no definition in scope for identifier: `b`: it is not declared\n"
        "     let a = b;\n"
        "             ^ unknown identifier"
    )


def test_the_line_before_the_place_is_the_headline() -> None:
    report = "In wgpuDeviceCreateShaderModule\n" + FRAME.format(between="")
    assert naga_message(report, "k.wgsl", TEXT).startswith("k.wgsl:2:11: no definition in scope")


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ("error: first\n  second  \nthird\nfourth\n", "first: second: third"),
        ("\nCaused by:\n  In wgpuX\nShader validation error: wrong\n", "wrong"),
        ("Shader 'k' parsing error: bad\n", "bad"),
        ("Validation Error\n\n", "naga reports no reason"),
    ],
)
def test_a_report_without_a_place(report: str, message: str) -> None:
    assert naga_message(report, "k.wgsl", TEXT) == f"k.wgsl: {message}"
