// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/line_gather.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/calls/index_meaning.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>

namespace tutti {

namespace {

// dtable[indices[i]] += dy[i]
struct EmbeddingGradient {
  static constexpr bool gives_rows = true;
  Shape table;
  SavedTensor saved;  // indices [k]

  void operator()(const auto& restore, const Tensor& dy, InputGradients& gradients) const {
    const Array indices = restore(saved).array();
    const std::int64_t count = indices.size();
    if (gradients.wants_rows(0)) {
      Shape rows = table;
      rows[0] = count;
      return gradients.set_rows(
          0, {indices.copy(), dy.array().reshape(rows), table, false});  // the caller may reuse his own
    }
    const std::int64_t columns = columns_of(table);
    const Tensor flat = reshape(dy, {count, columns});
    const Array index = index_of_rows(indices, columns);
    const Shape shape{table[0], columns};
    if (const Array place = gradients.destination(0); place.defined() && place.is_contiguous())
      gradients.set(0, Tensor(scatter_add(shape, flat.array(), 0, index, place.reshape(shape)).reshape(table)));
    else
      gradients.set(0, reshape(scatter_add_places(shape, flat, 0, Tensor(index)), table));
  }
};

}  // namespace

Tensor embedding(const Tensor& table, const Tensor& given) {
  const OperationScope scope("embedding", table, given);
  const Shape& shape = table.shape();
  if (shape.empty()) raise<ShapeError>("[embedding] the table is a scalar: it has no rows");
  if (!is_integral(given.dtype()))
    raise<DTypeError>("[embedding] indices are {}: they must be integers", to_string(given.dtype()));
  const Tensor indices = cast(given, DType::i64);
  if (indices.device() != table.device())
    raise<DeviceError>("[embedding] operands are on different devices: {} and {}", to_string(table.device()),
                       to_string(indices.device()));
  const std::int64_t count = indices.size();
  const std::int64_t columns = columns_of(shape);
  const Array flat = indices.array().reshape({count});
  Shape result = indices.shape();
  for (std::size_t axis = 1; axis < shape.size(); ++axis) result.push_back(shape[axis]);
  if (shape[0] == 0 && count > 0) raise<ShapeError>("[embedding] the table {} has no rows", to_string(shape));
  const IndexMeaning meaning{.operation = "embedding", .index = "id", .range = "rows", .shape = indices.shape()};
  const IndexScope rows(meaning);
  const Tensor inputs[] = {table};
  return record("embedding",
                gather(table.array().reshape({shape[0], columns}), 0, index_of_rows(flat, columns)).reshape(result),
                inputs, [&] {
                  return EmbeddingGradient{shape, {flat}};
                });
}

}  // namespace tutti
