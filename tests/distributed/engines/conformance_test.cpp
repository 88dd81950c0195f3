// SPDX-License-Identifier: Apache-2.0
// The suite for engines passes those that there are, and can fail: it finds each fault of an engine that has one.
#include <tutti/testing/conformance.h>
#include <tutti/tests/distributed/engines/two_halves.h>
#include <tutti/tests/sanitizers.h>
#include <tutti/tests/test_devices.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/collectives/engine_task.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

enum class Fault : std::uint8_t {
  none,
  undivided,         // does not divide
  divided_twice,     // divides by the denominator and by the scale of the wire where there is none
  absent_counts,     // adds what does not contribute
  other_tree,        // sums in the order of places, not of numbers
  native_wire,       // sends f32 over a wire of 16 bits
  last_element,      // one element is wrong
  last_slice,        // leaves out the last slice
  never_off,         // reduces while it is switched off
  dirty_memory,      // memory for gradients is not zeros
  mean_is_sum,       // of a collective
  lost_part,         // leaves out the last part of a collective
  sparse_undivided,  // does not divide sparse gradients
  sparse_never_off,  // reduces them while switched off
  early,             // does not wait for what makes the inputs
  throws,            // has no f64
  other_order,       // sums a collective in another tree
  undivided_sum,     // does not divide a collective's sum
  inputs_changed,    // writes to a collective's inputs
  sparse_nowhere,    // gives rows that the table has not
  no_task,           // gives no task
  early_collective,  // does not wait for what makes a collective's inputs
  no_sparse,         // reduces no sparse gradients, which is no fault
};

/// A local engine with one fault.
class FaultyEngine final : public Communicator {
 public:
  explicit FaultyEngine(Fault fault) : fault_(fault) {}

  std::shared_ptr<CollectiveTask> all_reduce(AllReduceRequest request) override {
    if (!enabled() && fault_ != Fault::never_off) return std::make_shared<FinishedTask>();
    const DType dtype = request.slices.front().gradient.dtype();
    switch (fault_) {
      case Fault::undivided: request.denominator = 1.0; break;
      case Fault::divided_twice: request.denominator *= request.denominator; break;
      case Fault::absent_counts:
        for (AllReduceSlice& slice : request.slices) slice.contributes = true;
        break;
      case Fault::other_tree: request.numbers.clear(); break;
      case Fault::native_wire:
        request.wire = GradientWire::native;
        request.wire_scale = 1.0;
        break;
      case Fault::last_slice:
        if (request.slices.size() > 2) {
          request.numbers.clear();
          request.slices.pop_back();
        }
        break;
      case Fault::early: request.ready.clear(); break;
      case Fault::no_task: return nullptr;
      case Fault::throws:
        if (dtype == DType::f64) throw SyncError("no f64 here");
        break;
      default: break;
    }
    const Array last = request.slices.back().gradient;
    const auto task = inner_.all_reduce(std::move(request));
    if (fault_ == Fault::last_element && last.size() > 0) {
      task->wait();
      Array element = last.slice(0, last.size() - 1, last.size());
      element.fill(1e4);
    }
    return task;
  }
  bool reduces_sparse() const noexcept override { return fault_ != Fault::no_sparse; }
  std::shared_ptr<CollectiveTask> reduce_sparse(SparseReduction request) override {
    if (!enabled() && fault_ != Fault::sparse_never_off) return std::make_shared<FinishedTask>();
    if (fault_ == Fault::sparse_undivided) request.denominator = 1.0;
    const auto result = request.result;
    const auto task = inner_.reduce_sparse(std::move(request));
    if (fault_ == Fault::sparse_nowhere) {
      task->wait();
      if (!task->error()) result->gradients[0].front().indices.fill(1'000'000);
    }
    return task;
  }
  std::shared_ptr<CollectiveTask> collective(CollectiveRequest request) override {
    if (fault_ == Fault::mean_is_sum) request.operation = CollectiveOperation::sum;
    if (fault_ == Fault::lost_part && !request.parts.empty()) request.parts.pop_back();
    if (fault_ == Fault::early_collective) request.ready.clear();
    if (fault_ == Fault::undivided_sum) request.denominator = 1.0;
    if (fault_ == Fault::other_order)
      for (CollectivePart& part : request.parts)
        for (std::size_t i = 0; i < part.sources.size(); ++i) part.sources[i].number = i == 0 ? 0 : i + 1;
    const std::vector<Array> inputs = request.inputs;
    const auto task = inner_.collective(std::move(request));
    if (fault_ == Fault::inputs_changed) {
      task->wait();
      for (Array input : inputs) input.fill(99.0);
    }
    return task;
  }
  Array gradient_memory(std::int64_t elements, DType dtype, Device device) override {
    return Array::full({elements}, fault_ == Fault::dirty_memory ? 1.0 : 0.0, dtype, device);
  }
  Crew& crew() override { return inner_.crew(); }

