"""Host code that runs natively: launchers, thread pool and signal handlers, in a typed subset of Python."""
