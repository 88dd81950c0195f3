// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/operations.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/test_devices.h>

#include <sstream>

namespace tutti::testing {
namespace {

Shape shape_of(const Call& c, std::string_view name = "shape") { return c.attributes.integers(name); }
std::int64_t at(const Call& c, std::string_view list, std::size_t place) { return c.attributes.integers(list)[place]; }
std::int64_t integer(const Call& c, std::string_view name) { return c.attributes.integer(name); }

Scatter kind(const Call& c) {
  const std::string& name = c.attributes.text("kind");
  return name == "set"    ? Scatter::set
         : name == "sum"  ? Scatter::add
         : name == "prod" ? Scatter::prod
         : name == "amax" ? Scatter::max
                          : Scatter::min;
}

std::vector<Tensor> all_of(const Unique& unique) { return {unique.values, unique.inverse, unique.counts}; }

std::vector<Padding> widths(const Call& c) {
  const Axes numbers = c.attributes.integers("widths");
  std::vector<Padding> pairs;
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) pairs.push_back({numbers[i], numbers[i + 1]});
  return pairs;
}

std::vector<Tensor> parts(const Call& c) {
  const Axes lengths = c.attributes.integers("lengths");
  return lengths.empty() ? split(c.x[0], integer(c, "length"), integer(c, "axis"))
                         : split(c.x[0], std::span(lengths.data(), lengths.size()), integer(c, "axis"));
}

std::optional<std::int64_t> range_end(std::istringstream& from) {
  std::string text;
  std::getline(from, text, ':');
  return text.empty() ? std::optional<std::int64_t>{} : std::stoll(text);
}

/// Functions that take a number for either operand.
std::vector<Tensor> of_literals(const Tensor& x) {
  return {atan2(x, 2),
          atan2(0.5, x),
          logaddexp(x, 0.5F),
          logaddexp(0.5, x),
          logical_and(x, 2),
          logical_or(false, x),
          logical_xor(x, 0.5),
          slice_assign(x, {range(1, 3), -1}, 2.5),
          slice_assign(x, {0}, 7)};
}

/// As the generator writes them: `1;2:5:2;...;newaxis;t`, of which t is the case's second input.
std::vector<Index> entries(const Call& c) {
  std::vector<Index> listed;
  std::istringstream words(c.attributes.text("entries"));
  for (std::string word; std::getline(words, word, ';');) {
    if (word == "newaxis") {
      listed.emplace_back(newaxis);
    } else if (word == "...") {
      listed.emplace_back(ellipsis);
    } else if (word == "t") {
      listed.emplace_back(c.x.at(1));
    } else if (word.find(':') == std::string::npos) {
      listed.emplace_back(std::stoll(word));
    } else {
      std::istringstream ends(word);
      const auto begin = range_end(ends);
      const auto end = range_end(ends);
      listed.emplace_back(range(begin, end, range_end(ends).value_or(1)));
    }
  }
  return listed;
}

}  // namespace

