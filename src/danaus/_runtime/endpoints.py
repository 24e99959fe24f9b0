"""What marks a method as an endpoint, and what the runtime needs to know of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["EndpointProperty", "Signature", "endpoint_of", "is_async_method"]

_CO_FLAGS = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE


def is_async_method(method: Callable[..., Any]) -> bool:
    """True for a coroutine function."""
    code = getattr(method, "__code__", None)
    if code is not None:
        return bool(code.co_flags & _CO_FLAGS)
    return inspect.iscoroutinefunction(method)


class Signature:
    """Checks arguments like a local call would, without the cost of binding on the usual path.

    Args:
        method: What is called.
        skip: Leading parameters that the caller does not give: self, and the response port.
        what: What to call it in errors.
    """

    __slots__ = ("_least", "_most", "_name", "_signature")

    def __init__(self, method: Callable[..., Any], skip: int, what: str = "endpoint") -> None:
        self._signature: inspect.Signature | None = None
        self._name = f"{what} {getattr(method, '__qualname__', repr(method))}"
        parameters: list[inspect.Parameter] = []
        try:
            parameters = _without(list(inspect.signature(method).parameters.values()), skip)
        except (TypeError, ValueError):
            self._least, self._most = 0, 1 << 30
            return
        self._signature = inspect.Signature(parameters)
        plain = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        empty = inspect.Parameter.empty
        positional = [p for p in parameters if p.kind in plain]
        self._least = sum(p.default is empty for p in positional)
        self._most = len(positional)
        if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
            self._most = 1 << 30
        if any(p.kind is inspect.Parameter.KEYWORD_ONLY and p.default is empty for p in parameters):
            self._least = 1 << 30  # always bind: a keyword is needed

    def check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise the TypeError that a local call with these arguments would raise."""
        if not kwargs and self._least <= len(args) <= self._most:
            return
        if self._signature is not None:
            try:
                self._signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{self._name}{self._signature}: {error}") from None


def _without(parameters: list[inspect.Parameter], count: int) -> list[inspect.Parameter]:
    """Less the first so many; ``*args`` takes up as many as there are, and stays."""
    while count and parameters and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        del parameters[0]
        count -= 1
    return parameters


class EndpointProperty:
    """A method that can be called on a mesh of actors.

    On a class it is itself; on an instance of the class it is the plain method.
    """

    def __init__(
        self,
        method: Callable[..., Any],
        *,
        propagate: Any = None,
        explicit_response_port: bool = False,
        instrument: bool = True,
        concurrent: bool = False,
    ) -> None:
        self._method = method
        self._propagate = propagate
        self._explicit_response_port = explicit_response_port
        self._instrument = instrument
        self.concurrent = concurrent
        self.is_async = is_async_method(method)
        self._signature: Signature | None = None
        self.__doc__ = method.__doc__
        self.__name__ = getattr(method, "__name__", "endpoint")
        self.__wrapped__ = method

    @property
    def method(self) -> Callable[..., Any]:
        """The function behind the endpoint."""
        return self._method

    @property
    def explicit_response_port(self) -> bool:
        """True when the method answers by a port that it is given."""
        return self._explicit_response_port

    @property
    def signature(self) -> Signature:
        """What its callers may pass."""
        if self._signature is None:
            self._signature = Signature(self._method, 2 if self._explicit_response_port else 1)
        return self._signature

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return self._method.__get__(instance, owner)

    def __set_name__(self, owner: type, name: str) -> None:
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._method(*args, **kwargs)


def endpoint_of(cls: type, name: str) -> EndpointProperty | None:
    """The endpoint of that name in a class, if it is one."""
    found = inspect.getattr_static(cls, name, None)
    return found if isinstance(found, EndpointProperty) else None
