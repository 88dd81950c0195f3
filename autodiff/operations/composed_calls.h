// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tutti {

/// Has operations on its thread take plain kernels while it lives, for calls that are written down, to be done
/// elsewhere and with other lengths (onnx/export): attention takes all scores at once, not by blocks, and a step of a
/// recurrent network is made of products and elementwise operations.
class ComposedCalls {
 public:
  ComposedCalls() noexcept;
  ~ComposedCalls();
  ComposedCalls(const ComposedCalls&) = delete;
  ComposedCalls& operator=(const ComposedCalls&) = delete;
  static bool active() noexcept;  ///< true if one lives on the calling thread

 private:
  bool previous_;
};

}  // namespace tutti
