// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/exchange/npy.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/train/data/numbered_examples.h>
#include <tutti/train/data/tokens.h>

#include <cstring>

using namespace tutti;
using namespace tutti::testing;

namespace {

using Values = std::vector<std::int64_t>;

Values read_all(const Tokens& tokens) {
  Values values(static_cast<std::size_t>(tokens.size()));
  tokens.read(0, values);
  return values;
}

template <class T> std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

Tokens counted(std::int64_t count) {
  Values values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return Tokens(values);
}

}  // namespace

TEST_CASE("tokens: mapped files of every type") {
  const TemporaryFolder folder;
  const std::string path = folder.file("tokens");
  write_file(path, raw<std::uint16_t>({1, 65535, 7}));
  CHECK(read_all(Tokens::from_file(path, TokenType::u16)) == Values{1, 65535, 7});
  write_file(path, raw<std::uint32_t>({4294967295U, 0}));
  CHECK(read_all(Tokens::from_file(path, TokenType::u32)) == Values{4294967295, 0});
  write_file(path, raw<std::int32_t>({5, 6}));
  CHECK(read_all(Tokens::from_file(path, TokenType::i32)) == Values{5, 6});
  write_file(path, raw<std::int64_t>({1LL << 40}));
  CHECK(read_all(Tokens::from_file(path, TokenType::i64)) == Values{1LL << 40});
  write_file(path, "ab");
  CHECK(read_all(Tokens::from_file(path, TokenType::u8)) == Values{97, 98});
  for (const DType dtype : {DType::u8, DType::i32, DType::i64}) {
    write_npy(path, Array::arange(9, DType::i64, cpu()).cast(dtype));
    CHECK(read_all(Tokens::from_npy(path)) == Values{0, 1, 2, 3, 4, 5, 6, 7, 8});
  }
}

TEST_CASE("tokens: a part keeps its file, whatever happens to the whole") {
  const TemporaryFolder folder;
  write_file(folder.file("tokens"), raw<std::uint16_t>({1, 2, 3, 4, 5}));
  const Tokens part = Tokens::from_file(folder.file("tokens"), TokenType::u16).slice(1, 5).slice(1, 3);
  CHECK(read_all(part) == Values{3, 4});
  CHECK_THROWS_AS(part.slice(0, 3), ShapeError);
  CHECK_THROWS_AS(part.slice(-1, 1), ShapeError);
  CHECK_THROWS_AS(part.slice(2, 1), ShapeError);
  Values two(2);
  CHECK_THROWS_AS(part.read(1, two), ShapeError);
  CHECK_THROWS_AS(part.read(-1, two), ShapeError);
}

TEST_CASE("tokens: files that are none") {
  const TemporaryFolder folder;
  const std::string path = folder.file("tokens");
  const auto refused = [&](auto open, const std::string& what) {
    CHECK_THROWS_WITH_AS(open(), doctest::Contains(path.c_str()), DataError);
    CHECK_THROWS_WITH_AS(open(), doctest::Contains(what.c_str()), DataError);
  };
  const auto file = [&] { Tokens::from_file(path, TokenType::u16); };
  const auto npy = [&] { Tokens::from_npy(path); };
  refused(file, "No such file");
  write_file(path, "");
  refused(file, "empty");
  write_file(path, "abc");
  refused(file, "its 3 bytes are not divisible by 2");
  write_npy(path, Array::zeros({2, 2}, DType::i32, cpu()));
  refused(npy, "[2, 2]");
  write_npy(path, Array::zeros({2}, DType::f32, cpu()));
  refused(npy, "f32");
  write_file(path, raw<std::int32_t>({3, -2, 9}));
  const Tokens tokens = Tokens::from_file(path, TokenType::i32);
  refused([&] { read_all(tokens); }, "token 1 is -2");
  Values last(1);
  refused([&] { tokens.read(2, last, 9); }, "token 2 is 9, not in 0 to 8");
}

TEST_CASE("token windows: inputs, and targets one further; what is left over is told") {
  const auto windows = std::make_shared<TokenWindows>(counted(15), WindowOptions{.length = 4});
  CHECK(windows->size() == 3);
  CHECK(windows->left_over() == 2);
  const std::vector<std::int64_t> chosen = {2, 0};
  const Batch batch = windows->batch(chosen, test_device());
  CHECK(batch.inputs.shape() == Shape{2, 4});
  CHECK(batch.inputs.to_vector<std::int64_t>() == Values{8, 9, 10, 11, 0, 1, 2, 3});
  CHECK(batch.targets.to_vector<std::int64_t>() == Values{9, 10, 11, 12, 1, 2, 3, 4});
  CHECK(TokenWindows(counted(13), {.length = 4}).left_over() == 0);
  CHECK(TokenWindows(counted(15), {.length = 4, .stride = 1}).size() == 11);
  CHECK(TokenWindows(counted(5), {.length = 4}).size() == 1);
  CHECK_THROWS_AS(TokenWindows(counted(4), {.length = 4}), Error);
  CHECK_THROWS_AS(TokenWindows(counted(4), {.length = 0}), Error);
  CHECK_THROWS_AS(TokenWindows(counted(4), {.length = 1, .stride = -1}), Error);
  CHECK_THROWS_AS(windows->batch(Values{3}, test_device()), ShapeError);
}

TEST_CASE("token windows: one window for each device, in any order, from any position") {
  const auto windows = std::make_shared<TokenWindows>(counted(50), WindowOptions{.length = 4, .stride = 3});
  const BatchStream one(windows, {.batch = 6, .devices = test_devices(1), .seed = 1});
  const BatchStream two(windows, {.batch = 3, .devices = test_devices(2), .seed = 1});
  const auto whole = one.stream();
  const auto first = two.stream(0);
  const auto second = two.stream(1);
  while (const auto batch = whole->next()) {
    first->seek(second->position());
    Values joined = first->next()->inputs.to_vector<std::int64_t>();
    const Values others = second->next()->inputs.to_vector<std::int64_t>();
    joined.insert(joined.end(), others.begin(), others.end());
    CHECK(joined == batch->inputs.to_vector<std::int64_t>());
  }
  CHECK(!second->next());
  const BatchStream shorter(std::make_shared<TokenWindows>(counted(49), WindowOptions{.length = 4, .stride = 3}),
                            {.batch = 6, .devices = test_devices(1), .seed = 1});
  CHECK_THROWS_WITH_AS(shorter.stream()->seek(whole->position()), doctest::Contains("50 tokens"), DataError);
}

TEST_CASE("token windows: a token beyond the vocabulary stops the stream before its batch") {
  Values values(20, 1);
  values[13] = 5;
  const BatchStream batches(std::make_shared<TokenWindows>(Tokens(values), WindowOptions{.length = 3, .vocabulary = 5}),
                            {.batch = 2, .devices = test_devices(1), .shuffle = false});
  const auto stream = batches.stream();
  for (int i = 0; i < 2; ++i) CHECK(stream->next());
  const std::string before = stream->position();
  CHECK_THROWS_WITH_AS(stream->next(), doctest::Contains("token 13 is 5, not in 0 to 4"), DataError);
  CHECK(stream->position() == before);
}
