"""What has no index is refused under a policy, by an error that names the line which allows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from containers import BINARY, FOLDER
from signing import policy, refusal, rule

import devmod
from devmod import FunctionInfo
from devmod.backend import create_own
from devmod.interop import tvm

pytestmark = pytest.mark.row("R46")
SOURCES = Path(__file__).parents[3]
TVM = SOURCES / "core" / "tests" / "vectors" / "tvm"
ADD = {"add": FunctionInfo("add", ["handle"] * 3 + ["int32"])}
INFO = {"f": FunctionInfo("f", ["handle"], ["blockIdx.x", "threadIdx.x"])}
CODE = b"kernel void f(global float *x) {}"


def kernel() -> devmod.Module:
    return create_own("opencl", CODE, "cl", INFO)


def load_file(suffix: str) -> devmod.Module:
    kernel().write_to_file("k.cl")
    return devmod.load_from_file("k.cl", suffix)


def load_container(data: bytes | Path) -> devmod.Module:
    from devmod_targets.interop import offload

    return offload.load(data, ADD)


#: By what the error begins with; "" is a file, whose path it begins with.
WAYS: dict[str, tuple[str, Callable[[], devmod.Module]]] = {
    "create": (
        "create('opencl', …): 'memory'",
        lambda: devmod.create("opencl", CODE, "cl", INFO),
    ),
    "create_with_fallback": (
        "create_with_fallback('opencl', …): 'memory'",
        lambda: devmod.create_with_fallback("opencl", CODE, "cl", INFO),
    ),
    "bytes": (
        "load_from_bytes('opencl', data): 'memory'",
        lambda: devmod.load_from_bytes("opencl", kernel().save_to_bytes()),
    ),
    "constants": (
        "load_from_bytes('const_loader', data): 'memory'",
        lambda: devmod.load_from_bytes("const_loader", b"\x80\x80"),
    ),
    "file": ("'{folder}/k.cl'", lambda: load_file("")),
    "file of a format": ("'{folder}/k.cl'", lambda: load_file("cl")),
    "TVM's bytes": (
        "load_module_bytes('opencl', data): 'memory'",
        lambda: tvm.load_module_bytes("opencl", tvm.dump_module_bytes(kernel())),
    ),
    "TVM's blob": (
        "the imports blob: 'memory'",
        lambda: tvm.load_imports((TVM / "vadd.opencl.tvmimports").read_bytes()),
    ),
    "TVM's library": (f"'{TVM}/vadd.opencl.so'", lambda: tvm.load_library(TVM / "vadd.opencl.so")),
    "container": ("offload.load(data, fmap): 'memory'", lambda: load_container(BINARY)),
    "file of a container": (
        f"'{FOLDER}/offloading.o'",
        lambda: load_container(FOLDER / "offloading.o"),
    ),
}
#: Those that need a runtime.
RUNTIME = {"create", "bytes", "file", "file of a format"}


@pytest.mark.parametrize("way", WAYS)
def test_the_error_names_the_line_that_allows_it(
    way: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way in RUNTIME:
        pytest.importorskip("devmod_opencl", reason="devmod-opencl is not installed")
    begin, call = WAYS[way]
    name = policy()
    monkeypatch.setenv("DEVMOD_TRUST", name)
    text = refusal(call)
    assert text == (
        f"{begin.format(folder=folder)} is refused by {name!r}: it has no index that could be "
        'signed. Save it in a .devmod file and sign that, or add the line raw = "allow" at the '
        "top of the policy"
    )
    line = text.partition("the line ")[2].partition(" at the top")[0]
    policy(line, rule())
    assert call().kind


def test_each_of_several_policies_must_allow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [policy('raw = "allow"', rule()), policy('raw = "refuse"', rule(), path="b.toml")]
    monkeypatch.setenv("DEVMOD_TRUST", ":".join(names))
    text = refusal(devmod.create, "opencl", CODE, "cl", INFO)
    assert text.startswith(f"create('opencl', …): 'memory' is refused by {names[1]!r}: ")
