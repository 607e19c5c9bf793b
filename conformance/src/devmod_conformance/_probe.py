"""The tasks of a new process: one function each. A task sends its results to the row as lines of
JSON.
"""

from __future__ import annotations

import base64
import gc
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import cycle
from typing import Any

import devmod
from devmod import plugins
from devmod.backend import BINARY_SERIALIZABLE, release_import_lock, walk
from devmod.errors import describe_error
from devmod.plugins import GROUPS, find_spec, lookup
from devmod.worker import answer_writer
from devmod_conformance._payload import (
    EXIT_STATUS,
    Payload,
    error_of,
    portable_argument,
    read_argument,
    read_call,
)
from devmod_conformance._rows._tools import compare_arrays, to_device, to_host

#: The audit events that are recorded while `Watch.on` is true.
_RECORDED = (
    *("socket.connect", "socket.getaddrinfo", "socket.gethostby", "socket.send"),
    *("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork"),
    *("tempfile.", "os.mkdir"),
)

#: The interrupts of the first use, which opens the driver, and the limit on the seconds before
#: each.
_FIRST = 4
_FIRST_SECONDS = 0.2
#: The most uses for each interrupt: a use may end before its interrupt comes.
_MAX_USES = 20
#: The most seconds until the calls are complete whose waits were interrupted.
_COMPLETION_SECONDS = 15


class Watch:
    """Records imports of the driver, its libraries and programs, opened files, network access and
    started programs.

    Parameters
    ----------
    modules, libraries, programs
        The driver's modules, parts of its libraries' file names, and the names of its programs.
    hide
        Whether they are hidden: importing a module raises ModuleNotFoundError, loading a library
        raises OSError, and a program is not in PATH.
    """

    def __init__(
        self, modules: Sequence[str], libraries: Sequence[str], programs: Sequence[str], hide: bool
    ) -> None:
        self.modules = tuple(modules)
        self.libraries = tuple(libraries)
        self.programs = tuple(programs)
        self.hide = hide
        self.on = False
        self.events: list[str] = []
        sys.meta_path.insert(0, self)
        sys.addaudithook(self._audit)
        if self.programs:
            self._which = shutil.which
            shutil.which = self._search_program

    def _search_program(self, cmd: Any, *args: Any, **named: Any) -> Any:
        """Record the search for a program (in the place of `shutil.which`)."""
        if self._is_program(cmd):
            self.events.append(f"searches the program {cmd}")
            if self.hide:
                return None
        return self._which(cmd, *args, **named)

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Record the import of a driver's module (``sys.meta_path``)."""
        if any(f"{name}.".startswith(f"{module}.") for module in self.modules):
            self.events.append(f"imports {name}")
            if self.hide:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "ctypes.dlopen" and arguments and arguments[0]:
            self._audit_library(os.fsdecode(arguments[0]))
        elif event == "subprocess.Popen" and self._is_program(arguments[0]):
            self.events.append(f"starts the program {arguments[0]}")
            if self.hide:
                raise FileNotFoundError(f"No such file or directory: {arguments[0]!r}")
        elif self.on and event == "open":
            path, _, flags = arguments
            is_written = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if is_written and path != os.devnull:
                self.events.append(f"opens {path!r} to write")
        elif self.on and event.startswith(_RECORDED):
            self.events.append(f"does {event}({', '.join(str(each)[:80] for each in arguments)})")

    def _audit_library(self, name: str) -> None:
        base = os.path.basename(name)
        if not any(library in base for library in self.libraries):
            return
        self.events.append(f"opens the library {name}")
        if self.hide:
            raise OSError(f"{name}: cannot open shared object file: No such file or directory")

    def _is_program(self, path: Any) -> bool:
        return os.path.basename(os.fsdecode(path)) in self.programs

    def take(self) -> list[str]:
        """Return the events since the last call."""
        events = list(self.events)
        self.events.clear()
        return events


Send = Callable[[object], None]


def main(request: dict[str, Any]) -> None:
    """Run the task of a request."""
    send = answer_writer()
    if request["other_host"]:
        from devmod_conformance._fake_host import replace_clock_and_host

        replace_clock_and_host()
    watch = Watch(request["modules"], request["libraries"], request["programs"], request["hide"])
    TASKS[request["task"]](request, watch, send)


