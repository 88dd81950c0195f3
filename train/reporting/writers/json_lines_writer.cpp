// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/reporting/json_lines_writer.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

namespace tutti {
namespace {

constexpr std::string_view kLineBegin = "{\"iteration\":";

std::optional<std::int64_t> iteration_of(std::string_view line) {
  if (!line.starts_with(kLineBegin)) return std::nullopt;
  std::int64_t iteration = 0;
  const char* begin = line.data() + kLineBegin.size();
  if (std::from_chars(begin, line.data() + line.size(), iteration).ec != std::errc()) return std::nullopt;
  return iteration;
}

}  // namespace

void JsonLinesWriter::write(const EventStorage& storage) {
  if (const auto start = rows_.restart(storage)) drop_from(*start);
  auto values = rows_.take(storage);
  if (values.empty()) return;
  lines_.clear();
  const auto out = std::back_inserter(lines_);
  while (!values.empty()) {
    fmt::format_to(out, "{}{}", kLineBegin, values.front().iteration);
    for (const auto& [iteration, series, value] : EventRows::take_row(values)) {
      lines_.append(key(storage, series));
      if (std::isfinite(value))
        fmt::format_to(out, "{}", value);
      else
        lines_.append("null");
    }
    lines_.append("}\n");
  }
  file_.write(lines_);
}

void JsonLinesWriter::drop_from(std::int64_t start) {
  keys_.clear();  // a storage that was loaded may have its series in another order
  std::optional<std::int64_t> last;
  file_.rewrite([&](std::string_view line) -> std::optional<std::string> {
    const auto iteration = iteration_of(line);
    if (iteration && *iteration >= start) return std::nullopt;
    if (iteration) last = std::max(last.value_or(*iteration), *iteration);
    return std::string(line);
  });
  if (last) rows_.assume_written(*last);
}

const std::string& JsonLinesWriter::key(const EventStorage& storage, std::size_t series) {
  using Json = nlohmann::json;
  while (keys_.size() <= series) {
    const Json name = storage.series()[keys_.size()].name;  // what is not UTF-8 is replaced
    keys_.push_back("," + name.dump(-1, ' ', false, Json::error_handler_t::replace) + ":");
  }
  return keys_[series];
}

}  // namespace tutti
