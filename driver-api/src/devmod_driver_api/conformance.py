"""What the conformance cases of the kinds share."""

from __future__ import annotations

from contextlib import contextmanager

from devmod_driver_api.images import LoadedImage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


@contextmanager
def watch_builds(on_build: Callable[[], None]) -> Iterator[None]:
    """Call `on_build` each time a driver loads an image while the body runs."""
    load = LoadedImage.__init__

    def load_and_report(image: LoadedImage, *args: Any) -> None:
        on_build()
        load(image, *args)

    LoadedImage.__init__ = load_and_report  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        LoadedImage.__init__ = load  # type: ignore[method-assign]
