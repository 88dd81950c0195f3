// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

class GradientSync;

/// Texts of what each process of a group alone knows of a training, for the one that writes a checkpoint. Written by
/// the thread of the process's first device, in `gather`, and read by whoever saves after that.
class ProcessTexts {
 public:
  /// Each process's texts for all: a collective, called on the thread of each of this process's devices. `own`: on that
  /// of its first, else empty. `iteration`: the training's.
  void gather(GradientSync&, Device, const std::vector<std::string>& own, std::int64_t iteration);
  /// The same for all of this process's devices, by one thread while no other drives them.
  void gather(GradientSync&, const std::vector<std::string>& own, std::int64_t iteration);

  /// Text number `which` of each process, by rank. Error unless they were gathered at this iteration, when this
  /// process's was `own`, as it is now.
  std::vector<std::string> of(std::size_t which, std::int64_t iteration, const std::string& own) const;

 private:
  void take(const std::vector<std::string>& by_rank, const std::vector<std::string>& own, std::int64_t iteration);

  std::vector<std::vector<std::string>> by_rank_;
  std::vector<std::string> own_;  // this process's among them
  std::int64_t iteration_ = -1;
};

/// Lists of texts (join_texts), one after the other as one.
std::string concatenated_texts(const std::vector<std::string>& lists);

}  // namespace tutti
