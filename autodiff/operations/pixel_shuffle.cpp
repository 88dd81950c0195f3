// SPDX-License-Identifier: Apache-2.0
// Shi et al., "Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional Neural
// Network" (2016).
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/numbers/checked_size.h>
#include <tutti/backend/raise.h>

namespace tutti {

namespace {

void check_images(std::string_view operation, const Shape& shape, std::int64_t factor) {
  if (shape.size() < 3) raise<ShapeError>("[{}] [..., c, h, w] is needed, not {}", operation, to_string(shape));
  if (factor < 1) raise<ShapeError>("[{}] the factor must be at least 1, not {}", operation, factor);
}

Shape with_tail(const Shape& shape, std::initializer_list<std::int64_t> tail) {
  Shape joined(std::span(shape.data(), shape.size() - 3));
  for (const std::int64_t length : tail) joined.push_back(length);
  return joined;
}

}  // namespace

Tensor pixel_shuffle(const Tensor& x, std::int64_t r) {
  const OperationScope scope("pixel_shuffle", x);
  check_images("pixel_shuffle", x.shape(), r);
  const std::int64_t h = x.length(-2);
  const std::int64_t w = x.length(-1);
  if (x.length(-3) % r != 0 || x.length(-3) / r % r != 0)  // r * r may be beyond 64 bits
    raise<ShapeError>("[pixel_shuffle] factor {}: its square must divide the channels of {}", r, to_string(x.shape()));
  const std::int64_t channels = x.length(-3) / r / r;
  Tensor y = reshape(x, with_tail(x.shape(), {channels, r, r, h, w}));  // to [c, h, r, w, r]
  y = moveaxis(moveaxis(y, -4, -2), -4, -1);
  const auto grown = [&](std::int64_t length) {
    return (CheckedSize(length) * r).get("pixel_shuffle", "factor {} of {}", r, x.shape());
  };
  return reshape(y, with_tail(x.shape(), {channels, grown(h), grown(w)}));
}

Tensor pixel_unshuffle(const Tensor& x, std::int64_t r) {
  const OperationScope scope("pixel_unshuffle", x);
  check_images("pixel_unshuffle", x.shape(), r);
  const std::int64_t channels = x.length(-3);
  if (x.length(-2) % r != 0 || x.length(-1) % r != 0)
    raise<ShapeError>("[pixel_unshuffle] factor {} must divide height and width of {}", r, to_string(x.shape()));
  const std::int64_t h = x.length(-2) / r;
  const std::int64_t w = x.length(-1) / r;
  Tensor y = reshape(x, with_tail(x.shape(), {channels, h, r, w, r}));  // to [c, r, r, h, w]
  y = moveaxis(moveaxis(y, -2, -1), -4, -2);
  const std::int64_t all = (CheckedSize(channels) * r * r).get("pixel_unshuffle", "factor {} of {}", r, x.shape());
  return reshape(y, with_tail(x.shape(), {all, h, w}));
}

}  // namespace tutti
