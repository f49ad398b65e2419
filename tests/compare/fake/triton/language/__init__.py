class dtype:
    def __init__(self, name):
        self.name = name


class constexpr:
    def __init__(self, value):
        self.value = value


float32, float16 = dtype("fp32"), dtype("fp16")


def _unavailable(*_):
    raise NotImplementedError("this Triton runs no kernels")


program_id = arange = load = store = maximum = _unavailable
