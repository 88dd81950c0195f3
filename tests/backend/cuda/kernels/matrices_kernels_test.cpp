// SPDX-License-Identifier: Apache-2.0
// The kernels beside cuSOLVER on the host.
#include <tutti/backend/cuda/kernels/matrices.h>
#include <tutti/tests/backend/cuda/on_host/device_array.h>

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <vector>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using cuda_kernels::MatrixBatch;
using cuda_kernels::MatrixFault;
using on_host::DeviceArray;
using Kind = MatrixDefect::Kind;

/// 1, 2, 3, ...
template <class T> Array counted(const Shape& shape) {
  std::vector<T> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i + 1);
  return Array::from(values, shape, cpu());
}

TEST_CASE_TEMPLATE("matrices: triangles are cleared, between other elements too", T, float, double) {
  for (const bool upper : {false, true})
    for (const std::int64_t n : {1, 3, 40}) {
      constexpr std::int64_t kBetween = 2;
      const std::int64_t distance = n * n + kBetween;
      const Array input = counted<T>({5, distance});
      const Array found = on_host::in_every_order([&] {
        DeviceArray data = DeviceArray::unwritten(input.bytes());
        std::memcpy(data.data(), input.raw_data(), input.bytes());
        cuda_kernels::launch_clear_triangle(nullptr, dtype_of<T>, {5, n, n, distance}, upper, data.data());
        return data.read(input.shape(), input.dtype());
      });
      auto expected = input.to_vector<T>();
      for (std::int64_t i = 0; i < 5 * distance; ++i) {
        const std::int64_t place = i % distance;
        if (place >= n * n) continue;
        const std::int64_t right = place % n - place / n;
        if (upper ? right > 0 : right < 0) expected[static_cast<std::size_t>(i)] = T(0);
      }
      CHECK(found.template to_vector<T>() == expected);
    }
}

TEST_CASE_TEMPLATE("matrices: exchanges of rows become a permutation and its sign", T, float, double) {
  // Row 0 with 2, then 1 with 2, then nothing; nothing at all; each with the next.
  const Array exchanges = Array::from(std::vector<std::int32_t>{3, 3, 3, 1, 2, 3, 2, 3, 3}, {3, 3}, cpu());
  const DeviceArray from(exchanges);
  const auto run = [&](bool signs) {
    return on_host::in_every_order([&] {
      DeviceArray permutation = DeviceArray::unwritten(9 * sizeof(std::int64_t));
      DeviceArray sign = DeviceArray::unwritten(3 * sizeof(T));
      cuda_kernels::launch_permutation(nullptr, dtype_of<T>, 3, 3, from.as<int>(), permutation.as<std::int64_t>(),
                                       sign.data());
      return signs ? sign.read({3}, dtype_of<T>) : permutation.read({9}, DType::i64);
    });
  };
  CHECK(run(false).template to_vector<std::int64_t>() == std::vector<std::int64_t>{2, 0, 1, 0, 1, 2, 1, 2, 0});
  CHECK(run(true).template to_vector<T>() == std::vector<T>{1, 1, 1});
  const Array once = Array::from(std::vector<std::int32_t>{2, 2}, {1, 2}, cpu());
  DeviceArray permutation = DeviceArray::unwritten(2 * sizeof(std::int64_t));
  DeviceArray sign = DeviceArray::unwritten(sizeof(T));
  const DeviceArray one(once);
  cuda_kernels::launch_permutation(nullptr, dtype_of<T>, 1, 2, one.as<int>(), permutation.as<std::int64_t>(),
                                   sign.data());
  CHECK(sign.read({1}, dtype_of<T>).template to_vector<T>() == std::vector<T>{-1});
}

TEST_CASE("matrices: pointers lie at equal distances") {
  DeviceArray pointers = DeviceArray::unwritten(300 * sizeof(void*));
  std::byte memory[1];
  cuda_kernels::launch_point_at(nullptr, memory, 24, 300, pointers.as<void*>());
  const auto found = pointers.read({300}, DType::i64).to_vector<std::int64_t>();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < found.size(); ++i)
    wrong += found[i] == static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(memory) + 24 * i) ? 0 : 1;
  CHECK(wrong == 0);
}

template <class Launch> MatrixDefect reported(const Launch& launch, std::int64_t& matrix) {
  MatrixFault fault;
  const on_host::LentMemory lent("the report", &fault, sizeof(fault), on_host::Lending::racing);
  launch(&fault);
  matrix = fault.matrix();
  return {fault.kind, fault.pivot()};
}

TEST_CASE_TEMPLATE("matrices: defects are reported with their matrix and pivot", T, float, double) {
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const T infinity = std::numeric_limits<T>::infinity();
  const MatrixBatch batch{300, 2, 2, 4};
  const auto found = [&](std::size_t element, T value, Kind kind, std::int64_t& matrix) {
    std::vector<T> values(1200, T(1));
    values[element] = value;
    const DeviceArray data(Array::from(values, {1200}, cpu()));
    return reported(
        [&](MatrixFault* fault) {
          if (kind == Kind::not_finite)
            cuda_kernels::launch_report_not_finite(nullptr, dtype_of<T>, batch, data.data(), fault);
          else
            cuda_kernels::launch_report_diagonal(nullptr, dtype_of<T>, kind, batch, data.data(), fault);
        },
        matrix);
  };
  struct Expected {
    std::size_t element;
    T value;
    Kind kind;
    bool told;
    std::int64_t pivot;
  };
  const Expected cases[] = {
      {7, T(0), Kind::singular, true, 1},
      {1156, T(0), Kind::singular, true, 0},
      {5, T(0), Kind::singular, false, 0},  // beside the diagonal
      {7, nan, Kind::singular, false, 0},
      {7, T(0), Kind::not_positive_definite, true, 1},
      {7, T(-1), Kind::not_positive_definite, true, 1},
      {4, nan, Kind::not_positive_definite, true, 0},
      {7, infinity, Kind::not_positive_definite, true, 1},
      {7, infinity, Kind::singular, false, 0},
      {5, T(-1), Kind::not_positive_definite, false, 0},
      {5, nan, Kind::not_finite, true, 0},
      {1199, -infinity, Kind::not_finite, true, 0},
      {5, T(0), Kind::not_finite, false, 0},
  };
  for (const Expected& each : cases) {
    CAPTURE(each.element);
    std::int64_t matrix = -1;
    const MatrixDefect defect = found(each.element, each.value, each.kind, matrix);
    CHECK(defect.kind == (each.told ? each.kind : Kind::none));
    if (each.told) CHECK(matrix == static_cast<std::int64_t>(each.element / 4));
    CHECK(defect.pivot == each.pivot);
  }
}

TEST_CASE("matrices: a status that is not 0 is reported") {
  for (const std::size_t wrong : {std::size_t{0}, std::size_t{299}, std::size_t{300}}) {
    std::vector<std::int32_t> status(301);
    status[wrong] = wrong == 300 ? 0 : 2;
    const DeviceArray data(Array::from(status, {301}, cpu()));
    std::int64_t matrix = -1;
    const MatrixDefect defect = reported(
        [&](MatrixFault* fault) {
          cuda_kernels::launch_report_status(nullptr, Kind::no_convergence, 300, data.as<int>(), fault);
        },
        matrix);
    CHECK(defect.kind == (wrong == 300 ? Kind::none : Kind::no_convergence));
    if (wrong < 300) CHECK(matrix == static_cast<std::int64_t>(wrong));
  }
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
