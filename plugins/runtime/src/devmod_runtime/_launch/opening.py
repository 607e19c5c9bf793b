"""What a call asks when it opens. `devmod.guard` and `devmod.profile` change the answers while they
are active.
"""

from __future__ import annotations

from devmod.backend import fits, requirements
from devmod.errors import DeviceNotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod import Function
    from devmod_runtime._device.device import Device
    from devmod_runtime._device.stream import Stream
    from devmod_runtime._launch.launcher import Kernel

    Queue = Callable[..., Any]


# Where to change: something around each launch, such as a profiling hook
#   here: each call, each step of a program and each prepared launch asks it when it opens.
#     `workbench/src/devmod_workbench/_tools/observed.py` (`replaced`) changes its answers;
#     `workbench/src/devmod_workbench/_tools/profile.py` (`_queue`) is an example
#   tests: `tests/test_profile.py`
class Opening:
    """What a call asks when it opens. Observers replace these attributes
    (`devmod_workbench._tools.observed`).

    A function caches what it made of the answers. If an observer begins or ends, it gets empty
    caches, and prepared launches ask again.

    Attributes
    ----------
    kernel_call, program_call
        The classes of the calls of kernels and programs. Nothing is cached unless `kernel_call` is
        `KernelCall`.
    """

    kernel_call: Callable[..., Any]
    program_call: Callable[..., Any]

    @staticmethod
    def build(function: Function, device: Device) -> Kernel:
        """Return a new kernel for a device. Raise the errors of `Function.open`."""
        if problem := fits(
            requirements(function._signature.interface, function._launcher.format),
            device.capabilities,
        ):
            raise function._signature.error(f" {problem}", family=DeviceNotFoundError)
        return function._launcher.kernel(device)

    @staticmethod
    def queue(queue: Queue, name: str, stream: Stream, arguments: Sequence[Any] | None) -> Queue:
        """Return what queues a launch in place of `queue`.

        Parameters
        ----------
        queue
            What queues it without an observer.
        name
            The function, with the program of which the launch is a step.
        stream
            The stream.
        arguments
            The arguments of each launch; None if they are those of the thread's call.
        """
        return queue


def keep(cache: dict[Any, Any], key: Any, value: object, most: int = 256) -> None:
    """Cache a value. A full cache is emptied before."""
    if len(cache) >= most:
        cache.clear()
    cache[key] = value
