// SPDX-License-Identifier: Apache-2.0
#pragma once

// Operations that draw from a generator. What they draw depends on the generator alone, never on the kind of device.

#include <tutti/autodiff/creation.h>
#include <tutti/autodiff/tensor.h>
#include <tutti/backend/random.h>

namespace tutti {

/// Each element is 0 with probability p, and x / (1 - p) otherwise, so that the mean stays: Srivastava et al.,
/// "Dropout: A Simple Way to Prevent Neural Networks from Overfitting" (2014). x is floating, else DTypeError; p in [0,
/// 1], else Error. Which elements are kept is the same for all dtypes. NaN and infinities that are dropped are 0 too.
/// Keeps one byte for each element for its gradient. Without training, or with p = 0, it is x itself, and nothing is
/// drawn.
Tensor dropout(const Tensor& x, double p, Generator&, bool training = true);

/// [low, high), f32 unless another floating type is given, else DTypeError; so for the two below.
Tensor uniform(const Shape&, Generator&, double low = 0.0, double high = 1.0, const TensorOptions& = {});
Tensor normal(const Shape&, Generator&, double mean = 0.0, double standard_deviation = 1.0, const TensorOptions& = {});
inline Tensor uniform(const Shape& shape, Generator& generator, const TensorOptions& options) {
  return uniform(shape, generator, 0.0, 1.0, options);
}
inline Tensor normal(const Shape& shape, Generator& generator, const TensorOptions& options) {
  return normal(shape, generator, 0.0, 1.0, options);
}
/// A normal number on condition that it lies in [low, high]. Error unless low < high and some of the distribution lies
/// between.
Tensor truncated_normal(const Shape&, Generator&, double mean, double standard_deviation, double low, double high,
                        const TensorOptions& = {});

/// Draws 1 with the probability that stands at each place, else 0: probabilities floating, of any shape -> the same
/// shape and dtype. What lies outside [0, 1] counts as the end beside it; NaN gives 0. No gradient.
Tensor bernoulli(const Tensor& probabilities, Generator&);

/// Draws a number 0 ... classes - 1 for each row, with probabilities softmax(logits): [..., classes] floating -> i64
/// [...]. -inf is never drawn; a row without any other gives 0. The largest of logits + Gumbel noise, in f64, so that
/// rare classes are drawn as often as they should: Gumbel, "Statistical Theory of Extreme Values" (1954). No gradient.
Tensor categorical(const Tensor& logits, Generator&);

/// Draws `count` numbers for each row, with replacement, with probabilities in proportion to weights that are not
/// negative: [..., classes] floating -> i64 [..., count]. As torch.multinomial(replacement=True), but that weights are
/// not looked at: what is drawn where one is negative or not finite, or all are 0, means nothing. No gradient.
Tensor multinomial(const Tensor& weights, std::int64_t count, Generator&);

/// i64 [count]: 0 ... count - 1 in an order drawn on the host, each as likely. ShapeError for a negative count.
Tensor permutation(std::int64_t count, Generator&, Device = cpu(0));

}  // namespace tutti
