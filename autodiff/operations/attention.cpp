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
#include <tutti/backend/registry.h>

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

struct Range {
  std::int64_t begin;
  std::int64_t end;
};

Tensor rows_of(const Tensor& x, Range rows) { return slice(x, -2, rows.begin, rows.end); }
/// Where scores come from: all that does not depend on the operands' values.
struct Attention {
  Tensor mask;
  bool causal;
  double scale;
  std::int64_t block;
  Device device;
  double dropout;
  Generator random;

  // Of some queries with some keys, in the type that is computed in.
  Tensor scores(const Tensor& query, const Tensor& key, Range queries, Range keys) const {
    Tensor result = matmul(widened(query) * scale, transpose(widened(key)));
    if (mask.defined()) {
      const Tensor part = part_of_mask(queries, keys);
      if (mask.dtype() == DType::boolean)
        result = where(part, result, -kInfinity);
      else
        result = result + cast(part, result.dtype());
    }
    if (causal && keys.end - 1 > queries.begin) result = where(earlier(queries, keys), result, -kInfinity);
    return result;
  }
  bool sees_none(Range queries, Range keys) const { return causal && keys.begin >= queries.end; }

  // What dropout multiplies weights by: a function of which blocks they are in, and of their shape. Undefined: one.
  Tensor factors_of(const Tensor& weights, Range queries, Range keys) const {
    return dropout == 0 ? Tensor() : factors(weights, queries, keys);
  }
  Tensor dropped(const Tensor& weights, Range queries, Range keys) const {
    const Tensor factor = factors_of(weights, queries, keys);
    return factor.defined() ? weights * factor : weights;
  }

 private:
  Tensor part_of_mask(Range queries, Range keys) const {
    const Tensor rows = mask.length(-2) > 1 ? rows_of(mask, queries) : mask;
    return mask.length(-1) > 1 ? slice(rows, -1, keys.begin, keys.end) : rows;
  }
  Tensor factors(const Tensor& weights, Range queries, Range keys) const {
    std::vector<Tensor> rows;
    for (std::int64_t i = queries.begin; i < queries.end; i += block) {
      std::vector<Tensor> parts;
      for (std::int64_t j = keys.begin; j < keys.end; j += block) {
        Shape shape = weights.shape();
        shape[shape.size() - 2] = std::min(block, queries.end - i);
        shape[shape.size() - 1] = std::min(block, keys.end - j);
        Generator of_block = random.split(static_cast<std::uint64_t>(i)).split(static_cast<std::uint64_t>(j));
        parts.emplace_back(of_block.bernoulli(shape, 1 - dropout, device));
      }
      rows.push_back(concatenate(parts, -1));
    }
    const Tensor factor(Array::full({1}, dropout < 1 ? 1 / (1 - dropout) : 0.0, weights.dtype(), device));
    return where(concatenate(rows, -2), factor, 0.0);
  }
  Tensor earlier(Range queries, Range keys) const {
    const auto positions = [&](Range range) {
      return Tensor(Array::arange(range.end - range.begin, DType::i64, device, range.begin));
    };
    return expand_dims(positions(queries), 1) >= positions(keys);
  }
};

std::vector<Range> blocks_of(std::int64_t length, std::int64_t block) {
  std::vector<Range> blocks;
  for (std::int64_t begin = 0; begin < length; begin += block)
    blocks.push_back({begin, std::min(begin + block, length)});
  return blocks;
}

// Elements where nothing is visible have exp(-inf - 0) = 0.
Tensor finite_or_zero(const Tensor& x) { return where(x == -kInfinity, 0.0, x); }

/// softmax(scores) value, of some queries and as many keys as were added. Softmax, all scores seen, is
/// exp(scores - log_sum).
class RunningSum {
 public:
  /// `dropped` makes of weights what they are multiplied by values with.
  template <class Dropped> void add(const Tensor& scores, const Tensor& value, Dropped dropped) {
    const Tensor largest = largest_.defined() ? maximum(largest_, max(scores, {-1}, true)) : max(scores, {-1}, true);
    const Tensor shift = finite_or_zero(largest);
    const Tensor weights = exp(scores - shift);
    const Tensor total = sum(weights, {-1}, true);
    const Tensor product = matmul(dropped(weights), value);
    if (largest_.defined()) {
      const Tensor shrunk = exp(largest_ - shift);
      total_ = total_ * shrunk + total;
      product_ = product_ * shrunk + product;
    } else {
      total_ = total;
      product_ = product;
    }
    largest_ = largest;
  }
  Tensor output() const { return product_ / where(total_ == 0.0, 1.0, total_); }
  Tensor log_sum() const { return finite_or_zero(largest_) + log(where(total_ == 0.0, 1.0, total_)); }

