// SPDX-License-Identifier: Apache-2.0
// Ends a program with a message, before any of its static initialisers, on a processor without the instructions that
// the library was compiled for. Compiled for any processor of its kind, so it uses nothing that other objects may have
// compiled otherwise: no inline function or template of the standard library or of Tutti.
#include <tutti/backend/processor/instruction_sets.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <unistd.h>

namespace {

using tutti::InstructionSet;

bool is_there(const InstructionSet& wanted) {
  unsigned registers[4] = {};
  if (__get_cpuid_count(wanted.leaf, wanted.subleaf, &registers[0], &registers[1], &registers[2], &registers[3]) == 0)
    return false;
  if ((registers[wanted.where] >> wanted.bit & 1U) == 0) return false;
  if (wanted.state == InstructionSet::none) return true;
  constexpr unsigned kXgetbv = 1U << 27U;  // of leaf 1, ecx: the system lets programs ask
  __get_cpuid(1, &registers[0], &registers[1], &registers[2], &registers[3]);
  if ((registers[2] & kXgetbv) == 0) return false;
  unsigned saved = 0;
  unsigned upper = 0;
  __asm__ volatile("xgetbv" : "=a"(saved), "=d"(upper) : "c"(0));
  return (saved & wanted.state) == wanted.state;
}

struct Message {
  char text[1024];
  unsigned length;
};

void append(Message& message, const char* text) {
  while (*text != '\0' && message.length < sizeof message.text) message.text[message.length++] = *text++;
}

}  // namespace

// The earliest that a program may ask for; static initialisers come long after. Nothing refers to it: the linker is
// told to want it.
extern "C" [[gnu::constructor(101)]] void tutti_check_processor() {
  Message message;
  message.length = 0;
  append(message, "[tutti] this processor lacks ");
  bool any = false;
  for (const InstructionSet* wanted = tutti::required_instruction_sets; wanted->name != nullptr; ++wanted) {
    if (is_there(*wanted)) continue;
    if (any) append(message, ", ");
    append(message, wanted->name);
    any = true;
  }
  if (!any) return;
  append(message, ", for which the library was built (-Dcpu_arch=");
  append(message, tutti::required_by_cpu_arch);
  append(message, "): build it with -Dcpu_arch=x86-64, or for this processor\n");
  const long written = write(STDERR_FILENO, message.text, message.length);
  _exit(written < 0 ? 2 : 1);
}
#else
extern "C" void tutti_check_processor() {}
#endif
