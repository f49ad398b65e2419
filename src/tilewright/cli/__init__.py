"""The `tilewright` command: look inside the compiler, run programs, check the machine."""
