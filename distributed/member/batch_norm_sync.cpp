// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/batch_norm_sync.h>

#include <tutti/distributed/gradient_sync.h>
#include <tutti/nn/normalization.h>

#include <utility>

namespace tutti {
namespace {

/// Calls `visit_layer` with each BatchNorm of a model.
template <class VisitLayer> class BatchNormVisitor : public MemberVisitor {
 public:
  explicit BatchNormVisitor(VisitLayer visit_layer) : visit_layer_(std::move(visit_layer)) {}

  void parameter(std::string_view, Tensor&) override {}
  void buffer(std::string_view, Tensor&) override {}
  void module(std::string_view, Module& child) override {
    if (auto* const layer = dynamic_cast<BatchNorm*>(&child)) visit_layer_(*layer);
    child.visit(*this);
  }

 private:
  VisitLayer visit_layer_;
};

}  // namespace

GatherStatistics gather_statistics(GradientSync& sync) {
  return [&sync](const Tensor& part) { return sync.all_gather(part.device(), part).resolve(); };
}

void synchronize_batch_norms(Module& model, GradientSync& sync) {
  const GatherStatistics gather = gather_statistics(sync);
  BatchNormVisitor([&](BatchNorm& layer) { layer.gather = gather; }).module("", model);
}

bool has_synchronized_batch_norms(Module& model) {
  bool found = false;
  BatchNormVisitor([&](const BatchNorm& layer) { found |= static_cast<bool>(layer.gather); }).module("", model);
  return found;
}

}  // namespace tutti
