// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/dataset.h>

#include <tutti/backend/error.h>
#include <tutti/backend/random.h>
#include <tutti/train/gzip_lines.h>
#include <tutti/train/row_storage.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <vector>

namespace tutti {
namespace {

constexpr std::size_t kPixels = 64;
constexpr std::int64_t kSide = 8;
constexpr int kMaxPixel = 16;
constexpr int kMaxDigit = 9;

using Row = std::array<int, kPixels + 1>;  // pixels, then the digit

int parse_cell(const GzipLines& lines, std::string_view cell, std::size_t column) {
  const int most = column == kPixels ? kMaxDigit : kMaxPixel;
  int value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  const bool whole = end == cell.data() + cell.size();
  if (error == std::errc::invalid_argument || !whole)
    raise<DataError>("[load_digits] {}, line {}, column {}: \"{}\" is not a whole number", lines.path(),
                     lines.line_number(), column + 1, cell.substr(0, 32));
  if (error != std::errc() || value < 0 || value > most)
    raise<DataError>("[load_digits] {}, line {}, column {}: {} is not in 0 to {}", lines.path(), lines.line_number(),
                     column + 1, cell.substr(0, 32), most);
  return value;
}

Row parse_row(const GzipLines& lines, std::string_view line) {
  const auto columns = static_cast<std::size_t>(std::count(line.begin(), line.end(), ',')) + 1;
  if (columns != kPixels + 1)
    raise<DataError>("[load_digits] {}, line {}: {} columns, expected {}", lines.path(), lines.line_number(), columns,
                     kPixels + 1);
  Row row;
  for (std::size_t column = 0; column <= kPixels; ++column) {
    const std::size_t length = std::min(line.find(','), line.size());
    row[column] = parse_cell(lines, line.substr(0, length), column);
    line.remove_prefix(std::min(length + 1, line.size()));
  }
  return row;
}

Examples gather(const RowStorage& inputs, const RowStorage& targets, std::span<const std::int64_t> rows,
                Device device) {
  return {inputs.gather(rows, device), targets.gather(rows, device)};
}

}  // namespace

Examples load_digits(const std::string& path) {
  GzipLines lines(path);
  std::vector<float> pixels;
  std::vector<std::int64_t> digits;
  std::string_view line;
  while (lines.next(line)) {
    const Row row = parse_row(lines, line);
    for (std::size_t i = 0; i < kPixels; ++i) pixels.push_back(static_cast<float>(row[i]) / kMaxPixel);
    digits.push_back(row[kPixels]);
  }
  if (digits.empty()) raise<DataError>("[load_digits] {} holds no examples", path);
  const auto count = static_cast<std::int64_t>(digits.size());
  return {Array::from(pixels, {count, 1, kSide, kSide}, cpu()), Array::from(digits, {count}, cpu())};
}

void check_examples(const Examples& examples) {
  if (!examples.inputs.defined() || !examples.targets.defined())
    raise<ShapeError>("[examples] inputs or targets are undefined");
  if (examples.inputs.rank() == 0 || examples.targets.rank() == 0 ||
      examples.inputs.length(0) != examples.targets.length(0))
    raise<ShapeError>("[examples] inputs {} and targets {} are not equally many", to_string(examples.inputs.shape()),
                      to_string(examples.targets.shape()));
}

SplitExamples split(const Examples& examples, double fraction, std::uint64_t seed) {
  check_examples(examples);
  if (!(fraction > 0.0 && fraction < 1.0)) raise("[split] the fraction must be between 0 and 1, got {}", fraction);
  const std::int64_t count = examples.size();
  if (count < 2) raise("[split] {} examples cannot be divided", count);
  const auto wanted = static_cast<std::int64_t>(std::llround(fraction * static_cast<double>(count)));
  const std::int64_t border = std::clamp<std::int64_t>(wanted, 1, count - 1);

  Generator generator(seed);
  const std::vector<std::int64_t> order = generator.permutation(count);
  const auto rows = std::span(order);
  const RowStorage inputs(examples.inputs);
  const RowStorage targets(examples.targets);
  const Device device = examples.inputs.device();
  return {gather(inputs, targets, rows.first(static_cast<std::size_t>(border)), device),
          gather(inputs, targets, rows.subspan(static_cast<std::size_t>(border)), device)};
}

}  // namespace tutti
