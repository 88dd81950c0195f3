// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/export/traced_memory.h>

#include <tutti/backend/raise.h>
#include <tutti/onnx/export/view_nodes.h>
#include <tutti/onnx/export/view_plan.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace tutti::onnx {

namespace {

std::int64_t elements_of(const Storage& storage, DType dtype) {
  return static_cast<std::int64_t>(storage.bytes() / size_of(dtype));
}

/// First and last element that the view has, from the storage's beginning.
std::pair<std::int64_t, std::int64_t> extent(const Array& view) {
  std::int64_t first = view.offset();
  std::int64_t last = view.offset();
  for (std::size_t axis = 0; axis < view.rank(); ++axis) {
    const std::int64_t reach = (view.shape()[axis] - 1) * view.strides()[axis];
    (reach < 0 ? first : last) += reach;
  }
  return {first, last};
}

/// The axes from the largest stride to the smallest.
std::vector<std::int64_t> by_stride(const Array& view) {
  std::vector<std::int64_t> axes(view.rank());
  std::iota(axes.begin(), axes.end(), 0);
  const auto stride = [&](std::int64_t axis) { return view.strides()[static_cast<std::size_t>(axis)]; };
  if (!view.is_contiguous())
    std::ranges::stable_sort(axes, [&](std::int64_t a, std::int64_t b) { return stride(a) > stride(b); });
  return axes;
}

}  // namespace

void TracedMemory::name(const std::string& name, const Array& array, ValueId value) {
  const std::vector<std::int64_t> axes = by_stride(array);
  if (!array.permute(axes).is_contiguous()) return;  // it is spaced: what is read of it is a constant
  auto& regions = regions_[array.storage().get()];
  regions.push_back(std::make_unique<Region>());
  Region& region = *regions.back();
  region.storage = array.storage();
  region.name = name;
  region.value = graph_.transpose(value, axes);
  if (array.size() == 0) return;
  const auto [first, last] = extent(array);
  region.begin = first;
  region.size = last - first + 1;
}

TracedMemory::Region* TracedMemory::find(const Array& view) const {
  const auto found = regions_.find(view.storage().get());
  if (found == regions_.end() || view.size() == 0) return nullptr;
  const auto [first, last] = extent(view);
  for (const auto& region : found->second)
    if (first >= region->begin && last < region->begin + region->size) return region.get();
  return nullptr;
}

bool TracedMemory::varies(const Array& view) const {
  const Region* region = find(view);
  if (region == nullptr) return false;
  if (!region->value && region->writes.empty()) return true;  // what no operator makes
  return (region->value && graph_.varies(*region->value)) ||
         std::ranges::any_of(region->writes, [&](const Write& write) { return graph_.varies(write.value); });
}

TracedMemory::Region& TracedMemory::region_to_write(const Array& to) {
  auto& regions = regions_[to.storage().get()];
  const auto [first, last] = extent(to);
  for (const auto& region : regions) {
    if (last < region->begin || first >= region->begin + region->size) continue;
    if (!region->name.empty())
      raise(
          "[save_onnx] the model writes to \"{}\" while it runs: a file has no state. Call eval() before, and leave "
          "inputs and members as they are",
          region->name);
    if (region->is_constant)
      raise("[save_onnx] the model writes to memory that was there before it ran, {} {}: a file has no state",
            to_string(to.dtype()), to_string(to.shape()));
    region->views.clear();
    return *region;
  }
  regions.push_back(std::make_unique<Region>());
  Region& region = *regions.back();
  region.storage = to.storage();
  region.size = elements_of(*to.storage(), to.dtype());
  sweep();
  return region;
}

// Forgets memory that only this holds: nobody reads it any more.
void TracedMemory::sweep() {
  if (regions_.size() < 2 * last_swept_ + 64) return;
  std::erase_if(regions_, [](const auto& each) {
    const auto& regions = each.second;
    return regions.size() == 1 && regions.front()->name.empty() && !regions.front()->is_constant &&
           regions.front()->storage.use_count() == 1;
  });
  last_swept_ = regions_.size();
}

