// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/shape.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti {

/// What the indices of a gather are to its user, who may know nothing of gathers: for the error of one that is out of
/// range, which the kernel finds. Texts are literals.
struct IndexMeaning {
  std::string_view operation;             ///< "cross_entropy"
  std::string_view index;                 ///< "target"
  std::string_view range;                 ///< what it is one of: "classes"
  Shape shape{};                          ///< of what the user gave; the index repeats each of its elements as often
  std::optional<std::int64_t> ignored{};  ///< stands for none
  bool from_back = false;                 ///< negative ones have had the length added
  bool operator==(const IndexMeaning&) const = default;
};

/// While one lives on a thread, gathers and scatters that are queued there have indices of this meaning. Of nested ones
/// the outermost speaks, as of operations.
class IndexScope {
 public:
  explicit IndexScope(const IndexMeaning&);  ///< which outlives it
  ~IndexScope();
  IndexScope(const IndexScope&) = delete;
  IndexScope& operator=(const IndexScope&) = delete;

  static const IndexMeaning* current() noexcept;  ///< null: none

 private:
  const IndexMeaning* outer_;
};

/// "target 9 is out of range for 5 classes"; `place` is put behind the index.
std::string misfit(const IndexMeaning&, std::int64_t index, std::int64_t length, std::string_view place = {});

/// ShapeError for element `place` of `count` in row-major order: "[cross_entropy] target 9 at [2, 1] is out of range
/// for 5 classes".
[[noreturn]] void raise_index(const IndexMeaning&, std::int64_t index, std::int64_t length, std::int64_t place,
                              std::int64_t count);

}  // namespace tutti
