"""LLVM IR of what stops and reports kernels that run natively: signal handlers and the way out of a kernel.

A kernel is entered through `enter`, which keeps the callee-saved registers and the stack pointer in a record of
its thread. A handler that finds its thread between `enter` and the kernel's return may send it back to `enter`
by changing the registers that the signal's return restores: nothing is polled, and kernels hold no locks but C's
while they print, which they say in their thread words (`backends.cpu.lower.output`).

    SIGINT    runs Python's own handler; on the main thread it then stops the launch of that thread, on any other
              it tells the main thread to
    SIGURG    of ours (its value says so): stop this thread's part, or as the main thread stop the launch
    SIGSEGV, SIGBUS   in a kernel: write what ran and where, stop the launch, let Python say the rest

All other signals of these numbers go to the handlers found before.

    thread record   0 stack pointer inside a kernel, else 0   8 job   16 address of the way out   24 next of the job
                    32 pthread   40 first program   48 last + 1   56 thread words
    job             64 stop   72 thread records   80 launch record   88 pc, address, first, last, signal of a fault
                    128 interrupts so far
    state           64 key of thread records   72 main thread   80 its job   88 Python's `install`
                    96 handler not to replace   104 interrupts that stop a launch
                    176 cycle counter when SIGINT's handler was last looked at
                    112, 128, 144, 160 handlers found before, and their flags: SIGINT, SIGSEGV, SIGBUS, SIGURG
"""

from __future__ import annotations

from tilewright.runtime.drivers.faults_ir import faults_ir

SIGINT, SIGBUS, SIGSEGV, SIGURG = 2, 7, 11, 23
#: signal → byte offset of the handler found before in the state
PREVIOUS = {SIGINT: 112, SIGSEGV: 128, SIGBUS: 144, SIGURG: 160}
HANDLERS = {
    SIGINT: "tw_on_interrupt",
    SIGSEGV: "tw_on_fault",
    SIGBUS: "tw_on_fault",
    SIGURG: "tw_on_urgent",
}
THREAD_RECORD_BYTES = 64
#: for handlers of a thread that has no such stack; AVX-512 and AMX state take 11 KiB of it
STACK_BYTES = 128 << 10

_X86_ENTER = r"""; kernel(slots, first, last, thread), or -1 where its job is stopped
define internal i32 @enter(ptr %slots, i64 %first, i64 %last, ptr %thread, ptr %kernel, ptr %record) naked noinline nounwind {
  call void asm sideeffect "
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    pushq %r9
    leaq 2f(%rip), %rax
    movq %rax, 16(%r9)
    movq %rsp, (%r9)
    movq 8(%r9), %rax
    cmpq $$0, 64(%rax)
    jne 2f
    callq *%r8
  1:
    movq (%rsp), %r9
    movq $$0, (%r9)
    popq %r9
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    retq
  2:
    movl $$-1, %eax
    jmp 1b", ""()
  unreachable
}

; makes the signal that is being handled return to `enter`: the places of RSP and RIP in Linux's ucontext
define internal void @leave(ptr %record, ptr %context) nounwind {
  %sp = load i64, ptr %record
  %way.p = getelementptr i8, ptr %record, i64 16
  %way = load i64, ptr %way.p
  %rsp = getelementptr i8, ptr %context, i64 160
  store i64 %sp, ptr %rsp
  %rip = getelementptr i8, ptr %context, i64 168
  store i64 %way, ptr %rip
  ret void
}

define internal i64 @pc_of(ptr %context) nounwind {
  %rip = getelementptr i8, ptr %context, i64 168
  %pc = load i64, ptr %rip
  ret i64 %pc
}
"""

_PLAIN_ENTER = r"""
define internal i32 @enter(ptr %slots, i64 %first, i64 %last, ptr %thread, ptr %kernel, ptr %record) nounwind {
  %code = call i32 %kernel(ptr %slots, i64 %first, i64 %last, ptr %thread)
  ret i32 %code
}

define internal ptr @thread_record(ptr %job, i64 %first, i64 %last, ptr %thread, i64 %n) nounwind {
  ret ptr @tw_state
}

define internal void @launch_begins(ptr %job, ptr %record) nounwind {
  ret void
}

define internal void @watch_interrupts(ptr %record) nounwind {
  ret void
}

define internal void @launch_ends(ptr %job) nounwind {
  ret void
}
"""

