"""const_loader: named constants and init symbols."""

from __future__ import annotations

import array
from typing import Any

import msgpack
import numpy as np
import pytest
from candidates import FakeDevice
from each_case import check_texts, refusal
from stored import from_wire

import devmod

pytestmark = pytest.mark.row("R20")

W = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.array([1, -2, 3], dtype=np.int32)


def made() -> devmod.Module:
    return devmod.const_loader({"w": W, "b": B}, {"__init__": ["w", "b"], "later": []})


@pytest.mark.row("R2", "R28")
@pytest.mark.parametrize("forced", ["", "1"])
def test_create_takes_the_two_maps(forced: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", forced)
    maps = {"w": W, "b": B}, "", {"__init__": ["w", "b"], "later": []}
    for make in (devmod.create, devmod.create_with_fallback):
        assert make("const_loader", *maps).save_to_bytes() == made().save_to_bytes()
    assert devmod.registered("devmod.create")["const_loader"].distribution == "devmod-core"


@pytest.mark.row("R2")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ({}, "bin", {}),
            "const_loader has neither a format nor a source; call create('const_loader', tensors, '', by_symbol)",
        ),
        (
            ({}, "", {}, {"c": "text"}),
            "const_loader has neither a format nor a source; call create('const_loader', tensors, '', by_symbol)",
        ),
        ((b"", "", {}), "const_loader: tensors is a map of names, not bytes"),
        (({}, "", 3), "const_loader: by_symbol is a map of names, not int"),
        (
            ({}, "", {"i": 3}),
            "const_loader: the init symbol 'i' takes a sequence of names, not int",
        ),
        (
            ({}, "", {"i": [3]}),
            "const_loader: the init symbol 'i' takes a sequence of names, not [3]",
        ),
    ],
)
def test_create_refuses_other_arguments(arguments: Any, message: str) -> None:
    assert refusal(devmod.FormatError, devmod.create, "const_loader", *arguments) == message


def test_the_layout() -> None:
    assert made().save_to_bytes() == (
        b"\x82"
        b"\xa1b\x93\x93\x00\x20\x01\x91\x03\xc4\x0c"
        + B.tobytes()
        + b"\xa1w\x93\x93\x02\x20\x01\x92\x02\x03\xc4\x18"
        + W.tobytes()
        + b"\x82\xa8__init__\x92\xa1w\xa1b\xa5later\x90"
    )


def loaded() -> devmod.Module:
    return devmod.load_from_bytes("const_loader", made().save_to_bytes())


def stored() -> devmod.Module:
    return devmod.loads(devmod.dumps(made()))


@pytest.mark.row("R19")
@pytest.mark.parametrize("make", [made, loaded, stored])
def test_constants_in_every_state(make: Any) -> None:
    module = make()
    assert (module.kind, module.property_mask) == ("const_loader", 3)
    assert module.functions == {
        name: devmod.FunctionInfo(name, ()) for name in ("__init__", "later")
    }
    w, b = module.get_function("__init__")()
    assert (w.shape, w.dtype, b.shape, b.dtype) == ((2, 3), "float32", (3,), "int32")
    np.testing.assert_array_equal(w.numpy(), W)
    np.testing.assert_array_equal(np.from_dlpack(module.get_global("b")), B)
    assert module["later"]() == ()
    assert (
        refusal(devmod.ArgumentError, module["later"], 1, x=2)
        == "the const_loader function 'later' takes no arguments; 2 given"
    )
    assert module.save_to_bytes() == made().save_to_bytes()
    view = memoryview(module.get_global("w"))
    assert (view.readonly, view.tolist()) == (True, W.tolist())
    assert refusal(devmod.FunctionNotFoundError, module.get_function, "init").startswith(
        "the const_loader module has no function 'init'; it has: '__init__', 'later'"
    )
    assert (
        refusal(devmod.FunctionNotFoundError, module.get_global, "W")
        == "the const_loader module has no constant 'W'; it has: 'b', 'w'. Did you mean 'w'?"
    )


@pytest.mark.parametrize("options", [{"device": FakeDevice("npu", 0, "")}, {"stream": None}])
def test_a_constant_is_of_no_device(options: dict[str, Any]) -> None:
    assert refusal(devmod.ArgumentError, made().get_global, "w", **options) == (
        "the constants of a const_loader are in the host's memory: get_global takes their name alone"
    )


def test_query_imports_finds_an_init_symbol_of_an_import() -> None:
    outer = devmod.const_loader({}, {"a": []})
    outer.import_module(made())
    assert len(outer.get_function("__init__", query_imports=True)()) == 2
    with pytest.raises(devmod.FunctionNotFoundError):
        outer.get_function("__init__")
    with pytest.raises(devmod.FunctionNotFoundError):
        outer.get_function("nothing", query_imports=True)


class OnlyDLPack:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __dlpack__(self, **how: Any) -> Any:
        return self.value.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self.value.__dlpack_device__()


