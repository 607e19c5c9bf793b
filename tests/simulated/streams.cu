// What depends on the default stream, textures of memory and of an array, a graph, registered memory
// and occupancy.
#include <cstdio>

__global__ void read(cudaTextureObject_t linear, cudaTextureObject_t pitched,
                     cudaTextureObject_t picture, float *out)
{
    out[0] += tex1Dfetch<int>(linear, 2);
    out[1] += tex2D<float>(pitched, 1.5f, 1.5f);
    out[2] += tex2D<float>(picture, 2.0f, 1.0f);  // between four texels
}

static cudaTextureObject_t texture(const cudaResourceDesc &resource, cudaTextureFilterMode filter)
{
    cudaTextureDesc how = {};  // each address mode is to wrap, which clamps these coordinates
    how.filterMode = filter;
    cudaTextureObject_t result = 0;
    cudaCreateTextureObject(&result, &resource, &how, nullptr);
    return result;
}

int main()
{
    float rows[2][4] = {{0, 1, 2, 3}, {4, 5, 6, 7}};
    int numbers[3] = {10, 20, 30}, found = 0;

    cudaStream_t stream;
    int *late;
    cudaStreamCreate(&stream);
    cudaMalloc(&late, sizeof found);
    cudaMemset(late, 0, sizeof found);
    cudaDeviceSynchronize();
    cudaMemsetAsync(late, 1, sizeof found, stream);
    cudaMemcpy(&found, late, sizeof found, cudaMemcpyDeviceToHost);
    std::printf("%#x\n", found);

    cudaResourceDesc linear = {}, pitched = {}, array = {};
    linear.resType = cudaResourceTypeLinear;
    linear.res.linear.desc = cudaCreateChannelDesc<int>();
    linear.res.linear.sizeInBytes = sizeof numbers;
    cudaMalloc(&linear.res.linear.devPtr, sizeof numbers);
    cudaMemcpy(linear.res.linear.devPtr, numbers, sizeof numbers, cudaMemcpyDefault);

    auto &plane = pitched.res.pitch2D;
    pitched.resType = cudaResourceTypePitch2D;
    plane.desc = cudaCreateChannelDesc<float>();
    plane.width = 4;
    plane.height = 2;
    cudaMallocPitch(&plane.devPtr, &plane.pitchInBytes, sizeof rows[0], 2);
    cudaMemcpy2D(plane.devPtr, plane.pitchInBytes, rows, sizeof rows[0], sizeof rows[0], 2,
                 cudaMemcpyHostToDevice);

    array.resType = cudaResourceTypeArray;
    cudaMallocArray(&array.res.array.array, &plane.desc, 4, 2);
    cudaMemcpy2DToArray(array.res.array.array, 0, 0, rows, sizeof rows[0], sizeof rows[0], 2,
                        cudaMemcpyHostToDevice);

    float *out, sums[3];
    cudaMallocAsync(&out, sizeof sums, stream);
    cudaMemsetAsync(out, 0, sizeof sums, stream);
    cudaStreamSynchronize(0);

    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaTextureObject_t first = texture(linear, cudaFilterModePoint);
    cudaTextureObject_t second = texture(pitched, cudaFilterModePoint);
    cudaTextureObject_t third = texture(array, cudaFilterModeLinear);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    read<<<1, 1, 0, stream>>>(first, second, third, out);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphLaunch(executable, stream);
    cudaGraphLaunch(executable, stream);
    cudaMemcpyAsync(sums, out, sizeof sums, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    std::printf("%g %g %g\n", sums[0], sums[1], sums[2]);

    float mapped[3] = {1, 2, 3}, *place;
    cudaHostRegister(mapped, sizeof mapped, cudaHostRegisterMapped);
    cudaHostGetDevicePointer(&place, mapped, 0);
    read<<<1, 1>>>(first, second, third, place);
    cudaMemset(place + 1, 0, sizeof *place);
    cudaDeviceSynchronize();
    std::printf("%g %g %g\n", mapped[0], mapped[1], mapped[2]);
    cudaHostUnregister(mapped);

    int grid, block;
    cudaOccupancyMaxPotentialBlockSize(&grid, &block, read);
    std::printf("%d %d %s\n", grid, block, cudaGetErrorName(cudaGetLastError()));
    return 0;
}
