// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/ledger/ledger_search.h>

#include <tutti/tests/distributed/ledger/ledger_driver.h>
#include <tutti/tests/distributed/ledger/ledger_world.h>

#include <algorithm>
#include <ranges>
#include <string_view>
#include <unordered_set>

namespace tutti::testing {

namespace {

struct State {
  SyncLedger ledger;
  World world;
  friend bool operator==(const State&, const State&) = default;
};

struct Hash {
  std::size_t operator()(const State& state) const {
    const std::string_view bytes(reinterpret_cast<const char*>(&state.world), sizeof(World));
    return state.ledger.hash() * 31 + std::hash<std::string_view>()(bytes);
  }
};

std::shared_ptr<const GradientLayout> layout_of(std::uint32_t parameters, bool turned) {
  std::vector<ParameterId> order;
  for (std::uint32_t id = 0; id < parameters; ++id) order.push_back({turned ? parameters - 1 - id : id});
  const std::vector<SyncParameter> scalars(parameters, SyncParameter{"p", {1}, DType::f64});
  return std::make_shared<const GradientLayout>(scalars, order);
}

Ids ids_in(Mask mask) {
  Ids ids;
  for (std::uint32_t id = 0; id < 8; ++id)
    if ((mask >> id & 1U) != 0) ids.push_back(id);
  return ids;
}

/// Depth first: the moves that led to the state at hand are the trace.
class Search {
 public:
  explicit Search(const SearchBounds& bounds) : bounds_(bounds) {
    for (const bool turned : {false, true}) layouts_.push_back(layout_of(bounds.parameters, turned));
    for (unsigned mask = 0; mask < 1U << bounds.parameters; ++mask)
      sets_.push_back(required_set(ids_in(static_cast<Mask>(mask))));
    State start{SyncLedger({.members = bounds.members,
                            .outside_devices = bounds.outside ? 1U : 0U,
                            .layout = layouts_[0],
                            .bucket_bytes = bounds.one_bucket ? 1024U : 0U,
                            .absent = bounds.absent}),
                {.members = bounds.members,
                 .parameters = bounds.parameters,
                 .one_bucket = bounds.one_bucket,
                 .outside = bounds.outside}};
    try {
      enter(std::move(start));
    } catch (const Violation& violation) {
      throw Violation(violation.property, violation.trace + trace());
    }
  }
  SearchResult result() const { return {seen_.size(), transitions_}; }

 private:
  void enter(State&& next) {
    ++transitions_;
    const auto [place, is_new] = seen_.insert(std::move(next));
    if (is_new) visit(*place);
  }

  void visit(const State& state) {
    const std::size_t before = transitions_;
    for (MemberIndex member = 0; member < bounds_.members; ++member) moves_of(state, member);
    if (!state.world.failed) moves_outside(state);
    if (!state.world.failed && state.world.failures < bounds_.failures) go(state, {.kind = Move::Kind::fail});
    const auto stands = [](const Replica& replica) { return replica.phase == Phase::left || !replica.registered(); };
    if (bounds_.layouts && state.world.may_turn && !state.world.failed &&
        std::ranges::all_of(state.world.all(), stands))
      go(state, {.kind = Move::Kind::turn_layout});
    if (transitions_ == before) check_end(state.world);
  }

  // Answers of the other process. Its device stays away for good once it has left.
  void moves_outside(const State& state) {
    const World& world = state.world;
    if (world.committing && !world.committed) go(state, {.kind = Move::Kind::commit});
    if (!world.asked || world.agreed) return;
    if (world.generation <= bounds_.generations && !world.outside_left)
      for (unsigned mask = 0; mask < sets_.size(); ++mask)
        for (unsigned weight = 0; weight < bounds_.weights; ++weight)
          go(state, {.kind = Move::Kind::agree,
                     .parameters = static_cast<Mask>(mask),
                     .weight = static_cast<std::uint8_t>(bounds_.weights == 1 ? 1 : weight)});
    if (bounds_.leaves || world.outside_left) go(state, {.kind = Move::Kind::agree, .left = true});
  }

