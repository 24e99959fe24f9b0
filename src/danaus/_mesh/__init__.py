"""Meshes of hosts, procs and actors, and how their endpoints are called."""
