// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/testing/conformance.h>

#include <tutti/backend/array.h>
#include <tutti/backend/stream.h>
#include <tutti/distributed/collectives/collective_task.h>

#include <bit>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::testing {

/// A request that did not end: what follows cannot be checked.
struct Stuck {
  std::string what;
};

using Task = std::shared_ptr<CollectiveTask>;

/// One engine in the hands of its suite.
class EngineCheck {
 public:
  /// Throws Error if the factory gives none, and what it throws.
  EngineCheck(const CommunicatorFactory&, std::span<const Device>, Conformance&);
  /// Leaves an engine behind whose task has not ended.
  ~EngineCheck();
  EngineCheck(const EngineCheck&) = delete;
  EngineCheck& operator=(const EngineCheck&) = delete;

  Communicator& engine() noexcept { return *engine_; }
  std::span<const Device> devices() const noexcept { return devices_; }
  /// Names what faults are told of from now on, as "sum of f32 [513]".
  void set_what(std::string what) { what_ = std::move(what); }

  void check(bool right, std::string_view fault);
  void leave_out(std::string_view part);  ///< tells it once
  /// Elements of the found array as `double`, against those expected, to the bit but for NaN.
  void check_elements(const Array& found, const std::vector<double>& expected, Device);

  /// Calls the engine on a thread of its own. Rethrows what it throws; throws Stuck after 30 seconds.
  Task launch(const std::function<Task(Communicator&)>&);
  /// Joins the tasks with each device on a thread of its own, as devices of a group do; what each was told. Throws
  /// Stuck after 30 seconds.
  std::vector<std::string> join(const std::vector<Task>&);
  void join_well(const std::vector<Task>&);  ///< errors of the tasks are faults

 private:
  /// Runs the works on a thread each, and waits for all of them.
  void run(std::vector<std::function<void()>> works);

  std::shared_ptr<Communicator> engine_;  // shared with threads that may have to be left behind
  std::vector<Device> devices_;
  Conformance& found_;
  std::string what_;
};

/// Sum of those that are there, in the tree of their numbers (backend/formulas/sum_tree.h); none: nobody is.
template <class T> std::optional<T> tree_sum(std::span<const std::optional<T>> by_number) {
  if (by_number.size() == 1) return by_number[0];
  const std::size_t half = std::bit_ceil(by_number.size()) / 2;
  const std::optional<T> first = tree_sum(by_number.first(half));
  const std::optional<T> second = tree_sum(by_number.subspan(half));
  if (!first || !second) return first ? first : second;
  return static_cast<T>(*first + *second);
}

/// The end of work that somebody else does, who says when.
class LaterEvent final : public EventState {
 public:
  void happen();
  bool ready() const override;
  void synchronize() override;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool happened_ = false;
};

/// Launches and joins, while another thread writes each input's numbers after a while and then says that they are
/// there.
void join_when_ready(EngineCheck&, const std::function<Task(Communicator&)>& call, LaterEvent&,
                     const std::vector<Array>& inputs, const std::vector<std::vector<double>>& numbers);

/// Numbers that are the device's own; `exact`: small integers, whose sums are exact in every type.
std::vector<double> contribution(std::int64_t count, std::size_t device, bool exact);

/// Nearest number of that type.
double rounded(double value, DType);

/// Their array on a device, as f32, f64, bf16 or f16, made by work that may still be on its way there.
Array array_of(const std::vector<double>&, DType, Device);

void check_reductions(EngineCheck&);
void check_wires(EngineCheck&);
void check_order(EngineCheck&);
void check_ready(EngineCheck&);
void check_switched_off(EngineCheck&);
void check_regrouped(EngineCheck&);
void check_collectives(EngineCheck&);
void check_collective_ready(EngineCheck&);
void check_sparse(EngineCheck&);

}  // namespace tutti::testing