void TracedMemory::write(const Array& to, ValueId value) {
  Region& region = region_to_write(to);
  const std::vector<std::int64_t> axes = by_stride(to);
  const Array ordered = to.permute(axes);
  const ValueId in_order = graph_.transpose(value, axes);
  if (to.size() == region.size && is_contiguous(ordered.shape(), ordered.strides())) {
    region.writes.clear();
    region.filled.reset();
    region.value = in_order;
    return;
  }
  region.writes.push_back({ordered, in_order});
}

void TracedMemory::fill(const Array& to, const Array& number) {
  write(to, graph_.filled(to.shape(), number));
  Region& region = *find(to);
  if (region.writes.empty()) region.filled = number;
}

void TracedMemory::write_constant(const Array& to) { write(to, graph_.add_constant("", to.copy())); }

void TracedMemory::write_unknown(const Array& to) {
  if (!to.defined()) return;
  Region& region = region_to_write(to);
  region.value.reset();
  region.filled.reset();
  region.writes.clear();
}

/// What was written to memory of a region, as a part of its elements in one shape.
std::optional<Part> TracedMemory::part_of(const Region& region, const Write& write, const std::optional<Shape>& shape) {
  const auto plan = shape ? plan_view_in(*shape, write.to.offset() - region.begin, write.to.shape(), write.to.strides())
                          : std::nullopt;
  if (!plan || !std::ranges::is_sorted(plan->permutation) ||
      std::ranges::any_of(plan->box.steps, [](std::int64_t step) { return step != 1; }))
    return std::nullopt;
  return Part{plan->box, graph_.reshape(write.value, plan->box.lengths)};
}

// Brings the parts that were written into one value.
void TracedMemory::settle(Region& region) {
  if (region.writes.empty()) return;
  std::vector<std::int64_t> strides;
  for (const Write& write : region.writes)
    for (std::size_t axis = 0; axis < write.to.rank(); ++axis)
      if (write.to.shape()[axis] > 1) strides.push_back(write.to.strides()[axis]);
  const std::optional<Shape> shape = common_shape(std::move(strides), region.size);
  std::vector<Part> parts;
  for (const Write& write : region.writes)
    if (auto part = part_of(region, write, shape)) parts.push_back(std::move(*part));
  if (parts.size() < region.writes.size()) {
    require_all(region, false);
    for (const Write& write : region.writes)
      region.value = scattered_into(
          graph_, *region.value,
          plan_scattered(region.size, write.to.offset() - region.begin, write.to.shape(), write.to.strides()),
          write.value);
  } else if (const auto joined = joined_parts(graph_, parts)) {
    region.value = joined;
  } else if (region.filled && parts.size() == 1) {
    region.value = padded(graph_, parts.front(), *region.filled);
  } else {
    require_all(region, covers(parts));
    const DType dtype = graph_.dtype(parts.front().value);
    ValueId all = region.value ? graph_.reshape(*region.value, *shape)
                               : graph_.filled(*shape, Array::zeros({}, dtype, cpu()));  // all of it is replaced
    for (const Part& part : parts) all = replaced(graph_, all, part);
    region.value = all;
  }
  region.writes.clear();
  region.filled.reset();
}

void TracedMemory::require_all(const Region& region, bool covered) const {
  if (!region.value && !covered)
    raise(
        "[save_onnx] the model writes to a part of memory, {}, and reads more: what is there stays from call to call, "
        "and a file has no state",
        to_string(region.writes.front().to.shape()));
}

// Memory that was there before the model ran: all of it, as what is read of it may depend on lengths.
TracedMemory::Region& TracedMemory::add_constant(const Array& view) {
  auto& regions = regions_[view.storage().get()];
  regions.push_back(std::make_unique<Region>());
  Region& region = *regions.back();
  region.storage = view.storage();
  region.size = elements_of(*view.storage(), view.dtype());
  region.is_constant = true;
  const bool is_whole = view.is_contiguous() && view.size() == region.size;
  const Array all = is_whole ? view : as_strided(view, {region.size}, {1}, 0);
  region.value = graph_.add_constant("", all.copy());
  return region;
}

