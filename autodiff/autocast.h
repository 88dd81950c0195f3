// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <memory>
#include <string_view>

namespace tutti {

class CastLeaves;

/// Lets operations on its thread choose the type that they compute in while it lives, as PyTorch's autocast has it:
/// products and what is made of them take f32 operands as `narrow`, sums over many elements and functions with a wide
/// range take 16-bit ones as f32, all others promote (docs/dtypes.md lists them). f64 and integers stay. A leaf is cast
/// once in a scope; the gradients of its uses are added in its own type. Backward runs in the types that forward ran
/// in, wherever it is called: the scope is for forward and loss. Autocast(DType::f32) switches an outer one off. Scopes
/// nest; the innermost counts.
class Autocast {
 public:
  [[nodiscard]] explicit Autocast(DType narrow);  ///< bf16, f16 or f32, else DTypeError
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  friend Tensor autocast(std::string_view operation, const Tensor&);
  friend DType autocast_dtype() noexcept;
  Tensor as_narrow(const Tensor&);

  DType narrow_;
  std::shared_ptr<CastLeaves> cast_;  // made when it is needed
  Autocast* outer_;
};

DType autocast_dtype() noexcept;  ///< the calling thread's narrow type; f32: off
inline bool autocasts() noexcept { return autocast_dtype() != DType::f32; }

/// An operand as this operation takes it on this thread. Operations that do not promote their operands call it.
Tensor autocast(std::string_view operation, const Tensor&);

}  // namespace tutti
