// SPDX-License-Identifier: Apache-2.0
#include <tutti/c_api/model_registry.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/c_api.h>
#include <tutti/nn/linear.h>

#include <doctest/doctest.h>

#include <string>

using namespace tutti;

namespace {

struct Classifier : Layer {
  Linear hidden, output;
  Classifier(std::int64_t classes, Generator& random) : hidden(4, 8, random), output(8, classes, random) {}
  Tensor compute(const Tensor& x) const override { return output(relu(hidden(x))); }
  void visit(MemberVisitor& v) override {
    v.module("hidden", hidden);
    v.module("output", output);
  }
};

AnyModel make_classifier(const std::string& options, Generator& random) {
  return Classifier(std::stoi(options), random);
}

}  // namespace

TEST_CASE("C API: a model of C++ is made by its name, with its own parameters' names") {
  static const bool registered = [] {
    register_c_model("classifier", make_classifier);
    return true;
  }();
  REQUIRE(registered);
  tutti_model* model = nullptr;
  REQUIRE(tutti_model_create("classifier", "3", "cpu:1", 5, &model) == TUTTI_OK);
  const char* name = nullptr;
  CHECK(tutti_model_tensor_name(model, 0, &name) == TUTTI_OK);
  CHECK(std::string(name) == "hidden.weight");
  tutti_model_free(model);

  // What a factory throws is a status.
  CHECK(tutti_model_create("classifier", "three", "cpu:0", 5, &model) == TUTTI_INTERNAL_ERROR);
  CHECK(model == nullptr);
  CHECK(tutti_model_create("classifier", "0", "cpu:0", 5, &model) == TUTTI_SHAPE_ERROR);

  CHECK_THROWS_WITH_AS(register_c_model("classifier", make_classifier),
                       "[register_c_model] there are models of the kind \"classifier\" already; choose another name",
                       Error);
  CHECK_THROWS_AS(register_c_model("nothing", nullptr), Error);
  CHECK_THROWS_AS(register_c_model("mlp", make_classifier), Error);
}

TEST_CASE("C API: a copy of a model on another device is independent") {
  Generator random(1);
  const AnyModel model = make_c_model("mlp", "2,3", random);
  const AnyModel copy = model.clone_to(cpu(1));
  const Tensor weight = model.module().parameters()[0];
  const Tensor copied = copy.module().parameters()[0];
  CHECK(copied.device() == cpu(1));
  CHECK(copied.to_vector<float>() == weight.to_vector<float>());
  const NoGrad writing;
  weight.fill_(0);
  CHECK(copied.to_vector<float>() != weight.to_vector<float>());
}
