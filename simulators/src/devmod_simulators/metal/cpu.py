"""Metal sources as C++ on the CPU, for the examples. `msl_on_cpu.h` has the names of the language; this file compiles and calls."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

HEADER = Path(__file__).with_name("msl_on_cpu.h")
_TYPE = re.compile(r"(.+?)([*&])\s*(\w+)\s*\[\[\s*(buffer|threadgroup)\((\d+)\)\s*\]\]\Z", re.DOTALL)
_PLACE = re.compile(r"\w+\s+\w+\s*\[\[\s*(\w+)\s*\]\]\Z")


def _compiler() -> str | None:
    return shutil.which("c++") or shutil.which("clang++-19")


def missing() -> str:
    """Return why no source can be compiled here; "" if it can."""
    return "" if _compiler() else "no C++ compiler is installed"


@cache
def compile_kernel(text: str, name: str) -> Callable[[Mapping[tuple[str, int], Any], Any, Any], None]:
    """Compile a kernel, once. Return a function f(arguments, grid, block).

    The key of an argument is ("buffer" or "threadgroup", index). Its value is the data of the buffer, or the bytes of threadgroup memory.
    """
    found = re.search(rf"\bkernel\s+void\s+{name}\s*\((.*?)\)\s*\{{", text, re.DOTALL)
    assert found, f"no kernel {name}"
    # In a parameter, `threadgroup` is an address space, which C++ lacks. In a body it declares memory that the threads share.
    signature = re.sub(r"\bthreadgroup\b(?!\s*\()", "", found[1])
    text = text[: found.start(1)] + signature + text[found.end(1) :]
    keys, passed = [], []
    for number, parameter in enumerate(each.strip() for each in signature.split(",")):
        buffer = _TYPE.match(parameter)
        if buffer:
            keys.append((buffer[4], int(buffer[5])))
            pointer = f"({buffer[1].strip()} *)args[{len(keys) - 1}]"
            passed.append(pointer if buffer[2] == "*" else f"*{pointer}")
        else:
            place = _PLACE.match(parameter)
            assert place, f"parameter {number + 1} is {parameter!r}"
            passed.append(f"at.{place[1]}")
    runner = "run_threads" if "threadgroup_barrier" in text else "run_one_by_one"
    source = (
        f'#include "{HEADER}"\n#line 1 "source"\n{text}\n'
        f'extern "C" void devmod_run(void **args, const uint *grid, const uint *block)\n'
        f"{{ {runner}([=](Places at) {{ {name}({', '.join(passed)}); }}, grid, block); }}\n"
    )
    folder = tempfile.mkdtemp(prefix="devmod-msl-")
    try:
        (Path(folder) / "metal_stdlib").write_text("")
        (Path(folder) / "k.cpp").write_text(source)
        command = [str(_compiler()), "-std=c++20", "-O2", "-w", "-ffp-contract=off", "-fPIC", "-shared", "-pthread", f"-I{folder}"]
        process = subprocess.run(
            [*command, "-o", f"{folder}/k.so", f"{folder}/k.cpp"], capture_output=True, text=True, check=False, timeout=300
        )
        assert process.returncode == 0, process.stderr
        library = ctypes.CDLL(f"{folder}/k.so")
    finally:
        shutil.rmtree(folder)

    def call(arguments: Mapping[tuple[str, int], Any], grid: Any, block: Any) -> None:
        given = [bytearray(data) if isinstance(data, int) else data for data in (arguments[key] for key in keys)]
        arrays = [
            (ctypes.c_char * len(data)).from_buffer(data)
            if isinstance(data, (bytearray, memoryview))
            else ctypes.create_string_buffer(bytes(data), len(data))
            for data in given
        ]
        pointers = (ctypes.c_void_p * len(arrays))(*map(ctypes.addressof, arrays))
        library.devmod_run(pointers, (ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block))

    return call
