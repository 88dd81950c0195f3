// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/data/transforms.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/exchange/files/file_arrays.h>

#include <algorithm>
#include <cstring>

namespace tutti {
namespace {

/// The images of a batch, in host memory.
struct Images {
  std::int64_t planes = 0;  // of one example
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::size_t element = 0;  // bytes
  std::span<std::byte> bytes{};

  std::span<std::byte> row(std::int64_t example, std::int64_t plane, std::int64_t y) const {
    const std::size_t bytes_of_row = static_cast<std::size_t>(width) * element;
    const auto number = static_cast<std::size_t>((example * planes + plane) * height + y);
    return bytes.subspan(number * bytes_of_row, bytes_of_row);
  }
};

/// A batch with inputs that `change(from, to, example, random)` wrote, example by example, over zeros.
template <class Change> Batch change_images(const char* name, Batch batch, std::uint64_t seed, Change change) {
  const Array inputs = batch.inputs.array();
  const Shape& shape = inputs.shape();
  if (shape.size() < 3) raise<ShapeError>("[{}] images [n, ..., h, w] expected, got {}", name, to_string(shape));
  if (inputs.size() == 0) return batch;
  std::vector<std::byte> before = host_bytes(inputs);
  std::vector<std::byte> after(before.size());
  Images from{.height = shape[shape.size() - 2], .width = shape.back(), .element = size_of(inputs.dtype())};
  from.planes = inputs.size() / (shape[0] * from.height * from.width);
  Images to = from;
  from.bytes = before;
  to.bytes = after;
  for (std::int64_t example = 0; example < shape[0]; ++example) {
    Generator random = example_generator(seed, batch, example);
    change(from, to, example, random);
  }
  Array changed = Array::empty(shape, inputs.dtype(), inputs.device());
  backend_for(inputs.device()).copy_from_host(after.data(), changed);
  batch.inputs = Tensor(changed);
  return batch;
}

void shift(const Images& from, const Images& to, std::int64_t example, std::int64_t down, std::int64_t right) {
  const std::int64_t kept = from.width - std::abs(right);
  if (kept <= 0) return;
  const auto read = static_cast<std::size_t>(std::max<std::int64_t>(0, -right)) * from.element;
  const auto write = static_cast<std::size_t>(std::max<std::int64_t>(0, right)) * from.element;
  for (std::int64_t plane = 0; plane < from.planes; ++plane)
    for (std::int64_t y = std::max<std::int64_t>(0, -down); y < from.height - std::max<std::int64_t>(0, down); ++y)
      std::memcpy(to.row(example, plane, y + down).data() + write, from.row(example, plane, y).data() + read,
                  static_cast<std::size_t>(kept) * from.element);
}

void flip(const Images& from, const Images& to, std::int64_t example, bool turned) {
  for (std::int64_t plane = 0; plane < from.planes; ++plane)
    for (std::int64_t y = 0; y < from.height; ++y) {
      const std::span<std::byte> source = from.row(example, plane, y);
      const std::span<std::byte> target = to.row(example, plane, y);
      for (std::size_t x = 0; x < source.size(); x += from.element) {
        const std::size_t place = turned ? source.size() - from.element - x : x;
        std::memcpy(target.data() + place, source.data() + x, from.element);
      }
    }
}

}  // namespace

BatchTransform normalize(std::vector<double> means, std::vector<double> standard_deviations) {
  if (means.empty() || means.size() != standard_deviations.size())
    raise("[normalize] {} means and {} standard deviations", means.size(), standard_deviations.size());
  for (const double deviation : standard_deviations)
    if (!(deviation > 0)) raise("[normalize] a standard deviation of {}", deviation);
  return [means = std::move(means), deviations = std::move(standard_deviations)](Batch batch) {
    const NoGrad no_grad;
    const Tensor& x = batch.inputs;
    const auto channels = static_cast<std::int64_t>(means.size());
    if (x.rank() < 2 || (channels != 1 && x.shape()[1] != channels))
      raise<ShapeError>("[normalize] {} channels of inputs {}", channels, to_string(x.shape()));
    Shape shape(x.rank() - 1, 1);
    shape[0] = channels;
    const DType dtype = is_floating(x.dtype()) ? x.dtype() : DType::f32;
    const auto figures = [&](const std::vector<double>& values) {
      return Tensor(Array::from(values, shape, cpu()).to(x.device()).cast(dtype));
    };
    batch.inputs = (x.cast(dtype) - figures(means)) / figures(deviations);
    return batch;
  };
}

BatchTransform random_shift(std::int64_t most, std::uint64_t seed) {
  if (most < 0) raise("[random_shift] by up to {} pixels", most);
  return [most, seed](Batch batch) {
    return change_images("random_shift", std::move(batch), seed,
                         [most](const Images& from, const Images& to, std::int64_t example, Generator& random) {
                           const auto distances = static_cast<std::uint64_t>(2 * most + 1);
                           const std::int64_t down = static_cast<std::int64_t>(random.below(distances)) - most;
                           const std::int64_t right = static_cast<std::int64_t>(random.below(distances)) - most;
                           shift(from, to, example, down, right);
                         });
  };
}

BatchTransform random_flip(double probability, std::uint64_t seed) {
  if (!(probability >= 0 && probability <= 1)) raise("[random_flip] the probability {} is not in [0, 1]", probability);
  return [probability, seed](Batch batch) {
    return change_images("random_flip", std::move(batch), seed,
                         [probability](const Images& from, const Images& to, std::int64_t example, Generator& random) {
                           const double uniform = static_cast<double>(random.next_u64() >> 11U) * 0x1p-53;
                           flip(from, to, example, uniform < probability);
                         });
  };
}

BatchTransform on_device(Device device) {
  return [device](Batch batch) {
    batch.inputs = Tensor(batch.inputs.array().to(device));
    batch.targets = Tensor(batch.targets.array().to(device));
    return batch;
  };
}

}  // namespace tutti
