// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/print.h>

#include <tutti/backend/calls/operand_checks.h>
#include <tutti/exchange/files/file_arrays.h>
#include <tutti/exchange/printing/print_words.h>

#include <algorithm>
#include <ostream>

namespace tutti {
namespace {

constexpr std::string_view kLeftOut = "...";

/// Places along an axis of which only the ends are shown.
std::vector<std::int64_t> shown_places(std::int64_t length, std::int64_t edge_items) {
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < length; ++i)
    if (i < edge_items || i >= length - edge_items)
      places.push_back(i);
    else
      i = length - edge_items - 1;
  return places;
}

/// Elements of the corners, row-major, one stretch of the last axis at a time.
void append_corners(const Array& array, std::size_t axis, std::int64_t edge_items, std::vector<std::byte>& elements) {
  const auto along = static_cast<std::int64_t>(axis);
  const std::int64_t length = array.shape()[axis];
  if (axis + 1 < array.rank()) {
    for (const std::int64_t place : shown_places(length, edge_items))
      append_corners(array.slice(along, place, place + 1), axis + 1, edge_items, elements);
    return;
  }
  const auto append = [&](std::int64_t begin, std::int64_t end) {
    const std::vector<std::byte> bytes = host_bytes(array.slice(along, begin, end));
    elements.insert(elements.end(), bytes.begin(), bytes.end());
  };
  if (length <= 2 * edge_items) {
    append(0, length);
  } else {
    append(0, edge_items);
    append(length - edge_items, length);
  }
}

std::string without_trailing_spaces(std::string text) {
  text.resize(text.find_last_not_of(' ') + 1);
  return text;
}

/// Puts the words into brackets, line by line.
class Layout {
 public:
  Layout(const Shape& shape, const PrintOptions& options, bool is_summary, std::vector<std::string> words)
      : shape_(shape), options_(options), is_summary_(is_summary), words_(std::move(words)) {}

  std::string text() { return shape_.empty() ? words_.front() : block(0, " ", options_.line_width); }

 private:
  /// The part of the array below `axis`; lines after the first begin with `indent`.
  std::string block(std::size_t axis, const std::string& indent, std::size_t width) {
    const bool cut = is_summary_ && shape_[axis] > 2 * options_.edge_items;
    const std::int64_t count = cut ? 2 * options_.edge_items : shape_[axis];
    const std::string text =
        axis + 1 == shape_.size() ? row(count, cut, indent, width - 1) : rows(axis, count, cut, indent, width - 1);
    return "[" + text.substr(indent.size()) + "]";
  }

  std::string row(std::int64_t count, bool cut, const std::string& indent, std::size_t width) {
    std::string text;
    std::string line = indent;
    const auto add = [&](std::string_view word) {
      if (line.size() + word.size() > width && line.size() > indent.size()) {
        text += without_trailing_spaces(line) + "\n";
        line = indent;
      }
      line += word;
    };
    for (std::int64_t i = 0; i < count; ++i) {
      if (cut && i == count / 2) {
        add(kLeftOut);
        line += options_.separator;
      }
      add(words_[next_++]);
      if (i + 1 < count) line += options_.separator;
    }
    return text + line;
  }

  std::string rows(std::size_t axis, std::int64_t count, bool cut, const std::string& indent, std::size_t width) {
    const std::string between =
        without_trailing_spaces(std::string(options_.separator)) + std::string(shape_.size() - axis - 1, '\n');
    std::string text;
    for (std::int64_t i = 0; i < count; ++i) {
      if (cut && i == count / 2) text += indent + std::string(kLeftOut) + between;
      text += indent + block(axis + 1, indent + " ", width);
      if (i + 1 < count) text += between;
    }
    return text;
  }

  const Shape& shape_;
  const PrintOptions& options_;
  bool is_summary_;
  std::vector<std::string> words_;
  std::size_t next_ = 0;
};

}  // namespace

std::string elements_text(const Array& array, const PrintOptions& options) {
  checks::require_defined("print", array);
  if (array.size() == 0) return "[]";
  const bool is_summary = array.size() > options.threshold && options.edge_items > 0;
  std::vector<std::byte> elements;
  if (is_summary && array.rank() > 0)
    append_corners(array, 0, options.edge_items, elements);
  else
    elements = host_bytes(array);
  std::vector<std::string> words = detail::element_words(array.dtype(), elements, options.precision, array.rank() == 0);
  return Layout(array.shape(), options, is_summary, std::move(words)).text();
}

std::string to_string(const Array& array, const PrintOptions& options) {
  if (!array.defined()) return "undefined";
  return elements_text(array, options) + " " + checks::describe(array);
}

std::string to_string(const Tensor& tensor, const PrintOptions& options) {
  return tensor.defined() ? to_string(tensor.array(), options) : "undefined";
}

std::ostream& operator<<(std::ostream& stream, const Array& array) { return stream << to_string(array); }

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) { return stream << to_string(tensor); }

}  // namespace tutti
