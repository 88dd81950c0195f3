// SPDX-License-Identifier: Apache-2.0
#pragma once

// How an operation that treats each element alone walks over strided operands. Plain C++, so that it is tested without
// a device.

#include <tutti/backend/array.h>
#include <tutti/backend/cuda/kernels/parts/element_layout.h>

#include <array>
#include <span>
#include <string_view>
#include <utility>

namespace tutti {

/// Operands of one shape: the output, then the inputs. Axes of length 1 are dropped, the others in the order of the
/// output's strides, and neighbours joined where all operands allow it. Axes stand innermost first.
struct ElementPlan {
  static constexpr std::size_t kAxes = ElementLayout::kAxes;
  static constexpr std::size_t kOperands = ElementLayout::kOperands;

  std::size_t operands = 0;
  std::size_t axes = 1;
  std::array<std::int64_t, kAxes> length{1};
  std::array<std::array<std::int64_t, kAxes>, kOperands> stride{};  // counted in elements
  std::array<std::int64_t, kOperands> first{};                      // offset of the first element

  std::int64_t size() const noexcept;
};

/// Throws ShapeError naming `operation` if more than `ElementPlan::kAxes` axes remain.
ElementPlan plan_elements(std::string_view operation, const Shape&, std::span<const Strides* const>);

/// True if all elements have indices, and offsets from the first, up to `limit`.
bool fits(const ElementPlan&, std::int64_t limit) noexcept;
/// Two plans that cover the elements of one, which does not fit.
std::pair<ElementPlan, ElementPlan> halves(const ElementPlan&) noexcept;

/// An operand's memory: the address of its element at offset 0, and the bytes of one.
struct ElementMemory {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};
/// True if each `lanes` neighbours can be an `ElementBatch`'s group.
bool can_group(const ElementPlan&, std::span<const ElementMemory>, std::int64_t lanes) noexcept;

/// The batch that a launch needs of a plan that fits.
ElementBatch make_batch(const ElementPlan&, std::span<const ElementMemory>) noexcept;

/// Calls `f(plan)` for plans that fit `limit` and together cover each element once.
template <class F> void for_each_piece(const ElementPlan& plan, std::int64_t limit, const F& f) {
  if (fits(plan, limit)) return f(plan);
  const auto [front, back] = halves(plan);
  for_each_piece(front, limit, f);
  for_each_piece(back, limit, f);
}

/// Calls `f(plan, memory of the operands)` for each of the plans that an operation on these arrays needs: one, unless
/// they are larger than 32-bit offsets reach.
template <class F> void for_each_piece(std::string_view operation, const Array& output,
                                       std::span<const Array* const> inputs, const F& f,
                                       std::int64_t limit = INT32_MAX) {
  std::array<const Strides*, ElementPlan::kOperands> strides{&output.strides()};
  std::array<ElementMemory, ElementPlan::kOperands> storage{{{output.raw_data(), size_of(output.dtype())}}};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    strides[i + 1] = &inputs[i]->strides();
    storage[i + 1] = {inputs[i]->raw_data(), size_of(inputs[i]->dtype())};
  }
  const std::span<const ElementMemory> memory(storage.data(), inputs.size() + 1);
  const ElementPlan plan = plan_elements(operation, output.shape(), std::span(strides.data(), memory.size()));
  for_each_piece(plan, limit, [&](const ElementPlan& piece) { f(piece, memory); });
}

/// The same with `f(batch)`.
template <class F> void for_each_batch(std::string_view operation, const Array& output,
                                       std::span<const Array* const> inputs, const F& f,
                                       std::int64_t limit = INT32_MAX) {
  for_each_piece(
      operation, output, inputs,
      [&](const ElementPlan& piece, std::span<const ElementMemory> memory) { f(make_batch(piece, memory)); }, limit);
}

}  // namespace tutti
