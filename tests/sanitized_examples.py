"""What the checks of the simulated GPU find in the kernels of a folder of examples: a JSON map of
the case of the demo to the reports and the error of its result, on standard output.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import devmod
from devmod.errors import CompileError
from devmod_simulators import SanitizeError, sanitize
from devmod_targets.simulated import compile_for_checks

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples" / "demo"))
from cases import ONE_SOURCE_CASES, SMALL_ONE_SOURCE_CASES  # noqa: E402 - it is the demo's

#: A size that a source cannot contain.
LOCAL = {"reduction.cl": {"scratch": devmod.Local(per_thread=4)}}


def functions_of(folder: Path, target: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the functions of the sources of a folder, on the simulated GPU, and why others cannot
    be checked, by their files.
    """
    functions = {}
    refused = {}
    for path in sorted(folder.iterdir()):
        try:
            with sanitize():
                module = compile_for_checks(path, target)
        except CompileError as error:
            refused[path.name] = str(error)
            continue
        for name in module.functions:
            function = module[name].on(devmod.device("cuda"))
            functions[name] = partial(function, **LOCAL.get(path.name, {}))
    return functions, refused


def main(folder: str, target: str) -> None:
    """Print what is found in each case whose functions are in the folder."""
    with sanitize():
        pass
    functions, refused = functions_of(ROOT / "examples" / folder, target)
    found: dict[str, Any] = {}
    for title, run in SMALL_ONE_SOURCE_CASES.items():
        if not set(ONE_SOURCE_CASES[title][1]) <= set(functions):
            continue
        reports = []
        error = None
        try:
            with sanitize():
                result = run(functions, devmod.device("cuda"), ROOT)
                error = [float(result.error), result.tolerance]
        except SanitizeError as caught:
            reports = [each["text"] for each in caught.reports]
        found[title] = {"reports": reports, "error": error}
    print(json.dumps({"found": found, "refused": refused}))


if __name__ == "__main__":
    main(*sys.argv[1:])
