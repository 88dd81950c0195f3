// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>
#include <tutti/nn/modules/module_hooks.h>
#include <tutti/nn/modules/module_place.h>

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

class Module;

/// Walks a module's members. A module shows each of them once, in the order of declaration.
class MemberVisitor {
 public:
  virtual ~MemberVisitor() = default;
  /// Shows a tensor that optimizers train; only one that requires a gradient gets one, any other is frozen.
  virtual void parameter(std::string_view name, Tensor&) = 0;
  virtual void buffer(std::string_view name, Tensor&) = 0;  ///< state without a gradient, e.g. running statistics
  virtual void module(std::string_view name, Module&) = 0;
};

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// A part of a model: parameters, buffers and submodules, held as ordinary members. A module is a value type whose copy
/// shares its tensors, as tensors do; `clone` makes an independent one. Its one duty is to show its members. What is
/// called, as layers and most models are, derives from Layer (nn/layer.h); what is not, as ModuleList, from this.
///
/// Distinct modules may be used from distinct threads. One in evaluation mode may be run by several at the same time,
/// each under NoGrad or Inference, while nobody writes to it: no optimizer, no train(), no visit that replaces members.
class Module {
 public:
  virtual ~Module() = default;
  virtual void visit(MemberVisitor&) = 0;

  /// Parameters (buffers) of this module and all below it, by dotted name, in order of declaration. A tensor that
  /// several modules share is listed once, under its first name. Undefined members (a Linear without bias) are left
  /// out. Throws Error when two different tensors have one name.
  NamedTensors named_parameters();
  NamedTensors named_buffers();
  NamedTensors named_members();      ///< named_parameters, then named_buffers: all that a copy or a file of it holds
  std::vector<Tensor> parameters();  ///< those of named_parameters, in its order: what an optimizer takes

  void train(bool training = true);  ///< sets the mode of this module and all below it
  void eval() { train(false); }
  bool training() const noexcept { return training_; }  ///< mode of this module alone; true from the start
  void zero_grad();                                     ///< drops the gradients of all parameters that require one
  /// Gives every parameter and buffer a storage of its own on `device`, as leaves with new identity and without a
  /// gradient: optimizers come after it, one made before goes on with the old leaves. Tensors shared inside the module
  /// stay shared. Changes nothing when it throws.
  void detach_members_to(Device);
  /// Gives every member a storage of its own, as detach_members_to does, and those of floating types elements of
  /// another floating type; members of other types keep theirs. Throws DTypeError unless the type is floating.
  void detach_members_as(DType);

  /// Hooks run, in the order of registration, at every call of a layer (nn/layer.h); of a module that is none, whose
  /// `forward` would know nothing of them, registering throws Error. They stay with this object: a copy or a clone has
  /// none. Backward's hooks see gradients of calls made since, and refer to the module: it must live till then, at its
  /// place.
  HookHandle register_forward_pre_hook(ForwardPreHook hook) { return {hooks_.lists().before, std::move(hook)}; }
  HookHandle register_forward_hook(ForwardHook hook) { return {hooks_.lists().after, std::move(hook)}; }
  HookHandle register_backward_pre_hook(BackwardPreHook hook) {
    return {hooks_.lists().output_gradient, std::move(hook)};
  }
  HookHandle register_backward_hook(BackwardHook hook) { return {hooks_.lists().input_gradient, std::move(hook)}; }
  /// Makes registering hooks throw Error with this reason, which must outlive the module: for a part whose work a layer
  /// does itself, so that its hooks would never run. Copies refuse too.
  void refuse_hooks(const char* reason) noexcept { hooks_.refuse(reason); }
  bool has_hooks() const noexcept { return hooks_.any(); }
  const std::shared_ptr<ModuleHooks::Lists>& hooks() const noexcept { return hooks_.held(); }  ///< null: none
  /// Holds this module's address, also after it was moved, and null when it is gone: for who must look at it again.
  std::shared_ptr<Module* const> place() { return place_.of(*this); }

 protected:
  Module() { refuse_hooks("this module is not a Layer, whose calls run them: derive it from Layer (nn/layer.h)"); }
  void take_hooks() noexcept { hooks_.refuse(nullptr); }  ///< allows hooks: for layers
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;
  Module(Module&& other) noexcept : hooks_(std::move(other.hooks_)), training_(other.training_) {
    other.place_.move_to(place_, *this);
  }
  Module& operator=(Module&& other) noexcept {
    if (this == &other) return *this;
    hooks_ = std::move(other.hooks_);
    training_ = other.training_;
    other.place_.move_to(place_, *this);
    return *this;
  }

 private:
  ModuleHooks hooks_;
  ModulePlace place_;
  bool training_ = true;
};

/// One line per parameter and buffer (name, shape, dtype, device), then the number of values in all parameters.
std::string describe(Module&);

/// An independent copy of a module with all its values on `device`.
template <std::derived_from<Module> M> M clone(const M& module, Device device) {
  M copy = module;
  copy.detach_members_to(device);
  return copy;
}

}  // namespace tutti
