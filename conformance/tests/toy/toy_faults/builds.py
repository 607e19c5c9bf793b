"""Faults of builds: the compiler of `devmod.compile`, the replaced compiler of a program, and the
caching of builds.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from uuid import uuid4

import devmod_toy._compile as toy_compiler
from devmod_toy._device import ToyDevice, driver
from devmod_toy._module import ToyModule

import devmod
from devmod import Function, Target
from devmod_runtime import run_compiler
from devmod_targets.authoring import Payload
from toy_faults._fault import fault, replaces

# -- the compiler of devmod.compile


def writes(name, text, when):
    """Add a fault: the compiler writes ``text(request)`` into its output."""
    reason = f"the compiler's output differs: from byte … on, …, {when}"

    @fault(name, "R38-compiled", reason=reason).replaces(toy_compiler, "payload")
    def payload(before, request):
        return before(request, text(request))


def modification_time(request):
    """Return the modification time of the source file."""
    return (
        str(os.stat(os.path.join(request.folder, request.name)).st_mtime_ns)
        if request.folder
        else ""
    )


writes(
    "compiles_date",
    lambda request: time.strftime("%Y-%m-%d"),
    "at another time or with another host name",
)
writes("compiles_file_time", modification_time, "from a file with another modification time")
writes("compiles_folder", lambda request: os.getcwd(), "in another folder")
writes(
    "compiles_hash_order",
    lambda request: " ".join({f"macro_{number}" for number in range(20)}),
    "with another PYTHONHASHSEED",
)
writes("compiles_home", lambda request: os.path.expanduser("~"), "for another user")
writes(
    "compiles_host", lambda request: platform.node(), "at another time or with another host name"
)
writes(
    "compiles_random",
    lambda request: str(uuid4()),
    "in another process with the same folder, user, environment and clock",
)
writes(
    "compiles_seconds",
    lambda request: str(int(datetime.now(UTC).timestamp())),
    "at another time or with another host name",
)
writes("compiles_source_folder", lambda request: request.folder, "in another folder")
writes(
    "compiles_zone",
    lambda request: subprocess.check_output(["date", "+%F"], text=True).strip(),
    "in another time zone",
)


@replaces(
    toy_compiler,
    "payload",
    "R40-example",
    reason="the example 'toy -arch=t1' for Toy source does not compile a sample: the toy has no t1",
)
def example_refused(before, request):
    """The compiler does not support the architecture of the spec's example."""
    if request.target.arch == "t1":
        raise devmod.CompileError("the toy has no t1", kind="toy")
    return before(request)


@replaces(
    toy_compiler,
    "payload",
    "R42",
    reason="a module of devmod.compile has no origin; give the Payload an Origin",
)
def no_origin(before, request):
    """The compiler returns no origin."""
    module = before(request)
    return Payload(module.kind, module.code, module.fmt, module.fmap, module.source)


@replaces(toy_compiler, "payload", "R42", "R38-compiled", reason="the origin contains the path …")
def origin_path(before, request):
    """The origin contains the current folder."""
    return before(request, options=[f"-I{os.getcwd()}"])


@replaces(
    toy_compiler,
    "payload",
    "R42",
    reason="the sources in the origin: expected the SHA-256 of the compiled text, got {}",
)
def origin_sources(before, request):
    """The origin lacks the digest of the source."""
    return before(request, sources={})


@replaces(
    toy_compiler,
    "payload",
    "R42",
    reason="the target in the origin: expected 'toy -arch=t2', got ''",
)
def origin_target(before, request):
    """The origin lacks the target."""
    return before(request, target="")


@replaces(
    toy_compiler,
    "payload",
    "R38-compiled",
    reason="the compiler's origin differs: …, at another time or with another host name",
)
def origin_time(before, request):
    """The origin contains the time."""
    return before(request, extra={"time": time.ctime()})


# -- the replaced compiler of a program


@replaces(
    ToyModule,
    "payload",
    "R31-once",
    "R30-build",
    "R31-used",
    reason="the inputs of the replaced compiler after two get_function of each name: expected [b'toy 1\\naxpy\\nnegate\\n'], got []",
)
def ignores_compiler(before, self, entry=""):
    """The replaced compiler is not called."""
    return self.format, self.code


@replaces(
    ToyModule,
    "payload",
    "R31-used",
    reason="CompileError: the toy payload does not begin with the line 'toy 1'",
)
def discards_compiled(before, self, entry=""):
    """The output of the replaced compiler is discarded."""
    before(self, entry)
    return self.format, self.code


