// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/distributed/gradient_compression.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

class GradientSync;

/// States of a compression of gradients, one of each process of a group, for the one that writes a checkpoint. Written
/// by the thread of the process's first device, in `gather`, and read by whoever saves after that.
class CompressionStates {
 public:
  /// Each process's state for all: a collective, called on the thread of each of this process's devices. `own`: on that
  /// of its first, else null. `iteration`: the training's.
  void gather(GradientSync&, Device, const GradientCompression* own, std::int64_t iteration);
  /// The same for all of this process's devices, by one thread while no other drives them.
  void gather(GradientSync&, const GradientCompression& own, std::int64_t iteration);

  /// All processes' arrays, each once. Error unless they were gathered at this iteration, when this process's were
  /// those of `own`, as they are now.
  GradientCompression::State all(const GradientCompression& own, std::int64_t iteration) const;

 private:
  std::vector<std::string> by_rank_;  // states as bytes
  std::string own_;                   // this process's among them
  std::int64_t iteration_ = -1;
};

}  // namespace tutti
