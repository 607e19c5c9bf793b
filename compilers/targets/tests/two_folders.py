"""Compile one source in two folders, in processes with different environments: the saved bytes are
the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from backend_checks import run_python

_PROGRAM = """
import hashlib, os, pathlib
import devmod
os.chdir({folder!r})
folder = pathlib.Path({folder!r})
module = devmod.compile(folder / {source!r}, {target!r}, include=[str(folder / "include")], defines={{"N": "3"}})
print(hashlib.sha256(devmod.dumps(module)).hexdigest(), sorted(module.origin.sources), module.origin.options)
"""


def origin_in_two_folders(tmp_path: Path, target: str, files: Mapping[str, str]) -> str:
    """Return the names of the sources and the options of the origin. `files` are name to text, the
    source first.

    Raises
    ------
    AssertionError
        The two modules have different bytes or origins, or one does not compile.
    """
    source, results = next(iter(files)), set()
    for name in ("one", "another place"):
        folder = tmp_path / name
        for place, text in files.items():
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_text(text)
        environment = dict.fromkeys(("HOME", "TMPDIR", "C_INCLUDE_PATH", "HIP_PATH"), str(folder))
        environment |= {"TZ": name[:3], "ROCM_PATH": name, "CPATH": str(tmp_path)}
        program = _PROGRAM.format(folder=str(folder), source=source, target=target)
        results.add(run_python(program, **environment))
    assert len(results) == 1, results
    return results.pop().strip().partition(" ")[2]
