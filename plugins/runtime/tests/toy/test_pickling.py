"""Objects that belong to one process: the error for pickling and copying them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import toy_backend as toy
from each_case import refusal

import devmod
from devmod import FunctionInfo, Interface, Param

LOAD = "pass devmod.dumps(module) or the path of a file, and load it there"
ADVICE = {
    "ToyDevice": "pass its kind and number, and call devmod.device(kind, number) there",
    "DeviceArray": "pass array.numpy()",
    "ToyStream": "create one there",
    "ToyEvent": "record one there",
    "ToyModule": LOAD,
    "FallbackModule": LOAD,
    "StoredModule": LOAD,
    "ConstLoaderModule": LOAD,
    "Function": LOAD,
    "Launch": LOAD,
}


def unpicklable() -> list[Any]:
    (device, _) = toy.DEVICES
    array = device.from_numpy(np.ones(1, "float32"))
    module = toy.module(
        {
            "f": FunctionInfo(
                "f", ["handle"], (), (), Interface([Param("x", "buffer", "float32", "rw")])
            )
        }
    )
    fallback = devmod.create_with_fallback("cuda", b"ptx", "ptx", {})
    constants = devmod.const_loader({"a": np.ones(1)}, {"init": ["a"]})
    function = module["f"]
    launch = function.bind(array, grid=1, block=1)
    stream = device.stream()
    return [
        device,
        array,
        stream,
        stream.record(),
        module,
        fallback,
        devmod.loads(devmod.dumps(fallback)),
        constants,
        function,
        launch,
    ]


@pytest.mark.row("R32")
@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.deepcopy, copy.copy])
def test_objects_of_one_process_are_not_pickled(duplicate: Any) -> None:
    with toy.fresh_devices():
        values = unpicklable()
        assert {type(value).__name__ for value in values} == set(ADVICE)
        for value in values:
            name = type(value).__name__
            assert (
                refusal(TypeError, duplicate, value)
                == f"cannot pickle or copy '{name}' object: it belongs to this process; {ADVICE[name]}"
            )
