"""ProgramModule: the runtime of the kind `program`. It chooses the device and the kernels of a
program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self
from weakref import WeakKeyDictionary

from devmod import Function, Module
from devmod._modules.bundle import BundleModule, join
from devmod._modules.choice import UNAVAILABLE, program_kernels, program_verdicts
from devmod._modules.programs import candidate_of
from devmod._modules.stored import StoredModule
from devmod._plugins.devices import VARIABLE
from devmod.backend import (
    Once,
    PayloadModule,
    RLock,
    decode,
    environment_text,
    find_spec,
    is_tuned,
    read_only_view,
    read_program,
    unknown_needs,
)
from devmod.errors import (
    ArgumentError,
    DeviceNotFoundError,
    DevmodError,
    FormatError,
    did_you_mean,
    list_names,
    pip_install,
    quote_name,
)
from devmod_readers.programs import Program, check_kernels, constant_of, names_in
from devmod_runtime._device.device import Device, DeviceCache
from devmod_runtime._fork import fork_safe
from devmod_runtime._program.function import ProgramFunction, UnbuiltProgram
from devmod_runtime._program.plan import Shapes, forms_of, lengths_of

#: The constants of each const_loader on devices: several programs have them.
_constants: WeakKeyDictionary[Module, DeviceCache] = WeakKeyDictionary()
_lock = fork_safe(RLock())  # a signal's handler may call a program


class ProgramModule(PayloadModule):
    """Programs. The module imports the kernels and the constants, which a file gives to it before
    its first `get_function`.
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._results = Once()
        self._made = Once()
        #: The programs and the constants on devices.
        self._programs_on = DeviceCache()
        self._constants_on = DeviceCache()

    @classmethod
    def load(cls, data: bytes | memoryview) -> Self:
        """Load a module from the bytes of `save_to_bytes`.

        Raises
        ------
        FormatError
            `data` is not the bytes of such a module, or a newer devmod wrote it.
        """
        spec = find_spec("program")
        assert spec is not None
        data = read_only_view(data)  # the caller may reuse a writable buffer
        fmt, fmap, code = decode(spec, data)
        if fmt not in spec.formats:
            raise FormatError(
                f"the programs have the format {quote_name(fmt)}, which a newer devmod-runtime runs: "
                f"{pip_install('--upgrade devmod-core devmod-runtime')}",
                kind="program",
            )
        return cls(spec, fmt, fmap, code, wire=data)

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        """Return a program on the first device of the first kind on which each of its kernels has a
        candidate that fits. Its first use builds them: for `on`, no other device's compiler runs.

        Raises
        ------
        FunctionNotFoundError
            There is no such program.
        FormatError
            The program is invalid, or a kernel does not take what a step gives.
        PluginError, DeviceNotFoundError, RuntimeNotLinkedError, NotRegisteredError
            It can run on no kind here; the message has the reason of each.
        """
        owner, _ = self.find_function(name, query_imports)
        if owner is not self:
            return owner.get_function(name)
        orders = [each.order for each in self.imports if isinstance(each, BundleModule)]
        key = (name, len(self.imports), *orders, environment_text(VARIABLE))

        def choose() -> ProgramFunction:
            made = Once()
            owner = self._with(_made=made, _programs_on=DeviceCache())

            def build() -> ProgramFunction:
                return made.get("built", lambda: owner._without_functions()._choose(name, None))

            return owner._choose(name, None, build)

        return self._made.get(key, choose)

    def _function_on(self, name: str, device: Device) -> Any:
        self.find_function(name)
        made = self._programs_on.get(device, Once)
        return made.get(
            (name, len(self.imports)), lambda: self._without_functions()._choose(name, device)
        )

    def _without_functions(self) -> Self:
        """Return the module for what it makes, which does not reference itself by it."""
        return self._with(_made=Once(), _programs_on=DeviceCache())

    def program(self, name: str) -> Program:
        """Return a program, read and checked without its kernels. Raise FormatError if it is
        invalid.
        """
        program: Program = self._results.get(("program", name), lambda: read_program(name, self))
        return program

    def temporary_bytes(self, name: str, lengths: Mapping[str, int]) -> int:
        """Return the bytes of the buffers of a program's temporaries for lengths and integer
        scalars by name. It needs no device.

        Raises
        ------
        ArgumentError
            A length is missing or unknown, or the program does not take these lengths.
        """
        program = self.program(name)
        scalars: dict[str, Any] = {
            each.name: each.default for each in program.scalars if each.is_integer
        }
        names = {*program.length_names, *scalars}
        values = {key: value for key, value in scalars.items() if value is not None}

        def error(text: str, argument: str) -> ArgumentError:
            return ArgumentError(
                f"the program {quote_name(name)}: {text}",
                kind="program",
                function=name,
                argument=argument,
            )

        if unknown := [each for each in lengths if each not in names]:
            raise error(
                f"it has no length {unknown[0]!r}; it has {list_names(sorted(names))}{did_you_mean(unknown[0], names)}",
                unknown[0],
            )
        values |= lengths_of(lengths, error)
        if missing := sorted(_names_needed(program) - values.keys()):
            raise error(f"it also needs {list_names(missing)}", missing[0])
        shapes = Shapes(program, forms_of(program), program.lifetimes(), values, error)
        return sum(shapes.sizes)

    def constants(self, program: Program, device: Device) -> dict[str, Any]:
        """Return the constants of a program on a device, where they are copied once, and again
        after the device lost them.
        """
        arrays = list(program.arrays("constant"))
        generation = device.generation
        loaders = [each for each in self.imports if each.kind == "const_loader"]
        cache = self._constants_on
        if len(loaders) == 1:
            with _lock:
                cache = _constants.setdefault(loaders[0], DeviceCache())
        results = cache.get(device, Once)

        def upload(array: Any) -> Any:
            values: Any = constant_of(program, array, self.imports)
            try:
                return device.from_numpy(values)
            except DevmodError as error:
                error.args = (
                    f"the program {quote_name(program.name)}: the constant {array.name!r}: {error}",
                )
                raise

        keys = [("constant", each.name, each.type, len(each.shape), generation) for each in arrays]
        if not all(key in results for key in keys):
            for each in loaders:
                if isinstance(each, StoredModule):
                    each.read_together([array.name for array in arrays])
        return {
            array.name: results.get(key, partial(upload, array))
            for array, key in zip(arrays, keys, strict=True)
        }

    def _choose(
        self,
        name: str,
        device: Device | None,
        build: Callable[[], ProgramFunction] | None = None,
    ) -> ProgramFunction:
        """Return a program on a device, or on the first that it fits. With `build`, that makes it
        at its first use.
        """
        # A program with an unknown need may have any form, and fits no kind.
        program = None
        if not unknown_needs(self.functions[name].interface):
            program = self.program(name)
        if device is not None:
            self._check_kind(name, device)
        reasons: list[tuple[str, DevmodError]] = []
        for _, kind, found, kernels, why in program_verdicts(
            name, [self], device, read=lambda name, _: self.program(name)
        ):
            if isinstance(why, DevmodError):
                reasons.append((kind, why))
                continue
            assert found is not None
            assert program is not None
            if build is not None:
                firsts = {
                    kernel: [candidate_of(kernel, next(each))] for kernel, each in kernels.items()
                }
                check_kernels(program, firsts)
                return UnbuiltProgram(self, program, self.functions[name], found, build)
            try:
                return self._function(program, found, kernels, device)
            except UNAVAILABLE as error:
                reasons.append((kind, error))
        where = "here"
        if device is not None:
            where = f"on {device}"
        raise _unavailable(name, where, reasons)

    def _check_kind(self, name: str, device: Device) -> None:
        """Raise ArgumentError if a kernel of the program has no candidate of a device's kind."""
        for kernel, modules in program_kernels(name, self).items():
            kinds = dict.fromkeys(each.kind for each in modules)
            if device.kind not in kinds:
                raise ArgumentError(
                    f"the program {quote_name(name)} cannot run on {device}: the candidates of its kernel {kernel!r} are of kind "
                    f"{', '.join(kinds)}",
                    kind="program",
                    function=name,
                    argument="device",
                )

    def _function(
        self,
        program: Program,
        device: Device,
        kernels: dict[str, Iterator[Module]],
        fixed_device: Device | None,
    ) -> ProgramFunction:
        functions = {}
        candidates = {}
        for kernel, modules in kernels.items():
            module, functions[kernel] = self._first_built(program.name, kernel, modules, device)
            candidates[kernel] = [candidate_of(kernel, module)]
        check_kernels(program, candidates)
        return ProgramFunction(
            self,
            program,
            self.functions[program.name],
            device,
            functions,
            fixed_device=fixed_device,
        )

    def _first_built(
        self, name: str, kernel: str, modules: Iterator[Module], device: Device
    ) -> tuple[Module, Function]:
        """Return the first candidate of a kernel that can be built for a device, and its function.
        Raise the error of the first if none can.
        """
        first: DevmodError | None = None
        for module in modules:
            try:
                if is_tuned(kernel, module):
                    owners = program_kernels(name, self)[kernel]
                    return module, join(kernel, module, owners, device, self)
                return module, module._function_on(kernel, device)
            except UNAVAILABLE as error:
                first = first or error
        assert first is not None
        raise first


def _names_needed(program: Program) -> set[str]:
    """Return the names of lengths and scalars in the shapes and requirements of a program."""
    needed: set[str] = set()
    for array in program.arrays("output", "temporary"):
        for length in array.shape:
            needed.update(names_in(length))
    for _, left, right in program.requires:
        needed.update(names_in(left), names_in(right))
    return needed


def _unavailable(name: str, where: str, reasons: Sequence[tuple[str, DevmodError]]) -> DevmodError:
    """Return the error for a program that can run on no kind, with the reason of each."""
    family: type[DevmodError] = DeviceNotFoundError
    for each in UNAVAILABLE:
        if any(isinstance(why, each) for _, why in reasons):
            family = each
            break
    lines = "".join(f"\n  {number}. {kind}: {why}" for number, (kind, why) in enumerate(reasons, 1))
    return family(
        f"the program {quote_name(name)} cannot run {where}:{lines}", kind="program", function=name
    )
