// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/onnx/node_cases.h>

#include <tutti/autodiff/scope.h>
#include <tutti/backend/error.h>
#include <tutti/nn/captured_forward.h>
#include <tutti/onnx/format/model_file.h>
#include <tutti/onnx/onnx_model.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tutti::testing {

namespace {

double tolerance(DType dtype) {
  if (dtype == DType::bf16) return 0x1p-6;
  return dtype == DType::f16 ? 0x1p-9 : 1e-3;
}

/// "" or what differs.
std::string difference(const Array& found, const Array& expected) {
  if (found.dtype() != expected.dtype() || found.shape() != expected.shape())
    return fmt::format("{} {}, not {} {}", to_string(found.dtype()), to_string(found.shape()),
                       to_string(expected.dtype()), to_string(expected.shape()));
  const auto a = found.cast(DType::f64).to_vector<double>();
  const auto b = expected.cast(DType::f64).to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i] || std::abs(a[i] - b[i]) <= 1e-7 + tolerance(expected.dtype()) * std::abs(b[i])) continue;
    return fmt::format("element {} is {:.9g}, not {:.9g}", i, a[i], b[i]);
  }
  return {};
}

std::vector<Array> tensors(const std::filesystem::path& folder, const char* kind) {
  std::vector<Array> all;
  for (int i = 0;; ++i) {
    const auto path = folder / fmt::format("{}_{}.pb", kind, i);
    if (!std::filesystem::exists(path)) return all;
    all.push_back(onnx::read_tensor(path.string(), cpu()));
  }
}

/// What a refusal is about, without the case's own names and numbers.
std::string subject(const std::string& error) {
  if (const auto place = error.find("operators that are not here: "); place != std::string::npos)
    return error.substr(place);
  if (const auto place = error.find("is of ONNX's type "); place != std::string::npos)
    return error.substr(place, error.find(',', place) - place);
  return error;
}

bool same_bits(const Array& a, const Array& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const auto left = a.cast(DType::f64).to_vector<double>();
  const auto right = b.cast(DType::f64).to_vector<double>();
  return std::ranges::equal(left, right, [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

/// "", or what is wrong with replays of the model.
std::string replay(OnnxModel& model, std::span<const Tensor> inputs, const std::vector<Tensor>& expected,
                   CaseResults& results) {
  CapturedForward forward(model, [&](std::span<const Tensor> given) { return model.run(given); });
  try {
    for (int i = 0; i < 5; ++i) {
      const std::vector<Tensor> outputs = forward(inputs);
      for (std::size_t j = 0; j < expected.size(); ++j)
        if (!same_bits(outputs.at(j).array(), expected[j].array()))
          return fmt::format("output {} is another one in captured call {}", j, i);
    }
  } catch (const CaptureError& error) {
    ++results.uncaptured[error.what()];
    return {};
  }
  ++results.replayed;
  return {};
}

}  // namespace

CaseResults run_node_cases(const std::filesystem::path& folder) {
  CaseResults results;
  std::vector<std::filesystem::path> cases;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) cases.push_back(entry.path());
  std::ranges::sort(cases);
  const Inference inference;
  for (const auto& each : cases) {
    const std::string name = each.filename().string();
    try {
      OnnxModel model((each / "model.onnx").string());
      const std::vector<Array> expected = tensors(each, "output");
      std::vector<Tensor> inputs;
      for (Array& input : tensors(each, "input")) inputs.emplace_back(std::move(input));
      // Cases leave out inputs at the end.
      const std::vector<Tensor> outputs = model.run(inputs);
      std::string wrong;
      for (std::size_t i = 0; i < expected.size() && wrong.empty(); ++i)
        wrong = difference(outputs.at(i).array(), expected[i]);
      if (wrong.empty()) {
        ++results.passed;
        wrong = replay(model, inputs, outputs, results);
      }
      if (!wrong.empty()) results.wrong.push_back(name + ": " + wrong);
    } catch (const DataError& refused) {
      ++results.refused[subject(refused.what())];
    } catch (const std::exception& error) {
      results.wrong.push_back(name + ": threw " + error.what());
    }
  }
  return results;
}

}  // namespace tutti::testing
