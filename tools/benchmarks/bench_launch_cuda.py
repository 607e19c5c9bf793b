"""What a CUDA launch costs the host: devmod's prepared launch and its general call beside
cuda.core's `launch`.

    python tools/benchmarks/bench_launch_cuda.py [--rounds 201] [--launches 200]

The kernel adds 64 floats and takes three buffers and an int. cuda.core's launch configuration is
made beforehand. Its arguments are its own buffers and a NumPy scalar; a row of its own has the
buffers' addresses as ints, which it takes faster and cannot check. A prepared launch is beside the
driver's function in cuda.bindings, with arguments that were packed before. Without a GPU the driver
is the stand-in driver of the tests, whose launches return at once: the figures are the host's side
alone. devmod opens the driver by ctypes in one process and with pycuda in another; cuda.core is in
both. The contenders take turns in each round. The figures are medians over the rounds. Exits with 1
when a ratio is over its bound.

With DEVMOD_TEST_CUDA=hardware the driver is the real one. The queue is emptied after each turn,
outside of the measurement, and CuPy's RawKernel is a further contender if it is installed. A
contender that fails does not stop the others.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable

import numpy as np
from timing import check, medians_of, record
from vendor_driver import ADD, VendorDriver

DRIVER = VendorDriver("cuda")
N = 64
UNIT = "cuda.core, launch with buffers"
ADDRESSES = "cuda.core, launch with addresses as ints"
DIRECT = "cuda.bindings, arguments packed before"
CUPY = "CuPy, RawKernel"
PREPARED = "devmod, prepared"
GENERAL = "devmod, general call"
DRIVERS = ("ctypes", "pycuda")
#: What a contender is compared with, if not with cuda.core's launch: that takes its arguments anew.
PEERS = {PREPARED: DIRECT}
#: The most that a contender may cost, in units of its peer: on the stand-in driver, and on a GPU.
STANDIN = {PREPARED: 0.9, GENERAL: 2.75}
HARDWARE = {PREPARED: 1.0, GENERAL: 1.5}
Loop = Callable[[int], None]


def contenders() -> tuple[dict[str, Loop], Callable[[], None]]:
    """Return a loop of launches for each contender, and the function that waits for all of them."""
    import devmod

    module = DRIVER.add_kernel()
    device = devmod.device("cuda")
    function = module["add"]
    ones = np.ones(N, "float32")
    a = device.from_numpy(ones)
    b = device.from_numpy(ones)
    c = device.from_numpy(ones)
    prepared = function.bind(a, b, c, N, grid=1, block=N)
    from cuda.bindings import driver
    from cuda.core import Device, LaunchConfig, ObjectCode, launch

    core = Device(0)
    core.set_current()
    stream = core.create_stream()
    load = ObjectCode.from_ptx if module.format == "ptx" else ObjectCode.from_cubin
    kernel = load(bytes(module.code)).get_kernel("add")
    config = LaunchConfig(grid=1, block=N)
    count = np.int32(N)
    u = core.allocate(4 * N, stream=stream)
    v = core.allocate(4 * N, stream=stream)
    w = core.allocate(4 * N, stream=stream)
    x = int(u.handle)
    y = int(v.handle)
    z = int(w.handle)

    # A loop of its own for each, as a program would write it.
    def call_core(launches: int) -> None:
        for _ in range(launches):
            launch(stream, config, kernel, u, v, w, count)

    def call_core_with_addresses(launches: int) -> None:
        for _ in range(launches):
            launch(stream, config, kernel, x, y, z, count)

    values = (*(ctypes.c_void_p(each) for each in (x, y, z)), ctypes.c_int(N))
    packed = (ctypes.c_void_p * 4)(*map(ctypes.addressof, values))
    handle = driver.CUfunction(int(kernel.handle))
    queue = driver.CUstream(int(stream.handle))
    addresses = ctypes.addressof(packed)

    def call_bindings(launches: int, _: object = (packed, values)) -> None:  # the driver reads them
        for _ in range(launches):
            driver.cuLaunchKernel(handle, 1, 1, 1, N, 1, 1, 0, queue, addresses, 0)

    def call_prepared(launches: int) -> None:
        for _ in range(launches):
            prepared()

    def call_devmod(launches: int) -> None:
        for _ in range(launches):
            function(a, b, c, N, grid=1, block=N)

    loops: dict[str, Loop] = {
        UNIT: call_core,
        ADDRESSES: call_core_with_addresses,
        DIRECT: call_bindings,
        PREPARED: call_prepared,
        GENERAL: call_devmod,
    }
    if DRIVER.on_hardware():
        loops |= cupy_loop()

    def wait() -> None:
        stream.sync()
        device.synchronize()

    return loops, wait


def cupy_loop() -> dict[str, Loop]:
    """Return CuPy's loop, if CuPy is installed and works."""
    try:
        import cupy

        kernel = cupy.RawKernel(ADD, "add")
        arguments = (*(cupy.ones(N, "float32") for _ in range(3)), np.int32(N))
        kernel((1,), (N,), arguments)
    except Exception as error:  # noqa: BLE001 - the other figures do not depend on CuPy
        print(f"CuPy is not measured: {type(error).__name__}: {error}", file=sys.stderr)
        return {}

    def call_cupy(launches: int) -> None:
        for _ in range(launches):
            kernel((1,), (N,), arguments)

    return {CUPY: call_cupy}


