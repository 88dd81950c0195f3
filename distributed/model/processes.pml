/* SPDX-License-Identifier: Apache-2.0
 *
 * The round across processes and its coordination, for spin: agreement, buckets whose last one is the commit, epochs,
 * verdicts of the coordinator, its succession, the re-forming of a group and the transfer of state, with processes that
 * crash, are taken for lost though they live, or fail in their own backward. docs/decisions/0020: the rules in prose.
 *
 * A process is one loop of atomic steps; a frozen one is one that spin does not run for a while. What a process says is
 * a record that others read at any later time, until it says something of a newer epoch. Whatever of a crashed process
 * was not read yet may be lost, for each receiver by itself.
 *
 * Nothing repeats: every run ends. So that no invalid end state means that every process that lives has finished or has
 * ended with an error.
 */

#ifndef PROCESSES
#define PROCESSES 2 /* 2 to 4; rank 0 coordinates at first */
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef BUCKETS
#define BUCKETS 1 /* of a round that has any: 1 or 2 */
#endif
#ifndef SETS
#define SETS 0 /* 1: a process may require nothing in a round; the union may be empty */
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef SUSPICIONS
#define SUSPICIONS 0 /* how often a process takes another, which lives, for lost */
#endif
#ifndef FAILURES
#define FAILURES 0 /* how many local backwards may throw */
#endif
#ifndef NEWCOMERS
#define NEWCOMERS 0 /* 1: who was put out may ask to be let in again */
#endif
#ifndef ORDERS
#define ORDERS 0 /* 1: rank 0 may propose an order of the buckets with what it says of a round */
#endif

/* What the model must refute: -DMUTANT=<one of these>. */
#define LAST_BUCKET_NOT_HELD 1    /* contributed before the local backward has ended */
#define NO_EPOCH_FENCE 2          /* a bucket of any epoch is taken */
#define EQUAL_STEPS_EQUAL_STATE 3 /* a newcomer with the same step number keeps what it has */
#define TAKEOVER_WITHOUT_MAJORITY 4
#define SILENCE_LEAVES 5          /* all that are lost leave the denominator */
#define MEMBER_BEFORE_WHOLE 6     /* a newcomer counts as soon as its state is on the way */
#define ERROR_BEFORE_VERDICT 7    /* a user's error names whom the engine lost */
#define EMPTY_ROUND_NOT_EXCHANGED 8
#define PROVEN_LEAVES_ALWAYS 9    /* proven deaths leave the denominator, whoever else is silent */
#define JOIN_IS_NO_PROMISE 10     /* who has joined one leader joins or becomes another */
#define HALF_STATE_USED 11        /* a transfer whose source has died counts as whole */
#define NO_DEADLINE 12            /* silence that nobody can prove is waited for */
#define COORDINATOR_NEEDS_NOTHING 13 /* the coordinator goes on with any number */
#define FOLLOWER_NAMED 14 /* who has followed another's claim is named in its place */
#define TRANSFER_NOT_FENCED 15 /* state that arrives late counts for the next epoch, too */
#define ORDER_TAKEN_AT_ONCE 16 /* rank 0 goes by it as it proposes it */
#define ORDER_OF_ANY_ROUND 17  /* taken at the end of a round, whichever one it was said of */
#ifndef MUTANT
#define MUTANT 0
#endif
#define is(mutant) (MUTANT == mutant)

#define N PROCESSES
#define ALL (bit(N) - 1)
#define NOBODY 7
#define bit(i) (1 << (i))
#define count(set) (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1) + (((set) >> 3) & 1))

/* An epoch is a number and who formed it. */
#define number(epoch) ((epoch) >> 2)
#define former(epoch) ((epoch) & 3)
#define next_epoch(epoch, leader) (((number(epoch) + 1) << 2) | (leader))

/* --- what each process holds; others read what it says of it: all but `lost` */

#define trains 0 /* in a round, or leaving after the last */
#define joins 1  /* has an error; has promised itself to a leader, and waits for the group */
#define leads 2  /* collects promises */
#define forms 3  /* has a quorum, brings all to one state */
#define asks 4   /* was put out, and asks to be let in */

