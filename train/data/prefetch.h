// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/error.h>
#include <tutti/backend/process/process_mark.h>
#include <tutti/backend/process/start_thread.h>
#include <tutti/train/data/data_stream.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

namespace tutti {

/// Reads another stream ahead on a thread of its own, at most `depth` items: then the thread waits until one is taken.
/// Positions are those of the other stream, and of what was handed out. An error reaches the consumer where it
/// happened, after the items before it; the next call tries there again. Use it from one thread at a time. In a child
/// process (`fork`) of the one that made it every use is an Error.
template <class T> class Prefetch final : public DataStream<T> {
 public:
  /// Throws Error for no source, and unless depth > 0.
  explicit Prefetch(std::unique_ptr<DataStream<T>> source, std::size_t depth = 2)
      : source_(required_source("prefetch", std::move(source))),
        depth_(depth),
        devices_(source_->devices()),
        division_(source_->division()),
        position_(source_->position()) {
    if (depth == 0) raise_message("[Prefetch] the depth must be positive");
  }
  /// Waits for the item that is being read, if any, and for no other.
  ~Prefetch() override {
    if (reader_.here()) stop();
  }

  std::optional<T> next() override {
    if (!reader_.here()) raise_message("[Prefetch] " + reader_.elsewhere_text());
    if (!reader_->joinable()) start();
    Fetched fetched = take();
    if (fetched.error) {
      stop();
      rewind_ = true;
      std::rethrow_exception(fetched.error);
    }
    position_ = std::move(fetched.position);
    if (!fetched.item) stop();  // asked again, it finds the end again
    return std::move(fetched.item);
  }

  void start_epoch(std::int64_t epoch) override {
    stop();
    rewind_ = true;  // items fetched ahead are to be read again, unless all goes well
    source_->start_epoch(epoch);
    arrive();
  }

  std::string position() const override { return position_; }
  std::size_t devices() const override { return devices_; }
  std::string division() const override { return division_; }

  void seek(const std::string& position) override {
    stop();
    rewind_ = true;
    source_->seek(position);
    arrive();
  }

 private:
  struct Fetched {
    std::optional<T> item;  // none: the end of the epoch, or an error
    std::string position;   // position behind it
    std::exception_ptr error;
  };

  void arrive() {
    position_ = source_->position();
    rewind_ = false;
  }

  void start() {
    if (rewind_) source_->seek(position_);
    rewind_ = false;
    *reader_ = start_thread("Prefetch", [this] { read_ahead(); });
  }

  // Ends when the source's `next` does: the reader waits for nothing else once stopping_ is set.
  void stop() {
    if (!reader_.here()) raise_message("[Prefetch] " + reader_.elsewhere_text());
    if (reader_->joinable()) {
      {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
      }
      changed_->notify_all();
      reader_->join();
    }
    stopping_ = false;
    queue_.clear();
  }

  // The reader either pushes what is waited for or is reading it: it waits only while the queue is full, and leaves
  // only behind an end or an error, after which nobody takes.
  Fetched take() {
    std::unique_lock lock(mutex_);
    changed_->wait(lock, [this] { return !queue_.empty(); });
    Fetched first = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    changed_->notify_all();
    return first;
  }

  void read_ahead() {
    for (bool more = true; more;) {
      {
        std::unique_lock lock(mutex_);
        changed_->wait(lock, [this] { return stopping_ || queue_.size() < depth_; });
        if (stopping_) return;
      }
      Fetched fetched = fetch();
      more = fetched.item.has_value();
      {
        const std::lock_guard lock(mutex_);
        queue_.push_back(std::move(fetched));
      }
      changed_->notify_all();
    }
  }

  Fetched fetch() noexcept {
    Fetched fetched;
    try {
      fetched.item = source_->next();
      fetched.position = source_->position();
    } catch (...) {
      fetched.item.reset();
      fetched.error = std::current_exception();
    }
    return fetched;
  }

  std::unique_ptr<DataStream<T>> source_;  // the reader's while there is one
  const std::size_t depth_;
  const std::size_t devices_;
  const std::string division_;
  std::string position_;
  bool rewind_ = false;  // the source may stand elsewhere than at position_
  std::mutex mutex_;     // guards queue_ and stopping_, which both threads see
  OfProcess<std::condition_variable> changed_;
  std::deque<Fetched> queue_;
  bool stopping_ = false;
  OfProcess<std::thread> reader_;
};

template <class T>
std::unique_ptr<DataStream<T>> prefetch(std::unique_ptr<DataStream<T>> source, std::size_t depth = 2) {
  return std::make_unique<Prefetch<T>>(std::move(source), depth);
}

}  // namespace tutti
