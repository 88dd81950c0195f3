// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/checkpoints/random_state.h>

#include <tutti/backend/raise.h>

#include <charconv>
#include <cstdint>
#include <iterator>

namespace tutti {
namespace {

constexpr std::size_t kNumberDigits = 16;  // hexadecimal, of each number

}  // namespace

std::string generator_text(const Generator& generator) {
  const Generator::State state = generator.state();
  return fmt::format("{:016x}{:016x}{:016x}", state.seed, state.stream, state.counter);
}

Generator parse_generator(const std::string& text) {
  Generator::State state;
  std::uint64_t* const numbers[] = {&state.seed, &state.stream, &state.counter};
  bool valid = text.size() == kNumberDigits * std::size(numbers);
  for (std::size_t i = 0; valid && i < std::size(numbers); ++i) {
    const char* const begin = text.data() + i * kNumberDigits;
    const auto [end, error] = std::from_chars(begin, begin + kNumberDigits, *numbers[i], 16);
    valid = error == std::errc() && end == begin + kNumberDigits;
  }
  if (!valid) raise<DataError>("\"{}\" is no state of a generator", text);
  return Generator(state);
}

}  // namespace tutti
