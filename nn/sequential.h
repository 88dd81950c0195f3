// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/layer.h>

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tutti {

/// Module that Sequential can chain: copyable, with `Tensor forward(const Tensor&) const`.
template <class M>
concept ChainableModule =
    std::derived_from<M, Module> && std::copy_constructible<M> && requires(const M& layer, const Tensor& x) {
      { layer.forward(x) } -> std::same_as<Tensor>;
    };

/// Modules one after the other: `Sequential(Conv2d(1, 8, 3, random), ReLU(), Flatten(), Linear(288, 10, random))`.
/// Members are named by their place, "0.weight", "3.bias", or by the name they were appended with. A value as every
/// module: it owns its layers, and a copy copies them, which share their tensors with the original's until `clone`
/// detaches them.
class Sequential : public Layer {
 public:
  Sequential() = default;     ///< passes its input through
  template <class... Layers>  // a lone Sequential is a copy; asked first, since whether it is chainable depends on this
    requires(sizeof...(Layers) > 1 || (!std::same_as<Layers, Sequential> && ...)) && (sizeof...(Layers) > 0) &&
            (ChainableModule<Layers> && ...)
  explicit Sequential(Layers... layers) {
    layers_.reserve(sizeof...(Layers));
    (append(std::move(layers)), ...);
  }
  Sequential(const Sequential& other);
  Sequential(Sequential&&) noexcept = default;
  Sequential& operator=(const Sequential& other);
  Sequential& operator=(Sequential&&) noexcept = default;
  ~Sequential() override = default;

  /// The layer becomes the last. Its members' names begin with its place, or with `name`.
  template <ChainableModule M> void append(M layer) { append(std::to_string(layers_.size()), std::move(layer)); }
  template <ChainableModule M> void append(std::string name, M layer) {
    layers_.push_back({std::move(name), std::make_unique<HeldLayer<M>>(std::move(layer))});
  }

  Tensor compute(const Tensor& x) const override;  ///< passes x through all layers in order
  void visit(MemberVisitor&) override;

  std::size_t size() const noexcept { return layers_.size(); }
  /// Layer at this place, counted from 0; ShapeError if there is none. It stays where it is in memory when others are
  /// appended.
  Module& layer(std::size_t index);

 private:
  class AnyLayer {
   public:
    virtual ~AnyLayer() = default;
    virtual std::unique_ptr<AnyLayer> copy() const = 0;
    virtual Tensor forward(const Tensor&) const = 0;
    virtual Module& module() noexcept = 0;
  };

  template <class M> class HeldLayer : public AnyLayer {
   public:
    explicit HeldLayer(M layer) : layer_(std::move(layer)) {}
    std::unique_ptr<AnyLayer> copy() const override { return std::make_unique<HeldLayer>(layer_); }
    Tensor forward(const Tensor& x) const override { return call(layer_, x); }
    Module& module() noexcept override { return layer_; }

   private:
    M layer_;
  };

  struct NamedLayer {
    std::string name;
    std::unique_ptr<AnyLayer> layer;
  };

  std::vector<NamedLayer> layers_;
};

}  // namespace tutti
