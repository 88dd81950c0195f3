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

TEST_CASE("positions: with steps of another size the rest of the epoch is given, each example once") {
  const auto flat = [](const Targets& steps) {
    std::vector<std::int64_t> all;
    for (const auto& step : steps) all.insert(all.end(), step.begin(), step.end());
    return all;
  };
  struct Change {
    std::size_t from, to;  // devices; the batch of each stays
  };
  for (const auto& [from, to] : {Change{2, 1}, Change{1, 2}, Change{4, 2}, Change{3, 2}}) {
    CAPTURE(from);
    CAPTURE(to);
    const BatchStream before = batches(3, from);
    const BatchStream after = batches(3, to);
    const std::vector<std::int64_t> all = flat(joined(before, before.stream()->position()));
    const auto stream = before.stream();
    for (std::size_t given = 0; given < all.size(); given += 3 * from) {
      CAPTURE(given);
      const Targets left = joined(after, stream->position());
      CHECK(flat(left) == std::vector(all.begin() + static_cast<std::ptrdiff_t>(given), all.end()));
      for (std::size_t i = 0; i + 1 < left.size(); ++i) CHECK(left[i].size() == 3 * to);
      const auto resumed = after.stream();
      resumed->seek(stream->position());
      CHECK(resumed->next()->first == static_cast<std::int64_t>(given));
      resumed->start_epoch(1);
      CHECK(rest(*resumed).size() == static_cast<std::size_t>(after.steps()));
      stream->next();
    }
    CHECK(joined(after, stream->position()).empty());
  }
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
  refused(batches(6, 1, 4, 24).stream()->position(), "[24, 2]");
  refused("", "no position");
  refused("[1, 2]", "no position");
  refused(std::string(100'000, '['), "no position");
  refused("{}", "lacks \"epoch\"");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string position = before;
    return position.replace(position.find(from), from.size(), to);
  };
  refused(changed("\"examples\":6", "\"examples\":-1"), "\"examples\" of the position is -1");
  refused(changed("\"examples\":6", "\"examples\":24"), "24 examples of an epoch that has 23");
  refused(changed("\"examples\":6", "\"examples\":99999999999999999999"), "\"examples\"");
  refused(changed("\"epoch\":0", "\"epoch\":18446744073709551615"), "\"epoch\"");
  refused(changed("\"epoch\":0", "\"epoch\":\"0\""), "\"epoch\"");
  stream->seek(changed("\"examples\":6", "\"examples\":23"));
  CHECK(!stream->next());
  CHECK_THROWS_AS(stream->start_epoch(-1), Error);
  CHECK_THROWS_AS(batches(6, 1).stream(1), Error);
}
