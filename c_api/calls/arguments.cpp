// SPDX-License-Identifier: Apache-2.0
#include <tutti/c_api/calls/arguments.h>

#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <span>

namespace tutti::c_api {
namespace {

struct NumberedDType {
  tutti_dtype number;
  DType dtype;
};
// Numbers of the API stay, whatever the library's are.
constexpr NumberedDType kNumbers[] = {
    {TUTTI_F32, DType::f32}, {TUTTI_F64, DType::f64},   {TUTTI_I32, DType::i32},
    {TUTTI_I64, DType::i64}, {TUTTI_BF16, DType::bf16}, {TUTTI_F16, DType::f16},
    {TUTTI_I8, DType::i8},   {TUTTI_U8, DType::u8},     {TUTTI_BOOL, DType::boolean},
};
static_assert(std::size(kNumbers) == std::size(kAllDTypes));

}  // namespace

Shape shape_of(const std::int64_t* shape, std::size_t rank) {
  if (rank > 0) require(shape, "shape");
  constexpr std::size_t kMostAxes = 64;
  if (rank > kMostAxes) refuse(fmt::format("a rank of {}; at most {}", rank, kMostAxes));
  return Shape(std::span(shape, rank));
}

DType dtype_of_number(tutti_dtype dtype) {
  for (const NumberedDType& each : kNumbers)
    if (each.number == dtype) return each.dtype;
  refuse(fmt::format("{} is no tutti_dtype", dtype));
}

tutti_dtype number_of(DType dtype) {
  for (const NumberedDType& each : kNumbers)
    if (each.dtype == dtype) return each.number;
  refuse(fmt::format("the C API has no number for {}", to_string(dtype)));
}

Device device_named(const char* device) {
  const Device named = parse_device(required_text(device, "device"));
  backend_for(named).check(named);
  return named;
}

}  // namespace tutti::c_api
