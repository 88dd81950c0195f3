// SPDX-License-Identifier: Apache-2.0
#pragma once

// The files that tools/references wrote: what NumPy and PyTorch give. See docs/project/references.md.

#include <tutti/autodiff/tensor/axes.h>
#include <tutti/backend/array.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::testing {

using Arrays = std::vector<Array>;

/// What a case says beside its arrays: `axes=0,2 keep_dims=1`. Throws Error, naming the attribute, for one that is
/// missing and has no default.
class Attributes {
 public:
  Attributes() = default;
  explicit Attributes(std::string_view text);

  void set(const std::string& name, std::string value) { values_[name] = std::move(value); }
  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
  const std::string& text(std::string_view name) const;
  double number(std::string_view name) const;
  double number(std::string_view name, double otherwise) const { return has(name) ? number(name) : otherwise; }
  std::int64_t integer(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  bool flag(std::string_view name) const { return integer(name, 0) != 0; }
  std::vector<double> numbers(std::string_view name) const;  ///< none, if it is missing
  Axes integers(std::string_view name) const;                ///< none, if it is missing
  DType dtype(std::string_view name) const;
  const std::map<std::string, std::string, std::less<>>& texts() const noexcept { return values_; }  ///< by name
  bool operator==(const Attributes&) const = default;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

struct ReferenceCase {
  std::string name;       ///< "softmax.3"
  std::string operation;  ///< "softmax"
  Attributes attributes;
  Arrays inputs, results, upstream, gradients, directions, second_gradients;
};

/// Cases of tests/references/data/<file>.safetensors, on the CPU.
std::vector<ReferenceCase> reference_cases(std::string_view file);

/// All arrays of a file, and what it says of each case, by name: for files of another kind.
std::map<std::string, Array> reference_arrays(std::string_view file);
std::map<std::string, Attributes> reference_attributes(std::string_view file);

/// Absolute or relative to the project's folder, where tests run.
std::string reference_path(std::string_view file);

}  // namespace tutti::testing
