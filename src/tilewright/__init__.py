"""tilewright: a compiler, in Python, for tile kernels."""
