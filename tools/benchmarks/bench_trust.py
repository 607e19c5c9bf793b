"""What a policy costs: opening signed files under one, beside the same files without a policy.

    python tools/benchmarks/bench_trust.py [--rounds 15]

One file has 100,000 modules of one function each, as a build of cubins has, one has 100,000
functions in one module, and one has one kernel. Each is signed with an Ed25519 key. The contenders
alternate in one process, in which a file was opened before: the checker is imported, and the policy
is read. sys.path has no folders of editable installs, which a look at the plugins would visit. What
the first check of a process adds is measured in new processes. Exits with 1 if a figure exceeds its
bound.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench_functions import function, minima, separate, together
from timing import check, in_new_process, note

import devmod
import devmod_trust
from devmod_workbench._cli import main as command

#: The files: how many functions, how they are joined, and what a policy may add, of what it adds to
#: one kernel. The look at the plugins and the check of the signature take as long for each file.
#: One module of all functions takes 22 ms, of which the difference is a small part.
_SHAPES: dict[str, tuple[int, Callable[..., devmod.Module], float]] = {
    "one kernel": (1, separate, 0),
    "100,000 modules of a function": (100_000, separate, 2),
    "100,000 functions in one module": (100_000, together, 4),
}
#: A new process that opens a file twice, and prints the milliseconds of both.
_TWICE = """
import sys, time
import devmod
devmod.load
for _ in range(2):
    began = time.perf_counter()
    devmod.load(sys.argv[1])
    print((time.perf_counter() - began) * 1e3)
"""


def main() -> int:
    """Print the table. Return 1 if a bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    os.environ["DEVMOD_COMPILE_FORCE_FALLBACK"] = "1"
    failed = False
    root = str(Path(__file__).resolve().parents[2])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command(["keygen", "-o", str(folder / "acme.pem")])
        key = folder / "acme.pem"
        (folder / "trust.toml").write_text(
            '[[rule]]\nsource = ["*.devmod"]\nname = "acme/all"\nkeys = ["acme.pub"]\n'
        )
        print(f"{'ms':40}{'no policy':>12}{'policy':>12}")
        small = 0.0
        for shape, (count, make, most) in _SHAPES.items():
            functions = dict(map(function, range(count)))
            path = folder / f"{shape}.devmod"
            devmod.save(
                make(functions, [number.to_bytes(1000, "little") for number in range(count)]), path
            )
            devmod_trust.sign(path, key, name="acme/all", version=1)
            sys.path[:] = [
                each for each in sys.path if not (each.startswith(root) and each.endswith("src"))
            ]

            def under_policy(path: Path = path) -> None:
                os.environ["DEVMOD_TRUST"] = str(folder / "trust.toml")
                devmod.load(path)
                del os.environ["DEVMOD_TRUST"]

            least = minima(
                {
                    "no policy": lambda path=path: devmod.load(path),  # type: ignore[misc]
                    "policy": under_policy,
                },
                options.rounds,
            )
            print(f"{shape:40}{least['no policy']:12.3f}{least['policy']:12.3f}")
            added = least["policy"] - least["no policy"]
            if most:
                failed |= check(
                    f"{shape}, what a policy adds to a load",
                    added / small,
                    most,
                    of="what it adds to one kernel",
                )
            else:
                small = added
                os.environ["DEVMOD_TRUST"] = str(folder / "trust.toml")
                first, second = in_new_process(_TWICE, path, processes=9)
                del os.environ["DEVMOD_TRUST"]
                note(
                    f"A policy adds {added:.2f} ms to the load of a small file, and {first - second:.0f} ms to the first of a process."
                )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
