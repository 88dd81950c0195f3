// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/capture/tape.h>

#include <fmt/format.h>

#include <algorithm>

namespace tutti {
namespace {

bool looks_alike(const Array& a, const Array& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.shape() == b.shape() && a.strides() == b.strides() && a.dtype() == b.dtype();
}

}  // namespace

bool TapeOperand::operator==(const TapeOperand& other) const {
  return source == other.source && looks_alike(array, other.array);
}

bool TapeOperands::operator==(const TapeOperands& other) const {
  return sources == other.sources && std::ranges::equal(arrays, other.arrays, looks_alike);
}

std::size_t Tape::constant_until(std::size_t begin, std::size_t end) const {
  const auto varying = std::ranges::lower_bound(varying_, begin);
  return varying == varying_.end() ? end : std::min(*varying, end);
}

std::string Tape::difference(const Tape& other) const {
  const std::size_t both = std::min(size(), other.size());
  for (std::size_t i = 0; i < both; ++i)
    if (!calls_[i]->equals(*other.calls_[i]))
      return calls_[i]->name() == other.calls_[i]->name()
                 ? fmt::format("call {} ({}) had other numbers, shapes or operands", i + 1, calls_[i]->name())
                 : fmt::format("call {} was {}, then {}", i + 1, calls_[i]->name(), other.calls_[i]->name());
  if (size() != other.size()) return fmt::format("it made {} calls, then {}", size(), other.size());
  return {};
}

}  // namespace tutti
