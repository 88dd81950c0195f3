// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

/// Arrays with names, in order: what files hold. Besides what a vector has, they are found by name.
class NamedArrays : public std::vector<std::pair<std::string, Array>> {
 public:
  using Entries = std::vector<std::pair<std::string, Array>>;
  using Entries::Entries;
  NamedArrays() = default;
  NamedArrays(Entries entries) : Entries(std::move(entries)) {}  // NOLINT: a list of arrays with names is one

  using Entries::at;
  /// The first of that name; DataError, which tells names that are like it, if there is none.
  Array at(std::string_view name) const;
  bool contains(std::string_view name) const noexcept { return find(name) != end(); }
  const_iterator find(std::string_view name) const noexcept;  ///< end() if there is none
};

}  // namespace tutti
