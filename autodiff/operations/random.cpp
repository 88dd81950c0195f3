// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/raise.h>

namespace tutti {
namespace {

void check_rows(std::string_view operation, std::string_view what, const Tensor& x) {
  if (!is_floating(x.dtype()))
    raise<DTypeError>("[{}] {} are {}: they must be of a floating type", operation, what, to_string(x.dtype()));
  if (x.rank() == 0 || x.length(-1) == 0)
    raise<ShapeError>("[{}] {} {} have no classes in their last axis", operation, what, to_string(x.shape()));
}

Tensor wide_gumbel(const Shape& shape, Generator& generator, Device device) {
  return gumbel(shape, generator, 0.0, 1.0, {.dtype = DType::f64, .device = device});
}

}  // namespace

Tensor uniform(const Shape& shape, Generator& generator, double low, double high, const TensorOptions& options) {
  const OperationScope scope("uniform");
  const DType dtype = options.dtype.value_or(DType::f32);
  return Tensor(generator.uniform(shape, dtype, options.device, low, high), options.requires_grad);
}

Tensor normal(const Shape& shape, Generator& generator, double mean, double standard_deviation,
              const TensorOptions& options) {
  const OperationScope scope("normal");
  const DType dtype = options.dtype.value_or(DType::f32);
  return Tensor(generator.normal(shape, dtype, options.device, mean, standard_deviation), options.requires_grad);
}

Tensor truncated_normal(const Shape& shape, Generator& generator, double mean, double standard_deviation, double low,
                        double high, const TensorOptions& options) {
  const OperationScope scope("truncated_normal");
  const DType dtype = options.dtype.value_or(DType::f32);
  return Tensor(generator.truncated_normal(shape, dtype, options.device, mean, standard_deviation, low, high),
                options.requires_grad);
}

Tensor bernoulli(const Tensor& probabilities, Generator& generator) {
  const OperationScope scope("bernoulli", probabilities);
  const DType dtype = probabilities.dtype();
  if (!is_floating(dtype))
    raise<DTypeError>("[bernoulli] probabilities are {}: they must be of a floating type", to_string(dtype));
  const NoGrad no_graph;
  const DType drawn = is_narrow(dtype) ? DType::f32 : dtype;
  const Tensor numbers(generator.uniform(probabilities.shape(), drawn, probabilities.device()));
  return cast(numbers < cast(probabilities, drawn), dtype);
}

Tensor categorical(const Tensor& logits, Generator& generator) {
  const OperationScope scope("categorical", logits);
  check_rows("categorical", "logits", logits);
  const NoGrad no_graph;
  return argmax(cast(logits, DType::f64) + wide_gumbel(logits.shape(), generator, logits.device()), -1);
}

Tensor multinomial(const Tensor& weights, std::int64_t count, Generator& generator) {
  const OperationScope scope("multinomial", weights);
  check_rows("multinomial", "weights", weights);
  if (count < 0) raise<ShapeError>("[multinomial] {} draws", count);
  const NoGrad no_graph;
  Shape shape = weights.shape();
  shape.insert(shape.size() - 1, count);
  const Tensor wide = cast(weights, DType::f64);
  const Tensor logits = expand_dims(log(where(wide > 0.0, wide, 0.0)), -2);  // a negative or NaN weight is none
  return argmax(logits + wide_gumbel(shape, generator, weights.device()), -1);
}

Tensor permutation(std::int64_t count, Generator& generator, Device device) {
  const OperationScope scope("permutation");
  Array::empty({count}, DType::i64, device);  // what no machine holds is refused here
  return Tensor(Array::from(generator.permutation(count), {count}, device));
}

}  // namespace tutti
