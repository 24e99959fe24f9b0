"""The configuration: read it, change it, and run tests under several of it.

Settings come from, the later the stronger: defaults; a TOML file (``DANAUS_CONFIG``, else
``~/.config/danaus/config.toml``); the environment (``DANAUS_<KEY>``); `configure`. What
`configure` sets goes along to the processes that are spawned. `get_global_config` lists all keys.

Example:
    >>> from danaus.config import configured
    >>> with configured(host_spawn_ready_timeout="300s") as config:
    ...     config["host_spawn_ready_timeout"]
    '5m'
"""

from __future__ import annotations

from danaus._config.encodings import Encoding
from danaus._config.overrides import (
    clear_runtime_config,
    configure,
    configured,
    get_global_config,
    get_runtime_config,
    parametrize_config,
    parametrize_config_pointwise,
)
from danaus._config.transports import BindSpec, ChannelTransport

__all__ = [
    "BindSpec",
    "ChannelTransport",
    "Encoding",
    "clear_runtime_config",
    "configure",
    "configured",
    "get_global_config",
    "get_runtime_config",
    "parametrize_config",
    "parametrize_config_pointwise",
]
