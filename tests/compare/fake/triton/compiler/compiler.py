from types import SimpleNamespace


class CompiledKernel:
    """What `warmup` gives."""

    def __init__(self, fn):
        self.src, self.metadata = SimpleNamespace(fn=fn), SimpleNamespace(num_warps=2, num_stages=3)

    def __getitem__(self, grid):
        return lambda *args: self.src.fn.reference(*args)
