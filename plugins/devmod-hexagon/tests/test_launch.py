"""Calls of Hexagon functions: the C ABI, results, streams, batches, and kernels that fault or do
not end.
"""

from __future__ import annotations

import gc
import random
import re
from contextlib import nullcontext
from typing import Any
from weakref import ref

import numpy as np
import pytest
from backend_checks import (
    check_error,
    make_arrays,
    run_in_threads,
)
from each_case import refusal
from hexagon_kernels import module, new_module

import devmod

_C_TYPES = {
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "uint16": "uint16_t",
    "int32": "int32_t",
    "uint32": "uint32_t",
    "int64": "int64_t",
    "uint64": "uint64_t",
    "float32": "float",
    "float64": "double",
}
#: Structs with the sizes and alignments that the ABI distinguishes.
_STRUCTS = {
    "Three": ("uint8_t a, b, c;", {"a": 1, "b": 2, "c": 3}),
    "Five": ("uint8_t a[5];", None),
    "Pair": ("int32_t a; float b;", {"a": -5, "b": 2.5}),
    "Wide": ("double a;", {"a": 1.25}),
    "Large": ("int32_t a; double b; int16_t c;", {"a": 7, "b": 0.5, "c": -9}),
}


def _value(rng: random.Random, dtype: str) -> Any:
    if dtype.startswith("float"):
        return rng.randint(-1000, 1000) / 8
    info = np.iinfo(dtype)
    return rng.choice([info.min, info.max, rng.randint(int(info.min), int(info.max))])


@pytest.fixture(scope="module")
def functions() -> tuple[list[list[str]], Any]:
    """Functions of 1 to 16 arguments of random types; each writes every argument to its place in
    `out`.
    """
    rng = random.Random(12)
    names = [*_C_TYPES, *_STRUCTS]
    signatures = [[rng.choice(names) for _ in range(rng.randint(1, 16))] for _ in range(60)]
    lines = ["#include <stdint.h>", "#include <string.h>"]
    lines += [f"typedef struct {{ {body} }} {name};" for name, (body, _) in _STRUCTS.items()]
    for number, types in enumerate(signatures):
        parameters = ", ".join(
            f"{_C_TYPES.get(each, each)} v{place}" for place, each in enumerate(types)
        )
        copies = " ".join(
            f"memcpy(out + {32 * place}, &v{place}, sizeof v{place});"
            for place in range(len(types))
        )
        lines.append(f"void f{number}(uint8_t *out, {parameters}) {{ {copies} }}")
    return signatures, module("\n".join(lines))


@pytest.mark.row("R34")
@pytest.mark.parametrize("number", range(60))
def test_arguments_are_placed_by_the_c_abi(device: Any, functions: Any, number: int) -> None:
    signatures, loaded = functions
    rng = random.Random(number)
    out, values, expected = np.zeros(32 * 16, "uint8"), [], np.zeros((16, 32), "uint8")
    for place, type_ in enumerate(signatures[number]):
        if type_ in _C_TYPES:
            value = _value(rng, type_)
            data = np.array(value, type_).tobytes()
        else:
            value = _STRUCTS[type_][1] or bytes(range(5))
            layout = np.dtype(
                {
                    "Three": "u1,u1,u1",
                    "Five": "5u1",
                    "Pair": "i4,f4",
                    "Wide": [("a", "f8")],
                    "Large": "i4,V4,f8,i2,V6",
                }[type_]
            )
            data = _struct_bytes(type_, value, layout)
        values.append(value)
        expected[place, : len(data)] = np.frombuffer(data, "uint8")
    loaded[f"f{number}"](out, *values)
    actual = out.reshape(16, 32)
    if "Large" in signatures[number]:  # its padding is undefined
        for place, type_ in enumerate(signatures[number]):
            if type_ == "Large":
                actual[place, 4:8] = actual[place, 18:24] = 0
    np.testing.assert_array_equal(actual, expected)


def _struct_bytes(name: str, value: Any, layout: np.dtype[Any]) -> bytes:
    if isinstance(value, bytes):
        return value
    result = np.zeros((), layout)
    fields = [field for field in layout.names or () if layout[field].kind != "V"]  # V is padding
    for field, each in zip(fields, value.values(), strict=True):
        result[field] = each
    return result.tobytes()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *(
            ("int8", -128),
            ("uint8", 255),
            ("int16", -32768),
            ("uint16", 65535),
            ("int32", -(1 << 31)),
            ("uint32", (1 << 32) - 1),
        ),
        *(
            ("int64", -(1 << 63)),
            ("uint64", (1 << 64) - 1),
            ("float32", -0.625),
            ("float64", 1e300),
            ("bool", True),
        ),
    ],
)
def test_a_call_returns_what_the_function_returns(device: Any, dtype: str, value: Any) -> None:
    lines = ["#include <stdint.h>"]
    lines += [
        f"{ctype} {name}(const {ctype} *x) {{ return x[0]; }}"
        for name, ctype in (*_C_TYPES.items(), ("bool", "_Bool"))
    ]
    function = module(
        "\n".join(lines)
        .replace(" float32(", " f32(")
        .replace(" float64(", " f64(")
        .replace(" bool(", " b(")
    )
    name = {"float32": "f32", "float64": "f64", "bool": "b"}.get(dtype, dtype)
    x = np.array([value], dtype)
    result = function[name](x)
    assert result == value
    assert type(result) is type(value)
    assert function[name](device.from_numpy(x)) == value