byte phase[N];
byte epoch[N], members[N];
byte step[N];       /* committed rounds */
short params[N];    /* which rounds made them: six bits each, the epoch and whether there were buckets */
byte stage[N];      /* 0: has said what it requires; 1: backward runs; 2: has contributed the last bucket */
bool buckets[N];    /* the union of what is required is not empty */
bool failed[N];     /* in backward */
byte promised[N];   /* the leader that it has joined */
bool follows[N];    /* because that claimed that the coordinator is lost */
byte lost[N];       /* living processes that it takes for lost */
byte forming[N];    /* the leader's: members of the epoch to be */
byte source[N];     /* 1 + whose state it is receiving, beside what it has: 0: none */

/* The newest contribution of each: to the agreement or a bucket. */
byte said_epoch[N], said_time[N];
byte said_needs[N]; /* in which rounds it requires something */
byte unheard[N]; /* who will never read it: lost with its sender */
bool ordered[N]; /* goes by the order that rank 0 has proposed in this epoch */
bool takes[N];   /* does so from the next round on */
byte order_epoch, order_of; /* epoch and rounds of the proposal */
#define TORN (1 << 14)
#define time(committed, at) ((committed) * 3 + (at))

byte verdict_epoch[N], verdict_named[N]; /* of each as coordinator */

/* --- who is no more: looked at by others, as a proof or as silence */

byte proven;   /* crashed, and a socket, pidfd or launcher has told; or ended with an error, and said so */
byte silent;   /* crashed, and nobody can tell it from a process that is slow */
byte finished; /* ended well */
#define gone (proven | silent | finished)
#define dead(p) ((proven | silent) & bit(p))

/* --- faults that are left, and what the assertions look at */

byte crashes = CRASHES, suspicions = SUSPICIONS, failures = FAILURES;
byte guilty; /* crashed, was taken for lost, or had an error of its own */
byte spoilt_epoch[N], spoilt_step[N]; /* the round in which its backward failed */

hidden byte q, found, votes, size, unproven, quorum;

/* Whether a condition, a macro, holds of a process, and any of which it does. */
#if PROCESSES == 2
#define exists(condition) (condition(0) || condition(1))
#define choose(condition, p) if :: condition(0) -> p = 0 :: condition(1) -> p = 1 fi
#elif PROCESSES == 3
#define exists(condition) (condition(0) || condition(1) || condition(2))
#define choose(condition, p) if :: condition(0) -> p = 0 :: condition(1) -> p = 1 :: condition(2) -> p = 2 fi
#else
#define exists(condition) (condition(0) || condition(1) || condition(2) || condition(3))
#define choose(condition, p) \
  if :: condition(0) -> p = 0 :: condition(1) -> p = 1 :: condition(2) -> p = 2 :: condition(3) -> p = 3 fi
#endif
#define living_member(p) (members[me] & ~gone & bit(p) & ~bit(me))
#define same_epoch(p) (epoch[p] == epoch[me])
#define left_alone(p) (living_member(p) && same_epoch(p) && phase[p] != trains && promised[p] != me)
/* What the dead have said of their epoch puts nobody out. */
#define overtaken_by(p) (!dead(p) && number(epoch[p]) > number(epoch[me]) && !(members[p] & bit(me)))
#define joined(p) (living_member(p) && same_epoch(p) && phase[p] == joins && promised[p] == me)
#define coordinator former(epoch[me])

/* Who has left its epoch by itself, or is no more: who followed it is not to blame. */
#define claimed(p) \
  (dead(p) || phase[p] == asks || (same_epoch(p) && phase[p] >= leads) || number(epoch[p]) > number(epoch[me]))

/* Whom the coordinator may find to be the culprit. */
#define to_blame(p) \
  ((members[me] & bit(p)) && (dead(p) || (failed[p] && same_epoch(p) && !(gone & bit(p))) || left_alone(p)))

inline suspect(p) {
  suspicions--;
  guilty = guilty | bit(p);
  lost[me] = lost[me] | bit(p)
}
inline say(at) {
  said_epoch[me] = epoch[me];
  said_time[me] = time(step[me], at)
}

