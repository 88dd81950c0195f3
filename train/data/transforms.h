// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/data/batch.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace tutti {

/// Changes a batch's inputs and leaves the rest, for `mapped`. Random ones draw for each example from the seed, the
/// epoch and its place in the epoch's order: the same after a resume, and on any number of devices. They work in host
/// memory: with a CUDA device, let the stream's devices be CPU devices and put `on_device` behind.
using BatchTransform = std::function<Batch(Batch)>;

/// (x - mean) / standard deviation of each channel: of inputs [n, c, ...], with c figures or one for all. Computes in
/// the inputs' type, f32 for integers. Throws Error for a deviation that is not positive; ShapeError at the batch.
BatchTransform normalize(std::vector<double> means, std::vector<double> standard_deviations);
/// Moves each image of [n, ..., h, w] by up to `most` pixels along both axes, every distance as likely; zeros come in.
/// Equals padding with zeros and cropping at random.
BatchTransform random_shift(std::int64_t most, std::uint64_t seed);
/// Turns each image of [n, ..., h, w] left to right with this probability.
BatchTransform random_flip(double probability, std::uint64_t seed);
/// Moves inputs and targets there.
BatchTransform on_device(Device);

}  // namespace tutti
