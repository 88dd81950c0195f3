// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/gradient_sums.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/wire_format.h>

#include <algorithm>
#include <cmath>

namespace tutti {

namespace {

constexpr std::int64_t kBlock = 512;  // elements whose running sums stay in cache

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5;
}

template <class T> void divide(T* sums, std::int64_t count, T denominator) {
  if (is_power_of_two(static_cast<double>(denominator))) {
    const T reciprocal = T(1) / denominator;
    for (std::int64_t i = 0; i < count; ++i) sums[i] *= reciprocal;
  } else {
    for (std::int64_t i = 0; i < count; ++i) sums[i] /= denominator;
  }
}

template <class T>
void sum_native(std::span<T* const> inputs, std::span<T* const> outputs, std::int64_t count, T denominator) {
  T sums[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t length = std::min(kBlock, count - begin);
    std::fill_n(sums, length, T(0));
    if (!inputs.empty()) std::copy_n(inputs.front() + begin, length, sums);
    for (T* input : inputs.subspan(std::min<std::size_t>(1, inputs.size())))
      for (std::int64_t i = 0; i < length; ++i) sums[i] += input[begin + i];
    divide(sums, length, denominator);
    for (T* output : outputs) std::copy_n(sums, length, output + begin);
  }
}

// The common case, two devices that both contribute: one pass without the block of sums.
template <class T> void sum_pair(T* __restrict a, T* __restrict b, std::int64_t count, T denominator) {
  if (is_power_of_two(static_cast<double>(denominator))) {
    const T reciprocal = T(1) / denominator;
    for (std::int64_t i = 0; i < count; ++i) a[i] = b[i] = (a[i] + b[i]) * reciprocal;
  } else {
    for (std::int64_t i = 0; i < count; ++i) a[i] = b[i] = (a[i] + b[i]) / denominator;
  }
}

// Each contribution and the result make one journey in 16 bits; sums are f32.
template <class Wire> void sum_travelled(std::span<float* const> inputs, std::span<float* const> outputs,
                                         std::int64_t count, float scale, float denominator) {
  float sums[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t length = std::min(kBlock, count - begin);
    std::fill_n(sums, length, 0.0F);
    for (const float* input : inputs)
      for (std::int64_t i = 0; i < length; ++i) sums[i] += rounded<Wire>(input[begin + i] * scale);
    divide(sums, length, denominator);
    for (std::int64_t i = 0; i < length; ++i) sums[i] = rounded<Wire>(sums[i]);
    for (float* output : outputs) std::copy_n(sums, length, output + begin);
  }
}

template <class T> struct Pointers {
  std::vector<T*> inputs;
  std::vector<T*> outputs;

  Pointers(const AllReduceRequest& request, std::int64_t begin) {
    for (const AllReduceSlice& slice : request.slices) {
      outputs.push_back(slice.gradient.data<T>() + begin);
      if (slice.contributes) inputs.push_back(outputs.back());
    }
  }
};

template <class T> void sum_elements_of(const AllReduceRequest& request, std::int64_t begin, std::int64_t count) {
  const auto denominator = static_cast<T>(request.denominator);
  const auto& slices = request.slices;
  if (slices.size() == 2 && slices[0].contributes && slices[1].contributes)
    return sum_pair(slices[0].gradient.data<T>() + begin, slices[1].gradient.data<T>() + begin, count, denominator);
  const Pointers<T> pointers(request, begin);
  sum_native<T>(pointers.inputs, pointers.outputs, count, denominator);
}

template <class Wire> void sum_over_wire(const AllReduceRequest& request, std::int64_t begin, std::int64_t count) {
  const Pointers<float> pointers(request, begin);
  sum_travelled<Wire>(pointers.inputs, pointers.outputs, count, static_cast<float>(request.wire_scale),
                      static_cast<float>(request.denominator * request.wire_scale));
}

}  // namespace

std::string_view to_string(GradientWire wire) noexcept {
  switch (wire) {
    case GradientWire::bf16: return "bf16";
    case GradientWire::f16: return "f16";
    case GradientWire::native: break;
  }
  return "native";
}

void check_slices(const AllReduceRequest& request) {
  if (request.slices.empty()) raise<SyncError>("[all_reduce] no slices");
  const Array& first = request.slices.front().gradient;
  if (!is_floating(first.dtype()))
    raise<DTypeError>("[all_reduce] {} is not a floating type", to_string(first.dtype()));
  if (request.wire != GradientWire::native && first.dtype() != DType::f32)
    raise<DTypeError>("[all_reduce] {} cannot travel as {}: only f32 can", to_string(first.dtype()),
                      to_string(request.wire));
  for (const AllReduceSlice& slice : request.slices) {
    const Array& gradient = slice.gradient;
    if (gradient.dtype() != first.dtype() || gradient.size() != first.size() || !gradient.is_contiguous())
      raise<SyncError>("[all_reduce] slices differ or are not contiguous: {} {} on {}, {} {} on {}",
                       to_string(first.shape()), to_string(first.dtype()), to_string(first.device()),
                       to_string(gradient.shape()), to_string(gradient.dtype()), to_string(gradient.device()));
  }
}

void sum_elements(const AllReduceRequest& request, std::int64_t begin, std::int64_t count) {
  if (request.slices.front().gradient.dtype() == DType::f64) return sum_elements_of<double>(request, begin, count);
  switch (request.wire) {
    case GradientWire::native: return sum_elements_of<float>(request, begin, count);
    case GradientWire::bf16: return sum_over_wire<Bf16>(request, begin, count);
    case GradientWire::f16: return sum_over_wire<F16>(request, begin, count);
  }
}

double weighted_wire_scale(std::int64_t contributors, double total_weight) {
  constexpr int kLimit = 100;  // beyond it f32 itself has lost such gradients
  if (contributors == 0 || total_weight == 0.0) return 1.0;
  int exponent = 0;
  std::frexp(static_cast<double>(contributors) / total_weight, &exponent);
  return std::ldexp(1.0, std::clamp(exponent - 1, -kLimit, kLimit));
}

}  // namespace tutti
