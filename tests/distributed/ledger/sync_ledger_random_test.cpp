// SPDX-License-Identifier: Apache-2.0
// Random schedules of groups that are too large to be searched, compared with the rules written plainly.
#include <tutti/distributed/ledger/sync_ledger.h>

#include <tutti/tests/distributed/ledger/ledger_reference.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <memory>
#include <numeric>
#include <random>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

using Run = LedgerReference::Run;

class Schedule {
 public:
  Schedule(std::uint32_t seed, std::uint32_t members, std::uint32_t parameters)
      : random_(seed), reference_(members, random_parameters(parameters), random_bucket_bytes()) {
    layout_ = random_layout();
    ledger_ = std::make_unique<SyncLedger>(SyncLedger::Configuration{
        .members = members, .layout = layout_, .bucket_bytes = reference_.bucket_bytes, .absent = absent_});
    sets_.resize(members);
    owed_.resize(members);
  }

  void run(int generations) {
    for (int done = 0; done < generations && !reference_.all_left(); ++done) {
      if (one_in(3)) ledger_->set_layout(layout_ = random_layout());
      one_in(6) ? fail_somewhere() : finish_generation(-1);
    }
    CHECK(ledger_->all_left() == reference_.all_left());
  }

 private:
  bool one_in(std::uint32_t n) { return random_() % n == 0; }

  std::vector<SyncParameter> random_parameters(std::uint32_t count) {
    std::vector<SyncParameter> parameters;
    for (std::uint32_t id = 0; id < count; ++id)
      parameters.push_back(
          {"p", {static_cast<std::int64_t>(random_() % 40)}, one_in(8) ? DType::f64 : DType::f32, one_in(8)});
    return parameters;
  }
  std::size_t random_bucket_bytes() { return std::vector<std::size_t>{0, 100, 640, 4096, 1U << 20}[random_() % 5]; }

  std::shared_ptr<const GradientLayout> random_layout() {
    std::vector<ParameterId> order;
    for (std::uint32_t id = 0; id < reference_.parameters.size(); ++id) order.push_back({id});
    std::ranges::shuffle(order, random_);
    return std::make_shared<const GradientLayout>(reference_.parameters, order);
  }

  // None, few neighbours, most, or what another device has: so that buckets of all kinds arise.
  std::shared_ptr<const RequiredSet> random_set() {
    const auto& other = sets_[random_() % sets_.size()];
    if (other && !one_in(4)) return other;
    const auto kept = static_cast<std::uint32_t>(random_() % 5);
    std::vector<ParameterId> ids;
    for (std::uint32_t id = 0; id < reference_.parameters.size(); ++id)
      if (kept == 4 || (kept > 0 && random_() % 10 < kept * 3)) ids.push_back({id});
    return std::make_shared<const RequiredSet>(std::move(ids));
  }

  // `stop_after` messages, or all of the generation.
  void finish_generation(int stop_after) {
    const std::int64_t generation = ledger_->current_generation();
    for (int sent = 0; sent != stop_after && ledger_->current_generation() == generation; ++sent) {
      std::vector<MemberIndex> able;
      for (MemberIndex member = 0; member < reference_.devices.size(); ++member) {
        const auto& device = reference_.devices[member];
        if (!device.left && !device.synced) able.push_back(member);
      }
      if (able.empty()) break;
      speak(able[random_() % able.size()]);
    }
    if (stop_after < 0 && !reference_.all_left()) REQUIRE(ledger_->current_generation() == generation + 1);
  }

  void speak(MemberIndex member) {
    auto& device = reference_.devices[member];
    const Stamp stamp{member, ledger_->group(), ledger_->current_generation()};
    std::vector<LedgerAction> actions;
    std::vector<std::uint32_t>& owed = owed_[member];
    if (!device.registered && one_in(60)) {
      device.left = true;
      ledger_->leave(stamp, actions);
    } else if (!device.registered) {
      if (!sets_[member] || one_in(2)) sets_[member] = random_set();
      device.registered = true;
      device.weight = one_in(4) ? 0.0 : static_cast<double>(random_() % 4);
      owed.clear();
      for (const ParameterId id : sets_[member]->parameters()) owed.push_back(id.value);
      for (const std::uint32_t id : owed) device.required[id] = true;
      std::ranges::shuffle(owed, random_);
      ledger_->register_parameters(stamp, device.weight, sets_[member], actions);
    } else if (!owed.empty()) {
      const std::uint32_t id = owed.back();
      owed.pop_back();
      device.submitted[id] = true;
      ledger_->submit(stamp, {id}, actions);
      return compare(actions, static_cast<std::int64_t>(id));
    } else {
      device.synced = true;
      ledger_->collective_sync(stamp, actions);
      if (actions.empty() && one_in(40)) {
        device.leaving = true;
        ledger_->leave(stamp, actions);
      }
    }
    compare(actions, -1);
  }

  // What must be launched now: only a submission's own bucket can have become complete, only a registration many.
  std::vector<Run> due(std::int64_t submitted) {
    std::vector<Run> runs;
    if (!reference_.all_registered() || reference_.all_left()) return runs;
    if (!known_) buckets_ = reference_.buckets(*layout_);
    known_ = true;
    for (const Run& run : buckets_) {
      if (reference_.launched[run.front()]) continue;
      if (submitted >= 0 && std::ranges::find(run, static_cast<std::uint32_t>(submitted)) == run.end()) continue;
      if (!reference_.complete(run)) continue;
      for (const std::uint32_t id : run) reference_.launched[id] = true;
      if (reference_.weight() > 0.0) runs.push_back(run);
    }
    std::ranges::sort(runs);
    return runs;
  }

