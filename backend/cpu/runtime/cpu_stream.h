// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cpu/runtime/cpu_event.h>
#include <tutti/backend/stream.h>

#include <atomic>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace tutti {

/// A CPU device's queue of work.
///
/// Inline (the default): work runs at the call site, on the calling thread, and throws there. `wait` is remembered and
/// honoured by the next launch or synchronize. Host threads that share a stream order their work themselves.
///
/// Worker (`TUTTI_CPU_ASYNC=1`): work runs in order on one thread, started with the first launch. After an error the
/// work behind it is skipped, and events recorded behind it carry the error, until `synchronize` rethrows it. What a
/// piece of work holds is destroyed before the next piece starts, so an event also says that memory was given back.
class CpuStream final : public Stream {
 public:
  enum class Mode : std::uint8_t { run_inline, worker };

  CpuStream(Device, Mode);
  ~CpuStream() override;
  CpuStream(const CpuStream&) = delete;
  CpuStream& operator=(const CpuStream&) = delete;

  /// Runs `work(arguments...)` in order. Inline nothing is copied or allocated; a worker gets copies of all of it, so
  /// that arrays among the arguments keep their storage until the work has run. `operation` names it in errors and must
  /// outlive the work: a literal.
  template <class F, class... Arguments>
  void launch(std::string_view operation, F&& work, const Arguments&... arguments) {
    if (inline_.load(std::memory_order_acquire)) {
      if (has_waits_.load(std::memory_order_acquire)) honour_waits();
      run(operation, work, arguments...);
      return;
    }
    enqueue(std::make_unique<Launch<std::decay_t<F>, Arguments...>>(operation, std::forward<F>(work), arguments...));
  }

  bool runs_inline() const noexcept { return inline_.load(std::memory_order_acquire); }
  Device device() const noexcept override { return device_; }
  Event record() override;
  void wait(const Event&) override;
  void synchronize() override;

  /// Runs what is queued, ends the worker and goes on inline: what the backend does when the process ends. Other
  /// threads may launch work meanwhile: they wait until what was queued has run, which must not wait for them.
  void stop() noexcept;
  /// True on the stream's worker.
  bool runs_here() const noexcept;

 private:
  struct Work {
    virtual ~Work() = default;
    virtual void run() = 0;
    virtual std::shared_ptr<CpuEvent> event() const noexcept { return nullptr; }  // set: completed instead of run
  };
  template <class F, class... Arguments> struct Launch final : Work {
    Launch(std::string_view name, F callable, const Arguments&... values)
        : operation(name), work(std::move(callable)), arguments(values...) {}
    void run() override {
      std::apply([this](const Arguments&... values) { CpuStream::run(operation, work, values...); }, arguments);
    }
    std::string_view operation;
    F work;
    std::tuple<Arguments...> arguments;
  };
  struct Wait;
  struct Record;

  template <class F, class... Arguments>
  static void run(std::string_view operation, F& work, const Arguments&... arguments) {
    try {
      work(arguments...);
    } catch (const std::bad_alloc&) {
      raise_out_of_memory(operation);
    }
  }
  [[noreturn]] static void raise_out_of_memory(std::string_view operation);

  void honour_waits();
  void enqueue(std::unique_ptr<Work>);
  std::unique_ptr<Work> next_work();
  void end() noexcept;
  void work_loop();
  void run_one(std::unique_ptr<Work>) noexcept;

  Device device_;
  std::atomic<bool> inline_;

  // Inline mode.
  std::atomic<bool> has_waits_{false};
  std::mutex honouring_;    // held while waiting for them, so that a second launch does not overtake
  std::mutex waits_mutex_;  // guards waits_ only, so that wait() never blocks
  std::deque<Event> waits_;

  // Worker mode.
  std::mutex queue_mutex_;  // guards queue_, worker_, stopping_
  std::deque<std::unique_ptr<Work>> queue_;
  std::thread worker_;
  bool stopping_ = false;
  std::atomic<std::uint32_t> queued_{0};  // counts what was ever queued; the worker sleeps on it
  std::mutex error_mutex_;                // guards error_
  std::exception_ptr error_;
};

}  // namespace tutti
