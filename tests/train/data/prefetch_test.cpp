// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/raise.h>
#include <tutti/tests/train/data/numbered_examples.h>
#include <tutti/train/data/joined.h>
#include <tutti/train/data/mapped.h>
#include <tutti/train/data/prefetch.h>

#include <atomic>
#include <chrono>
#include <set>

using namespace tutti;
using namespace tutti::testing;

namespace {

/// Counts up to 10 in each epoch; fails, as often as is said, before some items.
class Counting final : public DataStream<int> {
 public:
  struct Record {
    std::atomic<int> read = 0;
    std::atomic<bool> is_inside = false;
    std::multiset<int> failures;
  };
  explicit Counting(Record& record) : record_(record) {}

  std::optional<int> next() override {
    CHECK(!record_.is_inside.exchange(true));  // one thread at a time
    std::this_thread::yield();
    record_.is_inside = false;
    if (const auto failure = record_.failures.find(place_); failure != record_.failures.end()) {
      record_.failures.erase(failure);
      raise<DataError>("item {} is damaged", place_);
    }
    if (place_ % 100 == 10) return std::nullopt;
    ++record_.read;
    return place_++;
  }
  void start_epoch(std::int64_t epoch) override {
    if (epoch < 0) raise("epoch {}", epoch);
    place_ = static_cast<int>(epoch) * 100;
  }
  std::string position() const override { return std::to_string(place_); }
  void seek(const std::string& position) override {
    if (position.empty()) raise<DataError>("no position");
    place_ = std::stoi(position);
  }

