// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/random.h>
#include <tutti/nn/sequential.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace tutti {

/// A model of any type that is a value and a function of one tensor: what a handle of the C API holds. Its parameters
/// have the model's own names.
class AnyModel {
 public:
  template <ChainableModule M> AnyModel(M model)  // NOLINT: a factory returns its model
      : held_(std::make_unique<HeldModel<M>>(std::move(model))) {}

  Module& module() const noexcept { return held_->module(); }
  Tensor forward(const Tensor& x) const { return held_->forward(x); }
  AnyModel clone_to(Device device) const {  ///< an independent copy, with all its values on `device`
    AnyModel copy(held_->copy());
    copy.module().detach_members_to(device);
    return copy;
  }

 private:
  class Held {
   public:
    virtual ~Held() = default;
    virtual std::unique_ptr<Held> copy() const = 0;
    virtual Tensor forward(const Tensor&) const = 0;
    virtual Module& module() noexcept = 0;
  };

  template <class M> class HeldModel : public Held {
   public:
    explicit HeldModel(M model) : model_(std::move(model)) {}
    std::unique_ptr<Held> copy() const override { return std::make_unique<HeldModel>(model_); }
    Tensor forward(const Tensor& x) const override { return call(model_, x); }
    Module& module() noexcept override { return model_; }

   private:
    M model_;
  };

  explicit AnyModel(std::unique_ptr<Held> held) : held_(std::move(held)) {}

  std::unique_ptr<Held> held_;
};

/// Makes a model on cpu:0 of options in a language of its own; an error says what it does not understand.
using CModelFactory = std::function<AnyModel(const std::string& options, Generator& random)>;

/// Lets tutti_model_create make models of this kind, in this process. The factory is called on any thread, by several
/// at the same time, and stays until the process ends. Throws Error for a kind that is there already, and for no
/// factory:
///
///   tutti::register_c_model("classifier", [](const std::string& options, tutti::Generator& random) {
///     return Classifier(std::stoi(options), random);
///   });
void register_c_model(std::string kind, CModelFactory);

/// A new model of a registered kind. Throws Error, which lists the kinds, for another, and what the factory throws.
AnyModel make_c_model(const std::string& kind, const std::string& options, Generator& random);

}  // namespace tutti
