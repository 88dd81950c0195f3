// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/operations/attention_blocks.h>

#include <tutti/backend/registry.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace tutti {
namespace {

using elementwise::Add;
using elementwise::Divide;
using elementwise::Equal;
using elementwise::Exp;
using elementwise::GreaterEqual;
using elementwise::Log;
using elementwise::Maximum;
using elementwise::Multiply;
using elementwise::Subtract;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Range {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t length() const { return end - begin; }
};

std::vector<Range> blocks_of(std::int64_t length, std::int64_t block) {
  std::vector<Range> blocks;
  for (std::int64_t begin = 0; begin < length; begin += block)
    blocks.push_back({begin, std::min(begin + block, length)});
  return blocks;
}

Array rows_of(const Array& x, Range rows) { return x.slice(-2, rows.begin, rows.end); }

Array number(double value, const Array& like) {
  return backend_for(like.device()).literal(value, like.dtype(), like.device());
}
/// `number` where x is one number, else x.
Array replaced(const Array& x, double from, double to) {
  return where(apply(Equal{}, x, number(from, x)), number(to, x), x);
}
/// Elements where nothing is visible have exp(-inf - 0) = 0.
Array finite_or_zero(const Array& x) { return replaced(x, -kInfinity, 0); }

Array sum_of_rows(const Array& x) {
  const std::int64_t last[] = {-1};
  return sum(x, last, true);
}
Array largest_of_rows(const Array& x) {
  const std::int64_t last[] = {-1};
  return reduce(Reduction::max, x, last, true);
}

/// Scores of some queries with some keys, and what is made of them, by other kernels.
class Blocks {
 public:
  Blocks(const AttentionScores& scores, const Array& mask, const AttentionDropout& dropout)
      : scores_(scores), mask_(mask), dropout_(dropout) {}

  Array scores(const Array& query, const Array& key, Range queries, Range keys) const {
    Array result = matmul(apply(Multiply{}, query, number(scores_.scale, query)), key.transpose());
    if (mask_.defined()) {
      const Array part = rows_of(mask_, queries).slice(-1, keys.begin, keys.end);
      result = mask_.dtype() == DType::boolean ? where(part, result, number(-kInfinity, result))
                                               : apply(Add{}, result, part);
    }
    if (scores_.causal && keys.end - 1 > queries.begin)
      result = where(earlier(queries, keys, query.device()), result, number(-kInfinity, result));
    return result;
  }
  bool sees_none(Range queries, Range keys) const { return scores_.causal && keys.begin >= queries.end; }

  /// What dropout multiplies the weights by; undefined: nothing.
  Array factors(const Array& weights, Range queries, Range keys) const {
    if (dropout_.share == 0) return {};
    return attention_factors(scores_, dropout_, weights.shape(), weights.dtype(), weights.device(), queries.begin,
                             keys.begin);
  }

 private:
  static Array earlier(Range queries, Range keys, Device device) {
    const auto positions = [&](Range range) { return Array::arange(range.length(), DType::i64, device, range.begin); };
    return apply(GreaterEqual{}, positions(queries).reshape({queries.length(), 1}), positions(keys));
  }

  const AttentionScores& scores_;
  const Array& mask_;
  const AttentionDropout& dropout_;
};

Array multiplied(const Array& x, const Array& factors) { return factors.defined() ? apply(Multiply{}, x, factors) : x; }

/// softmax(scores) value, of some queries and as many keys as were added. Softmax, all scores seen, is
/// exp(scores - log_sum).
class RunningSum {
 public:
  /// `factors`: undefined, or what the weights are multiplied by before the values are.
  template <class Factors> void add(const Array& scores, const Array& value, const Factors& factors) {
    const Array found = largest_of_rows(scores);
    const Array largest = largest_.defined() ? apply(Maximum{}, largest_, found) : found;
    const Array shift = finite_or_zero(largest);
    const Array weights = apply(Exp{}, apply(Subtract{}, scores, shift));
    const Array total = sum_of_rows(weights);
    const Array product = matmul(multiplied(weights, factors(weights)), value);
    if (largest_.defined()) {
      const Array shrunk = apply(Exp{}, apply(Subtract{}, largest_, shift));
      total_ = apply(Add{}, apply(Multiply{}, total_, shrunk), total);
      product_ = apply(Add{}, apply(Multiply{}, product_, shrunk), product);
    } else {
      total_ = total;
      product_ = product;
    }
    largest_ = largest;
  }
  Array output() const { return apply(Divide{}, product_, replaced(total_, 0, 1)); }
  Array log_sum() const { return apply(Add{}, finite_or_zero(largest_), apply(Log{}, replaced(total_, 0, 1))); }

