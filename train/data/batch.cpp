// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/data/batch.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/raise.h>

#include <vector>

namespace tutti {
namespace {

Tensor without_rows(const Tensor& rows, Device device) {
  if (!rows.defined()) return {};
  Shape shape = rows.shape();
  shape[0] = 0;
  return Tensor(Array::empty(shape, rows.dtype(), device));
}

}  // namespace

Batch Batch::without_examples(Device device) const {
  return {without_rows(inputs, device), without_rows(targets, device), 0, epoch, step, first};
}

Batch concatenated(std::span<const Batch> batches) {
  if (batches.empty()) raise("[concatenated] there are no batches");
  Batch all = batches.front();
  std::vector<Tensor> inputs;
  std::vector<Tensor> targets;
  all.size = 0;
  for (const Batch& batch : batches) {
    if (batch.size == 0) continue;
    inputs.push_back(batch.inputs);
    targets.push_back(batch.targets);
    all.size += batch.size;
  }
  if (inputs.empty()) return all;
  all.inputs = concatenate(inputs);
  all.targets = concatenate(targets);
  return all;
}

}  // namespace tutti
