# torch is optional and not installed where the project is checked: to the type checker it is Any.
from typing import Any

def __getattr__(name: str) -> Any: ...
