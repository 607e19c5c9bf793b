"""Calling functions: arguments, launch configurations, host arrays, prepared launches; on a backend
of Python functions.
"""

from __future__ import annotations

import array
import ctypes
import gc
import threading
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_backend as toy
from each_case import raised, refusal
from numpy.lib.stride_tricks import as_strided
from work import work

import devmod
from devmod import FunctionInfo, Interface, Param
from devmod_runtime import block_packer
from devmod_workbench._cli import main

TAGS = ("blockIdx.x", "threadIdx.x")


def axpy_info(**changes: Any) -> FunctionInfo:
    params = [
        Param("x", "buffer", "float32", "r"),
        Param("y", "buffer", "float32", "rw"),
        Param("alpha", "scalar", "float32"),
        Param("n", "scalar", "int32"),
    ]
    return FunctionInfo(
        "axpy", ["handle", "handle", "float32", "int32"], TAGS, (), Interface(params, **changes)
    )


def axpy(shape: Any, x: bytearray, y: bytearray, alpha: bytes, n: bytes) -> None:
    count = int.from_bytes(n, "little")
    toy.floats(y)[:count] += np.frombuffer(alpha, np.float32)[0] * toy.floats(x)[:count]


def make_axpy(**changes: Any) -> devmod.Function:
    return toy.module({"axpy": axpy_info(**changes)}, {"axpy": axpy})["axpy"]


def one(
    param: Param,
    *,
    run: Callable[..., None] | None = None,
    launcher: type[toy.ToyLauncher] = toy.ToyLauncher,
    declared: str = "",
) -> Any:
    """Return a function of one argument, and the list of values that its kernel receives."""
    seen: list[Any] = []

    def record(shape: Any, value: Any) -> None:
        seen.append(value)
        if run is not None:
            run(shape, value)

    kinds = {"buffer": "handle", "local": "handle", "image": "handle", "sampler": "handle"}
    info = FunctionInfo(
        "f", [declared or kinds.get(param.kind, param.type)], (), (), Interface([param])
    )
    return toy.module({"f": info}, {"f": record}, launcher)["f"], seen


# -- what a call does


@pytest.mark.row("R34")
def test_numpy_arrays_are_copied_in_and_results_are_copied_back() -> None:
    f = make_axpy()
    x, y = np.arange(8, dtype="float32"), np.ones(8, "float32")
    f(x, y, 2.0, 8, grid=1, block=8)
    np.testing.assert_array_equal(y, 2 * np.arange(8) + 1)
    np.testing.assert_array_equal(x, np.arange(8))


@pytest.mark.row("R34")
def test_device_arrays_are_not_copied(devices: list[toy.ToyDevice]) -> None:
    f = make_axpy()
    x, y = (
        devices[0].from_numpy(np.arange(8, dtype="float32")),
        devices[0].from_numpy(np.ones(8, "float32")),
    )
    before = len(devices[0].allocated)
    for _ in range(3):
        f(x, y, 2, 8, grid=(1,), block=(8, 1))
    assert len(devices[0].allocated) == before
    np.testing.assert_array_equal(y.numpy(), 6 * np.arange(8) + 1)


@pytest.mark.row("R35")
@pytest.mark.parametrize("values", [(3, 16), (np.int64(3), np.uint8(16))])
def test_launch_values_may_follow_the_arguments_as_in_tvm(
    devices: list[toy.ToyDevice], values: tuple[Any, Any]
) -> None:
    f = make_axpy()
    y = devices[0].from_numpy(np.ones(8, "float32"))
    f(y, y, 0.0, 8, *values)
    ((shape, _),) = devices[0].default_stream.queued
    assert (shape.grid, shape.block) == ((3, 1, 1), (16, 1, 1))


@pytest.mark.row("R35")
def test_every_launch_tag_sets_its_part_of_the_configuration(devices: list[toy.ToyDevice]) -> None:
    tags = [
        "blockIdx.y",
        "blockIdx.x",
        "blockIdx.z",
        "threadIdx.y",
        "threadIdx.x",
        "threadIdx.z",
        "clusterCtaIdx.x",
        "preferredClusterCtaIdx.y",
        "preferredClusterCtaIdx.z",
        "preferredClusterCtaIdx.x",
        "tirx.use_required_block_dimension",
        "tirx.use_cooperative_launch",
        "tirx.use_programtic_dependent_launch",
        "paramWriteAccess:[1]",
        "tirx.use_dyn_shared_memory",
    ]
    f = toy.module({"f": FunctionInfo("f", ["handle"], tags)}, launcher=toy.SharedLauncher)["f"]
    f(devices[0].empty(1, "int8"), 2, 1, 3, 4, 2, 5, 7, 8, 9, 14, 4096)
    ((shape, _),) = devices[0].default_stream.queued
    assert (shape.grid, shape.block, shape.cluster, shape.shared_memory) == (
        (1, 2, 3),
        (2, 4, 5),
        (7, 1, 1),
        4096,
    )
    assert shape.preferred_cluster == (14, 8, 9)
    assert refusal(
        devmod.ArgumentError,
        f,
        devices[0].empty(1, "int8"),
        2,
        1,
        3,
        4,
        2,
        5,
        7,
        8,
        9,
        14,
        4096,
        shared_memory=64,
    ) == (
        "the toy function 'f' is called with shared_memory= and with its launch value after the arguments; give one of them"
    )


EXPECTED_TAGS = (
    "expected blockIdx, threadIdx, clusterCtaIdx, preferredClusterCtaIdx with .x, .y or .z, or one of tirx.use_cooperative_launch, "
    "tirx.use_dyn_shared_memory, tirx.use_programtic_dependent_launch, tirx.use_required_block_dimension, paramWriteAccess:[…]"
)


