"""The rules for the variables of a WGSL module: address spaces, bindings, and the memory layout of uniforms."""

from __future__ import annotations

from devmod_readers.wgsl._type import ARRAY, ATOMIC, IMAGE, SAMPLER, STRUCT, Type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from devmod_readers.wgsl._parse import Declaration
    from devmod_readers.wgsl._tokens import Source

_SPACES = ("storage", "uniform", "private", "workgroup", "")


class VariableChecker:
    """Check the variables of one module, and collect the layouts on which naga fails.

    Attributes
    ----------
    layout_warning : str
        A message about the first struct that naga lays out incorrectly; "" if there is none.
    crash : tuple or None
        Place and message of the first uniform on which naga ends the process.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.layout_warning = ""
        self.crash: tuple[int, str] | None = None
        self._checked_uniforms: set[Type] = set()

    def check(self, declared: Declaration, of: Type) -> None:
        """Check a variable of the type `of`.

        Raises
        ------
        CompileError
            Its address space, access mode, bindings or layout are not valid.
        """
        name, at = declared.name, declared.at
        space = declared.words[0] if declared.words else ""
        if space not in _SPACES:
            raise self._source.error(
                at, f"the variable {name!r} has the address space {space!r}; expected storage, uniform, private or workgroup"
            )
        if space != "storage" and len(declared.words) > 1:
            raise self._source.error(at, f"the variable {name!r} has an access mode, which is allowed in the address space storage only")
        if any(word not in ("read", "read_write") for word in declared.words[1:]) or len(declared.words) > 2:
            raise self._source.error(at, f"the variable {name!r} has the access mode {declared.words[1]!r}; expected read or read_write")
        bound = space in ("storage", "uniform") or of.kind in (IMAGE, SAMPLER)
        if not space and not bound:
            raise self._source.error(
                at, f"the variable {name!r} has no address space; write for example var<storage, read_write> or var<private>"
            )
        for attribute in ("group", "binding"):
            if bound and attribute not in declared.attributes:
                raise self._source.error(at, f"the variable {name!r} has no @{attribute}(…)")
        if space in ("storage", "uniform"):
            if not of.host_shareable:
                hint = "; use u32" if of.unshareable_part == "bool" else ""
                raise self._source.error(
                    at, f"the variable {name!r} contains {of.unshareable_part}, which is not allowed in {space} memory{hint}"
                )
            if of.override_length:
                raise self._source.error(
                    at, f"the length of the array {name!r} depends on an override, which is allowed in workgroup memory only"
                )
            if space == "uniform":
                self._check_uniform(declared, of)
                self._check_matrices(declared, of)
            self.layout_warning = self.layout_warning or self._layout_warning(of)

    def _check_matrices(self, declared: Declaration, of: Type) -> None:
        # naga 29 replaces these types for SPIR-V, but not in a struct inside another struct.
        if self.crash is None and of.nested_two_rows is not None:
            outer, inner = of.nested_two_rows
            self.crash = (
                declared.at,
                f"the uniform {declared.name!r} contains a matrix of two rows in {inner.name}, a member of {outer.name}. naga, the "
                "compiler of wgpu and Firefox, ends the process on it. Make it a storage variable, or replace the matrix by vectors",
            )

    def _layout_warning(self, of: Type) -> str:
        part = of.first_misplaced
        if part is None or part.naga_misplaced is None:
            return ""
        member, kind = part.naga_misplaced
        return (
            f"the struct {part.name!r} at {self._source.location(member.at)} has the member {member.name!r} of {kind.name}, which "
            f"an @align inside it aligns to {kind.align} bytes. naga, the compiler of wgpu and Firefox, ignores that alignment here and "
            f"lays the struct out incorrectly. Write @align({kind.align}) before the member too"
        )

    def _check_uniform(self, declared: Declaration, of: Type) -> None:
        name, at = declared.name, declared.at
        if of.runtime_sized:
            raise self._source.error(at, f"the uniform {name!r} contains an array without a length; make it a storage variable")
        for part, offset, next_offset in _parts(of, self._checked_uniforms):
            if part.kind == ATOMIC:
                raise self._source.error(at, f"the uniform {name!r} contains {part.name}; make it a storage variable")
            if part.kind == ARRAY and part.element is not None and part.element.stride % 16:
                raise self._source.error(
                    at,
                    f"the uniform {name!r} contains {part.name} with a stride of {part.element.stride} bytes; expected a multiple of 16. "
                    "Use vectors of four as elements, or a storage variable",
                )
            if part.kind in (STRUCT, ARRAY) and offset % 16:
                raise self._source.error(
                    at, f"the uniform {name!r} contains {part.name} at the offset {offset}; expected a multiple of 16. Add @align(16)"
                )
            if next_offset is not None and next_offset % 16:
                raise self._source.error(
                    at,
                    f"the uniform {name!r} has a member {next_offset} bytes after the start of {part.name}; expected a multiple of 16. "
                    "Add @align(16) to that member",
                )


def _parts(of: Type, visited: set[Type]) -> Iterator[tuple[Type, int, int | None]]:
    """Yield a type and its parts, each with its offset in its struct and, for a struct, the distance to the next member.

    The parts of each type are yielded once: types in `visited` are skipped, and new ones are added to it.
    """
    waiting: list[tuple[Type, int, int | None]] = [(of, 0, None)]
    while waiting:
        part, offset_in_struct, distance = waiting.pop()
        yield part, offset_in_struct, distance
        if part in visited:
            continue
        inside: list[tuple[Type, int, int | None]] = []
        if part.kind == ARRAY and part.element is not None:
            inside.append((part.element, 0, None))
        for number, (_, member, offset) in enumerate(part.members):
            next_at = part.members[number + 1][2] - offset if number + 1 < len(part.members) and member.kind == STRUCT else None
            inside.append((member, offset, next_at))
        if inside:
            visited.add(part)
            waiting += reversed(inside)
