// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/shape.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti {

/// The meaning of a gather's indices to its user, who may know nothing of gathers: for the error of one that is out of
/// range, which the kernel finds. Texts are literals.
struct IndexMeaning {
  std::string_view operation;             ///< "cross_entropy"
  std::string_view index;                 ///< "target"
  std::string_view range;                 ///< "classes", one of which an index stands for
  Shape shape{};                          ///< shape of the user's input, whose elements the index repeats equally often
  std::optional<std::int64_t> ignored{};  ///< stands for none
  bool from_back = false;                 ///< negative ones have had the length added
  bool operator==(const IndexMeaning&) const = default;
};

/// Gives this meaning to the indices of gathers and scatters that are queued on its thread while it lives. Of nested
/// scopes the outermost counts, as with OperationScope.
class IndexScope {
 public:
  explicit IndexScope(const IndexMeaning&);  ///< the meaning outlives the scope
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
