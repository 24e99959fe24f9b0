"""Classes and functions that travel by value: those of ``__main__``, and what has no module.

A class is pickled once and kept as bytes with a digest; messages that need it carry these bytes,
and a receiver that knows the digest skips them. Pickling it anew for each message would cost
25 µs here and more there. So a class travels as it was when it was first sent, and one that comes
back to where it was made is that very class: its attributes are not touched.

Code keeps the name of its file, so that remote tracebacks show the line and its source. Where the
source is in no file (an interactive session), its lines travel along.
"""

from __future__ import annotations

import dis
import hashlib
import importlib
import inspect
import io
import linecache
import pickle
import sys
import types
from collections import ChainMap
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import cloudpickle
import cloudpickle.cloudpickle as _cloudpickle

__all__ = ["dump_by_value", "dump_with_imports"]

_PLACEHOLDER = "<dynamic-code>"
"""What cloudpickle writes instead of the file's name."""

Keep = Callable[[Any], bool]
Reducers = dict[type, Callable[[Any], Any]]

_parcels: WeakKeyDictionary[type, tuple[bytes, bytes]] = WeakKeyDictionary()
"""Digest and pickle of each class that was sent or received."""

_known: WeakValueDictionary[bytes, type] = WeakValueDictionary()
"""The same classes by digest."""

_LOADS = ("LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
"""Instructions that look in the namespace of a class body, and then among the globals."""

_class_names: WeakKeyDictionary[types.CodeType, frozenset[str]] = WeakKeyDictionary()
"""Results of `_names_of_classes`."""


def dump_by_value(value: Any, keep: Keep | None, reducers: Reducers) -> bytes:
    """Pickle ``value`` with what it needs of classes and functions.

    Args:
        value: Anything that cloudpickle can pickle.
        keep: Buffer callback of the pickler.
        reducers: How instances of further types are pickled.
    """
    return _dump(value, keep, _Manner(reducers))


class _Manner:
    """How a pickle and those inside it are made.

    Attributes:
        reducers: How instances of further types are pickled.
        opened: Classes that are being pickled; inside its own pickle, a class is one like any
            other, so that one which refers to itself has an end.
        imports: Whether the receiver imports those globals of functions that have no pickle.
    """

    __slots__ = ("imports", "opened", "reducers")

    def __init__(
        self, reducers: Reducers, opened: frozenset[type] = frozenset(), *, imports: bool = False
    ) -> None:
        self.reducers = reducers
        self.opened = opened
        self.imports = imports

    def inside(self, cls: type) -> _Manner:
        return _Manner(self.reducers, self.opened | {cls}, imports=self.imports)


def _dump(value: Any, keep: Keep | None, manner: _Manner) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream, keep, manner).dump(value)
    return stream.getvalue()


def dump_with_imports(value: Any, keep: Keep | None, reducers: Reducers) -> bytes:
    """`dump_by_value` where that failed: globals without a pickle go by their names.

    A script may say ``from library import handle`` where the handle, an object of some C type or
    one that holds a lock, cannot be pickled. The functions of the script that use it can be sent
    all the same: the receiver imports it.
    """
    return _dump(value, keep, _Manner(reducers, imports=True))


_make_skeleton = _cloudpickle._make_skeleton_class  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # to recognise it

#: Whether a class is found in the module that it names, by a receiver too.
_by_reference = _cloudpickle._should_pickle_by_reference  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def _reduce_code(code: types.CodeType) -> Any:
    make, arguments = _cloudpickle._code_reduce(code)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # to keep the name
    name = code.co_filename
    named = tuple(name if a == _PLACEHOLDER else a for a in arguments)
    if not name.startswith("<"):
        return make, named
    return _make_code, (named, linecache.getlines(name))


def _make_code(arguments: tuple[Any, ...], lines: list[str]) -> types.CodeType:
    code = types.CodeType(*arguments)
    if lines and code.co_filename not in linecache.cache:
        size = sum(map(len, lines))
        linecache.cache[code.co_filename] = (size, None, lines, code.co_filename)
    return code


def _reduce_file(file: io.TextIOWrapper) -> Any:
    for name in ("stdin", "stdout", "stderr"):
        if file is getattr(sys, name):
            return getattr, (sys, name)
    # cloudpickle would send a copy of its contents, which is hardly ever what was meant.
    raise TypeError(f"cannot pickle the open file {file.name!r}")


_REDUCERS: Reducers = {types.CodeType: _reduce_code, io.TextIOWrapper: _reduce_file}


