// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/world_share.h>
#include <tutti/train/data/batch.h>
#include <tutti/train/data/data_stream.h>
#include <tutti/train/data/dataset.h>
#include <tutti/train/data/samplers.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace tutti {

struct BatchOptions {
  std::int64_t batch = 32;                ///< examples per device and step
  std::vector<Device> devices = {cpu()};  ///< this process's
  /// The devices of all processes, among which each step is divided: GradientSync::world. Default: `devices` are all,
  /// which a learner of several processes refuses where all would read the same. `{.devices = 1}` tells it that the
  /// data of this one device are its own.
  WorldShare world = {};
  std::uint64_t seed = 0;
  bool shuffle = true;                       ///< a new order in every epoch
  std::shared_ptr<const Sampler> sampler{};  ///< replaces seed and shuffle
};

/// Cuts a data set into batches for one or several devices. Step i of an epoch takes the i-th run of devices x batch
/// consecutive examples of the epoch's order, a part for each device, in device order: N devices with batch B see
/// exactly what one device with batch N x B sees. What remains for the last step is spread as evenly as possible: sizes
/// differ by one at most, earlier devices get more, and a device may get no example (weight 0), but every device has
/// the same number of steps. Nothing is dropped or repeated but by the sampler. Several processes, each with a stream
/// over its own devices of one `world`, read what one process with all devices would: each takes the rows of its own
/// devices from the data set, and no others. Immutable: everything may be called from several threads.
class BatchStream {
 public:
  class Epoch;

  /// Copies the examples into host memory. Throws Error for no devices, a device named twice, devices that are more
  /// than the world's, a batch that is not positive, a step's worth of examples larger than an epoch, and a sampler
  /// made for another number of examples.
  BatchStream(const Examples&, BatchOptions);
  BatchStream(std::shared_ptr<const Dataset>, BatchOptions);

  std::int64_t examples() const noexcept;               ///< examples in an epoch
  std::int64_t steps() const noexcept;                  ///< steps in an epoch
  const std::vector<Device>& devices() const noexcept;  ///< this process's
  /// The order is a function of the sampler and the number alone. Each thread may make its own.
  Epoch epoch(std::int64_t number) const;
  /// The batches of one device, epoch after epoch, for one thread. `device` counts from 0 in BatchOptions::devices. The
  /// position is that of the step: the same for every device of every process. A stream over another number of devices,
  /// or with another batch, goes on there too: with the first example that was not given, in steps of its own.
  std::unique_ptr<DataStream<Batch>> stream(std::size_t device = 0) const;

 private:
  class DeviceStream;
  struct Data;

  std::shared_ptr<const Data> data_;
};

/// One pass over the data. Keeps the data alive.
class BatchStream::Epoch {
 public:
  std::int64_t steps() const noexcept;
  /// The rows of the data set that this batch is made of. `device` counts from 0 in BatchOptions::devices.
  std::span<const std::int64_t> rows(std::int64_t step, std::size_t device) const;
  Batch batch(std::int64_t step, std::size_t device = 0) const;  ///< makes the batch on that device

 private:
  friend class BatchStream;
  Epoch(std::shared_ptr<const Data> data, std::int64_t number);
  std::int64_t first_of(std::int64_t step) const;
  // Rows of a step that begins with this example of the order.
  std::span<const std::int64_t> rows_from(std::int64_t step_first, std::size_t device) const;
  Batch batch_from(std::int64_t step_first, std::size_t device) const;

  std::shared_ptr<const Data> data_;
  std::int64_t number_;
  std::vector<std::int64_t> order_;
};

}  // namespace tutti
