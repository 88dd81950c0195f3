// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/nn/embedding.h>
#include <tutti/nn/module.h>
#include <tutti/tests/test_devices.h>

#include <cstdint>
#include <vector>

namespace tutti::testing {

using Indices = std::vector<std::int64_t>;
using Values = std::vector<double>;

/// A table of 10 rows and 2 columns, and a dense parameter.
struct WordModel : Module {
  explicit WordModel(bool sparse = true)
      : words(Generator(3), sparse), factor(Array::from(Values{0.5, 2}, {2}, test_device()), true) {}

  // sum over the words of their row's elements, times `scale`: the gradient of a row is `scale` for each time it is
  // read
  Tensor read(const Indices& indices, double scale = 1.0) const { return sum(rows(indices) * scale); }
  Tensor rows(const Indices& indices) const {
    const auto count = static_cast<std::int64_t>(indices.size());
    return words.forward(Tensor(Array::from(indices, {count}, words.weight.device())));
  }
  Tensor dense() const { return sum(factor); }
  void visit(MemberVisitor& v) override {
    v.module("words", words);
    v.parameter("factor", factor);
  }
  const Tensor& table() const { return words.weight; }

  struct Words : Embedding {
    Words(Generator random, bool sparse)
        : Embedding(10, 2, random, {.sparse = sparse, .dtype = DType::f64, .device = test_device()}) {}
  } words;
  Tensor factor;
};

inline Indices indices_of(const Tensor& table) {
  const SparseGradient gradient = table.sparse_grad();
  return gradient.defined() ? gradient.indices.to_vector<std::int64_t>() : Indices{-1};
}
inline Values rows_of(const Tensor& table) {
  const SparseGradient gradient = table.sparse_grad();
  return gradient.defined() ? gradient.rows.to_vector<double>() : Values{};
}

}  // namespace tutti::testing
