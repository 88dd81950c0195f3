// SPDX-License-Identifier: Apache-2.0
// Runs a block of a document: document_printing PLACE. For tools/documents/doc_examples.py --run.
#include <tutti/tests/documents/printing.h>

#include <cstdio>
#include <exception>

int main(int count, char** arguments) {
  const auto& all = tutti::documents::Printing::all();
  const auto found = count == 2 ? all.find(arguments[1]) : all.end();
  if (found == all.end()) {
    std::fputs("usage: document_printing PLACE; there are\n", stderr);
    for (const auto& [where, run] : all) std::fprintf(stderr, "  %s\n", where.c_str());
    return 2;
  }
  try {
    return found->second();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
