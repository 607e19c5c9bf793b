"""Launching: arguments at their indices, limits, streams, events, errors. `device` is the GPU of a
Mac or the double.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import metal_double
import numpy as np
import pytest
from backend_checks import host_arrays, run_in_threads
from each_case import refusal
from metal_kernels import ADD, CONSTANTS, adder, kernel

import devmod
from devmod import Block, Interface, Param

TAKES = "#include <metal_stdlib>\nusing namespace metal;\nkernel void takes({}) {{}}"


def launches(double: Any) -> list[Any]:
    return [call for call in double.calls if call[0] == "launch"]


# -- arguments


@pytest.mark.row("R34")
def test_every_argument_is_set_at_its_index(double: Any) -> None:
    f = kernel(
        TAKES.format(
            "device float *out [[buffer(2)]], constant int &n [[buffer(0)]], constant float4 &v [[buffer(5)]], "
            "threadgroup float *t [[threadgroup(1)]], threadgroup float *u [[threadgroup(0)]], constant bool &b [[buffer(1)]]"
        ),
        "takes",
        [
            Param("n", "scalar", "int32", at=0),
            Param("b", "scalar", "bool", at=1),
            Param("out", "buffer", "float32", "rw", 2),
            Param("v", "scalar", "float32x4", at=5),
            Param("u", "local", "float32", at=0),
            Param("t", "local", "float32", at=1),
        ],
    )
    out = np.zeros(2, "float32")
    metal_double.taken.clear()
    f(7, True, out, (1, 2, 3, 4), devmod.Local(4), devmod.Local(40), grid=1, block=1)
    assert metal_double.taken == [
        {"n": 7, "b": True, "out": [0, 0], "v": [1, 2, 3, 4], "u": 16, "t": 48, "constants": {}}
    ]
    ((_, _, name, buffers, values, local, grid, block),) = launches(double)
    assert (name, [index for index, *_ in buffers], local, grid, block) == (
        "takes",
        [2],
        ((0, 16), (1, 48)),
        (1, 1, 1),
        (1, 1, 1),
    )
    assert values == (
        (0, b"\7\0\0\0"),
        (1, b"\1"),
        (5, np.array([1, 2, 3, 4], "float32").tobytes()),
    )


def test_large_values_are_copied_to_a_buffer(double: Any) -> None:
    f = kernel(
        TAKES.format("constant uchar *s [[buffer(0)]], device float *x [[buffer(1)]]"),
        "takes",
        [
            Param("s", "scalar", "uint8x5000", at=0, align=1),
            Param("x", "buffer", "float32", "rw", 1),
        ],
    )
    x = np.zeros(1, "float32")
    metal_double.taken.clear()
    f(bytes(range(250)) * 20, x, grid=1, block=1)
    assert metal_double.taken[0]["s"] == [*range(250)] * 20


@pytest.mark.row("R34", "R35")
def test_scalars_of_tvm_are_one_struct_after_the_buffers(double: Any) -> None:
    source = TAKES.format(
        "device float *A [[buffer(0)]], device int *B [[buffer(1)]], constant ulong *args [[buffer(2)]]"
    )
    info = devmod.FunctionInfo(
        "takes", ["handle", "int32", "float32", "handle", "int64"], ["blockIdx.x", "threadIdx.x"]
    )
    f = devmod.create("metal", {"takes": source.encode()}, "metal", {"takes": info})["takes"]
    f(np.zeros(1, "float32"), 5, 2.0, np.zeros(1, "int32"), -1, 1, 1)
    ((_, _, _, buffers, values, _, _, _),) = launches(double)
    assert [index for index, *_ in buffers] == [0, 1]
    assert values == ((2, b"\5\0\0\0\0\0\0\0" + b"\0\0\0@\0\0\0\0" + b"\xff" * 8),)


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("params", "problem"),
    [
        (
            [Param("x", "buffer", "", "rw", 0), Param("y", "buffer", "", "rw", 0)],
            "argument 2 has the index of argument 1",
        ),
        (
            [Param("x", "buffer", "", "rw", 0), Param("n", "scalar", "int32")],
            "argument 2 has the index None",
        ),
        ([Param("x", "buffer", "", "rw", (0, 1))], "argument 1 has the index (0, 1)"),
        ([Param("x", "buffer", "", "rw", 31)], "argument 1 has the index 31"),
        ([Param("n", "scalar", "int32", at=1 << 40)], "argument 1 has the index 1099511627776"),
        ([Param("t", "local", "float32", at=31)], "argument 1 has the index 31"),
        ([Param("n", "scalar", "int32", at=(0, 0)), Block(31, 8)], "a block of scalars at 31"),
        (
            [Param("n", "scalar", "int32", at=(0, 0)), Block((0, 1), 8)],
            "a block of scalars at (0, 1)",
        ),
        (
            [Param("n", "scalar", "int32", at=(0, 0)), Param("x", "buffer", at=2), Block(2, 8)],
            "a block of scalars at 2",
        ),
        (
            [
                Param("n", "scalar", "int32", at=(0, 0)),
                Param("m", "scalar", "int32", at=(1, 0)),
                Block(2, 8),
                Block(2, 8),
            ],
            "a block of scalars at 2",
        ),
    ],
)
def test_an_interface_with_invalid_indices_is_refused(
    params: list[Param | Block], problem: str, double: Any
) -> None:
    blocks = [each for each in params if isinstance(each, Block)]
    interface = Interface([each for each in params if isinstance(each, Param)], blocks)
    source = TAKES.format("device float *x").encode()
    types = [
        "handle" if each.kind in ("buffer", "local") else each.type for each in interface.params
    ]
    module = devmod.create(
        "metal",
        {"takes": source},
        "metal",
        {"takes": devmod.FunctionInfo("takes", types, (), (), interface)},
    )
    text = refusal(devmod.FormatError, module.get_function, "takes")
    start = f"the metal function 'takes'{' has' if blocks else ':'} {problem}"
    assert text == f"{start} in the payload's interface; expected a unique index from 0 to 30"
    assert "launch" not in double.names()


# -- limits


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (
            {"grid": 1, "block": 2000},
            "its maxThreadsPerThreadgroup.width is 1024, got block=(2000, 1, 1)",
        ),
        (
            {"grid": 1, "block": (1, 1, 65)},
            "its maxThreadsPerThreadgroup.depth is 64, got block=(1, 1, 65)",
        ),
        (
            {"grid": 1, "block": (64, 32)},
            "the pipeline's maxTotalThreadsPerThreadgroup is 256, and block=(64, 32, 1) has 2048 threads",
        ),
        (
            {"grid": 1 << 26, "block": 64},
            "the index of a thread in a grid has 32 bits, and grid=(67108864, 1, 1) of block=(64, 1, 1) has more threads",
        ),
    ],
)
def test_errors_name_the_limit(shape: dict[str, Any], text: str, double: Any) -> None:
    f = kernel(
        "[[max_total_threads_per_threadgroup(256)]] kernel void twice(device float *x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }",
        "twice",
        [Param("x", "buffer", "float32", "rw", 0)],
    )
    assert (
        refusal(devmod.LaunchError, f, np.zeros(64, "float32"), **shape)
        == f"the metal function 'twice' cannot be launched on metal device 0 (Double GPU): {text}"
    )
    assert launches(double) == []


def test_the_limit_of_threadgroup_memory(double: Any) -> None:
    f = kernel(
        "kernel void takes(threadgroup float *t [[threadgroup(0)]]) { threadgroup float own[100]; own[0] = t[0]; }",
        "takes",
        [Param("t", "local", "float32", at=0)],
    )
    f(devmod.Local(32000), grid=1, block=1)
    assert refusal(devmod.LaunchError, f, devmod.Local(32600), grid=1, block=1) == (
        "the metal function 'takes' cannot be launched on metal device 0 (Double GPU): its maxThreadgroupMemoryLength is 32768, and "
        "devmod.Local arguments and the kernel's own memory need 33008 bytes"
    )


@pytest.mark.parametrize("shared_memory", [16])
def test_dynamic_shared_memory_is_an_argument(shared_memory: int, double: Any) -> None:
    with pytest.raises(devmod.ArgumentError, match=r"pass devmod.Local\(nbytes\)$"):
        adder()["twice"](np.zeros(4, "float32"), grid=1, block=4, shared_memory=shared_memory)


# -- memory


def test_a_view_keeps_the_buffer_alive(double: Any) -> None:
    a: Any = devmod.device("metal").from_numpy(np.arange(4, dtype="float32"))
    buffer = weakref.ref(a.memory.handle)
    view = np.from_dlpack(a, device="cpu", copy=False)
    del a
    gc.collect()
    assert buffer() is not None
    del view
    gc.collect()
    assert buffer() is None


# -- order


@pytest.mark.row("R34")
def test_a_copy_waits_for_earlier_launches(double: Any) -> None:
    device = devmod.device("metal")
    a = device.from_numpy(np.ones(4, "float32"))
    twice = adder()["twice"]
    for _ in range(100):
        twice(a, grid=1, block=4)
        a_launch = launches(double)[-1]
    assert a_launch[1].commands, "the double runs commands only when the host waits"
    device.write(a.memory, memoryview(np.full(4, 3, "float32")).cast("B"), device.default_stream)
    twice(a, grid=1, block=4)
    assert a.numpy().tolist() == [6] * 4
    assert "wait" in double.names()


@pytest.mark.row("R35")
def test_an_open_block_has_rows_of_the_execution_width(double: Any) -> None:
    source = TAKES.format("device float *x [[buffer(0)]]")
    param = Param("x", "buffer", "float32", "rw", 0)
    info = devmod.FunctionInfo("takes", ["handle"], (), (), Interface([param], open_block=True))
    f = devmod.create("metal", {"takes": source.encode()}, "metal", {"takes": info})["takes"]
    assert [
        f.launch_config(threads=threads).block for threads in (1, 100, 100_000, (100, 100))
    ] == [
        (1, 1, 1),
        (128, 1, 1),
        (256, 1, 1),
        (32, 8, 1),
    ]
    f(np.zeros(4, "float32"), threads=1000)
    assert launches(double)[-1][-2:] == ((4, 1, 1), (256, 1, 1))


def test_a_local_default_is_rounded_to_the_step_of_metal(double: Any) -> None:
    param = Param("t", "local", "float32", at=0, default=devmod.Local(per_thread=4))
    f = kernel(TAKES.format("threadgroup float *t [[threadgroup(0)]]"), "takes", [param])
    f(grid=1, block=5)
    f(grid=1, block=5, t=devmod.Local(40))
    assert refusal(devmod.LaunchError, f, grid=1, block=64, t=devmod.Local(per_thread=513)) == (
        "the metal function 'takes' cannot be launched on metal device 0 (Double GPU): its maxThreadgroupMemoryLength is 32768, and "
        "devmod.Local arguments and the kernel's own memory need 32832 bytes"
    )
    assert [call[-3] for call in launches(double)] == [((0, 32),), ((0, 48),)]


def test_the_time_of_an_event_is_the_end_of_all_commands_before_it(
    double: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch and the copy of an event have no memory in common, so a GPU may run them at once."""
    device = devmod.device("metal")
    a = device.from_numpy(np.ones(4, "float32"))
    before = device.default_stream.record()
    before.synchronize()
    adder()["twice"](a, grid=1, block=4)
    after = device.default_stream.record()
    ends = dict(zip(after.commands, (9.0, 8.0), strict=True))
    monkeypatch.setattr(double, "times", lambda commands: (0.0, ends.get(commands, 2.0)))
    assert after.elapsed(before) == 7.0


