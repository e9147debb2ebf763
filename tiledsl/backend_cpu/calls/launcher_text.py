"""The LLVM IR of the launcher: a list of launches, the threads that share in them, arrays that are looked at.

A *call* is a block of words that Python filled in before:

    call     launches, tape, scratch, helpers, patches, list of patches, addresses, how many helpers there are
    tape     for each launch: frame, state, words of the state to clear, phases; for each phase: function, helpers
    helpers  for each: the slot of a worker, scratch for it
    patch    number of an address, bytes to add, the word to write it to

A worker waits at its *slot*, and takes the one job that lies there. A job is free (1), taken (2) or none (0). Programs
of a phase are handed out by a counter, so whoever is done with all that there was takes back jobs that no worker has
begun with: a worker that wakes up late delays nobody. Workers spin for a while after a job, since the next one often
comes soon, then sleep. Without POSIX threads they go back to Python to sleep (`serve` returns).

`read` looks at the arguments of a call as C extensions do, by the layout of NumPy's arrays and of Python's tuples:

    table    arguments, bytes of an object's head, bytes before a tuple's items, the type of arrays, pairs; for each
             argument: dtype, which low bits of its address must be 0, which flags it must have, rank, shape, strides
             (for axes of one element any do)
    pairs    how many; for each: two arguments, and how many bytes the first may lie behind the second at most, or must
             at least, for the two to share no byte
"""

from __future__ import annotations

