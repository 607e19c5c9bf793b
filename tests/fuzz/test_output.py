"""What the commands print of hostile files, in processes of their own as a person runs them."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from forked import python

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from fuzzing.readers import HOSTILE  # noqa: E402
from fuzzing.seeds import CORPUS  # noqa: E402

#: A file of each sort. `test_fuzz.py` has all of them, with the commands in one process.
FILES = {
    "devmod": "escapes-everywhere.bin",
    "tvmimports": "escapes-in-a-kind.bin",
    "so": "names-to-the-end.bin",
}


def run(*arguments: str) -> tuple[int, str, str]:
    process = python("-m", "devmod", *arguments)
    return process.returncode, process.stdout, process.stderr


@pytest.mark.parametrize(("suffix", "name"), FILES.items())
def test_inspect_of_a_hostile_file(suffix: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / f"k.{suffix}"
    shutil.copyfile(CORPUS / f"inspect-{suffix}" / name, path)
    for option in ([], ["--json"]):
        code, out, err = run("inspect", str(path), *option)
        assert not HOSTILE.search(out + err), (out, err)
        assert "Traceback" not in err
        assert (code == 0) == (err == ""), err
        if option and not code:
            json.loads(out, parse_constant=pytest.fail)