def test_waiting_for_a_stream_does_not_block_the_host(double: Any) -> None:
    device = devmod.device("metal")
    first, second = device.stream(), device.stream()
    a = device.from_numpy(np.ones(4, "float32"))
    twice = adder()["twice"]
    double.calls.clear()
    twice(a, grid=1, block=4, stream=first)
    second.wait(first.record())
    twice(a, grid=1, block=4, stream=second)
    assert [
        name for name in double.names() if name not in ("compile", "pipeline", "event", "buffer")
    ] == [
        "launch",
        "signal",
        "wait_for",
        "launch",
    ]
    assert "wait" not in double.names()
    assert a.numpy().tolist() == [4] * 4


def test_a_copy_waits_for_launches_in_deleted_streams(double: Any) -> None:
    device = devmod.device("metal")
    a = device.from_numpy(np.ones(4, "float32"))
    adder()["twice"](a, grid=1, block=4, stream=device.stream())
    assert a.numpy().tolist() == [2] * 4


# -- faults


def failing() -> Any:
    return kernel(
        "kernel void fails(device float *x) { x[1 << 30] = 1; }",
        "fails",
        [Param("x", "buffer", "float32", "rw", 0)],
    )


def test_a_fault_is_raised_once_by_the_first_wait(double: Any) -> None:
    device = devmod.device("metal")
    a = device.from_numpy(np.ones(4, "float32"))
    f = failing()
    text = "metal device 0 (Double GPU) reports a fault of a launch: Caused GPU Address Fault Error"
    f(a, grid=1, block=1)
    adder()["twice"](a, grid=1, block=4)
    assert refusal(devmod.LaunchError, device.synchronize) == text
    device.synchronize()
    assert refusal(devmod.LaunchError, f, np.ones(4, "float32"), grid=1, block=1) == text
    assert refusal(devmod.LaunchError, f.bind(a, grid=1, block=1).time) == text
    device.synchronize()
    stream = device.stream()
    f(a, grid=1, block=1, stream=stream)
    assert refusal(devmod.LaunchError, stream.record().synchronize) == text


