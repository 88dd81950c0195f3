// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/runtime/cuda_stream.h>

#include <tutti/backend/process/environment.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace tutti {

using cuda_runtime::CurrentDevice;
using cuda_runtime::settled;

namespace {

constexpr std::size_t kRemembered = 64;  // operations that an error names

}  // namespace

CudaStream::CudaStream(Device device, Priority priority)
    : device_(device), synchronous_(environment_switch("TUTTI_CUDA_SYNC")) {
  const CurrentDevice current(device, "stream");
  int least = 0;
  int greatest = 0;
  TUTTI_CUDA(device, "stream", cudaDeviceGetStreamPriorityRange(&least, &greatest));
  TUTTI_CUDA(
      device, "stream",
      cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority == Priority::high ? greatest : least));
}

CudaStream::~CudaStream() {
  host_waits_ = nullptr;
  for (const cudaEvent_t event : spare_events_) (void)settled(cudaEventDestroy(event));
  (void)settled(cudaStreamDestroy(stream_));
}

void CudaStream::launched(std::string_view operation) {
  {
    const std::lock_guard lock(mutex_);
    in_flight_.push_back(operation);
    ++launched_;
    if (in_flight_.size() > kRemembered) in_flight_.pop_front();
  }
  TUTTI_CUDA(device_, operation, cudaGetLastError());
  if (synchronous_) synchronize();
}

std::string CudaStream::in_flight() const {
  const std::lock_guard lock(mutex_);
  if (in_flight_.empty()) return "nothing of this stream";
  const std::uint64_t others = launched_ - finished_ - in_flight_.size();
  return fmt::format("{}{}", others > 0 ? fmt::format("{} others, ", others) : "", fmt::join(in_flight_, ", "));
}

void CudaStream::raise_asynchronous(cudaError_t error, const char* call) {
  (void)settled(error);
  const std::string operations = in_flight();
  {
    const std::lock_guard lock(mutex_);
    in_flight_.clear();
    finished_ = launched_;
  }
  raise<DeviceError>("[{}] {}: {} ({}); in flight since the last synchronisation: {}", call, to_string(device_),
                     cudaGetErrorString(error), cudaGetErrorName(error), operations);
}

cudaEvent_t CudaStream::take_event() {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_events_.empty()) {
      const cudaEvent_t event = spare_events_.back();
      spare_events_.pop_back();
      return event;
    }
  }
  const CurrentDevice current(device_, "record");
  cudaEvent_t event = nullptr;
  TUTTI_CUDA(device_, "record", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

void CudaStream::give_event(cudaEvent_t event) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    spare_events_.push_back(event);
  } catch (...) {  // no memory to remember it
    (void)settled(cudaEventDestroy(event));
  }
}

Event CudaStream::record() {
  auto state = std::make_shared<CudaEvent>(*this, take_event());
  const CurrentDevice current(device_, "record");
  TUTTI_CUDA(device_, "record", cudaEventRecord(state->handle(), stream_));
  return Event(std::move(state));
}

void CudaStream::wait(const Event& event) {
  if (!event.recorded()) raise("[stream] {} was told to wait for an event that was never recorded", to_string(device_));
  const CurrentDevice current(device_, "wait");
  if (const auto* recorded = dynamic_cast<const CudaEvent*>(event.state().get())) {
    TUTTI_CUDA(device_, "wait", cudaStreamWaitEvent(stream_, recorded->handle(), 0));
    return;
  }
  if (event.ready()) return event.synchronize();  // rethrows its stream's error
  if (captured()) return event.synchronize();     // a graph is launched later: the event is past then
  if (HostWaits& waits = host_waits(); waits.usable()) return waits.hold(event);
  event.synchronize();  // the driver cannot make a stream wait for a number
}

HostWaits& CudaStream::host_waits() {
  std::call_once(host_waits_made_, [this] {
    host_waits_ = std::make_unique<HostWaits>(
        device_, stream_, [this](std::exception_ptr error) { note_awaited_error(std::move(error)); });
  });
  return *host_waits_;
}

bool CudaStream::captured() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  TUTTI_CUDA(device_, "wait", cudaStreamIsCapturing(stream_, &status));
  return status != cudaStreamCaptureStatusNone;
}

void CudaStream::note_awaited_error(std::exception_ptr error) noexcept {
  const std::lock_guard lock(mutex_);
  if (awaited_error_ == nullptr) awaited_error_ = std::move(error);  // the first is told
}

void CudaStream::throw_awaited_error() {
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    error = std::exchange(awaited_error_, nullptr);
  }
  if (error) std::rethrow_exception(error);
}

void CudaStream::synchronize() {
  const CurrentDevice current(device_, "synchronize");
  std::uint64_t finished = 0;
  {
    const std::lock_guard lock(mutex_);
    finished = launched_;
  }
  if (const cudaError_t error = cudaStreamSynchronize(stream_); error != cudaSuccess)
    raise_asynchronous(error, "synchronize");
  {
    const std::lock_guard lock(mutex_);  // what others have launched meanwhile stays
    finished_ = std::max(finished_, finished);
    while (in_flight_.size() > launched_ - finished_) in_flight_.pop_front();
  }
  throw_awaited_error();
  if (after_waiting_) after_waiting_();
}

bool CudaEvent::ready() const { return settled(cudaEventQuery(event_)) != cudaErrorNotReady; }

// An error of the device itself comes again with every call.
void CudaEvent::wait() noexcept { (void)settled(cudaEventSynchronize(event_)); }

void CudaEvent::synchronize() {
  if (const cudaError_t error = cudaEventSynchronize(event_); error != cudaSuccess)
    stream_.raise_asynchronous(error, "event");
  stream_.throw_awaited_error();
  if (stream_.after_waiting_) stream_.after_waiting_();
}

}  // namespace tutti
