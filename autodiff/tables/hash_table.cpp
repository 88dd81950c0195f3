// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/tables/hash_table.h>

#include <tutti/backend/formulas/philox.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <unordered_map>

namespace tutti {
namespace {

Tensor make_leaf(std::int64_t columns, DType dtype, Device device) {
  Tensor leaf(Array::empty({0, columns}, dtype, device), true);
  return leaf.set_sparse_grad(true);
}

void check(std::int64_t columns, const HashTableOptions& options) {
  if (columns <= 0) raise<ShapeError>("[hash_table] columns must be positive, got {}", columns);
  if (!is_floating(options.dtype))
    raise<DTypeError>("[hash_table] needs a floating type, got {}", to_string(options.dtype));
  if (!(std::isfinite(options.deviation) && options.deviation >= 0.0))
    raise("[hash_table] deviation must be finite and not negative, got {}", options.deviation);
  if (options.capacity <= 0) raise("[hash_table] capacity must be positive, got {}", options.capacity);
  const IdIndexOptions& index = options.index;
  if (index.min_count < 1) raise("[hash_table] min_count must be at least 1, got {}", index.min_count);
  if (index.max_rows < 0) raise("[hash_table] max_rows must not be negative, got {}", index.max_rows);
  if (index.max_idle < 0) raise("[hash_table] max_idle must not be negative, got {}", index.max_idle);
}

std::int64_t first_capacity(const HashTableOptions& options) {
  return options.index.max_rows > 0 ? std::min(options.capacity, options.index.max_rows) : options.capacity;
}

std::string text_of(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("\"{}\"", fmt::join(names, "\", \""));
}

Array rows_at(const Array& table, const std::vector<std::int64_t>& rows) {
  const Array index = Array::from(rows, {std::ssize(rows)}, table.device());
  return gather(table, 0, index_of_rows(index, table.length(1)));
}

/// table[rows[i]] += values[i]
void add_at(const Array& table, const std::vector<std::int64_t>& rows, const Array& values) {
  if (rows.empty()) return;
  const Array index = Array::from(rows, {std::ssize(rows)}, table.device());
  table.count_write("hash_table");
  backend_for(table.device()).scatter(Scatter::add, values, 0, index_of_rows(index, table.length(1)), table);
}

template <class T>
std::vector<T> draw_rows(std::span<const std::int64_t> ids, std::int64_t columns, const HashTableOptions& options) {
  std::vector<T> values;
  values.reserve(ids.size() * static_cast<std::size_t>(columns));
  for (const std::int64_t id : ids) {
    const RandomCall call{.kind = RandomCall::Kind::normal,
                          .seed = options.seed,
                          .stream = static_cast<std::uint64_t>(id),
                          .a = 0.0,
                          .b = options.deviation};
    Drawn<T> drawn{};
    for (std::size_t column = 0; column < static_cast<std::size_t>(columns); ++column) {
      if (column % Drawn<T>::kElements == 0) drawn = draw<T>(call, column / Drawn<T>::kElements);
      values.push_back(drawn.element[column % Drawn<T>::kElements]);
    }
  }
  return values;
}

Array grown(const Array& table, std::int64_t rows) {
  Array larger = Array::zeros({rows, table.length(1)}, table.dtype(), table.device());
  larger.slice(0, 0, table.length(0)).copy_from(table);
  return larger;
}

}  // namespace

HashTable::HashTable(std::int64_t columns, const HashTableOptions& options)
    : options_((check(columns, options), options)),
      index_(options.index),
      weight_(make_leaf(columns, options.dtype, options.device)),
      rows_(Array::zeros({first_capacity(options), columns}, options.dtype, options.device)) {}

HashTable::HashTable(const HashTable& other, Tensor weight)
    : options_(other.options_),
      index_(other.options_.index),
      weight_(std::move(weight)),
      rows_(Array::empty({0, other.columns()}, weight_.dtype(), weight_.device())) {
  options_.device = weight_.device();
  options_.dtype = weight_.dtype();
  copy_from(other);
}

void HashTable::copy_from(const HashTable& other) {
  if (other.columns() != columns())
    raise<ShapeError>("[hash_table] a table of {} columns cannot become one of {}", columns(), other.columns());
  const auto copied = [&](const Array& array, DType dtype) {
    const Array there = array.to(options_.device).cast(dtype);
    return there.storage() == array.storage() ? there.copy() : there.contiguous();
  };
  Array rows = copied(other.rows_, options_.dtype);
  NamedArrays state;
  for (const auto& [name, array] : other.state_) state.emplace_back(name, copied(array, computed_in(options_.dtype)));
  index_ = other.index_;
  rows_ = std::move(rows);
  state_ = std::move(state);
}

std::shared_ptr<HashTable> HashTable::copy_for(const Tensor& weight) const {
  const auto known = [&]() -> std::shared_ptr<HashTable> {
    std::erase_if(copies_, [](const auto& copy) { return copy.expired(); });
    for (const auto& copy : copies_)
      if (auto alive = copy.lock(); alive && alive->weight_.is_same(weight)) return alive;
    return nullptr;
  };
  {
    const std::lock_guard lock(copies_mutex_);
    if (auto copy = known()) return copy;
  }
  auto made = std::make_shared<HashTable>(*this, weight);  // may fail, and the error look at modules that ask again
  const std::lock_guard lock(copies_mutex_);
  if (auto copy = known()) return copy;
  copies_.push_back(made);
  return made;
}

Array HashTable::initial_values(std::span<const std::int64_t> ids, DType dtype) const {
  const Shape shape{std::ssize(ids), columns()};
  if (dtype == DType::f64) return Array::from(draw_rows<double>(ids, columns(), options_), shape, device());
  return Array::from(draw_rows<float>(ids, columns(), options_), shape, device()).cast(dtype);
}

Array HashTable::lookup(std::span<const std::int64_t> ids, Unknown unknown) const {
  std::vector<std::int64_t> known;  // rows
  std::vector<std::int64_t> fresh;  // ids without a row, each once
  std::unordered_map<std::int64_t, std::int64_t> fresh_places;
  std::vector<std::int64_t> places;  // among the known, or -1 - place among the fresh
  for (const std::int64_t id : ids) {
    if (const IdIndex::Entry* entry = index_.find(id); entry != nullptr && entry->row >= 0) {
      places.push_back(std::ssize(known));
      known.push_back(entry->row);
      continue;
    }
    const auto [place, is_new] = fresh_places.emplace(id, std::ssize(fresh));
    if (is_new) fresh.push_back(id);
    places.push_back(-1 - place->second);
  }
  if (fresh.empty()) return rows_at(rows_, known);
  const Array first = unknown == Unknown::initial
                          ? initial_values(fresh, options_.dtype)
                          : Array::zeros({std::ssize(fresh), columns()}, options_.dtype, device());
  for (std::int64_t& place : places)
    if (place < 0) place = std::ssize(known) - 1 - place;
  if (known.empty()) return rows_at(first, places);
  const Array parts[] = {rows_at(rows_, known), first};
  return rows_at(concatenate(parts, 0), places);
}

void HashTable::reserve(std::int64_t rows) {
  std::int64_t capacity = rows_.length(0);
  if (rows <= capacity) return;
  while (capacity < rows) capacity *= 2;
  if (const std::int64_t most = index_.options().max_rows; most > 0)
    capacity = std::max(rows, std::min(capacity, most));
  rows_ = grown(rows_, capacity);
  for (auto& [name, array] : state_) array = grown(array, capacity);
}

// Zeros, not subtraction: what diverged may be infinite. Neighbours at once.
void HashTable::clear_rows(std::span<const std::int64_t> rows) {
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = i + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    rows_.slice(0, rows[i], rows[end - 1] + 1).fill(0);
    for (auto& [name, array] : state_) array.slice(0, rows[i], rows[end - 1] + 1).fill(0);
    i = end;
  }
}

