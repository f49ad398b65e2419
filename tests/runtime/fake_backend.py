"""A back end for tests of the runtime: it ignores the kernel's body and emits IR chosen by name."""

from tilewright.backends import registry
from tilewright.backends.base import Argument, Artifact, AssertSite, LaunchPlan

ADD = """
define i32 @NAME(ptr %args, i64 %first, i64 %last, ptr %thread) {
entry:
  %o.slot = getelementptr i64, ptr %args, i64 2
  %n.slot = getelementptr i64, ptr %args, i64 3
  %x = load ptr, ptr %args
  %y.slot = getelementptr i64, ptr %args, i64 1
  %y = load ptr, ptr %y.slot
  %o = load ptr, ptr %o.slot
  %n = load i64, ptr %n.slot
  %begin = mul i64 %first, BLOCK
  %stop0 = mul i64 %last, BLOCK
  %less = icmp slt i64 %stop0, %n
  %stop = select i1 %less, i64 %stop0, i64 %n
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %stop
  br i1 %more, label %body, label %done
body:
  %xp = getelementptr float, ptr %x, i64 %i
  %yp = getelementptr float, ptr %y, i64 %i
  %op = getelementptr float, ptr %o, i64 %i
  %a = load float, ptr %xp
  %b = load float, ptr %yp
  %c = fadd float %a, %b
  store float %c, ptr %op
  %next = add i64 %i, 1
  br label %head
done:
  ret i32 0
}
"""

#: stores all slots of an argument list (without the grid) and the grid into the first pointer, and
#: counts programs in its last word
SLOTS = """
define i32 @NAME(ptr %args, i64 %first, i64 %last, ptr %thread) {
entry:
  %out = load ptr, ptr %args
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, COUNT
  br i1 %more, label %body, label %done
body:
  %from = getelementptr i64, ptr %args, i64 %i
  %to = getelementptr i64, ptr %out, i64 %i
  %value = load i64, ptr %from
  store i64 %value, ptr %to
  %next = add i64 %i, 1
  br label %head
done:
  %programs = sub i64 %last, %first
  %counter = getelementptr i64, ptr %out, i64 COUNT
  %old = atomicrmw add ptr %counter, i64 %programs seq_cst
  ret i32 0
}
"""

#: writes thread index into out[program] after scribbling over its scratch; fails in program 7
THREADS = """
declare i32 @usleep(i32)
define i32 @NAME(ptr %args, i64 %first, i64 %last, ptr %thread) {
entry:
  %out = load ptr, ptr %args
  %scratch = load ptr, ptr %thread
  %index.p = getelementptr i64, ptr %thread, i64 1
  %index = load i64, ptr %index.p
  %fault.p = getelementptr i64, ptr %thread, i64 2
  %fault = load ptr, ptr %fault.p
  br label %head
head:
  %i = phi i64 [ %first, %entry ], [ %next, %tail ]
  %more = icmp slt i64 %i, %last
  br i1 %more, label %body, label %done
body:
  call void @llvm.memset.p0.i64(ptr align 64 %scratch, i8 1, i64 SCRATCH, i1 false)
  %slept = call i32 @usleep(i32 SLEEP)
  %to = getelementptr i64, ptr %out, i64 %i
  store i64 %index, ptr %to
  %bad = icmp eq i64 %i, FAIL
  br i1 %bad, label %fail, label %tail
fail:
  %program.p = getelementptr i64, ptr %fault, i64 1
  store i64 %i, ptr %program.p
  store atomic i64 1, ptr %fault seq_cst, align 8
  br label %tail
tail:
  %next = add i64 %i, 1
  br label %head
done:
  ret i32 0
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


class FakeBackend:
    """Emits `text` for every kernel; counts compilations."""

    name = "cpu"

    def __init__(self, text, scratch=0, cost=0.0, written=None, sites=(), **replace):
        self.text, self.scratch, self.cost = text, scratch, cost
        self.written, self.sites, self.replace = written, sites, replace
        self.compiled = []

    def target(self):
        from tilewright.backends.cpu.target import current_target

        return current_target()

    def compile(self, module, options, target):
        from llvmlite import binding

        from tilewright.backends.cpu.target import machine

        function = next(iter(module.body.block.ops))
        name = function.sym_name.data
        self.compiled.append(name)
        arguments = []
        for i, arg in enumerate(function.body.block.args):
            label = function.arg_attrs.data[i].data["tile.name"].data
            kind = str(arg.type)
            pointer = "ptr" in kind
            written = pointer and (self.written is None or label in self.written)
            word = "pointer" if pointer else "float" if kind.startswith("f") else "int"
            arguments.append(Argument(label, word, kind, written))
        text = self.text.replace("NAME", name).replace("COUNT", str(len(arguments) + 3))
        for word, value in self.replace.items():
            text = text.replace(word, str(value))
        parsed = binding.parse_assembly(text)
        parsed.verify()
        sites = tuple(AssertSite(*site) for site in self.sites)
        plan = LaunchPlan(name, tuple(arguments), self.scratch, self.cost, sites)
        code = machine(target).emit_object(parsed)
        return Artifact(name, code, plan, {"llvm": text})


class use:
    """`with use(FakeBackend(...)) as backend:`"""

    def __init__(self, backend):
        self.backend = backend

    def __enter__(self):
        registry.register(self.backend)
        return self.backend

    def __exit__(self, *what):
        registry.unregister("cpu")
