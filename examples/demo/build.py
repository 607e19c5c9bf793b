"""The demo's build box: compile everything into one file, in an environment that has no runtime.

    python build.py <folder of the repository> <folder to write to>

Writes kernels.devmod, and digests.json: the SHA-256 of each module's bytes as this environment made them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from pathlib import Path

import devmod


def main(repository: Path, out: Path) -> None:
    """Compile, save, and say what was done."""
    # This is a box that can run nothing: no runtime is registered, and no OpenCL binding can be imported.
    for kind in ("opencl", "cuda", "vulkan"):
        assert kind not in devmod.registered("devmod.create"), f"the {kind} runtime is installed; this environment was to have none"
    assert importlib.util.find_spec("pyopencl") is None, "pyopencl is installed; this environment was to have no runtime"

    sources = sorted((repository / "examples" / "opencl").glob("*.cl"))
    modules = [devmod.compile(source, "opencl") for source in sources]

    # TVM compiled this one, on another machine; it comes as TVM packs its imports.
    blob = repository / "core" / "tests" / "vectors" / "tvm" / "matmul.opencl.tvmimports"
    library = devmod.interop.tvm.load_imports(blob.read_bytes())
    modules += [
        devmod.create_with_fallback(module.kind, module.code, module.format, module.functions)
        for module in library.imports
        if module.kind == "opencl"
    ]

    for module, name in zip(modules, [*(source.name for source in sources), "TVM's matmul"], strict=True):
        assert type(module).__name__ == "FallbackModule", f"{name} is {module!r}, not a fallback"
        print(f"  {name:18} → {module.kind} {module.format}: {', '.join(module.functions)}")
    try:
        modules[0].get_function(next(iter(modules[0].functions)))
    except devmod.RuntimeNotLinkedError as error:
        print(f"  asked to run one here: {error}")
    else:
        raise AssertionError("a fallback gave a function")

    path = out / "kernels.devmod"
    devmod.save(devmod.bundle(*modules), path)
    digests = {next(iter(module.functions)): hashlib.sha256(module.save_to_bytes()).hexdigest() for module in modules}
    (out / "digests.json").write_text(json.dumps(digests, indent=2))
    print(f"  {len(modules)} modules in one file of {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
