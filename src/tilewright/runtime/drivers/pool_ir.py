"""LLVM IR of the thread pool: pthreads that spin a little, then sleep on a futex (`native_ir`)."""

POOL = r"""
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i64 @syscall(i64, ...)

define internal void @futex_wait(ptr %word, i32 %value) nounwind {
  %r = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 128, i32 %value, ptr null, ptr null, i32 0)
  ret void
}

define internal void @futex_wake(ptr %word) nounwind {
  %r = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 129, i32 1, ptr null, ptr null, i32 0)
  ret void
}

define internal void @signal(ptr %pool, i64 %i, i64 %n) nounwind {
entry:
  %exists = icmp ult i64 %i, %n
  br i1 %exists, label %turn, label %done
turn:
  %scaled = shl i64 %i, 6
  %offset = add i64 %scaled, 256
  %worker = getelementptr i8, ptr %pool, i64 %offset
  %old = atomicrmw add ptr %worker, i32 1 seq_cst
  %asleep.p = getelementptr i8, ptr %worker, i64 4
  %asleep = load atomic i32, ptr %asleep.p seq_cst, align 4
  %sleeps = icmp ne i32 %asleep, 0
  br i1 %sleeps, label %wake, label %done
wake:
  call void @futex_wake(ptr %worker)
  br label %done
done:
  ret void
}

define internal void @signal_children(ptr %pool, i64 %i, i64 %n) nounwind {
  %twice = shl i64 %i, 1
  %left = add i64 %twice, 1
  %right = add i64 %twice, 2
  call void @signal(ptr %pool, i64 %left, i64 %n)
  call void @signal(ptr %pool, i64 %right, i64 %n)
  ret void
}

define internal ptr @worker_main(ptr %self) nounwind {
entry:
  %pool.p = getelementptr i8, ptr %self, i64 8
  %pool = load ptr, ptr %pool.p
  %i.p = getelementptr i8, ptr %self, i64 16
  %i = load i64, ptr %i.p
  %asleep = getelementptr i8, ptr %self, i64 4
  %turns.p = getelementptr i8, ptr @tw_state, i64 56
  %job.p = getelementptr i8, ptr %pool, i64 128
  %n.p = getelementptr i8, ptr %pool, i64 136
  %pending = getelementptr i8, ptr %pool, i64 64
  %waiter = getelementptr i8, ptr %pool, i64 68
  br label %outer
outer:
  %turn = phi i32 [ 0, %entry ], [ %now, %next ]
  %turns = load volatile i64, ptr %turns.p
  br label %spin
spin:
  %s = phi i64 [ 0, %outer ], [ %s1, %pause ]
  %seen = load atomic i32, ptr %self acquire, align 4
  %changed = icmp ne i32 %seen, %turn
  br i1 %changed, label %work, label %pause
pause:
  PAUSE
  %s1 = add i64 %s, 1
  %again = icmp ult i64 %s1, %turns
  br i1 %again, label %spin, label %sleep
sleep:
  store atomic i32 1, ptr %asleep seq_cst, align 4
  %still = load atomic i32, ptr %self seq_cst, align 4
  %new = icmp ne i32 %still, %turn
  br i1 %new, label %awake, label %wait
wait:
  call void @futex_wait(ptr %self, i32 %turn)
  br label %awake
awake:
  store atomic i32 0, ptr %asleep seq_cst, align 4
  %seen2 = load atomic i32, ptr %self acquire, align 4
  %changed2 = icmp ne i32 %seen2, %turn
  br i1 %changed2, label %work, label %sleep
work:
  %now = phi i32 [ %seen, %spin ], [ %seen2, %awake ]
  %job = load ptr, ptr %job.p
  %n = load i64, ptr %n.p
  call void @signal_children(ptr %pool, i64 %i, i64 %n)
  call void @run_part(ptr %job, i64 %i, i64 %n)
  %before = atomicrmw sub ptr %pending, i32 1 seq_cst
  %last = icmp eq i32 %before, 1
  br i1 %last, label %tell, label %next
tell:
  %waits = load atomic i32, ptr %waiter seq_cst, align 4
  %sleeps = icmp ne i32 %waits, 0
  br i1 %sleeps, label %wake, label %next
wake:
  call void @futex_wake(ptr %pending)
  br label %next
next:
  br label %outer
}

; how many workers besides the launcher could be started
define i64 @tw_pool_start(ptr %pool, i64 %workers) nounwind {
entry:
  %id = alloca i64
  br label %loop
loop:
  %i = phi i64 [ 1, %entry ], [ %next, %started ]
  %more = icmp ule i64 %i, %workers
  br i1 %more, label %start, label %done
start:
  %scaled = shl i64 %i, 6
  %offset = add i64 %scaled, 256
  %worker = getelementptr i8, ptr %pool, i64 %offset
  %pool.p = getelementptr i8, ptr %worker, i64 8
  store ptr %pool, ptr %pool.p
  %i.p = getelementptr i8, ptr %worker, i64 16
  store i64 %i, ptr %i.p
  %code = call i32 @pthread_create(ptr %id, ptr null, ptr @worker_main, ptr %worker)
  %ok = icmp eq i32 %code, 0
  br i1 %ok, label %started, label %done
started:
  %handle = load i64, ptr %id
  %detached = call i32 @pthread_detach(i64 %handle)
  %next = add i64 %i, 1
  br label %loop
done:
  %count = sub i64 %i, 1
  ret i64 %count
}

; false if there is no pool or another thread is using it
define internal i1 @pool_run(ptr %job, i64 %n) nounwind {
entry:
  %state.p = getelementptr i8, ptr @tw_state, i64 40
  %pool = load ptr, ptr %state.p
  %none = icmp eq ptr %pool, null
  br i1 %none, label %refuse, label %try
try:
  %exchange = cmpxchg ptr %pool, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %exchange, 1
  br i1 %mine, label %go, label %refuse
refuse:
  ret i1 false
go:
  %pending = getelementptr i8, ptr %pool, i64 64
  %waiter = getelementptr i8, ptr %pool, i64 68
  %job.p = getelementptr i8, ptr %pool, i64 128
  %n.p = getelementptr i8, ptr %pool, i64 136
  store ptr %job, ptr %job.p
  store i64 %n, ptr %n.p
  %n32 = trunc i64 %n to i32
  %others = sub i32 %n32, 1
  store atomic i32 0, ptr %waiter seq_cst, align 4
  store atomic i32 %others, ptr %pending seq_cst, align 4
  call void @signal_children(ptr %pool, i64 0, i64 %n)
  call void @run_part(ptr %job, i64 0, i64 %n)
  %turns.p = getelementptr i8, ptr @tw_state, i64 56
  %turns = load volatile i64, ptr %turns.p
  br label %spin
spin:
  %s = phi i64 [ 0, %go ], [ %s1, %pause ]
  %left = load atomic i32, ptr %pending acquire, align 4
  %done = icmp eq i32 %left, 0
  br i1 %done, label %finished, label %pause
pause:
  PAUSE
  %s1 = add i64 %s, 1
  %again = icmp ult i64 %s1, %turns
  br i1 %again, label %spin, label %announce
announce:
  store atomic i32 1, ptr %waiter seq_cst, align 4
  br label %sleep
sleep:
  %left2 = load atomic i32, ptr %pending seq_cst, align 4
  %done2 = icmp eq i32 %left2, 0
  br i1 %done2, label %finished, label %wait
wait:
  call void @futex_wait(ptr %pending, i32 %left2)
  br label %sleep
finished:
  store atomic i32 0, ptr %pool release, align 4
  ret i1 true
}
"""

NO_POOL = """
define i64 @tw_pool_start(ptr %pool, i64 %workers) nounwind {
  ret i64 0
}

define internal i1 @pool_run(ptr %job, i64 %n) nounwind {
  ret i1 false
}
"""
