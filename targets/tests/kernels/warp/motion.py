"""The Warp kernels of the vectors in targets/tests/vectors/warp, and of the tests where Warp is
installed.
"""

import warp as wp


@wp.struct
class Step:
    """What the kernel takes by value."""

    gravity: wp.vec3
    seconds: float
    count: wp.uint16


@wp.kernel
def move(
    positions: wp.array(dtype=wp.vec3),
    speeds: wp.array(dtype=wp.vec3),
    step: Step,
    turn: wp.mat22,
    scale: float,
):
    """Move each point by its speed."""
    i = wp.tid()
    if i < int(step.count):
        speed = speeds[i] + step.gravity * step.seconds
        shift = turn * wp.vec2(speed[0], speed[1])
        positions[i] = positions[i] + wp.vec3(shift[0], shift[1], speed[2]) * (step.seconds * scale)


@wp.kernel(enable_backward=False)
def fill(grid: wp.array2d(dtype=wp.int32)):
    """Write each place's number."""
    i, j = wp.tid()
    grid[i, j] = i * 100 + j
