"""The record of the options of `devmod.compile`, and what comes from it."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from test_manifest_schema import FULL

import devmod
from devmod_targets._arguments import Arguments
from devmod_targets.build import read
from devmod_targets.build.document import Document
from devmod_targets.build.options import OPTIONS, CompileOptions, key_of
from devmod_targets.build.plan import Job

KERNEL = "kernel void k(global float *x) { x[0] = 1; }\n"
#: A field of the record, the parameter of `devmod.compile`, and that it is passed on.
PLANTS = {
    "devmod_targets.build.options": [
        (
            "\n\n#: The options by name.",
            '    tile: int = field(default=0, metadata=Option("The tile.", "A tile.", ("--tile",), type=int, multiple=False, schema={"type": "integer"},'
            ' read=lambda table, key: table.typed(key, int, "a tile") or 0, per_kind=True).as_metadata())\n',
        )
    ],
    "devmod._modules.compile": [
        (') -> Module:\n    """Compile a source for a target.', "    tile: int | None = None,\n"),
        ("        )\n        return module\n\n\ndef build(", "            tile=tile,\n"),
    ],
}
#: Run with `PLANTS` in the first argument. It prints where the option arrives.
SCRIPT = """
import json, sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

plants = json.loads(sys.argv[1])
get_code = SourceFileLoader.get_code

def planted_code(self, name):
    if name not in plants:
        return get_code(self, name)
    source = self.get_source(name)
    for place, text in plants[name]:
        assert source.count(place) == 1, place
        source = source.replace(place, text + place)
    return compile(source, self.path, "exec")

SourceFileLoader.get_code = planted_code

import devmod
from devmod_targets._cli.compile import command
from devmod_targets.build import ManifestError, plan_of, read_manifest
from devmod_targets.build.cache import job_key
from devmod_targets.build.closure import SourceTree, closure_of
from devmod_targets.build.jobs import attempt
from devmod_targets.build.skeleton import schema_text
from devmod_targets.opencl import compile as compiler

tiles = []
compile_text = compiler.compile

def noting_compile(request):
    tiles.append(request.others["tile"])
    return compile_text(request)

compiler.compile = noting_compile
devmod.compile(Path("k.cl"), "opencl", tile=2)
command(["k.cl", "-t", "opencl", "--tile", "4", "-q"], standalone_mode=False)
manifest = 'targets = ["opencl"]\\ntile = 8\\n[kernels.k]\\nsources = ["k.cl"]\\n'
jobs = []
for text in (manifest, manifest + "tile = 16\\n", manifest + 'tile = "x"\\n'):
    Path("devmod.toml").write_text(text)
    try:
        jobs += plan_of(read_manifest()).jobs
    except ManifestError as error:
        problem = str(error)
for job in jobs:
    assert not attempt(job).error
closure = closure_of("k.cl", (), SourceTree())
tables = json.loads(schema_text())["$defs"]
print(json.dumps({
    "compilers": tiles,
    "jobs": [job.tile for job in jobs],
    "keys": len({job_key(job, closure, "toolchain") for job in jobs}),
    "problem": problem,
    "schema": [tables[name]["properties"]["tile"] for name in ("common", "kernel")],
}))
"""


def test_the_parameters_of_compile_are_the_options() -> None:
    parameters = inspect.signature(devmod.compile).parameters
    options = {
        name: parameter
        for name, parameter in parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    assert list(parameters) == ["source", "target", *options]
    assert {name: parameter.default for name, parameter in options.items()} == {
        each.name: OPTIONS[each.name].argument(each.default) for each in fields(CompileOptions)
    }
    given = Arguments()
    for name, parameter in options.items():
        assert getattr(given, name) == parameter.default


@pytest.mark.parametrize("name", OPTIONS)
def test_the_values_of_a_manifest_have_the_types_of_the_parameters(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read.Checks, "run", lambda self: None)
    (kernel,) = read.manifest_of(Document("devmod.toml", "", FULL)).kernels
    value = getattr(kernel.section, name)
    assert value, f"the kernel of FULL has the key {key_of(name)}"
    argument = Job("k", "/p", "k.cl", "opencl", **{name: value}).arguments()[name]
    names = {
        "Any": Any,
        "Define": str | int | float | bool | None,
        "Dims": int | str | Sequence[int | str],
        "FunctionInfo": devmod.FunctionInfo,
        "Iterable": Iterable,
        "Local": devmod.Local,
        "Mapping": Mapping,
        "Module": devmod.Module,
        "Path": str | os.PathLike[str],
        "Sequence": Sequence,
        "Values": Sequence[bool | int | float | str],
    }
    assert fits(argument, get_type_hints(devmod.compile, localns=names)[name])


def fits(value: object, hint: Any) -> bool:
    """Return whether a value has a type: a class, a union, an iterable or a map."""
    origin = get_origin(hint)
    arguments = get_args(hint)
    if origin is None:
        return isinstance(value, hint)
    if origin in (Union, UnionType):  # one class since Python 3.14
        return any(fits(value, each) for each in arguments)
    if not isinstance(value, origin):
        return False
    if isinstance(value, Mapping):
        return all(fits(each, arguments[-1]) for each in value.values())
    return not isinstance(value, Iterable) or all(fits(each, arguments[0]) for each in value)


def test_a_new_option_is_one_field(tmp_path: Path) -> None:
    """It reaches the compiler from a call, from the command line and from a manifest."""
    (tmp_path / "k.cl").write_text(KERNEL)
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(PLANTS)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == {
        "compilers": [2, 4, 8, 16],
        "jobs": [8, 16],
        "keys": 2,
        "problem": "devmod.toml:5: kernels.k.tile: expected a tile, got the string 'x'",
        "schema": [{"type": "integer", "description": "A tile."}] * 2,
    }
