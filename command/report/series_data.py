# SPDX-License-Identifier: Apache-2.0
"""What a page holds of a series: every value as it is, as long as a page can carry all, else the extremes of buckets.

Arrays are numbers of 8 bytes, their bytes in planes (all first bytes, then all second ones), deflated, in base64. Whole
numbers on an axis are kept as differences. Each array is held once, however many series have it.
"""

import array
import base64
import bisect
import itertools
import math
import operator
import sys
import zlib

MOST_VALUES = 5_000_000  # of all series of a page
FEWEST_KEPT = 20_000  # of a series, however many others there are


class Arrays:
    """The arrays of a page, by place."""

    def __init__(self):
        self.packed, self.places = [], {}

    def place(self, values):
        content = values.tobytes()
        key = (len(content), hash(content), content[:64], content[-64:])
        if key not in self.places:
            self.places[key] = len(self.packed)
            self.packed.append(packed(values))
        return self.places[key]


def packed(values):
    differences = array.array("d", values[:1])
    differences.extend(map(operator.sub, values[1:], values[:-1]))
    whole = all(map(float.is_integer, differences)) and array.array("d", itertools.accumulate(differences)).tobytes() == values.tobytes()
    stored = differences if whole else values
    if sys.byteorder == "big":
        stored = array.array("d", stored)
        stored.byteswap()
    content = stored.tobytes()
    planes = b"".join(content[i::8] for i in range(8))
    return {"count": len(values), "differences": whole, "data": base64.b64encode(zlib.compress(planes, 1)).decode()}


def divided(x, y):
    """The values that count, those that a resumed run wrote anew, and where it went back to: the axis rises in the
    first, and in the second as far as each was sorted."""
    if not any(map(operator.lt, x[1:], x[:-1])):
        return (x, y), (array.array("d"), array.array("d")), []
    kept_x, kept_y, dropped, returns = array.array("d"), array.array("d"), [], []
    for at, value in zip(x, y):
        if kept_x and at < kept_x[-1]:
            cut = bisect.bisect_left(kept_x, at)
            dropped += zip(kept_x[cut:], kept_y[cut:])
            del kept_x[cut:], kept_y[cut:]
            returns.append(at)
        kept_x.append(at)
        kept_y.append(value)
    dropped.sort(key=operator.itemgetter(0))
    return (kept_x, kept_y), tuple(array.array("d", column) for column in zip(*dropped)), returns


def bucketed(x, y, size):
    """The first, smallest, largest and last value of every `size`, and the first that is not finite, in their order."""
    kept_x, kept_y = array.array("d"), array.array("d")
    for begin in range(0, len(y), size):
        part = y[begin:begin + size].tolist()
        finite = [value for value in part if value - value == 0.0]
        places = {0, len(part) - 1}
        if finite:
            places |= {part.index(min(finite)), part.index(max(finite))}
        if len(finite) < len(part):
            places.add(next(i for i, value in enumerate(part) if value - value != 0.0))
        for place in sorted(places):
            kept_x.append(x[begin + place])
            kept_y.append(part[place])
    return kept_x, kept_y


def bucket_size(count, all_values):
    """How many values of a series of `count` a bucket has, on a page of `all_values`; 1: all are kept."""
    if all_values <= MOST_VALUES:
        return 1
    allowed = max(FEWEST_KEPT, MOST_VALUES * count // all_values)
    return 1 if count <= allowed else math.ceil(5 * count / allowed)


def describe(series, arrays, all_values):
    """What a page holds of it, with its figures over all values."""
    (x, y), (dropped_x, dropped_y), returns = divided(series.x, series.y)
    figures = figures_of(x, y)
    size = bucket_size(len(y), all_values)
    if size > 1:
        x, y = bucketed(x, y, size)
    if len(dropped_y) > FEWEST_KEPT:
        dropped_x, dropped_y = bucketed(dropped_x, dropped_y, math.ceil(5 * len(dropped_y) / FEWEST_KEPT))
    described = {"name": series.name, "axis": series.axis, "x": arrays.place(x), "y": arrays.place(y), "bucket": size,
                 "nulls": nulls_of(series, len(returns) > 0), "returns": returns[:100], "return_count": len(returns), **figures}
    if len(dropped_y):
        described["dropped"] = {"x": arrays.place(dropped_x), "y": arrays.place(dropped_y)}
    return described


def nulls_of(series, is_divided):
    """How many null there are among the values that count."""
    if not is_divided or not series.nulls:
        return len(series.nulls)
    is_null = array.array("d", bytes(8 * len(series.y)))
    for place in series.nulls:
        is_null[place] = 1.0
    return int(sum(divided(series.x, is_null)[0][1]))


def figures_of(x, y):
    """Count, last, smallest and largest value with their places, and how many are not finite."""
    finite = [value for value in y if value - value == 0.0]
    figures = {"count": len(y), "nan": sum(map(operator.ne, y, y)), "inf": y.count(math.inf), "minus_inf": y.count(-math.inf),
               "last": None, "min": None, "max": None, "last_x": x[-1] if len(x) else None}
    if finite:
        last = y[-1]
        figures |= {"last": last if math.isfinite(last) else None, "min": min(finite), "max": max(finite)}
        figures |= {"min_x": x[y.index(figures["min"])], "max_x": x[y.index(figures["max"])]}
    return figures
