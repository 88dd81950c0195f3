// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/train/reporting/writers/event_storage.h>

#include <cmath>
#include <limits>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using Value = EventStorage::Scalar;

namespace {

std::vector<Value> history(const EventStorage& storage, const char* name) {
  const auto* series = storage.find(name);
  REQUIRE(series != nullptr);
  return {series->history.begin(), series->history.end()};
}

}  // namespace

TEST_CASE("EventStorage: a value belongs to the iteration it was put in; a second one takes its place") {
  EventStorage storage(10);
  CHECK(storage.iteration() == 10);
  storage.put_scalar("loss", 3.0);
  storage.set_iteration(12);
  storage.put_scalars({{"loss", 2.0}, {"lr", 0.1}});
  storage.put_scalar("loss", 1.0);
  CHECK(history(storage, "loss") == std::vector<Value>{{10, 3.0}, {12, 1.0}});
  CHECK(storage.latest("lr") == Value{12, 0.1});
  CHECK(storage.latest("accuracy") == std::nullopt);
  CHECK(storage.find("accuracy") == nullptr);
  CHECK(storage.series().at(1).name == "lr");
}

TEST_CASE("EventStorage: going back forgets what is to come again") {
  EventStorage storage;
  for (int i = 0; i < 5; ++i) {
    storage.set_iteration(i);
    storage.put_scalar("loss", i);
    if (i == 4) storage.put_scalar("eval", 1.0);
  }
  storage.set_iteration(3);
  CHECK(history(storage, "loss") == std::vector<Value>{{0, 0}, {1, 1}, {2, 2}});
  CHECK(storage.latest("eval") == std::nullopt);
  CHECK(storage.median("eval") == std::nullopt);
  storage.put_scalar("loss", 7.0);
  CHECK(storage.latest("loss") == Value{3, 7.0});
}

TEST_CASE("EventStorage: starts are where the first values come after each way back") {
  EventStorage storage;
  CHECK(storage.starts().empty());
  const std::string nothing = storage.to_text();
  storage.set_iteration(5);
  storage.put_scalars({{"loss", 1.0}, {"lr", 1.0}});
  storage.set_iteration(6);
  storage.put_scalar("loss", 1.0);
  CHECK(storage.starts() == std::vector<std::int64_t>{5});
  storage.set_iteration(2);
  storage.set_iteration(3);
  storage.put_scalar("loss", 1.0);
  storage.load_text(nothing);
  storage.set_iteration(1);
  storage.put_scalar("loss", 1.0);
  CHECK(storage.starts() == std::vector<std::int64_t>{5, 3, 1});
}

TEST_CASE("EventStorage: the oldest values go when there are more than its history holds") {
  EventStorage storage(0, {.history = 3});
  for (int i = 0; i < 10; ++i) {
    storage.set_iteration(i);
    storage.put_scalar("loss", i);
  }
  CHECK(history(storage, "loss") == std::vector<Value>{{7, 7}, {8, 8}, {9, 9}});
  CHECK_THROWS_WITH_AS(EventStorage(0, {.history = 0}), doctest::Contains("history"), Error);
}

TEST_CASE("EventStorage: the median is over a window, and smoothing is a hint") {
  EventStorage storage(0, {.window = 4});
  using enum EventStorage::Smoothing;
  int iteration = 0;
  for (const double value : {100.0, 5.0, 1.0, 90.0, 2.0}) {
    storage.set_iteration(iteration++);
    storage.put_scalar("loss", value);
    storage.put_scalar("lr", value, none);
    if (iteration == 1) CHECK(storage.median("loss") == 100.0);
    if (iteration == 3) CHECK(storage.median("loss") == 5.0);
  }
  CHECK(storage.median("loss") == 3.5);  // of 5 1 90 2
  CHECK(storage.smoothed(*storage.find("loss")) == 3.5);
  CHECK(storage.smoothed(*storage.find("lr")) == 2.0);
  CHECK(storage.median("lr") == 3.5);
  storage.put_scalar("loss", std::nan(""));
  CHECK(std::isnan(storage.median("loss").value()));
}

TEST_CASE("EventStorage: scopes nest, and end in spite of an exception") {
  EventStorage storage;
  {
    const auto eval = storage.name_scope("eval");
    storage.put_scalar("loss", 1.0);
    try {
      const auto task = storage.name_scope("digits");
      storage.put_scalar("accuracy", 2.0);
      CHECK_THROWS_AS(storage.put_scalar("", 1.0), DataError);
      throw 1;
    } catch (int) {
    }
    storage.put_scalar("time", 3.0);
    CHECK(storage.latest("eval/time")->value == 3.0);  // reading takes whole names
  }
  storage.put_scalar("loss", 4.0);
  std::vector<std::string> names;
  for (const auto& series : storage.series()) names.push_back(series.name);
  CHECK(names == std::vector<std::string>{"eval/loss", "eval/digits/accuracy", "eval/time", "loss"});
}

