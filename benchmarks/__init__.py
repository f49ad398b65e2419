"""Measurements; each module says how to run it."""
