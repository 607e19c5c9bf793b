"""A public name that goes warns at the line of the code that uses it."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import old_names
import pytest

HERE = Path(__file__)
GOES = "is deprecated and will be removed in pictures 0.4. Use"


def line_of(text: str) -> int:
    """Return the number of the first line of this file that has a text."""
    for number, line in enumerate(HERE.read_text().splitlines(), 1):
        if text in line:
            return number
    raise AssertionError(text)


@pytest.mark.row("R62")
def test_the_warning_has_the_line_of_the_user_the_version_and_the_new_name() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")  # once for each line, though an import asks twice
        assert old_names.smooth() == 7  # a function
        assert old_names.blur(size=2) == 5  # a parameter
        assert old_names.RADIUS == 3  # a name of a module
        from old_names import RADIUS  # noqa: F401 - the same by another statement
    texts = [str(each.message) for each in found]
    assert texts == [
        f"old_names.smooth {GOES} old_names.blur",
        f"the parameter size of old_names.blur {GOES} radius",
        f"old_names.RADIUS {GOES} old_names.blur.radius",
        f"old_names.RADIUS {GOES} old_names.blur.radius",
    ]
    assert {each.filename for each in found} == {str(HERE)}
    assert [each.lineno for each in found[:3]] == [
        line_of("  # a function"),
        line_of("  # a parameter"),
        line_of("  # a name of a module"),
    ]
    assert found[3].lineno == line_of("  # noqa: F401 - the same")


@pytest.mark.row("R62")
def test_the_new_name_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert old_names.blur(2) == 5


@pytest.mark.row("R62")
def test_a_program_shows_the_warning_once_for_each_of_its_lines(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import old_names\n\nfor _ in range(3):\n    old_names.smooth()\nold_names.smooth()\n"
        "from old_names import RADIUS\n"
    )
    done = subprocess.run(
        [sys.executable, program],
        env={"PYTHONPATH": str(HERE.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in done.stderr.splitlines() if "DeprecationWarning" in line]
    text = f"DeprecationWarning: old_names.smooth {GOES} old_names.blur"
    last = f"DeprecationWarning: old_names.RADIUS {GOES} old_names.blur.radius"
    assert lines == [f"{program}:4: {text}", f"{program}:5: {text}", f"{program}:6: {last}"]


@pytest.mark.row("R62")
def test_a_program_of_one_package_has_the_line_that_calls_the_old_name(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from devmod.backend import warn_deprecated\n\n"
        "def old():\n"
        "    warn_deprecated('old', new='new', removed_in='program 2')\n\n"
        "old()\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    text = "DeprecationWarning: old is deprecated and will be removed in program 2. Use new"
    assert f"{program}:6: {text}\n" in done.stderr
