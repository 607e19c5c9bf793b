"""Triton's hooks and its cache manager. Its files are unchanged."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from threading import local
from typing import Any

from devmod_readers.triton import RECORD_VARIABLE
from devmod_runtime._triton.record import record, record_choice
from devmod_runtime._triton.served import Server, lock
from devmod_runtime._triton.tuning import end_measurement, serve_choices

#: The files of this process.
server = Server()


class _Hook:
    """A hook of Triton, which calls the one that another had set before."""

    def __init__(self, owner: str, name: str, act: Callable[..., None]) -> None:
        self._owner = owner
        self._name = name
        self._act = act
        self._before: Callable[..., Any] | None = None
        #: Of the thread: a hook that was set later may call this one, and be called by it. A set of
        #: threads would have those of the parent in a fork, whose numbers come again.
        self._thread = local()

    def install(self, knobs: Any) -> None:
        """Set the hook, also if another was set in the meantime. An old Triton may not have it."""
        owner = getattr(knobs, self._owner)
        before = getattr(owner, self._name, None)
        if before is not self and hasattr(owner, self._name):
            self._before = before
            setattr(owner, self._name, self)

    def __call__(self, **arguments: Any) -> bool:
        """Return what the other hook returns, or False: True would skip a launch."""
        if getattr(self._thread, "is_calling", False):
            return False
        self._thread.is_calling = True
        try:
            if self._before is not None and self._before(**arguments):
                return True
            with lock:
                self._act(**arguments)
        finally:
            self._thread.is_calling = False
        return False


def _find(*, fn: Any, compile: Mapping[str, Any], **_: Any) -> None:  # noqa: A002
    """Find a kernel before Triton asks its cache."""
    server.find(fn.jit_function, compile)


def _record(*, fn: Any, compile: Mapping[str, Any], **_: Any) -> None:  # noqa: A002
    record(fn.jit_function, compile)


def _record_choice(*, fn: Any, key: Any, best_config: Any, configs_timings: Any, **_: Any) -> None:
    record_choice(fn, key, best_config, configs_timings)


_BEFORE = _Hook("runtime", "jit_cache_hook", _find)
_AFTER = (
    _Hook("runtime", "jit_post_compile_hook", _record),
    _Hook("autotuning", "listener", _record_choice),
)


def install() -> None:
    """Set Triton's hooks and its cache manager, also if another was set in the meantime."""
    knobs = import_module("triton.knobs")
    server.open_all()
    if server.open_installed():
        _BEFORE.install(knobs)
    if os.environ.get(RECORD_VARIABLE):
        for hook in _AFTER:
            hook.install(knobs)
    _set_manager(knobs.cache)
    _serialize_all()
    serve_choices(server)


#: The class of cache managers that the program has set in place of Triton's.
_previous: Any = None


def _set_manager(cache: Any) -> None:
    """Set the class of cache managers, if the program has set one."""
    global _previous
    current = vars(cache).get("manager_class")
    if current is not None and current is not manager_class():
        _previous = current
        cache.manager_class = manager_class()


def _serialize_all() -> None:
    """Let Triton pass a specialization to its hooks whose constants JSON does not have, such as a
    type in a tuple: it raises TypeError if there is a hook, and compiles it if there is none.
    """
    module: Any = import_module("triton.runtime.jit")
    serialize = module.serialize_specialization_data
    if getattr(serialize, "__module__", "") == __name__:
        return

    def serialize_specialization_data(*arguments: Any) -> str:
        with suppress(TypeError, ValueError):
            return str(serialize(*arguments))
        # The hooks here need nothing else. Another one must not take it for the whole.
        options = [vars(each) for each in arguments if hasattr(each, "num_warps")]
        with suppress(TypeError, ValueError, IndexError):
            return json.dumps({"options": options[0]})
        return ""

    module.serialize_specialization_data = serialize_specialization_data


def manager_class() -> Any:
    """Return the class of cache managers, whose base is Triton's."""
    made = globals().get("_CacheManager")
    if made is not None:
        return made
    cache: Any = import_module("triton.runtime.cache")

    class CacheManager(cache.CacheManager):  # type: ignore[misc]
        """Triton's cache of one key: the kernel from a file, or Triton's own cache."""

        def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
            self._key = key
            self._modes = {"override": override, "dump": dump}
            self._own: Any = None
            if not override and not dump:
                with lock:
                    install()
                    end_measurement(server)

        def _cache(self) -> Any:
            """Return Triton's own manager. It makes a folder, which no kernel of a file needs."""
            if self._own is None:
                self._own = (_previous or cache.FileCacheManager)(self._key, **self._modes)
            return self._own

        def get_file(self, filename: str) -> str | None:
            path: str | None = server.library(self._key, filename)
            return path or self._cache().get_file(filename)

        def put(self, data: Any, filename: str, binary: bool = True) -> str:
            return str(self._cache().put(data, filename, binary=binary))

        def get_group(self, filename: str) -> dict[str, str] | None:
            if not any(self._modes.values()):
                group = server.group(self._key, filename)
                if group is not None:
                    return group
            found: dict[str, str] | None = self._cache().get_group(filename)
            return found

        def put_group(self, filename: str, group: dict[str, str]) -> Any:
            server.compile_unseen(self._key, filename)
            return self._cache().put_group(filename, group)

    globals()["_CacheManager"] = CacheManager
    return CacheManager
