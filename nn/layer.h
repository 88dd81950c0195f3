// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/module.h>
#include <tutti/nn/modules/module_call.h>

namespace tutti {

template <class Signature> class LayerOf;

/// A module that is called as a function: model(x), model.forward(x) and call(model, x) are the same, with its hooks
/// around it and errors that name it. A layer says how many inputs of what types it has, and overrides `compute`:
///
///   struct Decoder : LayerOf<Tensor(const Tensor& x, const Tensor& memory)> {
///     Tensor compute(const Tensor& x, const Tensor& memory) const override { ... }
///
/// Hooks see the inputs that are tensors, and of a result that is no tensor `hooked_output`. One that is called in
/// other ways besides has overloads of forward and operator() through `call_through`, as MultiheadAttention.
template <class Result, class... Inputs> class LayerOf<Result(Inputs...)> : public Module {
 public:
  Result operator()(Inputs... inputs) const { return forward(static_cast<Inputs&&>(inputs)...); }
  Result forward(Inputs... inputs) const {
    return call_through(
        *this, [this](auto&... seen) -> Result { return compute(seen...); }, inputs...);
  }

 protected:
  LayerOf() { take_hooks(); }

 private:
  virtual Result compute(Inputs...) const = 0;  ///< computes the result; takes the place of PyTorch's `forward`
};

/// The usual layer, of a tensor from a tensor; the base of most models:
///
///   struct Classifier : Layer {
///     Linear hidden, output;
///     explicit Classifier(Generator& random) : hidden(64, 32, random), output(32, 10, random) {}
///     Tensor compute(const Tensor& x) const override { return output(relu(hidden(x))); }
///     void visit(MemberVisitor& v) override { v.module("hidden", hidden); v.module("output", output); }
///   };
using Layer = LayerOf<Tensor(const Tensor&)>;

}  // namespace tutti
