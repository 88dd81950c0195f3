// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tutti {

/// Items of one device in an order that is a function of what the stream was made with, epoch after epoch, from a
/// position that can be kept. Used by one thread at a time, not always the same.
template <class T> class DataStream {
 public:
  using Item = T;

  DataStream() = default;
  DataStream(const DataStream&) = delete;
  DataStream& operator=(const DataStream&) = delete;
  virtual ~DataStream() = default;

  /// The next item; nothing at the end of an epoch, and again until the next one is started. Throws DataError for what
  /// cannot be read; the position is then still before that item.
  virtual std::optional<T> next() = 0;
  /// Goes to the beginning of an epoch, counted from 0. A new stream stands at that of epoch 0.
  virtual void start_epoch(std::int64_t epoch) = 0;

  /// Where the stream stands, as text: what `next` gave last is behind it, what was only fetched ahead is not.
  virtual std::string position() const = 0;
  /// Goes there: `next` gives what it would have given there. Throws DataError for what is no position of a stream that
  /// was made alike; nothing is changed then.
  virtual void seek(const std::string& position) = 0;
};

}  // namespace tutti
