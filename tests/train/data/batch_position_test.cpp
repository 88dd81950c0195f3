// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/tests/train/data/numbered_examples.h>

using namespace tutti;
using namespace tutti::testing;

namespace {

BatchStream batches(std::int64_t batch, std::size_t devices, std::uint64_t seed = 4, std::int64_t examples = 23) {
  return {numbered(examples), {.batch = batch, .devices = test_devices(devices), .seed = seed}};
}

using Targets = std::vector<std::vector<std::int64_t>>;

/// Steps of all devices, joined in device order.
Targets joined(const BatchStream& all, const std::string& position) {
  Targets steps;
  for (std::size_t device = 0; device < all.devices().size(); ++device) {
    const auto stream = all.stream(device);
    stream->seek(position);
    const Targets own = rest(*stream);
    steps.resize(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) steps[i].insert(steps[i].end(), own[i].begin(), own[i].end());
  }
  return steps;
}

}  // namespace

TEST_CASE("positions: resuming anywhere gives what the uninterrupted run had, on any number of devices") {
  const BatchStream one = batches(6, 1);
  const auto whole = one.stream();
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    whole->start_epoch(epoch);
    const Targets all = rest(*whole);
    REQUIRE(all.size() == 4);
    const auto walked = one.stream();
    walked->start_epoch(epoch);
    for (std::size_t step = 0; step <= all.size(); ++step) {
      CAPTURE(step);
      const std::string position = walked->position();
      const Targets left(all.begin() + static_cast<std::ptrdiff_t>(step), all.end());
      CHECK(joined(batches(6, 1), position) == left);
      CHECK(joined(batches(3, 2), position) == left);
      CHECK(joined(batches(2, 3), position) == left);
      CHECK(joined(batches(1, 6), position) == left);
      CHECK(walked->next().has_value() == (step < all.size()));
    }
    CHECK(!walked->next().has_value());
  }
}

TEST_CASE("positions: every device has as many steps and the same positions, and batches say where they stand") {
  const BatchStream many = batches(4, 3, 1, 25);  // 25 = 2 x 12 + 1: two devices get nothing in the last step
  const auto first = many.stream(0);
  const auto last = many.stream(2);
  std::int64_t seen = 0;
  for (std::int64_t step = 0; step < 3; ++step) {
    CHECK(first->position() == last->position());
    const auto batch = first->next();
    const auto other = last->next();
    REQUIRE(batch);
    REQUIRE(other);
    CHECK(batch->step == step);
    CHECK(batch->first == seen);
    seen += 12;
    CHECK(other->size == (step == 2 ? 0 : 4));
  }
  CHECK(!first->next());
  CHECK(!last->next());
  CHECK(!last->next());
}

TEST_CASE("positions: a sampler's epochs, too") {
  const BatchStream drawn(numbered(5), {.batch = 4, .sampler = with_replacement(5, 10, 3)});
  CHECK(drawn.examples() == 10);
  const auto stream = drawn.stream();
  stream->start_epoch(1);
  stream->next();
  const std::string position = stream->position();
  const Targets left = rest(*stream);
  CHECK(left.size() == 2);
  CHECK(left[1].size() == 2);
  CHECK(joined(drawn, position) == left);
  CHECK_THROWS_AS(BatchStream(numbered(5), {.batch = 1, .sampler = sequential(6)}), Error);
  CHECK_THROWS_AS(BatchStream(numbered(5), {.batch = 3, .sampler = with_replacement(5, 2, 1)}), Error);
}

TEST_CASE("positions: a sampler of one's own, which must keep its word") {
  struct Backwards final : Sampler {
    std::int64_t examples() const override { return 4; }
    std::int64_t draws() const override { return 4; }
    std::vector<std::int64_t> order(std::int64_t epoch) const override {
      return epoch == 0 ? std::vector<std::int64_t>{3, 2, 1, 0} : std::vector<std::int64_t>{3, 2};
    }
    std::string description() const override { return "backwards"; }
  };
  const BatchStream batches(numbered(4), {.batch = 3, .sampler = std::make_shared<Backwards>()});
  const auto stream = batches.stream();
  CHECK(rest(*stream) == Targets{{3, 2, 1}, {0}});
  stream->start_epoch(1);
  CHECK_THROWS_WITH_AS(stream->next(), doctest::Contains("\"backwards\" drew 2 examples for epoch 1, not 4"), Error);
}

TEST_CASE("positions: those of other streams are refused by name, and nothing moves") {
  const auto stream = batches(6, 1).stream();
  stream->next();
  const std::string before = stream->position();
  const auto refused = [&](const std::string& position, const char* part) {
    CAPTURE(position);
    CHECK_THROWS_WITH_AS(stream->seek(position), doctest::Contains(part), DataError);
    CHECK(stream->position() == before);
  };
  refused(batches(6, 1, 5).stream()->position(), "seed 5");
  refused(batches(4, 2).stream()->position(), "steps of 8 examples (devices x batch); here they have 6");
  refused(batches(6, 1, 4, 24).stream()->position(), "[24, 2]");
  refused("", "no position");
  refused("[1, 2]", "no position");
  refused(std::string(100'000, '['), "no position");
  refused("{}", "lacks \"epoch\"");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string position = before;
    return position.replace(position.find(from), from.size(), to);
  };
  refused(changed("\"step\":1", "\"step\":-1"), "\"step\" of the position is -1");
  refused(changed("\"step\":1", "\"step\":5"), "step 5 of an epoch that has 4");
  refused(changed("\"step\":1", "\"step\":99999999999999999999"), "\"step\"");
  refused(changed("\"epoch\":0", "\"epoch\":18446744073709551615"), "\"epoch\"");
  refused(changed("\"epoch\":0", "\"epoch\":\"0\""), "\"epoch\"");
  stream->seek(changed("\"step\":1", "\"step\":4"));
  CHECK(!stream->next());
  CHECK_THROWS_AS(stream->start_epoch(-1), Error);
  CHECK_THROWS_AS(batches(6, 1).stream(1), Error);
}