  // Nothing can move any more.
  void check_end(const World& world) const {
    for (const Replica& replica : world.all()) {
      must(replica.phase != Phase::synced && replica.phase != Phase::joined, Property::no_waiter_left,
           "waits for ever");
      const bool finished = replica.phase == Phase::idle && replica.applied == bounds_.generations;
      const bool stopped = replica.phase == Phase::stopped && world.outside;  // whose group forms no more
      must(finished || stopped || replica.phase == Phase::left, Property::no_deadlock, "nothing can move");
    }
    if (world.outside) return;
    must(!world.failed || world.all_left(), Property::no_deadlock, "a failed group in which nothing can move");
  }

  // All choices of one device. Messages of a failed group are left out: probes show that they change nothing, and
  // where a device stood in the step that is thrown away does not matter to what it does next.
  void moves_of(const State& state, MemberIndex member) {
    const Replica& replica = state.world.replicas[member];
    if (replica.phase == Phase::left || replica.leaving) return;
    if (replica.phase == Phase::released) go(state, {.kind = Move::Kind::step, .member = member});
    if (state.world.failed) {
      // One that was told that none can form might ask again, to be told the same.
      if (replica.phase != Phase::joined && replica.phase != Phase::stranded && !state.world.outside)
        go(state, {.kind = Move::Kind::join, .member = member});
      if (bounds_.leaves) go(state, {.kind = Move::Kind::leave, .member = member});
      return;
    }
    if (replica.phase == Phase::idle && replica.applied < bounds_.generations)
      for (unsigned mask = 0; mask < sets_.size(); ++mask)
        for (unsigned weight = 0; weight < bounds_.weights; ++weight)
          for (const bool passes_on : {false, true})
            if (!passes_on || (bounds_.passes_on && weight == 0))
              go(state, {Move::Kind::begin, member, static_cast<Mask>(mask),
                         static_cast<std::uint8_t>(bounds_.weights == 1 ? 1 : weight), passes_on});
    if (replica.phase == Phase::stepping) {
      for (const std::uint32_t id : ids_in(replica.required & static_cast<Mask>(~replica.submitted)))
        go(state, {.kind = Move::Kind::submit, .member = member, .parameters = static_cast<Mask>(id)});
      if (replica.submitted == replica.required) go(state, {.kind = Move::Kind::sync, .member = member});
    }
    const bool unwinds = replica.phase == Phase::stepping && state.world.failures < bounds_.failures;
    const bool between_steps = replica.phase == Phase::idle || replica.phase == Phase::released;
    if (bounds_.leaves && (between_steps || replica.phase == Phase::synced || unwinds))
      go(state, {.kind = Move::Kind::leave, .member = member});
  }

  void go(const State& state, Move move) {
    moves_.push_back(move);
    State next = state;
    std::vector<LedgerAction> actions;
    const std::optional<Fault::Kind> expected = say(next, move, actions);
    LedgerJudge judge(next.ledger, next.world, bounds_.absent);
    judge.judge(actions, expected, move.member);
    judge.check_questions();
    if (bounds_.probes) {
      judge.check_missing();
      probe_ledger(next.ledger, next.world);
    }
    enter(std::move(next));
    moves_.pop_back();
  }

