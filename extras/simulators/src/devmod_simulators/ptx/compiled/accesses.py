"""Loads, stores and atomic operations.

Eight lanes with addresses in a row, or with one address, access memory at once, if it is in the
range that the instruction has met before. engine.c does the others, and finds faults.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from devmod_simulators.ptx.compiled import context
from devmod_simulators.ptx.compiled.context import (
    ATOMIC,
    CHUNK,
    GENERIC,
    LOAD,
    OPERATIONS,
    SPACES,
    STORE,
)
from devmod_simulators.ptx.compiled.emit import constant, vector
from devmod_simulators.ptx.compiled.operations import choose, operation, width_of
from devmod_simulators.ptx.decoder import is_predicate
from devmod_simulators.ptx.errors import UnsupportedError
from devmod_simulators.ptx.memory import FUNCTION_PARAMETERS
from devmod_simulators.ptx.ops_memory import space_of, used_parts
from devmod_simulators.ptx.ops_system import call_of
from devmod_simulators.ptx.ptx_types import DTYPES, FLOATS, Address, Integer, Name, Register

if TYPE_CHECKING:
    from devmod_simulators.ptx.compiled.emit import Emitter
    from devmod_simulators.ptx.decoder import Decoder


def parameter_of(e: Emitter, operand: Any) -> tuple[str, int] | None:
    """Return the name of the parameter of a device function that an address names, and the bytes
    behind its beginning.
    """
    if not isinstance(operand, Address) or not isinstance(operand.base, Name):
        return None
    name = operand.base.text
    place = e.program.layout(e.copy.code.function).get(name)
    if place is None or place[0] != "local" or place[1] < FUNCTION_PARAMETERS:
        return None
    return name, operand.base.offset + operand.offset


def address_of(e: Emitter, operand: Any) -> tuple[str, str]:
    """Return the space of an address operand, where its base tells one, and the addresses as
    vectors of 64 bits.
    """
    if not isinstance(operand, Address):
        raise UnsupportedError("an operand that is no address")
    base = operand.base
    step = operand.offset
    if isinstance(base, Integer):
        return "", constant(base.value + step, 64)
    if isinstance(base, Name):
        known = e.address_of(base.text)
        if known is None:
            raise UnsupportedError(base.text)
        return known[0], e.source(Name(base.text, base.offset + step), 64)
    if not isinstance(base, Register):
        raise UnsupportedError("an address of another form")
    width = 8 * base.dtype.itemsize
    value = e.source(base, width)
    if step:
        value = e.op(f"add {vector(width)} {value}, {constant(step, width)}")
    if width < 64:
        value = e.op(f"zext {vector(width)} {value} to {vector(64)}")
    return "", value


def site(
    e: Emitter, d: Decoder, kind: int, space: int, width: int, count: int, what: int = 0
) -> int:
    """Add an access to memory, and return its number."""
    size = width // 8 * count
    alignment = 1 << (size - 1).bit_length()
    e.sites.append(context.Site(kind, space, width // 8, count, alignment, what))
    e.site_instructions.append(d.instruction)
    e.site_frames.append(e.copy.base + e.copy.code.frame_size)
    return len(e.sites) - 1


def prepare(e: Emitter, d: Decoder, operand: Any) -> tuple[str, str]:
    """Return the space and the addresses of an access, after what comes before it."""
    named, address = address_of(e, operand)
    return space_of(d, named), address


def lockstep(e: Emitter, d: Decoder, space: str, *, loads: bool, stores: bool) -> None:
    """Let the accesses of other lanes that this one may meet come first.

    Lanes of a warp that meet in global memory wait for each other in all programs that are right;
    older ones rely on lockstep in shared memory, and where accesses are volatile.
    """
    if space in ("shared", "") or d.has("volatile") or d.has("relaxed"):
        e.part_regions(loads=loads, stores=stores)


class Access:
    """An access to memory while its code is made. `lane` is the number of the chunk's first lane,
    and `number` that of the site.
    """

    def __init__(self, e: Emitter, site: int, space: str, address: str) -> None:
        self.e = e
        self.made = e.sites[site]
        self.number = str(site)
        self.space = space
        self.address = address
        self.lane = f"%f32.{e.region.number}"
        self.width = 8 * self.made.width
        self.count = self.made.count
        self.size = self.made.width * self.made.count
        self.alignment = self.made.alignment
        self.done = e.label()

    def outlined(self) -> Access:
        """Return the access of the same form in a function of its own."""
        other = copy(self)
        other.number, other.address, other.lane = "%site", "%address", "%lane"
        other.done = self.e.label()
        return other

    @property
    def form(self) -> str:
        """What accesses have in common that share a function."""
        space = "shared" if self.space == "shared" else "global"
        return f"{space}_{self.width}x{self.count}"

    def first(self) -> tuple[str, str]:
        """Return the first lane's address, and the distances of the others from it."""
        e = self.e
        first = e.op(f"extractelement {vector(64)} {self.address}, i32 0")
        return first, e.op(f"sub {vector(64)} {self.address}, {e.splat(first, 'i64')}")

    def window(self) -> tuple[str, str]:
        """Return the range that the instruction has met: its start, and the offsets there."""
        e = self.e
        windows = e.field("windows", "ptr")
        window = e.op(f"getelementptr {{i64, i64}}, ptr {windows}, i32 {self.number}")
        start = e.op(f"load i64, ptr {window}")
        return start, e.op(f"load i64, ptr {e.at(window, 8)}")

    def known(self, first: str, start: str, places: str) -> tuple[str, str]:
        """Return whether an address is in that range, and aligned, and whether CHUNK elements in a
        row from there on are.
        """
        e = self.e
        offset = e.op(f"sub i64 {first}, {start}")
        one = e.op(f"icmp ult i64 {offset}, {places}")
        last = e.op(f"add i64 {offset}, {(CHUNK - 1) * self.size}")
        if self.alignment > 1:
            low = e.op(f"and i64 {first}, {self.alignment - 1}")
            one = e.op(f"and i1 {one}, {e.op(f'icmp eq i64 {low}, 0')}")
        return one, e.op(f"and i1 {one}, {e.op(f'icmp ult i64 {last}, {places}')}")

    def has_all(self, mask: str, start: str, places: str) -> str:
        """Return whether the element of each lane is in that range, and aligned."""
        e = self.e
        of = vector(64)
        offsets = e.op(f"sub {of} {self.address}, {e.splat(start, 'i64')}")
        bad = e.op(f"icmp uge {of} {offsets}, {e.splat(places, 'i64')}")
        if self.alignment > 1:
            low = e.op(f"and {of} {self.address}, {constant(self.alignment - 1, 64)}")
            askew = e.op(f"icmp ne {of} {low}, zeroinitializer")
            bad = e.op(f"or {vector(1)} {bad}, {askew}")
        bad = e.op(f"and {vector(1)} {bad}, {mask}")
        return e.op(f"icmp eq i8 {e.op(f'bitcast {vector(1)} {bad} to i8')}, 0")

    def places(self) -> list[str]:
        """Return vectors of pointers to what is at the addresses, one for each part."""
        e = self.e
        pointers = f"<{CHUNK} x ptr>"
        if self.space == "shared":
            base = e.field("shared", "ptr")
            first = e.op(f"getelementptr i8, ptr {base}, {vector(64)} {self.address}")
        else:
            delta = e.splat(e.field("delta", "i64"), "i64")
            moved = e.op(f"add {vector(64)} {self.address}, {delta}")
            first = e.op(f"inttoptr {vector(64)} {moved} to {pointers}")
        steps = (part * self.width // 8 for part in range(1, self.count))
        return [first, *(e.op(f"getelementptr i8, {pointers} {first}, i64 {n}") for n in steps)]

    def gathered(self, mask: str) -> list[str]:
        """Load the elements of each part from anywhere."""
        e = self.e
        kind, pointers = vector(self.width), f"<{CHUNK} x ptr>"
        name = f"@llvm.masked.gather.v{CHUNK}i{self.width}.v{CHUNK}p0"
        e.declare(f"declare {kind} {name}({pointers}, i32, {vector(1)}, {kind})")
        more = f"i32 {self.width // 8}, {vector(1)} {mask}, {kind} zeroinitializer"
        return [e.op(f"call {kind} {name}({pointers} {each}, {more})") for each in self.places()]

    def scatter(self, mask: str, values: list[str]) -> list[str]:
        """Store the elements of each part to anywhere."""
        e = self.e
        kind, pointers = vector(self.width), f"<{CHUNK} x ptr>"
        name = f"@llvm.masked.scatter.v{CHUNK}i{self.width}.v{CHUNK}p0"
        e.declare(f"declare void {name}({kind}, {pointers}, i32, {vector(1)})")
        for value, each in zip(values, self.places(), strict=True):
            more = f"i32 {self.width // 8}, {vector(1)} {mask}"
            e.line(f"call void {name}({kind} {value}, {pointers} {each}, {more})")
        return []

    def in_a_row(self, distances: str, mask: str) -> str:
        """Return whether all lanes of the chunk are there, with addresses in a row."""
        e = self.e
        row = ", ".join(f"i64 {lane * self.size}" for lane in range(CHUNK))
        same = e.op(f"icmp eq {vector(64)} {distances}, <{row}>")
        both = e.op(f"and {vector(1)} {same}, {mask}")
        return e.op(f"icmp eq i8 {e.op(f'bitcast {vector(1)} {both} to i8')}, -1")

    def host(self, first: str) -> str:
        """Return a pointer to what is at an address."""
        e = self.e
        if self.space == "shared":
            base = e.field("shared", "ptr")
            return e.op(f"getelementptr i8, ptr {base}, i64 {first}")
        delta = e.field("delta", "i64")
        return e.op(f"inttoptr i64 {e.op(f'add i64 {first}, {delta}')} to ptr")

    def slow(self, function: str, mask: str, *pointers: str) -> None:
        """Let engine.c do it for each lane."""
        e = self.e
        addresses = e.slot(vector(64), 9)
        e.line(f"store {vector(64)} {self.address}, ptr {addresses}, align 8")
        lanes = e.op(f"bitcast {vector(1)} {mask} to i8")
        lanes = e.op(f"zext i8 {lanes} to i32")
        more = "".join(f", ptr {each}" for each in pointers)
        state = e.call(
            function,
            "i32",
            f"ptr %c, ptr %w, i32 {self.number}, i32 {lanes}, i32 {self.lane}, ptr {addresses}{more}",
        )
        e.fails(state)

    @property
    def has_window(self) -> bool:
        """Whether lanes access this space of memory at once."""
        return self.space in ("global", "const", "shared", "") and self.count != 3

    def whole(self) -> str:
        """Return the type of the elements of all lanes in a row."""
        return f"<{CHUNK * self.count} x i{self.width}>"

    def parts(self, whole: str) -> list[str]:
        """Return the elements of each part of a vector, of all lanes."""
        if self.count == 1:
            return [whole]
        e = self.e
        kind = self.whole()
        result = []
        for part in range(self.count):
            places = ", ".join(f"i32 {lane * self.count + part}" for lane in range(CHUNK))
            result.append(
                e.op(f"shufflevector {kind} {whole}, {kind} poison, <{CHUNK} x i32> <{places}>")
            )
        return result


class _Ways:
    """The branches of an access: lanes in a row, and what else its code has. Each way ends with
    `leave`, and they meet in `joined`.
    """

    def __init__(self, e: Emitter, access: Access, mask: str) -> None:
        self.e = e
        self.access = access
        self.entries: list[tuple[list[str], str]] = []
        self.first, self.distances = access.first()
        self.start, self.places = access.window()
        self.one, row = access.known(self.first, self.start, self.places)
        self.label = self.when(e.op(f"and i1 {access.in_a_row(self.distances, mask)}, {row}"))

    def when(self, condition: str) -> str:
        """Begin a way for a condition, and return the label of the others."""
        e = self.e
        yes, no = e.label(), e.label()
        e.line(f"br i1 {condition}, label %{yes}, label %{no}")
        e.line(f"{yes}:")
        return no

    def leave(self, values: list[str], following: str = "") -> None:
        """End a way, and begin that at a label."""
        e = self.e
        last = e.label()
        e.line(f"br label %{last}")
        e.line(f"{last}:")
        e.line(f"br label %{self.access.done}")
        self.entries.append((values, last))
        if following:
            e.line(f"{following}:")

    def joined(self) -> list[str]:
        """Return the values of the way that was taken."""
        e = self.e
        e.line(f"{self.access.done}:")
        kind = vector(self.access.width)
        result = []
        for part in range(len(self.entries[0][0])):
            edges = ", ".join(f"[{values[part]}, %{label}]" for values, label in self.entries)
            result.append(e.op(f"phi {kind} {edges}"))
        return result


def _called(e: Emitter, access: Access, mask: str, values: list[str] | None = None) -> list[str]:
    """Call the function for accesses of a form, which all kernels share."""
    kind = vector(access.width)
    stored = values or []
    kinds = [] if stored else [kind] * access.count
    name = f"devmod_{'store' if stored else 'load'}_{access.form}"
    result = f"{{{', '.join([*kinds, 'i32'])}}}"
    if name not in e.functions:
        parameters = [f"%value{part}" for part in range(len(stored))]
        more = "".join(f", {kind} {each}" for each in parameters)
        head = f"ptr %c, ptr %w, i32 %site, i32 %lane, {vector(64)} %address, {vector(1)} %mask"
        with e.function(name, f"{result} @{name}({head}{more})"):
            _anywhere(e, access.outlined(), "%mask", parameters, result)
    more = "".join(f", {kind} {each}" for each in stored)
    whole = e.op(
        f"call {result} @{name}(ptr %c, ptr %w, i32 {access.number}, i32 {access.lane}, "
        f"{vector(64)} {access.address}, {vector(1)} {mask}{more})"
    )
    e.fails(e.op(f"extractvalue {result} {whole}, {len(kinds)}"))
    return [e.op(f"extractvalue {result} {whole}, {part}") for part in range(len(kinds))]


def _anywhere(e: Emitter, access: Access, mask: str, values: list[str], result: str) -> None:
    """Add the body of such a function: for lanes in a row, in the range that the instruction has
    met, for lanes at one address, and for others.
    """
    ways = _near(e, access, mask, values)
    slow = ways.when(access.has_all(mask, ways.start, ways.places))
    ways.leave(access.scatter(mask, values) if values else access.gathered(mask), slow)
    ways.leave(_slow(e, access, mask, values))
    whole = "poison"
    loaded = ways.joined()
    for part, value in enumerate(loaded):
        whole = e.op(f"insertvalue {result} {whole}, {vector(access.width)} {value}, {part}")
    whole = e.op(f"insertvalue {result} {whole}, i32 0, {len(loaded)}")
    e.line(f"ret {result} {whole}")
    e.line("fault:")
    whole = e.op(f"insertvalue {result} poison, i32 1, {len(loaded)}")
    e.line(f"ret {result} {whole}")


def _near(e: Emitter, access: Access, mask: str, values: list[str]) -> _Ways:
    """Begin an access with the ways for lanes in a row and, if it loads, at one address."""
    ways = _Ways(e, access, mask)
    ways.leave(_row(e, access, ways.first, values), ways.label)
    if not values:
        same = e.op(f"icmp eq {vector(64)} {ways.distances}, zeroinitializer")
        is_one = e.op(f"icmp eq i8 {e.op(f'bitcast {vector(1)} {same} to i8')}, -1")
        others = ways.when(e.op(f"and i1 {is_one}, {ways.one}"))
        place, element = access.host(ways.first), f"i{access.width}"
        loaded = []
        for part in range(access.count):
            at = e.at(place, part * access.width // 8)
            value = e.op(f"load {element}, ptr {at}, align {access.width // 8}")
            loaded.append(e.splat(value, element))
        ways.leave(loaded, others)
    return ways


def _row(e: Emitter, access: Access, first: str, values: list[str]) -> list[str]:
    """Load, or store values, at addresses in a row."""
    place, alignment = access.host(first), access.width // 8
    if values:
        whole = joined(e, access, values)
        e.line(f"store {access.whole()} {whole}, ptr {place}, align {alignment}")
        return []
    return access.parts(e.op(f"load {access.whole()}, ptr {place}, align {alignment}"))


def _slow(e: Emitter, access: Access, mask: str, values: list[str]) -> list[str]:
    """Let engine.c load, or store values."""
    out = e.slot(f"[{access.count * CHUNK} x i{access.width}]")
    kind = vector(access.width)
    bytes_each = CHUNK * access.width // 8
    for part, value in enumerate(values):
        e.line(f"store {kind} {value}, ptr {e.at(out, part * bytes_each)}, align 8")
    access.slow("store" if values else "load", mask, out)
    if values:
        return []
    places = [e.at(out, part * bytes_each) for part in range(access.count)]
    return [e.op(f"load {kind}, ptr {place}, align 8") for place in places]


def load(e: Emitter, access: Access, mask: str) -> list[str]:
    """Return what lanes load: a vector for each part."""
    if not access.has_window:
        return _slow(e, access, mask, [])
    if not e.inlines:
        return _called(e, access, mask)
    ways = _near(e, access, mask, [])
    ways.leave(_called(e, access, mask))
    return ways.joined()


def store(e: Emitter, access: Access, mask: str, values: list[str]) -> None:
    """Store vectors, one for each part."""
    if not access.has_window:
        _slow(e, access, mask, values)
    elif not e.inlines:
        _called(e, access, mask, values)
    else:
        ways = _near(e, access, mask, values)
        ways.leave(_called(e, access, mask, values))
        ways.joined()


def joined(e: Emitter, access: Access, values: list[str]) -> str:
    """Return the elements of all parts, lane by lane."""
    width = access.width
    size = CHUNK
    while len(values) > 1:
        kind = f"<{size} x i{width}>"
        every = ", ".join(f"i32 {place}" for place in range(2 * size))
        values = [
            e.op(f"shufflevector {kind} {a}, {kind} {b}, <{2 * size} x i32> <{every}>")
            for a, b in zip(values[::2], values[1::2], strict=True)
        ]
        size *= 2
    if access.count == 1:
        return values[0]
    order = [lane + CHUNK * part for lane in range(CHUNK) for part in range(access.count)]
    places = ", ".join(f"i32 {each}" for each in order)
    kind = f"<{size} x i{width}>"
    return e.op(f"shufflevector {kind} {values[0]}, {kind} poison, <{size} x i32> <{places}>")


def _param_key(
    e: Emitter, name: str, place: int, width: int, *, known: bool = False
) -> tuple[Any, ...]:
    """Return the key of a part of a parameter. One that is read is one that is written."""
    key = (e.copy.number, "param", name, place, width)
    if known and key not in e.registers:
        # Compilers pass a char as 32 bits, of which the function loads 8.
        for wider in (16, 32):
            if width < wider and (*key[:4], wider) in e.registers:
                return (*key[:4], wider)
        raise UnsupportedError(f"a part of the parameter {name} that nothing writes")
    for other in e.registers:
        if other[:3] == key[:3] and other != key and len(other) == 5:
            start, size = other[3], other[4] // 8
            if start < place + width // 8 and place < start + size:
                raise UnsupportedError(f"parts of the parameter {name} that overlap")
    return e.known(key, width)


@operation("ld", "ldu")
def _ld(e: Emitter, d: Decoder) -> None:
    kind = d.type
    width = width_of(kind)
    parts = d.vector(0)
    parameter = parameter_of(e, d.operands[1])
    if parameter is not None:
        name, place = parameter
        for number, part in enumerate(parts):
            key = _param_key(e, name, place + number * width // 8, width, known=True)
            value = e.read(key)
            if key[4] > width:
                value = e.op(f"trunc {vector(key[4])} {value} to {vector(width)}")
            e.target(part, value, kind)
        return
    own = d.parameter(1) if isinstance(d.operands[1], Address) else None
    if own is not None:
        _kernel_parameter(e, d, parts, own)
        return
    parts = parts[: used_parts(d, parts)]
    space = _space(e, d, 1)
    lockstep(e, d, space, loads=True, stores=False)
    space, address = prepare(e, d, d.operands[1])
    number = site(e, d, LOAD, SPACES.get(space, GENERIC), width, len(parts))
    values = load(e, Access(e, number, space, address), e.mask())
    for part, value in zip(parts, values, strict=True):
        e.target(part, value, kind)


def _kernel_parameter(e: Emitter, d: Decoder, parts: list[Any], place: int) -> None:
    """Load parts of a parameter of the kernel, which all lanes have."""
    kind = d.type
    width = width_of(kind)
    end = place + len(parts) * width // 8
    if place % (width // 8) or end > e.program.kernel.offsets_end():
        raise UnsupportedError("a parameter out of bounds")
    base = e.field("parameters", "ptr")
    for number, part in enumerate(parts):
        at = e.at(base, place + number * width // 8)
        value = e.op(f"load i{width}, ptr {at}, align 1")
        e.target(part, e.splat(value, f"i{width}"), kind)


@operation("st")
def _st(e: Emitter, d: Decoder) -> None:
    width = width_of(d.type)
    parts = d.vector(1)
    kind = f"b{width}" if d.type not in FLOATS else d.type
    parameter = parameter_of(e, d.operands[0])
    if parameter is not None:
        name, place = parameter
        for number, part in enumerate(parts):
            key = _param_key(e, name, place + number * width // 8, width)
            e.write(key, e.number(part, kind))
        return
    if len(parts) == 3:
        raise UnsupportedError("vectors of three")
    space = _space(e, d, 0)
    lockstep(e, d, space, loads=False, stores=True)
    space, address = prepare(e, d, d.operands[0])
    values = [e.number(part, kind) for part in parts]
    number = site(e, d, STORE, SPACES.get(space, GENERIC), width, len(parts))
    store(e, Access(e, number, space, address), e.mask(), values)


def _space(e: Emitter, d: Decoder, operand: int) -> str:
    """Return the space of an access."""
    named = ""
    base = d.operands[operand].base
    if isinstance(base, Name):
        known = e.address_of(base.text)
        named = known[0] if known else ""
    return space_of(d, named)


@operation("atom", "red")
def _atom(e: Emitter, d: Decoder) -> None:
    returns = d.root == "atom"
    position = 1 if returns else 0
    name = d.first(OPERATIONS)
    kind = d.type
    width = width_of(kind)
    code = OPERATIONS.index(name)
    if kind in ("f32", "f64") and name == "add":
        code += 2 * len(OPERATIONS)
    elif kind.startswith("s"):
        code += len(OPERATIONS)
    space = _space(e, d, position)
    lockstep(e, d, space, loads=True, stores=True)
    if space != "shared":
        e.has_atomics = True
    space, address = prepare(e, d, d.operands[position])
    as_bits = kind if kind in FLOATS else f"b{width}"
    values = [e.number(d.operands[position + 1], as_bits)]
    if name == "cas":
        values.append(e.number(d.operands[position + 2], as_bits))
    number = site(e, d, ATOMIC, SPACES.get(space, GENERIC), width, 1, code)
    access = Access(e, number, space, address)
    slots = [e.slot(vector(width), 10 + place) for place in range(3)]
    for value, slot in zip(values, slots, strict=False):
        e.line(f"store {vector(width)} {value}, ptr {slot}, align 8")
    access.slow("atomic", e.mask(), *slots)
    if returns:
        old = e.op(f"load {vector(width)}, ptr {slots[2]}, align 8")
        e.target(d.operands[0], old, f"b{width}" if kind not in DTYPES else kind)


@operation("cp")
def _cp(e: Emitter, d: Decoder) -> None:
    """Add a copy, which happens at once as in the interpreter, so that nothing waits for it."""
    if d.parts[2] in ("commit_group", "wait_group", "wait_all"):
        return
    size = d.operands[2]
    if not isinstance(size, Integer) or size.value not in (4, 8, 16):
        raise UnsupportedError("this form")
    width = 8 * min(size.value, 8)
    count = 8 * size.value // width
    e.part_regions(loads=True, stores=True)
    _, target = address_of(e, d.operands[0])
    _, source = address_of(e, d.operands[1])
    put = site(e, d, STORE, SPACES["shared"], width, count)
    if len(d.operands) == 3:
        fetch = site(e, d, LOAD, SPACES["global"], width, count)
        values = load(e, Access(e, fetch, "global", source), e.mask())
        store(e, Access(e, put, "shared", target), e.mask(), values)
        return
    # engine.c expects the site of the bytes behind that of the store.
    site(e, d, LOAD, SPACES["global"], 8, 1)
    places, lengths = e.slot(vector(64), 10), e.slot(vector(32), 11)
    e.line(f"store {vector(64)} {source}, ptr {places}, align 8")
    length = d.operands[3]
    if is_predicate(length):
        copied = choose(
            e, e.source(length, 1), vector(32), "zeroinitializer", constant(size.value, 32)
        )
    else:
        copied = e.source(length, 32)
    e.line(f"store {vector(32)} {copied}, ptr {lengths}, align 8")
    Access(e, put, "shared", target).slow("copy", e.mask(), places, lengths)


#: The functions of the driver that compiled code has, with the bits of their arguments.
_CALLS = {"__assertfail": ("assertion", (64, 64, 32, 64)), "vprintf": ("print", (64, 64))}


@operation("call")
def _call(e: Emitter, d: Decoder) -> None:
    """Add a call of the driver. Of these, printf and an assertion that fails need no
    interpreter.
    """
    results, target, arguments = call_of(d.instruction)
    name = getattr(target, "text", "")
    if name not in _CALLS:
        raise UnsupportedError("a function of the driver")
    function, widths = _CALLS[name]
    what = e.unit.number
    if function == "print":
        # All lanes print one line before the next one.
        e.part_regions(loads=True, stores=True)
        e.prints = True
        what = site(e, d, LOAD, GENERIC, 8, 1)
    mask = e.mask()
    values = e.slot(f"[{4 * CHUNK} x i64]")
    for number, width in enumerate(widths):
        value = e.read(_param_key(e, arguments[number], 0, width, known=True))
        if width != 64:
            value = e.op(f"zext {vector(width)} {value} to {vector(64)}")
        e.line(f"store {vector(64)} {value}, ptr {e.at(values, 64 * number)}, align 8")
    lanes = e.op(f"zext i8 {e.op(f'bitcast {vector(1)} {mask} to i8')} to i32")
    some, none = e.label(), e.label()
    e.line(f"br i1 {e.op(f'icmp eq i32 {lanes}, 0')}, label %{none}, label %{some}")
    e.line(f"{some}:")
    state = e.call(
        function,
        "i32",
        f"ptr %c, ptr %w, i32 {lanes}, i32 %f32.{e.region.number}, i32 {what}, ptr {values}",
    )
    e.fails(state)
    e.line(f"br label %{none}")
    e.line(f"{none}:")
    for result in results:
        e.write(_param_key(e, result, 0, 32), constant(0, 32))
