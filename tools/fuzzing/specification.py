"""The reader that was written from docs/formats.md alone, compared with devmod: both must accept
the same bytes.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import devmod
from fuzzing.readers import Breach, walk
from fuzzing.seeds import ROOT


@cache
def spec_reader() -> Any:
    """Return the module tests/spec_reader.py."""
    sys.path.append(str(ROOT / "tests"))
    import spec_reader  # type: ignore[import-not-found, unused-ignore]

    return spec_reader


def use_bundle(data: bytes) -> None:
    """Read a bundle, the bytes of its modules, and everything between and behind them."""
    root = devmod.loads(data)
    for module in walk(root):
        _ = module.origin
        _ = module.source
        if module.kind not in ("bundle", "_lib"):
            saved = module.save_to_bytes()
            dict(module.functions)
            if module.kind == "const_loader":
                devmod.load_from_bytes(module.kind, saved)
    file = root._devmod_file
    assert file is not None
    file.check_rest()


def compare_bundle(data: bytes) -> None:
    """Read a bundle with all its modules in both readers."""
    second = spec_reader()
    problems = ["", ""]
    try:
        use_bundle(data)
    except devmod.FormatError as error:
        problems[0] = str(error)
    try:
        for record in second.read_bundle(data)["records"]:
            second.require("damaged" not in record, str(record.get("damaged")))
    except second.SpecError as error:
        problems[1] = str(error) or "refused"
    if "which a newer devmod reads" in problems[0] and not problems[1]:
        return  # it reads no bytes that need one
    if bool(problems[0]) != bool(problems[1]):
        mine, theirs = (each[:300] or "accepted" for each in problems)
        raise Breach(f"devmod: {mine}; the specification's reader: {theirs}")
