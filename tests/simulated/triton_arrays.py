"""Arrays of cuda.bindings for Triton."""

from cuda.bindings import driver


class DeviceArray:
    """What Triton takes of an array: its type and its address."""

    def __init__(self, host, dtype="fp32"):
        self.host, self.dtype = host, dtype
        self.address = driver.cuMemAlloc(host.nbytes)[1]
        driver.cuMemcpyHtoD(self.address, host.ctypes.data, host.nbytes)

    def data_ptr(self):
        return int(self.address)

    def get(self):
        driver.cuMemcpyDtoH(self.host.ctypes.data, self.address, self.host.nbytes)
        return self.host
