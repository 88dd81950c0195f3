// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>
#include <tutti/train/dataset.h>
#include <tutti/train/row_storage.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace tutti {

struct BatchOptions {
  std::int64_t batch = 32;  ///< examples per device and step
  std::vector<Device> devices = {cpu()};
  std::uint64_t seed = 0;
  bool shuffle = true;  ///< a new order in every epoch
};

/// One device's examples of one step. May be empty in the last step of an epoch.
struct Batch {
  Tensor inputs;
  Tensor targets;
  std::int64_t size = 0;

  double weight() const noexcept { return static_cast<double>(size); }  ///< for GradientSync::step
};

/// Cuts a data set into batches for one or several devices. Step i of an epoch takes the i-th run of devices x batch
/// consecutive examples of the epoch's order, a part for each device, in device order: N devices with batch B see
/// exactly what one device with batch N x B sees. What remains for the last step is spread as evenly as possible: sizes
/// differ by one at most, earlier devices get more, and a device may get no example (weight 0). Nothing is dropped or
/// repeated. Immutable: everything may be called from several threads.
class BatchStream {
 public:
  class Epoch;

  /// Copies the examples into host memory. Throws Error for no devices, a device named twice, a batch that is not
  /// positive and a step's worth of examples larger than the data set.
  BatchStream(const Examples&, BatchOptions);

  std::int64_t examples() const noexcept;
  std::int64_t steps() const noexcept;  ///< in an epoch
  const std::vector<Device>& devices() const noexcept;
  /// The order is a function of seed and number alone. Each thread may make its own.
  Epoch epoch(std::int64_t number) const;

 private:
  struct Data {
    RowStorage inputs;
    RowStorage targets;
    BatchOptions options;
  };

  std::shared_ptr<const Data> data_;
};

/// One pass over the data. Keeps the data alive.
class BatchStream::Epoch {
 public:
  std::int64_t steps() const noexcept;
  /// The rows of the data set that this batch is made of. `device` counts from 0 in BatchOptions::devices.
  std::span<const std::int64_t> rows(std::int64_t step, std::size_t device) const;
  Batch batch(std::int64_t step, std::size_t device = 0) const;  ///< on that device

 private:
  friend class BatchStream;
  Epoch(std::shared_ptr<const Data> data, std::vector<std::int64_t> order);

  std::shared_ptr<const Data> data_;
  std::vector<std::int64_t> order_;
};

}  // namespace tutti
