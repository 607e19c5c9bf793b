"""Metal sources as C++ on the CPU, for the examples and tests. `msl_on_cpu.h` and `msl_textures.h`
have the names of the language; this file compiles and calls.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

#: `make clean` removes it.
CACHE = Path(__file__).resolve().parents[4] / "build" / "metal"
HEADER = Path(__file__).with_name("msl_on_cpu.h")
#: Numbers without a suffix are floats in MSL.
_FLAGS = (
    "-std=c++20",
    "-O1",
    "-w",
    "-ffp-contract=off",
    "-fPIC",
    "-fsingle-precision-constant",
    "-fno-exceptions",
)
#: Linking C++'s library takes a quarter of the time of a small kernel.
_LIBRARIES = ("-nodefaultlibs", "-lm", "-lc", "-lgcc")
_KERNEL = re.compile(
    r"\bkernel(?:\s*\]\])?\s+void\s+(?P<name>\w+)\s*\((?P<signature>.*?)\)\s*(?P<body>\{.*?(?=\bkernel\b|\Z))",
    re.DOTALL,
)
#: `threadgroup` of a pointer or a reference is an address space, which C++ lacks. Elsewhere it
#: declares memory that the threads share.
_ADDRESS_SPACE = re.compile(
    r"\bthreadgroup\s*(?=[*&]|\s(?:const\s+|__attribute__\(\([^;]*?\)\)\s+)*\w+\s*[*&])"
)
#: Several members of a vector in any order, and the same before an assignment. C++ has the members
#: of one number alone.
_SWIZZLE = re.compile(r"\.([xyzw]{2,4})\b(\s*[-+*/]?=(?!=))?")
#: A buffer without an attribute has the next number.
_TYPE = re.compile(
    r"(.+?)([*&])\s*(\w+)\s*(?:\[\[\s*(buffer|threadgroup)\((\d+)\)\s*\]\])?\Z", re.DOTALL
)
_TEXTURE = re.compile(r"(texture\w+\s*<[^<>]*>)\s*\w+\s*\[\[\s*(texture)\((\d+)\)\s*\]\]\Z")
_SAMPLER = re.compile(r"(sampler)\s+\w+\s*\[\[\s*(sampler)\((\d+)\)\s*\]\]\Z")
_PLACE = re.compile(r"\w+\s+\w+\s*\[\[\s*(\w+)\s*\]\]\Z")


#: The formats of texels, without their channels, in the order of `msl_textures.h`.
_FORMATS = (
    "8unorm",
    "8snorm",
    "8uint",
    "8sint",
    "16unorm",
    "16snorm",
    "16uint",
    "16sint",
    "16float",
    "32uint",
    "32sint",
    "32float",
)
_CHANNELS = {"r": 1, "rg": 2, "rgba": 4, "bgra": 4}
_ADDRESS_MODES = {"border": 0, "clamp": 1, "repeat": 2, "mirror": 3}


class Texture(NamedTuple):
    """A texture: its format by WebGPU's name, its width, height and depth, its layers (0 for no
    array), and its texels.
    """

    format: str
    extent: tuple[int, int, int]
    layers: int
    data: bytearray


class Sampler(NamedTuple):
    """A sampler, by the words of `devmod.Device.sampler`."""

    filter: str
    address: str
    normalized: bool


class _TextureData(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        *(
            (name, ctypes.c_uint)
            for name in ("width", "height", "depth", "layers", "format", "channels", "bgra")
        ),
    ]


def _texture_data(texture: Texture) -> _TextureData:
    match = re.fullmatch(r"([a-z]+)(\w+)", texture.format)
    assert match
    format_ = _FORMATS.index(match[2])
    data = (ctypes.c_char * len(texture.data)).from_buffer(texture.data)
    result = _TextureData(
        ctypes.addressof(data),
        *texture.extent,
        texture.layers,
        format_,
        _CHANNELS[match[1]],
        match[1] == "bgra",
    )
    result.owner = data
    return result


def _compiler() -> str | None:
    return shutil.which("c++") or shutil.which("clang++-19")


def missing() -> str:
    """Return why no source can be compiled here; "" if it can."""
    return "" if _compiler() else "no C++ compiler is installed"


def _compile_command() -> list[str]:
    """Return the compiler and its flags. Skip the test where there is no compiler."""
    compiler = _compiler()
    if compiler is None:
        import pytest

        pytest.skip(missing())
    return [compiler, *_FLAGS]


def _c_object(value: Any) -> Any:
    """Return an argument as an object of ctypes."""
    if isinstance(value, Texture):
        return _texture_data(value)
    if isinstance(value, Sampler):
        words = (not value.normalized, value.filter == "linear", _ADDRESS_MODES[value.address])
        return (ctypes.c_int * 3)(*words)
    data = value if isinstance(value, (bytearray, memoryview)) else bytearray(value)
    return (ctypes.c_char * len(data)).from_buffer(data)


class _Kernel(NamedTuple):
    """A kernel of a source: the keys of its arguments in order, and its function for the CPU, which
    is C++.
    """

    keys: list[tuple[str, int]]
    runner: str


def _kernels(text: str) -> dict[str, _Kernel]:
    """Find the kernels of a source."""
    kernels = {}
    shuffles = "simd_shuffle" in text  # also in a function that a kernel calls
    for found in _KERNEL.finditer(text):
        keys = []
        passed = []
        for number, parameter in enumerate(
            each.strip()
            for each in re.split(r",(?![^<>]*>)", _ADDRESS_SPACE.sub("", found["signature"]))
        ):
            buffer = _TYPE.match(parameter)
            bound = _TEXTURE.match(parameter) or _SAMPLER.match(parameter)
            if bound:
                keys.append((bound[2], int(bound[3])))
                passed.append(
                    f"({bound[1]})args[{len(keys) - 1}]"
                    if bound[2] == "texture"
                    else f"*(sampler *)args[{len(keys) - 1}]"
                )
            elif buffer:
                keys.append((buffer[4] or "buffer", int(buffer[5] or len(keys))))
                pointer = f"({buffer[1].strip()} *)args[{len(keys) - 1}]"
                passed.append(pointer if buffer[2] == "*" else f"*{pointer}")
            else:
                place = _PLACE.match(parameter)
                assert place, f"parameter {number + 1} of {found['name']} is {parameter!r}"
                passed.append(f"at.{place[1]}")
        # Threads that share no memory and no values need no barrier, and run one after the other.
        run = (
            "run_together"
            if shuffles
            or re.search(r"\bthreadgroup(_barrier)?\b", found["signature"] + found["body"])
            else "run_one_by_one"
        )
        kernels[found["name"]] = _Kernel(
            keys,
            f'extern "C" void devmod_run_{found["name"]}(void **args, const uint *grid, const uint *block)\n'
            f"{{ {run}([=](Places at) {{ {found['name']}({', '.join(passed)}); }}, grid, block); }}\n",
        )
    return kernels


def _in_cpp(text: str) -> str:
    """Return a source without what C++ lacks: address spaces, and several members of a vector."""

    def members(found: re.Match[str]) -> str:
        places = ", ".join(str("xyzw".index(each)) for each in found[1])
        return f".{'put' if found[2] else 'get'}(swizzle_of<{places}>()){found[2] or ''}"

    return _SWIZZLE.sub(members, _ADDRESS_SPACE.sub("", text))


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """Yield a folder to fill. It gets the path afterwards, unless another process was first."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
        folder = Path(temporary, path.name)
        folder.mkdir()
        yield folder
        try:
            folder.rename(path)
        except OSError:
            if not path.exists():
                raise


