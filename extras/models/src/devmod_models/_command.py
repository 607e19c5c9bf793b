"""`devmod onnx`: a model in a file of ONNX as a program for several kinds.

The file is a stranger's. Another process reads it, traces it and checks the result: its end is an
error of the command.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from keyword import iskeyword
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

import devmod
from devmod import errors
from devmod.backend import open_regular, temporary_folder
from devmod.commands import (
    OptionalValue,
    OptionalValueCommand,
    RequiredUnless,
    complete_kind,
    debug_option,
    echo,
    progress,
    size,
)
from devmod.errors import ArgumentError, CompileError, DevmodError, describe_error
from devmod.worker import Worker, answer_writer
from devmod_models import tinygrad
from devmod_models.onnx import FIXED_LENGTH, SMALLER_LENGTHS
from devmod_models.weights import read_weights
from devmod_readers.programs import RESERVED
from devmod_targets.writable import check_writable, noting_interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The options of the arguments that errors about the model name without their own words for them.
OPTIONS = {FIXED_LENGTH: "--dim", SMALLER_LENGTHS: "--dim", "buckets": "--buckets"}
#: The seconds in which the process must report its next progress.
TIMEOUT = 600
_SIDE = r"\d{1,10}(\.\.\d{1,10}(:\d{1,10})?)?"
_DIM = re.compile(rf".+={_SIDE}(,{_SIDE})*", re.ASCII)
_BUCKETS = re.compile(r"\d{1,10}(,\d{1,10}){0,63}", re.ASCII)


@click.command(
    "onnx",
    cls=OptionalValueCommand,
    short_help="Make a file of a model of ONNX.",
    epilog="""\b
Examples:
  devmod onnx magika.onnx -t opencl -t webgpu -t "cuda -arch=compute_80" -o magika.devmod
  devmod onnx ranker.onnx -t opencl --dim batch=1 --dim rows=1..64     # a call chooses rows
  devmod onnx ranker.onnx -t opencl --dim rows=1..64 --buckets 1,64    # kernels of its own for one row
  devmod onnx boxes.onnx -t opencl --dim x=1,3,640,640                 # all lengths of the input x
  devmod onnx boxes.onnx -t opencl --inputs x=page.npy                 # its lengths, and the check by it
  devmod onnx decoder.onnx -t opencl --state cache=new_cache           # the program keeps the cache
  devmod onnx --weights tuned.safetensors ranker.devmod -o tuned.devmod # no compiler is needed
