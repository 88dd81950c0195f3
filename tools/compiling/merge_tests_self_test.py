#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Merges sources of tests that use the same names, compiles and runs them. The last line counts checks."""

import pathlib
import subprocess
import sys
import tempfile

MERGE = pathlib.Path(__file__).with_name("merge_tests.py")
SOURCES = {
    "main.cpp": "#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN\n#include <doctest/doctest.h>\n",
    "first_test.cpp": """#include <doctest/doctest.h>
#ifdef __linux__
#include <cstdlib>
#endif
TEST_SUITE_BEGIN("cpu");
namespace {
constexpr int kSize = 1;
}  // namespace
TEST_CASE("first") { CHECK(kSize == 1); }
""",
    "second_test.cpp": """#include <doctest/doctest.h>
namespace {
constexpr int kSize = 2;
}  // namespace
namespace tutti::testing {
constexpr int kSame = kSize;
TEST_CASE("second") { CHECK(kSame == 2); }
}  // namespace tutti::testing
TEST_CASE("third") { CHECK(kSame == 3); }
""",
    "third_test.cpp": """#include <doctest/doctest.h>
namespace tutti::testing {
constexpr int kSame = 3;
TEST_CASE("fourth") { CHECK(kSame == 3); }
}  // namespace tutti::testing
""",
}


def main():
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for source, text in SOURCES.items():
            (folder / source).write_text(text)
        tests = [str(folder / source) for source in SOURCES if source.endswith("_test.cpp")]
        subprocess.run([MERGE, folder / "merged.cpp", *tests], check=True)
        subprocess.run(["c++", "-std=c++20", "-o", folder / "tests", folder / "merged.cpp", folder / "main.cpp"],
                       check=True)

        def output(*arguments):
            return subprocess.run([folder / "tests", "--no-colors", *arguments], capture_output=True, text=True).stdout

        everything = output()
        found["each source has its own names"] = "3 passed | 1 failed" in everything
        found["a failure names the line of its source"] = f"{tests[1]}:9: ERROR" in everything
        found["a suite ends with its source"] = "test cases: 1 | 1 passed" in output("--test-suite=cpu")
        (folder / "open_test.cpp").write_text("#if 1\n#include <vector>\nint number;\n#endif\n")
        refused = subprocess.run([MERGE, folder / "merged.cpp", folder / "open_test.cpp"], capture_output=True, text=True)
        found["an #include within a condition on what follows is refused"] = (
            refused.returncode == 1 and "open_test.cpp:2: this #include" in refused.stderr)
    for name, held in found.items():
        print(f"{'ok' if held else 'FAILED'}: {name}")
    failed = sum(not held for held in found.values())
    print(f"{len(found) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
