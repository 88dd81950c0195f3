// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/c_api/c_programs.h>
#include <tutti/tests/c_api/check.h>

/// The structures of dlpack.h, as far as they are looked at here.
typedef struct {
  int32_t type;
  int32_t index;
} DLDevice;
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} DLTensor;
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor*);
};

static void count_call(void* context) { ++*(int*)context; }
static void count_deletion(struct DLManagedTensor* managed) { ++*(int*)managed->manager_ctx; }

static int copies(void) {
  int failed = 0;
  const int64_t shape[] = {2, 3};
  const float values[] = {0, 1, 2, 3, 4, 5};
  tutti_tensor* tensor = NULL;
  CHECK_OK(tutti_tensor_create(shape, 2, TUTTI_F32, values, sizeof values, "cpu:0", &tensor));

  int64_t lengths[8] = {0};
  size_t rank = 0;
  CHECK_OK(tutti_tensor_shape(tensor, NULL, 0, &rank));
  CHECK(rank == 2);
  CHECK_OK(tutti_tensor_shape(tensor, lengths, 8, &rank));
  CHECK(lengths[0] == 2 && lengths[1] == 3);
  tutti_dtype dtype = TUTTI_U8;
  CHECK_OK(tutti_tensor_dtype(tensor, &dtype));
  CHECK(dtype == TUTTI_F32);
  size_t bytes = 0;
  CHECK_OK(tutti_tensor_bytes(tensor, &bytes));
  CHECK(bytes == sizeof values);
  float read[6] = {0};
  CHECK_OK(tutti_tensor_read(tensor, read, sizeof read));
  CHECK(memcmp(read, values, sizeof read) == 0);

  tutti_tensor* elsewhere = NULL;
  char device[32];
  CHECK_OK(tutti_tensor_to(tensor, "cpu:3", &elsewhere));
  CHECK_OK(tutti_tensor_device(elsewhere, device, sizeof device));
  CHECK(strcmp(device, "cpu:3") == 0);
  tutti_tensor_free(elsewhere);
  tutti_tensor_free(tensor);

  const double half = 0.5;
  double item = 0;
  CHECK_OK(tutti_tensor_create(NULL, 0, TUTTI_F64, &half, sizeof half, "cpu", &tensor));
  CHECK_OK(tutti_tensor_item(tensor, &item));
  CHECK(item == 0.5);
  tutti_tensor_free(tensor);
  return failed;
}

static int all_types(void) {
  int failed = 0;
  const int64_t two[] = {2};
  for (tutti_dtype dtype = TUTTI_F32; dtype <= TUTTI_U8; ++dtype) {
    tutti_tensor* zeros = NULL;
    CHECK_OK(tutti_tensor_zeros(two, 1, dtype, "cpu:0", &zeros));
    tutti_dtype told = -1;
    CHECK_OK(tutti_tensor_dtype(zeros, &told));
    CHECK(told == dtype);
    size_t bytes = 0;
    CHECK_OK(tutti_tensor_bytes(zeros, &bytes));
    unsigned char read[16];
    memset(read, 0xff, sizeof read);
    CHECK_OK(tutti_tensor_read(zeros, read, bytes));
    for (size_t i = 0; i < bytes; ++i) CHECK(read[i] == 0);
    tutti_tensor_free(zeros);
  }
  const int64_t none[] = {0, 3};
  tutti_tensor* empty = NULL;
  CHECK_OK(tutti_tensor_create(none, 2, TUTTI_I64, NULL, 0, "cpu:0", &empty));
  CHECK_OK(tutti_tensor_read(empty, NULL, 0));
  tutti_tensor_free(empty);
  return failed;
}

static int borrowed(void) {
  int failed = 0;
  float values[] = {1, 2, 3, 4};
  int given_back = 0;
  const int64_t shape[] = {4};
  tutti_tensor* tensor = NULL;
  CHECK_FAILS(TUTTI_SHAPE_ERROR, "12 bytes are given for the 4 elements of f32 [4]",
              tutti_tensor_borrow(shape, 1, TUTTI_F32, values, 12, "cpu:0", count_call, &given_back, &tensor));
  CHECK(tensor == NULL && given_back == 0);
  CHECK_OK(tutti_tensor_borrow(shape, 1, TUTTI_F32, values, sizeof values, "cpu:0", count_call, &given_back, &tensor));
  values[2] = 30;
  float read[4] = {0};
  CHECK_OK(tutti_tensor_read(tensor, read, sizeof read));
  CHECK(read[2] == 30);
  tutti_tensor* same = NULL;
  CHECK_OK(tutti_tensor_to(tensor, "cpu:0", &same));
  tutti_tensor_free(tensor);
  CHECK(given_back == 0);
  tutti_tensor_free(same);
  CHECK(given_back == 1);
  CHECK_OK(tutti_tensor_borrow(shape, 1, TUTTI_F32, values, sizeof values, "cpu:0", NULL, NULL, &tensor));
  tutti_tensor_free(tensor);
  return failed;
}

static int dlpack(void) {
  int failed = 0;
  float values[] = {1, 2, 3, 4, 5, 6};
  int64_t shape[] = {2, 3};
  int deleted = 0;
  struct DLManagedTensor theirs = {{values, {1, 0}, 2, {2, 32, 1}, shape, NULL, 0}, &deleted, count_deletion};
  tutti_tensor* tensor = NULL;
  CHECK_OK(tutti_tensor_from_dlpack(&theirs, &tensor));
  float read[6] = {0};
  CHECK_OK(tutti_tensor_read(tensor, read, sizeof read));
  CHECK(memcmp(read, values, sizeof read) == 0);

  struct DLManagedTensor* ours = NULL;
  CHECK_OK(tutti_tensor_to_dlpack(tensor, &ours));
  tutti_tensor_free(tensor);
  CHECK(deleted == 0);
  CHECK(ours->dl_tensor.data == values && ours->dl_tensor.ndim == 2 && ours->dl_tensor.shape[1] == 3);
  ours->deleter(ours);
  CHECK(deleted == 1);

  // What fails lets go, too.
  theirs.dl_tensor.dtype.bits = 7;
  CHECK(tutti_tensor_from_dlpack(&theirs, &tensor) != TUTTI_OK);
  CHECK(deleted == 2 && tensor == NULL);
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "result is NULL", tutti_tensor_from_dlpack(&theirs, NULL));
  CHECK(deleted == 3);
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "managed is NULL", tutti_tensor_from_dlpack(NULL, &tensor));
  return failed;
}

int c_tensors(void) { return copies() + all_types() + borrowed() + dlpack(); }
