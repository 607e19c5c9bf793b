"""RuntimeModule: the base class of the runtimes' modules. It builds each function once and calls a
replaced compiler (R31).
"""

from __future__ import annotations

from abc import abstractmethod

from devmod.backend import Once, PayloadModule, array_bytes, parse_dtype, usable_functions
from devmod.errors import ArgumentError, FormatError, list_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping
    from typing import Any, Self, TypeVar

    from devmod import Array, FunctionInfo, TargetSpec
    from devmod.backend import Binary, Code, Source
    from devmod_runtime._device.device import Device
    from devmod_runtime._launch.function import Function
    from devmod_runtime._launch.launcher import Launcher

    Result = TypeVar("Result")

#: The most dimensions of a global: those that every version of NumPy has.
_MAX_DIMENSIONS = 32


def source_text(kind: str, subject: str, code: Binary) -> str:
    """Decode a source payload.

    Parameters
    ----------
    kind, subject
        The kind, and the payload in a message, such as "the opencl payload of format 'cl'".
    code
        The payload.

    Raises
    ------
    FormatError
        The payload is empty, is not UTF-8, or has a zero byte, which ends a source.
    """
    if not len(code):
        raise FormatError(f"{subject} is empty", kind=kind)
    try:
        text = str(code, "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{subject} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}",
            kind=kind,
        ) from None
    if "\0" in text:
        raise FormatError(
            f"{subject} has a zero byte at {text.index(chr(0))}, which ends a source", kind=kind
        )
    return text


def shader_entry(kind: str, name: str, info: FunctionInfo, shaders: Collection[str]) -> str:
    """Return the key of a function's shader, as `RuntimeModule.entry` does."""
    for each in (name, info.name):
        if each in shaders:
            return each
    raise FormatError(
        f"the {kind} module has no shader for its function {name!r}; it has those of "
        f"{list_names(shaders)}",
        kind=kind,
        function=name,
    )


