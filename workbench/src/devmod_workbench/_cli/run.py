"""`devmod run`: launch a function of a file once, and show its results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Any

import click

import devmod
from devmod._values.info import signature_text
from devmod.backend import duration_text, temporary_folder
from devmod.commands import (
    FiniteRange,
    OptionalValueCommand,
    WholeNumber,
    complete_kind,
    debug_option,
    echo,
    echo_lines,
    json_option,
    plugins_at_work,
    print_json,
    quiet_drivers,
)
from devmod.errors import DevmodError
from devmod.targets import KINDS, SIMULATED
from devmod.worker import End
from devmod_workbench._cli._describe import open_file
from devmod_workbench._tools.checks import compile_for_checks, run_with_checks
from devmod_workbench._tools.launches import describe_launch, file_settings, launched
from devmod_workbench._tools.options import (
    DIMS,
    call_arguments,
    grid_option,
    sanitize_option,
    timeout_option,
)
from devmod_workbench._tools.values import check_output, read_launch, split_assignments

VALUES = """\b
A VALUE is one of:
  3, 2.5, true, (1, 2.0), {'a': 1}  a number, lanes, or a struct, as in Python
  random:float32[1024,1024]         floats from 0 to 1, integers from 0 to 15
  signed:…, negative:…              from -8 to 8, from -8 to 0
  wide:…                            floats to 1e5, integers to their limits
  zeros:float32[1024]
  fill:1.5:float32[1024]
  x.npy, x.npz:KEY                  an array of a file
  x.png                             a picture, height × width × channels (needs Pillow)
  local:BYTES, local:BYTES/thread   memory that the threads of a block share
Without TYPE, an array has the type of the parameter; without [SHAPE], the
size that the kernel declares, or the shape that a program declares for the
lengths NAME=NUMBER and those of its other arrays. Some shells need quotes around [ and ].
"""


@click.command(
    "run",
    cls=OptionalValueCommand,
    short_help="Run a function of a file, and compare or save its results.",
    epilog=f"""{VALUES}
\b
Examples:
  devmod run k.devmod saxpy y=zeros[1024] x=random[1024] a=2 n=1024 --threads 1024 --print y
  devmod run k.devmod saxpy y=y.npy x=x.npy a=2 n=1024 --threads 1024 --expect y=want.npy
  devmod run k.devmod invert out=zeros[480,640] picture=in.png --threads 640,480 --save out=out.png
  devmod run k.devmod saxpy … --device vulkan:1 --guard
  devmod run k.devmod saxpy … --sanitize    # out of bounds, races, …, without a GPU
  devmod run k.hlsl saxpy … -t vulkan --sanitize
  devmod run n.devmod normalize rows=64 columns=32 x=random weight=random --save y=y.npy    # a program

\b
Exit status:
  0  done
  1  a result is not the expected one, a check has found a fault, or an error
  3  --sanitize cannot compile the source for the simulated GPU: nothing was checked
