"""The payload of one module: compiled for each architecture, and loaded once on each device."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from devmod import Target
from devmod.errors import (
    DeviceNotFoundError,
    DevmodError,
    FormatError,
    FunctionNotFoundError,
    did_you_mean,
    list_names,
)
from devmod_driver_api.api import DriverError, describe
from devmod_driver_api.device import DriverDevice, DriverStream
from devmod_driver_api.handles import Handle
from devmod_readers.variables import read_variables
from devmod_runtime import Builds, DeviceCache, run_compiler

#: The format and the bytes of a binary.
Payload = tuple[str, bytes]


class DriverBinaries(Builds):
    """The binaries of one payload and set of constants, one for each device. A subclass loads them.

    Parameters
    ----------
    fmt, code
        The payload.
    names
        The symbols of the kernels that the module declares.
    constants
        Values for constants of the source.
    """

    def __init__(
        self,
        fmt: str,
        code: bytes,
        names: Sequence[str],
        constants: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(fmt, code, constants)
        self.names = names
        #: The binaries of the receiver's compiler by "built" and the architecture, those that run
        #: by architecture, and those that are loaded by device.
        self._results = DeviceCache()

    def check(self) -> None:
        """Check the start of the payload, or the text and the options of a source, for the
        receiver's compiler. No device is needed.

        Raises
        ------
        FormatError
            No device supports the payload, the source may read a file, or the receiver does not
            pass an option to its compiler.
        """
        if not self.text:
            self.check_payload(self.fmt, self.code)
        self.check_options()

    def compiled(self, arch: str) -> Payload:
        """Return the format and the bytes of the binary for an architecture. A source is compiled,
        once for all threads.

        Raises
        ------
        CompileError, FormatError, ToolchainNotFoundError
            The source cannot be compiled, or a replaced compiler (R31) returns something invalid.
        """
        if self.fmt != self.source_format:
            return self.fmt, self.code
        return self._results.get(arch, lambda: self._replaced(arch) or self._build(arch))

    def compile_early(self, arch: str) -> None:
        """Compile a source before its first use. A compiler that is set later (R31) is used
        nevertheless.
        """
        replaced = self._replaced(arch)
        if replaced is None:
            self._build(arch)
        else:
            self._results.get(arch, lambda: replaced)

    def _replaced(self, arch: str) -> Payload | None:
        """Return the binary that a replaced compiler gives for an architecture; None without such a
        compiler.
        """
        code = self.code
        if self._set:
            code = self.source.encode()
        result = run_compiler(code, Target(self.kind, arch=arch))
        if result is None:
            return None
        return type(self)(*result, self.names)._build(arch)

    def _build(self, arch: str) -> Payload:
        def build() -> Payload:
            self.check()
            if self.fmt != self.source_format:
                return self.fmt, self.code
            return self.compile_source(arch)

        return self._results.get(("built", arch), build)

    @staticmethod
    @abstractmethod
    def check_payload(fmt: str, code: bytes) -> None:
        """Check the start of a payload, without a device. Raise FormatError if no device supports
        it.
        """

    @abstractmethod
    def compile_source(self, arch: str) -> Payload:
        """Return the format and the bytes of the binary that the receiver's compiler makes of
        `text` for an architecture.
        """

    @abstractmethod
    def load(self, device: Any) -> LoadedBinary:
        """Load the binary on a device."""

    def get(self, device: Any) -> Any:
        """Return the binary loaded on a device, once for all threads.

        Raises
        ------
        CompileError, FormatError
            The source does not compile, or the driver refuses the binary.
        DeviceNotFoundError
            The device cannot run the binary.
        """
        return self._results.get(device, lambda: self.load(device))


class LoadedBinary:
    """A binary that the driver has loaded on a device. It is unloaded after the last reference is
    gone.

    Parameters
    ----------
    device
        The device.
    data
        The binary.
    kernels
        What the binary declares about its kernels, by symbol. It has all that functions name.

    Attributes
    ----------
    device, context
        The device, and its primary context.
    kernels
        What the binary declares about its kernels.
    states : dict
        What the functions with one kernel share, by its symbol, such as attributes that were set.

    Raises
    ------
    DriverError
        The driver refuses the binary.
    """

    def __init__(self, device: DriverDevice, data: bytes, kernels: Mapping[str, Any]) -> None:
        self.device = device
        self.context = device.context
        self._data = data
        self.kernels = kernels
        self.states: dict[str, Any] = {}
        with self.context:
            self._module = self.context.modules.create(data)

    def note_stream(self, stream: DriverStream) -> None:
        """Note a stream that is used for launches of the binary's kernels: the binary is unloaded
        after them.
        """
        # That of another library, which may destroy it.
        if stream.owner is not None and not isinstance(stream.owner, Handle):
            self._module.note_foreign_stream()

    def function(self, name: str) -> int:
        """Return the driver's handle of a kernel.

        Raises
        ------
        FormatError
            The binary has no such kernel.
        LaunchError
            The driver cannot load it.
        """
        kind = self.device.kind
        try:
            return int(self._find("get_function", name, f"cannot load the kernel {name!r}"))
        except DriverError as error:
            raise FormatError(
                f"the loaded {kind} binary has no kernel {name!r}, which the payload's fmap names: {describe(error)}",
                kind=kind,
            ) from error

    def variable(self, name: str) -> tuple[int, int]:
        """Return the address and the bytes of a variable, by its symbol or its name in the source.

        Raises
        ------
        FunctionNotFoundError
            The binary has no such variable.
        """
        found = self._find_variable(name)
        if found is None:
            variables = read_variables(self._data)
            found = self._find_variable(variables.get(name, name))
            if found is None:
                raise FunctionNotFoundError(
                    f"the {self.device.kind} module has no global {name!r}: its binary has "
                    f"{list_names(variables)}{did_you_mean(name, variables)}",
                    kind=self.device.kind,
                    function=name,
                )
        return found

    def _find_variable(self, symbol: str) -> tuple[int, int] | None:
        failure = f"cannot return the address of the global {symbol!r}"
        try:
            address, nbytes = self._find("get_global", symbol, failure)
        except DriverError:
            return None
        return address, nbytes

    def _find(self, operation: str, name: str, failure: str) -> Any:
        """Return what the driver finds in the module by a name. DriverError: it has no such
        name.
        """
        driver = self.context.driver
        try:
            # A driver may load a function with its first use.
            with self.context, driver.relaxed():
                return driver.call(operation, self._module.value, name.encode())
        except DriverError as error:
            if error.name == driver.api.not_found:
                raise
            raise self.device.driver_error(f"{self.device} {failure}", error) from error


def load_error(device: DriverDevice, fmt: str, error: DriverError) -> DevmodError:
    """Return the error for a binary that the driver refuses, for a reason that every driver has."""
    api = device.api
    kind = device.kind
    if error.name in (api.out_of_memory, *api.sticky):
        return device.driver_error(f"{device} loads no module", error)
    text = f"the driver of {device} refuses the {kind} payload of format {fmt!r}: {describe(error)}"
    if error.log:
        text += f": {error.log}"
    if error.name in api.refusals:
        return DeviceNotFoundError(text, kind=kind)
    return FormatError(text, kind=kind)