def steps(request: dict[str, Any], watch: Watch, send: Send) -> None:
    """Run each step that must work without the driver. Send the events and the error of each."""

    kind = request["kind"]
    outcomes: list[tuple[str, dict[str, Any]]] = []
    watch.on = True

    def step(name: str, action: Callable[[], Any]) -> Any:
        result = None
        raised = ""
        watch.take()
        try:
            result = action()
        except BaseException as error:  # noqa: BLE001 - the row reports it
            raised = describe_error(error)
        outcomes.append((name, {"events": watch.take(), "raised": raised}))
        return result

    packages = set()
    for group in GROUPS:
        for claim in plugins.claims(group, kind):
            packages.add(claim.value.partition(":")[0].partition(".")[0])
    loaded_packages = packages.intersection(sys.modules) - {"devmod"}
    outcomes.append(("packages", {"loaded": sorted(loaded_packages)}))
    step("the target spec", lambda: find_spec(kind))
    step("the look-up of devmod.create", lambda: lookup("devmod.create", kind))
    step("the look-up of devmod.load_from_bytes", lambda: lookup("devmod.load_from_bytes", kind))
    for payload in map(Payload, request["samples"]):
        module = step("create", partial(payload.create, kind))
        if module is None:
            break
        data = step("save_to_bytes", module.save_to_bytes)
        step("inspect_source", module.inspect_source)
        step("get_function of an unknown name", partial(_missing, module))
        if data is None:
            break
        step("load_from_bytes", partial(devmod.load_from_bytes, kind, data))
        # The first load imports modules; only the second one shows what the loader itself does.
        loaded = step("the second load_from_bytes", partial(devmod.load_from_bytes, kind, data))
        step("the second create", partial(payload.create, kind))
        if loaded is not None:
            step("the functions of a loaded module", partial(_functions, loaded))
    send(outcomes)


def _functions(module: Any) -> dict[str, Any]:
    return dict(module.functions)


def _missing(module: Any) -> None:
    try:
        module.get_function("no_such_function")
    except devmod.FunctionNotFoundError:
        return
    raise AssertionError("expected FunctionNotFoundError, but no error was raised")


def absent(request: dict[str, Any], watch: Watch, send: Send) -> None:
    """Collect the errors that a user without the driver gets."""
    kind = request["kind"]
    results: dict[str, Any] = {}
    for number, payload in enumerate(map(Payload, request["samples"])):
        module = payload.create(kind)
        get_function = partial(module.get_function, next(iter(payload.fmap)))
        for turn in ("", " again"):
            results[f"get_function of sample {number + 1}{turn}"] = error_of(get_function)
    if plugins.is_claimed("devmod.device", kind):
        results["devmod.device"] = error_of(lambda: devmod.device(kind))
    send({"errors": results, "events": watch.take()})


def digests(request: dict[str, Any], _: Watch, send: Send) -> None:
    """Send the format of each sample, and the SHA-256 of its saved bytes, before and after
    loading.
    """
    results = []
    for payload in map(Payload, request["samples"]):
        module = payload.create(request["kind"])
        data = module.save_to_bytes()
        loaded = devmod.load_from_bytes(request["kind"], data)
        results.append(
            [
                module.format,
                hashlib.sha256(data).hexdigest(),
                hashlib.sha256(loaded.save_to_bytes()).hexdigest(),
            ]
        )
    send(results)


def compiled(request: dict[str, Any], _: Watch, send: Send) -> None:
    """Compile each text, as a str and as a file in this folder. Send the results, or the error of a
    missing toolchain.
    """
    import pathlib

    results: list[Any] = []
    for number, sent in enumerate(request["texts"]):
        options = dict(sent["options"])
        if sent["functions"]:
            options["fmap"] = devmod.load_metadata_from_json(sent["functions"])
        sources: list[Any] = [sent["text"]]
        if sent["suffix"]:
            sources.append(pathlib.Path(f"sample_{number + 1}.{sent['suffix']}"))
            sources[-1].write_text(sent["text"], encoding="utf-8")
            os.utime(sources[-1], (request["changed"], request["changed"]))
        try:
            modules = [devmod.compile(source, sent["target"], **options) for source in sources]
            results.append(list(map(_parts, modules)))
        except devmod.ToolchainNotFoundError as error:
            results.append(str(error))
    send(results)


