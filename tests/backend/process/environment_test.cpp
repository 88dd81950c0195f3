// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>
#include <tutti/backend/error.h>
#include <tutti/backend/process/environment.h>

#include <doctest/doctest.h>

#include <cstdlib>
#include <optional>
#include <string>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name), before_(environment_text(name)) {
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace

TEST_CASE("environment: an empty variable is unset, what cannot be meant is refused with its name and value") {
  for (const char* nothing : {static_cast<const char*>(nullptr), ""}) {
    const Variable variable("TUTTI_A", nothing);
    CHECK_FALSE(environment_text("TUTTI_A"));
    CHECK(environment_number("TUTTI_A", 3, 1, 8) == 3);
    CHECK_FALSE(environment_switch("TUTTI_A"));
  }
  const Variable eight("TUTTI_A", "8");
  CHECK(environment_text("TUTTI_A") == "8");
  CHECK(environment_number("TUTTI_A", 3, 1, 8) == 8);
  for (const char* garbage : {"9", "0", "-1", "+2", " 2", "2 ", "2x", "two", "99999999999"}) {
    CAPTURE(garbage);
    const Variable variable("TUTTI_A", garbage);
    const std::string said = std::string("TUTTI_A is \"") + garbage + "\": it must be a number from 1 to 8";
    CHECK_THROWS_WITH_AS(environment_number("TUTTI_A", 3, 1, 8), doctest::Contains(said.c_str()), Error);
  }
  for (const char* garbage : {"yes", "2", "on", " 1"}) {
    CAPTURE(garbage);
    const Variable variable("TUTTI_A", garbage);
    CHECK_THROWS_WITH_AS(environment_switch("TUTTI_A"), doctest::Contains("it must be 0 or 1"), Error);
  }
}

TEST_CASE("environment: what a CPU backend reads") {
  const Device device = cpu(3);
  {
    const Variable threads("TUTTI_CPU_THREADS", "");
    const Variable async("TUTTI_CPU_ASYNC", "");
    CpuBackend backend;
    CHECK(backend.threads(device).threads() == 1);
    CHECK(backend.stream(device).runs_inline());
  }
  {
    const Variable threads("TUTTI_CPU_THREADS", "2");
    const Variable async("TUTTI_CPU_ASYNC", "1");
    CpuBackend backend;
    CHECK(backend.threads(device).threads() == 2);
    CHECK_FALSE(backend.stream(device).runs_inline());
  }
  for (const char* keeps : {"", "on", "off"}) {
    CAPTURE(keeps);
    const Variable pool("TUTTI_POOL", keeps);
    CpuBackend backend;
    MemoryPool& memory = backend.pool(device);
    const std::size_t bytes = 5000001;
    auto* data = static_cast<char*>(memory.allocate(bytes));
    data[0] = data[bytes - 1] = 1;
    CHECK((memory.statistics().in_use == bytes) == (std::string(keeps) == "off"));
    memory.release(data, bytes);
    CHECK((memory.statistics().reserved == 0) == (std::string(keeps) == "off"));
  }
  {
    const Variable pool("TUTTI_POOL", "0");
    CHECK_THROWS_WITH_AS(CpuBackend(), doctest::Contains("TUTTI_POOL is \"0\": it must be on or off"), Error);
  }
  const Variable async("TUTTI_CPU_ASYNC", "true");
  CHECK_THROWS_WITH_AS(CpuBackend(), doctest::Contains("TUTTI_CPU_ASYNC is \"true\""), Error);
}

}  // namespace tutti

TEST_SUITE_END();