def test_a_fault_among_many_launches_is_raised(double: Any) -> None:
    device = devmod.device("metal")
    a = device.from_numpy(np.zeros(4, "float32"))
    twice, f = adder()["twice"], failing()
    f(a, grid=1, block=1)
    for number in range(200):
        twice(a, grid=1, block=4)
        if number == 100:  # the device runs while the host queues
            queue = launches(double)[-1][1]
            double._run(queue.commands[-1])
    with pytest.raises(devmod.LaunchError, match="Caused GPU Address Fault Error"):
        device.synchronize()


def test_errors_of_metal_are_launch_errors(double: Any) -> None:
    device = devmod.device("metal")
    add, a = adder()["twice"], device.from_numpy(np.ones(4, "float32"))
    double.refuse = {
        "launch": "no command buffer",
        "queue": "no command queue",
        "event": "no event",
    }
    for call, text in (
        (
            lambda: add(a, grid=1, block=4),
            "metal device 0 (Double GPU) refused a launch of the metal function 'twice': no command buffer",
        ),
        (device.stream, "metal device 0 (Double GPU) gives no command queue: no command queue"),
        (device.default_stream.record, "metal device 0 (Double GPU) gives no event: no event"),
    ):
        assert refusal(devmod.LaunchError, call) == text


# -- constants


