/* SPDX-License-Identifier: Apache-2.0
 *
 * What surrounds the SyncLedger in the DistributedSyncServer, for spin: the mailbox that is drained by whoever posts,
 * reductions in chunks that posters, joiners and one worker claim, waiting, failures and their acknowledgement,
 * deadlines, close. The ledger's rules are here in their plainest form (they are proven over the C++ itself), and every
 * decision is printed, so that random runs can be replayed through the C++ ledger. docs/project/proofs.md: what is left out.
 *
 * Nothing repeats: every run ends. So that no invalid end state means that every question is answered, whatever the
 * schedule.
 */

#ifndef DEVICES
#define DEVICES 2
#endif
#ifndef PARAMETERS
#define PARAMETERS 2
#endif
#ifndef GENERATIONS
#define GENERATIONS 2
#endif
#ifndef CHUNKS
#define CHUNKS 2 /* of each reduction */
#endif
#ifndef FAILURES
#define FAILURES 0 /* how many devices may fail, anywhere in a step */
#endif
#ifndef CLOSE
#define CLOSE 0 /* 1: the server is closed, at any moment */
#endif
#ifndef DEADLINE
#define DEADLINE 0 /* 1: a wait may take too long, at any moment */
#endif
#ifndef SILENT
#define SILENT 0 /* how many devices may stay away without a word */
#endif
#ifndef LATE
#define LATE 0 /* 1: inputs of a reduction may not be ready when it is launched */
#endif
#ifndef SETS
#define SETS 0 /* 1: a device requires any set of parameters in a step; 0: all */
#endif
#ifndef FROM
#define FROM 1 /* the first generation in which something may go wrong */
#endif

/* What the model must refute: -DMUTANT=<one of these>. */
#define UNSET_WITHOUT_LOOKING 1 /* the drainer looks at the queue, and unsets the flag later */
#define TEST_THEN_SET 2         /* posting: the flag is read in one step and set in another */
#define NEWEST_FIRST 3          /* the queue is a stack */
#define CLOSE_DROPS_QUEUE 4     /* closing empties the mailbox */
#define CLOSE_LEAVES_WAITERS 5  /* closing answers nobody */
#define ANSWER_WITHOUT_ROUND 6  /* a sync in a failed group is not told what was launched */
#define ACKNOWLEDGE_AT_ONCE 7   /* a failure is not waited for */
#define FINISH_AT_LAST_CLAIM 8  /* a reduction is finished when its last chunk is claimed */
#define SYNC_STARTS_NO_WAIT 9   /* the deadline counts from nothing */
#define WORKER_NOT_WOKEN 10     /* late inputs are left to helpers */
#define SYNC_STORED_AFTER_FAILURE 11 /* a sync in a failed group waits like others */
#define LAUNCH_TWICE 12         /* each message launches all that is complete */
#define RELEASE_WITHOUT_ALL 13  /* released when those who registered have synced */
#ifndef MUTANT
#define MUTANT 0
#endif
#define is(mutant) (MUTANT == mutant)

#define TASKS (PARAMETERS * GENERATIONS) /* at most 12; a set of them is a short */
#define bit(i) (1 << (i))
#define ALL_DEVICES (bit(DEVICES) - 1)
#define ALL_PARAMETERS (bit(PARAMETERS) - 1)
#define tasks_of(generation) (ALL_PARAMETERS << (((generation) - 1) * PARAMETERS))

/* Any member of a set that has one. */
inline choose(set, member) {
  if
  :: (set) & bit(0) -> member = 0
  :: (set) & bit(1) -> member = 1
  :: (set) & bit(2) -> member = 2
  :: (set) & bit(3) -> member = 3
  :: (set) & bit(4) -> member = 4
  :: (set) & bit(5) -> member = 5
  :: (set) & bit(6) -> member = 6
  :: (set) & bit(7) -> member = 7
  :: (set) & bit(8) -> member = 8
  :: (set) & bit(9) -> member = 9
  :: (set) & bit(10) -> member = 10
  :: (set) & bit(11) -> member = 11
  fi
}

mtype = {register, submit, sync, device_failed, check_deadlines, close, none, deadline, closed};

/* --- what devices own; the assertions look at it, the server does not */

byte owed[DEVICES];         /* required parameters that were not posted yet */
byte posted;                /* devices that have posted their sync and not returned from its join */
byte own = ALL_DEVICES;     /* devices whose storage no reduction may touch: from a join's end to the next registration */
short ever;                 /* reductions that were launched */
byte failures = FAILURES;
byte silent = SILENT;

