"""A small kernel for each kind, which `devmod.doctor` runs on each device, and `devmod.verify` on
one where a candidate has failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pkgutil import get_data
from typing import Any

from devmod import Module, registered
from devmod import device as find_device
from devmod._plugins.devices import device_label, probe
from devmod._plugins.registry import local_kinds
from devmod.backend import find_spec, load_stored
from devmod.errors import DevmodError, ToolchainNotFoundError
from devmod.worker import answer_items, answers
from devmod_workbench._tools.devices import text_of

#: For a kernel on one device, in seconds.
_TIMEOUT = 30
#: The file of a backend's package with the bytes of the module (`Module.save_to_bytes`) of a kernel
#: ``f(x: float32*)``, which writes 1 to the first element.
_FILE = "small_kernel.module"


def kernel_rows(kind: str) -> list[tuple[str, str, str]]:
    """Return whether a small kernel runs on each device of the kind."""
    if _small_module(kind) is None:
        return []
    try:
        devices = {device_label(each): each.name for each in probe(kind)}
    except DevmodError:  # the row of the devices has it
        return []
    if not devices:
        return []
    problems = device_problems([*devices])
    rows = [
        ("kernel", "problem", f"{label} ({devices[label]}) does not run a small kernel: {text}")
        for label, text in problems.items()
    ]
    return rows or [("kernel", "ok", "a small kernel runs")]


def device_problems(labels: Sequence[str]) -> dict[str, str]:
    """Return why a small kernel does not run, for each device that does not run it. Each is tried
    in another process.

    Parameters
    ----------
    labels
        The devices, such as "opencl:1".
    """
    in_process = local_kinds()
    results = answers(
        __name__,
        labels,
        device_problem,
        _TIMEOUT,
        here=lambda label: label.partition(":")[0] in in_process,
    )
    problems = {}
    for label, (answer, end) in zip(labels, results, strict=True):
        if end is not None:
            problems[label] = f"its launch {end}"
        elif answer:
            problems[label] = answer
    return problems


def main(request: dict[str, Any]) -> None:
    """Run in the new process: answer with the problem of each device."""
    answer_items(request, device_problem)


def device_problem(label: str) -> str:
    """Build and run a small kernel on a device. Return what fails; "" if nothing does, or if the
    kind has no such kernel.
    """
    module = None
    try:
        device = find_device(label)
        module = _small_module(device.kind)
        if module is None:
            return ""
        array = device.zeros((64,), "float32")
        function = module._function_on("f", device)
        if function.info.launch_param_tags:
            function(array, threads=1, block=1)
        else:
            function(array)
        value = array.numpy()[0].item()
    except Exception as error:  # noqa: BLE001 - a driver may raise anything
        if isinstance(error, ToolchainNotFoundError) and _is_in_place_of_binary(module):
            return ""  # the machine runs binaries, and has no compiler for the source
        return text_of(error)
    if value != 1:
        return f"it wrote {value!r}, and not 1"
    return ""


def _is_in_place_of_binary(module: Module | None) -> bool:
    """Return whether a module has source, and the payloads of its kind are binaries by default."""
    if module is None:
        return False
    spec = find_spec(module.kind)
    if spec is None or module.format not in spec.source_formats:
        return False
    return spec.formats[0] not in spec.source_formats


def _small_module(kind: str) -> Module | None:
    """Return the module of the small kernel in the package of a kind's backend; None without
    one.
    """
    claim = registered("devmod.load_from_bytes").get(kind)
    if claim is None:
        return None
    package = claim.value.partition(":")[0].rpartition(".")[0]
    data = None
    with suppress(ImportError, OSError, ValueError):
        data = get_data(package, _FILE)
    if data is None:
        return None
    return load_stored(kind, data)
