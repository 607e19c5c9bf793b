"""The tasks of a new process: one function each. A task sends its results to the row as lines of JSON."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from devmod.worker import answer_writer
from devmod_conformance._payload import Payload, error_of
from devmod_conformance._use_tasks import forks, interrupts, several

#: The audit events that are recorded while `Watch.on` is true.
_RECORDED = (
    *("socket.connect", "socket.getaddrinfo", "socket.gethostby", "socket.send"),
    *("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork"),
    *("tempfile.", "os.mkdir"),
)


class Watch:
    """Records imports of the driver, its libraries and programs, opened files, network access and started programs.

    Parameters
    ----------
    modules, libraries, programs
        The driver's modules, parts of its libraries' file names, and the names of its programs.
    hide
        Whether they are hidden: importing a module raises ModuleNotFoundError, loading a library raises OSError, and a program is not
        in PATH.
    """

    def __init__(self, modules: Sequence[str], libraries: Sequence[str], programs: Sequence[str], hide: bool) -> None:
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
        if os.path.basename(os.fsdecode(cmd)) in self.programs:
            self.events.append(f"searches the program {cmd}")
            if self.hide:
                return None
        return self._which(cmd, *args, **named)

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Record the import of a driver's module (``sys.meta_path``)."""
        if any(name == module or name.startswith(module + ".") for module in self.modules):
            self.events.append(f"imports {name}")
            if self.hide:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "ctypes.dlopen" and arguments and arguments[0]:
            name = os.fsdecode(arguments[0])
            if any(library in os.path.basename(name) for library in self.libraries):
                self.events.append(f"opens the library {name}")
                if self.hide:
                    raise OSError(f"{name}: cannot open shared object file: No such file or directory")
        elif event == "subprocess.Popen" and os.path.basename(os.fsdecode(arguments[0])) in self.programs:
            self.events.append(f"starts the program {arguments[0]}")
            if self.hide:
                raise FileNotFoundError(f"No such file or directory: {arguments[0]!r}")
        elif self.on and event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and path != os.devnull:
                self.events.append(f"opens {path!r} to write")
        elif self.on and event.startswith(_RECORDED):
            self.events.append(f"does {event}({', '.join(str(each)[:80] for each in arguments)})")

    def take(self) -> list[str]:
        """Return the events since the last call."""
        events, self.events[:] = list(self.events), []
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
    import devmod
    from devmod import plugins
    from devmod.plugins import GROUPS, find_spec, lookup

    kind = request["kind"]
    outcomes: dict[str, dict[str, Any]] = {}
    watch.on = True

    def step(name: str, action: Callable[[], Any]) -> Any:
        result, raised = None, ""
        watch.take()
        try:
            result = action()
        except BaseException as error:  # noqa: BLE001 - the row reports it
            raised = _describe(error)
        outcomes[name] = {"events": watch.take(), "raised": raised}
        return result

    packages = {claim.value.partition(":")[0].partition(".")[0] for group in GROUPS for claim in plugins.claims(group, kind)}
    outcomes["packages"] = {"loaded": sorted(name for name in packages if name != "devmod" and name in sys.modules)}
    step("the target spec", lambda: find_spec(kind))
    step("the look-up of devmod.create", lambda: lookup("devmod.create", kind))
    step("the look-up of devmod.load_from_bytes", lambda: lookup("devmod.load_from_bytes", kind))
    for sent in request["samples"]:
        payload = Payload(sent)
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
    import devmod

    try:
        module.get_function("no_such_function")
    except devmod.FunctionNotFoundError:
        return
    raise AssertionError("expected FunctionNotFoundError, but no error was raised")


def absent(request: dict[str, Any], watch: Watch, send: Send) -> None:
    """Collect the errors that a user without the driver gets."""
    import devmod

    kind = request["kind"]
    results: dict[str, Any] = {}
    for number, sent in enumerate(request["samples"]):
        payload = Payload(sent)
        module = payload.create(kind)
        get_function = partial(module.get_function, next(iter(payload.fmap)))
        for turn in ("", " again"):
            results[f"get_function of sample {number + 1}{turn}"] = error_of(get_function)
    from devmod import plugins

    if plugins.is_claimed("devmod.device", kind):
        results["devmod.device"] = error_of(lambda: devmod.device(kind))
    send({"errors": results, "events": watch.take()})


