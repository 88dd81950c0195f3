// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/mailbox.h>

#include <doctest/doctest.h>

#include <functional>
#include <thread>
#include <utility>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

TEST_CASE("mailbox: the thread that posts processes its message before it returns") {
  Mailbox<int> mailbox;
  std::vector<int> processed;
  const auto process = [&](int& message) { processed.push_back(message); };
  mailbox.post(1, process);
  mailbox.post(2, process);
  CHECK(processed == std::vector{1, 2});
}

TEST_CASE("mailbox: what is posted while a message is processed comes after it, and before the poster returns") {
  Mailbox<int> mailbox;
  std::vector<int> begun, ended;
  std::function<void(int&)> process = [&](int& message) {
    const int number = message;
    begun.push_back(number);
    if (number < 3) mailbox.post(number + 1, process);
    ended.push_back(number);
  };
  mailbox.post(1, process);
  CHECK(begun == std::vector{1, 2, 3});
  CHECK(ended == begun);  // one at a time: none began within another
}

TEST_CASE("mailbox: every message of many threads is processed once, each thread's in its order") {
  constexpr int kThreads = 4, kMessages = 5000;
  Mailbox<std::pair<int, int>> mailbox;
  std::vector<std::vector<int>> processed(kThreads);  // unguarded: one thread processes at a time
  {
    std::vector<std::jthread> threads;
    for (int poster = 0; poster < kThreads; ++poster)
      threads.emplace_back([&, poster] {
        for (int number = 0; number < kMessages; ++number)
          mailbox.post({poster, number},
                       [&](const auto& message) { processed[message.first].push_back(message.second); });
      });
  }
  std::vector<int> expected(kMessages);
  for (int number = 0; number < kMessages; ++number) expected[number] = number;
  for (const auto& of_poster : processed) CHECK(of_poster == expected);
}

TEST_SUITE_END();
