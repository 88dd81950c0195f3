// SPDX-License-Identifier: Apache-2.0
#ifndef TUTTI_C_API_H
#define TUTTI_C_API_H

/// @file
/// The C API: C11 and C++. docs/c-api.md shows how it is used.
///
/// Results. Every function that can fail returns a status, TUTTI_OK or why not, and writes what it has to give through
/// its last parameters. tutti_last_error() then says what was wrong, on what, and what to do. When a function fails,
/// handles that it should have made are NULL and nothing else is written. No exception leaves a function. A pointer
/// that is NULL is TUTTI_INVALID_ARGUMENT with the parameter's name, unless the parameter is said to be optional.
///
/// Ownership. What a function makes (the parameter `result`) belongs to the caller, who frees it once by the function
/// of its name. The order does not matter: what is still needed of a freed handle lives as long as it is needed.
/// Freeing NULL does nothing; freeing twice is undefined, as by free(). Texts and arrays that are given are copied.
///
/// Threads. All functions may be called on any thread. A handle is used by one thread at a time; different handles by
/// different threads at the same time, with these additions: tensors that a forward pass or a loss made, and the model
/// that it passed, belong to one thread until backward is done. tutti_tensor_read and other functions that only read
/// may run on one handle at the same time, and so may tutti_model_infer on a model in evaluation mode which nobody
/// trains. A group is used by all threads that drive its devices, each device by one thread at a time. A child process
/// of fork() uses nothing that was made before.
///
/// Stability. Functions, constants and fields are added, never changed or removed; TUTTI_C_API_VERSION counts the
/// additions. A program may run with a library whose tutti_c_api_version() is at least the version it was compiled
/// with.

#include <stddef.h>
#include <stdint.h>

#define TUTTI_C_API_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t tutti_status;  ///< one of these
enum {
  TUTTI_OK = 0,
  TUTTI_ERROR = 1,             ///< any other error of the library's
  TUTTI_INVALID_ARGUMENT = 2,  ///< NULL, an unknown name, a size that does not fit
  TUTTI_SHAPE_ERROR = 3,
  TUTTI_DTYPE_ERROR = 4,
  TUTTI_DEVICE_ERROR = 5,   ///< no such device, or operands on different ones
  TUTTI_OUT_OF_MEMORY = 6,  ///< a device or the host has no more
  TUTTI_AUTODIFF_ERROR = 7,
  TUTTI_SYNC_ERROR = 8,        ///< a group failed: the text names the device or process
  TUTTI_DATA_ERROR = 9,        ///< a file, or memory in another format, is not sound
  TUTTI_CALLBACK_FAILED = 10,  ///< a function of the caller's did not return 0
  TUTTI_INTERNAL_ERROR = 11    ///< an exception that is not the library's
};

typedef int32_t tutti_dtype;  ///< type of a tensor's elements: one of these
enum {
  TUTTI_F32 = 0,
  TUTTI_F64 = 1,
  TUTTI_I32 = 2,
  TUTTI_I64 = 3,
  TUTTI_BOOL = 4,  ///< a byte, 0 or 1
  TUTTI_BF16 = 5,
  TUTTI_F16 = 6,
  TUTTI_I8 = 7,
  TUTTI_U8 = 8
};

typedef struct tutti_tensor tutti_tensor;        ///< elements of one type on one device
typedef struct tutti_model tutti_model;          ///< a function of one tensor, with parameters and buffers
typedef struct tutti_optimizer tutti_optimizer;  ///< updates the parameters of one model
typedef struct tutti_group tutti_group;          ///< devices that train replicas of one model together
typedef struct tutti_step tutti_step;            ///< one device's part of a step of its group, while that runs

// --- the library

