// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/data/data_stream.h>

#include <functional>
#include <memory>
#include <type_traits>

namespace tutti {

/// Results of a function for each item of another stream. Positions are that stream's. The function must be one of its
/// argument alone if a resumed stream is to give the same (`example_generator` gives such random numbers).
template <class T, class U> class Mapped final : public DataStream<U> {
 public:
  /// Throws Error for no source.
  Mapped(std::unique_ptr<DataStream<T>> source, std::function<U(T)> function)
      : source_(required_source("mapped", std::move(source))), function_(std::move(function)) {}

  /// Maps the next item. What the function throws passes through; the position is then still before that item.
  std::optional<U> next() override {
    const std::string before = source_->position();
    std::optional<T> item = source_->next();
    if (!item) return std::nullopt;
    try {
      return function_(std::move(*item));
    } catch (...) {
      source_->seek(before);
      throw;
    }
  }
  void start_epoch(std::int64_t epoch) override { source_->start_epoch(epoch); }
  std::string position() const override { return source_->position(); }
  void seek(const std::string& position) override { source_->seek(position); }
  std::size_t devices() const override { return source_->devices(); }
  std::string division() const override { return source_->division(); }

 private:
  std::unique_ptr<DataStream<T>> source_;
  std::function<U(T)> function_;
};

template <class T, class F>
std::unique_ptr<DataStream<std::invoke_result_t<F&, T>>> mapped(std::unique_ptr<DataStream<T>> source, F function) {
  return std::make_unique<Mapped<T, std::invoke_result_t<F&, T>>>(std::move(source), std::move(function));
}

}  // namespace tutti