def test_function_constants(device: Any) -> None:
    a, b, c = host_arrays(4)
    module = devmod.compile(CONSTANTS, "metal")
    add = module["add"]
    with pytest.raises(
        devmod.LaunchError,
        match=r"function constants without a value: 'SCALE', 'OFFSET'\. Set them: f\.specialize\(SCALE=…\)\.",
    ):
        add(a, b, c, 4, grid=1, block=4)
    add.specialize(SCALE=3)(a, b, c, 4, grid=1, block=4)
    np.testing.assert_array_equal(c, 3 * (a + b))
    add.specialize(SCALE=3).specialize(**{"3": 5})(a, b, c, 4, grid=1, block=4)
    np.testing.assert_array_equal(c, 5 * (a + b))


def test_a_required_block_that_depends_on_a_define(device: Any) -> None:
    source = (
        "#ifndef FACTOR\n#define FACTOR 4\n#endif\n[[required_threads_per_threadgroup(FACTOR)]] "
        "kernel void scale(device float *x, uint i [[thread_position_in_grid]]) { x[i] *= FACTOR; }"
    )
    scale = devmod.compile(source, "metal")["scale"]
    assert scale.block == (4, 1, 1)
    specialized = scale.specialize(FACTOR=2)
    assert specialized.block is None
    x = np.ones(8, "float32")
    specialized(x, grid=1, block=2)
    assert x.tolist() == [2, 2, 1, 1, 1, 1, 1, 1]


