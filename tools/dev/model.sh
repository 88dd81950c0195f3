#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/dev/model.sh [--full]: searches the Promela models of the DistributedSyncServer, of the round across processes, of
# the order of launches and of the end of a group with spin, shows that their mutants are refuted, and replays 1,000 random runs of the server's through the
# C++ ledger (of build/release). --full: larger searches, too. The last line counts searches, mutants and the replay.
set -uo pipefail

models=$PWD/distributed/model
server=sync_server.pml
processes=processes.pml
launches=launch_order.pml
leaving=leaving.pml
work=$PWD/build/model
replay=$PWD/build/release/tests/ledger_test
seeds_each=200

# verify MODEL NAME LEVEL OPTION...: builds and runs the search of everything reachable; its findings go to NAME.out.
# LEVEL is the compiler's: 0 for small searches, of whose time compiling is most.
verify() {
  local model=$1 name=$2 level=$3
  shift 3
  rm -rf "${work:?}/$name"
  mkdir -p "$work/$name"
  (
    cd "$work/$name" &&
      cp "$models/$model" . &&
      spin -a "$@" "$model" &&
      gcc "-O$level" -w -DSAFETY -DNOCLAIM -DCOLLAPSE -o pan pan.c &&
      ./pan -m200000 -w24
  ) >"$work/$name.out" 2>&1
}

# What spin has to say of a complete search that found nothing.
is_proven() {
  grep -q 'errors: 0' "$work/$1.out" && ! grep -q -E 'Search not completed|max search depth|out of memory' "$work/$1.out"
}

# prove MODEL NAME LEVEL OPTION...
prove() {
  local name=$2 states
  verify "$@"
  if is_proven "$name"; then
    states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' "$work/$name.out")
    echo "proven: $name, $states states"
  else
    echo "NOT PROVEN: $name; see $work/$name.out"
    tail -n 20 "$work/$name.out"
  fi
}

# refute MODEL NAME VIOLATED OPTION...: spin must find that.
refute() {
  local model=$1 name=$2 violated=$3
  shift 3
  verify "$model" "$name" 0 "$@"
  if grep -q -F "pan:1: $violated" "$work/$name.out"; then
    echo "refuted: $name, $violated"
  else
    echo "NOT REFUTED: $name, expected \"$violated\"; see $work/$name.out"
    grep '^pan:1' "$work/$name.out"
  fi
}

