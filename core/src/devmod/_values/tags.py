"""TVM's launch parameter tags (R35), and the tags with a launch value.

A launch value is an integer that a caller of TVM passes after the arguments. The other tags are flags.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: The scopes of a launch, in the order of `devmod._launch.config`: grid, block, cluster, preferred cluster.
SCOPES = ("blockIdx", "threadIdx", "clusterCtaIdx", "preferredClusterCtaIdx")
#: Tag to (index in `SCOPES`, axis).
DIMENSIONS = {f"{scope}.{axis}": (index, number) for index, scope in enumerate(SCOPES) for number, axis in enumerate("xyz")}
#: Dynamic shared memory in bytes. In TVM it is the last tag, and its value is the last value.
DYNAMIC_SHARED_MEMORY = "tirx.use_dyn_shared_memory"
#: The start of WebGPU's tag: ``paramWriteAccess:[0,0,1]`` has a digit for each buffer.
WRITE_ACCESS = "paramWriteAccess:"


def value_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags that take a launch value, in the order of the values."""
    tags = tuple(tags)
    results = tuple(tag for tag in tags if tag in DIMENSIONS)
    return (*results, DYNAMIC_SHARED_MEMORY) if DYNAMIC_SHARED_MEMORY in tags else results


def with_shared_memory_last(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags with the tag of dynamic shared memory at the end."""
    tags = tuple(tags)
    return (*(tag for tag in tags if tag != DYNAMIC_SHARED_MEMORY), *(tag for tag in tags if tag == DYNAMIC_SHARED_MEMORY))
