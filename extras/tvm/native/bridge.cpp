// A module and a device API of TVM whose behaviour is a function: Python registers it.
// docs/design/tvm.md has the reasons.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/runtime/device_api.h>

#include <atomic>
#include <cstdint>
#include <iostream>
#include <sstream>
#include <string>

// Its constructor in libstdc++ needs a newer one than manylinux_2_28 has.
template class std::basic_ostringstream<char>;

namespace {

using namespace tvm;
using tvm::runtime::DeviceAPI;

// Python has ended: what is freed later needs no call, and nothing else can be called.
std::atomic<bool> closed{false};

int64_t number(const void *pointer) {
    return reinterpret_cast<int64_t>(pointer);
}
void *pointer(int64_t number) {
    return reinterpret_cast<void *>(number);
}

class BridgeModule : public ffi::ModuleObj {
  public:
    BridgeModule(std::string kind, int64_t mask, ffi::Function call)
        : kind_(kind), mask_(static_cast<int>(mask)), call_(call) {}

    const char *kind() const final {
        return kind_.c_str();
    }
    int GetPropertyMask() const final {
        return mask_;
    }
    ffi::Optional<ffi::Function> GetFunction(const ffi::String &name) final {
        return call_("function", name).cast<ffi::Optional<ffi::Function>>();
    }
    ffi::Bytes SaveToBytes() const final {
        return call_("save").cast<ffi::Bytes>();
    }
    ffi::String InspectSource(const ffi::String &format) const final {
        return call_("source", format).cast<ffi::String>();
    }

  private:
    std::string kind_;
    int mask_;
    ffi::Function call_;
};

class BridgeDevice : public DeviceAPI {
  public:
    explicit BridgeDevice(ffi::Function call) : call_(call) {}

    void SetDevice(Device) final {} // the arrays of a call have their device
    void GetAttr(Device device, runtime::DeviceAttrKind kind, ffi::Any *result) final {
        *result = call("attribute", device.device_id, static_cast<int64_t>(kind));
    }
    void *AllocDataSpace(Device device, size_t size, size_t, DLDataType) final {
        return pointer(
            call("allocate", device.device_id, static_cast<int64_t>(size)).cast<int64_t>());
    }
    void *AllocDataSpace(Device device, int ndim, const int64_t *shape, DLDataType dtype,
                         ffi::Optional<ffi::String> scope) final {
        if (scope.has_value() && !scope.value().empty() && scope.value() != "global")
            call("scope", device.device_id, scope.value());
        return DeviceAPI::AllocDataSpace(device, ndim, shape, dtype, std::nullopt);
    }
    void FreeDataSpace(Device, void *data) final {
        finish("free", data);
    }
    TVMStreamHandle CreateStream(Device device) final {
        return pointer(call("stream", device.device_id).cast<int64_t>());
    }
    void FreeStream(Device, TVMStreamHandle stream) final {
        finish("free_stream", stream);
    }
    void StreamSync(Device device, TVMStreamHandle stream) final {
        call("synchronize", device.device_id, number(stream));
    }
    void SyncStreamFromTo(Device device, TVMStreamHandle source, TVMStreamHandle target) final {
        call("order", device.device_id, number(source), number(target));
    }

  protected:
    void CopyDataFromTo(const void *source, size_t start, void *target, size_t offset, size_t size,
                        Device source_device, Device target_device, DLDataType,
                        TVMStreamHandle stream) final {
        const char *name = source_device.device_type == kDLCPU   ? "write"
                           : target_device.device_type == kDLCPU ? "read"
                                                                 : "copy";
        call(name, number(source), static_cast<int64_t>(start), number(target),
             static_cast<int64_t>(offset), static_cast<int64_t>(size), number(stream));
    }

  private:
    template <typename... Values> ffi::Any call(const char *name, Values... values) {
        if (closed)
            TVM_FFI_THROW(RuntimeError)
                << "Python has ended, and with it the devices of devmod-tvm";
        return call_(name, values...);
    }
    // TVM calls it in destructors, which must not throw.
    void finish(const char *name, void *data) noexcept {
        try {
            if (!closed)
                call_(name, number(data));
        } catch (const std::exception &error) {
            std::cerr << "devmod-tvm: " << name << ": " << error.what() << std::endl;
        }
    }

    ffi::Function call_;
};

// The memory of an array of devmod, under its handle.
struct Adopted {
    void AllocData(DLTensor *tensor, int64_t handle) {
        tensor->data = pointer(handle);
    }
    void FreeData(DLTensor *tensor) {
        DeviceAPI::Get(tensor->device)->FreeDataSpace(tensor->device, tensor->data);
    }
};

} // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
    tvm::ffi::reflection::GlobalDef()
        .def("devmod.tvm.module",
             [](ffi::String kind, int64_t mask, ffi::Function call) {
                 return ffi::Module(ffi::make_object<BridgeModule>(std::string(kind), mask, call));
             })
        .def("devmod.tvm.device",
             [](ffi::String kind, ffi::Function call) {
                 DeviceAPI *api =
                     new BridgeDevice(call); // TVM keeps the pointer until the process ends
                 ffi::Function::SetGlobal(
                     "device_api." + std::string(kind),
                     ffi::Function::FromTyped([api]() { return static_cast<void *>(api); }));
             })
        .def("devmod.tvm.tensor",
             [](int64_t handle, ffi::Shape shape, DLDataType dtype, DLDevice device) {
                 return ffi::Tensor::FromNDAlloc(Adopted(), shape, dtype, device, handle);
             })
        .def("devmod.tvm.offset",
             [](DLTensor *tensor) { return static_cast<int64_t>(tensor->byte_offset); })
        .def("devmod.tvm.close", []() { closed = true; });
}