# trails NAME OPTION...: random runs in a folder of their own, where spin keeps its file; DEVICES and PARAMETERS first.
trails() {
  local folder=$work/trails/$1 devices=${2#*=} parameters=${3#*=} seed
  shift
  mkdir -p "$folder"
  cd "$folder" && gcc -E -P -x c "$@" "$models/$server" -o model.pml || return
  for ((seed = 1; seed <= seeds_each; ++seed)); do
    echo "trail $devices $parameters seed $seed $*"
    spin -T -B -n$seed -Pcat model.pml >run.txt || echo "spin failed"
    sed '/^ *timeout$/d' run.txt # threads that serve for ever wait at the end
  done >trails.txt
}

# shellcheck disable=SC2086  # the lists of options are words
replay_trails() {
  rm -rf "$work/trails"
  local large="-DDEVICES=3 -DPARAMETERS=3 -DGENERATIONS=3 -DSETS=1"
  (
    trails steps $large &
    trails failures $large -DFAILURES=2 -DFROM=2 &
    trails close $large -DCLOSE=1 -DFROM=2 &
    trails deadline $large -DDEADLINE=1 -DSILENT=1 -DFROM=2 &
    trails late -DDEVICES=2 -DPARAMETERS=2 -DGENERATIONS=4 -DSETS=1 -DLATE=1 -DFAILURES=1 -DCLOSE=1 -DFROM=3 &
    wait
  )
  cat "$work"/trails/*/trails.txt >"$work/trails.txt"
  local made
  made=$(grep -c '^trail ' "$work/trails.txt")
  echo "$made random runs, $(grep -c -v '^trail ' "$work/trails.txt") messages"
  [ "$made" -eq $((5 * seeds_each)) ] && TUTTI_SYNC_TRAILS="$work/trails.txt" "$replay" -tc='sync_model*'
  local status=$?
  [ $status -eq 0 ] || echo "NOT REPLAYED: the ledger and the model differ on $work/trails.txt"
  return $status
}

# shellcheck disable=SC2086  # the lists of options are words
proofs() {
  local one=-DGENERATIONS=1
  prove $server steps 0
  prove $server failure 0 -DFAILURES=1
  prove $server sets 0 $one -DSETS=1 -DFAILURES=1
  prove $server deadline 0 $one -DDEADLINE=1 -DSILENT=1
  prove $server late_inputs 1 $one -DLATE=1 -DFAILURES=1
  prove $server close 0 $one -DPARAMETERS=1 -DCLOSE=1
}

# shellcheck disable=SC2086
refutations() {
  local one=-DGENERATIONS=1 single="-DGENERATIONS=1 -DPARAMETERS=1"
  local unordered='assertion violated (number==(heard' touched='assertion violated  !(claimed' stuck='invalid end state'
  refute $server flag_unset_without_looking "$unordered" $single -DMUTANT=1
  refute $server flag_tested_then_set "$unordered" $single -DMUTANT=2
  refute $server newest_message_first "$unordered" $one -DMUTANT=3
  refute $server close_drops_queue "$stuck" $single -DMUTANT=4 -DCLOSE=1
  refute $server close_leaves_waiters "$stuck" $single -DMUTANT=5 -DCLOSE=1
  refute $server answer_without_round "$touched" $one -DMUTANT=6 -DFAILURES=1
  refute $server acknowledge_at_once 'assertion violated  !(own)' $single -DMUTANT=7 -DFAILURES=1
  refute $server finished_at_last_claim "$touched" $single -DMUTANT=8
  refute $server sync_starts_no_wait "$stuck" $single -DMUTANT=9 -DDEADLINE=1 -DSILENT=1
  refute $server worker_not_woken "$stuck" $single -DMUTANT=10 -DLATE=1
  refute $server sync_stored_after_failure "$stuck" $single -DMUTANT=11 -DFAILURES=1
  refute $server launch_twice 'assertion violated  !((ever&' $one -DMUTANT=12
  refute $server release_without_all 'assertion violated (posted==' $single -DMUTANT=13
  refute $server no_deadline "$stuck" $single -DSILENT=1
}

large_proofs() {
  prove $server close_2x2x2 2 -DCLOSE=1
  prove $server failure_and_close_2x1x1 2 -DPARAMETERS=1 -DGENERATIONS=1 -DFAILURES=1 -DCLOSE=1
  prove $server late_inputs_2x2x2 2 -DLATE=1
  prove $server deadline_2x2x2 2 -DDEADLINE=1 -DSILENT=1
}

# shellcheck disable=SC2086
proofs_of_processes() {
  local three=-DPROCESSES=3
  prove $processes empty_rounds_2 0 -DSETS=1 -DFAILURES=2 -DBUCKETS=2
  prove $processes crashes_2 0 -DCRASHES=2 -DSETS=1
  prove $processes everything_2 1 -DSUSPICIONS=2 -DCRASHES=1 -DFAILURES=1 -DNEWCOMERS=1
  prove $processes crash_3 0 $three -DCRASHES=1
  prove $processes crash_4 0 -DPROCESSES=4 -DCRASHES=1
  prove $processes suspicions_3 0 $three -DSUSPICIONS=2
  prove $processes newcomers_3 0 $three -DSUSPICIONS=1 -DFAILURES=1 -DNEWCOMERS=1
  prove $processes orders_2 0 -DORDERS=1 -DCRASHES=1 -DFAILURES=1 -DSUSPICIONS=1
  prove $processes orders_3 0 $three -DORDERS=1 -DSUSPICIONS=1 -DFAILURES=1
  prove $processes suspicion_and_crash_3 1 $three -DSUSPICIONS=1 -DCRASHES=1
}

# shellcheck disable=SC2086
refutations_of_processes() {
  local three=-DPROCESSES=3 stepped='assertion violated ((epoch[q]!=epoch[me])||(step[q]<=step[me]))'
  local far='assertion violated (((proven|silent)&(1<<q))||((epoch[q]>>2)<=(epoch[me]>>2)))'
  local unequal='assertion violated (((((proven|silent)|finished)&(1<<q))|| !((forming[me]&(1<<q))))||'
  local innocent='assertion violated (guilty&(1<<'
  local newcomer="-DSUSPICIONS=1 -DFAILURES=1 -DNEWCOMERS=1"
  refute $processes last_bucket_not_held "$stepped" -DMUTANT=1 -DFAILURES=1
  local stale='assertion violated ( !((members[me]&(1<<q)))||(said_epoch[q]=='
  refute $processes no_epoch_fence "$stale" -DMUTANT=2 -DFAILURES=1
  refute $processes equal_steps_equal_state "$unequal" -DMUTANT=3 $newcomer
  refute $processes takeover_without_majority "$far" -DMUTANT=4 -DSUSPICIONS=2
  refute $processes silence_leaves "$far" -DMUTANT=5 -DSUSPICIONS=2
  refute $processes member_before_whole "$unequal" -DMUTANT=6 $newcomer
  refute $processes error_before_verdict "$innocent" $three -DMUTANT=7 -DCRASHES=1
  refute $processes empty_round_not_exchanged "$stepped" -DMUTANT=8 -DFAILURES=1 -DSETS=1
  refute $processes proven_leaves_always "$far" $three -DMUTANT=9 -DSUSPICIONS=2 -DCRASHES=1
  refute $processes join_is_no_promise "$far" $three -DMUTANT=10 -DSUSPICIONS=2
  refute $processes half_state_used 'assertion violated (params[me]!=(1<<14))' -DMUTANT=11 -DCRASHES=1 -DSUSPICIONS=1
  refute $processes silence_without_deadline 'invalid end state' -DMUTANT=12 -DCRASHES=1
  refute $processes coordinator_needs_nothing "$far" $three -DMUTANT=13 -DSUSPICIONS=1
  refute $processes transfer_not_fenced 'invalid end state' $three -DROUNDS=1 -DMUTANT=15 $newcomer -DCRASHES=1
  local round_of_all='assertion violated ((((((((proven|silent)|finished)&(1<<q))||(phase[q]!=0))||(epoch[q]!=epoch[me]))||(step[q]!=step[me]))'
  refute $processes order_taken_at_once "$round_of_all|| !(stage[q]))||(ordered[q]==ordered[me]))" -DORDERS=1 -DMUTANT=16
  refute $processes order_of_any_round "$round_of_all|| !(stage[q]))||(ordered[q]==ordered[me]))" -DORDERS=1 -DMUTANT=17
  refute $processes follower_named "$innocent" $three -DMUTANT=14 -DSUSPICIONS=1
}

# shellcheck disable=SC2086
large_proofs_of_processes() {
  local three=-DPROCESSES=3 one=-DROUNDS=1
  prove $processes failure_and_crash_3 2 $three -DSETS=1 -DCRASHES=1 -DFAILURES=1
  prove $processes suspicions_and_crash_3 2 $three -DSUSPICIONS=2 -DCRASHES=1
  prove $processes everything_3 2 $three $one -DSUSPICIONS=1 -DCRASHES=1 -DFAILURES=1 -DNEWCOMERS=1
  prove $processes three_suspicions_3 2 $three -DSUSPICIONS=3
  prove $processes suspicion_and_crashes_3 2 $three $one -DSUSPICIONS=1 -DCRASHES=2
  prove $processes suspicions_4 2 -DPROCESSES=4 $one -DSUSPICIONS=2
  prove $processes suspicion_and_crash_4 2 -DPROCESSES=4 $one -DSUSPICIONS=1 -DCRASHES=1
}

# shellcheck disable=SC2086
proofs_of_launches() {
  prove $launches launches_2 0 -DROUNDS=2
  prove $launches launches_3 0 -DPROCESSES=3 -DSTEPS=1
  refute $launches launched_as_requested 'assertion violated 0' -DMUTANT=1
  refute $launches lines_heard_apart 'assertion violated 0' -DMUTANT=2
  refute $launches collective_behind_rounds 'invalid end state' -DMUTANT=3
}

# shellcheck disable=SC2086  # the lists of options are words
proofs_of_leaving() {
  local three=-DPROCESSES=3 owners="-DSHARES=1 -DSTOPS=1"
  prove $leaving leaving_2 0 -DSTOPS=1
  prove $leaving leaving_3 1 $three -DSTOPS=1
  prove $leaving owners_leave_2 0 $owners
  prove $leaving owners_leave_3 0 $three $owners -DROUNDS=1
  refute $leaving end_says_its_round 'assertion violated ( !(error[p])||faulty)' -DMUTANT=1
  refute $leaving stop_in_words 'invalid end state' $owners -DMUTANT=2
  refute $leaving words_until_all_follow 'invalid end state' -DMUTANT=3
}

command -v spin >/dev/null || {
  echo "model: spin is missing; tools/setup.sh check installs it"
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
}
mkdir -p "$work"
{
  proofs &
  refutations &
  wait
  proofs_of_processes &
  refutations_of_processes &
  wait
  proofs_of_launches
  proofs_of_leaving
  [ "${1:-}" != --full ] || { large_proofs; large_proofs_of_processes; }
} | tee "$work/searches.txt"
expected=59
[ "${1:-}" != --full ] || expected=70
passed=$(grep -c -E '^(proven|refuted):' "$work/searches.txt") failed=$(grep -c '^NOT ' "$work/searches.txt")
if [ $((passed + failed)) -ne $expected ]; then
  echo "model: $((passed + failed)) of $expected searches have told their result"
  failed=$((failed + 1))
fi
if replay_trails; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
