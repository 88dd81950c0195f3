// SPDX-License-Identifier: Apache-2.0
#include <tutti/c_api.h>

#include <tutti/backend/raise.h>
#include <tutti/c_api/calls/handles.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/sgd.h>

#include <cstddef>
#include <cstring>

using namespace tutti;
using namespace tutti::c_api;

namespace {

/// Bytes of the options of version 1; those of a later one are more.
constexpr std::size_t kSmallestOptions = offsetof(tutti_optimizer_options, epsilon) + sizeof(double);

void check_size(std::size_t size) {
  if (size < kSmallestOptions || size > sizeof(tutti_optimizer_options))
    refuse(
        fmt::format("options of {} bytes; this library, version {} of the C API, knows {} to {}: write "
                    "sizeof(tutti_optimizer_options), and ask tutti_c_api_version() first",
                    size, TUTTI_C_API_VERSION, kSmallestOptions, sizeof(tutti_optimizer_options)));
}

[[noreturn]] void refuse_kind(const std::string& kind) {
  refuse("no optimizer \"" + kind + "\"; there are sgd, adamw");
}

tutti_optimizer_options defaults_of(const std::string& kind) {
  const SgdOptions sgd;
  const AdamWOptions adamw;
  const bool is_adamw = kind == "adamw";
  if (!is_adamw && kind != "sgd") refuse_kind(kind);
  return {.size = sizeof(tutti_optimizer_options),
          .learning_rate = is_adamw ? 0.001 : 0.01,
          .weight_decay = is_adamw ? adamw.weight_decay : sgd.weight_decay,
          .momentum = sgd.momentum,
          .nesterov = sgd.nesterov ? 1 : 0,
          .beta1 = adamw.beta1,
          .beta2 = adamw.beta2,
          .epsilon = adamw.epsilon};
}

/// The caller's options; what a version of theirs did not know yet is as by default.
tutti_optimizer_options completed(const std::string& kind, const tutti_optimizer_options* given) {
  tutti_optimizer_options options = defaults_of(kind);
  if (given == nullptr) return options;
  check_size(given->size);
  std::memcpy(&options, given, given->size);
  return options;
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& kind, std::vector<Tensor> parameters,
                                          const tutti_optimizer_options& options) {
  if (kind == "sgd")
    return std::make_unique<Sgd>(
        std::move(parameters), options.learning_rate,
        SgdOptions{
            .momentum = options.momentum, .weight_decay = options.weight_decay, .nesterov = options.nesterov != 0});
  if (kind == "adamw")
    return std::make_unique<AdamW>(std::move(parameters), options.learning_rate,
                                   AdamWOptions{.beta1 = options.beta1,
                                                .beta2 = options.beta2,
                                                .epsilon = options.epsilon,
                                                .weight_decay = options.weight_decay});
  refuse_kind(kind);
}

Optimizer& optimizer_of(tutti_optimizer* optimizer) { return *required(optimizer, "optimizer").optimizer; }

}  // namespace

tutti_status tutti_optimizer_defaults(const char* kind, std::size_t size, tutti_optimizer_options* options) {
  return guarded("tutti_optimizer_defaults", [&] {
    tutti_optimizer_options defaults = defaults_of(required_text(kind, "kind"));
    require(options, "options");
    check_size(size);
    defaults.size = size;
    std::memcpy(options, &defaults, size);
  });
}

tutti_status tutti_optimizer_create(const char* kind, tutti_model* model, const tutti_optimizer_options* options,
                                    tutti_optimizer** result) {
  return guarded("tutti_optimizer_create", [&] {
    tutti_optimizer*& made = empty_result(result);
    const std::string wanted = required_text(kind, "kind");
    Module& module = required(model, "model").model.module();
    made = new tutti_optimizer{make_optimizer(wanted, module.parameters(), completed(wanted, options))};
  });
}

void tutti_optimizer_free(tutti_optimizer* optimizer) { delete optimizer; }

tutti_status tutti_optimizer_step(tutti_optimizer* optimizer) {
  return guarded("tutti_optimizer_step", [&] { optimizer_of(optimizer).step(); });
}

tutti_status tutti_optimizer_zero_grad(tutti_optimizer* optimizer) {
  return guarded("tutti_optimizer_zero_grad", [&] { optimizer_of(optimizer).zero_grad(); });
}

tutti_status tutti_optimizer_set_learning_rate(tutti_optimizer* optimizer, double learning_rate) {
  return guarded("tutti_optimizer_set_learning_rate",
                 [&] { optimizer_of(optimizer).set_learning_rate(learning_rate); });
}
