"""devmod-runtime: devices, arrays, streams and launches of every backend. Importing it imports no
NumPy and opens no driver.

Programs use the public names of `devmod`. An author of a backend derives from `RuntimeModule`,
`Launcher` and `Kernel`, and uses the other names of this module. The package `devmod_driver_api` is
for drivers with CUDA's model.

docs/design/runtime.md has the reasons.
"""

from __future__ import annotations

import devmod
from devmod.backend import environment_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_runtime._builds import BuildLauncher as BuildLauncher
    from devmod_runtime._builds import Builds as Builds
    from devmod_runtime._builds import source_constants as source_constants
    from devmod_runtime._builds import specialize_source as specialize_source
    from devmod_runtime._compilers import has_compiler as has_compiler
    from devmod_runtime._compilers import run_compiler as run_compiler
    from devmod_runtime._compilers import set_compiler as set_compiler
    from devmod_runtime._device.device import Device as Device
    from devmod_runtime._device.device import DeviceCache as DeviceCache
    from devmod_runtime._device.device_array import DeviceArray as DeviceArray
    from devmod_runtime._device.device_array import copy as copy
    from devmod_runtime._device.device_array import copy_to_numpy as copy_to_numpy
    from devmod_runtime._device.dlpack_import import read_capsule as read_capsule
    from devmod_runtime._device.host import address_of as address_of
    from devmod_runtime._device.image import Image as Image
    from devmod_runtime._device.image import Sampler as Sampler
    from devmod_runtime._device.image import check_extent as check_extent
    from devmod_runtime._device.stream import Batch as Batch
    from devmod_runtime._device.stream import Event as Event
    from devmod_runtime._device.stream import Stream as Stream
    from devmod_runtime._device.stream import check_earlier_event as check_earlier_event
    from devmod_runtime._device.stream import check_event as check_event
    from devmod_runtime._fork import check_driver as check_driver
    from devmod_runtime._fork import driver_import_error as driver_import_error
    from devmod_runtime._fork import fork_safe as fork_safe
    from devmod_runtime._fork import is_inherited as is_inherited
    from devmod_runtime._fork import open_driver as open_driver
    from devmod_runtime._launch.arguments import Argument as Argument
    from devmod_runtime._launch.arguments import block_packer as block_packer
    from devmod_runtime._launch.arguments import write_access as write_access
    from devmod_runtime._launch.function import Function as Function
    from devmod_runtime._launch.function import Launch as Launch
    from devmod_runtime._launch.launcher import Kernel as Kernel
    from devmod_runtime._launch.launcher import LaunchConfig as LaunchConfig
    from devmod_runtime._launch.launcher import Launcher as Launcher
    from devmod_runtime._launch.pipeline_constants import SetConstant as SetConstant
    from devmod_runtime._launch.pipeline_constants import (
        specialize_constants as specialize_constants,
    )
    from devmod_runtime._leases import Lease as Lease
    from devmod_runtime._leases import Pool as Pool
    from devmod_runtime._leases import lend as lend
    from devmod_runtime._libraries import RENDER_NODES as RENDER_NODES
    from devmod_runtime._libraries import Attempt as Attempt
    from devmod_runtime._libraries import driver_row as driver_row
    from devmod_runtime._libraries import open_library as open_library
    from devmod_runtime._libraries import permission_rows as permission_rows
    from devmod_runtime._module import GlobalsModule as GlobalsModule
    from devmod_runtime._module import RuntimeModule as RuntimeModule
    from devmod_runtime._module import source_text as source_text
    from devmod_runtime._program.function import ProgramFunction as ProgramFunction
    from devmod_runtime._trial import Trial as Trial
    from devmod_runtime._trial import was_killed as was_killed
    from devmod_runtime._tuning.choice import identity_of as identity_of
    from devmod_runtime._tuning.function import TunedFunction as TunedFunction
    from devmod_runtime._uninterrupted import call_uninterrupted as call_uninterrupted
    from devmod_runtime._uninterrupted import has_uninterrupted_calls as has_uninterrupted_calls
    from devmod_runtime._uninterrupted import wait_at_end as wait_at_end
    from devmod_runtime._uninterrupted import wait_for_answer as wait_for_answer
    from devmod_runtime._uninterrupted import wait_interruptibly as wait_interruptibly

#: Equal to `devmod.__version__`, because this wheel imports private modules of core.
__version__ = "0.1.0"

if devmod.__version__ != __version__:
    raise devmod.PluginError(
        f"devmod-runtime {__version__} needs devmod-core {__version__}, and devmod-core {devmod.__version__} is installed. "
        f"Install both in one version: pip install --upgrade devmod-core=={__version__} devmod-runtime=={__version__}",
        distribution="devmod-runtime",
    )

#: The names of each module.
_NAMES = {
    "_builds": "BuildLauncher Builds source_constants specialize_source",
    "_compilers": "has_compiler run_compiler set_compiler",
    "_device.device": "Device DeviceCache",
    "_device.device_array": "DeviceArray copy copy_to_numpy",
    "_device.dlpack_import": "read_capsule",
    "_device.host": "address_of",
    "_device.image": "Image Sampler check_extent",
    "_device.stream": "Batch Event Stream check_earlier_event check_event",
    "_fork": "check_driver driver_import_error fork_safe is_inherited open_driver",
    "_launch.arguments": "Argument block_packer write_access",
    "_launch.function": "Function Launch",
    "_launch.launcher": "Kernel LaunchConfig Launcher",
    "_launch.pipeline_constants": "SetConstant specialize_constants",
    "_leases": "Lease Pool lend",
    "_libraries": "Attempt RENDER_NODES driver_row open_library permission_rows",
    "_module": "GlobalsModule RuntimeModule source_text",
    "_program.function": "ProgramFunction",
    "_tuning.choice": "identity_of",
    "_tuning.function": "TunedFunction",
    "_trial": "Trial was_killed",
    "_uninterrupted": "call_uninterrupted has_uninterrupted_calls wait_at_end wait_for_answer wait_interruptibly",
}
devmod._make_lazy(globals(), _NAMES)


if environment_text("DEVMOD_GUARD"):
    devmod._workbench("the environment variable DEVMOD_GUARD").guard_program()
