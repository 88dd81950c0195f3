// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <initializer_list>
#include <span>

namespace tutti {

struct ClipOptions {
  bool throw_if_non_finite = false;  ///< a norm of NaN or infinity throws Error instead of being returned
  bool drop_if_non_finite = false;   ///< such a norm drops the gradients: the next step passes over the parameters
};

/// Scales all gradients, in place and by one factor, so that their joint Euclidean norm is at most `max_norm`; returns
/// the norm before. The factor is PyTorch's: max_norm / (norm + 1e-6), where that is below 1. Reductions in flight are
/// joined first; parameters without a gradient are left out. A norm that is not finite is returned and leaves the
/// gradients as they are: scaling by it would spread NaN to every parameter, so the caller decides whether to step,
/// here or by the options. An infinite `max_norm` only measures. Throws Error unless max_norm is positive.
double clip_grad_norm(std::span<const Tensor> parameters, double max_norm, const ClipOptions& = {});
inline double clip_grad_norm(std::initializer_list<Tensor> parameters, double max_norm,
                             const ClipOptions& options = {}) {
  return clip_grad_norm(std::span(parameters.begin(), parameters.size()), max_norm, options);
}

/// `clip_grad_norm` without waiting: the norm, a sum in f64, and the factor are worked out on the device of the
/// gradients, and the norm stays there, without axes. One that is not finite leaves the gradients as they are.
/// `clip_grad_norm` is this, read, where all gradients are on one device that is no CPU device. DeviceError for
/// gradients on several devices.
Tensor clip_grad_norm_queued(std::span<const Tensor> parameters, double max_norm);
inline Tensor clip_grad_norm_queued(std::initializer_list<Tensor> parameters, double max_norm) {
  return clip_grad_norm_queued(std::span(parameters.begin(), parameters.size()), max_norm);
}

/// `clip_grad_norm` for who does not read the norm: it waits for no device, where all gradients are on one.
void clip_unread_norm(std::span<const Tensor> parameters, double max_norm);

/// Brings every element of all gradients into [-limit, limit], in place; NaN stays. Joins, and leaves out, as above.
/// Throws Error unless the limit is positive.
void clip_grad_value(std::span<const Tensor> parameters, double limit);
inline void clip_grad_value(std::initializer_list<Tensor> parameters, double limit) {
  clip_grad_value(std::span(parameters.begin(), parameters.size()), limit);
}

// Parts of clip_grad_norm, for norms of which these gradients are a share only.
void check_max_norm(double max_norm);
double gradient_square_sum(std::span<const Tensor> parameters);
/// Scales as if `norm` were the gradients' joint norm, and returns it.
double clip_to_norm(std::span<const Tensor> parameters, double norm, double max_norm, const ClipOptions& = {});

}  // namespace tutti
