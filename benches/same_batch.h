// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/data/batch.h>
#include <tutti/train/data/data_stream.h>

#include <optional>
#include <string>
#include <utility>

namespace tutti::bench {

/// A batch that is there already, for ever.
class SameBatch : public DataStream<Batch> {
 public:
  explicit SameBatch(Batch batch) : batch_(std::move(batch)) {}
  std::optional<Batch> next() override { return batch_; }
  void start_epoch(std::int64_t) override {}
  std::string position() const override { return {}; }
  void seek(const std::string&) override {}

 private:
  Batch batch_;
};

}  // namespace tutti::bench
