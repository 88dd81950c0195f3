// SPDX-License-Identifier: Apache-2.0
// Operations that make tensors of numbers alone. They have no references, which are of tensors, but calls to vary.
#include <tutti/tests/references/operations.h>

#include <tutti/autodiff/operations.h>

#define TUTTI_CREATION(name, attributes, ...)                               \
  {                                                                         \
    {#name, #name, [](const Call& c) -> Results { return __VA_ARGS__; }}, { \
      #name, #name, Attributes(attributes), {}, {}, {}, {}, {}, {}          \
    }                                                                       \
  }

namespace tutti::testing {
namespace {

Shape shape(const Call& c) { return c.attributes.integers("shape"); }
std::int64_t integer(const Call& c, std::string_view name) { return c.attributes.integer(name); }

Tensor range_of(const Call& c) {
  return c.attributes.flag("floating")
             ? arange(c.attributes.number("begin"), c.attributes.number("end"), c.attributes.number("step"))
             : arange(integer(c, "begin"), integer(c, "end"), integer(c, "step"));
}

Tensor draws(const Call& c) {
  Generator random(1);
  return multinomial(Tensor(Array::full({2, 3}, 1, DType::f32, cpu())), integer(c, "count"), random);
}

template <class Draw> Tensor drawn(Draw draw) {
  Generator random(1);
  return draw(random);
}

}  // namespace

std::vector<CreationCase> creation_cases() {
  const char* const kShape = "shape=2,3";
  return {
      TUTTI_CREATION(zeros, kShape, zeros(shape(c))),
      TUTTI_CREATION(ones, kShape, ones(shape(c), {.dtype = DType::f64})),
      TUTTI_CREATION(full, kShape, full(shape(c), 7)),
      TUTTI_CREATION(arange, "floating=0 begin=1 end=7 step=2", range_of(c)),
      TUTTI_CREATION(linspace, "count=5", linspace(0, 1, integer(c, "count"))),
      TUTTI_CREATION(eye, "rows=3 columns=4", eye(integer(c, "rows"), integer(c, "columns"))),
      TUTTI_CREATION(uniform, kShape, drawn([&](Generator& g) { return uniform(shape(c), g); })),
      TUTTI_CREATION(normal, kShape, drawn([&](Generator& g) { return normal(shape(c), g); })),
      TUTTI_CREATION(truncated_normal, kShape,
                     drawn([&](Generator& g) { return truncated_normal(shape(c), g, 0, 1, -1, 1); })),
      TUTTI_CREATION(exponential, kShape, drawn([&](Generator& g) { return exponential(shape(c), g); })),
      TUTTI_CREATION(gumbel, kShape, drawn([&](Generator& g) { return gumbel(shape(c), g); })),
      TUTTI_CREATION(laplace, kShape, drawn([&](Generator& g) { return laplace(shape(c), g); })),
      TUTTI_CREATION(cauchy, kShape, drawn([&](Generator& g) { return cauchy(shape(c), g); })),
      TUTTI_CREATION(log_normal, kShape, drawn([&](Generator& g) { return log_normal(shape(c), g); })),
      TUTTI_CREATION(randint, "shape=2,3 low=0 high=9",
                     drawn([&](Generator& g) { return randint(shape(c), g, integer(c, "low"), integer(c, "high")); })),
      TUTTI_CREATION(permutation, "count=5", drawn([&](Generator& g) { return permutation(integer(c, "count"), g); })),
      TUTTI_CREATION(multinomial, "count=5", draws(c)),
  };
}

}  // namespace tutti::testing
