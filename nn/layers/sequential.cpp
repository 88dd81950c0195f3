// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/sequential.h>

#include <tutti/autodiff/anomaly.h>
#include <tutti/autodiff/scope.h>
#include <tutti/backend/raise.h>

#include <optional>

namespace tutti {

Sequential::Sequential(const Sequential& other) : Layer(other) {
  layers_.reserve(other.layers_.size());
  for (const NamedLayer& named : other.layers_) layers_.push_back({named.name, named.layer->copy()});
}

Sequential& Sequential::operator=(const Sequential& other) {
  if (this != &other) *this = Sequential(other);
  return *this;
}

Module& Sequential::layer(std::size_t index) {
  if (index >= layers_.size()) raise<ShapeError>("[Sequential] there is no layer {} of {}", index, layers_.size());
  return layers_[index].layer->module();
}

Tensor Sequential::compute(const Tensor& x) const {
  Tensor value = x;
  for (const NamedLayer& named : layers_) {
    std::optional<Scope> scope;
    if (detects_anomalies()) scope.emplace(named.name);
    value = named.layer->forward(value);
  }
  return value;
}

void Sequential::visit(MemberVisitor& visitor) {
  for (const NamedLayer& named : layers_) visitor.module(named.name, named.layer->module());
}

}  // namespace tutti
