// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/c_api/c_programs.h>
#include <tutti/tests/c_api/check.h>

#define CHECK_NULL(name, call) CHECK_FAILS(TUTTI_INVALID_ARGUMENT, name " is NULL", call)
/// The handle that the call should have made is NULL, whatever it was.
#define CHECK_MAKES_NONE(handle, name, call) \
  do {                                       \
    handle = (void*)&no_handle;              \
    CHECK_NULL(name, call);                  \
    CHECK(handle == NULL);                   \
  } while (0)

static int without_arguments(void) {
  int failed = 0;
  const int64_t shape[] = {2};
  const float values[] = {1, 2};
  const char* const devices[] = {"cpu:0", NULL};
  char no_handle = 0;
  tutti_tensor* tensor = NULL;
  tutti_model* model = NULL;
  tutti_optimizer* optimizer = NULL;
  tutti_group* group = NULL;
  size_t size = 0;
  int32_t number = 0;
  double value = 0;
  const char* name = NULL;
  CHECK_NULL("available", tutti_device_available("cpu:0", NULL));
  CHECK_NULL("device", tutti_device_available(NULL, &number));
  CHECK_NULL("device", tutti_set_cpu_threads(NULL, 1));
  CHECK_NULL("threads", tutti_cpu_threads("cpu:0", NULL));
  CHECK_NULL("result", tutti_tensor_zeros(shape, 1, TUTTI_F32, "cpu:0", NULL));
  CHECK_MAKES_NONE(tensor, "shape", tutti_tensor_zeros(NULL, 1, TUTTI_F32, "cpu:0", &tensor));
  CHECK_MAKES_NONE(tensor, "device", tutti_tensor_zeros(shape, 1, TUTTI_F32, NULL, &tensor));
  CHECK_MAKES_NONE(tensor, "data", tutti_tensor_create(shape, 1, TUTTI_F32, NULL, sizeof values, "cpu:0", &tensor));
  CHECK_MAKES_NONE(tensor, "data", tutti_tensor_borrow(shape, 1, TUTTI_F32, NULL, 8, "cpu:0", NULL, NULL, &tensor));
  CHECK_NULL("tensor", tutti_tensor_shape(NULL, NULL, 0, &size));
  CHECK_NULL("tensor", tutti_tensor_dtype(NULL, &number));
  CHECK_NULL("tensor", tutti_tensor_item(NULL, &value));
  CHECK_MAKES_NONE(tensor, "tensor", tutti_tensor_to(NULL, "cpu:1", &tensor));
  CHECK_NULL("tensor", tutti_tensor_read(NULL, &value, 8));
  CHECK_MAKES_NONE(tensor, "managed", tutti_tensor_from_dlpack(NULL, &tensor));
  CHECK_MAKES_NONE(tensor, "managed", tutti_tensor_from_dlpack_versioned(NULL, &tensor));
  CHECK_MAKES_NONE(model, "kind", tutti_model_create(NULL, "2,2", "cpu:0", 1, &model));
  CHECK_NULL("model", tutti_model_tensor_count(NULL, &size));
  CHECK_NULL("model", tutti_model_tensor_name(NULL, 0, &name));
  CHECK_NULL("model", tutti_model_save(NULL, "x.npz"));
  CHECK_NULL("model", tutti_model_load(NULL, "x.npz"));
  CHECK_MAKES_NONE(tensor, "model", tutti_model_forward(NULL, NULL, &tensor));
  CHECK_MAKES_NONE(tensor, "kind", tutti_loss(NULL, NULL, NULL, &tensor));
  CHECK_MAKES_NONE(tensor, "prediction", tutti_loss("mse", NULL, NULL, &tensor));
  CHECK_NULL("loss", tutti_backward(NULL));
  CHECK_MAKES_NONE(optimizer, "model", tutti_optimizer_create("sgd", NULL, NULL, &optimizer));
  CHECK_NULL("optimizer", tutti_optimizer_step(NULL));
  CHECK_NULL("optimizer", tutti_optimizer_zero_grad(NULL));
  CHECK_NULL("options", tutti_optimizer_defaults("sgd", sizeof(tutti_optimizer_options), NULL));
  CHECK_MAKES_NONE(group, "devices", tutti_group_create(NULL, 1, &group));
  CHECK_MAKES_NONE(group, "device", tutti_group_create(devices, 2, &group));
  CHECK_NULL("group", tutti_group_world(NULL, &size, &size));
  CHECK_NULL("group", tutti_group_replicate(NULL, NULL));
  CHECK_NULL("group", tutti_group_step(NULL, 0, 1, NULL, NULL));
  CHECK_NULL("step", tutti_step_backward(NULL, NULL));
  CHECK_NULL("step", tutti_step_synchronize(NULL));
  CHECK(tensor == NULL && model == NULL && optimizer == NULL && group == NULL);
  tutti_tensor_free(NULL);
  tutti_model_free(NULL);
  tutti_optimizer_free(NULL);
  tutti_group_free(NULL);
  return failed;
}

