// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <tutti/backend/error.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/test_devices.h>
#include <tutti/train/reporting/metrics.h>

#include <cmath>
#include <filesystem>

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("RunningAverage: weighs its values") {
  RunningAverage average;
  CHECK(average.mean() == 0.0);
  average.add(2.0, 3.0);
  average.add(6.0);
  CHECK(average.mean() == 3.0);
  CHECK(average.weight() == 4.0);
  average.add(std::nan(""), 0.0);
  CHECK(average.mean() == 3.0);
  for (const double weight : {-1.0, std::nan("")}) CHECK_THROWS_AS(average.add(1.0, weight), Error);
  CHECK(average.mean() == 3.0);
  CHECK(average.weight() == 4.0);
  average.reset();
  CHECK(average.weight() == 0.0);
}

TEST_CASE("RunningAverage: parts merge to the same bits, and are found again") {
  RunningAverage whole;
  RunningAverage parts[2];
  for (int i = 0; i < 1000; ++i) {
    const double loss = static_cast<float>(std::sin(i) + 1.0);
    whole.add(loss, static_cast<float>(i % 7) / 3.0F);
    parts[i % 3 == 0].add(loss, static_cast<float>(i % 7) / 3.0F);
  }
  parts[1].merge(parts[0]);
  CHECK(parts[1].mean() == whole.mean());
  CHECK(parts[1].weight() == whole.weight());
  RunningAverage found;
  found.load_text(parts[1].to_text());
  CHECK(found.mean() == whole.mean());
  for (const char* text : {"1", "1 2 3", "0 1 2 3", "x", "1 0.5 1 1 ."})
    CHECK_THROWS_AS(found.load_text(text), DataError);
  CHECK(found.mean() == whole.mean());
}

TEST_CASE("RunningAverage: takes losses of a device") {
  const Tensor losses(Array::from(std::vector<float>{1, 2, NAN}, {3}, test_device()), true);
  const Tensor weights(Array::from(std::vector<float>{1, 3, 0}, {3}, test_device()));
  RunningAverage average;
  average.add(losses, weights);
  CHECK(average.mean() == 1.75);
  average.add(Tensor(Array::full({}, 5.75, DType::f64, test_device())));
  CHECK(average.mean() == 2.55);
  CHECK_THROWS_AS(average.add(losses, losses.detach().reshape({3, 1})), ShapeError);
}

TEST_CASE("count_correct: compares the largest logit with the target") {
  const Tensor logits(Array::from(std::vector<float>{0, 1, 5, 2, 3, 3}, {3, 2}, test_device()), true);
  const auto targets = [](std::vector<std::int64_t> values) {
    return Tensor(Array::from(values, {static_cast<std::int64_t>(values.size())}, test_device()));
  };
  CHECK(count_correct(logits, targets({1, 0, 0})) == 3);
  CHECK(count_correct(logits, targets({0, 0, 1})) == 1);
  CHECK(count_correct(Tensor(Array::zeros({0, 2}, DType::f32, test_device())), targets({})) == 0);
  CHECK_THROWS_AS(count_correct(logits, targets({1})), ShapeError);
  CHECK_THROWS_WITH_AS(count_correct(logits, targets({1, 2, 0})),
                       "[count_correct] row 1: target 2 is none of the 2 classes", DataError);
  const Tensor broken(Array::from(std::vector<float>{NAN, 1, 1, NAN, 1, 0}, {3, 2}, test_device()));
  CHECK(count_correct(broken, targets({0, 0, 0})) == 1);
}

TEST_CASE("MetricsWriter: one object a line, there at once, in the order given") {
  const TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  MetricsWriter writer(path);
  writer.write({{"step", 3}, {"loss", 0.5}, {"best", true}, {"device", "cpu:\"0\"\n"}});
  CHECK(read_file(path) == "{\"step\":3,\"loss\":0.5,\"best\":true,\"device\":\"cpu:\\\"0\\\"\\n\"}\n");
  writer.write({{"loss", std::nan("")}, {"text", "\xff"}});
  const std::string text = read_file(path);
  const std::string second = text.substr(text.find('\n') + 1);
  CHECK(nlohmann::json::parse(second)["loss"].is_null());
}

TEST_CASE("MetricsWriter: replaces or appends") {
  const TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  MetricsWriter(path).write({{"a", 1}});
  MetricsWriter(path, MetricsWriter::Mode::append).write({{"b", 2}});
  CHECK(read_file(path) == "{\"a\":1}\n{\"b\":2}\n");
  MetricsWriter(path).write({{"c", 3}});
  CHECK(read_file(path) == "{\"c\":3}\n");
}

TEST_CASE("MetricsWriter: names the path that it cannot write") {
  const TemporaryFolder folder;
  const std::string path = folder.file("missing/metrics.jsonl");
  CHECK_THROWS_WITH_AS(MetricsWriter{path}, doctest::Contains(path.c_str()), DataError);
  CHECK_THROWS_AS(MetricsWriter{folder.path().string()}, DataError);
  if (!std::filesystem::exists("/dev/full")) return;
  MetricsWriter full("/dev/full");
  CHECK_THROWS_WITH_AS(full.write({{"a", 1}}), doctest::Contains("/dev/full"), DataError);
}
