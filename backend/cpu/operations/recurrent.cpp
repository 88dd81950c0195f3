// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/linear_algebra/matrix_of.h>
#include <tutti/backend/cpu/linear_algebra/right_operand.h>
#include <tutti/backend/cpu/packs/pack_loops.h>
#include <tutti/backend/cpu/runtime/divide_up.h>
#include <tutti/backend/cpu/runtime/kept_by_thread.h>
#include <tutti/backend/formulas/recurrent_formulas.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace tutti {
namespace {

/// Rows of `blocks` blocks of `length` elements each; of an undefined array zeros, which take nothing.
template <class T> class StepRows {
 public:
  StepRows(const Array& array, std::int64_t blocks, std::int64_t length)
      : data_(array.defined() ? array.data<T>() : nullptr), blocks_(blocks), length_(length) {}
  StepRows from(std::int64_t row) const {
    StepRows rows = *this;
    if (data_ != nullptr) rows.data_ += row * blocks_ * length_;
    return rows;
  }

  Pack<T> load(std::int64_t row, std::int64_t block, std::int64_t i, std::int64_t lanes) const {
    return data_ == nullptr ? Pack<T>(0) : load_up_to(at(row, block, i), lanes);
  }
  void store(const Pack<T>& x, std::int64_t row, std::int64_t block, std::int64_t i, std::int64_t lanes) const {
    if (data_ != nullptr) store_up_to(x, at(row, block, i), lanes);
  }
  T* data() const { return data_; }

 private:
  T* at(std::int64_t row, std::int64_t block, std::int64_t i) const {
    return data_ + (row * blocks_ + block) * length_ + i;
  }

  T* data_;  // null: none
  std::int64_t blocks_;
  std::int64_t length_;
};

/// Calls `f(row, i, lanes)` for packs that cover all elements of [rows, hidden].
template <class T, class F>
void for_each_pack_of(ThreadPool& threads, std::int64_t rows, std::int64_t hidden, const F& f) {
  constexpr std::int64_t kGrain = 2048;  // elements that are worth another thread
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / hidden);
  threads.parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for_each_pack<T>(0, hidden, [&](std::int64_t i, std::int64_t lanes) { f(row, i, lanes); });
  });
}

/// What steps read and write but for the weight, in the order of the kernels' parameters.
template <class T, class Step> struct StepOperands {
  std::int64_t length;
  StepRows<T> inputs;
  StepRows<T> products;
  StepRows<T> biases;
  StepRows<T> states;
  StepRows<T> cells;
  StepRows<T> outputs;
  StepRows<T> keeps;
  StepRows<T> states_before;
  StepRows<T> cells_before;

  StepOperands(const Array& input_part, const Array& product, const Array& bias, const Array& hidden, const Array& cell,
               const Array& output, const Array& kept, const Array& hidden_before, const Array& cell_before)
      : length(output.length(1)),
        inputs(input_part, Step::kGates, length),
        products(product, Step::kGates, length),
        biases(bias, Step::kGates, length),
        states(hidden, 1, length),
        cells(cell, 1, length),
        outputs(output, 1, length),
        keeps(kept, Step::kKept, length),
        states_before(hidden_before, 1, length),
        cells_before(cell_before, 1, length) {}

  /// The step whose rows begin with `row`, of `count` sequences.
  void take(ThreadPool& threads, std::int64_t row, std::int64_t count) const {
    const StepRows<T> input = inputs.from(row);
    const StepRows<T> output = outputs.from(row);
    const StepRows<T> kept = keeps.from(row);
    const StepRows<T> state_before = states_before.from(row);
    const StepRows<T> cell_before = cells_before.from(row);
    for_each_pack_of<T>(threads, count, length, [&](std::int64_t sequence, std::int64_t i, std::int64_t lanes) {
      Pack<T> from_input[Step::kGates];
      Pack<T> from_hidden[Step::kGates];
      Pack<T> blocks[Step::kKept];
      for (int gate = 0; gate < Step::kGates; ++gate) {
        from_input[gate] = input.load(sequence, gate, i, lanes);
        from_hidden[gate] = products.load(sequence, gate, i, lanes) + biases.load(0, gate, i, lanes);
      }
      const Pack<T> before = states.load(sequence, 0, i, lanes);
      Pack<T> c = cells.load(sequence, 0, i, lanes);
      state_before.store(before, sequence, 0, i, lanes);
      cell_before.store(c, sequence, 0, i, lanes);
      const Pack<T> after = Step::value(from_input, from_hidden, before, c, blocks);
      states.store(after, sequence, 0, i, lanes);
      output.store(after, sequence, 0, i, lanes);
      cells.store(c, sequence, 0, i, lanes);
      for (int block = 0; block < Step::kKept; ++block) kept.store(blocks[block], sequence, block, i, lanes);
    });
  }
};

