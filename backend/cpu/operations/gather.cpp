// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/calls/index_meaning.h>
#include <tutti/backend/cpu/operations/axis_blocks.h>
#include <tutti/backend/elementwise/arithmetic.h>
#include <tutti/backend/memory/thread_cache.h>
#include <tutti/backend/raise.h>

#include <optional>

namespace tutti {
namespace {

/// Pairs the elements of an index array, of any strides, with those that they select along `axis` of a longer array,
/// which is contiguous.
class Selection {
 public:
  Selection(std::string_view operation, const std::optional<IndexMeaning>& meaning, const Shape& selected,
            const Array& index, std::size_t axis)
      : operation_(operation),
        meaning_(meaning),
        axis_(axis),
        shape_(index.shape()),
        blocks_(index.shape(), axis),
        selected_(selected, axis),
        strides_(contiguous_strides(selected)),
        index_strides_(index.strides()),
        index_(index.data<std::int64_t>()) {
    const Strides dense = contiguous_strides(shape_);
    for (std::size_t i = axis + 1; i < shape_.size(); ++i) {
      repeated_ = repeated_ && (shape_[i] == 1 || index_strides_[i] == 0);
      adjacent_ = adjacent_ && (shape_[i] == 1 || index_strides_[i] == dense[i]);
    }
  }

  std::int64_t outer() const { return blocks_.outer; }
  std::int64_t grain() const { return grain_of(blocks_.length * blocks_.inner); }

  /// Calls `f(i, place)` for the elements i of the index in outer blocks [begin, end), in order; `place` is selected.
  template <class F> void for_each(std::int64_t begin, std::int64_t end, F&& f) const {
    std::int64_t i = begin * blocks_.length * blocks_.inner;
    const bool alike = adjacent_ && blocks_.inner == selected_.inner;
    Behind behind(*this);
    const std::int64_t length = shape_.back();
    const std::int64_t lines = length == 0 ? 0 : blocks_.inner / length;
    const std::int64_t step = index_strides_[axis_];
    const std::int64_t longest = selected_.length;
    for (std::int64_t outer = begin; outer < end; ++outer) {
      const std::int64_t base = before(outer, strides_);
      std::int64_t at = before(outer, index_strides_);
      if (selected_.inner == 1) {  // nothing lies behind the axis: what `along` does, without the rest
        const std::int64_t* const index = index_ + at;
        for (std::int64_t position = 0; position < blocks_.length; ++position, ++i) {
          const std::int64_t chosen = index[position * step];
          if (chosen < 0 || chosen >= longest) raise_first_misfit();
          f(i, base + chosen);
        }
        continue;
      }
      for (std::int64_t position = 0; position < blocks_.length; ++position, at += step) {
        if (alike)
          for (std::int64_t inner = 0; inner < blocks_.inner; ++inner, ++i) f(i, base + along(at + inner) + inner);
        else
          for (std::int64_t line = 0; line < lines; ++line, behind.next())
            for (std::int64_t k = 0; k < length; ++k, ++i)
              f(i, base + along(at + behind.index + k * index_strides_.back()) + behind.place + k);
      }
    }
  }

  /// Whether elements beside each other are selected together, by one that is repeated.
  bool in_rows() const { return repeated_ && blocks_.inner == selected_.inner && blocks_.inner > 1; }
  std::int64_t row() const { return blocks_.inner; }
  std::int64_t rows() const { return blocks_.outer * blocks_.length; }
  std::int64_t grain_of_columns() const { return std::max<std::int64_t>(64, grain_of(rows())); }  // whole cache lines
  std::int64_t grain_of_rows() const { return grain_of(blocks_.inner); }
  /// The place where row `i` of the result begins in the longer array.
  std::int64_t place_of_row(std::int64_t i) const {
    const std::int64_t outer = i / blocks_.length;
    return before(outer, strides_) + along(before(outer, index_strides_) + i % blocks_.length * index_strides_[axis_]);
  }

 private:
  static std::int64_t grain_of(std::int64_t elements) { return std::max<std::int64_t>(1, 16384 / elements); }

  /// Offset of place `i` among the axes [first, last).
  static std::int64_t offset(std::int64_t i, const Shape& shape, std::size_t first, std::size_t last,
                             const Strides& strides) {
    std::int64_t offset = 0;
    for (std::size_t axis = last; axis-- > first;) {
      offset += i % shape[axis] * strides[axis];
      i /= shape[axis];
    }
    return offset;
  }
  std::int64_t before(std::int64_t outer, const Strides& strides) const {
    return offset(outer, shape_, 0, axis_, strides);
  }
  /// Goes through the lines along the last axis, which is behind the index', in order, and again from the first.
  struct Behind {
    explicit Behind(const Selection& selection) : of(selection), counts(selection.shape_.size()) {}
    void next() {
      for (std::size_t axis = of.shape_.size() - 1; --axis > of.axis_;) {
        index += of.index_strides_[axis];
        place += of.strides_[axis];
        if (++counts[axis] < of.shape_[axis]) return;
        counts[axis] = 0;
        index -= of.shape_[axis] * of.index_strides_[axis];
        place -= of.shape_[axis] * of.strides_[axis];
      }
    }

    const Selection& of;
    CachedVector<std::int64_t> counts;
    std::int64_t index = 0;  // offsets in the index,
    std::int64_t place = 0;  // and in what is selected
  };

  std::int64_t along(std::int64_t at) const {
    const std::int64_t index = index_[at];
    if (!fits(index)) raise_first_misfit();
    return index * selected_.inner;
  }
  bool fits(std::int64_t index) const { return index >= 0 && index < selected_.length; }

