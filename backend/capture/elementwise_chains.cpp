// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/capture/elementwise_chains.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace tutti {
namespace {

constexpr std::size_t kMostSteps = 64;  // a chain's cost of being found grows with their square

/// Memory of one operand.
struct Place {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::size_t element_bytes = 0;
  bool repeated = false;  // one element for all
  bool written = false;
};

/// How an operand lies; none: neither contiguous nor one element.
std::optional<Place> place_of(const Array& array, bool written) {
  const bool repeated = !written && array.size() > 1 && array.is_one_element();
  if (!repeated && !array.is_contiguous()) return std::nullopt;
  const std::size_t bytes = size_of(array.dtype());
  const auto begin = reinterpret_cast<std::uintptr_t>(array.raw_data());
  return Place{begin, begin + (repeated ? 1 : static_cast<std::size_t>(array.size())) * bytes, bytes, repeated,
               written};
}

bool disturb(const Place& a, const Place& b) {
  if (!a.written && !b.written) return false;
  if (a.end <= b.begin || b.end <= a.begin) return false;
  return a.begin != b.begin || a.element_bytes != b.element_bytes || a.repeated || b.repeated;
}

/// The steps that are one chain so far.
class ChainBuilder {
 public:
  bool empty() const noexcept { return steps_.empty(); }
  std::size_t size() const noexcept { return steps_.size(); }
  std::vector<ElementwiseStep> take() {
    places_.clear();
    return std::exchange(steps_, {});
  }
  /// False if the step cannot be one of the chain.
  bool add(ElementwiseStep step) {
    if (steps_.size() == kMostSteps || (!empty() && step.output.size() != steps_.front().output.size())) return false;
    const std::size_t before = places_.size();
    if (!add_place(step.output, true) ||
        !std::ranges::all_of(step.inputs, [&](const Array& input) { return add_place(input, false); })) {
      places_.resize(before);
      return false;
    }
    steps_.push_back(std::move(step));
    return true;
  }

 private:
  bool add_place(const Array& array, bool written) {
    const std::optional<Place> place = place_of(array, written);
    if (!place || std::ranges::any_of(places_, [&](const Place& other) { return disturb(*place, other); }))
      return false;
    places_.push_back(*place);
    return true;
  }

  std::vector<ElementwiseStep> steps_;
  std::vector<Place> places_;
};

}  // namespace

std::unique_ptr<ElementwiseChains> ElementwiseChains::of(const Tape& tape, std::size_t begin, std::size_t end) {
  std::unique_ptr<ElementwiseChains> chains(new ElementwiseChains(tape));
  ChainBuilder builder;
  std::size_t single = begin;  // calls from here on belong to no part yet, but for those of the builder
  const auto close = [&](std::size_t at) {
    if (builder.size() < 2) return builder.take().clear();
    const std::size_t first = at - builder.size();
    if (single < first) chains->parts_.push_back({single, first, {}});
    chains->parts_.push_back({first, at, builder.take()});
    single = at;
  };
  for (std::size_t i = begin; i < end; ++i) {
    std::optional<ElementwiseStep> step = tape.call(i).elementwise();
    if (step && builder.add(*step)) continue;
    close(i);
    if (step) builder.add(std::move(*step));
  }
  close(end);
  if (chains->parts_.empty()) return nullptr;
  if (single < end) chains->parts_.push_back({single, end, {}});
  return chains;
}

void ElementwiseChains::run(Backend& backend) const {
  for (const Part& part : parts_)
    if (part.steps.empty())
      tape_.run(backend, part.begin, part.end);
    else
      backend.elementwise_chain(part.steps);
}

std::size_t ElementwiseChains::calls() const noexcept {
  std::size_t count = 0;
  for (const Part& part : parts_) count += part.steps.size();
  return count;
}

}  // namespace tutti
