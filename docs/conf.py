"""How `make docs` builds these pages: Sphinx, MyST for Markdown, and the API reference from the
docstrings.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import devmod

if TYPE_CHECKING:
    from sphinx.application import Sphinx

sys.path.insert(
    0, str(Path(__file__).resolve().parent.parent / "extras" / "tvm" / "src")
)  # devmod-tvm needs a compiler to be installed
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import generated_pages
import try_page

project = "devmod"
author = copyright = "the devmod authors"  # noqa: A001 - Sphinx's name
version = release = devmod.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"devmod {version}"
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0f766e",
        "color-brand-content": "#0f766e",
        "content-padding": "2em",
    },
    "dark_css_variables": {"color-brand-primary": "#4bc0b5", "color-brand-content": "#4bc0b5"},
}
html_copy_source = False
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["tables.css", "try.css"]

#: The pages that have left, each with the section that has their content.
REDIRECTS = {
    "api-interop": "api.html#other-systems",
    "api-modules": "api.html#modules",
    "api-readers": "api-build.html#devmod_readerssources",
    "api-running": "api.html#running",
    "commands": "command-line.html#commands",
    "driver-api": "backend.html#what-more-a-device-can-do",
    "frozen": "own-wheel.html#frozen-vendored-registered-by-hand",
    "hexagon-runner": "hexagon.html#a-board",
    "processes": "reliability.html#processes-and-forks",
    "rocm-functions": "rocm.html#functions-of-cuda-and-hip",
    "rows": "contract.html#which-test-shows-each-row",
    "sanitize": "cuda-without-a-gpu.html#sanitize-a-kernel",
    "test-in-ci": "find-out-what-is-wrong.html#test-in-ci-without-a-gpu",
    "tried": "comparison.html#projects-that-were-tried",
    "try": "browser.html#try-it-here",
    "tvm": "frameworks.html#run-tvms-models-on-opencl-vulkan-webgpu",
    "upgrading": "errors.html#if-versions-do-not-fit",
}
templates_path = ["_templates"]
html_additional_pages = dict.fromkeys(REDIRECTS, "redirect.html")
html_context = {"redirects": REDIRECTS}

myst_heading_anchors = 4  # the anchors that GitHub gives, so that a link works here and there

default_role = "literal"  # `name` in a docstring is a name, as in Markdown
smartquotes = False  # a "string" in a docstring stays what can be typed
napoleon_google_docstring = False
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_mock_imports = [
    "torch",
    "jax",
    "tvm_ffi",
]  # devmod-frameworks imports them, and this environment has none
autodoc_typehints_format = "short"
maximum_signature_line_length = 88  # a longer one has a line for each parameter
autodoc_default_options = {"members": True, "inherited-members": False}


def setup(app: Sphinx) -> None:
    """Add the generated sections and the sidebar's lists. Skip the fields of named tuples."""

    def read(_: Sphinx, name: str, source: list[str]) -> None:
        source[0] = generated_pages.built(name, source[0])

    def skip(*event: object) -> bool | None:
        """Skip the fields of named tuples, which the text of the class describes; Python's text has
        their numbers alone.
        """
        return (
            True
            if str(getattr(event[3], "__doc__", "")).startswith("Alias for field number")
            else None
        )

    app.connect("env-get-outdated", lambda *_: generated_pages.names())
    app.connect("source-read", read)
    app.connect("autodoc-skip-member", skip)
    app.connect(
        "build-finished",
        lambda app, error: None if error else try_page.write_files(Path(app.outdir) / "_static"),
    )