/* --- reductions: LocalCommunicator. Launched oldest first; any order is allowed here. */

short running;   /* launched and not finished */
short open;      /* with unclaimed chunks */
short late;      /* whose inputs are not ready */
byte claimed[TASKS];
byte done[TASKS];
bool asleep = true; /* the worker: also before it is started */

#define claimable (open & ~late)

inline claim(task) {
  claimed[task]++;
  if
  :: claimed[task] == CHUNKS ->
     open = open & ~bit(task);
     if
     :: is(FINISH_AT_LAST_CLAIM) -> running = running & ~bit(task)
     :: else
     fi
  :: else
  fi
}

inline finish_chunk(task) {
  d_step {
    done[task]++;
    assert(done[task] <= claimed[task]);
    if
    :: done[task] == CHUNKS -> /* nobody holds a chunk of it any more: forgotten, so that equal states look equal */
       running = running & ~bit(task);
       claimed[task] = 0;
       done[task] = 0
    :: else
    fi;
    task = 0
  }
}

/* A poster does its device's share, a waiting device what it has time for: here, as much as you like of anything. */
inline help(task) {
  do
  :: atomic { claimable -> choose(claimable, task); claim(task) }
     finish_chunk(task)
  :: true -> break
  od
}

/* A joining device leaves nothing that is ready to others. */
inline help_all(task) {
  do
  :: atomic { claimable -> choose(claimable, task); claim(task) }
     finish_chunk(task)
  :: atomic { !claimable -> break }
  od
}

proctype Streams() {
  byte task;
end:
  do
  :: atomic { late -> choose(late, task); late = late & ~bit(task); task = 0 }
  od
}

proctype Worker() {
  byte task;
end:
  do
  :: atomic { !asleep && open -> choose(open, task) }
     !(late & bit(task)); /* alone waits for inputs */
     do
     :: atomic { open & bit(task) -> claim(task) }
        atomic { byte chunk = task; finish_chunk(task); task = chunk }
     :: atomic { !(open & bit(task)) -> task = 0; break }
     od
  :: atomic { !asleep && !open -> asleep = true }
  od
}

/* --- mailbox */

#define CAPACITY (DEVICES * (PARAMETERS + 3) + 2) /* all that can be said between two answers */
chan mailbox = [CAPACITY] of {mtype, byte, byte, byte, byte}; /* kind, device, generation, value, number */
bool draining;
byte drainers;
byte said[DEVICES];  /* messages of each device, counted by the sender */
byte heard[DEVICES]; /* and by the server */

/* --- the server: touched only while draining */

mtype kind = none; /* the message in hand */
byte device, generation, value, number;

byte now = 1; /* the incomplete generation */
byte registered, synced;
byte required[DEVICES], submitted[DEVICES];
byte launched;
byte asked;   /* devices whose sync has no answer yet */
bool waiting; /* since when is not modelled: any wait may be too long */
mtype fault = none;
bool failed; /* what senders look at */

byte launches;  /* decided, to be performed */
byte answers;   /* devices to be answered */
bool releases;  /* with a result; else with the error */

/* --- answers: SyncWaiter */

byte released;     /* devices whose sync was answered with a result */
byte refused;      /* ... with the error, and what was launched */
byte abandoned;    /* ... with the error alone (mutant) */
byte acknowledged; /* devices whose failure was acknowledged */
bool checking;     /* a CheckDeadlines is on its way: one at a time, more would do nothing */
bool stopping, stopped; /* the deadlines' thread */

inline forget_round() {
  registered = 0;
  synced = 0;
  launched = 0;
  waiting = false;
  for (i in required) {
    required[i] = 0;
    submitted[i] = 0
  }
}

inline needed() {
  need = 0;
  lack = 0;
  for (i in required) {
    need = need | required[i];
    lack = lack | (required[i] & ~submitted[i])
  }
}

inline fail_group(cause) {
  if
  :: fault == none ->
     fault = cause;
     failed = true;
     waiting = false;
     if
     :: is(CLOSE_LEAVES_WAITERS) && cause == closed
     :: else -> answers = asked; asked = 0
     fi
  :: else
  fi
}

