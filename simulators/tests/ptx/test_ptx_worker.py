"""The worker process of the stand-in driver, through its pipes (drivers/protocol.md)."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cuda_sources import AXPY
from numpy.testing import assert_array_equal
from ptx_sources import ptx_of

from devmod_simulators import ptx

BASE, SIZE = 0x7_0000_0000_00, 1 << 24


class Process:
    """A worker with the pipes and the arena of a driver."""

    def __init__(self) -> None:
        arena = os.memfd_create("arena")
        os.ftruncate(arena, SIZE)
        self.mapping = mmap.mmap(arena, SIZE)
        self.memory = np.frombuffer(self.mapping, np.uint8)
        (request_read, self.requests), (self.responses, response_write) = os.pipe(), os.pipe()
        # The child's descriptors 3 to 5 are these three. A shell moves them, since Popen keeps
        # numbers.
        folder = Path(ptx.__file__).parent
        script = f'exec 3<&{request_read} 4>&{response_write} 5<>/dev/fd/{arena}; exec "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", script, "worker", sys.executable, str(folder), str(BASE), str(SIZE)],
            pass_fds=(request_read, response_write, arena),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        for descriptor in (request_read, response_write, arena):
            os.close(descriptor)

    def ask(self, operation: int, body: bytes) -> tuple[int, str, bytes]:
        """Send a request and return status, message and fields."""
        data = struct.pack("<I", operation) + body
        os.write(self.requests, struct.pack("<I", len(data)) + data)
        with os.fdopen(os.dup(self.responses), "rb") as stream:
            response = stream.read(struct.unpack("<I", stream.read(4))[0])
        status, length = struct.unpack_from("<II", response)
        return status, response[8 : 8 + length].decode(), response[8 + length :]

    def load(self, source: str) -> tuple[int, str, bytes]:
        """Load a module."""
        return self.ask(1, struct.pack("<II", 90, len(source)) + source.encode())

    def launch(
        self,
        module: int,
        parameters: bytes,
        ranges: list[tuple[int, int]],
        grid: int,
        block: int,
        kernel: int = 0,
    ) -> tuple[int, str, bytes]:
        """Launch a kernel."""
        body = struct.pack("<14I", module, kernel, grid, 1, 1, block, 1, 1, 1, 1, 1, 0, 0, 60)
        body += struct.pack("<I", len(parameters)) + parameters + struct.pack("<I", len(ranges))
        body += b"".join(struct.pack("<QQ", *each) for each in ranges)
        return self.ask(4, body + struct.pack("<I", 0))

    def close(self) -> int:
        """End the worker and return its exit status."""
        os.close(self.requests)
        os.close(self.responses)
        status = self.process.wait(timeout=120)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status


@pytest.fixture
def worker() -> Iterator[Process]:
    process = Process()
    yield process
    assert process.close() == 0


def test_a_module_is_described_and_its_kernel_runs(worker: Process) -> None:
    status, message, body = worker.load(ptx_of(AXPY))
    assert (status, message) == (0, "")
    module, kernels = struct.unpack_from("<II", body)
    assert kernels == 1
    assert body[8:13] == struct.pack("<I", 1) + b"k"
    # Four parameters at 0, 8, 16 and 24; 28 bytes; nothing required; no memory of its own; no
    # globals.
    assert struct.unpack("<25I", body[13:]) == (
        4,
        0,
        4,
        4,
        8,
        8,
        8,
        16,
        8,
        8,
        24,
        4,
        4,
        28,
        *(0,) * 9,
        17,  # registers
        0,
    )
    assert worker.ask(2, struct.pack("<II", module, 0)) == (0, "", b"")
    floats = worker.memory.view(np.float32)
    floats[64 : 64 + 100] = np.arange(100)
    floats[256 : 256 + 100] = 1
    ranges = [(BASE + 256, 400), (BASE + 1024, 400)]
    parameters = struct.pack("<fxxxxQQi", 2.0, BASE + 256, BASE + 1024, 100)
    assert worker.launch(module, parameters, ranges, 4, 32) == (0, "", b"")
    assert_array_equal(floats[256 : 256 + 100], 2 * np.arange(100) + 1)
    # The same with a shorter range: the driver's code of the error, and the worker goes on.
    status, message, _ = worker.launch(
        module, parameters, [(BASE + 256, 400), (BASE + 1024, 396)], 4, 32
    )
    assert status == 700
    assert message.startswith(
        "read of 4 bytes at global address 0x7000000058c is out of bounds, kernel k, block (3, 0, 0), thread (3, 0, 0), PTX line "
    )
    assert worker.ask(3, struct.pack("<I", module)) == (0, "", b"")
    status, message, _ = worker.launch(module, parameters, ranges, 4, 32)
    assert status == 999
    assert message.startswith("Traceback (most recent call last):")


def test_text_that_is_no_ptx_has_the_code_of_the_driver(worker: Process) -> None:
    text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {\nbra missing;\n}"
    assert worker.load(text) == (218, "line 5: unknown label 'missing'", b"")
    assert worker.load(".version 8.0\n.target sm_90\n.address_size 64\nnonsense") == (
        218,
        "line 4: unexpected 'nonsense'",
        b"",
    )
