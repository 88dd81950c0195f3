// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/operations/attention_blocks.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace tutti {
namespace {

constexpr std::string_view kName = "attention";

/// An array that lies in memory as `like` does, whose axes but for the last may be in any order there.
Array laid_out_as(const Array& like, const Shape& shape, DType dtype) {
  Dims order(shape.size(), 0);
  std::iota(order.begin(), order.end(), 0);
  const bool repeats = std::ranges::find(like.strides(), 0) != like.strides().end();
  if (like.shape().size() == shape.size() && !repeats)
    std::sort(order.begin(), order.end() - 1, [&](std::int64_t a, std::int64_t b) {
      const std::int64_t strides[] = {like.strides()[static_cast<std::size_t>(a)],
                                      like.strides()[static_cast<std::size_t>(b)]};
      return strides[0] != strides[1] ? strides[0] > strides[1] : a < b;
    });
  Shape in_memory;
  Dims back(shape.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    in_memory.push_back(shape[static_cast<std::size_t>(order[i])]);
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  return Array::empty(in_memory, dtype, like.device()).permute(back);
}

/// With a last axis of stride 1.
Array by_rows(const Array& x) { return x.length(-1) == 1 || x.strides().back() == 1 ? x : x.contiguous(); }

Shape with_matrix(Shape leading, std::int64_t rows, std::int64_t columns) {
  leading.push_back(rows);
  leading.push_back(columns);
  return leading;
}

Shape leading_of(const Array& x) { return x.rank() < 2 ? Shape() : Shape(std::span(x.shape().begin(), x.rank() - 2)); }

/// True if there is a kernel, and it would be worth its start: rows of more scores than that leave the caches, where
/// blocks do not.
bool has_kernel(const AttentionOperands& operands, const AttentionDropout& dropout) {
  constexpr std::int64_t kMostKeys = 8192;
  return dropout.share == 0 && operands.key.length(-2) <= kMostKeys && operands.query.length(-1) > 0 &&
         operands.value.length(-1) > 0 && backend_for(operands.query.device()).has_fused(FusedKernel::attention);
}

/// The operands checked, in the type that is computed in or, where the kernel takes it, their own; the mask for each
/// query and key.
struct Prepared {
  /// What is computed: of operands that heads share gradients are added up, which has to come before they are rounded.
  enum class Computes { output, gradients };

  AttentionOperands operands;
  Shape leading;
  bool runs_kernel;

  Prepared(const AttentionOperands& given, const AttentionDropout& dropout, Computes computes) {
    checks::require_floating(kName, given.query);
    for (const Array* const other : {&given.key, &given.value}) checks::require_alike(kName, given.query, *other);
    for (const Array* const each : {&given.query, &given.key, &given.value})
      if (each->rank() < 2) raise<ShapeError>("[{}] {} has no rows", kName, checks::describe(*each));
    if (given.query.length(-1) != given.key.length(-1) || given.key.length(-2) != given.value.length(-2))
      raise<ShapeError>(
          "[{}] query {}, key {} and value {} do not fit: [..., queries, d], [..., keys, d], [..., keys, e]", kName,
          to_string(given.query.shape()), to_string(given.key.shape()), to_string(given.value.shape()));
    if (given.query.length(-2) == 0 || given.key.length(-2) == 0)
      raise<ShapeError>("[{}] query {} and key {}: one of each is needed", kName, to_string(given.query.shape()),
                        to_string(given.key.shape()));
    leading = broadcast_shapes(kName, leading_of(given.query), leading_of(given.key));
    leading = broadcast_shapes(kName, leading, leading_of(given.value));
    if (given.mask.defined()) leading = broadcast_shapes(kName, leading, leading_of(given.mask));
    runs_kernel = has_kernel(given, dropout);
    operands = {given.query, given.key, given.value, {}};
    if (!(runs_kernel && reads(given.query.dtype(), computes)))
      operands = {widened(given.query), widened(given.key), widened(given.value), {}};
    runs_kernel = runs_kernel || is_empty();
    if (given.mask.defined()) operands.mask = mask_of(given.mask);
  }

  /// The operands as kernels take them.
  AttentionOperands broadcast() const {
    const auto all = [&](const Array& x) {
      return by_rows(x).broadcast_to(with_matrix(leading, x.length(-2), x.length(-1)));
    };
    const Array& mask = operands.mask;
    return {all(operands.query), all(operands.key), all(operands.value),
            mask.defined() ? mask.broadcast_to(rows(mask.length(-1))) : mask};
  }

  Shape rows(std::int64_t columns) const { return with_matrix(leading, operands.query.length(-2), columns); }
  DType dtype() const { return operands.query.dtype(); }
  /// An array of the operands' type, in the type that they are computed in here.
  Array typed(const Array& x) const { return dtype() == x.dtype() ? x : widened(x); }
  bool is_empty() const { return element_count(rows(1)) == 0; }

 private:
  /// True if the kernel takes operands of this dtype as they are.
  bool reads(DType given, Computes computes) const {
    if (!is_narrow(given) || !backend_for(operands.query.device()).attends(given)) return !is_narrow(given);
    return computes == Computes::output ||
           std::ranges::all_of(std::array{&operands.query, &operands.key, &operands.value},
                               [&](const Array* each) { return leading_of(*each) == leading; });
  }
  Array mask_of(const Array& mask) const {
    checks::require_same_device(kName, operands.query, mask);
    if (mask.dtype() != DType::boolean) checks::require_floating(kName, mask);
    const Array added = mask.dtype() == DType::boolean ? mask : mask.cast(computed_in(dtype()));
    return added.broadcast_to(with_matrix(leading_of(mask), operands.query.length(-2), operands.key.length(-2)));
  }
};

void check(const AttentionScores& scores, const AttentionDropout& dropout) {
  if (scores.block <= 0) raise<ShapeError>("[{}] blocks of {} queries and keys", kName, scores.block);
  if (!(dropout.share >= 0 && dropout.share <= 1))
    raise("[{}] dropout is {}: it must be in [0, 1]", kName, dropout.share);
}

}  // namespace

void Backend::attention(const AttentionScores&, const Array&, const Array&, const Array&, const Array&, const Array&,
                        const Array&) {
  raise<DeviceError>("[attention] this kind of device has no kernel for it");
}

void Backend::attention_gradient(const AttentionScores&, const Array&, const Array&, const Array&, const Array&,
                                 const Array&, const Array&, const Array&, const Array&, const Array&, const Array&) {
  raise<DeviceError>("[attention_gradient] this kind of device has no kernel for it");
}

AttentionRun attention(const AttentionScores& scores, const AttentionOperands& operands,
                       const AttentionDropout& dropout) {
  check(scores, dropout);
  const Prepared prepared(operands, dropout, Prepared::Computes::output);
  AttentionRun run;
  if (prepared.runs_kernel) {
    const auto [query, key, value, mask] = prepared.broadcast();
    run.output = laid_out_as(operands.query, prepared.rows(value.length(-1)), prepared.dtype());
    run.log_sum = Array::empty(prepared.rows(1), computed_in(prepared.dtype()), query.device());
    if (!prepared.is_empty())
      backend_for(query.device()).attention(scores, query, key, value, mask, run.output, run.log_sum);
  } else {
    run = attention_blocks::run(scores, prepared.operands, dropout);
  }
  run.output = run.output.cast(operands.query.dtype());
  return run;
}

AttentionOperands attention_gradient(const AttentionScores& scores, const AttentionOperands& operands,
                                     const AttentionRun& run, const Array& gradient, const AttentionDropout& dropout) {
  check(scores, dropout);
  const Prepared prepared(operands, dropout, Prepared::Computes::gradients);
  checks::require_alike(kName, operands.query, run.output);
  checks::require_shape(kName, "the output", run.output, prepared.rows(operands.value.length(-1)));
  checks::require_alike(kName, run.output, gradient);
  checks::require_shape(kName, "the gradient", gradient, run.output.shape());
  checks::require_same_device(kName, operands.query, run.log_sum);
  checks::require_dtype(kName, run.log_sum, computed_in(operands.query.dtype()));
  const AttentionRun typed{by_rows(prepared.typed(run.output)), run.log_sum.contiguous()};
  const Array dy = by_rows(prepared.typed(gradient));
  AttentionOperands all;
  if (prepared.runs_kernel) {
    const auto [query, key, value, mask] = prepared.broadcast();
    checks::require_shape(kName, "the sums", run.log_sum, prepared.rows(1));
    const auto made = [&](const Array& given, const Array& operand) {
      return laid_out_as(given, operand.shape(), prepared.dtype());
    };
    all = {made(operands.query, query), made(operands.key, key), made(operands.value, value), {}};
    if (!prepared.is_empty())
      backend_for(query.device())
          .attention_gradient(scores, query, key, value, mask, typed.output, typed.log_sum, dy, all.query, all.key,
                              all.value);
  } else {
    all = attention_blocks::gradients(scores, prepared.operands, dropout, typed, dy);
  }
  const auto result = [](const Array& gradients, const Array& operand) {
    return sum_to(gradients, operand.shape()).cast(operand.dtype());
  };
  return {result(all.query, operands.query), result(all.key, operands.key), result(all.value, operands.value), {}};
}

}  // namespace tutti