@pytest.mark.row("R19", "R35")
@pytest.mark.parametrize(
    ("tags", "problem"),
    [
        (["vthread.q"], f"its launch tag 'vthread.q' is unknown; {EXPECTED_TAGS}"),
        (["blockIdx.x", "blockIdx"], f"its launch tag 'blockIdx' is unknown; {EXPECTED_TAGS}"),
        (["threadIdx.w"], f"its launch tag 'threadIdx.w' is unknown; {EXPECTED_TAGS}"),
        (
            ["tirx.use_dyn_shared_memory", "blockIdx.x"],
            "its launch tag 'tirx.use_dyn_shared_memory' is not the last",
        ),
    ],
)
def test_a_function_with_tags_that_tvm_refuses_cannot_be_called(
    tags: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    info = FunctionInfo("f", ["handle"], tags)
    module = toy.module({"f": info, "good": FunctionInfo("good", ["handle"], ["blockIdx.x"])})
    error = raised(devmod.FormatError, module.get_function, "f")
    assert str(error) == f"the toy function 'f' cannot be called: {problem}"
    assert error.function == "f"
    assert callable(module["good"])
    # Wrapping, saving, loading and reading the function refuse nothing.
    devmod.save(
        devmod.create_with_fallback("opencl", b"kernel", "cl", {"f": info}), tmp_path / "k.devmod"
    )
    assert devmod.load(tmp_path / "k.devmod").functions["f"].launch_param_tags == tuple(tags)
    assert main(["inspect", str(tmp_path / "k.devmod")]) == 0
    assert main(["inspect", "--verify", str(tmp_path / "k.devmod")]) == 1
    assert (
        capsys.readouterr().err
        == f"devmod: error: {tmp_path / 'k.devmod'}: the opencl function 'f' cannot be called: {problem}\n"
    )


@pytest.mark.row("R35")
def test_only_buffers_with_write_access_are_copied_back() -> None:
    info = FunctionInfo("f", ["handle", "float32", "handle"], [*TAGS, "paramWriteAccess:[0,1]"])

    def run(shape: Any, a: bytearray, s: bytes, b: bytearray) -> None:
        a[:] = b"\xff" * len(a)
        b[:] = b"\x01" * len(b)

    f = toy.module({"f": info}, {"f": run})["f"]
    a, b = np.zeros(4, "uint8"), np.zeros(4, "uint8")
    a.flags.writeable = False
    f(a, 1.0, b, grid=1, block=1)
    assert (a.tolist(), b.tolist()) == ([0] * 4, [1] * 4)


def test_a_zero_in_the_grid_launches_nothing_and_still_checks(devices: list[toy.ToyDevice]) -> None:
    f = make_axpy()
    y = np.ones(8, "float32")
    f(y, y, 1.0, 8, grid=(4, 0), block=8)
    assert devices[0].default_stream.queued == []
    assert y.tolist() == [1.0] * 8
    with pytest.raises(devmod.ArgumentError):
        f(y, y, "1", 8, grid=0, block=8)


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_empty_arrays_are_legal(shape: tuple[int, ...]) -> None:
    f = make_axpy()
    y = np.ones(shape, "float32")
    f(y, y, 1.0, 0, grid=1, block=1)


def test_the_same_host_memory_is_one_device_buffer(devices: list[toy.ToyDevice]) -> None:
    f = make_axpy()
    y = np.arange(8, dtype="float32")
    f(y, y, 1.0, 8, grid=1, block=1)
    assert y.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert devices[0].allocated == [32]
    devices[0].allocated.clear()
    f(y[:3], y, 1.0, 3, grid=1, block=1)
    assert devices[0].allocated == [32]
    assert y.tolist() == [0, 4, 8, 6, 8, 10, 12, 14]


def test_partial_overlap_with_a_written_array_is_refused() -> None:
    f = make_axpy()
    y = np.arange(8, dtype="float32")
    assert refusal(devmod.ArgumentError, f, y[:-1], y[1:], 1.0, 7, grid=1, block=1) == (
        "the toy function 'axpy': argument 2 'y' overlaps argument 1 'x', and the kernel writes to one of them; pass a copy of it"
    )
    f(y[::2], y[1::2], 1.0, 4, grid=1, block=1)  # interleaved, and apart
    assert y.tolist() == [0, 1, 2, 5, 4, 9, 6, 13]


@pytest.mark.parametrize(
    "view",
    [lambda a: a[::2, ::3], lambda a: a.T, lambda a: np.asfortranarray(a), lambda a: a[::-1]],
)
def test_strided_arrays_are_copied(view: Callable[[Any], Any]) -> None:
    f, seen = one(
        Param("a", "buffer", "int32", "rw"),
        run=lambda shape, a: a.__setitem__(slice(0, 4), b"\x07\0\0\0"),
    )
    a = view(np.arange(24, dtype="int32").reshape(4, 6))
    expected = np.ascontiguousarray(a)
    given = expected.tobytes()
    f(a, grid=1, block=1)
    expected.reshape(-1)[0] = 7
    np.testing.assert_array_equal(a, expected)
    assert bytes(seen[0])[4:] == given[4:]


@pytest.mark.parametrize(
    "host",
    [
        lambda: bytearray(b"\x01\x02\x03\x04"),
        lambda: memoryview(bytearray(b"\x01\x02\x03\x04")),
        lambda: array.array("B", b"\x01\x02\x03\x04"),
        lambda: (ctypes.c_uint8 * 4)(1, 2, 3, 4),
        lambda: np.array([1, 2, 3, 4], "uint8"),
    ],
)
def test_an_object_with_a_writable_buffer_is_a_host_array(host: Callable[[], Any]) -> None:
    f, _ = one(Param("a", "buffer", "uint8", "rw"), run=lambda shape, a: a.reverse())
    value = host()
    f(value, grid=1, block=1)
    assert bytes(value) == b"\x04\x03\x02\x01"


def test_dlpack_host_arrays_are_accepted() -> None:
    class Exporter:
        def __init__(self) -> None:
            self.array = np.arange(4, dtype="float32")

        def __dlpack__(self, **kwargs: Any) -> Any:
            return self.array.__dlpack__(**kwargs)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    f, _ = one(
        Param("a", "buffer", "float32", "rw"),
        run=lambda shape, a: a.__setitem__(slice(0, 4), b"\0\0\x80?"),
    )
    value = Exporter()
    f(value, grid=1, block=1)
    assert value.array.tolist() == [1, 1, 2, 3]


@pytest.mark.row("R34")
def test_a_null_pointer_is_an_error_for_a_kind_without_them() -> None:
    f, _ = one(Param("a", "buffer", "float32", "rw"))
    assert refusal(devmod.ArgumentError, f, ctypes.c_void_p(), grid=1, block=1) == (
        "the toy function 'f': argument 1 'a' is a null pointer, and the kernel of kind toy takes an array of float32"
    )


def test_a_host_array_of_devmod_is_read_and_never_written() -> None:
    constant = devmod.const_loader({"w": np.arange(4, dtype="float32")}, {}).get_global("w")
    f, seen = one(Param("a", "buffer", "float32", "r"))
    f(constant, grid=1, block=1)
    assert toy.floats(seen[0]).tolist() == [0, 1, 2, 3]
    for extra, reason in (
        ({}, ""),
        ({"const_cast": "k.cl:2: (int *)"}, ", since the cast 'k.cl:2: (int *)' removes its const"),
    ):
        g, _ = one(Param("a", "buffer", "float32", "rw", extra=extra))
        assert refusal(devmod.ArgumentError, g, constant, grid=1, block=1) == (
            f"the toy function 'f': argument 1 'a' is read-only, and the kernel may write to it{reason}; pass a copy, or "
            "device.from_numpy(array)"
        )


WHOLE = np.zeros(24, "float32")


@pytest.mark.parametrize(
    ("array", "is_shared"),
    [
        (as_strided(WHOLE, (4,), (0,)), True),
        (as_strided(WHOLE, (3, 4), (4, 4)), True),  # windows
        (as_strided(WHOLE, (4,), (2,)), True),
        (as_strided(WHOLE, (2, 3), (0, 4))[::-1, ::-1], True),
        (as_strided(WHOLE, (0, 4), (0, 0)), False),
        (as_strided(WHOLE, (1, 4), (0, 4)), False),
        (WHOLE.reshape(2, 3, 4).transpose(2, 0, 1)[::-1, :, ::2], False),
        (WHOLE[::-3], False),
        (WHOLE[:16:5], False),
    ],
)
def test_a_host_array_whose_elements_share_memory_is_read_and_never_written(
    array: Any, is_shared: bool
) -> None:
    one(Param("a", "buffer", "float32", "r"))[0](array, grid=1, block=1)
    write = partial(one(Param("a", "buffer", "float32"))[0], array, grid=1, block=1)
    if not is_shared:
        write()
        return
    assert refusal(devmod.ArgumentError, write) == (
        f"the toy function 'f': argument 1 'a' has elements that share memory (its strides are {array.strides}), and the kernel may write to "
        "it; pass a copy, or device.from_numpy(array)"
    )


# -- scalars and structs


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("int32", -1, b"\xff\xff\xff\xff"),
        ("int32", np.int64(7), b"\x07\0\0\0"),
        ("uint8", 255, b"\xff"),
        ("int64", -(2**63), b"\0\0\0\0\0\0\0\x80"),
        ("float32", 1, b"\0\0\x80?"),
        ("float32", np.float64(1), b"\0\0\x80?"),
        ("float64", 1.0, b"\0\0\0\0\0\0\xf0?"),
        ("float32", float("inf"), b"\0\0\x80\x7f"),
        ("float16", 2049.0, b"\x00\x68"),  # a tie: to even
        ("bfloat16", 1.00390625, b"\x80?"),  # a tie: to even
        ("bfloat16", 1.01171875, b"\x82?"),
        ("float8_e4m3fn", 448.0, b"\x7e"),
        ("float8_e5m2", -1.125, b"\xbc"),  # a tie: to even
        ("bool", True, b"\x01"),
        ("bool", np.False_, b"\0"),
        ("complex64", 1 + 2j, b"\0\0\x80?\0\0\0@"),
        ("int16x2", (1, -1), b"\x01\0\xff\xff"),
        (
            "float32x3",
            np.ones(3, "float32"),
            b"\0\0\x80?" * 3 + b"\0\0\0\0",
        ),  # three lanes take four in OpenCL
        ("uint8x4", b"abcd", b"abcd"),
        ("uint8x4", [1, 2, 3, 4], b"\x01\x02\x03\x04"),
    ],
)
def test_the_bytes_of_scalars(type_: str, value: Any, expected: bytes) -> None:
    f, seen = one(Param("s", "scalar", type_))
    for _ in range(2):  # the second call takes the short path where there is one
        f(value, grid=1, block=1)
    assert seen == [expected, expected]