""",
)
@click.argument("file", type=click.Path())
@click.option(
    "-t",
    "--target",
    "targets",
    cls=RequiredUnless,
    unless="--weights",
    multiple=True,
    metavar="TARGET",
    shell_complete=complete_kind("devmod.targets"),
    help='A target, such as opencl or "cuda -arch=compute_80", one for each kind.',
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The file to write. [default: the name of the model, or of the weights, with .devmod, in this folder]",
)
@click.option(
    "--weights",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write FILE, the .devmod file of a model or its URL, with the constants of another file: .safetensors or .onnx.",
)
@click.option("--name", help="The name of the program. [default: the model's stem]")
@click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=LENGTH",
    help="A length that the model leaves open, by its name or by input and axis (x.0); LOW..HIGH is one that each call chooses. "
    "All lengths of an input: x=1,3,48,192. [default: 1 for an input's first length]",
)
@click.option(
    "--buckets",
    "buckets",
    multiple=True,
    metavar="[NAME=]LENGTH,...",
    help="Kernels of their own for ranges of a length that each call chooses, by the last length of each: "
    "32,128,512. NAME is the length, if there are several.",
)
@click.option(
    "--constant",
    "constants",
    multiple=True,
    metavar="INPUT=NUMBER",
    help="An input that always has this number, such as sr=16000, or several: shape=3,4. "
    "What depends on it, such as a branch, is known then.",
)
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="INPUT=OUTPUT",
    help="An input that keeps its value from call to call, and the output that is its next value. "
    "It begins with zeros, or with the array of --inputs.",
)
@click.option(
    "--inputs",
    multiple=True,
    metavar="[NAME=]FILE",
    help="An array for the check, a file .npy. [default: random numbers from a fixed seed]",
)
@click.option(
    "--no-check",
    "is_checked",
    flag_value=False,
    default=True,
    help="Write the file without a comparison of its results.",
)
@click.option(
    "--tune",
    "is_tuned",
    is_flag=True,
    help="Measure other optimizations of slow kernels on the devices of the targets that are here: the file has the fastest of each.",
)
@click.option(
    "--half",
    cls=OptionalValue,
    flag_value="all",
    metavar="[weights]",
    type=click.Choice(["all", "weights"]),
    help="Store weights and compute in float16 where the results allow it; inputs and outputs keep their types. "
    "'--half weights' stores weights alone in float16.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing if there is no error.")
@debug_option
def command(
    file: str,
    targets: tuple[str, ...],
    output: Path | None,
    weights: Path | None,
    name: str | None,
    dims: tuple[str, ...],
    buckets: tuple[str, ...],
    constants: tuple[str, ...],
    states: tuple[str, ...],
    inputs: tuple[str, ...],
    is_checked: bool,
    is_tuned: bool,
    half: str | None,
    quiet: bool,
) -> None:
    """Write the program of a model: its kernels for each target, its constants and its launches. No
    device is needed.

    tinygrad's results on the CPU are compared with those of onnxruntime, or else of onnx.reference,
    and those of each device of the targets with tinygrad's. If they differ, nothing is written.
    """
    if weights is not None:
        if any((targets, name, dims, buckets, constants, states, inputs, is_tuned, half)):
            raise click.UsageError(
                "--weights gives a .devmod file other constants: "
                "it takes no --target, --name, --dim, --buckets, --constant, --state, --inputs, --tune and --half"
            )
        _replace(file, weights, output or Path(f"{weights.stem}.devmod"), quiet)
        return
    tinygrad.check_architectures(targets)
    notes: list[str] = []
    model = Path(file)
    name = name or re.sub(r"\W|^(?=\d)", "_", model.stem, flags=re.ASCII)
    if not name.isidentifier() or iskeyword(name):
        raise click.UsageError(
            f"the name of the program is {name!r}, which is no identifier; choose another: --name NAME"
        )
    if name in RESERVED:
        notes.append(f"the program is _{name}, since {name} is reserved for calls and expressions")
        name = f"_{name}"
    output = output or Path(f"{name}.devmod")
    lengths = _lengths_of(dims)
    open_regular(model).close()
    _check_output(output, {file: "the model"})
    request = {
        "model": str(model),
        "targets": targets,
        "name": name,
        "dims": lengths,
        "buckets": _buckets_of(buckets),
        "file": str(output),
        "constants": _pairs_of("--constant", constants, "its number", "sr=16000"),
        "states": _pairs_of(
            "--state", states, "the output that is its next value", "cache=new_cache"
        ),
        "labels": {},
        "expected": [],
        "inputs": [[_paths_of(inputs)]],
        "is_checked": is_checked,
        "is_tuned": is_tuned,
        "half": half or "",
    }
    with noting_interrupts(output), temporary_folder() as folder:
        place = os.path.join(folder, "model.devmod")
        with progress("reading", quiet=quiet, has_end=True) as show:
            answer = ask({**request, "output": place}, str(model), show)
        devmod.save(devmod.load(place), output)
    if not quiet:
        for line in answer["lines"]:
            echo(line)
        for line in (*notes, *answer["notes"]):
            echo(f"devmod: note: {line}", err=True)


def _replace(file: str, weights: Path, output: Path, quiet: bool) -> None:
    """Write a file with the constants of another one."""
    _check_output(output, {file: "the model", str(weights): "the file of the weights"})
    values = read_weights(weights)
    with noting_interrupts(output):
        module = devmod.load(file)
        try:
            module = devmod.replace_constants(module, values)
        except ArgumentError as error:
            text = str(error).removeprefix("replace_constants: ")
            raise ArgumentError(f"{weights} does not fit {file}: {text}") from None
        devmod.save(module, output)
    if not quiet:
        written = size(output.stat().st_size)
        echo(f"{output}: {written}, with the constants of {weights}; its results were not compared")


def _check_output(output: Path, sources: Mapping[str, str]) -> None:
    """Raise an error if a file cannot be written, or is one that is read: `sources` has their
    paths with what they are.
    """
    for source, what in sources.items():
        if output.exists() and os.path.exists(source) and output.samefile(source):
            raise click.UsageError(
                f"{output} is {what}; writing to it would overwrite it. Name another file: --output"
            )
    check_writable(output)


def _lengths_of(texts: tuple[str, ...]) -> dict[str, str]:
    """Return the lengths of --dim by their names."""
    pairs = []
    for text in texts:
        if not _DIM.fullmatch(text):
            raise click.UsageError(
                f"--dim {text}: expected a length, such as batch=1, rows=1..64, width=32..640:32 or x=1,3,48,192"
            )
        pairs.append(text.rsplit("=", 1))
    return _unique("--dim", pairs)


def _buckets_of(texts: tuple[str, ...]) -> dict[str, list[int]]:
    """Return the ends of the ranges of --buckets by the name of the length; "" is the only one."""
    pairs = []
    for text in texts:
        name, _, ends = text.rpartition("=")
        if not _BUCKETS.fullmatch(ends):
            raise click.UsageError(
                f"--buckets {text}: expected the last length of each range, such as 32,128,512 or rows=32,128,512"
            )
        pairs.append((name, ends))
    result = {}
    for name, ends in _unique("--buckets", pairs).items():
        result[name] = [*map(int, ends.split(","))]
    return result


def _pairs_of(option: str, texts: tuple[str, ...], what: str, example: str) -> dict[str, str]:
    """Return what an option gives inputs, by their names."""
    pairs = []
    for text in texts:
        name, _, value = text.partition("=")
        if not (name and value):
            raise click.UsageError(
                f"{option} {text}: expected an input and {what}, such as {example}"
            )
        pairs.append((name, value))
    return _unique(option, pairs)


def _paths_of(texts: tuple[str, ...]) -> dict[str, str]:
    """Return the paths of the arrays of --inputs by the names of inputs; "" is the only one."""
    pairs = []
    for text in texts:
        *name, path = text.split("=", 1)
        pairs.append(("".join(name), path))
    return _unique("--inputs", pairs)


def _unique(option: str, pairs: list[Any]) -> dict[str, str]:
    """Return the values of an option by name. Raise UsageError for a name with two."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise click.UsageError(
                f"{option}: expected a NAME= of its own for each, got {found[name]} and {value}"
            )
        found[name] = value
    return found


