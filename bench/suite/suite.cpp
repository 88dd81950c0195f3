// SPDX-License-Identifier: Apache-2.0
#include <tutti/bench.h>

#include <tutti/backend/error.h>
#include <tutti/backend/progress.h>
#include <tutti/bench/suite/run_file.h>
#include <tutti/bench/suite/table.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <regex>
#include <span>
#include <string_view>
#include <utility>

namespace tutti::bench {

namespace {

constexpr int kFailed = 1;
constexpr int kBadWords = 2;

constexpr const char* kHelp = R"(usage: {0} [FILTER] [OPTION...]

  FILTER             a regular expression: only cases whose name it is found in
  --list             the names of the cases; nothing is measured
  --repetitions N    samples of each case and of its baseline, taken in turn (10)
  --seconds S        least time of a sample (0.02)
  --processor-time   ratios to the baseline are those of processor time, which with one thread holds on a busy machine
  --json FILE        writes the run, which `tutti bench compare` reads; its folder is made
  --history FOLDER   writes the run to a new file in the folder, TIME-LABEL.json
  --label TEXT       what the run is of, as a commit
)";

/// Words that mean nothing; its text says which.
struct BadWords {
  std::string text;
};

struct Words {
  bool help = false;
  bool list = false;
  std::string filter;
  std::string json;
  std::string history;
  std::string label;
  Options options;
};

double number(std::string_view option, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value > 0.0) || value > 1e6)
    throw BadWords{fmt::format("{} takes a number above 0, up to a million, not '{}'", option, text)};
  return value;
}

int whole_number(std::string_view option, const std::string& text) {
  const double value = number(option, text);
  if (value != static_cast<double>(static_cast<int>(value)))
    throw BadWords{fmt::format("{} takes a whole number, not '{}'", option, text)};
  return static_cast<int>(value);
}

Words parse(std::span<const char* const> arguments) {
  Words words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string_view option = arguments[i];
    const auto equals = option.starts_with("--") ? option.find('=') : std::string_view::npos;
    std::optional<std::string> joined;
    if (equals != std::string_view::npos) {
      joined = option.substr(equals + 1);
      option = option.substr(0, equals);
    }
    const auto value = [&]() -> std::string {
      if (joined) return *std::exchange(joined, std::nullopt);
      if (++i == arguments.size()) throw BadWords{fmt::format("{} needs a value", option)};
      return arguments[i];
    };
    if (option == "--help" || option == "-h")
      words.help = true;
    else if (option == "--list")
      words.list = true;
    else if (option == "--processor-time")
      words.options.processor_time = true;
    else if (option == "--repetitions")
      words.options.repetitions = whole_number(option, value());
    else if (option == "--seconds")
      words.options.seconds = number(option, value());
    else if (option == "--json")
      words.json = value();
    else if (option == "--history")
      words.history = value();
    else if (option == "--label")
      words.label = value();
    else if (option.starts_with('-'))
      throw BadWords{fmt::format("unknown option '{}'", option)};
    else if (!words.filter.empty())
      throw BadWords{fmt::format("one filter at most, not '{}' and '{}'", words.filter, option)};
    else
      words.filter = option;
    if (joined) throw BadWords{fmt::format("{} takes no value", option)};
  }
  return words;
}

std::vector<const Case*> chosen(const std::vector<Case>& cases, const std::string& filter) {
  std::vector<const Case*> found;
  try {
    const std::regex wanted(filter);
    for (const Case& each : cases)
      if (filter.empty() || std::regex_search(each.name, wanted)) found.push_back(&each);
  } catch (const std::regex_error&) {
    throw BadWords{fmt::format("'{}' is no regular expression", filter)};
  }
  if (found.empty()) throw BadWords{fmt::format("no case matches '{}'; --list has their names", filter)};
  return found;
}

/// Measures cases one after the other; what failed is told, and the others go on.
int measure_all(const std::vector<const Case*>& cases, const Words& words) {
  const bool has_rates =
      std::ranges::any_of(cases, [](const Case* each) { return each->work.flops > 0 || each->work.bytes > 0; });
  std::optional<ProcessorLimits> limits;
  if (has_rates) {
    limits = measure_processor_limits();
    fmt::print("{}", limits_text(*limits));
  }
  std::vector<std::unique_ptr<RunFile>> files;
  if (!words.json.empty()) files.push_back(std::make_unique<RunFile>(words.json, words.label, words.options, limits));
  if (!words.history.empty())
    files.push_back(
        std::make_unique<RunFile>(new_file_name(words.history, words.label), words.label, words.options, limits));
  int status = 0;
  std::vector<Measurement> measured;
  Progress progress(static_cast<std::int64_t>(cases.size()),
                    {.unit = "cases", .step = "case", .quiet = std::chrono::seconds(1)});
  std::int64_t done = 0;
  for (const Case* each : cases) {
    progress.relabel(each->name);
    progress.update({.step = done, .examples = done});
    ++done;
    std::string error;
    try {
      measured.push_back(measure(*each, words.options));
    } catch (const std::exception& thrown) {
      error = thrown.what();
      if (error.empty()) error = "an exception without words";
    } catch (...) {
      error = "it threw what is no std::exception";
    }
    if (!error.empty()) {
      status = kFailed;
      progress.hide();
      fmt::print(stderr, "{}: {}\n", each->name, error);
      for (const auto& file : files) file->add_failure(each->name, error);
      continue;
    }
    for (const auto& file : files) file->add(measured.back());
  }
  progress.hide();
  fmt::print("{}", table_text(measured, limits));
  for (const auto& file : files) {
    if (status == 0) file->complete();
    fmt::print("wrote {}\n", file->path());
  }
  return status;
}

}  // namespace

Suite& Suite::add(Case added) {
  if (added.name.empty()) throw Error("[bench] a case without a name");
  if (!added.run) throw Error("[bench] the case " + added.name + " has nothing to run");
  if (std::ranges::find(cases_, added.name, &Case::name) != cases_.end())
    throw Error("[bench] there are two cases named " + added.name);
  cases_.push_back(std::move(added));
  return *this;
}

int Suite::main(int argc, const char* const* argv) {
  const std::string program = argc > 0 ? argv[0] : "bench";
  try {
    const Words words = parse(std::span(argv, static_cast<std::size_t>(std::max(argc, 0))).subspan(argc > 0 ? 1 : 0));
    if (words.help) {
      fmt::print(fmt::runtime(kHelp), program);
      return 0;
    }
    const std::vector<const Case*> cases = chosen(cases_, words.filter);
    if (words.list) {
      for (const Case* each : cases) fmt::print("{}\n", each->name);
      return 0;
    }
    return measure_all(cases, words);
  } catch (const BadWords& bad) {
    fmt::print(stderr, "{}: {}; --help lists the options\n", program, bad.text);
    return kBadWords;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return kFailed;
  }
}

}  // namespace tutti::bench
