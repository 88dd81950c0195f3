// SPDX-License-Identifier: Apache-2.0
// The program behind `tutti info`, which is linked with the library that it tells of.
#include <tutti/command/info/report.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  using tutti::info::Report;
  CLI::App app("Says what a report of a problem needs: the build, devices, engines, libraries and limits.",
               "tutti info");
  bool json = false;
  app.add_flag("--json", json, "print one JSON object");
  app.footer("What is missing is told, and why; it is no error. Values of variables that name a secret are not shown.");
  try {
    app.parse(argc, argv);
    const Report report = tutti::info::make_report();
    // Bytes that are no UTF-8, of variables and folders, are replaced.
    fmt::print("{}", json ? report.dump(2, ' ', false, Report::error_handler_t::replace) + "\n"
                          : tutti::info::to_text(report));
    return 0;
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "tutti info: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti info: {}\n", error.what());
    return 1;
  }
}
