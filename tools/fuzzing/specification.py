"""The reader that was written from docs/formats.md alone, compared with devmod: both must accept
the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import devmod
from devmod.backend import decode, tuning_of, variant_interface
from devmod_readers.programs import check_names, read_program
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


def use_module(kind: str, data: bytes) -> None:
    """Read a module's bytes."""
    spec = devmod.backend.find_spec(kind)
    if spec is None:
        devmod.load_from_bytes(kind, data)
        return
    _, functions, code = decode(spec, memoryview(data))
    for name, info in functions.items():
        use_variants(info)
        if kind == "program":
            check_names(read_program(name, info, code.get(name, b"")))  # type: ignore[union-attr]


def use_variants(info: devmod.FunctionInfo) -> None:
    """Read the variants of a tuned function, and their interfaces."""
    interface = info.interface
    if interface is None or interface.newer:
        return
    tuning = tuning_of(interface)
    if tuning is None:
        return
    for variant in tuning.variants:
        variant_interface(interface, variant)


def compare_bundle(data: bytes) -> None:
    """Read a bundle with all its modules in both readers."""
    second = spec_reader()

    def theirs() -> None:
        for record in second.read_bundle(data)["records"]:
            second.require("damaged" not in record, str(record.get("damaged")))

    _compare(lambda: use_bundle(data), theirs)


def compare_module(kind: str, data: bytes) -> None:
    """Read a module's bytes in both readers."""
    second = spec_reader()

    def theirs() -> None:
        found = second.read_module(kind, data)
        functions = found.get("functions", {})
        second.require_sound(functions)
        for info in functions.values():
            if "tune" in info.get("interface", {}):
                second.variants_of(info)
        if kind != "program":
            return
        for name, info in functions.items():
            second.read_program(name, info, found["code"].get(name, b""))

    _compare(lambda: use_module(kind, data), theirs)


def compare_metadata(data: bytes) -> None:
    """Read a metadata file in both readers."""
    _compare(
        lambda: devmod.load_metadata_from_json(data), lambda: spec_reader().read_metadata(data)
    )


def _compare(mine: Callable[[], object], theirs: Callable[[], object]) -> None:
    problems = []
    for read, refusal in ((mine, devmod.FormatError), (theirs, spec_reader().SpecError)):
        try:
            read()
            problems.append("")
        except refusal as error:
            problems.append(str(error) or "refused")
    if "which a newer devmod reads" in problems[0] and not problems[1]:
        return  # it reads no bytes that need one
    if bool(problems[0]) != bool(problems[1]):
        raise Breach(
            f"devmod: {problems[0][:300] or 'accepted'}; the specification's reader: {problems[1][:300] or 'accepted'}"
        )
