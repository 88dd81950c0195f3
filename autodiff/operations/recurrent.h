// SPDX-License-Identifier: Apache-2.0
#pragma once

// Steps of recurrent networks, which nn/ and onnx/ make their networks of.

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/operations.h>

namespace tutti {

/// RecurrentOperands as tensors, of one floating type or of several, which then promote.
struct RecurrentSequence {
  Tensor input_part;     ///< x W^T + b of all steps, [rows, gates hidden]
  Tensor hidden;         ///< [batch, hidden], the state before
  Tensor cell;           ///< the same of an LSTM's cell; else undefined
  Tensor hidden_weight;  ///< [gates hidden, hidden]
  Tensor hidden_bias;    ///< [gates hidden] or undefined
};

struct RecurrentStates {
  Tensor outputs;  ///< [rows, hidden]: the hidden state after each step
  Tensor hidden;   ///< [batch, hidden], after each sequence's last step
  Tensor cell;     ///< the same of an LSTM; else undefined
};

/// All steps of packed sequences. Operands that fit each other: what calls it has checked them. Of f32 and f64 a step
/// is a product and one kernel, and so is its gradient (a GRU's adds a sum), which keeps a step's gates and the states
/// before it; of narrow types and where gradients are differentiated again it is composed. Under an Autocast steps of
/// f32 weights are computed in f32 where the device has all steps as one kernel, and rounded at the end. The results
/// are slices of one array: who writes to one in place writes to the memory of all.
RecurrentStates recurrent(const RecurrentSteps&, const RecurrentSequence&);

}  // namespace tutti
