// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

namespace tutti {

/// Counts the weight of what a device's open step has computed gradients of: under no_sync, whose scopes are counted
/// here, and in the backward that is synchronised. For the thread that drives the device; a scope may end on
/// another one.
class StepWeight {
 public:
  /// `name`: of the member that has the step, for errors.
  explicit StepWeight(std::string name) noexcept : name_(std::move(name)) {}

  void begin_step() noexcept;  ///< nothing has been computed yet
  double total() const noexcept { return weight_; }
  void add(double weight) noexcept { weight_ += weight; }

  void open_scope() noexcept { ++scopes_; }
  /// A no_sync scope closes. `weight`: that of what ran in it. `flaw`: why its step cannot be synchronised; null if it
  /// can. Unless it `counts`, its step is over. With a flaw, or where it does not count, any
  /// thread.
  void close_scope(double weight, const char* flaw, bool counts) noexcept;
  /// Throws SyncError while a scope is open, and after one that has a flaw: the weights would not be right.
  void require_sound(std::int64_t generation) const;

 private:
  const std::string name_;
  double weight_ = 0.0;
  std::atomic<int> scopes_{0};              // no_sync scopes that are open
  std::atomic<const char*> flaw_{nullptr};  // text of a scope's
};

}  // namespace tutti
