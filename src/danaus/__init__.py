"""Danaus: an API to a supercomputer from one ordinary Python script.

The public modules are `danaus.actor` (actors, meshes, hosts), `danaus.job` (where hosts come
from), `danaus.config`, `danaus.shape` and `danaus.errors`.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