def test_the_bytes_of_function_constants(double: Any) -> None:
    devmod.compile(CONSTANTS, "metal")["add"].specialize(SCALE=-2, OFFSET=True).open()
    assert double.calls[-1][3] == ((3, "int32", b"\xfe\xff\xff\xff"), (1, "bool", b"\1"))


def test_defines_of_a_source(device: Any) -> None:
    source = (
        "#ifndef FACTOR\n#define FACTOR 1\n#endif\n"
        "kernel void scale(device float *x, uint i [[thread_position_in_grid]]) { x[i] *= FACTOR; }"
    )
    x = np.ones(4, "float32")
    devmod.compile(source, "metal")["scale"].specialize(FACTOR=4)(x, grid=1, block=4)
    assert x.tolist() == [4] * 4
    other = devmod.compile(f"#ifdef OTHER\n#endif\n{source}", "metal", defines={"FACTOR": 2})[
        "scale"
    ].specialize(OTHER=1)
    other(x, grid=1, block=4)
    assert x.tolist() == [8] * 4
    other.specialize(FACTOR=5)(x, grid=1, block=4)
    assert x.tolist() == [40] * 4
    other.specialize(FACTOR=5).specialize(OTHER=2)(x, grid=1, block=4)
    assert x.tolist() == [200] * 4


# -- building


@pytest.mark.row("R32", "R33")
def test_one_source_is_compiled_once_for_all_its_functions_and_threads(double: Any) -> None:
    module = adder()
    run_in_threads(lambda name: module[name], ("add", "twice") * 3)
    assert double.names().count("compile") == 1
    assert double.names().count("pipeline") == 2


@pytest.mark.row("R32")
def test_equal_texts_of_different_shaders_are_compiled_once(double: Any) -> None:
    module = adder(f"#ifndef COUNT\n#define COUNT 1\n#endif\n{ADD}")
    for name in ("add", "twice"):
        module[name].specialize(COUNT=2).open()
        module[name].specialize(COUNT=2).open()
    assert double.names().count("compile") == 2  # one of them is without the value


@pytest.mark.row("R33")
def test_two_devices(double: Any) -> None:
    first, second = devmod.device("metal"), devmod.device("metal", 1)
    twice = adder()["twice"]
    a, b = first.from_numpy(np.ones(4, "float32")), second.from_numpy(np.ones(4, "float32"))
    twice(a, grid=1, block=4)
    twice(b, grid=1, block=4)
    assert double.names().count("compile") == 2
    assert (a.numpy() + b.numpy()).tolist() == [4] * 4


@pytest.mark.row("R31")
def test_options_reach_the_compiler(double: Any) -> None:
    devmod.compile("//devmod: -std=metal3.1 -fno-fast-math\n" + ADD, "metal")["add"]
    assert next(call for call in double.calls if call[0] == "compile")[2] == (
        "-std=metal3.1",
        "-fno-fast-math",
    )
