// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// Numbers of the zip format (PKWARE's APPNOTE), which the reader and the writer share.
namespace tutti::detail::zip {

inline constexpr std::uint32_t kLocalHeader = 0x04034b50;
inline constexpr std::uint32_t kDirectoryEntry = 0x02014b50;
inline constexpr std::uint32_t kEndOfDirectory = 0x06054b50;
inline constexpr std::uint32_t kEndOfDirectory64 = 0x06064b50;
inline constexpr std::uint32_t kLocator64 = 0x07064b50;

inline constexpr std::uint64_t kLocalHeaderBytes = 30;
inline constexpr std::uint64_t kDirectoryEntryBytes = 46;
inline constexpr std::uint64_t kEndBytes = 22;
inline constexpr std::uint64_t kEnd64Bytes = 56;
inline constexpr std::uint64_t kLocatorBytes = 20;

inline constexpr std::uint32_t kIn64 = 0xffffffff;  ///< the value stands in a 64-bit field elsewhere
inline constexpr std::uint16_t kCountIn64 = 0xffff;
inline constexpr std::uint16_t kExtra64 = 1;            ///< extra field with 64-bit sizes
inline constexpr std::uint16_t kExtraPadding = 0xd935;  ///< extra field that aligns what follows

inline constexpr std::uint16_t kEncrypted = 1;  ///< flags
inline constexpr std::uint16_t kUtf8 = 1U << 11U;
inline constexpr std::uint16_t kStored = 0;  ///< methods
inline constexpr std::uint16_t kDeflated = 8;

}  // namespace tutti::detail::zip
