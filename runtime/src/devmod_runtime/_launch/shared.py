"""Memory that the threads of a block share, as arguments: their sizes, and the limit of the device."""

from __future__ import annotations

from devmod import Local
from devmod.errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from devmod_runtime._device.device import Device
    from devmod_runtime._launch.arguments import Argument
    from devmod_runtime._launch.launcher import Kernel, LaunchConfig, Launcher


def local_sizer(
    name: str, arguments: tuple[Argument, ...], launcher: Launcher, kernel: Kernel, device: Device, config: LaunchConfig
) -> Callable[[list[Any]], None] | None:
    """Return the function that replaces each `Local` in the values of a launch by the kernel's own object; None if there can be none.

    It raises LaunchError if the device does not have that much shared memory.
    """
    places = [(each.number, each) for each in arguments if each.kind == "local" or each.accepts_local]
    if not places:
        return None
    x, y, z = config.block
    threads = x * y * z

    def replace_locals(values: list[Any]) -> None:
        sizes = []
        for number, argument in places:
            value = values[number]
            if type(value) is Local:
                size = value.bytes_of(threads)
                sizes.append((argument, value, size))
                values[number] = launcher.local(size)
        if sizes:
            problem = kernel.check_local([size for _, _, size in sizes])
            if problem:
                subject = f"the {launcher.kind} function {name!r} cannot be launched on {device}"
                raise _too_large(f"{subject}: {problem}", name, device, sizes, threads)

    return replace_locals


def _too_large(problem: str, name: str, device: Device, sizes: list[tuple[Argument, Local, int]], threads: int) -> LaunchError:
    defaults = [each for each in sizes if each[1] is each[0].default]
    listed = ", ".join(
        f"{argument.label} takes {size} bytes by default, {value!r}{f' with {threads} threads in a block' if value.per_thread else ''}"
        for argument, value, size in defaults
    )
    smaller_block = ", or a smaller block=" if any(value.per_thread for _, value, _ in defaults) else ""
    advice = f"; {listed}: give it by name{smaller_block}" if defaults else ""
    first = sizes[0][0]
    return LaunchError(f"{problem}{advice}", kind=device.kind, function=name, argument=first.name or str(first.number + 1))
