// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/clip.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tutti;

namespace {

using Values = std::vector<double>;

Tensor table(bool sparse) {
  Tensor parameter(Array::from(Values{1, 2, 3, 4, 5, 6, 7, 8}, {4, 2}, test_device()), true);
  parameter.set_sparse_grad(sparse);
  return parameter;
}

// The gradient of row 1 is 2 {3, 3}, that of row 3 {4, 4}.
void give_gradient(const Tensor& parameter) {
  const Tensor rows = embedding(parameter, Tensor(Array::from(std::vector<std::int64_t>{1, 3, 1}, {3}, test_device())));
  backward(sum(rows * Tensor(Array::from(Values{3, 4, 3}, {3, 1}, test_device()))));
}

}  // namespace

TEST_CASE("Sgd: a sparse gradient changes its rows as the dense one would") {
  const Tensor sparse = table(true);
  const Tensor dense = table(false);
  Sgd first({sparse}, 0.5);
  Sgd second({dense}, 0.5);
  for (int i = 0; i < 2; ++i) {
    give_gradient(sparse);
    give_gradient(dense);
    first.step();
    second.step();
    first.zero_grad();
    second.zero_grad();
  }
  CHECK(sparse.to_vector<double>() == Values{1, 2, -3, -2, 5, 6, 3, 4});
  CHECK(dense.to_vector<double>() == sparse.to_vector<double>());
  first.step();  // nothing to do
  CHECK(first.state().parameters.front().steps == 2);
}

TEST_CASE("Sgd: what would change all rows is refused, and nothing has changed") {
  for (const SgdOptions& options : {SgdOptions{.momentum = 0.9}, SgdOptions{.weight_decay = 0.1}}) {
    const Tensor sparse = table(true);
    const Tensor other(Array::from(Values{1}, {1}, test_device()), true);
    Sgd optimizer({other, sparse}, 0.5, options);
    backward(sum(other));
    give_gradient(sparse);
    for (const char* part : {"parameter 1", "momentum", "set_sparse_grad(false)"})
      CHECK_THROWS_WITH_AS(optimizer.step(), doctest::Contains(part), Error);
    CHECK(other.to_vector<double>() == Values{1});
  }
}

TEST_CASE("clip_grad_norm: counts and scales rows, and leaves what somebody has read") {
  const Tensor sparse = table(true);
  const Tensor other(Array::from(Values{1}, {1}, test_device()), true);
  give_gradient(sparse);
  backward(sum(other * 3.0));
  const SparseGradient read = sparse.sparse_grad();
  const std::vector<Tensor> parameters{sparse, other};
  const double norm = std::sqrt(2 * 36.0 + 2 * 16.0 + 9.0);
  CHECK(clip_grad_norm(parameters, 1.0) == doctest::Approx(norm));
  CHECK(read.rows.to_vector<double>() == Values{6, 6, 4, 4});
  CHECK(sparse.sparse_grad().rows.to_vector<double>()[0] == doctest::Approx(6 / norm));
  CHECK(clip_grad_norm(parameters, 1e9) == doctest::Approx(1.0));
}
