// Arrays on a device: cosines of rows that lie there, memory that outlives a call, and how other libraries take it.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "controlled.hpp"
#include "device_memory.hpp"
#include "device_model.hpp"
#include "embeddings.hpp"
#include "large_model.hpp"
#include "large_walks.hpp"
#include "qubo_handle.hpp"
#include "runtime.hpp"

namespace isinglass {
namespace {

using cuda::DeviceMemory;

// The structs of DLPack 1.0 (dlpack.h), whose layout is their protocol.
namespace dlpack {

struct Tensor {
  void* data;
  std::int32_t device_type, device_id, ndim;
  std::uint8_t code, bits;
  std::uint16_t lanes;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct Managed {
  Tensor tensor;
  void* manager;
  void (*deleter)(Managed*);
};
struct Versioned {
  std::uint32_t major, minor;
  void* manager;
  void (*deleter)(Versioned*);
  std::uint64_t flags;
  Tensor tensor;
};

constexpr std::int32_t kCuda = 2;
constexpr std::uint64_t kReadOnly = 1;

/// A managed tensor together with what it points to.
template <class Struct>
struct Export {
  Struct managed{};
  std::vector<std::int64_t> shape, strides;
  py::object owner;

  static void drop(Struct* managed) {
    auto* const self = static_cast<Export*>(managed->manager);
    if (Py_IsInitialized() == 0) return;  // whoever held it outlived the interpreter: so does its memory
    const py::gil_scoped_acquire gil;
    delete self;
  }
};

template <class Struct>
py::capsule capsule(const char* name, py::object owner, std::uintptr_t pointer, std::vector<std::int64_t> shape,
                    std::uint8_t code, std::uint8_t bits, int device, bool readonly) {
  auto holder = std::make_unique<Export<Struct>>();
  holder->owner = std::move(owner);
  holder->shape = std::move(shape);
  holder->strides.assign(holder->shape.size(), 1);
  for (std::size_t axis = holder->shape.size(); axis > 1; --axis) {
    holder->strides[axis - 2] = holder->strides[axis - 1] * holder->shape[axis - 1];
  }
  Struct& managed = holder->managed;
  managed.manager = holder.get();
  managed.deleter = &Export<Struct>::drop;
  managed.tensor = {reinterpret_cast<void*>(pointer),
                    kCuda,
                    device,
                    static_cast<std::int32_t>(holder->shape.size()),
                    code,
                    bits,
                    1,
                    holder->shape.data(),
                    holder->strides.data(),
                    0};
  if constexpr (std::is_same_v<Struct, Versioned>) {
    managed.major = 1;
    managed.flags = readonly ? kReadOnly : 0;
  }
  // Taken, a capsule has another name, and the tensor is the taker's.
  py::capsule made(&managed, name, [](PyObject* self) {
    const char* const now = PyCapsule_GetName(self);
    const char* const fresh = std::is_same_v<Struct, Versioned> ? "dltensor_versioned" : "dltensor";
    if (now == nullptr || std::string_view(now) != fresh) return;
    auto* const left = static_cast<Struct*>(PyCapsule_GetPointer(self, fresh));
    left->deleter(left);
  });
  holder.release();
  return made;
}

}  // namespace dlpack

/// Rows of a matrix, and the array that holds them if they are here.
cuda::SomeRows rows_of(const OptionalArray<float>& here, std::uintptr_t there, std::size_t count) {
  return {here ? here->data() : nullptr, reinterpret_cast<const float*>(there), count};
}

}  // namespace

void register_cuda_arrays(py::module_& m) {
  py::class_<DeviceMemory, std::shared_ptr<DeviceMemory>>(m, "DeviceMemory", py::module_local())
      .def(py::init<int, std::size_t>(), py::arg("device"), py::arg("bytes"))
      .def_property_readonly("device", &DeviceMemory::device)
      .def_property_readonly(
          "pointer", [](const DeviceMemory& self) { return reinterpret_cast<std::uintptr_t>(self.as<void>()); });
  m.def(
      "dlpack",
      [](py::object owner, std::uintptr_t pointer, std::vector<std::int64_t> shape, std::uint8_t code,
         std::uint8_t bits, int device, bool readonly, bool versioned) {
        return versioned ? dlpack::capsule<dlpack::Versioned>("dltensor_versioned", std::move(owner), pointer,
                                                              std::move(shape), code, bits, device, readonly)
                         : dlpack::capsule<dlpack::Managed>("dltensor", std::move(owner), pointer, std::move(shape),
                                                            code, bits, device, readonly);
      },
      py::arg("owner"), py::arg("pointer"), py::arg("shape"), py::arg("code"), py::arg("bits"), py::arg("device"),
      py::arg("readonly"), py::arg("versioned"));
  m.def(
      "to_host",
      [](py::array to, std::uintptr_t from, int device) {
        void* const end = to.mutable_data();
        const auto bytes = static_cast<std::size_t>(to.nbytes());
        py::gil_scoped_release nogil;
        cuda::Batch batch(device);
        batch.allocate();
        cuda::driver::settle(device);
        batch.fetch(end, reinterpret_cast<const void*>(from), bytes);
        batch.wait();
      },
      py::arg("to"), py::arg("source"), py::arg("device"));
  m.def(
      "to_device",
      [](const py::array& from, int device) {
        const void* const begin = from.data();
        const auto bytes = static_cast<std::size_t>(from.nbytes());
        const py::gil_scoped_release nogil;
        auto memory = std::make_shared<DeviceMemory>(device, bytes);
        cuda::Batch batch(device);
        batch.allocate();
        batch.send(memory->as<void>(), begin, bytes);
        batch.wait();
        return memory;
      },
      py::arg("source"), py::arg("device"));
  m.def(
      "cosines",
      [](const OptionalArray<float>& rows, std::uintptr_t rows_at, std::size_t n, const OptionalArray<float>& others,
         std::uintptr_t others_at, std::size_t count, std::size_t d, int device, bool keep) -> py::object {
        const cuda::SomeRows first = rows_of(rows, rows_at, n), second = rows_of(others, others_at, count);
        const auto run = [&](float* to, float* to_host) {
          controlled(std::numeric_limits<double>::infinity(), py::none(), [&](Control& control) {
            cuda::cosines(first, second, d, device, to, to_host, control);
            return 0;
          });
        };
        if (keep) {
          auto memory = std::make_shared<DeviceMemory>(device, n * count * sizeof(float));
          run(memory->as<float>(), nullptr);
          return py::cast(memory);
        }
        py::array_t<float> out({n, count});
        run(nullptr, out.mutable_data());
        return out;
      },
      strict("rows"), py::arg("rows_at"), py::arg("n"), strict("others"), py::arg("others_at"), py::arg("count"),
      py::arg("d"), py::arg("device"), py::arg("keep"));
  m.attr("most_large") = cuda::kMostLarge;
  m.def(
      "device_qubo",
      [](std::uintptr_t entries, std::uint32_t n, std::uint32_t bytes, double offset, int device) {
        auto handle = std::make_unique<QuboHandle>();
        auto linear = std::make_unique<std::vector<double>>();
        {
          py::gil_scoped_release nogil;
          handle->qubo =
              cuda::device_model({reinterpret_cast<const void*>(entries), n, bytes}, offset, device, *linear);
        }
        handle->probe = [model = handle->qubo.get(), device] { return cuda::large_probe(*model, device); };
        const cuda::DeviceRows& rows = *cuda::device_rows(*handle->qubo);
        // The model views its biases: they live as long as it does.
        const double* const values = linear->data();
        py::capsule owner(linear.release(), [](void* held) { delete static_cast<std::vector<double>*>(held); });
        py::array_t<double> biases(n, values, owner);
        handle->owners.push_back(biases);
        return py::make_tuple(py::cast(std::move(handle)), biases,
                              reinterpret_cast<std::uintptr_t>(rows.memory.as<void>()), rows.stride, rows.bytes);
      },
      py::arg("entries"), py::arg("n"), py::arg("bytes"), py::arg("offset"), py::arg("device"));
  m.def(
      "energies",
      [](const QuboHandle& handle, const Array<std::uint8_t>& states, int threads) {
        const auto reads = static_cast<std::size_t>(states.ndim() == 2 ? states.shape(0) : 0);
        const std::uint8_t* bytes = checked_states(states, reads, handle.qubo->size());
        std::vector<double> values(reads);
        {
          py::gil_scoped_release nogil;
          cuda::energies_of(*handle.qubo, bytes, reads, threads, values.data());
        }
        return to_array<double>(values);
      },
      py::arg("qubo"), strict("states"), py::arg("threads"));
}

}  // namespace isinglass
