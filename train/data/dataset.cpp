// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/data/dataset.h>

#include <tutti/backend/raise.h>
#include <tutti/backend/random.h>
#include <tutti/exchange/arrays/host_span.h>
#include <tutti/train/data/csv.h>
#include <tutti/train/data/row_storage.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tutti {
namespace {

class ExampleRows final : public Dataset {
 public:
  ExampleRows(const Examples& examples, RowStorage::Memory memory)
      : inputs_(examples.inputs, memory),
        targets_(examples.targets, memory),
        description_(fmt::format("{} {} examples with {} {} targets", to_string(examples.inputs.shape()),
                                 to_string(examples.inputs.dtype()), to_string(examples.targets.shape()),
                                 to_string(examples.targets.dtype()))) {}

  std::int64_t size() const override { return inputs_.rows(); }
  Batch batch(std::span<const std::int64_t> examples, Device device) const override {
    return {.inputs = Tensor(inputs_.gather(examples, device)),
            .targets = Tensor(targets_.gather(examples, device)),
            .size = static_cast<std::int64_t>(examples.size())};
  }
  std::string description() const override { return description_; }

 private:
  RowStorage inputs_;
  RowStorage targets_;
  std::string description_;
};

Examples gather(const Dataset& dataset, std::span<const std::int64_t> examples, Device device) {
  const Batch batch = dataset.batch(examples, device);
  return {batch.inputs.array(), batch.targets.array()};
}

}  // namespace

void check_examples(const Examples& examples) {
  if (!examples.inputs.defined() || !examples.targets.defined())
    raise<ShapeError>("[examples] inputs or targets are undefined");
  if (examples.inputs.rank() == 0 || examples.targets.rank() == 0 ||
      examples.inputs.length(0) != examples.targets.length(0))
    raise<ShapeError>("[examples] inputs {} and targets {} are not equally many", to_string(examples.inputs.shape()),
                      to_string(examples.targets.shape()));
}

std::shared_ptr<const Dataset> make_dataset(const Examples& examples) {
  check_examples(examples);
  return std::make_shared<ExampleRows>(examples, RowStorage::Memory::copied);
}

std::shared_ptr<const Dataset> share_dataset(const Examples& examples) {
  check_examples(examples);
  return std::make_shared<ExampleRows>(examples, RowStorage::Memory::shared);
}

SplitExamples split(const Examples& examples, double fraction, std::uint64_t seed) {
  const auto dataset = make_dataset(examples);
  if (!(fraction > 0.0 && fraction < 1.0)) raise("[split] the fraction must be between 0 and 1, got {}", fraction);
  const std::int64_t count = examples.size();
  if (count < 2) raise("[split] {} examples cannot be divided", count);
  const auto wanted = static_cast<std::int64_t>(std::llround(fraction * static_cast<double>(count)));
  const auto border = static_cast<std::size_t>(std::clamp<std::int64_t>(wanted, 1, count - 1));

  Generator generator(seed);
  const std::vector<std::int64_t> order = generator.permutation(count);
  const auto rows = std::span(order);
  const Device device = examples.inputs.device();
  return {gather(*dataset, rows.first(border), device), gather(*dataset, rows.subspan(border), device)};
}

Examples load_digits(const std::string& path) {
  constexpr std::int64_t kSide = 8;
  constexpr std::size_t kColumns = kSide * kSide + 1;  // pixels, then the digit
  constexpr std::int64_t kMaxPixel = 16;
  constexpr std::int64_t kMaxDigit = 9;

  const Array table = read_csv(path, {.header = false, .width = kColumns}, {.dtype = DType::i64});
  const std::span<const std::int64_t> cells = host_span<std::int64_t>(table);
  const std::int64_t count = table.length(0);
  std::vector<float> pixels;
  std::vector<std::int64_t> digits;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool is_digit = i % kColumns == kColumns - 1;
    const std::int64_t most = is_digit ? kMaxDigit : kMaxPixel;
    if (cells[i] < 0 || cells[i] > most)
      raise<DataError>("[load_digits] {}, line {}, column {}: {} is not in 0 to {}", path, i / kColumns + 1,
                       i % kColumns + 1, cells[i], most);
    if (is_digit)
      digits.push_back(cells[i]);
    else
      pixels.push_back(static_cast<float>(cells[i]) / static_cast<float>(kMaxPixel));
  }
  return {Array::from(pixels, {count, 1, kSide, kSide}, cpu()), Array::from(digits, {count}, cpu())};
}

}  // namespace tutti
