// DLPack exchange; the structures are its published, stable binary interface.
#include <algorithm>
#include <memory>
#include <vector>

#include "bindings/numpy.h"
#include "runtime/check.h"
#include "runtime/device_backend.h"

namespace ea {

namespace {

struct DLDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};
struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

constexpr std::int32_t kDLCPU = 1, kDLCUDA = 2;
enum : std::uint8_t {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLBfloat = 4,
  kDLBool = 6
};

DLDataType type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {kDLFloat, 32, 1};
    case DType::bf16:
      return {kDLBfloat, 16, 1};
    case DType::f64:
      return {kDLFloat, 64, 1};
    case DType::i64:
      return {kDLInt, 64, 1};
    case DType::i32:
      return {kDLInt, 32, 1};
    case DType::boolean:
      return {kDLBool, 8, 1};
    default:
      return {kDLUInt, 8, 1};
  }
}

DType dtype_of_type(const DLDataType& type) {
  for (const DType t : kDTypes) {
    const DLDataType ours = type_of(t);
    if (ours.code == type.code && ours.bits == type.bits && type.lanes == 1) {
      return t;
    }
  }
  fail<DTypeError>(
      "from_dlpack", "element type with code {} and {} bits is not one of {}",
      static_cast<int>(type.code), static_cast<int>(type.bits), kDTypeNames);
}

// Stream numbers of the array API for CUDA: the legacy default stream, also
// meant by None, and -1 for a consumer that orders all work itself.
constexpr std::intptr_t kDefaultStream = 1, kNoStream = -1;

// Owns the data of an exported tensor.
struct Exported {
  DLManagedTensor managed{};
  Tensor tensor;
  std::unique_ptr<Loan> loan;
  Shape shape, strides;
  std::intptr_t stream = kNoStream;  // stream of the consumer, on a device

  // Our next use of the memory must follow the work of the consumer.
  ~Exported() {
    const Device device = tensor.device();
    if (device.is_cpu() || stream == kNoStream) return;
    try {
      device_backend(device).follow(device.index, stream);
    } catch (const Error&) {  // a failing device reports it at its next use
    }
  }
};

// Throws BackendUnavailable for devices that this build or machine lacks.
Device device_of(const DLDevice& in) {
  if (in.device_type == kDLCPU) return kCpu;
  EA_CHECK_AS(BackendUnavailable, in.device_type == kDLCUDA, "from_dlpack",
              "the tensor is on a device of type {}; expected the CPU ({}) "
              "or CUDA ({}): move it to the CPU first",
              in.device_type, kDLCPU, kDLCUDA);
  const Device device{DeviceType::cuda, in.device_id};
  check_available(device);
  return device;
}

// Returns the capsule; our stream of its device may use its memory at once.
py::object ask_for_capsule(const py::object& object) {
  try {
    if (!py::hasattr(object, "__dlpack_device__")) {
      return object.attr("__dlpack__")();
    }
    const auto [type, index] =
        object.attr("__dlpack_device__")().cast<std::pair<int, int>>();
    const Device device = device_of({type, index});
    const std::intptr_t ours = device_backend(device).stream(device.index);
    if (ours == 0) return object.attr("__dlpack__")();
    return object.attr("__dlpack__")(py::arg("stream") = ours);
  } catch (const py::error_already_set& e) {
    if (!e.matches(PyExc_BufferError)) throw;
    EA_CHECK_AS(
        InputError,
        !py::getattr(object, "requires_grad", py::bool_(false)).cast<bool>(),
        "from_dlpack",
        "the tensor of another library requires a gradient, which "
        "would be lost; expected one without: pass .detach()");
    fail<InputError>("from_dlpack",
                     "its owner does not lend the memory: {} To copy an array, "
                     "use ea.Tensor(array)",
                     py::str(e.value()).cast<std::string>());
  }
}

std::int32_t dlpack_type(DeviceType type) {
  return type == DeviceType::cpu ? kDLCPU : kDLCUDA;
}

