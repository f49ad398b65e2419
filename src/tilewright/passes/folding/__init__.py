"""The rules of `simplify`: one operation in, an equal and simpler value out."""
