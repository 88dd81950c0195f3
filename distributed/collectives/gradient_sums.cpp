// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/collectives/gradient_sums.h>

#include <tutti/backend/formulas/slice_formulas.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <cmath>

namespace tutti {

namespace {

// The common case, two devices that both contribute: one pass without the block of sums.
template <class T, class Formula> void sum_pair(T* __restrict a, T* __restrict b, std::int64_t count, Formula formula) {
  for (std::int64_t i = 0; i < count; ++i)
    a[i] = b[i] = formula.result(formula.add(formula.contribution(a[i]), formula.contribution(b[i])));
}

// The slices' addresses `begin` elements on.
template <class T> std::vector<T*> advanced(const std::vector<std::byte*>& addresses, std::int64_t begin) {
  std::vector<T*> pointers;
  pointers.reserve(addresses.size());
  for (std::byte* address : addresses) pointers.push_back(reinterpret_cast<T*>(address) + begin);
  return pointers;
}

}  // namespace

void check_slices(const AllReduceRequest& request) {
  if (request.slices.empty()) raise<SyncError>("[all_reduce] no slices");
  if (!request.numbers.empty() && request.numbers.size() != request.slices.size())
    raise<SyncError>("[all_reduce] {} numbers of devices for {} slices", request.numbers.size(), request.slices.size());
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

ElementSums::ElementSums(const AllReduceRequest& request)
    : dtype_(request.slices.front().gradient.dtype()),
      wire_(request.wire),
      denominator_(request.denominator),
      wire_scale_(request.wire_scale) {
  set_slices(request.slices.size(), [&](std::size_t i) {
    const AllReduceSlice& slice = request.slices[i];
    return SummedSlice{slice.gradient.raw_data(), request.number_of(i), slice.contributes};
  });
}

ElementSums::ElementSums(std::span<const SummedSlice> slices, DType dtype, GradientWire wire, double denominator,
                         double wire_scale)
    : dtype_(dtype), wire_(wire), denominator_(denominator), wire_scale_(wire_scale) {
  set_slices(slices.size(), [&](std::size_t i) { return slices[i]; });
}

template <class SliceAt> void ElementSums::set_slices(std::size_t count, SliceAt slice_at) {
  const auto is_whole = [&](std::size_t i) { return slice_at(i).contributes && slice_at(i).receives; };
  pair_ = count == 2 && wire_ == GradientWire::native && is_whole(0) && is_whole(1);
  for (std::size_t i = 0; i < count; ++i) {
    const SummedSlice slice = slice_at(i);
    if (pair_) {
      first_two_[i] = slice.data;
      continue;
    }
    if (slice.receives) outputs_.push_back(slice.data);
    if (!slice.contributes) continue;
    inputs_.push_back(slice.data);
    tree_.add(slice.number);
  }
}

void ElementSums::run(std::int64_t begin, std::int64_t count) const {
  switch (dtype_) {
    case DType::f64: return sum<double>(begin, count);
    case DType::bf16: return sum<BFloat16>(begin, count);
    case DType::f16: return sum<Float16>(begin, count);
    default: break;
  }
  switch (wire_) {
    case GradientWire::native: return sum<float>(begin, count);
    case GradientWire::bf16: return sum_over_wire<Bf16>(begin, count);
    case GradientWire::f16: return sum_over_wire<F16>(begin, count);
  }
}

template <class T> void ElementSums::sum(std::int64_t begin, std::int64_t count) const {
  with_cheapest_quotient<ComputedIn<T>>(denominator_, [&]<class Quotient>(const Quotient& quotient) {
    const PlainSum<T, Quotient> formula{quotient};
    if (pair_)
      return sum_pair(reinterpret_cast<T*>(first_two_[0]) + begin, reinterpret_cast<T*>(first_two_[1]) + begin, count,
                      formula);
    const auto inputs = advanced<const T>(inputs_, begin);
    const auto outputs = advanced<T>(outputs_, begin);
    sum_blocks<T>(inputs, tree_.joins(), outputs, count, formula);
  });
}

template <class Wire> void ElementSums::sum_over_wire(std::int64_t begin, std::int64_t count) const {
  const auto inputs = advanced<const float>(inputs_, begin);
  const auto outputs = advanced<float>(outputs_, begin);
  const auto scale = static_cast<float>(wire_scale_);
  with_cheapest_quotient<float>(denominator_ * wire_scale_, [&]<class Quotient>(const Quotient& quotient) {
    sum_blocks<float>(inputs, tree_.joins(), outputs, count, TravelledSum<Wire, Quotient>{scale, quotient});
  });
}

double weighted_wire_scale(std::int64_t contributors, double total_weight) {
  constexpr int kLimit = 100;  // beyond it f32 itself has lost such gradients
  if (contributors == 0 || total_weight == 0.0) return 1.0;
  int exponent = 0;
  std::frexp(static_cast<double>(contributors) / total_weight, &exponent);
  return std::ldexp(1.0, std::clamp(exponent - 1, -kLimit, kLimit));
}

}  // namespace tutti
