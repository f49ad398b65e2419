from triton.runtime.jit import KernelInterface


class Config:
    def __init__(self, kwargs, num_warps=4):
        self.kwargs, self.num_warps = kwargs, num_warps

    def all_kwargs(self):
        return {**self.kwargs, "num_warps": self.num_warps}


class Autotuner(KernelInterface):
    def __init__(self, fn, configs):
        self.fn, self.configs = fn, configs

    def _bench(self, *args, config, **meta):
        self.fn.run(*args, **meta, **config.all_kwargs())
        return config.num_warps

    def run(self, *args, **kwargs):
        best = min(self.configs, key=lambda c: self._bench(*args, config=c, **kwargs))
        return self.fn.run(*args, **kwargs, **best.all_kwargs())


def autotune(configs, key):
    return lambda fn: Autotuner(fn, configs)
