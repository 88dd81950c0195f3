// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/random.h>
#include <tutti/nn/layer.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace tutti {

/// `dropout` while training, and nothing in evaluation mode.
///
/// The masks are a function of the seed that the layer drew when it was made, of the index of the device that x is on,
/// and of how much the layer drew there before. So a program draws the same masks in every run, and on cuda:1 the same
/// as on cpu:1, while the replicas of a model on several devices draw different ones. A copy, and a clone on the same
/// device, goes on with the masks that the original would draw next. Where several processes have a device of one
/// index, `set_number` tells them apart; a GradientSync of several processes does so.
class Dropout : public Layer {
 public:
  Dropout(double p, Generator&);  ///< Error unless p is in [0, 1]

  /// x of any shape and floating type, else DTypeError -> the same; x itself in evaluation mode and with p = 0.
  Tensor compute(const Tensor& x) const override;
  void visit(MemberVisitor&) override {}
  double p() const noexcept { return p_; }
  Generator& generator_of(Device) const;  ///< generator of a device's masks, for layers that drop inside an operation
  void set_number(Device, std::size_t number);  ///< masks on this device become those of this number, not of its index
  std::size_t number_of(Device) const noexcept;

 private:
  double p_;
  Generator source_;
  std::vector<std::size_t> numbers_;          // index: that of the device; where there is none, it is the number itself
  mutable std::vector<Generator> by_device_;  // index: the device's number
};

/// The dropout layers of a module and of the modules in it, by name.
std::map<std::string, Dropout*> dropout_layers(Module&);

}  // namespace tutti