def test_a_batch_runs_in_order_and_a_read_waits_for_it(device: Any) -> None:
    add = module()["add"]
    a, b, c = make_arrays(device)
    launch = add.bind(a, b, a, 64)
    with device.default_stream.batch():
        for _ in range(5000):
            launch()
        assert a.numpy()[0] == 5000
        launch()
        add(a, b, c, 64)
    np.testing.assert_array_equal(c.numpy(), np.arange(64) + 5002)

    def fail() -> None:
        with device.default_stream.batch():
            launch()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert a.numpy()[0] == 5002


@pytest.mark.row("R37")
def test_threads_that_share_a_stream_with_batches_lose_no_launch(device: Any) -> None:
    """The launches of each thread run, in its order: they do not commute."""
    step = module("void step(unsigned *x, unsigned a) { x[0] = 3 * x[0] + a; }")["step"]
    stream = device.default_stream

    def work(number: int) -> bool:
        x, expected = device.zeros(1, "uint32"), 0
        launch = step.bind(x, 7)
        for value in range(3000):
            with stream.batch() if number % 2 else nullcontext():
                step(x, value)
                launch()
            expected = (9 * expected + 3 * value + 7) & 0xFFFFFFFF
        return bool(x.numpy()[0] == expected)

    assert run_in_threads(work, range(4)) == [True] * 4


def test_launches_without_a_wait_may_fill_the_connection(device: Any) -> None:
    """The replies to 400,000 launches are larger than the pipe, and so are the launches."""
    x = device.zeros(1, "int32")
    launch = module("void add(int *x, int a) { x[0] += a; }")["add"].bind(x, 2)
    for _ in range(100):
        with device.default_stream.batch():
            for _ in range(4000):
                launch()
    assert x.numpy()[0] == 800_000


def test_a_batch_may_be_larger_than_the_buffer_of_the_runner(device: Any) -> None:
    """Calls with and without a stack, of which some lie across the ends of the runner's buffer of
    64 KiB.
    """
    source = """
    void step(int *x, int a) { x[0] = 3 * x[0] + a; }
    void many(int *x, int a, int b, int c, int d, int e, int f, int g) { x[0] = 5 * x[0] + a + b + c + d + e + f + g; }
    """
    loaded = module(source)
    x, expected = device.zeros(1, "int32"), 0
    launches = [loaded["step"].bind(x, 7), loaded["many"].bind(x, 1, 2, 3, 4, 5, 6, 7)]
    with device.default_stream.batch():
        for number in range(5000):
            launches[number % 7 == 3]()
            expected = (5 * expected + 28 if number % 7 == 3 else 3 * expected + 7) & 0xFFFFFFFF
    assert x.numpy().view("uint32")[0] == expected


_GRID = """
void mark(int *out, int n, unsigned columns, unsigned rows)
{
    for (unsigned y = 0; y < rows; y++)
        for (unsigned x = 0; x < columns * 4; x++)
            out[y * n + x] = (int)(10 * y + x);
}
"""


@pytest.mark.row("R35")
def test_a_function_with_launch_tags_takes_the_numbers_of_blocks(device: Any) -> None:
    params = [devmod.Param("out", "buffer", "int32", "rw"), devmod.Param("n", "scalar", "int32")]
    info = devmod.FunctionInfo(
        "mark",
        ["handle", "int32"],
        ["blockIdx.x", "blockIdx.y"],
        interface=devmod.Interface(params, block=(4, 1, 1)),
    )
    payload = module(_GRID).payload()[1]
    mark = devmod.create("hexagon", payload, "so", {"mark": info})["mark"]
    expected = np.zeros((3, 9), "int32")
    expected[:2, :8] = 10 * np.arange(2)[:, None] + np.arange(8)
    for call in (
        lambda out: mark(out, 9, threads=(7, 2)),
        lambda out: mark(out, 9, grid=(2, 2)),
        lambda out: mark(out, 9, 2, 2),
        lambda out: _launch(mark, device, out),
    ):
        out = np.zeros((3, 9), "int32")
        call(out)
        assert out.tolist() == expected.tolist()
    mark(out, 9, grid=(2, 0))
    check_error(
        devmod.LaunchError,
        lambda: mark(out, 9, grid=2**32),
        "the hexagon function 'mark' takes at most 4294967295 blocks in a dimension, and 4294967296 were requested; launch in several "
        "parts, or let the kernel index more dimensions",
    )


