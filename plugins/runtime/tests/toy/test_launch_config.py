"""The grid and the block of a call: `threads=`, defaults, chosen blocks, shared memory, and the
current stream.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from typing import Any

import numpy as np
import pytest
import toy_backend as toy
from each_case import raised, refusal

import devmod
from devmod import FunctionInfo, Interface, Local, Param
from devmod.backend import PipelineConstant


def make(
    *params: Param,
    launcher: type[toy.ToyLauncher] = toy.ToyLauncher,
    tags: tuple[str, ...] = (),
    **interface: Any,
) -> devmod.Function:
    types = {"buffer": "handle", "local": "handle"}
    listed = params or (Param("n", "scalar", "int32"),)
    info = FunctionInfo(
        "f",
        [types.get(param.kind, param.type) for param in listed],
        tags,
        (),
        Interface(listed, **interface),
    )
    return toy.module({"f": info}, {}, launcher)["f"]


def shapes(stream: Any) -> list[tuple[Any, Any]]:
    """The grid and the block of each launch in the stream."""
    return [(shape.grid, shape.block) for shape, _ in stream.queued]


# -- threads=


@pytest.mark.row("R35")
@pytest.mark.parametrize(
    ("threads", "block", "grid"),
    [
        (64, 64, (1, 1, 1)),
        (65, 64, (2, 1, 1)),
        (1, 64, (1, 1, 1)),
        ((100, 50), (8, 8), (13, 7, 1)),
        ((100, 50), 8, (13, 50, 1)),
        ([9, 9, 9], (2, 4, 8), (5, 3, 2)),
        (np.int64(10), 4, (3, 1, 1)),
    ],
)
def test_the_grid_has_at_least_the_wanted_threads(
    threads: Any, block: Any, grid: Any, devices: list[toy.ToyDevice]
) -> None:
    f = make()
    for _ in range(2):  # the second call takes the short path
        f(1, threads=threads, block=block)
    f(n=1, threads=threads, block=block)
    f.bind(1, threads=threads, block=block)()
    assert [each for each, _ in shapes(devices[0].default_stream)] == [grid] * 4
    assert f.launch_config(threads=threads, block=block).grid == grid


def test_threads_and_grid_are_different_calls(devices: list[toy.ToyDevice]) -> None:
    f = make()
    for _ in range(2):
        f(1, threads=8, block=8)
        f(1, grid=8, block=8)
    assert [grid for grid, _ in shapes(devices[0].default_stream)] == [(1, 1, 1), (8, 1, 1)] * 2


def test_no_thread_is_no_launch(devices: list[toy.ToyDevice]) -> None:
    f = make()
    f(1, threads=0, block=8)
    f(1, threads=(8, 0), block=8)
    f.bind(1, threads=0, block=8)()
    assert shapes(devices[0].default_stream) == []
    assert f.launch_config(threads=0, block=8).grid == (0, 1, 1)


@pytest.mark.parametrize(
    ("keywords", "text", "argument"),
    [
        (
            {"grid": 2, "threads": (8, 8)},
            "was given grid=2 and threads=(8, 8): give grid=, the number of blocks, or threads=, the number of threads",
            "threads",
        ),
        (
            {"block": 8},
            "needs threads=, the number of threads, or grid=, the number of blocks: an int, or up to three ints for x, y, z",
            "grid",
        ),
        (
            {"threads": 8},
            "needs block=, the number of threads in a block: an int, or up to three ints for x, y, z",
            "block",
        ),
        (
            {"threads": -1, "block": 8},
            "was given threads=-1: -1 is not a count of 0 or more",
            "threads",
        ),
        (
            {"threads": 8.0, "block": 8},
            "was given threads=8.0: 8.0 is a float, and threads takes an int; pass 8",
            "threads",
        ),
        (
            {"threads": (), "block": 8},
            "was given threads=(): expected an int, or up to three ints for x, y, z",
            "threads",
        ),
        (
            {"threads": 2**63, "block": 8},
            f"was given threads={2**63}: {2**63} is not a count of 0 or more",
            "threads",
        ),
    ],
)
def test_wrong_threads(
    keywords: dict[str, Any], text: str, argument: str, devices: list[toy.ToyDevice]
) -> None:
    f = make()
    for call in (f, f.bind, lambda n, **given: f.launch_config(**given)):
        error = raised(devmod.ArgumentError, call, 1, **keywords)
        assert str(error) == f"the toy function 'f' {text}"
        assert (error.kind, error.function, error.argument) == (
            "toy",
            "f",
            argument,
        )


def test_threads_and_launch_values_exclude_each_other(devices: list[toy.ToyDevice]) -> None:
    f = make(tags=("blockIdx.x", "threadIdx.x"))
    assert (
        refusal(devmod.ArgumentError, f, 1, 2, 3, threads=6)
        == "the toy function 'f' is called with threads= and with launch values after its arguments; give one of them"
    )


def test_a_kind_without_a_grid_takes_no_threads(devices: list[toy.ToyDevice]) -> None:
    f = make(launcher=toy.GridlessLauncher)
    f(1)
    assert (
        refusal(devmod.ArgumentError, f, 1, threads=6)
        == "the toy function 'f' has no grid and no threads, since a launch is one call; omit threads="
    )


def test_the_error_for_too_many_blocks_has_what_to_do(devices: list[toy.ToyDevice]) -> None:
    f = make(launcher=toy.LimitedLauncher)
    advice = "launch in several parts, or let the kernel index more dimensions"
    for keywords, text in (
        (
            {"threads": 5_000_000},
            f". threads=5000000 in blocks of 64 needs grid=78125; give a larger block=, {advice}",
        ),
        ({"grid": 78125}, f"; {advice}"),
    ):
        assert (
            refusal(devmod.LaunchError, f, 1, block=64, **keywords)
            == f"max_blocks is 65535, got grid=(78125, 1, 1){text}"
        )
    fixed = make(launcher=toy.LimitedLauncher, block=(8, 8, 1))
    assert refusal(devmod.LaunchError, fixed, 1, threads=(8, 1_000_000)) == (
        "max_blocks is 65535, got grid=(1, 125000, 1). threads=(8, 1000000) in blocks of (8, 8) needs grid=(1, 125000); "
        + advice
    )
    assert shapes(devices[0].default_stream) == []


# -- the block of a call that names none


def test_the_default_block(devices: list[toy.ToyDevice]) -> None:
    f = make(default_block=(16, 2, 1))
    f(1, threads=(32, 32))
    f(1, grid=3)
    f(1, grid=3, block=8)
    assert shapes(devices[0].default_stream) == [
        ((2, 16, 1), (16, 2, 1)),
        ((3, 1, 1), (16, 2, 1)),
        ((3, 1, 1), (8, 1, 1)),
    ]
    assert f.block == (16, 2, 1)


def test_the_fixed_block_overrides_the_default(devices: list[toy.ToyDevice]) -> None:
    f = make(block=(4, 1, 1), default_block=(16, 2, 1))
    f(1, threads=9)
    assert shapes(devices[0].default_stream) == [((3, 1, 1), (4, 1, 1))]
    assert f.block == (4, 1, 1)


@pytest.mark.parametrize(
    ("threads", "block"),
    [
        (1, (1, 1, 1)),
        (5, (8, 1, 1)),
        (1000, (64, 1, 1)),  # the toy takes 64 threads at most
        ((1000, 1000), (32, 2, 1)),
        ((4, 1000), (4, 16, 1)),
        ((1000, 1, 1000), (32, 1, 2)),
        ((2, 2, 1000), (2, 2, 16)),
        ((1000, 1), (64, 1, 1)),
    ],
)
def test_the_backend_chooses_an_open_block(
    threads: Any, block: Any, devices: list[toy.ToyDevice]
) -> None:
    f = make(open_block=True)
    for _ in range(2):
        f(1, threads=threads)
    config = f.launch_config(threads=threads)
    assert config.block == block
    assert shapes(devices[0].default_stream) == [(config.grid, block)] * 2
    assert f.block is None


def test_a_block_is_chosen_for_a_grid(devices: list[toy.ToyDevice]) -> None:
    f = make(open_block=True)
    f(1, grid=(3, 2))
    f(1, grid=3, block=8)
    assert shapes(devices[0].default_stream) == [((3, 2, 1), (64, 1, 1)), ((3, 1, 1), (8, 1, 1))]


def test_a_kernel_may_choose_the_block(devices: list[toy.ToyDevice]) -> None:
    class Kernel(toy.ToyKernel):
        def preferred_block(self) -> tuple[int, int]:
            return 16, 4

    class Launcher(toy.ToyLauncher):
        def kernel(self, device: devmod.Device) -> toy.ToyKernel:
            return Kernel(device, self.run)

    f = make(launcher=Launcher, open_block=True)
    f(1, threads=(100, 100))
    f(1, threads=100)
    assert [block for _, block in shapes(devices[0].default_stream)] == [(4, 4, 1), (16, 1, 1)]


def test_no_block_is_chosen_after_another_define(devices: list[toy.ToyDevice]) -> None:
    constants = {"constants": [{"name": "SCALE", "id": 3, "type": "int32", "default": 1}]}
    f = make(open_block=True, extra=constants)
    text = "the toy function 'f' needs block=, the number of threads in a block: an int, or up to three ints for x, y, z"
    for name in ("SCALE", "3"):
        assert f.specialize(**{name: 2}).launch_config(threads=8).block == (8, 1, 1)
    for specialized in (
        f.specialize(OTHER=2),
        f.specialize(OTHER=2).specialize(SCALE=2),
        f.specialize(OTHER=1).on(devices[1]),
    ):
        assert refusal(devmod.ArgumentError, specialized, 1, threads=8) == text


def test_constants_without_a_value_are_named_before_the_block() -> None:
    class Launcher(toy.ToyLauncher):
        unset_constants = (PipelineConstant("SIZE", "uint32", 0), PipelineConstant("", "int32", 7))

    f = make(launcher=Launcher, extra={"block_constants": [0, -1, -1]})
    for call in (
        lambda: f(1, grid=1),
        lambda: f(1, threads=8, block=8),
        lambda: f.bind(1, grid=1),
        lambda: f.launch_config(grid=1),
    ):
        assert refusal(devmod.LaunchError, call) == (
            "the toy function 'f' has constants without a value; set them: f.specialize(SIZE=…, **{'7': …})"
        )


def test_the_most_threads_of_a_block(devices: list[toy.ToyDevice]) -> None:
    assert make(block=(8, 4, 2)).max_block_threads == 64
    for most in (1, 2, 3, 96, 1000, 1024):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                toy.ToyKernel, "shape", lambda _, config, most=most: shape_of(config, most)
            )
            assert make().max_block_threads == most
            assert make().on(devices[1]).max_block_threads == most
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toy.ToyKernel, "shape", lambda _, config: shape_of(config, 0))
        assert refusal(devmod.LaunchError, lambda: make().max_block_threads) == "too many"


def shape_of(config: devmod.LaunchConfig, most: int) -> devmod.LaunchConfig:
    assert (config.grid, config.block[1:]) == ((1, 1, 1), (1, 1))
    if config.block[0] > most:
        raise devmod.LaunchError("too many")
    return config


def test_a_launch_config_is_a_value() -> None:
    config = make(open_block=True).launch_config(threads=(100, 3))
    assert repr(config) == "LaunchConfig(grid=(4, 2, 1), block=(32, 2, 1))"
    assert isinstance(config, devmod.LaunchConfig)
    assert config == devmod.LaunchConfig((4, 2, 1), (32, 2, 1))
    assert hash(config) == hash(devmod.LaunchConfig((4, 2, 1), (32, 2, 1)))
    assert config != devmod.LaunchConfig((4, 2, 1), (32, 1, 1))
    shared = make(launcher=toy.SharedLauncher).launch_config(grid=2, block=4, shared_memory=64)
    assert repr(shared) == "LaunchConfig(grid=(2, 1, 1), block=(4, 1, 1), shared_memory=64)"


# -- shared memory of a block


def scratch(default: Local | None = None, **launcher: Any) -> devmod.Function:
    return make(
        Param("x", "buffer", "float32", "rw"),
        Param("scratch", "local", "float32", default=default),
        Param("n", "scalar", "int32"),
        **launcher,
    )


def sizes(device: toy.ToyDevice) -> list[Any]:
    return [values[1] for _, values in device.default_stream.queued]


def test_a_local_per_thread_follows_the_block(devices: list[toy.ToyDevice]) -> None:
    f = scratch()
    x = devices[0].empty(4, "float32")
    for block in (8, 8, (4, 8), 8):
        f(x, Local(per_thread=4), 1, grid=1, block=block)
    f(x, Local(48), 1, grid=1, block=8)
    f.bind(x, Local(per_thread=2), 1, grid=1, block=8)()
    f(np.zeros(4, "float32"), Local(per_thread=4), 1, grid=1, block=8)
    assert sizes(devices[0]) == [("local", size) for size in (32, 32, 128, 32, 48, 16, 32)]


def test_a_local_with_a_default_may_be_omitted(devices: list[toy.ToyDevice]) -> None:
    f = scratch(Local(per_thread=4))
    x = devices[0].empty(4, "float32")
    for _ in range(2):
        f(x, 1, grid=1, block=8)
        f(x, 1, threads=9, block=(4, 4))
        f(x, 1, grid=1, block=8, scratch=Local(100))
        f(x=x, n=1, grid=1, block=8)
        f(n=1, scratch=Local(per_thread=1), x=x, grid=1, block=8)
    f.bind(x, 1, grid=1, block=16)()
    assert sizes(devices[0]) == [("local", size) for size in (32, 64, 100, 32, 8) * 2 + (64,)]
    assert [values[2] for _, values in devices[0].default_stream.queued] == [b"\1\0\0\0"] * 11


def test_defaults_may_precede_the_arguments(devices: list[toy.ToyDevice]) -> None:
    first, second = (
        Param(name, "local", "float32", default=Local(size)) for name, size in (("s", 8), ("t", 16))
    )
    f = make(first, Param("n", "scalar", "int32"), second, Param("m", "scalar", "int32"))
    for _ in range(2):
        f(1, 2, grid=1, block=1)
        f(m=2, t=Local(4), n=1, grid=1, block=1)
    given = (
        [("local", 8), b"\1\0\0\0", ("local", 16), b"\2\0\0\0"],
        [("local", 8), b"\1\0\0\0", ("local", 4), b"\2\0\0\0"],
    )
    assert [values for _, values in devices[0].default_stream.queued] == [*given] * 2


def test_a_local_with_a_default_is_given_by_name_alone(devices: list[toy.ToyDevice]) -> None:
    f = scratch(Local(64))
    x = devices[0].empty(4, "float32")
    assert refusal(devmod.ArgumentError, f, x, Local(64), 1, grid=1, block=8) == (
        "the toy function 'f' takes 2 arguments by position (x, n), and 'scratch' by name; 3 were given"
    )
    assert (
        refusal(devmod.ArgumentError, f, x, grid=1, block=8)
        == "the toy function 'f' is missing an argument: 'n'; it takes 2 arguments by position (x, n), and 'scratch' by name"
    )
    assert refusal(devmod.ArgumentError, f, x, 1, scratch=64, grid=1, block=8) == (
        "the toy function 'f': argument 2 'scratch' is 64, and the kernel takes memory that a block shares: pass devmod.Local(nbytes)"
    )
    assert sizes(devices[0]) == []


def test_a_scalar_with_a_default_is_given_by_name_alone(devices: list[toy.ToyDevice]) -> None:
    f = make(
        Param("n", "scalar", "int32"),
        Param("hidden", "scalar", "uint64", default=0),
        Param("more", "scalar", "uint64", default=7),
    )
    for _ in range(2):
        f(1, grid=1, block=1)
        f(1, more=9, grid=1, block=1)
    f.bind(n=1, grid=1, block=1)()
    assert (
        refusal(devmod.ArgumentError, f, 1, 2, grid=1, block=1)
        == "the toy function 'f' takes 1 argument by position (n), and 'hidden', 'more' by name; 2 were given"
    )
    expected = [[b"\1\0\0\0", bytes(8), bytes([more, *bytes(7)])] for more in (7, 9, 7, 9, 7)]
    assert [list(values) for _, values in devices[0].default_stream.queued] == expected
    assert str(inspect.signature(f)) == (
        "(n: 'int32', *, hidden: 'uint64' = 0, more: 'uint64' = 7, grid=None, block=None, threads=None, stream=None) -> None"
    )


def test_a_default_of_a_scalar_is_kept_in_files() -> None:
    param = Param("hidden", "scalar", "uint64", default=0)
    assert param.to_dict() == {
        "name": "hidden",
        "kind": "scalar",
        "type": "uint64",
        "default": {"value": 0},
    }
    assert Param.from_dict(param.to_dict()) == param


def test_the_shared_memory_of_a_call_that_names_none(devices: list[toy.ToyDevice]) -> None:
    f = make(launcher=toy.SharedLauncher, shared_memory=96)
    for _ in range(2):
        f(1, grid=1, block=4)
        f(1, grid=1, block=4, shared_memory=32)
        f(1, grid=1, block=4, shared_memory=0)
        f(1, grid=1, block=4, shared_memory=None)
    f.bind(1, grid=1, block=4)()
    f.bind(1, grid=1, block=4, shared_memory=0)()
    assert [shape.shared_memory for shape, _ in devices[0].default_stream.queued] == [
        96,
        32,
        0,
        96,
    ] * 2 + [96, 0]
    assert f.launch_config(grid=1, block=4).shared_memory == 96
    assert f.launch_config(grid=1, block=4, shared_memory=0).shared_memory == 0
    interface = f.info.interface
    assert interface is not None
    assert Interface.from_dict(interface.to_dict()) == interface


@pytest.mark.row("R34", "R35")
def test_the_default_shared_memory_of_each_thread_follows_the_block(
    devices: list[toy.ToyDevice],
) -> None:
    f = make(launcher=toy.SharedLauncher, tags=DYNAMIC, shared_memory=Local(per_thread=4))
    for _ in range(2):
        f(1, grid=1, block=4)
        f(1, threads=20, block=(8, 2))
        f(1, grid=1, block=4, shared_memory=0)
    f.bind(1, grid=1, block=(2, 2, 3))()
    f(1, 1, 4, 7)  # as in TVM
    assert [shape.shared_memory for shape, _ in devices[0].default_stream.queued] == [
        *(16, 64, 0) * 2,
        48,
        7,
    ]
    assert f.launch_config(grid=1, block=64).shared_memory == 256
    large = make(launcher=toy.SharedLauncher, shared_memory=Local(per_thread=2**63 - 1))
    assert large.launch_config(grid=1, block=2).shared_memory == 2**64 - 2
    # A kind without dynamic shared memory has no use for the default.
    assert make(shared_memory=Local(per_thread=4)).launch_config(grid=1, block=4).shared_memory == 0


DYNAMIC = ("blockIdx.x", "threadIdx.x", "tirx.use_dyn_shared_memory")


@pytest.mark.row("R34", "R35")
@pytest.mark.parametrize("has_interface", [True, False])
def test_a_kernel_with_dynamic_shared_memory_and_no_default_is_refused_before_the_launch(
    has_interface: bool, devices: list[toy.ToyDevice]
) -> None:
    f = make(launcher=toy.SharedLauncher, tags=DYNAMIC)
    if not has_interface:
        f = toy.module({"f": f.info.replace(interface=None)}, {}, toy.SharedLauncher)["f"]
    config = {"grid": 1, "block": 4}
    f(
        1, **config, shared_memory=0
    )  # the call that gives none later has the other arguments of this one
    f(1, **config, shared_memory=16)
    f(1, 1, 4, 32)
    for call in (
        lambda: f(1, **config),
        lambda: f(1, **config, shared_memory=None),
        lambda: f(1, grid=0, block=4),
        lambda: f.bind(1, **config),
        lambda: f.launch_config(**config),
    ):
        error = raised(devmod.ArgumentError, call)
        assert str(error) == (
            "the toy function 'f' uses dynamic shared memory, and its interface has no default: give shared_memory=, the bytes for each block, "
            "or a default to devmod.compile(…, shared_memory=…)"
        )
        assert error.argument == "shared_memory"
    assert [shape.shared_memory for shape, _ in devices[0].default_stream.queued] == [0, 16, 32]


@pytest.mark.row("R35")
@pytest.mark.parametrize(
    ("launcher", "interface"),
    [
        (toy.ToyLauncher, {}),  # the kind has no dynamic shared memory
        (toy.SharedLauncher, {"shared_memory": 1}),
        (toy.ToyLauncher, {"shared_memory": 1}),
        (
            toy.SharedLauncher,
            {"extra": {"opaque": True}},
        ),  # whether the kernel uses some is unknown
    ],
)
def test_a_call_may_give_no_dynamic_shared_memory(
    launcher: type[toy.ToyLauncher], interface: dict[str, Any], devices: list[toy.ToyDevice]
) -> None:
    f = make(launcher=launcher, tags=DYNAMIC, **interface)
    for _ in range(2):
        f(1, grid=1, block=4)
    f.bind(1, grid=1, block=4)()
    expected = 0 if launcher is toy.ToyLauncher else interface.get("shared_memory", 0)
    queued = devices[0].default_stream.queued
    assert [shape.shared_memory for shape, _ in queued] == [expected] * 3


def test_launch_values_follow_the_arguments_without_a_default(devices: list[toy.ToyDevice]) -> None:
    f = scratch(Local(per_thread=4), tags=("blockIdx.x", "threadIdx.x"))
    x = devices[0].empty(4, "float32")
    f(x, 1, 2, 16)
    assert (shapes(devices[0].default_stream), sizes(devices[0])) == (
        [((2, 1, 1), (16, 1, 1))],
        [("local", 64)],
    )


def test_the_error_for_shared_memory_that_the_device_lacks(devices: list[toy.ToyDevice]) -> None:
    f = scratch(Local(per_thread=512), launcher=toy.LimitedLauncher)
    x = devices[0].empty(4, "float32")
    what = f"the toy function 'f' cannot be launched on {devices[0]}: max_local is 4096, got devmod.Local arguments of"
    f(x, 1, grid=1, block=8)
    for call in (f, f.bind):
        error = raised(devmod.LaunchError, call, x, 1, grid=1, block=16)
        assert str(error) == (
            f"{what} 8192 bytes; argument 2 'scratch' takes 8192 bytes by default, Local(per_thread=512) with 16 threads in a block: "
            "give it by name, or a smaller block="
        )
        assert (error.kind, error.function, error.argument) == (
            "toy",
            "f",
            "scratch",
        )
    for _ in range(2):
        f(x, 1, scratch=Local(4096), grid=1, block=16)
        assert (
            refusal(devmod.LaunchError, f, x, 1, scratch=Local(4097), grid=1, block=16)
            == f"{what} 4097 bytes"
        )
    assert sizes(devices[0]) == [("local", 4096)] * 3
    assert (
        refusal(
            devmod.LaunchError,
            scratch(Local(8192), launcher=toy.LimitedLauncher),
            x,
            1,
            grid=1,
            block=16,
        )
        == f"{what} 8192 bytes; argument 2 'scratch' takes 8192 bytes by default, Local(8192): give it by name"
    )
    host = np.zeros(4, "float32")
    devices[0].allocated.clear()
    with pytest.raises(devmod.LaunchError):
        f(host, 1, grid=1, block=16)
    assert devices[0].allocated == []


# -- the current stream


def test_a_stream_is_the_current_one_in_its_body(devices: list[toy.ToyDevice]) -> None:
    f = make()
    first, second = devices[0].stream(), devices[0].stream()
    default = devices[0].default_stream
    f(1, grid=1, block=1)
    with first as entered:
        assert entered is first
        assert devices[0].current_stream is first
        f(1, grid=1, block=1)
        with second:
            f(1, grid=1, block=1)
            f(1, grid=1, block=1)
            f(1, grid=1, block=1, stream=first)
        with default:
            f(1, grid=1, block=1)
        prepared = f.bind(1, grid=1, block=1)
    prepared()
    f(1, grid=1, block=1)
    assert devices[0].current_stream is devices[0].default_stream is default
    assert [len(stream.queued) for stream in (default, first, second)] == [3, 3, 2]


def test_the_current_stream_is_that_of_its_device(devices: list[toy.ToyDevice]) -> None:
    f = make(Param("x", "buffer", "float32", "rw"))
    stream = devices[1].stream()
    with stream:
        assert devices[0].current_stream is devices[0].default_stream
        for device in devices:
            x = device.empty(4, "float32")
            for _ in range(2):
                f(x, grid=1, block=1)
        f(np.zeros(4, "float32"), grid=1, block=1)
        f.on(devices[1])(np.zeros(4, "float32"), grid=1, block=1)
    assert [
        len(each.queued) for each in (devices[0].default_stream, devices[1].default_stream, stream)
    ] == [3, 0, 3]


def test_the_current_stream_of_a_function_without_arrays(devices: list[toy.ToyDevice]) -> None:
    f = make()
    streams = [device.stream() for device in devices]
    with streams[0], streams[1]:
        for _ in range(2):
            f(1, grid=1, block=1)
            f.on(devices[1])(1, grid=1, block=1)
    for _ in range(2):
        f(1, grid=1, block=1)
    assert [len(each.queued) for each in (*streams, devices[0].default_stream)] == [2, 2, 2]


def test_a_stream_may_be_entered_several_times(devices: list[toy.ToyDevice]) -> None:
    stream, other = devices[0].stream(), devices[0].stream()
    with stream:
        with other:
            with stream:
                assert devices[0].current_stream is stream
            assert devices[0].current_stream is other
        assert devices[0].current_stream is stream
    assert devices[0].current_stream is devices[0].default_stream


def test_an_error_leaves_the_body(devices: list[toy.ToyDevice]) -> None:
    with pytest.raises(KeyError), devices[0].stream():
        raise KeyError
    assert devices[0].current_stream is devices[0].default_stream


def test_leaving_in_another_order_leaves_the_others(devices: list[toy.ToyDevice]) -> None:
    first, second = devices[0].stream(), devices[0].stream()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert devices[0].current_stream is second
    second.__exit__(None, None, None)
    assert devices[0].current_stream is devices[0].default_stream
    second.__exit__(None, None, None)  # nothing is left to leave


def test_threads_have_current_streams_of_their_own(devices: list[toy.ToyDevice]) -> None:
    f = make()
    seen = []

    def run() -> None:
        seen.append(devices[0].current_stream)
        f(1, grid=1, block=1)

    stream = devices[0].stream()
    with stream:
        plain = threading.Thread(target=run)
        copied = threading.Thread(target=contextvars.copy_context().run, args=(run,))
        for thread in (plain, copied):
            thread.start()
            thread.join()
    assert seen == [devices[0].default_stream, stream]
    assert (len(devices[0].default_stream.queued), len(stream.queued)) == (1, 1)


def test_tasks_have_current_streams_of_their_own(devices: list[toy.ToyDevice]) -> None:
    f = make()
    streams = [devices[0].stream() for _ in range(3)]

    async def run(stream: devmod.Stream, turn: asyncio.Barrier) -> None:
        with stream:
            for _ in range(4):
                f(1, grid=1, block=1)
                await turn.wait()
        f(1, grid=1, block=1)

    async def main() -> None:
        turn = asyncio.Barrier(len(streams))
        await asyncio.gather(*(run(stream, turn) for stream in streams))

    asyncio.run(main())
    assert [len(stream.queued) for stream in streams] == [4, 4, 4]
    assert len(devices[0].default_stream.queued) == 3


def test_a_launch_in_the_current_stream_follows_the_work_of_another_library(
    devices: list[toy.ToyDevice],
) -> None:
    f = make(Param("x", "buffer", "float32", "rw"))
    theirs, ours = toy.ToyStream(devices[0]), devices[0].stream()
    x = toy.ForeignArray(devices[0], np.zeros(4, "float32"), theirs)
    with ours:
        f(x, grid=1, block=1)
    assert theirs.queued == []
    (wait, event), (shape, _) = ours.queued
    assert (wait, type(event), shape.grid) == ("wait", toy.ToyEvent, (1, 1, 1))


def test_a_launch_follows_the_work_of_two_streams_of_another_library(
    devices: list[toy.ToyDevice],
) -> None:
    f = make(Param("x", "buffer", "float32", "rw"), Param("y", "buffer", "float32", "rw"))
    first, second = toy.ToyStream(devices[0]), toy.ToyStream(devices[0])
    f(
        *(toy.ForeignArray(devices[0], np.zeros(4, "float32"), each) for each in (first, second)),
        grid=1,
        block=1,
    )
    assert second.queued == []
    (wait, event), (shape, _) = first.queued
    assert (wait, type(event), shape.grid) == ("wait", toy.ToyEvent, (1, 1, 1))