/* The next round begins: what is required is said to all. After the last, the same says that it leaves. */
inline begin_round() {
  phase[me] = trains;
  stage[me] = 0;
  buckets[me] = false;
  assert(!source[me]);
  for (q : 0 .. N - 1) {
    assert((gone & bit(q)) || epoch[q] != epoch[me] || step[q] != step[me] ||
           params[q] == params[me])
  }
  if
  :: SETS && step[me] < ROUNDS -> said_needs[me] = said_needs[me] & ~bit(step[me])
  :: said_needs[me] = said_needs[me] | bit(step[me])
  fi;
  if
  :: ORDERS && me == 0 && step[me] < ROUNDS && order_epoch != epoch[me] ->
     order_epoch = epoch[me];
     order_of = bit(step[me]);
     ordered[me] = is(ORDER_TAKEN_AT_ONCE)
  :: true
  fi;
  say(0)
}

/* Whether every other member has contributed as much: what the engine knows. */
#define heard(p, at) \
  ((said_epoch[p] == epoch[me] || (is(NO_EPOCH_FENCE) && said_epoch[p])) && said_time[p] >= time(step[me], at) && \
   !(unheard[p] & bit(me)))
#define lacks_last(p) ((members[me] & bit(p)) && (p) != me && !heard(p, 2))
#define lacks_first(p) ((members[me] & bit(p)) && (p) != me && !heard(p, 0))

#define proposed (order_epoch == epoch[me] && (members[me] & 1) && (order_of & bit(step[me])))

/* Whoever launches buckets of a round goes by the same order as all others. */
inline one_order() {
  for (q : 0 .. N - 1) {
    assert((gone & bit(q)) || phase[q] != trains || epoch[q] != epoch[me] || step[q] != step[me] || !stage[q] ||
           ordered[q] == ordered[me])
  }
}

inline no_stale_bucket() {
  for (q : 0 .. N - 1) { assert(!(members[me] & bit(q)) || said_epoch[q] == epoch[me]) }
}

inline fail_backward() {
  failures--;
  failed[me] = true;
  guilty = guilty | bit(me);
  spoilt_epoch[me] = epoch[me];
  spoilt_step[me] = step[me];
  for (q : 0 .. N - 1) { assert(epoch[q] != epoch[me] || step[q] <= step[me]) } /* nobody has stepped */
}

inline commit() {
  for (q : 0 .. N - 1) { assert(spoilt_epoch[q] != epoch[me] || spoilt_step[q] != step[me]) }
  params[me] = params[me] | (((epoch[me] << 1) | buckets[me]) << (6 * step[me]));
  step[me]++;
  ordered[me] = ordered[me] || takes[me] || (is(ORDER_OF_ANY_ROUND) && order_epoch == epoch[me]);
  takes[me] = false;
  begin_round()
}

/* The error that the user gets. */
inline name(culprit) { assert(guilty & bit(culprit)) }

inline forget() {
  stage[me] = 0;
  ordered[me] = false;
  takes[me] = false;
  buckets[me] = false;
  failed[me] = false;
  promised[me] = NOBODY;
  follows[me] = false;
  lost[me] = 0;
  forming[me] = 0;
  source[me] = 0
}

/* Ends, with an error, and says so to all who listen: never where one crash is all that happens, unless one of two is
 * left beside a coordinator of whom nobody can say whether it lives. */
inline end_with_error() {
  assert(SUSPICIONS || FAILURES || CRASHES > 1 || (N == 2 && (silent & 1) && me == 1));
  guilty = guilty | bit(me);
  proven = proven | bit(me);
  forget();
  break
}

inline end_well() {
  assert(step[me] == ROUNDS);
  for (q : 0 .. N - 1) { assert(!(finished & bit(q)) || params[q] == params[me]) }
  finished = finished | bit(me);
  forget();
  break
}

/* The group has gone on without this process: it was taken for lost, or has followed whose claim has failed. */
inline put_out() {
  if
  :: follows[me] && number(epoch[promised[me]]) <= number(epoch[me]) -> name(promised[me])
  :: else -> name(me)
  fi;
  if
  :: NEWCOMERS ->
     forget();
     phase[me] = asks;
     epoch[me] = 0;
     members[me] = 0;
     verdict_epoch[me] = 0
  :: !NEWCOMERS -> end_with_error()
  fi
}

