// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/files/npy_header.h>

#include <tutti/backend/raise.h>
#include <tutti/exchange/memory/foreign_types.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

namespace tutti::detail {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

/// Reads the dictionary, a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class NpyParser {
 public:
  NpyParser(const std::string& place, std::uint64_t base, std::string_view text)
      : place_(place), base_(base), text_(text) {}

  NpyHeader parse() {
    read_preamble();
    expect('{');
    while (!take('}')) {
      const std::string_view key = string();
      expect(':');
      read_member(key);
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (position_ != end_) fail("unexpected text after the header");
    if (!has_descr_ || !has_order_ || !has_shape_) fail("the header lacks descr, fortran_order or shape");
    header_.header_bytes = end_;
    header_.data_bytes = data_bytes();
    return header_;
  }

  [[noreturn]] void fail(const std::string& what) const {
    raise<DataError>("[npy] {}: {} at offset {}", place_, what, base_ + position_);
  }

 private:
  void read_preamble() {
    if (!text_.starts_with(kMagic)) fail("no .npy file: the magic is missing");
    position_ = kMagic.size();
    if (text_.size() < 10) fail("truncated");
    const int major = byte(6);
    if (major < 1 || major > 3) fail(fmt::format("version {} is unknown", major));
    const std::size_t digits = major == 1 ? 2 : 4;
    std::size_t length = 0;
    position_ = 8;
    if (text_.size() < position_ + digits) fail("truncated");
    for (std::size_t i = 0; i < digits; ++i) length |= static_cast<std::size_t>(byte(position_ + i)) << (8 * i);
    if (length > text_.size() - position_ - digits)
      fail(fmt::format("truncated or malformed: a header of {} bytes", length));
    position_ += digits;
    end_ = position_ + length;
  }

  unsigned char byte(std::size_t at) const { return static_cast<unsigned char>(text_[at]); }

  void read_member(std::string_view key) {
    bool* const seen = key == "descr" ? &has_descr_ : key == "fortran_order" ? &has_order_ : &has_shape_;
    if (seen == &has_shape_ && key != "shape") fail(fmt::format("unknown key \"{}\"", key));
    if (*seen) fail(fmt::format("\"{}\" stands twice", key));
    *seen = true;
    if (seen == &has_descr_) {
      read_type();
    } else if (seen == &has_order_) {
      const std::string_view text = word();
      if (text != "True" && text != "False") fail("fortran_order is neither True nor False");
      header_.is_fortran_order = text == "True";
    } else {
      read_shape();
    }
  }

  void read_type() {
    skip_spaces();
    if (position_ < end_ && text_[position_] == '[') fail("structured types are not read,");
    const std::string_view descr = string();
    std::string_view type = descr;
    if (!type.empty() && std::string_view("<>=|").find(type[0]) != std::string_view::npos) {
      header_.is_big_endian = type[0] == '>';
      type.remove_prefix(1);
    }
    if (type.starts_with('O')) fail("arrays of Python objects are refused: they are programs, not numbers,");
    std::size_t bytes = 0;
    const char* const last = type.data() + type.size();
    const bool is_plain = type.size() > 1 && std::from_chars(type.data() + 1, last, bytes).ptr == last;
    const auto dtype = is_plain ? dtype_of_numpy(type[0], bytes) : std::nullopt;
    if (!dtype) fail(fmt::format("the type \"{}\" is unknown", descr));
    header_.dtype = *dtype;
  }

  void read_shape() {
    expect('(');
    while (!take(')')) {
      header_.shape.push_back(number());
      if (!take(',')) {
        expect(')');
        break;
      }
    }
  }

  std::uint64_t data_bytes() const {
    std::uint64_t bytes = size_of(header_.dtype);
    for (const std::int64_t length : header_.shape)
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(std::max<std::int64_t>(length, 1)), &bytes) ||
          bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        fail(fmt::format("impossible shape {}", to_string(header_.shape)));
    return element_count(header_.shape) == 0 ? 0 : bytes;
  }

  void skip_spaces() {
    while (position_ < end_ && (text_[position_] == ' ' || text_[position_] == '\n' || text_[position_] == '\t'))
      ++position_;
  }
  bool take(char c) {
    skip_spaces();
    if (position_ == end_ || text_[position_] != c) return false;
    ++position_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(fmt::format("malformed header: '{}' expected", c));
  }
  std::string_view string() {
    skip_spaces();
    if (position_ == end_ || (text_[position_] != '\'' && text_[position_] != '"')) fail("a string expected");
    const char quote = text_[position_++];
    const std::string_view rest = text_.substr(position_, end_ - position_);
    const std::size_t length = rest.find(quote);
    const std::string_view text = rest.substr(0, length);
    const bool is_plain =
        std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 127 && c != '\\'; });
    if (length == std::string_view::npos || !is_plain) fail("a string expected");
    position_ += length + 1;
    return text;
  }
  std::string_view word() {
    skip_spaces();
    const std::size_t begin = position_;
    while (position_ < end_ && text_[position_] >= 'A' && text_[position_] <= 'z') ++position_;
    return text_.substr(begin, position_ - begin);
  }
  std::int64_t number() {
    skip_spaces();
    std::int64_t value = -1;
    const char* const begin = text_.data() + position_;
    const auto [last, error] = std::from_chars(begin, text_.data() + end_, value);
    if (error != std::errc() || value < 0) fail("a length of an axis expected");
    position_ += static_cast<std::size_t>(last - begin);
    if (position_ < end_ && text_[position_] == 'L') ++position_;  // as Python 2 wrote it
    return value;
  }

  const std::string& place_;
  std::uint64_t base_;
  std::string_view text_;
  std::size_t position_ = 0;
  std::size_t end_ = 0;  // of the header
  bool has_descr_ = false, has_order_ = false, has_shape_ = false;
  NpyHeader header_;
};

}  // namespace

NpyHeader parse_npy_header(const std::string& place, std::uint64_t base, std::span<const std::byte> start,
                           std::uint64_t file_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(start.data()), std::min(start.size(), kMaxNpyHeader));
  const NpyHeader header = NpyParser(place, base, text).parse();
  const std::uint64_t left = file_bytes - header.header_bytes;
  if (header.data_bytes != left)
    raise<DataError>("[npy] {}: {} {} takes {} bytes from offset {} on, there are {}", place, to_string(header.dtype),
                     to_string(header.shape), header.data_bytes, base + header.header_bytes, left);
  return header;
}

std::string npy_header_text(DType dtype, const Shape& shape) {
  const char kind = foreign_type(dtype).numpy;
  if (kind == 0) raise<DTypeError>("[npy] NumPy has no type for {}: cast first", to_string(dtype));
  std::string lengths;
  for (const std::int64_t length : shape) lengths += fmt::format("{},", length);
  if (shape.size() > 1) lengths.pop_back();
  std::string dictionary = fmt::format("{{'descr': '{}{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                       size_of(dtype) == 1 ? '|' : '<', kind, size_of(dtype), lengths);
  const bool is_short = dictionary.size() < 0xff00;
  const std::size_t preamble = is_short ? 10 : 12;
  dictionary.resize((preamble + dictionary.size() + 1 + 63) / 64 * 64 - preamble - 1, ' ');
  dictionary += '\n';
  std::string text(kMagic);
  text += is_short ? '\1' : '\2';
  text += '\0';
  for (std::size_t i = 0; i < preamble - 8; ++i) text += static_cast<char>(dictionary.size() >> (8 * i) & 0xffU);
  return text + dictionary;
}

}  // namespace tutti::detail
