#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/clusters/simulate_cluster.py: its sizes beside those of the sources, and its times where they can be worked out by hand."""

import contextlib
import io
import pathlib
import random
import re
import statistics
import tempfile
import unittest
import unittest.mock

import simulate_cluster as cluster

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent / "distributed"
SLOW = cluster.Network("slow", 1e6, 1e-3)


def of_source(file, pattern):
    """The number that the pattern finds in a source, as C++ writes it."""
    found = re.search(pattern, (ROOT / file).read_text())
    assert found, f"{file} has no {pattern}"
    number = re.sub(r"std::size_t\{(\d+)\}", r"\1", found[1]).replace("'", "").replace("U", "")
    left, shift, right = number.partition("<<")
    return int(left) << int(right) if shift else int(number)


class Sizes(unittest.TestCase):
    def test_are_those_of_the_sources(self):
        for value, file, pattern in (
                (cluster.MOST_MESSAGE, "processes/control/wire.h", r"kMostDataBytes = ([\d']+);"),
                (cluster.WORDS_HEADER, "processes/round_agreement.cpp", r"sizeof\(WordsHeader\) == (\d+)"),
                (cluster.WORDS_DEVICE, "processes/round_agreement.cpp", r"sizeof\(DeviceWords\) == (\d+)"),
                (cluster.HEARTBEAT * 1000, "processes/control_channel.h", r"heartbeat\{(\d+)\}"),
                (cluster.LANES, "engines/network/lines/line_handshake.h", r"kLanes = (\d+);"),
                (cluster.PIECE, "engines/network/network_communicator.h", r"piece_bytes = (.+);"),
                (cluster.WINDOW, "engines/network/network_communicator.h", r"window_bytes = (.+);"),
                (cluster.LEAST_WINDOW_PIECES, "engines/network/network_communicator.cpp", r"/ senders, (\d+), \d+\)"),
                (cluster.MOST_WINDOW_PIECES, "engines/network/network_communicator.cpp", r"/ senders, \d+, (\d+)\)"),
                (cluster.SEQUENCES, "engines/network/network_communicator.cpp", r"senders = (\d+) \*"),
                (cluster.SHARED_PIECE, "engines/shared_memory/shared_memory_communicator.h", r"piece_bytes = (.+);"),
                (cluster.BUCKET, "sync_options.h", r"bucket_bytes = (.+);")):
            self.assertEqual(of_source(file, pattern), round(value), (file, pattern))
        slots = [of_source("engines/shared_memory/segments/ring_number.h", rf"k{which}Slots = (\d+);") for which in ("Round", "Users")]
        self.assertEqual(sum(slots), cluster.SHARED_SLOTS)

    def test_most_ranks_just_fit(self):
        for devices in (1, 2, 16):
            most = cluster.most_ranks(devices)
            self.assertLessEqual(cluster.heard(most, devices), cluster.MOST_MESSAGE)
            self.assertGreater(cluster.heard(most + 1, devices), cluster.MOST_MESSAGE)
        limit = cluster.most_ranks_of_descriptors(1024)
        self.assertLessEqual(cluster.descriptors(limit), 1024)
        self.assertGreater(cluster.descriptors(limit + 1), 1024)

    def test_window(self):
        self.assertEqual(cluster.window_bytes(2), 2 * 64 * cluster.PIECE)
        self.assertEqual(cluster.window_bytes(1000), 2 * 999 * 2 * cluster.PIECE)

    def test_buckets(self):
        model = cluster.Model("", (10, 20, 30, 100, 5, 5))
        self.assertEqual(cluster.buckets(model, 60), [60, 100, 10])
        self.assertEqual(cluster.buckets(model, 0), [10, 20, 30, 100, 5, 5])
        self.assertAlmostEqual(cluster.gpt2_small().bytes, 4 * 124_439_808)


