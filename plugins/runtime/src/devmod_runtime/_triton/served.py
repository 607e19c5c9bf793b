"""The files that a process takes kernels of Triton from, and what it took."""

from __future__ import annotations

import atexit
import errno
import json
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from hashlib import sha256
from importlib import import_module
from typing import Any, NamedTuple

import devmod
from devmod.backend import RLock, debug, environment_text, escape_line, temporary_folder, walk
from devmod.errors import (
    DevmodError,
    FormatError,
    LaunchError,
    count_text,
    describe_error,
    list_names,
)
from devmod.plugins import registered
from devmod_readers.triton import (
    CHOICES,
    DRIVERS,
    HIP_PATH,
    HIP_PLACE,
    IDENTITY,
    LAUNCHER,
    Parts,
    UnsupportedError,
    driver_source,
    function_name,
    launcher_source,
    library_name,
    read_choices,
)
from devmod_runtime._triton.choices import Choices
from devmod_runtime._triton.specialization import Seen, inspect, unusual_setting

VARIABLE = "DEVMOD_TRITON"
STRICT = "strict"
_EXTENSIONS = {"cuda": "cubin", "rocm": "hsaco"}
_MAX_REPORTED = 4
#: A folder in memory, where no other can be written.
_MEMORY = "/dev/shm"  # noqa: S108 - in it is a new folder

#: Held while Triton's hooks and files are changed.
lock: Any = RLock()
# Windows has no forks. A thread of the parent may hold the lock, which no child has.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: lock._is_owned() or lock._at_fork_reinit())


def words() -> list[str]:
    """Return the paths and words of DEVMOD_TRITON."""
    return list(filter(None, environment_text(VARIABLE).split(os.pathsep)))


class _Answer(NamedTuple):
    """What the cache manager returns for a key of Triton."""

    module: Any
    metadata: dict[str, Any]


