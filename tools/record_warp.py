"""Record a module that Warp compiles as a vector of the tests. It needs warp-lang, which needs no
driver.

``python tools/record_warp.py`` replaces targets/tests/vectors/warp, with a Python that has
warp-lang.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "targets/tests/vectors/warp"


def main() -> None:
    """Compile the module for two architectures."""
    import warp as wp

    sys.path.insert(0, str(ROOT / "targets/tests/kernels/warp"))
    with tempfile.TemporaryDirectory() as cache:
        wp.config.kernel_cache_dir = cache
        import motion  # type: ignore[import-not-found]

        module = wp.get_module(motion.__name__)
        FOLDER.mkdir(parents=True, exist_ok=True)
        for path in FOLDER.glob("wp_*"):
            path.unlink()
        for arch, use_ptx in ((90, False), (80, True)):
            wp.compile_aot_module(module, arch=arch, module_dir=str(FOLDER), use_ptx=use_ptx)


if __name__ == "__main__":
    main()