/// The TUTTI_C_API_VERSION of the library that the program runs with.
int32_t tutti_c_api_version(void);
/// The library's version: "0.1.0".
const char* tutti_version(void);
/// Says what was wrong when a function last failed on the calling thread; "" if none has. Valid until the next one
/// fails.
const char* tutti_last_error(void);
/// "TUTTI_SHAPE_ERROR"; "unknown status" for other numbers.
const char* tutti_status_name(tutti_status status);

/// Whether there is this device: 1, or 0 and tutti_last_error() says why. Devices are "cpu:0", "cpu:1", ... as many as
/// are wanted, each with threads of its own, and "cuda:0", ... Fails for a text that names no kind of device.
tutti_status tutti_device_available(const char* device, int32_t* available);
/// Threads that share the work of one CPU device, the caller's included; 1 unless TUTTI_CPU_THREADS is set. Results do
/// not depend on it.
tutti_status tutti_set_cpu_threads(const char* device, int32_t threads);
tutti_status tutti_cpu_threads(const char* device, int32_t* threads);

// --- tensors: shape and elements, row-major, on one device. `shape` has `rank` lengths; NULL for rank 0.

/// A copy of `bytes` bytes at `data`, which are exactly the elements.
tutti_status tutti_tensor_create(const int64_t* shape, size_t rank, tutti_dtype dtype, const void* data, size_t bytes,
                                 const char* device, tutti_tensor** result);
/// A tensor of zeros.
tutti_status tutti_tensor_zeros(const int64_t* shape, size_t rank, tutti_dtype dtype, const char* device,
                                tutti_tensor** result);
/// Takes back borrowed memory. It is called once, on any thread, and must not call functions of this API.
typedef void (*tutti_deleter)(void* context);
/// A tensor over memory of the host, without a copy, on a CPU device; the library only reads it. It is aligned to its
/// elements and stays as it is until the deleter (optional) is called with `context`: when the tensor and all that was
/// computed from it and needs it are gone. When the function fails the deleter is not called.
tutti_status tutti_tensor_borrow(const int64_t* shape, size_t rank, tutti_dtype dtype, void* data, size_t bytes,
                                 const char* device, tutti_deleter deleter, void* context, tutti_tensor** result);
void tutti_tensor_free(tutti_tensor* tensor);  ///< frees the handle, as all functions of such a name

/// Writes the rank, and the lengths into `shape`, which has room for `capacity`; NULL with capacity 0 asks for the
/// rank.
tutti_status tutti_tensor_shape(const tutti_tensor* tensor, int64_t* shape, size_t capacity, size_t* rank);
/// The type of the elements.
tutti_status tutti_tensor_dtype(const tutti_tensor* tensor, tutti_dtype* dtype);
/// Writes "cpu:0" and a 0 into `device`, which has room for `capacity` characters: 32 are enough.
tutti_status tutti_tensor_device(const tutti_tensor* tensor, char* device, size_t capacity);
/// Bytes of all elements: what tutti_tensor_read writes.
tutti_status tutti_tensor_bytes(const tutti_tensor* tensor, size_t* bytes);
/// Copies the elements, row-major, to the host's memory at `data`. Waits until they are computed.
tutti_status tutti_tensor_read(const tutti_tensor* tensor, void* data, size_t bytes);
/// The only element of a tensor that has one, as a loss: TUTTI_SHAPE_ERROR for others. Waits until it is computed.
tutti_status tutti_tensor_item(const tutti_tensor* tensor, double* value);
/// The tensor on another device; on its own, another handle of it.
tutti_status tutti_tensor_to(const tutti_tensor* tensor, const char* device, tutti_tensor** result);

