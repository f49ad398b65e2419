"""The CPU back end: `target.py` the machine, `pipeline.py` the passes, `codegen.py` to LLVM IR."""


def __getattr__(name: str) -> object:
    if name == "backend":
        from tilewright.backends.cpu.backend import backend

        return backend
    raise AttributeError(name)
