"""Questions the CPU passes ask about tile operations. Nothing here rewrites IR."""
