"""The package imports a driver with many modules."""

import sys
from importlib.machinery import ModuleSpec

import toydriver
from devmod_toy import create as create

ROWS = ("R6",)
REASON = "the look-up of devmod.create imports toydriver; imports toydriver.part_0; imports toydriver.part_1; and 198 more"
assert toydriver


class Parts:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self) if name.startswith("toydriver.") else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        pass


toydriver.__path__ = []
sys.meta_path.append(Parts())
for number in range(200):
    __import__(f"toydriver.part_{number}")
