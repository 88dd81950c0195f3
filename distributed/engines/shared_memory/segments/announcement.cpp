// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/segments/announcement.h>

#include <fmt/format.h>

#include <algorithm>

namespace tutti {

namespace {

// Names from another process's memory: no value is trusted.
std::string_view name_of(Announcement::Kind kind) {
  if (kind == Announcement::Kind::rows) return "rows of a sparse gradient";
  return kind == Announcement::Kind::all_reduce ? "an all_reduce" : "a collective";
}
std::string name_of(DType dtype) {
  return dtype <= DType::u8 ? std::string(to_string(dtype)) : fmt::format("type {}", static_cast<int>(dtype));
}

}  // namespace

void Announcement::set_name(std::string_view text) noexcept {
  const std::size_t length = std::min(text.size(), sizeof name - 1);
  std::copy_n(text.data(), length, name);
  std::fill(name + length, name + sizeof name, '\0');
}

std::string difference(const Announcement& one, int rank, const Announcement& other, int other_rank) {
  const auto between = [&](const auto& a, const auto& b, std::string_view unit) {
    return fmt::format("rank {} has {}{}, rank {} has {}{}", rank, a, unit, other_rank, b, unit);
  };
  if (one.kind != other.kind) return between(name_of(one.kind), name_of(other.kind), "");
  if (one.dtype != other.dtype) return between(name_of(one.dtype), name_of(other.dtype), "");
  if (one.elements != other.elements) return between(one.elements, other.elements, " elements");
  if (one.wire != other.wire) return between(to_string(one.wire), to_string(other.wire), " as its wire");
  if (one.denominator != other.denominator) return between(one.denominator, other.denominator, " as its denominator");
  if (one.wire_scale != other.wire_scale) return between(one.wire_scale, other.wire_scale, " as its wire's scale");
  if (one.parts != other.parts) return between(one.parts, other.parts, " as the hash of its parts");
  return {};
}

}  // namespace tutti
