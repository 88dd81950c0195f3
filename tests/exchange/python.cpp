// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/exchange/python.h>

#include <tutti/backend/process/environment.h>
#include <tutti/tests/exchange/temporary_folder.h>

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <sstream>

namespace tutti::testing {
namespace {

std::string interpreter() {
  if (const auto given = environment_text("TUTTI_PYTHON")) return *given;
  const std::string installed = "build/python/bin/python3";
  return std::filesystem::exists(installed) ? installed : "python3";
}

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

struct Outcome {
  int status;
  std::string output;
};

Outcome run(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return {-1, "cannot start " + command};
  std::string output;
  std::array<char, 4096> block;
  for (std::size_t count; (count = fread(block.data(), 1, block.size(), pipe)) > 0;) output.append(block.data(), count);
  return {pclose(pipe), output};
}

}  // namespace

bool python_has(const std::string& module) {
  static const std::string found = [] {
    const Outcome outcome =
        run(quoted(interpreter()) +
            " -c 'import importlib.util as u\n"
            "specs = {n: u.find_spec(n) for n in (\"numpy\", \"onnx\", \"safetensors\", \"tensorboard\", \"torch\")}\n"
            "print(*(n for n in specs if specs[n] and specs[n].origin))'");  // a folder of this name has no origin
    return outcome.status == 0 ? outcome.output : std::string();
  }();
  std::istringstream words(found);
  for (std::string word; words >> word;)
    if (word == module) return true;
  return false;
}

std::string run_python(const std::string& script, const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  write_file(folder.file("script.py"), script);
  std::string command = quoted(interpreter()) + " -B " + quoted(folder.file("script.py"));
  for (const std::string& argument : arguments) command += " " + quoted(argument);
  const Outcome outcome = run(command);
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  return outcome.output;
}

}  // namespace tutti::testing
