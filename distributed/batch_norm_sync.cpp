// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/batch_norm_sync.h>

#include <tutti/distributed/gradient_sync.h>
#include <tutti/nn/normalization.h>

namespace tutti {
namespace {

class BatchNormVisitor : public MemberVisitor {
 public:
  explicit BatchNormVisitor(const GatherStatistics& gather) : gather_(gather) {}

  void parameter(std::string_view, Tensor&) override {}
  void buffer(std::string_view, Tensor&) override {}
  void module(std::string_view, Module& child) override {
    if (auto* const layer = dynamic_cast<BatchNorm*>(&child)) layer->gather = gather_;
    child.visit(*this);
  }

 private:
  const GatherStatistics& gather_;
};

}  // namespace

GatherStatistics gather_statistics(GradientSync& sync) {
  return [&sync](const Tensor& part) { return sync.all_gather(part.device(), part).resolve(); };
}

void synchronize_batch_norms(Module& model, GradientSync& sync) {
  const GatherStatistics gather = gather_statistics(sync);
  BatchNormVisitor(gather).module("", model);
}

}  // namespace tutti
