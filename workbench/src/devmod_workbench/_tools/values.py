"""The values of arguments that a command line has: numbers, words for arrays, files, pictures."""

from __future__ import annotations

import re
from ast import literal_eval
from io import BytesIO
from pathlib import Path

from devmod import Local, Param
from devmod.backend import STRUCT_FORMATS, replacing
from devmod.errors import (
    ArgumentError,
    DevmodError,
    FormatError,
    did_you_mean,
    list_names,
    pip_install,
)
from devmod_workbench._tools.draws import (
    RANGES,
    NotFromInterfaceError,
    random_array,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    import numpy as np

    from devmod_runtime._device.host import NumPyArray
    from devmod_workbench._tools.draws import NumPyType

    #: Sizes, or lengths, by name.
    Numbers = Mapping[str, int]
    #: The threads or blocks of a launch; a str is a text such as "N,N".
    Dims = int | str | Sequence[int] | None
else:
    from devmod.backend import np

# Where to change: a word for the value of an argument of `devmod run`, such as random or zeros
#   here: `GENERATED_ARRAY`, `_generated`, `_FORMS`
#   also: for a draw, `workbench/src/devmod_workbench/_tools/draws.py` (`RANGES`, `_floats`,
#     `_integers`); `workbench/src/devmod_workbench/_cli/run.py`, whose help has examples
#   tests: `tests/test_run_and_bench.py`, `tests/test_verify_draws.py`
#: ``random``, ``wide``, ``zeros:float32[16]``, ``fill:1.5:float32[16,N]``.
GENERATED_ARRAY = re.compile(
    rf"(?P<word>{'|'.join(RANGES)}|zeros|fill:(?P<value>[^:\[\]]+))(?::(?P<type>\w+))?(?:\[(?P<shape>[^\]]*)\])?"
)
#: ``1024``, ``1e6``: less than 10**28.
_NUMBER = re.compile(r"([0-9]{1,18})(?:e([0-9]))?")
#: ``16x16``, as other tools write two numbers.
_CROSSED = re.compile(r"[0-9]{1,18}(?:x[0-9]{1,18}){1,7}")
PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
#: A parameter of which nothing is known.
UNTYPED = Param("", "buffer")
_PER_THREAD = "/thread"
_FORMS = "a number, random[64], zeros[8,8], fill:NUMBER[9], a file (.npy, .npz:KEY, a picture), local:BYTES, or a tuple or dict"


# -- Text.


def split_assignments(texts: Sequence[str], subject: str) -> dict[str, str]:
    """Return texts such as ``x=zeros[16]`` as a dict.

    Raises
    ------
    ArgumentError
        A text has no name, or two have one.
    """
    result = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name or not value:
            hint = ""
            if "=" not in text and not text.isidentifier():
                hint = f". Add the name, such as x={text}; `devmod inspect` shows the names"
            raise ArgumentError(
                f"{subject}: expected NAME=VALUE, got {text!r}{hint}", argument=name
            )
        if name in result:
            raise ArgumentError(f"{subject}: {name!r} is given twice", argument=name)
        result[name] = value
    return result


def read_count(text: str, sizes: Numbers, argument: str) -> int:
    """Return the number of a text: a number such as ``1024`` or ``1e6``, a size such as ``N``, or a
    product such as ``N*4``.
    """
    count = 1
    for part in text.split("*"):
        part = part.strip()
        number = _NUMBER.fullmatch(part)
        if part in sizes:
            count *= sizes[part]
        elif number:
            count *= int(number[1]) * 10 ** int(number[2] or 0)
        else:
            what = "positive whole numbers of up to 18 digits, such as 1024 or 1e6"
            if sizes:
                what = "whole numbers or names of sizes"
            hint = did_you_mean(part, sizes)
            if _CROSSED.fullmatch(part):
                hint = f". Write a comma between two: {part.replace('x', ',')}"
            raise ArgumentError(
                f"{argument}: expected {what}, got {text!r}{hint}",
                argument=argument,
            )
    return count


def read_counts(text: str, sizes: Numbers, argument: str) -> tuple[int, ...]:
    """Return the numbers of a text such as ``16,N``."""
    if not text:
        return ()
    return tuple(read_count(part, sizes, argument) for part in text.split(","))


def read_launch(given: Mapping[str, Any], sizes: Numbers, prefix: str = "--") -> dict[str, Any]:
    """Return the threads, the grid and the block that are given; a str is a text such as "N,N", in
    which the names of `sizes` stand for numbers. Errors have the prefix before the keyword.
    """
    launch = {}
    for name in ("threads", "grid", "block"):
        value = given.get(name)
        if isinstance(value, str):
            value = read_counts(value, sizes, f"{prefix}{name}") or None
        if value is not None:
            launch[name] = value
    return launch


def read_value(name: str, text: str, param: Param, sizes: Numbers) -> Any:
    """Return the value of an argument on the host.

    Parameters
    ----------
    name, text
        The name of the argument, and the text of its value.
    param
        The parameter of the interface, whose type and size an array without them has; `UNTYPED` if
        it is unknown.
    sizes
        The names that stand for numbers in shapes and scalars.

    Raises
    ------
    ArgumentError
        The text is no value, or the file cannot be read.
    """
    if param.kind == "sampler":
        return text
    match = GENERATED_ARRAY.fullmatch(text)
    if match:
        return _generated(name, match, param, sizes)
    if text.startswith("local:"):
        nbytes = read_count(text[6:].removesuffix(_PER_THREAD), sizes, name)
        if text.endswith(_PER_THREAD):
            return Local(per_thread=nbytes)
        return Local(nbytes)
    if _suffix(_file_and_key(text)[0]) in (".npy", ".npz", *PICTURES):
        return read_array(name, text, param)
    if any(part.strip() in sizes for part in text.split("*")):
        return read_count(text, sizes, name)
    if text in ("true", "false"):
        return text == "true"
    if text.removeprefix("-") in ("inf", "nan"):
        return float(text)
    try:
        return literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ArgumentError(
            f"{name}={text}: expected {_FORMS}{did_you_mean(text, sizes)}", argument=name
        ) from None


def _generated(name: str, match: re.Match[str], param: Param, sizes: Numbers) -> Any:
    dtype = _generated_type(name, match, param)
    if match["shape"] is not None:
        shape = read_counts(match["shape"], sizes, name)
    elif param.kind == "buffer" and param.size:
        shape = (-(-param.size // dtype.itemsize),)
    else:
        raise ArgumentError(
            f"{name}={match[0]}: it has no shape; give one, as in {name}={match[0]}[1024]",
            argument=name,
        )
    number = match["value"]
    value = None
    if number:
        value = read_value(name, number, UNTYPED, sizes)
    try:
        if number:
            with np.errstate(all="raise"):
                return np.full((*shape, *dtype.shape), value, dtype.base)
        if match["word"] == "zeros":
            return np.zeros(shape, dtype)
        return random_array(name, shape, dtype, match["word"])
    except (NotFromInterfaceError, TypeError, ValueError, ArithmeticError, MemoryError) as error:
        raise ArgumentError(f"{name}={match[0]}: {error}", argument=name) from None


def _generated_type(name: str, match: re.Match[str], param: Param) -> NumPyType:
    """Return the type of a text such as ``zeros:float32[16]``. Default: that of the interface."""
    typed = param
    count = match["type"]
    if count and count.isdecimal():
        shape = f"{name}={match['word']}[{count}]"
        raise ArgumentError(
            f"{name}={match[0]}: expected a type behind the colon, got {count!r}; for that many elements: {shape}",
            argument=name,
        )
    if match["type"]:
        try:
            typed = Param(name, "buffer", match["type"])
        except FormatError as error:
            raise ArgumentError(f"{name}: {error}", argument=name) from None

    try:
        dtype = typed.dtype
    except FormatError as error:
        problem = str(error)
        if typed is not param:
            problem = _no_array_of(typed.type, problem)
        raise ArgumentError(f"{name}={match[0]}: {problem}", argument=name) from None
    if dtype is not None:
        return dtype
    if param.kind == "image":
        return np.dtype(np.uint8)
    raise ArgumentError(
        f"{name}={match[0]}: the interface has no type for it; give one, as in {name}={match['word']}:float32[1024]",
        argument=name,
    )


def _no_array_of(type_: str, problem: str) -> str:
    """Return why no array is made of elements of a type, which NumPy does not support."""
    if pip_install("ml_dtypes") in problem:
        return f"its type needs a package: {pip_install('ml_dtypes')}"
    types = [each for each in STRUCT_FORMATS if each != "uint1"]
    return (
        f"NumPy has no elements of type {type_!r}; expected {', '.join(types)}, or a type of ml_dtypes such as bfloat16"
        f"{did_you_mean(type_, types)}"
    )


# -- Files.


def read_array(name: str, path: str, param: Param) -> NumPyArray:
    """Return the array of a file: .npy, an .npz with one array or ``FILE.npz:KEY``, or a picture.

    A picture has the shape height × width × channels. It is of uint8; of float32 from 0 to 1 for a
    parameter of float32; and one uint32 or one vector of four channels a pixel for a parameter of
    such a type.

    Raises
    ------
    ArgumentError
        The file cannot be read.
    """
    file, key = _file_and_key(path)
    suffix = _suffix(file)
    try:
        if suffix in (".npy", ".npz"):
            return _from_numpy(name, file, key)
        if suffix in PICTURES:
            return _picture(name, path, param)
    except DevmodError:
        raise
    except Exception as error:  # noqa: BLE001 - NumPy and Pillow have a reader for each format, which may raise anything for a damaged file
        raise _unreadable(name, file, error) from None
    raise ArgumentError(
        f"{name}={path}: expected a file .npy, .npz:KEY or a picture ({', '.join(PICTURES)})",
        argument=name,
    )


def _file_and_key(text: str) -> tuple[str, str]:
    """Return the file, and the key behind a file .npz; "" without one."""
    file, _, key = text.rpartition(":")
    if file.endswith(".npz"):
        return file, key
    return text, ""


def _suffix(path: str) -> str:
    return Path(path).suffix.lower()


def _from_numpy(name: str, path: str, key: str) -> NumPyArray:
    with open(path, "rb") as file:  # NumPy leaves a damaged file open
        arrays = np.load(file, allow_pickle=False)
        if isinstance(arrays, np.ndarray):
            return arrays
        if not key and len(arrays.files) == 1:
            key = arrays.files[0]
        if key in arrays.files:
            return arrays[key]  # type: ignore[no-any-return]
        problem = _missing_key(arrays.files, key)
    raise ArgumentError(f"{name}: {path} {problem}", argument=name)


def _missing_key(known: Sequence[str], key: str) -> str:
    """Return why a file .npz has no array for a key, or without one."""
    if not known:
        return "has no array"
    problem = "has several arrays"
    if key:
        problem = f"has no array {key!r}"
    return f"{problem}; it has {list_names(known)}"


def _unreadable(name: str, path: str, error: Exception) -> ArgumentError:
    why = str(error)
    if isinstance(error, OSError) and error.strerror:
        why = error.strerror
    if "allow_pickle" in why:  # NumPy's advice for all that is no array
        why = f"it is no file {Path(path).suffix} of NumPy, or it has Python objects"
    return ArgumentError(f"{name}: {path} cannot be read: {why}", argument=name)


def _pillow(name: str, path: str) -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise ArgumentError(
            f"{name}={path}: a picture needs Pillow, which is missing: {pip_install('pillow')}",
            argument=name,
        ) from None
    return Image


def _picture(name: str, path: str, param: Param) -> NumPyArray:
    dtype = param.dtype or np.dtype(np.uint8)
    is_packed = dtype.base == np.uint32 or dtype.shape == (4,)
    modes = ["L", "RGB", "RGBA"]
    if param.kind == "image":
        modes.remove("RGB")  # no device has images of three channels

    with _pillow(name, path).open(path) as picture:
        if is_packed or picture.mode not in modes:
            picture = picture.convert("RGBA")
        pixels = np.array(picture)

    if dtype.base == np.uint32 and not dtype.shape:
        return pixels.view(np.uint32)[..., 0]
    if dtype.base.kind == "f":
        return (pixels / np.float32(255)).astype(dtype.base)
    return pixels


def check_output(name: str, path: str) -> None:
    """Raise ArgumentError for a file that `write_array` cannot write, by its suffix, and OSError if
    its folder is missing.
    """
    if _suffix(path) not in (".npy", *PICTURES):
        raise ArgumentError(
            f"--save {name}={path}: expected a file .npy or a picture ({', '.join(PICTURES)})",
            argument=name,
        )
    Path(path).parent.stat()


def write_array(name: str, path: str, array: NumPyArray) -> None:
    """Write an array to a file .npy, or as a picture. The file is written whole, or it is
    unchanged.

    Raises
    ------
    ArgumentError
        The array is no picture.
    """
    content = BytesIO()
    if _suffix(path) == ".npy":
        np.save(content, array, allow_pickle=False)
    else:
        _save_picture(name, path, array, content)
    with replacing(path) as file:
        file.write(content.getbuffer())


def _save_picture(name: str, path: str, array: NumPyArray, content: BytesIO) -> None:
    suffix = _suffix(path)
    pixels = array
    if pixels.dtype == np.uint32 and pixels.ndim == 2:
        # A pixel is one word, red in the lowest byte.
        pixels = np.ascontiguousarray(pixels).view(np.uint8).reshape(*pixels.shape, 4)
    if pixels.dtype.kind == "f":
        pixels = np.rint(np.clip(np.nan_to_num(pixels), 0, 1) * 255)  # nan is black
    pixels = pixels.astype(np.uint8)
    if pixels.shape[2:] == (1,):
        pixels = pixels[..., 0]
    if pixels.ndim < 2 or pixels.shape[2:] not in ((), (3,), (4,)):
        raise ArgumentError(
            f"--save {name}={path}: expected height × width or height × width × 3 or 4 numbers for a picture, got the shape {array.shape}",
            argument=name,
        )
    pillow = _pillow(name, path)
    picture = pillow.fromarray(pixels)
    if suffix in (".jpg", ".jpeg") and picture.mode == "RGBA":
        picture = picture.convert("RGB")
    picture.save(content, pillow.registered_extensions()[suffix])
