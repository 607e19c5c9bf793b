"""The kernels of the conformance kit: code objects for most AMD GPUs, in one offload bundle.

`devmod.compile` made each from `SOURCE`, with the clang of ziglang 0.17. Generic processors have code object version 6, the others 5.
"""

from __future__ import annotations

import lzma
from base64 import b64decode
from functools import cache
from struct import pack

SOURCE = """
extern "C" __global__ void axpy(const float *x, float *y, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}

extern "C" __global__ void count(const int *values, unsigned *counts, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&counts[values[i] & 7], 1u);
}

extern "C" __global__ void transpose(const float *from, float *to, int width, int height)
{
    __shared__ float tile[4][4];
    int x = threadIdx.x, y = threadIdx.y, left = blockIdx.x * 4, top = blockIdx.y * 4;
    if (left + x < width && top + y < height) tile[y][x] = from[(top + y) * width + left + x];
    __syncthreads();
    if (top + x < height && left + y < width) to[(left + y) * height + top + x] = tile[x][y];
}

struct How { int amount; int count; };
__device__ unsigned char table[4] = {1, 2, 3, 4};

extern "C" __global__ void shift(int *x, How how, float3 add, bool twice)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int step = i < how.count ? how.amount + (int)(add.x + add.y + add.z) : 0;
    x[i] += step * (twice ? 2 : 1) + table[i & 3];
}
"""
#: The bytes of the code object of each processor.
_SIZES = (
    "gfx906:7632 gfx908:7888 gfx90a:8920 gfx942:8920 gfx950:8920 gfx1030:8088 gfx1100:8600 gfx1101:8600 gfx1102:8600 gfx1200:8600 "
    "gfx1201:8600 gfx9-generic:7632 gfx9-4-generic:8920 gfx10-1-generic:8088 gfx10-3-generic:8088 gfx11-generic:8600 "
    "gfx12-generic:8600 "
)
#: The code objects, one after the other, compressed by lzma.
_CODE = (
    "XQAAAAT//////////wA/kUWEaD2Jr7i+l4mT4tcI+rNzrhuD0PAQsuKMdtacXJwqYfUyqWIkoPHfPiSLqQsZih8tGaXje3z60pqinNNoVoz2LrOrchaSFyProJjJNewOzj"
    "5JXNUOz9jDqIvH9dvwDjzW+CMlmm72v4BevLvsa51HgAs+w67dFDtbEWiNTZ/7JIDBrgf5XTbjfRJr03oKHMABxmX7DkYINx3cFI4yLsGPN74FiTi/v0DI0jB+/QMQ7nMF"
    "ulL3tiAGerETLYLIWkSwFFdScZ76hpmZH3INBiNAbKekqGss1l4od8rC+KeBWCxLIpHizztncbCYvWIvrh5H1qv3QrhNex7ALRktMEYrsiJzt+L81OqaOE+UDgf7HjP3e2"
    "yYZIfawaqLoB+w0VYTB6fj8DSzldr+OIEpgQg/6QVPkX2xofwZzRwMYSi2RsX8R5Y868Axd9/yYwgZz/zbqeTuzNZy1ZGEaoOigNqkMZ3B30jCIlrXLtzcY4o2P0wwq8Rz"
    "7vcWFMRIg+r/eNiUcNiwsinM2QOVMC1TV578h1l8LgKzXrHGRxjS3wj5yW53Sx2pQ4WQr8CEf4bJQmRNZ7XpqzOXzWljtMDEo6mD7wZLSMdzfcLrbaA2DyZwUppxhJo2pZ"
    "U8kGhOnv7SzmI/ctgtBlXfV5zevelrcE4QAe7aVnxjVuL3A0QhVh0DgMC3OI3p+TJV+F5hTnA2tVUUNIkf3r1pCJSNo/Fi1s30YlfRrtO40RSwwYEz6FTRU9YWx5At2aIp"
    "WJSHCNCbeE3JvxFG0YgCZxBCcnbqOjbIGH4BgNDbE8Pq6Wh9VNigexRU9/6ixXi2r6RoxP5xJVMjWhneRKE9amxFEo2ZABMj4bL9YwsxsMxTY2za3IMbbNjyRF5vr7su5p"
    "8iq/2gmV+XwEEEIHdHj5HFBgPDqffZV+hryQA2L+TBBg+VqlZp5T2PYv3GsEIMknJJC4XWF9gSAP1QIUjEz9rSfOD3lOiS5//rkwctLtEI/HYbJbcpd97Vzou9supxrxO4"
    "JytQSi3nO78pXT4f+tVtJADju3Db1Cp70s2B2zIagKogyLXS9YWusHUPAIrewwczxxeUxuu6DRDQSdKQBLa/Gv8l8+iFsBUbPclvQtLXA2QW/lmhQlKbZoWbq5V23/Mb7/"
    "lykwia1QKkZjFDAZVIDtCKhdNSI87hZ91vpdR5FRli3WzPwCR+OP5aTxyQecyHc8mrlGPgsHCdDi/6gG8tReSZdlIg2Xc4An5/OImI1fhJiplPkmcyTWWn6vM3ysZcRifU"
    "R2afzRNYfc7T5QUURCm26Weey1ocC8dUPCxQP7vHPeRBEYv8/y58arZnp/AkQ1fsWxZCaLzYF2QE+PNJRWYeXIoIM9r61cbDnqTn9qtGHnRpPwoSI+xuPiS+IhhICtRNtf"
    "/VrkGzVjPDq8zmm1i3CWmi1oBxONEuhbYaUhakfcVBnU2NkEWBAnnBLIpjxNMNyb3ccgxHMhp3Rw26A7nW22y3xETo/mI1EgM1Z7tC/Goqk9mgnqQe2MqC6uN+N9qq4vLk"
    "J3+zkl05KpWgiVjVjdUgJd4uo7GgrBjz9H29AtH6aCvBiD/3zkSZURGtrSeVvaduCZwZ/Bbmw+PNZo5tLyUvuOO7IxkHxucFFICMlX+jH/G1DQKOOC81NpHqM/iBGjwkkB"
    "FS9vnfSv3nmx00kxgJ80wD6UvzjlEqCa/h/VOHUu00DTKK2cYHmc9bjjDWH1QTOjWyydmEtTmFZd82OGoTNDIJKqlbK/JZUkZTBZTu39MPRfmvfXACQVVkQduOSJ//mO3Q"
    "upxhj2+XmJlQTEP+vvasALBaK/4VuvS+Ddc9fL0Cf7ROTBwXmEZVfi98p6dsjw7saGgjjL1BDRSju5x4oO0rZss6et+DQu49iamIylzP0W434Vgcboo9A7Se0anK+SydKl"
    "Bo8CnyOSEongO86VGGo8JBoe2bds6L99AMnbfNesU9cuaVQr7bZiW/A5VmJeMk1oc1jc2tXuc7VxfOsdVlAbRiusR3teT/hqdtsTWuYUzIgoW7gfrY2Q0EJGv6LCYXCa0/"
    "axuzldkvI8yQaLo8LWYL4QaNpkAwEBG4n7N86EKrRTQn54a/l1D4Vm5YKiNPWQZDxHQHH2MtIRUOMv4RidyeHVtw/N3RakvCcmXGZMKcY7XZicvsoAYgN7URRi58mVR/W3"
    "wcuTlAYHDLt5wELftQBYMxST1q4SOMKR1un0oM6/RFheP8CcAjmIRu4Y+vlWFLFUAY01btRc/2NrTAkHBTpuv7VpXD9hHVhcbuRjDlhzOOlFkliXk6BqUeXuItZ32EXEY+"
    "zS5bT4J3FasbI9LiBjQyFspTKGDZ84EidEZT2waOCqHw2GJBP2i6W+3ROsB4U8xgJM/3WVGRZ2B5um6TuWDPBJraKZIUfsu+sjn0AfxIrfhneR0/7kP4rezpucWYVOSHCj"
    "yiKwLD7yEqAf4tx1Mburoz9OytP/yxwQsibkJdvl8UAQ+3yc4hd2Qev3ehHA3cL4GfkwW7Of/Ixv40RHIe5FR0PR+24giF3WDQ0c8N6JBNdsZYd6+gPjX4yWDSsjG3mRHb"
    "EjAnx13+8Cw8LN8/LQOTNpcC4tv50acpl82Jpll80ORw8IPKY37Qgr7zDRh5anSdWrE9AMyekouizvn5TueAb/QqAktf6ucXx2WjR4f0JHioHIB04Nz2SxDJ6gYQMzzVS5"
    "TxF8l77E14YIBIu3XgWH2ZGpJ0ajmcMiRfJdJhEuZDxYsyRcoQqpZhgBD2IcYxlnxJ9kT4lRYbQ48pNN5IZXPV+ik1gsmhTYtfBDtPf/QW7fC/aZuEjOT7CsdavUXMSbim"
    "0hzojXTAh8PqTqLLaOw92XP48fJisv+h1us/CwsYYnygBAQRh6s6k34Nf26kMd04zL3XNC6CYrwm/iNch4YSmN1WJPDOSpNtIusLtPv2njkRjATVuOa70jEnB1KZLOpkqz"
    "LmUN4UksDO/oQk/2zhUSreHx4k1Q/rhcd4W07sXC6vGfrz271bureV94vw699NY8HLvfJC99cLXl8hjk8VVtCXTOBpHAy8RzwhoeHmWOplEF6WNzEZ6v8w/KBat5BHMhVT"
    "aoMsO576pzIUeWQaPipqZuBi6wZATgwXD7sOrD2xMHFh0TZo00z9CeH3Itrvhf0l46Hj8eruvPsBPHtkjUu5F9tj7ZVsyssBu91u4b8gVL+gL3WJqIzeduIQQdHg8+Ild8"
    "P2W3BBn3xsIoU7SpqQogiNISUpM6Hxzt5FugKiXVAZ/4C077gJA453Lcr4hBUKSsHuFOBFd+m1idJkJdY4802GDaaMOGXJXqYyuRT5mYoD/9IlwNOYizPbk5FBxaW/PVsP"
    "hkDddXacIHVjCNWtgqNUNtY82hfJN8Gng2F8PwZBokg/6VhDxhreUjvrX+EeGRHHQG2ufXJcTogwap9OAQh32RV2udzNCw1p1yOl28CRoLOU0Ew250pH9ML7mZ7FoVCVy/"
    "CLwWUsjl+Dqvew0KK81ye47GhCbNOYqSS9N7rzkbzttLztGH1edt8afn3FWOfTSe0czvgSMxuAb5ujlwF0mLW7Pl82PKZI+34zqEeCKfqtpNtUjHlsvzC7PFbsixLX70i9"
    "7Xu685jY8+bP7uOxXw7rJ0C9bylQUBoO+XWDDnlPkcxDMuSKmuiHegA6fuvgfFc5yWmFvBuQhIDZvD12EVFvg3Y/ISd2QBC2cmiBNmGUVQihGY9pE/OwHdeAItr706Opgr"
    "De/EZ9XfnJ+Id79x95c7HgpgfO5csJKgu13rafxUqQmr7yFSBrU3N12Hi16PF99KXHrkUMErED1COb7F4Xl7SXI/DCR5pfbaCZ6kV1NKuDjmXXMr94tUta5USjeyxv8oen"
    "gfWh0yoEHFcNYqyXODeuRtH0fDaqTqK0vDkWB2F/IAayIOrbDGN1ny96ao0bUB2NbgvDs5OA1Z1WaWETAQg4qgHTNEZLLOt/xsPScLd35na2Jhjaajn9C0/QfUlsBxzOzD"
    "cSdqN4QWEKHhw+yU+ZZIYB8kBxMZszDeakxzTPhI48o2fLnov7RdPxQoLiXfCMFALqU+5n6Rf3vcogeC+RhCnp6fTIp6143F59vYAKBLVH9bLM0W3P4F1vDXsd+Aeh0aQG"
    "6A1jlsravJAollgRIo6Ql3fVuF0NA1xWed44PADXATQZMy+0ioBxvhaFI9eygm0OR7XCIRT1S+ZRL/WCDzGItjgQg2huX2z49HRNM/oUHtgYF4NcU0MAgQW9r9XTBdUS12"
    "6TO5qJfA24qhJDvbV1wWP3GbB478vRx96fmwzirGr3uetekozjGiI6sHaQ5evRcokeuvYB9NtHA9hRoIJyK9/FVVCnxiN1hv1uUlMV/1hDgHquyacOTTruaxj1A2qhtQmb"
    "Z0VN0m8tNBqjvJ+JXUhr6L0wftpMZC4woVJe9H+JniH5yvr3K2bA0ul4Mg1Z8Eb17ZLEK9Ku+cyyH4hrTg6e8xy6pCpA/jDhEPAa4imLv3UHB8QKdGH785IyBxQMwj9KOg"
    "126bXrEV1mnW9f0vAD6xrDNYSIN3mRhKN1P3DRmt7TTIZHa2+3eO/U5F9MYl9r+Qn/q4PE5ZS/kFDbpGzNnnpCtgeC13RBVhPXfCL1RFzig3L6JuVAb+wuw7fEjewFlrfi"
    "uI6pQ9L4PpQHI2A/pjxuE0xdVElowATxBjQHpFNmNxaSdd3kzs5Ye6yMmp9SqTBQJD7ZH908KNjMGGLyqs1Rir4P8cFSIB0PL8cQZ8m4NEG5EWW2l9YN9CvmgRDgMrKOF/"
    "wugosuPqBDIt2F/G26rGtd/5ErhHm8sc1Nm0PuetT5weAizcydbQNmq7JhsY5mflN/wYHwpW+QDkFm7KFww+VWLss9+HtQIXGWBIegNq0kxyQKRlbtyDv31cAXb0OPRceu"
    "Rw/eVabqQCTwsSUqneNdq75I/s6HctCDSbWqEBmmEXotvDJHm3feLZSHd+zbWbD5wGeOir4axoL0YS2GS3mJ8SDOmc3A87dO9cjCJAZqUdwazlI/TKal6htHVwgedhnlBM"
    "4pBkumEvcjJ8mETKcumxeLh1ycOmqqNMzbohORVEZ0nPu0kBcM1GhFx1p14ZCQI9fNGdOt5X5tqCKVWvdmiPvrGd48olENHAN6rM9UGHxl+QP0nOOKefPTV8KWz1AF9qzY"
    "Iej4oOO1o7uBb+4xnctr+4mB4YiKl2lwKAf1EPG+bJ1huTdAMlfqn2xLNhArtn0oglYMjf7zdTcWoO4B7US+QwC1u8Q38tzWCQsAjeKjfxVKcMitWjH8oSyYSrrmHPZiKi"
    "HpA3qiXMtYFFHdEAmpubqd1z8lkJKUDPRf+HJ1Xkwn+uycoij/cJeR9+nL4bAT3OQUQDpjPEwtlwHlDyUPTBdhkPvR2LijZpmnSA5Lw+TUsAR3FaH1v46XAI85vVGnBYAy"
    "fPD05GIHn7wy3xT/e5aAPtR0ebrVNbn8LSgUtjiKy+Ef/6CkP4v0f2Bkn1fDmd544t2OYGjv/dbsH1u/3I8knaU76O2gGwaUnDSBgtQ9a3k91YpOsc18w3rh5mdSWU3wD0"
    "IKNr8u7mTpPoxiUm32p0EM8sWtS7RY5ERRn1bVVEj98r56PG3USOqE51SS9bh5422cRq03hi5g+Ec5BCjCrR/mQTYSESiJArIkCFeDAAlAlBaerbGjzH5ceF1z3jSC8B6z"
    "g6IktmBgp7esK8elrrPSh8inxOltsjXXuJEzvLKlGdYmSY+I+BM88M63qMno4IAAsmFtrnxajPJF9iv5QRr9ksM3/Coe7w=="
)
_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"


@cache
def code_objects() -> dict[str, bytes]:
    """Return the code object of each processor."""
    data, at, results = lzma.decompress(b64decode(_CODE)), 0, {}
    for each in _SIZES.split():
        processor, _, size = each.partition(":")
        results[processor] = data[at : at + int(size)]
        at += int(size)
    return results


@cache
def bundle() -> bytes:
    """Return the offload bundle."""
    return make_bundle({f"hipv4-amdgcn-amd-amdhsa--{processor}": code for processor, code in code_objects().items()})


def make_bundle(entries: dict[str, bytes]) -> bytes:
    """Return an offload bundle as clang's clang-offload-bundler writes it. Its first entry is that of the host, which is empty."""
    entries = {"host-x86_64-unknown-linux-gnu-": b"", **entries}
    table, blobs = b"", b""
    start = -(-(len(_MAGIC) + 8 + sum(24 + len(name) for name in entries)) // 4096) * 4096
    for name, code in entries.items():
        blobs += bytes(-len(blobs) % 4096)
        table += pack("<QQQ", start + len(blobs), len(code), len(name)) + name.encode()
        blobs += code
    head = _MAGIC + pack("<Q", len(entries)) + table
    return head + bytes(start - len(head)) + blobs