 private:
  Array largest_;
  Array total_;
  Array product_;
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

Array joined_rows(const std::vector<Array>& parts) {
  return parts.size() == 1 ? parts.front() : concatenate(parts, -2);
}

void add_to(Array& total, const Array& part, const Array& operand) {
  const Array summed = sum_to(part, operand.shape());
  total = total.defined() ? apply(Add{}, total, summed) : summed;
}

}  // namespace

AttentionRun attention_blocks::run(const AttentionScores& scores, const AttentionOperands& operands,
                                   const AttentionDropout& dropout) {
  const Blocks blocks(scores, operands.mask, dropout);
  std::vector<Array> outputs;
  std::vector<Array> log_sums;
  Pace pace(operands.query.device());
  for (const Range queries : blocks_of(operands.query.length(-2), scores.block)) {
    const Array query = rows_of(operands.query, queries);
    RunningSum running;
    for (const Range keys : blocks_of(operands.key.length(-2), scores.block)) {
      if (blocks.sees_none(queries, keys)) break;
      running.add(blocks.scores(query, rows_of(operands.key, keys), queries, keys), rows_of(operands.value, keys),
                  [&](const Array& weights) { return blocks.factors(weights, queries, keys); });
      pace.block_is_queued();
    }
    outputs.push_back(running.output());
    log_sums.push_back(running.log_sum());
  }
  return {joined_rows(outputs), joined_rows(log_sums)};
}

/// P = softmax(S), O = D(P) V with D for dropout, S = scale Q K^T: dV = D(P)^T dO, dS = P (dP - sum(dP P)) with dP =
/// D(dO V^T), and sum(dP P) = sum(dO O); dQ = scale dS K, dK = scale dS^T Q.
AttentionOperands attention_blocks::gradients(const AttentionScores& scores, const AttentionOperands& operands,
                                              const AttentionDropout& dropout, const AttentionRun& run,
                                              const Array& gradient) {
  const Blocks blocks(scores, operands.mask, dropout);
  const std::vector<Range> key_blocks = blocks_of(operands.key.length(-2), scores.block);
  std::vector<Array> dq;
  std::vector<Array> dk(key_blocks.size());
  std::vector<Array> dv(key_blocks.size());
  Pace pace(gradient.device());
  for (const Range queries : blocks_of(operands.query.length(-2), scores.block)) {
    const Array query = rows_of(operands.query, queries);
    const Array dy = rows_of(gradient, queries);
    const Array dy_y = sum_of_rows(apply(Multiply{}, dy, rows_of(run.output, queries)));
    dq.emplace_back();
    for (std::size_t j = 0; j < key_blocks.size(); ++j) {
      const Range keys = key_blocks[j];
      if (blocks.sees_none(queries, keys)) break;
      const Array key = rows_of(operands.key, keys);
      const Array value = rows_of(operands.value, keys);
      const Array weights =
          apply(Exp{}, apply(Subtract{}, blocks.scores(query, key, queries, keys), rows_of(run.log_sum, queries)));
      const Array factors = blocks.factors(weights, queries, keys);
      const Array dp = multiplied(matmul(dy, value.transpose()), factors);
      const Array ds =
          apply(Multiply{}, apply(Multiply{}, weights, apply(Subtract{}, dp, dy_y)), number(scores.scale, weights));
      add_to(dq.back(), matmul(ds, key), query);
      add_to(dk[j], matmul(ds.transpose(), query), key);
      add_to(dv[j], matmul(multiplied(weights, factors).transpose(), dy), value);
      pace.block_is_queued();
    }
  }
  for (std::size_t j = 0; j < key_blocks.size(); ++j)
    for (auto [parts, like] : {std::pair{&dk, &operands.key}, std::pair{&dv, &operands.value}})
      if (!(*parts)[j].defined())
        (*parts)[j] = Array::zeros(rows_of(*like, key_blocks[j]).shape(), gradient.dtype(), gradient.device());
  return {joined_rows(dq), joined_rows(dk), joined_rows(dv), {}};
}

Array attention_factors(const AttentionScores& scores, const AttentionDropout& dropout, const Shape& weights,
                        DType dtype, Device device, std::int64_t first_query, std::int64_t first_key) {
  std::vector<Array> rows;
  const std::int64_t end_query = first_query + weights[weights.size() - 2];
  const std::int64_t end_key = first_key + weights[weights.size() - 1];
  for (std::int64_t i = first_query; i < end_query; i += scores.block) {
    std::vector<Array> parts;
    for (std::int64_t j = first_key; j < end_key; j += scores.block) {
      Shape shape = weights;
      shape[shape.size() - 2] = std::min(scores.block, end_query - i);
      shape[shape.size() - 1] = std::min(scores.block, end_key - j);
      Generator of_block = dropout.random.split(static_cast<std::uint64_t>(i)).split(static_cast<std::uint64_t>(j));
      parts.push_back(of_block.bernoulli(shape, 1 - dropout.share, device));
    }
    rows.push_back(concatenate(parts, -1));
  }
  const Array factor = Array::full({1}, dropout.share < 1 ? 1 / (1 - dropout.share) : 0.0, dtype, device);
  return where(concatenate(rows, -2), factor, number(0, factor));
}

}  // namespace tutti
