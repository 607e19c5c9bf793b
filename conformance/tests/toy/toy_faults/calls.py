"""Faults of calls: launches, arguments, and the functions that get_function returns."""

from __future__ import annotations

import struct
import time

import devmod_toy
import devmod_toy._entries as entries
import numpy as np
from devmod_toy import TARGET
from devmod_toy._conformance import NEGATE, ToyConformance, negate
from devmod_toy._device import driver
from devmod_toy._module import ToyKernel, ToyLauncher, ToyModule

import devmod
from devmod import Function, FunctionInfo, Interface, Param, TargetSpec
from devmod_conformance import Call, Sample
from toy_faults._fault import changes_values, fault, replaces


def wraps_calls(*rows, reason):
    """Return a decorator that adds a fault: each call of a function is ``wrapper(function, *args,
    **keywords)``.
    """

    def decorate(wrapper):
        def get_function(before, self, name, query_imports=False):
            function = before(self, name, query_imports)
            return lambda *args, **keywords: wrapper(function, *args, **keywords)

        get_function.__name__ = wrapper.__name__
        return replaces(ToyModule, "get_function", *rows, reason=reason)(get_function)

    return decorate


def returns(name, function_type, *rows, reason):
    """Add a fault: get_function returns functions of another type."""

    @fault(name, *rows, reason=reason).replaces(ToyModule, "get_function")
    def get_function(before, self, name, query_imports=False):
        info = before(self, name, query_imports).info
        return function_type(name, info, self.launcher(name, info))


# -- launches


@replaces(
    ToyKernel,
    "shape",
    "R37-host",
    "R37-device",
    "R33-functions",
    "R24-stored",
    reason="'negate' of a created module: argument 1 is wrong in 1 of 16 elements; at (3, 3): expected …, got …",
)
def wrong_sum(before, self, launch):
    """A kernel omits the last element."""
    return before(self, launch) - 1


@replaces(
    ToyKernel,
    "shape",
    "R37-host",
    reason="'negate' of a created module: argument 1 is wrong in 8 of 16 elements; at (2, 0): expected …, got …",
)
def other_axis(before, self, launch):
    """A launch has the blocks of the grid's first axis alone."""
    return before(self, launch) // (launch.grid[1] * launch.grid[2])


@replaces(
    ToyKernel,
    "caller",
    "R37-host",
    reason="'axpy' with values from -8 to 8: argument 2 is wrong at …: expected …, got …",
)
def lost_sign(before, self, stream, shape):
    """A kernel uses the absolute values of its floats."""
    import numpy as np

    def call(values):
        if len(values) == 4:
            x = np.abs(np.frombuffer(values[0], np.float32))
            values = [bytearray(x.tobytes()), *values[1:]]
        return before(self, stream, shape)(values)

    return call


@replaces(
    ToyKernel,
    "prepare",
    "R37-bind",
    reason="'axpy' bound and launched twice: argument 2 is wrong in 40 of 50 elements; at 0: expected …, got …",
)
def launched_once(before, self, stream, shape, values):
    """A bound launch runs once."""
    waiting = [before(self, stream, shape, values)]
    return lambda: waiting.pop()() if waiting else None


@replaces(
    ToyKernel,
    "caller",
    "R32-calls",
    reason="'axpy' called by 8 threads: argument 2 is wrong in … of 50 elements; at …",
)
def shared_values(before, self, stream, shape):
    """Calls share one place for their arguments, so threads launch with the arguments of others."""

    def call(values):
        self.values = values
        time.sleep(0.001)
        self.run(shape, *self.values)

    return call


@replaces(
    ToyLauncher,
    "kernel",
    "R33-several",
    reason="a process that uses the backend ends with exit status 1: …LaunchError: only the first device is supported",
)
def one_device(before, self, device):
    """Kernels run on the first device only."""
    if device.index:
        raise devmod.LaunchError("only the first device is supported", kind="toy")
    return before(self, device)


