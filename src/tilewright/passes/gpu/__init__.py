"""Passes for GPUs: layouts, shared memory, tensor cores, pipelines."""
