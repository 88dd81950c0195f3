// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/training_arguments.h>

#include <tutti/backend/error.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <limits>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using Json = nlohmann::ordered_json;

TEST_CASE("TrainingArguments: names and defaults") {
  const Json json = Json::parse(to_json({}));
  const Json expected = Json::parse(R"({
    "gradient_accumulation_steps": 1, "output_dir": "output_dir", "model_bank": [], "log_steps": 100,
    "train_steps": null, "train_epoch": 1, "eval_steps": null, "save_steps": 1000, "max_to_keep": 5,
    "save_concurrency_per_rank": 4, "save_every_n_windows": 1, "save_every_n_epochs": null, "save_end": true,
    "load_update_steps": null, "load_update_windows": 1, "load_update_epochs": null, "params_not_save": [],
    "saver_option": null, "ckpt_save_arg": null, "ckpt_load_arg": null, "mixed_precision": "none",
    "window_iter": null})");
  CHECK(json == expected);
  validate({});
}

TEST_CASE("TrainingArguments: all fields through JSON and back") {
  TrainingArguments arguments{.gradient_accumulation_steps = 4,
                              .output_dir = "runs/\"a\"",
                              .model_bank = {{.path = "old.safetensors",
                                              .load = {"users.*", "out*"},
                                              .exclude = {"*.bias"},
                                              .rename = {{"model.", ""}, {"a", "b"}},
                                              .strict = false,
                                              .dynamic = true},
                                             {.path = "folder"}},
                              .log_steps = 7,
                              .train_steps = 10,
                              .train_epoch = 2,
                              .eval_steps = 3,
                              .save_steps = std::nullopt,
                              .max_to_keep = 1,
                              .save_concurrency_per_rank = 2,
                              .save_every_n_windows = std::nullopt,
                              .save_every_n_epochs = 6,
                              .save_end = false,
                              .load_update_steps = 11,
                              .load_update_windows = std::nullopt,
                              .load_update_epochs = 12,
                              .params_not_save = {"items.*"},
                              .saver_option = SaverOptions{.output_dir = "elsewhere", .params_not_save = {"x"}},
                              .ckpt_save_arg = CheckpointSaveArguments{.save_steps = 5},
                              .ckpt_load_arg = CheckpointLoadArguments{.load_update_epochs = 9},
                              .mixed_precision = MixedPrecision::bf16,
                              .window_iter = 13};
  const std::string text = to_json(arguments);
  const TrainingArguments back = training_arguments_from_json(text);
  CHECK(to_json(back) == text);
  CHECK(back.model_bank == arguments.model_bank);
  CHECK(back.mixed_precision == MixedPrecision::bf16);
  CHECK(back.saver_option->output_dir == "elsewhere");
  CHECK(Json::parse(text)["model_bank"][0]["rename"] == Json::parse(R"([["model.", ""], ["a", "b"]])"));
  CHECK(to_json(training_arguments_from_json("{}")) == to_json({}));
  CHECK_FALSE(training_arguments_from_json(R"({"save_steps": null})").save_steps);
}

TEST_CASE("TrainingArguments: a field out of range is named, with its value") {
  const auto refused = [](const TrainingArguments& arguments, const char* text) {
    CHECK_THROWS_WITH_AS(validate(arguments), doctest::Contains(text), Error);
    CHECK_THROWS_WITH_AS(training_arguments_from_json(to_json(arguments)), doctest::Contains(text), DataError);
  };
  refused({.gradient_accumulation_steps = 0}, "gradient_accumulation_steps is 0, it must be at least 1");
  refused({.log_steps = -5}, "log_steps is -5");
  refused({.train_epoch = 0}, "train_epoch is 0");
  refused({.save_steps = 0}, "save_steps is 0");
  refused({.max_to_keep = std::numeric_limits<std::int64_t>::min()}, "max_to_keep is -9223372036854775808");
  refused({.window_iter = 0}, "window_iter is 0");
  refused({.output_dir = ""}, "output_dir is \"\"");
  refused({.model_bank = {{.path = "a"}, {.path = ""}}}, "model_bank[1].path is \"\"");
  refused({.saver_option = SaverOptions{.max_to_keep = 0}}, "saver_option.max_to_keep is 0");
  refused({.ckpt_save_arg = CheckpointSaveArguments{.save_every_n_windows = 0}}, "ckpt_save_arg.save_every_n_windows");
  refused({.ckpt_load_arg = CheckpointLoadArguments{.load_update_steps = 0}}, "ckpt_load_arg.load_update_steps is 0");
}

TEST_CASE("TrainingArguments: JSON of a wrong kind names the field, its value and what it must be") {
  const auto refused = [](const char* json, const char* text) {
    CHECK_THROWS_WITH_AS(training_arguments_from_json(json), doctest::Contains(text), DataError);
  };
  refused("", "not JSON");
  refused("[1]", "the text is [1], it must be an object");
  refused(R"({"log_step": 5})", "\"log_step\"");
  refused(R"({"model_bank": [{"paht": "x"}]})", "\"model_bank[0].paht\"");
  refused(R"({"log_steps": "5"})", "log_steps is \"5\", it must be an integer");
  refused(R"({"log_steps": 1.5})", "log_steps is 1.5");
  refused(R"({"log_steps": null})", "log_steps is null");
  refused(R"({"log_steps": 9223372036854775808})", "9223372036854775808");
  refused(R"({"save_end": 1})", "save_end is 1, it must be true or false");
  refused(R"({"output_dir": 1})", "output_dir is 1");
  refused(R"({"params_not_save": "x"})", "params_not_save is \"x\", it must be a list");
  refused(R"({"params_not_save": [1]})", "params_not_save[0] is 1");
  refused(R"({"mixed_precision": "fp8"})", "mixed_precision is \"fp8\"");
  refused(R"({"ckpt_save_arg": {"save_steps": true}})", "ckpt_save_arg.save_steps is true");
  refused(R"({"model_bank": [{"path": "x", "rename": [["a"]]}]})", "model_bank[0].rename[0] is [\"a\"]");
  CHECK(training_arguments_from_json(R"({"mixed_precision": null, "model_bank": null})").model_bank.empty());
  CHECK(training_arguments_from_json(R"({"mixed_precision": "fp16"})").mixed_precision == MixedPrecision::fp16);
}

TEST_CASE("TrainingArguments: what is given as a whole takes the single fields' place") {
  TrainingArguments arguments{.output_dir = "a", .save_steps = 3, .load_update_steps = 4, .params_not_save = {"b.*"}};
  CHECK(arguments.saver().output_dir == "a");
  CHECK(arguments.saver().max_to_keep == 5);
  CHECK(arguments.checkpoint_save().save_steps == 3);
  CHECK(arguments.checkpoint_load().load_update_steps == 4);
  CHECK_FALSE(arguments.saves("b.weight"));
  CHECK(arguments.saves("c.weight"));
  arguments.save_filter_fn = [](const std::string& name) { return name != "c.weight"; };
  CHECK_FALSE(arguments.saves("c.weight"));
  arguments.saver_option = SaverOptions{.output_dir = "d"};
  arguments.ckpt_save_arg = CheckpointSaveArguments{.save_steps = std::nullopt};
  arguments.ckpt_load_arg = CheckpointLoadArguments{};
  CHECK(arguments.saver().output_dir == "d");
  CHECK(arguments.saves("b.weight"));
  CHECK_FALSE(arguments.checkpoint_save().save_steps);
  CHECK_FALSE(arguments.checkpoint_load().load_update_steps);
}
