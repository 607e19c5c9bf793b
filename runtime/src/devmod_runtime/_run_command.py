"""`devmod run`: launch a function of a file once, and show its results."""

from __future__ import annotations

from contextlib import nullcontext
from time import perf_counter
from typing import Any

import click

from devmod import device as find_device
from devmod import guard as guard_arrays
from devmod import profile
from devmod._cli._describe import open_file
from devmod._plugins.devices import device_label
from devmod.commands import (
    FiniteRange,
    complete_function,
    complete_kind,
    debug_option,
    echo,
    interruptible,
    plugins_at_work,
    print_json,
    quiet_drivers,
)
from devmod.errors import ArgumentError, did_you_mean, list_names
from devmod_runtime._difference import Difference, worst_difference
from devmod_runtime._inputs import (
    PICTURES,
    arguments_of,
    check_output,
    on_device,
    parameters,
    read_array,
    read_counts,
    results_of,
    split_assignments,
    write_array,
)
from devmod_runtime._profile import duration_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from devmod_runtime._inputs import Arguments

VALUES = """\b
A VALUE is one of:
  3, 2.5, true, (1, 2.0), {'a': 1}  a number, lanes, or a struct, as in Python
  random:float32[1024,1024]         floats from 0 to 1, integers from 0 to 15
  zeros:float32[1024]
  fill:1.5:float32[1024]
  x.npy, x.npz:KEY                  an array of a file
  x.png                             a picture, height × width × channels (needs Pillow)
  local:BYTES                       memory that the threads of a block share
Without TYPE, an array has the type of the parameter; without [SHAPE], the
size that the kernel declares. Some shells need quotes around [ and ].
"""


@click.command(
    "run",
    short_help="Run a function of a file, and compare or save its results.",
    epilog=f"""{VALUES}
\b
Examples:
  devmod run k.devmod saxpy y=zeros[1024] x=random[1024] a=2 n=1024 --threads 1024
  devmod run k.devmod saxpy y=y.npy x=x.npy a=2 n=1024 --threads 1024 --expect y=want.npy
  devmod run k.devmod invert out=zeros[480,640] picture=in.png --threads 640,480 --save out=out.png
  devmod run k.devmod saxpy … --device vulkan:1 --guard

\b
Exit status:
  0  done
  1  a result is not the expected one, or an error
""",
)
@click.argument("file", type=click.Path(allow_dash=True))
@click.argument("function", shell_complete=complete_function)
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--threads", metavar="X[,Y[,Z]]", help="The threads in each dimension.")
@click.option("--grid", metavar="X[,Y[,Z]]", help="The blocks in each dimension, in place of --threads.")
@click.option("--block", metavar="X[,Y[,Z]]", help="The threads of a block.")
@click.option("--device", metavar="KIND[:NUMBER]", shell_complete=complete_kind("devmod.device"),
              help="The device. Default: that of a call in Python.")  # fmt: skip
@click.option("--expect", multiple=True, metavar="NAME=FILE", help="Compare an array with a file after the launch.")
@click.option("--rtol", type=FiniteRange(0), default=1e-5, show_default=True,
              help="The tolerance of --expect, relative to the expected value.")  # fmt: skip