 private:
  Fault fault_;
  LocalCommunicator inner_;
};

std::string faults_of(const Conformance& found) {
  std::string text;
  for (const std::string& fault : found.faults) text += fault + "\n";
  return text;
}

Conformance checked(Fault fault) {
  return check_communicator([fault](std::span<const Device>) { return std::make_unique<FaultyEngine>(fault); },
                            test_devices(4));
}

}  // namespace

// What is made of others rounds once more over a wire, and of three devices sums in another tree.
TEST_CASE("conformance: the local engine conforms, and one made of it where it says that it does") {
  const Conformance local = check_communicator(plain, test_devices(kIsSanitized ? 3 : 5));
  CHECK(faults_of(local) == "");
  CHECK(local.checks > 1000);
  if (kIsSanitized) return;  // the other one is checked without
  for (const std::string& fault : check_communicator(halves_of_halves, test_devices(4)).faults)
    CHECK_MESSAGE((fault.find(" over ") != std::string::npos || fault.find("between 3 members") != std::string::npos),
                  fault);
}

// Not under sanitizers: some of the faults are races, and reports of what was found take long there.
TEST_CASE("conformance: each fault of an engine is found, and told with what was asked for" *
          doctest::skip(kIsSanitized)) {
  CHECK(faults_of(checked(Fault::none)) == "");
  for (const auto& [fault, words] : std::vector<std::pair<Fault, std::string>>{
           {Fault::undivided, "all_reduce of 1 f32 / 4 of 1 devices, on cpu:0: element 0 is"},
           {Fault::divided_twice, "/ 4 of 2 devices"},
           {Fault::absent_counts, "without 3 of 4 devices, on cpu:0: element 0 is nan"},
           {Fault::other_tree, "between 3 members of 4 devices"},
           {Fault::native_wire, "over bf16 times 1 of"},
           {Fault::last_element, "element 999 is 1"},
           {Fault::last_slice, "of 3 devices, on cpu:2"},
           {Fault::never_off, "all_reduce while switched off of 2 devices"},
           {Fault::dirty_memory, "gradient_memory of 1 devices, on cpu:0: element 0 is 1, not 0"},
           {Fault::mean_is_sum, "all_reduce mean [60] f32 of 2 devices"},
           {Fault::lost_part, "all_reduce sum [60] f32 of 1 devices"},
           {Fault::sparse_undivided, "reduce_sparse of 1 devices: cpu:0 has other rows"},
           {Fault::sparse_never_off, "reduce_sparse while switched off of 1 devices: there is a result"},
           {Fault::early, "all_reduce of what is ready later of 1 devices, on cpu:0: element 0 is"},
           {Fault::early_collective, "collective of what is ready later of 1 devices, on cpu:0: element 0 is"},
           {Fault::other_order, "all_reduce sum [60] f32 of 3 devices"},
           {Fault::undivided_sum, "all_reduce sum [60] f32 of 1 devices"},
           {Fault::inputs_changed, "all_reduce sum [60] f32 of 1 devices, on cpu:0: element 0 is 99"},
           {Fault::sparse_nowhere, "reduce_sparse of 1 devices: cpu:0 has rows that the table has not"},
           {Fault::no_task, "of 1 devices: threw: the engine gave no task"},
           {Fault::throws, "of 1 devices: threw: no f64 here"}}) {
    const std::string text = faults_of(checked(fault));
    CHECK_MESSAGE(text.find(words) != std::string::npos, words, " is not in:\n", text.substr(0, 2000));
  }
}

TEST_CASE("conformance: an engine that reduces no sparse gradients is told as not checked for them") {
  const std::string sparse = "reduce_sparse: the engine has none (reduces_sparse)";
  const Conformance without = checked(Fault::no_sparse);
  CHECK(faults_of(without) == "");
  CHECK(std::ranges::count(without.left_out, sparse) == 1);
  CHECK(std::ranges::count(checked(Fault::none).left_out, sparse) == 0);
}

TEST_CASE("conformance: a factory that fails, and devices that make no group, are told") {
  const Conformance found = check_communicator(
      [](std::span<const Device> devices) -> std::unique_ptr<Communicator> {
        if (devices.size() == 1) throw SyncError("too few");
        return devices.size() == 2 ? nullptr : plain(devices);
      },
      test_devices(3));
  const std::string text = faults_of(found);
  CHECK(text.find("an engine for 1 devices was not made: too few") != std::string::npos);
  CHECK(text.find("an engine for 2 devices was not made: the factory gave no engine") != std::string::npos);
  CHECK(text.find("3 devices") == std::string::npos);
  for (const std::vector<Device>& devices : {std::vector<Device>{}, {cpu(0)}, {cpu(0), cpu(1), cpu(0)}})
    CHECK_THROWS_AS(check_communicator(plain, devices), Error);
}