// DLPack (https://dmlc.github.io/dlpack), whose header dlpack/dlpack.h has the structures: arrays of NumPy, PyTorch and
// others, without a copy. What was queued on the memory must be done.
struct DLManagedTensor;
struct DLManagedTensorVersioned;
/// Takes the managed tensor over, also when it fails: its deleter is called once, on any thread, when nobody needs the
/// memory. Memory of the host becomes a tensor on cpu:0. Of the versioned structure memory that is read-only is copied.
tutti_status tutti_tensor_from_dlpack(struct DLManagedTensor* managed, tutti_tensor** result);
tutti_status tutti_tensor_from_dlpack_versioned(struct DLManagedTensorVersioned* managed, tutti_tensor** result);
/// The tensor's memory for somebody else, who must call the deleter once, and does not write to it while it is used.
/// Waits until it is computed.
tutti_status tutti_tensor_to_dlpack(const tutti_tensor* tensor, struct DLManagedTensor** result);
tutti_status tutti_tensor_to_dlpack_versioned(const tutti_tensor* tensor, struct DLManagedTensorVersioned** result);

// --- models: a function of one tensor, with named parameters and buffers.

/// A new model of a registered kind on a device. `options` (optional) are the kind's own. Equal seeds give equal
/// parameters, on every device. There is "mlp", with linear layers and an activation function between them: options
/// "784,128,10", or "784,128,10;activation=gelu" for another than relu: gelu, silu, tanh or sigmoid; and "onnx", the
/// model of an ONNX file with one input and one output, whose path `options` is. Programs in C++ register kinds by
/// tutti::register_c_model (tutti/c_api/model_registry.h).
tutti_status tutti_model_create(const char* kind, const char* options, const char* device, uint64_t seed,
                                tutti_model** result);
/// A replica, which belongs to its group, stays.
void tutti_model_free(tutti_model* model);

/// Parameters and buffers have numbers from 0, parameters first, and names, as "0.weight". A name is valid until the
/// model is freed.
tutti_status tutti_model_tensor_count(const tutti_model* model, size_t* count);
tutti_status tutti_model_tensor_name(const tutti_model* model, size_t index, const char** name);
/// A copy of a parameter's or buffer's values.
tutti_status tutti_model_get_tensor(const tutti_model* model, const char* name, tutti_tensor** result);
/// Copies values into a parameter or buffer of the same shape; any floating type becomes another.
tutti_status tutti_model_set_tensor(tutti_model* model, const char* name, const tutti_tensor* values);
/// Writes all parameters and buffers to a file, which it replaces in one step; reads them, all or none. The path ends
/// with ".safetensors" or ".npz".
tutti_status tutti_model_save(const tutti_model* model, const char* path);
tutti_status tutti_model_load(tutti_model* model, const char* path);
/// Switches between training (1, as from the start) and evaluation (0): dropout and batch norms differ.
tutti_status tutti_model_set_training(tutti_model* model, int32_t training);

/// The model's output, from which tutti_backward gets gradients by way of a loss.
tutti_status tutti_model_forward(tutti_model* model, const tutti_tensor* input, tutti_tensor** result);
/// The model's output alone, without gradients.
tutti_status tutti_model_infer(const tutti_model* model, const tutti_tensor* input, tutti_tensor** result);

// --- training

/// A loss of one element, the mean over a batch: "cross_entropy" of logits [n, classes] and numbers of classes [n] of
/// an integer type (or probabilities [n, classes]), "bce_with_logits" of logits and targets 0 to 1, "mse" and "l1" of
/// any two tensors of one shape.
tutti_status tutti_loss(const char* kind, const tutti_tensor* prediction, const tutti_tensor* target,
                        tutti_tensor** result);
/// Adds the loss's gradients to those of all parameters that it was computed from. Once for each loss.
tutti_status tutti_backward(const tutti_tensor* loss);

