"""Python processes for work that may crash or hang. A process receives a request, and answers in
lines of JSON.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import sys
import threading
from _queue import Empty, SimpleQueue  # queue imports heapq too
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import cycle
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from weakref import WeakSet

from devmod._util.locks import RLock

if TYPE_CHECKING:
    import subprocess

_Item = TypeVar("_Item")
_AnyWorker = TypeVar("_AnyWorker", bound="Worker")

#: The code that the new process runs. It sets its sys.path to that of this process. The programs
#: that it starts get no requests as input. Imports make many objects, which stay, so garbage is
#: collected less often.
_START = (
    "import gc,json,os,sys;gc.set_threshold(100_000);sys.stdin=open(os.dup(0),encoding='utf-8');os.dup2(os.open(os.devnull,os.O_RDONLY),0);"
    "r=json.loads(sys.stdin.buffer.readline());sys.path[:]=r['path'];"
    "__import__('devmod.worker').worker._end_with_parent(r);from {} import main;main(r)"
)
#: The most bytes of `Worker.printed`.
_MAX_PRINTED = 1 << 14
#: The most bytes of an answer. What the process runs may determine its size.
_MAX_ANSWER = 1 << 30
#: The seconds that the end of a killed process may take. A driver of the system may delay it for
#: ever, and on a busy machine the threads to which a driver gives the least priority end late.
_END_TIMEOUT = 5.0
#: The killed processes that took longer. Python warns of one that is forgotten.
_ending: list[subprocess.Popen[bytes]] = []

#: The code of a process that kills its process group when its input ends.
_GUARD = "import os, signal; os.read(0, 1); os.killpg(0, signal.SIGKILL)"
#: A process group, and the pipe that keeps it.
_Guard = tuple[int, IO[bytes]]
#: The processes without a program to guard.
_guards: list[_Guard] = []

#: The pipes at whose end another process ends. A fork would keep them open, and the process would
#: outlive this one.
_pipes: WeakSet[IO[bytes]] = WeakSet()
#: Locked at a fork, and while a pipe is not yet in `_pipes`.
_fork_lock = RLock()


def search_path() -> list[str]:
    """Return the absolute folders of sys.path: the other process may have another working
    directory.
    """
    return [os.path.abspath(each) for each in sys.path]


def describe_exit(code: int) -> str:
    """Return a description of an exit status, for messages."""
    if code < 0:
        return f"ends with signal {-code}"
    return f"ends with exit status {code}"


def can_start_python() -> bool:
    """Return whether a Python process can be started. A frozen program has no interpreter."""
    return not getattr(sys, "frozen", False) and bool(sys.executable)


def answer_writer() -> Callable[[object], None]:
    """Return the function with which the new process sends a JSON value. Other output goes to
    standard error.
    """
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(value: object) -> None:
        sys.stdout.flush()  # the other process kills this one after its last answer
        out.write(json.dumps(value, default=repr) + "\n")
        out.flush()

    return answer


class Worker:
    """A process that runs ``main(request)`` of a module, in a session of its own. The end of the
    context kills it.

    It ends with this process, also after a SIGKILL of this process whose forks remain, and while a
    driver hangs there (outside of Linux, or with a folder to remove, not while the driver has
    Python's lock).

    Parameters
    ----------
    module
        The name of the module.
    request
        The argument of `main`, of JSON's types. The keys "path", "lifeline" and "removes" are
        added.
    environment
        Its environment variables; by default those of this process.
    folder
        Its working folder; by default that of this process.
    captures
        Whether `printed` gets other output than answers. By default that is printed to the standard
        error of this process.
    removes
        A folder that the process removes if this one ends before it; by default none.

    Attributes
    ----------
    process
        The process.
    is_late
        Whether `answer` has returned None because the process took too long.
    """

    def __init__(
        self,
        module: str,
        request: dict[str, Any],
        *,
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
        captures: bool = False,
        removes: str = "",
    ) -> None:
        import subprocess
        import tempfile

        with ExitStack() as its_files, ExitStack() as own_files:
            self._printed = None
            if captures:
                self._printed = own_files.enter_context(tempfile.TemporaryFile(buffering=0))
            requests, self._requests = _pipe(its_files, own_files)
            lifeline = None
            inherited: tuple[int, ...] = ()
            if sys.platform == "linux" and not removes:
                lifeline, _ = _pipe(its_files, own_files)
                inherited = (lifeline,)
            flags = []
            if sys.flags.ignore_environment:
                flags.append("-E")
            if sys.flags.no_user_site:
                flags.append("-s")
            self.process = subprocess.Popen(  # noqa: S603 - this very Python
                # It does not import from the current folder, which may be a stranger's, unless
                # `sys.path` names it.
                [sys.executable, "-P", *flags, "-c", _START.format(module)],
                stdin=requests,
                stdout=subprocess.PIPE,
                stderr=self._printed,
                env=environment,
                cwd=folder,
                pass_fds=inherited,
                start_new_session=True,  # Ctrl-C in a terminal must reach only this process, which ends the other
            )
            self._files = own_files.pop_all()
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._reader: threading.Thread | None = None
        self._reads_all = False
        self.is_late = False
        self.send({**request, "path": search_path(), "lifeline": lifeline, "removes": removes})

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.close()
        self.wait(_END_TIMEOUT)

    def close(self) -> None:
        """Close the files of this class. The process ends."""
        with suppress(OSError):  # a request that was not read
            self._files.close()
        reader = self._reader
        if reader:
            reader.join(_END_TIMEOUT)
        # Else a process that cannot be ended has the other end.
        if not reader or not reader.is_alive():
            assert self.process.stdout is not None
            self.process.stdout.close()

    @property
    def printed(self) -> str:
        """The end of what the process and its programs have printed, if it is captured."""
        assert self._printed is not None
        self._printed.seek(max(0, self._printed.seek(0, os.SEEK_END) - _MAX_PRINTED))
        return self._printed.read().decode("utf-8", "replace")

    def take_printed(self) -> str:
        """Return what the process has printed since the last call, and remove it. Both processes
        have one position in the file.
        """
        assert self._printed is not None
        self._printed.seek(0)
        data = self._printed.read()
        self._printed.seek(0)
        self._printed.truncate()
        return data.decode("utf-8", "replace")

    def send(self, request: object) -> None:
        """Send a further request, a line of JSON. A process that has ended ignores it."""
        line = json.dumps(request).encode() + b"\n"
        with suppress(OSError):
            self._requests.write(line)
            self._requests.flush()

    def kill(self) -> None:
        """End the process and the programs that it has started."""
        if self.process.returncode is not None:  # its number may be another process's
            return
        with suppress(OSError):  # it has ended
            if sys.platform == "win32":
                self.process.kill()
            else:
                os.killpg(self.process.pid, signal.SIGKILL)

    def _start_reading(self, *requests: object) -> None:
        """Send requests and read a line, or all, in a thread, which ends then: Python warns of a
        fork beside a thread.
        """

        def read() -> None:
            line = b""
            with suppress(ValueError, MemoryError):  # `close` has closed the files
                for request in requests:
                    self.send(request)
                assert self.process.stdout is not None
                line = self.process.stdout.readline(_MAX_ANSWER)
                while self._reads_all and line.endswith(b"\n"):
                    self._lines.put(line)
                    line = self.process.stdout.readline(_MAX_ANSWER)
            self._lines.put(line)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        self._reader = reader

    def answer(self, seconds: float | None = None) -> Any:
        """Return the next answer; None if the process ends before, or takes longer than `seconds`
        (default: no limit; a negative number is 0).
        """
        if self._reader is None:
            self._start_reading()
        assert self._reader is not None
        if seconds is not None:
            seconds = min(max(seconds, 0), threading.TIMEOUT_MAX)
        try:
            line = self._lines.get(timeout=seconds)
        except Empty:
            self.is_late = self.process.poll() is None
            return None
        if not self._reads_all:
            self._reader.join()
            self._reader = None
        if len(line) == _MAX_ANSWER:
            self.kill()
        if not line.endswith(b"\n"):  # the last line may be incomplete
            return None
        return json.loads(line)

    def ask(
        self, request: object, seconds: float, meanwhile: Callable[[], None] = lambda: None
    ) -> Any:
        """Send a request, call `meanwhile`, and return the answer as `answer` does. The limit
        includes a process that reads no request.
        """
        limit = monotonic() + seconds
        self._start_reading(request)
        meanwhile()
        return self.answer(limit - monotonic())

    def all_answers(self, seconds: float) -> list[Any]:
        """Return the further answers up to the end of the process, or those of so many seconds."""
        limit = monotonic() + seconds
        self._reads_all = True  # a thread for each of many answers took more time than they
        return list(iter(lambda: self.answer(limit - monotonic()), None))

    @property
    def end(self) -> str:
        """A description of the end of the process, for messages."""
        if self.is_late:
            return "does not end"
        return describe_exit(self.process.wait())

    def end_of_item(self, seconds: float | None) -> End:
        """Return how the process ended, or that it took longer than `seconds`, after `answer` has
        returned None.
        """
        if self.is_late:
            return End(None, f"takes longer than {seconds:g} s")
        code = self.process.wait()
        return End(code, describe_exit(code).replace("ends", "ends the process", 1))

    def wait(self, seconds: float) -> None:
        """Wait for the end of the process, at most so many seconds."""
        from subprocess import TimeoutExpired

        # Popen.wait sleeps for up to 50 ms at a time.
        if sys.platform == "linux" and self.process.poll() is None:
            with (
                suppress(OSError, ValueError),
                open(os.pidfd_open(self.process.pid), "rb", buffering=0) as end,
            ):
                select.select([end], [], [], seconds)
                seconds = 0
        try:
            self.process.wait(seconds)
        except TimeoutExpired:
            _ending.append(self.process)
        _ending[:] = [each for each in _ending if each.poll() is None]


class IdleWorkers(Generic[_AnyWorker]):
    """Processes that wait for their next request. They end with this process. The child of a fork
    leaves them to its parent.

    Parameters
    ----------
    most
        The limit on their number.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._workers: list[tuple[str, _AnyWorker]] = []
        atexit.register(self.end)
        if hasattr(os, "register_at_fork"):  # Windows has no forks
            os.register_at_fork(after_in_child=self._leave)

    def take(self, key: str = "") -> _AnyWorker | None:
        """Return the newest process of a key, if one is alive. What ended it while it was idle has
        no part in the next request.
        """
        for each in self._workers[::-1]:
            own_key, worker = each
            if own_key != key:
                continue
            with suppress(ValueError):  # another thread has taken it
                self._workers.remove(each)
                if worker.process.poll() is None:
                    return worker
                worker.__exit__()
        return None

    def add(self, worker: _AnyWorker, key: str = "") -> None:
        """Keep a process for its next request, or end it if there are enough."""
        if len(self._workers) < self._most:
            self._workers.append((key, worker))
        else:
            worker.__exit__()

    def end(self) -> None:
        """End the processes."""
        while self._workers:
            self._workers.pop()[1].__exit__()

    def _leave(self) -> None:
        while self._workers:
            worker = self._workers.pop()[1]
            worker.process.returncode = 0  # its number is that of a process of the parent
            worker.close()


class End(NamedTuple):
    """How a process ended that had to answer. Its text is for messages, as in "ends the process
    with signal 11".

    Attributes
    ----------
    code
        The exit status, or the negative number of a signal; None if the answer took too long.
    text
        The text.
    """

    code: int | None
    text: str

    def __str__(self) -> str:
        return self.text


def processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def answers(
    module: str,
    items: Sequence[_Item],
    function: Callable[[_Item], Any],
    seconds: float | None = None,
    *,
    here: Callable[[_Item], bool] = lambda _: False,
    processes: int = 1,
) -> Iterator[tuple[Any, End | None]]:
    """Yield for each item, in order, ``function(item)`` of another process and None, or None and
    how that process ended.

    Parameters
    ----------
    module
        The module whose ``main(request)`` calls ``answer_items(request, function)``.
    items
        The arguments of `function`, of JSON's types.
    function
        The function. Its results are of JSON's types.
    seconds
        The limit for an item. Default: none. If a process ends or takes longer, another one
        continues with the next item.
    here
        Whether an item needs this process, such as a kind that is registered in it alone. A frozen
        program, which has no interpreter, calls `function` for each item here.
    processes
        How many processes work at the same time. They get the items in turns.
    """
    others = []
    if can_start_python():
        others = [each for each in items if not here(each)]
    with ExitStack() as stack:
        streams = []
        for start in range(min(processes, len(others))):
            stream = _other_answers(module, others[start::processes], seconds)
            streams.append(stack.enter_context(closing(stream)))
        for each in streams:
            next(each)
        turns = cycle(streams)
        for item in items:
            if not others or here(item):
                yield function(item), None
            else:
                yield next(next(turns))


def _other_answers(
    module: str, items: Sequence[Any], seconds: float | None
) -> Generator[tuple[Any, End | None], None, None]:
    """Yield None for both when the process has been started, then as `answers`."""
    position = 0
    while position < len(items):
        with Worker(module, {"items": items[position:]}) as worker:
            if not position:
                yield None, None
            end = None
            while end is None and position < len(items):
                answer = worker.answer(seconds)
                position += 1
                if answer is None:
                    end = worker.end_of_item(seconds)
                yield answer, end


def answer_items(request: dict[str, Any], function: Callable[[Any], object]) -> None:
    """Answer in the new process with ``function(item)`` for each item of ``request["items"]``."""
    answer = answer_writer()
    for item in request["items"]:
        answer(function(item))


def _end_with_parent(request: dict[str, Any]) -> None:
    """End this process and its programs after the other process, as the kernel ends all pipes of a
    process at its SIGKILL.

    On Linux the kernel kills them. Elsewhere, and to remove a folder first, a thread does. It needs
    Python's lock, which a driver that hangs may have.
    """
    if request["lifeline"] is not None:
        end_group_with(request["lifeline"])
        return
    from devmod._util.temporary import remove_folder

    reader, writer = os.pipe()
    requests = sys.stdin.detach()  # type: ignore[union-attr]
    sys.stdin = open(reader, encoding="utf-8")  # noqa: SIM115 - it is open until the end of the process

    def forward() -> None:
        for line in requests:
            os.write(writer, line)
        remove_folder(request["removes"])
        if sys.platform != "win32":
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=forward, daemon=True).start()


