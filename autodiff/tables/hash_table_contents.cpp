// SPDX-License-Identifier: Apache-2.0
// What a HashTable is saved as and loaded from: everything by id.
#include <tutti/autodiff/tables/hash_table.h>

#include <tutti/backend/operations.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>

namespace tutti {
namespace {

using Ids = std::vector<std::int64_t>;
constexpr std::string_view kState = "state.";

Array on_host(const Array& table, const Ids& rows) {
  const Array index = Array::from(rows, {std::ssize(rows)}, table.device());
  return gather(table, 0, index_of_rows(index, table.length(1))).to(cpu());
}

/// The saved arrays by name, checked as they are taken.
class Contents {
 public:
  Contents(const HashTable::NamedArrays& arrays, std::int64_t columns) : arrays_(arrays), columns_(columns) {}

  Array take(std::string_view name, bool floating, const Shape& shape) const {
    const auto found = std::ranges::find(arrays_, name, [](const auto& named) { return named.first; });
    if (found == arrays_.end()) raise<DataError>("[hash_table] \"{}\" is missing", name);
    check(name, found->second, floating, shape);
    return found->second;
  }
  Ids integers(std::string_view name, const Shape& shape) const {
    return take(name, false, shape).to_vector<std::int64_t>();
  }
  Array rows(std::string_view name, std::int64_t count) const { return take(name, true, {count, columns_}); }

  /// The first length of an array whatever it is.
  std::int64_t count_of(std::string_view name) const {
    const auto found = std::ranges::find(arrays_, name, [](const auto& named) { return named.first; });
    return found == arrays_.end() || !found->second.defined() || found->second.rank() == 0 ? 0
                                                                                           : found->second.length(0);
  }
  std::vector<std::string> states() const {
    constexpr std::string_view kNames[] = {"ids", "counts", "last", "rows", "waiting", "updates"};
    std::vector<std::string> names;
    for (const auto& [name, array] : arrays_)
      if (name.starts_with(kState))
        names.push_back(name.substr(kState.size()));
      else if (std::ranges::find(kNames, name) == std::end(kNames))
        raise<DataError>("[hash_table] \"{}\" is nothing that a table has", name);
    return names;
  }

 private:
  static void check(std::string_view name, const Array& array, bool floating, const Shape& shape) {
    const bool fits = array.defined() && (floating ? is_floating(array.dtype()) : array.dtype() == DType::i64);
    if (!fits)
      raise<DataError>("[hash_table] \"{}\" is {}, it must be {}", name,
                       array.defined() ? to_string(array.dtype()) : "undefined", floating ? "floating" : "i64");
    if (array.shape() != shape)
      raise<DataError>("[hash_table] \"{}\" is {}, it must be {}", name, to_string(array.shape()), to_string(shape));
  }

  const HashTable::NamedArrays& arrays_;
  std::int64_t columns_;
};

void restore(IdIndex& index, std::int64_t id, std::int64_t count, std::int64_t last, bool with_row) {
  if (index.find(id) != nullptr) raise<DataError>("[hash_table] id {} is there twice", id);
  if (count < 0 || last < 0 || last > index.updates())
    raise<DataError>("[hash_table] id {} has count {} and last update {} of {}", id, count, last, index.updates());
  index.restore(id, count, last, with_row);
}

IdIndex read_index(const Contents& from, const IdIndexOptions& options) {
  IdIndex index(options);
  index.set_updates(from.integers("updates", {}).front());
  const std::int64_t count = from.count_of("ids");
  const Ids ids = from.integers("ids", {count});
  const Ids counts = from.integers("counts", {count});
  const Ids last = from.integers("last", {count});
  for (std::size_t i = 0; i < ids.size(); ++i) restore(index, ids[i], counts[i], last[i], true);
  const Ids waiting = from.integers("waiting", {from.count_of("waiting"), 3});
  for (std::size_t i = 0; i < waiting.size(); i += 3) restore(index, waiting[i], waiting[i + 1], waiting[i + 2], false);
  return index;
}

/// [capacity, columns]: the values, then zeros.
Array padded(const Array& values, std::int64_t capacity, DType dtype, Device device) {
  Array table = Array::zeros({capacity, values.length(1)}, dtype, device);
  table.slice(0, 0, values.length(0)).copy_from(values.cast(dtype).to(device));
  return table;
}

}  // namespace

HashTable::NamedArrays HashTable::save() const {
  const Ids ids = index_.ids();
  Ids counts;
  Ids last;
  Ids rows;
  for (const std::int64_t id : ids) {
    const IdIndex::Entry& entry = *index_.find(id);
    counts.push_back(entry.count);
    last.push_back(entry.last);
    rows.push_back(entry.row);
  }
  Ids waiting;
  for (const std::int64_t id : index_.ids(false))
    waiting.insert(waiting.end(), {id, index_.find(id)->count, index_.find(id)->last});
  const Shape length{std::ssize(ids)};
  NamedArrays saved{{"ids", Array::from(ids, length, cpu())},
                    {"counts", Array::from(counts, length, cpu())},
                    {"last", Array::from(last, length, cpu())},
                    {"rows", on_host(rows_, rows)},
                    {"waiting", Array::from(waiting, {std::ssize(waiting) / 3, 3}, cpu())},
                    {"updates", Array::full({}, updates(), DType::i64, cpu())}};
  for (const auto& [name, array] : state_) saved.emplace_back(std::string(kState) + name, on_host(array, rows));
  return saved;
}

std::function<void()> HashTable::prepare_load(const NamedArrays& arrays) {
  const Contents from(arrays, columns());
  const std::vector<std::string> states = from.states();
  auto index = std::make_shared<IdIndex>(read_index(from, options_.index));
  const std::int64_t capacity = std::max(this->capacity(), index->row_bound());
  const Array rows = padded(from.rows("rows", index->rows()), capacity, options_.dtype, device());
  NamedArrays state;
  for (const std::string& name : states)
    state.emplace_back(name, padded(from.rows(std::string(kState) + name, index->rows()), capacity,
                                    computed_in(options_.dtype), device()));
  return [this, index = std::move(index), rows, state = std::move(state)] {
    index_ = *index;
    rows_ = rows;
    state_ = state;
    clear_rows(index_.shrink().freed);
  };
}

}  // namespace tutti
