# cloudpickle ships no types: the part of it that Danaus uses.
import pickle
from collections import ChainMap
from collections.abc import Callable
from types import ModuleType
from typing import IO, Any

DEFAULT_PROTOCOL: int
__version__: str

class CloudPickler(pickle.Pickler):
    dispatch_table: ChainMap[type, Callable[[Any], str | tuple[Any, ...]]]
    def __init__(
        self,
        file: IO[bytes],
        protocol: int | None = None,
        buffer_callback: Callable[[pickle.PickleBuffer], Any] | None = None,
    ) -> None: ...
    def dump(self, obj: Any) -> None: ...
    def reducer_override(self, obj: Any) -> Any: ...

Pickler = CloudPickler

def dumps(
    obj: Any,
    protocol: int | None = None,
    buffer_callback: Callable[[pickle.PickleBuffer], Any] | None = None,
) -> bytes: ...
def loads(
    data: bytes | bytearray | memoryview, *, buffers: Any = None
) -> Any: ...
def register_pickle_by_value(module: ModuleType) -> None: ...
def unregister_pickle_by_value(module: ModuleType) -> None: ...
def list_registry_pickle_by_value() -> set[str]: ...
