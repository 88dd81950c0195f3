// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/calls/index_meaning.h>

#include <tutti/backend/raise.h>

#include <algorithm>

namespace tutti {
namespace {

constinit thread_local const IndexMeaning* outermost = nullptr;

Shape place_in(const Shape& shape, std::int64_t place) {
  Shape position = shape;
  for (std::size_t axis = shape.size(); axis-- > 0; place /= shape[axis]) position[axis] = place % shape[axis];
  return position;
}

}  // namespace

std::string misfit(const IndexMeaning& meaning, std::int64_t index, std::int64_t length, std::string_view place) {
  if (meaning.from_back && index < 0) index -= length;
  return fmt::format("{} {}{} is out of range for {} {}{}", meaning.index, index, place, length, meaning.range,
                     meaning.ignored ? fmt::format(", and not the ignored {}", *meaning.ignored) : "");
}

IndexScope::IndexScope(const IndexMeaning& meaning) : outer_(outermost) {
  if (outermost == nullptr) outermost = &meaning;
}

IndexScope::~IndexScope() { outermost = outer_; }

const IndexMeaning* IndexScope::current() noexcept { return outermost; }

void raise_index(const IndexMeaning& meaning, std::int64_t index, std::int64_t length, std::int64_t place,
                 std::int64_t count) {
  const std::int64_t repeats =
      std::max<std::int64_t>(1, count / std::max<std::int64_t>(1, element_count(meaning.shape)));
  const Shape position = place_in(meaning.shape, place / repeats);
  raise<ShapeError>("[{}] {}", meaning.operation,
                    misfit(meaning, index, length, position.empty() ? "" : " at " + to_string(position)));
}

}  // namespace tutti