@pytest.mark.parametrize(
    ("tensor", "dtype", "shape"),
    [
        (b"abc", "uint8", (3,)),
        (bytearray(b"abc"), "uint8", (3,)),
        (memoryview(b"abcd").cast("i"), "int32", (1,)),
        (memoryview(b"abcdefgh").cast("H", [2, 2]), "uint16", (2, 2)),
        (array.array("d", [1.5]), "float64", (1,)),
        (array.array("q", [1]), "int64", (1,)),
        (np.array(2.5), "float64", ()),
        (np.float32(2.5), "float32", ()),
        (np.zeros((0, 3), np.float16), "float16", (0, 3)),
        (np.ones((2, 2), np.bool_), "bool", (2, 2)),
        (np.ones(2, np.complex64), "complex64", (2,)),
        (W.T, "float32", (3, 2)),
        (W[:, ::-1], "float32", (2, 3)),
        (np.ones((2, 1), "<u2"), "uint16", (2, 1)),
        (OnlyDLPack(W), "float32", (2, 3)),
    ],
)
def test_any_host_array_is_accepted(tensor: Any, dtype: str, shape: tuple[int, ...]) -> None:
    module = devmod.load_from_bytes(
        "const_loader", devmod.const_loader({"x": tensor}, {}).save_to_bytes()
    )
    result = module.get_global("x")
    assert (result.dtype, result.shape) == (dtype, shape)
    expected = tensor.value if isinstance(tensor, OnlyDLPack) else np.asarray(memoryview(tensor))
    np.testing.assert_array_equal(np.asarray(result.numpy()).reshape(expected.shape), expected)


def test_a_host_array_of_devmod_keeps_a_type_unknown_to_buffers() -> None:
    data = msgpack.packb({"x": [[4, 16, 1], [2], b"\x80\x3f\x00\x40"]}) + msgpack.packb({})
    result = devmod.load_from_bytes("const_loader", data).get_global("x")
    assert result.dtype == "bfloat16"
    assert devmod.const_loader({"x": result}, {}).save_to_bytes() == data


def test_a_writable_array_is_copied() -> None:
    own = W.copy()
    module = devmod.const_loader({"w": own}, {})
    own[:] = 9
    np.testing.assert_array_equal(module.get_global("w").numpy(), W)


def test_a_read_only_array_is_not_copied() -> None:
    data = bytes(1000)
    parts = devmod.const_loader({"x": data}, {}).wire_parts()
    assert any(isinstance(part, memoryview) and part.obj is data for part in parts)


def test_invalid_constants_are_refused() -> None:
    check_texts(
        {
            "const_loader: tensors is a map of names, not list": ([1], {}),
            "const_loader: tensors is a map of names; 1 is not a string": ({1: W}, {}),
            "const_loader: the constant 'x' is a host array (NumPy, DLPack or another buffer), not float": (
                {"x": 1.5},
                {},
            ),
            "const_loader: the constant 'x' is a host array (NumPy, DLPack or another buffer), not str": (
                {"x": "text"},
                {},
            ),
            "const_loader: the constant 'x' has elements of the format '1w', which is not supported": (
                {"x": np.array(["a"])},
                {},
            ),
            "const_loader: the constant 'x' has elements of the format '>f', which is not supported": (
                {"x": np.ones(1, ">f4")},
                {},
            ),
            "const_loader: by_symbol is a map of names, not int": ({"x": W}, 5),
            "const_loader: the init symbol 'i' takes a sequence of names, not str": (
                {"x": W},
                {"i": "x"},
            ),
            "const_loader: the init symbol 'i' names constants that do not exist: 'y'": (
                {"x": W},
                {"i": ["x", "y"]},
            ),
        },
        lambda case: refusal(devmod.FormatError, devmod.const_loader, *case),
    )


def wire(constants: Any, symbols: Any) -> bytes:
    return msgpack.packb(constants) + msgpack.packb(symbols)


F32 = [2, 32, 1]


def test_the_errors_of_invalid_bytes_have_the_place() -> None:
    check_texts(
        {
            "constant 'x': expected a binary, found a string, at byte 10": wire(
                {"x": [F32, [1], "0000"]}, {}
            ),
            "init symbol 'i': expected an array, found a string, at byte 4": wire({}, {"i": "x"}),
        },
        lambda data: refusal(devmod.FormatError, devmod.load_from_bytes, "const_loader", data),
        start="the bytes of the const_loader module: ",
    )


@pytest.mark.parametrize(
    ("dtype", "count", "size"),
    [([0, 4, 1], 3, 2), ([1, 1, 1], 3, 3), ([17, 4, 2], 3, 3), ([2, 32, 4], 2, 32)],
)
def test_elements_of_less_than_a_byte_are_packed(dtype: list[int], count: int, size: int) -> None:
    data = wire({"x": [dtype, [count], bytes(size)]}, {})
    assert devmod.load_from_bytes("const_loader", data).save_to_bytes() == data
    with pytest.raises(devmod.FormatError):
        devmod.load_from_bytes("const_loader", wire({"x": [dtype, [count], bytes(size + 1)]}, {}))


@pytest.mark.row("R19", "R20")
def test_an_index_that_gives_constants_other_functions_is_refused() -> None:
    """The error is raised when the functions are read, not when the file is opened."""
    data = devmod.const_loader({"w": b"1234"}, {"init": ["w"]}).save_to_bytes()
    module = from_wire("const_loader", data, ("other",))
    assert refusal(devmod.FormatError, getattr, module, "functions") == (
        "the bundle in memory: the index gives the const_loader module the functions 'other', and its bytes have 'init'"
    )
    assert list(from_wire("const_loader", data, ("init",)).functions) == ["init"]
