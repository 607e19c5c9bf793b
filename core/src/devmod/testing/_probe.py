"""What a new process does for a row: a task is a function here, and what it tells goes to the row as JSON, a line each."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

#: What is seen happening while `Watch.on` is true.
_LOOKED_AT = (
    *("socket.connect", "socket.getaddrinfo", "socket.gethostby", "socket.send"),
    *("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork"),
    *("tempfile.", "os.mkdir"),
)


class Watch:
    """What the process asks for: modules of the driver, its libraries, files to write, the network, other programs.

    Parameters
    ----------
    modules, libraries
        The driver's.
    hide
        Whether they are hidden: then an import says that there is no such module, and loading that there is no such file.
    """

    def __init__(self, modules: Sequence[str], libraries: Sequence[str], hide: bool) -> None:
        self.modules = tuple(modules)
        self.libraries = tuple(libraries)
        self.hide = hide
        self.on = False
        self.events: list[str] = []
        sys.meta_path.insert(0, self)
        sys.addaudithook(self._audit)

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """The import system's question for a module."""
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
        elif self.on and event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and path != os.devnull:
                self.events.append(f"opens {path!r} to write")
        elif self.on and event.startswith(_LOOKED_AT):
            self.events.append(f"does {event}({', '.join(str(each)[:80] for each in arguments)})")

    def take(self) -> list[str]:
        """What happened since the last time."""
        taken, self.events[:] = list(self.events), []
        return taken


class Payload:
    """A sample as the row sent it."""

    def __init__(self, sent: Mapping[str, Any]) -> None:
        import devmod

        code = sent["code"]
        self.code: Any = {name: base64.b64decode(each) for name, each in code.items()} if isinstance(code, dict) else base64.b64decode(code)
        self.fmt: str = sent["fmt"]
        self.fmap = devmod.load_metadata_from_json(sent["functions"])
        self.source = {name: each if isinstance(each, str) else base64.b64decode(each[0]) for name, each in sent["source"].items()}

    def create(self, kind: str) -> Any:
        """The real module."""
        import devmod

        return devmod.create(kind, self.code, self.fmt, self.fmap, self.source)


Tell = Callable[[object], None]


