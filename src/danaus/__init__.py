"""Danaus: an API to a supercomputer from one ordinary Python script."""
