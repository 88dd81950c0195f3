#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/dev/model.sh [--full]: searches the Promela model of the DistributedSyncServer with spin, shows that its
# mutants are refuted, and replays 1,000 random runs of it through the C++ ledger (of build/release). --full: larger
# searches, too. The last line counts searches, mutants and the replay.
set -uo pipefail

model=$PWD/distributed/model/sync_server.pml
work=$PWD/build/model
replay=$PWD/build/release/tests/distributed_test
seeds_each=200

# verify NAME LEVEL OPTION...: builds and runs the search of everything reachable; its findings go to NAME.out.
# LEVEL is
# the compiler's: 0 for small searches, of whose time compiling is most.
verify() {
  local name=$1 level=$2
  shift 2
  rm -rf "${work:?}/$name"
  mkdir -p "$work/$name"
  (
    cd "$work/$name" &&
      cp "$model" . &&
      spin -a "$@" sync_server.pml &&
      gcc "-O$level" -w -DSAFETY -DNOCLAIM -DCOLLAPSE -o pan pan.c &&
      ./pan -m200000 -w24
  ) >"$work/$name.out" 2>&1
}

# What spin has to say of a complete search that found nothing.
is_proven() {
  grep -q 'errors: 0' "$work/$1.out" && ! grep -q -E 'Search not completed|max search depth|out of memory' "$work/$1.out"
}

prove() {
  local name=$1 states
  verify "$@"
  if is_proven "$name"; then
    states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' "$work/$name.out")
    echo "proven: $name, $states states"
  else
    echo "NOT PROVEN: $name; see $work/$name.out"
    tail -n 20 "$work/$name.out"
  fi
}

# refute NAME VIOLATED OPTION...: spin must find that.
refute() {
  local name=$1 violated=$2
  shift 2
  verify "$name" 0 "$@"
  if grep -q "^pan:1: $violated" "$work/$name.out"; then
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
  cd "$folder" && gcc -E -P -x c "$@" "$model" -o model.pml || return
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
  prove steps 0
  prove failure 0 -DFAILURES=1
  prove sets 0 $one -DSETS=1 -DFAILURES=1
  prove deadline 0 $one -DDEADLINE=1 -DSILENT=1
  prove late_inputs 1 $one -DLATE=1 -DFAILURES=1
  prove close 0 $one -DPARAMETERS=1 -DCLOSE=1
}

# shellcheck disable=SC2086
refutations() {
  local one=-DGENERATIONS=1 single="-DGENERATIONS=1 -DPARAMETERS=1"
  local unordered='assertion violated (number==(heard' touched='assertion violated  !(claimed' stuck='invalid end state'
  refute flag_unset_without_looking "$unordered" $single -DMUTANT=1
  refute flag_tested_then_set "$unordered" $single -DMUTANT=2
  refute newest_message_first "$unordered" $one -DMUTANT=3
  refute close_drops_queue "$stuck" $single -DMUTANT=4 -DCLOSE=1
  refute close_leaves_waiters "$stuck" $single -DMUTANT=5 -DCLOSE=1
  refute answer_without_round "$touched" $one -DMUTANT=6 -DFAILURES=1
  refute acknowledge_at_once 'assertion violated  !(own)' $single -DMUTANT=7 -DFAILURES=1
  refute finished_at_last_claim "$touched" $single -DMUTANT=8
  refute sync_starts_no_wait "$stuck" $single -DMUTANT=9 -DDEADLINE=1 -DSILENT=1
  refute worker_not_woken "$stuck" $single -DMUTANT=10 -DLATE=1
  refute sync_stored_after_failure "$stuck" $single -DMUTANT=11 -DFAILURES=1
  refute launch_twice 'assertion violated  !((ever&' $one -DMUTANT=12
  refute release_without_all 'assertion violated (posted==' $single -DMUTANT=13
  refute no_deadline "$stuck" $single -DSILENT=1
}

large_proofs() {
  prove close_2x2x2 2 -DCLOSE=1
  prove failure_and_close_2x1x1 2 -DPARAMETERS=1 -DGENERATIONS=1 -DFAILURES=1 -DCLOSE=1
  prove late_inputs_2x2x2 2 -DLATE=1
  prove deadline_2x2x2 2 -DDEADLINE=1 -DSILENT=1
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
  [ "${1:-}" != --full ] || large_proofs
} | tee "$work/searches.txt"
expected=20
[ "${1:-}" != --full ] || expected=24
passed=$(grep -c -E '^(proven|refuted):' "$work/searches.txt") failed=$(grep -c '^NOT ' "$work/searches.txt")
if [ $((passed + failed)) -ne $expected ]; then
  echo "model: $((passed + failed)) of $expected searches have told their result"
  failed=$((failed + 1))
fi
if replay_trails; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