class RuntimeModule(PayloadModule):
    """A module that can run. A backend implements `launcher`. The first get_function opens the
    driver, no earlier call.

    The parameters are those of `PayloadModule`.

    Attributes
    ----------
    target : str
        The kind whose spec `create`, `load` and `read` use. A backend sets it; its entry points are
        then one call each.
    """

    target: str = ""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._results = Once()

    @classmethod
    def create(
        cls, code: Code, fmt: str, fmap: Mapping[str, FunctionInfo], source: Source | None = None
    ) -> Self:
        """Return the module of a payload. The arguments are those of `devmod.create`."""
        return cls(cls._own_spec(), fmt, fmap, code, source)

    @classmethod
    def load(cls, data: Binary) -> Self:
        """Load a module from the bytes of `save_to_bytes` (see `from_wire`)."""
        return cls.from_wire(cls._own_spec(), data)

    @classmethod
    def read(cls, path: str, fmt: str) -> Self:
        """Read a module from a payload file and the metadata file beside it (see
        `devmod.backend.read_payload`).
        """
        from devmod.backend import read_payload

        spec = cls._own_spec()
        fmt, fmap, code = read_payload(spec, path, fmt)
        return cls(spec, fmt, fmap, code)

    @classmethod
    def _own_spec(cls) -> TargetSpec:
        from devmod.backend import find_spec

        spec = find_spec(cls.target)
        assert spec is not None, f"{cls.__name__}.target is {cls.target!r}: no spec has this kind"
        return spec

    @classmethod
    def from_wire(cls, spec: TargetSpec, data: Binary) -> Self:
        """Load a module from the bytes of `save_to_bytes`. It saves the same bytes again (R19).

        Raises
        ------
        FormatError
            `data` is not the bytes of such a module.
        """
        from devmod.backend import decode, read_only_view

        data = read_only_view(data)  # the caller may reuse a writable buffer before the first use
        fmt, fmap, code = decode(spec, data)
        return cls(spec, fmt, fmap, code, wire=data)

    @abstractmethod
    def launcher(self, name: str, info: FunctionInfo) -> Launcher:
        """Return the launcher of one of the module's functions. It may open the driver. `imports`
        has those of the file.
        """

    def get_function(self, name: str, query_imports: bool = False) -> Function:
        """Return the function `name`. It is built for the default device, once for all threads.

        Raises
        ------
        FunctionNotFoundError
            There is no such function. The driver was not opened.
        DeviceNotFoundError, CompileError, FormatError
            The function cannot run here; the message has the reason.
        """
        owner, info = self.find_function(name, query_imports)
        if owner is not self:
            result: Function = owner.get_function(name)
            return result
        try:
            function = self._function(name, info)
            self._results.get(("kernel", name), function.open_early)
        except ImportError as error:
            self._explain(error)
            raise
        return function

    def _unopened(self, name: str) -> Function:
        try:
            return self._function(name, self.find_function(name)[1])
        except ImportError as error:
            self._explain(error)
            raise

    def _function_on(self, name: str, device: Device) -> Function:
        try:
            return self._unopened(name).on(device)
        except ImportError as error:
            self._explain(error)
            raise

    def payload(self, entry: str = "") -> tuple[str, Binary]:
        """Return the format and the bytes that run here: those of the payload, or the output of a
        replaced compiler (R31).

        The compiler is called once for a module; for map kinds, once for a shader. The saved bytes
        do not change. A kind whose devices have architectures calls `devmod_runtime.run_compiler`
        for each of them instead.

        Parameters
        ----------
        entry
            The shader, for map kinds.

        Raises
        ------
        Exception
            An exception of the replaced compiler. The next call calls the compiler again.
        """
        return self._results.get(("payload", entry), lambda: self._compile(entry))

    def entry(self, name: str, info: FunctionInfo) -> str:
        """Return the key of the function's shader, for map kinds: the function's name (R11), or the
        name of its entry point.

        Raises
        ------
        FormatError
            There is no such shader.
        """
        return shader_entry(self.kind, name, info, self.code)  # type: ignore[arg-type]

    def once(self, key: Hashable, make: Callable[[], Result]) -> Result:
        """Return the result of ``make()``, called once for `key` in all threads. Exceptions are not
        cached.
        """
        return self._results.get(("own", key), make)

    def _function(self, name: str, info: FunctionInfo) -> Function:
        from devmod_runtime._launch.function import Function, Rules

        def make() -> Function:
            # Not `self.origin`: a stored module decodes its origin at the first access.
            # Nor the module: it has the function, and a cycle is freed late.
            code = self.code
            if not isinstance(code, (bytes, memoryview)):
                code = code[self.entry(name, info)]
            spec = self._spec
            fmt = self.format
            whole = self.code

            def payload() -> _Payload:
                return _Payload(spec, fmt, {name: info}, whole)

            def find_devices() -> list[Device]:
                from devmod.backend import fitting_devices

                return fitting_devices(name, [payload()])

            rules = Rules(
                origin=self._devmod_origin, payload=(fmt, code), find_devices=find_devices
            )
            if info.interface is None or "tune" not in info.interface.extra:
                return Function(name, info, self.launcher(name, info), rules=rules)
            from devmod_runtime._tuning.function import TunedFunction

            rules = rules._replace(own=payload())
            if records is not None:
                rules = rules._replace(find_records=records)
            return TunedFunction(name, info, self.launcher(name, info), rules=rules)

        # Not the property: the function has no reference to the module.
        records = self._devmod_tuning
        return self._results.get(("function", name, id(records)), make)

    def _explain(self, error: ImportError) -> None:
        """Raise the error of a missing loader if the module's distribution has been uninstalled
        since the module was made.
        """
        from devmod.backend import explain_import

        explain_import(error, "devmod.load_from_bytes", self.kind, type(self).__module__)

    def _compile(self, entry: str) -> tuple[str, Binary]:
        code = self.code
        if not isinstance(code, (bytes, memoryview)):
            code = code[entry]
        if self.format in self._spec.source_formats:
            from devmod import Target
            from devmod_runtime._compilers import run_compiler

            target = Target.current()
            if target is None or target.kind != self.kind:
                target = Target(self.kind)
            replaced = run_compiler(code, target)
            if replaced is not None:
                return replaced
        return self.format, code