  // Of what several threads find, always the same: the first of the index. What is repeated is looked at once, and
  // counted once unless the user gave it so.
  [[noreturn]] void raise_first_misfit() const {
    Shape once = shape_;
    for (std::size_t axis = 0; axis < once.size(); ++axis)
      if (index_strides_[axis] == 0) once[axis] = 1;
    std::int64_t place = 0;
    const auto index = [&] { return index_[offset(place, once, 0, once.size(), index_strides_)]; };
    while (fits(index())) ++place;
    if (meaning_ && element_count(once) < element_count(meaning_->shape))
      raise_index(*meaning_, index(), selected_.length, offset(place, once, 0, once.size(), contiguous_strides(shape_)),
                  element_count(shape_));
    if (meaning_) raise_index(*meaning_, index(), selected_.length, place, element_count(once));
    raise<ShapeError>("[{}] index {} is out of range for axis {} of length {}", operation_, index(), axis_,
                      selected_.length);
  }

  std::string_view operation_;
  const std::optional<IndexMeaning>& meaning_;
  std::size_t axis_;
  Shape shape_;
  AxisBlocks blocks_;
  AxisBlocks selected_;
  Strides strides_;
  Strides index_strides_;
  bool repeated_ = true;  // behind the axis
  bool adjacent_ = true;
  const std::int64_t* index_;
};

std::optional<IndexMeaning> meaning_now() {
  const IndexMeaning* meaning = IndexScope::current();
  return meaning != nullptr ? std::optional(*meaning) : std::nullopt;
}

/// Calls `f` with the formula of what an element becomes.
template <class T, class F> void visit_join(Scatter kind, F&& f) {
  constexpr bool kNumber = !std::is_same_v<T, bool>;
  constexpr bool kComputed = kNumber && std::is_same_v<T, ComputedIn<T>>;
  if (kind == Scatter::set) return f([](T, T update) { return update; });
  if constexpr (kNumber)
    if (kind == Scatter::add) return f([](T x, T update) { return static_cast<T>(x + update); });
  if constexpr (kComputed) {
    if (kind == Scatter::prod) return f([](T x, T update) { return elementwise::Multiply{}.value(x, update); });
    if (kind == Scatter::max) return f([](T x, T update) { return elementwise::Maximum{}.value(x, update); });
    if (kind == Scatter::min) return f([](T x, T update) { return elementwise::Minimum{}.value(x, update); });
  }
}

}  // namespace

void CpuBackend::gather(const Array& input, std::size_t axis, const Array& index, const Array& output) {
  const auto work = [axis, meaning = meaning_now(), &pool = threads(output.device())](
                        const Array& from, const Array& places, const Array& to) {
    const Selection selection("gather", meaning, from.shape(), places, axis);
    visit_dtype(from.dtype(), [&]<class T>(std::type_identity<T>) {
      const T* source = from.data<T>();
      T* target = to.data<T>();
      if (selection.in_rows())
        return pool.parallel_for(selection.rows(), selection.grain_of_rows(),
                                 [&](std::int64_t begin, std::int64_t end) {
                                   const std::int64_t row = selection.row();
                                   for (std::int64_t i = begin; i < end; ++i)
                                     std::copy_n(source + selection.place_of_row(i), row, target + i * row);
                                 });
      pool.parallel_for(selection.outer(), selection.grain(), [&](std::int64_t begin, std::int64_t end) {
        selection.for_each(begin, end, [=](std::int64_t i, std::int64_t place) { target[i] = source[place]; });
      });
    });
  };
  stream(output.device()).launch("gather", work, input, index, output);
}

void CpuBackend::scatter(Scatter kind, const Array& updates, std::size_t axis, const Array& index,
                         const Array& output) {
  const char* const name = kind == Scatter::add ? "scatter_add" : "scatter";
  // Outer blocks never meet in an output element; within one, updates are joined in the order of the index.
  const auto work = [kind, name, axis, meaning = meaning_now(), &pool = threads(output.device())](
                        const Array& from, const Array& places, const Array& to) {
    const Selection selection(name, meaning, to.shape(), places, axis);
    visit_dtype(from.dtype(), [&]<class T>(std::type_identity<T>) {
      visit_join<T>(kind, [&](auto join) {
        const T* source = from.data<T>();
        T* target = to.data<T>();
        if (selection.in_rows()) {
          const auto join_rows = [&](std::int64_t first, std::int64_t last, std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = first; i < last; ++i) {
              T* const place = target + selection.place_of_row(i);
              const T* const row = source + i * selection.row();
              for (std::int64_t k = begin; k < end; ++k) place[k] = join(place[k], row[k]);
            }
          };
          if (selection.outer() == 1)  // each thread takes some columns of all rows
            return pool.parallel_for(
                selection.row(), selection.grain_of_columns(),
                [&](std::int64_t begin, std::int64_t end) { join_rows(0, selection.rows(), begin, end); });
          const std::int64_t block = selection.rows() / selection.outer();
          return pool.parallel_for(selection.outer(), selection.grain(), [&](std::int64_t begin, std::int64_t end) {
            join_rows(begin * block, end * block, 0, selection.row());
          });
        }
        pool.parallel_for(selection.outer(), selection.grain(), [&](std::int64_t begin, std::int64_t end) {
          selection.for_each(
              begin, end, [=](std::int64_t i, std::int64_t place) { target[place] = join(target[place], source[i]); });
        });
      });
    });
  };
  stream(output.device()).launch(name, work, updates, index, output);
}

}  // namespace tutti
