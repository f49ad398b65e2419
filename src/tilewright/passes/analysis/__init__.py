"""Analyses of IR, which do not change it, and helpers with which passes create it."""
