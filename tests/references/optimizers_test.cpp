// SPDX-License-Identifier: Apache-2.0
// A hundred steps of each optimizer beside PyTorch's, with the gradients of the file.
#include <doctest/doctest.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/optim/adadelta.h>
#include <tutti/optim/adagrad.h>
#include <tutti/optim/adam.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/clip.h>
#include <tutti/optim/lamb.h>
#include <tutti/optim/lion.h>
#include <tutti/optim/muon.h>
#include <tutti/optim/radam.h>
#include <tutti/optim/rmsprop.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/references/match.h>
#include <tutti/tests/references/reference_file.h>
#include <tutti/tests/test_devices.h>

#include <fmt/format.h>

#include <memory>
#include <set>

using namespace tutti;
using namespace tutti::testing;

namespace {

using Parameters = std::vector<Tensor>;
using Made = std::unique_ptr<Optimizer>;

struct Maker {
  const char* name;
  Made (*make)(const Parameters&, double rate, const Attributes&);
};

MuonScale scale_of(const Attributes& a) {
  const bool original = !a.has("scale") || a.text("scale") == "original";
  return original ? MuonScale::original : MuonScale::match_rms_adamw;
}

const Maker kMakers[] = {
    {"sgd",
     [](const Parameters& p, double rate, const Attributes& a) -> Made {
       return std::make_unique<Sgd>(p, rate,
                                    SgdOptions{.momentum = a.number("momentum", 0),
                                               .dampening = a.number("dampening", 0),
                                               .weight_decay = a.number("weight_decay", 0),
                                               .nesterov = a.flag("nesterov")});
     }},
    {"adam",
     [](const Parameters& p, double rate, const Attributes& a) -> Made {
       return std::make_unique<Adam>(p, rate,
                                     AdamOptions{.beta1 = a.number("beta1", 0.9),
                                                 .beta2 = a.number("beta2", 0.999),
                                                 .epsilon = a.number("epsilon", 1e-8),
                                                 .weight_decay = a.number("weight_decay", 0),
                                                 .amsgrad = a.flag("amsgrad")});
     }},
    {"sparse_adam",
     [](const Parameters& p, double rate, const Attributes& a) -> Made {
       for (const Tensor& each : p) Tensor(each).set_sparse_grad(true);
       return std::make_unique<Adam>(p, rate,
                                     AdamOptions{.beta1 = a.number("beta1", 0.9),
                                                 .beta2 = a.number("beta2", 0.999),
                                                 .epsilon = a.number("epsilon", 1e-8)});
     }},
    {"adamw",
     [](const Parameters& p, double rate, const Attributes& a) -> Made {
       return std::make_unique<AdamW>(p, rate,
                                      AdamWOptions{.beta1 = a.number("beta1", 0.9),
                                                   .beta2 = a.number("beta2", 0.999),
                                                   .epsilon = a.number("epsilon", 1e-8),
                                                   .weight_decay = a.number("weight_decay", 0.01)});
     }},
    {"rmsprop",
     [](const Parameters& p, double rate, const Attributes& a) -> Made {
       return std::make_unique<Rmsprop>(p, rate,
                                        RmspropOptions{.alpha = a.number("alpha", 0.99),
                                                       .epsilon = a.number("epsilon", 1e-8),
                                                       .weight_decay = a.number("weight_decay", 0),
                                                       .momentum = a.number("momentum", 0),
                                                       .centered = a.flag("centered")});
     }},
    {"adagrad",
     [](const Parameters& p, double rate, const Attributes& a) -> Made {
       return std::make_unique<Adagrad>(
           p, rate,
           AdagradOptions{.learning_rate_decay = a.number("learning_rate_decay", 0),
                          .weight_decay = a.number("weight_decay", 0),
                          .initial_accumulator_value = a.number("initial_accumulator_value", 0),
                          .epsilon = a.number("epsilon", 1e-10)});
     }},
    {"adadelta",
     [](const Parameters& p, double rate, const Attributes& a) -> Made {
       return std::make_unique<Adadelta>(p, rate,
                                         AdadeltaOptions{.rho = a.number("rho", 0.9),
                                                         .epsilon = a.number("epsilon", 1e-6),
                                                         .weight_decay = a.number("weight_decay", 0)});
     }},
    {"radam",
     [](const Parameters& p, double rate, const Attributes& a) -> Made {
       return std::make_unique<RAdam>(p, rate,
                                      RAdamOptions{.beta1 = a.number("beta1", 0.9),
                                                   .beta2 = a.number("beta2", 0.999),
                                                   .epsilon = a.number("epsilon", 1e-8),
                                                   .weight_decay = a.number("weight_decay", 0),
                                                   .decoupled = a.flag("decoupled")});
     }},
    {"lion",
     [](const Parameters& p, double rate, const Attributes& a) -> Made {
       return std::make_unique<Lion>(p, rate,
                                     LionOptions{.beta1 = a.number("beta1", 0.9),
                                                 .beta2 = a.number("beta2", 0.99),
                                                 .weight_decay = a.number("weight_decay", 0)});
     }},
    {"lamb",
     [](const Parameters& p, double rate, const Attributes& a) -> Made {
       return std::make_unique<Lamb>(p, rate,
                                     LambOptions{.beta1 = a.number("beta1", 0.9),
                                                 .beta2 = a.number("beta2", 0.999),
                                                 .epsilon = a.number("epsilon", 1e-6),
                                                 .weight_decay = a.number("weight_decay", 0.01)});
     }},
    {"muon",
     [](const Parameters& p, double rate, const Attributes& a) -> Made {
       MuonOptions options{
           .momentum = a.number("momentum", 0.95), .weight_decay = a.number("weight_decay", 0.1), .scale = scale_of(a)};
       if (a.has("nesterov")) options.nesterov = a.flag("nesterov");
       return std::make_unique<Muon>(p, rate, options);
     }},
};

const Maker& maker(const std::string& name) {
  for (const Maker& each : kMakers)
    if (name == each.name) return each;
  throw Error(name + " is no optimizer that the test knows");
}

/// The rows of a gradient that tools/references/optimizers.py gives in this step.
SparseGradient seen_rows(const Array& gradient, std::int64_t step) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < gradient.length(0); ++row)
    if ((step + row) % 3 != 0) rows.push_back(row);
  const auto count = static_cast<std::int64_t>(rows.size());
  const Array indices = Array::from(rows, {count}, gradient.device());
  const Array values = embedding(Tensor(gradient), Tensor(indices)).array();
  return {indices, values, gradient.shape(), false};
}

