"""`devmod demo`: compile a kernel, run it here and draw its result."""

from __future__ import annotations

import os

import click

from devmod.commands import debug_option, echo, size

#: The steps that z → z² + c takes for the c of each point; at most 255.
SOURCE = """
__kernel void mandelbrot(__global uchar *steps, int width, int height)
{
    int column = get_global_id(0), row = get_global_id(1);
    if (column >= width || row >= height)
        return;
    float cx = 3.0f * column / width - 2.2f, cy = 2.4f * row / height - 1.2f, x = 0, y = 0;
    uchar count = 0;
    while (x * x + y * y < 4 && count < 255) {
        float next = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = next;
        count++;
    }
    steps[row * width + column] = count;
}
"""
WIDTH = 76
HEIGHT = 28
#: The characters of the picture: from points that leave at once to those that stay.
SHADES = " .,-=+*#%@"


@click.command("demo", short_help="Compile a kernel, run it here and draw its result.")
@debug_option
def command() -> int:
    """Compile a kernel of OpenCL C into a file, load the file, run the kernel on the first OpenCL
    device and draw its result.

    It needs devmod-core[build-opencl] and devmod-opencl; with devmod-opencl[pocl] the device is
    this processor.
    """
    import devmod
    from devmod.backend import temporary_folder
    from devmod.targets.opencl import SPEC

    with temporary_folder() as folder:
        path = os.path.join(folder, "mandelbrot.devmod")
        devmod.save(devmod.compile(SOURCE, SPEC.kind), path)
        echo(f"compiled, without a device, into a file of {size(os.path.getsize(path))}")
        kernel = devmod.load(path)["mandelbrot"]
        device = devmod.device(SPEC.kind)
        import numpy as np  # a runtime has it, and a build box does not

        steps = np.empty((HEIGHT, WIDTH), "uint8")
        kernel(steps, WIDTH, HEIGHT, grid=(10, 4), block=(8, 8))
    echo(f"loaded, and run on {device.name}:")
    for row in np.minimum(np.log2(steps) * (len(SHADES) - 1) / 7, len(SHADES) - 1).astype(int):
        echo("".join(SHADES[shade] for shade in row))
    return 0
