"""Rewrites of the IR, one per file; `pipeline.py` holds the lists, `manager.py` runs them."""