/// What steps back read and write but for the weight, in the order of the kernels' parameters.
template <class T, class Step> struct StepGradientOperands {
  std::int64_t length;
  StepRows<T> keeps;
  StepRows<T> states_before;
  StepRows<T> cells_before;
  StepRows<T> gradients;
  StepRows<T> input_gradients;
  StepRows<T> product_gradients;
  StepRows<T> state_gradients;
  StepRows<T> cell_gradients;

  StepGradientOperands(const Array& kept, const Array& hidden_before, const Array& cell_before, const Array& gradient,
                       const Array& input_gradient, const Array& product_gradient, const Array& hidden_gradient,
                       const Array& cell_gradient)
      : length(gradient.length(1)),
        keeps(kept, Step::kKept, length),
        states_before(hidden_before, 1, length),
        cells_before(cell_before, 1, length),
        gradients(gradient, 1, length),
        input_gradients(input_gradient, Step::kGates, length),
        product_gradients(product_gradient, Step::kGates, length),
        state_gradients(hidden_gradient, 1, length),
        cell_gradients(cell_gradient, 1, length) {}

  void take_back(ThreadPool& threads, std::int64_t row, std::int64_t count) const {
    const StepRows<T> kept = keeps.from(row);
    const StepRows<T> state_before = states_before.from(row);
    const StepRows<T> cell_before = cells_before.from(row);
    const StepRows<T> gradient = gradients.from(row);
    const StepRows<T> input_gradient = input_gradients.from(row);
    const StepRows<T> product_gradient = product_gradients.from(row);
    for_each_pack_of<T>(threads, count, length, [&](std::int64_t sequence, std::int64_t i, std::int64_t lanes) {
      Pack<T> blocks[Step::kKept];
      for (int block = 0; block < Step::kKept; ++block) blocks[block] = kept.load(sequence, block, i, lanes);
      const Pack<T> dh = gradient.load(sequence, 0, i, lanes) + state_gradients.load(sequence, 0, i, lanes);
      Pack<T> dc = cell_gradients.load(sequence, 0, i, lanes);
      Pack<T> to_input[Step::kGates];
      Pack<T> to_hidden[Step::kGates];
      const Pack<T> before = Step::gradient(blocks, state_before.load(sequence, 0, i, lanes),
                                            cell_before.load(sequence, 0, i, lanes), dh, dc, to_input, to_hidden);
      state_gradients.store(before, sequence, 0, i, lanes);
      cell_gradients.store(dc, sequence, 0, i, lanes);
      for (int gate = 0; gate < Step::kGates; ++gate) {
        input_gradient.store(to_input[gate], sequence, gate, i, lanes);
        product_gradient.store(to_hidden[gate], sequence, gate, i, lanes);
      }
    });
  }
};

