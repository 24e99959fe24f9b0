"""Classes and functions of a script, on their way to another process and back."""

import importlib
import linecache
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from danaus._wire.codec import dumps, loads

LIBRARY = """
import threading
HANDLE = threading.Lock()  # has no pickle
class Holder:
    def __init__(self):
        self.lock = threading.Lock()
CLIENT = Holder()  # holds what has none
"""


def define(source: str, **names: Any) -> dict[str, Any]:
    """Run ``source`` as a script would run it."""
    script = {"__name__": "__main__", **names}
    exec(compile(textwrap.dedent(source), "script.py", "exec"), script)
    return script


def in_another_process(parts: list[Any], source: str) -> bytes:
    """Run ``source`` there on ``value``; what it leaves in ``value`` comes back."""
    program = (
        "import sys\n"
        "from danaus._wire.codec import dumps, loads\n"
        "data = sys.stdin.buffer.read()\n"
        "value = loads([data])\n"
        f"{textwrap.dedent(source)}\n"
        "sys.stdout.buffer.write(dumps(value)[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=b"".join(parts), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_a_class_that_comes_home_is_the_very_class_and_keeps_its_attributes():
    cls = define("class C:\n    count = 0\n    def f(self): return 1\n")["C"]
    method = cls.f
    back = in_another_process(dumps(cls), "value.count = 7")
    cls.count = 5

    home = loads([back])

    assert home is cls
    assert cls.count == 5
    assert cls.f is method


def test_an_instance_with_slots_comes_home():
    script = define(
        "class Base:\n"
        "    __slots__ = ('a', '__private')\n"
        "    def __init__(self): self.a = 1; self.__private = 2\n"
        "    def read(self): return self.a, self.__private\n"
        "class Derived(Base):\n"
        "    __slots__ = ()\n"
    )
    value = script["Derived"]()
    back = in_another_process(dumps(value), "value.a = 7; assert not hasattr(value, '__dict__')")

    home = loads([back])

    assert type(home) is script["Derived"]
    assert home.read() == (7, 2)


def test_a_named_tuple_comes_home():
    cls = define("import typing\nclass Pair(typing.NamedTuple):\n    a: int\n    b: int = 2\n")[
        "Pair"
    ]

    home = loads([in_another_process(dumps(cls(1)), "value = value._replace(b=3)")])

    assert type(home) is cls
    assert home == (1, 3)


def test_a_class_that_comes_again_keeps_what_was_set_there():
    cls = define("class C:\n    count = 0\n")["C"]

    back = in_another_process(
        dumps([cls]), "value[0].count = 7\nvalue = (value[0].count, loads([data])[0].count)"
    )

    assert loads([back]) == (7, 7)


def test_classes_that_refer_to_each_other_travel_alone_and_together():
    script = define(
        """
        class A:
            def other(self): return B
        class B:
            def other(self): return A
            def own(self): return B
        """
    )

    alone = in_another_process(dumps(script["B"]), "value = value().other()().other() is value")
    both = in_another_process(
        dumps([script["A"], script["B"]]), "value = value[0]().other() is value[1]"
    )

    assert loads([alone])
    assert loads([both])


def test_a_function_sees_the_globals_as_they_are_when_it_is_sent():
    script = define("x = 1\ndef f(): return x\n")
    first = dumps(script["f"])
    script["x"] = 2

    assert (loads(first)(), loads(dumps(script["f"]))()) == (1, 2)


def test_a_class_that_a_function_defines_sees_the_globals_of_the_script():
    script = define(
        """
        def mark(f): return f
        SIZE = 3
        class Base: pass
        def make():
            class Made(Base):
                size = SIZE
                class Inner:
                    twice = SIZE * 2
                @mark
                def read(self): return self.size, self.Inner.twice, SIZE
            return Made().read()
        """
    )

    back = in_another_process(dumps(script["make"]), "value = value()")

    assert loads([back]) == (3, 6, 3)


def test_code_keeps_the_name_of_its_file():
    function = define("def f(): return 1\n")["f"]

    assert loads(dumps(function)).__code__.co_filename == "script.py"


def test_source_that_is_in_no_file_travels_along(monkeypatch: pytest.MonkeyPatch):
    lines = ["def f():\n", "    raise ValueError('here')\n"]
    entry = (50, None, lines, "<cell 1>")
    monkeypatch.setitem(linecache.cache, "<cell 1>", entry)
    script: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("".join(lines), "<cell 1>", "exec"), script)

    back = in_another_process(
        dumps(script["f"]),
        "import traceback\ntry: value()\nexcept ValueError: value = traceback.format_exc()",
    )

    assert "raise ValueError('here')" in loads([back])


@pytest.mark.parametrize("name", ["HANDLE", "CLIENT"])
def test_a_global_without_a_pickle_that_was_imported_is_imported_there(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tmp_path.joinpath("some_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path))
    some_library = importlib.import_module("some_library")

    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    script = define(
        f"class C:\n    def f(self): return {name}\n", **{name: vars(some_library)[name]}
    )

    back = in_another_process(
        dumps(script["C"]), f"import some_library; value = value().f() is some_library.{name}"
    )

    assert loads([back])


def test_a_lock_of_the_script_itself_is_an_error_that_names_its_user():
    cls = define("class C:\n    def f(self): return LOCK\n", LOCK=threading.Lock())["C"]

    with pytest.raises(TypeError, match=r"a lock at f, where f uses the global 'LOCK'"):
        dumps(cls)


def test_an_open_file_is_an_error(tmp_path: Path):
    with (
        tmp_path.joinpath("data.txt").open("w") as file,
        pytest.raises(TypeError, match=r"a TextIOWrapper at \['file'\].*data\.txt"),
    ):
        dumps({"file": file})


def test_the_standard_streams_are_those_of_the_receiver():
    back = in_another_process(
        dumps([]), "value = loads(dumps((lambda out: lambda: out)(sys.stdout)))() is sys.stdout"
    )

    assert loads([back])


def test_a_module_of_a_script_is_imported_there():
    assert loads(dumps(define("import json\ndef f(): return json\n")["f"]))() is sys.modules["json"]
