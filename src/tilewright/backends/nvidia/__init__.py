"""NVIDIA GPUs: tiles in registers and shared memory, LLVM NVPTX, PTX, cubin."""