/// A weight that all steps are multiplied by, its columns shared out among the threads: each packs its own. Of a weight
/// of bf16 what is multiplied is rounded to it, too, and the sums are f32.
template <class W> class StepWeight {
 public:
  using T = ComputedIn<W>;

  /// The weight is [k, n]; `rows` are those of all steps together.
  StepWeight(ThreadPool& threads, std::int64_t k, std::int64_t n, const MatrixView<W>& weight, std::int64_t rows)
      : threads_(threads), k_(k), n_(n), kept_(KeptByThread<Kept>::take()) {
    constexpr std::int64_t kLeastColumns = 64;
    constexpr std::int64_t kRowsWorthPacking = 16;
    if (kept_ == nullptr) kept_ = std::make_unique<Kept>();
    count_ = std::clamp<std::int64_t>(threads.threads(), 1, divide_up(n, kLeastColumns));
    if (kept_->slices.size() < static_cast<std::size_t>(count_)) kept_->slices.resize(static_cast<std::size_t>(count_));
    threads_.parallel_for(count_, grain(kRowsWorthPacking), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        slice(i).set(k, column(i + 1) - column(i), weight.columns_from(column(i)), rows >= kRowsWorthPacking);
    });
  }
  ~StepWeight() {
    std::size_t bytes = kept_->rounded.capacity() * sizeof(W);
    for (const RightOperand<W>& each : kept_->slices) bytes += each.bytes();
    if (bytes <= RightOperand<W>::kMostKept) KeptByThread<Kept>::keep(std::move(kept_));
  }
  StepWeight(const StepWeight&) = delete;
  StepWeight& operator=(const StepWeight&) = delete;

  /// c = a weight, or c += a weight, of so many rows without gaps.
  void multiply(std::int64_t rows, const T* a, T* c, bool accumulate) const {
    const W* const left = as_weight(a, rows * k_);
    threads_.parallel_for(count_, grain(rows), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        slice(i).multiply(rows, column(i + 1) - column(i), k_, {left, k_}, c + column(i), n_, accumulate);
    });
  }

 private:
  struct Kept {
    std::vector<RightOperand<W>> slices;
    std::vector<W> rounded;  // what is multiplied
  };

  const W* as_weight(const T* a, std::int64_t count) const {
    if constexpr (std::is_same_v<W, T>) {
      return a;
    } else {
      if (kept_->rounded.size() < static_cast<std::size_t>(count))
        kept_->rounded.resize(static_cast<std::size_t>(count));
      narrow(a, kept_->rounded.data(), count);
      return kept_->rounded.data();
    }
  }
  RightOperand<W>& slice(std::int64_t i) const { return kept_->slices[static_cast<std::size_t>(i)]; }
  std::int64_t column(std::int64_t i) const { return n_ * i / count_; }
  std::int64_t grain(std::int64_t rows) const {
    constexpr std::int64_t kGrain = std::int64_t{1} << 18U;  // multiplications that are worth another thread
    return std::max<std::int64_t>(1, kGrain * count_ / std::max<std::int64_t>(1, rows * k_ * n_));
  }

  ThreadPool& threads_;
  const std::int64_t k_;
  const std::int64_t n_;
  std::int64_t count_;
  std::unique_ptr<Kept> kept_;
};

/// Calls `f` with the element type of the weight, and the formulas.
template <class F> void visit_step(RecurrentGates gates, DType weight, const F& f) {
  const auto visit = [&]<class W>(std::type_identity<W>) {
    recurrent_formulas::visit(gates, [&]<class Step>(Step) { f.template operator()<W, Step>(); });
  };
  weight == DType::bf16 ? visit(std::type_identity<BFloat16>()) : visit_floating(weight, visit);
}

}  // namespace

void CpuBackend::recurrent_step(RecurrentGates gates, const Array& input_part, const Array& product, const Array& bias,
                                const Array& hidden, const Array& cell, const Array& output, const Array& kept,
                                const Array& hidden_before, const Array& cell_before) {
  const auto work = [gates, dtype = output.dtype(), count = output.length(0),
                     &pool = threads(output.device())](const auto&... arrays) {
    visit_step(gates, dtype,
               [&]<class W, class Step>() { StepOperands<ComputedIn<W>, Step>(arrays...).take(pool, 0, count); });
  };
  stream(output.device())
      .launch("recurrent_step", work, input_part, product, bias, hidden, cell, output, kept, hidden_before,
              cell_before);
}

