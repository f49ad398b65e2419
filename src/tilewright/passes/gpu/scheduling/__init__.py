"""One scheduler for tile loops: the dependence graph of a loop, its iteration shifts, and the code of both roles."""
