// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/packs/pack_loops.h>
#include <tutti/backend/formulas/recurrent_formulas.h>

#include <algorithm>

namespace tutti {
namespace {

/// Rows of `blocks` blocks of `length` elements each; of an undefined array zeros, which take nothing.
template <class T> class Rows {
 public:
  Rows(const Array& array, std::int64_t blocks, std::int64_t length)
      : data_(array.defined() ? array.data<T>() : nullptr), blocks_(blocks), length_(length) {}

  Pack<T> load(std::int64_t row, std::int64_t block, std::int64_t i, std::int64_t lanes) const {
    return data_ == nullptr ? Pack<T>(0) : load_up_to(at(row, block, i), lanes);
  }
  void store(const Pack<T>& x, std::int64_t row, std::int64_t block, std::int64_t i, std::int64_t lanes) const {
    if (data_ != nullptr) store_up_to(x, at(row, block, i), lanes);
  }

 private:
  T* at(std::int64_t row, std::int64_t block, std::int64_t i) const {
    return data_ + (row * blocks_ + block) * length_ + i;
  }

  T* data_;  // null: none
  std::int64_t blocks_;
  std::int64_t length_;
};

/// Calls `f(row, i, lanes)` for packs that cover all elements of [rows, hidden].
template <class T, class F> void for_each_pack_of(ThreadPool& threads, const Array& state, const F& f) {
  constexpr std::int64_t kGrain = 2048;  // elements that are worth another thread
  const std::int64_t hidden = state.length(1);
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / hidden);
  threads.parallel_for(state.length(0), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for_each_pack<T>(0, hidden, [&](std::int64_t i, std::int64_t lanes) { f(row, i, lanes); });
  });
}

template <class T, class Step> void take_step(ThreadPool& threads, const Array& input_part, const Array& product,
                                              const Array& bias, const Array& hidden, const Array& cell,
                                              const Array& output, const Array& kept, const Array& hidden_before,
                                              const Array& cell_before) {
  const std::int64_t length = output.length(1);
  const Rows<T> inputs(input_part, Step::kGates, length);
  const Rows<T> products(product, Step::kGates, length);
  const Rows<T> biases(bias, Step::kGates, length);
  const Rows<T> states(hidden, 1, length);
  const Rows<T> cells(cell, 1, length);
  const Rows<T> outputs(output, 1, length);
  const Rows<T> keeps(kept, Step::kKept, length);
  const Rows<T> states_before(hidden_before, 1, length);
  const Rows<T> cells_before(cell_before, 1, length);
  for_each_pack_of<T>(threads, output, [&](std::int64_t row, std::int64_t i, std::int64_t lanes) {
    Pack<T> from_input[Step::kGates];
    Pack<T> from_hidden[Step::kGates];
    Pack<T> blocks[Step::kKept];
    for (int gate = 0; gate < Step::kGates; ++gate) {
      from_input[gate] = inputs.load(row, gate, i, lanes);
      from_hidden[gate] = products.load(row, gate, i, lanes) + biases.load(0, gate, i, lanes);
    }
    const Pack<T> before = states.load(row, 0, i, lanes);
    Pack<T> c = cells.load(row, 0, i, lanes);
    states_before.store(before, row, 0, i, lanes);
    cells_before.store(c, row, 0, i, lanes);
    const Pack<T> after = Step::value(from_input, from_hidden, before, c, blocks);
    states.store(after, row, 0, i, lanes);
    outputs.store(after, row, 0, i, lanes);
    cells.store(c, row, 0, i, lanes);
    for (int block = 0; block < Step::kKept; ++block) keeps.store(blocks[block], row, block, i, lanes);
  });
}

template <class T, class Step> void step_back(ThreadPool& threads, const Array& kept, const Array& hidden_before,
                                              const Array& cell_before, const Array& gradient,
                                              const Array& input_gradient, const Array& product_gradient,
                                              const Array& hidden_gradient, const Array& cell_gradient) {
  const std::int64_t length = gradient.length(1);
  const Rows<T> keeps(kept, Step::kKept, length);
  const Rows<T> states_before(hidden_before, 1, length);
  const Rows<T> cells_before(cell_before, 1, length);
  const Rows<T> gradients(gradient, 1, length);
  const Rows<T> state_gradients(hidden_gradient, 1, length);
  const Rows<T> cell_gradients(cell_gradient, 1, length);
  const Rows<T> input_gradients(input_gradient, Step::kGates, length);
  const Rows<T> product_gradients(product_gradient, Step::kGates, length);
  for_each_pack_of<T>(threads, gradient, [&](std::int64_t row, std::int64_t i, std::int64_t lanes) {
    Pack<T> blocks[Step::kKept];
    for (int block = 0; block < Step::kKept; ++block) blocks[block] = keeps.load(row, block, i, lanes);
    const Pack<T> dh = gradients.load(row, 0, i, lanes) + state_gradients.load(row, 0, i, lanes);
    Pack<T> dc = cell_gradients.load(row, 0, i, lanes);
    Pack<T> to_input[Step::kGates];
    Pack<T> to_hidden[Step::kGates];
    const Pack<T> before = Step::gradient(blocks, states_before.load(row, 0, i, lanes),
                                          cells_before.load(row, 0, i, lanes), dh, dc, to_input, to_hidden);
    state_gradients.store(before, row, 0, i, lanes);
    cell_gradients.store(dc, row, 0, i, lanes);
    for (int gate = 0; gate < Step::kGates; ++gate) {
      input_gradients.store(to_input[gate], row, gate, i, lanes);
      product_gradients.store(to_hidden[gate], row, gate, i, lanes);
    }
  });
}

/// Calls `f` with the element type and the formulas.
template <class F> void visit_step(RecurrentGates gates, DType dtype, const F& f) {
  visit_floating(dtype, [&]<class T>(std::type_identity<T>) {
    recurrent_formulas::visit(gates, [&]<class Step>(Step) { f.template operator()<T, Step>(); });
  });
}

}  // namespace

void CpuBackend::recurrent_step(RecurrentGates gates, const Array& input_part, const Array& product, const Array& bias,
                                const Array& hidden, const Array& cell, const Array& output, const Array& kept,
                                const Array& hidden_before, const Array& cell_before) {
  const auto work = [gates, dtype = output.dtype(), &pool = threads(output.device())](const auto&... arrays) {
    visit_step(gates, dtype, [&]<class T, class Step>() { take_step<T, Step>(pool, arrays...); });
  };
  stream(output.device())
      .launch("recurrent_step", work, input_part, product, bias, hidden, cell, output, kept, hidden_before,
              cell_before);
}

void CpuBackend::recurrent_step_gradient(RecurrentGates gates, const Array& kept, const Array& hidden_before,
                                         const Array& cell_before, const Array& gradient, const Array& input_gradient,
                                         const Array& product_gradient, const Array& hidden_gradient,
                                         const Array& cell_gradient) {
  const auto work = [gates, dtype = gradient.dtype(), &pool = threads(gradient.device())](const auto&... arrays) {
    visit_step(gates, dtype, [&]<class T, class Step>() { step_back<T, Step>(pool, arrays...); });
  };
  stream(gradient.device())
      .launch("recurrent_step_gradient", work, kept, hidden_before, cell_before, gradient, input_gradient,
              product_gradient, hidden_gradient, cell_gradient);
}

}  // namespace tutti