std::vector<Operation> shape_operations() {
  return {
      TUTTI_REFERENCE(cast, cast(c.x[0], c.attributes.dtype("to"))),
      TUTTI_REFERENCE(where, where(c.x[0], c.x[1], c.x[2])),
      TUTTI_REFERENCE(select, select(c.x[0], c.x[1], c.x[2])),
      TUTTI_REFERENCE(masked_fill, masked_fill(c.x[0], c.x[1], c.attributes.number("value"))),
      TUTTI_REFERENCE(one_hot, one_hot(c.x[0], integer(c, "classes"))),
      TUTTI_REFERENCE(literal,
                      std::vector<Tensor>{c.x[0] + 2, 2 - c.x[0], c.x[0] * 0.5, 3 / c.x[0], c.x[0] > 0, 0 <= c.x[0]}),
      TUTTI_REFERENCE(literal_function, of_literals(c.x[0])),
      TUTTI_REFERENCE(reshape, reshape(c.x[0], shape_of(c))),
      TUTTI_REFERENCE(permute, permute(c.x[0], c.attributes.integers("axes"))),
      TUTTI_REFERENCE(transpose, transpose(c.x[0], at(c, "axes", 0), at(c, "axes", 1))),
      TUTTI_REFERENCE(broadcast_to, broadcast_to(c.x[0], shape_of(c))),
      TUTTI_REFERENCE(sum_to, sum_to(c.x[0], shape_of(c))),
      TUTTI_REFERENCE(flatten, c.attributes.has("axis") ? flatten(c.x[0], integer(c, "axis")) : flatten(c.x[0])),
      TUTTI_REFERENCE(moveaxis, moveaxis(c.x[0], at(c, "axes", 0), at(c, "axes", 1))),
      TUTTI_REFERENCE(squeeze, squeeze(c.x[0], c.attributes.integers("axes"))),
      TUTTI_REFERENCE(expand_dims, expand_dims(c.x[0], integer(c, "axis"))),
      TUTTI_REFERENCE(tile, tile(c.x[0], shape_of(c, "counts"))),
      TUTTI_REFERENCE(flip, flip(c.x[0], c.attributes.integers("axes"))),
      TUTTI_REFERENCE(roll, c.attributes.has("axis") ? roll(c.x[0], integer(c, "shift"), integer(c, "axis"))
                                                     : roll(c.x[0], integer(c, "shift"))),
      TUTTI_REFERENCE(unfold, unfold(c.x[0], integer(c, "axis"), integer(c, "size"), integer(c, "step"))),
      TUTTI_REFERENCE(meshgrid, meshgrid(c.x, c.attributes.flag("xy") ? MeshOrder::xy : MeshOrder::ij)),
      TUTTI_REFERENCE(repeat_interleave, c.x.size() > 1
                                             ? repeat_interleave(c.x[0], c.x[1], integer(c, "axis"))
                                             : repeat_interleave(c.x[0], integer(c, "count"), integer(c, "axis"))),
      TUTTI_REFERENCE(slice,
                      slice(c.x[0], integer(c, "axis"), at(c, "range", 0), at(c, "range", 1), at(c, "range", 2))),
      TUTTI_REFERENCE(pad, pad(c.x[0], widths(c), c.attributes.number("value", 0))),
      TUTTI_REFERENCE(concatenate, concatenate(c.x, integer(c, "axis"))),
      TUTTI_REFERENCE(stack, stack(c.x, integer(c, "axis"))),
      TUTTI_REFERENCE(split, parts(c)),
      TUTTI_REFERENCE(take, take(c.x[0], c.x[1], integer(c, "axis"))),
      TUTTI_REFERENCE(diagonal, diagonal(c.x[0], integer(c, "offset"), at(c, "axes", 0), at(c, "axes", 1))),
      TUTTI_REFERENCE(tril, tril(c.x[0], integer(c, "diagonal"))),
      TUTTI_REFERENCE(triu, triu(c.x[0], integer(c, "diagonal"))),
      TUTTI_REFERENCE(to, to(c.x[0], test_device())),
      TUTTI_REFERENCE(gather, gather(c.x[0], integer(c, "axis"), c.x[1])),
      TUTTI_REFERENCE(embedding, embedding(c.x[0], c.x[1])),
      TUTTI_REFERENCE(scatter_add, scatter_add(shape_of(c), c.x[0], integer(c, "axis"), c.x[1])),
      TUTTI_REFERENCE(scatter, scatter(c.x[0], integer(c, "axis"), c.x[1], c.x[2], kind(c))),
      TUTTI_REFERENCE(masked_select, masked_select(c.x[0], c.x[1])),
      TUTTI_REFERENCE(argwhere, argwhere(c.x[0])),
      TUTTI_REFERENCE(unique, all_of(unique(c.x[0]))),
      TUTTI_REFERENCE(bincount, c.x.size() > 1 ? bincount(c.x[0], c.x[1], integer(c, "least"))
                                               : bincount(c.x[0], integer(c, "least"))),
      TUTTI_REFERENCE(slice_assign, slice_assign(c.x[0], entries(c), c.x[1])),
      {"index", "operator[]", [](const Call& c) -> Results { return c.x[0].at(entries(c)); }},
  };
}

}  // namespace tutti::testing
