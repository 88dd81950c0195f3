// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/attention.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/capture/capture.h>
#include <tutti/backend/raise.h>

#include <cmath>
#include <vector>

namespace tutti {

namespace {

struct Turns {
  Tensor cosine;  // [positions, pairs]
  Tensor sine;
};

// Angles grow with the position: they are made in f64, whatever they are rounded to.
Turns turns_of(const RotaryCall& call, std::int64_t positions, std::int64_t pairs, DType dtype, Device device) {
  std::vector<double> cosine;
  std::vector<double> sine;
  for (std::int64_t p = 0; p < positions; ++p)
    for (std::int64_t i = 0; i < pairs; ++i) {
      const double exponent = -static_cast<double>(i) / static_cast<double>(pairs);
      const double angle = (static_cast<double>(call.offset) + static_cast<double>(p)) * std::pow(call.base, exponent);
      cosine.push_back(std::cos(angle));
      sine.push_back(std::sin(angle));
    }
  const HostConstants functions_of_the_shape;
  const auto tensor = [&](const std::vector<double>& values) {
    return Tensor(Array::from(values, {positions, pairs}, device).cast(dtype));
  };
  return {tensor(cosine), tensor(sine)};
}

Tensor turned(const Tensor& x, const Turns& by, bool interleaved) {
  const std::int64_t pairs = x.length(-1) / 2;
  const auto feature = [&](std::int64_t which) {
    if (interleaved) return slice(x, -1, which, 2 * pairs, 2);
    return slice(x, -1, which * pairs, (which + 1) * pairs);
  };
  const Tensor first = feature(0);
  const Tensor second = feature(1);
  const Tensor results[] = {first * by.cosine - second * by.sine, second * by.cosine + first * by.sine};
  return interleaved ? reshape(stack(results, -1), x.shape()) : concatenate(results, -1);
}

}  // namespace

Tensor rotary_embedding(const Tensor& input, const RotaryCall& call) {
  const OperationScope scope("rotary_embedding", input);
  const Tensor narrow = promote_into(elementwise::Domain::floating, "rotary_embedding", input);
  if (narrow.rank() < 2)
    raise<ShapeError>("[rotary_embedding] needs [..., positions, d], got {}", to_string(narrow.shape()));
  const std::int64_t length = narrow.length(-1);
  const std::int64_t features = call.features == 0 ? length : call.features;
  if (features < 0 || features % 2 != 0 || features > length)
    raise<ShapeError>("[rotary_embedding] cannot turn {} features of {}", features, to_string(narrow.shape()));
  const Tensor x = widened(narrow);
  const Turns turns = turns_of(call, x.length(-2), features / 2, x.dtype(), x.device());
  if (features == length) return cast(turned(x, turns, call.interleaved), narrow.dtype());
  const Tensor parts[] = {turned(slice(x, -1, 0, features), turns, call.interleaved), slice(x, -1, features, length)};
  return cast(concatenate(parts, -1), narrow.dtype());
}

}  // namespace tutti
