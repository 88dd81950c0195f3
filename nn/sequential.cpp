// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/sequential.h>

#include <string>

namespace tutti {

Sequential::Sequential(const Sequential& other) : Module(other) {
  layers_.reserve(other.layers_.size());
  for (const auto& layer : other.layers_) layers_.push_back(layer->copy());
}

Sequential& Sequential::operator=(const Sequential& other) {
  if (this != &other) *this = Sequential(other);
  return *this;
}

Tensor Sequential::forward(const Tensor& x) const {
  Tensor value = x;
  for (const auto& layer : layers_) value = layer->forward(value);
  return value;
}

void Sequential::visit(MemberVisitor& visitor) {
  for (std::size_t i = 0; i < layers_.size(); ++i) visitor.module(std::to_string(i), layers_[i]->module());
}

}  // namespace tutti
