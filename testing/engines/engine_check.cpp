// SPDX-License-Identifier: Apache-2.0
#include <tutti/testing/engines/engine_check.h>

#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace tutti::testing {

namespace {

constexpr std::chrono::seconds kPatience{30};

/// Joins one device with all of them; what was wrong.
std::string joined(Device device, const std::vector<Task>& tasks) {
  try {
    join_tasks(device, tasks);
    synchronize(device);
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

EngineCheck::EngineCheck(const CommunicatorFactory& make, std::span<const Device> devices, Conformance& found)
    : engine_(make(devices)), devices_(devices.begin(), devices.end()), found_(found) {
  if (!engine_) throw Error("the factory gave no engine");
}

EngineCheck::~EngineCheck() = default;

void EngineCheck::run(std::vector<std::function<void()>> works) {
  struct Progress {
    std::mutex mutex;
    std::condition_variable ended;
    std::size_t left;
  };
  const auto progress = std::make_shared<Progress>();
  progress->left = works.size();
  std::vector<std::thread> threads;
  for (auto& work : works)
    threads.emplace_back([progress, work = std::move(work), engine = engine_]() mutable {
      work();
      work = nullptr;  // what it holds goes before anybody is told
      engine.reset();
      const std::lock_guard lock(progress->mutex);
      if (--progress->left == 0) progress->ended.notify_all();
    });
  std::unique_lock lock(progress->mutex);
  const bool is_done = progress->ended.wait_for(lock, kPatience, [&] { return progress->left == 0; });
  lock.unlock();
  for (std::thread& thread : threads) is_done ? thread.join() : thread.detach();
  if (!is_done)
    throw Stuck{fmt::format("{} of {} devices: has not ended within {} s", what_, devices_.size(), kPatience.count())};
}

Task EngineCheck::launch(const std::function<Task(Communicator&)>& call) {
  struct Outcome {
    Task task;
    std::exception_ptr error;
  };
  const auto outcome = std::make_shared<Outcome>();
  run({[outcome, call, engine = engine_] {
    try {
      outcome->task = call(*engine);
    } catch (...) {
      outcome->error = std::current_exception();
    }
  }});
  if (outcome->error) std::rethrow_exception(outcome->error);
  if (!outcome->task) throw Error("the engine gave no task");
  return outcome->task;
}

void EngineCheck::check(bool right, std::string_view fault) {
  ++found_.checks;
  if (!right) found_.faults.push_back(fmt::format("{} of {} devices: {}", what_, devices_.size(), fault));
}

void EngineCheck::leave_out(std::string_view part) {
  if (std::ranges::find(found_.left_out, part) == found_.left_out.end()) found_.left_out.emplace_back(part);
}

void EngineCheck::check_elements(const Array& found, const std::vector<double>& expected, Device device) {
  const std::vector<double> values = found.to(cpu()).cast(DType::f64).to_vector<double>();
  ++found_.checks;
  if (values.size() != expected.size()) {
    found_.faults.push_back(fmt::format("{} of {} devices, on {}: {} elements, not {}", what_, devices_.size(),
                                        to_string(device), values.size(), expected.size()));
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == expected[i] || (std::isnan(values[i]) && std::isnan(expected[i]))) continue;
    found_.faults.push_back(fmt::format("{} of {} devices, on {}: element {} is {:.9g}, not {:.9g}", what_,
                                        devices_.size(), to_string(device), i, values[i], expected[i]));
    return;
  }
}

std::vector<std::string> EngineCheck::join(const std::vector<Task>& tasks) {
  const auto errors = std::make_shared<std::vector<std::string>>(devices_.size());
  std::vector<std::function<void()>> works;
  for (std::size_t d = 0; d < devices_.size(); ++d)
    works.emplace_back([errors, d, device = devices_[d], tasks] { (*errors)[d] = joined(device, tasks); });
  run(std::move(works));
  for (const Task& task : tasks) check(task->finished(), "the task is not finished after all have joined it");
  return *errors;
}

void EngineCheck::join_well(const std::vector<Task>& tasks) {
  for (const std::string& error : join(tasks)) check(error.empty(), "failed: " + error);
}

void LaterEvent::happen() {
  const std::lock_guard lock(mutex_);
  happened_ = true;
  changed_.notify_all();
}

bool LaterEvent::ready() const {
  const std::lock_guard lock(mutex_);
  return happened_;
}

void LaterEvent::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return happened_; });
}

void join_when_ready(EngineCheck& check, const std::function<Task(Communicator&)>& call, LaterEvent& later,
                     const std::vector<Array>& inputs, const std::vector<std::vector<double>>& numbers) {
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (std::size_t member = 0; member < inputs.size(); ++member) {
      Array input = inputs[member];
      input.copy_from(array_of(numbers[member], DType::f32, input.device()));
      synchronize(input.device());
    }
    later.happen();
  });
  std::exception_ptr error;
  try {
    check.join_well({check.launch(call)});
  } catch (...) {
    error = std::current_exception();
  }
  writer.join();
  if (error) std::rethrow_exception(error);
}

std::vector<double> contribution(std::int64_t count, std::size_t device, bool exact) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const double whole = static_cast<double>((i * 7 + static_cast<std::int64_t>(device) * 5) % 23) - 11;
    values.push_back(exact ? whole
                           : static_cast<double>(static_cast<float>(
                                 std::sin(0.3 + static_cast<double>(i) + 1.7 * static_cast<double>(device)))));
  }
  return values;
}

double rounded(double value, DType dtype) {
  return Array::full({}, value, dtype, cpu()).cast(DType::f64).to_vector<double>()[0];
}

Array array_of(const std::vector<double>& values, DType dtype, Device device) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  const Array half = Array::from(values, shape, cpu()).cast(dtype).to(device);
  // Doubled and halved, which is exact: the last of it on the device's stream.
  const Array two = Array::full({}, 2.0, dtype, device);
  return apply(elementwise::Divide{}, apply(elementwise::Multiply{}, half, two), two);
}

Conformance check_communicator(const CommunicatorFactory& make, std::span<const Device> devices) {
  if (devices.size() < 2 || std::set<Device>(devices.begin(), devices.end()).size() != devices.size())
    throw Error("[check_communicator] two devices at least are needed, each once");
  Conformance found;
  found.left_out = {"compressed_all_reduce, abort, crew, several processes: the suite has no part for them",
                    "devices whose threads have left (AllReduceSlice::helps): the suite has no part for them",
                    "collectives of f16 and of integers: the suite has no part for them"};
  try {
    for (std::size_t count = 1; count <= devices.size(); ++count)
      for (const auto part : {check_reductions, check_wires, check_order, check_ready, check_switched_off,
                              check_regrouped, check_collectives, check_collective_ready, check_sparse}) {
        try {
          EngineCheck check(make, devices.first(count), found);
          try {
            part(check);
          } catch (const std::exception& error) {
            check.check(false, fmt::format("threw: {}", error.what()));
          }
        } catch (const std::exception& error) {
          found.faults.push_back(fmt::format("an engine for {} devices was not made: {}", count, error.what()));
        }
      }
  } catch (const Stuck& stuck) {
    found.faults.push_back(stuck.what);
    found.left_out.emplace_back("everything after what did not end");
  }
  return found;
}

}  // namespace tutti::testing
