// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/ledger/agreement.h>

#include <algorithm>
#include <cstddef>

namespace tutti {

namespace {

/// Calls `visit` with the registration of each device that requires the parameter, in order.
template <class Visit> void visit_requirers(const Agreement& agreement, ParameterId id, Visit visit) {
  std::vector<bool> holds;
  for (const auto& set : agreement.sets) holds.push_back(set->contains(id));
  for (const Agreement::Registration& registration : agreement.registrations)
    if (holds[registration.set]) visit(registration);
}

}  // namespace

double Agreement::total_weight() const {
  double total = 0.0;
  for (const Registration& registration : registrations) total += registration.weight;
  return total;
}

double Agreement::weight(ParameterId id) const {
  double weight = 0.0;
  visit_requirers(*this, id, [&](const Registration& registration) { weight += registration.weight; });
  return weight;
}

std::uint32_t Agreement::devices(ParameterId id) const {
  std::uint32_t devices = 0;
  visit_requirers(*this, id, [&](const Registration&) { ++devices; });
  return devices;
}

std::vector<std::uint32_t> Agreement::contributors(ParameterId id) const {
  std::vector<std::uint32_t> contributors;
  visit_requirers(*this, id, [&](const Registration& registration) {
    if (registration.contributes)
      contributors.push_back(static_cast<std::uint32_t>(&registration - registrations.data()));
  });
  return contributors;
}

bool Agreement::required_by_same(ParameterId lhs, ParameterId rhs) const {
  return std::ranges::all_of(sets, [&](const auto& set) { return set->contains(lhs) == set->contains(rhs); });
}

bool Agreement::has_same_sets(const Agreement& other) const {
  const auto set_of = [](const Agreement& agreement, std::size_t device) {
    return agreement.sets[agreement.registrations[device].set];
  };
  if (registrations.size() != other.registrations.size()) return false;
  for (std::size_t device = 0; device < registrations.size(); ++device) {
    const auto lhs = set_of(*this, device);
    const auto rhs = set_of(other, device);
    if (lhs != rhs && !std::ranges::equal(lhs->parameters(), rhs->parameters())) return false;
  }
  return true;
}

bool Agreement::all_left() const { return std::ranges::all_of(registrations, &Registration::left); }

}  // namespace tutti
