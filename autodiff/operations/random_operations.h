// SPDX-License-Identifier: Apache-2.0
#pragma once

// Operations that draw from a generator. What they draw depends on the generator alone, not on the kind of device, but
// for the last bits of transcendental functions.

#include <tutti/autodiff/operations/creation.h>
#include <tutti/autodiff/tensor.h>
#include <tutti/backend/random.h>

namespace tutti {

/// Each element is 0 with probability p, and x / (1 - p) otherwise, so that the mean stays: Srivastava et al.,
/// "Dropout: A Simple Way to Prevent Neural Networks from Overfitting" (2014). x is floating, else DTypeError; p in [0,
/// 1], else Error. Which elements are kept is the same for all dtypes. NaN and infinities that are dropped are 0 too.
/// Keeps one byte for each element for its gradient. Without training, or with p = 0, it is x itself, and nothing is
/// drawn.
Tensor dropout(const Tensor& x, double p, Generator&, bool training = true);

/// Uniform in [low, high), and normal numbers: f32 unless another floating type is given, else DTypeError; so for
/// truncated_normal.
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

// Drawn in f64, from one uniform or normal number each, and rounded to f32 unless another floating type is given, else
// DTypeError. Error for a parameter that is not finite, or not positive where it has to be.
/// Waiting times of events that come `rate` > 0 times in a unit of time.
Tensor exponential(const Shape&, Generator&, double rate = 1.0, const TensorOptions& = {});
inline Tensor exponential(const Shape& shape, Generator& generator, const TensorOptions& options) {
  return exponential(shape, generator, 1.0, options);
}
/// The largest of many: location - scale log(-log(u)).
Tensor gumbel(const Shape&, Generator&, double location = 0.0, double scale = 1.0, const TensorOptions& = {});
inline Tensor gumbel(const Shape& shape, Generator& generator, const TensorOptions& options) {
  return gumbel(shape, generator, 0.0, 1.0, options);
}
/// Differences of two exponential numbers, around the location.
Tensor laplace(const Shape&, Generator&, double location = 0.0, double scale = 1.0, const TensorOptions& = {});
inline Tensor laplace(const Shape& shape, Generator& generator, const TensorOptions& options) {
  return laplace(shape, generator, 0.0, 1.0, options);
}
/// Ratios of two normal numbers, around the location; they have no mean.
Tensor cauchy(const Shape&, Generator&, double location = 0.0, double scale = 1.0, const TensorOptions& = {});
inline Tensor cauchy(const Shape& shape, Generator& generator, const TensorOptions& options) {
  return cauchy(shape, generator, 0.0, 1.0, options);
}
/// exp of normal numbers of that mean and standard deviation.
Tensor log_normal(const Shape&, Generator&, double mean = 0.0, double standard_deviation = 1.0,
                  const TensorOptions& = {});
inline Tensor log_normal(const Shape& shape, Generator& generator, const TensorOptions& options) {
  return log_normal(shape, generator, 0.0, 1.0, options);
}
/// Integers in [low, high), each as likely (but for 2^-53), i64 unless another type of integers is given, else
/// DTypeError. Error for none, and for more than 2^53.
Tensor randint(const Shape&, Generator&, std::int64_t low, std::int64_t high, const TensorOptions& = {});
/// Gamma-distributed numbers of rate 1, concentrations floating, of any shape -> the same shape and dtype; NaN where
/// the concentration is not positive; none is below the dtype's smallest normal number. Marsaglia and Tsang, "A Simple
/// Method for Generating Gamma Variables" (2000), in f64; 25 numbers are drawn for each, as no device is waited for. No
/// gradient.
Tensor gamma(const Tensor& concentration, Generator&);

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
