// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/c_api/c_programs.h>
#include <tutti/tests/c_api/check.h>

static int values_of(const tutti_model* model, const char* name, float* values, size_t bytes) {
  tutti_tensor* tensor = NULL;
  int failed = 0;
  CHECK_OK(tutti_model_get_tensor(model, name, &tensor));
  CHECK_OK(tutti_tensor_read(tensor, values, bytes));
  tutti_tensor_free(tensor);
  return failed;
}

static int members(void) {
  int failed = 0;
  tutti_model* model = NULL;
  CHECK_OK(tutti_model_create("mlp", "3,4,2;activation=gelu", "cpu:0", 7, &model));
  size_t count = 0;
  CHECK_OK(tutti_model_tensor_count(model, &count));
  CHECK(count == 4);
  const char* const expected[] = {"0.weight", "0.bias", "2.weight", "2.bias"};
  for (size_t i = 0; i < count && i < 4; ++i) {
    const char* name = NULL;
    CHECK_OK(tutti_model_tensor_name(model, i, &name));
    CHECK(name != NULL && strcmp(name, expected[i]) == 0);
  }
  const char* name = NULL;
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "no tensor 4; the model has 4", tutti_model_tensor_name(model, 4, &name));

  // Seeds make values, wherever.
  tutti_model* same = NULL;
  tutti_model* another = NULL;
  float weight[8], same_weight[8], other_weight[8];
  CHECK_OK(tutti_model_create("mlp", "3,4,2;activation=gelu", "cpu:1", 7, &same));
  CHECK_OK(tutti_model_create("mlp", "3,4,2;activation=gelu", "cpu:0", 8, &another));
  failed += values_of(model, "2.weight", weight, sizeof weight);
  failed += values_of(same, "2.weight", same_weight, sizeof weight);
  failed += values_of(another, "2.weight", other_weight, sizeof weight);
  CHECK(memcmp(weight, same_weight, sizeof weight) == 0 && memcmp(weight, other_weight, sizeof weight) != 0);

  const int64_t two[] = {2}, four[] = {4};
  const double bias[] = {0.5, -0.25};
  float read[2];
  tutti_tensor* tensor = NULL;
  CHECK_OK(tutti_tensor_create(two, 1, TUTTI_F64, bias, sizeof bias, "cpu:0", &tensor));
  CHECK_OK(tutti_model_set_tensor(model, "2.bias", tensor));
  failed += values_of(model, "2.bias", read, sizeof read);
  CHECK(read[0] == 0.5F && read[1] == -0.25F);
  CHECK_FAILS(TUTTI_SHAPE_ERROR, "0.bias: f64 [2] given", tutti_model_set_tensor(model, "0.bias", tensor));
  tutti_tensor* integers = NULL;
  CHECK_OK(tutti_tensor_zeros(four, 1, TUTTI_I32, "cpu:0", &integers));
  CHECK_FAILS(TUTTI_DTYPE_ERROR, "0.bias: i32 ", tutti_model_set_tensor(model, "0.bias", integers));
  tutti_tensor_free(integers);
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "2.biass", tutti_model_set_tensor(model, "2.biass", tensor));
  tutti_tensor* none = NULL;
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "7.bias", tutti_model_get_tensor(model, "7.bias", &none));
  tutti_tensor_free(tensor);
  tutti_model_free(model);
  tutti_model_free(same);
  tutti_model_free(another);
  return failed;
}

static int outputs(void) {
  int failed = 0;
  tutti_model* model = NULL;
  tutti_tensor *input = NULL, *output = NULL, *wrong = NULL;
  const int64_t shape[] = {5, 3};
  CHECK_OK(tutti_model_create("mlp", "3,2", "cpu:0", 1, &model));
  CHECK_OK(tutti_tensor_zeros(shape, 2, TUTTI_F32, "cpu:0", &input));
  CHECK_OK(tutti_model_set_training(model, 0));
  CHECK_OK(tutti_model_infer(model, input, &output));
  int64_t lengths[2] = {0};
  size_t rank = 0;
  CHECK_OK(tutti_tensor_shape(output, lengths, 2, &rank));
  CHECK(rank == 2 && lengths[0] == 5 && lengths[1] == 2);
  tutti_tensor* loss = NULL;
  CHECK_OK(tutti_loss("mse", output, output, &loss));
  CHECK_FAILS(TUTTI_AUTODIFF_ERROR, "", tutti_backward(loss));  // nothing was recorded
  tutti_tensor_free(loss);
  CHECK_OK(tutti_tensor_zeros(shape, 1, TUTTI_F32, "cpu:0", &wrong));
  CHECK_FAILS(TUTTI_SHAPE_ERROR, "tutti_model_forward", tutti_model_forward(model, wrong, &loss));
  CHECK(loss == NULL);
  tutti_tensor_free(wrong);
  CHECK_OK(tutti_tensor_zeros(shape, 2, TUTTI_F32, "cpu:2", &wrong));
  CHECK_FAILS(TUTTI_DEVICE_ERROR, "cpu:2", tutti_model_forward(model, wrong, &loss));
  tutti_tensor_free(wrong);
  tutti_tensor_free(input);
  tutti_tensor_free(output);
  tutti_model_free(model);
  return failed;
}

