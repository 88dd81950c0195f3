// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/reference_file.h>

#include <tutti/backend/error.h>
#include <tutti/exchange/safetensors.h>

#include <fmt/format.h>

#include <charconv>
#include <sstream>

namespace tutti::testing {
namespace {

template <class T> T parsed(std::string_view name, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    throw Error(fmt::format("attribute {}: \"{}\" is no number", name, text));
  return value;
}

template <class T> std::vector<T> parsed_list(std::string_view name, const std::string& text) {
  std::vector<T> values;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) values.push_back(parsed<T>(name, part));
  return values;
}

/// "softmax.3.dy0": the list that its last part names, and the place in it.
Arrays& list_of(ReferenceCase& reference, std::string_view kind) {
  if (kind == "x") return reference.inputs;
  if (kind == "y") return reference.results;
  if (kind == "dy") return reference.upstream;
  if (kind == "g") return reference.gradients;
  if (kind == "v") return reference.directions;
  if (kind == "h") return reference.second_gradients;
  throw Error(fmt::format("{} has arrays of an unknown kind, {}", reference.name, kind));
}

void add_array(std::map<std::string, ReferenceCase>& cases, const std::string& name, const Array& array) {
  const std::size_t dot = name.rfind('.');
  const std::size_t digits = name.find_first_of("0123456789", dot);
  const auto found = cases.find(name.substr(0, dot));
  if (found == cases.end() || digits == std::string::npos) throw Error(fmt::format("{} belongs to no case", name));
  Arrays& list = list_of(found->second, std::string_view(name).substr(dot + 1, digits - dot - 1));
  if (list.size() != parsed<std::size_t>(name, std::string_view(name).substr(digits)))
    throw Error(fmt::format("{} is not the next of its kind", name));
  list.push_back(array);
}

std::map<std::string, std::string> case_texts(const TensorFile& file) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, text] : file.metadata)
    if (name.find('.') != std::string::npos) texts.emplace(name, text);  // else the version of a package
  return texts;
}

std::string_view after_first_word(std::string_view text) { return text.substr(std::min(text.find(' '), text.size())); }

}  // namespace

Attributes::Attributes(std::string_view text) {
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) throw Error(fmt::format("{} is no attribute", word));
    values_.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
}

const std::string& Attributes::text(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) throw Error(fmt::format("the case has no attribute {}", name));
  return found->second;
}

double Attributes::number(std::string_view name) const { return parsed<double>(name, text(name)); }

std::int64_t Attributes::integer(std::string_view name) const { return parsed<std::int64_t>(name, text(name)); }

std::int64_t Attributes::integer(std::string_view name, std::int64_t otherwise) const {
  return has(name) ? integer(name) : otherwise;
}

std::vector<double> Attributes::numbers(std::string_view name) const {
  return has(name) ? parsed_list<double>(name, text(name)) : std::vector<double>{};
}

Axes Attributes::integers(std::string_view name) const {
  return has(name) ? Axes(parsed_list<std::int64_t>(name, text(name))) : Axes{};
}

DType Attributes::dtype(std::string_view name) const {
  for (const DType dtype : kAllDTypes)
    if (to_string(dtype) == text(name)) return dtype;
  throw Error(fmt::format("attribute {}: there is no dtype {}", name, text(name)));
}

std::string reference_path(std::string_view file) { return fmt::format("tests/references/data/{}.safetensors", file); }

std::vector<ReferenceCase> reference_cases(std::string_view file) {
  const TensorFile read = read_safetensors(reference_path(file));
  std::map<std::string, ReferenceCase> cases;
  for (const auto& [name, text] : case_texts(read)) {
    const std::string operation = text.substr(0, text.find(' '));
    cases[name] = {name, operation, Attributes(after_first_word(text)), {}, {}, {}, {}, {}, {}};
  }
  for (const auto& [name, array] : read.arrays) add_array(cases, name, array);
  std::vector<ReferenceCase> listed;
  for (auto& [name, reference] : cases) listed.push_back(std::move(reference));
  return listed;
}

std::map<std::string, Array> reference_arrays(std::string_view file) {
  const TensorFile read = read_safetensors(reference_path(file));
  return {read.arrays.begin(), read.arrays.end()};
}

std::map<std::string, Attributes> reference_attributes(std::string_view file) {
  std::map<std::string, Attributes> attributes;
  for (const auto& [name, text] : case_texts(read_safetensors(reference_path(file))))
    attributes.emplace(name, after_first_word(text));
  return attributes;
}

}  // namespace tutti::testing