def measure(rounds: int, launches: int) -> dict[str, float]:
    """Return the microseconds of one launch of each contender."""
    DRIVER.launch_nothing()
    loops, wait = contenders()
    times: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds + 2):
        for name, loop in loops.items():
            began = time.perf_counter()
            loop(launches)
            elapsed = time.perf_counter() - began
            wait()
            if number >= 2:  # the first two warm up
                times[name].append(elapsed / launches * 1e6)
    return medians_of(times)


def main() -> int:
    """Measure with ctypes and with pycuda, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=201)
    parser.add_argument("--launches", type=int, default=200)
    parser.add_argument(
        "--json",
        action="store_true",
        help="measure with the driver of DEVMOD_CUDA_DRIVER alone, and print JSON",
    )
    options = parser.parse_args()
    if options.json:
        print(json.dumps(measure(options.rounds, options.launches)))
        return 0
    if reason := DRIVER.missing():
        print(f"not measured: {reason}")
        return 0
    over = False
    print(f"{DRIVER.place():<46} {'µs':>7} {'ratio':>6} {'most':>5}")
    for driver in DRIVERS:
        reason = DRIVER.missing_driver(driver)
        if reason:
            print(f"{driver}: not measured, {reason}")
            continue
        arguments = [sys.executable, *sys.argv, "--json"]
        environment = os.environ | DRIVER.environment(driver)
        process = subprocess.run(
            arguments, env=environment, check=False, stdout=subprocess.PIPE, text=True
        )
        if process.returncode:
            print(f"{driver}: failed")
            over = True
            continue
        medians = json.loads(process.stdout)
        bounds = HARDWARE if DRIVER.on_hardware() else STANDIN
        print(f"with {driver}")
        for name, median in medians.items():
            peer = PEERS.get(name, UNIT)
            ratio = median / medians[peer]
            most = bounds.get(name)
            record(f"A CUDA launch {DRIVER.place()}", name, median, "µs", column=f"with {driver}")
            is_over = most is not None and check(
                f"CUDA with {driver}, {name}", ratio, most, of=peer
            )
            if CUPY in medians and name == GENERAL and most is not None:
                is_over |= check(
                    f"CUDA with {driver}, {name}", median / medians[CUPY], most, of=CUPY
                )
            over |= is_over
            print(
                f"  {name:<44} {median:7.2f} {ratio:6.2f} {most if most is not None else '':>5}{'  over' if is_over else ''}"
            )
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
