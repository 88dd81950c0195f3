// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tutti {

/// Has attention on its thread take all scores at once while it lives, not by blocks: for calls that are written down,
/// to be done elsewhere and with other lengths (onnx/export).
class WholeAttention {
 public:
  WholeAttention() noexcept;
  ~WholeAttention();
  WholeAttention(const WholeAttention&) = delete;
  WholeAttention& operator=(const WholeAttention&) = delete;

 private:
  bool previous_;
};

}  // namespace tutti
