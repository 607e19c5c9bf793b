"""Constants get other values by name, without a compiler."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from alone import core_alone as core_alone
from each_case import refusal
from support import sample
from test_program_modules import kernels

import devmod
from devmod.backend import PayloadModule, constant_identity, decode, find_spec, walk
from devmod_targets.programs import make_program

pytestmark = pytest.mark.row("R51")

LARGE = np.arange(1000, dtype=np.float32)
SMALL = np.arange(3, dtype=np.int64)
#: What the model has as a number in a kernel.
SCALE = np.array(0.125, np.float32)


def model(
    kind: str = "opencl", name: str = "p", scale: Any = SCALE, **values: Any
) -> devmod.Module:
    """A program with the constants `fc.w` and `b` of a model, and a computed one."""
    values = {"fc_w": LARGE, "b": SMALL, "c0": LARGE * 2} | values
    module = devmod.bundle(kernels(kind, "k"), devmod.const_loader(values, {}), mixed=True)
    declared = {
        "updates": ["y: float32[n]"],
        "constants": ["fc_w: float32[1000]", "b: int64[3]", "c0: float32[1000]"],
    }
    steps = ["k(y=y, threads=n)"]
    return make_program(
        name,
        module,
        steps,
        declared,
        originals={"fc_w": "fc.w", "c0": ""},
        folded={"scale": constant_identity("scale", scale)},
    )


def constants_of(module: devmod.Module) -> list[devmod.Module]:
    return [each for each in walk(module) if each.kind == "const_loader"]


def value(module: devmod.Module, name: str) -> Any:
    (loader,) = constants_of(module)
    return loader.get_global(name).numpy()


@pytest.mark.parametrize("form", ["made", "loaded", "resaved"])
def test_constants_have_the_values_of_names_in_the_model(form: str) -> None:
    module = model()
    if form != "made":
        module = devmod.loads(devmod.dumps(module))
    if form == "resaved":
        module = devmod.loads(devmod.dumps(module, compress="zstd"))
    before = devmod.dumps(module)
    values = {"fc.w": -LARGE, "b": SMALL + 1, "scale": SCALE}
    result = devmod.replace_constants(module, values)
    for each in (result, devmod.loads(devmod.dumps(result))):
        np.testing.assert_array_equal(value(each, "fc_w"), -LARGE)
        np.testing.assert_array_equal(value(each, "b"), SMALL + 1)
        np.testing.assert_array_equal(value(each, "c0"), LARGE * 2)
    # The module stays as it is, and the new one is the same as if it was made so.
    assert devmod.dumps(module) == before
    made = devmod.dumps(model(fc_w=-LARGE, b=SMALL + 1), compress="none")
    assert devmod.dumps(result, compress="none") == made
    back = devmod.replace_constants(result, {"fc.w": LARGE, "b": SMALL})
    assert devmod.dumps(back, compress="none") == devmod.dumps(module, compress="none")


class Importer(PayloadModule):
    """A runtime's module, whose functions return a constant of its import."""

    def get_function(self, name: str, query_imports: bool = False) -> object:
        return lambda: self.imports[0].get_global("w").numpy()


@pytest.mark.parametrize("form", ["module", "bundle"])
def test_what_was_loaded_of_the_old_module_stays_with_it(form: str, register: Any) -> None:
    spec = find_spec("opencl")
    assert spec is not None
    register("devmod.load_from_bytes", "opencl", lambda data: Importer(spec, *decode(spec, data)))
    module = devmod.create_with_fallback("opencl", *sample("opencl"))
    module.import_module(devmod.const_loader({"w": SMALL}, {}))
    if form == "bundle":
        module = devmod.bundle(module, devmod.create_with_fallback("cuda", *sample("cuda")))
    module = devmod.loads(devmod.dumps(module))
    assert module.imports
    before = module["add"]
    result = devmod.replace_constants(module, {"w": SMALL + 1})
    np.testing.assert_array_equal(result["add"](), SMALL + 1)
    np.testing.assert_array_equal(before(), SMALL)
    np.testing.assert_array_equal(module["add"](), SMALL)


