// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/runtime/cpu_stream.h>

#include <tutti/backend/cpu/runtime/spin.h>
#include <tutti/backend/cpu/runtime/worker_process.h>
#include <tutti/backend/process/start_thread.h>
#include <tutti/backend/raise.h>

namespace tutti {
namespace {

/// The stream whose worker the thread is; null: it is none.
constinit thread_local const CpuStream* own_stream = nullptr;

/// What record() returns when nothing is pending: shared, so that inline recording allocates nothing.
const Event& completed_event() {
  static const Event& event = *new Event(std::make_shared<CpuEvent>(true));  // static arrays may outlive statics here
  return event;
}

/// True for an event that needs no waiting: done, without an error to deliver.
bool is_past(const Event& event) {
  if (!event.ready()) return false;
  try {
    event.synchronize();
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

struct CpuStream::Wait final : Work {
  explicit Wait(Event awaited) : event_(std::move(awaited)) {}
  void run() override { event_.synchronize(); }
  Event event_;
};

struct CpuStream::Record final : Work {
  explicit Record(std::shared_ptr<CpuEvent> recorded) : event_(std::move(recorded)) {}
  void run() override {}
  std::shared_ptr<CpuEvent> event() const noexcept override { return event_; }
  std::shared_ptr<CpuEvent> event_;
};

CpuStream::CpuStream(Device device, Mode mode) : device_(device), inline_(mode == Mode::run_inline) {
  (void)worker_process();
}

CpuStream::~CpuStream() {
  if (worker_process().here())
    stop();
  else
    new std::thread(std::move(worker_));  // destroyed, it would end the process
}

void CpuStream::raise_out_of_memory(std::string_view operation) {
  raise<OutOfMemoryError>("[{}] the machine has no memory left for temporary buffers", operation);
}

Event CpuStream::record() {
  if (inline_.load(std::memory_order_acquire)) {
    if (!has_waits_.load(std::memory_order_acquire)) return completed_event();
    const std::lock_guard lock(waits_mutex_);
    if (waits_.empty()) return completed_event();
    return Event(std::make_shared<JointEvent>(std::vector<Event>(waits_.begin(), waits_.end())));
  }
  auto state = std::make_shared<CpuEvent>();
  enqueue(std::make_unique<Record>(state));
  return Event(std::move(state));
}

void CpuStream::wait(const Event& event) {
  if (!event.recorded()) raise("[stream] {} was told to wait for an event that was never recorded", to_string(device_));
  if (is_past(event)) return;
  if (!inline_.load(std::memory_order_acquire)) {
    enqueue(std::make_unique<Wait>(event));
    return;
  }
  const std::lock_guard lock(waits_mutex_);
  waits_.push_back(event);
  has_waits_.store(true, std::memory_order_release);
}

void CpuStream::honour_waits() {
  const std::lock_guard honouring(honouring_);
  for (;;) {
    Event event;
    {
      const std::lock_guard lock(waits_mutex_);
      if (waits_.empty()) {
        has_waits_.store(false, std::memory_order_release);
        return;
      }
      event = waits_.front();
    }
    // It stays in the list meanwhile: an event recorded now is behind it.
    std::exception_ptr error;
    try {
      event.synchronize();
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(waits_mutex_);
      waits_.pop_front();
    }
    if (error != nullptr) std::rethrow_exception(error);
  }
}

void CpuStream::synchronize() {
  if (inline_.load(std::memory_order_acquire)) {
    if (has_waits_.load(std::memory_order_acquire)) honour_waits();
    return;
  }
  const auto state = std::make_shared<CpuEvent>();
  enqueue(std::make_unique<Record>(state));
  try {
    state->synchronize();
  } catch (...) {
    // Whoever waits behind the failure hears of it; work queued from now on runs again.
    const std::lock_guard lock(error_mutex_);
    if (error_ == std::current_exception()) error_ = nullptr;
    throw;
  }
}

void CpuStream::enqueue(std::unique_ptr<Work> work) {
  if (!worker_process().here())
    raise<DeviceError>("[stream] asynchronous {} {}", to_string(device_), worker_process().elsewhere_text());
  // In a process that ends, new work runs here, after what was queued. That waits for nothing that is not queued yet:
  // an event is recorded before it is waited for. Workers queue on: one that waits here might keep another from its
  // end.
  const auto queue = [&] {
    const std::lock_guard lock(queue_mutex_);
    if (inline_.load(std::memory_order_relaxed) || (stopping_ && own_stream == nullptr)) return false;
    if (!worker_.joinable()) worker_ = start_thread<DeviceError>("stream", [this] { work_loop(); });
    queue_.push_back(std::move(work));
    return true;
  };
  if (!queue()) {
    inline_.wait(false, std::memory_order_acquire);
    run_one(std::move(work));
    return;
  }
  queued_.fetch_add(1, std::memory_order_release);
  queued_.notify_one();
}

std::unique_ptr<CpuStream::Work> CpuStream::next_work() {
  for (;;) {
    const std::uint32_t seen = queued_.load(std::memory_order_acquire);
    {
      const std::lock_guard lock(queue_mutex_);
      if (!queue_.empty()) {
        auto work = std::move(queue_.front());
        queue_.pop_front();
        return work;
      }
      if (stopping_) {
        end();
        return nullptr;
      }
    }
    if (!spin_until([&] { return queued_.load(std::memory_order_acquire) != seen; }))
      queued_.wait(seen, std::memory_order_acquire);
  }
}

void CpuStream::end() noexcept {
  inline_.store(true, std::memory_order_release);
  inline_.notify_all();
}

void CpuStream::work_loop() {
  own_stream = this;
  while (auto work = next_work()) run_one(std::move(work));
}

void CpuStream::run_one(std::unique_ptr<Work> work) noexcept {
  std::exception_ptr error;
  {
    const std::lock_guard lock(error_mutex_);
    error = error_;
  }
  if (const auto event = work->event()) {
    event->complete(std::move(error));
    return;
  }
  if (error != nullptr) return;
  try {
    work->run();
  } catch (...) {
    error = std::current_exception();
  }
  if (error != nullptr) {
    const std::lock_guard lock(error_mutex_);
    error_ = std::move(error);
  }
}

bool CpuStream::runs_here() const noexcept { return own_stream == this; }

void CpuStream::stop() noexcept {
  {
    const std::lock_guard lock(queue_mutex_);
    stopping_ = true;
    if (!worker_.joinable()) return end();
  }
  if (runs_here()) return work_loop();  // work that ends the process
  queued_.fetch_add(1, std::memory_order_release);
  queued_.notify_one();
  worker_.join();
}

}  // namespace tutti
