// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

  /// Position of the stream, as text: what `next` gave last is behind it, what was only fetched ahead is not.
  virtual std::string position() const = 0;
  /// Goes there: `next` gives what it would have given there. Throws DataError for what is no position of a stream that
  /// was made alike; nothing is changed then.
  virtual void seek(const std::string& position) = 0;

  /// Number of devices among which the data are divided, these items being one's share; 0: not known. Who reads on
  /// another number of devices would miss the others' shares.
  virtual std::size_t devices() const { return 0; }
  /// Data, order and batch of a division among devices, as text: all who read shares of one say the same, at the same
  /// position. Empty: not known, or the data are this device's own.
  virtual std::string division() const { return {}; }
};

/// Stream that `wrapper` is to read; Error naming the wrapper for none.
template <class T>
std::unique_ptr<DataStream<T>> required_source(const char* wrapper, std::unique_ptr<DataStream<T>> source) {
  if (source == nullptr) raise_message("[" + std::string(wrapper) + "] there is no stream to read");
  return source;
}

/// Calls `use` with a vector of the next `count` items, of fewer at the end of an epoch. If reading them or `use`
/// throws, the stream stands in front of all of them again.
template <class T, class Use> auto with_next_items(DataStream<T>& stream, std::int64_t count, Use use) {
  const std::string before = stream.position();
  try {
    std::vector<T> items;
    while (static_cast<std::int64_t>(items.size()) < count) {
      std::optional<T> item = stream.next();
      if (!item) break;
      items.push_back(std::move(*item));
    }
    return use(items);
  } catch (...) {
    stream.seek(before);
    throw;
  }
}

}  // namespace tutti
