// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/launch_command.h>

#include <tutti/command/launch/launch_error.h>
#include <tutti/command/launch/launch_plan.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace tutti::launch {

namespace {

constexpr const char* kFooter =
    R"(Each process finds its place in TUTTI_RANK, TUTTI_WORLD_SIZE, TUTTI_LOCAL_RANK and
TUTTI_LOCAL_WORLD_SIZE, where rank 0 waits in TUTTI_RENDEZVOUS, the job's name in
TUTTI_JOB and its secret in TUTTI_SECRET_FILE. They have nothing on their standard input.

--logs makes the folder if it is not there. Its files have the bytes of both outputs as
they came, and the numbers of ranks in the whole job. Files of an earlier run are replaced
if they have the same names; those of other ranks stay. One that cannot be written to its
end, on a full disk for instance, is told once; the job goes on.

The exit status is 0 if all processes ended with 0, else that of the first that
failed (128 and the signal, if one killed it); 2 for arguments that cannot be meant,
127 and 126 for a program that is not found or cannot be started.

  tutti launch -n 4 -- ./train --epochs 3
  tutti launch -n 4 --hosts 2 --host 0 --rendezvous 10.0.0.1:29400 --secret-file job.secret -- ./train)";

/// Says how the program to start is given, which the parser does not see.
class Formatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: tutti launch [OPTIONS] -- PROGRAM [ARGUMENTS]\n";
  }
};

/// An option that is a number as a whole: "4x" and "" are refused by name.
template <class T>
void add_number(CLI::App& app, const std::string& name, T& value, const std::string& text, const std::string& kind) {
  const auto read = [name = name.substr(0, name.find(',')), &value](const std::string& given) {
    const char* const last = given.data() + given.size();
    const auto [end, error] = std::from_chars(given.data(), last, value);
    if (error != std::errc() || end != last)
      throw CLI::ValidationError(
          name, fmt::format("\"{}\" is no {} that it takes", given, std::is_integral_v<T> ? "whole number" : "number"));
  };
  app.add_option_function<std::string>(name, read, text)->type_name(kind);
}

}  // namespace

void add_launch_command(CLI::App& app, LaunchOptions& options) {
  CLI::App& launch = *app.add_subcommand("launch", "Starts the processes of a job on this host, and looks after them.");
  launch.formatter(std::make_shared<Formatter>());
  launch.footer(kFooter);
  add_number(launch, "-n,--processes", options.processes, "processes on this host; by default 1", "N");
  add_number(launch, "--hosts", options.hosts,
             "hosts of the job, each with as many processes; several need --rendezvous and --secret-file", "N");
  add_number(launch, "--host", options.host, "number of this host, from 0; rank 0 is on host 0", "N");
  launch
      .add_option("--rendezvous", options.rendezvous,
                  "where rank 0 waits for the others; by default a free port of 127.0.0.1")
      ->type_name("HOST:PORT");
  launch
      .add_option("--secret-file", options.secret_file,
                  "what only this job's processes know; by default made at random")
      ->type_name("FILE");
  launch
      .add_option("--job", options.job, "name of the job; by default made at random, on several hosts the rendezvous")
      ->type_name("NAME");
  add_number(launch, "--grace", options.grace_seconds,
             "time for the others to end once one has failed, and again after SIGTERM; by default 10", "SECONDS");
  launch.add_flag_callback(
      "--no-prefix", [&] { options.prefix = false; }, "lines of output do not begin with their rank");
  const auto read_logs = [&](const std::string& folder) {
    if (folder.empty()) throw CLI::ValidationError("--logs", "\"\" is no folder");
    options.logs = folder;
  };
  launch
      .add_option_function<std::string>(
          "--logs", read_logs, "write what each rank says also to FOLDER/rank-0.log and so on, which begin anew")
      ->type_name("FOLDER");
  launch.allow_extras();  // for a better word about them
  launch.callback([&launch] {
    const std::vector<std::string> unknown = launch.remaining();
    if (unknown.empty()) return;
    const std::string& first = unknown.front();
    if (first.starts_with('-')) refuse("there is no option {}", first);
    refuse("{} stands before \"--\": tutti launch [OPTIONS] -- PROGRAM [ARGUMENTS]", first);
  });
}

}  // namespace tutti::launch