def test_some_constants_keep_their_values() -> None:
    module = devmod.loads(devmod.dumps(model()))
    result = devmod.replace_constants(module, {"b": SMALL + 1}, partial=True)
    np.testing.assert_array_equal(value(result, "b"), SMALL + 1)
    np.testing.assert_array_equal(value(result, "fc_w"), LARGE)


def many(prefix: str, count: int) -> dict[str, Any]:
    return {f"{prefix}{number:02}": SMALL for number in range(count)}


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"fc.w": LARGE}, "values are missing for 'b'"),
        ({}, "values are missing for 'b', 'fc.w'"),
        (
            {"fc.w": LARGE.astype(np.float64), "b": SMALL[:2]},
            "other types or shapes are given for 'b', 'fc.w' ('fc.w' is float32[1000], and its value is float64[1000])",
        ),
        (
            {"fc.w": LARGE.reshape(10, 100), "b": SMALL},
            "other types or shapes are given for 'fc.w' ('fc.w' is float32[1000], and its value is float32[10, 100])",
        ),
        (
            {"fc.w": LARGE, "b": SMALL, "fc_w": LARGE, "c0": LARGE},
            "no constant has the name 'c0', 'fc_w'",
        ),
        (
            {"fc.w": LARGE, "b": SMALL, "fc.v": LARGE},
            "no constant has the name 'fc.v'. Did you mean 'fc.w'?",
        ),
        (
            {"fc.w": LARGE, "b": SMALL, **many("x", 13)},
            "no constant has the name 'x00', 'x01', 'x02', 'x03', 'x04', 'x05', 'x06', 'x07', 'x08', 'x09', 'x10', 'x11' and 1 more",
        ),
        (
            {"fc.w": LARGE, "b": SMALL, "scale": SCALE * 2},
            "make the file from the model again, since kernels or computed constants have another value of 'scale'",
        ),
        (
            {"fc.w": LARGE, "b": SMALL, "scale": SCALE.reshape(1)},
            "make the file from the model again, since kernels or computed constants have another value of 'scale'",
        ),
        (
            {"b": SMALL[:1], "scale": SCALE.astype(np.float64), "bias": SMALL},
            "values are missing for 'fc.w'; other types or shapes are given for 'b' ('b' is int64[3], and its value is int64[1]); make "
            "the file from the model again, since kernels or computed constants have another value of 'scale'; no constant has the "
            "name 'bias'",
        ),
    ],
)
def test_values_that_do_not_fit_are_listed(values: dict[str, Any], problem: str) -> None:
    for module in (model(), devmod.loads(devmod.dumps(model()))):
        assert (
            refusal(devmod.ArgumentError, devmod.replace_constants, module, values)
            == f"replace_constants: {problem}"
        )


def test_what_is_no_map_of_arrays_is_refused() -> None:
    texts = {
        "values is a map of names, not list": [("b", SMALL)],
        "values is a map of names; 7 is not a string": {7: SMALL},
        "the constant 'b' is a host array (NumPy, DLPack or another buffer), not str": {"b": "c"},
    }
    for text, values in texts.items():
        with pytest.raises(devmod.FormatError) as caught:
            devmod.replace_constants(model(), values)  # type: ignore[arg-type]
        assert str(caught.value) == f"const_loader: {text}"


def test_programs_of_several_kinds_get_the_same_values() -> None:
    both = devmod.bundle(model("opencl"), model("cuda", c0=LARGE * 3))
    for module in (both, devmod.loads(devmod.dumps(both))):
        result = devmod.replace_constants(module, {"fc.w": -LARGE, "b": SMALL})
        one, other = constants_of(devmod.loads(devmod.dumps(result)))
        for each in (one, other):
            np.testing.assert_array_equal(each.get_global("fc_w").numpy(), -LARGE)
        np.testing.assert_array_equal(other.get_global("c0").numpy(), LARGE * 3)