#define claims(p) (living_member(p) && same_epoch(p) && phase[p] == leads && (p) != coordinator)
#define same_end(p) ((members[me] & finished & bit(p)) && number(epoch[p]) <= number(epoch[me]))
#define broken(p) \
  (((members[me] & bit(p)) && dead(p)) || (living_member(p) && same_epoch(p) && phase[p] != trains))
#define lowest(set) ((set) & 1 -> 0 : ((set) & 2 -> 1 : ((set) & 4 -> 2 : 3)))

/* Who leads when the coordinator is lost, in the view of this process, which promises itself to it. */
inline succeed() {
  found = lowest(members[me] & ~gone & ~lost[me]);
  promised[me] = found;
  if
  :: found == me -> phase[me] = leads
  :: else -> phase[me] = joins
  fi
}

inline enter_epoch(leader) {
  epoch[me] = epoch[leader];
  members[me] = members[leader];
  assert(!source[me]);
  forget();
  begin_round()
}

/* A member whose answer the leader need not wait for: it is no more, or is taken for lost, or is bound elsewhere. */
#define bound_elsewhere(p) (left_alone(p) || phase[p] == asks || number(epoch[p]) > number(epoch[me]))
#define unanswered(p) (living_member(p) && !joined(p) && !bound_elsewhere(p) && !(lost[me] & bit(p)))

/* The vote for the next epoch. Whoever was proven dead cannot tell to whom it had promised itself: so it leaves the
 * denominator only if nobody is silent who may have formed a group with that promise. */
inline count_votes() {
  forming[me] = bit(me);
  for (q : 0 .. N - 1) {
    if
    :: joined(q) -> forming[me] = forming[me] | bit(q)
    :: else
    fi
  }
  votes = count(forming[me]);
  unproven = members[me] & ~forming[me] & ~proven;
  size = count(members[me]);
  if
  :: is(SILENCE_LEAVES) -> size = votes
  :: is(PROVEN_LEAVES_ALWAYS) -> size = count(members[me] & (forming[me] | ~proven))
  :: else
  fi;
  quorum = !unproven || 2 * votes > size || (coordinator == me && 2 * votes == size) ||
           (coordinator == me && is(COORDINATOR_NEEDS_NOTHING)) ||
           (is(TAKEOVER_WITHOUT_MAJORITY) && coordinator != me)
}

#define of_the_next(p) (forming[me] & bit(p))
#define no_more(p) (of_the_next(p) && (gone & bit(p)))
#define further(p, other) (of_the_next(other) && step[other] > step[p])
#if PROCESSES == 2
#define less(p) (further(p, 0) || further(p, 1))
#elif PROCESSES == 3
#define less(p) (further(p, 0) || further(p, 1) || further(p, 2))
#else
#define less(p) (further(p, 0) || further(p, 1) || further(p, 2) || further(p, 3))
#endif
#define behind(p) (of_the_next(p) && less(p) && !source[p])
#define ahead(p) (of_the_next(p) && !less(p) && !source[p])
#define incomplete(p) \
  (of_the_next(p) && (less(p) || source[p]) && !(is(MEMBER_BEFORE_WHOLE) && !(members[me] & bit(p))))
#define wants_in(p) (phase[p] == asks && !(gone & bit(p)))

/* Survivors hold the last round or the one before; who has come as far has the same parameters. */
inline check_survivors() {
  for (q : 0 .. N - 1) {
    for (found : 0 .. N - 1) {
      assert(!of_the_next(q) || !of_the_next(found) || step[q] + 1 >= step[found]);
      assert(!of_the_next(q) || !of_the_next(found) || step[q] != step[found] || params[q] == params[found])
    }
  }
}

/* Newcomers that were let in by this leader begin anew. */
inline drop_transfers() {
  for (q : 0 .. N - 1) {
    if
    :: promised[q] == me && !(gone & bit(q)) && (forming[me] & bit(q) || source[q]) ->
       source[q] = 0;
       if
       :: !(members[me] & bit(q)) -> phase[q] = asks; promised[q] = NOBODY; epoch[q] = 0
       :: else
       fi
    :: else
    fi
  }
}

