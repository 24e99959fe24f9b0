"""One process: its router, actors, ports, futures and context."""
