// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/memory/foreign_types.h>

#include <tutti/backend/raise.h>

#include <iterator>

namespace tutti {
namespace {

static_assert(std::size(kForeignTypes) == std::size(kAllDTypes), "every type needs its row");

template <class Matches> std::optional<DType> find(Matches matches) {
  for (const ForeignType& type : kForeignTypes)
    if (matches(type)) return type.dtype;
  return std::nullopt;
}

}  // namespace

const ForeignType& foreign_type(DType dtype) {
  for (const ForeignType& type : kForeignTypes)
    if (type.dtype == dtype) return type;
  raise<DTypeError>("[exchange] {} has no name outside", to_string(dtype));
}

std::optional<DType> dtype_of_safetensors(std::string_view name) {
  return find([&](const ForeignType& type) { return type.safetensors == name; });
}

std::optional<DType> dtype_of_numpy(char kind, std::size_t bytes) {
  return find([&](const ForeignType& type) { return type.numpy == kind && kind != 0 && size_of(type.dtype) == bytes; });
}

std::optional<DType> dtype_of_dlpack(std::uint8_t code, std::size_t bits) {
  return find([&](const ForeignType& type) { return type.dlpack == code && size_of(type.dtype) * 8 == bits; });
}

}  // namespace tutti
