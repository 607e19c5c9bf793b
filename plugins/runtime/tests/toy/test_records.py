"""Records: a block of scalars given as one argument under its name, in place of its members."""

from __future__ import annotations

import ctypes
import inspect
from typing import Any

import numpy as np
import pytest
import toy_backend as toy
from each_case import raised, refusal

import devmod
from devmod import Block, FunctionInfo, Interface, Local, Member, Param
from devmod_runtime import block_packer

X = Param("x", "buffer", "float32", "rw")
VIEW = [Member("scale", "float32"), Member("at", "float32x3", 16)]
#: Scalars, a vector, a struct, a matrix, and bytes, with gaps.
PARAMS = (
    Param("n", "scalar", "int32", at=(0, 0)),
    Param("a", "scalar", "float32", at=(0, 4)),
    Param("v", "scalar", "float32x3", at=(0, 16)),
    Param("view", "scalar", "uint8x32", at=(0, 32), align=16, members=VIEW),
    Param(
        "m",
        "scalar",
        "uint8x16",
        at=(0, 64),
        align=8,
        members=[Member("", "float32x2", shape=[2], strides=[8])],
    ),
    Param("raw", "scalar", "uint8x4", at=(0, 80), align=4),
)
VALUES = {
    "n": -2,
    "a": 0.5,
    "v": (1, 2, 3),
    "view": {"scale": 4, "at": (5, 6, 7)},
    "m": [[1, 2], [3, 4]],
    "raw": b"abcd",
}
PUSH = Block("push", 96, name="p")
DTYPE = np.dtype(
    {
        "names": list(VALUES),
        "formats": [
            "i4",
            "f4",
            ("f4", 3),
            np.dtype([("scale", "f4"), ("at", "f4", 3)]),
            ("f4", (2, 2)),
            ("u1", 4),
        ],
    }
)


def make(*params: Param, blocks: Any = (PUSH,), **options: Any) -> tuple[Any, list[bytes]]:
    """Return a function, and the list of the first blocks that its kernel receives."""
    seen: list[bytes] = []
    interface = Interface(params, blocks)
    types = ["handle" if each.kind in ("buffer", "local") else each.type for each in params]
    pack = block_packer(interface)
    run = {"f": lambda shape, *values: seen.append(pack(values)[0])}
    return toy.module({"f": FunctionInfo("f", types, (), (), interface)}, run, **options)["f"], seen


def expected() -> bytes:
    f, seen = make(*PARAMS)
    f(**VALUES, grid=1, block=1)
    return seen[0]


class Structure(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_ubyte * 96),)


@pytest.mark.parametrize("form", ["mapping", "tuple", "numpy", "bytes", "bytearray", "ctypes"])
@pytest.mark.parametrize("array", ["host", "device", "none"])
def test_a_record_has_the_bytes_of_its_members(
    form: str, array: str, devices: list[toy.ToyDevice]
) -> None:
    data = expected()
    view = VALUES["view"]
    assert isinstance(view, dict)
    record = np.zeros((), DTYPE)
    for name, value in VALUES.items():
        record[name] = (
            tuple(view.values())
            if name == "view"
            else np.frombuffer(value, "u1")
            if isinstance(value, bytes)
            else value
        )
    forms: dict[str, Any] = {
        "mapping": VALUES,
        "tuple": tuple(VALUES.values()),
        "numpy": record,
        "bytes": data,
        "bytearray": bytearray(data),
        "ctypes": Structure.from_buffer_copy(data),
    }
    x = {"host": np.zeros(4, "float32"), "device": devices[0].empty(4, "float32")}.get(array)
    f, seen = make(*([] if x is None else [X]), *PARAMS)
    args = [] if x is None else [x]
    for _ in range(3):  # the second call takes the plan, the third one the prepared launch too
        f(*args, p=forms[form], grid=1, block=1)
        if args:
            f(x=x, p=forms[form], grid=1, block=1)
            f(p=forms[form], x=x, grid=1, block=1)
    devices[0].synchronize()
    assert set(seen) == {data}
    if array != "host":
        seen.clear()
        launch = f.bind(*args, p=forms[form], grid=1, block=1)
        launch()
        launch()
        devices[0].synchronize()
        assert seen == [data, data]


@pytest.mark.parametrize("on_device", [True, False])
def test_a_call_with_a_record_is_a_plain_call(
    on_device: bool, monkeypatch: pytest.MonkeyPatch, devices: list[toy.ToyDevice]
) -> None:
    f, seen = make(X, *PARAMS)
    data, x = expected(), devices[0].empty(4, "float32") if on_device else np.zeros(4, "float32")
    f(x, p=data, grid=1, block=1)
    monkeypatch.setattr("devmod_runtime._launch.function.KernelCall", None)
    f(x, p=data, grid=1, block=1)
    assert seen == [data, data]