/// One case of the file: parameters and gradients are those of its dtype.
class Trajectory {
 public:
  Trajectory(const std::map<std::string, Array>& arrays, const std::string& name, const Attributes& attributes)
      : arrays_(arrays), name_(name), attributes_(attributes) {
    for (std::size_t i = 0; arrays.count(fmt::format("{}.p{}", name, i)) > 0; ++i)
      parameters_.emplace_back(of_dtype("start", i).to(test_device()).copy(), true);
    optimizer_ = maker(name.substr(0, name.find('.'))).make(parameters_, attributes.number("rate"), attributes);
  }

  void compare() {
    const auto snapshots = arrays_.at(attributes_.text("dtype") + ".snapshots").to_vector<std::int64_t>();
    REQUIRE(!parameters_.empty());
    std::int64_t step = 0;
    for (std::size_t row = 0; row < snapshots.size(); ++row) {
      for (; step < snapshots[row]; ++step) take_step(step);
      for (std::size_t i = 0; i < parameters_.size(); ++i) compare(static_cast<std::int64_t>(row), i, step);
    }
  }

 private:
  const Array& of_dtype(const char* what, std::size_t place) const {
    return arrays_.at(fmt::format("{}.{}{}", attributes_.text("dtype"), what, place));
  }

  void take_step(std::int64_t step) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      GradientSlot& slot = parameters_[i].gradient_slot();
      const Array gradient = of_dtype("gradient", i).slice(0, step, step + 1).squeeze(0).to(test_device()).copy();
      if (parameters_[i].has_sparse_grad())
        slot.rows = {seen_rows(gradient, step)};
      else
        slot.gradient = gradient;
      slot.state = GradientState::accumulated;
    }
    if (attributes_.has("clip")) clip_grad_norm(parameters_, attributes_.number("clip"));
    optimizer_->step();
  }

  void compare(std::int64_t row, std::size_t i, std::int64_t step) const {
    const Array& all = arrays_.at(fmt::format("{}.p{}", name_, i));
    const Array expected = all.slice(0, row, row + 1).squeeze(0).copy();
    const std::string text = difference(expected, parameters_[i].array(), {.relative = tolerance()});
    CHECK_MESSAGE(text.empty(), fmt::format("{} {}, after step {}, parameter {}: {}", name_, attributes_.text("dtype"),
                                            step, i, text));
  }

  double tolerance() const {
    if (name_.starts_with("muon") && attributes_.text("dtype") == "f32") return 1e-5;  // its polynomial amplifies
    return attributes_.text("dtype") == "f32" ? 1e-6 : 1e-12;
  }

  const std::map<std::string, Array>& arrays_;
  std::string name_;
  const Attributes& attributes_;
  Parameters parameters_;
  Made optimizer_;
};

}  // namespace

TEST_CASE("references: a hundred steps of every optimizer") {
  const auto arrays = reference_arrays("optimizers");
  std::set<std::string> seen;
  for (const auto& [name, attributes] : reference_attributes("optimizers")) {
    Trajectory(arrays, name, attributes).compare();
    seen.insert(name.substr(0, name.find('.')));
  }
  CHECK(seen.size() == std::size(kMakers));
}
