// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/random.h>
#include <tutti/tests/test_devices.h>
#include <tutti/train/data/batches.h>
#include <tutti/train/data/data_stream.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

/// Given batches, one after the other, in every epoch.
class ListStream : public DataStream<Batch> {
 public:
  explicit ListStream(std::vector<Batch> batches) : batches_(std::move(batches)) {}
  std::optional<Batch> next() override {
    if (at_ == batches_.size()) return {};
    return batches_[at_++];
  }
  void start_epoch(std::int64_t) override { at_ = 0; }
  std::string position() const override { return std::to_string(at_); }
  void seek(const std::string& position) override { at_ = std::stoull(position); }

 private:
  std::vector<Batch> batches_;
  std::size_t at_ = 0;
};

/// [size, 3] f32 to [size, 2] f32, a function of the seed.
inline Batch random_batch(std::int64_t size, std::uint64_t seed, Device device = test_device()) {
  Generator random(seed);
  Tensor inputs(random.normal({size, 3}, DType::f32, device));
  return {std::move(inputs), Tensor(random.normal({size, 2}, DType::f32, device)), size};
}

}  // namespace tutti