class _Payload(PayloadModule):
    """The payload of one function, for questions whether a device can run it."""

    def get_function(self, name: str, query_imports: bool = False) -> object:
        raise NotImplementedError


class GlobalsModule(RuntimeModule):
    """A module whose payload may have global variables. A backend implements `find_global`."""

    @abstractmethod
    def find_global(self, name: str, device: Any) -> tuple[Any, int, object]:
        """Return the memory of a variable on a device, its bytes, and the object that keeps it
        alive.

        Raises
        ------
        FunctionNotFoundError
            The payload has no such variable.
        """

    def get_global(
        self, name: str, device: Device | None = None, *, dtype: str | None = None, **options: Any
    ) -> Array:
        """Return a global variable as an array over its memory. The array keeps the memory alive.

        Parameters
        ----------
        name
            The variable's name in the source, with its namespaces, or its symbol.
        device
            The device; None for that of a call that names none. Each device has a variable of its
            own.
        dtype
            The element type of an array of one dimension. None for the type and the shape in the
            source, if the compiler has stored them, or else for bytes.

        Raises
        ------
        FunctionNotFoundError
            The payload has no such variable.
        ArgumentError
            `device` is of another kind, the variable is not a whole number of elements of `dtype`,
            or there is another option.
        FormatError
            The interfaces have a type that is not the variable's.
        """
        from devmod import device as find_device
        from devmod_runtime._device.device_array import DeviceArray, dtype_of

        kind = self.kind
        if options:
            raise ArgumentError(
                f"get_global of a {kind} module takes the option dtype=, got {list(options)}",
                kind=kind,
            )
        type_name = "uint8"
        if dtype is not None:
            type_name = dtype_of(dtype)
        if device is None:
            device = find_device(kind)
        if getattr(device, "kind", None) != kind:
            raise ArgumentError(
                f"get_global({name!r}) takes a device of kind {kind}, such as devmod.device({kind!r}), got {device!r}",
                kind=kind,
                argument="device",
            )
        try:
            memory, nbytes, owner = self.find_global(name, device)
        except ImportError as error:
            self._explain(error)
            raise
        shape: tuple[int, ...]
        declared = None
        if dtype is None:
            declared = self._declared_type(name)
        if declared is not None:
            type_name, shape = declared
            size = array_bytes(parse_dtype(type_name), shape)
            if size != nbytes:
                raise FormatError(
                    f"the interface of the {kind} module has the global {name!r} as {type_name}{list(shape)} of {size} bytes, and its "
                    f"binary has a variable of {nbytes} bytes",
                    kind=kind,
                )
        else:
            element = array_bytes(parse_dtype(type_name))
            if not element or nbytes % element:
                problem = f"the variable has {nbytes} bytes, which is not a whole number of {dtype}"
                raise ArgumentError(f"get_global({name!r}): {problem}", kind=kind, argument="dtype")
            shape = (nbytes // element,)
        return DeviceArray(device, memory, shape, type_name, owner)

    def _declared_type(self, name: str) -> tuple[str, tuple[int, ...]] | None:
        """Return the element type and the shape of a global in the interfaces of the functions;
        None if they do not have it.
        """
        for _, info in usable_functions(self.functions):
            types = None
            if info.interface is not None:
                types = info.interface.extra.get("globals")
            entry = None
            if isinstance(types, dict):
                entry = types.get(name)
            if isinstance(entry, (list, tuple)) and entry and isinstance(entry[0], str):
                dtype, *lengths = entry
                parse_dtype(dtype)  # raises FormatError
                if len(lengths) <= _MAX_DIMENSIONS and all(
                    type(each) is int and each >= 0 for each in lengths
                ):
                    return dtype, tuple(lengths)
        return None