def ask(
    request: dict[str, Any],
    path: str,
    show: Callable[..., None],
    written: Mapping[str, str] = MappingProxyType(OPTIONS),
) -> Any:
    """Return the answer of the other process.

    Parameters
    ----------
    path
        The model in errors.
    show
        A function that gets the progress.
    written
        How the caller of this writes an argument of the model. An error about one ends with it.
    """
    # The order of Python's sets is in no file. tinygrad's settings are in the environment, too:
    # `main` hides them from it alone.
    with Worker(
        __name__, request, environment={**os.environ, "PYTHONHASHSEED": "0"}, captures=True
    ) as worker:
        while answer := worker.answer(TIMEOUT):
            if "error" in answer:
                text = answer["text"].replace(request["model"], path)
                argument = answer["argument"]
                if argument in written:
                    text += f" ({written[argument]})"
                raise getattr(errors, answer["error"])(text, argument=argument, log=answer["log"])
            if "progress" not in answer:
                return answer
            show(answer["progress"], answer["done"])

        last = next(filter(str.strip, reversed(worker.printed.splitlines())), "")
        end = worker.end
        if worker.is_late:
            end = f"has done nothing for {TIMEOUT} seconds"
        if last:
            end += f" ({last})"
        raise CompileError(f"{path}: the process that traces the model {end}; nothing was written")


def main(request: dict[str, Any]) -> None:
    """Make the program in the new process, and write its file. tinygrad's settings have their
    defaults, whatever the environment has.
    """
    answer = answer_writer()
    os.getenv = lambda _, default=None: default  # tinygrad reads its settings by it alone
    # A model that makes arrays larger than the machine ends this process alone.
    if sys.platform != "win32":
        import resource

        with suppress(ValueError, OSError):
            most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    try:
        with tinygrad.cpu():
            from devmod_models._tinygrad.onnx import export

            lines, notes = export(
                request, lambda text, done: answer({"progress": text, "done": done})
            )
        answer({"lines": lines, "notes": notes})
    except Exception as error:  # noqa: BLE001 - tinygrad may raise anything
        name = CompileError.__name__
        text = describe_error(error)
        if isinstance(error, DevmodError):
            # The class of devmod.errors from which it derives.
            classes = (each for each in type(error).__mro__ if each.__module__ == errors.__name__)
            name = next(classes).__name__
            text = str(error)
        if not text.startswith(request["model"]):
            text = f"{request['model']}: {text}"
        facts = {key: getattr(error, key, "") for key in ("argument", "log")}
        answer({"error": name, "text": text, **facts})
