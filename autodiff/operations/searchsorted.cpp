// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/line_gather.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/raise.h>

#include <bit>

namespace tutti {

namespace {

// As sort has it: NaN is greater than any number.
Tensor comes_before(const Tensor& a, const Tensor& b) {
  return is_floating(a.dtype()) ? (a < b) | (isnan(b) & ~isnan(a)) : a < b;
}

}  // namespace

// A binary search of all values at once: the number of elements that come before each, from its highest bit down.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right) {
  const OperationScope scope("searchsorted", sorted, values);
  const auto [line, wanted] =
      promote_pair(elementwise::Domain::number, "searchsorted", sorted.detach(), values.detach());
  if (line.rank() == 0) raise<ShapeError>("[searchsorted] a scalar has no order");
  if (line.rank() == 1 && wanted.rank() != 1)
    return reshape(searchsorted(line, flatten(wanted), right), wanted.shape());
  Shape expected = wanted.shape();
  if (!expected.empty()) expected[expected.size() - 1] = line.length(-1);
  if (line.shape() != expected)
    raise<ShapeError>("[searchsorted] values {} in {}: all axes but the last must agree", to_string(wanted.shape()),
                      to_string(line.shape()));
  const auto length = static_cast<std::uint64_t>(line.length(-1));
  Tensor before(Array::zeros(wanted.shape(), DType::i64, wanted.device()));
  for (std::uint64_t step = std::bit_floor(length); step > 0; step /= 2) {
    const Tensor more = before + static_cast<std::int64_t>(step);
    const Tensor element = gather_places(line, -1, minimum(more, static_cast<std::int64_t>(length)) - 1);
    const Tensor passes = right ? ~comes_before(wanted, element) : comes_before(element, wanted);
    before = where(passes & (more <= static_cast<std::int64_t>(length)), more, before);
  }
  return before;
}

}  // namespace tutti
