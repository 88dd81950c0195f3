// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/c_api/c_programs.h>
#include <tutti/tests/c_api/check.h>
#include <tutti/tests/c_api/clouds.h>

static int trained_by(const char* kind, double learning_rate, double momentum) {
  int failed = 0;
  Clouds clouds;
  make_clouds(&clouds);
  const int64_t shape[] = {kPoints, 2};
  tutti_tensor *points = NULL, *classes = NULL;
  CHECK_OK(tutti_tensor_borrow(shape, 2, TUTTI_F32, clouds.points, sizeof clouds.points, "cpu:0", NULL, NULL, &points));
  CHECK_OK(tutti_tensor_create(shape, 1, TUTTI_I64, clouds.classes, sizeof clouds.classes, "cpu:0", &classes));
  tutti_model* model = NULL;
  tutti_optimizer* optimizer = NULL;
  tutti_optimizer_options options;
  CHECK_OK(tutti_model_create("mlp", "2,16,3", "cpu:0", 1, &model));
  CHECK_OK(tutti_optimizer_defaults(kind, sizeof options, &options));
  options.learning_rate = learning_rate;
  options.momentum = momentum;
  CHECK_OK(tutti_optimizer_create(kind, model, &options, &optimizer));
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    tutti_tensor *logits = NULL, *loss = NULL;
    CHECK_OK(tutti_optimizer_zero_grad(optimizer));
    CHECK_OK(tutti_model_forward(model, points, &logits));
    CHECK_OK(tutti_loss("cross_entropy", logits, classes, &loss));
    CHECK_OK(tutti_tensor_item(loss, step == 0 ? &first : &last));
    CHECK_OK(tutti_backward(loss));
    if (step == 0) CHECK_FAILS(TUTTI_AUTODIFF_ERROR, "", tutti_backward(loss));
    CHECK_OK(tutti_optimizer_step(optimizer));
    tutti_tensor_free(logits);
    tutti_tensor_free(loss);
  }
  CHECK(last < first / 4);
  tutti_optimizer_free(optimizer);

  float logits[kPoints * 3];
  tutti_tensor* output = NULL;
  CHECK_OK(tutti_model_set_training(model, 0));
  CHECK_OK(tutti_model_infer(model, points, &output));
  CHECK_OK(tutti_tensor_read(output, logits, sizeof logits));
  CHECK(clouds_accuracy(&clouds, logits) >= 0.98);
  tutti_tensor_free(output);
  tutti_tensor_free(points);
  tutti_tensor_free(classes);
  tutti_model_free(model);
  return failed;
}

static int options_and_errors(void) {
  int failed = 0;
  tutti_model* model = NULL;
  tutti_optimizer* optimizer = NULL;
  tutti_optimizer_options options;
  CHECK_OK(tutti_model_create("mlp", "2,3", "cpu:0", 1, &model));
  CHECK_OK(tutti_optimizer_defaults("adamw", sizeof options, &options));
  CHECK(options.size == sizeof options && options.beta2 == 0.999 && options.learning_rate == 0.001);
  options.beta1 = 2;
  CHECK_FAILS(TUTTI_ERROR, "", tutti_optimizer_create("adamw", model, &options, &optimizer));
  options.size = 3;
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "options of 3 bytes", tutti_optimizer_create("sgd", model, &options, &optimizer));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "bytes", tutti_optimizer_defaults("sgd", sizeof options + 8, &options));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "there are sgd, adamw", tutti_optimizer_create("lion", model, NULL, &optimizer));
  CHECK(optimizer == NULL);
  CHECK_OK(tutti_optimizer_create("sgd", model, NULL, &optimizer));
  CHECK_OK(tutti_optimizer_set_learning_rate(optimizer, 0.5));
  CHECK_FAILS(TUTTI_ERROR, "", tutti_optimizer_set_learning_rate(optimizer, -1));
  // What is still needed lives on.
  tutti_model_free(model);
  CHECK_OK(tutti_optimizer_step(optimizer));
  tutti_optimizer_free(optimizer);
  return failed;
}

int c_training(void) { return trained_by("adamw", 0.05, 0) + trained_by("sgd", 0.2, 0.9) + options_and_errors(); }
