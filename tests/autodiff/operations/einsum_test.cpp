// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <map>
#include <string>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;

// The definition: every assignment of positions to letters, one product each. Terms of letters only.
Values by_definition(const std::vector<std::string>& terms, const std::string& result, const Inputs& operands) {
  std::map<char, std::int64_t> lengths;
  for (std::size_t i = 0; i < terms.size(); ++i)
    for (std::size_t axis = 0; axis < terms[i].size(); ++axis) lengths[terms[i][axis]] = operands[i].shape()[axis];
  const auto place = [&](const std::string& term, const std::map<char, std::int64_t>& at) {
    std::int64_t offset = 0;
    for (const char label : term) offset = offset * lengths.at(label) + at.at(label);
    return static_cast<std::size_t>(offset);
  };
  std::size_t size = 1;
  for (const char label : result) size *= static_cast<std::size_t>(lengths.at(label));
  Values sums(size, 0.0);
  std::vector<Values> values;
  for (const Tensor& operand : operands) values.push_back(operand.to_vector<double>());
  std::map<char, std::int64_t> at;
  for (const auto& [label, length] : lengths) at[label] = 0;
  for (bool more = true; more;) {
    double product = 1.0;
    for (std::size_t i = 0; i < terms.size(); ++i) product *= values[i][place(terms[i], at)];
    sums[place(result, at)] += product;
    more = false;
    for (auto& [label, position] : at) {
      if (++position < lengths.at(label)) {
        more = true;
        break;
      }
      position = 0;
    }
  }
  return sums;
}

void check(const std::vector<std::string>& terms, const std::string& result, const Inputs& operands) {
  std::string equation;
  for (const std::string& term : terms) equation += (equation.empty() ? "" : ",") + term;
  equation += "->" + result;
  INFO(equation);
  const Values expected = by_definition(terms, result, operands);
  const Values found = einsum(equation, operands).to_vector<double>();
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]));
  check_gradients([&](const Inputs& in) { return einsum(equation, in); }, operands);
}

TEST_CASE("einsum: against its definition, with both derivatives") {
  const Tensor a = spread({2, 3}, 1);
  const Tensor b = spread({3, 4}, 2);
  const Tensor c = spread({4, 2}, 3);
  const Tensor batch = spread({2, 3, 4}, 4);
  check({"ij", "jk"}, "ik", {a, b});
  check({"ij", "jk"}, "ki", {a, b});
  check({"ij", "jk"}, "", {a, b});
  check({"ij", "jk", "kl"}, "il", {a, b, c});
  check({"ij", "jk", "ki"}, "", {a, b, c});
  check({"ij"}, "ji", {a});
  check({"ij"}, "j", {a});
  check({"bij", "bkj"}, "bik", {batch, spread({2, 2, 4}, 5)});
  check({"bij", "jb"}, "bi", {batch, c});
  check({"i", "j"}, "ij", {spread({2}, 6), spread({3}, 7)});
  check({"ij", "ij"}, "ij", {a, spread({2, 3}, 8)});
  check({"ij", "kl"}, "jl", {a, b});
  check({"ii"}, "i", {spread({3, 3}, 9)});
  check({"iji", "jk"}, "ki", {spread({2, 3, 2}, 1), b});
  check({"iiii"}, "", {spread({2, 2, 2, 2}, 2)});
}

TEST_CASE("einsum: ellipsis, broadcasting, spaces and an implied result") {
  const Tensor a = spread({2, 3, 4}, 1);
  const Tensor b = spread({4, 5}, 2);
  const auto same = [](const Tensor& found, const Tensor& expected) {
    CHECK(found.shape() == expected.shape());
    CHECK(found.to_vector<double>() == expected.to_vector<double>());
  };
  same(einsum("...ij,jk->...ik", {a, b}), matmul(a, b));
  same(einsum("ij , jk", {b, spread({5, 2}, 3)}), matmul(b, spread({5, 2}, 3)));
  same(einsum("ba", {b}), transpose(b));
  same(einsum("...a->a...", {a}), moveaxis(a, -1, 0));
  same(einsum("...->", {b}), sum(b));
  same(einsum("...,...", {a, spread({1, 4}, 4)}), a * spread({1, 4}, 4));
  same(einsum("ij,ij->ij", {b, spread({4, 1}, 5)}), b * spread({4, 1}, 5));
  same(einsum(",", {leaf({2}, {}), leaf({3}, {})}), leaf({6}, {}));
  CHECK(einsum("ij,jk->ik", {spread({0, 3}, 1), spread({3, 2}, 1)}).shape() == Shape{0, 2});
}

TEST_CASE("einsum: what does not fit is named") {
  const Tensor a = spread({2, 3}, 1);
  CHECK_THROWS_WITH_AS(einsum("ij,jk->ik", {a, a}),
                       doctest::Contains("[einsum] \"ij,jk->ik\": 'j' has lengths 3 and 2"), ShapeError);
  CHECK_THROWS_WITH_AS(einsum("ijk->i", {a}),
                       doctest::Contains("[einsum] \"ijk->i\": term \"ijk\" does not fit an operand of rank 2"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(einsum("ij->k", {a}),
                       doctest::Contains("[einsum] \"ij->k\": 'k' of the result is in no operand"), ShapeError);
  CHECK_THROWS_WITH_AS(einsum("ij->ii", {a}), doctest::Contains("[einsum] \"ij->ii\": 'i' stands twice in the result"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(einsum("i1->i", {a}), doctest::Contains("[einsum] \"i1->i\": '1' is no letter"), ShapeError);
  CHECK_THROWS_AS(einsum("ij,jk->ik", {a}), ShapeError);
  CHECK_THROWS_AS(einsum("ij->ij", {a, a}), ShapeError);
}

TEST_CASE("einsum: integers give f32 in every equation") {
  const Tensor whole(Array::from(std::vector<std::int64_t>{1, 2}, {2}, test_device()));
  for (const char* equation : {"i,i->", "i,j->ij", "i,i->i"})
    CHECK(einsum(equation, {whole, whole}).dtype() == DType::f32);
}

}  // namespace
}  // namespace tutti