TEST_CASE("EventStorage: refuses names that would not fit on a line") {
  EventStorage storage;
  for (const char* name : {"", "a\nb", "eval/", "\x7f"})
    CHECK_THROWS_WITH_AS(storage.put_scalar(name, 1.0), doctest::Contains("is no name"), DataError);
  CHECK(storage.series().empty());
  storage.put_scalar("größe, \"m\" 1", 1.0);
  CHECK(storage.latest("größe, \"m\" 1")->value == 1.0);
}

TEST_CASE("EventStorage: the text of its state gives back every bit") {
  EventStorage storage(7, {.history = 4});
  storage.set_samples(12'345'678'901 + 1.0 / 3);
  const std::vector<double> values = {0.1, -0.0, std::numeric_limits<double>::denorm_min(), INFINITY, 1e300 / 3};
  for (const double value : values) {
    storage.put_scalar("a name: with 3 spaces", value);
    storage.put_scalar("lr", -value, EventStorage::Smoothing::none);
    storage.set_iteration(storage.iteration() + 1);
  }
  storage.put_scalar("nothing", std::nan(""));
  EventStorage other;
  other.put_scalar("old", 1.0);
  other.load_text(storage.to_text());
  CHECK(other.iteration() == 12);
  CHECK(other.samples() == 12'345'678'901 + 1.0 / 3);
  CHECK(other.to_text() == storage.to_text());
  CHECK(other.find("old") == nullptr);
  CHECK(history(other, "a name: with 3 spaces") == history(storage, "a name: with 3 spaces"));
  CHECK(std::signbit(history(other, "a name: with 3 spaces").front().value));
  CHECK(std::isnan(other.latest("nothing")->value));
  CHECK(other.find("lr")->smoothing == EventStorage::Smoothing::none);
  EventStorage shorter(0, {.history = 2});
  shorter.load_text(storage.to_text());
  CHECK(shorter.find("lr")->history.size() == 2);
  CHECK(shorter.latest("lr") == storage.latest("lr"));
}

TEST_CASE("EventStorage: a text knows what was not written, and writers begin there") {
  const auto starts_after = [](const EventStorage& storage) {
    EventStorage other;
    other.load_text(storage.to_text());
    other.set_iteration(storage.iteration() + 1);
    other.put_scalar("lr", 1.0);
    return other.starts();
  };
  EventStorage storage;
  for (std::int64_t i = 0; i < 9; ++i) {
    storage.set_iteration(i);
    if (i % 3 == 1) storage.put_scalar("loss", 1.0);
    storage.put_scalar("lr", 1.0);
    if (i == 4) CHECK(starts_after(storage) == std::vector<std::int64_t>{5});  // nobody says what is written
    if (i == 6) storage.mark_written();
  }
  CHECK(starts_after(storage) == std::vector<std::int64_t>{7});
  storage.mark_written();
  CHECK(starts_after(storage) == std::vector<std::int64_t>{9});
  storage.set_iteration(2);
  storage.put_scalar("lr", 2.0);
  CHECK(starts_after(storage) == std::vector<std::int64_t>{2});
  EventStorage unwritten(5);
  unwritten.begin_marking();
  unwritten.mark_written();  // of nothing
  unwritten.put_scalar("lr", 1.0);
  unwritten.set_iteration(8);
  CHECK(starts_after(unwritten) == std::vector<std::int64_t>{5});
}

TEST_CASE("EventStorage: a text that is cut or changed is refused and changes nothing") {
  EventStorage storage(3);
  storage.put_scalars({{"loss", 0.5}, {"lr", 0.25}});
  const std::string text = storage.to_text();
  EventStorage other(9);
  other.put_scalar("kept", 1.0);
  const std::string before = other.to_text();
  for (std::size_t length = 0; length < text.size(); ++length) {
    const std::string cut = text.substr(0, length);
    if (cut.ends_with("loss\n3 0.5\n") || cut.ends_with("3 0 unknown\n")) continue;  // whole storages, of fewer names
    CHECK_THROWS_AS(other.load_text(cut), DataError);
  }
  CHECK_THROWS_AS(other.load_text(text + "median 1 loss\n3 0.5\n"), DataError);
  CHECK_THROWS_AS(other.load_text(text + "median 2 x\n3 0.5\n3 0.5\n"), DataError);
  CHECK_THROWS_AS(other.load_text(text + "mean 1 x\n3 0.5\n"), DataError);
  CHECK(other.to_text() == before);
}

TEST_SUITE_END();