def end_group_with(lifeline: int) -> None:
    """Have the kernel kill this process group when no process has the other end of a pipe. Only
    Linux can.

    Parameters
    ----------
    lifeline
        The file descriptor of this end. The child of a fork has the same group, and may close its
        copy.
    """
    if sys.platform == "linux":
        import fcntl

        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)
        if select.select([lifeline], [], [], 0)[0]:  # it ended before
            os.killpg(0, signal.SIGKILL)


@contextmanager
def guarded_group() -> Iterator[int | None]:
    """Yield a process group for a program, as `process_group` of Popen. An exception, or the end of
    this process, kills the whole group.

    Windows has no groups. A frozen program has no interpreter to start, so only its programs' own
    ends end them.
    """
    if sys.platform == "win32" or not can_start_python():
        yield None
        return
    if _guards:
        guard = _guards.pop()
    else:
        guard = _start_guard()
    try:
        yield guard[0]
    except BaseException:
        _end_guard(*guard)
        raise
    _guards.append(guard)


def _pipe(its_files: ExitStack, own_files: ExitStack) -> tuple[int, IO[bytes]]:
    """Open a pipe to another process, and return both ends. The child of a fork does not keep that
    of this process.
    """
    with _fork_lock:
        reader, writer = os.pipe()
        its_files.callback(os.close, reader)
        file = own_files.enter_context(open(writer, "wb"))  # noqa: SIM115 - the stack closes it
        _pipes.add(file)
    return reader, file