def sets_of_eight(threads, result):
    result[::4] = b"\x08" * (len(result) // 4)


@replaces(
    ToyLauncher,
    "kernel",
    "R40-subgroup",
    reason="'subgroup' that requires subgroups of 4 threads: argument 1 is wrong in 128 of 128 elements; at 0: expected np.uint32(4), got …",
)
def any_subgroup(before, self, device):
    """The size of subgroups that a function requires is ignored."""
    return self.kernel_type(sets_of_eight if self.run.__name__ == "subgroup" else self.run)


@replaces(
    ToyKernel,
    "shape",
    "R35-clusters",
    "R35-cooperative",
    reason="'axpy' launched with clusters of two blocks: expected LaunchError, got ValueError: clusters of (2, 1, 1)",
)
def no_clusters(before, self, launch):
    """Clusters raise ValueError, and cooperative launches run nothing."""
    if launch.cluster != (1, 1, 1):
        raise ValueError(f"clusters of {launch.cluster}")
    return before(self, launch)


@no_clusters.replaces(ToyModule, "launcher")
def _(before, self, name, info):
    result = before(self, name, info)
    if "tirx.use_cooperative_launch" in info.launch_param_tags:
        result.run = lambda threads, *values: None
    return result


# -- grids and blocks


# The limit of a block is a thousand times that of the driver.
fault(
    "large_block",
    "R34-limit",
    reason="'axpy' with block=2048: expected the result, or LaunchError that names the block and the limit, got ValueError: toy error 7: "
    "invalid configuration",
).sets(ToyKernel, "max_block", 1024 * 1000)


@replaces(
    ToyKernel,
    "choose_block",
    "R34-open",
    reason="the block that the backend chooses for 'shift': expected powers of two, got (3, 1, 1)",
)
def odd_block(before, self, threads):
    """The backend chooses blocks of three threads."""
    return (3, 1, 1)


class Blocks(Function):
    def launch_config(self, *, threads=None, **others):
        return super().launch_config(grid=threads, **others)


# threads= counts blocks.
returns(
    "threads_as_blocks",
    Blocks,
    "R34-threads",
    reason="the grid and the block of 'axpy' with threads=(64, 1, 1): expected ((4, 1, 1), (16, 1, 1)), got ((64, 1, 1), (16, 1, 1))",
)


class AllThreads(Function):
    def __call__(self, *args, threads=None, **others):
        if threads is not None:
            self.launch_config(
                threads=threads,
                **{name: others[name] for name in ("grid", "block") if name in others},
            )
            others = {"grid": 100} | others
        return super().__call__(*args, **others)


# A call with threads= launches enough blocks for any array.
returns(
    "ignores_threads",
    AllThreads,
    "R34-part",
    reason="'axpy' with threads=(32, 1, 1), compared with grid=(2, 1, 1): argument 2 is wrong in 8 of 50 elements; at 32: expected …, got …",
)


@wraps_calls(
    "R37-nothing",
    reason="'axpy' launched with grid=0: argument 2 is wrong in 16 of 50 elements; at 0: expected …, got …",
)
def never_nothing(function, *args, grid=None, **keywords):
    """A grid of 0 launches one block."""
    return function(*args, grid=1 if grid == 0 else grid, **keywords)


@wraps_calls("R35-values", reason="ArgumentError: 6 arguments for 4")
def no_launch_values(function, *args, **keywords):
    """Launch values after the arguments raise ArgumentError."""
    if len(args) != len(function.info.arg_types):
        raise devmod.ArgumentError(f"{len(args)} arguments for {len(function.info.arg_types)}")
    return function(*args, **keywords)


class AnyGrid:
    block = None

    def __init__(self, function):
        self.function = function

    def __call__(self, *args, grid=None, block=None, threads=None):
        return self.function(*args)


# A kind without a grid, whose functions take grid= and ignore block= and threads=.
takes_a_grid = fault(
    "takes_a_grid",
    "R34-gridless",
    reason="'negate' with grid=1: expected ArgumentError, but no error was raised",
).sets(ToyLauncher, "has_grid", False)
for owner in (devmod_toy, entries):
    takes_a_grid.sets(
        owner,
        "TARGET",
        TargetSpec(
            "toy",
            title="Toy",
            distribution="devmod-toy",
            formats=TARGET.formats,
            text_formats=TARGET.text_formats,
            has_grid=False,
        ),
    )
takes_a_grid.sets(
    ToyConformance,
    "samples",
    (
        Sample(
            b"toy 1\nnegate\n",
            "toy",
            {"negate": NEGATE},
            calls=[Call("negate", lambda rng: [rng.integers(1, 99, 1, "int32")], negate)],
        ),
    ),
)


@takes_a_grid.replaces(ToyModule, "get_function")
def _(before, self, name, query_imports=False):
    return AnyGrid(before(self, name, query_imports))


# -- arguments


@wraps_calls("R37-strided", reason="ArgumentError: not contiguous")
def contiguous_only(function, *args, **keywords):
    """Arrays that are not contiguous raise ArgumentError."""
    if any(isinstance(each, np.ndarray) and not each.flags.c_contiguous for each in args):
        raise devmod.ArgumentError("not contiguous")
    return function(*args, **keywords)


@wraps_calls(
    "R34-invalid",
    reason="'axpy' with an array of another type as argument 1: expected ArgumentError, but the kernel was launched",
)
def launched_wrong(function, *args, **keywords):
    """An array of another type is converted."""
    return function(
        *(
            each.astype("float32") if getattr(each, "dtype", "") == "float64" else each
            for each in args
        ),
        **keywords,
    )


@wraps_calls(
    "R34-invalid",
    reason="'axpy' with a str as argument 1: the argument in the error: expected 'x', got ''",
)
def nameless_error(function, *args, **keywords):
    """ArgumentError does not name the argument."""
    try:
        return function(*args, **keywords)
    except devmod.ArgumentError as error:
        raise devmod.ArgumentError(
            f"{function.info.name!r} was called wrongly", kind=error.kind
        ) from None


@wraps_calls("R34-names", reason="TypeError: …unexpected keyword argument '…'")
def positional_only(function, *args, grid=None, block=None, stream=None):
    """Functions take arguments by position only."""
    return function(*args, grid=grid, block=block, stream=stream)


@replaces(
    ToyModule,
    "get_function",
    "R34-invalid",
    "R35-values",
    "R37-nothing",
    reason="'axpy' with too few arguments: expected ArgumentError, got TypeError: axpy() missing 1 required positional argument: 'n'",
)
def unchecked(before, self, name, query_imports=False):
    """A function passes its arguments to the driver without checks."""
    _, info = self.find_function(name)
    self.payload()
    run = driver().KERNELS[info.name]
    return lambda *args, grid=1, block=1, stream=None: run(
        4096, *(bytearray(each) if hasattr(each, "shape") else each for each in args)
    )


@replaces(
    ToyKernel,
    "caller",
    "R34-floats",
    reason="'axpy' with 3.3333333333333335 as argument 3: argument 2 is wrong in … of 50 elements; at …: expected …, got …",
)
def half_scalars(before, self, stream, shape):
    """The kernels get the scalars that are floats rounded to float16."""
    run = before(self, stream, shape)

    def call(values):
        if len(values) == 4 and len(values[2]) == 4 and self.run.__name__ == "axpy":
            half = struct.pack("<e", *struct.unpack("<f", values[2]))
            values = [*values[:2], struct.pack("<f", *struct.unpack("<e", half)), values[3]]
        run(values)

    return call


@changes_values(
    "R34-scalars",
    reason="'store_int64' with the int64 9223372036854775807: the kernel got 4294967295",
)
def narrow_integers(value):
    """The kernels get the low 32 bits of scalars of 64 bits."""
    return value[:4] + bytes(4) if type(value) is bytes and len(value) == 8 else value


@changes_values("R34-scalars", reason="'store_int8' with the int8 -1: the kernel got 127")
def unsigned_scalars(value):
    """The kernels get scalars without their sign."""
    return (
        value[:-1] + bytes([value[-1] & 127]) if type(value) is bytes and len(value) < 8 else value
    )


@replaces(ToyModule, "launcher", "R34-records", reason="error: unpack requires a buffer of 4 bytes")
def packs_itself(before, self, name, info):
    """The scalars of a block are read one by one, so a record is taken for each of them."""
    before(self, name, info)
    return self.launcher_type(driver().KERNELS[info.name])


@replaces(
    ToyModule,
    "launcher",
    "R34-packs",
    reason="TypeError: transpose() missing 2 required positional arguments: 'width' and 'height'",
)
def reads_params(before, self, name, info):
    """The kernel gets one value for each parameter of its interface, and an array may be
    several.
    """
    launcher = before(self, name, info)
    if info.interface is not None and any(param.pack for param in info.interface.params):
        run, count = launcher.run, len(info.interface.params)
        launcher.run = lambda threads, *values: run(threads, *values[:count])
    return launcher


def older(info):
    """Return what an older version reads of a function's description."""
    if info.interface is None:
        return info
    params = [Param(each.name, each.kind, each.type, each.access) for each in info.interface.params]
    return FunctionInfo(
        info.name, info.arg_types, info.launch_param_tags, info.arg_extra_tags, Interface(params)
    )


@replaces(
    entries,
    "create",
    "R34-block",
    "R34-open",
    "R34-local",
    "R34-structs",
    reason="the block of 'axpy' with a default block in its interface: expected (16, 1, 1), got None",
)
def older_interface(before, code, fmt, fmap, source):
    """The backend reads an older interface: without a default or an open block, defaults of Local
    arguments, and members of structs.
    """
    return before(code, fmt, {name: older(info) for name, info in fmap.items()}, source)


# -- functions


class Anywhere(Function):
    def on(self, device):
        return self


# Function.on returns the function itself.
returns(
    "on_nothing",
    Anywhere,
    "R33-on",
    reason="'axpy' on toy device 0 (toy number 0) with an array of toy device 1 (toy number 1): expected ArgumentError, but no error was "
    "raised",
)


class Counting(Function):
    def __call__(self, *args, **named):
        super().__call__(*args, **named)
        return len(args)


# Calls return the number of their arguments.
returns(
    "returns_a_number",
    Counting,
    "R37-result",
    reason="'axpy' with host arrays: expected the result None, got 4",
)
