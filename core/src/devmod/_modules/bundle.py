"""The `bundle` node: candidates for the same functions."""

from __future__ import annotations

from _collections_abc import Mapping  # collections.abc, without the package collections

from devmod._modules.module import RUNNABLE, Module, holds_candidates, owners_of, walk
from devmod._plugins.discovery import shared_scan
from devmod._util.environment import environment_text
from devmod._util.text import is_valid_name, lower_case_hint
from devmod.errors import (
    ArgumentError,
    FormatError,
    FunctionNotFoundError,
    function_not_found,
    list_names,
)
from devmod.targets import PROGRAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Any

    from devmod import Device, Function
    from devmod._arrays.array import Array
    from devmod._modules.agreement import Agreement
    from devmod._values.code import Functions, Names
    from devmod._values.info import FunctionInfo


class BundleModule(Module):
    """A node of candidates; see `devmod.bundle`. It can run. Only `devmod.save` and `devmod.dumps`
    save it.

    Parameters
    ----------
    candidates
        The candidates in the order of the file. A candidate may be a bundle.
    prefer
        The kinds to try first.
    """

    _devmod_candidates = True

    def __init__(self, candidates: Iterable[Module], prefer: Names = ()) -> None:
        modules = tuple(candidates)
        for module in modules:
            if not isinstance(module, Module):
                raise FormatError(
                    f"a bundle holds modules, not {type(module).__name__}", kind="bundle"
                )
        self._prefer = prefer
        #: Returns what the candidates of a function have in common; None: each call compares its
        #: candidates.
        self.find_agreement: Callable[[str], Agreement | None] | None = None
        #: The functions by request, so that devices are listed once for each. A failure is not
        #: cached.
        self._functions: dict[tuple[object, ...], Any] = {}
        self._devmod_imports = modules

    @property
    def kind(self) -> str:
        return "bundle"

    @property
    def functions(self) -> Functions:
        """The functions of all candidates. A function of several candidates has the info of the
        first, which is decoded when it is used.
        """
        return _Functions(self._owners)

    @property
    def function_names(self) -> Collection[str]:
        return self._owners.keys()

    @property
    def _owners(self) -> Mapping[str, Module]:
        """The first candidate of each function."""
        owners: dict[str, Module] = {}
        with shared_scan():
            for candidate in self.candidates:
                for name in candidate.function_names:
                    owners.setdefault(name, candidate)
        return owners

    @property
    def candidates(self) -> tuple[Module, ...]:
        """The candidates in order, with those of nested bundles."""
        modules = walk(*self.imports, enter=holds_candidates)
        return tuple(module for module in modules if not holds_candidates(module))

    @property
    def order(self) -> Names:
        """The kinds to try first, with those of DEVMOD_PREFER."""
        return (*self._prefer, *kinds_in(environment_text("DEVMOD_PREFER")))

    @property
    def property_mask(self) -> int:
        return RUNNABLE

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        """Return the function of the first candidate that is installed and fits a device.

        Raises
        ------
        FunctionNotFoundError
            No candidate has the function.
        PluginError, DeviceNotFoundError, RuntimeNotLinkedError, NotRegisteredError
            No candidate with the function can run here; the message lists the problem of each. The
            error class is the first that applies: a runtime is broken; no device fits an installed
            runtime's candidate; some are fallbacks; all are missing.
        """
        order = self.order
        key = (
            name,
            query_imports,
            order,
            environment_text("DEVMOD_DEVICE"),
            len(self._devmod_imports or ()),
            self._devmod_tuning,
        )
        function = self._functions.get(key)
        if function is None:
            with shared_scan():
                function = self._functions[key] = self._with(_functions={})._choose(
                    name, self._owners_of(name, query_imports), order
                )
        return function

    def _function_on(self, name: str, device: Device) -> Function:
        with shared_scan():
            return self._choose_on(name, self._owners_of(name), device)

    def get_global(self, name: str, device: Device | None = None, **options: Any) -> Array:
        """Return the global of the first candidate that has it, is installed and fits a device. The
        parameters are those of `Module`.

        Raises
        ------
        FunctionNotFoundError
            Candidates can run here, and none has the global.
        PluginError, DeviceNotFoundError, RuntimeNotLinkedError, NotRegisteredError
            No candidate can run here, as for `get_function`. Only a runtime can list the globals.
        """
        from devmod._modules.choice import choose

        missing = []

        def get(module: Module, _: Device | None) -> Array | None:
            try:
                return module.get_global(name, device, **options)
            except FunctionNotFoundError as error:
                missing.append(str(error))
                return None

        with shared_scan():
            array: Array | None = choose(name, self, self.candidates, self.order, get, device)
        if array is None:
            problem = f"no candidate of the bundle that can run here has a global {name!r}"
            raise FunctionNotFoundError(
                "; ".join([problem, *missing]), kind="bundle", function=name
            )
        return array

    def _signature_of(self, name: str) -> str:
        """Return the signature of a call that reaches each candidate, or else that of the first
        candidate.
        """
        from devmod._modules.agreement import common_signature, functions_of

        candidates = [each for each in self.candidates if name in each.function_names]
        return common_signature(name, functions_of(candidates)) or super()._signature_of(name)

    def save_to_bytes(self) -> bytes:
        """Raise FormatError: a bundle is saved as a whole file."""
        raise FormatError(
            "a bundle has no bytes of its own; devmod.save and devmod.dumps write it with its candidates",
            kind="bundle",
        )

    def import_module(self, other: Module) -> None:
        self.find_agreement = None  # it knows those of the other candidates
        super().import_module(other)

    # -- inside

    def _owners_of(self, name: str, query_imports: bool = False) -> list[Module]:
        """Return the candidates that have a function, or import it. Raise FunctionNotFoundError if
        there is none.
        """
        candidates = self.candidates
        if query_imports:
            owners = list(owners_of(name, *candidates))
        else:
            owners = [each for each in candidates if name in each.function_names]
        if not owners:
            raise function_not_found("bundle", name, self.function_names)
        return owners

    def _choose(
        self,
        name: str,
        owners: Sequence[Module],
        prefer: Names,
        device: Device | None = None,
    ) -> Any:
        """Return the function of the chosen candidate, with the rules that all candidates share.
        Its `on` chooses again.
        """

        def get(module: Module, fitting_device: Device | None) -> Any:
            if is_tuned(name, module):
                return join(name, module, owners, fitting_device, self)
            if fitting_device is None:
                return module.get_function(name)
            return module._function_on(name, fitting_device)

        if owners[0].kind == PROGRAM:
            return self._choose_program(name, owners, device)
        from devmod._modules.agreement import Agreement, agreement, common_block, has_names
        from devmod._modules.choice import choose, describe_candidate, is_tuned

        fitting = owners
        if device is not None:
            fitting = [each for each in owners if each.kind == device.kind]
        function = choose(name, self, fitting, prefer, get, device)
        replace = getattr(function, "replace", None)
        if replace is None:  # a backend may have functions of its own, and a const_loader has
            return function
        common = None
        # Without names, the arguments can only be given in the candidate's own order.
        if has_names(function.info.interface):
            find = self.find_agreement
            common = agreement(name, owners) if find is None else find(name)
        if common is None:
            common = Agreement(frozenset(), "")
        following = None
        if device is None:
            from devmod._modules.following import Following

            following = Following(
                [(each, name) for each in owners],
                function.kind,
                self._prefer,
                lambda device: self._choose_on(name, owners, device),
            )
        return replace(
            keywords_only=common.keywords_only,
            flattened=common.flattened,
            following=following,
            resolve=lambda device: self._choose_on(name, owners, device),
            find_devices=lambda: _fitting_devices(name, owners),
            variants=lambda: [describe_candidate(each) for each in owners],
            find_block=lambda: common_block(name, owners),
        )

    def _choose_program(self, name: str, owners: Sequence[Module], device: Device | None) -> Any:
        """Return a program of the first module that has one for the first kind. The module chooses
        among the candidates of its kernels.
        """
        from devmod._modules.choice import program_verdicts
        from devmod._modules.programs import read_program

        programs = [each for each in owners if each.kind == PROGRAM]
        program = programs[0]
        if len(programs) > 1:  # of a merged file
            found = program_verdicts(name, programs, device, read=read_program)
            for each, kind, fitting, _, _ in found:
                if fitting is not None:
                    program = each
                    break
                # Without a fitting one, one of the device's kind has the reason.
                if device is not None and kind == device.kind:
                    program = each
        if device is None:
            function = program.get_function(name)
        else:
            function = program._function_on(name, device)
        if len(programs) == 1:
            return function
        return function.replace(
            modules=programs,
            resolve=lambda device: self._choose_on(name, owners, device),
            find_devices=lambda: _fitting_devices(name, programs),
        )

    def _choose_on(self, name: str, owners: Sequence[Module], device: Device) -> Function:
        if owners[0].kind != PROGRAM and all(each.kind != device.kind for each in owners):
            kinds = ", ".join(dict.fromkeys(each.kind for each in owners))
            raise ArgumentError(
                f"the function {name!r} of the bundle cannot run on {device}: its candidates are of kind {kinds}",
                kind="bundle",
                function=name,
                argument="device",
            )
        function: Function = self._choose(name, owners, (), device)
        return function


