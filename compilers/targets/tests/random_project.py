"""A project with random includes, which changes in random steps: new, changed, removed and linked
files, and other include folders.

Each file changes the macro VALUE, on which the kernel depends, and includes others by names that
lead to several folders.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

FOLDERS = ("src", "src/deep", "inc", "inc/deep", "far")
_HEADERS = ("x.h", "y.h", "z.h")
#: Further names, which are looked up, and a header of compilers.
_NAMES = (
    *(
        f"{folder}/{name}"
        for folder in (".", "..", "deep", "link", "link/..", "../inc", "../far")
        for name in _HEADERS
    ),
    "stdint.h",
)
_KERNELS = {
    "opencl": ("k.cl", "kernel void k(global int *x) { x[0] = VALUE; }\n"),
    "metal": ("k.metal", "kernel void k(device int *x [[buffer(0)]]) { x[0] = VALUE; }\n"),
    "vulkan": (
        "k.comp",
        "layout(local_size_x = 1) in;\nlayout(set = 0, binding = 0) buffer X { int x[]; };\nvoid main() { x[0] = VALUE; }\n",
    ),
    "webgpu": (
        "k.wgsl",
        "var<private> x: i32;\n@compute @workgroup_size(1) fn k() { x = VALUE; }\n",
    ),
    "cuda -arch=compute_80": ("k.cu", 'extern "C" __global__ void k(int *x) { x[0] = VALUE; }\n'),
    "rocm -arch=gfx1100": ("k.hip", 'extern "C" __global__ void k(int *x) { x[0] = VALUE; }\n'),
    "hexagon -arch=v66": ("k.c", "#include <stdint.h>\nvoid k(int *x) { x[0] = VALUE; }\n"),
}
TARGETS = tuple(_KERNELS)


class RandomProject:
    """A project for one target.

    Parameters
    ----------
    folder
        Where it is written.
    target
        One of TARGETS.
    seed
        The start of the random numbers.
    """

    def __init__(self, folder: Path, target: str, seed: int) -> None:
        self.folder, self._target = folder, target
        self._random = random.Random(seed)
        self._source, self._kernel = _KERNELS[target]
        self._kind = target.partition(" ")[0]
        self._names = [f"{place}/{name}" for place in FOLDERS for name in _HEADERS]
        self._sources = [f"src/{self._source}", f"far/{self._source}"]
        for place in FOLDERS:
            (folder / place).mkdir(parents=True)
        for name in (*self._names, *self._sources):
            self._write(name)
        self._write_manifest()

    def change(self) -> str:
        """Make a change, and return what it was."""
        choose = self._random.choice
        step = choose(
            (
                "write",
                "write",
                "write",
                "source",
                "remove",
                "link",
                "link",
                "link folder",
                "manifest",
                "touch",
            )
        )
        if step == "manifest":
            return self._write_manifest()
        if step == "write":
            return self._write(
                choose([*self._names, *self._sources, "inc/stdint.h", "src/deep/stdint.h"])
            )
        name = choose(self._names)
        path = self.folder / name
        if step == "link folder":
            path = path.parent / choose(("link", "deep"))
            return (
                self._link(path, self.folder / choose(FOLDERS))
                if path.is_symlink() or not path.exists()
                else "nothing"
            )
        if step == "remove":
            path.unlink(missing_ok=True)
        elif step == "touch" and path.exists():
            os.utime(path)
        elif step == "source":
            return self._link(*(self.folder / each for each in self._sources))
        elif step == "link":
            return self._link(path, self.folder / choose(FOLDERS) / path.name)
        return f"{step} {name}"

    def _link(self, path: Path, target: Path) -> str:
        """Replace a path by a link to another, a symbolic one or a hard one."""
        actual = target.resolve()
        if not actual.exists() or actual in (path, path.resolve()):
            return "nothing"
        path.unlink(missing_ok=True)
        if actual.is_file() and self._random.random() < 0.4:
            os.link(actual, path)
        else:
            path.symlink_to(os.path.relpath(target, path.parent.resolve()))
        return f"link {path} to {target}"

    def _write_manifest(self) -> str:
        include = [
            each
            for each in self._random.sample(("inc", "far", "inc/deep", "src/link"), 2)
            if (self.folder / each).is_dir()
        ]
        text = f'output = "k.devmod"\ntargets = ["{self._target}"]\n[kernels.k]\nsources = ["src/{self._source}"]\ninclude = {include}\n'
        if self._kind in ("rocm", "hexagon"):
            text += f"defines = {{ NAMED = '\"{self._random.choice(_NAMES)}\"' }}\n"
        (self.folder / "devmod.toml").write_text(text)
        return text

    def _write(self, name: str) -> str:
        number = self._random.randint(1, 9)
        lines = [self._line() for _ in range(self._random.randint(1, 3))]
        lines.insert(self._random.randint(0, len(lines)), f"#undef VALUE\n#define VALUE {number}")
        text = "\n".join(lines) + "\n"
        if name.endswith(self._source):
            head = (
                "#version 450\n#extension GL_GOOGLE_include_directive : require\n"
                if self._kind == "vulkan"
                else ""
            )
            text = head + text + self._kernel
        elif self._random.random() < 0.5:
            text = f"#pragma once\n{text}"
        else:
            text = f"#ifndef GUARD_{number}\n#define GUARD_{number}\n{text}#endif\n"
        path = self.folder / name
        if path.is_symlink() and not path.exists():
            path.unlink()
        path.write_text(text)
        return f"write {name}: {text!r}"

    def _line(self) -> str:
        header, name = self._random.choice(_HEADERS), self._random.choice(_NAMES)
        spelled = self._random.choice((f'"{name}"', f'"{name}"', f"<{name}>"))
        lines = [f'#include "{header}"', f"#if 0\n#include {spelled}\n#endif"]
        if self._kind in ("vulkan", "webgpu"):  # GLSL and WGSL have no __has_include
            return self._random.choice((*lines, f'#include "deep/{header}"'))
        lines.append(f"#if __has_include({spelled})\n#include {spelled}\n#endif")
        lines.append(
            f"#if __has_include({spelled})\n#undef VALUE\n#define VALUE {self._random.randint(10, 99)}\n#endif"
        )
        if self._kind in ("rocm", "hexagon"):
            lines.append(
                f'#undef NAME\n#define NAME "{name}"\n#if __has_include(NAME)\n#include NAME\n#endif'
            )
            lines.append("#if __has_include(NAMED)\n#include NAMED\n#endif")
        return self._random.choice(lines)