  void compare(const std::vector<LedgerAction>& actions, std::int64_t submitted) {
    std::vector<Run> launched;
    int released = 0;
    for (const LedgerAction& action : actions) {
      REQUIRE((std::holds_alternative<Launch>(action) || std::holds_alternative<Release>(action)));
      if (const auto* launch = std::get_if<Launch>(&action)) {
        Run run;
        for (const GradientLayout::Place& place : launch->places) run.push_back(place.parameter.value);
        check_parts(*launch, run.front());
        launched.push_back(std::move(run));
      } else {
        ++released;
        REQUIRE(std::get<Release>(action).total_weight == reference_.weight());
      }
    }
    std::ranges::sort(launched);
    REQUIRE(launched == due(submitted));
    const bool complete = !reference_.all_left() && reference_.all_registered() && reference_.all_synced();
    REQUIRE(released == (complete ? 1 : 0));
    if (complete) begin_generation();
  }

  void check_parts(const Launch& launch, std::uint32_t id) {
    double requirers_weight = 0.0;
    for (MemberIndex member = 0; member < reference_.devices.size(); ++member) {
      const auto& device = reference_.devices[member];
      const Launch::Part part = launch.parts[member];
      REQUIRE(part.required == device.required[id]);
      REQUIRE(part.contributes == (device.required[id] && device.weight > 0.0));
      REQUIRE(part.receives == (device.required[id] || absent_ == Absent::zero));
      REQUIRE(part.absent == device.left);
      if (device.required[id]) requirers_weight += device.weight;
    }
    if (absent_ == Absent::zero) requirers_weight = reference_.weight();
    REQUIRE(launch.denominator == (requirers_weight > 0.0 ? requirers_weight : reference_.weight()));
  }

  void begin_generation() {
    reference_.next_generation();
    known_ = false;
  }

  void fail_somewhere() {
    const std::int64_t generation = ledger_->current_generation();
    finish_generation(static_cast<int>(random_() % 100));
    if (ledger_->current_generation() != generation || reference_.all_left()) return;
    std::vector<LedgerAction> actions;
    ledger_->fail({.kind = Fault::Kind::device_failed, .generation = generation}, actions);
    REQUIRE(actions.size() == 1);
    begin_generation();
    if (reference_.all_left()) return;
    const std::uint64_t next = ledger_->group() + 1;
    for (MemberIndex member = 0; member < reference_.devices.size(); ++member)
      if (!reference_.devices[member].left) REQUIRE(ledger_->join(member, next, 1, actions));
    REQUIRE(actions.size() == 2);
    REQUIRE(std::get<Reform>(actions.back()).group == next);
  }

  std::mt19937 random_;
  LedgerReference reference_;
  Absent absent_ = one_in(3) ? Absent::subset : Absent::zero;
  std::shared_ptr<const GradientLayout> layout_;
  std::unique_ptr<SyncLedger> ledger_;
  std::vector<std::shared_ptr<const RequiredSet>> sets_;  // what each device registered last
  std::vector<std::vector<std::uint32_t>> owed_;
  std::vector<Run> buckets_;
  bool known_ = false;  // buckets_ are this generation's
};

}  // namespace

TEST_CASE("sync_ledger random: small groups, every kind of schedule") {
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    Schedule(seed, 1 + seed % 7, 1 + seed % 23).run(12);
  }
}

TEST_CASE("sync_ledger random: 64 devices, and thousands of parameters") {
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    Schedule(seed, 64, 60).run(8);
    Schedule(seed, 3, 3000).run(4);
  }
}

namespace {

// Of this thread alone: what else the machine does is not in it.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Seconds of a message of a step of two devices, each parameter a bucket of its own; the quickest of some steps, after
// those that build the buckets.
double seconds_of_a_message(std::uint32_t parameters) {
  const std::vector<SyncParameter> all(parameters, {"p", {16}, DType::f32, true});
  std::vector<ParameterId> order;
  for (std::uint32_t id = 0; id < parameters; ++id) order.push_back({id});
  SyncLedger ledger({.members = 2, .layout = std::make_shared<const GradientLayout>(all, order)});
  const auto required = std::make_shared<const RequiredSet>(order);
  std::size_t launched = 0;
  double best = std::numeric_limits<double>::max();
  std::vector<LedgerAction> actions;
  const auto take_step = [&] {
    const std::int64_t generation = ledger.current_generation();
    const auto drain = [&] {
      launched += static_cast<std::size_t>(
          std::ranges::count_if(actions, [](const auto& action) { return std::holds_alternative<Launch>(action); }));
      actions.clear();
    };
    for (const MemberIndex m : {0U, 1U}) ledger.register_parameters({m, 1, generation}, 1.0, required, actions);
    for (const ParameterId id : order)
      for (const MemberIndex m : {0U, 1U}) {
        ledger.submit({m, 1, generation}, id, actions);
        drain();
      }
    for (const MemberIndex m : {0U, 1U}) ledger.collective_sync({m, 1, generation}, actions);
    drain();
  };
  take_step();
  constexpr int kSteps = 6;
  for (int i = 0; i < kSteps; ++i) {
    const double start = thread_seconds();
    take_step();
    best = std::min(best, thread_seconds() - start);
  }
  CHECK(launched == (kSteps + 1) * std::size_t{parameters});
  return best / (2.0 * parameters + 4.0);
}

}  // namespace

// One that looks at all parameters, or at all waiting gradients, takes 64 times as long; caches are worth some.
TEST_CASE("sync_ledger: a message costs the same among 256 parameters and among 16384") {
  const double among_few = seconds_of_a_message(256);
  const double among_many = seconds_of_a_message(16384);
  CHECK(among_many < 12 * among_few);
}

TEST_SUITE_END();
