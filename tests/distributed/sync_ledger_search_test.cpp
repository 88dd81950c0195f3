// SPDX-License-Identifier: Apache-2.0
// Every order of arrival for small groups: the ledger is copied at each branch, equal states are visited once.
#include <tutti/distributed/sync_ledger.h>

#include <tutti/tests/distributed/ledger_driver.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <unordered_set>

using namespace tutti;
using namespace tutti::testing;

namespace {

// Where one device stands: it registers, submits its parameters in its order, syncs, and waits for the release.
struct Position {
  std::int64_t generation = 1;
  std::size_t sent = 0;  // messages of this generation sent so far
  friend bool operator==(const Position&, const Position&) = default;
};

struct State {
  SyncLedger ledger;
  std::vector<Position> positions;
  std::int64_t released = 0;                 // last generation
  std::vector<std::uint32_t> launched = {};  // in the current generation, ascending
  friend bool operator==(const State&, const State&) = default;
};

struct Hash {
  std::size_t operator()(const State& state) const {
    std::size_t hash = state.ledger.hash();
    for (const Position& position : state.positions)
      hash = hash * 31 + static_cast<std::size_t>(position.generation) * 17 + position.sent;
    return hash;
  }
};

// requirement[generation - 1][member]
using Plan = std::vector<std::vector<Ids>>;

class Search {
 public:
  Search(std::uint32_t members, std::uint32_t parameters, Plan plan, std::size_t bucket_bytes = 0)
      : plan_(std::move(plan)) {
    State start{SyncLedger({.members = members, .layout = scalar_layout(parameters), .bucket_bytes = bucket_bytes}),
                std::vector<Position>(members)};
    visit(start);
  }
  std::size_t states() const { return seen_.size(); }
  std::size_t ends() const { return ends_; }

 private:
  void visit(const State& state) {
    if (!seen_.insert(state).second) return;
    bool moved = false;
    for (MemberIndex member = 0; member < state.positions.size(); ++member) moved |= advance(state, member);
    if (moved) return;
    // Nothing can move: either everybody has finished, or this is a deadlock.
    ++ends_;
    CHECK(state.released == static_cast<std::int64_t>(plan_.size()));
  }

  bool advance(const State& state, MemberIndex member) {
    const Position& position = state.positions[member];
    if (position.generation > static_cast<std::int64_t>(plan_.size())) return false;
    const Ids& required = plan_[static_cast<std::size_t>(position.generation) - 1][member];
    State next = state;
    Position& moved = next.positions[member];
    if (position.sent == required.size() + 2) {  // waits for the release
      if (state.released < position.generation) return false;
      ++moved.generation;
      moved.sent = 0;
      visit(next);
      return true;
    }
    std::vector<LedgerAction> actions;
    const Stamp stamp{member, 1, position.generation};
    if (position.sent == 0)
      next.ledger.register_parameters(stamp, 1.0, required_set(required), actions);
    else if (position.sent <= required.size())
      next.ledger.submit(stamp, {required[position.sent - 1]}, actions);
    else
      next.ledger.collective_sync(stamp, actions);
    ++moved.sent;
    check(next, actions);
    visit(next);
    return true;
  }

  void check(State& state, const std::vector<LedgerAction>& actions) {
    for (const LedgerAction& action : actions) {
      CHECK_FALSE(std::holds_alternative<Fail>(action));
      if (const auto* launch = std::get_if<Launch>(&action)) {
        CHECK(launch->generation == state.released + 1);
        for (MemberIndex member = 0; member < state.positions.size(); ++member) check_submitted(state, member, *launch);
        for (const std::uint32_t id : ids_of(*launch)) {
          CHECK(std::ranges::find(state.launched, id) == state.launched.end());  // exactly once
          state.launched.push_back(id);
        }
        std::ranges::sort(state.launched);
      } else if (const auto* release = std::get_if<Release>(&action)) {
        CHECK(release->generation == state.released + 1);
        std::set<std::uint32_t> required;
        for (const Ids& ids : plan_[static_cast<std::size_t>(release->generation) - 1])
          required.insert(ids.begin(), ids.end());
        CHECK(std::set<std::uint32_t>(state.launched.begin(), state.launched.end()) == required);
        for (MemberIndex member = 0; member < state.positions.size(); ++member) {
          const auto& ids = plan_[static_cast<std::size_t>(release->generation) - 1][member];
          CHECK(state.positions[member].generation == release->generation);
          CHECK(state.positions[member].sent == ids.size() + 2);  // rule 8: all have posted their sync
        }
        state.released = release->generation;
        state.launched.clear();
      }
    }
  }

  // Whoever requires a launched parameter has submitted it, in this generation.
  void check_submitted(const State& state, MemberIndex member, const Launch& launch) {
    const Ids& ids = plan_[static_cast<std::size_t>(launch.generation) - 1][member];
    CHECK(state.positions[member].generation == launch.generation);
    CHECK(state.positions[member].sent >= 1);
    for (const std::uint32_t id : ids_of(launch)) {
      const auto place = std::ranges::find(ids, id);
      if (place != ids.end()) CHECK(state.positions[member].sent >= static_cast<std::size_t>(place - ids.begin()) + 2);
    }
  }

  Plan plan_;
  std::unordered_set<State, Hash> seen_;
  std::size_t ends_ = 0;
};

const std::vector<Ids> kSubsets = {{}, {0}, {1}, {0, 1}, {1, 0}};

}  // namespace

TEST_CASE("sync_ledger search: 2 devices, 2 parameters, 2 generations, every requirement and order") {
  std::size_t states = 0;
  for (const Ids& a1 : kSubsets)
    for (const Ids& b1 : kSubsets)
      for (const Ids& a2 : kSubsets)
        for (const Ids& b2 : kSubsets) {
          for (const std::size_t bucket_bytes : {0, 1024}) {
            const Search search(2, 2, {{a1, b1}, {a2, b2}}, bucket_bytes);
            CHECK(search.ends() == 1);
            states += search.states();
          }
        }
  MESSAGE("states: ", states);
  CHECK(states > 10'000);
}

TEST_CASE("sync_ledger search: 3 devices, 2 parameters, 1 generation") {
  for (const Ids& a : kSubsets)
    for (const Ids& b : kSubsets)
      for (const Ids& c : kSubsets)
        for (const std::size_t bucket_bytes : {0, 1024}) CHECK(Search(3, 2, {{a, b, c}}, bucket_bytes).ends() == 1);
}
