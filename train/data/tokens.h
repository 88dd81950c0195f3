// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/data/dataset.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// How a file holds each token.
enum class TokenType : std::uint8_t { u8, u16, u32, i32, i64 };

/// A long sequence of tokens, in memory or in a mapped file: opening one takes no time, pages are read when they are
/// used. Do not shorten such a file while it is used. A cheap handle; may be read from several threads.
class Tokens {
 public:
  explicit Tokens(std::vector<std::int64_t>);
  /// A mapped file of nothing but tokens, little-endian, as `array.tofile` of NumPy writes them. Throws DataError with
  /// the path for one that is missing, empty, or ends within a token.
  static Tokens from_file(const std::string& path, TokenType);
  /// A mapped .npy file of one axis, of type u8, i32 or i64. Throws DataError with the path.
  static Tokens from_npy(const std::string& path);

  std::int64_t size() const noexcept { return size_; }
  /// Tokens begin ... end - 1, for a part to validate with. Throws ShapeError unless 0 <= begin <= end <= size.
  Tokens slice(std::int64_t begin, std::int64_t end) const;
  /// Copies tokens from `first` on. Throws ShapeError out of range, DataError, with the file and the place, for one
  /// that is not in 0 ... vocabulary - 1.
  void read(std::int64_t first, std::span<std::int64_t> to, std::int64_t vocabulary = INT64_MAX) const;

 private:
  Tokens(std::shared_ptr<const std::byte> data, TokenType, std::int64_t size, std::string path);

  std::shared_ptr<const std::byte> data_;
  TokenType type_;
  std::int64_t begin_ = 0;
  std::int64_t size_;
  std::string path_;  // path in errors; empty: none
};

struct WindowOptions {
  std::int64_t length = 0;              ///< tokens of an input
  std::int64_t stride = 0;              ///< distance from one window's begin to the next; 0: the length
  std::int64_t vocabulary = INT64_MAX;  ///< tokens are below it, else DataError where one is met
};

/// Windows for language models: example i is `length` tokens from i x stride on, its targets the tokens behind each.
/// Batches are [n, length] i64 both.
class TokenWindows final : public Dataset {
 public:
  /// Throws Error unless length and stride are positive and there are tokens for one window and one target more.
  TokenWindows(Tokens, WindowOptions);

  std::int64_t size() const override { return windows_; }
  std::int64_t left_over() const noexcept;  ///< tokens at the end that are in no window, neither as input nor target
  Batch batch(std::span<const std::int64_t> windows, Device) const override;
  std::string description() const override;

 private:
  Tokens tokens_;
  WindowOptions options_;
  std::int64_t windows_ = 0;
};

}  // namespace tutti
