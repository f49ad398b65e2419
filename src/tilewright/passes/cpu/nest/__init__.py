"""How `vectorize` turns one group into a loop nest over vectors.

`emit` writes operations, `coordinates` names the element a chunk is at, `values` computes a tile at
coordinates, `memory` its loads and stores, `reductions` accumulates, `loops` builds the nest,
`alias_checks` compares byte ranges.
"""
