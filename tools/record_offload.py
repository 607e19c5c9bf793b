"""Record containers of device code that LLVM's and NVIDIA's tools make, as vectors of the tests.

``python tools/record_offload.py FOLDER`` replaces compilers/readers/tests/vectors/offload. FOLDER
has LLVM 19's clang, clang-offload-bundler and clang-offload-packager. The Python needs
cuda-bindings and nvidia-nvfatbin. The images are those of compilers/targets/tests/vectors/triton.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "compilers/readers/tests/vectors/offload"
IMAGES = ROOT / "compilers/targets/tests/vectors/triton"
CUBIN = IMAGES / "add.cuda.cubin"
PTX = IMAGES / "add.cuda.ptx"
HSACO = IMAGES / "add.hip.hsaco"
HOST = "host-x86_64-unknown-linux-gnu-"
HIP = "hipv4-amdgcn-amd-amdhsa--gfx1100"


def main() -> None:
    """Make the containers."""
    tools = Path(sys.argv[1])
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        scratch = Path(work)

        def run(program: str, *arguments: str | Path) -> None:
            subprocess.run([str(tools / program), *map(str, arguments)], cwd=scratch, check=True)

        empty = scratch / "host"
        empty.write_bytes(b"")
        bundle = ["-type=o", f"-targets={HOST},{HIP}", f"-input={empty}", f"-input={HSACO}"]
        run("clang-offload-bundler", *bundle, f"-output={FOLDER / 'plain.bundle'}")
        run("clang-offload-bundler", *bundle, f"-output={FOLDER / 'zstd.bundle'}", "-compress")
        hip = f"--image=file={HSACO},triple=amdgcn-amd-amdhsa,arch=gfx1100,kind=hip"
        options = "triple=nvptx64-nvidia-cuda,arch=sm_90a,kind=cuda"
        cuda = [f"--image=file={path},{options}" for path in (CUBIN, PTX)]
        packed = FOLDER / "images.offloadbinary"
        run("clang-offload-packager", "-o", packed, hip, *cuda)
        (FOLDER / "images.fatbin").write_bytes(_fatbin())
        (scratch / "k.c").write_text("int k;\n")
        compile_host = ("-c", "-O1", "-target", "x86_64-unknown-linux-gnu")
        run(
            "clang",
            *compile_host,
            "k.c",
            "-Xclang",
            f"-fembed-offload-object={packed}",
            "-o",
            FOLDER / "offloading.o",
        )
        sections = {".nv_fatbin": "images.fatbin", ".hip_fatbin": "plain.bundle"}
        lines = [
            f'.section {section}, "a"\n.incbin "{FOLDER / file}"\n'
            for section, file in sections.items()
        ]
        (scratch / "k.s").write_text("".join(lines))
        run("clang", *compile_host, "k.s", "-o", FOLDER / "fatbins.o")


def _fatbin() -> bytes:
    from cuda.bindings import nvfatbin

    handle = nvfatbin.create(["-64", "-compress=false"], 2)
    for add, path, arch in ((nvfatbin.add_cubin, CUBIN, "90a"), (nvfatbin.add_ptx, PTX, "90a")):
        data = path.read_bytes() + (b"\0" if path is PTX else b"")
        add(handle, data, len(data), arch, path.name, *([""] if path is PTX else []))
    result = bytearray(nvfatbin.size(handle))
    nvfatbin.get(handle, result)
    nvfatbin.destroy(handle)
    return bytes(result)


if __name__ == "__main__":
    main()
