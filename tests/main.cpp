// SPDX-License-Identifier: Apache-2.0
// The entry point that all test executables share.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

/// Tells tools/run_tests.py where a run is, so that a test case that ends the process or hangs can be named.
class Progress : public doctest::IReporter {
 public:
  explicit Progress(const doctest::ContextOptions&) {}

  void test_case_start(const doctest::TestCaseData& test_case) override {
    if (enabled_) std::printf("[progress] started %s\n", test_case.m_name);
  }
  void test_case_end(const doctest::CurrentTestCaseStats& result) override {
    if (enabled_)
      std::printf("[progress] %s in %.3f s\n", result.testCaseSuccess ? "passed" : "failed", result.seconds);
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  bool enabled_ = std::getenv("TUTTI_TEST_PROGRESS") != nullptr;
};

REGISTER_LISTENER("progress", 1, Progress);

}  // namespace

int main(int argc, char** argv) {
  // By lines, so that a crash or a kill loses nothing of what led there.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  doctest::Context context(argc, argv);
  const char* no_color = std::getenv("NO_COLOR");  // https://no-color.org
  if (no_color != nullptr && *no_color != '\0') context.setOption("no-colors", true);
  // See tests/test_devices.h.
  const char* device = std::getenv("TUTTI_TEST_DEVICE");
  const bool elsewhere = device != nullptr && *device != '\0' && std::string_view(device) != "cpu";
  if (elsewhere) context.addFilter("test-suite-exclude", "cpu");
  return context.run();
}
