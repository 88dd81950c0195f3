// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/capture/tape.h>
#include <tutti/backend/elementwise/step.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace tutti {

/// A part of a tape whose neighbouring elementwise calls are chains: each chain is one call of
/// `Backend::elementwise_chain`, so that a device can go through memory once for all of its operations.
///
/// Calls are one chain if any order that keeps the calls of one element in order gives the same bits: outputs are
/// contiguous and of one size, inputs are so too or one element that stands for all, and two operands that share
/// memory, unless both are read only, are at the same place, with elements of the same size.
class ElementwiseChains {
 public:
  /// Null if there is no chain among the calls [begin, end). The tape outlives the result.
  static std::unique_ptr<ElementwiseChains> of(const Tape&, std::size_t begin, std::size_t end);

  /// Makes the calls. What a device has queued refers to the chains until it has run.
  void run(Backend&) const;
  std::size_t calls() const noexcept;  ///< calls that are in chains

 private:
  /// Calls [begin, end) of the tape: a chain, or, without steps, each by itself.
  struct Part {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::vector<ElementwiseStep> steps;
  };
  explicit ElementwiseChains(const Tape& tape) : tape_(tape) {}

  const Tape& tape_;
  std::vector<Part> parts_;
};

}  // namespace tutti
