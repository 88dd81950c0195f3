// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/elementwise/operation.h>

namespace tutti::elementwise {

namespace inverse_error_function {

template <std::size_t N> TUTTI_HOST_DEVICE double polynomial(double x, const double (&highest_first)[N]) {
  double r = highest_first[0];
  for (std::size_t i = 1; i < N; ++i) r = r * x + highest_first[i];
  return r;
}

// Wichura, "Algorithm AS 241: The Percentage Points of the Normal Distribution" (1988), PPND16: the middle, as a factor
// of the argument; then by distance from the ends.
TUTTI_HOST_DEVICE inline double middle(double r) {
  const double above[] = {2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
                          4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
                          1.3314166789178437745e2, 3.3871328727963666080e0};
  const double below[] = {
      5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
      5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0};
  return polynomial(r, above) / polynomial(r, below);
}
TUTTI_HOST_DEVICE inline double near_end(double r) {
  const double above[] = {7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
                          1.27045825245236838258e0,  3.64784832476320460504e0,  5.76949722146069140550e0,
                          4.63033784615654529590e0,  1.42343711074968357734e0};
  const double below[] = {
      1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
      6.89767334985100004550e-1, 1.67638483018380384940e0,  2.05319162663775882187e0,  1.0};
  return polynomial(r, above) / polynomial(r, below);
}
TUTTI_HOST_DEVICE inline double at_end(double r) {
  const double above[] = {2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
                          2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
                          5.46378491116411436990e0,  6.65790464350110377720e0};
  const double below[] = {
      2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
      1.48753612908506148525e-2,  1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0};
  return polynomial(r, above) / polynomial(r, below);
}

}  // namespace inverse_error_function

/// The x with erf(x) = y: infinite at -1 and 1, NaN beyond.
TUTTI_HOST_DEVICE inline double erfinv(double y) {
  using namespace inverse_error_function;
  constexpr double kRootOfHalf = 0.70710678118654752;
  const double q = 0.5 * y;
  const double left = 0.5 - abs(q);  // probability of the tail beyond
  if (!(abs(q) > 0.425)) return kRootOfHalf * (q * middle(0.180625 - q * q));
  if (!(left > 0.0)) return left == 0.0 ? y / left : sqrt(left);
  const double r = sqrt(-log(left));
  const double x = kRootOfHalf * (r <= 5.0 ? near_end(r - 1.6) : at_end(r - 5.0));
  return q < 0.0 ? -x : x;
}
TUTTI_HOST_DEVICE inline float erfinv(float y) { return static_cast<float>(erfinv(static_cast<double>(y))); }

}  // namespace tutti::elementwise