static int wrong_arguments(void) {
  int failed = 0;
  const int64_t shape[] = {2, 3};
  const int64_t negative[] = {2, -3};
  const int64_t huge[] = {INT64_MAX, INT64_MAX};
  const float values[] = {1, 2, 3, 4, 5, 6};
  const unsigned char no_bools[] = {0, 1, 2, 1, 0, 1};
  int64_t lengths[1];
  size_t rank = 0;
  double item = 0;
  char device[4];
  tutti_tensor* tensor = NULL;
  tutti_tensor* other = NULL;
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "99 is no tutti_dtype", tutti_tensor_zeros(shape, 2, 99, "cpu:0", &tensor));
  CHECK_FAILS(TUTTI_SHAPE_ERROR, "[2, -3]", tutti_tensor_zeros(negative, 2, TUTTI_F32, "cpu:0", &tensor));
  CHECK_FAILS(TUTTI_SHAPE_ERROR, "", tutti_tensor_create(huge, 2, TUTTI_F32, values, 4, "cpu:0", &tensor));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "a rank of", tutti_tensor_zeros(shape, SIZE_MAX, TUTTI_F32, "cpu:0", &tensor));
  CHECK_FAILS(TUTTI_DEVICE_ERROR, "abacus", tutti_tensor_zeros(shape, 2, TUTTI_F32, "abacus:0", &tensor));
  CHECK_FAILS(TUTTI_SHAPE_ERROR, "20 bytes", tutti_tensor_create(shape, 2, TUTTI_F32, values, 20, "cpu:0", &tensor));
  CHECK_FAILS(TUTTI_DTYPE_ERROR, "0 or 1", tutti_tensor_create(shape, 2, TUTTI_BOOL, no_bools, 6, "cpu:0", &tensor));

  CHECK_OK(tutti_tensor_create(shape, 2, TUTTI_F32, values, sizeof values, "cpu:0", &tensor));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "room for 1", tutti_tensor_shape(tensor, lengths, 1, &rank));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "needs 6", tutti_tensor_device(tensor, device, sizeof device));
  CHECK_FAILS(TUTTI_SHAPE_ERROR, "", tutti_tensor_item(tensor, &item));
  CHECK_FAILS(TUTTI_SHAPE_ERROR, "have 24", tutti_tensor_read(tensor, &item, sizeof item));
  CHECK_FAILS(TUTTI_AUTODIFF_ERROR, "", tutti_backward(tensor));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "no loss \"hinge\"; there are cross_entropy",
              tutti_loss("hinge", tensor, tensor, &other));
  CHECK_OK(tutti_tensor_zeros(shape, 1, TUTTI_F32, "cpu:0", &other));
  tutti_tensor* loss = NULL;
  CHECK_FAILS(TUTTI_SHAPE_ERROR, "tutti_loss: [mse_loss]", tutti_loss("mse", tensor, other, &loss));
  CHECK(loss == NULL);
  tutti_tensor_free(other);
  tutti_tensor_free(tensor);
  return failed;
}

static int library(void) {
  int failed = 0;
  int32_t available = -1;
  int32_t threads = 0;
  CHECK(tutti_c_api_version() == TUTTI_C_API_VERSION);
  CHECK(strchr(tutti_version(), '.') != NULL);
  CHECK(strcmp(tutti_status_name(TUTTI_SYNC_ERROR), "TUTTI_SYNC_ERROR") == 0);
  CHECK(strcmp(tutti_status_name(-5), "unknown status") == 0);
  CHECK_OK(tutti_device_available("cpu:7", &available));
  CHECK(available == 1);
  CHECK_OK(tutti_device_available("cuda:4711", &available));
  CHECK(available == 0 && strstr(tutti_last_error(), "cuda") != NULL);
  CHECK_FAILS(TUTTI_DEVICE_ERROR, "abacus", tutti_device_available("abacus:0", &available));
  CHECK_OK(tutti_set_cpu_threads("cpu:9", 2));
  CHECK_OK(tutti_cpu_threads("cpu:9", &threads));
  CHECK(threads == 2);
  CHECK_FAILS(TUTTI_DEVICE_ERROR, "", tutti_set_cpu_threads("cpu:9", 0));
  return failed;
}

int c_errors(void) { return without_arguments() + wrong_arguments() + library(); }