@pytest.mark.parametrize(
    "value",
    [
        b"\x01\0\0\0\0\0\x80?",
        bytearray(b"\x01\0\0\0\0\0\x80?"),
        np.array([(1, 1.0)], "i4,f4")[0],
        type("S", (ctypes.Structure,), {"_fields_": [("a", ctypes.c_int), ("b", ctypes.c_float)]})(
            1, 1.0
        ),
    ],
)
def test_the_bytes_of_structs(value: Any) -> None:
    f, seen = one(Param("s", "scalar", "uint8x8", align=4))
    f(value, grid=1, block=1)
    assert seen == [b"\x01\0\0\0\0\0\x80?"]


@pytest.mark.row("R34")
@pytest.mark.parametrize(
    ("type_", "value", "why"),
    [
        ("int32", 2**31, "2147483648 does not fit int32 (-2147483648 to 2147483647)"),
        ("uint8", -1, "-1 does not fit uint8 (0 to 255)"),
        ("int32", 1.0, "1.0 is a float, and int32 takes an int; pass 1"),
        ("int64", np.float32(64), "64.0 is a float, and int64 takes an int; pass 64"),
        ("int32", 1.5, "1.5 is not a whole number"),
        ("int32", "1", "'1' is not a whole number"),
        ("int32", None, "None is not a whole number"),
        ("int32", np.zeros(2), "an array of shape (2,) is not a whole number"),
        ("float32", 1e39, "1e+39 does not fit float32"),
        ("float16", 65520.0, "65520.0 does not fit float16"),
        ("bfloat16", 3.4e38, "3.4e+38 does not fit bfloat16"),
        ("float8_e4m3fn", 465.0, "465.0 does not fit float8_e4m3fn"),
        ("float8_e4m3fn", float("inf"), "inf does not fit float8_e4m3fn"),
        ("float32", 1j, "1j is not a number"),
        ("float32", "1", "'1' is not a number"),
        ("float32", "\u200b" * 29, f"{chr(0x200B) * 29!r} is not a number"),
        ("float32", 10**400, "an int of 1329 bits does not fit a floating-point type"),
        ("bool", 2, "2 is not a bool"),
        ("float32x4", (1, 2, 3), "3 lanes cannot be passed as float32x4, which has 4 lanes"),
        ("float32x4", 1.0, "1.0 is not a sequence of 4 lanes"),
        ("int8x2", (1, 128), "lane 1: 128 does not fit int8 (-128 to 127)"),
        (
            "float32x4",
            np.zeros((2, 2)),
            "an array of shape (2, 2) cannot be passed as float32x4, which has 4 lanes",
        ),
    ],
)
def test_the_error_for_an_invalid_scalar_has_the_value(type_: str, value: Any, why: str) -> None:
    f, seen = one(Param("s", "scalar", type_))
    error = raised(devmod.ArgumentError, f, value, grid=1, block=1)
    assert str(error) == f"the toy function 'f': argument 1 's': {why}"
    assert (error.argument, error.function, error.kind) == ("s", "f", "toy")
    assert seen == []


def test_a_float_is_not_an_int_even_if_an_equal_int_is_cached() -> None:
    f, _ = one(Param("s", "scalar", "int32"))
    f(3, grid=1, block=1)
    with pytest.raises(devmod.ArgumentError):
        f(3.0, grid=1, block=1)


def test_negative_zero_keeps_its_sign() -> None:
    f, seen = one(Param("s", "scalar", "float32"))
    f(0.0, grid=1, block=1)
    f(-0.0, grid=1, block=1)
    assert seen == [b"\0\0\0\0", b"\0\0\0\x80"]


def test_a_struct_of_another_size_is_refused() -> None:
    f, _ = one(Param("s", "scalar", "uint8x8", align=4))
    assert (
        refusal(devmod.ArgumentError, f, b"abc", grid=1, block=1)
        == "the toy function 'f': argument 1 's': bytes of 3 bytes cannot be passed as uint8x8, which has 8 bytes"
    )


def test_local_memory_is_an_argument() -> None:
    f, seen = one(Param("t", "local", "float32"))
    for _ in range(2):
        f(devmod.Local(256), grid=1, block=1)
    assert seen == [("local", 256)] * 2
    assert refusal(devmod.ArgumentError, f, 256, grid=1, block=1) == (
        "the toy function 'f': argument 1 't' is 256, and the kernel takes memory that a block shares: pass devmod.Local(nbytes)"
    )
    assert refusal(devmod.ArgumentError, f, grid=1, block=1) == (
        "the toy function 'f' is missing an argument: 't'; it takes 1 argument (t). 't' is memory that a block shares: pass devmod.Local(nbytes)"
    )
    g, _ = one(Param("a", "buffer", "float32"))
    assert (
        refusal(devmod.ArgumentError, g, devmod.Local(256), grid=1, block=1)
        == "the toy function 'f': argument 1 'a' is a Local, and the kernel takes an array of float32"
    )


@pytest.mark.parametrize("nbytes", [0, -4, 1.5, "4"])
def test_a_local_needs_a_positive_size(nbytes: Any) -> None:
    assert (
        refusal(devmod.ArgumentError, devmod.Local, nbytes)
        == f"Local(nbytes): expected an int of 1 or more, got {nbytes!r}"
    )


# -- wrong calls


@pytest.mark.row("R34")
@pytest.mark.parametrize(
    ("args", "keywords", "text"),
    [
        (
            (),
            {},
            "is missing arguments: 'x', 'y', 'alpha', 'n'; it takes 4 arguments (x, y, alpha, n)",
        ),
        (
            (1, 2, 3, 4, 5),
            {},
            "takes 4 arguments (x, y, alpha, n); the launch is given by name, with threads= or grid=; 5 were given",
        ),
        (
            "good",
            {},
            "needs threads=, the number of threads, or grid=, the number of blocks: an int, or up to three ints for x, y, z",
        ),
        (
            "good",
            {"grid": 1},
            "needs block=, the number of threads in a block: an int, or up to three ints for x, y, z",
        ),
        (
            "good",
            {"grid": (1, 1, 1, 1), "block": 1},
            "was given grid=(1, 1, 1, 1): expected an int, or up to three ints for x, y, z",
        ),
        ("good", {"grid": -1, "block": 1}, "was given grid=-1: -1 is not a count of 0 or more"),
        ("good", {"grid": 1.5, "block": 1}, "was given grid=1.5: 1.5 is not a whole number"),
        (
            "good",
            {"grid": 2.0, "block": 1},
            "was given grid=2.0: 2.0 is a float, and grid takes an int; pass 2",
        ),
        (
            "good",
            {"grid": 2**64, "block": 1},
            f"was given grid={2**64}: {2**64} is not a count of 0 or more",
        ),
        (
            "good",
            {"grid": 1, "block": (8, 0)},
            "was given block=(8, 0): 0 is not a count of 1 or more",
        ),
        ("good", {"grid": 1, "block": "8"}, "was given block='8': '8' is not a whole number"),
        (
            "good",
            {"grid": 1, "block": 1, "shared_memory": 4},
            "cannot be given shared_memory=4: a toy has none",
        ),
        (
            "good",
            {"grid": 1, "block": 1, "shared_memory": -4},
            "was given shared_memory=-4: -4 is not a count of 0 or more",
        ),
        (
            "good",
            {"grid": 1, "block": 1, "stream": 3},
            "was given stream=, which is 3: expected a stream of kind toy",
        ),
        (
            "dims",
            {"grid": 1},
            "is called with grid= or block= and with launch values after its arguments; give one of them",
        ),
    ],
)
def test_wrong_counts_and_shapes(
    args: Any, keywords: dict[str, Any], text: str, devices: list[toy.ToyDevice]
) -> None:
    f = make_axpy()
    y = devices[0].from_numpy(np.ones(8, "float32"))
    given = (
        {"good": (y, y, 1.0, 8), "dims": (y, y, 1.0, 8, 1, 8)}.get(args, args)
        if isinstance(args, str)
        else args
    )
    for call in (f, f.bind):
        assert (
            refusal(devmod.ArgumentError, call, *given, **keywords)
            == f"the toy function 'axpy' {text}"
        )
    assert devices[0].default_stream.queued == []