@pytest.mark.parametrize("form", ["made", "loaded"])
def test_a_name_of_several_values_is_ambiguous(form: str) -> None:
    module = devmod.bundle(model(), model(name="q", fc_w=LARGE + 1), mixed=True)
    if form == "loaded":
        module = devmod.loads(devmod.dumps(module))
    assert refusal(
        devmod.ArgumentError, devmod.replace_constants, module, {"fc.w": -LARGE, "b": SMALL}
    ) == (
        "replace_constants: replace the constants of each program before the programs are bundled, since several with different "
        "values have the name 'fc.w'"
    )
    same = devmod.replace_constants(module, {"b": SMALL + 1}, partial=True)
    assert {each.get_global("b").numpy()[0] for each in constants_of(same)} == {1}


@pytest.mark.parametrize("form", ["made", "loaded"])
@pytest.mark.parametrize("scales", [(1, 2), (2, 1)])
def test_a_number_in_kernels_of_several_programs_has_the_value_of_all(
    form: str, scales: tuple[int, int]
) -> None:
    def replaced(first: int, second: int, given: int) -> devmod.Module:
        programs = [model(scale=SCALE * first), model(name="q", scale=SCALE * second)]
        module = devmod.bundle(*programs, mixed=True)
        if form == "loaded":
            module = devmod.loads(devmod.dumps(module))
        values = {"fc.w": -LARGE, "b": SMALL, "scale": SCALE * given}
        return devmod.replace_constants(module, values)

    for given in scales:
        assert refusal(devmod.ArgumentError, replaced, *scales, given) == (
            "replace_constants: make the file from the model again, since kernels or computed constants have another value of 'scale'"
        )
        assert replaced(given, given, given)


def test_numbers_of_one_name_are_no_parts_of_an_array() -> None:
    code = kernels("opencl", "k")
    numbers = {"one": np.float32(2), "other": np.float32(2)}
    module = make_program(
        "p",
        devmod.bundle(code, devmod.const_loader(numbers, {}), mixed=True),
        ["k(y=y, threads=n)"],
        {
            "updates": ["y: float32[n]"],
            "constants": [f"{name}: float32[()]" for name in numbers],
        },
        originals=dict.fromkeys(numbers, "scale"),
    )
    changed = devmod.replace_constants(module, {"scale": np.float32(3)})
    assert [value(changed, name) for name in numbers] == [3, 3]


def test_constants_without_a_program_have_their_own_names() -> None:
    loader = devmod.const_loader({"w": LARGE, "m": SMALL}, {"all": ["w", "m"]})
    code, fmt, fmap = sample("cuda")
    importer = devmod.create_with_fallback("cuda", code, fmt, fmap, {"ptx": "a text"})
    importer.import_module(loader)
    for root in (loader, importer, devmod.loads(devmod.dumps(importer, with_sources=True))):
        result = devmod.replace_constants(root, {"w": -LARGE, "m": SMALL})
        (new,) = constants_of(result)
        np.testing.assert_array_equal(new["all"]()[0].numpy(), -LARGE)
        assert result.kind == root.kind
        assert dict(result.source) == dict(root.source)
        assert (new.save_to_bytes() == loader.save_to_bytes()) is False
        np.testing.assert_array_equal(constants_of(root)[0].get_global("w").numpy(), LARGE)


