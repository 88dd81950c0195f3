/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a group of several processes, for spin: devices that leave after any round, alone or following the others,
 * shares that those who follow still update, who stops following too early, and ends that are heard before the words
 * that were said before them. docs/decisions/0023, 15: the rules in prose.
 *
 * Each process has one device. Nothing repeats: that no invalid end state is reachable means that every process ends.
 */

#ifndef PROCESSES
#define PROCESSES 2 /* 2 or 3 */
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* that a device may train */
#endif
#ifndef SHARES
#define SHARES 0 /* 1: each device owns a share, all leave to follow, and a round's update waits for all */
#endif
#ifndef STOPS
#define STOPS 0 /* how many devices may stop following before all have left */
#endif

/* What the model must refute: -DMUTANT=<one of these>. */
#define END_SAYS_ITS_ROUND 1 /* also where it knows that all have left */
#define STOP_IN_WORDS 2      /* who stops following fails when it hears the next agreement */
#define WORDS_UNTIL_ALL_FOLLOW 3 /* a process whose device follows says nothing of rounds that it has not fetched */
#ifndef MUTANT
#define MUTANT 0
#endif

#define N PROCESSES
#define ALL 100
#define open 0
#define closed 1
#define failed 2

byte said[N];      /* rounds of which a process has said its words */
byte left_from[N]; /* the first round in whose words its device has left; 0: none */
byte agreed[N];    /* rounds whose agreement it has heard */
byte released[N];
byte fetched[N];   /* rounds that its device has trained or followed */
byte updated[N];   /* rounds whose update its device has posted */
bit gathers[N];    /* it waits to hear that all have posted theirs */
byte given[N];     /* rounds whose shares it has given the others, as it has heard that */
bit stopped[N];
bit all_left[N];   /* it has heard that all have */
bit error[N];
byte end_of[N];
byte completed[N]; /* the last round of an end */
byte stops = STOPS;
bit faulty;        /* somebody has stopped too early, where that is an error */

#if PROCESSES == 2
#define all_said(r) (said[0] >= r && said[1] >= r)
#define has_left(q, r) (left_from[q] != 0 && left_from[q] <= r)
#define all_have_left(r) (has_left(0, r) && has_left(1, r))
#define all_launched(r) (agreed[0] >= r && agreed[1] >= r)
#define all_updated(r) (updated[0] >= r && updated[1] >= r)
#define all_given(r) (given[0] >= r && given[1] >= r)
#else
#define all_said(r) (said[0] >= r && said[1] >= r && said[2] >= r)
#define has_left(q, r) (left_from[q] != 0 && left_from[q] <= r)
#define all_have_left(r) (has_left(0, r) && has_left(1, r) && has_left(2, r))
#define all_launched(r) (agreed[0] >= r && agreed[1] >= r && agreed[2] >= r)
#define all_updated(r) (updated[0] >= r && updated[1] >= r && updated[2] >= r)
#define all_given(r) (given[0] >= r && given[1] >= r && given[2] >= r)
#endif

/* An end that the process p may hear, whenever it comes: of who has failed, or is missed in an agreement or a gather. */
#define misses(p) (gathers[p] || (said[p] == released[p] + 1 && agreed[p] == released[p]))
#define hears_end(p, q) \
  (q != p && end_of[q] != open && completed[q] <= released[p] && (end_of[q] == failed || misses(p)) || \
   q != p && end_of[q] != open && gathers[p])

proctype server(byte p) {
  byte q;
end:
  do
  :: atomic { /* the agreement */
      !error[p] && agreed[p] == released[p] && all_said(agreed[p] + 1) && !all_left[p] ->
      agreed[p]++;
      if
      :: all_have_left(agreed[p]) -> all_left[p] = 1
      :: MUTANT == STOP_IN_WORDS && SHARES && stopped[p] && !all_have_left(agreed[p]) -> error[p] = 1
      :: else
      fi
    }
  :: atomic { /* the release, behind everybody's share of the reductions */
      !error[p] && agreed[p] > released[p] && !all_left[p] && all_launched(agreed[p]) ->
      released[p]++;
      if
      :: left_from[p] != 0 && (MUTANT != WORDS_UNTIL_ALL_FOLLOW || fetched[p] == released[p]) -> said[p]++
      :: else
      fi
    }
  :: atomic {
      !error[p] && !all_left[p] && hears_end(p, 0) -> error[p] = 1
    }
  :: atomic {
      !error[p] && !all_left[p] && hears_end(p, 1) -> error[p] = 1
    }
#if PROCESSES == 3
  :: atomic {
      !error[p] && !all_left[p] && hears_end(p, 2) -> error[p] = 1
    }
#endif
  :: atomic { end_of[p] != open -> break }
  od
}

inline take(p, r) { /* a round that was trained or followed */
  fetched[p] = r;
  if
  :: SHARES ->
    atomic { updated[p] = r; gathers[p] = 1 }
    if
    :: atomic { all_updated(r) -> gathers[p] = 0; given[p] = r }
    :: atomic { error[p] -> gathers[p] = 0 }
    fi;
    all_given(r) || error[p]
  :: else
  fi
}

proctype device(byte p) {
  byte rounds, round;
  bit follows;
  select(rounds : 0 .. ROUNDS);
  if
  :: follows = 1
  :: !SHARES -> follows = 0
  fi;
  round = 1;
  do
  :: round <= rounds && !error[p] ->
    said[p] = round;
    released[p] >= round || error[p];
    if
    :: error[p] -> break
    :: else -> take(p, round); round++
    fi
  :: else -> break
  od;
  atomic {
    if
    :: !error[p] -> left_from[p] = round; said[p] = round
    :: else
    fi
  }
  do
  :: error[p] -> break
  :: !follows -> break
  :: atomic { /* any time, also between a result and its update */
      follows && stops > 0 && !all_left[p] ->
      stops--;
      stopped[p] = 1;
      if
      :: SHARES -> faulty = 1; if :: MUTANT != STOP_IN_WORDS -> error[p] = 1 :: else fi
      :: else
      fi;
      break
    }
  :: follows && released[p] > fetched[p] ->
    if
    :: atomic { SHARES && stops > 0 -> stops--; stopped[p] = 1; faulty = 1; fetched[p]++; if :: MUTANT != STOP_IN_WORDS -> error[p] = 1 :: else fi; break }
    :: round = fetched[p] + 1; take(p, round)
    fi;
    if
    :: MUTANT == WORDS_UNTIL_ALL_FOLLOW && fetched[p] == released[p] && said[p] == released[p] -> said[p]++
    :: else
    fi
  :: atomic { all_left[p] && released[p] == fetched[p] -> break }
  od;
  all_left[p] || error[p]; /* the destructor waits for the others */
  assert(!error[p] || faulty);
  atomic {
    completed[p] = (all_left[p] && MUTANT != END_SAYS_ITS_ROUND -> ALL : released[p]);
    end_of[p] = (error[p] -> failed : closed)
  }
}

init {
  atomic {
    run server(0); run server(1); run device(0); run device(1);
#if PROCESSES == 3
    run server(2); run device(2)
#endif
  }
}
