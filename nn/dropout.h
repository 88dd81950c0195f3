// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/random.h>
#include <tutti/nn/layer.h>

#include <vector>

namespace tutti {

/// `dropout` while training, and nothing in evaluation mode.
///
/// The masks are a function of the seed that the layer drew when it was made, of the index of the device that x is on,
/// and of how much the layer drew there before. So a program draws the same masks in every run, and on cuda:1 the same
/// as on cpu:1, while the replicas of a model on several devices draw different ones. A copy, and a clone on the same
/// device, goes on with the masks that the original would draw next. In programs of several processes, each of which
/// calls its device number 0, seed each process differently.
class Dropout : public Layer {
 public:
  Dropout(double p, Generator&);  ///< Error unless p is in [0, 1]

  /// x of any shape and floating type, else DTypeError -> the same; x itself in evaluation mode and with p = 0.
  Tensor compute(const Tensor& x) const override;
  void visit(MemberVisitor&) override {}
  double p() const noexcept { return p_; }
  Generator& generator_of(Device) const;  ///< generator of a device's masks, for layers that drop inside an operation

 private:
  double p_;
  Generator source_;
  mutable std::vector<Generator> by_device_;  // index: that of the device
};

}  // namespace tutti
