/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which processes launch what waits for each other on a device, for spin: reductions of rounds, and users'
 * collectives, which each process posts and waits for anywhere in its step. docs/decisions/0025: the rules in prose.
 *
 * A launched request stands in a queue of the process's device; the devices do one when it is the first on all. Nothing
 * repeats: that no invalid end state is reachable means that every step of every process ends.
 */

#ifndef PROCESSES
#define PROCESSES 2 /* 2 or 3 */
#endif
#ifndef STEPS
#define STEPS 2
#endif
#ifndef ROUNDS
#define ROUNDS 1 /* requests of a round in each step */
#endif

/* What the model must refute: -DMUTANT=<one of these>. */
#define AS_REQUESTED 1 /* a request is launched when its own process makes it */
#define LINES_APART 2  /* what all have is told on a line for each sequence, which are heard in any order */
#define ROUNDS_FIRST 3 /* a collective waits for the rounds that its process has requested before */
#ifndef MUTANT
#define MUTANT 0
#endif

#define ROUND 0
#define USERS 1
#define MOST 16

byte said[PROCESSES * 2];        /* how many requests of a sequence a process has said that it has */
byte requested[PROCESSES * 2];
byte told[2];                    /* how many of a sequence all have been told of */
byte done[2];
chan heard[PROCESSES * 2] = [MOST] of { bit }; /* of both sequences, in the order told; LINES_APART: of one each */
chan queue[PROCESSES] = [MOST] of { bit };
byte finished;

#if MUTANT == LINES_APART
#define LINE(p, s) heard[(p) * 2 + (s)]
#else
#define LINE(p, s) heard[(p) * 2]
#endif

inline request(p, s) {
  requested[p * 2 + s]++;
  if
  :: MUTANT == AS_REQUESTED -> queue[p]!s
  :: else -> said[p * 2 + s]++
  fi
}

#if PROCESSES == 2
#define ALL_HAVE(s) (said[s] > told[s] && said[2 + s] > told[s])
#define ALL_FIRST(s) (queue[0]?[s] && queue[1]?[s])
#define ALL_WAIT (nempty(queue[0]) && nempty(queue[1]))
#else
#define ALL_HAVE(s) (said[s] > told[s] && said[2 + s] > told[s] && said[4 + s] > told[s])
#define ALL_FIRST(s) (queue[0]?[s] && queue[1]?[s] && queue[2]?[s])
#define ALL_WAIT (nempty(queue[0]) && nempty(queue[1]) && nempty(queue[2]))
#endif

inline tell(s) {
  told[s]++;
  LINE(0, s)!s;
  LINE(1, s)!s;
#if PROCESSES == 3
  LINE(2, s)!s;
#endif
}

inline complete(s) {
  queue[0]?s;
  queue[1]?s;
#if PROCESSES == 3
  queue[2]?s;
#endif
  done[s]++
}

/* Rank 0's thread that hears all, and tells it in one order. */
active proctype hub() {
end:
  do
  :: atomic { ALL_HAVE(ROUND) -> tell(ROUND) }
  :: atomic { ALL_HAVE(USERS) -> tell(USERS) }
  od
}

/* Launches on each process what it hears. */
proctype engine(byte p) {
  bit s;
end:
  do
  :: atomic { heard[p * 2]?s -> queue[p]!s }
#if MUTANT == LINES_APART
  :: atomic { heard[p * 2 + 1]?s -> queue[p]!s }
#endif
  od
}

active proctype devices() {
  bit s;
end:
  do
  :: atomic { ALL_FIRST(ROUND) -> s = ROUND; complete(s) }
  :: atomic { ALL_FIRST(USERS) -> s = USERS; complete(s) }
  :: atomic { ALL_WAIT && !ALL_FIRST(ROUND) && !ALL_FIRST(USERS) -> assert(false) } /* they wait for each other */
  od
}

/* A step: rounds' requests and a collective in any order, the collective awaited anywhere behind it, rounds at the end. */
proctype process(byte p) {
  byte step, rounds;
  bit posted, awaited;
  for (step : 0 .. STEPS - 1) {
    rounds = 0;
    posted = 0;
    awaited = 0;
    do
    :: atomic { rounds < ROUNDS -> request(p, ROUND); rounds++ }
    :: atomic {
#if MUTANT == ROUNDS_FIRST
        !posted && done[ROUND] >= requested[p * 2 + ROUND] -> request(p, USERS); posted = 1
#else
        !posted -> request(p, USERS); posted = 1
#endif
      }
    :: atomic { posted && !awaited && done[USERS] > step -> awaited = 1 }
    :: atomic { posted && !awaited -> done[USERS] > step; awaited = 1 } /* decides to wait, whatever else it could do */
    :: rounds == ROUNDS && posted && awaited -> break
    od;
    done[ROUND] >= (step + 1) * ROUNDS
  }
  finished++
}

init {
  atomic {
    run engine(0); run engine(1); run process(0); run process(1);
#if PROCESSES == 3
    run engine(2); run process(2)
#endif
  }
}