  // Tells the ledger and the world. Why the group must fail, if it must.
  std::optional<Fault::Kind> say(State& state, const Move& move, std::vector<LedgerAction>& actions) {
    auto& [ledger, world] = state;
    Replica& replica = world.replicas[move.member];
    const Stamp stamp{move.member, world.group, world.generation};
    switch (move.kind) {
      case Move::Kind::begin:
        replica.phase = Phase::stepping;
        replica.required = move.parameters;
        replica.weight = move.weight;
        replica.passes_on = move.passes_on;
        ledger.register_parameters(stamp, move.weight, sets_[move.parameters], actions, move.passes_on);
        break;
      case Move::Kind::submit:
        replica.submitted |= static_cast<Mask>(1U << move.parameters);
        ledger.submit(stamp, {move.parameters}, actions);
        break;
      case Move::Kind::sync:
        replica.phase = Phase::synced;
        ledger.collective_sync(stamp, actions);
        break;
      case Move::Kind::step:
        replica.phase = world.failed ? Phase::stopped : Phase::idle;
        world.apply(replica, bounds_.absent == Absent::zero);
        break;
      case Move::Kind::leave: return leave(state, move, actions);
      case Move::Kind::fail:  // by whom is only reported: the first member stands for all, and for the server
        ledger.fail({.kind = Fault::Kind::device_failed, .generation = world.generation}, actions);
        return Fault::Kind::device_failed;
      case Move::Kind::join:  // what was released and not applied is given up: this device is behind
        replica.phase = Phase::joined;
        replica.result = 0;
        must(ledger.join(move.member, world.group + 1U, replica.applied, actions, applied(world, replica)),
             Property::reforms, "cannot join");
        break;
      case Move::Kind::turn_layout:
        world.turned ^= 1U;
        world.may_turn = 0;
        ledger.set_layout(layouts_[world.turned]);
        break;
      case Move::Kind::agree:
        world.agreed = 1;
        world.outside_required = move.parameters;
        world.outside_weight = move.weight;
        world.outside_left |= static_cast<std::uint8_t>(move.left);
        world.all_gone = world.agreement().all_left();
        ledger.agreed(world.group, world.generation, std::make_shared<const Agreement>(world.agreement()), actions);
        break;
      case Move::Kind::commit:
        world.committed = 1;
        ledger.committed(world.group, world.generation, actions);
        break;
    }
    return std::nullopt;
  }

  static std::optional<Fault::Kind> leave(State& state, const Move& move, std::vector<LedgerAction>& actions) {
    auto& [ledger, world] = state;
    Replica& replica = world.replicas[move.member];
    const bool in_step = replica.phase == Phase::stepping;
    if (in_step || replica.phase == Phase::synced)
      replica.leaving = 1;
    else if (world.failed || replica.phase == Phase::released)  // what was released is given up
      replica.leave_unfollowed();
    else
      replica.phase = Phase::left;
    ledger.leave({move.member, world.group, world.generation}, actions, applied(world, replica));
    return in_step ? std::optional(Fault::Kind::has_left) : std::nullopt;
  }

  static std::int64_t applied(const World& world, const Replica& replica) {
    return replica.took ? world.generation - 1 : 0;
  }

  std::string trace() const {
    static constexpr const char* kNames[] = {"begins", "submits", "syncs", "steps",  "leaves",
                                             "fails",  "joins",   "turn",  "agrees", "commits"};
    std::string text;
    for (const Move& move : moves_) {
      text += "\n  " + std::to_string(move.member) + " " + kNames[static_cast<std::size_t>(move.kind)];
      if (move.kind == Move::Kind::submit) text += " p" + std::to_string(move.parameters);
      if (move.left) text += " to have left";
      if (move.kind != Move::Kind::begin && move.kind != Move::Kind::agree) continue;
      for (const std::uint32_t id : ids_in(move.parameters)) text += " p" + std::to_string(id);
      text += " weight " + std::to_string(move.weight) + (move.passes_on ? " passing on" : "");
    }
    return text;
  }

  SearchBounds bounds_;
  std::vector<std::shared_ptr<const GradientLayout>> layouts_;
  std::vector<std::shared_ptr<const RequiredSet>> sets_;
  std::unordered_set<State, Hash> seen_;
  std::vector<Move> moves_;
  std::size_t transitions_ = 0;
};

}  // namespace

SearchResult search_ledger(const SearchBounds& bounds) { return Search(bounds).result(); }

}  // namespace tutti::testing
