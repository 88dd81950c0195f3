// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/dtype.h>

#include <optional>
#include <string_view>

namespace tutti {

/// Names that other programs have for one of our types: the one table behind all formats.
struct ForeignType {
  DType dtype;
  std::string_view safetensors;
  char numpy;           ///< kind of a NumPy type, as in "<f4"; 0 where NumPy has no such type
  std::uint8_t dlpack;  ///< code of a DLPack type, beside the element's bits
};

enum DLPackCode : std::uint8_t {
  kDLPackInt = 0,
  kDLPackUInt = 1,
  kDLPackFloat = 2,
  kDLPackBFloat = 4,
  kDLPackBool = 6
};

inline constexpr ForeignType kForeignTypes[] = {
    {DType::f32, "F32", 'f', kDLPackFloat},     {DType::f64, "F64", 'f', kDLPackFloat},
    {DType::i32, "I32", 'i', kDLPackInt},       {DType::i64, "I64", 'i', kDLPackInt},
    {DType::bf16, "BF16", 0, kDLPackBFloat},    {DType::f16, "F16", 'f', kDLPackFloat},
    {DType::i8, "I8", 'i', kDLPackInt},         {DType::u8, "U8", 'u', kDLPackUInt},
    {DType::boolean, "BOOL", 'b', kDLPackBool},
};

/// The table's row; throws DTypeError for a type that it lacks.
const ForeignType& foreign_type(DType);

// Our type for theirs; none where we have no such type.
std::optional<DType> dtype_of_safetensors(std::string_view name);           ///< "F32", as in a file's header
std::optional<DType> dtype_of_numpy(char kind, std::size_t bytes);          ///< 'f' and 4, of "<f4"
std::optional<DType> dtype_of_dlpack(std::uint8_t code, std::size_t bits);  ///< a DLPackCode and the element's bits

}  // namespace tutti
