"""What the commands print of hostile files, in processes of their own as a person runs them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from fuzzing.readers import HOSTILE  # noqa: E402
from fuzzing.seeds import CORPUS  # noqa: E402

GOLDEN = ROOT / "tests" / "golden" / "v1"
FILES = {
    "devmod": ["each-imports-the-next-twice.bin", "escapes-everywhere.bin", "bytes-and-nan.bin", "two-names-that-differ.bin"],
    "tvmimports": ["escapes-in-a-kind.bin", "chain.bin"],
    "so": ["names-to-the-end.bin"],
}


def run(*arguments: str) -> tuple[int, str, str]:
    process = subprocess.run([sys.executable, "-m", "devmod", *arguments], capture_output=True, timeout=120, check=False)
    return process.returncode, process.stdout.decode(), process.stderr.decode()


@pytest.mark.parametrize(("suffix", "name"), [(suffix, name) for suffix, names in FILES.items() for name in names])
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


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.devmod")), ids=lambda path: path.stem)
def test_the_golden_files_as_json(path: Path) -> None:
    code, out, err = run("inspect", str(path), "--json")
    assert (code, err) == (0, "")
    data = json.loads(out, parse_constant=pytest.fail)
    assert data["format"] == "devmod bundle"
    assert not HOSTILE.search(out)
