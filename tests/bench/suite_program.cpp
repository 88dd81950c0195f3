// SPDX-License-Identifier: Apache-2.0
// A program with benchmarks of its own, as suite_test.cpp runs it.
#include <tutti/backend/array.h>
#include <tutti/backend/operations.h>
#include <tutti/bench.h>
#include <tutti/bench/count_allocations.h>

#include <memory>
#include <stdexcept>
#include <vector>

int main(int argc, char** argv) {
  using namespace tutti;
  const Array x = Array::from(std::vector<float>(1024, 1.0F), {1024}, cpu());
  std::vector<float> plain(1024, 1.0F);
  std::vector<float> sums(1024);
  bench::Suite suite;
  suite.add({.name = "add/1024",
             .run = [&] { bench::keep(apply(elementwise::Add{}, x, x)); },
             .baseline =
                 [&] {
                   for (std::size_t i = 0; i < plain.size(); ++i) sums[i] = plain[i] + plain[i];
                   bench::keep(sums.data());
                 },
             .work = {.flops = 1024, .bytes = 3 * 4096}});
  suite.add({.name = "heap/3", .run = [] {
               for (int i = 0; i < 3; ++i) bench::keep(std::make_unique<int>(i));
             }});
  suite.add({.name = "throws", .run = [] { throw std::runtime_error("no such thing"); }});
  suite.add({.name = "throws/3", .run = [] { throw 3; }});
  return suite.main(argc, argv);
}