LAUNCHES = """
define i64 @await(ptr %word, i64 %wanted, ptr %looks) {
entry:
  br label %look
look:
  %seen = phi i64 [ 0, %entry ], [ %more, %again ]
  %now = load atomic i64, ptr %word seq_cst, align 8
  %there = icmp eq i64 %now, %wanted
  br i1 %there, label %yes, label %no
no:
  %most = load atomic i64, ptr %looks monotonic, align 8
  %over = icmp sge i64 %seen, %most
  br i1 %over, label %late, label %again
again:
  RELAX
  %more = add i64 %seen, 1
  br label %look
yes:
  ret i64 1
late:
  ret i64 0
}

define i64 @serve(ptr %slot) {
entry:
  %function.at = getelementptr i64, ptr %slot, i64 1
  %frame.at = getelementptr i64, ptr %slot, i64 2
  %scratch.at = getelementptr i64, ptr %slot, i64 3
  %state.at = getelementptr i64, ptr %slot, i64 4
  %waiting.at = getelementptr i64, ptr %slot, i64 6
  %looks.at = getelementptr i64, ptr %slot, i64 7
  br label %idle
idle:
  %soon = call i64 @await(ptr %slot, i64 1, ptr %looks.at)
  %hurry = icmp ne i64 %soon, 0
  br i1 %hurry, label %take, label %sleep
sleep:
  %woken = call i64 @sleep_at(ptr %slot)
  %goes.on = icmp ne i64 %woken, 0
  br i1 %goes.on, label %take, label %leave
take:
  %pair = cmpxchg ptr %slot, i64 1, i64 2 seq_cst seq_cst
  %mine = extractvalue { i64, i1 } %pair, 1
  br i1 %mine, label %work, label %idle
work:
  %function = load ptr, ptr %function.at
  %frame = load ptr, ptr %frame.at
  %scratch = load ptr, ptr %scratch.at
  %state = load ptr, ptr %state.at
  %done = call i64 %function(ptr %frame, ptr %scratch, ptr %state)
  store atomic i64 0, ptr %slot seq_cst, align 8
  %waiting = load atomic i64, ptr %waiting.at seq_cst, align 8
  %is.waited.for = icmp ne i64 %waiting, 0
  br i1 %is.waited.for, label %tell, label %idle
tell:
  call void @tell_waiting(ptr %slot)
  br label %idle
leave:
  ret i64 0
}

define private void @hand(ptr %helper, ptr %function, ptr %frame, ptr %state) {
  %slot = load ptr, ptr %helper
  %helper.scratch = getelementptr i64, ptr %helper, i64 1
  %scratch = load ptr, ptr %helper.scratch
  %function.at = getelementptr i64, ptr %slot, i64 1
  %frame.at = getelementptr i64, ptr %slot, i64 2
  %scratch.at = getelementptr i64, ptr %slot, i64 3
  %state.at = getelementptr i64, ptr %slot, i64 4
  %asleep.at = getelementptr i64, ptr %slot, i64 5
  store ptr %function, ptr %function.at
  store ptr %frame, ptr %frame.at
  store ptr %scratch, ptr %scratch.at
  store ptr %state, ptr %state.at
  store atomic i64 1, ptr %slot seq_cst, align 8
  %asleep = load atomic i64, ptr %asleep.at seq_cst, align 8
  %must.wake = icmp ne i64 %asleep, 0
  br i1 %must.wake, label %wake, label %end
wake:
  call void @wake_at(ptr %slot)
  br label %end
end:
  ret void
}

define private void @collect(ptr %helper) {
  %slot = load ptr, ptr %helper
  %pair = cmpxchg ptr %slot, i64 1, i64 0 seq_cst seq_cst
  %untouched = extractvalue { i64, i1 } %pair, 1
  br i1 %untouched, label %end, label %busy
busy:
  %looks.at = getelementptr i64, ptr %slot, i64 7
  %soon = call i64 @await(ptr %slot, i64 0, ptr %looks.at)
  %done = icmp ne i64 %soon, 0
  br i1 %done, label %end, label %long
long:
  call void @wait_at(ptr %slot)
  br label %end
end:
  ret void
}

define private void @phase(ptr %function, ptr %frame, ptr %scratch, ptr %state, ptr %helpers, i64 %count) {
entry:
  %words = shl i64 %count, 1
  %end = getelementptr i64, ptr %helpers, i64 %words
  br label %next.hand
next.hand:
  %to = phi ptr [ %helpers, %entry ], [ %to.next, %give ]
  %all.given = icmp eq ptr %to, %end
  br i1 %all.given, label %own, label %give
give:
  call void @hand(ptr %to, ptr %function, ptr %frame, ptr %state)
  %to.next = getelementptr i64, ptr %to, i64 2
  br label %next.hand
own:
  %done = call i64 %function(ptr %frame, ptr %scratch, ptr %state)
  br label %next.wait
next.wait:
  %from = phi ptr [ %helpers, %own ], [ %from.next, %get ]
  %all.back = icmp eq ptr %from, %end
  br i1 %all.back, label %finished, label %get
get:
  call void @collect(ptr %from)
  %from.next = getelementptr i64, ptr %from, i64 2
  br label %next.wait
finished:
  ret void
}

define i64 @run(ptr %call) {
entry:
  %launches = load i64, ptr %call
  %tape.at = getelementptr i64, ptr %call, i64 1
  %tape = load ptr, ptr %tape.at
  %scratch.at = getelementptr i64, ptr %call, i64 2
  %scratch = load ptr, ptr %scratch.at
  %helpers.at = getelementptr i64, ptr %call, i64 3
  %helpers = load ptr, ptr %helpers.at
  %patches.at = getelementptr i64, ptr %call, i64 4
  %patches = load i64, ptr %patches.at
  %list.at = getelementptr i64, ptr %call, i64 5
  %list = load ptr, ptr %list.at
  %addresses.at = getelementptr i64, ptr %call, i64 6
  %addresses = load ptr, ptr %addresses.at
  %there.at = getelementptr i64, ptr %call, i64 7
  %there = load i64, ptr %there.at
  br label %next.patch
next.patch:
  %p = phi i64 [ 0, %entry ], [ %p.next, %patch ]
  %patched = icmp eq i64 %p, %patches
  br i1 %patched, label %next.launch, label %patch
patch:
  %p.word = mul i64 %p, 3
  %p.at = getelementptr i64, ptr %list, i64 %p.word
  %source = load i64, ptr %p.at
  %address.at = getelementptr i64, ptr %addresses, i64 %source
  %address = load i64, ptr %address.at
  %added.at = getelementptr i64, ptr %p.at, i64 1
  %added = load i64, ptr %added.at
  %value = add i64 %address, %added
  %place.at = getelementptr i64, ptr %p.at, i64 2
  %place = load ptr, ptr %place.at
  store i64 %value, ptr %place
  %p.next = add i64 %p, 1
  br label %next.patch

next.launch:
  %l = phi i64 [ 0, %next.patch ], [ %l.next, %launched ]
  %at = phi ptr [ %tape, %next.patch ], [ %phase.at, %launched ]
  %all.run = icmp eq i64 %l, %launches
  br i1 %all.run, label %good, label %launch
launch:
  %l.next = add i64 %l, 1
  %frame = load ptr, ptr %at
  %state.at = getelementptr i64, ptr %at, i64 1
  %state = load ptr, ptr %state.at
  %clear.at = getelementptr i64, ptr %at, i64 2
  %clear = load i64, ptr %clear.at
  %phases.at = getelementptr i64, ptr %at, i64 3
  %phases = load i64, ptr %phases.at
  %first.at = getelementptr i64, ptr %at, i64 4
  br label %next.clear
next.clear:
  %c = phi i64 [ 0, %launch ], [ %c.next, %clear.one ]
  %cleared = icmp eq i64 %c, %clear
  br i1 %cleared, label %next.phase, label %clear.one
clear.one:
  %word.at = getelementptr i64, ptr %state, i64 %c
  store i64 0, ptr %word.at
  %c.next = add i64 %c, 1
  br label %next.clear
next.phase:
  %n = phi i64 [ 0, %next.clear ], [ %n.next, %phase ]
  %phase.at = phi ptr [ %first.at, %next.clear ], [ %phase.next, %phase ]
  %all.phases = icmp eq i64 %n, %phases
  br i1 %all.phases, label %launched, label %phase
phase:
  %function = load ptr, ptr %phase.at
  %count.at = getelementptr i64, ptr %phase.at, i64 1
  %wanted = load i64, ptr %count.at
  %enough = icmp slt i64 %wanted, %there
  %count = select i1 %enough, i64 %wanted, i64 %there
  call void @phase(ptr %function, ptr %frame, ptr %scratch, ptr %state, ptr %helpers, i64 %count)
  %n.next = add i64 %n, 1
  %phase.next = getelementptr i64, ptr %phase.at, i64 2
  br label %next.phase
launched:
  %status = load i64, ptr %state
  %failed = icmp ne i64 %status, 0
  br i1 %failed, label %bad, label %next.launch
good:
  ret i64 0
bad:
  ret i64 %l.next
}
"""

