"""The part of `devmod_targets._library_server` that calls Slang's library, by its functions in C
and by the tables of its objects.

Slang adds functions to the end of a table, and changes no other one.
"""

from __future__ import annotations

import ctypes
import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    _Message = dict[str, Any]

#: SLANG_SOURCE_LANGUAGE_SLANG and SLANG_STAGE_COMPUTE.
_SLANG = 1
_COMPUTE = 6
#: The positions of functions in the tables of Slang's objects: ISlangBlob, IGlobalSession,
#: ISession, IComponentType, IModule.
_RELEASE = 2
_BYTES = 3
_SIZE = 4
_SET_PRELUDE = 11
_COMPOSE = 6
_LAYOUT = 4
_PARAMETERS = 5
_CODE = 6
_LINK = 10
_RENAME = 12
_TARGET_CODE = 14
_ENTRY_COUNT = 18
_ENTRY = 19
_FIND_ENTRY = 25

_Pointer = ctypes.c_void_p
_Out = ctypes.POINTER(_Pointer)


def load(start: _Message) -> Callable[[_Message, bytes], tuple[int | bytes, ...]]:
    """Open the library, and create its session, which reads the modules of the language."""
    library = ctypes.CDLL(start["library"])
    for name in ("spCreateSession", "spCreateCompileRequest", "spReflection_getEntryPointByIndex"):
        getattr(library, name).restype = _Pointer
    for name in (
        "spGetDiagnosticOutput",
        "spGetDependencyFilePath",
        "spGetBuildTagString",
        "spReflectionEntryPoint_getName",
    ):
        getattr(library, name).restype = ctypes.c_char_p
    library.spReflection_ToJson.argtypes = (_Pointer, _Pointer, _Out)
    session = _Pointer(library.spCreateSession(None))
    if not session.value:
        raise OSError("the library of Slang returns no session")
    return lambda request, text: _Request(library, session).answer(request, text)


