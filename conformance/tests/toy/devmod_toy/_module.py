"""The toy's payload: ``toy 1``, then the names of its kernels, a line each; or the magic ``TOY\\0``
and the names with zeros between.
"""

from __future__ import annotations

import math
import time
from functools import wraps

import devmod
from devmod.backend import read_payload
from devmod_runtime import Kernel, Launcher, RuntimeModule, block_packer
from devmod_toy import TARGET
from devmod_toy._device import devices, driver


def kernels(fmt, code):
    """Return the names of the kernels in a payload."""
    data = bytes(code)
    if fmt == "toybin":
        if data[:4] != b"TOY\0":
            raise devmod.FormatError(
                "the toy payload of format 'toybin' does not begin with b'TOY\\x00'", kind="toy"
            )
        return [name.decode() for name in data[4:].split(b"\0")]
    lines = data.decode("utf-8", "replace").splitlines()
    if lines[:1] != ["toy 1"]:
        raise devmod.CompileError(
            "the toy payload does not begin with the line 'toy 1'",
            kind="toy",
            log="1: expected 'toy 1'",
        )
    return lines[1:]


class ToyKernel(Kernel):
    def __init__(self, run):
        self.run = run

    max_block = 1024

    def shape(self, launch):
        if math.prod(launch.block) > self.max_block:
            raise devmod.LaunchError(
                f"a block of the toy has at most {self.max_block} threads, got block={launch.block}",
                kind="toy",
            )
        driver().configure(launch.block)
        return math.prod(launch.grid) * math.prod(launch.block)

    def caller(self, stream, shape):
        return lambda values: self.run(shape, *values)

    def time(self, stream, shape, values):
        begin = time.perf_counter()
        self.run(shape, *values)
        return time.perf_counter() - begin


class ToyLauncher(Launcher):
    kind = "toy"
    has_clusters = has_images = has_packs = True
    kernel_type = ToyKernel

    def __init__(self, run):
        self.run = run

    def default_device(self):
        return devices()[0]

    def local(self, nbytes):
        return bytearray(nbytes)

    def kernel(self, device):
        return self.kernel_type(self.run)


class ToyModule(RuntimeModule):
    launcher_type = ToyLauncher

    @classmethod
    def from_file(cls, path, fmt):
        fmt, fmap, code = read_payload(TARGET, path, fmt)
        return cls(TARGET, fmt, fmap, code)

    def get_global(self, name, device=None, **options):
        if name != "weights":
            return super().get_global(name)
        import numpy as np

        return devices()[0].from_numpy(np.array(driver().GLOBALS[name], "float32"))

    def launcher(self, name, info):
        names = kernels(*self.payload())
        if info.name not in names:
            raise devmod.FormatError(
                f"the toy payload has no kernel {info.name!r}; it has: {', '.join(names)}",
                kind="toy",
            )
        return self.launcher_type(with_blocks(driver().KERNELS[info.name], info.interface))


def with_blocks(run, interface):
    """Return a kernel that gets the numbers of 4 bytes in blocks of memory one by one."""
    if interface is None or not interface.blocks:
        return run
    pack = block_packer(interface)
    places = [
        (number, param.at)
        for number, param in enumerate(interface.params)
        if param.kind == "scalar"
    ]

    @wraps(run)
    def run_with_blocks(threads, *values):
        blocks, values = pack(values), list(values)
        for number, (block, offset) in places:
            values[number] = blocks[block][offset : offset + 4]
        return run(threads, *values)

    return run_with_blocks
