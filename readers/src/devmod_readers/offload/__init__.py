"""Containers of device code that other compilers wrote, taken apart into images.

- `read_images` returns the images of a container. An `OffloadImage` has its kind, its format, its name and its bytes.
- `is_container` returns whether bytes begin with the magic of a container of several images.

`devmod.interop.offload.load` makes a module of a container.
"""

from __future__ import annotations

from devmod_readers.offload._images import OffloadImage as OffloadImage
from devmod_readers.offload._images import is_container as is_container
from devmod_readers.offload._images import read_images as read_images

__all__ = ["OffloadImage", "is_container", "read_images"]
