"""What a reader returns: the functions and the entry points that it found, with their arguments.

- `ReflectedFunction` is a function with its arguments. `devmod_targets.authoring.merge_declared` takes it.
- `ReflectedShader` is an entry point of a shader with its `Resource` and `BlockMember` objects. `reflected_function` turns it into a
  `ReflectedFunction`.
- `describe_members` describes the members of a struct of `MemberType` objects. `with_members` and `value_members` add them to an argument.
"""

from __future__ import annotations

from devmod_readers.reflection._function import ReflectedFunction as ReflectedFunction
from devmod_readers.reflection._members import MemberType as MemberType
from devmod_readers.reflection._members import describe_members as describe_members
from devmod_readers.reflection._members import value_members as value_members
from devmod_readers.reflection._members import with_members as with_members
from devmod_readers.reflection._shader import MAX_ARGUMENTS as MAX_ARGUMENTS
from devmod_readers.reflection._shader import BlockMember as BlockMember
from devmod_readers.reflection._shader import ReflectedShader as ReflectedShader
from devmod_readers.reflection._shader import Resource as Resource
from devmod_readers.reflection._shader import reflected_function as reflected_function

__all__ = [
    "MAX_ARGUMENTS",
    "BlockMember",
    "MemberType",
    "ReflectedFunction",
    "ReflectedShader",
    "Resource",
    "describe_members",
    "reflected_function",
    "value_members",
    "with_members",
]
