// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/log.h>

#include <tutti/backend/error.h>

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace tutti {

namespace {

std::atomic<bool> sink_is_set{false};
static_assert(std::atomic<bool>::is_always_lock_free);

/// A program's sink, and how many threads are within it.
struct Sink {
  LogSink function;
  std::size_t running = 0;
};

constinit thread_local const Sink* calling = nullptr;  // the sink that this thread is within

/// The mutex is held for a moment only, and never while a sink runs.
struct SinkInUse {
  std::mutex mutex;
  std::condition_variable ended;  // a call of some sink has
  std::shared_ptr<Sink> sink;     // null: standard error
};

SinkInUse& sink_in_use();

// Nothing is half done in a child process, which has the calling thread alone: the others' calls never end there.
void prepare_fork() { sink_in_use().mutex.lock(); }
void end_fork_in_parent() { sink_in_use().mutex.unlock(); }
void end_fork_in_child() {
  SinkInUse& in_use = sink_in_use();
  if (in_use.sink) in_use.sink->running = calling == in_use.sink.get() ? 1 : 0;
  new (&in_use.ended) std::condition_variable;
  in_use.mutex.unlock();
}

// Never destroyed: threads may say something while the program ends.
SinkInUse& sink_in_use() {
  static SinkInUse& only = *new SinkInUse;
  [[maybe_unused]] static const int registered = pthread_atfork(prepare_fork, end_fork_in_parent, end_fork_in_child);
  return only;
}

/// Marks the thread as within the sink, if there is one.
class CallOfSink {
 public:
  CallOfSink() : sink_(begin()) { calling = sink_.get(); }
  ~CallOfSink() {
    if (!sink_) return;
    calling = nullptr;
    const std::lock_guard lock(sink_in_use().mutex);
    --sink_->running;
    sink_in_use().ended.notify_all();
    sink_.reset();  // now: who replaces the sink is the last to have it, and destroys it before set_log_sink returns
  }
  CallOfSink(const CallOfSink&) = delete;
  CallOfSink& operator=(const CallOfSink&) = delete;

  const LogSink* function() const noexcept { return sink_ ? &sink_->function : nullptr; }

 private:
  static std::shared_ptr<Sink> begin() {
    const std::lock_guard lock(sink_in_use().mutex);
    std::shared_ptr<Sink> sink = sink_in_use().sink;
    if (sink) ++sink->running;
    return sink;
  }

  std::shared_ptr<Sink> sink_;
};

}  // namespace

void set_log_sink(LogSink sink) {
  if (calling != nullptr) raise_message<Error>("[log] set_log_sink was called by a sink: call it where no sink runs");
  std::shared_ptr<Sink> changed = sink ? std::make_shared<Sink>(Sink{std::move(sink)}) : nullptr;
  SinkInUse& in_use = sink_in_use();
  std::unique_lock lock(in_use.mutex);
  sink_is_set.store(changed != nullptr);
  changed.swap(in_use.sink);
  // The old one is destroyed without the lock.
  if (changed) in_use.ended.wait(lock, [&] { return changed->running == 0; });
  lock.unlock();
}

bool has_log_sink() noexcept { return sink_is_set.load(); }

void log_message(LogLevel level, std::string_view text) noexcept try {
  if (calling != nullptr) return;
  const CallOfSink call;
  if (const LogSink* const sink = call.function()) {
    (*sink)(level, text);
  } else {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  }
} catch (...) {
  // nobody fails because of what is only said
}

}  // namespace tutti
