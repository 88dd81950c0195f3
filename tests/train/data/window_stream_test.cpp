// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/data/window_stream.h>

#include <doctest/doctest.h>

#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {

/// first, first + 1, ..., and 100 more in each epoch.
class Numbers : public DataStream<int> {
 public:
  Numbers(int first, int count) : first_(first), count_(count) {}
  std::optional<int> next() override {
    if (place_ == count_) return std::nullopt;
    return first_ + 100 * epoch_ + place_++;
  }
  void start_epoch(std::int64_t epoch) override {
    epoch_ = static_cast<int>(epoch);
    place_ = 0;
  }
  std::string position() const override { return std::to_string(epoch_) + " " + std::to_string(place_); }
  void seek(const std::string& position) override {
    epoch_ = std::stoi(position);
    place_ = std::stoi(position.substr(position.find(' ')));
  }

 private:
  int first_;
  int count_;
  int epoch_ = 0;
  int place_ = 0;
};

/// 10 11 12 | skipped | nothing | 40 41
WindowStream<int> make_stream() {
  return {4, [](std::int64_t window) -> std::unique_ptr<DataStream<int>> {
            if (window == 1) return nullptr;
            const int counts[] = {3, 0, 0, 2};
            return std::make_unique<Numbers>(static_cast<int>(window + 1) * 10, counts[window]);
          }};
}

std::vector<int> rest_of_window(DataStream<int>& stream) {
  std::vector<int> items;
  while (const auto item = stream.next()) items.push_back(*item);
  return items;
}

/// All that is left, each window with what next_window said.
std::vector<std::vector<int>> rest_of(WindowStream<int>& stream) {
  std::vector<std::vector<int>> windows;
  for (;;) {
    const NextWindow next = stream.next_window();
    if (next == NextWindow::end) return windows;
    windows.push_back(next == NextWindow::skip ? std::vector<int>{-1} : rest_of_window(stream));
  }
}

using Windows = std::vector<std::vector<int>>;

}  // namespace

TEST_CASE("WindowStream: window by window, with windows to skip, epoch after epoch") {
  WindowStream<int> stream = make_stream();
  CHECK(stream.window() == -1);
  CHECK(rest_of(stream) == Windows{{10, 11, 12}, {-1}, {}, {40, 41}});
  CHECK(stream.next_window() == NextWindow::end);
  CHECK_FALSE(stream.next());
  stream.start_epoch(1);
  CHECK_THROWS_WITH_AS(stream.next(), doctest::Contains("before next_window()"), Error);
  CHECK(stream.next_window() == NextWindow::ready);
  CHECK(stream.next() == 110);
  CHECK(stream.next_window() == NextWindow::skip);  // leaves the rest
  CHECK_FALSE(stream.next());
  CHECK(stream.window() == 1);
  CHECK(rest_of(stream) == Windows{{}, {140, 141}});
}

TEST_CASE("WindowStream: plain use gives all items as one stream") {
  WindowStream<int> stream = make_stream();
  CHECK(rest_of_window(stream) == std::vector<int>{10, 11, 12, 40, 41});
  CHECK_FALSE(stream.next());
  stream.start_epoch(2);
  CHECK(stream.next() == 210);
}

TEST_CASE("WindowStream: windowed and plain use do not mix") {
  WindowStream<int> plain = make_stream();
  CHECK(plain.next() == 10);
  CHECK_THROWS_WITH_AS(plain.next_window(), doctest::Contains("do not mix"), Error);
  plain.start_epoch(1);
  CHECK_THROWS_AS(plain.next_window(), Error);
  CHECK(plain.next() == 110);
  WindowStream<int> windowed = make_stream();
  CHECK(windowed.next_window() == NextWindow::ready);
  CHECK_THROWS_WITH_AS(windowed.seek(plain.position()), doctest::Contains("plain"), Error);
  CHECK(windowed.next() == 10);
  CHECK_THROWS_AS(WindowStream<int>(-1, nullptr), Error);
  WindowStream<int> tried = make_stream();  // by a checkpoint that was refused
  const std::string before = tried.position();
  tried.seek(windowed.position());
  tried.seek(before);
  CHECK(tried.next() == 10);
}

TEST_CASE("WindowStream: goes on from any position as if nothing had been") {
  for (const bool windowed : {true, false}) {
    CAPTURE(windowed);
    // A text before everything, and after each call.
    WindowStream<int> stream = make_stream();
    stream.start_epoch(3);
    for (int calls = 0; calls < 12; ++calls) {
      CAPTURE(calls);
      WindowStream<int> resumed = make_stream();
      resumed.seek(stream.position());
      CHECK(resumed.position() == stream.position());
      WindowStream<int> other = make_stream();
      other.seek(stream.position());
      CHECK(other.window() == stream.window());
      if (!windowed) {
        CHECK(rest_of_window(resumed) == rest_of_window(other));
        stream.next();
        continue;
      }
      // `next` first, or `next_window`, which then speaks of the same window.
      Windows expected;
      if (stream.window() >= 0 && other.position().find("\"inside\":true") != std::string::npos)
        expected.push_back(rest_of_window(other));
      for (const auto& window : rest_of(other)) expected.push_back(window);
      CHECK(rest_of(resumed) == expected);
      if (stream.window() < 0 || !stream.next()) stream.next_window();
    }
  }
}

TEST_CASE("WindowStream: what is no position is refused, and nothing has changed") {
  WindowStream<int> stream = make_stream();
  stream.next_window();
  stream.next();
  const std::string position = stream.position();
  for (const char* bad :
       {"", "7", R"({"use":"windowed"})", R"({"use":"round","epoch":0,"window":0,"inside":false,"inner":""})",
        R"({"use":"windowed","epoch":0,"window":4,"inside":false,"inner":""})",
        R"({"use":"windowed","epoch":0,"window":-1,"inside":true,"inner":""})",
        R"({"use":"windowed","epoch":-1,"window":0,"inside":false,"inner":""})",
        R"({"use":"windowed","epoch":0,"window":1,"inside":true,"inner":"0 0"})"})
    CHECK_THROWS_AS(stream.seek(bad), DataError);
  CHECK(stream.position() == position);
  CHECK(stream.next() == 11);
}
