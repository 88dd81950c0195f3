// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/backend/stream.h>

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace tutti {

/// Lets one CUDA stream wait for events that are no CUDA events. The stream itself waits, for a number in pinned memory
/// to be reached; a thread waits for one event after the other and counts them there. No thread of the driver's is
/// held, on which the host functions of all streams follow each other: streams may wait for each other's work.
class HostWaits {
 public:
  /// `failed` hears of each event's error, on the thread, before the stream goes on.
  HostWaits(Device, cudaStream_t, std::function<void(std::exception_ptr)> failed);
  ~HostWaits();  ///< returns when all events are past, and the stream is behind them
  HostWaits(const HostWaits&) = delete;
  HostWaits& operator=(const HostWaits&) = delete;

  /// False where the device cannot wait for memory.
  bool usable() const noexcept { return usable_; }
  /// Holds what is queued later until after the event. Thread-safe; does not block.
  void hold(const Event&);

 private:
  struct FreePinned {
    void operator()(std::uint32_t*) const noexcept;
  };
  bool queue_wait(std::uint32_t value);
  void run();

  Device device_;
  cudaStream_t stream_;
  std::function<void(std::exception_ptr)> failed_;
  std::unique_ptr<std::uint32_t, FreePinned> passed_;  // how many events are past
  bool usable_ = false;

  std::mutex holding_;  // the stream waits for numbers in their order
  std::uint32_t held_ = 0;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Event> events_;
  bool stopping_ = false;
  std::thread thread_;  // none before the first event
};

}  // namespace tutti