def answering() -> Tell:
    """What tells the process that asked of a JSON value. What the backend prints goes to standard error: it is no answer."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(value: object) -> None:
        out.write(json.dumps(value) + "\n")
        out.flush()

    return tell


def main(request: dict[str, Any]) -> None:
    """Do the task that a row asks for."""
    tell = answering()
    watch = Watch(request["modules"], request["libraries"], request["hide"])
    TASKS[request["task"]](request, watch, tell)


def steps(request: dict[str, Any], watch: Watch, tell: Tell) -> None:
    """Everything that must work without the driver, step by step: what each asked for, and what it raised."""
    import devmod
    from devmod import _registry
    from devmod.targets import find_spec

    kind = request["kind"]
    done: dict[str, dict[str, Any]] = {}
    watch.on = True

    def step(name: str, action: Callable[[], Any]) -> Any:
        made, raised = None, ""
        watch.take()
        try:
            made = action()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the row tells of it
            raised = _said(error)
        done[name] = {"events": watch.take(), "raised": raised}
        return made

    ours = {claim.value.partition(":")[0].partition(".")[0] for group in _registry.GROUPS for claim in _registry.claims(group, kind)}
    done["packages"] = {"loaded": sorted(name for name in ours if name != "devmod" and name in sys.modules)}
    step("the target spec", lambda: find_spec(kind))
    step("the look-up of devmod.create", lambda: _registry.lookup("devmod.create", kind))
    step("the look-up of devmod.load_from_bytes", lambda: _registry.lookup("devmod.load_from_bytes", kind))
    for sent in request["samples"]:
        payload = Payload(sent)
        module = step("create", partial(payload.create, kind))
        if module is None:
            break
        data = step("save_to_bytes", module.save_to_bytes)
        step("inspect_source", module.inspect_source)
        step("a name that there is not", partial(_missing, module))
        if data is None:
            break
        step("load_from_bytes", partial(devmod.load_from_bytes, kind, data))
        # The first time, modules are imported; what is left is what the loader itself does.
        loaded = step("load_from_bytes once more", partial(devmod.load_from_bytes, kind, data))
        step("create once more", partial(payload.create, kind))
        if loaded is not None:
            step("the functions of a loaded module", partial(_functions, loaded))
    tell(done)


def _functions(module: Any) -> dict[str, Any]:
    return dict(module.functions)


def _missing(module: Any) -> None:
    import devmod

    try:
        module.get_function("no_such_function")
    except devmod.FunctionNotFoundError:
        return
    raise AssertionError("it is given, instead of FunctionNotFoundError")


def absent(request: dict[str, Any], watch: Watch, tell: Tell) -> None:
    """What a user without the driver is told."""
    import devmod

    kind = request["kind"]
    told: dict[str, Any] = {}
    for number, sent in enumerate(request["samples"]):
        payload = Payload(sent)
        module = payload.create(kind)
        ask = partial(module.get_function, next(iter(payload.fmap)))
        for turn in ("", " again"):
            told[f"get_function of sample {number + 1}{turn}"] = _error(ask)
    from devmod import _registry

    if _registry.installed("devmod.device", kind):
        told["devmod.device"] = _error(lambda: devmod.device(kind))
    tell({"told": told, "events": watch.take()})


def _error(action: Callable[[], object]) -> dict[str, Any]:
    try:
        action()
    except BaseException as error:  # noqa: BLE001 - whatever it is, the row tells of it
        return {"types": [each.__name__ for each in type(error).__mro__], "text": str(error), "kind": getattr(error, "kind", "")}
    return {"types": [], "text": "", "kind": ""}


def digests(request: dict[str, Any], watch: Watch, tell: Tell) -> None:
    """What a build writes here, for each sample: its format, and the SHA-256 of its bytes."""
    import devmod

    found = []
    for sent in request["samples"]:
        payload = Payload(sent)
        module = payload.create(request["kind"])
        data = module.save_to_bytes()
        loaded = devmod.load_from_bytes(request["kind"], data)
        found.append([module.format, hashlib.sha256(data).hexdigest(), hashlib.sha256(loaded.save_to_bytes()).hexdigest()])
    tell(found)


def strange(request: dict[str, Any], watch: Watch, tell: Tell) -> None:
    """Load damaged bytes one by one; each is told of before, so that one that ends the process is known."""
    import devmod

    _limit_memory()
    for number, text in enumerate(request["bytes"]):
        tell({"begins": number})
        data, found = base64.b64decode(text), ""
        try:
            module = devmod.load_from_bytes(request["kind"], data)
        except devmod.DevmodError:
            pass
        except BaseException as error:  # noqa: BLE001 - whatever it is, the row tells of it
            found = _said(error)
        else:
            found = _damage(module, data)
        if found:
            tell({"number": number, "wrong": found})
    tell({"done": True})


def _damage(module: Any, data: bytes) -> str:
    """What is wrong with a module that was loaded of damaged bytes which happen to be a module's."""
    try:
        dict(module.functions), module.format, module.inspect_source()
        saved = module.save_to_bytes()
    except BaseException as error:  # noqa: BLE001 - whatever it is, the row tells of it
        return f"is loaded, and then {_said(error)}"
    return "" if saved == data else "is loaded, and other bytes are saved"


def _limit_memory() -> None:
    """Let a length that is made up fail here instead of filling the machine."""
    try:
        import resource

        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), most))
    except (ImportError, OSError, ValueError):
        pass


def leave(request: dict[str, Any], watch: Watch, tell: Tell) -> None:
    """Use the backend, and end with its modules and functions still there."""
    import devmod

    kept: list[Any] = []
    for sent in request["samples"]:
        payload = Payload(sent)
        module = payload.create(request["kind"])
        kept.append(module)
        with suppress(devmod.DeviceNotFoundError):
            kept += [module[name] for name in payload.fmap]
    sys.modules["devmod_testing_kept"] = kept  # type: ignore[assignment]  # it lives until modules are taken down
    tell({"functions": len(kept)})


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


TASKS: dict[str, Callable[[dict[str, Any], Watch, Tell], None]] = {
    "steps": steps,
    "absent": absent,
    "digests": digests,
    "strange": strange,
    "leave": leave,
}
