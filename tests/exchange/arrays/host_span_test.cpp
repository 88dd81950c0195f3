// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/arrays/host_span.h>

#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/exchange/eigen.h>

#include <doctest/doctest.h>

#include <array>

using namespace tutti;

TEST_CASE("host span: reads and writes the array's own memory, after queued work") {
  Array array = Array::zeros({2, 3}, DType::f32, cpu(2));
  array.fill(4);
  const std::span<float> values = host_span<float>(array);
  REQUIRE(values.size() == 6);
  CHECK(values[5] == 4);
  values[5] = 7;
  CHECK(array.to_vector<float>() == std::vector<float>{4, 4, 4, 4, 4, 7});
  CHECK(host_span<float>(array.slice(0, 1, 2)).data() == values.data() + 3);
  CHECK_THROWS_WITH_AS(host_span<float>(array.transpose()), doctest::Contains("not contiguous"), ShapeError);
  CHECK_THROWS_AS(host_span<double>(array), DTypeError);
  CHECK_THROWS_AS(host_span<float>(Array()), Error);
}

TEST_CASE("array over a span: the same memory, held by its owner") {
  auto owner = std::make_shared<std::vector<double>>(std::vector<double>{1, 2, 3, 4});
  const std::weak_ptr<std::vector<double>> watch = owner;
  Array array = array_over(std::span(*owner), {2, 2}, owner);
  array.slice(0, 0, 1).fill(0);
  host_span<double>(array);  // waits
  CHECK(*owner == std::vector<double>{0, 0, 3, 4});
  owner.reset();
  CHECK(watch.lock() != nullptr);
  Array part = array.slice(1, 1, 2);
  array = Array();
  CHECK(part.to_vector<double>() == std::vector<double>{0, 4});
  part = Array();
  CHECK(watch.lock() == nullptr);

  std::array<float, 6> mine{};
  CHECK_THROWS_AS(array_over(std::span<float>(mine), {5}), ShapeError);
  CHECK_THROWS_AS(array_over(std::span<float>(mine), {6}, nullptr, cuda()), DeviceError);
  CHECK_THROWS_AS(Array::over(reinterpret_cast<char*>(mine.data()) + 1, nullptr, DType::f32, {1}, {1}, cpu()), Error);
  CHECK_THROWS_AS(Array::over(mine.data(), nullptr, DType::f32, {2}, {-1}, cpu()), ShapeError);
  CHECK_THROWS_AS(Array::over(mine.data(), nullptr, DType::f32, {2}, {1, 1}, cpu()), ShapeError);
  CHECK_THROWS_AS(Array::over(mine.data(), nullptr, DType::f32, {3, 3}, {1LL << 61, 1LL << 62}, cpu()), ShapeError);
}

TEST_CASE("eigen: matrices and vectors over an array, and arrays from expressions") {
  Array array = Array::arange(6, DType::f64, cpu()).reshape({2, 3});
  auto matrix = eigen_matrix<double>(array);
  CHECK(matrix.rows() == 2);
  CHECK(matrix(1, 0) == 3);
  auto turned = eigen_matrix<double>(array.transpose());
  CHECK(turned(0, 1) == 3);
  turned(2, 1) = -1;
  CHECK(array.to_vector<double>() == std::vector<double>{0, 1, 2, 3, 4, -1});
  CHECK(eigen_vector<double>(array.slice(1, 1, 2).squeeze(1)).sum() == 5);

  const Array sum = array_from(matrix + turned.transpose(), cpu(1));
  CHECK(sum.shape() == Shape{2, 3});
  CHECK(sum.device() == cpu(1));
  CHECK(sum.to_vector<double>() == std::vector<double>{0, 2, 4, 6, 8, -2});
  const Eigen::MatrixXf columns = Eigen::MatrixXf::Identity(3, 2) * 2;
  CHECK(array_from(columns).to_vector<float>() == std::vector<float>{2, 0, 0, 2, 0, 0});
  CHECK(array_from(Eigen::Vector3d(1, 2, 3)).shape() == Shape{3});
  CHECK_THROWS_AS(eigen_matrix<double>(sum.slice(0, 0, 1).squeeze(0)), ShapeError);
  CHECK_THROWS_AS(eigen_vector<double>(sum), ShapeError);
  CHECK_THROWS_AS(eigen_matrix<float>(sum), DTypeError);
}
