from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from danaus import _config
from danaus.config import (
    BindSpec,
    ChannelTransport,
    Encoding,
    clear_runtime_config,
    configure,
    configured,
    get_global_config,
    get_runtime_config,
    parametrize_config,
    parametrize_config_pointwise,
)


@pytest.fixture(autouse=True)
def defaults_only() -> Iterator[None]:
    """Run without the developer's own file and variables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DANAUS_CONFIG", "")
        for key in _config.KEYS.values():
            patch.delenv(key.env, raising=False)
        clear_runtime_config()
        _config.reload()
        yield
    clear_runtime_config()
    _config.reload()


def test_the_runtime_reads_what_a_program_configures() -> None:
    configure(stop_actor_timeout="1m", max_cast_fanout=2)

    assert _config.get("stop_actor_timeout") == 60.0
    assert _config.get("max_cast_fanout") == 2
    assert _config.snapshot_runtime() == {"stop_actor_timeout": "1m", "max_cast_fanout": 2}


def test_a_snapshot_that_is_installed_is_what_a_program_reads() -> None:
    _config.install_runtime({"stop_actor_timeout": "1m", "default_encoding": "Json"})

    assert get_runtime_config() == {"stop_actor_timeout": "1m", "default_encoding": Encoding.Json}


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DANAUS_MESSAGE_DELIVERY_TIMEOUT", "120s")
    _config.reload()

    assert get_global_config()["message_delivery_timeout"] == "2m"
    assert get_runtime_config() == {}


def test_a_block_is_configured_and_then_all_is_as_before() -> None:
    configure(tail_log_lines=3)

    with configured(tail_log_lines=5, cleanup_timeout="90s") as config:
        assert config == get_global_config()
        assert (config["tail_log_lines"], config["cleanup_timeout"]) == (5, "1m 30s")

    assert get_runtime_config() == {"tail_log_lines": 3}


def test_a_block_that_fails_is_restored_too() -> None:
    with pytest.raises(KeyError), configured(tail_log_lines=5):
        raise KeyError

    assert get_runtime_config() == {}


def test_blocks_nest() -> None:
    with configured(default_transport=ChannelTransport.TcpWithLocalhost):
        with configured(tail_log_lines=5) as config:
            assert config["default_transport"] == BindSpec(ChannelTransport.TcpWithLocalhost)
            assert config["tail_log_lines"] == 5
        assert get_runtime_config() == {"default_transport": BindSpec("tcp(localhost)")}


def test_a_block_without_keys_yields_the_configuration_as_it_is() -> None:
    with configured() as config:
        assert config == get_global_config()


def test_a_block_with_a_bad_key_does_not_run() -> None:
    ran = False
    with pytest.raises(ValueError, match="unknown config key"), configured(does_not_exist=42):
        ran = True

    assert not ran


def test_what_can_be_read_can_be_configured() -> None:
    configure(**get_global_config())

    assert get_runtime_config() == get_global_config()


def test_each_combination_is_run_in_a_fixed_order() -> None:
    seen: list[dict[str, Any]] = []

    @parametrize_config(prefix_with_rank={True, False}, tail_log_lines=[1, 2])
    def decorated(**_: object) -> None:
        seen.append(get_runtime_config())

    [mark] = decorated.pytestmark  # pyright: ignore[reportFunctionMemberAccess]
    argument, rows = mark.args
    for row in rows:
        decorated(**{argument: row})

    assert [tuple(config.values()) for config in seen] == [
        (False, 1),
        (False, 2),
        (True, 1),
        (True, 2),
    ]


@parametrize_config_pointwise(prefix_with_rank=[True, False], tail_log_lines=[1, 2])
@parametrize_config(max_cast_fanout=[8])
def test_pointwise_values_go_together_and_decorators_stack(request: pytest.FixtureRequest) -> None:
    config = get_runtime_config()

    assert (config["prefix_with_rank"], config["tail_log_lines"]) in {(True, 1), (False, 2)}
    assert config["max_cast_fanout"] == 8
    assert f"tail_log_lines={config['tail_log_lines']}" in request.node.name


@pytest.mark.parametrize("other", [1])
@parametrize_config(tail_log_lines=[1])
def test_other_parameters_and_fixtures_are_passed_on(other: int, tmp_path: object) -> None:
    assert (other, get_runtime_config()) == (1, {"tail_log_lines": 1})
    assert tmp_path is not None


@parametrize_config(tail_log_lines=[1])
async def test_an_async_test_is_configured_while_it_runs() -> None:
    assert get_runtime_config() == {"tail_log_lines": 1}


class TestMethods:
    @parametrize_config(tail_log_lines=[1])
    def test_a_method_is_configured(self) -> None:
        assert isinstance(self, TestMethods)
        assert get_runtime_config() == {"tail_log_lines": 1}


def test_a_decorated_async_test_is_still_async() -> None:
    assert inspect.iscoroutinefunction(test_an_async_test_is_configured_while_it_runs)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({}, ValueError, "no configuration keys were given"),
        ({"tail_log_line": [1]}, ValueError, "Did you mean 'tail_log_lines'"),
        ({"tail_log_lines": [1, "2"]}, TypeError, "'tail_log_lines': expected an int"),
        ({"tail_log_lines": []}, ValueError, "there are no values to try"),
        ({"tail_log_lines": 1}, TypeError, r"Pass a list: tail_log_lines=\[...\]"),
        ({"cleanup_timeout": "3s"}, TypeError, "expected several values to try, got str"),
    ],
)
def test_bad_values_are_refused_when_a_test_is_decorated(
    arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        parametrize_config(**arguments)
    with pytest.raises(error, match=text):
        parametrize_config_pointwise(**arguments)


def test_pointwise_values_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(tail_log_lines 2, max_cast_fanout 1\)"):
        parametrize_config_pointwise(tail_log_lines=[1, 2], max_cast_fanout=[1])


def test_only_functions_can_be_decorated() -> None:
    with pytest.raises(TypeError, match="only test functions"):
        parametrize_config(tail_log_lines=[1])(TestMethods)
