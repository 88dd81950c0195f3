// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/operations.h>

#include <tutti/autodiff/operations.h>

namespace tutti::testing {
namespace {

bool descending(const Call& c) { return c.attributes.flag("descending"); }

std::vector<Tensor> both(const Sorted& sorted) { return {sorted.values, sorted.indices}; }
std::vector<Tensor> both(const RunningExtremes& running) { return {running.values, running.indices}; }

}  // namespace

std::vector<Operation> ordering_operations() {
  return {
      TUTTI_REFERENCE(prod, prod(c.x[0], axes(c), keep(c))),
      TUTTI_REFERENCE(any_true, any_true(c.x[0], axes(c), keep(c))),
      TUTTI_REFERENCE(all_true, all_true(c.x[0], axes(c), keep(c))),
      TUTTI_REFERENCE(count_nonzero, count_nonzero(c.x[0], axes(c), keep(c))),
      TUTTI_REFERENCE(cumsum, cumsum(c.x[0], axis(c))),
      TUTTI_REFERENCE(cumprod, cumprod(c.x[0], axis(c))),
      TUTTI_REFERENCE(cummax, both(cummax(c.x[0], axis(c)))),
      TUTTI_REFERENCE(cummin, both(cummin(c.x[0], axis(c)))),
      TUTTI_REFERENCE(logcumsumexp, logcumsumexp(c.x[0], axis(c))),
      TUTTI_REFERENCE(median, median(c.x[0], axes(c), keep(c))),
      TUTTI_REFERENCE(quantile, quantile(c.x[0], c.attributes.number("q"), axes(c), keep(c))),
      TUTTI_REFERENCE(searchsorted, searchsorted(c.x[0], c.x[1], c.attributes.flag("right"))),
      TUTTI_REFERENCE(sort, both(sort(c.x[0], axis(c), descending(c)))),
      TUTTI_REFERENCE(argsort, argsort(c.x[0], axis(c), descending(c))),
      TUTTI_REFERENCE(topk, both(topk(c.x[0], c.attributes.integer("count"), axis(c), c.attributes.flag("largest")))),
  };
}

}  // namespace tutti::testing
