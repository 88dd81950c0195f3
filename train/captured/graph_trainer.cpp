// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/graph_trainer.h>

#include <tutti/backend/raise.h>

#include <fmt/ranges.h>

namespace tutti {

CapturedLosses::CapturedLosses(Module& model, Function function, CapturedStepOptions options)
    : function_(std::move(function)),
      step_(
          model, [this](std::span<const Tensor> batch) { return call(batch); }, options) {}

std::vector<Tensor> CapturedLosses::call(std::span<const Tensor> batch) {
  Results results = function_(batch);
  std::vector<Tensor> tensors{std::move(results.minimised)};
  std::vector<std::string> names;
  for (auto& [name, value] : results.losses) {
    names.push_back(name);
    tensors.push_back(std::move(value));
  }
  if (names_.empty()) names_ = names;
  if (names != names_)
    raise<CaptureError>("[graph trainer] a step's results are {}, of steps before they were {}", fmt::join(names, ", "),
                        fmt::join(names_, ", "));
  return tensors;
}

Losses CapturedLosses::operator()(std::span<const Tensor> batch, Step* step, double scale) {
  std::vector<Tensor> values = step != nullptr ? step_(batch, *step) : step_(batch, scale);
  Losses losses;
  for (std::size_t i = 0; i < names_.size(); ++i) losses.emplace_back(names_[i], std::move(values[i + 1]));
  return losses;
}

void CapturedLosses::invalidate(std::string reason) {
  names_.clear();
  step_.invalidate(std::move(reason));
}

}  // namespace tutti