 private:
  Tensor largest_;
  Tensor total_;
  Tensor product_;
};

/// Keeps a host that runs ahead of its stream from holding the memory of all blocks: it waits for the block before the
/// last. CUDA's memory is ordered by its stream, and returns at once.
class Pace {
 public:
  explicit Pace(Device device) : device_(device) {}
  void block_is_queued() {
    if (device_.kind == DeviceKind::cuda) return;
    if (before_.recorded()) before_.synchronize();
    before_ = compute_stream(device_).record();
  }

 private:
  Device device_;
  Event before_;
};

struct Blocked {
  Tensor output;
  Tensor log_sum;  // [..., queries, 1], of each query's scores
};

Tensor joined_rows(const std::vector<Tensor>& parts) {
  return parts.size() == 1 ? parts.front() : concatenate(parts, -2);
}

Blocked by_blocks(const Attention& attention, const Tensor& query, const Tensor& key, const Tensor& value) {
  const NoGrad off;
  std::vector<Tensor> outputs;
  std::vector<Tensor> log_sums;
  Pace pace(attention.device);
  for (const Range queries : blocks_of(query.length(-2), attention.block)) {
    const Tensor q = rows_of(query, queries);
    RunningSum running;
    for (const Range keys : blocks_of(key.length(-2), attention.block)) {
      if (attention.sees_none(queries, keys)) break;
      running.add(attention.scores(q, rows_of(key, keys), queries, keys), widened(rows_of(value, keys)),
                  [&](const Tensor& weights) { return attention.dropped(weights, queries, keys); });
      pace.block_is_queued();
    }
    outputs.push_back(cast(running.output(), query.dtype()));
    log_sums.push_back(running.log_sum());
  }
  return {joined_rows(outputs), joined_rows(log_sums)};
}

// All scores at once.
Tensor weights_of(const Attention& attention, const Tensor& query, const Tensor& key) {
  const Tensor scores = attention.scores(query, key, {0, query.length(-2)}, {0, key.length(-2)});
  const Tensor weights = exp(scores - finite_or_zero(max(scores.detach(), {-1}, true)));
  const Tensor total = sum(weights, {-1}, true);
  return weights / where(total == 0.0, 1.0, total);
}

struct Gradients {
  Tensor query;
  Tensor key;
  Tensor value;
};

// Some queries with some keys.
struct Part {
  Tensor query;
  Tensor key;
  Tensor value;
  Tensor dy;
  Range queries;
  Range keys;
};

// P = softmax(S), O = D(P) V with D for dropout, S = scale Q K^T: dV = D(P)^T dO, dS = P (dP - sum(dP P)) with dP =
// D(dO V^T), and sum(dP P) = sum(dO O); dQ = scale dS K, dK = scale dS^T Q.
Gradients gradients_of(const Attention& attention, const Tensor& weights, const Part& part, const Tensor& dy_y) {
  const Tensor factors = attention.factors_of(weights, part.queries, part.keys);
  const auto dropped = [&](const Tensor& x) { return factors.defined() ? x * factors : x; };
  const Tensor ds = weights * (dropped(matmul(part.dy, transpose(widened(part.value)))) - dy_y) * attention.scale;
  return {matmul(ds, widened(part.key)), matmul(transpose(ds), widened(part.query)),
          matmul(transpose(dropped(weights)), part.dy)};
}

Gradients gradients_at_once(const Attention& attention, const Tensor& query, const Tensor& key, const Tensor& value,
                            const Tensor& dy) {
  const Part part{query, key, value, dy, {0, query.length(-2)}, {0, key.length(-2)}};
  const Tensor weights = weights_of(attention, query, key);
  const Tensor products = matmul(attention.dropped(weights, part.queries, part.keys), widened(value));
  return gradients_of(attention, weights, part, sum(dy * products, {-1}, true));
}

void add_to(Tensor& total, const Tensor& part, const Shape& shape) {
  const Tensor summed = sum_to(part, shape);
  total = total.defined() ? total + summed : summed;
}