def _parts(module: Any) -> list[Any]:
    """Return the bytes and the origin of each module in a tree."""
    parts = []
    for each in walk(module):
        if not each.property_mask & BINARY_SERIALIZABLE:
            continue
        origin = None
        if each.origin is not None:
            origin = each.origin.to_dict()
        parts.append([base64.b64encode(each.save_to_bytes()).decode(), origin])
    return parts


def damaged(request: dict[str, Any], _: Watch, send: Send) -> None:
    """Load damaged bytes one by one. Send the number of each before it, so that the row knows which
    one ended the process.
    """
    _limit_memory()
    for number, text in enumerate(request["bytes"]):
        send({"begins": number})
        data = base64.b64decode(text)
        result = ""
        try:
            module = devmod.load_from_bytes(request["kind"], data)
        except devmod.DevmodError:
            pass
        except BaseException as error:  # noqa: BLE001 - the row reports it
            result = describe_error(error)
        else:
            result = _inconsistency(module, data)
        if result:
            send({"number": number, "wrong": result})
    send({"done": True})


def _inconsistency(module: Any, data: bytes) -> str:
    """Return what is wrong with a module that was loaded from damaged bytes, or ""."""
    try:
        saved = module.save_to_bytes()
        with suppress(devmod.DevmodError):  # the contents of a field are decoded at the first use
            dict(module.functions), module.format, module.inspect_source()
    except BaseException as error:  # noqa: BLE001 - the row reports it
        return f"the bytes are loaded, and using the module raises {describe_error(error)}"
    if saved != data:
        return "the bytes are loaded, and saving returns other bytes"
    return ""


def _limit_memory() -> None:
    """Limit the memory, so that an invalid length fails here and does not fill the machine."""
    if sys.platform != "linux":  # others have no /proc
        return
    import resource

    with suppress(OSError, ValueError):
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), most))


def leave(request: dict[str, Any], _: Watch, send: Send) -> None:
    """Use the backend, and exit while its modules and functions are alive."""
    alive: list[Any] = []
    for payload in map(Payload, request["samples"]):
        module = payload.create(request["kind"])
        alive.append(module)
        with suppress(devmod.DeviceNotFoundError):
            alive += [module[name] for name in payload.fmap]
    sys.modules["devmod_conformance_alive"] = alive  # type: ignore[assignment]  # Python clears modules last
    send({"functions": len(alive)})


# -- tasks that call functions: on several devices, with forked children, and with interrupts at
# random moments


class _Call:
    """A call that the row sent, with new arguments each time.

    Attributes
    ----------
    kind
        The backend's kind.
    call
        The call, without its reference.
    arrays
        The number of arrays among the arguments.
    """

    def __init__(self, kind: str, payload: Payload, sent: Mapping[str, Any]) -> None:
        self.kind = kind
        self.call = read_call(sent)
        self._payload = payload
        self.arrays = sum(isinstance(each, dict) and "data" in each for each in sent["arguments"])

    def function(self) -> Any:
        """Return the function of a new module."""
        return self._payload.create(self.kind)[self.call.function]

    def run(self, function: Any = None, *devices: Any) -> list[Any]:
        """Call a function, by default of a new module, with host arrays or with arrays on devices
        in turn. Return the arguments as JSON.
        """
        import numpy as np

        function = function or self.function()
        arguments = self.call.make_arguments()
        if devices:
            places = cycle(devices)
            for number, each in enumerate(arguments):
                if isinstance(each, np.ndarray):
                    arguments[number] = next(places).from_numpy(each)
        function(*arguments, **self.call.keywords)
        return list(map(portable_argument, to_host(arguments)))


def _calls(request: Mapping[str, Any]) -> list[_Call]:
    payloads = [Payload(sent) for sent in request["samples"]]
    return [_Call(request["kind"], payloads[sent["sample"]], sent) for sent in request["calls"]]


def _outcome(action: Callable[[], object]) -> dict[str, Any]:
    """Return the types, the text and the kind of an error, and the arguments of a call."""
    results: list[object] = []
    error = error_of(lambda: results.append(action()))
    arguments = None
    if results and isinstance(results[0], list):
        arguments = results[0]
    return {**error, "arguments": arguments}


# -- several devices: each call on each of them, and the calls that mix them


