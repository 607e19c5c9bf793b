"""The notebook of examples/ runs in a new kernel, draws each picture on each device, and has no
stored outputs.
"""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import blocks
from PIL import Image

import devmod

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
NOTEBOOK = EXAMPLES / "one_call.ipynb"
#: Wrong calls in further cells.
#: What reads the text of a kernel, from docs/calling.md.
(PRINTING,) = [
    f"import devmod\n{block}"
    for mark, _, block in blocks((EXAMPLES.parent / "docs" / "calling.md").read_text())
    if mark == "run" and "os.dup2" in block
]
WRONG = (
    "mandelbrot(1, threads=8)",
    "def draw():\n    mandelbrot(1, threads=8)\ndraw()",
    "devmod.device('openCL')",
)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run the notebook with this Python, without the settings of the user."""
    import nbclient
    import nbformat

    home = tmp_path_factory.mktemp("jupyter")
    with pytest.MonkeyPatch.context() as patch:
        for name in (
            "IPYTHONDIR",
            "JUPYTER_CONFIG_DIR",
            "JUPYTER_DATA_DIR",
            "JUPYTER_RUNTIME_DIR",
            "DEVMOD_CACHE_DIR",
        ):
            patch.setenv(name, str(home / name.lower()))
        patch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        notebook.cells += [
            nbformat.v4.new_code_cell(source, metadata={"tags": ["raises-exception"]})
            for source in (*WRONG, PRINTING)
        ]
        # The default limits on time would make the result depend on the load of the machine.
        client = nbclient.NotebookClient(
            notebook,
            timeout=None,
            startup_timeout=3600,
            resources={"metadata": {"path": str(EXAMPLES)}},
        )
        return client.execute()


def outputs(notebook: Any, line: str) -> list[Any]:
    """Return the outputs of the one cell whose source has a line."""
    (cell,) = [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code" and line in cell.source.splitlines()
    ]
    return list(cell.outputs)


def text(notebook: Any, line: str) -> str:
    """Return what a cell printed, and its result as text."""
    return "".join(
        each.text if each.output_type == "stream" else each.data["text/plain"]
        for each in outputs(notebook, line)
    )


def pictures(notebook: Any, line: str) -> list[np.ndarray]:
    """Return the pictures that a cell displayed."""
    encoded = [
        each.data["image/png"]
        for each in outputs(notebook, line)
        if "image/png" in each.get("data", {})
    ]
    return [
        np.asarray(Image.open(io.BytesIO(base64.b64decode(each))).convert("RGB"), dtype=np.int32)
        for each in encoded
    ]


@pytest.mark.parametrize(
    "line", ["    display(coloured(escape))", "    display(Image.fromarray(pixels))"]
)
def test_it_draws_the_same_picture_on_each_device(executed: Any, line: str) -> None:
    # A kind whose compiler is missing here is not in the bundle of the notebook.
    devices = [
        str(device) for device in devmod.devices() if str(device) in text(executed, "devices")
    ]
    assert any(device.startswith("opencl") for device in devices)
    drawn = pictures(executed, line)
    assert len(drawn) == len(devices)
    assert all(device in text(executed, line) for device in devices)
    assert drawn[0].std() > 20
    assert all(np.abs(picture - drawn[0]).max() <= 3 for picture in drawn)


def test_it_shows_signatures_arrays_and_an_error(executed: Any) -> None:
    assert "mandelbrot(escape, width, height, left, top, pixel, steps)" in text(
        executed, "mandelbrot"
    )
    described = text(executed, "help(mandelbrot)")
    for line in (
        "escape : float32* ",
        "steps : int32",
        "threads= or grid=",
        "opencl/cl",
        "webgpu/wgsl",
    ):
        assert line in described
    assert "opencl LaunchConfig(grid=(" in text(
        executed,
        "    print(device.kind, mandelbrot.on(device).launch_config(threads=(WIDTH, HEIGHT)))",
    )
    assert text(executed, "blurred").startswith("<Array uint32[320, 480] on ")
    assert "has no argument 'bands'" in text(executed, "except devmod.ArgumentError as error:")


def test_the_traceback_of_a_wrong_call_has_the_frames_of_the_cell_alone(executed: Any) -> None:
    shown = []
    for source in WRONG:
        (error,) = outputs(executed, source.splitlines()[0])
        lines = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(error.traceback)).splitlines()
        shown.append([re.sub(r"Cell In\[\d+\]", "Cell", line) for line in lines[2:]])
    call, function, kind = shown
    assert call[:-1] == ["Cell, line 1", "----> 1 mandelbrot(1, threads=8)", ""]
    assert call[-1].startswith("ArgumentError: the ")
    assert function[:-1] == [
        *(
            "Cell, line 3",
            "      1 def draw():",
            "      2     mandelbrot(1, threads=8)",
            "----> 3 draw()",
            "",
        ),
        *(
            "Cell, line 2, in draw()",
            "      1 def draw():",
            "----> 2     mandelbrot(1, threads=8)",
            "",
        ),
    ]
    assert (
        kind[-1]
        == "FormatError: 'openCL' is not a kind. Did you mean 'opencl'? The kinds: cuda, hexagon, metal, opencl, rocm, vulkan, webgpu"
    )
    assert len(kind) == 4


def test_it_shows_what_a_kernel_prints(executed: Any) -> None:
    assert text(executed, "import tempfile") == "n is 3\n"


def test_git_has_no_outputs() -> None:
    import nbformat

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.source for cell in cells if cell.outputs or cell.execution_count] == []
