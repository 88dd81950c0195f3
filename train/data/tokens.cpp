// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/data/tokens.h>

#include <tutti/backend/raise.h>
#include <tutti/exchange/files/file_descriptor.h>
#include <tutti/exchange/npy.h>

#include <cstring>

namespace tutti {
namespace {

template <class F> decltype(auto) visit_type(TokenType type, F&& f) {
  switch (type) {
    case TokenType::u8: return f(std::type_identity<std::uint8_t>{});
    case TokenType::u16: return f(std::type_identity<std::uint16_t>{});
    case TokenType::u32: return f(std::type_identity<std::uint32_t>{});
    case TokenType::i32: return f(std::type_identity<std::int32_t>{});
    case TokenType::i64: break;
  }
  return f(std::type_identity<std::int64_t>{});
}

std::uint64_t bytes_of(TokenType type) {
  return visit_type(type, []<class T>(std::type_identity<T>) { return sizeof(T); });
}

TokenType type_of(const std::string& path, DType dtype) {
  switch (dtype) {
    case DType::u8: return TokenType::u8;
    case DType::i32: return TokenType::i32;
    case DType::i64: return TokenType::i64;
    default: raise<DataError>("[tokens] {} holds {}: tokens are u8, i32 or i64", path, to_string(dtype));
  }
}

}  // namespace

Tokens::Tokens(std::shared_ptr<const std::byte> data, TokenType type, std::int64_t size, std::string path)
    : data_(std::move(data)), type_(type), size_(size), path_(std::move(path)) {}

Tokens::Tokens(std::vector<std::int64_t> tokens) : type_(TokenType::i64), size_(std::ssize(tokens)) {
  const auto owner = std::make_shared<const std::vector<std::int64_t>>(std::move(tokens));
  data_ = {owner, reinterpret_cast<const std::byte*>(owner->data())};
}

Tokens Tokens::from_file(const std::string& path, TokenType type) {
  const FileDescriptor file = FileDescriptor::open_for_reading(path);
  const std::uint64_t bytes = file.size();
  const std::uint64_t each = bytes_of(type);
  if (bytes == 0) raise<DataError>("[tokens] {} is empty", path);
  if (bytes % each != 0)
    raise<DataError>("[tokens] {} ends within a token: its {} bytes are not divisible by {}", path, bytes, each);
  return {file.map_privately(bytes), type, static_cast<std::int64_t>(bytes / each), path};
}

Tokens Tokens::from_npy(const std::string& path) {
  const auto array = std::make_shared<const Array>(read_npy(path).contiguous());
  if (array->rank() != 1)
    raise<DataError>("[tokens] {} holds an array {}: one axis is expected", path, to_string(array->shape()));
  return {{array, array->raw_data()}, type_of(path, array->dtype()), array->size(), path};
}

Tokens Tokens::slice(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || begin > end || end > size_)
    raise<ShapeError>("[tokens] {} to {} of {} tokens asked for", begin, end, size_);
  Tokens part = *this;
  part.begin_ += begin;
  part.size_ = end - begin;
  return part;
}

void Tokens::read(std::int64_t first, std::span<std::int64_t> to, std::int64_t vocabulary) const {
  if (first < 0 || first > size_ || std::ssize(to) > size_ - first)
    raise<ShapeError>("[tokens] {} tokens from {} on asked for, of {}", to.size(), first, size_);
  visit_type(type_, [&]<class T>(std::type_identity<T>) {
    const std::byte* from = data_.get() + static_cast<std::size_t>(begin_ + first) * sizeof(T);
    for (std::size_t i = 0; i < to.size(); ++i, from += sizeof(T)) {
      T token{};
      std::memcpy(&token, from, sizeof(T));
      to[i] = static_cast<std::int64_t>(token);
      if (to[i] < 0 || to[i] >= vocabulary)
        raise<DataError>("[tokens] {}: token {} is {}, not in 0 to {}", path_.empty() ? "in memory" : path_,
                         begin_ + first + static_cast<std::int64_t>(i), to[i], vocabulary - 1);
    }
  });
}

TokenWindows::TokenWindows(Tokens tokens, WindowOptions options) : tokens_(std::move(tokens)), options_(options) {
  if (options_.length < 1) raise("[TokenWindows] windows of {} tokens", options_.length);
  if (options_.stride == 0) options_.stride = options_.length;
  if (options_.stride < 1) raise("[TokenWindows] a stride of {} tokens", options_.stride);
  if (tokens_.size() <= options_.length)
    raise("[TokenWindows] {} tokens are too few for one window of {} and its last target", tokens_.size(),
          options_.length);
  windows_ = (tokens_.size() - 1 - options_.length) / options_.stride + 1;
}

std::int64_t TokenWindows::left_over() const noexcept {
  return tokens_.size() - 1 - options_.length - (windows_ - 1) * options_.stride;
}

Batch TokenWindows::batch(std::span<const std::int64_t> windows, Device device) const {
  const auto length = static_cast<std::size_t>(options_.length);
  std::vector<std::int64_t> inputs(windows.size() * length);
  std::vector<std::int64_t> targets(windows.size() * length);
  std::vector<std::int64_t> window(length + 1);
  for (std::size_t i = 0; i < windows.size(); ++i) {
    if (windows[i] < 0 || windows[i] >= windows_)
      raise<ShapeError>("[TokenWindows] window {} of {} asked for", windows[i], windows_);
    tokens_.read(windows[i] * options_.stride, window, options_.vocabulary);
    std::copy_n(window.begin(), length, inputs.begin() + static_cast<std::ptrdiff_t>(i * length));
    std::copy_n(window.begin() + 1, length, targets.begin() + static_cast<std::ptrdiff_t>(i * length));
  }
  const Shape shape{std::ssize(windows), options_.length};
  return {.inputs = Tensor(Array::from(inputs, shape, device)),
          .targets = Tensor(Array::from(targets, shape, device)),
          .size = std::ssize(windows)};
}

std::string TokenWindows::description() const {
  return fmt::format("windows of {}, one every {} of {} tokens", options_.length, options_.stride, tokens_.size());
}

}  // namespace tutti