void CpuBackend::recurrent_step_gradient(RecurrentGates gates, const Array& kept, const Array& hidden_before,
                                         const Array& cell_before, const Array& gradient, const Array& input_gradient,
                                         const Array& product_gradient, const Array& hidden_gradient,
                                         const Array& cell_gradient) {
  const auto work = [gates, dtype = gradient.dtype(), count = gradient.length(0),
                     &pool = threads(gradient.device())](const auto&... arrays) {
    visit_step(gates, dtype, [&]<class W, class Step>() {
      StepGradientOperands<ComputedIn<W>, Step>(arrays...).take_back(pool, 0, count);
    });
  };
  stream(gradient.device())
      .launch("recurrent_step_gradient", work, kept, hidden_before, cell_before, gradient, input_gradient,
              product_gradient, hidden_gradient, cell_gradient);
}

void CpuBackend::recurrent_steps(const RecurrentSteps& steps, const Array& input_part, const Array& weight,
                                 const Array& bias, const Array& hidden, const Array& cell, const Array& output,
                                 const Array& kept, const Array& hidden_before, const Array& cell_before) {
  const Array products = Array::empty({hidden.length(0), weight.length(0)}, hidden.dtype(), hidden.device());
  const auto work = [steps, &pool = threads(output.device())](const Array& w, const Array& inputs, const Array& product,
                                                              const auto&... rest) {
    visit_step(steps.gates, w.dtype(), [&]<class W, class Step>() {
      const StepOperands<ComputedIn<W>, Step> operands(inputs, product, rest...);
      const StepWeight<W> turned(pool, operands.length, w.length(0), matrix_of<W>(w, 0).turned(), steps.rows());
      steps.for_each(false, [&](std::int64_t row, std::int64_t count) {
        turned.multiply(count, operands.states.data(), operands.products.data(), false);
        operands.take(pool, row, count);
      });
    });
  };
  stream(output.device())
      .launch("recurrent_steps", work, weight, input_part, products, bias, hidden, cell, output, kept, hidden_before,
              cell_before);
}

void CpuBackend::recurrent_steps_gradient(const RecurrentSteps& steps, bool to_hidden, const Array& weight,
                                          const Array& kept, const Array& hidden_before, const Array& cell_before,
                                          const Array& gradient, const Array& input_gradient,
                                          const Array& product_gradient, const Array& hidden_gradient,
                                          const Array& cell_gradient) {
  const auto work = [steps, to_hidden, &pool = threads(gradient.device())](const Array& w, const auto&... rest) {
    visit_step(steps.gates, w.dtype(), [&]<class W, class Step>() {
      using T = ComputedIn<W>;
      const StepGradientOperands<T, Step> operands(rest...);
      const StepWeight<W> by_gates(pool, w.length(0), operands.length, matrix_of<W>(w, 0), steps.rows());
      // Else all of the state's gradient comes by the product, whose gradient is the input part's.
      const bool adds = operands.product_gradients.data() != nullptr;
      const StepRows<T>& products = adds ? operands.product_gradients : operands.input_gradients;
      std::int64_t left = steps.rows();
      steps.for_each(true, [&](std::int64_t row, std::int64_t count) {
        operands.take_back(pool, row, count);
        left -= count;
        if (left > 0 || to_hidden)
          by_gates.multiply(count, products.from(row).data(), operands.state_gradients.data(), adds);
      });
    });
  };
  stream(gradient.device())
      .launch("recurrent_steps_gradient", work, weight, kept, hidden_before, cell_before, gradient, input_gradient,
              product_gradient, hidden_gradient, cell_gradient);
}

}  // namespace tutti
