"""What each optimisation of a matrix product brings: `python -m benchmarks.ablation`.

The start is listing 1 of Katel, Khandelwal, Bondhugula (arXiv 2108.13191) as the generator makes it: C is
loaded, one product added and C stored again at every step of k. Optimisations are switched on one after the other, in
the paper's order and then beyond the paper; a second table takes each out of the full set. Every
variant's result is compared with float64, and every step has to change the IR.
"""

from benchmarks.ablation.report import write_ir, write_report
from benchmarks.ablation.run import Row, Study, run_study
from benchmarks.ablation.switches import SWITCHES, Build, Switch, build_for, switches_of

__all__ = [
    "SWITCHES",
    "Build",
    "Row",
    "Study",
    "Switch",
    "build_for",
    "run_study",
    "switches_of",
    "write_ir",
    "write_report",
]
