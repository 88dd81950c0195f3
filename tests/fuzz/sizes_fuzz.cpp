// SPDX-License-Identifier: Apache-2.0
// Any integers among an operation's arguments give a result of the right shape, or an error that names the operation.
// Input: bytes that choose an operation and a call of it, then which of its integers become which numbers.
#include <tutti/tests/fuzz/require.h>
#include <tutti/tests/references/varied_call.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <span>
#include <string>

using namespace tutti;

namespace {

/// Zeros when there are no more.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t bytes) : left_(data, bytes) {}

  bool empty() const { return left_.empty(); }
  std::size_t below(std::size_t bound) { return read<std::uint16_t>() % bound; }
  /// As it stands, or a power of two and a little, of which chance alone makes few.
  std::int64_t integer() {
    const auto form = read<std::uint8_t>();
    if (form < 64) return read<std::int64_t>();
    if (form < 96) return read<std::int8_t>();
    const auto power = std::uint64_t{1} << (form % 64U);
    const auto value = static_cast<std::int64_t>(power + static_cast<std::uint64_t>(form / 64 - 2));
    return form % 2 == 0 || value == std::numeric_limits<std::int64_t>::min() ? value : -value;
  }

 private:
  template <class T> T read() {
    T value{};
    const std::size_t bytes = std::min(sizeof value, left_.size());
    std::memcpy(&value, left_.data(), bytes);
    left_ = left_.subspan(bytes);
    return value;
  }

  std::span<const std::uint8_t> left_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const testing::SmallMemory limit;
  Input input(data, bytes);
  const auto& operations = testing::varied_operations();
  const testing::VariedOperation& chosen = operations[input.below(operations.size())];
  testing::VariedCall varied(*chosen.cases.at(input.below(chosen.cases.size())));
  constexpr int kMostChanges = 6;
  for (int i = 0; i < kMostChanges && !input.empty() && varied.integers() > 0; ++i)
    varied.set(input.below(varied.integers()), input.integer());
  const std::string complaint = testing::complaint_about(chosen.operation, varied.call());
  if (!complaint.empty()) std::fprintf(stderr, "%s: %s\n", varied.describe().c_str(), complaint.c_str());
  testing::require(complaint.empty());
  return 0;
}