def _launch(function: Any, device: Any, out: Any) -> None:
    array = device.from_numpy(out)
    function.bind(array, 9, threads=(8, 2))()
    out[...] = array.numpy()


def test_the_error_of_a_fault_names_the_place_and_the_next_call_works(device: Any) -> None:
    loaded = new_module()
    array = device.zeros(1, "int32")
    loaded["spoil"](array)  # queued
    text = refusal(devmod.LaunchError, device.synchronize)
    place = r"a kernel has ended its runner: SIGSEGV at address 0x00000010 in spoil\+\d+"
    assert re.fullmatch(
        rf"{re.escape(repr(device))}: {place}\. The next call starts a new runner; arrays of the old one are lost",
        text,
    )
    for use in (
        array.numpy,
        lambda: loaded["spoil"](array),
        lambda: array.copy_from(np.ones(1, "int32")),
    ):
        assert re.fullmatch(
            rf"an array of {re.escape(repr(device))} cannot be used: its runner has ended \({place}\), and its contents are lost\. "
            "Make the array again; the device works in a new runner",
            refusal(devmod.LaunchError, use),
        )
    # What a copy gets if the runner ends between its wait and its bytes.
    with pytest.raises(devmod.LaunchError, match=place):
        array.memory.runner.view(array.memory)
    x = np.arange(4, dtype="float32")
    y = np.zeros(4, "float32")
    loaded["add"](x, x, y, 4)
    np.testing.assert_array_equal(y, 2 * x)
    assert loaded["count_calls"]() == 1  # the new runner has loaded the module again


def test_a_finalizer_in_the_thread_of_the_device_does_not_hang(device: Any) -> None:
    device.runner().queue_clock(
        lambda values: device.zeros(1, "int32")
    )  # the garbage collector may run in any thread
    check_error(
        devmod.LaunchError,
        device.synchronize,
        f"a finalizer cannot wait for {device}: it runs in the thread of the device",
    )
    assert device.zeros(1, "int32").numpy() == [0]


def test_nothing_keeps_a_runner_that_has_ended(device: Any) -> None:
    loaded = new_module()
    with pytest.raises(devmod.LaunchError):
        loaded["spoil"](np.zeros(1, "int32"))
    ended = ref(
        device.runner()
    )  # a new one: kernels of other tests keep theirs until they are called again
    with pytest.raises(devmod.LaunchError):
        loaded["spoil"](np.zeros(1, "int32"))
    loaded["spoil"].on(device)
    assert loaded["count_calls"]() == 0
    with pytest.raises(devmod.LaunchError):
        loaded["spoil"](np.zeros(1, "int32"))
    gc.collect()
    assert ended() is None


def test_a_prepared_launch_of_a_lost_runner_raises(device: Any) -> None:
    loaded = new_module()
    a, b, c = make_arrays(device)
    launch = loaded["add"].bind(a, b, c, 64)
    with pytest.raises(devmod.LaunchError):
        loaded["spoil"](np.zeros(1, "int32"))
    with pytest.raises(devmod.LaunchError, match="its contents are lost"):
        launch()


def test_a_kernel_that_does_not_end_is_stopped(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_HEXAGON_TIMEOUT", "0.5")
    check_error(
        devmod.LaunchError,
        lambda: new_module()["spin"](np.zeros(1, "int32")),
        f"{device}: a kernel did not end within 0.5 seconds (DEVMOD_HEXAGON_TIMEOUT), so its runner was stopped. The next call starts a "
        "new runner; arrays of the old one are lost",
    )
    monkeypatch.setenv("DEVMOD_HEXAGON_TIMEOUT", "soon")
    check_error(
        devmod.LaunchError,
        lambda: new_module()["add"](*[np.zeros(1, "float32") for _ in range(3)], 1),
        "DEVMOD_HEXAGON_TIMEOUT is 'soon': expected a number of seconds above 0",
    )
    monkeypatch.delenv("DEVMOD_HEXAGON_TIMEOUT")
    assert device.zeros(1, "int32").numpy() == [0]


def test_hvx(device: Any) -> None:
    source = """
    #include <hexagon_types.h>
    #include <hexagon_protos.h>
    void add_saturated(const unsigned char *a, const unsigned char *b, unsigned char *out, int n)
    {
        const HVX_Vector *x = (const HVX_Vector *)a, *y = (const HVX_Vector *)b;
        for (int i = 0; i < n / 128; i++)
            ((HVX_Vector *)out)[i] = Q6_Vub_vadd_VubVub_sat(x[i], y[i]);
    }
    """
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 256, (2, 1024), "uint8")
    out = np.zeros(1024, "uint8")
    module(source, "C", "-mhvx=v66")["add_saturated"](a, b, out, 1024)
    np.testing.assert_array_equal(out, np.minimum(a.astype(int) + b, 255))