def several(request: dict[str, Any], _: Watch, send: Send) -> None:
    """Send the number of devices, the number of the default one, and the outcome of each use."""
    kind = request["kind"]
    devices = devmod.devices(kind)
    send({"devices": len(devices)})
    if len(devices) < 2:
        return
    send({"default": devmod.device(kind).index})
    for number, call in enumerate(_calls(request)):
        function = call.function()
        send({"of function": function.default_device().index})
        uses: dict[str, Callable[[], object]] = {"with host arrays": partial(call.run, function)}
        refused: dict[str, Callable[[], object]] = {}
        for device in devices:
            uses[f"with arrays on {device}"] = partial(call.run, function, device)
            uses[f"of f.on({device}) with host arrays"] = partial(_run_on, call, function, device)
            other = devices[0]
            if device is other:
                other = devices[1]
            if call.arrays:
                refused[f"of f.on({device}) with arrays on {other}"] = partial(
                    _run_on, call, function, device, other
                )
            if call.arrays > 1:
                refused[f"with arrays on {device} and {other}"] = partial(
                    call.run, function, device, other
                )
        for use, action in (uses | refused).items():
            send({"call": number, "use": use, "refused": use in refused, **_outcome(action)})


def _run_on(call: _Call, function: Any, device: Any, *others: Any) -> list[Any]:
    return call.run(function.on(device), *others)


# -- forks: a child before the process uses the backend, and another one after that


def forks(request: dict[str, Any], _: Watch, send: Send) -> None:
    """Fork a child before the backend is used, and another one after that. Send the outcomes of
    both.
    """
    warnings.simplefilter("ignore")  # newer Pythons warn about forks in processes with threads
    (call,) = _calls(request)
    send({"unused": _in_child({"a call of a new function": call.run}, request["seconds"])})
    try:
        uses = _uses(call)
    except devmod.DeviceNotFoundError as error:
        send({"no_device": str(error)})
        return
    send({"used": _in_child(uses, request["seconds"])})


def _uses(call: _Call) -> dict[str, Callable[[], object]]:
    """Use the driver in the parent, and return the uses of the child by name."""
    from devmod_runtime import check_driver

    function = call.function()
    call.run(function)
    uses: dict[str, Callable[[], object]] = {
        "driver": lambda: check_driver(call.kind),
        "a call of a function of the parent": partial(call.run, function),
        "get_function of a new module": call.function,
    }
    if not plugins.is_claimed("devmod.device", call.kind):
        return uses
    import numpy as np

    device = devmod.device(call.kind)
    stream = device.stream()
    event = stream.record()
    array = device.from_numpy(np.arange(4, dtype="int32"))
    copied = device.zeros(4, "int32")
    device.synchronize()
    return uses | {
        "Device.empty": lambda: device.empty(4, "int32"),
        "Device.from_numpy": lambda: device.from_numpy(np.zeros(4, "int32")),
        "Device.zeros": lambda: device.zeros(4, "int32"),
        "Array.numpy": array.numpy,
        "Array.copy_from": lambda: array.copy_from(np.zeros(4, "int32")),
        "Array.copy_to": lambda: array.copy_to(np.zeros(4, "int32"), wait=False),
        "Array.copy_to within the device": lambda: array.copy_to(copied),
        "Device.stream": device.stream,
        "Device.synchronize": device.synchronize,
        "Stream.synchronize": stream.synchronize,
        "Stream.record": stream.record,
        "Stream.wait": lambda: stream.wait(event),
        "Event.synchronize": event.synchronize,
    }


def _in_child(uses: Mapping[str, Callable[[], object]], seconds: int) -> dict[str, Any]:
    """Run uses in a forked child. Return their outcomes, and the child's exit status or signal.

    The child then exits as any program does, by SystemExit. A signal ends it after `seconds`, also
    in a call of a C library.
    """
    if sys.platform == "win32":
        raise OSError("Windows has no forks")
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        with os.fdopen(writing, "w") as file:
            json.dump({name: _outcome(action) for name, action in uses.items()}, file)
        sys.exit(EXIT_STATUS)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    outcomes = json.loads(text or "{}")
    return {"outcomes": outcomes, "code": code, "timed_out": code == -signal.SIGALRM}


# -- interrupts at random moments


