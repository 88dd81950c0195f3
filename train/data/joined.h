// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/error.h>
#include <tutti/train/data/data_stream.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

/// Each `count` items of another stream as one, which `concatenated(std::span<const T>)` makes of them; the last one of
/// an epoch of what remains. So a step takes concatenated micro-batches. Positions are the other stream's.
template <class T> class Joined final : public DataStream<T> {
 public:
  /// Throws Error for no source, and unless count > 0.
  Joined(std::unique_ptr<DataStream<T>> source, std::int64_t count)
      : source_(required_source("joined", std::move(source))), count_(count) {
    if (count < 1) raise_message("[joined] " + std::to_string(count) + " items cannot be one");
  }

  /// Joins the next items. What is thrown passes through; the position is then still before the first of them.
  std::optional<T> next() override {
    return with_next_items(*source_, count_, [](const std::vector<T>& items) -> std::optional<T> {
      if (items.empty()) return std::nullopt;
      return concatenated(items);
    });
  }
  void start_epoch(std::int64_t epoch) override { source_->start_epoch(epoch); }
  std::string position() const override { return source_->position(); }
  void seek(const std::string& position) override { source_->seek(position); }
  std::size_t devices() const override { return source_->devices(); }
  std::string division() const override { return source_->division(); }

 private:
  std::unique_ptr<DataStream<T>> source_;
  std::int64_t count_;
};

template <class T> std::unique_ptr<DataStream<T>> joined(std::unique_ptr<DataStream<T>> source, std::int64_t count) {
  return std::make_unique<Joined<T>>(std::move(source), count);
}

}  // namespace tutti
