// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/module.h>

#include <concepts>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

/// Any number of layers of one type, of which the owner makes use as it likes: `ModuleList<Linear> heads;`. Members are
/// named by their place: "0.weight". Layers of different types in a row are a Sequential. Layers may move when one is
/// appended.
template <std::derived_from<Module> M> class ModuleList : public Module {
 public:
  ModuleList() = default;
  explicit ModuleList(std::vector<M> layers) : layers_(std::move(layers)) {}

  void append(M layer) { layers_.push_back(std::move(layer)); }
  std::size_t size() const noexcept { return layers_.size(); }
  M& operator[](std::size_t i) { return layers_.at(i); }  ///< throws std::out_of_range
  const M& operator[](std::size_t i) const { return layers_.at(i); }
  auto begin() noexcept { return layers_.begin(); }
  auto end() noexcept { return layers_.end(); }
  auto begin() const noexcept { return layers_.begin(); }
  auto end() const noexcept { return layers_.end(); }

  void visit(MemberVisitor& visitor) override {
    for (std::size_t i = 0; i < layers_.size(); ++i) visitor.module(std::to_string(i), layers_[i]);
  }

 private:
  std::vector<M> layers_;
};

}  // namespace tutti
