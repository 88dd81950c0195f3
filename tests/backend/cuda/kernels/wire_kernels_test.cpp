// SPDX-License-Identifier: Apache-2.0
// The kernels that pack gradients for a 16-bit journey and unpack them, on the host.
#include <tutti/backend/cuda/kernels/wire.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/backend/cuda/on_host/device_array.h>
#include <tutti/tests/backend/random/random_views.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using on_host::LentArrays;

/// Elements before and behind [begin, begin + count) stay as they are.
template <class Launch> Array on_host_into(const Array& values, std::int64_t begin, std::int64_t count, Launch launch) {
  return on_host::in_every_order([&] {
    const Array found = values.copy();
    const LentArrays lent({}, {found});
    launch(found.slice(0, begin, begin + count).raw_data());
    return found;
  });
}

template <class F> void for_each_size(F check) {
  for (const DType wire : {DType::bf16, DType::f16})
    for (const std::int64_t count : {0, 1, 7, 8, 1029})
      for (const std::int64_t begin : {0, 1}) {  // unaligned, too
        CAPTURE(to_string(wire));
        CAPTURE(count);
        CAPTURE(begin);
        check(wire, count, begin);
      }
}

TEST_CASE("wire kernels: packed values are scaled and rounded once, wherever slices begin") {
  samples::RandomViews views(61);
  for_each_size([&](DType wire, std::int64_t count, std::int64_t begin) {
    const Array values = Array::empty({count + 3}, DType::f32, cpu());
    views.fill(values);
    const Array part = values.slice(0, begin, begin + count);
    const Array untouched = Array::full({count + 3}, 3.0, wire, cpu());
    Array expected = untouched.copy();
    const Array scaled = apply(elementwise::Multiply{}, part, Array::full({count}, 0.25, DType::f32, cpu()));
    if (count > 0) expected.slice(0, begin, begin + count).copy_from(scaled.cast(wire));
    const LentArrays lent({values}, {});
    const Array found = on_host_into(untouched, begin, count, [&](std::byte* packed) {
      cuda_kernels::launch_pack(nullptr, wire, reinterpret_cast<const float*>(part.raw_data()), packed, count, 0.25F);
    });
    CHECK(on_host::same_bits(found, expected));
  });
}

TEST_CASE("wire kernels: unpacked values are what was packed") {
  samples::RandomViews views(62);
  for_each_size([&](DType wire, std::int64_t count, std::int64_t begin) {
    const Array packed = Array::empty({count + 3}, wire, cpu());
    views.fill(packed);
    const Array part = packed.slice(0, begin, begin + count);
    const Array untouched = Array::full({count + 3}, 3.0, DType::f32, cpu());
    Array expected = untouched.copy();
    if (count > 0) expected.slice(0, begin, begin + count).copy_from(part.cast(DType::f32));
    const LentArrays lent({packed}, {});
    const Array found = on_host_into(untouched, begin, count, [&](std::byte* values) {
      cuda_kernels::launch_unpack(nullptr, wire, part.raw_data(), reinterpret_cast<float*>(values), count);
    });
    CHECK(on_host::same_bits(found, expected));
  });
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