SLEEP_IN_PYTHON = """
define private i64 @sleep_at(ptr %slot) {
  ret i64 0
}
define private void @wake_at(ptr %slot) {
  ret void
}
define private void @tell_waiting(ptr %slot) {
  ret void
}
define private void @wait_at(ptr %slot) {
  %for.ever = alloca i64
  store i64 9223372036854775807, ptr %for.ever
  %done = call i64 @await(ptr %slot, i64 0, ptr %for.ever)
  ret void
}
define void @prepare(ptr %slot) {
  ret void
}
"""

# Who sleeps says so first, and looks at the job again with the lock held: whoever changes the job, then sees that
# somebody sleeps, waits for the lock until that one can be woken.
SLEEP_BY_POSIX = """
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)

define void @prepare(ptr %slot) {
  %lock = getelementptr i64, ptr %slot, i64 8
  %job = getelementptr i64, ptr %slot, i64 24
  %end = getelementptr i64, ptr %slot, i64 40
  %1 = call i32 @pthread_mutex_init(ptr %lock, ptr null)
  %2 = call i32 @pthread_cond_init(ptr %job, ptr null)
  %3 = call i32 @pthread_cond_init(ptr %end, ptr null)
  ret void
}

define private i64 @sleep_at(ptr %slot) {
  %flag = getelementptr i64, ptr %slot, i64 5
  %event = getelementptr i64, ptr %slot, i64 24
  %lock = getelementptr i64, ptr %slot, i64 8
  %1 = call i32 @pthread_mutex_lock(ptr %lock)
  store atomic i64 1, ptr %flag seq_cst, align 8
  br label %look
look:
  %now = load atomic i64, ptr %slot seq_cst, align 8
  %there = icmp eq i64 %now, 1
  br i1 %there, label %up, label %down
down:
  %2 = call i32 @pthread_cond_wait(ptr %event, ptr %lock)
  br label %look
up:
  store atomic i64 0, ptr %flag seq_cst, align 8
  %3 = call i32 @pthread_mutex_unlock(ptr %lock)
  ret i64 1
}

define private void @wait_at(ptr %slot) {
  %flag = getelementptr i64, ptr %slot, i64 6
  %event = getelementptr i64, ptr %slot, i64 40
  %lock = getelementptr i64, ptr %slot, i64 8
  %1 = call i32 @pthread_mutex_lock(ptr %lock)
  store atomic i64 1, ptr %flag seq_cst, align 8
  br label %look
look:
  %now = load atomic i64, ptr %slot seq_cst, align 8
  %there = icmp eq i64 %now, 0
  br i1 %there, label %up, label %down
down:
  %2 = call i32 @pthread_cond_wait(ptr %event, ptr %lock)
  br label %look
up:
  store atomic i64 0, ptr %flag seq_cst, align 8
  %3 = call i32 @pthread_mutex_unlock(ptr %lock)
  ret void
}

define private void @wake_at(ptr %slot) {
  %lock = getelementptr i64, ptr %slot, i64 8
  %event = getelementptr i64, ptr %slot, i64 24
  %1 = call i32 @pthread_mutex_lock(ptr %lock)
  %2 = call i32 @pthread_cond_signal(ptr %event)
  %3 = call i32 @pthread_mutex_unlock(ptr %lock)
  ret void
}

define private void @tell_waiting(ptr %slot) {
  %lock = getelementptr i64, ptr %slot, i64 8
  %event = getelementptr i64, ptr %slot, i64 40
  %1 = call i32 @pthread_mutex_lock(ptr %lock)
  %2 = call i32 @pthread_cond_signal(ptr %event)
  %3 = call i32 @pthread_mutex_unlock(ptr %lock)
  ret void
}
"""

