"""Reference conversions."""

import ml_dtypes
import numpy as np

FLOAT8 = tuple(np.dtype(kind) for kind in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2))


def rounded(x: np.ndarray, kind: np.dtype) -> np.ndarray:
    """`x` in a type, rounded to nearest as NumPy and `ml_dtypes` do; 8-bit floats saturate."""
    kind = np.dtype(kind)
    with np.errstate(all="ignore"):
        if kind in FLOAT8:
            most = float(ml_dtypes.finfo(kind).max)
            wide = x.astype(np.float32) if x.dtype.itemsize < 4 else x
            x = np.clip(wide, -most, most)
        return x.astype(kind)
