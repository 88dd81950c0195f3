// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/dropout.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/raise.h>

#include <string_view>
#include <utility>

namespace tutti {

Dropout::Dropout(double p, Generator& generator) : p_(p), source_(generator.next_u64()) {
  if (!(p >= 0 && p <= 1)) raise("[Dropout] p is {}: it must be in [0, 1]", p);
}

Tensor Dropout::compute(const Tensor& x) const { return dropout(x, p_, generator_of(x.device()), training()); }

Generator& Dropout::generator_of(Device device) const {
  const std::size_t number = number_of(device);
  while (by_device_.size() <= number) by_device_.push_back(source_.split(by_device_.size()));
  return by_device_[number];
}

void Dropout::set_number(Device device, std::size_t number) {
  while (numbers_.size() <= device.index) numbers_.push_back(numbers_.size());
  numbers_[device.index] = number;
}

std::size_t Dropout::number_of(Device device) const noexcept {
  return device.index < numbers_.size() ? numbers_[device.index] : device.index;
}

namespace {

/// Collects them while it visits.
class DropoutLayers : public MemberVisitor {
 public:
  explicit DropoutLayers(Module& module) { descend(module); }
  std::map<std::string, Dropout*> take() { return std::move(layers_); }

  void parameter(std::string_view, Tensor&) override {}
  void buffer(std::string_view, Tensor&) override {}
  void module(std::string_view name, Module& child) override {
    const std::string outer = prefix_;
    prefix_.append(prefix_.empty() ? "" : ".").append(name);
    descend(child);
    prefix_ = outer;
  }

 private:
  void descend(Module& module) {
    if (auto* const layer = dynamic_cast<Dropout*>(&module)) layers_.emplace(prefix_, layer);
    module.visit(*this);
  }

  std::string prefix_;
  std::map<std::string, Dropout*> layers_;
};

}  // namespace

std::map<std::string, Dropout*> dropout_layers(Module& module) { return DropoutLayers(module).take(); }

}  // namespace tutti
