// SPDX-License-Identifier: Apache-2.0
#pragma once

// Members that a module forgot in `visit`: no optimizer trains them, no copy has its own, no file keeps them.

#include <tutti/nn/module.h>

#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace tutti {

class Node;

/// A leaf that requires a gradient and is no parameter or buffer that a module shows.
struct UnshownLeaf {
  Shape shape;
  DType dtype = DType::f32;
  Device device;
  std::string reader;                ///< an operation that reads it, with its Scope: "linear in encoder"
  std::weak_ptr<const Node> leaf{};  ///< the leaf itself, to tell it in another loss
};

/// Leaves that the loss depends on and the model does not show, of one step's loss before or after backward: members
/// forgotten in `visit`, and whatever else requires a gradient, as an input may. Empty for a model that is whole.
///
///   CHECK(unshown_leaves(model, cross_entropy(model.forward(x), y)).empty());
std::vector<UnshownLeaf> unshown_leaves(Module&, const Tensor& loss);
std::string to_string(const UnshownLeaf&);  ///< "a leaf f32 [128, 64] on cpu:0, read by linear"

namespace detail {
std::size_t unshown_bytes(std::unique_ptr<Module> model, Device device);
}

/// Bytes on `device`, as its memory pool counts them, that a model keeps and shows in no `visit`: also of tensors that
/// require no gradient or that no loss has read. `make` gives a new model. Nothing else may use the device meanwhile.
///
///   CHECK(unshown_bytes([] { Generator random(1); return Classifier(random); }) == 0);
template <std::invocable Make>
  requires std::derived_from<std::invoke_result_t<Make>, Module>
std::size_t unshown_bytes(const Make& make, Device device = cpu()) {
  using Model = std::invoke_result_t<Make>;
  return detail::unshown_bytes(std::unique_ptr<Module>(new Model(make())), device);
}

}  // namespace tutti
