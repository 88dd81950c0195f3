// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/report/sync_text.h>

#include <tutti/backend/error.h>
#include <tutti/backend/process/error_text.h>

#include <fmt/format.h>

namespace tutti {

namespace {

constexpr std::size_t kListed = 8;  // enough to act on; a whole model's names would bury the first

template <class Items, class Text> std::string listed(const Items& items, Text text) {
  std::string result;
  for (std::size_t i = 0; i < items.size() && i < kListed; ++i) result += (i == 0 ? "" : ", ") + text(items[i]);
  if (items.size() > kListed) result += fmt::format(" and {} more", items.size() - kListed);
  return result;
}

}  // namespace

std::string SyncNames::member(MemberIndex index) const {
  const std::string name = members.name(index);
  return busy[index].empty() ? name : fmt::format("{} (busy: {})", name, busy[index]);
}

std::string SyncNames::process() const { return members.world() > 1 ? fmt::format("rank {} ", members[0].rank) : ""; }

std::string SyncNames::parameter(ParameterId id) const {
  if (id.value >= parameters.size()) return fmt::format("number {} (of {})", id.value, parameters.size());
  return fmt::format("\"{}\"", parameters[id.value].name);
}

std::string fault_text(const Fault& fault, const std::exception_ptr& cause, const std::string& detail,
                       const SyncNames& names) {
  const std::string member = names.member(fault.member);
  const std::string parameter = fault.parameter ? names.parameter(*fault.parameter) : "";
  const std::int64_t generation = fault.generation;
  using Kind = Fault::Kind;
  switch (fault.kind) {
    case Kind::device_failed:
      return fmt::format("[sync] {} failed in generation {}: {}", member, generation, text_of(cause));
    case Kind::bad_weight:
      return fmt::format(
          "[sync] {} registered generation {} with a weight that is negative, not finite, or makes a sum "
          "of weights that f32 cannot hold",
          member, generation);
    case Kind::bad_weight_outside:
      return fmt::format(
          "[sync] device {} of the group, which another process has, registered generation {} with a weight that makes "
          "a sum of weights that f32 cannot hold",
          fault.value, generation);
    case Kind::out_of_order:
      return fmt::format("[sync] {} spoke of generation {} while generation {} was due", member, fault.value,
                         fault.other);
    case Kind::registered_twice: return fmt::format("[sync] {} registered generation {} twice", member, generation);
    case Kind::not_registered:
      return fmt::format("[sync] {} submitted or synced in generation {} without having registered", member,
                         generation);
    case Kind::synced_twice: return fmt::format("[sync] {} synced generation {} twice", member, generation);
    case Kind::has_left: return fmt::format("[sync] {} took part in generation {} but has left", member, generation);
    case Kind::unknown_parameter:
      return fmt::format("[sync] {} spoke of an unknown parameter, {}, in generation {}", member, parameter,
                         generation);
    case Kind::not_required:
      return fmt::format("[sync] {} submitted parameter {} in generation {} without having registered it", member,
                         parameter, generation);
    case Kind::submitted_twice:
      return fmt::format("[sync] {} submitted parameter {} twice in generation {}", member, parameter, generation);
    case Kind::not_submitted:
      return fmt::format("[sync] {} ended backward in generation {} without having submitted parameter {}", member,
                         generation, parameter);
    case Kind::wrong_shape:
    case Kind::wrong_dtype:
    case Kind::wrong_rows:
      return fmt::format("[sync] {} submitted parameter {} in generation {} with {}", member, parameter, generation,
                         detail);
    case Kind::wrong_place:
      return fmt::format("[sync] {} has gradients in generation {} that do not lie in its registered memory: {}",
                         member, generation, detail);
    case Kind::deadline:
    case Kind::process_failed:
    case Kind::collective:
    case Kind::cancelled: return detail;
    case Kind::diverged: return fmt::format("[sync] replicas differ in generation {}: {}", generation, detail);
    case Kind::engine_failed:
      return fmt::format("[sync] the server failed in generation {}: {}", generation, text_of(cause));
    case Kind::reduction_failed:
      return fmt::format("[sync] a reduction failed in generation {}: {}", generation, text_of(cause));
    case Kind::closed: return fmt::format("[sync] the group was closed in generation {}", generation);
  }
  return "[sync] failed";
}

std::string missing_checks_text(const std::vector<MemberIndex>& missing, std::int64_t generation,
                                std::chrono::nanoseconds waited, const SyncNames& names,
                                const std::vector<int>& ranks) {
  const std::string who = missing.empty() ? listed(ranks, [](int rank) { return fmt::format("rank {}", rank); })
                                          : listed(missing, [&](MemberIndex index) { return names.member(index); });
  return fmt::format("[sync] waited {:.3g} s before generation {} for the replica check of {}",
                     std::chrono::duration<double>(waited).count(), generation, who);
}

std::string missing_text(const Missing& missing, std::int64_t generation, std::chrono::nanoseconds waited,
                         const SyncNames& names) {
  const auto member = [&](MemberIndex index) { return names.member(index); };
  const double seconds = std::chrono::duration<double>(waited).count();
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (!missing.gradients.empty())
    add("gradients of " + listed(missing.gradients, [&](const auto& pair) {
          return fmt::format("parameter {} from {}", names.parameter(pair.second), member(pair.first));
        }));
  if (!missing.registrations.empty())
    add("the step of " + listed(missing.registrations, member) +
        " (a thread that drives several devices posts all their steps with backward_async before it joins any)");
  if (missing.gradients.empty() && !missing.syncs.empty())
    add("the end of backward on " + listed(missing.syncs, member));
  if (!missing.ranks.empty())
    add((missing.commit ? "the end of backward on " : "the step of ") +
        listed(missing.ranks, [](int rank) { return fmt::format("rank {}", rank); }));
  else if (missing.commit)
    add("reductions with other processes");
  if (!missing.joins.empty()) add("rejoin of " + listed(missing.joins, member));
  return fmt::format("[sync] {}waited {:.3g} s in generation {} for {}", names.process(), seconds, generation, text);
}

}  // namespace tutti
