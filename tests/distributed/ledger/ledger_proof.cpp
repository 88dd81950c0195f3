// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/ledger/ledger_search.h>

#include <initializer_list>

namespace tutti::testing {

const char* to_string(Property property) noexcept {
  switch (property) {
    case Property::launched_once: return "launched_once";
    case Property::launched_in_time: return "launched_in_time";
    case Property::launched_if_needed: return "launched_if_needed";
    case Property::buckets_uniform: return "buckets_uniform";
    case Property::sum_of_requirers: return "sum_of_requirers";
    case Property::generations_apart: return "generations_apart";
    case Property::released_in_time: return "released_in_time";
    case Property::no_waiter_left: return "no_waiter_left";
    case Property::no_deadlock: return "no_deadlock";
    case Property::failure_heard: return "failure_heard";
    case Property::reforms: return "reforms";
    case Property::replicas_equal: return "replicas_equal";
    case Property::misuse_fails: return "misuse_fails";
    case Property::old_groups_mute: return "old_groups_mute";
    case Property::missing_is_named: return "missing_is_named";
    case Property::commits_stand: return "commits_stand";
    case Property::processes_told: return "processes_told";
  }
  return "";
}

std::string to_string(const SearchBounds& bounds) {
  std::string text = std::to_string(bounds.members) + " devices x " + std::to_string(bounds.parameters) +
                     " parameters x " + std::to_string(bounds.generations) + " generations";
  text += bounds.weights > 1 ? ", weights 0 and 1" : ", weight 1";
  if (bounds.failures > 0) text += ", failures " + std::to_string(bounds.failures);
  if (bounds.leaves) text += ", leaves";
  if (bounds.layouts) text += ", layouts";
  text += bounds.one_bucket ? ", shared buckets" : ", a bucket each";
  text += bounds.absent == Absent::zero ? ", Absent::zero" : ", Absent::subset";
  if (bounds.passes_on) text += ", passing on";
  if (bounds.outside) text += ", another process";
  if (bounds.probes) text += ", probes";
  return text;
}

// Small ones first, so that what is wrong shows soon and with a short trace.
std::vector<SearchBounds> proof_bounds(ProofSize size) {
  std::vector<SearchBounds> all;
  const auto add = [&](SearchBounds bounds, std::initializer_list<Absent> policies = {Absent::zero, Absent::subset}) {
    for (const Absent absent : policies)
      for (const bool one_bucket : {false, true}) {
        bounds.absent = absent;
        bounds.one_bucket = one_bucket;
        all.push_back(bounds);
      }
  };
  add({2, 2, 1, 2, 1, true, true});
  add({2, 3, 1, 2, 0, true, true});
  add({.generations = 1, .failures = 1, .leaves = true, .passes_on = true});
  add({.members = 1, .generations = 2, .failures = 1, .leaves = true, .layouts = true, .outside = true});
  add({2, 2, 1, 1, 1, true, true, true});
  if (size == ProofSize::small) return all;
  add({.generations = 1, .failures = 1, .leaves = true, .layouts = true, .outside = true});
  add({.members = 1,
       .generations = 2,
       .failures = 1,
       .leaves = true,
       .layouts = true,
       .probes = true,
       .outside = true});
  add({2, 2, 2, 2, 1, true, true});
  add({3, 2, 1, 2, 0, true, true});
  add({2, 2, 2, 2, 1, true, false, true});
  add({2, 2, 3, 2, 1, true, true});
  // The policy changes who receives and what is divided by, not when anything happens.
  add({3, 2, 2, 2, 0, true}, {Absent::zero});
  add({3, 2, 2, 1, 1, true}, {Absent::zero});
  add({.generations = 2, .leaves = true, .outside = true}, {Absent::zero});
  if (size == ProofSize::routine) return all;
  add({.generations = 1, .failures = 1, .leaves = true, .probes = true, .outside = true});
  add({2, 2, 3, 2, 2, true, true, true});
  add({.parameters = 3, .generations = 1, .leaves = true, .layouts = true, .probes = true, .outside = true});
  add({.generations = 2,
       .failures = 1,
       .leaves = true,
       .layouts = true,
       .probes = true,
       .passes_on = true,
       .outside = true});
  add({2, 3, 2, 2, 1, true, true});
  add({3, 2, 1, 2, 1, true, true, true});
  add({3, 2, 2, 2, 1, true});
  add({3, 2, 2, 2, 0, true, true});
  add({3, 2, 3, 2, 0, false});
  return all;
}

}  // namespace tutti::testing
