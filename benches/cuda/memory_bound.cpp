// SPDX-License-Identifier: Apache-2.0
// Kernels that memory bounds, beside a copy on the device: bytes read and written a second.
#include <tutti/benches/cuda/measurement.h>

#include <tutti/backend/operations.h>
#include <tutti/benches/cuda/peer_calls.h>

namespace tutti::bench {
namespace {

using namespace elementwise;
using Part = ElementwiseCall::Part;

class MemoryTable {
 public:
  MemoryTable(const BenchOptions& options, BenchResults& results)
      : options_(options),
        results_(results),
        count_(options.bytes / 4),
        columns_(std::min<std::int64_t>(1024, count_)),
        rows_(count_ / columns_) {}

  void run() {
    measure_copy();
    elementwise_rows();
    reduction_rows();
    optimizer_rows();
  }

 private:
  Array numbers(const Shape& shape) const { return Generator(1).uniform(shape, DType::f32, options_.device, 0.1, 1); }
  Array matrix() const { return numbers({rows_, columns_}); }

  void measure_copy() {
    const Array from = matrix();
    const Array to = Array::zeros(from.shape(), DType::f32, options_.device);
    const PeerCall copy = make_copy(from, to);
    copy_work_ = 2.0 * static_cast<double>(from.bytes());
    copy_seconds_ = seconds_of(options_.device, options_.seconds, copy.run) / copy.calls;
    results_.add({.table = "memory", .name = "copy of the device's", .seconds = copy_seconds_, .work = copy_work_});
  }

  /// `arrays`: how many times the memory of a matrix of f32 is read or written.
  void row(const char* name, double arrays, const std::function<void()>& work) {
    const double bytes = arrays * static_cast<double>(rows_ * columns_ * 4);
    results_.add({.table = "memory",
                  .name = name,
                  .seconds = seconds_of(options_.device, options_.seconds, work),
                  .work = bytes,
                  .peer = "copy",
                  .peer_seconds = copy_seconds_,
                  .peer_work = copy_work_});
  }

  void elementwise_rows() {
    const Array a = matrix();
    const Array b = matrix();
    const Array row_vector = numbers({columns_});
    row("fill", 1, [&] { (void)Array::full(a.shape(), 1.5, DType::f32, options_.device); });
    row("copy", 2, [&] { (void)a.copy(); });
    row("copy of a transpose", 2, [&] { (void)a.transpose().copy(); });
    row("copy of every second column", 1, [&] { (void)a.slice(1, 0, columns_, 2).copy(); });
    row("cast to f64", 3, [&] { (void)a.cast(DType::f64); });
    row("add", 3, [&] { (void)apply(Add{}, a, b); });
    row("add a row", 2, [&] { (void)apply(Add{}, a, row_vector); });
    row("less", 2.25, [&] { (void)apply(Less{}, a, b); });
    row("relu", 2, [&] { (void)apply(Relu{}, a); });
    row("exp", 2, [&] { (void)apply(Exp{}, a); });
    row("gelu", 2, [&] { (void)apply(Gelu{}, a); });
    row("gelu's gradient", 3, [&] { (void)apply_gradient(Gelu{}, Part::gradient, std::vector<Array>{a, b}); });
    row("uniform random numbers", 1, [&] { (void)Generator(2).uniform(a.shape(), DType::f32, options_.device); });
  }

  void reduction_rows() {
    const Array a = matrix();
    const Array b = matrix();
    const std::vector<std::int64_t> first{0};
    const std::vector<std::int64_t> last{1};
    row("sum of all", 1, [&] { (void)sum(a); });
    row("sum of rows", 1, [&] { (void)sum(a, last); });
    row("sum of columns", 1, [&] { (void)sum(a, first); });
    row("max of rows", 1, [&] { (void)reduce(Reduction::max, a, last); });
    row("argmax of rows", 1, [&] { (void)arg_reduce(ArgReduction::arg_max, a, 1); });
    row("softmax of rows", 2, [&] { (void)softmax(SoftmaxKind::softmax, a, 1); });
    row("softmax's gradient", 3, [&] { (void)softmax_gradient(SoftmaxKind::softmax, a, b, 1); });
  }

  void optimizer_rows() {
    const Array parameter = matrix();
    const Array gradient = matrix();
    const Array mean = matrix();
    const Array square = matrix();
    Backend& backend = backend_for(options_.device);
    const RuleOperands operands[] = {{parameter, gradient, {mean, square, Array()}}};
    row("SGD with momentum", 5, [&] { backend.optimizer_step(SgdStep{.rate = 1e-6, .momentum = 0.9}, operands); });
    row("AdamW", 7, [&] { backend.optimizer_step(AdamWStep{.rate = 1e-6, .step = 10}, operands); });
  }

  const BenchOptions& options_;
  BenchResults& results_;
  std::int64_t count_;
  std::int64_t columns_;
  std::int64_t rows_;
  double copy_seconds_ = 0;
  double copy_work_ = 0;
};

}  // namespace

void bench_memory_bound(const BenchOptions& options, BenchResults& results) { MemoryTable(options, results).run(); }

}  // namespace tutti::bench
