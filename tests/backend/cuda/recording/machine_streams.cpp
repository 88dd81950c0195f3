// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/backend/cuda/recording/cuda_machine.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

namespace tutti::testing {

namespace {

// A handle is the address of what it names, so it is never used twice on one machine.
template <class Things, class Handle> auto* named_by(Things& things, Handle handle) {
  const auto found =
      std::ranges::find_if(things, [&](auto& each) { return static_cast<void*>(&each) == static_cast<void*>(handle); });
  return found == things.end() ? nullptr : &*found;
}

}  // namespace

std::string SimulatedStream::name() const { return fmt::format("stream {} of cuda:{}", number, device); }
std::string SimulatedGraph::name() const {
  return fmt::format("{} {} of cuda:{}", executable ? "executable graph" : "graph", number, device);
}
std::string SimulatedEvent::name() const { return fmt::format("event {} of cuda:{}", number, device); }

cudaStream_t CudaMachine::make_stream(int priority) {
  auto& made =
      streams.emplace_back(SimulatedStream{streams.size() + 1, thread().device, priority, {}, {}, {}, {}, {}, {}});
  return reinterpret_cast<cudaStream_t>(&made);
}

cudaEvent_t CudaMachine::make_event() {
  return reinterpret_cast<cudaEvent_t>(
      &events.emplace_back(SimulatedEvent{events.size() + 1, thread().device, {}, {}}));
}

SimulatedStream* CudaMachine::stream(const char* call, cudaStream_t handle) {
  SimulatedStream* found = named_by(streams, handle);
  if (found == nullptr)
    fault(fmt::format("{} on {}", call, handle == nullptr ? "the default stream" : "a stream that never was"));
  else if (found->destroyed)
    fault(fmt::format("{} on {}, which was destroyed", call, found->name()));
  return found != nullptr && !found->destroyed ? found : nullptr;
}

SimulatedEvent* CudaMachine::event(const char* call, cudaEvent_t handle) {
  SimulatedEvent* found = named_by(events, handle);
  if (found == nullptr)
    fault(fmt::format("{} of an event that never was", call));
  else if (found->destroyed)
    fault(fmt::format("{} of {}, which was destroyed", call, found->name()));
  return found != nullptr && !found->destroyed ? found : nullptr;
}

void CudaMachine::check_device(const char* call, const SimulatedStream& stream) {
  if (thread().device != stream.device)
    fault(fmt::format("{} on {} while cuda:{} is current", call, stream.name(), thread().device));
}

SimulatedGraph& CudaMachine::make_graph(int device) {
  return graphs.emplace_back(SimulatedGraph{graphs.size() + 1, device, {}, {}, {}});
}

SimulatedGraph* CudaMachine::graph(const char* call, void* handle, bool executable) {
  SimulatedGraph* found = named_by(graphs, handle);
  if (found == nullptr || found->executable != executable)
    fault(fmt::format("{} of a graph that never was", call));
  else if (found->destroyed)
    fault(fmt::format("{} of {}, which was destroyed", call, found->name()));
  else
    return found;
  return nullptr;
}

bool CudaMachine::refuses_capture(const char* call, int device, const SimulatedStream* only) {
  for (const SimulatedStream& each : streams)
    if (each.captured != nullptr && each.device == device && (only == nullptr || only == &each)) {
      fault(fmt::format("{} while {} is captured", call, each.name()));
      return true;
    }
  return false;
}

void CudaMachine::enqueue(Lock& lock, SimulatedStream& stream, QueuedWork work, const std::vector<MemoryUse>& uses) {
  if (stream.captured != nullptr) {
    if (work.reaches || work.awaits) fault(fmt::format("{} on {}, which is captured", work.name, stream.name()));
    stream.captured->pieces.push_back({std::move(work), uses});
    return;
  }
  stream.clock.join(host_);
  if (work.awaits) stream.clock.join(work.awaits->clock);
  stream.clock.tick(stream.number);
  for (const MemoryUse& each : uses) use(stream, work.name, each);
  if (work.reaches) work.reaches->clock = stream.clock;
  stream.queue.push_back(std::move(work));
  if (!options.deferred) drain(lock, stream);
}

bool CudaMachine::step(Lock& lock, SimulatedStream& stream, bool follow) {
  changed_.wait(lock, [&] { return !stream.running; });
  if (stream.queue.empty() || stream.hangs) return false;
  const std::shared_ptr<QueuePoint> awaited = stream.queue.front().awaits;
  if (awaited && !awaited->reached) {
    if (!follow) return false;
    reach(lock, awaited);
    return awaited->reached;  // else it is for another process to come
  }
  run(lock, stream);
  return true;
}

void CudaMachine::run(Lock& lock, SimulatedStream& stream) {
  QueuedWork work = std::move(stream.queue.front());
  stream.queue.pop_front();
  stream.running = true;
  if (work.run && !fails(stream, work.name)) {
    lock.unlock();  // a host function may wait for another thread
    work.run();
    lock.lock();
  }
  if (work.reaches) work.reaches->reached = true;
  stream.running = false;
  changed_.notify_all();
}

bool CudaMachine::fails(SimulatedStream& stream, const std::string& work) {
  if (!work_failure || work.find(work_failure->name) == std::string::npos) return false;
  errors_[stream.device] = {work_failure->error, work_failure->sticky};
  work_failure.reset();
  return true;
}

void CudaMachine::drain(Lock& lock, SimulatedStream& stream) {
  while (step(lock, stream, true)) {
  }
}

void CudaMachine::reach(Lock& lock, const std::shared_ptr<QueuePoint>& point) {
  while (!point->reached && step(lock, *point->stream, true)) {
  }
}

void CudaMachine::wait_for_others(Lock& lock, SimulatedStream& stream, const std::function<bool()>& done) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!options.deferred && !done() && std::ranges::none_of(streams, &SimulatedStream::hangs) &&
         std::chrono::steady_clock::now() < until) {
    changed_.wait_for(lock, std::chrono::milliseconds(1));
    drain(lock, stream);
  }
}

void CudaMachine::check_waited(const char* call, const SimulatedStream& stream, bool done) {
  if (!done && std::ranges::any_of(streams, &SimulatedStream::hangs))
    fault(fmt::format("{} waits for {}, which a stream that hangs holds up", call, stream.name()));
}

cudaError_t CudaMachine::asynchronous_error(int device) {
  DeviceError& found = errors_[device];
  return found.sticky ? found.error : std::exchange(found.error, cudaSuccess);
}

}  // namespace tutti::testing