def digests(request: dict[str, Any], _: Watch, send: Send) -> None:
    """Send the format of each sample, and the SHA-256 of its saved bytes, before and after loading."""
    import devmod

    results = []
    for sent in request["samples"]:
        payload = Payload(sent)
        module = payload.create(request["kind"])
        data = module.save_to_bytes()
        loaded = devmod.load_from_bytes(request["kind"], data)
        results.append([module.format, hashlib.sha256(data).hexdigest(), hashlib.sha256(loaded.save_to_bytes()).hexdigest()])
    send(results)


def compiled(request: dict[str, Any], _: Watch, send: Send) -> None:
    """Compile each text, as a str and as a file in this folder. Send the results, or the error of a missing toolchain."""
    import pathlib

    import devmod

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
            results.append([_parts(devmod.compile(source, sent["target"], **options)) for source in sources])
        except devmod.ToolchainNotFoundError as error:
            results.append(str(error))
    send(results)


def _parts(module: Any) -> list[Any]:
    """Return the bytes and the origin of each module in a tree."""
    from devmod.backend import BINARY_SERIALIZABLE, walk

    return [
        [base64.b64encode(each.save_to_bytes()).decode(), each.origin.to_dict() if each.origin is not None else None]
        for each in walk(module)
        if each.property_mask & BINARY_SERIALIZABLE
    ]


def damaged(request: dict[str, Any], _: Watch, send: Send) -> None:
    """Load damaged bytes one by one. Send the number of each before it, so that the row knows which one ended the process."""
    import devmod

    _limit_memory()
    for number, text in enumerate(request["bytes"]):
        send({"begins": number})
        data, result = base64.b64decode(text), ""
        try:
            module = devmod.load_from_bytes(request["kind"], data)
        except devmod.DevmodError:
            pass
        except BaseException as error:  # noqa: BLE001 - the row reports it
            result = _describe(error)
        else:
            result = _inconsistency(module, data)
        if result:
            send({"number": number, "wrong": result})
    send({"done": True})


def _inconsistency(module: Any, data: bytes) -> str:
    """Return what is wrong with a module that was loaded from damaged bytes, or ""."""
    import devmod

    try:
        saved = module.save_to_bytes()
        with suppress(devmod.DevmodError):  # the contents of a field are decoded at the first use
            dict(module.functions), module.format, module.inspect_source()
    except BaseException as error:  # noqa: BLE001 - the row reports it
        return f"the bytes are loaded, and using the module raises {_describe(error)}"
    return "" if saved == data else "the bytes are loaded, and saving returns other bytes"


def _limit_memory() -> None:
    """Limit the memory, so that an invalid length fails here and does not fill the machine."""
    try:
        import resource

        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), most))
    except (ImportError, OSError, ValueError):
        pass


def leave(request: dict[str, Any], _: Watch, send: Send) -> None:
    """Use the backend, and exit while its modules and functions are alive."""
    import devmod

    alive: list[Any] = []
    for sent in request["samples"]:
        payload = Payload(sent)
        module = payload.create(request["kind"])
        alive.append(module)
        with suppress(devmod.DeviceNotFoundError):
            alive += [module[name] for name in payload.fmap]
    sys.modules["devmod_conformance_alive"] = alive  # type: ignore[assignment]  # Python clears modules last
    send({"functions": len(alive)})


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


TASKS: dict[str, Callable[[dict[str, Any], Watch, Send], None]] = {
    "steps": steps,
    "absent": absent,
    "digests": digests,
    "compiled": compiled,
    "damaged": damaged,
    "leave": leave,
    "forks": lambda request, watch, send: forks(request, send),
    "interrupts": lambda request, watch, send: interrupts(request, send),
    "several": lambda request, watch, send: several(request, send),
}
