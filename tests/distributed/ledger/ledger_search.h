// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/sync_options.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace tutti::testing {

/// What must hold in every state and at every transition.
enum class Property : std::uint8_t {
  launched_once = 1,   ///< no gradient twice in a generation
  launched_in_time,    ///< not before all have registered and all that require it have submitted, and then at once
  launched_if_needed,  ///< nothing that nobody requires, nothing when no device has examples
  buckets_uniform,     ///< a bucket is the run of neighbours that fits and that the same devices require
  sum_of_requirers,    ///< who contributes, who receives, and what the sum is divided by
  generations_apart,   ///< of the current generation and group only
  released_in_time,    ///< not before all have registered, synced and launched, and then at once
  no_waiter_left,      ///< whoever synced is released or failed
  no_deadlock,
  failure_heard,     ///< a failure stops all; nothing else does
  reforms,           ///< when all have joined or left; the newest state is ahead
  replicas_equal,    ///< as many steps, the same parameters
  misuse_fails,      ///< what a device must not say fails the group with the right cause
  old_groups_mute,   ///< messages of other groups, and of a failed one, change nothing
  missing_is_named,  ///< the questions agree with what was said
  commits_stand,     ///< no group forms that would take again a step that one that left has applied
  processes_told,    ///< others are asked once all have registered, and once more when all is launched and synced
};

const char* to_string(Property) noexcept;

/// How far a search goes. Everything within is visited, in every order.
struct SearchBounds {
  std::uint8_t members = 2;  ///< 3 at most
  std::uint8_t parameters = 2;
  std::uint8_t generations = 3;
  std::uint8_t weights = 2;   ///< a device's weight is below this
  std::uint8_t failures = 0;  ///< the group fails this often
  bool leaves = false;        ///< devices may leave
  bool layouts = false;       ///< the layout may be turned around after each generation
  bool probes = false;        ///< in every state: misuse and messages of other groups
  bool one_bucket = false;    ///< neighbours may share a bucket
  bool passes_on = false;     ///< gradients of a device of weight 0 may count
  bool outside = false;       ///< there is another process, with one device
  Absent absent = Absent::zero;
};

/// A property that does not hold, with the messages that lead there.
struct Violation : std::exception {
  Violation(Property violated, std::string text) : property(violated), trace(std::move(text)) {}
  const char* what() const noexcept override { return trace.c_str(); }
  Property property;
  std::string trace;
};

struct SearchResult {
  std::size_t states = 0;
  std::size_t transitions = 0;
};

/// Visits every reachable state once. Throws Violation.
SearchResult search_ledger(const SearchBounds&);

enum class ProofSize : std::uint8_t {
  small,    ///< for sanitizers and for a first look: a second
  routine,  ///< what every run of the tests does
  whole,    ///< also the largest products: a few minutes, 3 GB
};
std::vector<SearchBounds> proof_bounds(ProofSize);
std::string to_string(const SearchBounds&);

}  // namespace tutti::testing
