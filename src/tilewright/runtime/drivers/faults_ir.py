"""LLVM IR of the report that a kernel's memory fault gets: written from the signal's handler with `write` alone."""

from __future__ import annotations

_TEXTS = {
    "kernel": "\ntilewright: kernel ",
    "segv": " accessed memory that it must not (SIGSEGV)",
    "bus": " accessed memory that is not there (SIGBUS)",
    "address": ", address 0x",
    "programs": "\n  ran at the time: programs ",
    "to": " to ",
    "help": " of the launch, on one thread\n  help: run it again with TILEWRIGHT_INTERPRET=1, which checks every access "
    "and names the line, the program and the lanes\n",
}

_FAULTS = r"""
define internal void @put(ptr %text) nounwind {
  %length = call i64 @strlen(ptr %text)
  %done = call i64 @write(i32 2, ptr %text, i64 %length)
  ret void
}

define internal void @put_number(i64 %value, i64 %base) nounwind {
entry:
  %digits = alloca [24 x i8]
  br label %loop
loop:
  %at = phi i64 [ 24, %entry ], [ %place, %loop ]
  %left = phi i64 [ %value, %entry ], [ %rest, %loop ]
  %place = sub i64 %at, 1
  %digit = urem i64 %left, %base
  %rest = udiv i64 %left, %base
  %letter = icmp ugt i64 %digit, 9
  %offset = select i1 %letter, i64 87, i64 48
  %code = add i64 %digit, %offset
  %byte = trunc i64 %code to i8
  %to = getelementptr i8, ptr %digits, i64 %place
  store i8 %byte, ptr %to
  %more = icmp ne i64 %rest, 0
  br i1 %more, label %loop, label %write
write:
  %length = sub i64 24, %place
  %start = getelementptr i8, ptr %digits, i64 %place
  %done = call i64 @write(i32 2, ptr %start, i64 %length)
  ret void
}

define internal void @report_fault(ptr %record, i32 %signal, i64 %address) nounwind {
entry:
  call void @put(ptr @says.kernel)
  %job.p = getelementptr i8, ptr %record, i64 8
  %job = load ptr, ptr %job.p
  %launch.p = getelementptr i8, ptr %job, i64 80
  %launch = load ptr, ptr %launch.p
  %name.p = getelementptr i8, ptr %launch, i64 56
  %name = load ptr, ptr %name.p
  call void @put(ptr %name)
  %is.bus = icmp eq i32 %signal, 7
  %says = select i1 %is.bus, ptr @says.bus, ptr @says.segv
  call void @put(ptr %says)
  %known = icmp ne i64 %address, -1
  br i1 %known, label %where, label %programs
where:
  call void @put(ptr @says.address)
  call void @put_number(i64 %address, i64 16)
  br label %programs
programs:
  call void @put(ptr @says.programs)
  %first.p = getelementptr i8, ptr %record, i64 40
  %first = load i64, ptr %first.p
  call void @put_number(i64 %first, i64 10)
  call void @put(ptr @says.to)
  %last.p = getelementptr i8, ptr %record, i64 48
  %end = load i64, ptr %last.p
  %last = sub i64 %end, 1
  call void @put_number(i64 %last, i64 10)
  call void @put(ptr @says.help)
  ret void
}

define void @tw_on_fault(i32 %signal, ptr %info, ptr %context) nounwind {
entry:
  %urgent = alloca [19 x i64], align 8
  %code.p = getelementptr i8, ptr %info, i64 8
  %code = load i32, ptr %code.p
  %sent = icmp sle i32 %code, 0
  %record = call ptr @this_thread()
  %none = icmp eq ptr %record, null
  br i1 %none, label %foreign, label %known
known:
  %sp = load volatile i64, ptr %record
  %outside = icmp eq i64 %sp, 0
  br i1 %outside, label %foreign, label %how
how:
  br i1 %sent, label %who, label %ask
who:
  %itself = icmp eq i32 %code, -6
  br i1 %itself, label %retold, label %foreign
retold: ; faulthandler was first, and raises the signal again: what ran is still true, the address is lost
  call void @report_fault(ptr %record, i32 %signal, i64 -1)
  br label %foreign
ask:
  %asked = call i32 @sigaction(i32 23, ptr null, ptr %urgent)
  %handler = load ptr, ptr %urgent
  %ours = icmp eq ptr %handler, @tw_on_urgent
  br i1 %ours, label %inside, label %foreign
inside:
  %job.p = getelementptr i8, ptr %record, i64 8
  %job = load ptr, ptr %job.p
  %pc = call i64 @pc_of(ptr %context)
  %address.p = getelementptr i8, ptr %info, i64 16
  %address = load i64, ptr %address.p
  %pc.p = getelementptr i8, ptr %job, i64 88
  %exchange = cmpxchg ptr %pc.p, i64 0, i64 %pc seq_cst seq_cst
  %first.one = extractvalue { i64, i1 } %exchange, 1
  br i1 %first.one, label %report, label %go
report:
  %address.to = getelementptr i8, ptr %job, i64 96
  store i64 %address, ptr %address.to
  %signal.to = getelementptr i8, ptr %job, i64 120
  %signal64 = zext i32 %signal to i64
  store i64 %signal64, ptr %signal.to
  call void @report_fault(ptr %record, i32 %signal, i64 %address)
  %stop.p = getelementptr i8, ptr %job, i64 64
  store atomic i64 1, ptr %stop.p seq_cst, align 8
  call void @fan_out(ptr %job, ptr %record)
  br label %go
go:
  call void @leave(ptr %record, ptr %context)
  ret void
foreign:
  %is.bus = icmp eq i32 %signal, 7
  %place = select i1 %is.bus, i64 144, i64 128
  %chained = call i1 @chain(i64 %place, i32 %signal, ptr %info, ptr %context)
  br i1 %chained, label %done, label %default
default:
  call void @llvm.memset.p0.i64(ptr align 8 %urgent, i8 0, i64 152, i1 false)
  %reset = call i32 @sigaction(i32 %signal, ptr %urgent, ptr null)
  br i1 %sent, label %again, label %done
again:
  %raised = call i32 @raise(i32 %signal)
  br label %done
done:
  ret void
}
"""


def _constant(name: str, text: str) -> str:
    data = text.encode() + b"\0"
    escaped = "".join(f"\\{byte:02x}" for byte in data)
    return f'@says.{name} = internal constant [{len(data)} x i8] c"{escaped}"\n'


def faults_ir() -> str:
    """The handler of SIGSEGV and SIGBUS, and what it calls (see `signals_ir`)."""
    return "".join(_constant(*item) for item in _TEXTS.items()) + _FAULTS
