// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/arrays/named_arrays.h>

#include <tutti/backend/raise.h>

#include <algorithm>
#include <numeric>

namespace tutti {
namespace {

constexpr std::size_t kMostShown = 5;

/// Characters to insert, delete or change until one is the other: Levenshtein, "Binary codes capable of correcting
/// deletions, insertions, and reversals" (1966).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);  // of the first i characters of a to the first j of b
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

bool ends_with_part(std::string_view name, std::string_view part) {
  return name.ends_with(part) && name[name.size() - part.size() - 1] == '.';
}

/// Small for what one may have meant: "weigth" for "weight", "weight" for "hidden.weight".
std::size_t unlikeness(std::string_view sought, std::string_view name) {
  if (sought.empty() || name.empty()) return std::max(sought.size(), name.size());
  if (name.size() > sought.size() && ends_with_part(name, sought)) return 0;
  if (sought.size() > name.size() && ends_with_part(sought, name)) return 0;
  return distance(sought, name);
}

std::string names_like(const NamedArrays& arrays, std::string_view sought) {
  if (arrays.empty()) return "there are none at all";
  std::vector<std::pair<std::size_t, std::string_view>> near;
  for (const auto& [name, array] : arrays)
    if (const std::size_t far = unlikeness(sought, name); far <= 1 + sought.size() / 3) near.emplace_back(far, name);
  std::ranges::stable_sort(near, {}, [](const auto& entry) { return entry.first; });
  const bool is_near = !near.empty();
  if (!is_near)
    for (const auto& [name, array] : arrays) near.emplace_back(0, name);
  std::string text = is_near ? "like it are" : "there are";
  for (std::size_t i = 0; i < std::min(near.size(), kMostShown); ++i)
    text += fmt::format("{} \"{}\"", i == 0 ? "" : ",", near[i].second);
  if (near.size() > kMostShown) text += fmt::format(" and {} more", near.size() - kMostShown);
  return text;
}

}  // namespace

NamedArrays::const_iterator NamedArrays::find(std::string_view name) const noexcept {
  return std::find_if(begin(), end(), [&](const auto& entry) { return entry.first == name; });
}

Array NamedArrays::at(std::string_view name) const {
  const auto found = find(name);
  if (found == end()) raise<DataError>("[arrays] no array is called \"{}\": {}", name, names_like(*this, name));
  return found->second;
}

}  // namespace tutti
