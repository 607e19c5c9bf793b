"""Images, samplers, needs and the sizes of subgroups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, product
from typing import TYPE_CHECKING, Any

import devmod
from devmod.backend import IMAGE_FORMATS
from devmod_conformance._case import Call, Conformance, Sample
from devmod_conformance._row import Skip
from devmod_conformance._rows._tools import (
    applicable,
    check_call,
    compare_arrays,
    default_device,
    expect_argument_error,
    expect_error,
    get_function,
    import_numpy,
    kernels_of_row,
    launch,
    list_devices,
    module_with,
    require,
    require_equal,
    row,
    runtime_module,
    samples_with_calls,
    with_interfaces,
)
from devmod_conformance._sampling import sample_image, texel_values
from devmod_conformance._turn import device_turn

if TYPE_CHECKING:
    from devmod import Image, Sampler

_SAMPLING = ("source", "source_sampler", "places", "result")
_WRITING = ("destination",)
#: The number of places at which a kernel samples, and the width and the height of the image that a
#: kernel writes.
_PLACES = 128
_WIDTH = 16
_HEIGHT = 8
#: The shapes and the layers of the images of `new_images`. A device may refuse all but the first,
#: and all formats but rgba8unorm.
_SHAPES = (
    ((7, 5), 0),
    ((4, 3), 3),
    ((1,), 0),
    ((300,), 0),
    ((64, 1), 0),
    ((1, 9), 0),
    ((67, 5), 0),
    ((65, 3, 4), 0),
    ((4, 4), 1),
    ((5,), 2),
)
#: Formats with each size of a texel, on which the layout of rows depends. Others have two shapes.
_OF_EACH_SIZE = ("rgba8unorm", "r8unorm", "r16float", "rg32float", "rgba32float")
#: The formats of the sampled images. A device may refuse a linear sampler for all but the first.
_SAMPLED_FORMATS = ("rgba8unorm", "r32float", "rgba32float", "rgba16float", "bgra8unorm")
#: The address modes of samplers. A device may refuse all but the first.
_ADDRESSES = ("clamp", "repeat", "mirror", "border")
#: A GPU has eight bits or more for the weights of a filter.
_FILTER_ERROR = 0.02


@row("R37-images")
def new_images(case: Conformance) -> None:
    """An image is zeros when it is new, and then has what was copied to it."""
    np = import_numpy()
    _image_samples(case)
    device = default_device(case)
    rng = np.random.default_rng(20260)
    for format_, (shape, layers) in chain(
        product(_OF_EACH_SIZE, _SHAPES), product(IMAGE_FORMATS, _SHAPES[:2])
    ):
        for _ in range(2):
            try:
                image = device.image(shape, format_, layers=layers)
            except devmod.ArgumentError:
                require(
                    (format_, shape) != ("rgba8unorm", _SHAPES[0][0]),
                    f"Device.image{(shape, format_)} is an ArgumentError",
                )
                break
            subject = f"an image of {format_} with the shape {shape}"
            if layers:
                subject += f" and {layers} layers"
            zeros = image.numpy()
            require_equal(
                (zeros.shape, str(zeros.dtype)),
                (image.array_shape, image.texel.dtype),
                f"the shape and dtype of {subject}",
            )
            require(not zeros.any(), f"{subject} has other values than zero")
            values = _texels(rng, image)
            image.copy_from(values)
            require(
                np.array_equal(image.numpy(), values),
                f"{subject} has other values after a copy from the host and back",
            )
            with expect_error(
                devmod.ArgumentError, f"copy_from an array of another shape to {subject}"
            ):
                image.copy_from(np.zeros((*zeros.shape, 2), zeros.dtype))
            del image
    picture = rng.integers(0, 255, (5, 7, 4), "uint8")
    image = device.image_from_numpy(picture)
    require_equal(
        (image.shape, image.format),
        ((7, 5), "rgba8unorm"),
        "the shape and the format of Device.image_from_numpy",
    )
    require(
        np.array_equal(image.numpy(), picture),
        "an image of Device.image_from_numpy has other values",
    )
    with expect_error(devmod.ArgumentError, "an image that is wider than any device supports"):
        device.image((1 << 30, 1), "rgba8unorm")


@row("R37-written")
def written_images(case: Conformance) -> None:
    """A kernel writes to an image, in the order of the stream."""
    np = import_numpy()
    _image_samples(case)
    device = default_device(case)
    for name, info, function in applicable(
        _functions(case, _WRITING),
        "no function of the case's images has the parameter 'destination' alone",
    ):
        (param,) = info.interface.params
        call = _call(name)
        shape = _threads(function, (_WIDTH, _HEIGHT), (8, 8))
        open_format = {"int": "rgba16sint", "uint": "rgba8uint"}.get(param.sample, "rgba8unorm")
        image = device.image((_WIDTH, _HEIGHT), param.format or open_format)
        x, y = np.meshgrid(np.arange(_WIDTH), np.arange(_HEIGHT))
        expected = np.stack([x, y, x + y, np.full_like(x, 255)], axis=-1)
        expected = expected[..., : image.texel.channels]
        if image.texel.sample == "float":
            expected = expected / 255
        bound = function.bind(image, **shape)
        stream = device.stream()
        for how, launch_once in (
            ("called", partial(function, image, **shape)),
            ("bound", bound),
            ("on another stream", partial(function, image, **shape, stream=stream)),
            ("timed", bound.time),
        ):
            with device_turn(case.kind):
                launch_once()
                stream.synchronize()
                actual = texel_values(image.numpy(), image.format, 2)
                # Over what the launch has written.
                image.copy_from(np.zeros(image.array_shape, image.texel.dtype))
            compare_arrays(
                call, [actual], [expected.astype("float32")], f"{how}, which writes to an image"
            )
            require(
                not image.numpy().any(),
                f"{name!r} {how}: a copy to the image is not after the launch",
            )


@row("R37-sampled")
def sampled_images(case: Conformance) -> None:
    """A kernel reads an image by each sampler of the device, at places inside and outside of it."""
    _image_samples(case)
    device = default_device(case)
    names = ", ".join(map(repr, _SAMPLING))
    for name, info, function in applicable(
        _functions(case, _SAMPLING), f"no function of the case's images has the parameters {names}"
    ):
        param = info.interface.params[_names(info).index("source")]
        formats: tuple[str, ...] = _SAMPLED_FORMATS
        if param.format:
            formats = (param.format,)
        for format_ in formats:
            needed = format_ == formats[0]
            image = _filled(device, param.type or "2d", format_, needed)
            if image is not None:
                _check_samplers(case, name, function, image, needed)


def _check_samplers(
    case: Conformance, name: str, function: Any, image: Image, needed: bool
) -> None:
    """Check each sampler of the device with an image. If its format is not needed, the device may
    refuse it.
    """
    # How a sampler treats the places outside of an image does not depend on the format. A driver
    # may compile code for each pair.
    addresses = _ADDRESSES if needed else _ADDRESSES[:1]
    for sampler in _samplers(default_device(case), addresses):
        try:
            _check_sampling(case, name, function, image, sampler)
        except devmod.ArgumentError:
            if needed and sampler.address == "clamp" and sampler.normalized:
                raise


def _check_sampling(
    case: Conformance, name: str, function: Any, image: Image, sampler: Sampler
) -> None:
    np = import_numpy()
    layered = bool(image.layers)
    dimensions = len(image.shape)
    sizes = np.array(image.shape)
    places = np.random.default_rng(7).uniform(-0.75, 1.75, (_PLACES, dimensions)) * sizes
    if sampler.filter == "nearest":  # away from the borders between texels, where rounding decides
        places = np.floor(places) + 0.1 + 0.8 * (places - np.floor(places))
    if sampler.normalized:
        places = places / sizes
    if layered:
        places = np.concatenate([places, np.arange(_PLACES)[:, None] % image.layers], axis=1)
    places = places.astype("float32")
    result = np.full((_PLACES, 4), -7, "float32")
    arguments = {"source": image, "source_sampler": sampler, "places": places, "result": result}
    launch(case, function, (), **arguments, **_threads(function, (_PLACES,), (8,)))
    values = texel_values(image.numpy(), image.format, dimensions + layered)
    expected = sample_image(
        values,
        places,
        filter=sampler.filter,
        address=sampler.address,
        normalized=sampler.normalized,
        layered=layered,
    )
    call = _call(name, atol=_FILTER_ERROR if sampler.filter == "linear" else 1e-5)
    subject = f"of an image of type {image.type} and format {image.format} with {sampler!r}"
    compare_arrays(call, [result[:, : expected.shape[1]]], [expected.astype("float32")], subject)


@row("R34-images")
def invalid_images(case: Conformance) -> None:
    """An invalid image or sampler raises ArgumentError, which names the argument, before any
    launch.
    """
    np = import_numpy()
    _image_samples(case)
    device = default_device(case)
    devices = sorted(list_devices(case), key=lambda each: each is not device)
    for kind in (_SAMPLING, _WRITING):
        for name, info, function in _functions(case, kind):
            param = next(each for each in info.interface.params if each.kind == "image")
            image = _filled(device, param.type or "2d", param.format or "rgba8unorm", True)
            sampler = device.sampler()
            result = np.full((_PLACES, 4), -7, "float32")
            places = np.zeros((_PLACES, len(image.shape) + bool(image.layers)), "float32")
            every = {
                "source": image,
                "source_sampler": sampler,
                "places": places,
                "result": result,
                "destination": image,
            }
            valid = {key: every[key] for key in kind}
            threads = (8, 8) if kind == _WRITING else (8,)
            for fault, argument, value in _invalid_images(
                devices, param, image, sampler, "source_sampler" in kind
            ):
                with expect_argument_error(
                    case, _call(name), f"with {fault}", argument, "the kernel was launched"
                ):
                    launch(
                        case,
                        function,
                        (),
                        **{**valid, argument: value},
                        **_threads(function, threads, (8, 8)),
                    )
                require((result == -7).all(), f"{name!r} with {fault} changes an array")


def _invalid_images(
    devices: Sequence[Any], param: Any, image: Image, sampler: Sampler, has_sampler: bool
) -> Iterator[tuple[str, str, Any]]:
    """Yield what a kernel cannot take: a description, the name of the argument, and the value."""
    yield "a host array as an image", param.name, image.numpy()
    yield "a device array as an image", param.name, devices[0].zeros((4,), "float32")
    yield "None as an image", param.name, None
    yield "a sampler as an image", param.name, sampler
    others = (
        (
            "an image of another type",
            "3d" if param.type == "2d" else "2d",
            image.format,
            param.type,
        ),
        ("an image of integers", image.type, "rgba8uint", param.sample == "float"),
        (
            "an image of another format",
            image.type,
            "rgba16float",
            param.format and param.format != "rgba16float",
        ),
    )
    for fault, type_, format_, applies in others:
        if not applies:
            continue
        other = _filled(devices[0], type_, format_, False)
        if other is not None:
            yield fault, param.name, other
    if len(devices) > 1 and has_sampler:
        yield "a sampler of another device", "source_sampler", devices[1].sampler()
    if has_sampler:
        yield "an image as a sampler", "source_sampler", image
        yield "None as a sampler", "source_sampler", None


@row("R40-needs")
def needs(case: Conformance) -> None:
    """A function whose needs the device lacks raises DeviceNotFoundError, which names them, before
    it is built.
    """
    device = default_device(case)
    if device.features is None:
        raise Skip(
            f"{device} does not report what it has of the needs of interfaces (Device.features)"
        )
    pairs = with_interfaces(samples_with_calls(case))
    for sample, call, interface in applicable(pairs, "no called function has an interface"):
        _check_refused(case, sample, call, interface, "no_such_need", needs=["no_such_need"])
        if device.subgroup_sizes:
            size = 2 * max(device.subgroup_sizes)
            _check_refused(case, sample, call, interface, str(size), subgroup=size)
        able = interface.replace(needs=sorted(device.features))
        module = module_with(case, sample, call.function, interface=able)
        check_call(
            case, call, get_function(module, call.function), "that needs what the device has"
        )


def _check_refused(
    case: Conformance,
    sample: Sample,
    call: Call,
    interface: devmod.Interface,
    need: str,
    **fields: Any,
) -> None:
    subject = f"{call.function!r} with {fields}"
    changed = interface.replace(**fields)
    with expect_error(devmod.DeviceNotFoundError, subject, "it was launched") as caught:
        module = module_with(case, sample, call.function, interface=changed)
        function = module.get_function(call.function)
        launch(case, function, call.make_arguments(), **call.keywords)
    require(
        need in str(caught[0]), f"{subject}: the error does not name what is missing: {caught[0]}"
    )


@row("R40-subgroup")
def subgroup_sizes(case: Conformance) -> None:
    """A function that requires a size of subgroups runs with it."""
    np = import_numpy()
    absent = "the case has no subgroups: the backend cannot require their size, or gives no kernel that shows it"
    samples = kernels_of_row(case, case.subgroups, absent)
    device = default_device(case)
    able = [
        (sample, name, info.interface.subgroup)
        for sample in samples
        for name, info in sample.fmap.items()
        if info.interface is not None
        and _names(info) == ["result"]
        and info.interface.subgroup in device.subgroup_sizes
    ]
    sizes = tuple(device.subgroup_sizes)
    for sample, name, size in applicable(
        able, f"no function with the parameter 'result' requires one of the sizes {sizes}"
    ):
        result = np.zeros(_PLACES, "uint32")
        function = get_function(runtime_module(case, sample), name)
        launch(case, function, (result,), **_threads(function, (_PLACES,), (_PLACES,)))
        compare_arrays(
            _call(name),
            [result],
            [np.full(_PLACES, size, "uint32")],
            f"that requires subgroups of {size} threads",
        )


# -- The functions of a case.


def _image_samples(case: Conformance) -> list[Sample]:
    import_numpy()
    return kernels_of_row(
        case,
        case.images,
        "the case has no images: the backend does not support them, or gives no kernels with images",
    )


def _functions(case: Conformance, names: Sequence[str]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the functions of the case's images that have exactly these parameters: the name, the
    description and the function.
    """
    for sample in _image_samples(case):
        for name, info in sample.fmap.items():
            require(
                info.interface is not None and set(_names(info)) in (set(_SAMPLING), set(_WRITING)),
                f"the function {name!r} of the case's images: expected the parameters {', '.join(_SAMPLING)}, or {_WRITING[0]}",
            )
            if set(_names(info)) == set(names):
                yield name, info, get_function(runtime_module(case, sample), name)