def _fitting_devices(name: str, owners: Sequence[Module]) -> list[Device]:
    from devmod._modules.fitting import fitting_devices

    return fitting_devices(name, owners)


class _Functions(Mapping[str, "FunctionInfo"]):
    """The functions of a bundle. A damaged function raises FormatError when it is used, and the
    others are not affected.
    """

    def __init__(self, owners: Mapping[str, Module]) -> None:
        self._owners = owners

    def __getitem__(self, name: str) -> FunctionInfo:
        return self._owners[name].functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._owners)

    def __len__(self) -> int:
        return len(self._owners)

    def __repr__(self) -> str:
        return f"<functions {list_names(self)}>"


def kinds_in(prefer: Sequence[str] | str, source: str = "DEVMOD_PREFER") -> Names:
    """Return the kinds in a sequence, or in a text separated by commas.

    Raises
    ------
    FormatError
        A kind is not a valid name. `source` names the sequence in the message.
    """
    kinds: Sequence[Any] = [prefer]
    if isinstance(prefer, str):
        kinds = prefer.split(",")
    elif hasattr(prefer, "__iter__"):
        kinds = list(prefer)
    if not all(isinstance(kind, str) for kind in kinds):
        raise FormatError(
            f"{source} is a sequence of kinds such as ('cuda', 'opencl'), not {prefer!r}"
        )
    names = tuple(kind.strip() for kind in kinds if kind.strip())
    for name in names:
        if not is_valid_name(name):
            raise FormatError(f"{source} has {name!r}, which is not a kind{lower_case_hint(name)}")
    return names


def join(
    name: str, module: Module, owners: Sequence[Module], device: Device | None, root: Module
) -> Any:
    """Return a tuned function of a candidate with the variants of all candidates of its kind.

    Parameters
    ----------
    name, module, owners
        The function, the best candidate, and all.
    device
        The device of its calls; None for the default device.
    root
        The module with the records of the file.
    """
    function = module._unopened(name)
    of_kind = [each for each in owners if each.kind == module.kind]
    function = function.replace(joined=of_kind, find_records=root._records_of, device=device)
    function.open_early()
    return function
