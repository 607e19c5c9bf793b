"""The choices of ``triton.autotune`` that files have: a function that was measured on an equal GPU
is not measured again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

from devmod.backend import debug
from devmod.errors import describe_error
from devmod_readers.triton import Choice, encode, function_name, source_digest


class Choices:
    """The choices of the files of a process, by what they are for."""

    def __init__(self) -> None:
        self._choices: dict[str, Choice] = {}

    def add(self, triton: str, choices: Iterable[Choice]) -> None:
        """Add the choices of a file. That of an earlier file stays."""
        if triton != import_module("triton").__version__:
            return
        for each in choices:
            self._choices.setdefault(each.place, each)

    def find(self, tuner: Any, named: Mapping[str, Any], configs: Sequence[Any]) -> Any:
        """Return the configuration to take of those that Triton would measure; None if no file has
        a choice among exactly these.
        """
        if not self._choices:
            return None
        name = "a function"
        try:
            function = tuner.fn
            while not isinstance(getattr(function, "src", None), str):
                function = function.fn
            name = function_name(function)
            place = Choice(
                name, source_digest(function), gpu(), _key(tuner, named), {}, 0, []
            ).place
            choice = self._choices.get(place)
            texts = [_text(config_of(each)) for each in configs]
            measured = []
            if choice is not None:
                measured = [_text(choice.config), *(_text(each) for each, _ in choice.others)]
        except Exception as error:  # noqa: BLE001 - another Triton, or a value without a text
            debug(f"Triton measures the configurations of {name}: {describe_error(error)}")
            return None
        if not measured:
            debug(f"Triton measures the configurations of {name}: no file has a choice for {place}")
            return None
        if sorted(texts) != sorted(measured):
            debug(f"Triton measures the configurations of {name}: the file has others")
            return None
        return configs[texts.index(measured[0])]


def _text(config: Mapping[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)


def _key(tuner: Any, named: Mapping[str, Any]) -> list[Any]:
    """Return the key of a launch, as Triton's autotuner makes it."""
    arguments = {**tuner.nargs, **named}
    known = {name: value for name, value in arguments.items() if name in tuner.arg_names}
    key = [known[name] for name in tuner.keys if name in known]
    key += [str(value.dtype) for value in known.values() if hasattr(value, "dtype")]
    return key_of(key)


def key_of(key: Iterable[Any]) -> list[Any]:
    """Return a key of autotune as a record has it."""
    return [each if isinstance(each, (int, str)) else str(each) for each in key]


def config_of(config: Any) -> dict[str, Any]:
    """Return a configuration as a record has it."""
    return {str(name): encode(value) for name, value in config.all_kwargs().items()}


def gpu() -> str:
    """Return what a choice depends on: the processor, the threads of a warp, and the number of
    multiprocessors, which differs between the GPUs of one architecture.
    """
    active = import_module("triton.runtime.driver").driver.active
    target = active.get_current_target()
    properties = active.utils.get_device_properties(active.get_current_device())
    number = properties["multiprocessor_count"]
    return f"{target.backend}:{target.arch}:{target.warp_size}:{number}"
