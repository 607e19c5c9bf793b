"""What Triton's autotuner takes from files in place of a measurement."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from types import FrameType
from typing import Any

from devmod_runtime._triton.served import Server, lock

_MODULE = "triton.runtime.autotuner"
#: Whether a measurement may have begun before the autotuner was changed.
_may_be_late = True


def serve_choices(server: Server) -> None:
    """Let Triton's autotuner keep the one configuration that a file has chosen, of those that it
    would measure. Of one, it measures none.
    """
    tuner: Any = getattr(import_module(_MODULE), "Autotuner", None)
    prune = getattr(tuner, "prune_configs", None)
    if prune is None or prune.__module__ == __name__:
        return

    def prune_configs(self: Any, kwargs: Any) -> Any:
        configs = [*prune(self, kwargs)]  # a function of the program may return any iterable
        if len(configs) < 2:
            return configs
        with lock:
            chosen = server.choice(self, kwargs, configs)
        return configs if chosen is None else [chosen]

    tuner.prune_configs = prune_configs


def end_measurement(server: Server) -> None:
    """End the measurement that this thread is in, if a file has the choice. With the variable
    alone, Triton asks its cache for the first time there, when the configurations are in a list
    that is not to be changed.

    Raises
    ------
    OutOfResources
        The first configuration is being measured. Triton's autotuner then takes the next one.
    """
    global _may_be_late
    if not _may_be_late:
        return
    frames = {frame.f_code.co_name: frame for frame in _frames_of_autotuner()}
    names = frames["run"].f_locals if "run" in frames else {}
    if "prune_configs" in frames and "pruned_configs" not in names:
        return  # the measurement begins behind it
    _may_be_late = False
    configs = names.get("pruned_configs")
    if not isinstance(configs, list) or len(configs) < 2:
        return
    current = configs[0]
    if "_bench" in frames:
        current = frames["_bench"].f_locals.get("config")
    if current is not configs[0]:
        return
    tuner = names["self"]
    # The one that is being made asks this cache. Its target is needed now.
    chosen = server.choice(tuner, names["kwargs"], configs)
    if chosen is None:
        return
    _answer(tuner, configs, chosen)
    if "_bench" in frames:
        raise _chosen_error()


def _frames_of_autotuner() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == _MODULE:
            yield frame
        frame = frame.f_back


def _answer(tuner: Any, configs: list[Any], chosen: Any) -> None:
    """Answer for the configurations of one measurement. No time is finite, so none is recorded."""

    def bench(*_arguments: Any, config: Any, **_named: Any) -> list[float]:
        if config is configs[-1]:
            del tuner._bench
        time = float("-inf" if config is chosen else "inf")
        return [time] * 3

    tuner._bench = bench


def _chosen_error() -> Exception:
    """Return an error that means for Triton's autotuner that a configuration cannot be used."""
    base: Any = import_module("triton.runtime.errors").OutOfResources

    class Chosen(base):  # type: ignore[misc]
        def __str__(self) -> str:
            return "it is not measured: a file of devmod has the choice"

    error: Exception = Chosen(0, 0, "")
    return error