class _Pickler(cloudpickle.Pickler):
    dispatch_table = ChainMap[type, Any](  # noqa: RUF012  # as in the base class
        _REDUCERS, cloudpickle.Pickler.dispatch_table
    )

    def __init__(self, stream: io.BytesIO, keep: Keep | None, manner: _Manner) -> None:
        super().__init__(stream, protocol=5, buffer_callback=keep)
        self._manner = manner

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type):
            if obj not in self._manner.opened and not _by_reference(obj):
                return _unpack, self._parcel_of(obj)
            return _with_slots(obj, super().reducer_override(obj))
        if isinstance(obj, types.FunctionType):
            reduced = super().reducer_override(obj)
            if reduced is not NotImplemented:
                names = reduced[2][1]["__globals__"]
                for name in _names_of_classes(obj.__code__):
                    if name in obj.__globals__:
                        names.setdefault(name, obj.__globals__[name])
                if self._manner.imports:
                    self._import_globals(names)
            return reduced
        # The table of a pickler belongs to its class, and these come with each pickle.
        reduce = self._manner.reducers.get(type(obj))  # pyright: ignore[reportUnknownArgumentType]  # any type
        if reduce is not None:
            return reduce(obj)
        return super().reducer_override(obj)

    def _parcel_of(self, cls: type) -> tuple[bytes, bytes]:
        """Digest and pickle of a class."""
        parcel = _parcels.get(cls)
        if parcel is None:
            data = _dump(cls, None, self._manner.inside(cls))
            digest = hashlib.blake2b(data, digest_size=16).digest()
            parcel = _parcels.setdefault(cls, (digest, data))
            _known[parcel[0]] = cls
        return parcel

    def _import_globals(self, names: dict[str, Any]) -> None:
        """Put the names of modules in the place of what cannot be pickled."""
        for name, value in names.items():
            module = _module_of(name, value)
            if module is not None and not self._can(value):
                names[name] = _Imported(module, name)

    def _can(self, value: Any) -> bool:
        try:
            _dump(value, None, self._manner)
        except Exception:  # noqa: BLE001  # whatever a foreign type raises, it says no
            return False
        return True


def _names_of_classes(code: types.CodeType) -> frozenset[str]:
    """Names that the bodies of classes use which are defined in a function.

    cloudpickle sends the globals that functions load. The body of a class loads them otherwise.
    """
    found = _class_names.get(code)
    if found is None:
        names: set[str] = set()
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType):
                names |= _names_of_classes(inner)
                if not inner.co_flags & inspect.CO_OPTIMIZED:
                    loads = dis.get_instructions(inner)
                    names |= {i.argval for i in loads if i.opname in _LOADS}
        found = _class_names[code] = frozenset(names)
    return found


def _with_slots(cls: type, reduced: Any) -> Any:
    """The reduction of a class, made so that the class has its slots again.

    cloudpickle makes the class without and sets the attribute ``__slots__`` afterwards. Instances
    then have a dictionary; those that come back to where the class was made have no place for it.
    """
    slots = vars(cls).get("__slots__")
    if slots is None or reduced is NotImplemented or reduced[0] is not _make_skeleton:
        return reduced
    if issubclass(cls, tuple):
        return reduced  # NamedTuple insists on making them itself, and a tuple can have none
    kind, name, bases, namespace, *rest = reduced[1]
    attributes, others = reduced[2]
    attributes.pop("__slots__", None)
    names = [slots] if isinstance(slots, str) else list(slots)
    # Private names have been mangled, and their descriptors, which cannot be pickled, as well.
    for slot in names:
        if slot.startswith("__") and not slot.endswith("__"):
            attributes.pop(f"_{cls.__name__.lstrip('_')}{slot}", None)
    arguments = (kind, name, bases, {**namespace, "__slots__": slots}, *rest)
    return (reduced[0], arguments, (attributes, others), *reduced[3:])


def _unpack(digest: bytes, data: bytes) -> type:
    cls = _known.get(digest)
    if cls is None:
        cls = pickle.loads(data)  # noqa: S301  # part of the codec
        _parcels[cls] = (digest, data)
        _known[digest] = cls
    return cls


# globals that cannot be pickled, but imported


class _Imported:
    """Stands for an object that the receiver imports."""

    __slots__ = ("_module", "_name")

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    def __reduce__(self) -> Any:
        return _import, (self._module, self._name)


def _import(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _module_of(name: str, value: Any) -> str | None:
    """The module, other than a script, where ``name`` is that very object."""
    for module_name, module in sys.modules.copy().items():
        if module_name != "__main__" and vars(module).get(name) is value:
            return module_name
    return None
