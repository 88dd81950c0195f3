// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/steps/ready_gradient.h>

#include <tutti/backend/raise.h>

namespace tutti {
namespace {

std::string name_of(const GradientSlot& slot, std::size_t position) {
  return slot.attachment ? fmt::format("parameter \"{}\"", slot.attachment->name)
                         : fmt::format("parameter {}", position);
}

/// Null: there is no gradient.
const GradientSlot* ready_slot(std::string_view operation, const Tensor& parameter, std::size_t position) {
  if (!parameter.requires_grad()) return nullptr;
  const GradientSlot& slot = parameter.gradient_slot();
  slot.join_pending();
  if (slot.state == GradientState::undefined) return nullptr;
  if (slot.attachment && slot.state == GradientState::accumulated)
    raise("[{}] {} has a local gradient that was never reduced: call step.backward before optimizer.step", operation,
          name_of(slot, position));
  if (slot.state == GradientState::elsewhere)
    raise("[{}] the gradient of {} is scattered over the devices of its group: step its ShardedOptimizer", operation,
          name_of(slot, position));
  if (slot.state == GradientState::applied)
    raise("[{}] {} was updated during backward (Overlap::in_backward): its gradient is used up", operation,
          name_of(slot, position));
  return &slot;
}

}  // namespace

std::string parameter_text(const Tensor& parameter, std::size_t position) {
  return name_of(parameter.gradient_slot(), position);
}

SparseGradient ready_sparse_gradient(std::string_view operation, const Tensor& parameter, std::size_t position) {
  return ready_slot(operation, parameter, position) == nullptr ? SparseGradient() : parameter.sparse_grad();
}

Array ready_gradient(std::string_view operation, const Tensor& parameter, std::size_t position) {
  const GradientSlot* ready = ready_slot(operation, parameter, position);
  if (ready == nullptr) return {};
  const GradientSlot& slot = *ready;
  const Array& value = parameter.array();
  const Array& gradient = slot.gradient;
  if (!gradient.defined()) raise("[{}] {} has no gradient array", operation, name_of(slot, position));
  if (gradient.shape() != value.shape())
    raise<ShapeError>("[{}] {} is {}, its gradient {}", operation, name_of(slot, position), to_string(value.shape()),
                      to_string(gradient.shape()));
  if (gradient.dtype() != value.dtype())
    raise<DTypeError>("[{}] {} is {}, its gradient {}", operation, name_of(slot, position), to_string(value.dtype()),
                      to_string(gradient.dtype()));
  if (gradient.device() != value.device())
    raise<DeviceError>("[{}] {} is on {}, its gradient on {}", operation, name_of(slot, position),
                       to_string(value.device()), to_string(gradient.device()));
  return gradient;
}

}  // namespace tutti
