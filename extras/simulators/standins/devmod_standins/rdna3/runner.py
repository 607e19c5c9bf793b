"""Launches of a code object's kernels without a driver. A wrong address ends the emulator's
process, so it is another than the caller's.
"""

from __future__ import annotations

import atexit
import json
import os
import struct
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np

from devmod.backend import temporary_folder

_PROGRAM = """
import json, struct, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from devmod_standins.rdna3 import emulator

load = emulator.load()
for request in sys.stdin:
    code, calls = json.loads(request)
    kernels = load(open(code, "rb").read())
    for call in calls:
        arrays = [np.load(each) for each in call["arrays"]]
        buffer = bytearray.fromhex(call["buffer"])
        for offset, array in zip(call["pointers"], arrays, strict=True):
            struct.pack_into("<Q", buffer, offset, array.ctypes.data)
        kernels.launch(call["name"], bytes(buffer), tuple(call["grid"]), tuple(call["block"]), call["shared_memory"])
        for path, array in zip(call["arrays"], arrays, strict=True):
            np.save(path, array)
    print("done", flush=True)
"""
_TIME_LIMIT = 600


class _Process:
    """The process that executes the kernels of all emulators: it starts in a second, and translates
    each instruction once.
    """

    def __init__(self) -> None:
        self._removal = ExitStack()
        folder = self._removal.enter_context(temporary_folder())
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _PROGRAM, str(Path(__file__).parents[2])],
            env=os.environ | {"TMPDIR": folder},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, request: str) -> str:
        """Execute a request. Return the output of the process if it ended; else ""."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = threading.Timer(_TIME_LIMIT, self._process.kill)
        timer.start()
        try:
            with suppress(BrokenPipeError):
                self._process.stdin.write(f"{request}\n")
                self._process.stdin.flush()
            lines = []
            for line in self._process.stdout:
                if line == "done\n":
                    return ""
                lines.append(line)
        finally:
            timer.cancel()
        return f"the emulator's process ended with status {self._process.wait()}\n{''.join(lines)}"

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._removal.close()


_processes: list[_Process] = []


@atexit.register
def _close() -> None:
    while _processes:
        _processes.pop().close()


class Emulator:
    """Launches of the kernels of one code object.

    Parameters
    ----------
    code
        The code object, for gfx1100.
    folder
        A folder for the files of both processes.
    """

    def __init__(self, code: bytes, folder: Path) -> None:
        from devmod_standins.rdna3.code_object import CodeObject

        self._kernels = {kernel.name: kernel for kernel in CodeObject(code).kernels}
        self._folder = folder
        self._code = folder / "kernels.hsaco"
        self._code.write_bytes(code)
        self._calls: list[dict[str, Any]] = []
        self._results: list[tuple[Path, np.ndarray[Any, Any]]] = []

    def add(
        self,
        name: str,
        *args: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_memory: int = 0,
    ) -> None:
        """Add a launch. Arrays are NumPy's; scalars are NumPy scalars or bytes, whose sizes are
        those of the code object.
        """
        kernel = self._kernels[name]
        buffer = bytearray(kernel.number(".kernarg_segment_size"))
        pointers = []
        arrays = []
        visible = [
            (offset, size)
            for kind, offset, size in kernel.arguments
            if not kind.startswith("hidden_")
        ]
        for number, ((offset, size), value) in enumerate(zip(visible, args, strict=True)):
            if isinstance(value, np.ndarray):
                path = self._folder / f"{len(self._calls)}-{number}.npy"
                np.save(path, value)
                pointers.append(offset)
                arrays.append(str(path))
                self._results.append((path, value))
            else:
                data = value if isinstance(value, bytes) else value.tobytes()
                assert len(data) == size, (
                    f"{name}: argument {number} has {size} bytes, got {len(data)}"
                )
                buffer[offset : offset + size] = data
        for kind, offset, size in kernel.arguments:
            if kind.startswith(("hidden_block_count_", "hidden_group_size_")):
                dims = grid if "block_count" in kind else block
                struct.pack_into(
                    "<I" if size == 4 else "<H", buffer, offset, dims["xyz".index(kind[-1])]
                )
        self._calls.append(
            {
                "name": name,
                "buffer": buffer.hex(),
                "pointers": pointers,
                "arrays": arrays,
                "grid": grid,
                "block": block,
            }
            | {"shared_memory": shared_memory}
        )

    def run(self) -> None:
        """Launch everything in order, and copy the results to the arrays."""
        if not _processes:
            _processes.append(_Process())
        errors = _processes[0].run(json.dumps([str(self._code), self._calls]))
        if errors:
            _close()
        assert not errors, errors
        for path, array in self._results:
            array[...] = np.load(path)