def interrupts(request: dict[str, Any], _watch: Watch, send: Send) -> None:
    """Interrupt the uses of a backend. Send the first failure of a use without an interrupt, or the
    results of a last one of each.
    """
    import numpy  # noqa: F401 - its import cannot be repeated after an interrupt

    sys.unraisablehook = lambda _: None  # an interrupt of a finalizer
    alarm = _Alarm()
    uses = [_Use(call) for call in _calls(request)]
    try:
        for _ in range(_FIRST):
            with suppress(KeyboardInterrupt):
                alarm.interrupt(uses[0].run, _FIRST_SECONDS)
        for use in uses:
            use.prepare()
    except devmod.DeviceNotFoundError as error:
        send({"no_device": str(error)})
        return
    before = _open_resources()
    landed = 0
    for number in range(_MAX_USES * request["interrupts"]):
        number %= len(uses)
        failure = error_of(partial(uses[number].interrupt, alarm))
        if "KeyboardInterrupt" in failure["types"]:
            landed += 1
        elif failure["types"]:
            send({"call": number, "error": failure})
            return
        if landed == request["interrupts"]:
            break
    release_import_lock()
    # In another thread: it cannot acquire a lock that the main thread has not released.
    last: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: last.extend(use.last() for use in uses))
    thread.start()
    thread.join()
    for number, result in enumerate(last):
        send({"call": number, **result})
    send({"left": _resources_left(before)})


def _resources_left(before: Mapping[str, int]) -> dict[str, int]:
    """Return how many more files and processes are open than before."""
    # A call whose wait was interrupted may still be completed in another thread, with files and
    # processes of its own.
    deadline = time.monotonic() + _COMPLETION_SECONDS
    while True:
        left = {name: count - before[name] for name, count in _open_resources().items()}
        if max(left.values(), default=0) <= 0 or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


class _Alarm:
    """Raises KeyboardInterrupt at random moments of the calls of `interrupt`."""

    def __init__(self) -> None:
        self._random = random.Random(1)  # noqa: S311 - no secret
        self._is_armed = False
        if sys.platform == "win32":
            raise OSError("Windows has no timers that send signals")
        signal.signal(signal.SIGALRM, self._raise)

    def _raise(self, *_: object) -> None:
        if self._is_armed:
            self._is_armed = False
            raise KeyboardInterrupt

    def interrupt(self, action: Callable[[], Any], seconds: float) -> Any:
        """Return the result of `action`, unless KeyboardInterrupt comes before its end. It comes in
        at most so many seconds.
        """
        self._is_armed = True
        self._set_timer(self._random.uniform(1e-6, seconds))
        try:
            return action()
        finally:
            self._is_armed = False
            self._set_timer(0)

    def _set_timer(self, seconds: float) -> None:
        if sys.platform != "win32":
            signal.setitimer(signal.ITIMER_REAL, seconds)


class _Use:
    """A use of a function: a new module, a call with host arrays, and one with device arrays in a
    batch of a stream.

    Attributes
    ----------
    seconds
        The time of a use.
    """

    def __init__(self, call: _Call) -> None:
        self._call = call
        self._expected: list[list[Any]] = []
        self._kept: list[Any] = []
        self.seconds = 0.0

    def run(self) -> list[list[Any]]:
        """Return the arrays after each call."""
        call = self._call.call
        kind = self._call.kind
        function = self._call.function()
        arguments = call.make_arguments()
        function(*arguments, **call.keywords)
        results = [arguments]
        if plugins.is_claimed("devmod.device", kind):
            device = devmod.device(kind)
            arguments = to_device(device, call.make_arguments())
            device.synchronize()
            stream = device.stream()
            with stream.batch():
                function(*arguments, **call.keywords, stream=stream)
            done = stream.record()
            device.default_stream.wait(done)
            results.append(to_host(arguments))
            done.synchronize()
            stream.synchronize()
        return results

    def prepare(self) -> None:
        """Run without an interrupt, and keep arrays whose content must not change."""
        self._expected = self.run()
        start = time.perf_counter()
        self.run()
        self.seconds = time.perf_counter() - start
        if plugins.is_claimed("devmod.device", self._call.kind):
            self._kept = to_device(devmod.device(self._call.kind), self._call.call.make_arguments())

    def interrupt(self, alarm: _Alarm) -> None:
        """Run, unless KeyboardInterrupt comes. Raise AssertionError unless the arrays are those of
        the run without an interrupt.
        """
        results = alarm.interrupt(self.run, 1.2 * self.seconds)
        for one, two in zip(results, self._expected, strict=True):
            compare_arrays(self._call.call, one, two, "beside interrupts")

    def last(self) -> dict[str, Any]:
        """Return the error, or the arrays, of a last use, and those that were kept."""
        results: list[list[Any]] = []

        def use() -> None:
            arrays = self.run()
            if self._kept:
                arrays.append(to_host(self._kept))
            results.extend(arrays)

        error = error_of(use)
        self._kept.clear()
        return {"error": error, "results": [list(map(portable_argument, each)) for each in results]}