class _Request:
    """One request.

    It is a map of "file", the path of the source, which need not exist; "arguments", those of
    slangc; "instances", expressions such as ``scale<float>``; "preludes", the texts before the
    output by the number of a language; and "together", whether the entry points become one code.
    The parts of the answer are a map in JSON; the reflection and the code of each entry point, b""
    for the one that cannot be translated; and the messages.
    """

    def __init__(self, library: ctypes.CDLL, session: _Pointer) -> None:
        self._library = library
        self._session = session
        self._messages = b""
        self._objects: list[_Pointer] = []

    def answer(self, request: _Message, text: bytes) -> tuple[int | bytes, ...]:
        """Return the status and the parts of the answer for the text of a source."""
        library = self._library
        for language, prelude in request["preludes"].items():
            _call(
                self._session,
                _SET_PRELUDE,
                None,
                ctypes.c_int(int(language)),
                ctypes.c_char_p(prelude.encode()),
            )
        compile_request = _Pointer(library.spCreateCompileRequest(self._session))
        status = self._compile(compile_request, request, text)
        self._messages = library.spGetDiagnosticOutput(compile_request) or b""
        head: _Message = {
            "version": library.spGetBuildTagString().decode(),
            "files": [],
            "instances": [],
        }
        parts: list[bytes] = []
        if not status:
            count = library.spGetDependencyFileCount(compile_request)
            head["files"] = [
                os.fsdecode(library.spGetDependencyFilePath(compile_request, number))
                for number in range(count)
            ]
            module = self._object()
            linkage = self._object()
            library.spCompileRequest_getModule(
                compile_request, ctypes.c_ssize_t(0), ctypes.byref(module)
            )
            library.spCompileRequest_getSession(compile_request, ctypes.byref(linkage))
            entries, own = self._entries(module)
            head["instances"] = [each for each in request["instances"] if each not in own]
            entries += self._instances(module, head["instances"], rename=request["together"])
            status, parts = self._programs(linkage, module, entries, whole=request["together"])
        for each in self._objects:
            if each.value:
                _call(each, _RELEASE, ctypes.c_uint32)
        library.spDestroyCompileRequest(compile_request)
        return int(bool(status)), json.dumps(head).encode(), *parts, self._messages

    def _compile(self, compile_request: _Pointer, request: _Message, text: bytes) -> int:
        """Compile a source. Return the status."""
        library = self._library
        arguments = [argument.encode() for argument in request["arguments"]]
        status: int = library.spProcessCommandLineArguments(
            compile_request,
            (ctypes.c_char_p * len(arguments))(*arguments),
            ctypes.c_int(len(arguments)),
        )
        unit = library.spAddTranslationUnit(compile_request, ctypes.c_int(_SLANG), None)
        first = ctypes.cast(ctypes.c_char_p(text), _Pointer).value or 0
        library.spAddTranslationUnitSourceStringSpan(
            compile_request,
            ctypes.c_int(unit),
            os.fsencode(request["file"]),
            _Pointer(first),
            _Pointer(first + len(text)),
        )
        return status or library.spCompile(compile_request)

    def _programs(
        self,
        linkage: _Pointer,
        module: _Pointer,
        entries: list[_Pointer],
        *,
        whole: bool,
    ) -> tuple[int, list[bytes]]:
        """Return the status, and the reflection and the code of each program up to the first that
        cannot be translated.
        """
        groups = [[entry] for entry in entries]
        if whole and entries:
            groups = [entries]
        parts = []
        for group in groups:
            result = []
            if all(entry.value for entry in group):
                result = self._translated(linkage, [module, *group], whole=whole)
            parts += result
            if not result or not result[1]:
                return -1, parts
        return 0, parts

    def _object(self) -> _Pointer:
        """Return a pointer for an object of Slang, which the request releases at its end."""
        self._objects.append(_Pointer())
        return self._objects[-1]

    def _entries(self, module: _Pointer) -> tuple[list[_Pointer], list[str]]:
        """Return the compute entry points of a module that are not generic, and their names."""
        library = self._library
        entries = []
        names = []
        for number in range(_call(module, _ENTRY_COUNT, ctypes.c_int32)):
            entry = self._object()
            _call(module, _ENTRY, ctypes.c_int32, ctypes.c_int32(number), ctypes.byref(entry))
            messages = ctypes.byref(self._object())
            layout = _Pointer(_call(entry, _LAYOUT, _Pointer, ctypes.c_ssize_t(0), messages))
            is_generic = _call(entry, _PARAMETERS, ctypes.c_ssize_t) != 0
            if is_generic or not layout.value:
                continue
            about = _Pointer(library.spReflection_getEntryPointByIndex(layout, ctypes.c_size_t(0)))
            if about.value and library.spReflectionEntryPoint_getStage(about) == _COMPUTE:
                entries.append(entry)
                names.append(library.spReflectionEntryPoint_getName(about).decode())
        return entries, names

    def _instances(
        self, module: _Pointer, instances: Sequence[str], *, rename: bool
    ) -> Iterator[_Pointer]:
        """Yield the entry points of expressions; null for an error."""
        for instance in instances:
            entry = self._object()
            messages = self._object()
            arguments = (
                ctypes.c_char_p(instance.encode()),
                ctypes.c_int(_COMPUTE),
                ctypes.byref(entry),
                ctypes.byref(messages),
            )
            self._check(_call(module, _FIND_ENTRY, ctypes.c_int32, *arguments), messages)
            if entry.value and rename:
                renamed = self._object()
                _call(
                    entry,
                    _RENAME,
                    ctypes.c_int32,
                    ctypes.c_char_p(symbol_of(instance).encode()),
                    ctypes.byref(renamed),
                )
                entry = renamed
            yield entry

    def _translated(
        self, linkage: _Pointer, components: list[_Pointer], *, whole: bool
    ) -> list[bytes]:
        """Return the reflection and the code of a program. The code is b"" for an error, and there
        is nothing for one before.
        """
        composite, program, reflection, code, messages = (self._object() for _ in range(5))
        array = (_Pointer * len(components))(*components)
        if not self._step(
            linkage, _COMPOSE, array, ctypes.c_ssize_t(len(components)), ctypes.byref(composite)
        ):
            return []
        if not self._step(composite, _LINK, ctypes.byref(program)):
            return []
        first = ctypes.c_ssize_t(0)
        layout = _call(program, _LAYOUT, _Pointer, first, ctypes.byref(messages))
        status = -1
        if layout:
            status = self._library.spReflection_ToJson(layout, None, ctypes.byref(reflection))
        if not self._check(status, messages):
            return []
        if whole:
            self._step(program, _TARGET_CODE, first, ctypes.byref(code))
        else:
            # The number of the entry point is before that of the target.
            self._step(program, _CODE, first, first, ctypes.byref(code))
        return [_bytes(reflection), _bytes(code)]

    def _step(self, target: _Pointer, position: int, *arguments: Any) -> bool:
        messages = self._object()
        return self._check(
            _call(target, position, ctypes.c_int32, *arguments, ctypes.byref(messages)), messages
        )

    def _check(self, status: int, messages: _Pointer) -> bool:
        """Return whether a call has succeeded, and keep its messages."""
        if messages.value:
            self._messages += _bytes(messages)
        return status >= 0


def symbol_of(instance: str) -> str:
    """Return the name of an instance such as ``scale<float>`` in a program of several entry points:
    ``scale_float``.
    """
    text = ""
    for char in instance.replace("-", " minus "):
        if not char.isalnum():
            char = " "
        text += char
    return "_".join(text.split())


def _call(target: _Pointer, position: int, result: Any, *arguments: Any) -> Any:
    """Call a function of an object's table."""
    table = ctypes.cast(ctypes.cast(target, ctypes.POINTER(_Pointer))[0], ctypes.POINTER(_Pointer))
    values = [_value(each) for each in arguments]
    types = [type(each) for each in values]
    return ctypes.CFUNCTYPE(result, _Pointer, *types)(table[position])(target, *values)


def _value(argument: Any) -> Any:
    """Return an argument as a simple value of ctypes: an array or a reference as its address."""
    if isinstance(argument, ctypes.Array) or not hasattr(argument, "value"):
        return ctypes.cast(argument, _Pointer)
    return argument


def _bytes(blob: _Pointer) -> bytes:
    if not blob.value:
        return b""
    return ctypes.string_at(_call(blob, _BYTES, _Pointer), _call(blob, _SIZE, ctypes.c_size_t))