class Server:
    """The files that are served, and what this process took from them."""

    def __init__(self) -> None:
        self.places: list[str] = []
        #: The bundles of packages, by their name: the root of the package. None before a look-up.
        self._installed: dict[str, str] | None = None
        #: By identity, and by the name of the function.
        self._modules: dict[str, list[Any]] = {}
        self._names: dict[str, list[Any]] = {}
        #: By the name of the function: what the kernels are for, read at the first difference.
        self._parts: dict[str, list[Parts]] = {}
        self._libraries: dict[str, Any] = {}
        #: By Triton's key: the names of the libraries of signatures.
        self._launchers: dict[str, str] = {}
        #: Modules with choices of autotune that are not read yet, and those that are.
        self._unread: list[Any] = []
        self._choices = Choices()
        self._answers: dict[str, _Answer] = {}
        self._groups: dict[tuple[str, str], dict[str, str]] = {}
        self._folder = ""
        self._folder_pid = 0
        self._stack = ExitStack()
        self._pid = os.getpid()
        self._is_reporting = False
        #: Why a kernel was compiled, by its name; and the number of those from the files.
        self.compiled: dict[str, str] = {}
        self.served = 0
        #: Triton's keys of the launches; and the number of launches whose key is unknown.
        self._seen: set[str] = set()
        self._unknown = 0

    def open(self, path: str) -> None:
        """Open a file, if it is not open."""
        if path in self.places:
            return
        if not self._add(path, devmod.load(path)):
            raise FormatError(f"{path!r} has no kernels of `devmod triton build`")

    def _add(self, place: str, root: Any) -> int:
        """Add the kernels of a file, and return their number."""
        found = 0
        libraries = {}
        choices = []
        for module in walk(root):
            if module.kind == "const_loader":
                for name in module.functions:
                    if name == CHOICES:
                        choices.append(module)
                    else:
                        libraries[name] = module
            for name in getattr(module, "function_names", ()):
                symbol, _, identity = name.rpartition(".")
                if module.kind in _EXTENSIONS and symbol and len(identity) == IDENTITY:
                    self._modules.setdefault(identity, []).append(module)
                    self._names.setdefault(symbol, []).append(module)
                    found += 1
        if found:
            self._parts.clear()
            self._libraries = libraries | self._libraries
            self._unread += choices
            self.places.append(place)
            self.folder()
        return found

    def open_all(self) -> None:
        """Open the files that DEVMOD_TRITON names."""
        for word in words():
            if word == STRICT:
                continue
            try:
                self.open(os.path.abspath(word))
            except OSError as error:
                error.add_note(
                    f"{VARIABLE} names it. Correct the path there, or unset the variable: then Triton compiles its kernels"
                )
                raise

    def open_installed(self) -> bool:
        """Open the bundles with kernels of Triton that packages have by an entry point in
        ``devmod.bundles``. A package that the program has not imported waits: its kernels cannot be
        launched. Return whether launches are to be compared with files.
        """
        if self._installed is None:
            self._installed = {}
            for name, claim in registered("devmod.bundles").items():
                self._installed[name] = claim.value.partition(".")[0]
        for name, package in list(self._installed.items()):
            if package not in sys.modules:
                continue
            del self._installed[name]
            try:
                self._add(name, devmod.installed(name))
            except (DevmodError, OSError) as error:
                debug(f"the bundle {name!r} is not served to Triton: {error}")
        return bool(self.places or self._installed or STRICT in words())

    # -- kernels

    def find(self, jit: Any, compile: Mapping[str, Any]) -> None:  # noqa: A002 - Triton's name
        """Find the kernel of a specialization, and set the answer for Triton's key."""
        self.open_installed()
        if not self.places and STRICT not in words():
            return
        name = function_name(jit)
        specialization = name
        key = ""
        answer: _Answer | str
        try:
            seen = inspect(jit, compile)
            specialization = str(seen.specialization)
            key = seen.key
            self._seen.add(key)
            answer = self._answer(seen)
        except DevmodError as error:  # a damaged kernel
            answer = str(error)
        except UnsupportedError as error:
            self._unknown += 1
            answer = str(error)
        except Exception as error:  # noqa: BLE001 - another Triton
            self._unknown += 1
            answer = f"it cannot be compared: {describe_error(error)}"
        reason = ""
        if isinstance(answer, _Answer):
            # At once: another thread that has found the kernel may be reading it.
            self._answers[key] = answer
            if self._libraries:
                self._find_launcher(seen.parts, answer.metadata)
        else:
            # Triton's key may be that of another kernel: it has no values of defaults.
            self._answers.pop(key, None)
            reason = answer
        self._count(name, specialization, reason)

    def _answer(self, seen: Seen) -> _Answer | str:
        """Return the kernel; or, as a text, why no file has it."""
        problem = unusual_setting()
        if problem:
            return problem
        parts = seen.parts
        modules = self._modules.get(parts.identity)
        if not modules:
            return self._difference(parts)
        is_text = os.environ.get("CUDA_FORCE_PTX_JIT") == "1"
        modules = sorted(modules, key=lambda each: (each.format == "ptx") != is_text)
        return self._first_whole(modules, seen)

    def _first_whole(self, modules: list[Any], seen: Seen) -> _Answer:
        """Return the kernel of the first module that is not damaged, and that no policy refuses."""
        for module in modules[:-1]:
            try:
                return self._answer_of(module, seen)
            except DevmodError as error:
                debug(f"{error}. Another file has the kernel")
        return self._answer_of(modules[-1], seen)

    def _answer_of(self, module: Any, seen: Seen) -> _Answer:
        parts = seen.parts
        _check(module)
        entry = _entry_of(module)
        if entry["parts"] != parts._asdict():
            raise FormatError(f"{module.subject} has the metadata of another kernel")
        metadata = entry["metadata"] | {"hash": seen.hash, "extern_libs": seen.libraries}
        return _Answer(module, metadata)

    def _difference(self, parts: Parts) -> str:
        """Return how a specialization differs from those of the same function in the files."""
        found = self._parts.get(parts.symbol)
        if found is None:
            modules = self._names.get(parts.symbol, ())
            found = [Parts(**_entry_of(module)["parts"]) for module in modules]
            self._parts[parts.symbol] = found
        others = [each for each in found if each.function == parts.function]
        if not others:
            return "no file has the function"
        for field, text in (
            ("triton", f"the file was compiled by Triton {others[0].triton}"),
            ("source", "its source has changed"),
            ("target", f"no file has it for {parts.target.rpartition(':')[0]}"),
            ("environment", f"these variables are set: {parts.environment}"),
            ("arguments", "no file has these arguments"),
            ("options", "no file has these options"),
        ):
            others = [each for each in others if getattr(each, field) == getattr(parts, field)]
            if not others:
                return text
        return "no file has it"

    def _count(self, name: str, specialization: str, reason: str) -> None:
        if not reason:
            self._report_at_end()
            debug(f"the Triton kernel {specialization} is in a file")
            return
        if STRICT in words():
            raise LaunchError(
                f"the Triton kernel {specialization} is not in {self._files()}: {reason}, and {VARIABLE} is {STRICT!r}. Record a "
                "run that launches it (devmod triton record -o kernels.json -- COMMAND), and build the file again (devmod triton build)",
                function=name,
            )
        self._report_at_end()
        self.compiled[specialization] = reason
        debug(f"Triton compiles {specialization}: {reason}")

    def compile_unseen(self, key: str, name: str) -> None:
        """Count a kernel that was compiled by no launch, as by ``triton.compile``."""
        if key in self._seen or not self.places:
            return
        self._seen.add(key)
        if self._unknown:
            self._unknown -= 1
        else:
            self._report_at_end()
            self.compiled[name] = "triton.compile was called"

    def _files(self) -> str:
        if not self.places:
            return "a file"
        return list_names(map(os.path.basename, self.places))

    def group(self, key: str, file: str) -> dict[str, str] | None:
        """Return the files of a kernel that Triton asks for, by name; None if no file has it."""
        answer = self._answers.get(key)
        if answer is None:
            return None
        with lock:
            self.folder()
            group = self._groups.get((key, file))
            if group is None or not all(map(os.path.exists, group.values())):
                group = self._unpack(answer, key, os.path.splitext(file)[0])
                self._groups[key, file] = group
                self.served += 1
        return group

    def _unpack(self, answer: _Answer, key: str, stem: str) -> dict[str, str]:
        binary = f"{stem}.{_EXTENSIONS[answer.module.kind]}"
        contents = {binary: bytes(answer.module.code)}
        contents[f"{stem}.json"] = json.dumps(answer.metadata).encode()
        folder = os.path.join(self.folder(), key)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return {name: _write(folder, name, data) for name, data in contents.items()}

    # -- choices of autotune

    def choice(self, tuner: Any, named: Mapping[str, Any], configs: Any) -> Any:
        """Return the configuration of an autotuner that a file has chosen; None if it is to
        measure.
        """
        self.open_installed()
        while self._unread:
            module = self._unread.pop(0)
            try:
                self._choices.add(*read_choices(_constant(module, CHOICES), module.subject))
            except DevmodError as error:
                debug(f"choices of autotune are not served: {error}")
        if unusual_setting():
            return None
        return self._choices.find(tuner, named, configs)

    # -- the libraries of Triton's drivers

    def _find_launcher(self, parts: Parts, metadata: Mapping[str, Any]) -> None:
        """Find the library for the signature of a kernel, which Triton 3.6 compiles."""
        backend = parts.target.partition(":")[0]
        driver = import_module(f"triton.backends.{DRIVERS[backend][1]}.driver")
        source = launcher_source(driver, parts, metadata)
        if not source:
            return
        platform = import_module("triton.runtime.build").platform_key()
        key = sha256(f"{source}{platform}".encode()).hexdigest()
        if backend == "hip":
            source = source.replace(_hip_path(), HIP_PATH)
        key = import_module("triton.runtime.cache")._base32(key)
        self._launchers[key] = library_name(LAUNCHER, source)

    def library(self, key: str, file: str) -> str | None:
        """Return the path of a library of Triton's drivers, if the files have it for this
        Python.
        """
        if not self._libraries:
            return None
        stem = file.partition(".")[0]
        name = self._launchers.get(key, "")
        for backend, (library, _) in DRIVERS.items():
            if stem == library:
                name = library_name(stem, driver_source(import_module("triton"), backend))
        module = self._libraries.get(name)
        if module is None:
            return None
        try:
            data = _constant(module, name)
        except DevmodError as error:
            if STRICT in words():
                raise
            self._report_at_end()
            self.compiled[f"the library {stem}"] = str(error)
            return None
        place = HIP_PLACE.encode()
        if place in data:
            data = data.replace(place, os.fsencode(_hip_path()).ljust(len(place), b"\0"))
        folder = os.path.join(self.folder(), key)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return _write(folder, file, data)

    # -- the folder

    def folder(self) -> str:
        """Return a folder of this process alone for the files that Triton opens.

        Raises
        ------
        OSError
            None can be made.
        """
        with lock:
            if self._folder_pid == os.getpid():
                return self._folder
            self._stack = ExitStack()  # that of the parent is its own, as are its files
            self._groups.clear()
            try:
                self._folder = self._stack.enter_context(temporary_folder())
            except OSError as error:
                try:
                    self._folder = self._stack.enter_context(temporary_folder(_MEMORY))
                except OSError:
                    raise self._no_folder(error) from error
            self._folder_pid = os.getpid()
            atexit.register(self._close, os.getpid())
            return self._folder

    def _no_folder(self, error: OSError) -> OSError:
        return OSError(
            error.errno or errno.ENOENT,
            f"{self._files()} cannot be served: Triton opens kernels as files, and no folder can be written ({error}). Set TMPDIR to one",
        )

    def _close(self, pid: int) -> None:
        if pid == os.getpid():
            self._stack.close()

    # -- the report

    def _report_at_end(self) -> None:
        if self._pid != os.getpid():  # the numbers are those of the parent
            self._pid = os.getpid()
            self._is_reporting = False
            self.compiled = {}
            self.served = 0
        if self._is_reporting:
            return
        self._is_reporting = True
        atexit.register(self._report, os.getpid())
        util = sys.modules.get("multiprocessing.util")
        if util is not None:  # a forked worker of multiprocessing may end without atexit
            util.Finalize(None, self._report, args=(os.getpid(),), exitpriority=1)

    def _report(self, pid: int) -> None:
        if pid != os.getpid() or not self._is_reporting:
            return
        self._is_reporting = False
        debug(f"{count_text(self.served, 'Triton kernel')} came from {self._files()}")
        if not self.compiled or sys.stderr is None:
            return
        shown = [f"{name}: {reason}" for name, reason in self.compiled.items()][:_MAX_REPORTED]
        if len(self.compiled) > _MAX_REPORTED:
            others = count_text(len(self.compiled) - _MAX_REPORTED, "other")
            shown.append(f"and {others} (DEVMOD_LOG=debug)")
        count = count_text(len(self.compiled), "kernel")
        with suppress(OSError, ValueError):
            print(
                escape_line(
                    f"devmod: Triton compiled {count} not in {self._files()}: {'; '.join(shown)}"
                ),
                file=sys.stderr,
            )