def test_a_record_of_one_member() -> None:
    f, seen = make(X, N, blocks=[Block("push", 4, name="p")])
    for _ in range(2):
        f(np.zeros(1, "float32"), p={"n": 7}, grid=1, block=1)
        f(x=np.zeros(1, "float32"), p=(7,), grid=1, block=1)
    assert set(seen) == {np.array([7], "i4").tobytes()}


def test_several_blocks_and_other_arguments() -> None:
    push, frame = Block("push", 8, name="p"), Block((0, 1), 16, name="frame")
    params = [
        Param("b", "scalar", "int32", at=(1, 4)),
        Param("n", "scalar", "int32", at=(0, 0)),
        Param("alone", "uniform", "uint8x4", at=(0, 3), align=4),
        Param("c", "scalar", "int32", at=(1, 0)),
        Param("m", "scalar", "int32", at=(0, 4)),
        Param("scratch", "local", "float32", default=Local(16)),
    ]
    seen: list[Any] = []
    interface = Interface(params, [push, frame])
    types = ["handle" if each.kind == "local" else each.type for each in params]
    run = {
        "f": lambda shape, *values: seen.append(
            (block_packer(interface)(values), values[2], values[5])
        )
    }
    f = toy.module({"f": FunctionInfo("f", types, (), (), interface)}, run)["f"]
    numbers = {"n": 1, "m": 2}, {"c": 3, "b": 4}
    for _ in range(2):
        f(alone=b"abcd", n=1, m=2, c=3, b=4, grid=1, block=1)
        f(p=numbers[0], alone=b"abcd", frame=numbers[1], grid=1, block=1)
        f(
            frame=(4, 3), n=1, alone=b"abcd", m=2, grid=1, block=1, scratch=Local(16)
        )  # a tuple has the order of the arguments
        f(4, p=numbers[0], alone=b"abcd", c=3, grid=1, block=1)
    blocks = (np.array([1, 2], "i4").tobytes(), np.array([3, 4, 0, 0], "i4").tobytes())
    assert set(seen) == {(blocks, b"abcd", ("local", 16))}


N, A = PARAMS[:2]


@pytest.mark.parametrize(
    ("params", "name", "keyword"),
    [
        ((X, N, A), "p", "p"),
        ((X.replace(name="p"), N, A), "p", "p_"),
        ((X, N.replace(name="p"), A.replace(name="p_")), "p", "p__"),
        ((X, N, A), "grid", "grid_"),
        ((X, N, A), "lambda", "lambda_"),
        ((X, N, A), "$Globals", "$Globals"),
    ],
)
def test_the_keyword_of_a_record(params: tuple[Param, ...], name: str, keyword: str) -> None:
    f, seen = make(*params, blocks=[Block("push", 8, name=name)])
    f(np.zeros(1, "float32"), **{keyword: (1, 2.0)}, grid=1, block=1)
    assert seen == [np.array([1], "i4").tobytes() + np.array([2], "f4").tobytes()]
    assert (keyword in inspect.signature(f).parameters) == keyword.isidentifier()


def test_a_block_without_a_name_or_without_scalars_is_no_record() -> None:
    for blocks in ([Block("push", 8)], [Block("push", 8), Block((0, 1), 8, name="p")]):
        f, _ = make(X, N, A, blocks=blocks)
        assert (
            refusal(devmod.ArgumentError, f, np.zeros(1, "float32"), p=(1, 2.0), grid=1, block=1)
            == "the toy function 'f' has no argument 'p'; it takes 3 arguments (x, n, a)"
        )


START = "the toy function 'f' got "
NAMES = "'n', 'a', 'v', 'view', 'm', 'raw'"