proctype Process(byte me) {
  do
  /* --- rounds */
  :: atomic {
       phase[me] == trains && !failed[me] && stage[me] == 0 && step[me] < ROUNDS && !exists(lacks_first) ->
       no_stale_bucket();
       for (q : 0 .. N - 1) {
         buckets[me] = buckets[me] || ((members[me] & bit(q)) && (said_needs[q] & bit(step[me])))
       }
       one_order();
       takes[me] = ORDERS && proposed;
       stage[me] = 1;
       if
       :: is(LAST_BUCKET_NOT_HELD) -> say(2)
       :: else ->
          if
          :: BUCKETS == 2 && buckets[me] -> say(1)
          :: else
          fi
       fi
     }
  :: atomic {
       phase[me] == trains && !failed[me] && stage[me] == 1 ->
       if
       :: stage[me] = 2; say(2)
       :: failures -> fail_backward()
       fi
     }
  :: atomic {
       phase[me] == trains && stage[me] == 2 &&
       (!exists(lacks_last) || (is(EMPTY_ROUND_NOT_EXCHANGED) && !buckets[me])) ->
       if
       :: !(is(EMPTY_ROUND_NOT_EXCHANGED) && !buckets[me]) -> no_stale_bucket()
       :: else
       fi;
       commit()
     }
  :: atomic { phase[me] == trains && step[me] == ROUNDS && !exists(lacks_first) -> end_well() }
  :: atomic { phase[me] <= forms && exists(same_end) -> end_well() }

  /* --- the coordinator's verdict */
  :: atomic {
       phase[me] == trains && coordinator == me && (exists(to_blame) || (suspicions && exists(living_member))) ->
       if
       :: exists(to_blame) ->
          choose(to_blame, found);
          if
          :: left_alone(found) && claimed(promised[found]) && !is(FOLLOWER_NAMED) -> found = promised[found]
          :: else
          fi
       :: suspicions && exists(living_member) -> choose(living_member, found); suspect(found)
       fi;
       verdict_epoch[me] = epoch[me];
       verdict_named[me] = found;
       name(found);
       promised[me] = me;
       phase[me] = leads
     }
  :: atomic {
       phase[me] == trains && coordinator != me && verdict_epoch[coordinator] == epoch[me] ->
       name(verdict_named[coordinator]);
       promised[me] = coordinator;
       phase[me] = joins
     }
  :: atomic {
       is(ERROR_BEFORE_VERDICT) && phase[me] == trains && coordinator != me && exists(broken) ->
       choose(broken, found);
       name(found);
       promised[me] = coordinator;
       phase[me] = joins
     }

  /* --- the coordinator is lost */
  :: atomic {
       phase[me] == trains && coordinator != me && !exists(same_end) && dead(coordinator) ->
       name(coordinator);
       succeed()
     }
  :: atomic {
       phase[me] == trains && coordinator != me && suspicions && living_member(coordinator) ->
       suspect(coordinator);
       guilty = guilty | bit(me); /* it leaves by itself */
       if
       :: true
       :: suspicions && lowest(members[me] & ~gone & ~lost[me]) != me -> /* and its successor, too */
          found = lowest(members[me] & ~gone & ~lost[me]);
          suspect(found)
       fi;
       succeed()
     }
  :: atomic {
       phase[me] == trains && coordinator != me && exists(claims) ->
       name(coordinator);
       choose(claims, found);
       promised[me] = found;
       follows[me] = true;
       phase[me] = joins
     }

  /* --- the group went on without this process */
  :: atomic { phase[me] <= leads && exists(overtaken_by) -> put_out() }

  /* --- who has joined a leader */
  :: atomic {
       phase[me] == joins && !source[me] && former(epoch[promised[me]]) == promised[me] &&
       number(epoch[promised[me]]) == number(epoch[me]) + 1 && (members[promised[me]] & bit(me)) ->
       enter_epoch(promised[me])
     }
  :: atomic {
       phase[me] == joins && !source[me] && !exists(same_end) && dead(promised[me]) ->
       name(promised[me]);
       end_with_error()
     }
  :: atomic {
       phase[me] == joins && !source[me] && suspicions && !(gone & bit(promised[me])) ->
       suspect(promised[me]);
       end_with_error()
     }
  :: atomic {
       phase[me] == joins && !source[me] && !exists(same_end) && !(gone & bit(promised[me])) &&
       ((phase[promised[me]] == joins && same_epoch(promised[me])) || phase[promised[me]] == asks) ->
       end_with_error()
     }
  :: atomic {
       is(JOIN_IS_NO_PROMISE) && phase[me] == joins && !source[me] && suspicions && living_member(promised[me]) ->
       suspect(promised[me]);
       succeed()
     }

  /* --- transfers: aside, then taken as a whole */
  :: atomic {
       source[me] && (!(gone & bit(source[me] - 1)) || is(HALF_STATE_USED)) ->
       found = source[me] - 1;
       step[me] = step[found];
       params[me] = params[found];
       if
       :: gone & bit(found) -> params[me] = TORN
       :: else
       fi;
       source[me] = 0;
       if
       :: phase[me] == joins && phase[promised[me]] == forms && (same_epoch(promised[me]) || is(TRANSFER_NOT_FENCED)) ->
          forming[promised[me]] = forming[promised[me]] | bit(me)
       :: else
       fi
     }
  :: atomic { source[me] && (gone & bit(source[me] - 1)) -> source[me] = 0 }

  /* --- the leader */
  :: atomic {
       phase[me] == leads && suspicions && exists(unanswered) ->
       choose(unanswered, found);
       suspect(found)
     }
  :: atomic {
       phase[me] == leads && !exists(unanswered) && !exists(same_end) &&
       !(is(NO_DEADLINE) && (members[me] & silent)) ->
       count_votes();
       if
       :: quorum -> phase[me] = forms; check_survivors()
       :: else -> end_with_error()
       fi
     }
  :: atomic { phase[me] == forms && exists(no_more) -> drop_transfers(); forming[me] = 0; phase[me] = leads }
  :: atomic {
       phase[me] == forms && !exists(no_more) && (exists(behind) || exists(wants_in) || !exists(incomplete)) ->
       if
       :: exists(behind) -> choose(behind, found); choose(ahead, q); source[found] = q + 1
       :: exists(wants_in) ->
          choose(wants_in, found);
          choose(ahead, q);
          promised[found] = me;
          phase[found] = joins;
          epoch[found] = epoch[me];
          if
          :: is(EQUAL_STEPS_EQUAL_STATE) && step[found] == step[q] -> forming[me] = forming[me] | bit(found)
          :: else -> source[found] = q + 1
          fi;
          if
          :: is(MEMBER_BEFORE_WHOLE) -> forming[me] = forming[me] | bit(found)
          :: else
          fi
       :: !exists(incomplete) -> /* the epoch begins */
          assert(params[me] != TORN);
          for (q : 0 .. N - 1) {
            assert(dead(q) || number(epoch[q]) <= number(epoch[me])); /* nobody is as far by another way */
            assert((gone & bit(q)) || !of_the_next(q) || (step[q] == step[me] && params[q] == params[me]))
          }
          assert(number(epoch[me]) < 7);
          epoch[me] = next_epoch(epoch[me], me);
          members[me] = forming[me];
          verdict_epoch[me] = 0;
          forget();
          begin_round()
       fi
     }

  /* --- put out: asks until its own deadline */
  :: atomic { phase[me] == asks -> end_with_error() }

  :: atomic {
       crashes ->
       crashes--;
       guilty = guilty | bit(me);
       if
       :: proven = proven | bit(me)
       :: silent = silent | bit(me)
       fi;
       for (q : 0 .. N - 1) {
         if
         :: said_epoch[me] && q != me -> unheard[me] = unheard[me] | bit(q)
         :: true
         fi
       }
       forget();
       break
     }
  od
}

init {
  d_step {
    for (q : 0 .. N - 1) {
      epoch[q] = next_epoch(0, 0);
      members[q] = ALL;
      promised[q] = NOBODY;
      said_needs[q] = 1;
      said_epoch[q] = epoch[q]
    }
  }
  atomic {
    for (q : 0 .. N - 1) { run Process(q) }
  }
}
