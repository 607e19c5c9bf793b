"""The faults of wrong backends, each the toy with one change. The table `FAULTS` has the rows of
the kit that must fail for each.
"""

from __future__ import annotations

from toy_faults import builds, calls, devices, images, modules, processes
from toy_faults._fault import FAULTS

__all__ = ["FAULTS", "builds", "calls", "devices", "images", "modules", "processes"]