/* SyncLedger, and the server's handle() functions. One step, as nobody sees it but through what it performs. */
inline decide() {
  d_step {
    byte need, lack, i;
    assert(drainers == 1);
    if
    :: kind != check_deadlines && kind != close ->
       assert(number == heard[device] + 1);
       heard[device] = number
    :: else
    fi;
    launches = 0;
    answers = 0;
    releases = false;
    if
    :: kind == register && fault == none ->
       assert(generation == now && !(registered & bit(device)));
       registered = registered | bit(device);
       required[device] = value
    :: kind == submit && fault == none ->
       assert(generation == now && (required[device] & ~submitted[device] & bit(value)));
       submitted[device] = submitted[device] | bit(value)
    :: kind == sync && (fault == none || is(SYNC_STORED_AFTER_FAILURE)) ->
       assert(fault != none || (generation == now && (registered & ~synced & bit(device))));
       synced = synced | bit(device);
       asked = asked | bit(device);
       waiting = !is(SYNC_STARTS_NO_WAIT)
    :: kind == sync && !(fault == none || is(SYNC_STORED_AFTER_FAILURE)) -> answers = bit(device)
    :: kind == device_failed -> fail_group(device_failed)
    :: kind == check_deadlines ->
       checking = false;
       if
       :: waiting -> fail_group(deadline)
       :: else
       fi
    :: kind == close -> fail_group(closed)
    :: else
    fi;
    if
    :: fault == none && registered == ALL_DEVICES ->
       needed();
       launches = need & ~lack;
       if
       :: !is(LAUNCH_TWICE) -> launches = launches & ~launched
       :: else
       fi;
       launched = launched | launches
    :: else
    fi;
    printf("%e %d %d %d launches %d", kind, device, generation, value, launches);
    if
    :: fault == none && ((registered == ALL_DEVICES && synced == ALL_DEVICES && launched == need) ||
                         (is(RELEASE_WITHOUT_ALL) && registered && synced == registered)) ->
       assert(posted == ALL_DEVICES);
       releases = true;
       answers = asked;
       asked = 0;
       now++;
       forget_round()
    :: else
    fi;
    printf(" releases %d fault %e now %d registered %d synced %d launched %d\n", releases, fault, now, registered,
           synced, launched);
    need = 0;
    lack = 0;
    i = 0
  }
}

/* Each launch and each answer is seen by others before the next. */
inline perform(task) {
  do
  :: atomic {
       launches ->
       choose(launches, task);
       launches = launches & ~bit(task);
       for (index in owed) { assert(!(owed[index] & bit(task))) } /* all that require it have posted it */
       index = 0;
       assert(!own);
       task = task + (now - 1 - releases) * PARAMETERS;
       assert(!(ever & bit(task)));
       ever = ever | bit(task);
       running = running | bit(task);
       open = open | bit(task);
       if
       :: LATE ->
          late = late | bit(task);
          if
          :: !is(WORKER_NOT_WOKEN) -> asleep = false
          :: else
          fi
       :: true
       fi;
       task = 0
     }
  :: atomic {
       !launches && answers ->
       choose(answers, task);
       answers = answers & ~bit(task);
       if
       :: releases ->
          released = released | bit(task)
       :: !releases && is(ANSWER_WITHOUT_ROUND) && kind == sync -> abandoned = abandoned | bit(task)
       :: else -> refused = refused | bit(task)
       fi;
       task = 0
     }
  :: atomic { !launches && !answers -> break }
  od;
  atomic {
    if
    :: kind == device_failed -> acknowledged = acknowledged | bit(device)
    :: kind == close && is(CLOSE_DROPS_QUEUE) ->
       do
       :: mailbox?_, _, _, _, _
       :: empty(mailbox) -> break
       od
    :: else
    fi
  }
}

inline take(a_kind, a_device, a_generation, a_value, a_number) {
  draining = true;
  drainers++;
  kind = a_kind;
  device = a_device;
  generation = a_generation;
  value = a_value;
  number = a_number
}

inline lay_down() {
  drainers--;
  kind = none;
  device = 0;
  generation = 0;
  value = 0;
  number = 0
}

/* Whoever finds nobody draining drains. `task` is scratch. */
inline post(a_kind, a_device, a_generation, a_value, a_number, task) {
  if
  :: atomic {
       draining && !is(TEST_THEN_SET) ->
       assert(nfull(mailbox));
       mailbox!a_kind, a_device, a_generation, a_value, a_number
     }
  :: atomic { !draining && !is(TEST_THEN_SET) -> take(a_kind, a_device, a_generation, a_value, a_number) }
     drain(task)
  :: atomic { draining && is(TEST_THEN_SET) -> mailbox!a_kind, a_device, a_generation, a_value, a_number }
  :: atomic { !draining && is(TEST_THEN_SET) -> skip }
     atomic { take(a_kind, a_device, a_generation, a_value, a_number) }
     drain(task)
  fi
}

