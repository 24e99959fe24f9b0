"""Which values may a key take, and in which forms are they seen?

A value has four forms, and a `Kind` converts between them:

* *given*: what a program passes to ``configure()``, or a person writes into the environment;
* *plain*: None, bool, int, float or str, canonical; this is stored and sent to other processes;
* *public*: what ``get_global_config()`` shows, e.g. ``Encoding.Json``;
* *effective*: what the runtime works with, e.g. seconds for a duration.

Error texts here name the value and what was expected; the caller puts the key in front.
The enumerations are imported where they are met, to keep `enum` off the import path.
"""

from __future__ import annotations

from danaus._config.durations import format_duration, parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Plain: TypeAlias = bool | int | float | str | None

__all__ = ["Choice", "Duration", "Flag", "Integer", "Kind", "Share", "Text", "Transport"]

_MAX_INTEGER = 2**63 - 1
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")

# Of a wrong value an error shows so many characters, or bits of an int, and no more.
_SHOWN_CHARACTERS = 60
_SHOWN_BITS = 128


class Kind:
    """What is common to the values of a key. The base passes any plain value through."""

    __slots__ = ()

    def accept(self, value: object) -> Plain:
        """Check a given Python value and return its plain form.

        Raises:
            TypeError: The value has another type.
            ValueError: The type is right and the value is not allowed.
        """
        raise NotImplementedError

    def accept_plain(self, value: object) -> Plain:
        """Check a plain form that came from a file or another process; raises as `accept`."""
        return self.accept(value)

    def accept_text(self, text: str) -> Plain:
        """Check a text from the environment; raises as `accept`."""
        return self.accept_plain(text)

    def public(self, plain: Plain) -> object:
        """The form that programs see."""
        return plain

    def effective(self, plain: Plain) -> object:
        """The form that the runtime works with."""
        return plain


class Flag(Kind):
    """True or False; in the environment also 1/0, yes/no and on/off in any case."""

    __slots__ = ()

    def accept(self, value: object) -> Plain:
        if not isinstance(value, bool):
            raise TypeError(f"expected True or False, got {_shown(value)}.")
        return value

    def accept_text(self, text: str) -> Plain:
        word = text.strip().lower()
        if word not in _TRUE and word not in _FALSE:
            raise ValueError(
                f"expected 1 or 0, true or false, yes or no, on or off, got {_shown(text)}."
            )
        return word in _TRUE


class Integer(Kind):
    """An int of ``minimum`` or more that fits 64 bits; None too where ``optional``."""

    __slots__ = ("_minimum", "_optional")

    def __init__(self, *, minimum: int = 0, optional: bool = False) -> None:
        self._minimum = minimum
        self._optional = optional

    def accept(self, value: object) -> Plain:
        if value is None and self._optional:
            return None
        # A bool is an int to Python; here it is a mistake. numpy's integers are welcome.
        index = getattr(type(value), "__index__", None)
        try:
            number = None if isinstance(value, bool) or index is None else int(index(value))
        except TypeError:  # An array of many numbers has the method, and refuses.
            number = None
        if number is None:
            raise TypeError(f"expected {self._expected()}, got {_shown(value)}.")
        if not self._minimum <= number <= _MAX_INTEGER:
            raise ValueError(f"expected {self._expected()}, got {_shown(number)}.")
        return number

    def accept_text(self, text: str) -> Plain:
        try:
            number = int(text)
        except ValueError:
            raise ValueError(f"expected {self._expected()}, got {_shown(text)}.") from None
        return self.accept(number)

    def _expected(self) -> str:
        """What to pass, in words."""
        return f"an int from {self._minimum} to 2**63 - 1" + (" or None" if self._optional else "")


class Share(Kind):
    """A float from 0 to 1, both allowed; an int 0 or 1 is taken as well."""

    __slots__ = ()

    def accept(self, value: object) -> Plain:
        if isinstance(value, bool) or not isinstance(value, float | int):
            raise TypeError(f"expected a float from 0 to 1, got {_shown(value)}.")
        # Also false for a NaN.
        if not 0 <= value <= 1:
            raise ValueError(f"expected a float from 0 to 1, got {_shown(value)}.")
        return float(value)

    def accept_text(self, text: str) -> Plain:
        try:
            number = float(text)
        except ValueError:
            raise ValueError(f"expected a float from 0 to 1, got {_shown(text)}.") from None
        return self.accept(number)


class Text(Kind):
    """Any str."""

    __slots__ = ()

    def accept(self, value: object) -> Plain:
        if not isinstance(value, str):
            raise TypeError(f"expected a str, got {_shown(value)}.")
        return value


class Duration(Kind):
    """A duration such as ``"1h 30m"``; plain and public in canonical text, effective in seconds."""

    __slots__ = ()

    def accept(self, value: object) -> Plain:
        if not isinstance(value, str):
            raise TypeError(f"expected a duration such as '30s' or '1h 30m', got {_shown(value)}.")
        return format_duration(parse_duration(value))

    def effective(self, plain: Plain) -> object:
        return parse_duration(str(plain)) / 1e9


class Choice(Kind):
    """A member of `Encoding`; plain is its name, which files and the environment use too."""

    __slots__ = ()

    def accept(self, value: object) -> Plain:
        from danaus._config.encodings import Encoding

        if not isinstance(value, Encoding):
            raise TypeError(
                f"expected a member of Encoding such as Encoding.Json, got {_shown(value)}."
            )
        return value.name

    def accept_plain(self, value: object) -> Plain:
        from danaus._config.encodings import Encoding

        for member in Encoding:
            if isinstance(value, str) and value.lower() == member.name.lower():
                return member.name
        raise ValueError(f"expected Bincode, Json or Multipart, got {_shown(value)}.")

    def public(self, plain: Plain) -> object:
        from danaus._config.encodings import Encoding

        return Encoding[str(plain)]


class Transport(Kind):
    """What `BindSpec` accepts, or a `BindSpec`; plain is its text."""

    __slots__ = ()

    def accept(self, value: object) -> Plain:
        from danaus._config.transports import BindSpec, ChannelTransport

        if isinstance(value, BindSpec):
            return value.text
        if not isinstance(value, ChannelTransport | str):
            raise TypeError(
                f"expected a ChannelTransport, a BindSpec or a text such as 'tcp', got {_shown(value)}."
            )
        return BindSpec(value).text

    def public(self, plain: Plain) -> object:
        from danaus._config.transports import BindSpec

        return BindSpec(str(plain))


def _shown(value: object) -> str:
    """A short text for a value of any type; never its whole content."""
    if isinstance(value, str):
        cut = value[:_SHOWN_CHARACTERS] + "..." if len(value) > _SHOWN_CHARACTERS else value
        return f"{cut!r} (str)"
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"an int of {value.bit_length()} bits"
    if value is None or isinstance(value, bool | int | float):
        return f"{value!r} ({type(value).__name__})"
    return f"a value of type {type(value).__name__}"
