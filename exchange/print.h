// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <iosfwd>
#include <string>
#include <string_view>

namespace tutti {

/// How numbers are laid out: NumPy's rules and NumPy's defaults.
struct PrintOptions {
  int precision = 8;  ///< most digits behind the point; fewer where fewer tell the number from its neighbours
  std::int64_t threshold = 1000;  ///< arrays of more elements are summarised
  std::int64_t edge_items = 3;    ///< shown at each end of an axis of those
  std::size_t line_width = 75;
  std::string_view separator = " ";
};

/// The elements as numpy.array2string lays them out. Waits for the array's device; of a summarised array only what is
/// shown is copied. Throws Error if it is undefined.
std::string elements_text(const Array&, const PrintOptions& = {});

/// The elements, then type, shape and device: "[[1. 2.]\n [3. 4.]] f32 [2, 2] on cpu:0". "undefined" if it is.
std::string to_string(const Array&, const PrintOptions& = {});
std::string to_string(const Tensor&, const PrintOptions& = {});
// Writes what to_string gives, with the default options; autodiff/tensor.h declares the operator of tensors.
std::ostream& operator<<(std::ostream&, const Array&);

}  // namespace tutti
