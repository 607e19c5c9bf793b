"""The glslang and the SPIRV-Tools of the wheel slangpy: one library, which runs in processes of its
own.

glslang needs 0.1 s for its tables before the first shader, and 2 ms for a small shader after it.
slangpy itself is never imported: it loads a library of devices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from devmod_targets.authoring import _library

NAME = "slangpy"
#: Its malloc asks for huge pages: glslang's tables take 40 MB, and a quarter of their time are page
#: faults of 4 KiB. It also fills memory that it gives out, since glslang reads some that it has not
#: written: its output depends on what was there before.
_SETTINGS = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864:glibc.malloc.perturb=255:glibc.malloc.tcache_count=0"
}
_LIBRARY = r"(?:lib)?slang-glslang[\w.-]*\.(?:so|dylib|dll)"
#: SLANG_OPTIMIZATION_LEVEL_HIGH, the passes of ``spirv-opt -O``.
_OPTIMIZED = 2
#: The options of glslang for which the library has a debug level.
DEBUG_LEVELS = {"-g": 1, "-gV": 2, "-gVS": 3}
#: The version of GLSL, for which glslang makes its tables. Comments may contain it too.
_VERSION = re.compile(r"(?m)^[ \t]*#[ \t]*version[ \t]+(\d+)(?:[ \t]+(es|core|compatibility)\b)?")


def find_library(source: str) -> Library | None:
    """Return the library for a source; None if slangpy is not installed, or if this program is
    frozen and can start no Python.
    """
    path = _library.find_library(NAME, _LIBRARY)
    if not path:
        return None
    return Library(path, source)


#: The output of a request, the messages, and if it failed the first of them.
Answer = tuple[bytes, str, str]


class Library:
    """The library of an installed wheel.

    Parameters
    ----------
    path
        The path of the library.
    source
        The name of the source that it processes, for errors.
    """

    def __init__(self, path: str, source: str) -> None:
        self._path = path
        self._source = source
        self._first = ""
        self._minor = 0

    @property
    def toolchain(self) -> str:
        """The name and the version of the wheel for an origin, such as "slangpy 0.43.1"."""
        return _library.wheel_version(NAME, self._path)

    def compile(
        self, text: str, spirv: str, options: Sequence[str], meanwhile: Callable[[], None]
    ) -> Answer:
        """Compile GLSL to a version of SPIR-V such as "1.3", not optimized. `options` has keys of
        `DEBUG_LEVELS`.
        """
        debug = max((DEBUG_LEVELS[option] for option in options), default=0)
        version = _VERSION.search(text)
        self._first = ""
        if version:
            words = " ".join(filter(None, version.groups()))
            self._first = f"#version {words}\nvoid main() {{}}\n"
        self._minor = int(spirv.partition(".")[2])
        return self._answer("compile", text.encode(), debug=debug, meanwhile=meanwhile)

    def optimize(self, data: bytes) -> Answer:
        """Optimize SPIR-V as ``spirv-opt -O`` does."""
        return self._answer("optimize", data, level=_OPTIMIZED)

    def validate(self, data: bytes) -> Answer:
        """Validate SPIR-V by the rules of the newest Vulkan that the library knows."""
        return self._answer("validate", data)

    def disassemble(self, data: bytes) -> Answer:
        """Return the text of SPIR-V as the output."""
        return self._answer("disassemble", data)

    def _answer(
        self,
        action: str,
        data: bytes,
        *,
        level: int = 0,
        debug: int = 0,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Answer:
        status, (output,), log = _library.ask_library(
            "vulkan",
            f"the library of {self.toolchain} cannot process {self._source}",
            "To use the system's tools, pass another --compiler=",
            {
                "module": "devmod_targets.vulkan._glslang_process",
                "forks": True,
                "library": self._path,
                "first": self._first,
                "minor": self._minor,
            },
            {"action": action, "level": level, "debug": debug},
            data,
            settings=_SETTINGS,
            meanwhile=meanwhile,
        )
        failure = ""
        if status:
            failure = next(filter(str.strip, log.splitlines()), f"status {status}")
        return output, log, failure