READS = """
define private i64 @apart(ptr %pairs, ptr %addresses) {
entry:
  %count = load i64, ptr %pairs
  %first = getelementptr i64, ptr %pairs, i64 1
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %n.next, %good ]
  %done = icmp eq i64 %n, %count
  br i1 %done, label %yes, label %look
look:
  %word = mul i64 %n, 4
  %pair = getelementptr i64, ptr %first, i64 %word
  %one = load i64, ptr %pair
  %other.at = getelementptr i64, ptr %pair, i64 1
  %other = load i64, ptr %other.at
  %most.at = getelementptr i64, ptr %pair, i64 2
  %most = load i64, ptr %most.at
  %least.at = getelementptr i64, ptr %pair, i64 3
  %least = load i64, ptr %least.at
  %one.at = getelementptr i64, ptr %addresses, i64 %one
  %one.address = load i64, ptr %one.at
  %second.at = getelementptr i64, ptr %addresses, i64 %other
  %other.address = load i64, ptr %second.at
  %behind = sub i64 %one.address, %other.address
  %before = icmp sle i64 %behind, %most
  %after = icmp sge i64 %behind, %least
  %apart = or i1 %before, %after
  br i1 %apart, label %good, label %no
good:
  %n.next = add i64 %n, 1
  br label %next
yes:
  ret i64 1
no:
  ret i64 0
}

define i64 @read(ptr %tuple, ptr %table, ptr %addresses) {
entry:
  %count = load i64, ptr %table
  %head.at = getelementptr i64, ptr %table, i64 1
  %head = load i64, ptr %head.at
  %items.at = getelementptr i64, ptr %table, i64 2
  %items.bytes = load i64, ptr %items.at
  %type.at = getelementptr i64, ptr %table, i64 3
  %type = load ptr, ptr %type.at
  %pairs.at = getelementptr i64, ptr %table, i64 4
  %pairs = load ptr, ptr %pairs.at
  %first = getelementptr i64, ptr %table, i64 5
  %size.at = getelementptr i8, ptr %tuple, i64 %head
  %size = load i64, ptr %size.at
  %items = getelementptr i8, ptr %tuple, i64 %items.bytes
  %before.head = sub i64 %head, 8
  %all.there = icmp eq i64 %size, %count
  br i1 %all.there, label %next, label %no
next:
  %n = phi i64 [ 0, %entry ], [ %n.next, %good ]
  %want = phi ptr [ %first, %entry ], [ %strides.end, %good ]
  %done = icmp eq i64 %n, %count
  br i1 %done, label %yes, label %look
look:
  %item.at = getelementptr ptr, ptr %items, i64 %n
  %item = load ptr, ptr %item.at
  %item.type.at = getelementptr i8, ptr %item, i64 %before.head
  %item.type = load ptr, ptr %item.type.at
  %is.array = icmp eq ptr %item.type, %type
  br i1 %is.array, label %array, label %no
array:
  %fields = getelementptr i8, ptr %item, i64 %head
  %address = load i64, ptr %fields
  %rank.at = getelementptr i64, ptr %fields, i64 1
  %rank.32 = load i32, ptr %rank.at
  %rank = sext i32 %rank.32 to i64
  %shape.at = getelementptr i64, ptr %fields, i64 2
  %shape = load ptr, ptr %shape.at
  %strides.at = getelementptr i64, ptr %fields, i64 3
  %strides = load ptr, ptr %strides.at
  %dtype.at = getelementptr i64, ptr %fields, i64 5
  %dtype = load i64, ptr %dtype.at
  %want.dtype = load i64, ptr %want
  %bits.at = getelementptr i64, ptr %want, i64 1
  %bits = load i64, ptr %bits.at
  %flags.at = getelementptr i64, ptr %fields, i64 6
  %flags.32 = load i32, ptr %flags.at
  %flags = zext i32 %flags.32 to i64
  %want.flags.at = getelementptr i64, ptr %want, i64 2
  %want.flags = load i64, ptr %want.flags.at
  %kept.flags = and i64 %flags, %want.flags
  %has.flags = icmp eq i64 %kept.flags, %want.flags
  %want.rank.at = getelementptr i64, ptr %want, i64 3
  %want.rank = load i64, ptr %want.rank.at
  %want.shape = getelementptr i64, ptr %want, i64 4
  %want.strides = getelementptr i64, ptr %want.shape, i64 %want.rank
  %strides.end = getelementptr i64, ptr %want.strides, i64 %want.rank
  %same.dtype = icmp eq i64 %dtype, %want.dtype
  %same.rank = icmp eq i64 %rank, %want.rank
  %low = and i64 %address, %bits
  %aligned = icmp eq i64 %low, 0
  %same = and i1 %same.dtype, %same.rank
  %usable = and i1 %has.flags, %aligned
  %fits = and i1 %same, %usable
  br i1 %fits, label %axes, label %no
axes:
  %a = phi i64 [ 0, %array ], [ %a.next, %axis.good ]
  %all.axes = icmp eq i64 %a, %rank
  br i1 %all.axes, label %good, label %axis
axis:
  %length.at = getelementptr i64, ptr %shape, i64 %a
  %length = load i64, ptr %length.at
  %want.length.at = getelementptr i64, ptr %want.shape, i64 %a
  %want.length = load i64, ptr %want.length.at
  %stride.at = getelementptr i64, ptr %strides, i64 %a
  %stride = load i64, ptr %stride.at
  %want.stride.at = getelementptr i64, ptr %want.strides, i64 %a
  %want.stride = load i64, ptr %want.stride.at
  %same.length = icmp eq i64 %length, %want.length
  %same.stride = icmp eq i64 %stride, %want.stride
  %single = icmp eq i64 %length, 1
  %steps = or i1 %same.stride, %single
  %same.axis = and i1 %same.length, %steps
  br i1 %same.axis, label %axis.good, label %no
axis.good:
  %a.next = add i64 %a, 1
  br label %axes
good:
  %address.at = getelementptr i64, ptr %addresses, i64 %n
  store i64 %address, ptr %address.at
  %n.next = add i64 %n, 1
  br label %next
yes:
  %lie.apart = call i64 @apart(ptr %pairs, ptr %addresses)
  ret i64 %lie.apart
no:
  ret i64 0
}
"""
