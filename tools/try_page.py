"""The files that docs/browser.md fetches: the npm package, the two `.devmod` files, and a photo.
`make docs` copies them to the built pages.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import devmod
from devmod._formats.index import HEADER
from devmod._formats.ranges import PIN
from environments import ROOT


def write_files(static: Path) -> None:
    """Write the files into the folder `_static` of the built pages. Write their sizes and digests
    into try.js.
    """
    folder = static / "try"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(
        ROOT / "extras" / "browser" / "js" / "src", static / "devmod-webgpu", dirs_exist_ok=True
    )
    shutil.copy(ROOT / "examples" / "applications" / "digits" / "digits.devmod", folder)
    shutil.copy(ROOT / "examples" / "images" / "lake.png", folder)
    pictures = folder / "pictures.devmod"
    devmod.build(
        ROOT / "examples" / "applications" / "pictures",
        targets=["webgpu"],
        output=pictures,
        cache=False,
    ).raise_for_failures()
    sizes = {
        name: (folder / path).stat().st_size
        for name, path in (
            ("digits", "digits.devmod"),
            ("pictures", pictures),
            ("lake", "lake.png"),
        )
    }
    sizes["package"] = sum(each.stat().st_size for each in (static / "devmod-webgpu").iterdir())
    script = static / "try.js"
    text = script.read_text(encoding="utf-8")
    text = re.sub(
        r"(\w+): 0(?=[,} ])", lambda match: f"{match[1]}: {sizes[match[1]]}", text, count=4
    )
    for name in ("digits", "pictures"):
        with open(folder / f"{name}.devmod", "rb") as file:
            header = file.read(HEADER)
        text = text.replace(f'{name}: ""', f'{name}: "{PIN}{header[16:].hex()}"', 1)
    script.write_text(text, encoding="utf-8")
