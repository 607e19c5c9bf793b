"""Tuned functions: a call chooses a variant, and caches it by the device and the sizes.

The code of a repeated call is that of any function (`plain_call`), whose keys have the values of
some arguments too. A variant is a function that is not tuned, with the constants set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Self

from devmod import FunctionInfo, Interface
from devmod.backend import (
    ExpressionError,
    Variant,
    debug,
    interface_of,
    interface_with_block,
    names_in,
    parse_dtype,
    tuning_of,
)
from devmod.errors import DeviceMemoryError, DeviceNotFoundError, DevmodError, list_names
from devmod_runtime._device.device import Device, DeviceCache
from devmod_runtime._launch.arguments import Argument
from devmod_runtime._launch.config import Dims, LaunchRequest
from devmod_runtime._launch.function import Function, PerInstance, Rules, describe
from devmod_runtime._launch.launcher import LaunchConfig, Launcher
from devmod_runtime._launch.opening import keep
from devmod_runtime._tuning.choice import Values, VariantChooser, pairs_text
from devmod_runtime._tuning.offers import Offer, offers, tuned_candidates
from devmod_runtime._tuning.overlay import chooser_of


class VariantFunction(Function):
    """A variant: a function that is not tuned.

    Attributes
    ----------
    variant
        The variant.
    """

    variant: Variant

    def __init__(self, variant: Variant, *args: Any, **keywords: Any) -> None:
        self.variant = variant
        super().__init__(*args, **keywords)

    @property
    def label(self) -> str:
        return f"{super().label} ({pairs_text(self.variant.constants)})"


class _OnDevice:
    """What a tuned function knows of a device.

    Attributes
    ----------
    offers
        The variants that fit it, by their values; None if they were not read.
    chooser
        What chooses among them; None if it was not made.
    choices
        The chosen variants by the sizes.
    """

    def __init__(self) -> None:
        self.offers: dict[Values, Offer] | None = None
        self.chooser: VariantChooser | None = None
        self.choices: dict[tuple[int, ...], VariantFunction] = {}


class TunedFunction(Function):
    """A function with variants. Its first call for a device and for sizes chooses one.

    Attributes
    ----------
    tuning : Tuning
        The variants of its payload.
    """

    __doc__ = PerInstance(__doc__, describe)

    def __init__(
        self,
        name: str,
        info: FunctionInfo,
        launcher: Launcher,
        *,
        kernels: DeviceCache | None = None,
        interface: Interface | None = None,
        rules: Rules,
    ) -> None:
        tuning = tuning_of(info.interface)
        assert tuning is not None
        assert info.interface is not None
        self.tuning = tuning
        #: That of all variants.
        self._whole = info.interface
        if interface is None:
            interface = interface_with_block(info.interface, tuning.variants[0])
            if interface.newer:  # all variants have its parameters
                interface = info.interface
        super().__init__(name, info, launcher, kernels=kernels, interface=interface, rules=rules)
        #: The candidates whose variants it has, its own payload alone if it is of no bundle.
        self._candidates: Sequence[Any] = [self._rules.own]
        if self._rules.joined:
            self._candidates = tuned_candidates(name, self._rules.joined, tuning)
        #: The arguments whose values are part of the keys of calls, in the order of the call.
        self.key_arguments = self._find_key_arguments()
        self._callers = self._new_callers(is_unpacked=self._callers.is_unpacked)
        self._on_devices = DeviceCache()

    # -- public

    @property
    def variants(self) -> tuple[dict[str, Any], ...]:
        """The constants of each variant on the function's device. The first is the default."""
        found = self._offers_on(self.default_device()).values()
        return tuple(dict(each.variant.constants) for each in found)

    @property
    def block(self) -> tuple[int, int, int] | None:
        """The block of each variant on the function's device; None if they differ, or if a call or
        the backend chooses it.
        """
        found = self._offers_on(self.default_device()).values()
        blocks = {each.interface.block or each.interface.default_block for each in found}
        if len(blocks) > 1:
            return None
        return blocks.pop()

    def specialize(self, **constants: object) -> Self:
        """Return the function with constants set. One of the tuning's constants leaves one variant,
        with the default's other constants: nothing is chosen.

        Raises
        ------
        ArgumentError, LaunchError
            As for other functions. Where the receiver cannot set the constants, `variants` has all
            that there are.
        """
        others: dict[str, object] = dict(self._rules.constants)
        only = self._rules.only
        for name, value in constants.items():
            if name not in self.tuning.constants:
                others[name] = value
                continue
            if only is None:
                only = self.tuning.variants[0].constants
            only = {**only, name: value}
        rules = self._specialized_rules(constants)._replace(constants=others, only=only)
        if only in self.variants and others == self._rules.constants:
            return self.replace(**rules._asdict())  # it shares what is built
        self._launcher.specialize({**others, **(only or {})})  # raises the errors
        return self._class(self.name, self.info, self._launcher, rules=rules)

    def launch_config(
        self,
        *,
        threads: Dims = None,
        grid: Dims = None,
        block: Dims = None,
        shared_memory: int | None = None,
        **sizes: int,
    ) -> LaunchConfig:
        """Return the grid and the block that a call would use on the function's device.

        Parameters
        ----------
        threads, grid, block, shared_memory
            As in a call.
        **sizes
            The values of the arguments that decide the variant and the grid.

        Raises
        ------
        ArgumentError, LaunchError
            As in a call.
        """
        names = [each.name for each in self.key_arguments]
        if sizes.keys() != set(names):
            raise self._signature.error(
                f": launch_config takes the arguments that decide the variant and the grid: expected {list_names(names)}, got "
                f"{list_names(sizes)}",
                next(iter(sizes), ""),
            )
        device = self.default_device()
        function = self.choice(device, sizes)
        request = self._read(function, sizes, (), grid, block, threads, shared_memory)
        return function._config_reader.resolve(request, function.open(device))[0]

    # -- a call

    def requested(self, *given: Any) -> Any:
        """Return what a call gives, which the reader of a variant reads."""
        return given

    def chosen(
        self, device: Device, request: Any, values: list[Any]
    ) -> tuple[Function, LaunchRequest]:
        numbers = {}
        for argument in self.key_arguments:
            is_signed = parse_dtype(argument.type)[0] == 0
            data = values[argument.number]
            numbers[argument.name] = int.from_bytes(data, "little", signed=is_signed)
        function = self.choice(device, numbers)
        read = self._read(function, numbers, *request)
        read.key = tuple(numbers.values())
        return function, read

    def choice(self, device: Device, sizes: Mapping[str, int]) -> VariantFunction:
        """Return the variant of a call. It is built at the first use."""
        values = tuple([sizes[name] for name in self.tuning.sizes])
        choices = self._on_devices.get(device, _OnDevice).choices
        found = choices.get(values)
        if found is None:
            found = self._choose(device, values)
            keep(choices, values, found)
        return found

    def _choose(self, device: Device, sizes: tuple[int, ...]) -> VariantFunction:
        """Choose a variant, and build it. One that cannot be built is passed over, unless all
        cannot.
        """
        found = self._offers_on(device)
        failures: dict[Values, DevmodError] = {}
        while True:
            choice = self._chooser(device).choose(sizes, failures)
            offer = found[choice.values]
            text = f"{self.label} on {device} takes {pairs_text(offer.variant.constants)}: {choice.why}"
            try:
                function = self._function_of(offer)
                _open(function, device)
            except DeviceMemoryError:
                raise  # it may fit later
            except DevmodError as error:
                failures[choice.values] = error
                if len(failures) == len(found):
                    raise next(iter(failures.values())) from None
                debug(f"{text}. It cannot be built: {error}")
                continue
            debug(text)
            return function

    def _chooser(self, device: Device) -> VariantChooser:
        known = self._on_devices.get(device, _OnDevice)
        if known.chooser is None:
            variants = self._offers_on(device)
            records = self._rules.find_records(self.name)
            known.chooser = chooser_of(self.name, self._whole, variants, device, records)
        return known.chooser

    def _read(
        self,
        function: VariantFunction,
        numbers: Mapping[str, int],
        args: Sequence[Any],
        grid: Dims,
        block: Dims,
        threads: Dims,
        shared_memory: int | None,
    ) -> LaunchRequest:
        """Return the launch that a call requests of a variant, with its own grid."""
        variant = function.variant
        if variant.grid:
            for word, value in (("grid", grid), ("threads", threads), ("block", block)):
                if value is not None:
                    raise self._signature.error(
                        f" has a grid of its own, and was given {word}={value!r}; omit {word}=",
                        word,
                    )
            try:
                grid = variant.grid_of(numbers)
            except ExpressionError as error:
                at = pairs_text(numbers)
                raise function._signature.error(f", {at}: {error}", next(iter(numbers))) from None
        return function._config_reader.read(args, grid, block, threads, shared_memory)

    # -- the variants

    def plain(self, offer: Offer) -> VariantFunction:
        """Return the function of a variant that the function's own payload has."""
        constants = dict(self._rules.constants)
        if self.tuning.specialized:
            constants |= offer.variant.constants
        launcher = self._launcher
        if constants:
            launcher = launcher.specialize(constants)
        interface = offer.interface
        if launcher.interface is not None and offer.variant.interface is None:
            interface = launcher.interface  # with the block by a pipeline's constants
            if offer.variant.block:
                interface = interface.replace(block=offer.interface.block)
        return VariantFunction(offer.variant, self.name, self.info, launcher, interface=interface)

    def _function_of(self, offer: Offer) -> VariantFunction:
        """Return the function of a variant, made once for all functions of `replace`."""

        def make() -> VariantFunction:
            owner = self
            if self._rules.joined:
                owner = offer.module._unopened(self.name)
                if self._rules.constants:
                    owner = owner.specialize(**self._rules.constants)
            return owner.plain(offer)

        key = (offer.module, *offer.variant.constants.values())
        return self._kernels.get(key, make)

    def _offers_on(self, device: Device) -> dict[Values, Offer]:
        """Return the variants that fit a device, by their values. There is at least one."""
        known = self._on_devices.get(device, _OnDevice)
        if known.offers is not None:
            return known.offers
        found = offers(self.name, self._candidates, device, self._whole)
        if self._rules.only is not None:
            found = self._only(found, self._rules.only)
        if not found:
            raise self._signature.error(
                f" has no variant that fits {device}", family=DeviceNotFoundError
            )
        known.offers = found
        return found

    def _only(self, found: dict[Values, Offer], only: Mapping[str, Any]) -> dict[Values, Offer]:
        """Return the variant with some constants, which may be those of no variant."""
        values = tuple(only[name] for name in self.tuning.constants)
        if values in found:
            return {values: found[values]}
        for offer in found.values():
            tuning = tuning_of(interface_of(offer.module, self.name))
            if tuning is not None and tuning.specialized:
                variant = offer.variant._replace(constants=dict(only))
                interface = interface_with_block(self._whole, variant)
                return {values: Offer(offer.module, variant, interface)}
        return {}

    def open_early(self) -> object:
        """Read what chooses on the function's device, and build the variant if it depends on no
        sizes.
        """
        device = self.default_device()
        chooser = self._chooser(device)
        if self.tuning.sizes:
            return chooser
        return self.choice(device, {})

    def _find_key_arguments(self) -> list[Argument]:
        """Return the arguments that decide the variant or a grid."""
        names = set(self.tuning.sizes)
        for module in self._candidates:
            tuning = tuning_of(interface_of(module, self.name))
            assert tuning is not None
            for expression in chain(*{variant.grid for variant in tuning.variants}):
                names.update(names_in(expression))
        return [each for each in self._signature.arguments if each.name in names]

    # -- descriptions

    @property
    def launch_keywords(self) -> tuple[str, ...]:
        first = self.tuning.variants[0]
        if first.grid:
            return ()
        if first.block:
            return "grid", "threads"
        return super().launch_keywords

    def launch_text(self) -> str:
        """Return how a call gives the grid and the block, and what chooses the variant."""
        text = "the grid and the block are those of the variant"
        if self.launch_keywords:
            text = "threads= or grid=; the block is that of the variant"
        decides = ", ".join(["the device", *self.tuning.sizes])
        constants = ", ".join(self.tuning.constants)
        return (
            f"{text}, one of {len(self.tuning.variants)} by {constants}, which depends on {decides}"
        )


def _open(function: VariantFunction, device: Device) -> None:
    """Build a variant. Raise LaunchError if the device does not run its block."""
    kernel = function.open(device)
    block = function.block
    if block is not None:
        kernel.shape(LaunchConfig((1, 1, 1), block))
