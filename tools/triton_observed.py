"""What a program of Triton does on the simulated GPU, with tensors of PyTorch for the CPU: a line
of JSON for each test, or for the program, in the file that OBSERVED names.

It is a plugin of pytest, or runs a program: ``python tools/triton_observed.py program.py``. A
benchmark of the program is not run, and autotune launches each configuration once. With
COMPILE_ONLY nothing is launched, and autotune takes its first configuration.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo  # It lists functions of PyTorch, before peers_torch replaces them.
import triton
from triton.backends.nvidia.compiler import CUDABackend
from triton.backends.nvidia.driver import CudaDriver, CudaLauncher
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

import peers_torch

#: Whether no kernel is launched: the GPU of the simulator does not have its instructions.
IS_COMPILED_ALONE = bool(os.environ.get("COMPILE_ONLY"))
compile_or_load = JITFunction._do_compile
make_cubin = CUDABackend.make_cubin
#: Of the test that runs: a digest of the tensors after each launch, the seconds before the first
#: launch of each kernel, and the numbers of compiles and of measured configurations.
digests: list[str] = []
seconds: list[float] = []
compiles: list[str] = []
measured: list[float] = []


def observed_launch(*arguments: Any) -> None:
    """Launch a kernel, and keep a digest of its tensors."""
    if IS_COMPILED_ALONE:
        return
    peers_torch.launch(*arguments)
    digest = sha256()
    # Addresses differ with what was allocated before: their order stands for them.
    order = {device: place for place, (_, device) in enumerate(peers_torch.addressed.values())}
    storages = [storage for storage, _ in peers_torch.addressed.values()]
    for tensor in tensors_in(arguments):
        if tensor.dtype == torch.int64 and not order.keys().isdisjoint(tensor.flatten().tolist()):
            digest.update(
                repr([order.get(each, each) for each in tensor.flatten().tolist()]).encode()
            )
        else:
            storages.append(tensor.untyped_storage())
    for storage in storages:
        digest.update(bytes(torch.tensor([], dtype=torch.uint8).set_(storage).numpy()))
    digests.append(digest.hexdigest()[:16])


def tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors among arguments, also those in tuples and in descriptors."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from tensors_in(value)
        elif isinstance(getattr(value, "base", None), torch.Tensor):
            yield value.base


def timed_compile(*arguments: Any, **named: Any) -> Any:
    """Compile a kernel, or load it, and keep the seconds."""
    began = time.perf_counter()
    try:
        return compile_or_load(*arguments, **named)
    finally:
        seconds.append(time.perf_counter() - began)


def counted_cubin(*arguments: Any) -> Any:
    """Count a compile that comes to its end: some tests are of kernels that do not compile."""
    compiles.append("")
    return make_cubin(*arguments)


def launch_once(call: Callable[[], Any], quantiles: Iterable[float] = (0.5,), **_: Any) -> Any:
    """Launch once, and return equal times for all configurations: the first one is chosen. What
    is launched to be measured has no digest.
    """
    measured.append(1.0)
    number = len(digests)
    call()
    del digests[number:]
    return [1.0 for _ in quantiles]


def write(name: str) -> None:
    """Write the line of a test, and forget what was seen."""
    line = {
        "test": name,
        "digests": list(digests),
        "seconds": list(seconds),
        "compiles": len(compiles),
        "measured": len(measured),
    }
    with open(os.environ["OBSERVED"], "a", encoding="utf-8") as file:
        file.write(f"{json.dumps(line)}\n")
    for each in (digests, seconds, compiles, measured):
        each.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Write the line of each test, also of one that fails. An error of the device is that of each
    later call, so another worker has the next test.
    """
    torch.manual_seed(0)
    np.random.seed(0)
    try:
        return (yield)
    finally:
        write(item.nodeid)
        if peers_torch.DRIVER.cuCtxSynchronize():
            os._exit(1)


class NoBenchmark:
    """A benchmark that is not run."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __call__(self, _function: Any) -> NoBenchmark:
        """Decorate a function."""
        return self

    def run(self, **_: Any) -> None:
        """Run nothing."""


# What no kernel writes is then equal in each run.
torch._C._set_deterministic_algorithms(True, warn_only=True)
CudaLauncher.__call__ = observed_launch
JITFunction._do_compile = timed_compile
CUDABackend.make_cubin = counted_cubin
CudaDriver.get_benchmarker = lambda _self: launch_once
CudaDriver.get_active_torch_device = lambda _self: torch.device("cpu")
utils = triton.runtime.driver.active.utils
properties_of = utils.get_device_properties
# The CPU has no number, and the GPU has 0.
utils.get_device_properties = lambda device: properties_of(device or 0)
triton.testing.perf_report = NoBenchmark
triton.testing.do_bench = launch_once
if IS_COMPILED_ALONE:
    Autotuner.prune_configs = lambda self, _named: self.configs[:1]
    torch.allclose = torch.testing.assert_close = lambda *_, **__: True

if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        runpy.run_path(sys.argv[1], run_name=os.path.splitext(os.path.basename(sys.argv[1]))[0])
    finally:
        write(os.path.basename(sys.argv[-1]))
