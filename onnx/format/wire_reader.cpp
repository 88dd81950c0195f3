// SPDX-License-Identifier: Apache-2.0
// The encoding: https://protobuf.dev/programming-guides/encoding/
#include <tutti/onnx/format/wire_reader.h>

#include <tutti/backend/raise.h>

#include <cstring>

namespace tutti::onnx {

bool WireReader::next() {
  if (unread_) leave_out();
  if (rest_.empty()) return false;
  const std::uint64_t tag = varint();
  const std::uint64_t type = tag & 7U;
  if (tag >> 3U == 0 || tag >> 3U > 0x1fffffffU) fail("a field has no number");
  if (type != 0 && type != 1 && type != 2 && type != 5) fail(fmt::format("a field is of type {}", type));
  field_ = static_cast<std::uint32_t>(tag >> 3U);
  type_ = static_cast<Type>(type);
  unread_ = true;
  return true;
}

std::int64_t WireReader::integer() {
  expect(Type::varint);
  return static_cast<std::int64_t>(varint());
}

float WireReader::number() {
  expect(Type::four_bytes);
  float value = 0.0F;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

std::span<const std::byte> WireReader::bytes() {
  expect(Type::length);
  return take(varint());
}

std::string_view WireReader::text() {
  const std::span<const std::byte> found = bytes();
  return {reinterpret_cast<const char*>(found.data()), found.size()};
}

WireReader WireReader::message() { return {path_, file_, bytes()}; }

void WireReader::integers(std::vector<std::int64_t>& to) {
  if (type_ == Type::varint) return to.push_back(integer());
  WireReader packed = message();
  while (!packed.rest_.empty()) to.push_back(static_cast<std::int64_t>(packed.varint()));
}

template <class T> void WireReader::fixed(Type type, std::vector<T>& to) {
  std::span<const std::byte> found;
  if (type_ == type) {
    expect(type);
    found = take(sizeof(T));
  } else {
    found = bytes();
  }
  if (found.size() % sizeof(T) != 0) fail("numbers are cut off");
  const std::size_t count = to.size();
  to.resize(count + found.size() / sizeof(T));
  if (!found.empty()) std::memcpy(to.data() + count, found.data(), found.size());
}

void WireReader::numbers(std::vector<float>& to) { fixed(Type::four_bytes, to); }
void WireReader::numbers(std::vector<double>& to) { fixed(Type::eight_bytes, to); }

void WireReader::fail(const std::string& what) const {
  raise<DataError>("[onnx] {}: {}, at offset {}: is it a whole model of ONNX?", path_, what,
                   static_cast<std::uint64_t>(rest_.data() - file_.data()));
}

std::uint64_t WireReader::varint() {
  constexpr unsigned kMostBits = 64;
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < kMostBits; shift += 7) {
    const auto byte = static_cast<std::uint64_t>(take(1)[0]);
    value |= (byte & 0x7fU) << shift;
    if (byte < 0x80U) return value;
  }
  fail("a number has more than 64 bits");
}

std::span<const std::byte> WireReader::take(std::uint64_t count) {
  if (count > rest_.size()) fail("the file, or a message in it, is cut off");
  const std::span<const std::byte> taken = rest_.first(count);
  rest_ = rest_.subspan(count);
  return taken;
}

void WireReader::expect(Type type) {
  if (type_ != type) fail(fmt::format("field {} is of another type than ONNX has", field_));
  unread_ = false;
}

void WireReader::leave_out() {
  unread_ = false;
  switch (type_) {
    case Type::varint: varint(); break;
    case Type::eight_bytes: take(8); break;
    case Type::length: take(varint()); break;
    case Type::four_bytes: take(4); break;
  }
}

}  // namespace tutti::onnx
