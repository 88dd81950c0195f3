// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/batches.h>

#include <tutti/backend/error.h>
#include <tutti/backend/random.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace tutti {
namespace {

std::int64_t examples_per_step(const BatchOptions& options) {
  return options.batch * static_cast<std::int64_t>(options.devices.size());
}

void check_options(const BatchOptions& options, std::int64_t examples) {
  if (options.devices.empty()) raise("[BatchStream] there are no devices");
  if (std::set(options.devices.begin(), options.devices.end()).size() != options.devices.size())
    raise("[BatchStream] a device is listed twice");
  const auto devices = static_cast<std::int64_t>(options.devices.size());
  if (options.batch <= 0) raise("[BatchStream] the batch must be positive, got {}", options.batch);
  if (options.batch > examples / devices)
    raise("[BatchStream] {} devices x batch {} are more than the {} examples of the data set; use a smaller batch",
          devices, options.batch, examples);
}

const Examples& checked(const Examples& examples) {
  check_examples(examples);
  return examples;
}

}  // namespace

BatchStream::BatchStream(const Examples& examples, BatchOptions options) {
  check_options(options, checked(examples).size());
  data_ =
      std::make_shared<const Data>(Data{RowStorage(examples.inputs), RowStorage(examples.targets), std::move(options)});
}

std::int64_t BatchStream::examples() const noexcept { return data_->inputs.rows(); }

std::int64_t BatchStream::steps() const noexcept {
  const std::int64_t step = examples_per_step(data_->options);
  return (examples() + step - 1) / step;
}

const std::vector<Device>& BatchStream::devices() const noexcept { return data_->options.devices; }

BatchStream::Epoch BatchStream::epoch(std::int64_t number) const {
  if (data_->options.shuffle) {
    Generator generator = Generator(data_->options.seed).split(static_cast<std::uint64_t>(number));
    return {data_, generator.permutation(examples())};
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(examples()));
  std::iota(order.begin(), order.end(), 0);
  return {data_, std::move(order)};
}

BatchStream::Epoch::Epoch(std::shared_ptr<const Data> data, std::vector<std::int64_t> order)
    : data_(std::move(data)), order_(std::move(order)) {}

std::int64_t BatchStream::Epoch::steps() const noexcept {
  const std::int64_t step = examples_per_step(data_->options);
  return (data_->inputs.rows() + step - 1) / step;
}

std::span<const std::int64_t> BatchStream::Epoch::rows(std::int64_t step, std::size_t device) const {
  if (step < 0 || step >= steps()) raise("[BatchStream] step {} of {} asked for", step, steps());
  const std::size_t devices = data_->options.devices.size();
  if (device >= devices) raise("[BatchStream] device number {} of {} asked for", device, devices);
  const auto per_step = static_cast<std::size_t>(examples_per_step(data_->options));
  const std::size_t begin = static_cast<std::size_t>(step) * per_step;
  const std::size_t count = std::min(per_step, order_.size() - begin);
  const std::size_t share = count / devices;
  const std::size_t longer = count % devices;  // so many devices, the first ones, get one example more
  const std::size_t first = begin + device * share + std::min(device, longer);
  return std::span(order_).subspan(first, share + (device < longer ? 1 : 0));
}

Batch BatchStream::Epoch::batch(std::int64_t step, std::size_t device) const {
  const std::span<const std::int64_t> chosen = rows(step, device);
  const Device target = data_->options.devices[device];
  return {Tensor(data_->inputs.gather(chosen, target)), Tensor(data_->targets.gather(chosen, target)),
          static_cast<std::int64_t>(chosen.size())};
}

}  // namespace tutti