@click.option("--atol", type=FiniteRange(0), default=1e-6, show_default=True, help="The absolute tolerance of --expect.")
@click.option("--save", multiple=True, metavar="NAME=FILE", help="Write an array to a file .npy or a picture after the launch.")
@click.option("--guard", is_flag=True, help="Find writes past the ends of the arrays, as devmod.guard.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
@click.pass_context
def command(
    context: click.Context,
    file: str,
    function: str,
    arguments: tuple[str, ...],
    threads: str | None,
    grid: str | None,
    block: str | None,
    device: str | None,
    expect: tuple[str, ...],
    rtol: float,
    atol: float,
    save: tuple[str, ...],
    guard: bool,
    as_json: bool,
) -> None:
    """Launch FUNCTION of FILE once with the arguments, each NAME=VALUE. Print its time on the host and on the device.

    FILE is as for `devmod inspect`. A function whose parameters have no names takes 1=VALUE 2=VALUE and so on.
    """
    quiet_drivers()
    given = split_assignments(arguments, function)
    expected, saved = split_assignments(expect, "--expect"), split_assignments(save, "--save")
    for name, path in saved.items():
        check_output(name, path)
    sizes: dict[str, Any] = {
        name: read_counts(text, {}, f"--{name}") for name, text in (("threads", threads), ("grid", grid), ("block", block)) if text
    }
    with plugins_at_work(), interruptible():
        kernel = open_file(file)[1][function]
        target = kernel.default_device() if device is None else find_device(device)
        kernel = kernel.on(target)
        with guard_arrays() if guard else nullcontext():
            call = on_device(kernel, arguments_of(kernel, given, {}), target)
            for name in (*expected, *saved):
                _check_name(function, name, call)
            params = parameters(kernel)
            wanted = {name: read_array(name, path, params.get(name)) for name, path in expected.items()}
            with profile() as recorded:
                begin = perf_counter()
                result = kernel(*call.positional, **call.named, **sizes)
                target.synchronize()
                seconds = perf_counter() - begin
        results = results_of(kernel, call)
    times = [each.on_device for each in recorded.records if each.action == "launch"]
    report: dict[str, Any] = {
        "function": function,
        "device": device_label(target),
        "device_name": target.name,
        "host": seconds,
        "on_device": times[0] if times else None,
        "result": result,
        "arrays": {name: {"type": str(array.dtype), "shape": list(array.shape)} for name, array in results.items()},
        "expected": {},
        "saved": saved,
    }
    for name, path in saved.items():
        write_array(name, path, _array(results, call, name))
    differences: dict[str, Difference] = {}
    for name, path in expected.items():
        result = _array(results, call, name)
        is_scaled = path.lower().endswith(PICTURES) and result.dtype.kind == "f" and wanted[name].dtype.kind == "u"  # an image, as saved
        differences[name] = worst_difference(name, result, wanted[name] / 255 if is_scaled else wanted[name], rtol, atol)
        report["expected"][name] = {"file": path, **_plain(differences[name])}
    if as_json:
        print_json(report)
    else:
        _print(report, differences)
    if any(each.is_error for each in differences.values()):
        context.exit(1)


def _check_name(function: str, name: str, call: Arguments) -> None:
    arrays = [each for each, value in call.items() if hasattr(value, "numpy")]
    if name not in arrays:
        raise ArgumentError(
            f"{function} has no array {name!r} to compare or to save{did_you_mean(name, arrays)}; its arrays: {list_names(arrays)}",
            argument=name,
        )


def _array(results: Mapping[str, Any], call: Arguments, name: str) -> Any:
    return results[name] if name in results else dict(call.items())[name].numpy()


def _plain(each: Difference) -> dict[str, Any]:
    return {"error": each.error, "index": each.place, "value": each.value, "expected": each.expected, "agrees": not each.is_error}


def _print(report: Mapping[str, Any], differences: Mapping[str, Difference]) -> None:
    seconds = report["on_device"]
    on_device = f"{duration_text(seconds)} on the device" if seconds is not None else "no time on the device"
    echo(f"{report['function']} on {report['device']} ({report['device_name']}): {on_device}, {duration_text(report['host'])} on the host")
    if report["result"] is not None:
        echo(f"returned {report['result']}")
    for name, array in report["arrays"].items():
        text = f"{name}: {array['type']}[{','.join(map(str, array['shape']))}]"
        if name in report["saved"]:
            text += f", saved to {report['saved'][name]}"
        echo(text)
    for name, each in differences.items():
        path = report["expected"][name]["file"]
        values = f"at {name}{each.subscript}, which is {each.value!r}, expected {each.expected!r}" if each.place else ""
        verdict = "differs from" if each.is_error else "agrees with"
        echo(f"{name} {verdict} {path}: worst error {each.error:.3g} {values}".rstrip())
