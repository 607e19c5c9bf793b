"""Import torchvision beside PyTorch for the CPU."""

from __future__ import annotations

from typing import Any


def import_torchvision(torch: Any) -> Any:
    """Return torchvision, or None if it is not installed. The wheel of an index may be that for
    CUDA's PyTorch, whose operators PyTorch for the CPU lacks: no net here uses them.
    """
    try:
        import torchvision
    except ImportError:
        return None
    except RuntimeError:
        for name in ("nms", "qnms"):
            schema = "(Tensor boxes, Tensor scores, float threshold) -> Tensor"
            torch.library.define(f"torchvision::{name}", schema)
        import torchvision
    return torchvision
