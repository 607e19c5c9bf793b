"""One vendor whose driver has CUDA's model, as tests see it: the names in its messages, its
stand-in driver, and kernels.

The tests of devmod-runtime run for each vendor. `standin_cuda.py` and `standin_rocm.py` of the
plugins' tests describe one each.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from devmod_simulators import DriverLibrary, StandinDriver, UnavailableError

if TYPE_CHECKING:
    import devmod
    from devmod import Param
    from devmod.backend import Once

#: The launch values of a kernel in three dimensions.
DIMENSIONS = ["blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z"]


#: Settings of the stand-in drivers that show what devmod must not rely on: CUDA documents no wait
#: of a free, and work that nothing waits for may run late.
_STRICT = {"frees_wait": "0", "idle_ms": "0"}


class Vendor(ABC):
    """What tests need of one vendor. Every name is written out, so that a test does not compare the
    product with itself.

    Attributes
    ----------
    kind, title, api, maker : str
        The kind, its platform and its API in messages, and the vendor of a device: "rocm", "ROCm",
        "HIP" and "AMD".
    drivers : tuple of str
        What can open the driver: ctypes, and packages. Every test runs with the first, and those
        that are marked `each_driver` with all.
    variable : str
        The environment variable that names one of them; "" if there is no choice.
    format : str
        The format of `payload`.
    driver_library : DriverLibrary
        The stand-in driver.
    device_name : str
        The name of the devices of the stand-in driver.
    dlpack_type : int
        DLPack's type of a device.
    legacy_stream : int
        The handle of the default stream, as `Stream.handle` has it.
    dlpack_streams : tuple
        For each number that DLPack gives a special stream, the number that the consumer gets.
    pageable_bytes : int
        The most bytes that a copy reads from pageable memory before it returns.
    shared_memory_limit : str
        The limit of a device for the shared memory of a block.
    executes_slowly : bool
        Whether the first launch of a child process takes seconds.
    functions : mapping
        The vendor's function for each operation of `devmod_driver_api` that tests count or
        let fail.
    first_use : tuple of str
        Operations that no function of the driver does before the first use of a device's memory.
    """

    kind: str
    title: str
    api: str
    maker: str
    drivers: tuple[str, ...] = ("ctypes",)
    variable = ""
    format: str
    driver_library: DriverLibrary
    device_name: str
    dlpack_type: int
    legacy_stream: int
    dlpack_streams: tuple[tuple[int | None, int], ...]
    pageable_bytes: int
    shared_memory_limit: str
    executes_slowly = False
    functions: Mapping[str, str]
    first_use: tuple[str, ...]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # What the wheel remembers of a driver and its devices, one for each of `drivers`: a process
        # of a user has one of them.
        self._memories: dict[str, Once] = {}

    def __repr__(self) -> str:
        return self.kind

    @property
    def device(self) -> str:
        """The text of the first device of the stand-in driver."""
        return f"{self.kind} device 0 ({self.device_name})"

    def on_hardware(self) -> bool:
        """Return whether the tests run with the real driver."""
        return os.environ.get(f"DEVMOD_TEST_{self.kind.upper()}") == "hardware"

    # -- messages and objects of the vendor

    @abstractmethod
    def error(self, text: str) -> str:
        """Return an error code in messages: its name, which is made from the words in `text`, and
        the vendor's text.
        """

    @abstractmethod
    def foreign_stream(self, library: str, handle: int, **values: Any) -> Any:
        """Return a stream object of a library: "torch", "cupy", or "own" for the vendor's
        package.
        """

    def refusal(self, device: devmod.Device, text: str) -> str:
        """Return the error of a launch of `k` that devmod refuses."""
        return f"the {self.kind} function 'k' cannot be launched on {device}: {text}"

    def adopt_stream(self, value: Any) -> Any:
        """Return the stream of devmod over another library's."""
        return import_module(f"devmod_{self.kind}._launch").ADOPTION.adopt_stream(value)

    def adopt_array(self, value: Any) -> Any:
        """Return the array of devmod over another library's, and the stream of its work."""
        return import_module(f"devmod_{self.kind}._launch").ADOPTION.adopt_array(value)

    def error_of_opening(self, **environment: str) -> str:
        """Return the error of opening the driver in a new process, which fails twice in the same
        way.
        """
        from backend_checks import run_python

        output: str = run_python(
            "import devmod\n"
            "for _ in range(2):\n"
            "    try:\n"
            f"        devmod.device('{self.kind}')\n"
            "    except devmod.DeviceNotFoundError as error:\n"
            f"        assert error.kind == '{self.kind}'\n"
            "        text = str(error)\n"
            "print(text)",
            **environment,
        )
        return output.rstrip("\n")

    # -- drivers and kernels

    def missing_driver(self, name: str) -> str:
        """Return why the driver cannot be opened with one of `drivers`; "" if it can."""
        return ""

    def driver_variables(self, name: str) -> dict[str, str]:
        """Return the environment variable that selects one of `drivers`."""
        return {self.variable: name} if self.variable else {}

    def missing_execution(self) -> str:
        """Return why kernels cannot be executed here; "" if they can."""
        return ""

    def needs_execution(self) -> None:
        """Skip the test, with the reason, if kernels cannot be executed here."""
        reason = self.missing_execution()
        if reason:
            pytest.skip(reason)

    @abstractmethod
    def kernels(self, *, executes: bool = True) -> devmod.Module:
        """Return a new module with the functions `add`, `twice`, `step` (x = 2 x + a) and `fault`,
        which writes to an invalid address.

        The test is skipped if nothing executes kernels here, unless `executes` is false.
        """

    @abstractmethod
    def payload(self, source: str) -> bytes:
        """Return a source of kernels compiled for the device, in `format`."""

    def module(self, source: str, functions: Mapping[str, devmod.FunctionInfo]) -> devmod.Module:
        """Return a new module of a source."""
        import devmod

        return devmod.create(self.kind, self.payload(source), self.format, dict(functions))

    def kernel(
        self, source: str, params: Sequence[Param], tags: Sequence[str] = (), **interface: Any
    ) -> devmod.Function:
        """Return the kernel `k` of a source, with a declared interface."""
        from devmod import FunctionInfo, Interface

        declared = Interface(list(params), **interface)
        types = [
            {"buffer": "handle", "local": "uint32"}.get(value.kind, value.type)
            for value in declared.values
        ]
        info = FunctionInfo("k", types, [*DIMENSIONS, *tags], (), declared)
        return self.module(source, {"k": info})["k"]

    # -- the stand-in driver

    @property
    def library(self) -> str:
        """The name by which programs load the driver's library."""
        return self.driver_library.soname

    def built_library(self) -> Path:
        """Build the stand-in driver and return its path, or skip the test with the reason."""
        try:
            return self.driver_library.build()
        except UnavailableError as error:
            pytest.skip(str(error))

    def child_environment(self, **settings: object) -> dict[str, str]:
        """Return the environment variables by which a child process finds the stand-in driver, with
        settings such as ``devices=2``.
        """
        self.built_library()
        return self.driver_library.environment(**_STRICT, **settings)

    def standin(self) -> StandinDriver:
        """Return the stand-in driver of this process, loaded with the first call."""
        assert not self.on_hardware(), (
            "the stand-in driver would take the name of the real one in this process"
        )
        self.built_library()
        driver = self.driver_library.load()
        for name, value in _STRICT.items():
            driver.set_always(name, value)
        return driver

    def calls(self, operation: str) -> int:
        """Return how often the function of an operation was called."""
        return self.standin().calls(self.functions[operation])

    def fail(self, operation: str, code: int) -> None:
        """Let each call of an operation's function return an error, until `succeed` or the end of
        the test.
        """
        self.standin().set("fail", f"{self.functions[operation]}={code}")

    def succeed(self) -> None:
        """Let all calls succeed again."""
        self.standin().set("fail", None)

    # -- fixtures

    def environment(self) -> dict[str, str]:
        """Return the environment variables by which a child process finds the driver of the
        tests.
        """
        return {} if self.on_hardware() else self.child_environment()

    def driver_environment(self, name: str, folder: Path) -> dict[str, str]:
        """Return the environment of a child process that uses one of `drivers` and modules of the
        tests, or skip the test.

        `folder` is for files of the child process.
        """
        self._require(name)
        here = Path(__file__).resolve().parent
        paths = [
            str(self.folder),
            str(here),
            str(here.parents[1] / "extras" / "simulators" / "standins"),
        ]
        return {
            **self.environment(),
            **self.driver_variables(name),
            "PYTHONPATH": os.pathsep.join(paths),
        }

    def shown_standin(self) -> Iterator[StandinDriver]:
        """Yield the stand-in driver with its devices, and fail the test if it has noticed a
        violation.
        """
        if self.on_hardware():
            pytest.skip(
                f"reads what the stand-in driver has noticed; DEVMOD_TEST_{self.kind.upper()}=hardware runs with the real one"
            )
        with self.standin().shown() as driver:
            yield driver
            if driver.failed:  # what it leaves behind would fail every later test
                self._memories.clear()

    def use_driver(
        self, name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
    ) -> str:
        """Let this process use one of `drivers` during a test, or skip the test with the reason;
        return its name.
        """
        self._require(name)
        if not self.on_hardware():
            request.getfixturevalue("standin")
            for variable, value in self.child_environment().items():
                monkeypatch.setenv(variable, value)
        for variable, value in self.driver_variables(name).items():
            monkeypatch.setenv(variable, value)
        from devmod.backend import Once

        monkeypatch.setattr(
            import_module(f"devmod_{self.kind}._device"),
            "_once",
            self._memories.setdefault(name, Once()),
        )
        return name

    def _require(self, name: str) -> None:
        reason = self.missing_driver(name)
        if reason:
            pytest.skip(reason)


def library_class(name: str, library: str, **attributes: Any) -> Callable[..., Any]:
    """Return a class of a library that is not installed here. Its objects have the attributes that
    they are made with.
    """

    def __init__(self: Any, **values: Any) -> None:
        vars(self).update(values)

    return type(name, (), {"__module__": library, "__init__": __init__, **attributes})


def launch_error(call: Callable[..., Any], *arguments: Any, **keywords: Any) -> devmod.LaunchError:
    """Return the LaunchError of a call."""
    import devmod

    with pytest.raises(devmod.LaunchError) as caught:
        call(*arguments, **keywords)
    return caught.value
