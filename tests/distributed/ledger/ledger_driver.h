// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/ledger/sync_ledger.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace tutti::testing {

using Ids = std::vector<std::uint32_t>;

/// Equal sets are the same object, as they are for a device whose graph does not change.
inline std::shared_ptr<const RequiredSet> required_set(Ids ids) {
  static std::mutex mutex;
  static std::map<Ids, std::shared_ptr<const RequiredSet>> sets;
  std::ranges::sort(ids);
  const std::lock_guard lock(mutex);
  auto& set = sets[ids];
  if (!set) {
    std::vector<ParameterId> parameters;
    for (const std::uint32_t id : ids) parameters.push_back({id});
    set = std::make_shared<const RequiredSet>(std::move(parameters));
  }
  return set;
}

/// Parameters of one f64 each, in the order of their ids.
inline std::shared_ptr<const GradientLayout> scalar_layout(std::uint32_t parameters) {
  std::vector<ParameterId> order;
  for (std::uint32_t id = 0; id < parameters; ++id) order.push_back({id});
  const std::vector<SyncParameter> scalars(parameters, SyncParameter{"p", {1}, DType::f64});
  return std::make_shared<const GradientLayout>(scalars, order);
}

inline Ids ids_of(const Launch& launch) {
  Ids ids;
  for (const GradientLayout::Place& place : launch.places) ids.push_back(place.parameter.value);
  return ids;
}

/// A ledger with what it decided so far, in the words of a test.
struct LedgerDriver {
  explicit LedgerDriver(std::uint32_t members, std::uint32_t parameters,
                        GradientReduction reduction = GradientReduction::weighted_mean, Absent absent = Absent::zero)
      : ledger({.members = members, .layout = scalar_layout(parameters), .reduction = reduction, .absent = absent}) {}

  Stamp stamp(MemberIndex member, std::int64_t generation) const { return {member, group, generation}; }
  void begin(MemberIndex member, std::int64_t generation, const Ids& ids, double weight = 1.0) {
    ledger.register_parameters(stamp(member, generation), weight, required_set(ids), actions);
  }
  void submit(MemberIndex member, std::int64_t generation, std::uint32_t id) {
    ledger.submit(stamp(member, generation), {id}, actions);
  }
  void sync(MemberIndex member, std::int64_t generation) { ledger.collective_sync(stamp(member, generation), actions); }
  void leave(MemberIndex member, std::int64_t generation) { ledger.leave(stamp(member, generation), actions); }
  /// A whole step of one member.
  void step(MemberIndex member, std::int64_t generation, const Ids& ids, double weight = 1.0) {
    begin(member, generation, ids, weight);
    for (const std::uint32_t id : ids) submit(member, generation, id);
    sync(member, generation);
  }

  template <class Action> std::vector<Action> all() const {
    std::vector<Action> found;
    for (const LedgerAction& action : actions)
      if (const auto* match = std::get_if<Action>(&action)) found.push_back(*match);
    return found;
  }
  Ids launched(std::int64_t generation) const {
    Ids ids;
    for (const Launch& launch : all<Launch>())
      if (launch.generation == generation)
        for (const std::uint32_t id : ids_of(launch)) ids.push_back(id);
    return ids;
  }
  bool released(std::int64_t generation) const {
    for (const Release& release : all<Release>())
      if (release.generation == generation) return true;
    return false;
  }

  SyncLedger ledger;
  std::vector<LedgerAction> actions;
  std::uint64_t group = 1;
};

}  // namespace tutti::testing
