// SPDX-License-Identifier: Apache-2.0
#pragma once

// Starting values of parameters. All write in place, on the tensor's device, and advance the generator by the number of
// elements written. Tensors are of floating type, else DTypeError.

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/random.h>

#include <cstdint>

namespace tutti {

/// Values that flow into and out of one unit: weight [out, in, kernel...] has in * kernel and out * kernel.
struct Fan {
  std::int64_t in = 0;
  std::int64_t out = 0;
};
Fan fan_of(const Shape& weight);  ///< throws ShapeError below rank 2

/// Nonlinearity that follows a weight; `linear` stands for none, and for convolutions alone.
enum class Nonlinearity : std::uint8_t { linear, sigmoid, tanh, relu, leaky_relu, selu };

/// Factor of a weight's standard deviation with which values keep theirs through the nonlinearity: 1, 1, 5/3, sqrt(2),
/// sqrt(2 / (1 + slope^2)) and 3/4, as torch.nn.init.calculate_gain.
double gain_of(Nonlinearity, double slope = 0.01);

struct KaimingOptions {
  enum class Mode : std::uint8_t { fan_in, fan_out } mode = Mode::fan_in;
  double slope = 0.0;  ///< slope of the leaky ReLU that follows; 0: ReLU
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};

/// Standard deviation gain_of(nonlinearity, slope) / sqrt(fan), sqrt(2 / ((1 + slope^2) fan)) unless another
/// nonlinearity is given: He et al., "Delving Deep into Rectifiers" (2015).
void kaiming_uniform(const Tensor& weight, Generator&, const KaimingOptions& = {});
void kaiming_normal(const Tensor& weight, Generator&, const KaimingOptions& = {});

/// Standard deviation gain sqrt(2 / (fan in + fan out)): Glorot and Bengio, "Understanding the difficulty of training
/// deep feedforward neural networks" (2010).
void xavier_uniform(const Tensor& weight, Generator&, double gain = 1.0);
void xavier_normal(const Tensor& weight, Generator&, double gain = 1.0);

/// Rows, or columns where there are fewer, that are orthonormal times gain, of the weight as a matrix [out, in *
/// kernel], in a direction as likely as any other: Saxe et al., "Exact Solutions to the Nonlinear Dynamics of Learning
/// in Deep Linear Neural Networks" (2014). Computed in f64 on cpu:0, for all devices. ShapeError below rank 2.
void orthogonal(const Tensor& weight, Generator&, double gain = 1.0);

/// Ones on the diagonal of a matrix, which passes its input through; zeros elsewhere. ShapeError but for rank 2.
void identity(const Tensor& weight);
/// Identity as a convolution's weight [out, in / groups, kernel...]: in each group, channel i of the input comes out at
/// channel i, with a 1 in the middle of the kernel (PyTorch's dirac_). ShapeError for other than 3 to 5 axes, and
/// unless the groups divide `out`.
void identity_convolution(const Tensor& weight, std::int64_t groups = 1);

void fill_constant(const Tensor&, double);
void fill_uniform(const Tensor&, Generator&, double low, double high);  ///< [low, high)
void fill_normal(const Tensor&, Generator&, double mean, double standard_deviation);
/// Draws normal numbers, limited to [low, high], as `Generator::truncated_normal` says, with its errors.
void fill_truncated_normal(const Tensor&, Generator&, double mean, double standard_deviation, double low, double high);

/// Starting values of Linear and Conv2d, as in PyTorch: weight and bias uniform in [-1/sqrt(fan in), 1/sqrt(fan in)),
/// which for the weight is kaiming_uniform with slope sqrt(5). An undefined bias is left out.
void initialize_layer(const Tensor& weight, const Tensor& bias, Generator&);

}  // namespace tutti