@pytest.mark.parametrize(
    ("record", "text", "argument"),
    [
        (
            VALUES | {"n": 2**40},
            "member 'p.n': 1099511627776 does not fit int32 (-2147483648 to 2147483647)",
            "n",
        ),
        (
            VALUES | {"view": {"scale": 1, "at": (1, "b", 3)}},
            "member 'p.view.at': lane 1: 'b' is not a number",
            "view",
        ),
        (VALUES | {"m": [[1, 2]]}, "member 'p.m': expected 2 elements, got 1", "m"),
        (
            VALUES | {"raw": b"abc"},
            "member 'p.raw': a bytes is not a sequence of 4 elements",
            "raw",
        ),
        (VALUES | {"nn": 1}, f"member 'p.nn': unknown; expected {NAMES}. Did you mean 'n'?", "nn"),
        ({"n": 1}, f"member 'p.a': missing; expected {NAMES}", "a"),
        ((1, 2), f"expected 6 values ({NAMES}), got 2", "p"),
        (bytes(95), "bytes of 95 bytes cannot be passed as uint8x96, which has 96 bytes", "p"),
        (
            None,
            f"None is not a struct of 96 bytes; pass a mapping, a tuple or a NumPy record of {NAMES}, or bytes",
            "p",
        ),
        (
            np.zeros(2, DTYPE),
            "an array of shape (2,) is not one struct; pass one record, such as array[0]",
            "p",
        ),
    ],
)
def test_the_errors_of_a_record_name_the_member(record: Any, text: str, argument: str) -> None:
    f, seen = make(X, *PARAMS)
    x = np.zeros(1, "float32")
    for _ in range(2):
        error = raised(devmod.ArgumentError, f, x, p=record, grid=1, block=1)
        assert (str(error), error.argument) == (
            f"{START}an invalid record p=: {text}",
            argument,
        )
        f(x, p=VALUES, grid=1, block=1)
    assert len(seen) == 2


def test_a_record_by_position_is_an_error_that_names_its_keyword() -> None:
    a = Param("a", "scalar", "float32", at=(0, 4))
    x, of_one, of_two = np.zeros(1, "float32"), {"n": 7}, {"n": 7, "a": 1}
    one, _ = make(X, N, blocks=[Block("push", 4, name="p")])
    two, seen = make(X, N, a, blocks=[Block("push", 8, name="p")])
    hint = ". A record is given by name: p={…} in place of "
    for f, args, text in (
        (one, [of_one], f": argument 2 'n': a dict is not a whole number{hint}'n'"),
        (
            one,
            [np.zeros((), [("n", "i4")])],
            f": argument 2 'n': a ndarray is not a whole number{hint}'n'",
        ),
        (one, ["7"], ": argument 2 'n': '7' is not a whole number"),
        (
            two,
            [of_two],
            f" is missing an argument: 'a'; it takes 3 arguments (x, n, a){hint}'n', 'a'",
        ),
        (two, [of_two, 1], f": argument 2 'n': a dict is not a whole number{hint}'n', 'a'"),
    ):
        assert (
            refusal(devmod.ArgumentError, f, x, *args, grid=1, block=1)
            == f"the toy function 'f'{text}"
        )
    two(x, p=of_two, grid=1, block=1)
    assert len(seen) == 1


@pytest.mark.parametrize(
    "names", [{"p": VALUES, "a": 1}, {"a": 1, "p": VALUES}, VALUES | {"p": VALUES}]
)
def test_a_record_and_its_members_are_not_given_together(names: dict[str, Any]) -> None:
    f, _ = make(X, *PARAMS)
    takes = "it takes 7 arguments (x, n, a, v, view, m, raw)"
    text = refusal(devmod.ArgumentError, f, np.zeros(1, "float32"), **names, grid=1, block=1)
    twice = "argument 2 'n'" if len(names) > 2 else "argument 3 'a'"
    assert text == f"{START}{twice} twice: by name and in the record p=; {takes}"
    assert (
        refusal(devmod.ArgumentError, f, np.zeros(1, "float32"), 1, p=VALUES, grid=1, block=1)
        == f"{START}argument 2 'n' twice: by position and in the record p=; {takes}"
    )
    assert (
        refusal(devmod.ArgumentError, f, np.zeros(1, "float32"), pp=VALUES, grid=1, block=1)
        == f"the toy function 'f' has no argument 'pp'; {takes}. Did you mean 'p'?"
    )


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            {"at": (0, 2)},
            "the member 'a' of the block 'p' of the toy function 'f' begins at byte 2, inside the member that ends at byte 4",
        ),
        (
            {"at": (0, 94)},
            "the member 'a' of the block 'p' of the toy function 'f' has bytes 94 to 98, and the struct has 96 bytes",
        ),
        ({"name": "n"}, "the block 'p' of the toy function 'f' has two members 'n'"),
    ],
)
def test_a_block_without_a_valid_layout(changed: dict[str, Any], text: str) -> None:
    f, seen = make(N, A.replace(**changed))
    assert refusal(devmod.FormatError, f, p=bytes(96), grid=1, block=1) == text
    assert not seen


