// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/log.h>

#include <tutti/backend/error.h>

#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <utility>

namespace tutti {

namespace {

std::atomic<bool> sink_is_set{false};
static_assert(std::atomic<bool>::is_always_lock_free);

thread_local bool within_sink = false;

/// Who calls the sink shares the lock, who replaces it has it alone.
struct SinkInUse {
  std::shared_mutex mutex;
  LogSink sink;
};

// Never destroyed: threads may say something while the program ends. A child process takes a new lock, since threads
// that it does not have may hold its parent's.
SinkInUse& sink_in_use() {
  static SinkInUse& only = *new SinkInUse;
  [[maybe_unused]] static const int renewed =
      pthread_atfork(nullptr, nullptr, [] { new (&sink_in_use().mutex) std::shared_mutex; });
  return only;
}

/// Marks the thread as one that calls the sink.
class WithinSink {
 public:
  WithinSink() { within_sink = true; }
  ~WithinSink() { within_sink = false; }
  WithinSink(const WithinSink&) = delete;
  WithinSink& operator=(const WithinSink&) = delete;
};

}  // namespace

void set_log_sink(LogSink sink) {
  if (within_sink) raise_message<Error>("[log] set_log_sink was called by a sink: call it where no sink runs");
  SinkInUse& in_use = sink_in_use();
  const std::lock_guard lock(in_use.mutex);
  sink_is_set.store(static_cast<bool>(sink));
  std::swap(in_use.sink, sink);  // the old one is destroyed without the lock
}

bool has_log_sink() noexcept { return sink_is_set.load(); }

void log_message(LogLevel level, std::string_view text) noexcept try {
  if (within_sink) return;
  SinkInUse& in_use = sink_in_use();
  const std::shared_lock lock(in_use.mutex);
  if (in_use.sink) {
    const WithinSink mark;
    in_use.sink(level, text);
  } else {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  }
} catch (...) {
  // nobody fails because of what is only said
}

}  // namespace tutti
