"""TVM's launch parameter tags (R35). This is their only list; `extras/browser/js/src/tags.js` has
the browser's copy.

A tag with a launch value is followed by an integer that a caller of TVM passes after the arguments.
The other tags are flags.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: The scopes of a launch, in the order of `devmod_runtime._launch.config`: grid, block, cluster,
#: preferred cluster.
SCOPES = ("blockIdx", "threadIdx", "clusterCtaIdx", "preferredClusterCtaIdx")
# Where to change: a launch tag
#   here: `DIMENSIONS`, `DYNAMIC_SHARED_MEMORY`, `COOPERATIVE_TAG`
#   also: what acts on it: `plugins/runtime/src/devmod_runtime/_launch/config.py`
#     (`LaunchConfigReader`) for a tag with a value, `_launch.py` of the backend for a flag;
#     `extras/browser/js/src/tags.js` has the browser's copy; `docs/calling.md` lists them,
#     `core/src/devmod/backend.py` and `docs/api-backends.md` have the names for authors
#   tests: `tests/test_repository.py`, `plugins/runtime/tests/toy/test_launch_config.py`
#: Tag to (index in `SCOPES`, axis).
DIMENSIONS: dict[str, tuple[int, int]] = {}
for _index, _scope in enumerate(SCOPES):
    for _number, _axis in enumerate("xyz"):
        DIMENSIONS[f"{_scope}.{_axis}"] = (_index, _number)
#: The tags of the grid and the block.
GRID_TAGS = tuple(tag for tag, (index, _) in DIMENSIONS.items() if index < 2)
#: Dynamic shared memory in bytes. In TVM it is the last tag, and its value is the last value.
DYNAMIC_SHARED_MEMORY = "tirx.use_dyn_shared_memory"
#: The flags. The spelling of the first is TVM's.
PROGRAMMATIC_TAG = "tirx.use_programtic_dependent_launch"
COOPERATIVE_TAG = "tirx.use_cooperative_launch"
REQUIRED_BLOCK_TAG = "tirx.use_required_block_dimension"
#: The start of WebGPU's tag: ``paramWriteAccess:[0,0,1]`` has a digit for each buffer.
WRITE_ACCESS_TAG = "paramWriteAccess:"

_KNOWN = frozenset(
    (*DIMENSIONS, DYNAMIC_SHARED_MEMORY, PROGRAMMATIC_TAG, COOPERATIVE_TAG, REQUIRED_BLOCK_TAG)
)


def value_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags that take a launch value, in the order of the values."""
    return tuple(tag for tag in tags if tag in DIMENSIONS or tag == DYNAMIC_SHARED_MEMORY)


def tag_problem(tags: Iterable[str]) -> str:
    """Return why a function with these tags cannot be called, as the end of a sentence; "" if it
    can. TVM's runtime raises for them too.
    """
    tags = tuple(tags)
    for number, tag in enumerate(tags):
        if tag == DYNAMIC_SHARED_MEMORY and number != len(tags) - 1:
            return f"its launch tag {tag!r} is not the last"
        if tag not in _KNOWN and not tag.startswith(WRITE_ACCESS_TAG):
            return (
                f"its launch tag {tag!r} is unknown; expected {', '.join(SCOPES)} with .x, .y or .z, or one of "
                f"{', '.join(sorted(_KNOWN - DIMENSIONS.keys()))}, {WRITE_ACCESS_TAG}[…]"
            )
    return ""
