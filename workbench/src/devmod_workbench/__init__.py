"""devmod-workbench: the program `devmod` and its commands, and the tools that find out what is
wrong. No call and no file needs it.

Programs use the names of `devmod`, and authors of commands those of `devmod.commands`. Importing
this package imports neither click nor NumPy.

docs/design/command-line.md has the reasons.
"""

from __future__ import annotations

import devmod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_workbench._doctor import Report as Report
    from devmod_workbench._doctor import doctor as doctor
    from devmod_workbench._explain import Explanation as Explanation
    from devmod_workbench._explain import explain as explain
    from devmod_workbench._tools.bench import Benchmark as Benchmark
    from devmod_workbench._tools.bench import bench as bench
    from devmod_workbench._tools.device_checks import device_problem as device_problem
    from devmod_workbench._tools.difference import worst_difference as worst_difference
    from devmod_workbench._tools.draws import RANGES as RANGES
    from devmod_workbench._tools.draws import moved as moved
    from devmod_workbench._tools.draws import random_array as random_array
    from devmod_workbench._tools.guard import guard as guard
    from devmod_workbench._tools.guard import guard_program as guard_program
    from devmod_workbench._tools.profile import Profile as Profile
    from devmod_workbench._tools.profile import profile as profile
    from devmod_workbench._tools.tune import TuningResult as TuningResult
    from devmod_workbench._tools.tune import tune as tune
    from devmod_workbench._tools.verify import Verification as Verification
    from devmod_workbench._tools.verify import verify as verify

#: Equal to `devmod.__version__`, because this wheel imports private modules of core, and of
#: devmod-runtime, which compares its own version with core's.
__version__ = "0.1.0"

if devmod.__version__ != __version__:
    raise devmod.PluginError(
        f"devmod-workbench {__version__} needs devmod-core {__version__}, and devmod-core {devmod.__version__} is installed. "
        f"Install both in one version: pip install --upgrade devmod-core=={__version__} devmod-workbench=={__version__}",
        distribution="devmod-workbench",
    )

#: The names of each module. What is in `_tools` needs devmod-runtime, but for `device_problem`.
_NAMES = {
    "_doctor": "Report doctor",
    "_explain": "Explanation explain",
    "_tools.bench": "Benchmark bench",
    "_tools.device_checks": "device_problem",
    "_tools.difference": "worst_difference",
    "_tools.draws": "RANGES moved random_array",
    "_tools.guard": "guard guard_program",
    "_tools.profile": "Profile profile",
    "_tools.tune": "TuningResult tune",
    "_tools.verify": "Verification verify",
}
devmod._make_lazy(globals(), _NAMES)
