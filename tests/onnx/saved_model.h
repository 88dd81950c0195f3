// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/onnx/onnx_model.h>
#include <tutti/onnx/save_onnx.h>
#include <tutti/tests/error_text.h>
#include <tutti/tests/exchange/temporary_folder.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace tutti::testing {

using Function = std::function<Tensor(const Tensor&)>;

/// A model of one function, without members.
struct Computation : Layer {
  explicit Computation(Function function) : function_(std::move(function)) {}
  Tensor compute(const Tensor& x) const override { return function_(x); }
  void visit(MemberVisitor&) override {}
  Function function_;
};

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline void check_close(const Tensor& found, const Tensor& expected) {
  REQUIRE(found.shape() == expected.shape());
  REQUIRE(found.dtype() == expected.dtype());
  const auto values = [](const Tensor& x) { return x.array().cast(DType::f64).to_vector<double>(); };
  const std::vector<double> a = values(found);
  const std::vector<double> b = values(expected);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-4).scale(1.0));
}

/// Saves the model, and runs the file with inputs of another batch.
inline OnnxModel check_saved(Layer& model, const Tensor& example, const Tensor& other, const OnnxSaving& saving = {}) {
  const TemporaryFolder folder;
  const std::string path = folder.file("model.onnx");
  save_onnx(path, model, example, saving);
  OnnxModel file(path);
  const Inference inference;
  check_close(file(other), model(other));
  return file;
}

inline void check_function(const Function& function, const Shape& shape = {3, 4, 6}) {
  Computation model(function);
  Generator random(1);
  Shape other = shape;
  other[0] = 7;
  check_saved(model, normal(shape, random), normal(other, random));
}

inline std::string error_of_saving(const Function& function, const Shape& shape = {3, 4},
                                   const OnnxSaving& saving = {}) {
  const TemporaryFolder folder;
  Computation model(function);
  Generator random(1);
  const Tensor example = normal(shape, random);
  const std::string error = error_of([&] { save_onnx(folder.file("model.onnx"), model, example, saving); });
  CHECK(std::filesystem::is_empty(folder.path()));
  return error;
}

}  // namespace tutti::testing
