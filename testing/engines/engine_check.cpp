// SPDX-License-Identifier: Apache-2.0
#include <tutti/testing/engines/engine_check.h>

#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <future>
#include <thread>
#include <utility>

namespace tutti::testing {

namespace {

constexpr std::chrono::seconds kPatience{30};

/// Joins one device with all of them; what was wrong.
std::string joined(Device device, const std::vector<std::shared_ptr<CollectiveTask>>& tasks) {
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
    : engine_(make(devices)), devices_(devices.begin(), devices.end()), found_(found) {}

EngineCheck::~EngineCheck() {
  if (is_stuck_) (void)engine_.release();  // its task may use it still
}

void EngineCheck::check(bool right, std::string_view fault) {
  ++found_.checks;
  if (!right) found_.faults.push_back(fmt::format("{} of {} devices: {}", what_, devices_.size(), fault));
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

std::vector<std::string> EngineCheck::join(const std::vector<std::shared_ptr<CollectiveTask>>& tasks) {
  std::vector<std::future<std::string>> joining;
  for (const Device device : devices_) {
    std::packaged_task<std::string()> work([device, tasks] { return joined(device, tasks); });
    joining.push_back(work.get_future());
    std::thread(std::move(work)).detach();  // so that one which does not end holds up nobody
  }
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::vector<std::string> errors;
  for (auto& each : joining) {
    if (each.wait_until(deadline) != std::future_status::ready) {
      is_stuck_ = true;
      throw Stuck{
          fmt::format("{} of {} devices: has not ended within {} s", what_, devices_.size(), kPatience.count())};
    }
    errors.push_back(each.get());
  }
  for (const auto& task : tasks) check(task->finished(), "the task is not finished after all have joined it");
  return errors;
}

void EngineCheck::join_well(const std::vector<std::shared_ptr<CollectiveTask>>& tasks) {
  for (const std::string& error : join(tasks)) check(error.empty(), "failed: " + error);
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
  Conformance found;
  try {
    for (std::size_t count = 1; count <= devices.size(); ++count)
      for (const auto part : {check_reductions, check_wires, check_order, check_switched_off, check_regrouped,
                              check_collectives, check_sparse}) {
        EngineCheck check(make, devices.first(count), found);
        try {
          part(check);
        } catch (const std::exception& error) {
          check.check(false, fmt::format("threw: {}", error.what()));
        }
      }
  } catch (const Stuck& stuck) {
    found.faults.push_back(stuck.what);
  }
  return found;
}

}  // namespace tutti::testing
