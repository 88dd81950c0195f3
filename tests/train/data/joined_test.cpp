// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/data/joined.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/train/list_stream.h>

#include <doctest/doctest.h>

using namespace tutti;

namespace {

std::unique_ptr<DataStream<Batch>> list(std::vector<Batch> batches) {
  return std::make_unique<ListStream>(std::move(batches));
}

Tensor zeros_here(const Shape& shape) { return zeros(shape, {.device = test_device()}); }
Batch empty_batch() { return {zeros_here({0, 3}), zeros_here({0, 2}), 0}; }

}  // namespace

TEST_CASE("joined: items one after the other, the last of what remains") {
  const std::vector<Batch> given{random_batch(4, 1), random_batch(1, 2), random_batch(3, 3)};
  const auto stream = joined(list(given), 2);
  const auto first = stream->next();
  REQUIRE(first);
  CHECK(first->size == 5);
  CHECK(first->inputs.to_vector<float>() == concatenate({given[0].inputs, given[1].inputs}).to_vector<float>());
  CHECK(first->targets.to_vector<float>() == concatenate({given[0].targets, given[1].targets}).to_vector<float>());
  const std::string position = stream->position();
  CHECK(stream->next()->inputs.to_vector<float>() == given[2].inputs.to_vector<float>());
  CHECK_FALSE(stream->next());
  stream->seek(position);
  CHECK(stream->next()->size == 3);
  stream->start_epoch(1);
  CHECK(stream->next()->size == 5);
}

TEST_CASE("joined: batches without examples add none") {
  const auto stream = joined(list({empty_batch(), random_batch(2, 1), empty_batch(), empty_batch()}), 2);
  CHECK(stream->next()->inputs.to_vector<float>() == random_batch(2, 1).inputs.to_vector<float>());
  CHECK(stream->next()->size == 0);
}

TEST_CASE("joined: an item that cannot be joined leaves the position before all of them") {
  const Batch other{zeros_here({2, 5}), zeros_here({2, 2}), 2};
  const auto stream = joined(list({random_batch(1, 1), other}), 2);
  const std::string position = stream->position();
  CHECK_THROWS_AS((void)stream->next(), ShapeError);
  CHECK(stream->position() == position);
  CHECK_THROWS_WITH_AS((void)joined(list({}), 0), doctest::Contains("0 items"), Error);
}