 private:
  Record& record_;
  int place_ = 0;
};

std::vector<int> items_of(DataStream<int>& stream) {
  std::vector<int> items;
  while (const auto item = stream.next()) items.push_back(*item);
  return items;
}

std::vector<int> numbers(int begin, int end) {
  std::vector<int> items;
  for (; begin < end; ++begin) items.push_back(begin);
  return items;
}

/// Waits until so many items were read; the deadline turns a hang into a failure.
void wait_for(const std::atomic<int>& read, int count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (read < count && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  REQUIRE(read >= count);
}

}  // namespace

TEST_CASE("prefetch: the same items and positions as without, for any depth, over epochs") {
  for (const std::size_t depth : {1U, 2U, 3U, 50U}) {
    Counting::Record record;
    Counting::Record plain_record;
    Counting plain(plain_record);
    const auto ahead = prefetch<int>(std::make_unique<Counting>(record), depth);
    for (const int epoch : {0, 2, 1}) {
      plain.start_epoch(epoch);
      ahead->start_epoch(epoch);
      for (int i = 0; i < 13; ++i) {
        CHECK(ahead->position() == plain.position());
        CHECK(ahead->next() == plain.next());
      }
    }
  }
  Counting::Record record;
  CHECK_THROWS_AS(prefetch<int>(std::make_unique<Counting>(record), 0), Error);
}

TEST_CASE("prefetch: reads as far ahead as it may, and no further") {
  Counting::Record record;
  const auto ahead = prefetch<int>(std::make_unique<Counting>(record), 3);
  CHECK(record.read == 0);  // nothing before it is wanted
  for (int taken = 1; taken <= 5; ++taken) {
    CHECK(ahead->next() == taken - 1);
    wait_for(record.read, taken + 3);
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    CHECK(record.read == taken + 3);
  }
}

TEST_CASE("prefetch: from every position, also while items are fetched ahead") {
  Counting::Record record;
  const auto ahead = prefetch<int>(std::make_unique<Counting>(record), 4);
  for (int place = 0; place <= 10; ++place) {
    ahead->next();
    ahead->seek(std::to_string(place));
    CHECK(ahead->position() == std::to_string(place));
    CHECK(items_of(*ahead) == numbers(place, 10));
    CHECK(!ahead->next());
    ahead->start_epoch(1);
    CHECK(ahead->next() == 100);
  }
}

TEST_CASE("prefetch: an error comes where it happened, and the next call tries again") {
  for (int place = 0; place <= 10; ++place) {
    CAPTURE(place);
    Counting::Record record;
    record.failures = {place, place};
    const auto ahead = prefetch<int>(std::make_unique<Counting>(record), 4);
    for (int i = 0; i < place; ++i) CHECK(ahead->next() == i);
    for (int i = 0; i < 2; ++i) {
      CHECK_THROWS_WITH_AS(ahead->next(), doctest::Contains("is damaged"), DataError);
      CHECK(ahead->position() == std::to_string(place));
    }
    CHECK(items_of(*ahead) == numbers(place, 10));
  }
}

TEST_CASE("prefetch: what is refused changes nothing") {
  Counting::Record record;
  const auto ahead = prefetch<int>(std::make_unique<Counting>(record), 4);
  CHECK(ahead->next() == 0);
  CHECK_THROWS_AS(ahead->seek(""), DataError);
  CHECK(ahead->position() == "1");
  CHECK(ahead->next() == 1);
  CHECK_THROWS_AS(ahead->start_epoch(-1), Error);
  CHECK(items_of(*ahead) == numbers(2, 10));
}

TEST_CASE("prefetch: ends promptly, whatever its thread is doing") {
  for (int taken = 0; taken <= 11; ++taken)
    for (const int failing : {0, 5, 20}) {
      Counting::Record record;
      record.failures = {failing};
      const auto ahead = prefetch<int>(std::make_unique<Counting>(record), 2);
      for (int i = 0; i < taken && i < failing; ++i) ahead->next();
    }
}

TEST_CASE("prefetch: batches on a thread of their own are those of the stream") {
  const BatchStream batches(numbered(29), {.batch = 3, .devices = test_devices(2), .seed = 2});
  const auto last_of = [](const Batch& batch) { return batch.targets.to_vector<std::int64_t>().back(); };
  for (std::size_t device = 0; device < 2; ++device) {
    const auto plain = mapped(batches.stream(device), last_of);
    const auto ahead = prefetch(mapped(prefetch(batches.stream(device)), last_of), 3);
    plain->start_epoch(1);
    ahead->start_epoch(1);
    while (const auto item = plain->next()) {
      CHECK(ahead->next() == item);
      CHECK(ahead->position() == plain->position());
    }
    CHECK(!ahead->next());
  }
}

TEST_CASE("prefetch: each process reads ahead what is its own of a divided world, an uneven last batch included") {
  const std::vector<std::vector<std::size_t>> splits{{2, 2}, {1, 3}, {1, 1, 1, 1}};
  for (const std::int64_t examples : {29, 25, 24})  // the last step of 12 has 5, 1 and 12
    for (const auto& split : splits) {
      std::multiset<std::int64_t> seen;
      std::size_t first = 0;
      for (const std::size_t count : split) {
        const WorldShare world{.processes = static_cast<int>(split.size()), .devices = 4, .first = first};
        const BatchStream batches(numbered(examples),
                                  {.batch = 3, .devices = test_devices(count), .world = world, .seed = 2});
        for (std::size_t device = 0; device < count; ++device) {
          CAPTURE(first + device);
          const auto plain = batches.stream(device);
          const auto ahead = prefetch(batches.stream(device), 2);
          CHECK(ahead->devices() == plain->devices());
          CHECK(ahead->division() == plain->division());
          for (const int epoch : {0, 1}) {
            plain->start_epoch(epoch);
            ahead->start_epoch(epoch);
            const std::string begin = ahead->position();
            const auto expected = rest(*plain);
            CHECK(expected.size() == static_cast<std::size_t>(batches.steps()));
            CHECK(rest(*ahead) == expected);
            CHECK(ahead->position() == plain->position());
            ahead->seek(begin);
            ahead->next();  // and from within the epoch, as after a checkpoint
            CHECK(rest(*ahead) == std::vector(expected.begin() + 1, expected.end()));
            if (epoch == 0)
              for (const auto& targets : expected) seen.insert(targets.begin(), targets.end());
          }
        }
        first += count;
      }
      CHECK(seen.size() == static_cast<std::size_t>(examples));
      CHECK(std::set(seen.begin(), seen.end()).size() == seen.size());
    }
}

TEST_CASE("mapped: an error leaves the position before its item") {
  Counting::Record record;
  bool is_broken = true;
  const auto stream = mapped(std::unique_ptr<DataStream<int>>(std::make_unique<Counting>(record)), [&](int item) {
    if (item == 3 && is_broken) raise("no {}", item);
    return std::to_string(2 * item);
  });
  for (int i = 0; i < 3; ++i) CHECK(stream->next() == std::to_string(2 * i));
  CHECK_THROWS_AS(stream->next(), Error);
  CHECK(stream->position() == "3");
  is_broken = false;
  CHECK(stream->next() == "6");
  stream->seek("9");
  CHECK(stream->next() == "18");
  CHECK(!stream->next());
}

TEST_CASE("streams around another: none is an error that names who was to read it") {
  const auto none = [] { return std::unique_ptr<DataStream<Batch>>(); };
  CHECK_THROWS_WITH_AS(prefetch(none()), "[prefetch] there is no stream to read", Error);
  CHECK_THROWS_WITH_AS(mapped(none(), [](const Batch& batch) { return batch.size; }),
                       "[mapped] there is no stream to read", Error);
  CHECK_THROWS_WITH_AS(joined(none(), 2), "[joined] there is no stream to read", Error);
}