@pytest.mark.row("R34")
@pytest.mark.parametrize(
    ("number", "value", "text"),
    [
        (
            0,
            np.ones(8),
            "argument 1 'x' is an array of float64, and the kernel takes float32; convert it before the call: array = array.astype(np.float32)",
        ),
        (
            0,
            np.ones(8, "complex64"),
            "argument 1 'x' is an array of complex64, and the kernel takes float32; convert it before the call: array = array.view(np.float32)",
        ),
        (0, 1.0, "argument 1 'x' is 1.0, and the kernel takes an array of float32"),
        (0, None, "argument 1 'x' is None, and the kernel takes an array of float32"),
        (
            0,
            [1.0],
            "argument 1 'x' is a list, and the kernel takes an array of float32; pass np.array(values, np.float32)",
        ),
        (0, np.float32(1), "argument 1 'x' is a float32, and the kernel takes an array of float32"),
        (
            0,
            np.array(["a"]),
            "argument 1 'x' has elements of an unsupported type: no device supports elements of type <U1",
        ),
        (
            0,
            np.ones(8, ">f4"),
            "argument 1 'x' has elements of an unsupported type: >f4 has another byte order than "
            "this machine; pass array.astype(array.dtype.newbyteorder('='))",
        ),
        (
            0,
            np.ones(8, [("v", ">f4")]),
            "argument 1 'x' has elements of an unsupported type: [('v', '>f4')] has another byte order "
            "than this machine; pass array.astype(array.dtype.newbyteorder('='))",
        ),
        (1, b"\0" * 32, "argument 2 'y' is an array of uint8, and the kernel takes float32"),
    ],
)
def test_wrong_arrays(number: int, value: Any, text: str, devices: list[toy.ToyDevice]) -> None:
    args: list[Any] = [np.ones(8, "float32"), np.ones(8, "float32"), 1.0, 8]
    args[number] = value
    assert (
        refusal(devmod.ArgumentError, make_axpy(), *args, grid=1, block=8)
        == f"the toy function 'axpy': {text}"
    )
    assert devices[0].default_stream.queued == []
    assert devices[0].allocated == []


@pytest.mark.row("R34")
@pytest.mark.parametrize("on_device", [True, False])
@pytest.mark.parametrize("word", ["grid", "block", "threads"])
@pytest.mark.parametrize(
    ("given", "is_count"),
    [
        (4.0, False),
        ((4.0,), False),
        (np.float64(4), False),
        (Fraction(4), False),
        (4 + 0j, False),
        (np.int8(4), True),
        ((np.uint64(4),), True),
    ],
)
def test_a_repeated_call_takes_what_the_first_one_takes(
    given: Any, is_count: bool, word: str, on_device: bool, devices: list[toy.ToyDevice]
) -> None:
    """4.0 is equal to the 4 of the calls before it, and is no count."""
    f, _ = one(Param("x", "buffer", "float32", "rw"))
    x: Any = np.ones(4, "float32")
    x = devices[0].from_numpy(x) if on_device else x
    shape: dict[str, Any] = {"grid": 1, "block": 4} if word != "threads" else {"block": 4}
    count = (4,) if isinstance(given, tuple) else 4
    for _ in range(3):
        f(x, **(shape | {word: count}))
        with nullcontext() if is_count else pytest.raises(devmod.ArgumentError, match=f"{word}="):
            f(x, **(shape | {word: given}))


@pytest.mark.row("R34")
@pytest.mark.parametrize("element", ["int8", "uint8"])
def test_the_advice_for_a_pointer_to_bytes_keeps_the_bytes_of_an_array(
    element: str, devices: list[toy.ToyDevice]
) -> None:
    """``global char *`` in OpenCL C: the kernel casts it to the real type, and `astype` would
    destroy floats.
    """
    f, _ = one(Param("x", "buffer", element, "rw"))
    view, cast = f"array.view(np.{element})", f"array.astype(np.{element})"
    for value, dtype, text in (
        (np.ones(4, "float32"), "float32", view),
        (np.ones(4, "float16"), "float16", view),
        (np.ones(4, "complex64"), "complex64", view),
        (np.ones(4, [("scale", "<f2"), ("numbers", "u1", 16)]), "uint8x18", view),
        (np.ones(4, "int32"), "int32", f"{cast}, or {view}"),
        (
            devices[0].zeros(4, "float32"),
            "float32",
            f"device.from_numpy(array.numpy().view(np.{element}))",
        ),
    ):
        assert refusal(devmod.ArgumentError, f, value, grid=1, block=1) == (
            f"the toy function 'f': argument 1 'x' is an array of {dtype}, and the kernel takes {element}; "
            f"convert it before the call: array = {text} for the same bytes"
        )
    f(np.ones(4, "float32").view(element), grid=1, block=1)


