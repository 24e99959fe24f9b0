"""Benchmarks of Danaus beside its peers: one script a row.

``python -m benchmarks`` prints the whole table.
"""
