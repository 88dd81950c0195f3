// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/plans/matmul_plan.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

/// What cuBLAS computes, by its definition: column-major output = op(first) x op(second).
void multiply(const MatmulPlan& plan, const Array& lhs, const Array& rhs, const Array& output) {
  const auto at = [](const double* matrix, const MatmulPlan::Operand& operand, std::int64_t row, std::int64_t column) {
    const std::int64_t stored_row = operand.transposed ? column : row;
    const std::int64_t stored_column = operand.transposed ? row : column;
    REQUIRE(stored_row < operand.rows);
    REQUIRE(stored_column < operand.columns);
    return matrix[stored_column * operand.leading + stored_row];
  };
  for (std::int64_t i = 0; i < plan.calls(); ++i) {
    const MatmulPlan::Call call = plan.call(i);
    for (std::int64_t product = 0; product < call.batch; ++product) {
      const double* first = rhs.data<double>() + call.first + product * plan.first.batch_stride;
      const double* second = lhs.data<double>() + call.second + product * plan.second.batch_stride;
      double* to = output.data<double>() + call.output + product * plan.output.batch_stride;
      for (std::int64_t column = 0; column < plan.output.columns; ++column)
        for (std::int64_t row = 0; row < plan.output.rows; ++row) {
          double sum = 0.0;
          for (std::int64_t k = 0; k < plan.inner; ++k)
            sum += at(first, plan.first, row, k) * at(second, plan.second, k, column);
          to[column * plan.output.leading + row] = sum;
        }
    }
  }
}

Array numbers(const Shape& shape) { return Array::arange(element_count(shape), DType::f64, Device{}).reshape(shape); }

void check_product(const Array& lhs, const Array& rhs, std::int64_t calls) {
  CAPTURE(to_string(lhs.shape()));
  CAPTURE(to_string(rhs.shape()));
  const Array expected = matmul(lhs, rhs);
  const Array output = Array::full(expected.shape(), -1, DType::f64, Device{});
  synchronize(Device{});  // the memory itself is read and written
  const MatmulPlan plan(lhs, rhs, output);
  CHECK(plan.calls() == calls);
  multiply(plan, lhs, rhs, output);
  CHECK(output.to_vector<double>() == expected.to_vector<double>());
}

TEST_CASE("matmul plan: rows, columns and wider matrices are read in place") {
  const Array lhs = numbers({3, 4});
  const Array rhs = numbers({4, 5});
  check_product(lhs, rhs, 1);
  check_product(numbers({4, 3}).transpose(), rhs, 1);
  check_product(lhs, numbers({5, 4}).transpose(), 1);
  check_product(numbers({4, 3}).transpose(), numbers({5, 4}).transpose(), 1);
  check_product(numbers({3, 9}).slice(1, 2, 6), numbers({4, 9}).slice(1, 3, 8), 1);
  check_product(numbers({1, 4}), rhs, 1);
  check_product(lhs, numbers({4, 1}), 1);
  check_product(numbers({3, 1}), numbers({1, 5}), 1);
}

TEST_CASE("matmul plan: leading axes are one batch where they step alike, repeated operands among them") {
  check_product(numbers({2, 6, 3, 4}), numbers({2, 6, 4, 5}), 1);
  check_product(numbers({1, 3, 4}).broadcast_to({6, 3, 4}), numbers({6, 4, 5}), 1);
  check_product(numbers({2, 6, 3, 4}), numbers({1, 1, 4, 5}).broadcast_to({2, 6, 4, 5}), 1);
  check_product(numbers({2, 6, 3, 4}), numbers({1, 6, 4, 5}).broadcast_to({2, 6, 4, 5}), 2);
  check_product(numbers({2, 3, 6, 4}).permute({0, 2, 1, 3}), numbers({2, 6, 4, 5}), 2);
  check_product(numbers({2, 2, 3, 1, 4}).permute({1, 0, 3, 2, 4}), numbers({2, 2, 1, 4, 5}), 2);
}

TEST_CASE("matmul plan: large batches are parted") {
  const std::int64_t batch = MatmulPlan::kMostInBatch + 10;
  check_product(numbers({batch, 1, 2}), numbers({batch, 2, 1}), 2);
  check_product(numbers({2, 1, 1, 2}).broadcast_to({2, batch, 1, 2}),
                numbers({1, batch, 2, 1}).broadcast_to({2, batch, 2, 1}), 4);
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