_HANDLERS = r"""
declare i64 @pthread_self()
declare i32 @pthread_sigqueue(i64, i32, i64)
declare i32 @sigaction(i32, ptr, ptr)
declare i32 @sigaltstack(ptr, ptr)
declare i32 @raise(i32)
declare ptr @malloc(i64)
declare ptr @__errno_location()
declare i64 @write(i32, ptr, i64)
declare i64 @strlen(ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare void @Py_DecRef(ptr)

; ---- records of threads

define internal ptr @new_thread_record() nounwind {
entry:
  %old = alloca [3 x i64], align 8
  %stack = alloca [3 x i64], align 8
  %asked = call i32 @sigaltstack(ptr null, ptr %old)
  %flags.p = getelementptr i8, ptr %old, i64 8
  %flags = load i32, ptr %flags.p
  %disabled = and i32 %flags, 2
  %none = icmp ne i32 %disabled, 0
  %size = select i1 %none, i64 ALL_BYTES, i64 RECORD_BYTES
  %record = call ptr @malloc(i64 %size)
  %failed = icmp eq ptr %record, null
  br i1 %failed, label %done, label %fill
fill:
  store i64 0, ptr %record
  %self = call i64 @pthread_self()
  %self.p = getelementptr i8, ptr %record, i64 32
  store i64 %self, ptr %self.p
  br i1 %none, label %own, label %keep
own:
  %memory = getelementptr i8, ptr %record, i64 RECORD_BYTES
  store ptr %memory, ptr %stack
  %new.flags = getelementptr i8, ptr %stack, i64 8
  store i64 0, ptr %new.flags
  %new.size = getelementptr i8, ptr %stack, i64 16
  store i64 STACK_BYTES, ptr %new.size
  %taken = call i32 @sigaltstack(ptr %stack, ptr null)
  br label %keep
keep:
  %key.p = getelementptr i8, ptr @tw_state, i64 64
  %key = load i32, ptr %key.p
  %set = call i32 @pthread_setspecific(i32 %key, ptr %record)
  br label %done
done:
  ret ptr %record
}

; at the end of a thread: its record, which may hold its handlers' stack
define void @tw_thread_ends(ptr %record) nounwind {
entry:
  %stack = alloca [3 x i64], align 8
  %asked = call i32 @sigaltstack(ptr null, ptr %stack)
  %memory = load ptr, ptr %stack
  %ours.p = getelementptr i8, ptr %record, i64 RECORD_BYTES
  %ours = icmp eq ptr %memory, %ours.p
  br i1 %ours, label %drop, label %free
drop:
  %flags.p = getelementptr i8, ptr %stack, i64 8
  store i64 2, ptr %flags.p
  %dropped = call i32 @sigaltstack(ptr %stack, ptr null)
  br label %free
free:
  call void @free(ptr %record)
  ret void
}

define internal ptr @this_thread() nounwind {
  %key.p = getelementptr i8, ptr @tw_state, i64 64
  %key = load i32, ptr %key.p
  %record = call ptr @pthread_getspecific(i32 %key)
  ret ptr %record
}

; this thread's record, filled for a part of the job and among those of the job; null without memory
define internal ptr @thread_record(ptr %job, i64 %first, i64 %last, ptr %thread, i64 %n) nounwind {
entry:
  %known = call ptr @this_thread()
  %missing = icmp eq ptr %known, null
  br i1 %missing, label %make, label %fill
make:
  %made = call ptr @new_thread_record()
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %nothing, label %fill
nothing:
  ret ptr null
fill:
  %record = phi ptr [ %known, %entry ], [ %made, %make ]
  %job.p = getelementptr i8, ptr %record, i64 8
  store ptr %job, ptr %job.p
  %first.p = getelementptr i8, ptr %record, i64 40
  store i64 %first, ptr %first.p
  %last.p = getelementptr i8, ptr %record, i64 48
  store i64 %last, ptr %last.p
  %thread.p = getelementptr i8, ptr %record, i64 56
  store ptr %thread, ptr %thread.p
  %head.p = getelementptr i8, ptr %job, i64 72
  %next.p = getelementptr i8, ptr %record, i64 24
  %alone = icmp eq i64 %n, 1
  br i1 %alone, label %only, label %several
only:
  store ptr null, ptr %next.p
  store volatile ptr %record, ptr %head.p
  ret ptr %record
several:
  %before = load atomic i64, ptr %head.p seq_cst, align 8
  store i64 %before, ptr %next.p
  %mine = ptrtoint ptr %record to i64
  %exchange = cmpxchg ptr %head.p, i64 %before, i64 %mine seq_cst seq_cst
  %swapped = extractvalue { i64, i1 } %exchange, 1
  br i1 %swapped, label %done, label %several
done:
  ret ptr %record
}

; ---- launches

define internal void @launch_begins(ptr %job, ptr %record) nounwind {
entry:
  %words = getelementptr i8, ptr %job, i64 64
  call void @llvm.memset.p0.i64(ptr align 64 %words, i8 0, i64 72, i1 false)
  %record.p = getelementptr i8, ptr %job, i64 80
  store ptr %record, ptr %record.p
  %self = call i64 @pthread_self()
  %main.p = getelementptr i8, ptr @tw_state, i64 72
  %main = load i64, ptr %main.p
  %is.main = icmp eq i64 %self, %main
  br i1 %is.main, label %note, label %done
note:
  %job.p = getelementptr i8, ptr @tw_state, i64 80
  store volatile ptr %job, ptr %job.p
  br label %done
done:
  ret void
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; before a launch of some length on the main thread: somebody may have replaced the handler of SIGINT
declare i64 @llvm.readcyclecounter()
define internal void @watch_interrupts(ptr %record) nounwind {
entry:
  %now = alloca [19 x i64], align 8
  %job.p = getelementptr i8, ptr @tw_state, i64 80
  %job = load volatile ptr, ptr %job.p
  %install.p = getelementptr i8, ptr @tw_state, i64 88
  %install = load ptr, ptr %install.p
  %not.main = icmp eq ptr %job, null
  %off = icmp eq ptr %install, null
  %skip = or i1 %not.main, %off
  br i1 %skip, label %done, label %lately
lately: ; long programs ask at every launch, others once in a while: to ask takes 0.2 us and more
  %gil.p = getelementptr i8, ptr %record, i64 40
  %gil = load i64, ptr %gil.p
  %long = icmp eq i64 %gil, 0
  %cycle = call i64 @llvm.readcyclecounter()
  %before.p = getelementptr i8, ptr @tw_state, i64 176
  %before = load i64, ptr %before.p
  %since = sub i64 %cycle, %before
  %old = icmp ugt i64 %since, 1000000
  %ask = or i1 %long, %old
  br i1 %ask, label %look, label %done
look:
  store i64 %cycle, ptr %before.p
  %code = call i32 @sigaction(i32 2, ptr null, ptr %now)
  %handler = load ptr, ptr %now
  %ours = icmp eq ptr %handler, @tw_on_interrupt
  %declined.p = getelementptr i8, ptr @tw_state, i64 96
  %declined = load ptr, ptr %declined.p
  %known = icmp eq ptr %handler, %declined
  %fine = or i1 %ours, %known
  br i1 %fine, label %done, label %call
call:
  %result = call ptr @PyObject_CallNoArgs(ptr %install)
  %raised = icmp eq ptr %result, null
  br i1 %raised, label %clear, label %drop
clear:
  call void @PyErr_Clear()
  ret void
drop:
  call void @Py_DecRef(ptr %result)
  br label %done
done:
  ret void
}

define internal void @launch_ends(ptr %job) nounwind {
entry:
  %job.p = getelementptr i8, ptr @tw_state, i64 80
  %of.main = load volatile ptr, ptr %job.p
  %this = icmp eq ptr %of.main, %job
  br i1 %this, label %note, label %done
note:
  store volatile ptr null, ptr %job.p
  br label %done
done:
  ret void
}

; ---- stopping

; tells the other threads of a job to leave it
define internal void @fan_out(ptr %job, ptr %mine) nounwind {
entry:
  %head.p = getelementptr i8, ptr %job, i64 72
  %head = load atomic i64, ptr %head.p seq_cst, align 8
  br label %loop
loop:
  %at = phi i64 [ %head, %entry ], [ %next, %step ]
  %end = icmp eq i64 %at, 0
  br i1 %end, label %done, label %one
one:
  %record = inttoptr i64 %at to ptr
  %self = icmp eq ptr %record, %mine
  br i1 %self, label %step, label %send
send:
  %thread.p = getelementptr i8, ptr %record, i64 32
  %thread = load i64, ptr %thread.p
  %sent = call i32 @pthread_sigqueue(i64 %thread, i32 23, i64 ptrtoint (ptr @tw_state to i64))
  br label %step
step:
  %next.p = getelementptr i8, ptr %record, i64 24
  %next = load i64, ptr %next.p
  br label %loop
done:
  ret void
}

; leaves the kernel that this thread is in, or lets it finish printing first
define internal void @stop_part(ptr %record, ptr %context) nounwind {
entry:
  %none = icmp eq ptr %record, null
  br i1 %none, label %done, label %look
look:
  %sp = load volatile i64, ptr %record
  %outside = icmp eq i64 %sp, 0
  br i1 %outside, label %done, label %inside
inside:
  %job.p = getelementptr i8, ptr %record, i64 8
  %job = load ptr, ptr %job.p
  %stop.p = getelementptr i8, ptr %job, i64 64
  %stop = load volatile i64, ptr %stop.p
  %runs = icmp eq i64 %stop, 0
  br i1 %runs, label %done, label %stopped
stopped:
  %thread.p = getelementptr i8, ptr %record, i64 56
  %thread = load ptr, ptr %thread.p
  %printing.p = getelementptr i8, ptr %thread, i64 24
  %printing = load volatile i64, ptr %printing.p
  %busy = icmp ne i64 %printing, 0
  br i1 %busy, label %later, label %go
later:
  %later.p = getelementptr i8, ptr %thread, i64 32
  store volatile i64 1, ptr %later.p
  br label %done
go:
  call void @leave(ptr %record, ptr %context)
  br label %done
done:
  ret void
}

; on the main thread: one more interrupt of its launch
define internal void @stop_launch(ptr %context) nounwind {
entry:
  %job.p = getelementptr i8, ptr @tw_state, i64 80
  %job = load volatile ptr, ptr %job.p
  %none = icmp eq ptr %job, null
  br i1 %none, label %done, label %count
count:
  %count.p = getelementptr i8, ptr %job, i64 128
  %before = load i64, ptr %count.p
  %now = add i64 %before, 1
  store i64 %now, ptr %count.p
  %needed.p = getelementptr i8, ptr @tw_state, i64 104
  %needed = load i64, ptr %needed.p
  %few = icmp ult i64 %now, %needed
  br i1 %few, label %done, label %stop
stop:
  %stop.p = getelementptr i8, ptr %job, i64 64
  store atomic i64 1, ptr %stop.p seq_cst, align 8
  %record = call ptr @this_thread()
  call void @fan_out(ptr %job, ptr %record)
  call void @stop_part(ptr %record, ptr %context)
  br label %done
done:
  ret void
}

; the handler that was there before, if it is a function
define internal i1 @chain(i64 %place, i32 %signal, ptr %info, ptr %context) nounwind {
entry:
  %previous.p = getelementptr i8, ptr @tw_state, i64 %place
  %previous = load ptr, ptr %previous.p
  %number = ptrtoint ptr %previous to i64
  %none = icmp ult i64 %number, 2
  br i1 %none, label %nothing, label %call
nothing:
  ret i1 false
call:
  call void %previous(i32 %signal, ptr %info, ptr %context)
  ret i1 true
}

define void @tw_on_interrupt(i32 %signal, ptr %info, ptr %context) nounwind {
entry:
  %errno.p = call ptr @__errno_location()
  %errno = load i32, ptr %errno.p
  %chained = call i1 @chain(i64 112, i32 %signal, ptr %info, ptr %context)
  %self = call i64 @pthread_self()
  %main.p = getelementptr i8, ptr @tw_state, i64 72
  %main = load i64, ptr %main.p
  %is.main = icmp eq i64 %self, %main
  br i1 %is.main, label %here, label %there
here:
  call void @stop_launch(ptr %context)
  br label %done
there:
  %sent = call i32 @pthread_sigqueue(i64 %main, i32 23, i64 add (i64 ptrtoint (ptr @tw_state to i64), i64 1))
  br label %done
done:
  store i32 %errno, ptr %errno.p
  ret void
}

define void @tw_on_urgent(i32 %signal, ptr %info, ptr %context) nounwind {
entry:
  %errno.p = call ptr @__errno_location()
  %errno = load i32, ptr %errno.p
  %code.p = getelementptr i8, ptr %info, i64 8
  %code = load i32, ptr %code.p
  %queued = icmp eq i32 %code, -1
  br i1 %queued, label %look, label %other
look:
  %value.p = getelementptr i8, ptr %info, i64 24
  %value = load i64, ptr %value.p
  %offset = sub i64 %value, ptrtoint (ptr @tw_state to i64)
  switch i64 %offset, label %other [ i64 0, label %part
    i64 1, label %launch ]
part:
  %record = call ptr @this_thread()
  call void @stop_part(ptr %record, ptr %context)
  br label %done
launch:
  call void @stop_launch(ptr %context)
  br label %done
other:
  %chained = call i1 @chain(i64 160, i32 %signal, ptr %info, ptr %context)
  br label %done
done:
  store i32 %errno, ptr %errno.p
  ret void
}
"""


def supported(machine: str, system: str) -> bool:
    """Whether kernels can be stopped and their faults reported on this machine: x86-64 Linux."""
    return system == "Linux" and machine in ("x86_64", "AMD64", "amd64")


def signals_ir(machine: str, system: str) -> str:
    """The text for a machine; where nothing is supported, kernels are called as they are."""
    if not supported(machine, system):
        return _PLAIN_ENTER
    text = _HANDLERS.replace("ALL_BYTES", str(THREAD_RECORD_BYTES + STACK_BYTES))
    text = text.replace("RECORD_BYTES", str(THREAD_RECORD_BYTES))
    return _X86_ENTER + text.replace("STACK_BYTES", str(STACK_BYTES)) + faults_ir()
