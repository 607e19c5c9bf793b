"""Kill saving processes repeatedly, and check the files that they leave. test_kills.py runs this in
a process without threads.

    python killed_saves.py ACT FOLDER KILLS SEED

Each child is forked from this process, which has imported everything, and saves two contents by
turns until it is killed by SIGKILL after a random time. The process ends after KILLS kills in the
middle of a save, or fails with what is wrong. Kills at other times do not count, and the next child
gets more time, so the result does not depend on the load of the machine.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path

import devmod
from devmod._plugins.specs import find_spec
from devmod.backend import DiskCache, read_payload

SIZE = 4 << 20
ONE, OTHER = (bytes([number]) * SIZE for number in (1, 2))


def module(code: bytes) -> devmod.Module:
    return devmod.create_with_fallback(
        "cuda", code, "cubin", {"f": devmod.FunctionInfo("f", ["handle"])}
    )


def save(folder: Path, code: bytes) -> None:
    devmod.save(module(code), folder / "k.devmod")


def write_to_file(folder: Path, code: bytes) -> None:
    if code is OTHER:  # each round is the first one that writes to this name
        (folder / "k.cubin").unlink(missing_ok=True)
        (folder / "k.tvm_meta.json").unlink(missing_ok=True)
    module(code).write_to_file(folder / "k.cubin")


def write_cache(folder: Path, code: bytes) -> None:
    cache = DiskCache("npu")
    cache.write(cache.key("source"), code)


def check_save(folder: Path) -> None:
    loaded = devmod.load(folder / "k.devmod")
    loaded.verify()
    assert loaded.save_to_bytes() in WHOLE, "neither the old file nor the new one"


def check_write_to_file(folder: Path) -> None:
    if (folder / "k.cubin").exists():
        assert (folder / "k.tvm_meta.json").exists(), "a payload without its metadata"
        spec = find_spec("cuda")
        assert spec is not None
        _, fmap, code = read_payload(spec, str(folder / "k.cubin"), "cubin")
        assert list(fmap) == ["f"]
        assert code in (ONE, OTHER), "neither the old payload nor the new one"


def check_write_cache(folder: Path) -> None:
    cache = DiskCache("npu")
    assert cache.read(cache.key("source")) in (ONE, OTHER), "neither the old entry nor the new one"


ACTS = {
    "save": (save, check_save),
    "write_to_file": (write_to_file, check_write_to_file),
    "cache": (write_cache, check_write_cache),
}
WHOLE = [module(code).save_to_bytes() for code in (ONE, OTHER)]


def temporary(folder: Path) -> list[str]:
    return sorted(
        str(each.relative_to(folder))
        for each in folder.rglob("*")
        if each.suffix in (".partial", ".tmp")
    )


def main(act: str, folder: Path, kills: int, seed: int) -> None:
    """Kill children until so many have left a temporary file."""
    # Python 3.12 warns about a fork while an ended thread, such as that of a save, is still in the
    # system's count.
    warnings.simplefilter("ignore", DeprecationWarning)
    work, check = ACTS[act]
    chance = random.Random(seed)
    os.environ["DEVMOD_CACHE_DIR"] = str(folder)
    work(folder, ONE)
    longest = 0.01
    middle = 0
    while middle < kills:
        child = os.fork()
        if not child:
            while True:
                work(folder, OTHER)
                work(folder, ONE)
        time.sleep(chance.uniform(0, longest))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        left = temporary(folder)
        middle += bool(left)
        longest *= 1 if left else 1.1
        check(folder)
        if chance.random() < 0.5:  # several processes may be killed in sequence
            work(folder, ONE)
            check(folder)
            if act != "cache":  # temporary files of the cache are removed after an hour
                assert temporary(folder) == [], (
                    f"still there after the next save: {temporary(folder)}"
                )
        if act != "cache":
            assert len(left) <= (1 if act == "save" else 2), f"they pile up: {left}"


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
