"""Analyses of the GPU passes."""
