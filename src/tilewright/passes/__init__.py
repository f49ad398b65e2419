"""Rewrites of the IR, one a file; `pipeline.py` holds the lists, `manager.py` runs them."""
