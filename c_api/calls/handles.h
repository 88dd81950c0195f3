// SPDX-License-Identifier: Apache-2.0
#pragma once

// The types behind the opaque handles of the C API.

#include <tutti/autodiff/tensor.h>
#include <tutti/c_api.h>
#include <tutti/c_api/calls/arguments.h>
#include <tutti/c_api/model_registry.h>
#include <tutti/optim/optimizer.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

struct tutti_tensor {
  tutti::Tensor value;
};

struct tutti_model {
  explicit tutti_model(tutti::AnyModel made, bool replica = false) : model(std::move(made)), is_replica(replica) {
    for (const auto& [name, member] : model.module().named_members()) names.push_back(name);
  }

  tutti::AnyModel model;
  std::vector<std::string> names;  // parameters, then buffers
  bool is_replica;                 // belongs to its group
};

struct tutti_optimizer {
  std::unique_ptr<tutti::Optimizer> optimizer;
};

namespace tutti::c_api {

inline void give(tutti_tensor*& result, Tensor value) { result = new tutti_tensor{std::move(value)}; }

inline const Tensor& value_of(const tutti_tensor* tensor, const char* parameter) {
  return required(tensor, parameter).value;
}

}  // namespace tutti::c_api
