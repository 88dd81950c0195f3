// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/lines/frame.h>

#include <cmath>
#include <cstring>

namespace tutti {

namespace {

/// An announcement as it travels: nothing in it has values that are none.
struct ToldAnnouncement {
  std::uint64_t elements = 0;
  std::uint64_t parts = 0;
  double denominator = 1.0;
  double wire_scale = 1.0;
  std::uint8_t kind = 0;
  std::uint8_t dtype = 0;
  std::uint8_t wire = 0;
  std::uint8_t slices = 0;
  std::uint32_t contributing = 0;  // a bit for each slice
  std::uint32_t number[kMostSharedSlices] = {};
  std::uint64_t rows[kMostSharedSlices] = {};
  char name[sizeof(Announcement::name)] = {};
};
static_assert(std::is_trivially_copyable_v<ToldAnnouncement> && sizeof(ToldAnnouncement) <= kMostTold);

}  // namespace

std::vector<std::byte> bytes_of(const Announcement& announcement) {
  ToldAnnouncement told;
  told.elements = announcement.elements;
  told.parts = announcement.parts;
  told.denominator = announcement.denominator;
  told.wire_scale = announcement.wire_scale;
  told.kind = static_cast<std::uint8_t>(announcement.kind);
  told.dtype = static_cast<std::uint8_t>(announcement.dtype);
  told.wire = static_cast<std::uint8_t>(announcement.wire);
  told.slices = static_cast<std::uint8_t>(announcement.slices);
  for (std::uint32_t i = 0; i < announcement.slices; ++i) {
    told.number[i] = announcement.slice[i].number;
    told.rows[i] = announcement.slice[i].rows;
    if (announcement.slice[i].contributes) told.contributing |= 1U << i;
  }
  std::memcpy(told.name, announcement.name, sizeof told.name);
  std::vector<std::byte> bytes(sizeof told);
  std::memcpy(bytes.data(), &told, sizeof told);
  return bytes;
}

std::optional<Announcement> announcement_of(std::span<const std::byte> bytes) {
  ToldAnnouncement told;
  if (bytes.size() != sizeof told) return std::nullopt;
  std::memcpy(&told, bytes.data(), sizeof told);
  if (told.kind > static_cast<std::uint8_t>(Announcement::Kind::rows) ||
      told.dtype > static_cast<std::uint8_t>(DType::u8) || told.wire > static_cast<std::uint8_t>(GradientWire::f16) ||
      told.slices > kMostSharedSlices)
    return std::nullopt;
  Announcement announcement;
  announcement.elements = told.elements;
  announcement.parts = told.parts;
  announcement.denominator = told.denominator;
  announcement.wire_scale = told.wire_scale;
  announcement.kind = static_cast<Announcement::Kind>(told.kind);
  announcement.dtype = static_cast<DType>(told.dtype);
  announcement.wire = static_cast<GradientWire>(told.wire);
  announcement.slices = told.slices;
  for (std::uint32_t i = 0; i < told.slices; ++i)
    announcement.slice[i] = {0, told.number[i], (told.contributing >> i & 1U) != 0, told.rows[i]};
  std::memcpy(announcement.name, told.name, sizeof told.name - 1);
  return announcement;
}

}  // namespace tutti
