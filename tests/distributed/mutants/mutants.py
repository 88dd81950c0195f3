#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules of the SyncLedger deleted or weakened one at a time, to show that its proof can fail.

  mutants.py names                     the mutants' names, each with the source that it changes
  mutants.py table OUTPUT              lines of a name and the violated property
  mutants.py apply NAME INPUT OUTPUT   that source with the mutation

Each change is a text that must occur exactly once in one of the SOURCES, and what stands there instead. When the ledger is
rewritten, so is the mutation: it says which rule is broken.
"""

import pathlib
import sys

LEDGER = pathlib.Path(__file__).resolve().parents[3] / "distributed" / "ledger"
SOURCES = ("sync_ledger.cpp", "sync_ledger_reforming.cpp")

# name: (property that catches it, [(text, instead)...])
MUTANTS = {
    # The two rules of the original server.
    "release_when_own_gradients_are_launched": ("released_in_time", [(
        "  ++synced_;\n  if (has_outside()) launch_in_order(actions);\n  try_complete(actions);",
        "  ++synced_;\n  if (has_outside()) launch_in_order(actions);\n"
        "  if (std::ranges::all_of(member.required->parameters(), [&](ParameterId id) { return is_launched(id); }))\n"
        "    actions.push_back(Release{current_generation(), total_weight_});",
    )]),
    "launch_among_those_registered_so_far": ("launched_in_time", [
        ("if (++registered_ == members_.size()) all_registered(actions);", "++registered_, all_registered(actions);"),
        ("  if (registered_ < members_.size()) {\n    early_.push_back", "  if (false) {\n    early_.push_back"),
    ]),
    # Launching.
    "no_launch_at_last_registration": ("released_in_time", [(
        "  for (const std::uint32_t bucket : early_) try_launch(bucket, actions);\n",
        "",
    )]),
    "launch_when_first_has_submitted": ("launched_in_time", [(
        "if (++bucket.submitted < bucket.required) return;",
        "if (++bucket.submitted < 1) return;",
    )]),
    "launch_twice": ("launched_once", [
        ("  if (bucket.launched_stamp == stamp_now()) return;\n", ""),
        ("== buckets_[bucket].required) early_.push_back(bucket);",
         "== buckets_[bucket].required) early_.insert(early_.end(), 2, bucket);"),
    ]),
    "launch_without_weight": ("launched_if_needed", [("  if (total_weight_ == 0.0) return;\n", "")]),
    "launch_only_what_all_require": ("released_in_time", [(
        "if (buckets_[bucket].submitted == buckets_[bucket].required)",
        "if (buckets_[bucket].submitted == buckets_[bucket].count * members_.size())",
    )]),
    "early_buckets_kept_for_next_generation": ("launched_in_time", [
        ("try_launch(bucket, actions);\n  }\n  early_.clear();", "try_launch(bucket, actions);\n  }"),
        ("registered_ = synced_ = launched_ = 0;\n  early_.clear();", "registered_ = synced_ = launched_ = 0;"),
    ]),
    # Counting.
    "weight_0_contributes": ("sum_of_requirers", [
        ("required && (members_[m].weight > 0.0 || members_[m].passes_on)", "required"),
    ]),
    "nothing_is_passed_on_with_weight_0": ("sum_of_requirers", [(" || members_[m].passes_on", "")]),
    "absent_device_contributes": ("sum_of_requirers", [(
        ".contributes = required && (members_[m].weight", ".contributes = (members_[m].weight",
    )]),
    "absent_device_receives_nothing": ("sum_of_requirers", [(
        "required || configuration_.absent == Absent::zero", "required",
    )]),
    "divide_by_all_weights_under_subset": ("sum_of_requirers", [(
        "if (required_[cell(m, id)]) weight += members_[m].weight;", "weight += members_[m].weight;",
    )]),
    "weight_of_a_device_that_left": ("sum_of_requirers", [("  member.weight = 0.0;\n  member.owed = 0;", "  member.owed = 0;")]),
    "submissions_of_last_generation_counted": ("processes_told", [(
        "    bucket.stamp = stamp_now();\n    bucket.submitted = 0;", "    bucket.stamp = stamp_now();",
    )]),
    "requirements_of_a_device_that_left": ("processes_told", [(
        "  require(member, index, nullptr);\n  member.registered = member.synced = true;",
        "  member.registered = member.synced = true;",
    )]),
    # Buckets.
    "buckets_of_different_requirers": ("launched_in_time", [(
        "if (required_[cell(m, first.parameter)] != required_[cell(m, place.parameter)]) return false;", ";",
    )]),
    "buckets_over_gaps": ("launched_in_time", [("position != bucket.first + bucket.count || ", "")]),
    "buckets_of_any_length": ("launched_in_time", [(
        "longest = configuration_.bucket_bytes;", "longest = ~std::size_t{0};",
    )]),
    "buckets_kept_when_a_set_changes": ("released_in_time", [(
        "  member.required = std::move(required);\n  stale_ = true;",
        "  member.required = std::move(required);\n  stale_ = stale_ || buckets_.empty();",
    )]),
    "buckets_kept_when_the_layout_changes": ("launched_if_needed", [(
        "configuration_.layout = std::move(layout);\n  stale_ = true;", "configuration_.layout = std::move(layout);",
    )]),
    # Releasing.
    "release_without_all_syncs": ("released_in_time", [("|| synced_ < members_.size() || stale_", "|| stale_")]),
    "release_without_all_registrations": ("released_in_time", [(
        "if (registered_ < members_.size() || synced_ < members_.size() || stale_ || launched_ < buckets_.size()) return;",
        "if (synced_ == 0 || synced_ < registered_ || stale_) return;",
    )]),
    "no_release_at_last_sync": ("released_in_time", [("launch_in_order(actions);\n  try_complete(actions);", "launch_in_order(actions);")]),
    "no_release_at_last_leave": ("released_in_time", [(
        "  early_.clear();\n  try_complete(actions);", "  early_.clear();",
    )]),
    # Generations and groups.
    "stale_generation_counted": ("misuse_fails", [(
        "if (stamp.generation != current_generation()) return of_kind", "if (stamp.generation < 0) return of_kind",
    )]),
    "group_number_forgotten": ("old_groups_mute", [(
        "std::vector<LedgerAction>& actions) {\n  if (fault_ || stamp.group != group_) return;\n"
        "  if (const auto fault = misfit(stamp)) return fail(*fault, actions);\n  Member& member = members_[stamp.member];\n"
        "  Fault fault{.member = stamp.member, .generation = stamp.generation, .parameter = parameter};",
        "std::vector<LedgerAction>& actions) {\n  if (fault_) return;\n"
        "  if (const auto fault = misfit(stamp)) return fail(*fault, actions);\n  Member& member = members_[stamp.member];\n"
        "  Fault fault{.member = stamp.member, .generation = stamp.generation, .parameter = parameter};",
    )]),
    "leave_of_an_old_group": ("old_groups_mute", [(
        "if (member.left || closed_ || stamp.group != group_) return;", "if (member.left || closed_) return;",
    )]),
    "submissions_of_the_failed_group_kept": ("failure_heard", [(
        "  std::ranges::fill(submitted_, Clock32{0});", "  //",
    )]),
    # Failures, leaving, re-forming.
    "failure_does_not_reach_waiters": ("failure_heard", [("  actions.push_back(Fail{fault});\n", "")]),
    "failure_does_not_stop_the_group": ("missing_is_named", [("  fault_ = fault;\n", "")]),
    "last_fault_counts": ("failure_heard", [("  if (fault_) return;\n  fault_ = fault;", "  if (fault_ && closed_) return;\n  fault_ = fault;")]),
    "leave_after_sync_undoes_the_step": ("failure_heard", [("if (!fault_ && member.synced) {", "if (false) {")]),
    "leave_holds_for_one_generation": ("released_in_time", [("    if (member.left) register_empty(index);\n", "")]),
    "leave_does_not_let_others_form": ("reforms", [("if (fault_) return try_reform(actions);", "if (fault_) return;")]),
    "forms_without_all": ("reforms", [("    if (!member.joined) return;\n", "    if (!member.joined) continue;\n")]),
    "oldest_is_ahead": ("reforms", [("*member.joined > *newest", "*member.joined < *newest")]),
    "nobody_is_behind": ("reforms", [("members_[index].joined && *members_[index].joined < *newest", "false")]),
    "step_of_one_that_left_is_taken_again": ("commits_stand", [("if (const auto ahead = left_ahead()) {", "if (const auto ahead = left_ahead(); false) {")]),
    "nobody_goes_on_once_one_has_left": ("commits_stand", [("    if (!members_[index].left) return std::nullopt;\n", "    if (!members_[index].left) continue;\n")]),
    "closed_group_forms_again": ("reforms", [("if (!fault_ || closed_ || group != group_ + 1", "if (!fault_ || group != group_ + 1")]),
    # Several processes.
    "last_bucket_not_held": ("launched_in_time", [("    if (commits && synced_ < members_.size()) return;\n", "")]),
    "launched_before_the_agreement": ("processes_told", [("  if (!outside_.agreed) return;\n", "")]),
    "launched_as_they_are_full": ("launched_in_time", [(
        "  if (has_outside()) return launch_in_order(actions);\n",
        "  if (has_outside() && outside_.agreed) return try_launch(bucket_of_[parameter.value], actions);\n",
    )]),
    "nothing_launched_at_the_last_sync": ("processes_told", [("  if (has_outside()) launch_in_order(actions);\n", "")]),
    "released_before_the_commit": ("released_in_time", [("  if (!has_outside()) return complete(actions);", "  return complete(actions);")]),
    "agreement_of_any_generation": ("old_groups_mute", [(
        "generation != current_generation() || !outside_.asked", "!outside_.asked",
    )]),
    "agreement_that_nobody_asked_for": ("old_groups_mute", [(" || !outside_.asked || outside_.agreed) return;", " || outside_.agreed) return;")]),
    "commit_that_nobody_asked_for": ("old_groups_mute", [(" || !outside_.committing) return;", ") return;")]),
    "buckets_kept_when_the_agreement_changes": ("processes_told", [(
        " || !agreement->has_same_sets(*outside_.agreement);", ";",
    )]),
    "buckets_of_different_requirers_outside": ("buckets_uniform", [(
        "return !has_outside() || outside_.agreement->required_by_same(first.parameter, place.parameter);", "return true;",
    )]),
    "others_left_alone": ("processes_told", [("if (members_left() && !has_outside()) return;", "if (members_left()) return;")]),
    "others_left_alone_after_a_generation": ("processes_told", [("  if (has_outside() && members_left()) all_registered(actions);", "  //")]),
    "empty_round_not_exchanged": ("processes_told", [("total_weight_ > 0.0 && !buckets_.empty()}", "true}")]),
    "commit_asked_twice": ("processes_told", [("std::exchange(outside_.committing, true)) return;", "std::exchange(outside_.committing, true), false) return;")]),
    "weights_of_this_process_alone": ("sum_of_requirers", [("open_generation(outside_.agreement->total_weight(), actions);", "{\n    double here = 0.0;\n    for (const Member& member : members_) here += member.weight;\n    open_generation(here, actions);\n  }")]),
    "joined_without_the_others": ("reforms", [(" || has_outside()) return false;", ") return false;")]),
    # Misuse.
    "second_submission_counted": ("misuse_fails", [(
        "  if (submitted == stamp_now()) return fault.kind = Fault::Kind::submitted_twice, fail(fault, actions);\n", "",
    )]),
    "sync_while_gradients_are_owed": ("misuse_fails", [("if (member.owed > 0) {", "if (false) {")]),
}


def source_of(name):
    """The one that has the mutant's first text; the others have to be there, too."""
    for source in SOURCES:
        if MUTANTS[name][1][0][0] in (LEDGER / source).read_text():
            return source
    sys.exit(f"mutant {name}: its text occurs in none of {', '.join(SOURCES)}:\n{MUTANTS[name][1][0][0]}")


def apply(name, source):
    for text, instead in MUTANTS[name][1]:
        count = source.count(text)
        if count != 1:
            sys.exit(f"mutant {name}: its text occurs {count} times in {source_of(name)} instead of once:\n{text}")
        source = source.replace(text, instead)
    return source


def main(command, *arguments):
    if command == "names":
        print("\n".join(f"{name} {source_of(name)}" for name in MUTANTS))
    elif command == "table":
        rows = (f"{name} {violated}\n" for name, (violated, _) in MUTANTS.items())
        pathlib.Path(arguments[0]).write_text("".join(rows))
    elif command == "apply":
        name, source, output = arguments
        pathlib.Path(output).write_text(apply(name, pathlib.Path(source).read_text()))


if __name__ == "__main__":
    main(*sys.argv[1:])
