from __future__ import annotations

import functools
import time
import weakref

import devmod
from devmod.backend import Once
from devmod_runtime import check_earlier_event, check_event, check_extent


def driver():
    try:
        import toydriver
    except ModuleNotFoundError as error:
        raise devmod.DeviceNotFoundError(
            "the toy's driver is missing. To add it: pip install toydriver", kind="toy"
        ) from error
    return toydriver


class ToyEvent(devmod.Event):
    device = None

    def __init__(self):
        self.at = time.monotonic()

    def synchronize(self):
        pass

    def elapsed(self, earlier):
        return self.at - check_earlier_event(earlier, ToyEvent, self.device).at


class ToyStream(devmod.Stream):
    def __init__(self, device):
        self.device = device

    def synchronize(self):
        pass

    def record(self):
        event = ToyEvent()
        event.device = self.device
        return event

    def wait(self, event):
        check_event(event, ToyEvent, self.device)


class ToyDevice(devmod.Device):
    kind = "toy"
    features = frozenset(("fp64", "images"))
    subgroup_sizes = (4, 8)
    in_place_from = 1 << 20

    def __init__(self, index, name):
        self.index = index
        self.name = name
        self._made = Once()

    @property
    def default_stream(self):
        return self._made.get("stream", self.stream)

    def stream(self):
        return ToyStream(self)

    def synchronize(self):
        pass

    def allocate(self, nbytes):
        try:
            return bytearray(nbytes)
        except (MemoryError, OverflowError) as error:
            raise self.memory_error(nbytes, "bytearray raised MemoryError") from error

    def slice(self, memory, offset, nbytes):
        return memoryview(memory)[offset : offset + nbytes]

    def view(self, memory):
        return memoryview(memory)

    def write(self, memory, data, stream):
        memory[: data.nbytes] = data

    def read(self, memory, out, stream):
        out[:] = memory[: out.nbytes]

    def use_in_place(self, data, address, *, written):
        return data

    def create_image(self, image):
        check_extent(image, [("driver's limit", 1 << 16)] * 4)
        return bytearray(image.nbytes)

    def create_sampler(self, sampler):
        return None

    def write_image(self, image, data, stream):
        image.handle[:] = data

    def read_image(self, image, out, stream):
        out[:] = image.handle


@functools.cache
def devices():
    return [ToyDevice(index, name) for index, name in enumerate(driver().DEVICES)]


class AdoptedToy(ToyDevice):
    is_adopted = True

    def __init__(self, queue):
        super().__init__(0, driver().DEVICES[0])
        self.queue = queue


ADOPTED = weakref.WeakValueDictionary()


def adopt(handle):
    """Return the device over a Queue of the driver. It references the queue, so that the id is of
    no other object.
    """
    if not isinstance(handle, driver().Queue):
        return None
    return ADOPTED.setdefault(id(handle), AdoptedToy(handle))
