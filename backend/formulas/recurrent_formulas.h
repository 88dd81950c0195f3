// SPDX-License-Identifier: Apache-2.0
#pragma once

// One time step of the recurrent networks of RecurrentGates, for one element of the state, with X = a scalar (CUDA
// threads) or a pack (CPU loops); autodiff/operations/recurrent.cpp composes the same of operations. Where a formula
// takes blocks, [i] is that of gate i: the pre-activations are input[i] + hidden[i], the parts of x and of the state
// before.
//
//   kGates   number of blocks of the two parts
//   kKept    number of blocks that `value` leaves for `gradient`
//   kHasCell true with a cell state beside the hidden one
//   value    the hidden state after the step; `cell` is changed
//   gradient from dL/d(hidden state after), `dh`, and after, `dcell`, which it makes that before: dL/d(input[i]),
//            dL/d(hidden[i]) and, as its result, dL/d(hidden state before), but for what comes by hidden[i]

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/elementwise/operation.h>

namespace tutti::recurrent_formulas {

using elementwise::scalar;
using elementwise::select;
using elementwise::sigmoid;
using std::tanh;

/// dL/d(z) for y = sigmoid(z), from y.
template <class X> TUTTI_HOST_DEVICE X before_sigmoid(const X& y, const X& dy) { return dy * y * (scalar<X>(1) - y); }
template <class X> TUTTI_HOST_DEVICE X before_tanh(const X& y, const X& dy) { return dy * (scalar<X>(1) - y * y); }

struct TanhStep {
  static constexpr int kGates = 1;
  static constexpr int kKept = 1;
  static constexpr bool kHasCell = false;
  template <class X>
  TUTTI_HOST_DEVICE static X value(const X* input, const X* hidden, const X& /*before*/, X& /*cell*/, X* kept) {
    return kept[0] = tanh(input[0] + hidden[0]);
  }
  template <class X> TUTTI_HOST_DEVICE static X gradient(const X* kept, const X& /*before*/, const X& /*cell*/,
                                                         const X& dh, X& /*dcell*/, X* dinput, X* dhidden) {
    dinput[0] = dhidden[0] = before_tanh(kept[0], dh);
    return scalar<X>(0);
  }
};

struct ReluStep {
  static constexpr int kGates = 1;
  static constexpr int kKept = 1;
  static constexpr bool kHasCell = false;
  template <class X>
  TUTTI_HOST_DEVICE static X value(const X* input, const X* hidden, const X& /*before*/, X& /*cell*/, X* kept) {
    const X sum = input[0] + hidden[0];
    return kept[0] = select(sum < scalar<X>(0), scalar<X>(0), sum);
  }
  template <class X> TUTTI_HOST_DEVICE static X gradient(const X* kept, const X& /*before*/, const X& /*cell*/,
                                                         const X& dh, X& /*dcell*/, X* dinput, X* dhidden) {
    dinput[0] = dhidden[0] = select(kept[0] <= scalar<X>(0), scalar<X>(0), dh);
    return scalar<X>(0);
  }
};

/// Blocks: input, forget, cell, output.
struct LstmStep {
  static constexpr int kGates = 4;
  static constexpr int kKept = 4;
  static constexpr bool kHasCell = true;
  template <class X>
  TUTTI_HOST_DEVICE static X value(const X* input, const X* hidden, const X& /*before*/, X& cell, X* kept) {
    kept[0] = sigmoid(input[0] + hidden[0]);
    kept[1] = sigmoid(input[1] + hidden[1]);
    kept[2] = tanh(input[2] + hidden[2]);
    kept[3] = sigmoid(input[3] + hidden[3]);
    cell = kept[1] * cell + kept[0] * kept[2];
    return kept[3] * tanh(cell);
  }
  /// `cell`: before the step.
  template <class X> TUTTI_HOST_DEVICE static X gradient(const X* kept, const X& /*before*/, const X& cell, const X& dh,
                                                         X& dcell, X* dinput, X* dhidden) {
    const X output = tanh(kept[1] * cell + kept[0] * kept[2]);
    const X both = dcell + before_tanh(output, dh * kept[3]);
    dinput[0] = dhidden[0] = before_sigmoid(kept[0], both * kept[2]);
    dinput[1] = dhidden[1] = before_sigmoid(kept[1], both * cell);
    dinput[2] = dhidden[2] = before_tanh(kept[2], both * kept[0]);
    dinput[3] = dhidden[3] = before_sigmoid(kept[3], dh * output);
    dcell = both * kept[1];
    return scalar<X>(0);
  }
};

/// Blocks: reset, update, new; kept is the new gate's part of the hidden state, too.
struct GruStep {
  static constexpr int kGates = 3;
  static constexpr int kKept = 4;
  static constexpr bool kHasCell = false;
  template <class X>
  TUTTI_HOST_DEVICE static X value(const X* input, const X* hidden, const X& before, X& /*cell*/, X* kept) {
    kept[0] = sigmoid(input[0] + hidden[0]);
    kept[1] = sigmoid(input[1] + hidden[1]);
    kept[2] = tanh(input[2] + kept[0] * hidden[2]);
    kept[3] = hidden[2];
    return kept[2] + kept[1] * (before - kept[2]);
  }
  template <class X> TUTTI_HOST_DEVICE static X gradient(const X* kept, const X& before, const X& /*cell*/, const X& dh,
                                                         X& /*dcell*/, X* dinput, X* dhidden) {
    dinput[2] = before_tanh(kept[2], dh * (scalar<X>(1) - kept[1]));
    dhidden[2] = dinput[2] * kept[0];
    dinput[0] = dhidden[0] = before_sigmoid(kept[0], dinput[2] * kept[3]);
    dinput[1] = dhidden[1] = before_sigmoid(kept[1], dh * (before - kept[2]));
    return dh * kept[1];
  }
};

/// Calls `f(Step{})` with the formulas of these gates.
template <class F> decltype(auto) visit(RecurrentGates gates, F&& f) {
  switch (gates) {
    case RecurrentGates::relu: return f(ReluStep{});
    case RecurrentGates::lstm: return f(LstmStep{});
    case RecurrentGates::gru: return f(GruStep{});
    case RecurrentGates::tanh: break;
  }
  return f(TanhStep{});
}

}  // namespace tutti::recurrent_formulas
