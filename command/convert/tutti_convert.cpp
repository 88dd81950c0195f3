// SPDX-License-Identifier: Apache-2.0
// The program behind `tutti convert`.
#include <tutti/command/convert/conversion.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

int main(int argc, char** argv) {
  using namespace tutti::conversion;
  CLI::App app("Writes the weights of one file to another one, between .safetensors and .npz.", "tutti convert");
  std::string from;
  std::string to;
  bool force = false;
  app.add_option("IN", from, "file to read: .safetensors or .npz")->required();
  app.add_option("OUT", to, "file to write, of the other format")->required();
  app.add_flag("--force", force, "replace OUT if it is there");
  app.footer(
      "Names, types and values stay. NumPy has no bf16, which becomes f32, and .npz no metadata:\n"
      "a line on standard error tells each. OUT appears in one step, when it is whole.");
  try {
    app.parse(argc, argv);
    const Conversion done = convert_weights(from, to, force ? Existing::replace : Existing::refuse);
    for (const std::string& note : done.notes) fmt::print(stderr, "tutti convert: {}\n", note);
    fmt::print("{}: {} arrays, {} bytes\n", to, done.arrays, done.bytes);
    return 0;
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "tutti convert: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti convert: {}\n", error.what());
    return 1;
  }
}
