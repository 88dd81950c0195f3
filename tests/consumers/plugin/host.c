/* SPDX-License-Identifier: Apache-2.0 */
/* A program that knows nothing of Tutti, and loads libraries that are made with it, at the same time and one after the
   other: host PLUGIN PLUGIN. */
#include <dlfcn.h>
#include <stdio.h>

typedef double (*Sum)(int);

static double sum_of(void* plugin) {
  const Sum sum = plugin ? (Sum)dlsym(plugin, "plugin_sum") : NULL;
  if (!sum) fprintf(stderr, "%s\n", dlerror());
  return sum ? sum(7) : -1;
}

int main(int count, char** arguments) {
  if (count != 3) return 2;
  for (int round = 0; round < 3; ++round) {
    void* const first = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    void* const second = dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL);
    if (sum_of(first) != 7 || sum_of(second) != 7) return 1;
    if (dlclose(first) != 0 || dlclose(second) != 0) return 1;
  }
  puts("3 rounds of 2 plugins");
  return 0;
}
