// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;

TEST_CASE("gather, scatter_add: along each axis, with repeated and unused places") {
  const Tensor x = spread({3, 4}, 1);
  const Tensor rows = index({2, 0, 2, 2, 1, 0, 0, 1}, {2, 4});
  const Tensor columns = index({3, 3, 0, 1, 1, 1}, {3, 2});
  check_gradients([&](const Inputs& in) { return gather(in[0], 0, rows); }, {x});
  check_gradients([&](const Inputs& in) { return gather(in[0], 1, columns); }, {x});
  check_gradients([&](const Inputs& in) { return gather(in[0], -1, columns); }, {x});
  check_gradients([&](const Inputs& in) { return scatter_add({3, 4}, in[0], 0, rows); }, {spread({2, 4}, 2)});
  check_gradients([&](const Inputs& in) { return scatter_add({3, 4}, in[0], 1, columns); }, {spread({3, 2}, 3)});
  check_gradients([&](const Inputs& in) { return square(gather(in[0], 1, columns)); }, {x});
  check_gradients([](const Inputs& in) { return gather(in[0], 0, index({}, {0, 4})); }, {x});
}

TEST_CASE("gather: a place read twice collects twice") {
  const Tensor x = leaf({1, 2, 3});
  backward(sum(gather(x, 0, index({2, 0, 2}, {3})) * constant({10, 20, 30}, {3})));
  CHECK(x.grad().to_vector<double>() == Values{20, 0, 40});
}

TEST_CASE("gather: an index out of range is named") {
  CHECK_THROWS_WITH(gather(spread({3}, 1), 0, index({3}, {1})).to_vector<double>(), doctest::Contains("3"));
}

}  // namespace
}  // namespace tutti