inline drain(task) {
  do
  :: true ->
     decide();
     perform(task);
     if
     :: atomic { nempty(mailbox) && !is(NEWEST_FIRST) -> mailbox?kind, device, generation, value, number }
     :: atomic {
          nempty(mailbox) && is(NEWEST_FIRST) -> /* turn until the last is in front */
          index = len(mailbox) - 1;
          do
          :: index > 0 ->
             mailbox?kind, device, generation, value, number;
             mailbox!kind, device, generation, value, number;
             index--
          :: else -> break
          od;
          mailbox?kind, device, generation, value, number
        }
     :: atomic { empty(mailbox) && !is(UNSET_WITHOUT_LOOKING) -> lay_down(); draining = false; break }
     :: atomic { empty(mailbox) && is(UNSET_WITHOUT_LOOKING) -> lay_down() }
        atomic { draining = false; break }
     fi
  od
}

/* --- who posts */

proctype Device(byte me) {
  mtype says = none;
  byte generation_here = 1, what, task, index;
  bool in_step;

  do
  :: generation_here > GENERATIONS -> break
  :: else ->
     atomic {
       if
       :: silent && generation_here >= FROM && !in_step -> silent--; break
       :: failures && generation_here >= FROM -> failures--; says = device_failed
       /* check_alive: the step unwinds. Sync does not look. */
       :: failed && (!in_step || owed[me]) -> says = device_failed
       :: !failed && !in_step ->
          in_step = true;
          own = own & ~bit(me);
          if
          :: !SETS -> owed[me] = ALL_PARAMETERS
          :: SETS -> select(what : 0 .. ALL_PARAMETERS); owed[me] = what
          fi;
          what = owed[me];
          says = register
       :: !failed && in_step && owed[me] ->
          choose(owed[me], what);
          owed[me] = owed[me] & ~bit(what);
          says = submit
       :: in_step && !owed[me] && !(posted & bit(me)) -> posted = posted | bit(me); says = sync
       :: posted & bit(me) -> says = none
       fi
     }
     if
     :: says != none ->
        d_step { said[me]++ }
        post(says, me, generation_here, what, said[me], task);
        help(task)
     :: else
     fi;
     atomic { what = 0 }
     if
     :: says == device_failed || says == none -> /* join, or fail, which joins too */
        if
        :: says == device_failed && !is(ACKNOWLEDGE_AT_ONCE) -> acknowledged & bit(me)
        :: else
        fi;
        if
        :: posted & bit(me) -> /* await: helps for a while, then blocks */
           help(task);
           (released | refused | abandoned) & bit(me)
        :: else
        fi;
        if
        :: !(abandoned & bit(me)) -> help_all(task); !(running & tasks_of(generation_here))
        :: else
        fi;
        atomic {
          for (index in claimed) { assert(!claimed[index]) } /* the join returns: nobody works on a chunk */
          index = 0;
          assert(!running);
          own = own | bit(me);
          owed[me] = 0;
          posted = posted & ~bit(me);
          in_step = false;
          if
          :: says == none && (released & bit(me)) ->
             assert(SETS || !(tasks_of(generation_here) & ~ever));
             released = released & ~bit(me);
             generation_here++
          :: else -> break
          fi
        }
     :: else
     fi
  od
}

proctype Deadlines() {
  byte task, index;
end:
  do
  :: atomic { waiting && now >= FROM && !checking && !stopping -> checking = true }
     post(check_deadlines, 0, 0, 0, 0, task)
  :: atomic { stopping -> stopped = true; break }
  od
}

proctype Closer() {
  byte task, index;
  now >= FROM || failed;
  post(close, 0, 0, 0, 0, task);
  stopping = true; /* the destructor, which waits for its own thread only */
  !DEADLINE || stopped
}

init {
  atomic {
    byte index;
    for (index : 0 .. DEVICES - 1) { run Device(index) }
    if
    :: LATE -> run Streams(); run Worker()
    :: else
    fi;
    if
    :: DEADLINE -> run Deadlines()
    :: else
    fi;
    if
    :: CLOSE -> run Closer()
    :: else
    fi;
    index = 0
  }
}