""",
)
@call_arguments
@click.option("--threads", metavar=DIMS, help="The threads in each dimension.")
@grid_option
@click.option("--block", metavar=DIMS, help="The threads of a block.")
@click.option(
    "--shared-memory",
    type=WholeNumber(0, 2**63 - 1),
    metavar="BYTES",
    help="The dynamic shared memory of a block.",
)
@click.option(
    "--device",
    metavar="KIND[:NUMBER]",
    shell_complete=complete_kind("devmod.device"),
    help="The device. Default: that of a call in Python.",
)
@click.option(
    "--expect",
    multiple=True,
    metavar="NAME=FILE",
    help="Compare an array with a file after the launch.",
)
@click.option(
    "--rtol",
    type=FiniteRange(0),
    default=1e-5,
    show_default=True,
    help="The tolerance of --expect, relative to the expected value.",
)
@click.option(
    "--atol",
    type=FiniteRange(0),
    default=1e-6,
    show_default=True,
    help="The absolute tolerance of --expect.",
)
@click.option(
    "--print",
    "printed",
    multiple=True,
    metavar="NAME",
    help="Print an array after the launch, a large one in NumPy's short form.",
)
@click.option(
    "--save",
    multiple=True,
    metavar="NAME=FILE",
    help="Write an array to a file .npy or a picture after the launch.",
)
@timeout_option("The time limit for the launch with its build. Default: none.")
@click.option(
    "--guard",
    is_flag=True,
    help="Find writes and reads past the ends of the arrays, as devmod.guard, by two launches or more.",
)
@click.option(
    "-t",
    "--target",
    metavar="TARGET",
    shell_complete=complete_kind("devmod.targets"),
    help="FILE is a source: compile it for TARGET before the launch, as `devmod compile` does.",
)
@sanitize_option(
    "Launch on the simulated GPU, with all checks of `devmod simulate` or some: a source, or the cuda candidate of a file."
)
@json_option
@debug_option
@click.pass_context
def command(
    context: click.Context,
    /,
    file: str,
    function: str | None,
    arguments: tuple[str, ...],
    shared_memory: int | None,
    expect: tuple[str, ...],
    save: tuple[str, ...],
    timeout: float | None,
    target: str | None,
    sanitize: str | None,
    simulated: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Launch FUNCTION of FILE, a kernel or a program, once with the arguments, each NAME=VALUE.
    Print its time on the host and the device.

    The launch is in another process, so a kernel that ends its process is an error. FILE is as for
    `devmod inspect`. A function whose parameters have no names takes 1=VALUE 2=VALUE and so on.
    Without FUNCTION, the functions of FILE are listed.
    """
    quiet_drivers()
    is_source = target is not None or (sanitize is not None and _is_source(file))
    if function is None:
        with _compiled(file, target) as path:
            infos = open_file(path)[1].functions
        functions = {name: signature_text(name, info) for name, info in infos.items()}
        if as_json:
            print_json({"functions": functions})
        else:
            echo_lines("\n".join(functions.values()))
        return
    if sanitize is not None and not simulated:
        context.exit(run_with_checks("run", sanitize))
    if simulated:
        options["device"] = SIMULATED
    given = split_assignments(arguments, function)
    expected = split_assignments(expect, "--expect")
    saved = split_assignments(save, "--save")
    for name, path in saved.items():
        check_output(name, path)
    sizes = read_launch(options, {})
    if shared_memory is not None:
        sizes["shared_memory"] = shared_memory
    options |= {
        "function": function,
        "given": given,
        "sizes": sizes,
        "expected": expected,
        "saved": saved,
    }
    compiled = _compiled(file, target)
    if simulated and is_source:
        compiled = _compiled_for_checks(file, target)
    with plugins_at_work(), compiled as path:
        ((result, end),) = launched(
            "devmod_workbench._tools.run", [options], timeout, file_settings([path])
        )
    if end is not None:
        advice = _advice(file, function, end, options["guard"])
        place = ""
        if options["device"]:
            place = f" on {options['device']}"
        raise DevmodError(
            f"{function!r} of {file}{place}: {describe_launch(end, advice)}", function=function
        )
    if as_json:
        print_json(result)
    else:
        for line in _lines(result):
            echo(line)
    if not all(each["agrees"] for each in result["expected"].values()):
        context.exit(1)


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a result."""
    on_device = "no time on the device"
    if report["on_device"] is not None:
        on_device = f"{duration_text(report['on_device'])} on the device"
    yield f"{report['function']} on {report['device']} ({report['device_name']}): {on_device}, {duration_text(report['host'])} on the host"
    if report["result"] is not None:
        yield f"returned {report['result']}"
    for name, array in report["arrays"].items():
        text = f"{name}: {array['type']}[{','.join(map(str, array['shape']))}]"
        if name in report["saved"]:
            text += f", saved to {report['saved'][name]}"
        yield text
        yield from report["printed"].get(name, "").splitlines()
    for name, each in report["expected"].items():
        yield _verdict(name, each)


def _verdict(name: str, compared: Mapping[str, Any]) -> str:
    """Return the line of an array that was compared."""
    verdict = "differs from"
    if compared["agrees"]:
        verdict = "agrees with"
    line = f"{name} {verdict} {compared['file']}: worst error {compared['error']:.3g}"
    index = ", ".join(map(str, compared["index"]))
    if index:
        line += f" at {name}[{index}], which is {compared['value']!r}, expected {compared['expected']!r}"
    return line


@contextmanager
def _compiled(file: str, target: str | None) -> Iterator[str]:
    """Yield the file of a compiled source, or the file itself without a target."""
    if target is None:
        yield file
        return
    with _saved(file, _in_shell(devmod.compile)(Path(file), target)) as path:
        yield path


@contextmanager
def _compiled_for_checks(file: str, target: str | None) -> Iterator[str]:
    """Yield the file of a source that is compiled for the simulated GPU."""
    with _saved(file, _in_shell(compile_for_checks)(file, target)) as path:
        yield path


def _in_shell(compile_source: Callable[..., devmod.Module]) -> Callable[..., devmod.Module]:
    """Return a compile whose errors and warnings name the options of `devmod compile`."""
    if find_spec("devmod_targets") is None:
        return compile_source  # its error names the wheel
    in_words = import_module("devmod_targets.spelling").in_shell_of_others
    return in_words(compile_source)  # type: ignore[no-any-return]


@contextmanager
def _saved(file: str, module: devmod.Module) -> Iterator[str]:
    """Yield the file of a module, in a folder of its own."""
    with temporary_folder() as folder:
        path = os.path.join(folder, f"{Path(file).stem}.devmod")
        devmod.save(module, path)
        yield path


def _is_source(file: str) -> bool:
    """Return whether a file is a source of a kind, by its suffix."""
    suffix = Path(file).suffix[1:].lower()
    for kind in KINDS:
        spec = devmod.backend.find_spec(kind)
        if spec is not None and suffix in spec.languages:
            return True
    return False


def _advice(file: str, function: str, end: End, guard: bool) -> str:
    if end.code is None:
        return "Launch fewer threads, or set a longer --timeout"
    if guard:
        return "A guard finds writes within 4096 bytes of an array: compare the sizes of the arrays and --threads with the kernel's indices"
    verify = f"devmod verify {quote(file)} {quote(function)}"
    return f"--guard finds the argument of a write near the end of an array; {verify} launches all candidates"