class File(io.BytesIO):
    """A file object that records what is read of it."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.ranges: list[tuple[int, int]] = []

    def read(self, size: int | None = -1) -> bytes:
        at = self.tell()
        data = super().read(size)
        self.ranges.append((at, at + len(data)))
        return data

    def has_read(self, place: int) -> bool:
        return any(start <= place < end for start, end in self.ranges)


@pytest.mark.parametrize("compress", ["none", "zstd"])
def test_the_constants_that_are_replaced_are_not_read(compress: str) -> None:
    """A library at a URL is read by ranges too. What stays is read when the new file is written."""
    random = np.random.default_rng(1)
    old, kept = random.random(20_000), random.random(20_000)
    first = devmod.const_loader({"old": old, "kept": kept, "small": SMALL}, {})
    module = devmod.bundle(first, devmod.const_loader({"old": old}, {}), mixed=True)
    data = devmod.dumps(module, compress=compress)
    file = File(data)
    values = {"old": -old, "small": SMALL * 2}
    result = devmod.replace_constants(devmod.load(file), values, partial=True)
    # The places of the parts, by the order of the names: kept, old.
    inner_kept, inner_old = len(data) - 200_000, len(data) - 50_000
    assert not file.has_read(inner_kept)
    again = devmod.loads(devmod.dumps(result))
    assert file.has_read(inner_kept)
    assert not file.has_read(inner_old)
    one, other = again.imports
    for name, want in {"old": -old, "kept": kept, "small": SMALL * 2}.items():
        np.testing.assert_array_equal(one.get_global(name).numpy(), want)
    np.testing.assert_array_equal(other.get_global("old").numpy(), -old)


def test_a_part_that_stays_is_checked() -> None:
    data = bytearray(devmod.dumps(devmod.const_loader({"kept": LARGE, "small": SMALL}, {})))
    data[-1] ^= 1
    result = devmod.replace_constants(devmod.loads(bytes(data)), {"small": SMALL}, partial=True)
    with pytest.raises(devmod.FormatError, match="is damaged: its SHA-256 is not the one"):
        devmod.dumps(result)


def test_equal_values_are_in_the_file_once() -> None:
    module = devmod.loads(devmod.dumps(model()))
    result = devmod.replace_constants(module, {"fc.w": LARGE * 2, "b": SMALL})
    assert devmod.dumps(result).count((LARGE * 2).tobytes()) == 1


def test_odd_names_in_a_file_are_ignored() -> None:
    """Only `replace_constants` uses them: other readers take any value."""
    module = model()
    (part,) = [each for each in walk(module) if each.kind == "program"]
    info = part.functions["p"]
    assert info.interface is not None
    params = [
        each.replace(extra={**each.extra, "original": 7}) if each.name == "fc_w" else each
        for each in info.interface.params
    ]
    extra = {**info.interface.extra, "folded": ["scale"]}
    interface = devmod.Interface(params, extra=extra)
    odd = devmod.FunctionInfo("p", info.arg_types, interface=interface)
    other = devmod.create_with_fallback("program", part.code, "steps1", {"p": odd})  # type: ignore[attr-defined]
    for each in part.imports:
        other.import_module(each)
    result = devmod.replace_constants(other, {"fc_w": -LARGE, "b": SMALL})
    np.testing.assert_array_equal(value(result, "fc_w"), -LARGE)


def test_parts_of_a_constant_get_the_rows_of_its_value() -> None:
    rows = np.arange(15, dtype=np.float32).reshape(5, 3)
    other = np.arange(4, dtype=np.float32).reshape(2, 2)
    parts = {"w0": rows[:2], "w1": rows[2:], "o": other}
    module = devmod.bundle(kernels("opencl", "k"), devmod.const_loader(parts, {}), mixed=True)
    declared = {
        "updates": ["y: float32[n]"],
        "constants": ["w0: float32[2, 3]", "w1: float32[3, 3]", "o: float32[2, 2]"],
    }
    originals = {"w0": "w", "w1": "w"}
    program = make_program("p", module, ["k(y=y, threads=n)"], declared, originals=originals)
    result = devmod.replace_constants(program, {"w": -rows, "o": other * 2})
    np.testing.assert_array_equal(value(result, "w0"), -rows[:2])
    np.testing.assert_array_equal(value(result, "w1"), -rows[2:])
    np.testing.assert_array_equal(value(result, "o"), other * 2)
    text = refusal(
        devmod.ArgumentError, devmod.replace_constants, program, {"w": rows[:4], "o": other}
    )
    assert "'w' is float32[5, 3], and its value is float32[4, 3]" in text
