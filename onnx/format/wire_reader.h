// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::onnx {

/// Fields of one message in protobuf's encoding, one after the other. Every function throws DataError with the file's
/// path and the offset for bytes that are no such message.
class WireReader {
 public:
  /// `message`: bytes of the message, which outlive the reader; `file`: those of the whole file, for offsets.
  WireReader(const std::string& path, std::span<const std::byte> file, std::span<const std::byte> message)
      : path_(path), file_(file), rest_(message) {}

  bool next();  ///< goes on to the next field, and leaves out what was not read of the last; false at the end
  std::uint32_t field() const noexcept { return field_; }

  std::int64_t integer();                        ///< a varint, as int64, int32 and enumerations are
  float number();                                ///< a float
  std::string_view text();                       ///< a string, or bytes
  std::span<const std::byte> bytes();            ///< the same
  WireReader message();                          ///< a message within this one
  void integers(std::vector<std::int64_t>& to);  ///< one of a repeated field, or several that are packed
  void numbers(std::vector<float>& to);          ///< the same of floats
  void numbers(std::vector<double>& to);         ///< the same of doubles

  [[noreturn]] void fail(const std::string& what) const;  ///< throws DataError with path and offset
  std::uint64_t offset_of(std::span<const std::byte> part) const noexcept {
    return static_cast<std::uint64_t>(part.data() - file_.data());
  }
  const std::string& path() const noexcept { return path_; }

 private:
  enum class Type : std::uint8_t { varint = 0, eight_bytes = 1, length = 2, four_bytes = 5 };

  std::uint64_t varint();
  std::span<const std::byte> take(std::uint64_t count);
  void expect(Type);
  template <class T> void fixed(Type type, std::vector<T>& to);
  void leave_out();

  const std::string& path_;
  std::span<const std::byte> file_;
  std::span<const std::byte> rest_;
  std::uint32_t field_ = 0;
  Type type_ = Type::varint;
  bool unread_ = false;
};

}  // namespace tutti::onnx