class Agreement(unittest.TestCase):
    way = cluster.COSTS.control_way + SLOW.latency
    byte = cluster.COSTS.control_byte + 1 / SLOW.bandwidth
    message = cluster.COSTS.control_message

    def test_two_ranks(self):
        said, told = 56 * self.byte, 122 * self.byte
        both_ways = self.way + said + self.message + self.message + told + self.way
        self.assertAlmostEqual(cluster.agree([0.0, 0.0], 2, SLOW, combined=False), both_ways)
        self.assertAlmostEqual(cluster.agree([0.0, 1.0], 2, SLOW, combined=False), both_ways)
        self.assertAlmostEqual(cluster.agree([1.0, 0.0], 2, SLOW, combined=False), self.message + told + self.way)

    def test_star_takes_and_sends_one_by_one(self):
        n = 50
        told = self.message + cluster.heard(n) * self.byte
        expected = self.way + 56 * self.byte + (n - 1) * self.message + (n - 1) * told + self.way
        self.assertAlmostEqual(cluster.agree([0.0] * n, n, SLOW, combined=False), expected)

    def test_tree_of_three_levels(self):
        # Rank 0 has ranks 1 and 2, which have two each; the words of one rank are 56 bytes, combined or not.
        up = self.way + 56 * self.byte + 2 * self.message
        down = 2 * (self.message + 56 * self.byte) + self.way
        self.assertAlmostEqual(cluster.agree([0.0] * 7, 2, SLOW, combined=True), 2 * up + 2 * down)
        self.assertGreater(cluster.agree([0.0] * 7, 2, SLOW, combined=False), 2 * up + 2 * down)

    def test_who_serves_waits_for_late_ones(self):
        self.assertAlmostEqual(cluster.serve([3.0, 1.0, 1.5], 1.0), 4.0)
        self.assertAlmostEqual(cluster.serve([1.0, 1.0, 1.0], 1.0), 4.0)

    def test_trees_win_where_there_are_many(self):
        network = cluster.NETWORKS[0]
        star, tree = cluster.agreement(1000, 1000, network), cluster.agreement(1000, 16, network)
        self.assertGreater(star, 5 * tree)
        self.assertGreater(tree, cluster.agreement(1000, 16, network, combined=True))


class Reductions(unittest.TestCase):
    def test_bytes_decide_where_they_are_many(self):
        model = cluster.Model("", (10**9,))
        for n in (2, 4):
            bytes_alone = 2 * 1e9 * (n - 1) / n / SLOW.bandwidth
            self.assertAlmostEqual(cluster.direct(model, n, SLOW) / bytes_alone, 1, places=3)
            self.assertAlmostEqual(cluster.ring(model, n, SLOW) / bytes_alone, 1, places=3)
        self.assertAlmostEqual(cluster.tree(model, 8, SLOW) / (3e9 / SLOW.bandwidth), 1, places=2)

    def test_frames_decide_where_ranks_are_many(self):
        model = cluster.Model("", (1,))
        frames = 2 * 3 * 9999 * cluster.COSTS.frame
        self.assertAlmostEqual(cluster.direct(model, 10_000, SLOW), frames + 2 * SLOW.latency)

    def test_encryption_costs_no_less(self):
        model = cluster.gpt2_small()
        fast = cluster.NETWORKS[1]
        self.assertGreater(cluster.direct(model, 2, fast, encrypted=True), cluster.direct(model, 2, fast))


class Stragglers(unittest.TestCase):
    def test_as_when_all_are_drawn(self):
        numbers = random.Random(7)
        drawn = statistics.fmean(max(numbers.lognormvariate(0, 0.2) for _ in range(64)) for _ in range(2000))
        self.assertAlmostEqual(cluster.slowest(64, 0.2), drawn, delta=0.02)

    def test_more_ranks_are_slower(self):
        factors = [cluster.slowest(n, 0.05) for n in cluster.RANKS]
        self.assertEqual(factors, sorted(set(factors)))


class Document(unittest.TestCase):
    def test_figures_have_two_digits(self):
        self.assertEqual([cluster.seconds(value) for value in (1.234e-5, 0.00999, 0.1234, 1.26, 1234.0)],
                         ["12 µs", "10 ms", "120 ms", "1.3 s", "1,200 s"])
        self.assertEqual([cluster.percent(value) for value in (0.00012, 0.123, 1.34, 13.4)], ["0.012", "12", "130", "1,300"])

    def run_main(self, *arguments):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            return cluster.main([*map(str, arguments)]), said.getvalue()

    def test_is_written_checked_and_found_stale(self):
        made = cluster.tables(ranks=(2, 8))
        self.assertEqual(made, cluster.tables(ranks=(2, 8)))
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(cluster, "tables", lambda: made):
            path = pathlib.Path(folder) / "page.md"
            path.write_text("".join(f"text\n\n<!-- simulated: {name} -->\n| old |\n\n" for name in made))
            self.assertEqual(self.run_main("--check", path)[0], 1)
            self.assertEqual(self.run_main("--write", path), (0, ""))
            self.assertEqual(self.run_main("--check", path), (0, ""))
            self.assertNotIn("| old |", path.read_text())
            path.write_text(path.read_text().replace("| 1,083 |", "| 1,084 |"))
            status, said = self.run_main("--check", path)
            self.assertEqual(status, 1)
            self.assertIn("other tables than those of tools/clusters/simulate_cluster.py: words; ", said)
            path.write_text("nothing")
            self.assertEqual(self.run_main("--write", path), (1, f"{path}: no line <!-- simulated: words -->\n"))


if __name__ == "__main__":
    unittest.main()
