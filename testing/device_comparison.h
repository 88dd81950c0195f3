// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::testing {

using Arrays = std::vector<Array>;

/// How near two devices' results must be. NaN matches NaN, of whatever bits, and infinities of one sign each other.
enum class Match : std::uint8_t {
  bitwise,  ///< same bits, but for NaN
  each,     ///< floating types: relative to the element, or to 0.1 if it is smaller; other types: equal
  largest,  ///< floating types: relative to the largest finite element of the array, for sums whose terms cancel
};

/// Difference that results of a floating type may have, in relation to a magnitude; 0 for other types.
double tolerance(DType);

/// Places of the elements of an operand in memory.
enum class Layout : std::uint8_t { contiguous, spaced, transposed, shifted, repeated };
inline constexpr Layout kAllLayouts[] = {Layout::contiguous, Layout::spaced, Layout::transposed, Layout::shifted,
                                         Layout::repeated};
std::string_view to_string(Layout);
/// The same elements on `device`, laid out so: every second of a longer row; the transpose of a copy; behind one that
/// is left out. `repeated` shows the first of the first axis in place of all.
Array laid_out(const Array& values, Layout, Device);

/// Runs operations on two devices with the same inputs and notes where their results differ: f32 by more than 1e-5, f64
/// by more than 1e-12, or at all where numbers are whole.
class DeviceComparison {
 public:
  using Operation = std::function<Arrays(const Arrays&)>;

  DeviceComparison(Device reference, Device tested) : reference_(reference), tested_(tested) {}

  /// Inputs are given on any device. An operation that throws on one device alone is a difference too; what both refuse
  /// is noted.
  void compare(std::string_view name, const Arrays& inputs, const Operation& operation, Match match = Match::each,
               Layout layout = Layout::contiguous);
  /// The same for each layout.
  void compare_layouts(std::string_view name, const Arrays& inputs, const Operation& operation,
                       Match match = Match::each);
  /// Sets the words that a loop over cases has shown of a difference, beside the operation's name.
  void set_case(std::string description) { case_ = std::move(description); }
  /// Leaves out, of operations that are made from lists, those whose names do not begin so.
  void set_only(std::string prefix) { only_ = std::move(prefix); }
  /// Multiplies tolerances by this from now on.
  void set_slack(double slack) { slack_ = slack; }
  bool wants(std::string_view name) const { return name.starts_with(only_); }

  const std::vector<std::string>& differences() const noexcept { return differences_; }
  const std::set<std::string>& refused() const noexcept { return refused_; }
  std::int64_t comparisons() const noexcept { return comparisons_; }

 private:
  Device reference_;
  Device tested_;
  std::string case_;
  std::string only_;
  double slack_ = 1;
  std::vector<std::string> differences_;
  std::set<std::string> refused_;  // names with errors
  std::int64_t comparisons_ = 0;
};

// --- inputs, on the CPU; functions of their arguments alone

enum class Numbers : std::uint8_t {
  plain,     ///< numbers from -3 to 3
  positive,  ///< numbers from 0.05 to 3
  special,   ///< plain ones, and NaN, infinities, zeros of both signs, and the type's largest and smallest
};
Array numbers(const Shape&, DType, Numbers, unsigned seed);
Array indices(const Shape&, std::int64_t below, unsigned seed);  ///< i64

// --- every operation, by folder of its kernels
void compare_elementwise(DeviceComparison&);
void compare_gradient_formulas(DeviceComparison&);
void compare_movement(DeviceComparison&);  ///< copies, casts, fills, where, random numbers
void compare_reductions(DeviceComparison&);
void compare_structured(DeviceComparison&);
void compare_sequences(DeviceComparison&);  // attention, recurrent networks, batch norms
void compare_linear_algebra(DeviceComparison&);
void compare_optimizers(DeviceComparison&);
void compare_autodiff(DeviceComparison&);
void compare_training_sizes(DeviceComparison&);
void compare_many_rows(DeviceComparison&);

}  // namespace tutti::testing
