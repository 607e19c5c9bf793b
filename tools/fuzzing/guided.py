"""Fuzzing with atheris (libFuzzer): the same readers and mutators, guided by the lines that an
input reaches.

python -m fuzzing.guided READER FOLDER --seconds S [--seed TEXT]
"""

from __future__ import annotations

import faulthandler
import os
import pkgutil
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from random import Random

#: The packages whose lines are counted.
PACKAGES = (
    "devmod",
    "devmod_readers",
    "devmod_wgsl",
    "devmod_targets",
    "devmod_vulkan",
    "devmod_opencl",
    "devmod_webgpu",
)
#: Parts of the names of modules that are not imported: the import starts something, or needs
#: another system.
_NOT = (
    "__main__",
    "devmod_conformance",
    "devmod._pyinstaller",
    "devmod_opencl._driver",
    "devmod_webgpu._driver",
)


def import_instrumented() -> None:
    """Import the packages with atheris' counters in them. It must run before anything else imports
    them.
    """
    import atheris

    with atheris.instrument_imports(include=list(PACKAGES), enable_loader_override=False):
        for name in PACKAGES:
            try:
                package = import_module(name)
            except ImportError:
                continue
            for result in pkgutil.walk_packages(
                package.__path__, f"{name}.", onerror=lambda _: None
            ):
                if not any(part in result.name for part in _NOT):
                    try:
                        import_module(result.name)
                    except Exception as error:  # noqa: BLE001 - a module that cannot be imported is not measured
                        print(
                            f"not instrumented: {result.name} ({type(error).__name__})",
                            file=sys.stderr,
                        )


def main(arguments: Sequence[str]) -> None:
    """Run libFuzzer for the given time, imports included, print the result and end the process."""
    begun = time.monotonic()
    import_instrumented()
    import atheris

    from fuzzing import worker  # the readers import devmod, so this comes after import_instrumented
    from fuzzing.mutation import MOST

    values = worker.parse(arguments)
    reader, findings, current = worker.prepare(values)
    corpus = values.folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, data in enumerate(reader.seeds()):
        (corpus / f"seed-{number}").write_bytes(data)
    with worker.scan_of(reader):
        worker.warm_up(reader, current)
    end = max(begun + values.seconds, time.monotonic() + 5)
    done = 0
    armed = 0.0  # on a loaded machine the imports take minutes

    def test(data: bytes) -> None:
        nonlocal done, armed
        done += 1
        now = time.monotonic()
        if now > armed + 1:
            faulthandler.dump_traceback_later(worker.PATIENCE, exit=True)
            armed = now
        worker.execute(reader, data, findings, current)
        if now > end:
            worker.finish(reader, done, findings)
            os._exit(1 if findings.count else 0)

    def mutate(data: bytes, size: int, seed: int) -> bytes:
        random = Random(seed)
        if random.randrange(4):
            return reader.mutate(data, random)[:size]
        return bytes(atheris.Mutate(data, size))[:size]

    flags = [
        f"-max_len={MOST}",
        "-timeout=60",
        "-rss_limit_mb=8000",
        f"-artifact_prefix={values.folder}/",
        "-verbosity=0",
    ]
    seed = 1 + sum(values.seed.encode()) % 100_000
    atheris.Setup([sys.argv[0], str(corpus), *flags, f"-seed={seed}"], test, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