def _open_resources() -> dict[str, int]:
    """Return the numbers of open files and of child processes.

    Linux lists both, macOS the first.
    """
    gc.collect()
    result = {}
    for name, folder in (("open files", "/proc/self/fd"), ("open files", "/dev/fd")):
        with suppress(OSError):
            result[name] = len(os.listdir(folder))
            break
    with suppress(OSError):
        children = []
        for task in os.listdir("/proc/self/task"):
            with suppress(OSError), open(f"/proc/self/task/{task}/children") as file:
                children += file.read().split()
        result["child processes"] = len(children)
    return result


# -- interrupts at the places of a use


class _FirstUses:
    """The uses of a backend, in their order. Each needs those before it.

    Attributes
    ----------
    all : dict
        The uses by name.
    """

    def __init__(self, call: _Call, data: bytes, expected: Sequence[Any]) -> None:
        self._kind = call.kind
        self._call = call.call
        self._data = data
        self._expected = expected
        self.all: dict[str, Callable[[], object]] = {}
        has_devices = plugins.is_claimed("devmod.device", self._kind)
        if has_devices:
            self.all["the first device"] = self._open
        self.all["a load"] = self._load
        self.all["a call"] = self._run
        if has_devices:
            self.all["a copy"] = self._copy
            self.all["a wait"] = self._wait

    def _open(self) -> None:
        self._device = devmod.device(self._kind)

    def _load(self) -> None:
        self._function = devmod.load_from_bytes(self._kind, self._data)[self._call.function]

    def _run(self) -> None:
        arguments = self._call.make_arguments()
        self._function(*arguments, **self._call.keywords)
        compare_arrays(self._call, arguments, self._expected, "after an interrupt")

    def _copy(self) -> None:
        arguments = self._call.make_arguments()
        copied = to_host(to_device(self._device, arguments))
        compare_arrays(self._call, copied, arguments, "copied after an interrupt")

    def _wait(self) -> None:
        self._device.stream().synchronize()
        self._device.synchronize()


def places(request: dict[str, Any], _watch: Watch, send: Send) -> None:
    """Interrupt each use, and the exit, at some of its places. Send the first failure, or the
    number of places that were reached.
    """
    import numpy  # noqa: F401 - its import cannot be repeated after an interrupt

    from devmod_conformance._interrupts import choose_places, interrupt_places, record_places

    warnings.simplefilter("ignore")  # newer Pythons warn about forks in processes with threads
    (call,) = _calls(request)
    expected = list(map(read_argument, request["expected"]))
    uses = _FirstUses(call, base64.b64decode(request["data"]), expected).all
    # In a child: this process has not used the backend when a use is interrupted.
    name, first = next(iter(uses.items()))
    outcomes = _in_child({name: first}, int(request["seconds"]))["outcomes"]
    if "DeviceNotFoundError" in outcomes.get(name, {"types": ()})["types"]:
        send({"no_device": outcomes[name]["text"]})
        return
    actions = list(uses.values())
    for number, use in enumerate([*uses, "the exit"]):
        found = record_places(actions, number, request["seconds"])
        chosen = choose_places(found, request["places"], request["packages"])
        reached = 0
        for outcome in interrupt_places(actions, number, chosen, request["seconds"]):
            reached += outcome.is_reached
            if outcome.failure:
                place = outcome.place._asdict()
                send({"use": use, "place": place, "failure": outcome.failure, "log": outcome.log})
                return
        send({"use": use, "reached": reached, "places": len(found)})


TASKS: dict[str, Callable[[dict[str, Any], Watch, Send], None]] = {
    "steps": steps,
    "absent": absent,
    "digests": digests,
    "compiled": compiled,
    "damaged": damaged,
    "leave": leave,
    "forks": forks,
    "interrupts": interrupts,
    "places": places,
    "several": several,
}
