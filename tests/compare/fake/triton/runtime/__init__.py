from triton.runtime import autotuner, driver, jit  # noqa: F401
