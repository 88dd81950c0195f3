// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti::onnx {

/// A whole number of a model as a function of its free lengths: offset + factor times the product of some of them.
struct LengthFormula {
  std::int64_t offset = 0;
  std::int64_t factor = 0;           // 0: a constant
  std::vector<std::size_t> lengths;  ///< places among the free lengths
  bool is_constant() const noexcept { return lengths.empty(); }
  auto operator<=>(const LengthFormula&) const = default;
};

/// A length that whoever runs a file may choose, and the values with which the model is run to find what depends on it.
struct FreeLength {
  std::string name;
  std::int64_t first;  ///< two at least
  std::int64_t far;    ///< value in one run, in which the others have their first
  std::int64_t last;   ///< value in the last run, with all others' last ones
};

/// Values to try in this order, of a length that an example has. Far ones are far, as what is rounded, by strides say,
/// stays for near ones; then shorter ones than the example's, which may be a model's longest, and multiples of it.
std::vector<FreeLength> candidates(const std::string& name, std::int64_t example);

/// The runs of a model by which its numbers become formulas: a first one, one for each length with another value, and
/// a last one in which all have other values, which no formula is made of: it tells a formula that only seems to fit.
class FreeLengths {
 public:
  explicit FreeLengths(std::vector<FreeLength>);

  const std::string& name(std::size_t length) const { return lengths_[length].name; }
  std::size_t runs() const noexcept { return runs_.size(); }
  const std::vector<std::int64_t>& run(std::size_t number) const { return runs_[number]; }
  std::string describe(const std::vector<std::int64_t>& run) const;  ///< "\"batch\" = 2, \"length\" = 19"

  /// The formula of a number that had these values, one for each run; none: it is not of that form.
  std::optional<LengthFormula> formula(std::span<const std::int64_t> values) const;

 private:
  std::vector<FreeLength> lengths_;
  std::vector<std::vector<std::int64_t>> runs_;
};

}  // namespace tutti::onnx