def _names(info: Any) -> list[str]:
    return [param.name for param in info.interface.params]


def _call(name: str, atol: float = 1e-5) -> Call:
    """Return a call that has only the function's name, for messages, and a tolerance."""
    return Call(name, lambda _: (), lambda: None, atol=atol)


def _threads(function: Any, threads: tuple[int, ...], block: tuple[int, ...]) -> dict[str, Any]:
    """Return the launch of a function with these threads, and this block unless the function has
    one.
    """
    if function.block is not None:
        return {"threads": threads}
    return {"threads": threads, "block": block[: len(threads)]}


def _samplers(device: Any, addresses: Sequence[str]) -> Iterator[Sampler]:
    """Yield all samplers of a device with these addresses. It may refuse those that have another
    than "clamp", or texels as coordinates.
    """
    for filter_ in ("nearest", "linear"):
        for address in addresses:
            for normalized in (True, False):
                try:
                    yield device.sampler(filter=filter_, address=address, normalized=normalized)
                except devmod.ArgumentError:
                    if address == "clamp" and normalized:
                        raise


def _filled(device: Any, type_: str, format_: str, needed: bool) -> Any:
    """Return an image of a type and a format with random values; None if the device refuses it and
    it is not needed.
    """
    np = import_numpy()
    shape = (7, 5, 4)[: int(type_[0])]
    layers = 3 if type_.endswith("_array") else 0
    try:
        image = device.image(shape, format_, layers=layers)
    except devmod.ArgumentError:
        if needed:
            raise
        return None
    image.copy_from(_texels(np.random.default_rng(20260), image))
    return image


def _texels(rng: Any, image: Image) -> Any:
    """Return random texels. No format changes them: the least number of a signed one is equal to
    the next.
    """
    np = import_numpy()
    dtype: Any = np.dtype(image.texel.dtype)
    if dtype.kind == "f":
        return rng.random(image.array_shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(
        limits.min + (limits.min < 0), limits.max, image.array_shape, dtype, endpoint=True
    )