@replaces(
    ToyModule,
    "launcher",
    "R31-used",
    reason="'axpy' with a replaced compiler: argument 2 is wrong in 40 of 50 elements; at 0: expected …, got …",
)
def compiles_beside(before, self, name, info):
    """The replaced compiler is called, but another function runs."""
    result = before(self, name, info)
    if self.code[:3] != b"toy":
        result.run = lambda threads, *values: driver().KERNELS["negate"](threads, values[0])
    return result


# The devices have an architecture, and the replaced compiler is not told.
fault(
    "no_target",
    "R31-once",
    reason="Target.current() in the replaced compiler: expected a target of the kind, with the architecture of a device: t1; got toy. Pass…",
).sets(ToyDevice, "arch", "t1")


@replaces(
    ToyModule,
    "launcher",
    "R31-used",
    "R40-refused",
    "R30-build",
    reason="get_function does not call the replaced compiler",
)
def reads_nothing(before, self, name, info):
    """get_function does not read the payload."""
    return self.launcher_type(driver().KERNELS[info.name])


# -- when a payload is built, and what is cached


@replaces(
    ToyModule,
    "__init__",
    "R30-build",
    reason="the number of builds before the first get_function: expected 0, got 2",
)
def builds_early(before, self, *args, **keywords):
    """Creating a module builds it."""
    before(self, *args, **keywords)
    self.payload()


@replaces(
    ToyModule,
    "payload",
    "R30-files",
    reason="a source with '#include \"/…/named.h\"': CompileError if the file is missing, and it builds if it exists",
)
def reads_files(before, self, *key):
    """The build reads the files that a source names."""
    fmt, code = before(self, *key)
    lines = bytes(code).decode("utf-8", "replace").split("\n")
    for line in lines:
        if line.startswith("#include "):
            try:
                open(line[len('#include "') : -1]).close()
            except OSError as error:
                raise devmod.CompileError(str(error), kind="toy") from error
    return fmt, "\n".join(line for line in lines if not line.startswith("#")).encode()


@replaces(
    ToyModule,
    "payload",
    "R32-once",
    "R31-once",
    reason="the number of builds with 8 threads: expected 1, got …",
)
def builds_twice(before, self, entry=""):
    """get_function checks for a function and then builds it without a lock, so two threads build
    twice.
    """
    replaced = run_compiler(self.code, Target("toy")) if self.format == "toy" else None
    return replaced or (self.format, self.code)


@builds_twice.replaces(ToyModule, "get_function")
def _(before, self, name, query_imports=False):
    _, info = self.find_function(name)
    made = self.__dict__.setdefault("made", {})
    if name not in made:
        function = Function(name, info, self.launcher(name, info))
        function.open()
        made[name] = function
    return made[name]


@replaces(
    ToyModule,
    "payload",
    "R32-load",
    reason="the number of builds with … threads, each for another function of the module: expected 1, got …",
)
def loads_twice(before, self, entry=""):
    """Each function is built once for all threads, and the module is loaded without a lock, so two
    functions load it twice.
    """
    loaded = self.__dict__.get("loaded")
    if loaded is None:
        replaced = run_compiler(self.code, Target("toy")) if self.format == "toy" else None
        loaded = self.__dict__["loaded"] = replaced or (self.format, self.code)
    return loaded


@replaces(
    ToyModule,
    "get_function",
    "R32-failure",
    reason="a failed build is cached: the next get_function does not build again",
)
def cached_failure(before, self, name, query_imports=False):
    """A failed build is cached."""
    error = self.__dict__.get("failed")
    if error:
        raise error
    try:
        return before(self, name, query_imports)
    except Exception as error:
        if name in self.functions:
            self.failed = error
        raise


@replaces(
    ToyModule,
    "get_function",
    "R32-failure",
    "R40-refused",
    reason="get_function returns a function although its build failed",
)
def swallowed_error(before, self, name, query_imports=False):
    """A failed build gives a function that does nothing."""
    try:
        return before(self, name, query_imports)
    except (devmod.FunctionNotFoundError, devmod.DeviceNotFoundError):
        raise
    except Exception:
        return lambda *args, **keywords: None


@replaces(
    ToyModule,
    "payload",
    "R32-failure",
    reason="the error of a build: expected it unchanged, got RuntimeError: the build failed",
)
def wrapped_error(before, self, entry=""):
    """The error of a compiler is replaced."""
    try:
        return before(self, entry)
    except devmod.DevmodError:
        raise
    except Exception:
        raise RuntimeError("the build failed") from None


@replaces(
    ToyModule,
    "launcher",
    "R40-refused",
    reason="get_function of an invalid payload: expected DevmodError, got ValueError: bad magic",
)
def bare_refusal(before, self, name, info):
    """An invalid payload raises Python's ValueError."""
    try:
        return before(self, name, info)
    except (devmod.FormatError, devmod.CompileError):
        raise ValueError("bad magic") from None
