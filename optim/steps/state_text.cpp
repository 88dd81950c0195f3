// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/steps/state_text.h>

#include <tutti/backend/raise.h>

#include <charconv>
#include <system_error>

namespace tutti {

std::string state_text(const std::vector<double>& numbers, const std::vector<std::int64_t>& counts) {
  std::string text;
  for (const double number : numbers) text += fmt::format("{} ", number);  // the shortest that reads back as it was
  for (const std::int64_t count : counts) text += fmt::format("{} ", count);
  text.pop_back();
  return text;
}

StateNumbers parse_state_text(std::string_view whose, const std::string& text, std::size_t numbers,
                              std::size_t counts) {
  StateNumbers state{std::vector<double>(numbers), std::vector<std::int64_t>(counts)};
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto read = [&](auto& value) {
    while (at != end && *at == ' ') ++at;
    const auto [after, error] = std::from_chars(at, end, value);
    if (error != std::errc()) raise("[{}] \"{}\" is not its state: {} numbers", whose, text, numbers + counts);
    at = after;
  };
  for (double& number : state.numbers) read(number);
  for (std::int64_t& count : state.counts) read(count);
  if (at != end) raise("[{}] \"{}\" is not its state: {} numbers", whose, text, numbers + counts);
  return state;
}

}  // namespace tutti
