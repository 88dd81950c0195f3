// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tutti {

/// Lets a loss on this thread be the mean of no examples while the object lives: it is 0 then, not an error. For a
/// device whose batch is empty, and whose forward and backward other devices wait for (synchronize_batch_norms).
class EmptyBatch {
 public:
  [[nodiscard]] EmptyBatch() noexcept;
  ~EmptyBatch();
  EmptyBatch(const EmptyBatch&) = delete;
  EmptyBatch& operator=(const EmptyBatch&) = delete;

  static bool active() noexcept;  ///< true if an object lives on the calling thread
};

}  // namespace tutti