def test_the_description_has_the_record() -> None:
    f, _ = make(X, N, PARAMS[3])
    assert str(inspect.signature(f)) == (
        "(x: 'float32* rw', n: 'int32', view: '{scale: float32, at: float32x3}', *, "
        "p: '{n: int32, view: {scale: float32, at: float32x3}}' = None, grid=None, block=None, threads=None, stream=None) -> None"
    )
    assert (
        "view : {scale: float32, at: float32x3}\np : record\n    In place of 'n', 'view'.\n"
        in f.__doc__
    )
    assert (
        repr(f.info)
        == "<FunctionInfo f(x: float32* rw, n: int32, view: {scale: float32, at: float32x3}) record p>"
    )


def test_the_name_of_a_block_in_files() -> None:
    assert Block("push", 8).to_dict() == {"at": "push", "size": 8}
    assert Block("push", 8, {"more": 1}, "p").to_dict() == {
        "at": "push",
        "size": 8,
        "name": "p",
        "more": 1,
    }
    assert Block.from_dict({"at": [0, 1], "size": 8, "name": "p"}) == Block((0, 1), 8, name="p")
    assert (
        refusal(devmod.FormatError, Block.from_dict, {"at": 0, "size": 8, "name": 7})
        == "a block's name is a string, not int"
    )


class Faulty(dict[str, object]):
    """A mapping without a value for its keys."""

    def __getitem__(self, key: str) -> object:
        raise KeyError(key)


class Keys(Faulty):
    """A mapping with a key that is no string and has no hash."""

    def keys(self) -> Any:
        return [["n"]]


def test_an_error_of_a_mapping_is_not_hidden_by_the_plan_of_the_call() -> None:
    f, seen = make(X, N, A)
    for _ in range(2):
        with pytest.raises(KeyError, match="'n'"):
            f(np.zeros(1, "float32"), p=Faulty(n=1, a=2), grid=1, block=1)
        f(np.zeros(1, "float32"), p={"n": 1, "a": 2}, grid=1, block=1)
    assert len(seen) == 2


class BigEndian(ctypes.BigEndianStructure):
    _fields_ = (("n", ctypes.c_int32), ("a", ctypes.c_float))


def released() -> memoryview:
    view = memoryview(bytes(8))
    view.release()
    return view


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (BigEndian(1, 2), "a BigEndian has big-endian numbers, and uint8x8 is little-endian"),
        (
            np.zeros(1, "M8[s]"),
            "the memory of this ndarray cannot be read: cannot include dtype 'M' in a buffer",
        ),
        (
            released(),
            "the memory of this memoryview cannot be read: operation forbidden on released memoryview object",
        ),
        (Keys(n=1), "member \"p.['n']\": unknown; expected 'n', 'a'"),
    ],
)
def test_a_record_that_has_no_bytes_of_the_block(record: Any, text: str) -> None:
    f, seen = make(X, N, A, blocks=[Block("push", 8, name="p")])
    assert (
        refusal(devmod.ArgumentError, f, np.zeros(1, "float32"), p=record, grid=1, block=1)
        == f"{START}an invalid record p=: {text}"
    )
    assert not seen


def test_a_record_with_big_endian_fields_has_the_same_values() -> None:
    f, seen = make(X, N, A, blocks=[Block("push", 8, name="p")])
    for order in "<>":
        f(
            np.zeros(1, "float32"),
            p=np.array((1, 2), [("n", f"{order}i4"), ("a", f"{order}f4")]),
            grid=1,
            block=1,
        )
    assert seen == [np.array([1], "<i4").tobytes() + np.array([2], "<f4").tobytes()] * 2


def test_a_file_does_not_choose_the_memory_of_a_record() -> None:
    f, _ = make(N, blocks=[Block("push", 2**62, name="p")])
    assert (
        refusal(devmod.FormatError, f, p={"n": 1}, grid=1, block=1)
        == f"the block 'p' of the toy function 'f' has {2**62} bytes; a record has at most 16777216"
    )


def test_the_padding_of_a_three_vector_has_the_next_scalar_in_any_order_of_arguments() -> None:
    after = Param("w", "scalar", "float32", at=(0, 28))
    expected = bytes(16) + np.array([1, 2, 3, 4], "f4").tobytes()
    for params in ((PARAMS[2], after), (after, PARAMS[2])):
        f, seen = make(*params, blocks=[Block("push", 32, name="p")])
        f(v=(1, 2, 3), w=4, grid=1, block=1)
        f(p={"v": (1, 2, 3), "w": 4}, grid=1, block=1)
        assert seen == [expected, expected]


def test_the_description_has_one_line_for_the_name_of_a_record() -> None:
    f, _ = make(X, N, blocks=[Block("push", 8, name="a\nb")])
    assert "n : int32\na\\nb : record\n    In place of 'n'.\n" in f.__doc__
