"""The key ``tune`` of an interface: `devmod.backend.tuning_of`."""

from __future__ import annotations

import pickle

import pytest
import tuned_maps
from each_case import check_errors, error_of
from tuned_maps import PARAMS, TUNE, info, interface

import devmod
from devmod import Interface
from devmod._values.tuning import lacking, variants_on
from devmod.backend import Capabilities, fits, requirements, tuning_of, variant_interface


def test_a_tuned_function_has_variants() -> None:
    tuning = tuning_of(interface())
    assert (tuning.constants, tuning.sizes) == (("BLOCK", "MODE"), ("n", "m"))
    found = []
    for each in tuning.variants:
        found.append((each.constants, each.grid_of({"n": 65, "m": 5}), each.block_of()))
    assert found == [
        ({"BLOCK": 64, "MODE": "fast"}, (2,), (64,)),
        ({"BLOCK": 128, "MODE": True}, (65, 1, 5), (64, 2)),
        ({"BLOCK": 32, "MODE": 0.5}, (3,), (32,)),
    ]
    plain = Interface(PARAMS, extra={"other": 2}, needs=["fp16"])
    assert variant_interface(interface(), tuning.variants[0]) == plain
    assert variant_interface(interface(), tuning.variants[2]) == Interface(PARAMS, block=(32, 2, 1))
    assert tuning_of(None) is tuning_of(plain) is None
    read = interface()
    assert tuning_of(read) is tuning_of(read), "an interface keeps what is read"
    assert read == pickle.loads(pickle.dumps(read)) == interface()


def test_a_valid_map_survives_a_file_unchanged() -> None:
    assert tuned_maps.first_variant(**tuned_maps.CALL_DECIDES) == {
        "constants": {},
        "grid": None,
        "block": None,
    }
    for changes in tuned_maps.VALID:
        assert tuned_maps.first_variant(**changes)
        tuned = info(**changes)
        module = devmod.create_with_fallback("webgpu", {"f": b"f"}, "wgsl", {"f": tuned})
        assert devmod.loads(devmod.dumps(module)).functions["f"] == tuned
    again = info().interface
    assert again.extra["tune"] == TUNE


def test_a_device_has_not_to_be_tuned() -> None:
    class Device:
        features = frozenset({"fp16"})
        subgroup_sizes = ()

    assert fits(requirements(interface()), Capabilities(Device())) == ""


@pytest.mark.parametrize("group", ["INVALID", "ALSO_INVALID", "INVALID_INTERFACES"])
def test_an_invalid_map_is_an_error(group: str) -> None:
    check_errors(getattr(tuned_maps, group), lambda changes: tuned_maps.first_variant(**changes))


def test_a_key_that_is_no_map_is_an_error() -> None:
    error = error_of(tuning_of, Interface(PARAMS, extra={"tune": 3}))
    assert str(error) == "the key tune is a map with string keys, not int"


def test_the_first_variant_that_does_not_fit_has_the_reason() -> None:
    class Device:
        features = frozenset({"fp16"})
        subgroup_sizes = ()
        limits = {"max block": 96}

        def __str__(self) -> str:
            return "npu device 0"

    capabilities = Capabilities(Device(), {"block": "max block"})
    start = "cannot run on npu device 0: its max block is "
    verdicts = [problem for *_, problem in variants_on(interface(), "", capabilities)]
    assert [each.startswith(f"{start}96, but ") for each in verdicts] == [False, True, False]
    assert lacking(interface(), "", capabilities) == ""
    Device.limits = {"max block": 31}
    verdicts = [problem for *_, problem in variants_on(interface(), "", capabilities)]
    assert [each.startswith(f"{start}31, but ") for each in verdicts] == [True, True, True]
    assert lacking(interface(), "", capabilities) == verdicts[0] != verdicts[1]
    # The first use raises the error of an invalid map.
    assert lacking(Interface(PARAMS, extra={"tune": 3}), "", capabilities) == ""
