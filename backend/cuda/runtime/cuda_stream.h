// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/runtime/cuda_check.h>
#include <tutti/backend/cuda/runtime/host_waits.h>
#include <tutti/backend/stream.h>

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

/// A stream of a CUDA device. What a kernel does wrong is found out later: the next synchronisation throws and names
/// all operations since the last clean one. With TUTTI_CUDA_SYNC=1 each launch is waited for, so that the one is named.
class CudaStream final : public Stream {
 public:
  enum class Priority : std::uint8_t { normal, high };

  CudaStream(Device, Priority);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  /// Calls `work(cudaStream_t)` with the device current and checks what it launched. `operation` must outlive the
  /// stream: a literal.
  template <class F> void launch(std::string_view operation, F&& work) {
    const cuda_runtime::CurrentDevice current(device_, operation);
    work(stream_);
    launched(operation);
  }

  Device device() const noexcept override { return device_; }
  Event record() override;
  /// Another CUDA device's event orders the stream; any other kind's holds it until that event is past.
  void wait(const Event&) override;
  void synchronize() override;
  cudaStream_t handle() const noexcept { return stream_; }
  bool waits_for_each() const noexcept { return synchronous_; }  ///< TUTTI_CUDA_SYNC=1
  /// The operations launched since the last clean synchronisation, the last ones by name; for errors.
  std::string in_flight() const;
  /// Is called whenever the host has waited for this stream or an event of it, and may throw. Set before first use.
  void after_waiting(std::function<void()> check) { after_waiting_ = std::move(check); }

 private:
  friend class CudaEvent;

  HostWaits& host_waits();
  bool captured() const;
  void note_awaited_error(std::exception_ptr) noexcept;
  void launched(std::string_view operation);
  void throw_awaited_error();
  [[noreturn]] void raise_asynchronous(cudaError_t, const char* call);
  cudaEvent_t take_event();
  void give_event(cudaEvent_t) noexcept;

  Device device_;
  bool synchronous_;
  cudaStream_t stream_ = nullptr;
  std::function<void()> after_waiting_;

  mutable std::mutex mutex_;                // guards what follows: any thread may launch
  std::deque<std::string_view> in_flight_;  // names of the last few launches since the last clean synchronisation
  std::uint64_t launched_ = 0;              // operations ever
  std::uint64_t finished_ = 0;              // those of them that a clean synchronisation has seen
  std::vector<cudaEvent_t> spare_events_;
  std::exception_ptr awaited_error_;  // error of an event of another kind: thrown to who next waits for this stream

  std::once_flag host_waits_made_;  // set with the first event of another kind
  std::unique_ptr<HostWaits> host_waits_;
};

/// A point in a CUDA stream. The stream outlives it.
class CudaEvent final : public EventState {
 public:
  CudaEvent(CudaStream& stream, cudaEvent_t event) : stream_(stream), event_(event) {}
  ~CudaEvent() override { stream_.give_event(event_); }

  bool ready() const override;
  void synchronize() override;
  void wait() noexcept override;
  cudaEvent_t handle() const noexcept { return event_; }
  Device device() const noexcept { return stream_.device(); }

 private:
  CudaStream& stream_;
  cudaEvent_t event_;
};

}  // namespace tutti
