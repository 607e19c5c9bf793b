"""Bundles with several devices of a kind: `DEVMOD_DEVICE`, and `Function.on` of a bundle's
function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import toy_backend as toy
from each_case import raised, refusal

import devmod
from devmod import FunctionInfo, Interface, Param
from devmod.backend import Capabilities

Register = Callable[..., None]
INFO = FunctionInfo("f", ["handle"], (), (), Interface([Param("y", "buffer", "float32", "rw")]))


class OtherDevice(toy.ToyDevice):
    kind = "other"


class OtherLauncher(toy.ToyLauncher):
    kind = "other"

    def default_device(self) -> devmod.Device:
        return devmod.device("other", 0)


@pytest.fixture
def devices(register: Register) -> Iterator[list[toy.ToyDevice]]:
    """Two toy devices of the architectures 1 and 2, and one device of kind other."""
    other = OtherDevice(0)
    with toy.fresh_devices() as found:
        for number, device in enumerate(found, 1):
            device.arch = str(number)
        for kind, devices in (("toy", lambda: toy.DEVICES), ("other", lambda: [other])):
            register("devmod.targets", kind, spec(kind))
            register("devmod.device", kind, devices)
        yield found


def spec(kind: str) -> devmod.TargetSpec:
    return devmod.TargetSpec(
        kind,
        title=kind,
        distribution=f"devmod-{kind}",
        formats=("toy",),
        architecture=lambda fmt, code: bytes(code).decode(),
        rank=(lambda variant, arch: 1 if variant == arch else None) if kind == "toy" else None,
    )


def module(variant: str, kind: str = "toy") -> toy.ToyModule:
    """Return a module for one architecture. Its function `f` adds the architecture's number to each
    element.
    """

    def add(launch: object, memory: bytearray) -> None:
        toy.floats(memory)[:] += float(variant)

    made = toy.ToyModule(spec(kind), "toy", {"f": INFO}, variant.encode())
    made.runs = {"f": add}
    made.launcher_type = OtherLauncher if kind == "other" else toy.ToyLauncher
    return made


def result(function: Any, device: devmod.Device | None = None) -> float:
    """Return the number that the function adds: to a host array, or to an array on a device."""
    array: Any = np.zeros(1, "float32")
    if device is not None:
        array = device.from_numpy(array)
    function(array, grid=1, block=1)
    return float(array[0] if device is None else array.numpy()[0])


def test_on_chooses_the_best_candidate_for_the_device(devices: list[toy.ToyDevice]) -> None:
    first, second = module("1"), module("2")
    f = devmod.bundle(first, second, module("3", "other"))["f"]
    assert result(f) == result(f, devices[0]) == 1
    assert [result(f.on(device), device) for device in devices] == [1, 2]
    assert result(f.on(devices[1])) == 2
    assert result(f.on(devices[1]).on(devices[0])) == 1
    assert result(f.on(devmod.device("other"))) == 3
    assert (first.built, second.built) == ([("f", 0)], [("f", 1)])


def test_a_function_that_fits_the_second_device_alone_runs_there(
    devices: list[toy.ToyDevice],
) -> None:
    only = module("2")
    f = devmod.bundle(only)["f"]
    assert result(f) == 2
    assert (only.built, devices[0].allocated) == ([("f", 1)], [])
    assert refusal(devmod.ArgumentError, result, f, devices[0]).startswith(
        "the toy function 'f': argument 1 'y' is on toy device 0 (toy number 0), and the function is on toy "
    )


@pytest.mark.row("R40")
def test_a_function_lists_the_devices_on_which_it_runs(devices: list[toy.ToyDevice]) -> None:
    first, second, third = module("1"), module("2"), module("4")
    other = module("3", "other")
    for candidates, found in (
        ((first, second, other), [devmod.device("other"), *devices]),
        ((second, third), [devices[1]]),
        ((first, other), [devmod.device("other"), devices[0]]),
    ):
        f = devmod.bundle(*candidates)["f"]
        built = [[*each.built] for each in candidates]
        assert f.devices() == found
        assert [each.built for each in candidates] == built
        assert [f.on(device).devices() for device in found] == [found] * len(found)
    assert module("2")["f"].devices() == [devices[1]]
    assert module("4", "other")["f"].devices() == [devmod.device("other")]


@pytest.mark.row("R40")
def test_the_listed_devices_have_what_the_function_needs(devices: list[toy.ToyDevice]) -> None:
    devices[0].features, devices[1].features = frozenset(), frozenset({"fp16"})
    for variant, found in (("1", []), ("2", [devices[1]])):
        made = needing("fp16", variant)
        assert made.functions["f"].interface is not None
        f = devmod.bundle(made, module("3", "other"))["f"]
        assert f.devices() == [devmod.device("other"), *found]


def test_the_listed_devices_are_of_installed_kinds(
    devices: list[toy.ToyDevice], register: Register
) -> None:
    def no_driver() -> list[devmod.Device]:
        raise devmod.DeviceNotFoundError("there is no driver", kind="third")

    register("devmod.targets", "third", spec("third"))
    register("devmod.device", "third", no_driver)
    register("devmod.targets", "elsewhere", spec("elsewhere"))
    elsewhere = devmod.create_with_fallback("elsewhere", b"1", "toy", {"f": INFO})
    bundle = devmod.bundle(module("1", "third"), elsewhere, module("2"))
    assert bundle["f"].devices() == [devices[1]]


def test_a_function_for_one_device_is_not_built_for_another(devices: list[toy.ToyDevice]) -> None:
    only = module("2")
    assert result(devmod.bundle(only)["f"].on(devices[1])) == 2
    assert only.built == [("f", 1)]


def test_the_errors_of_a_device_that_no_candidate_fits(devices: list[toy.ToyDevice]) -> None:
    bundle = devmod.bundle(module("2"), module("3", "other"))
    assert (
        refusal(devmod.DeviceNotFoundError, bundle["f"].on, devices[0])
        == "no candidate of the bundle can run 'f' here:\n  1. toy/toy for 2: no toy device fits 2; there is: 1"
    )
    error = raised(
        devmod.ArgumentError,
        lambda: devmod.bundle(module("2"), module("2"))["f"].on(devmod.device("other")),
    )
    assert (
        str(error)
        == "the function 'f' of the bundle cannot run on other device 0 (toy number 0): its candidates are of kind toy"
    )
    assert (error.function, error.argument) == ("f", "device")


def test_devmod_device_chooses_the_default_device(
    devices: list[toy.ToyDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, alone = devmod.bundle(module("1"), module("2")), module("7")
    assert result(bundle["f"]) == 1
    monkeypatch.setenv("DEVMOD_DEVICE", "other:0, toy:1")
    assert devmod.device("toy") is devices[1]
    assert devmod.device("toy", 0) is devmod.device("toy:0") is devices[0]
    assert result(bundle["f"]) == 2
    before = list(devices[0].allocated)
    assert result(alone["f"]) == 7
    assert (devices[0].allocated, alone.built) == (before, [("f", 1)])
    assert result(alone["f"].on(devices[0])) == 7
    assert alone.built == [("f", 1), ("f", 0)]


@pytest.mark.row("R33")
def test_a_function_of_a_bundle_follows_devmod_device(
    devices: list[toy.ToyDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    devices[1].arch = devices[0].arch
    only = module("1")
    f = devmod.bundle(only)["f"]
    for number in (0, 1):
        monkeypatch.setenv("DEVMOD_DEVICE", f"toy:{number}")
        assert result(f) == 1
    assert only.built == [("f", 0), ("f", 1)]


def test_a_bundle_uses_no_other_device_of_the_kind_than_devmod_device(
    devices: list[toy.ToyDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_DEVICE", "toy:1")
    assert result(devmod.bundle(module("1"), module("3", "other"))["f"]) == 3
    monkeypatch.setenv("DEVMOD_DEVICE", "toy:2")
    text = refusal(devmod.DeviceNotFoundError, devmod.bundle(module("1")).get_function, "f")
    missing = "the environment variable DEVMOD_DEVICE is 'toy:2', and there is no toy device 2; there are: 0 toy number 0; 1 toy number 1"
    assert text == f"no candidate of the bundle can run 'f' here:\n  1. toy/toy for 1: {missing}"
    for call in (lambda: devmod.device("toy"), lambda: module("1")["f"]):
        assert refusal(devmod.DeviceNotFoundError, call) == missing


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("toy", "expected items such as opencl:1, separated by commas, got 'toy'"),
        ("toy:1,toy:-1", "expected items such as opencl:1, separated by commas, got 'toy:-1'"),
        ("Toy:1", "expected items such as opencl:1, separated by commas, got 'Toy:1'"),
        ("toy:0,toy:1", "it has two devices of kind 'toy': toy:0 and toy:1"),
        ("toi:1", "unknown kind 'toi'. Did you mean 'toy'?"),
        ("opncl:0", "unknown kind 'opncl'. Did you mean 'opencl'?"),
    ],
)
def test_the_error_for_an_invalid_devmod_device(
    value: str, problem: str, devices: list[toy.ToyDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    functions = [devmod.bundle(module("1")), module("1")]
    f = module("1")["f"]
    monkeypatch.setenv("DEVMOD_DEVICE", value)
    calls: list[Callable[[], Any]] = [
        lambda: devmod.device("toy"),
        lambda: result(f),
        *((lambda m=m: m["f"]) for m in functions),
    ]  # type: ignore[misc]
    for call in calls:
        assert (
            refusal(devmod.FormatError, call)
            == f"the environment variable DEVMOD_DEVICE is {value!r}: {problem}"
        )
    assert devmod.device("toy", 1) is devices[1]
    assert result(f, devices[1]) == 1


def needing(needs: str, variant: str = "1") -> toy.ToyModule:
    """Return a module whose function needs something of the device."""
    made = module(variant)
    info = FunctionInfo(
        "f",
        ["handle"],
        (),
        (),
        Interface([Param("y", "buffer", "float32", "rw")], needs=needs.split(" ")),
    )
    other = toy.ToyModule(spec("toy"), "toy", {"f": info}, variant.encode())
    other.runs, other.launcher_type = made.runs, made.launcher_type
    return other


@pytest.mark.row("R40")
def test_a_candidate_whose_needs_the_device_lacks_is_skipped(
    devices: list[toy.ToyDevice], capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("DEVMOD_LOG", "debug")
    with_half, plain = needing("fp16 subgroups"), module("1")
    bundle = devmod.bundle(with_half, plain)
    devices[0].features = frozenset({"fp16"})
    array = devices[0].zeros(4, "float32")
    bundle["f"](array, grid=1, block=1)
    assert (with_half.built, plain.built) == ([], [("f", 0)])
    assert (
        "skipped toy/toy for 1 (needs subgroups, which toy device 0 (toy number 0) does not have)"
        in capsys.readouterr().err
    )
    devices[0].features = frozenset({"fp16", "subgroups"})
    devmod.bundle(with_half, plain)["f"](array, grid=1, block=1)
    assert with_half.built == [("f", 0)]


@pytest.mark.row("R40")
def test_the_error_of_a_bundle_names_the_needs_that_no_device_has(
    devices: list[toy.ToyDevice],
) -> None:
    for device in devices:
        device.features = frozenset()
    assert refusal(
        devmod.DeviceNotFoundError,
        devmod.bundle(needing("fp16"), needing("fp64", "2")).get_function,
        "f",
    ) == (
        "no candidate of the bundle can run 'f' here:\n"
        "  1. toy/toy for 1: needs fp16, which toy device 0 (toy number 0) does not have\n"
        "  2. toy/toy for 2: needs fp64, which toy device 1 (toy number 1) does not have"
    )


def test_the_name_of_a_need_adds_no_line_to_an_error(devices: list[toy.ToyDevice]) -> None:
    devices[0].features = frozenset()
    assert (
        refusal(devmod.DeviceNotFoundError, needing("a\nb").get_function, "f")
        == "the toy function 'f' needs 'a\\nb', which neither this devmod nor toy device 0 (toy number 0) has: "
        "pip install --upgrade devmod-core devmod-runtime"
    )


# -- limits


def requiring(*block: int, variant: str = "1") -> toy.ToyModule:
    """Return a module whose function requires a block."""
    made = module(variant)
    info = FunctionInfo(
        "f",
        ["handle"],
        (),
        (),
        Interface([Param("y", "buffer", "float32", "rw")], (), (*block, 1, 1)[:3]),
    )
    other = toy.ToyModule(spec("toy"), "toy", {"f": info}, variant.encode())
    other.runs, other.launcher_type = made.runs, made.launcher_type
    return other


@pytest.mark.row("R40")
def test_a_candidate_beyond_a_limit_is_skipped_and_explained(
    devices: list[toy.ToyDevice], monkeypatch: Any
) -> None:
    names = {"block_x": "max_block", "block_y": "unreported", "block": "max_block"}
    monkeypatch.setattr(
        toy.ToyDevice, "capabilities", property(lambda device: Capabilities(device, names))
    )
    wide, flat, plain = requiring(65), requiring(8, 9), module("1")
    bundle = devmod.bundle(wide, flat, plain)
    best, *others = devmod.explain(bundle, "f").functions["f"]
    assert (best.outcome, best.name) == ("best", "toy/toy for 1")
    reasons = [
        f"cannot run on {devices[0]}: its max_block is 64, but the kernel is built for blocks of 65 threads in x",
        f"cannot run on {devices[0]}: its max_block is 64, but the kernel is built for blocks of 72 threads",
    ]
    assert [(each.outcome, each.reason, each.text) for each in others] == [
        ("refused", "no device", each) for each in reasons
    ]
    bundle["f"](devices[0].zeros(4, "float32"), grid=1, block=1)
    assert (wide.built, flat.built, plain.built) == ([], [], [("f", 0)])
    for made, reason in zip((wide, flat), reasons, strict=True):
        assert (
            refusal(devmod.DeviceNotFoundError, made.get_function, "f")
            == f"the toy function 'f' {reason}"
        )
    assert requiring(64)["f"].block == (64, 1, 1)


def test_a_backend_has_reasons_of_its_own(devices: list[toy.ToyDevice], monkeypatch: Any) -> None:
    problem = "cannot be built: it has no compiler"
    monkeypatch.setattr(
        toy.ToyDevice,
        "capabilities",
        property(lambda device: Capabilities(device, problem=problem)),
    )
    plain = FunctionInfo("f", ["handle"])  # a function without an interface is asked about too
    for info in (INFO, plain):
        made = toy.ToyModule(spec("toy"), "toy", {"f": info}, b"1")
        assert (
            refusal(devmod.DeviceNotFoundError, made.get_function, "f")
            == "the toy function 'f' cannot be built: it has no compiler"
        )
        assert devmod.explain(devmod.bundle(made), "f").best("f") is None