def _start_guard() -> _Guard:
    """Start a process in a group of its own, so Ctrl-C in a terminal does not reach it, and return
    the group and the pipe to it.
    """
    if sys.platform == "win32":
        raise OSError("Windows has no process groups")
    with ExitStack() as its_files, ExitStack() as own_files:
        reader, writer = _pipe(its_files, own_files)
        quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
        files = [(os.POSIX_SPAWN_DUP2, reader, 0), *quiet]
        command = [sys.executable, "-I", "-S", "-c", _GUARD]
        group = os.posix_spawn(sys.executable, command, os.environ, file_actions=files, setpgroup=0)
        own_files.pop_all()
    return group, writer


def _end_guard(group: int, pipe: IO[bytes]) -> None:
    pipe.close()
    with suppress(OSError):  # the program of this process may wait for any child
        os.waitpid(group, 0)


def _end_guards() -> None:
    """At the end of this process: the first process of a container may wait for no child of
    another, which stays a zombie there.
    """
    while _guards:
        _end_guard(*_guards.pop())


def _leave_pipes() -> None:
    """In the child of a fork, put the null device in the place of the parent's pipes. Closing one
    could wait for a thread of the parent.
    """
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        for pipe in _pipes:
            if not pipe.closed:
                os.dup2(null, pipe.fileno(), inheritable=False)
        os.close(null)
        while _guards:
            _guards.pop()[1].close()
    finally:
        _fork_lock.release()


atexit.register(_end_guards)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_fork_lock.acquire, after_in_parent=_fork_lock.release, after_in_child=_leave_pipes
    )
