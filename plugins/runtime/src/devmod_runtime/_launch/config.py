"""The launch configuration of a call: grid or threads, and block; or TVM's launch values after the
arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from devmod import Interface
from devmod._values.info import shorten
from devmod.backend import PipelineConstant
from devmod.errors import LaunchError
from devmod_runtime._launch.arguments import SHARED_MEMORY, Signature
from devmod_runtime._launch.launcher import Kernel, LaunchConfig, Launcher
from devmod_runtime._launch.scalars import explain_not_int

Dims = int | Sequence[int] | None
#: The counts in x, y, z.
Triple = tuple[int, int, int]

_MAX = 2**63 - 1
#: No device has blocks of so many threads.
_MOST_THREADS = 2**20
#: The key of an interface whose binary has no types (`devmod pack --opaque`).
_OPAQUE = "opaque"
_NO_CLUSTERS = ((1, 1, 1), (1, 1, 1))
#: That of a function whose interface is unknown: it has no block and no default.
_UNKNOWN = Interface()


class LaunchRequest:
    """The launch that a call requests, before the device is known.

    Attributes
    ----------
    grid, threads, block : tuple of int or None
        The values of the call in x, y, z. One of `grid` and `threads` is None. `block` is None if
        the backend chooses it.
    cluster, preferred_cluster
        As in `LaunchConfig`.
    shared_memory : int or None
        The bytes of the call; None for the default of the interface.
    key : tuple of int
        The values of the arguments that are part of the call's key, for a tuned function.
    """

    grid: Triple | None = None
    threads: Triple | None = None
    block: Triple | None = None
    cluster = preferred_cluster = (1, 1, 1)
    shared_memory: int | None = None
    key: tuple[int, ...] = ()


class LaunchConfigReader:
    """Reads the launch configuration from the calls of one function.

    Parameters
    ----------
    launcher, signature
        The function's launcher and signature.
    find_block
        Returns the block of the function's other candidates; None if they have none.
    """

    def __init__(
        self, launcher: Launcher, signature: Signature, find_block: Callable[[], Dims]
    ) -> None:
        self._launcher = launcher
        self._signature = signature
        self._interface = signature.interface or _UNKNOWN
        self._find_block = find_block
        self._error = signature.error
        #: The constants without a value; None before the first call.
        self._unset: Sequence[PipelineConstant] | None = None

    @property
    def block(self) -> Triple | None:
        """The block of a call that names none: the fixed block, or the default; None without
        one.
        """
        return self._interface.block or self._interface.default_block

    def read(
        self, args: Sequence[Any], grid: Dims, block: Dims, threads: Dims, shared_memory: int | None
    ) -> LaunchRequest:
        """Return the requested launch. Launch values may follow the arguments.

        Raises
        ------
        ArgumentError
            A value is not a count, or the grid or the block is missing or given twice.
        LaunchError
            The function has constants that must be set.
        """
        if self._unset is None:
            self._unset = self._launcher.unset_constants
        if self._unset:  # before the block, which may depend on them
            keywords = ", ".join(each.keyword for each in self._unset)
            raise self._error(
                f" has constants without a value; set them: f.specialize({keywords})",
                family=LaunchError,
            )
        request = LaunchRequest()
        count = len(self._signature.arguments)
        if len(args) > count:
            self._read_values(args[count:], grid, block, threads, shared_memory, request)
            return request

        if self._launcher.has_grid:
            self._read_grid(grid, threads, request)
        else:
            word = _first_given(grid, block, threads)
            if word:
                raise self._error(
                    f" has no grid and no threads, since a launch is one call; omit {word}=", word
                )
            request.grid = (1, 1, 1)
        given_block = None
        if block is not None:
            given_block = self._triple("block", block, 1)
        request.block = self._block(given_block)
        request.shared_memory = self._shared_memory_size(shared_memory)
        return request

    def _read_grid(self, grid: Dims, threads: Dims, request: LaunchRequest) -> None:
        """Read the grid or the threads of a call. Exactly one of them is given."""
        if grid is not None and threads is not None:
            problem = f"was given grid={grid!r} and threads={threads!r}"
            raise self._error(
                f" {problem}: give grid=, the number of blocks, or threads=, the number of threads",
                "threads",
            )
        if threads is not None:
            request.threads = self._triple("threads", threads, 0)
        elif grid is not None:
            request.grid = self._triple("grid", grid, 0)
        else:
            expected = "threads=, the number of threads, or grid=, the number of blocks"
            raise self._error(f" needs {expected}: an int, or up to three ints for x, y, z", "grid")

    def resolve(self, request: LaunchRequest, kernel: Kernel) -> tuple[LaunchConfig, Any]:
        """Return the configuration of a launch on the device of `kernel`, and the kernel's shape of
        it; None for a grid with a zero.

        Raises
        ------
        LaunchError
            The launch exceeds a limit of the device, or has clusters, which the kind does not. For
            a limit of blocks the message has what to do.
        """
        block = request.block
        if block is None:
            block = kernel.choose_block(request.threads)
        grid = request.grid
        if grid is None:
            assert request.threads is not None
            x, y, z = (
                -(-threads // size) for threads, size in zip(request.threads, block, strict=True)
            )
            grid = x, y, z

        shared_memory = request.shared_memory
        if shared_memory is None:
            shared_memory = self._default_shared_memory(block)
        clusters = (request.cluster, request.preferred_cluster)
        config = LaunchConfig(grid, block, clusters[0], shared_memory, clusters[1])
        if 0 in grid:
            return config, None
        if clusters != _NO_CLUSTERS and not self._launcher.has_clusters:
            got = next(each for each in clusters if max(each) > 1)
            problem = f"the kind has no clusters of blocks: expected cluster=(1, 1, 1), got {got}"
            raise self._error(f" cannot be launched: {problem}", family=LaunchError)
        try:
            return config, kernel.shape(config)
        except LaunchError as error:
            if error.argument == "grid" and error.args:
                error.args = (f"{error.args[0]}{self._advice(request, config)}",)
            raise

    def max_block_threads(self, kernel: Kernel) -> int:
        """Return the most threads of a block in x that `kernel` takes.

        Raises
        ------
        LaunchError
            It takes none.
        """
        if self._interface.block is not None:
            return prod(self._interface.block)
        if not self._launcher.has_grid:
            return 1
        kernel.shape(LaunchConfig((1, 1, 1), (1, 1, 1)))
        most = 1
        refused = _MOST_THREADS
        while refused - most > 1:
            # It is doubled first: most limits are powers of two.
            threads = min(2 * most, (most + refused) // 2)
            try:
                kernel.shape(LaunchConfig((1, 1, 1), (threads, 1, 1)))
                most = threads
            except LaunchError:
                refused = threads
        return most

    def _advice(self, request: LaunchRequest, config: LaunchConfig) -> str:
        """Return what to do about too many blocks, as the end of a message."""
        advice = "launch in several parts, or let the kernel index more dimensions"
        if request.threads is None:
            return f"; {advice}"
        if self._interface.block is None:
            advice = f"give a larger block=, {advice}"
        threads = shorten(request.threads)
        block = shorten(config.block)
        grid = shorten(config.grid)
        return f". threads={threads} in blocks of {block} needs grid={grid}; {advice}"

    def _read_values(
        self,
        values: Sequence[Any],
        grid: Dims,
        block: Dims,
        threads: Dims,
        shared_memory: int | None,
        request: LaunchRequest,
    ) -> None:
        """Read TVM's launch values, which follow the arguments."""
        signature = self._signature
        word = _first_given(grid, block, threads)
        if word:
            keywords = "threads=" if word == "threads" else "grid= or block="
            raise self._error(
                f" is called with {keywords} and with launch values after its arguments; give one of them",
                word,
            )
        has_value = SHARED_MEMORY in signature.launch
        if has_value and shared_memory is not None:
            raise self._error(
                " is called with shared_memory= and with its launch value after the arguments; give one of them",
                "shared_memory",
            )

        #: The grid, the block, the cluster, the preferred cluster, and the shared memory.
        triples = [[1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 1, 1], [0]]
        has_block = False
        for tag, (triple, axis), value in zip(
            signature.tags, signature.launch, values, strict=True
        ):
            # A grid and the shared memory may be zero.
            least = 1 if triple in (1, 2, 3) else 0
            triples[triple][axis] = self._count(tag, value, f"the launch value {tag}", least)
            has_block |= triple == 1
        request.grid, threads_of_block, request.cluster, request.preferred_cluster = (
            (x, y, z) for x, y, z in triples[:4]
        )
        if has_block:
            request.block = self._block(threads_of_block)
        else:
            request.block = self.block or (1, 1, 1)
        if has_value:
            shared_memory = triples[4][0]
        request.shared_memory = self._shared_memory_size(shared_memory)

    def _block(self, block: Triple | None) -> Triple | None:
        """Return the block of a call; None if the backend chooses it."""
        if block is not None:
            if self._interface.block not in (None, block):
                raise self._error(
                    f" is built for blocks of {self._interface.block} threads, and {block} was given; omit block=",
                    "block",
                )
            return block
        if self.block is not None or not self._launcher.has_grid:
            return self.block or (1, 1, 1)
        if self._interface.open_block:
            return None
        advice = ""
        others = self._find_block()
        if others is not None:
            advice = f". The other candidates have blocks of {others}: give block={others}"
        raise self._error(
            f" needs block=, the number of threads in a block: an int, or up to three ints for x, y, z{advice}",
            "block",
        )

    def _shared_memory_size(self, value: Any) -> int | None:
        """Return the bytes that a call gives; None for the default of the interface."""
        if value is None:
            if self._needs_shared_memory():
                raise self._error(
                    " uses dynamic shared memory, and its interface has no default: give shared_memory=, the bytes for each block, or a "
                    "default to devmod.compile(…, shared_memory=…)",
                    "shared_memory",
                )
            return None
        number = self._count("shared_memory", value, f"shared_memory={value!r}", 0)
        if number and self._launcher.no_shared_memory:
            raise self._error(
                f" cannot be given shared_memory={number}: {self._launcher.no_shared_memory}",
                "shared_memory",
            )
        return number

    def _default_shared_memory(self, block: Triple) -> int:
        """Return the bytes of a call that gives none."""
        if self._launcher.no_shared_memory:
            return 0
        default = self._interface.shared_memory
        if isinstance(default, int):
            return default
        x, y, z = block
        return default.bytes_of(x * y * z)

    def _needs_shared_memory(self) -> bool:
        """Return whether each call must give the bytes of dynamic shared memory."""
        if SHARED_MEMORY not in self._signature.launch or self._launcher.no_shared_memory:
            return False
        # A binary whose types are unknown has the launch value of each kernel, also of one that
        # uses no shared memory.
        return not self._interface.shared_memory and _OPAQUE not in self._interface.extra

    def _triple(self, word: str, value: Any, least: int) -> Triple:
        parts: Sequence[Any] = (value,)
        if isinstance(value, (tuple, list)):
            parts = value
        if not 1 <= len(parts) <= 3:
            raise self._error(
                f" was given {word}={value!r}: expected an int, or up to three ints for x, y, z",
                word,
            )
        counts = [self._count(word, part, f"{word}={value!r}", least) for part in parts]
        x, y, z = [*counts, 1, 1][:3]
        return x, y, z

    def _count(self, argument: str, value: Any, subject: str, least: int) -> int:
        try:
            number = int(value.__index__())
        except (AttributeError, TypeError):
            raise self._error(
                f" was given {subject}: {explain_not_int(value, argument)}", argument
            ) from None
        if not least <= number <= _MAX:
            raise self._error(
                f" was given {subject}: {number} is not a count of {least} or more", argument
            )
        return number


def _first_given(grid: Dims, block: Dims, threads: Dims) -> str:
    """Return the first keyword that a call gives; "" if it gives none."""
    if grid is not None:
        return "grid"
    if block is not None:
        return "block"
    if threads is not None:
        return "threads"
    return ""


def as_given(dims: Dims, triple: Triple | None) -> int | tuple[int, ...] | None:
    """Return dimensions in the form in which a call gave them, as plain ints."""
    if dims is None or triple is None:
        return None
    if isinstance(dims, (tuple, list)):
        return triple[: len(dims)]
    return triple[0]