/// Options of all optimizers; each reads those that are its own. Later versions add fields at the end.
typedef struct tutti_optimizer_options {
  size_t size;  ///< sizeof(tutti_optimizer_options), as the caller knows it
  double learning_rate;
  double weight_decay;  ///< sgd: added to the gradient; adamw: apart from it
  double momentum;      ///< sgd
  int64_t nesterov;     ///< sgd: 1 or 0
  double beta1;         ///< adamw
  double beta2;         ///< adamw
  double epsilon;       ///< adamw
} tutti_optimizer_options;
/// Fills the options of "sgd" or "adamw" with their defaults. `size` is sizeof(tutti_optimizer_options).
tutti_status tutti_optimizer_defaults(const char* kind, size_t size, tutti_optimizer_options* options);
/// An optimizer of all parameters of the model. `options` (optional): the defaults.
tutti_status tutti_optimizer_create(const char* kind, tutti_model* model, const tutti_optimizer_options* options,
                                    tutti_optimizer** result);
void tutti_optimizer_free(tutti_optimizer* optimizer);  ///< its model stays
/// Updates all parameters that have a gradient.
tutti_status tutti_optimizer_step(tutti_optimizer* optimizer);
/// Drops the gradients: before the next backward, unless it is to add to them.
tutti_status tutti_optimizer_zero_grad(tutti_optimizer* optimizer);
/// The rate from the next step on; TUTTI_ERROR for one that is negative or not finite.
tutti_status tutti_optimizer_set_learning_rate(tutti_optimizer* optimizer, double learning_rate);

// --- groups: replicas of a model on several devices, whose gradients are averaged in each step while backward runs.
// Devices have numbers from 0, in the order in which they were given. When a step fails on one device it fails on all,
// with a text that names the device; the group then takes no further steps.

/// A group of devices of this process, of one kind: "cpu:0", "cpu:1".
tutti_status tutti_group_create(const char* const* devices, size_t count, tutti_group** result);
/// This process's part of a group of all processes that a launcher has started (`tutti launch`, mpirun, srun), each
/// with devices of its own; waits for the others. Alone, the group of its devices. One at a time.
tutti_status tutti_group_from_environment(const char* const* devices, size_t count, tutti_group** result);
/// Ends the group, and the replicas with it. No function of it may still run.
void tutti_group_free(tutti_group* group);
/// Devices of all processes, and the number of this process's first one among them; its others follow.
tutti_status tutti_group_world(const tutti_group* group, size_t* devices, size_t* first);
/// Gives each device a copy of the model. Once, before the first step; on all processes with the same model.
tutti_status tutti_group_replicate(tutti_group* group, const tutti_model* model);
/// The replica of a device, for its optimizer and to save it. It belongs to the group and goes with it.
tutti_status tutti_group_replica(tutti_group* group, size_t device, tutti_model** replica);

/// The caller's work on one device; 0, or anything else when it failed. The status of a call that failed is passed on,
/// with its text.
typedef int (*tutti_device_function)(void* context, size_t device, tutti_model* replica);
/// Calls the function for each of this process's devices, each on a thread of the library's, and waits for all of them.
/// One that fails ends the steps of the others.
tutti_status tutti_group_on_every_device(tutti_group* group, tutti_device_function function, void* context);
/// The caller's step on one device; 0, or anything else when it failed.
typedef int (*tutti_step_function)(void* context, size_t device, tutti_model* replica, tutti_step* step);
/// One step of one device, on the calling thread, which must not be that of another device: it waits for the others.
/// The function computes a loss with the replica and calls tutti_step_backward once. `weight`: examples in its batch;
/// gradients are the mean over all devices' examples. The optimizer steps afterwards, or in the function behind it.
tutti_status tutti_group_step(tutti_group* group, size_t device, double weight, tutti_step_function function,
                              void* context);
/// tutti_backward, with gradients averaged over all devices when it returns.
tutti_status tutti_step_backward(tutti_step* step, const tutti_tensor* loss);
/// Takes the place of tutti_step_backward on a device without examples in this step: its gradients are the others'
/// average.
tutti_status tutti_step_synchronize(tutti_step* step);
/// The end of a device's data: the others' steps no longer wait for it.
tutti_status tutti_group_leave(tutti_group* group, size_t device);

#ifdef __cplusplus
}
#endif

#endif