py::capsule to_dlpack(const Tensor& t, std::intptr_t stream) {
  auto owned = std::make_unique<Exported>();
  const Device device = t.device();
  if (!device.is_cpu() && stream != kNoStream) {
    device_backend(device).precede(device.index, stream);
  }
  owned->stream = stream;
  owned->tensor = t;
  owned->loan = std::make_unique<Loan>(t.storage());
  owned->shape = t.shape();
  owned->strides = t.strides();
  DLTensor& out = owned->managed.dl_tensor;
  out.data = t.raw();
  out.device = {dlpack_type(t.device().type), t.device().index};
  out.ndim = t.rank();
  out.dtype = type_of(t.dtype());
  out.shape = const_cast<std::int64_t*>(owned->shape.begin());
  out.strides = const_cast<std::int64_t*>(owned->strides.begin());
  owned->managed.manager_ctx = owned.get();
  owned->managed.deleter = [](DLManagedTensor* self) {
    delete static_cast<Exported*>(self->manager_ctx);
  };
  PyObject* capsule = PyCapsule_New(
      &owned.release()->managed, "dltensor", [](PyObject* object) {
        // A consumer renames the capsule and frees the tensor itself.
        if (PyCapsule_IsValid(object, "dltensor") == 0) return;
        auto* managed = static_cast<DLManagedTensor*>(
            PyCapsule_GetPointer(object, "dltensor"));
        managed->deleter(managed);
      });
  if (capsule == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::capsule>(capsule);
}

}  // namespace

std::pair<int, int> dlpack_device(const Var& self) {
  const Device device = self.device();
  return {dlpack_type(device.type), device.index};
}

py::capsule lend_dlpack(const Var& self, const py::kwargs& options) {
  const auto option = [&](const char* name) -> py::object {
    return options.contains(name) ? py::object(options[name]) : py::none();
  };
  const py::object device = option("dl_device");
  const py::object here = py::cast(dlpack_device(self));
  const py::object copy = option("copy");
  const bool copies = !copy.is_none() && copy.cast<bool>();
  if (!device.is_none() && !device.equal(here)) {
    // The protocol requires only one copy of us, that to the CPU.
    const bool to_host = device.equal(py::make_tuple(1, 0));
    if (!to_host || (!copy.is_none() && !copies)) {
      throw py::buffer_error(
          format("[tensor] is in {} memory: dl_device is {}",
                 self.device().is_cpu() ? "CPU" : name_of(self.device()),
                 py::str(here).cast<std::string>()));
    }
    return to_dlpack(to_device(self.data(), kCpu), kNoStream);
  }
  const py::object given = option("stream");
  const std::intptr_t stream =
      given.is_none() ? kDefaultStream : given.cast<std::intptr_t>();
  return to_dlpack(copies ? clone(self.data()) : self.data(), stream);
}

Tensor from_dlpack(const py::object& object) {
  EA_CHECK_AS(InputError, py::hasattr(object, "__dlpack__"), "from_dlpack",
              "expected an object with __dlpack__");
  const py::object capsule = ask_for_capsule(object);
  auto* managed = static_cast<DLManagedTensor*>(
      PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (managed == nullptr) throw py::error_already_set();
  const DLTensor& in = managed->dl_tensor;
  const Device device = device_of(in.device);
  const DType dtype = dtype_of_type(in.dtype);
  const Shape shape(std::span<const std::int64_t>(
      in.shape, static_cast<std::size_t>(in.ndim)));
  Shape strides = contiguous_strides(shape);
  if (in.strides != nullptr) {  // may be negative, which append() rejects
    std::copy_n(in.strides, in.ndim, &strides[0]);
  }
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  auto release = [managed, device] {
    if (managed->deleter == nullptr || Py_IsInitialized() == 0) return;
    // The owner may use the memory at once, on a stream we do not know.
    try {
      if (!device.is_cpu()) synchronize(device);
    } catch (const Error&) {  // a failing device reports it at its next use
    }
    const HeldGil gil;
    managed->deleter(managed);
  };
  const auto bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  auto storage = std::make_shared<Storage>(
      static_cast<char*>(in.data) + in.byte_offset, bytes, release, device);
  return contiguous(Tensor(storage, 0, shape, strides, dtype));
}

}  // namespace ea