Gradients gradients_by_blocks(const Attention& attention, const Tensor& query, const Tensor& key, const Tensor& value,
                              const Tensor& output, const Tensor& log_sum, const Tensor& dy) {
  const std::vector<Range> key_blocks = blocks_of(key.length(-2), attention.block);
  std::vector<Tensor> dq;
  std::vector<Tensor> dk(key_blocks.size());
  std::vector<Tensor> dv(key_blocks.size());
  Pace pace(attention.device);
  for (const Range queries : blocks_of(query.length(-2), attention.block)) {
    const Tensor q = rows_of(query, queries);
    const Tensor dy_rows = rows_of(dy, queries);
    const Tensor dy_y = sum(dy_rows * widened(rows_of(output, queries)), {-1}, true);
    dq.emplace_back();
    for (std::size_t j = 0; j < key_blocks.size(); ++j) {
      const Range keys = key_blocks[j];
      const Tensor k = rows_of(key, keys);
      const Tensor v = rows_of(value, keys);
      if (attention.sees_none(queries, keys)) {
        if (dk[j].defined()) continue;
        dk[j] = Tensor(Array::zeros(k.shape(), dy.dtype(), dy.device()));
        dv[j] = Tensor(Array::zeros(v.shape(), dy.dtype(), dy.device()));
        continue;
      }
      const Tensor weights = exp(attention.scores(q, k, queries, keys) - rows_of(log_sum, queries));
      const Gradients part = gradients_of(attention, weights, {q, k, v, dy_rows, queries, keys}, dy_y);
      add_to(dq.back(), part.query, q.shape());
      add_to(dk[j], part.key, k.shape());
      add_to(dv[j], part.value, v.shape());
      pace.block_is_queued();
    }
  }
  return {joined_rows(dq), joined_rows(dk), joined_rows(dv)};
}

// Without a query or a key: zeros, or none of them.
Tensor nothing_seen(const Attention& attention, const Tensor& query, const Tensor& key, const Tensor& value) {
  const Tensor scores = attention.scores(query, key, {0, query.length(-2)}, {0, key.length(-2)});
  return cast(matmul(scores, widened(value)), query.dtype());
}

Tensor attend(const Attention& attention, const Tensor& query, const Tensor& key, const Tensor& value) {
  if (query.length(-2) == 0 || key.length(-2) == 0) return nothing_seen(attention, query, key, value);
  if (attention.mask.defined() && attention.mask.requires_grad() && grad_enabled()) {
    const Tensor weights = weights_of(attention, query, key);
    const Tensor kept = attention.dropped(weights, {0, query.length(-2)}, {0, key.length(-2)});
    return cast(matmul(kept, widened(value)), query.dtype());
  }
  Blocked result = by_blocks(attention, query, key, value);
  const SavedTensor output{result.output.array(), SavedTensor::kOutput};
  const Tensor inputs[] = {query, key, value};
  return record(kName, result.output.array(), inputs, [&] {
    Attention unmasked = attention;
    unmasked.mask = Tensor();
    const SavedTensor mask = attention.mask.defined() ? save_constant(attention.mask) : SavedTensor{};
    return [unmasked, mask, output, log_sum = result.log_sum, saved_q = save(query, 0), saved_k = save(key, 1),
            saved_v = save(value, 2)](const auto& restore, const Tensor& dy, InputGradients& gradients) {
      const Tensor q = restore(saved_q);
      const Tensor k = restore(saved_k);
      const Tensor v = restore(saved_v);
      Attention attention = unmasked;
      if (mask.value.defined()) attention.mask = restore(mask);
      const Gradients all = grad_enabled()
                                ? gradients_at_once(attention, q, k, v, widened(dy))
                                : gradients_by_blocks(attention, q, k, v, restore(output), log_sum, widened(dy));
      gradients.set(0, cast(sum_to(all.query, q.shape()), q.dtype()));
      gradients.set(1, cast(sum_to(all.key, k.shape()), k.dtype()));
      gradients.set(2, cast(sum_to(all.value, v.shape()), v.dtype()));
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
  const std::int64_t all = std::max<std::int64_t>({1, q.length(-2), k.length(-2)});
  const std::int64_t block = ComposedCalls::active() ? all : call.block > 0 ? call.block : fitting_block(q);
  Attention attention{with_two_axes(call.mask),
                      call.causal,
                      call.scale.value_or(1.0 / std::sqrt(features)),
                      block,
                      q.device(),
                      call.dropout,
                      call.dropout > 0 ? call.random->fork() : Generator(0)};
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
  if (attention.mask.defined()) attention.mask = grouped(attention.mask, sharing);
  const Tensor y = attend(attention, grouped(q, sharing), expand_dims(k, -3), expand_dims(v, -3));
  Shape shape = y.shape();
  shape.erase(shape.size() - 3);
  shape[shape.size() - 3] = heads;
  return reshape(y, shape);
}

}  // namespace tutti
