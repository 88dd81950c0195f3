// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations/attention.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/composed_calls.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace tutti {

namespace {

using elementwise::Domain;

constexpr std::string_view kName = "scaled_dot_product_attention";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// How weights are made and dropped: all that does not depend on query, key and value.
struct Attention {
  Tensor mask;
  AttentionScores scores;
  AttentionDropout dropout;

  AttentionOperands operands(const Tensor& query, const Tensor& key, const Tensor& value) const {
    return {query.array(), key.array(), value.array(), mask.defined() ? mask.array() : Array()};
  }
};

// --- all scores at once, as operations that have gradients

Tensor earlier(std::int64_t queries, std::int64_t keys, Device device) {
  const auto positions = [&](std::int64_t count) { return Tensor(Array::arange(count, DType::i64, device)); };
  return expand_dims(positions(queries), 1) >= positions(keys);
}

Tensor scores_of(const Attention& attention, const Tensor& query, const Tensor& key) {
  const Tensor& mask = attention.mask;
  Tensor result = matmul(widened(query) * attention.scores.scale, transpose(widened(key)));
  if (mask.defined() && mask.dtype() == DType::boolean)
    result = where(mask, result, -kInfinity);
  else if (mask.defined())
    result = result + cast(mask, result.dtype());
  if (attention.scores.causal && key.length(-2) > 1)
    result = where(earlier(query.length(-2), key.length(-2), query.device()), result, -kInfinity);
  return result;
}

// Elements where nothing is visible have exp(-inf - 0) = 0.
Tensor finite_or_zero(const Tensor& x) { return where(x == -kInfinity, 0.0, x); }

Tensor weights_of(const Attention& attention, const Tensor& query, const Tensor& key) {
  const Tensor scores = scores_of(attention, query, key);
  const Tensor weights = exp(scores - finite_or_zero(max(scores.detach(), {-1}, true)));
  const Tensor total = sum(weights, {-1}, true);
  return weights / where(total == 0.0, 1.0, total);
}

// What dropout multiplies weights by; undefined: nothing.
Tensor factors_of(const Attention& attention, const Tensor& weights) {
  if (attention.dropout.share == 0) return {};
  return Tensor(
      attention_factors(attention.scores, attention.dropout, weights.shape(), weights.dtype(), weights.device()));
}

Tensor multiplied(const Tensor& x, const Tensor& factors) { return factors.defined() ? x * factors : x; }

Tensor composed(const Attention& attention, const Tensor& query, const Tensor& key, const Tensor& value) {
  const Tensor weights = weights_of(attention, query, key);
  const Tensor kept = multiplied(weights, factors_of(attention, weights));
  return cast(matmul(kept, widened(value)), query.dtype());
}

struct Gradients {
  Tensor query;
  Tensor key;
  Tensor value;
};

// The formulas of backend/operations/attention_blocks.cpp.
Gradients composed_gradients(const Attention& attention, const Tensor& query, const Tensor& key, const Tensor& value,
                             const Tensor& given) {
  const Tensor dy = widened(given);
  const Tensor weights = weights_of(attention, query, key);
  const Tensor factors = factors_of(attention, weights);
  const Tensor kept = multiplied(weights, factors);
  const Tensor dy_y = sum(dy * matmul(kept, widened(value)), {-1}, true);
  const Tensor dp = multiplied(matmul(dy, transpose(widened(value))), factors);
  const Tensor ds = weights * (dp - dy_y) * attention.scores.scale;
  const auto result = [](const Tensor& all, const Tensor& operand) {
    return cast(sum_to(all, operand.shape()), operand.dtype());
  };
  return {result(matmul(ds, widened(key)), query), result(matmul(transpose(ds), widened(query)), key),
          result(matmul(transpose(kept), dy), value)};
}

// Without a query or a key: zeros, or none of them.
Tensor nothing_seen(const Attention& attention, const Tensor& query, const Tensor& key, const Tensor& value) {
  return cast(matmul(scores_of(attention, query, key), widened(value)), query.dtype());
}

Tensor attend(const Attention& attention, const Tensor& query, const Tensor& key, const Tensor& value) {
  if (query.length(-2) == 0 || key.length(-2) == 0) return nothing_seen(attention, query, key, value);
  const bool mask_is_trained = attention.mask.defined() && attention.mask.requires_grad() && grad_enabled();
  if (mask_is_trained || ComposedCalls::active()) return composed(attention, query, key, value);
  AttentionRun run = tutti::attention(attention.scores, attention.operands(query, key, value), attention.dropout);
  const SavedTensor output{run.output, SavedTensor::kOutput};
  const Tensor inputs[] = {query, key, value};
  return record(kName, run.output, inputs, [&] {
    Attention unmasked = attention;
    unmasked.mask = Tensor();
    const SavedTensor mask = attention.mask.defined() ? save_constant(attention.mask) : SavedTensor{};
    return [unmasked, mask, output, log_sum = run.log_sum, saved_q = save(query, 0), saved_k = save(key, 1),
            saved_v = save(value, 2)](const auto& restore, const Tensor& dy, InputGradients& gradients) {
      const Tensor q = restore(saved_q);
      const Tensor k = restore(saved_k);
      const Tensor v = restore(saved_v);
      Attention again = unmasked;
      if (mask.value.defined()) again.mask = restore(mask);
      Gradients all;
      if (grad_enabled()) {
        all = composed_gradients(again, q, k, v, dy);
      } else {
        const AttentionOperands found = attention_gradient(
            again.scores, again.operands(q, k, v), {restore(output).array(), log_sum}, dy.array(), again.dropout);
        all = {Tensor(found.query), Tensor(found.key), Tensor(found.value)};
      }
      gradients.set(0, all.query);
      gradients.set(1, all.key);
      gradients.set(2, all.value);
    };
  });
}

void check(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionCall& call) {
  const bool fits = query.rank() >= 2 && key.rank() >= 2 && value.rank() >= 2 && query.length(-1) == key.length(-1) &&
                    key.length(-2) == value.length(-2);
  if (!fits)
    raise<ShapeError>(
        "[{}] query {}, key {} and value {} do not fit: [..., queries, d], [..., keys, d], [..., keys, e]", kName,
        to_string(query.shape()), to_string(key.shape()), to_string(value.shape()));
  if (!(call.dropout >= 0 && call.dropout <= 1)) raise("[{}] dropout is {}: it must be in [0, 1]", kName, call.dropout);
  if (call.dropout > 0 && call.random == nullptr) raise("[{}] dropout needs a generator", kName);
  if (call.block < 0) raise<ShapeError>("[{}] the block {} is negative", kName, call.block);
  const Tensor& mask = call.mask;
  if (!mask.defined()) return;
  if (mask.dtype() != DType::boolean && !is_floating(mask.dtype()))
    raise<DTypeError>("[{}] a mask is bool or floating, got {}", kName, to_string(mask.dtype()));
  const auto matches = [&](std::size_t from_back, std::int64_t length) {
    if (mask.rank() < from_back) return true;
    const std::int64_t given = mask.shape()[mask.rank() - from_back];
    return given == length || given == 1;
  };
  if (!matches(2, query.length(-2)) || !matches(1, key.length(-2)))
    raise<ShapeError>("[{}] the mask {} should be [..., {}, {}]", kName, to_string(mask.shape()), query.length(-2),
                      key.length(-2));
}

// A block's scores stay near the caches of a CPU; elsewhere a block is to be worth its launches.
std::int64_t fitting_block(const Tensor& query) {
  const std::int64_t together =
      std::max<std::int64_t>(1, query.size() / std::max<std::int64_t>(1, query.length(-1) * query.length(-2)));
  const std::int64_t most = query.device().kind == DeviceKind::cpu ? std::int64_t{1} << 20 : std::int64_t{1} << 24;
  std::int64_t block = 1024;
  while (block > 128 && together * block * block > most) block /= 2;
  return block;
}

// A mask of fewer than two axes, with those in front that broadcasting gives it.
Tensor with_two_axes(const Tensor& mask) {
  if (!mask.defined() || mask.rank() >= 2) return mask;
  return reshape(mask, {1, mask.size()});
}

// [..., heads, rows, d] -> [..., heads / sharing, sharing, rows, d]; one head stays one.
Tensor grouped(const Tensor& x, std::int64_t sharing) {
  if (x.rank() < 3) return x;
  const std::int64_t heads = x.length(-3);
  Shape shape = x.shape();
  shape[shape.size() - 3] = heads == 1 ? 1 : heads / sharing;
  shape.insert(shape.size() - 2, heads == 1 ? 1 : sharing);
  return reshape(x, shape);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionCall& call) {
  const OperationScope scope(kName, query, key, value, call.mask);
  check(query, key, value, call);
  auto [q, k] = promote_pair(Domain::floating, kName, query, key);
  Tensor v;
  std::tie(q, v) = promote_pair(Domain::floating, kName, q, value);
  k = cast(k, q.dtype());
  const Autocast own_types(DType::f32);
  const double features = static_cast<double>(q.length(-1));
  const Attention attention{
      with_two_axes(call.mask),
      {call.scale.value_or(1.0 / std::sqrt(features)), call.causal, call.block > 0 ? call.block : fitting_block(q)},
      {call.dropout, call.dropout > 0 ? call.random->fork() : Generator(0)}};
  if (q.rank() < 3 || k.rank() < 3 || k.length(-3) <= 1 || k.length(-3) == q.length(-3) || q.length(-3) == 1)
    return attend(attention, q, k, v);
  const std::int64_t heads = q.length(-3);
  if (heads % k.length(-3) != 0 || v.rank() < 3 || v.length(-3) != k.length(-3))
    raise<ShapeError>("[{}] {} query heads cannot share the heads of key {} and value {}", kName, heads,
                      to_string(k.shape()), to_string(v.shape()));
  const std::int64_t sharing = heads / k.length(-3);
  if (call.mask.defined() && call.mask.rank() >= 3 && call.mask.length(-3) != 1 && call.mask.length(-3) != heads)
    raise<ShapeError>("[{}] the mask {} is of {} heads, and the query {} of {}", kName, to_string(call.mask.shape()),
                      call.mask.length(-3), to_string(q.shape()), heads);
  Attention of_groups = attention;
  if (attention.mask.defined()) of_groups.mask = grouped(attention.mask, sharing);
  const Tensor y = attend(of_groups, grouped(q, sharing), expand_dims(k, -3), expand_dims(v, -3));
  Shape shape = y.shape();
  shape.erase(shape.size() - 3);
  shape[shape.size() - 3] = heads;
  return reshape(y, shape);
}

}  // namespace tutti
