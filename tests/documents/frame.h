// SPDX-License-Identifier: Apache-2.0
#pragma once

// The frame of what documents show: what is in no part of a program: tutti.h, headers of those who extend the library,
// and the names that it takes for granted. Nothing here is ever defined, for documents are compiled and never linked.
// What only one of them speaks of is declared beside it, in its own comment.

#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations/elementwise_recording.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/forwarding_backend.h>
#include <tutti/backend/operations.h>
#include <tutti/train/checkpoints/tensor_file.h>
#include <tutti/tutti.h>

#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tutti::documents {

struct Model : Layer {
  Tensor compute(const Tensor&) const override;
  Tensor loss(const Batch&) const;
  void visit(MemberVisitor&) override;
};

// NOLINTBEGIN: no one ever defines or reads them
extern Model model;
extern std::vector<Model> replicas;
extern AdamW optimizer;
extern GradientSync sync;
extern std::vector<Device> devices;
extern std::size_t d;  // the number of a device
extern Device device;
extern Batch batch;
extern std::vector<Batch> batches;
extern Generator random;
extern Step step;
extern Tensor x, y, loss, weight;
extern double examples, rate;
extern std::int64_t epochs;
extern std::uint64_t seed;
extern std::string path;
// NOLINTEND

}  // namespace tutti::documents