@cache
def _header() -> Path:
    """Return a copy of the header that is precompiled, once for the same contents: parsing it takes
    most of the time of a small kernel.
    """
    headers = (HEADER, HEADER.with_name("msl_textures.h"))
    words = _compile_command()
    digest = hashlib.sha256("\n".join([*words, *map(Path.read_text, headers)]).encode())
    folder = CACHE / digest.hexdigest()[:16]
    if not folder.exists():
        with _new_folder(folder) as made:
            for each in headers:
                shutil.copy(each, made)
            output = str(made / f"{HEADER.name}.gch")
            words += ["-x", "c++-header", str(HEADER), "-o", output]
            subprocess.run(words, check=True, timeout=300)
    return folder / HEADER.name


@cache
def _compile(text: str) -> tuple[ctypes.CDLL, dict[str, _Kernel]]:
    """Compile a source, once for the same contents."""
    kernels = _kernels(text)
    source = (
        f'#line 1 "source"\n{_in_cpp(text)}\n{"".join(each.runner for each in kernels.values())}'
    )
    command = [*_compile_command(), "-include", str(_header()), "-shared"]
    digest = hashlib.sha256("\n".join([*command, *_LIBRARIES, source]).encode())
    library = CACHE / digest.hexdigest()[:16] / "k.so"
    if not library.exists():
        with _new_folder(library.parent) as folder:
            for name in ("metal_stdlib", "metal_math", "metal_texture"):
                (folder / name).write_text("")
            (folder / "k.cpp").write_text(source)
            command += ["-I.", "-o", library.name, "k.cpp", *_LIBRARIES]
            process = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, check=False, timeout=300
            )
            assert process.returncode == 0, process.stderr
    return ctypes.CDLL(str(library)), kernels


def compile_kernel(
    text: str, name: str
) -> Callable[[Mapping[tuple[str, int], Any], Any, Any], None]:
    """Compile a source, once, with all its kernels. Return a function f(arguments, grid, block) for
    one of them.

    The key of an argument is ("buffer", "threadgroup", "texture" or "sampler", index). Its value is
    the data of the buffer, the bytes of threadgroup memory, a `Texture` or a `Sampler`.
    """
    library, kernels = _compile(text)
    assert name in kernels, f"no kernel {name}"

    def call(arguments: Mapping[tuple[str, int], Any], grid: Any, block: Any) -> None:
        arrays = [_c_object(arguments[key]) for key in kernels[name].keys]
        pointers = (ctypes.c_void_p * len(arrays))(*map(ctypes.addressof, arrays))
        library[f"devmod_run_{name}"](
            pointers, (ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block)
        )

    return call
