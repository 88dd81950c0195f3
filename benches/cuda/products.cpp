// SPDX-License-Identifier: Apache-2.0
// Products of square matrices beside cuBLAS, called directly: floating-point operations a second.
#include <tutti/benches/cuda/measurement.h>

#include <tutti/backend/operations.h>
#include <tutti/backend/process/environment.h>
#include <tutti/benches/cuda/peer_calls.h>

namespace tutti::bench {
namespace {

void bench_product(const BenchOptions& options, DType dtype, BenchResults& results) {
  const bool tf32 = dtype == DType::f32 && environment_switch("TUTTI_CUDA_TF32");
  const Shape shape{options.size, options.size};
  Generator random(3);
  const Array a = random.normal(shape, DType::f32, options.device).cast(dtype);
  const Array b = random.normal(shape, DType::f32, options.device).cast(dtype);
  const Array c = Array::zeros(shape, dtype, options.device);
  const double n = static_cast<double>(options.size);
  BenchRow row{.table = "matmul", .name = tf32 ? "tf32" : std::string(to_string(dtype)), .work = 2 * n * n * n};
  row.seconds = seconds_of(options.device, options.seconds, [&] { (void)matmul(a, b, c); });
  if (const PeerCall peer = make_product(a, b, c, tf32); peer.run) {
    row.peer = "cuBLAS";
    row.peer_work = row.work;
    row.peer_seconds = seconds_of(options.device, options.seconds, peer.run) / peer.calls;
  }
  results.add(std::move(row));
}

}  // namespace

void bench_products(const BenchOptions& options, BenchResults& results) {
  for (const DType dtype : kAllDTypes)
    if (is_floating(dtype) && size_of(dtype) <= 4) bench_product(options, dtype, results);
}

}  // namespace tutti::bench
