// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/operations/attention_parts.h>
#include <tutti/backend/cpu/operations/reduce_kernels.h>

#include <algorithm>

namespace tutti {
namespace {

using namespace attention_parts;

/// Attention at one place of the leading axes.
template <class S> class HeadForward {
 public:
  using T = ComputedIn<S>;

  HeadForward(const AttentionScores& scores, const Array& query, const Array& key, const Array& value,
              const Array& mask, const Array& output, const Array& log_sum, std::int64_t place, TileMemory<T>& work)
      : scores_(scores),
        head_(place, work),
        query_(head_.read(query)),
        key_(head_.read(key)),
        value_(head_.read(value)),
        mask_(mask),
        result_(output),
        output_(head_.result(output)),
        log_sum_(log_sum, place),
        place_(place),
        keys_(key.length(-2)),
        packs_(query.length(-2) > kFewRows),
        work_(work) {}

  /// Some queries, with all keys.
  void run(Positions queries) const {
    work_.turned_keys.set(query_.columns, keys_, key_.turned_from(0), packs_);
    work_.values.set(keys_, value_.columns, value_.rows_from(0), packs_);
    T* const scaled = TileMemory<T>::room(work_.queries, kTileRows * query_.columns);
    T* const weights = TileMemory<T>::room(work_.weights, kTileRows * keys_);
    for (std::int64_t begin = queries.begin; begin < queries.end; begin += kTileRows)
      run_tile({begin, std::min(begin + kTileRows, queries.end)}, scaled, weights);
    head_.write(output_, result_, queries);
  }

 private:
  void run_tile(Positions queries, T* scaled, T* weights) const {
    const std::int64_t d = query_.columns;
    const std::int64_t rows = queries.length();
    for (std::int64_t i = 0; i < rows; ++i)
      scale_row(query_.row(queries.begin + i), static_cast<T>(scores_.scale), scaled + i * d, d);
    const std::int64_t seen = seen_of(scores_, queries.end - 1, 0, keys_);
    const std::int64_t width = work_.turned_keys.columns_through(seen);
    work_.turned_keys.multiply(rows, width, d, {scaled, d}, weights, width);
    T largest[kTileRows];
    T totals[kTileRows];
    for (std::int64_t i = 0; i < rows; ++i) {
      T* const row = weights + i * width;
      weigh(queries.begin + i, row, largest[i], totals[i]);
      std::fill(row + seen_of(scores_, queries.begin + i, 0, keys_), row + seen, T(0));
    }
    for_each_pack<T>(0, rows, [&](std::int64_t i, std::int64_t count) {
      store_up_to(load_up_to(largest + i, count) + log(load_wide_padded(totals + i, count, T(1))), largest + i, count);
    });
    for (std::int64_t i = 0; i < rows; ++i) *log_sum_.row(queries.begin + i) = largest[i];
    T* const to = output_.row(queries.begin);
    work_.values.multiply(rows, value_.columns, seen, {weights, width}, to, output_.leading);
    for (std::int64_t i = 0; i < rows; ++i) {
      T* const row = to + i * output_.leading;
      const Pack<T> total(totals[i]);
      for_each_pack<T>(0, value_.columns, [&](std::int64_t j, std::int64_t count) {
        store_up_to(load_up_to(row + j, count) / total, row + j, count);
      });
    }
  }

  /// A query's scores become exp(score - largest), and `total` their sum; where nothing is seen, largest is 0 and the
  /// total 1.
  void weigh(std::int64_t query, T* row, T& largest, T& total) const {
    const std::int64_t seen = seen_of(scores_, query, 0, keys_);
    MaskRow<T>(mask_, place_, query, 0).apply(row, seen);
    typename reduce_kernel::Extreme<T, elementwise::Maximum>::Row best;
    best.add(row, seen);
    largest = best.total();
    if (largest == kHidden<T>) largest = T(0);
    const Pack<T> shift(largest);
    total = sum_of_packs<T>(seen, [&](std::int64_t i, std::int64_t count) {
      const Pack<T> weight = exp(load_scores(row + i, count) - shift);
      store_up_to(weight, row + i, count);
      return weight;
    });
    if (total == T(0)) total = T(1);
  }

  const AttentionScores& scores_;
  Head<S> head_;
  const HeadMatrix<T> query_;
  const HeadMatrix<T> key_;
  const HeadMatrix<T> value_;
  const Array& mask_;
  const Array& result_;
  const HeadMatrix<T> output_;
  const HeadMatrix<T> log_sum_;
  const std::int64_t place_;
  const std::int64_t keys_;
  const bool packs_;  // the same for all parts
  TileMemory<T>& work_;
};

/// The arrays of attention's gradient, in the order of its kernel's parameters.
struct AttentionGradientArrays {
  const Array& query;
  const Array& key;
  const Array& value;
  const Array& mask;
  const Array& output;
  const Array& log_sum;
  const Array& gradient;
  const Array& query_gradient;
  const Array& key_gradient;
  const Array& value_gradient;
};

/// Gradients of attention at one place of the leading axes: with P the weights and S the scores, dV = P^T dO, dS =
/// P (dO V^T - sum(dO O)), dQ = scale dS K, dK = scale dS^T Q.
template <class S> class HeadBackward {
 public:
  using T = ComputedIn<S>;

  struct Wanted {
    bool query;
    bool key_and_value;
  };

  HeadBackward(const AttentionScores& scores, const AttentionGradientArrays& arrays, std::int64_t place,
               TileMemory<T>& work)
      : scores_(scores),
        arrays_(arrays),
        head_(place, work),
        query_(head_.read(arrays.query)),
        key_(head_.read(arrays.key)),
        value_(head_.read(arrays.value)),
        output_(head_.read(arrays.output)),
        log_sum_(arrays.log_sum, place),
        dy_(head_.read(arrays.gradient)),
        dq_(head_.result(arrays.query_gradient)),
        dk_(head_.result(arrays.key_gradient)),
        dv_(head_.result(arrays.value_gradient)),
        place_(place),
        packs_(arrays.query.length(-2) > kFewRows),
        work_(work) {}

  /// Sums over some queries and keys: all keys where the queries' gradient is wanted, all queries where that of keys
  /// and values is.
  void run(Positions queries, Positions keys, Wanted wanted) const {
    work_.turned_keys.set(query_.columns, keys.length(), key_.turned_from(keys.begin), packs_);
    work_.turned_values.set(value_.columns, keys.length(), value_.turned_from(keys.begin), packs_);
    if (wanted.query) work_.keys.set(keys.length(), query_.columns, key_.rows_from(keys.begin), packs_);
    if (wanted.key_and_value)
      for (std::int64_t i = keys.begin; i < keys.end; ++i) {
        std::fill_n(dk_.row(i), dk_.columns, T(0));
        std::fill_n(dv_.row(i), dv_.columns, T(0));
      }
    TileMemory<T>::room(work_.queries, kTileRows * query_.columns);
    TileMemory<T>::room(work_.weights, kTileRows * keys.length());
    TileMemory<T>::room(work_.gradients, kTileRows * keys.length());
    for (std::int64_t begin = queries.begin; begin < queries.end; begin += kTileRows)
      run_tile({begin, std::min(begin + kTileRows, queries.end)}, keys, wanted);
    if (wanted.query) head_.write(dq_, arrays_.query_gradient, queries);
    if (!wanted.key_and_value) return;
    head_.write(dk_, arrays_.key_gradient, keys);
    head_.write(dv_, arrays_.value_gradient, keys);
  }

 private:
  void run_tile(Positions queries, Positions keys, Wanted wanted) const {
    const std::int64_t d = query_.columns;
    const std::int64_t rows = queries.length();
    const std::int64_t seen = seen_of(scores_, queries.end - 1, keys.begin, keys.length());
    if (seen == 0) return;
    T* const scaled = work_.queries.data();
    T* const weights = work_.weights.data();
    T* const gradients = work_.gradients.data();
    const auto scale = static_cast<T>(scores_.scale);
    for (std::int64_t i = 0; i < rows; ++i) scale_row(query_.row(queries.begin + i), scale, scaled + i * d, d);
    const std::int64_t width = work_.turned_keys.columns_through(seen);
    work_.turned_keys.multiply(rows, width, d, {scaled, d}, weights, width);
    work_.turned_values.multiply(rows, width, value_.columns, dy_.rows_from(queries.begin), gradients, width);
    for (std::int64_t i = 0; i < rows; ++i)
      differentiate(queries.begin + i, keys, seen, weights + i * width, gradients + i * width);
    if (wanted.key_and_value) {
      gemm<T>(seen, dv_.columns, rows, {weights, width, true}, dy_.rows_from(queries.begin), dv_.row(keys.begin),
              dv_.leading, true);
      gemm<T>(seen, d, rows, {gradients, width, true}, {scaled, d}, dk_.row(keys.begin), dk_.leading, true);
    }
    if (!wanted.query) return;
    T* const to = dq_.row(queries.begin);
    work_.keys.multiply(rows, d, seen, {gradients, width}, to, dq_.leading);
    for (std::int64_t i = 0; i < rows; ++i) scale_row(to + i * dq_.leading, scale, to + i * dq_.leading, d);
  }

  /// A query's scores become weights, and the gradients of weights those of scores; 0 up to `end` where nothing is
  /// seen.
  void differentiate(std::int64_t query, Positions keys, std::int64_t end, T* weights, T* gradients) const {
    const std::int64_t seen = seen_of(scores_, query, keys.begin, end);
    MaskRow<T>(arrays_.mask, place_, query, keys.begin).apply(weights, seen);
    const T* const dy = dy_.row(query);
    const T* const y = output_.row(query);
    const Pack<T> dy_y(sum_of_packs<T>(value_.columns, [&](std::int64_t i, std::int64_t count) {
      return load_up_to(dy + i, count) * load_up_to(y + i, count);
    }));
    const Pack<T> log_sum(*log_sum_.row(query));
    for_each_pack<T>(0, seen, [&](std::int64_t i, std::int64_t count) {
      const Pack<T> weight = exp(load_scores(weights + i, count) - log_sum);
      store_up_to(weight, weights + i, count);
      store_up_to(weight * (load_up_to(gradients + i, count) - dy_y), gradients + i, count);
    });
    std::fill(weights + seen, weights + end, T(0));
    std::fill(gradients + seen, gradients + end, T(0));
  }

  const AttentionScores& scores_;
  const AttentionGradientArrays& arrays_;
  Head<S> head_;
  const HeadMatrix<T> query_;
  const HeadMatrix<T> key_;
  const HeadMatrix<T> value_;
  const HeadMatrix<T> output_;
  const HeadMatrix<T> log_sum_;
  const HeadMatrix<T> dy_;
  const HeadMatrix<T> dq_;
  const HeadMatrix<T> dk_;
  const HeadMatrix<T> dv_;
  const std::int64_t place_;
  const bool packs_;  // the same for all parts
  TileMemory<T>& work_;
};

/// Multiplications of one product of queries and keys.
std::int64_t product_work(const Array& query, const Array& key) {
  return query.length(-2) * key.length(-2) * query.length(-1);
}

}  // namespace

void CpuBackend::attention(const AttentionScores& scores, const Array& query, const Array& key, const Array& value,
                           const Array& mask, const Array& output, const Array& log_sum) {
  const auto work = [scores, &pool = threads(output.device())](const Array& q, const Array& k, const Array& v,
                                                               const Array& m, const Array& to, const Array& sums) {
    visit_any_floating(to.dtype(), [&]<class S>(std::type_identity<S>) {
      using T = ComputedIn<S>;
      for_each_part<T>(pool, sums.size() / sums.length(-2), q.length(-2), 2 * product_work(q, k),
                       [&](std::int64_t place, Positions queries, TileMemory<T>& memory) {
                         HeadForward<S>(scores, q, k, v, m, to, sums, place, memory).run(queries);
                       });
    });
  };
  stream(output.device()).launch("attention", work, query, key, value, mask, output, log_sum);
}

void CpuBackend::attention_gradient(const AttentionScores& scores, const Array& query, const Array& key,
                                    const Array& value, const Array& mask, const Array& output, const Array& log_sum,
                                    const Array& gradient, const Array& query_gradient, const Array& key_gradient,
                                    const Array& value_gradient) {
  const auto work = [scores, &pool = threads(output.device())](const auto&... given) {
    const AttentionGradientArrays arrays{given...};
    const std::int64_t places = arrays.log_sum.size() / arrays.log_sum.length(-2);
    const Positions queries{0, arrays.query.length(-2)};
    const Positions keys{0, arrays.key.length(-2)};
    const std::int64_t cost = product_work(arrays.query, arrays.key);
    visit_any_floating(arrays.output.dtype(), [&]<class S>(std::type_identity<S>) {
      using T = ComputedIn<S>;
      // Alike in bits: with few places the scores are made twice, so that no two threads add to one sum.
      if (pool.threads() == 1 || places >= 2 * pool.threads()) {
        for_each_part<T>(pool, places, 1, 5 * cost, [&](std::int64_t place, Positions, TileMemory<T>& memory) {
          HeadBackward<S>(scores, arrays, place, memory).run(queries, keys, {true, true});
        });
        return;
      }
      for_each_part<T>(pool, places, queries.end, 3 * cost,
                       [&](std::int64_t place, Positions part, TileMemory<T>& memory) {
                         HeadBackward<S>(scores, arrays, place, memory).run(part, keys, {true, false});
                       });
      for_each_part<T>(pool, places, keys.end, 4 * cost,
                       [&](std::int64_t place, Positions part, TileMemory<T>& memory) {
                         HeadBackward<S>(scores, arrays, place, memory).run(queries, part, {false, true});
                       });
    });
  };
  stream(output.device())
      .launch("attention_gradient", work, query, key, value, mask, output, log_sum, gradient, query_gradient,
              key_gradient, value_gradient);
}

}  // namespace tutti
