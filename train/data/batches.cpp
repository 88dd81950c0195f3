// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/data/batches.h>

#include <tutti/backend/raise.h>
#include <tutti/train/data/positions/batch_position.h>

#include <algorithm>
#include <set>

namespace tutti {

struct BatchStream::Data {
  std::shared_ptr<const Dataset> dataset;
  BatchOptions options;

  /// Devices of all processes.
  std::size_t all_devices() const noexcept {
    return options.world.devices == 0 ? options.devices.size() : options.world.devices;
  }
  std::int64_t examples_per_step() const noexcept { return options.batch * static_cast<std::int64_t>(all_devices()); }
  std::int64_t steps() const noexcept {
    return (options.sampler->draws() + examples_per_step() - 1) / examples_per_step();
  }
};

namespace {

void check_options(const BatchOptions& options, std::int64_t examples) {
  if (options.devices.empty()) raise("[BatchStream] there are no devices");
  if (std::set(options.devices.begin(), options.devices.end()).size() != options.devices.size())
    raise("[BatchStream] a device is listed twice");
  if (options.sampler->examples() != examples)
    raise("[BatchStream] the sampler is for {} examples, the data set has {}", options.sampler->examples(), examples);
  const WorldShare& world = options.world;
  if (world.devices > 0 && world.first + options.devices.size() > world.devices)
    raise("[BatchStream] {} devices from number {} on are more than the world's {}", options.devices.size(),
          world.first, world.devices);
  const auto devices = static_cast<std::int64_t>(world.devices == 0 ? options.devices.size() : world.devices);
  if (options.batch <= 0) raise("[BatchStream] the batch must be positive, got {}", options.batch);
  if (options.batch > options.sampler->draws() / devices)
    raise("[BatchStream] {} devices x batch {} are more than the {} examples of an epoch; use a smaller batch", devices,
          options.batch, options.sampler->draws());
}

}  // namespace

BatchStream::BatchStream(const Examples& examples, BatchOptions options)
    : BatchStream(make_dataset(examples), std::move(options)) {}

BatchStream::BatchStream(std::shared_ptr<const Dataset> dataset, BatchOptions options) {
  if (dataset == nullptr) raise("[BatchStream] there is no data set");
  const std::int64_t examples = dataset->size();
  if (options.sampler == nullptr)
    options.sampler = options.shuffle ? shuffled(examples, options.seed) : sequential(examples);
  check_options(options, examples);
  data_ = std::make_shared<const Data>(Data{std::move(dataset), std::move(options)});
}

std::int64_t BatchStream::examples() const noexcept { return data_->options.sampler->draws(); }

std::int64_t BatchStream::steps() const noexcept { return data_->steps(); }

const std::vector<Device>& BatchStream::devices() const noexcept { return data_->options.devices; }

BatchStream::Epoch BatchStream::epoch(std::int64_t number) const { return {data_, number}; }

BatchStream::Epoch::Epoch(std::shared_ptr<const Data> data, std::int64_t number)
    : data_(std::move(data)), number_(number), order_(data_->options.sampler->order(number)) {
  const std::int64_t draws = data_->options.sampler->draws();
  if (std::ssize(order_) != draws)
    raise("[BatchStream] the sampler \"{}\" drew {} examples for epoch {}, not {}",
          data_->options.sampler->description(), order_.size(), number, draws);
}

std::int64_t BatchStream::Epoch::steps() const noexcept { return data_->steps(); }

std::span<const std::int64_t> BatchStream::Epoch::rows(std::int64_t step, std::size_t device) const {
  return rows_from(first_of(step), device);
}

std::int64_t BatchStream::Epoch::first_of(std::int64_t step) const {
  if (step < 0 || step >= steps()) raise("[BatchStream] step {} of {} asked for", step, steps());
  return step * data_->examples_per_step();
}

std::span<const std::int64_t> BatchStream::Epoch::rows_from(std::int64_t step_first, std::size_t device) const {
  if (device >= data_->options.devices.size())
    raise("[BatchStream] device number {} of {} asked for", device, data_->options.devices.size());
  const std::size_t devices = data_->all_devices();
  const std::size_t number = data_->options.world.first + device;
  const auto begin = static_cast<std::size_t>(step_first);
  const std::size_t count = std::min(static_cast<std::size_t>(data_->examples_per_step()), order_.size() - begin);
  const std::size_t share = count / devices;
  const std::size_t longer = count % devices;  // so many devices, the first ones, get one example more
  const std::size_t first = begin + number * share + std::min(number, longer);
  return std::span(order_).subspan(first, share + (number < longer ? 1 : 0));
}

Batch BatchStream::Epoch::batch(std::int64_t step, std::size_t device) const {
  return batch_from(first_of(step), device);
}

Batch BatchStream::Epoch::batch_from(std::int64_t step_first, std::size_t device) const {
  const std::span<const std::int64_t> chosen = rows_from(step_first, device);
  Batch batch = data_->dataset->batch(chosen, data_->options.devices[device]);
  batch.epoch = number_;
  batch.step = step_first / data_->examples_per_step();
  batch.first = chosen.data() - order_.data();
  return batch;
}

class BatchStream::DeviceStream final : public DataStream<Batch> {
 public:
  DeviceStream(std::shared_ptr<const Data> data, std::size_t device) : data_(std::move(data)), device_(device) {
    if (device >= data_->options.devices.size())
      raise("[BatchStream] device number {} of {} asked for", device, data_->options.devices.size());
  }

  std::optional<Batch> next() override {
    const std::int64_t all = data_->options.sampler->draws();
    if (given_ == all) return std::nullopt;
    if (!order_ || order_->number_ != epoch_) order_ = Epoch(data_, epoch_);
    Batch batch = order_->batch_from(given_, device_);
    given_ = std::min(given_ + data_->examples_per_step(), all);
    return batch;
  }
  void start_epoch(std::int64_t epoch) override {
    if (epoch < 0) raise("[BatchStream] epoch {} asked for", epoch);
    epoch_ = epoch;
    given_ = 0;
  }
  std::string position() const override { return to_text(place()); }
  std::size_t devices() const override { return data_->all_devices(); }
  std::string division() const override {
    if (data_->options.world.devices == 1) return {};
    const BatchPosition at = place();
    return fmt::format("batches of {} over {} devices, of {}, {}", data_->options.batch, data_->all_devices(), at.data,
                       at.order);
  }
  void seek(const std::string& position) override {
    const BatchPosition wanted = parse_batch_position(position, place());
    if (wanted.examples > data_->options.sampler->draws())
      raise<DataError>("[BatchStream] position behind {} examples of an epoch that has {}", wanted.examples,
                       data_->options.sampler->draws());
    epoch_ = wanted.epoch;
    given_ = wanted.examples;
  }

 private:
  BatchPosition place() const {
    return {epoch_, given_, data_->dataset->description(), data_->options.sampler->description()};
  }

  std::shared_ptr<const Data> data_;
  std::size_t device_;
  std::optional<Epoch> order_;  // made when it is needed: starting an epoch or seeking costs nothing
  std::int64_t epoch_ = 0;
  std::int64_t given_ = 0;  // examples of the epoch, to all devices
};

std::unique_ptr<DataStream<Batch>> BatchStream::stream(std::size_t device) const {
  return std::make_unique<DeviceStream>(data_, device);
}

}  // namespace tutti
