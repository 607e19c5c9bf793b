"""Makes the toy wrong in a process whose installed toy is one (`toy.backend.put`): the module
`toy_fault` has the name of its fault.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

_faults = []


def become_wrong(*, at_import=False):
    """Apply the fault of the installed toy, if it has one: its changes once, and what the import of
    its entries does each time.
    """
    if find_spec("toy_fault") is None:
        return
    if not _faults:
        _faults.append(None)  # the import of the table calls this function again
        try:
            _faults[0] = import_module("toy_faults").FAULTS[import_module("toy_fault").NAME]
            _faults[0].apply(setattr)
        except BaseException:  # R37-interrupts interrupts the first use: the next import of the entries makes the toy wrong
            _faults.clear()
            raise
    if at_import and _faults[0] is not None and _faults[0].at_import:
        _faults[0].at_import()
