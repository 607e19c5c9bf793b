"""CUDA on a GPU: a graph of 64 launches, a module of 100 kernels, and a new process up to its first
result.

    DEVMOD_TEST_CUDA=hardware python tools/benchmarks/cuda_on_gpu.py [--rounds 51]

- The host's time for a graph of 64 prepared launches, of 64 calls of these launches.
- Loading a module of 100 cubin kernels and getting one of them, and all of them, of cuda.core's
  ObjectCode.
- The time of a new process from its start to a compared result: devmod with a file that has a cubin
  for this card, of CuPy's RawKernel with the same source, with its cache cold and warm. It needs
  CuPy.

`make gpu KIND=cuda DO=bench` runs it after `bench_launch_cuda.py`. Without
DEVMOD_TEST_CUDA=hardware it runs on the stand-in driver of the tests, where cubins are loaded and
not executed: that shows that the script works, and no figure. Exits with 1 when a ratio is over its
bound.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from vendor_driver import ADD, VendorDriver

DRIVER = VendorDriver("cuda")
MOST = {"graph": 0.3, "module": 1.1, "cold": 0.5, "warm": 1.0}
KERNELS = "".join(ADD.replace(" add(", f" add{number}(") for number in range(100))
N = 1 << 16
CALL = f"f(a, b, c, {N}, grid={N} // 256, block=256)"
DEVMOD = f"""
import numpy as np
import devmod
a, b, c = np.ones({N}, 'f4'), np.full({N}, 2, 'f4'), np.zeros({N}, 'f4')
f = devmod.load({{path!r}})['add']
{CALL}
assert (c == 3).all()
"""
# From arrays of the host to one of the host, as in `DEVMOD`: CuPy's own functions that make arrays
# would compile kernels.
CUPY = f"""
import numpy as np
import cupy as cp
a, b, c = np.ones({N}, 'f4'), np.full({N}, 2, 'f4'), np.zeros({N}, 'f4')
x, y, z = cp.asarray(a), cp.asarray(b), cp.asarray(c)
f = cp.RawKernel({ADD!r}, 'add')
f(({N} // 256,), (256,), (x, y, z, np.int32({N})))
assert (z.get() == 3).all()
"""


def alternate(
    first: Callable[[], float], second: Callable[[], float], rounds: int
) -> tuple[float, float]:
    """Return the medians of two figures that are measured in turns. The first round warms up."""
    rows = [(first(), second()) for _ in range(rounds + 1)][1:]
    one, other = (statistics.median(column) for column in zip(*rows, strict=True))
    return one, other


def timed(act: Callable[[], object]) -> float:
    """Return the seconds of a call."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def measure_graph(rounds: int) -> tuple[float, float]:
    """Return the host's seconds for a graph of 64 launches, and for 64 launches."""
    import devmod

    device: Any = devmod.device("cuda")
    function = DRIVER.add_kernel()["add"]
    stream = device.stream()
    arrays = [device.from_numpy(np.ones(64, "float32")) for _ in range(3)]
    launches = [function.bind(*arrays, 64, grid=1, block=64, stream=stream) for _ in range(64)]
    graph = stream.graph(launches)

    def call_all() -> None:
        for launch in launches:
            launch()

    def host_time(act: Callable[[], object]) -> float:
        seconds = timed(act)
        stream.synchronize()
        return seconds

    return alternate(lambda: host_time(graph), lambda: host_time(call_all), rounds)


def measure_module(rounds: int, count: int) -> tuple[float, float]:
    """Return the seconds to load a module of 100 kernels, and to get `count` of them, with devmod
    and with cuda.core.
    """
    from cuda.core import Device, ObjectCode

    import devmod

    device = devmod.device("cuda")
    module: Any = devmod.compile(KERNELS, f"cuda -arch={device.arch.partition(':')[0]}")
    code = bytes(module.code)
    names = list(module.functions)[:count]
    Device(0).set_current()

    def with_devmod() -> None:
        loaded = devmod.create("cuda", code, "cubin", module.functions)
        for name in names:
            loaded[name]

    def with_core() -> None:
        loaded = ObjectCode.from_cubin(code)
        for name in names:
            int(loaded.get_kernel(name).handle)

    return alternate(lambda: timed(with_devmod), lambda: timed(with_core), rounds)


def measure_processes(rounds: int) -> tuple[float, float | str, float | str]:
    """Return the seconds of a process with devmod, and with CuPy with its cache cold and warm; the
    reason if CuPy does not work.
    """
    import devmod

    arch = devmod.device("cuda").arch.partition(":")[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "add.devmod"
        target = f"cuda -arch={arch}" if DRIVER.on_hardware() else "cuda -arch=compute_75"
        devmod.save(devmod.compile(ADD, target), path)

        def run(text: str, stderr: int | None = None, **variables: str) -> float:
            command = [sys.executable, "-c", text]
            return timed(
                lambda: subprocess.run(
                    command, env=os.environ | variables, check=True, cwd=folder, stderr=stderr
                )
            )

        ours = statistics.median(run(DEVMOD.format(path=str(path))) for _ in range(rounds))
        if find_spec("cupy") is None:
            return ours, "CuPy is not installed", "CuPy is not installed"
        cold = []
        variables = {}
        try:
            for number in range(rounds):
                variables = {
                    "CUPY_CACHE_DIR": f"{folder}/cupy-{number}",
                    "CUDA_CACHE_PATH": f"{folder}/cuda-{number}",
                }
                cold.append(run(CUPY, subprocess.PIPE, **variables))
            warm = [run(CUPY, subprocess.PIPE, **variables) for _ in range(rounds)]
        except subprocess.CalledProcessError as error:
            reason = f"CuPy failed: {error.stderr.decode(errors='replace').strip().rpartition(chr(10))[2]}"
            return ours, reason, reason
        return ours, statistics.median(cold), statistics.median(warm)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=51)
    rounds = parser.parse_args().rounds
    if reason := DRIVER.missing():
        print(f"not measured: {reason}")
        return 0
    os.environ |= DRIVER.environment(os.environ.get("DEVMOD_CUDA_DRIVER") or "ctypes")
    DRIVER.show()
    if not DRIVER.on_hardware():
        os.environ["DEVMOD_STANDIN_SKIP_CUBINS"] = "1"
    print(f"{DRIVER.place():<46} {'ms':>9} {'peer, ms':>9} {'ratio':>6} {'most':>5}")
    over = False

    def row(name: str, own: float, peer: float | str, most: float | None) -> None:
        nonlocal over
        bound = "" if most is None else most
        if isinstance(peer, str):
            print(f"{name:<46} {own * 1e3:9.3f} {'–':>9} {'–':>6} {bound:>5}  {peer}", flush=True)
            return
        is_over = most is not None and own / peer > most
        over |= is_over and DRIVER.on_hardware()
        print(
            f"{name:<46} {own * 1e3:9.3f} {peer * 1e3:9.3f} {own / peer:6.2f} {bound:>5}{'  over' if is_over else ''}",
            flush=True,
        )

    few = max(rounds // 10, 3)

    def rows_of_processes() -> None:
        ours, cold, warm = measure_processes(few)
        row("process to first result, of CuPy, cold", ours, cold, MOST["cold"])
        row("process to first result, of CuPy, warm", ours, warm, MOST["warm"])

    for measure in (
        lambda: row("graph of 64 launches, of 64 launches", *measure_graph(rounds), MOST["graph"]),
        lambda: row(
            "module of 100 cubin kernels, of ObjectCode",
            *measure_module(2 * few, 1),
            MOST["module"],
        ),
        lambda: row("the same, and each of its kernels", *measure_module(2 * few, 100), None),
        rows_of_processes,
    ):
        try:
            measure()  # type: ignore[no-untyped-call]
        except Exception:  # noqa: BLE001 - the time on a machine with a GPU is short: a failure does not stop the other figures
            traceback.print_exc()
            over = True
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