#: The element types of NumPy that devices have.
ELEMENTS = (
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


@pytest.mark.row("R34")
@pytest.mark.parametrize("wanted", ELEMENTS)
@pytest.mark.parametrize("given", ELEMENTS)
def test_the_advised_conversion_of_an_array_is_accepted(
    given: str, wanted: str, devices: list[toy.ToyDevice]
) -> None:
    f, _ = one(Param("x", "buffer", wanted, "rw"))
    for value in (np.ones(8, given), devices[0].from_numpy(np.ones(8, given))):
        try:
            f(value, grid=1, block=1)
        except devmod.ArgumentError as error:
            advice = str(error).partition("convert it before the call: array = ")[2]
        else:
            continue
        assert advice or wanted == "bool"
        if not advice:
            continue
        for each in advice.removesuffix(" for the same bytes").split(", or "):
            names = {"array": value, "device": devices[0], "np": np}
            f(eval(each, names), grid=1, block=1)


@pytest.mark.row("R34")
def test_bytes_for_a_buffer_of_words_are_refused_with_the_two_conversions(
    devices: list[toy.ToyDevice],
) -> None:
    """A shader without a type for a struct of 18 bytes reads words. `astype` would make a word of
    each byte.
    """
    f, _ = one(Param("x", "buffer", "uint32", "r"))
    blocks = np.zeros((2, 2), [("scale", "<f2"), ("numbers", "u1", 16)])
    words = "np.frombuffer(array, np.uint32) for the same bytes"
    on_device = "device.from_numpy(np.frombuffer(array.numpy(), np.uint32)) for the same bytes"
    for value, dtype, text in (
        (np.zeros(8, "uint8"), "uint8", f"array.astype(np.uint32), or {words}"),
        (bytes(8), "uint8", words),
        (blocks, "uint8x18", words),
        (devices[0].from_numpy(blocks), "uint8x18", on_device),
        (
            devices[0].zeros(8, "uint8"),
            "uint8",
            f"device.from_numpy(array.numpy().astype(np.uint32)), or {on_device}",
        ),
    ):
        assert refusal(devmod.ArgumentError, f, value, grid=1, block=1) == (
            f"the toy function 'f': argument 1 'x' is an array of {dtype}, and the kernel takes uint32; "
            f"convert it before the call: array = {text}"
        )
    f(np.frombuffer(blocks, np.uint32), grid=1, block=1)
    f(
        devices[0].from_numpy(np.frombuffer(devices[0].from_numpy(blocks).numpy(), np.uint32)),
        grid=1,
        block=1,
    )


@pytest.mark.row("R34")
def test_invalid_arguments_are_refused_after_valid_calls(devices: list[toy.ToyDevice]) -> None:
    f = make_axpy()
    y, elsewhere = (device.from_numpy(np.ones(8, "float32")) for device in devices)
    ints = devices[0].from_numpy(np.ones(8, "int32"))
    for good in (y, elsewhere):
        f(good, good, 1.0, 8, grid=1, block=8)
    counts = [len(device.default_stream.queued) for device in devices]
    for args in (
        (y, elsewhere, 1.0, 8),
        (elsewhere, y, 1.0, 8),
        (y, ints, 1.0, 8),
        (ints, y, 1.0, 8),
        (y, y, 1.0, 2**31),
        (y, y, 1.0, 8.0),
        (y, 1, 1.0, 8),
    ):
        with pytest.raises(devmod.ArgumentError):
            f(*args, grid=1, block=8)
    assert [len(device.default_stream.queued) for device in devices] == counts


@pytest.mark.row("R34")
def test_a_repeated_call_with_numpy_arrays_checks_and_copies_as_the_first(
    devices: list[toy.ToyDevice], monkeypatch: pytest.MonkeyPatch, register: Callable[..., None]
) -> None:
    def results(f: devmod.Function) -> list[Any]:
        found: list[Any] = []
        ones = np.ones(8, "float32")
        read_only = ones.copy()
        read_only.flags.writeable = False
        overlapping, matrix = np.arange(12, dtype="float32"), np.ones((8, 2), "float32")
        for x, y, alpha in (
            (ones, ones.copy(), 2.0),
            (np.arange(4, dtype="float32"), np.ones(9, "float32"), np.float32(0.5)),
            (read_only, ones.copy(), 3),
            (ones, matrix[:, 0], 1.0),
            (matrix[:, 0], ones.copy(), 1.0),
            (overlapping[:8], overlapping[:8], 1.0),
            (ones, ones.astype("int32"), 1.0),
            (ones.astype(">f4"), ones.copy(), 1.0),
            (ones, read_only, 1.0),
            (overlapping[:8], overlapping[4:], 1.0),
            (np.zeros(0, "float32"), ones.copy(), 1.0),
            (devices[0].from_numpy(ones), ones.copy(), 1.0),
            (ones, bytearray(32), 1.0),
            (ones, ones.copy(), "a"),
            (ones, None, 1.0),
        ):
            try:
                f(x, y, alpha, min(len(x), 8) if hasattr(y, "shape") else 0, grid=1, block=8)
            except devmod.ArgumentError as error:
                found.append(str(error))
            else:
                found.append(bytes(np.ascontiguousarray(y)))
        return found

    first, repeated = make_axpy(), make_axpy()
    host = np.ones(8, "float32")
    for _ in range(3):
        repeated(host, host.copy(), 1.0, 8, grid=1, block=8)
    expected = results(first)
    assert results(repeated) == expected
    assert sum(isinstance(each, str) for each in expected) == 7
    # What chooses the device and the stream is asked again.
    register("devmod.device", "toy", lambda: devices)
    monkeypatch.setenv("DEVMOD_DEVICE", "toy:1")
    y, queued = host.copy(), len(devices[1].default_stream.queued)
    repeated(host, y, 1.0, 8, grid=1, block=8)
    assert len(devices[1].default_stream.queued) == queued + 1
    monkeypatch.delenv("DEVMOD_DEVICE")
    stream = devices[0].stream()
    with stream:
        repeated(host, y, 1.0, 8, grid=1, block=8)
    repeated(host, y, 1.0, 8, grid=1, block=8, stream=stream)
    repeated(host, y, 1.0, 8, grid=1, block=8, stream=stream)
    assert len(stream.queued) == 3
    np.testing.assert_array_equal(y, np.full(8, 5))


class Count:
    """A count that may change between two calls."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __index__(self) -> int:
        return self.count


class Refusing:
    """An object whose number cannot be read."""

    def __index__(self) -> int:
        raise ZeroDivisionError


@pytest.mark.row("R34")
def test_a_repeated_call_with_numpy_arrays_checks_the_grid_as_the_first(
    devices: list[toy.ToyDevice],
) -> None:
    first, repeated = make_axpy(), make_axpy()
    x, y = np.ones(8, "float32"), np.ones(8, "float32")
    for grid in (1, (1,), (1, 1)):
        repeated(x, y, 1.0, 8, grid=grid, block=8)
    repeated(x, y, 1.0, 8, threads=8, block=8)
    expected = y.copy()
    for config in (
        {"grid": 1.0, "block": 8},
        {"grid": 1, "block": 8.0},
        {"grid": np.float64(1), "block": 8},
        {"grid": (1.0,), "block": 8},
        {"grid": (1, 1.0), "block": 8},
        {"threads": Fraction(8), "block": 8},
        {"grid": 1, "block": 8, "shared_memory": 0.0},
        {"grid": 1, "block": 8, "shared_memory": np.zeros(2)},
    ):
        texts = []
        for f in (first, repeated):
            texts.append(refusal(devmod.ArgumentError, f, x, y, 1.0, 8, **config))
        assert texts[0] == texts[1]
    with pytest.raises(devmod.ArgumentError, match=r"threads=8\.0"):  # before the arguments
        repeated(x, y, 1.0, Refusing(), threads=8.0, block=8)
    np.testing.assert_array_equal(y, expected)
    for each in (True, np.int64(1), [1], (True, np.int8(1))):  # these are counts
        repeated(x, y, 1.0, 8, grid=each, block=8)
        expected += 1
    np.testing.assert_array_equal(y, expected)


@pytest.mark.row("R34")
def test_a_repeated_call_reads_the_grid_again(devices: list[toy.ToyDevice]) -> None:
    f = make_axpy()
    host = np.ones(8, "float32")
    for x, y in ((host, host.copy()), (devices[0].from_numpy(host), devices[0].from_numpy(host))):
        grid, queued = Count(1), devices[0].default_stream.queued
        queued.clear()
        for grid.count in (1, 1, 2):
            f(x, y, 1.0, 8, grid=grid, block=4)
        assert [shape.grid for shape, _ in queued] == [(1, 1, 1), (1, 1, 1), (2, 1, 1)]


def test_a_tensor_of_another_type_is_converted_as_its_library_does() -> None:
    assert refusal(
        devmod.ArgumentError,
        make_axpy(),
        OldTorch(np.ones(8)),
        np.ones(8, "float32"),
        1.0,
        8,
        grid=1,
        block=8,
    ) == (
        "the toy function 'axpy': argument 1 'x' is an array of float64, and the kernel takes float32; convert it before the call: "
        "array = array.to(torch.float32)"
    )


def test_a_repeated_call_with_numpy_arrays_is_short() -> None:
    f = make_axpy()
    x, y, strided = np.ones(8, "float32"), np.ones(8, "float32"), np.ones((8, 2), "float32")[:, 0]
    for _ in range(2):
        f(x, y, 1.0, 8, grid=1, block=8)
    assert 4 * work(lambda: f(x, y, 1.0, 8, grid=1, block=8)) < work(
        lambda: f(strided, y, 1.0, 8, grid=1, block=8)
    )


def test_a_repeated_call_with_dimensions_in_a_tuple_is_short() -> None:
    f = make_axpy()
    x, y, strided = np.ones(8, "float32"), np.ones(8, "float32"), np.ones((8, 2), "float32")[:, 0]
    config: dict[str, Any] = {"grid": (1,), "block": (8, 1)}
    for _ in range(2):
        f(x, y, 1.0, 8, **config)
    assert 3 * work(lambda: f(x, y, 1.0, 8, **config)) < work(
        lambda: f(strided, y, 1.0, 8, **config)
    )


def test_a_repeated_call_with_one_byte_is_short() -> None:
    f, seen = one(Param("x", "buffer", "int8", "r"))
    x, strided = np.full(1, 7, "int8"), np.ones((2, 2), "int8")[:, 0]
    for _ in range(2):
        f(x, grid=1, block=8)
    assert 3 * work(lambda: f(x, grid=1, block=8)) < work(lambda: f(strided, grid=1, block=8))
    assert len(seen) == 4


def test_a_plain_call_with_numpys_numbers_is_short(devices: list[toy.ToyDevice]) -> None:
    f = make_axpy()
    x, y = (devices[0].from_numpy(np.ones(8, "float32")) for _ in range(2))
    strided = np.ones((8, 2), "float32")[:, 0]
    for _ in range(2):
        f(x, y, 1.0, 8, grid=1, block=8)
    alpha, n = np.float32(1), np.int32(8)
    assert 3 * work(lambda: f(x, y, alpha, n, grid=1, block=8)) < work(
        lambda: f(strided, y, alpha, n, grid=1, block=8)
    )
    _, plain, other = [values for _, values in devices[0].default_stream.queued[:3]]
    assert list(plain) == list(other)


class Exporter:
    """An array of a library that has DLPack alone."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> object:
        return self.array.__dlpack__(**options)


class OldTorch(Exporter):
    """A tensor of PyTorch whose capsules have no flag: NumPy takes them as read-only."""

    def __dlpack__(self, **options: Any) -> object:
        return self.array.__dlpack__()

    def numpy(self) -> Any:
        return self.array


OldTorch.__module__ = "torch"


@pytest.mark.parametrize(
    "wrap",
    [
        memoryview,
        lambda each: array.array("f", each),
        Exporter,
        OldTorch,
        lambda each: each.view(np.memmap),
    ],
)
def test_a_repeated_call_with_host_arrays_of_other_libraries_is_short(wrap: Any) -> None:
    f = make_axpy()
    x, y, strided = np.ones(8, "float32"), np.ones(8, "float32"), np.ones((8, 2), "float32")[:, 0]
    other = wrap(np.ones(8, "float32"))
    written = other if wrap not in (Exporter,) else y  # of NumPy before 2.2 this is read-only
    for one, two in ((other, y), (x, written)):
        for _ in range(2):
            f(one, two, 1.0, 8, grid=1, block=8)
        assert 3 * work(lambda one=one, two=two: f(one, two, 1.0, 8, grid=1, block=8)) < work(
            lambda: f(strided, y, 1.0, 8, grid=1, block=8)
        )
    assert y.tolist() == [6 + 3 * (written is y)] * 8
    assert (
        written is y
        or np.asarray(memoryview(getattr(written, "array", written))).tolist() == [4] * 8
    )


def test_a_repeated_call_refuses_what_the_first_one_refuses() -> None:
    x, y = np.ones(8, "float32"), np.ones(8, "float32")
    repeated = make_axpy()
    repeated(memoryview(x), memoryview(y), 1.0, 8, grid=1, block=8)
    frozen = np.ones(8, "float32")
    frozen.flags.writeable = False
    for one, two in (
        (np.float32(1), y),
        (3, y),
        ([1.0] * 8, y),
        (np.ones(8), y),
        (x, memoryview(frozen)),
        (x, bytes(32)),
    ):
        texts = []
        for f in (make_axpy(), repeated):
            try:
                f(one, two, 1.0, 8, grid=1, block=8)
                texts.append("")
            except devmod.ArgumentError as error:
                texts.append(str(error))
        assert texts[0] == texts[1]
    assert y.tolist() == [2] * 8


@pytest.mark.parametrize(
    ("dtype", "element", "lanes"),
    [
        ("float32x2", "float32", 2),
        ("int16x2", "int16", 2),
        ("uint8x16", "uint8", 16),
        ("complex64x2", "complex64", 2),
        ("float64x8", "float64", 8),
    ],
)
def test_a_repeated_call_refuses_a_part_of_a_vector(dtype: str, element: str, lanes: int) -> None:
    param = Param("x", "buffer", dtype, "rw")
    repeated, seen = one(param)
    for _ in range(2):
        repeated(np.zeros(2 * lanes, element), grid=1, block=1)
    short = np.zeros(2 * lanes - 1, element)
    for f in (one(param)[0], repeated):
        text = refusal(devmod.ArgumentError, f, short, grid=1, block=1)
        assert text.startswith(
            f"the toy function 'f': argument 1 'x' has {short.nbytes} bytes, which is not a whole number of {dtype} of "
        )
    assert len(seen) == 2


@pytest.mark.row("R33")
def test_a_device_that_the_environment_names_is_looked_up_once(
    devices: list[toy.ToyDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = []
    monkeypatch.setattr(
        "devmod_runtime._launch.function.default_device",
        lambda kind: names.append(kind) or devices[len(names) - 1],
    )
    f = make_axpy()
    y, strided = np.ones(8, "float32"), np.ones((8, 2), "float32")[:, 0]
    for value in ("toy:1", "toy:2"):
        monkeypatch.setenv("DEVMOD_DEVICE", value)
        for _ in range(3):
            f(strided, y, 1.0, 8, grid=1, block=8)
    assert names == ["toy", "toy"]
    monkeypatch.delenv("DEVMOD_DEVICE")
    assert f.default_device() is devices[0]


@pytest.mark.row("R34")
def test_arrays_and_streams_of_two_devices(devices: list[toy.ToyDevice]) -> None:
    f = make_axpy()
    x, y = (
        devices[0].from_numpy(np.ones(8, "float32")),
        devices[1].from_numpy(np.ones(8, "float32")),
    )
    assert refusal(devmod.ArgumentError, f, x, y, 1.0, 8, grid=1, block=8) == (
        "the toy function 'axpy': argument 2 'y' is on toy device 1 (toy number 1), and argument 1 'x' is on toy device 0 (toy number 0); "
        "a launch runs on one device: copy the array through the host"
    )
    assert refusal(
        devmod.ArgumentError, f, y, y, 1.0, 8, grid=1, block=8, stream=devices[0].stream()
    ) == (
        "the toy function 'axpy': argument 1 'x' is on toy device 1 (toy number 1), and the stream is on toy device 0 (toy number 0); "
        "a launch runs on one device: copy the array through the host"
    )


@pytest.mark.row("R33")
def test_a_function_is_built_once_for_each_device(devices: list[toy.ToyDevice]) -> None:
    module = toy.module({"axpy": axpy_info()}, {"axpy": axpy})
    f = module["axpy"]
    for device in (devices[1], devices[0], devices[1]):
        y = device.from_numpy(np.ones(8, "float32"))
        f(y, y, 1.0, 8, grid=1, block=8)
        assert y.numpy().tolist() == [2.0] * 8
    x = np.ones(8, "float32")
    f(x, x, 1.0, 8, grid=1, block=8, stream=devices[1].stream())
    assert x.tolist() == [2.0] * 8
    assert module.built == [("axpy", 0), ("axpy", 1)]


@pytest.mark.parametrize(
    ("type_", "dtype", "shape", "good"),
    [
        ("float32x4", "float32", (8, 4), True),
        ("float32x4", "float32", (3,), False),
        ("float32x3", "float32", (2, 4), True),
        ("float32x3", "float32", (2, 3), False),
        ("uint8x3", "uint8", (2, 4), True),
        ("uint8x3", "uint8", (4, 3), False),
        ("float32x4", "V16", (8,), True),
        ("uint8x12", "i4,f4,f4", (8,), True),
        ("uint8x12", "uint8", (24,), True),
        ("uint8x12", "uint8", (23,), False),
        ("uint8x12", "i4", (3,), False),
        ("uint8x12", "i4,f4", (3,), False),
        ("uint8", "V4", (1,), False),
        ("", "float64", (3,), True),
        ("int32", "uint32", (3,), False),
        ("complex64", "complex64", (3,), True),
        ("bool", "bool", (3,), True),
    ],
)
def test_accepted_element_types(type_: str, dtype: str, shape: tuple[int, ...], good: bool) -> None:
    f, seen = one(Param("a", "buffer", type_, "rw"))
    value = np.zeros(shape, dtype)
    if good:
        f(value, grid=1, block=1)
        assert len(seen[0]) == value.nbytes
    else:
        with pytest.raises(devmod.ArgumentError):
            f(value, grid=1, block=1)


@pytest.mark.row("R34")
def test_the_error_for_a_padded_element_has_its_size() -> None:
    f, _ = one(Param("a", "buffer", "float32x3", "rw"))
    assert refusal(devmod.ArgumentError, f, np.zeros((2, 3), "float32"), grid=1, block=1) == (
        "the toy function 'f': argument 1 'a' has vectors of 12 bytes, and each float32x3 of the kernel takes 16: pass an array of float32 of "
        "shape (2, 4), whose last column the kernel does not read"
    )
    assert (
        refusal(devmod.ArgumentError, f, np.zeros(6, "float32"), grid=1, block=1)
        == "the toy function 'f': argument 1 'a' has 24 bytes, which is not a whole number of float32x3 of 16 bytes"
    )
    reads, _ = one(Param("a", "buffer", "float32x3", "r"))
    constant = devmod.const_loader({"a": np.zeros((4, 3), "float32")}, {}).get_global("a")
    with pytest.raises(devmod.ArgumentError, match=r"shape \(4, 4\), whose last column"):
        reads(constant, grid=1, block=1)


@pytest.mark.row("R34")
@pytest.mark.parametrize("on_device", [False, True])
def test_vectors_without_padding_are_refused_at_each_call(
    devices: list[toy.ToyDevice], on_device: bool
) -> None:
    """Four vectors of 12 bytes are three of 16: the kernel would read parts of two vectors, and
    past the end of the array.
    """
    f, seen = one(Param("a", "buffer", "float32x3", "rw"))
    device = devices[0]
    padded, packed = np.zeros((4, 4), "float32"), np.zeros((4, 3), "float32")
    given = device.from_numpy if on_device else np.copy
    for _ in range(3):  # a repeated call checks less
        f(given(padded), grid=1, block=1)
        with pytest.raises(devmod.ArgumentError, match=r"shape \(4, 4\), whose last column"):
            f(given(packed), grid=1, block=1)
    f(given(padded.reshape(-1)), grid=1, block=1)
    assert len(seen) == 4
    if on_device:
        for call in (f, f.bind):
            with pytest.raises(devmod.ArgumentError, match=r"shape \(4, 4\), whose last column"):
                call(device.empty(4, "float32x3"), grid=1, block=1)


@pytest.mark.row("R34")
def test_the_error_for_an_array_of_structs() -> None:
    f, _ = one(Param("a", "buffer", "uint8x8", "rw", align=4))
    for value, text in (
        (np.zeros(8, "float32"), "is an array of float32, and the kernel takes structs of 8 bytes"),
        (np.zeros(7, "uint8"), "has 7 bytes, which is not a whole number of structs of 8 bytes"),
        (None, "is None, and the kernel takes an array of structs of 8 bytes"),
    ):
        assert (
            refusal(devmod.ArgumentError, f, value, grid=1, block=1)
            == f"the toy function 'f': argument 1 'a' {text}"
        )


def test_a_fixed_block_may_be_omitted_and_not_changed(devices: list[toy.ToyDevice]) -> None:
    f = make_axpy(block=(8, 2, 1))
    y = devices[0].from_numpy(np.ones(8, "float32"))
    f(y, y, 1.0, 8, grid=1)
    f(y, y, 1.0, 8, grid=1, block=(8, 2))
    assert [shape.block for shape, _ in devices[0].default_stream.queued] == [(8, 2, 1)] * 2
    for args, keywords in (((), {"grid": 1, "block": 16}), ((1, 16), {})):
        assert (
            refusal(devmod.ArgumentError, f, y, y, 1.0, 8, *args, **keywords)
            == "the toy function 'axpy' is built for blocks of (8, 2, 1) threads, and (16, 1, 1) was given; omit block="
        )


def test_a_kind_without_a_grid(devices: list[toy.ToyDevice]) -> None:
    f, seen = one(Param("s", "scalar", "int8"), launcher=toy.GridlessLauncher)
    f(3)
    assert seen == [b"\x03"]
    assert (
        refusal(devmod.ArgumentError, f, 3, grid=1)
        == "the toy function 'f' has no grid and no threads, since a launch is one call; omit grid="
    )


@pytest.mark.parametrize("kind", ["image", "sampler"])
def test_a_call_with_images_or_samplers_is_refused_where_the_backend_has_none(kind: str) -> None:
    f, _ = one(Param("i", kind))
    assert (
        refusal(devmod.LaunchError, f, 3, grid=1, block=1)
        == f"the toy function 'f' cannot be called: argument 1 'i' is of kind {kind}, and the toy backend does not support such arguments"
    )


def test_limits_of_the_device_are_checked_once_before_anything_is_copied(
    devices: list[toy.ToyDevice],
) -> None:
    y = np.ones(8, "float32")
    assert (
        refusal(devmod.LaunchError, make_axpy(), y, y, 1.0, 8, grid=1, block=65)
        == "max_block is 64, and block=(65, 1, 1) was asked for"
    )
    assert devices[0].allocated == []


def test_errors_number_arguments_without_names() -> None:
    f = toy.module({"f": FunctionInfo("f", ["handle", "float32"])})["f"]
    error = raised(devmod.ArgumentError, f, np.zeros(1), "x", grid=1, block=1)
    assert str(error) == "the toy function 'f': argument 2: 'x' is not a number"
    assert error.argument == "2"
    assert (
        refusal(devmod.ArgumentError, f, grid=1, block=1)
        == "the toy function 'f' takes 2 arguments (buffer, float32); 0 were given"
    )


# -- arrays of other libraries


def test_a_call_with_a_foreign_array_waits(devices: list[toy.ToyDevice]) -> None:
    f = make_axpy()
    x = toy.ForeignArray(devices[0], np.ones(8, "float32"))
    devices[0].default_stream.fault = "waited"  # what a wait reports shows that there was one
    with pytest.raises(devmod.LaunchError, match="waited"):
        f(x, x, 1.0, 8, grid=1, block=8)
    assert toy.floats(x.data).tolist() == [2.0] * 8


def test_a_call_uses_the_stream_of_a_foreign_array(devices: list[toy.ToyDevice]) -> None:
    f = make_axpy()
    stream = devices[0].stream()
    x = toy.ForeignArray(devices[0], np.ones(8, "float32"), stream)
    f(x, x, 1.0, 8, grid=1, block=8)
    assert len(stream.queued) == 1
    assert devices[0].default_stream.queued == []


def test_a_call_with_a_stream_and_a_foreign_array_does_not_wait(
    devices: list[toy.ToyDevice],
) -> None:
    f = make_axpy()
    x = toy.ForeignArray(devices[0], np.ones(8, "float32"))
    stream = devices[0].stream()
    stream.fault = "waited"
    f(x, x, 1.0, 8, grid=1, block=8, stream=stream)
    y = toy.ForeignArray(devices[0], np.ones(8, "float32"), devices[0].stream())
    with pytest.raises(devmod.LaunchError, match="waited"):
        f(y, y, 1.0, 8, grid=1, block=8, stream=stream)


def test_the_error_for_a_foreign_array_names_the_argument(devices: list[toy.ToyDevice]) -> None:
    text = refusal(
        devmod.ArgumentError,
        lambda: make_axpy()(
            toy.ForeignArray(devices[0], np.float32(1)), 1, 1.0, 8, grid=1, block=8
        ),
    )
    assert text == "the toy function 'axpy': argument 1 'x' is a foreign array without dimensions"


def test_an_array_of_another_kind_of_device_is_refused(devices: list[toy.ToyDevice]) -> None:
    other = toy.ToyDevice(0)
    other.kind = "tin"
    assert refusal(
        devmod.ArgumentError, make_axpy(), other.empty(8, "float32"), 1, 1.0, 8, grid=1, block=8
    ) == (
        "the toy function 'axpy': argument 1 'x' is on tin device 0 (toy number 0), and the kernel has code for toy alone: pass a host array, "
        "array.numpy(), or build the kernel for tin too"
    )


# -- bound launches


def test_a_prepared_launch_repeats_and_keeps_its_arrays_alive(devices: list[toy.ToyDevice]) -> None:
    f = make_axpy()
    x, y = (
        devices[0].from_numpy(np.ones(8, "float32")),
        devices[0].from_numpy(np.zeros(8, "float32")),
    )
    launch = f.bind(x, y, 2.0, 8, grid=1, block=8)
    assert isinstance(launch, devmod.Launch)
    held = weakref.ref(x)
    del x
    gc.collect()
    assert held() is not None
    for _ in range(3):
        assert launch() is None  # type: ignore[func-returns-value]
    assert launch.time() == 0.25
    assert y.numpy().tolist() == [8.0] * 8
    assert launch.function is f
    del launch
    gc.collect()
    assert held() is None


def test_bind_refuses_host_arrays(devices: list[toy.ToyDevice]) -> None:
    y = devices[0].empty(8, "float32")
    assert refusal(
        devmod.ArgumentError, make_axpy().bind, np.ones(8, "float32"), y, 2.0, 8, grid=1, block=8
    ) == (
        "the toy function 'axpy': argument 1 'x' is in the host's memory, and bind takes device arrays: pass device.from_numpy(array)"
    )


def test_a_prepared_launch_of_an_empty_grid(devices: list[toy.ToyDevice]) -> None:
    y = devices[0].empty(8, "float32")
    launch = make_axpy().bind(y, y, 2.0, 8, grid=0, block=8)
    launch()
    assert launch.time() == 0.0
    assert devices[0].default_stream.queued == []


def test_a_plain_call_keeps_nothing_alive(devices: list[toy.ToyDevice]) -> None:
    f = make_axpy()
    y = devices[0].from_numpy(np.ones(8, "float32"))
    for _ in range(3):
        f(y, y, 1.0, 8, grid=1, block=8)
    gone = weakref.ref(y)
    del y
    devices[0].default_stream.queued.clear()
    gc.collect()
    assert gone() is None


class User:
    """What has a function, and what that function has."""

    function: devmod.Function


@pytest.mark.parametrize("calls", range(5))
def test_one_collection_frees_a_function_in_a_cycle(
    calls: int, devices: list[toy.ToyDevice]
) -> None:
    f = make_axpy()
    y = devices[0].from_numpy(np.ones(8, "float32"))
    for _ in range(calls):
        f(y, y, 1.0, 8, grid=1, block=8)
    user = User()
    user.function, f.user = f, user  # type: ignore[attr-defined]
    del f, user
    gc.collect()
    # The collector clears weak references before it finds out what finalizers keep.
    assert not any(type(each) is User for each in gc.get_objects())


# -- functions of a module


@pytest.mark.row("R32")
def test_sixty_four_threads_build_once() -> None:
    module = toy.module({"axpy": axpy_info()}, {"axpy": axpy})
    start = threading.Barrier(64)
    found: list[devmod.Function] = []

    def ask() -> None:
        start.wait()
        found.append(module["axpy"])

    threads = [threading.Thread(target=ask) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 64
    assert len(set(map(id, found))) == 1
    assert module.built == [("axpy", 0)]


def test_specialize_returns_another_function(devices: list[toy.ToyDevice]) -> None:
    def run(shape: Any, y: bytearray, add: int = 1) -> None:
        toy.floats(y)[:] += add

    info = FunctionInfo("f", ["handle"], TAGS)
    f = toy.module({"f": info}, {"f": run})["f"]
    y = devices[0].from_numpy(np.zeros(2, "float32"))
    f.specialize(add=10)(y, grid=1, block=1)
    f(y, grid=1, block=1)
    assert y.numpy().tolist() == [11.0, 11.0]


def test_repr_of_a_function() -> None:
    f = make_axpy()
    assert repr(f) == "<Function toy axpy(x, y, alpha, n)>"
    assert (f.name, f.info) == ("axpy", axpy_info())


@pytest.mark.row("R23", "R25")
def test_an_unknown_name_needs_no_device() -> None:
    module = toy.module({"axpy": axpy_info()})
    assert (
        refusal(devmod.FunctionNotFoundError, module.get_function, "axpi")
        == "the toy module has no function 'axpi'; it has: 'axpy'. Did you mean 'axpy'?"
    )
    assert module.built == []


# -- for backends


def test_block_packer_packs_scalars_into_blocks() -> None:
    interface = Interface(
        [
            Param("a", "buffer", "float32", "r", (0, 0)),
            Param("n", "scalar", "int32", at=(1, 4)),
            Param("v", "scalar", "float32x3", at=(0, 0)),
            Param("w", "scalar", "float32", at=(0, 12)),
            Param("u", "uniform", "uint8x4", at=(0, 2)),
        ],
        [devmod.Block("push", 16), devmod.Block((0, 1), 8)],
    )
    pack = block_packer(interface)
    assert pack(["memory", b"nnnn", b"vvvvvvvvvvvv", b"wwww", b"uuuu"]) == (
        b"vvvvvvvvvvvvwwww",
        b"\0\0\0\0nnnn",
    )
    text = refusal(
        devmod.FormatError,
        block_packer,
        Interface([Param("n", "scalar", "int32", at=(0, 16))], [devmod.Block("push", 16)]),
    )
    with pytest.raises(
        devmod.FormatError,
        match=r"^argument 1 is in block 1 \(counted from 0\), and the interface has 1$",
    ):
        block_packer(
            Interface([Param("n", "scalar", "int32", at=(1, 0))], [devmod.Block("push", 16)])
        )
    assert text == "argument 1 is at byte 16 of a block of 16 bytes"


@pytest.mark.row("R34")
def test_an_array_smaller_than_the_kernel_declares_is_refused_on_both_paths(
    devices: list[toy.ToyDevice],
) -> None:
    f, seen = one(Param("x", "buffer", "uint32", size=64))
    f(devices[0].empty(16, "uint32"), grid=1, block=1)
    f(np.zeros(17, "uint32"), grid=1, block=1)
    for value in (
        devices[0].empty(15, "uint32"),
        np.zeros(15, "uint32"),
        devices[0].empty(0, "uint32"),
    ):
        assert refusal(devmod.ArgumentError, f, value, grid=1, block=1) == (
            f"the toy function 'f': argument 1 'x' has {value.nbytes} bytes, and the kernel declares 64; pass an array of 64 bytes or more"
        )
    assert len(seen) == 2


@pytest.mark.row("R34")
def test_a_prepared_launch_takes_no_arguments(devices: list[toy.ToyDevice]) -> None:
    f, seen = one(Param("x", "buffer", "uint32"))
    launch = f.bind(devices[0].empty(1, "uint32"), grid=1, block=1)
    empty = f.bind(devices[0].empty(1, "uint32"), grid=0, block=1)
    launch()
    for call in (lambda: launch(1), lambda: launch(grid=1), lambda: empty(1)):
        assert refusal(devmod.ArgumentError, call) == (
            "a prepared launch of the toy function 'f' takes no arguments: bind received them; to launch with others, call the "
            "function itself, or bind it again"
        )
    assert len(seen) == 1