void HashTable::apply(const IdIndex::Changes& changes, double initial_state) {
  clear_rows(changes.freed);
  reserve(index_.row_bound());
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> rows;
  for (const auto& [id, row] : changes.inserted) {
    ids.push_back(id);
    rows.push_back(row);
  }
  if (ids.empty()) return;
  add_at(rows_, rows, initial_values(ids, options_.dtype));
  if (initial_state == 0.0) return;
  for (auto& [name, array] : state_)
    add_at(array, rows, Array::full({std::ssize(ids), columns()}, initial_state, array.dtype(), device()));
}

void HashTable::require_state(const RowState& wanted) const {
  if (state_.empty()) return;
  std::vector<std::string> names;
  for (const auto& [name, array] : state_) names.push_back(name);
  if (names != wanted.names)
    raise("[hash_table] the rows have the state {} of an optimizer, this one keeps {}: call drop_state() to begin anew",
          text_of(names), text_of(wanted.names));
}

void HashTable::prepare_state(const RowState& wanted) {
  if (!state_.empty()) return;
  std::vector<std::int64_t> used;
  if (wanted.initial != 0.0)
    for (const std::int64_t id : index_.ids()) used.push_back(index_.find(id)->row);
  for (const std::string& name : wanted.names) {
    Array array = Array::zeros(rows_.shape(), computed_in(options_.dtype), device());
    add_at(array, used, Array::full({std::ssize(used), columns()}, wanted.initial, array.dtype(), device()));
    state_.emplace_back(name, std::move(array));
  }
}

SparseGradient HashTable::admit(const SparseGradient& by_id, const RowState& wanted) {
  require_state(wanted);
  prepare_state(wanted);
  const auto ids = by_id.indices.to_vector<std::int64_t>();
  apply(index_.reach(ids), wanted.initial);
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> places;
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (const std::int64_t row = index_.find(ids[i])->row; row >= 0) {
      rows.push_back(row);
      places.push_back(static_cast<std::int64_t>(i));
    }
  const Array gradient = places.size() == ids.size() ? by_id.rows : rows_at(by_id.rows, places);
  return {Array::from(rows, {std::ssize(rows)}, device()), gradient, rows_.shape(), false};
}

void HashTable::erase(std::span<const std::int64_t> ids) { clear_rows(index_.erase(ids).freed); }

}  // namespace tutti
