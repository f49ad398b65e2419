"""What `show` prints for a small function."""

import textwrap

from tilewright.ir.text import parse_ir
from tilewright.passes.manager import run_pipeline
from tilewright.passes.registry import parse_pipeline
from tilewright.passes.show import Recorder, labels_of, render
from tilewright.targets.info import GENERIC

TEXT = """
func.func @k(%p: !tile.ptr<i32>, %x: i32) {
  %a = arith.addi %x, %x : i32
  %b = arith.addi %x, %x : i32
  %c = arith.muli %a, %b : i32
  tile.store %p, %c : !tile.ptr<i32>, i32
  func.return
}
"""


def record(pipeline):
    module = parse_ir(TEXT)
    recorder = Recorder(module)
    run_pipeline(module, parse_pipeline(pipeline), GENERIC, observer=recorder)
    return recorder


def test_unchanged_passes_are_folded():
    recorder = record("licm,cse,cse")
    text = render(recorder.snapshots, times=False)
    assert text == textwrap.dedent("""\
        ---- input (6 operations)
        builtin.module {
          func.func @k(%p: !tile.ptr<i32>, %x: i32) {
            %a = arith.addi %x, %x : i32
            %b = arith.addi %x, %x : i32
            %c = arith.muli %a, %b : i32
            tile.store %p, %c : !tile.ptr<i32>, i32
            func.return
          }
        }

        ---- licm (unchanged)
        ---- cse (5 operations)
        builtin.module {
          func.func @k(%p: !tile.ptr<i32>, %x: i32) {
            %a = arith.addi %x, %x : i32
            %c = arith.muli %a, %a : i32
            tile.store %p, %c : !tile.ptr<i32>, i32
            func.return
          }
        }

        ---- cse (unchanged)
        """)
    assert labels_of(s.name for s in recorder.snapshots) == ["input", "licm", "cse", "cse:2"]


def test_diff_and_selection():
    recorder = record("licm,cse,simplify")
    text = render(recorder.snapshots, diff=True, only=("cse",), times=False, context=0)
    assert text == textwrap.dedent("""\
        ---- input (6 operations)
        ---- licm (unchanged)
        ---- cse (5 operations)
        @@ -4,2 +4 @@
        -    %b = arith.addi %x, %x : i32
        -    %c = arith.muli %a, %b : i32
        +    %c = arith.muli %a, %a : i32

        ---- simplify (unchanged)
        """)


def test_times_are_printed():
    text = render(record("cse").snapshots)
    assert "---- cse (5 operations) " in text
    assert text.rstrip().endswith(" ms")
