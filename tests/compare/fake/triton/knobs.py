class runtime:
    interpret = False
