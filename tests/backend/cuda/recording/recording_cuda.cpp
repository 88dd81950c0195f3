// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>

#include <tutti/tests/backend/cuda/recording/cuda_machine.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace tutti::testing {

using Lock = CudaMachine::Lock;

RecordingCuda::RecordingCuda(MachineOptions options) : machine_(std::make_unique<CudaMachine>(options)) {
  if (CudaMachine::current() != nullptr) throw std::logic_error("there is a machine with CUDA devices already");
  CudaMachine::make_current(machine_.get());
}

RecordingCuda::~RecordingCuda() {
  CudaMachine::make_current(nullptr);
  for (const auto& found : {faults(), leaks()})
    for (const std::string& text : found) FAIL_CHECK(text);
}

std::vector<RecordedCall> RecordingCuda::calls() const {
  const Lock lock(machine_->mutex);
  return machine_->calls;
}

std::size_t RecordingCuda::count(std::string_view name) const {
  const Lock lock(machine_->mutex);
  return static_cast<std::size_t>(std::ranges::count_if(
      machine_->calls, [&](const RecordedCall& call) { return name == "*" || call.name == name; }));
}

std::size_t RecordingCuda::alive(std::string_view what) const {
  const Lock lock(machine_->mutex);
  std::size_t count = 0;
  if (what == "stream")
    for (const auto& each : machine_->streams) count += each.destroyed ? 0 : 1;
  else if (what == "event")
    for (const auto& each : machine_->events) count += each.destroyed ? 0 : 1;
  else
    for (const auto& each : machine_->allocations)
      count += !each.freed && each.pinned() == (what == "pinned memory") ? 1 : 0;
  return count;
}

int RecordingCuda::priority(cudaStream_t stream) const {
  const Lock lock(machine_->mutex);
  const SimulatedStream* found = machine_->stream("priority", stream);
  return found == nullptr ? 0 : found->priority;
}

bool RecordingCuda::has_context(int device) const {
  const Lock lock(machine_->mutex);
  return machine_->contexts.contains(device);
}

std::vector<std::string> RecordingCuda::faults() const {
  const Lock lock(machine_->mutex);
  return machine_->faults;
}

std::vector<std::string> RecordingCuda::take_faults() {
  const Lock lock(machine_->mutex);
  return std::exchange(machine_->faults, {});
}

std::vector<std::string> RecordingCuda::leaks() const {
  const Lock lock(machine_->mutex);
  return machine_->leaks();
}

std::size_t RecordingCuda::queued(cudaStream_t stream) const {
  const Lock lock(machine_->mutex);
  const SimulatedStream* found = machine_->stream("queued", stream);
  return found == nullptr ? 0 : found->queue.size();
}

bool RecordingCuda::advance(cudaStream_t stream) {
  Lock lock(machine_->mutex);
  SimulatedStream* found = machine_->stream("advance", stream);
  return found != nullptr && machine_->step(lock, *found, false);
}

void RecordingCuda::note_use(cudaStream_t stream, const void* data, std::size_t bytes, bool write) {
  Lock lock(machine_->mutex);
  if (SimulatedStream* found = machine_->stream("note_use", stream))
    machine_->enqueue(lock, *found, {"work of the test", [] {}, {}, {}}, {{data, bytes, write}});
}

void RecordingCuda::hang(cudaStream_t stream) {
  const Lock lock(machine_->mutex);
  if (SimulatedStream* found = machine_->stream("hang", stream)) found->hangs = true;
}

void RecordingCuda::resume(cudaStream_t stream) {
  Lock lock(machine_->mutex);
  if (SimulatedStream* found = machine_->stream("resume", stream)) found->hangs = false;
  if (machine_->options.deferred) return;
  for (SimulatedStream& each : machine_->streams) machine_->drain(lock, each);
}

void RecordingCuda::fail_call(std::string_view name, std::size_t nth, cudaError_t error) {
  const Lock lock(machine_->mutex);
  machine_->call_failure = {std::string(name), nth, error};
}

bool RecordingCuda::failed() const {
  const Lock lock(machine_->mutex);
  return !machine_->call_failure.has_value();
}

void RecordingCuda::fail_work(std::string_view name, cudaError_t error, bool sticky) {
  const Lock lock(machine_->mutex);
  machine_->work_failure = {std::string(name), error, sticky};
}

void RecordingCuda::declare_kernel(std::string_view name, std::vector<KernelPointer> pointers) {
  const Lock lock(machine_->mutex);
  machine_->declared.push_back({std::string(name), std::move(pointers), {}});
}

void RecordingCuda::declare_kernel(std::string_view name,
                                   std::function<std::vector<KernelUse>(const KernelLaunch&)> uses) {
  const Lock lock(machine_->mutex);
  machine_->declared.push_back({std::string(name), {}, std::move(uses)});
}

void RecordingCuda::on_kernel(std::string_view name,
                              std::function<std::function<void()>(const KernelLaunch&)> prepare) {
  const Lock lock(machine_->mutex);
  machine_->bodies.push_back({std::string(name), std::move(prepare)});
}

std::vector<std::string> RecordingCuda::kernels() const {
  const Lock lock(machine_->mutex);
  return machine_->kernels;
}

}  // namespace tutti::testing
