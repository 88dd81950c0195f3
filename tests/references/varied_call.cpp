// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/varied_call.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/references/result_shapes.h>
#include <tutti/tests/test_devices.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <limits>
#include <map>
#include <set>

namespace tutti::testing {
namespace {

constexpr std::size_t kMemory = std::size_t{1} << 25;          // bytes beside those in use
constexpr std::int64_t kMostElements = std::int64_t{1} << 26;  // of results without a formula
constexpr auto kLongest = std::chrono::seconds(10);

// What tests do with a case, and the places of operands.
const std::set<std::string> kNoArguments{"tolerance", "constants",  "each", "signed_zeros",
                                         "weight",    "pos_weight", "mask"};
// The table makes modules for these, whose sizes are not an operation's.
const std::set<std::string> kModules{"rnn", "lstm", "gru"};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// The last place of the integer that begins there, or that place where none does: "12", not "1.5", "1e5" or "f32".
std::size_t end_of_integer(const std::string& text, std::size_t begin) {
  if (begin > 0 && (is_word(text[begin - 1]) || text[begin - 1] == '-')) return begin;
  std::size_t end = begin + (text[begin] == '-' ? 1 : 0);
  const std::size_t first = end;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end == first || (end < text.size() && is_word(text[end])) ? begin : end;
}

Array with_last_element(const Array& operand, std::int64_t value) {
  std::vector<std::int64_t> values = operand.cast(DType::i64).to_vector<std::int64_t>();
  values.back() = value;
  return Array::from(values, operand.shape(), operand.device()).cast(operand.dtype());
}

/// What the shape is by its formula, if it has another.
std::string complaint_about_shape(const Operation& operation, const Call& call, const Results& results) {
  const auto expected = shape_of_result(operation.name, call);
  if (!expected) {
    for (const Tensor& result : results)
      if (result.defined() && result.size() > kMostElements) return "a result of " + to_string(result.shape());
    return "";
  }
  const Shape& shape = results.at(0).shape();
  if (std::equal(shape.begin(), shape.end(), expected->begin(), expected->end())) return "";
  std::string text = "a result of " + to_string(shape) + ", not of";
  for (const WideInteger length : *expected)
    text += length < 0 || length > std::numeric_limits<std::int64_t>::max()
                ? " (overflows)"
                : fmt::format(" {}", static_cast<std::int64_t>(length));
  return text;
}

std::string complaint_about_error(const Operation& operation, const std::string& error) {
  if (names_inner_operation(error)) return "names another operation: " + error;
  if (begins_with_name(error, operation, "[", "] ")) return "";
  const std::size_t needed = error.find(", which ");  // of memory
  if (error.starts_with("[memory] ") && needed != std::string::npos &&
      begins_with_name(error.substr(needed), operation, ", which ", " needs"))
    return "";
  return "does not name the operation: " + error;
}

/// Whether all kernels that run later did what they were asked.
bool all_ran() {
  try {
    synchronize(test_device());
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string outcome_of(const Operation& operation, const Call& call) {
  std::optional<Results> results;
  try {
    results = operation.run(call);
  } catch (const Error& error) {
    all_ran();  // what failed before, on an asynchronous stream, is told here and not to the next operation
    return complaint_about_error(operation, error.what());
  }
  return all_ran() ? complaint_about_shape(operation, call, *results) : "";
}

/// One for each set of attributes and number of integers, and some more.
std::vector<const ReferenceCase*> chosen(const std::vector<ReferenceCase>& all) {
  constexpr std::size_t kMore = 3;
  std::set<std::pair<std::size_t, std::vector<std::string>>> seen;
  std::vector<const ReferenceCase*> some;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<std::string> names;
    for (const auto& [name, text] : all[i].attributes.texts()) names.push_back(name);
    if (seen.emplace(VariedCall(all[i]).arguments(), names).second || i % (all.size() / kMore + 1) == 0)
      some.push_back(&all[i]);
  }
  return some;
}

}  // namespace

VariedCall::Text::Text(std::string attribute, const std::string& text) : name(std::move(attribute)), between{""} {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = end_of_integer(text, at);
    if (end == at) {
      between.back() += text[at++];
      continue;
    }
    std::int64_t value = 0;
    std::from_chars(text.data() + at, text.data() + end, value);
    numbers.push_back(value);
    between.emplace_back();
    at = end;
  }
}

std::string VariedCall::Text::joined() const {
  std::string text = between[0];
  for (std::size_t i = 0; i < numbers.size(); ++i) text += std::to_string(numbers[i]) + between[i + 1];
  return text;
}

VariedCall::VariedCall(const ReferenceCase& reference) : reference_(&reference) {
  for (const auto& [name, text] : reference.attributes.texts())
    if (!kNoArguments.contains(name)) texts_.emplace_back(name, text);
  for (std::size_t i = 0; i < reference.inputs.size(); ++i) {
    const Array& operand = reference.inputs[i];
    if (is_integral(operand.dtype()) && operand.size() > 0)
      operands_.emplace_back(i, operand.cast(DType::i64).to_vector<std::int64_t>().back());
  }
}

std::size_t VariedCall::arguments() const noexcept {
  std::size_t count = 0;
  for (const Text& text : texts_) count += text.numbers.size();
  return count;
}

void VariedCall::set(std::size_t which, std::int64_t value) {
  for (Text& text : texts_) {
    if (which < text.numbers.size()) {
      text.numbers[which] = value;
      return;
    }
    which -= text.numbers.size();
  }
  operands_.at(which).second = value;
}

Call VariedCall::call() const {
  Call call{{}, reference_->attributes};
  for (const Text& text : texts_) call.attributes.set(text.name, text.joined());
  std::vector<Array> inputs = reference_->inputs;
  for (const auto& [place, value] : operands_) inputs[place] = with_last_element(inputs[place], value);
  for (const Array& input : inputs) call.x.emplace_back(input.to(test_device()));
  return call;
}

std::string VariedCall::describe() const {
  std::string text = reference_->name;
  for (const Text& attribute : texts_) text += " " + attribute.name + "=" + attribute.joined();
  for (const auto& [place, value] : operands_) text += fmt::format(" operand {} ends in {}", place, value);
  return text;
}

std::string complaint_about(const Operation& operation, const Call& call) {
  const auto begin = std::chrono::steady_clock::now();
  std::string complaint;
  try {
    complaint = outcome_of(operation, call);
  } catch (const std::exception& error) {
    complaint = fmt::format("threw {}", error.what());
  }
  if (complaint.empty() && std::chrono::steady_clock::now() - begin > kLongest) complaint = "took too long";
  return complaint.empty() ? "" : operation.name + ": " + complaint;
}

SmallMemory::SmallMemory() {
  MemoryPool& pool = backend_for(test_device()).pool(test_device());
  pool.set_limit(pool.statistics().in_use + kMemory);
}
SmallMemory::~SmallMemory() {
  backend_for(test_device()).pool(test_device()).set_limit(std::numeric_limits<std::size_t>::max());
}

const std::vector<VariedOperation>& varied_operations() {
  static const std::vector<VariedOperation> all = [] {
    static std::map<std::string, std::vector<ReferenceCase>> cases;
    for (const std::string& file : reference_files())
      for (ReferenceCase& reference : reference_cases(file)) cases[reference.operation].push_back(std::move(reference));
    std::vector<VariedOperation> listed;
    for (const Operation& operation : all_operations())
      if (!operation.name.starts_with("literal") && !kModules.contains(operation.name))  // several operations in one
        listed.push_back({operation, chosen(cases[operation.name])});
    static const std::vector<CreationCase> creations = creation_cases();
    for (const CreationCase& creation : creations) listed.push_back({creation.operation, {&creation.reference}});
    return listed;
  }();
  return all;
}

}  // namespace tutti::testing