static int kinds(void) {
  int failed = 0;
  tutti_model* model = NULL;
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "no models of the kind \"lstm\"; there are mlp, onnx",
              tutti_model_create("lstm", NULL, "cpu:0", 1, &model));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "an input and an output", tutti_model_create("mlp", NULL, "cpu:0", 1, &model));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "\"x\" is no length", tutti_model_create("mlp", "3,x", "cpu:0", 1, &model));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "no option", tutti_model_create("mlp", "3,2;width=3", "cpu:0", 1, &model));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "no activation function \"step\"",
              tutti_model_create("mlp", "3,2,2;activation=step", "cpu:0", 1, &model));
  CHECK(model == NULL);
  return failed;
}

static int files(const char* folder) {
  int failed = 0;
  tutti_model *saved = NULL, *loaded = NULL, *narrow = NULL;
  CHECK_OK(tutti_model_create("mlp", "3,4,2", "cpu:0", 1, &saved));
  CHECK_OK(tutti_model_create("mlp", "3,5,2", "cpu:0", 1, &narrow));
  const char* const endings[] = {"safetensors", "npz"};
  for (int i = 0; i < 2; ++i) {
    char path[1024];
    float weight[12], read[12];
    CHECK_OK(tutti_model_create("mlp", "3,4,2", "cpu:1", 2, &loaded));
    snprintf(path, sizeof path, "%s/model.%s", folder, endings[i]);
    CHECK_OK(tutti_model_save(saved, path));
    CHECK_OK(tutti_model_load(loaded, path));
    failed += values_of(saved, "0.weight", weight, sizeof weight);
    failed += values_of(loaded, "0.weight", read, sizeof read);
    CHECK(memcmp(weight, read, sizeof weight) == 0);
    CHECK_FAILS(TUTTI_DATA_ERROR, "0.weight", tutti_model_load(narrow, path));
    tutti_model_free(loaded);
  }
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "neither", tutti_model_save(saved, "model.onnx"));
  CHECK_FAILS(TUTTI_DATA_ERROR, "/nowhere/x.npz", tutti_model_load(saved, "/nowhere/x.npz"));
  tutti_model_free(saved);
  tutti_model_free(narrow);
  return failed;
}

/// Of the file that the caller has written: relu(x weight^T + bias), whose weight is [2, 3].
static int from_onnx(const char* folder) {
  int failed = 0;
  char path[1024];
  tutti_model* model = NULL;
  tutti_tensor *input = NULL, *output = NULL, *loss = NULL;
  tutti_optimizer* optimizer = NULL;
  const float x[] = {1, 0, 0};
  const int64_t shape[] = {1, 3};
  snprintf(path, sizeof path, "%s/layer.onnx", folder);
  CHECK_OK(tutti_model_create("onnx", path, "cpu:0", 1, &model));
  float weight[6], y[2];
  failed += values_of(model, "weight", weight, sizeof weight);
  CHECK(weight[0] == 1 && weight[5] == -3);
  CHECK_OK(tutti_tensor_create(shape, 2, TUTTI_F32, x, sizeof x, "cpu:0", &input));
  CHECK_OK(tutti_model_infer(model, input, &output));
  CHECK_OK(tutti_tensor_read(output, y, sizeof y));
  CHECK(y[0] == 1.5F && y[1] == 0);
  tutti_tensor_free(output);
  // It is trained as others are.
  CHECK_OK(tutti_optimizer_create("sgd", model, NULL, &optimizer));
  CHECK_OK(tutti_model_forward(model, input, &output));
  CHECK_OK(tutti_loss("l1", output, output, &loss));
  CHECK_OK(tutti_backward(loss));
  CHECK_OK(tutti_optimizer_step(optimizer));
  tutti_optimizer_free(optimizer);
  tutti_tensor_free(loss);
  tutti_tensor_free(output);
  tutti_tensor_free(input);
  tutti_model_free(model);
  model = NULL;
  CHECK_FAILS(TUTTI_DATA_ERROR, "/nowhere/x.onnx", tutti_model_create("onnx", "/nowhere/x.onnx", "cpu:0", 1, &model));
  CHECK_FAILS(TUTTI_DATA_ERROR, "onnx", tutti_model_create("onnx", NULL, "cpu:0", 1, &model));
  CHECK(model == NULL);
  return failed;
}

int c_models(const char* folder) { return members() + outputs() + kinds() + files(folder) + from_onnx(folder); }
