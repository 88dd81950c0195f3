// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/dtype.h>

#include <ostream>

namespace tutti {

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << to_string(dtype); }

std::string_view to_string(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
    case DType::boolean: return "bool";
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
    case DType::i8: return "i8";
    case DType::u8: return "u8";
  }
  return "unknown";
}

}  // namespace tutti