def _hip_path() -> str:
    """Return the path of HIP's library, as Triton finds it."""
    return str(import_module("triton.backends.amd.driver")._get_path_to_hip_runtime_dylib())


def _entry_of(module: Any) -> dict[str, Any]:
    """Return the record of a kernel in a file: its parts, and Triton's metadata."""
    try:
        entry = json.loads(module.source["json"])
        if isinstance(entry["parts"], dict) and isinstance(entry["metadata"], dict):
            return dict(entry)
    except (KeyError, TypeError, ValueError, RecursionError):
        pass
    raise FormatError(f"{module.subject} has no metadata of Triton")


def _constant(module: Any, name: str) -> bytes:
    """Return a constant of a file, whose digest and policy are checked."""
    _check(module)
    (value,) = module[name]()
    return bytes(memoryview(value))


def _write(folder: str, name: str, data: bytes) -> str:
    """Write a file of the private folder, whole or not at all."""
    path = os.path.join(folder, os.path.basename(name))
    if not os.path.exists(path):
        part = f"{path}.{os.urandom(8).hex()}"
        with open(part, "xb") as file:
            file.write(data)
        os.replace(part, path)
    return path


def _check(module: Any) -> None:
    """Ask the policies about the file of a module, and compare its digest."""
    if module._head is not None:
        module._head.check()
    module.verify()
