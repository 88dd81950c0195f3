#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check_comments.py finds what it says, and nothing else."""

import unittest

import check_comments

HEADER = """// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Of the last step,
/// by member.
int first;
int second;  ///< by member
int third;   ///< Number of members
/// Steps once,
/// with all that follows from it.
int fourth;  // in place
int fifth;   // NOLINT of the linter's
const char* url = "http://of.the.last";
// --- of a section
"""


class Comments(unittest.TestCase):
    def test_openings(self):
        self.assertEqual(check_comments.faults(HEADER),
                         [(3, "Of the last step, by member."), (6, "by member"), (10, "in place")])

    def test_nothing(self):
        self.assertEqual(check_comments.faults(""), [])


if __name__ == "__main__":
    unittest.main()
