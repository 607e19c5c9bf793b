"""`devmod inspect` reads every golden file and every vector, good and bad: plain lines, or JSON as
RFC 8259 has it.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from each_case import check_each, some

from devmod_workbench._cli import main

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(
    path
    for folder in ("tests/golden", "core/tests/vectors")
    for path in (ROOT / folder).rglob("*")
    if path.is_file()
    and path.suffix != ".md"
    and path.name not in ("contents.json", "expectations.json")
)
GOOD = {"devmod", "tvmimports"}


def test_there_are_files() -> None:
    assert len(FILES) > 180
    assert {
        "tree.devmod",
        "not-UTF-8.tvm_meta.json",
        "matmul.cuda.tvmimports",
        "compressed.fatbin",
    } <= {path.name for path in FILES}


def test_inspect_reads_or_refuses_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    check_each(FILES, functools.partial(_check, capsys))


def _check(capsys: pytest.CaptureFixture[str], path: Path) -> None:
    code, out, err = _run(capsys, path)
    json_code, text, json_err = _run(capsys, path, "--json")
    assert (code, err) == (json_code, json_err)
    if code and path.name.startswith("damaged-"):
        assert (code, out.splitlines()[-1].partition(":")[0]) == (1, "Damaged functions")
    elif code:
        assert (out, text) == ("", "")
        assert err.startswith("devmod: error: ")
        assert "--debug" not in err  # an error of devmod's own
        assert "bad" in path.parts or path.suffix[1:] not in GOOD
        return
    assert err == ""
    data: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    assert data["bytes"] == path.stat().st_size
    assert out.startswith(f"{path}: {data['format']}, ")


def _run(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> tuple[int, str, str]:
    code = main(["inspect", *options, str(path)])
    out, err = capsys.readouterr()
    assert all(char.isprintable() or char in "\n\t" for char in some(out + err))
    return code, out, err