// `view` repeats nothing.
ValueId TracedMemory::read_unrepeated(const Array& view) {
  if (view.size() == 0) return graph_.add_constant("", view.copy());
  Region* region = find(view);
  if (region == nullptr) region = &add_constant(view);
  settle(*region);
  if (!region->value)
    raise("[save_onnx] {} are read that nobody has written, or that were made outside of the library's operations",
          to_string(view.shape()));
  const std::int64_t offset = view.offset() - region->begin;
  std::vector<std::int64_t> key{offset};
  for (const Dims* each : {&view.shape(), &view.strides()}) key.insert(key.end(), each->begin(), each->end());
  const auto [place, added] = region->views.try_emplace(std::move(key));
  if (!added) return place->second;

  // Axes that run backwards are read forwards, and turned around.
  Strides forwards = view.strides();
  std::int64_t first = offset;
  std::vector<std::int64_t> backwards;
  for (std::size_t axis = 0; axis < view.rank(); ++axis) {
    if (forwards[axis] >= 0 || view.shape()[axis] == 1) continue;
    first += (view.shape()[axis] - 1) * forwards[axis];
    forwards[axis] = -forwards[axis];
    backwards.push_back(static_cast<std::int64_t>(axis));
  }
  ValueId value = *region->value;
  if (first == 0 && view.size() == region->size && is_contiguous(view.shape(), forwards)) {
    value = graph_.reshape(value, view.shape());
  } else if (const auto plan = plan_view(graph_.shape(value), region->size, first, view.shape(), forwards)) {
    value = sliced(graph_, graph_.reshape(value, plan->box.of), plan->box);
    value = graph_.reshape(graph_.transpose(value, plan->permutation), view.shape());
  } else {
    value = scattered(graph_, value, plan_scattered(region->size, first, view.shape(), forwards));
  }
  if (!backwards.empty()) {
    const std::vector<std::int64_t> last(backwards.size(), -1);
    const std::vector<std::int64_t> before_all(backwards.size(), -TracedGraph::kToTheEnd);
    value = graph_.add("Slice", {value, numbers(last), numbers(before_all), numbers(backwards), numbers(last)},
                       graph_.dtype(value), view.shape());
  }
  place->second = value;
  return value;
}

ValueId TracedMemory::read_to_broadcast(const Array& view, std::size_t exact) {
  const std::size_t free_axes = view.rank() - std::min(exact, view.rank());
  Shape shape = view.shape();
  Strides strides = view.strides();
  if (view.size() > 0)
    for (std::size_t axis = 0; axis < view.rank(); ++axis)
      if (strides[axis] == 0) shape[axis] = 1;
  for (std::size_t axis = 0; axis < free_axes && shape[0] == 1; ++axis) {
    shape.erase(0);
    strides.erase(0);
  }
  const Array narrow = as_strided(view, shape, strides, view.offset());
  ValueId value = Operand::kNoValue;
  // A value with more axes of length 1 in front serves as well.
  Region* region = view.size() > 0 ? find(narrow) : nullptr;
  if (region != nullptr && region->value && region->writes.empty() && narrow.size() == region->size &&
      narrow.is_contiguous()) {
    const Shape& held = graph_.shape(*region->value);
    if (held.size() >= shape.size() && held.size() <= view.rank()) {
      const std::size_t more = held.size() - shape.size();
      if (std::all_of(held.begin(), held.begin() + more, [](std::int64_t length) { return length == 1; }) &&
          std::equal(shape.begin(), shape.end(), held.begin() + more))
        value = *region->value;
    }
  }
  if (value == Operand::kNoValue) value = read_unrepeated(narrow);
  Shape wanted = graph_.shape(value);
  const std::size_t behind = view.rank() - wanted.size();
  for (std::size_t axis = std::max(free_axes, behind); axis < view.rank(); ++axis)
    wanted[axis - behind] = view.shape()[axis];
  return graph_.expand(value, wanted);
}

ValueId TracedMemory::read(const Array& view) {
  return graph_.expand(read_to_broadcast(view, view.rank()), view.shape());
}

}  // namespace tutti::onnx
