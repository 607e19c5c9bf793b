"""The use of newer and of damaged functions, and of the others of their modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgpack
import numpy as np
import pytest
import toy_backend as toy
from each_case import refusal

import devmod
from devmod import FunctionInfo, Interface, Param
from devmod_runtime import GlobalsModule

pytestmark = pytest.mark.row("R41", "R50")

UPGRADE = "pip install --upgrade devmod-core devmod-runtime"
NEEDS = f"needs 'later', which a newer devmod reads: {UPGRADE}"
INTERFACE = Interface([Param("x", "buffer", "float32", "rw")])
GOOD = INTERFACE.to_dict()
DAMAGED = {"params": [{"name": "x", "kind": "tensor"}]}
NEWER = {**DAMAGED, "needs": ["later"]}


@pytest.fixture(autouse=True)
def devices() -> Iterator[list[toy.ToyDevice]]:
    with toy.fresh_devices() as made:
        yield made


def module(**interfaces: dict[str, Any]) -> toy.ToyModule:
    """Return a module from bytes. Its functions add one to each element."""

    def add(launch: object, memory: bytearray) -> None:
        toy.floats(memory)[:] += 1

    functions = {
        name: [name, [[3, 64, 1]], ["blockIdx.x", "threadIdx.x"], [], fields]
        for name, fields in interfaces.items()
    }
    made = toy.ToyModule.from_wire(
        toy.SPEC, b"".join(map(msgpack.packb, ["toy", functions, b"toy source"]))
    )
    made.runs = dict.fromkeys(functions, add)
    return made


def result(made: devmod.Module, name: str) -> float:
    """Return what a function adds to zero."""
    array: Any = np.zeros(1, "float32")
    made[name](array, grid=1, block=1)
    return float(array[0])


def test_a_newer_function_is_refused_and_the_others_run() -> None:
    made = module(f=NEWER, g=GOOD)
    for use in (made.get_function, made._unopened):
        error = refusal(devmod.FormatError, use, "f")
        assert error == f"the toy function 'f' {NEEDS}"
    assert result(made, "g") == 1
    assert "f" in made


def test_a_damaged_function_is_refused_and_the_others_run() -> None:
    made = module(f=DAMAGED, g=GOOD)
    assert "fmap of 'f', interface: the parameter 'x' has the kind 'tensor'" in refusal(
        devmod.FormatError, made.get_function, "f"
    )
    assert result(made, "g") == 1


def test_a_function_with_an_unknown_need_runs_where_the_device_reports_it(
    devices: list[toy.ToyDevice],
) -> None:
    needs = {**GOOD, "needs": ["fp16", "later"]}
    for features in (None, frozenset({"fp16"})):
        devices[0].features = features
        assert refusal(devmod.DeviceNotFoundError, module(f=needs).get_function, "f") == (
            "the toy function 'f' needs 'later', which neither this devmod nor toy device 0 (toy number 0) has: "
            + UPGRADE
        )
    devices[0].features = frozenset({"later"})
    assert refusal(devmod.DeviceNotFoundError, module(f=needs).get_function, "f") == (
        "the toy function 'f' needs fp16, which toy device 0 (toy number 0) does not have"
    )
    devices[0].features = frozenset({"fp16", "later"})
    assert result(module(f=needs), "f") == 1


@pytest.mark.parametrize("interface", [NEWER, {**GOOD, "needs": ["later"]}])
def test_a_bundle_takes_another_candidate(
    devices: list[toy.ToyDevice], interface: dict[str, Any], capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("DEVMOD_LOG", "debug")
    devices[0].features = frozenset()
    bundle = devmod.bundle(module(f=interface), module(f=GOOD), mixed=True)
    assert result(bundle, "f") == 1
    err = capsys.readouterr().err
    assert "skipped toy/toy (" in err
    assert "needs 'later', which " in err


def test_a_newer_variant_is_no_variant() -> None:
    """Of a tuned function, whose variants may have interfaces of their own."""
    newer, good = {"values": [1], "interface": NEWER}, {"values": [2]}
    for variants in ([newer, good], [good, newer]):
        function = tuned({"constants": ["B"], "variants": variants})
        assert [dict(each) for each in function.variants] == [{"B": 2}]
        assert str(function) == "<Function toy f(x)>"


def tuned(tune: dict[str, Any]) -> Any:
    """Return a tuned function."""
    interface = INTERFACE.replace(needs=["tuned"], extra={"tune": tune})
    about = FunctionInfo("f", ["handle"], ["blockIdx.x", "threadIdx.x"], (), interface)
    return toy.module({"f": about})["f"]


def test_globals_have_the_types_of_the_functions_that_can_be_read(
    devices: list[toy.ToyDevice],
) -> None:
    class Globals(toy.ToyModule, GlobalsModule):
        def find_global(self, name: str, device: Any) -> tuple[Any, int, object]:
            return bytearray(8), 8, None

    fields = {**GOOD, "globals": {"w": ["float32", 2]}}
    data = module(f=DAMAGED, g=fields, h=NEWER).save_to_bytes()
    made = Globals.from_wire(toy.SPEC, data)
    array: Any = made.get_global("w", devices[0])
    assert (array.shape, array.dtype) == ((2,), "float32")
