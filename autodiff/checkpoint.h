// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tutti {

using CheckpointedFunction = std::function<Tensor(std::span<const Tensor> inputs)>;

/// f(inputs), of which backward keeps the inputs alone: it runs f again for what f's operations would have saved, so
/// that a chain of k checkpoints holds one link's intermediate values at a time (Chen et al. 2016, arXiv:1604.06174).
///
/// f may use parameters and other tensors that it refers to: those that it reads get their gradients, each once, as one
/// contribution (leaves with sparse gradients excepted, AutodiffError). It is kept until backward has run, so that what
/// it refers to must live till then. Both runs must do the same: random numbers of any Generator are repeated, an
/// Autocast scope is, other state (running statistics, counts) changes twice. What it reads may not be written in
/// between, except by f itself, and what requires a gradient not be given another value: AutodiffError, as for another
/// shape or another leaf the second time. That a constant that f refers to was replaced by another is not noticed.
/// A result that depends on no gradient, as f detaches, still says that it requires one, and gives none. Checkpoints
/// nest, and can be differentiated again. No collectives in f: devices would repeat them in different orders.
///
/// Inputs may be undefined, or literals. Without recording, or if nothing requires a gradient, this is f(inputs).
Tensor checkpoint(CheckpointedFunction f, std::vector<Tensor> inputs);
Tensor checkpoint(std::function<Tensor(const Tensor&)> f, const Tensor& x);

/// Collects what a checkpoint's function needs from outside: while it lives, operations on its thread record nothing,
/// but it hears of every tensor with a gradient that they are given, and of every value without one that is read.
class InputTrace {
 public:
  [[nodiscard]] InputTrace();
  ~InputTrace();
  InputTrace(const InputTrace&) = delete;
  InputTrace& operator=(const InputTrace&) = delete;

  struct Read {
    std::weak_ptr<const Storage> storage;
    std::uint32_t version;
  };

  void add(const Tensor&);
  void add_read(const Array&);  ///< outer ones hear of it too: their functions run this one again
  const std::vector<Tensor>& tensors() const noexcept { return tensors_; }  ///< each once, in order of discovery
  std::vector<Read> reads() const;  ///< each storage once that still lives and was not written to meanwhile
  static bool active() noexcept;    ///< true if one lives on the calling thread

 private:
  std::vector<Tensor> tensors_;
  std::unordered_set<const void*> seen_;
  std::unordered_map<const Storage*, Read> reads_;  // an address is not used again while a Read has it
  InputTrace* outer_;
};

namespace detail {
extern constinit thread_local InputTrace* input_trace;  // the innermost one
}

inline bool InputTrace::active() noexcept { return detail::input_trace != nullptr; }

}  // namespace tutti
