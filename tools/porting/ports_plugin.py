"""A plugin of pytest for `tools/ports.py`: it names the processor for PoCL, as devmod does, and
writes what devmod compiled and copied into the folder PORTS_COUNTS.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import uuid
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

os.environ["DEVMOD_OPENCL_POCL_CPU"] = "1"

import pyopencl

from devmod_opencl import _device
from devmod_opencl._pocl import name_processor

#: The methods with which a device copies an array of a call.
COPIES = ("upload", "uploader", "write", "read", "reader", "copy", "use_in_place")
counts: Counter[str] = Counter()


def prepare() -> None:
    """Let PoCL compile on each processor, also for pyopencl alone."""
    for platform in pyopencl.get_platforms():
        for device in platform.get_devices():
            name_processor(device)


def pytest_configure() -> None:
    """Count the copies from now on."""
    prepare()
    for name in COPIES:
        setattr(_device.OpenCLDevice, name, counted(name))


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Keep one of as many tests as PORTS_STEP says."""
    items[:] = items[:: int(os.environ.get("PORTS_STEP", "1"))]


def counted(name: str) -> Any:
    """Return a method of devmod's device that counts its calls."""
    method = getattr(_device.OpenCLDevice, name)

    def count(*args: Any, **keywords: Any) -> Any:
        counts[name] += 1
        return method(*args, **keywords)

    return count


def pytest_sessionfinish() -> None:
    """Write the size of each compiled program, and the copies."""
    door = sys.modules.get("devmod_pyopencl")
    folder = os.environ.get("PORTS_COUNTS")
    if door is None or not folder:
        return
    import devmod

    programs = []
    for (source, options), module in door.modules.items():
        # A wheel is compressed.
        size = len(zlib.compress(devmod.dumps(module)))
        programs.append((hash_of(source, options), size, len(module.functions)))
    text = json.dumps({"programs": programs, "copies": counts.total()})
    (Path(folder) / f"{uuid.uuid4()}.json").write_text(text, encoding="utf-8")


def hash_of(source: str, options: tuple[str, ...]) -> str:
    """Return what a program has alone, the same in each process."""
    return hashlib.sha256("\0".join((source, *options)).encode()).hexdigest()
