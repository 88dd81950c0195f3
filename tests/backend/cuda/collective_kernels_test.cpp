// SPDX-License-Identifier: Apache-2.0
// The kernels that collectives need beside NCCL's own, on the host.
#include <tutti/backend/cuda/kernels/collective.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/backend/cuda/on_host/device_array.h>
#include <tutti/tests/backend/random_views.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using cuda_kernels::Combination;
using on_host::LentArrays;

constexpr DType kNumbers[] = {DType::f32, DType::f64, DType::i32, DType::i64};

Array filled(samples::RandomViews& views, std::int64_t size, DType dtype) {
  const Array array = Array::empty({size}, dtype, cpu());
  views.fill(array);
  return array;
}

/// Elements before and behind [begin, begin + count) stay as they are.
template <class Launch>
Array changed_on_host(const Array& values, std::int64_t begin, std::int64_t count, const Launch& launch) {
  return on_host::in_every_order([&] {
    const Array found = values.copy();
    const LentArrays lent({}, {found});
    launch(found.slice(0, begin, begin + count).raw_data());
    return found;
  });
}

Array expected_of(Combination combination, const Array& a, const Array& b) {
  switch (combination) {
    case Combination::sum: return apply(elementwise::Add{}, a, b);
    case Combination::max: return apply(elementwise::Maximum{}, a, b);
    default: return apply(elementwise::Minimum{}, a, b);
  }
}

TEST_CASE("combinations of arrays, wherever their slices begin") {
  samples::RandomViews views(33);
  for (const DType dtype : kNumbers)
    for (const auto combination : {Combination::sum, Combination::max, Combination::min})
      for (const std::int64_t count : {0, 1, 3, 4, 255, 1030})
        for (const std::int64_t begin : {0, 1}) {
          CAPTURE(to_string(dtype));
          CAPTURE(count);
          CAPTURE(begin);
          const Array values = filled(views, count + 3, dtype);
          const Array other = filled(views, count + 3, dtype);
          const Array theirs = other.slice(0, begin, begin + count);
          const Array expected = values.copy();
          Array part = expected.slice(0, begin, begin + count);
          if (count > 0) part.copy_from(expected_of(combination, values.slice(0, begin, begin + count), theirs));
          const LentArrays lent({other}, {});
          const Array found = changed_on_host(values, begin, count, [&](std::byte* mine) {
            cuda_kernels::launch_combine(nullptr, combination, dtype, mine, theirs.raw_data(), count);
          });
          CHECK(on_host::differences(found, expected, 0) == 0);
        }
}

/// As C++ divides.
Array quotients(const Array& values, double denominator) {
  return visit_dtype(values.dtype(), [&]<class T>(std::type_identity<T>) {
    std::vector<T> results = values.to_vector<T>();
    for (auto&& x : results) x = static_cast<T>(x / static_cast<T>(denominator));
    return Array::from(results, values.shape(), cpu());
  });
}

TEST_CASE("division, of whole groups and of what is left over") {
  samples::RandomViews views(34);
  for (const DType dtype : kNumbers)
    for (const std::int64_t count : {1, 5, 1031})
      for (const double denominator : {1.0, 3.0}) {
        const Array values = filled(views, count + 1, dtype);
        const Array expected = values.copy();
        Array part = expected.slice(0, 0, count);
        part.copy_from(quotients(values.slice(0, 0, count), denominator));
        const Array found = changed_on_host(values, 0, count, [&](std::byte* mine) {
          cuda_kernels::launch_divide(nullptr, dtype, mine, count, denominator);
        });
        CHECK(on_host::differences(found, expected, 0) == 0);
      }
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
