// A picture of another size. The sampler interpolates: coordinates are from 0 to 1, and the centre of texel (x, y) of the result is at
// ((x + 0.5) / width, (y + 0.5) / height). A texture object is an image with its sampler: a call takes `source` and `source_sampler`.

// A surface has no format: a write takes the bytes of a texel, and its x counts bytes.
extern "C" __global__ void resize(cudaTextureObject_t source, cudaSurfaceObject_t result, const int width, const int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const float4 color = tex2D<float4>(source, (x + 0.5f) / width, (y + 0.5f) / height);
    surf2Dwrite(make_uchar4(rintf(color.x * 255), rintf(color.y * 255), rintf(color.z * 255), rintf(color.w * 255)), result, 4 * x, y);
}
