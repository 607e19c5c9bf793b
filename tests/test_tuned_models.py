"""Models whose kernels have variants: tinygrad's optimizations, measured on the devices here. No
test depends on which is the fastest.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from each_case import error_of

import devmod
from devmod import TuningRecord
from devmod.interop import tinygrad as interop

pytest.importorskip("tinygrad", reason="tinygrad is not installed")
RANDOM = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let each kernel get variants, also those that are no faster. Few are measured."""
    from devmod_models._tinygrad import tuning
    from devmod_models._tinygrad.candidates import Candidates

    first_device("opencl")
    monkeypatch.setattr(tuning, "_LEAST_SHARE", 0.0)
    monkeypatch.setattr(tuning, "_MOST_TIME", 1e9)
    monkeypatch.setattr(tuning, "_ROOM", 9)
    monkeypatch.setattr(interop, "_MANY", 1000)  # another process imports tinygrad first
    monkeypatch.setattr(Candidates, "neighbours", lambda *_: ())
    with interop.cpu():
        yield


def array(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def product() -> Any:
    """Return a function with a product by a matrix, which has no kernel that is written by hand."""
    from tinygrad import Tensor

    weight = Tensor(array(48, 64)).realize()
    return lambda x: (x @ weight).sin()


def export(function: Any, *values: Any, **keywords: Any) -> Any:
    from tinygrad import Tensor

    keywords = {"targets": "opencl", "tune": values, **keywords}
    examples = [Tensor.empty(*each.shape) for each in values]
    return interop.export(function, *examples, name="f", **keywords)


def only(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let a kernel get the candidates whose text has `text` alone."""
    from devmod_models._tinygrad.candidates import Candidates

    own = Candidates.first
    monkeypatch.setattr(
        Candidates, "first", lambda self: [each for each in own(self) if text in self.text(each)]
    )


def same_results(module: Any, *values: Any) -> None:
    """Compare the results on all devices with records and without."""
    results = []
    for device in devmod.devices("opencl"):
        for value in ("off", "on"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("DEVMOD_TUNE", value)
                results.append(devmod.loads(devmod.dumps(module))["f"].on(device)(*values))
    for each in results:
        np.testing.assert_allclose(each, results[0], rtol=0, atol=1e-4 * abs(results[0]).max())


def times(module: Any) -> dict[str, float | None]:
    """Return the seconds of all variants by their optimizations, of the last device."""
    measured = module.tuning_records[-1].measured
    return {values[0]: seconds for (_, values), seconds in measured.items()}


@pytest.mark.row("R52")
def test_kernels_have_variants_with_their_own_blocks() -> None:
    x = array(16, 48)
    module = export(product(), x)
    records = module.tuning_records
    assert {each.device for each in records} == {each.name for each in devmod.devices("opencl")}
    kernel = devmod.loads(devmod.dumps(module))["f_opencl_k0"]
    variants = [each["optimizations"] for each in kernel.variants]
    assert len(variants) > 1
    for each in variants[1:]:
        threads = [int(part.split()[2]) for part in each.split(", ") if "LOCAL" in part]
        assert prod(kernel.specialize(optimizations=each).block) == prod(threads)
    for record in records:
        assert record.constants == ("optimizations",)
        assert (record.function, record.sizes, record.kind) == ("f_opencl_k0", (), "opencl")
        assert [values[0] for _, values in record.measured] == variants
        assert None not in record.measured.values()
    same_results(module, x)

    # On another machine: the arrays of a kernel are those of its step.
    (found,) = devmod.tune(module, "f", records=(), devices=["opencl:0"]).records
    assert found.measured.keys() == records[0].measured.keys()
    assert None not in found.measured.values()


@pytest.mark.row("R52")
@pytest.mark.usefixtures("_one_device")
@pytest.mark.parametrize("kind", ["opencl", "vulkan"])
def test_a_kernel_that_is_written_by_hand_is_a_variant(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is opencl's without a record. A search measures other tiles, and the heuristic's."""
    from tinygrad import Tensor

    from devmod_models._tinygrad.candidates import Candidates

    first_device(kind)
    monkeypatch.setattr(Candidates, "first", lambda _: ())
    weight = Tensor(array(48, 64)).realize()
    module = export(lambda x: x @ weight, array(16, 48), targets=kind)
    kernel = devmod.loads(devmod.dumps(module))[f"f_{kind}_k0"]
    default, *others = [each["optimizations"] for each in kernel.variants]
    assert (default == "PRODUCT") == (kind == "opencl")
    forms = {each.partition(" ")[0] for each in others}
    assert forms
    assert forms <= {"PRODUCT", "TILES", "HEURISTIC"}
    assert None not in times(module).values()


@pytest.mark.row("R52")
@pytest.mark.usefixtures("_one_device")
@pytest.mark.parametrize("label", ["processors", "devices that are no processors"])
def test_kernels_for_another_class_of_devices_are_not_tuned(
    label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others have variants, by their own heuristic first."""
    from tinygrad import Tensor

    from devmod_models._tinygrad.candidates import Candidates

    first_device("opencl")
    if label == "processors":
        for each in devmod.devices("opencl"):
            monkeypatch.setattr(each, "features", each.features - {"processor"})
    monkeypatch.setattr(Candidates, "first", lambda _: ())
    weight = Tensor(array(48, 64)).realize()
    lines: list[str] = []
    x = array(16, 48)
    module = export(lambda x: x @ weight, x, report=lines.append)
    assert f"opencl: the kernels for {label} are not tuned, since none is here" in lines
    own = {"processors": "f_opencl_general_k0"}.get(label, "f_opencl_k0")
    assert {each.function for each in module.tuning_records} == {own}
    same_results(module, x)


@pytest.mark.row("R52")
def test_each_device_chooses_by_its_own_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of two devices, the same one twice. The times are those of this test: another
    variant is the fastest of each.
    """
    from devmod_models._tinygrad import tuning

    lines: list[str] = []
    fastest: list[str] = []

    def tune(module: Any, name: str, *_: Any, **__: Any) -> Any:
        variants = devmod.loads(devmod.dumps(module))[name].variants
        default, *others = [each["optimizations"] for each in variants]
        turn = lines.count("opencl:0: measuring the kernels")
        if len(fastest) < turn:
            fastest.append([others[0], others[-1]][turn - 1])
        seconds = {default: 2e-3, **dict.fromkeys(others, 3e-3), fastest[-1]: 1e-3}
        measured = {((), (text,)): each for text, each in seconds.items()}
        record = TuningRecord(name, "opencl", constants=("optimizations",), measured=measured)
        return SimpleNamespace(records=[record])

    monkeypatch.setattr(devmod, "tune", tune)
    monkeypatch.setattr(tuning, "device_labels", lambda *_, **__: ["opencl:0"] * 2)
    monkeypatch.setattr(tuning, "_MOST_TIME", 0.9)
    module = export(product(), array(16, 48), report=lines.append)
    kernel = devmod.loads(devmod.dumps(module))["f_opencl_k0"]
    _, *variants = [each["optimizations"] for each in kernel.variants]
    assert len(set(fastest)) == 2
    assert sorted(variants) == sorted(fastest)


@pytest.fixture
def _one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure on one device: the processes of each take seconds."""
    own = devmod.devices
    monkeypatch.setattr(devmod, "devices", lambda *kinds: own(*kinds)[-1:])


@pytest.mark.row("R52")
@pytest.mark.usefixtures("_one_device")
def test_a_maximum_over_an_awkward_length(monkeypatch: pytest.MonkeyPatch) -> None:
    from tinygrad import Tensor

    weight = Tensor(array(32, 4, 3)).realize()
    x = array(1, 4, 25)
    x[:, :, -3:] *= 10  # the last element is the largest of half the channels
    only(monkeypatch, "CLAMP")
    module = export(lambda x: -(x.conv2d(weight).max(2)), x)
    clamped = {text: seconds for text, seconds in times(module).items() if "CLAMP" in text}
    assert clamped
    assert None not in clamped.values()
    same_results(module, x)


@pytest.mark.parametrize(
    "wrong", ["*({0}+0) = 7.0f;", "*(volatile __global int*)64 = 7;"], ids=["result", "crash"]
)
@pytest.mark.usefixtures("_one_device")
def test_a_variant_that_fails_is_not_in_the_file(
    monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    own = interop.results_of

    def damaged(items: Any, *others: Any) -> Iterator[Any]:
        for item, (results, end) in zip(items, own(items, *others), strict=True):
            for (*_, text), result in zip(item[1], results, strict=True):
                if text == "UPCAST 1 16, LOCAL 0 16":
                    array = result["parameters"][0][0]
                    head, _, _ = result["text"].partition("{")
                    result["text"] = f"{head}{{ {wrong.format(array)} }}"
            yield results, end

    monkeypatch.setattr(interop, "results_of", damaged)
    module = export(product(), array(16, 48))
    assert [*times(module)] == ["GROUPTOP 0 16", "UPCAST 0 16, LOCAL 0 16"]


@pytest.mark.usefixtures("_one_device")
def test_an_input_that_the_function_assigns(monkeypatch: pytest.MonkeyPatch) -> None:
    from tinygrad import Tensor

    from devmod_models._tinygrad import tuning

    monkeypatch.setattr(tuning, "_LEAST_SHARE", 0.3)  # of three kernels, one has it
    weight = Tensor(array(48, 64)).realize()

    def move(place: Any, x: Any) -> Any:
        place.assign(place + x @ weight).realize()
        return place * 2

    module = export(move, array(16, 64), array(16, 48))
    assert str(module.functions["f"].interface).startswith("<Interface (x: ")
    assert times(module)


def test_an_export_without_a_device_or_with_a_length_of_a_call_is_not_tuned() -> None:
    from tinygrad import Tensor, Variable

    lines = []
    x = array(16, 48)
    module = export(product(), x, targets="metal", report=lines.append)
    assert not module.tuning_records
    assert "metal: not tuned, since no device of the kind is here" in lines
    error = error_of(export, product(), x, tune=[x, x])
    assert str(error) == "tune has 2 values; expected 1, one for each input"

    rows = Variable("rows", 1, 32).bind(16)
    example = Tensor.empty(32, 48)[:rows]
    module = interop.export(product(), example, targets="opencl", name="f", tune=[x])
    assert not module.tuning_records
