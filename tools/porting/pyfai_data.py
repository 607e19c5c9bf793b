"""Make the pictures that pyFAI's OpenCL tests download, in the folder PORTS_DATA, and print the
variables of their place: rings of powder for two detectors, one with the peaks that a test expects.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import fabio
import numpy as np

#: The places of the peaks in pyFAI's test_peak_finder.
PEAKS = (
    (88, 705), (1097, 907), (833, 930), (1520, 1083), (1463, 1249), (1721, 1281), (1274, 1316), (1662, 1372),
    (165, 1433), (304, 1423), (1058, 1449), (1260, 1839), (806, 2006), (129, 2149), (1981, 2272), (1045, 2446),
)  # fmt: skip
#: Peaks that the test does not name.
OTHERS = tuple((150 * number + 100, 140 * number + 60) for number in range(16))


def main(folder: Path) -> None:
    """Write the files, and the list of their digests that silx reads."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    small = rings(generator, (1043, 981))
    fabio.edfimage.EdfImage(data=small.astype(np.int32)).write(str(folder / "Pilatus1M.edf"))
    large = rings(generator, (2527, 2463)).astype(np.int32)
    for x, y in (*PEAKS, *OTHERS):
        large[y - 1 : y + 2, x - 1 : x + 2] += 300
        large[y, x] += 700
    fabio.cbfimage.CbfImage(data=large).write(str(folder / "Pilatus6M.cbf"))
    for name, shape in (("Pilatus1M", small.shape), ("Pilatus6M", large.shape)):
        (folder / f"{name}.poni").write_text(geometry(name, shape), encoding="utf-8")
    digests = {}
    for path in sorted(folder.iterdir()):
        digests[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "all_testdata.json").write_text(json.dumps(digests), encoding="utf-8")
    print(json.dumps({"pyFAI_testdata": str(folder)}))


def rings(generator: np.random.Generator, shape: tuple[int, int]) -> Any:
    """Return a background with rings around the center, as a detector counts photons."""
    rows, columns = np.indices(shape)
    radius = np.hypot(rows - shape[0] / 2, columns - shape[1] / 2)
    return generator.poisson(6 + 3 * np.cos(radius / 40))


def geometry(name: str, shape: tuple[int, ...]) -> str:
    """Return a file of a geometry: a detector 0.2 m behind the sample."""
    pixel = 172e-6
    lines = {
        "poni_version": 2,
        "Detector": name,
        "Detector_config": "{}",
        "Distance": 0.2,
        "Poni1": shape[0] / 2 * pixel,
        "Poni2": shape[1] / 2 * pixel,
        "Rot1": 0,
        "Rot2": 0,
        "Rot3": 0,
        "Wavelength": 1e-10,
    }
    return "".join(f"{key}: {value}\n" for key, value in lines.items())


if __name__ == "__main__":
    main(Path(os.environ["PORTS_DATA"]))
