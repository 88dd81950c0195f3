// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/random.h>

#include <cstdint>
#include <span>

namespace tutti {

/// One device's examples of one step, and where in the training they stand. May be empty in the last step of an epoch.
struct Batch {
  Tensor inputs;
  Tensor targets;
  std::int64_t size = 0;
  std::int64_t epoch = 0;
  std::int64_t step = 0;   ///< number in the epoch, in steps of this size; the same on every device
  std::int64_t first = 0;  ///< place of the first example in the epoch's order, over all devices

  double weight() const noexcept { return static_cast<double>(size); }  ///< weight for GradientSync::step
  /// This batch without its examples: for a device that has none where others have some (EmptyItem).
  Batch without_examples(Device) const;
  /// Calls f with each tensor: what has shapes and values of its own in every batch.
  template <class F> void visit_tensors(F&& f) {
    f(inputs);
    f(targets);
  }
};

/// One batch of all examples, one after the other, with the first one's epoch, step and place; batches without examples
/// add none. Error for no batches; ShapeError, DTypeError and DeviceError as `concatenate`.
Batch concatenated(std::span<const Batch>);

/// The random numbers of one example of a batch: a function of seed, epoch and place in the epoch's order alone. So an
/// augmentation draws the same after a resume, and on any number of devices.
inline Generator example_generator(std::uint64_t seed, const Batch& batch, std::int64_t row) {
  return Generator(seed)
      .split(static_cast<std::uint64_t>(batch.epoch))
      .split(static_cast<std::uint64_t>(batch.first + row));
}

}  // namespace tutti
