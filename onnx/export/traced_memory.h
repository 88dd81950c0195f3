// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/onnx/export/traced_graph.h>
#include <tutti/onnx/export/view_nodes.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::onnx {

/// Contents of arrays' memory while a model runs, as values of a graph. Operations see views of memory (rows,
/// transposes, repeated axes); ONNX has values only, so that a view becomes a Reshape, Slice and Transpose of the value
/// that the memory holds, and parts that are written one after the other become a Concat or a Pad.
class TracedMemory {
 public:
  explicit TracedMemory(TracedGraph& graph) : graph_(graph) {}

  /// Says that an array, an input or a member of the model, is this value. Nobody may write to it: Error naming it.
  void name(const std::string& name, const Array&, ValueId);

  ValueId read(const Array&);  ///< value of the array's shape
  /// A value for an operator that broadcasts: its shape broadcasts to the array's, the last `exact` axes as they are.
  ValueId read_to_broadcast(const Array&, std::size_t exact = 0);
  void write(const Array&, ValueId);  ///< a value of the array's shape
  void fill(const Array&, const Array& number);
  void write_constant(const Array&);  ///< writes what the array holds now
  void write_unknown(const Array&);   ///< writes what no operator makes: reading it is an Error
  /// True if what the array holds is an input, or made of one.
  bool varies(const Array&) const;

 private:
  struct Write {
    Array to;
    ValueId value;
  };
  /// Consecutive elements of a storage, kept alive, so that no other takes its address.
  struct Region {
    std::shared_ptr<Storage> storage;
    std::string name;        // name of the input or member; empty: memory of the model's own
    std::int64_t begin = 0;  // its first element's place in the storage
    std::int64_t size = 0;
    std::optional<ValueId> value;  // its elements, row-major; none: nothing yet
    std::optional<Array> filled;   // the number that all elements are
    std::vector<Write> writes;     // parts written since
    bool is_constant = false;      // memory that was there before, and is no member
    // Views that were read since it was written last, by offset, shape and strides.
    std::map<std::vector<std::int64_t>, ValueId> views;
  };

  Region* find(const Array&) const;
  Region& region_to_write(const Array&);
  void sweep();
  void settle(Region&);
  std::optional<Part> part_of(const Region&, const Write&, const std::optional<Shape>&);
  void require_all(const Region&, bool covered) const;
  Region& add_constant(const Array&);
  ValueId read_unrepeated(const Array&);

  TracedGraph& graph_;
  std::map<const Storage*, std::vector<std::unique_ptr<Region>>> regions_;
  std::size_t last_swept_ = 0;  // storages that were known after the last sweep
};

}  // namespace tutti::onnx
