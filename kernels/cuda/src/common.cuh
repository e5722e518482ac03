// What every kernel file shares. Tensors are row-major; element counts and offsets are 64-bit.
// Sums are taken in an order that depends on shapes alone, so an op repeats itself bit by bit.
#pragma once

#define KERNEL extern "C" __global__ void
#define FULL_WARP 0xffffffffu

typedef long long i64;
typedef unsigned long long u64;

#define INF __int_as_float(0x7f800000)

// for_each runs over i < n with all threads of the grid.
#define for_each(i, n) \
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (i64)gridDim.x * blockDim.x)

__device__ inline int lane_id() { return threadIdx.x & 31; }
__device__ inline int warp_id() { return threadIdx.x >> 5; }

template <class T> __device__ inline T warp_sum(T v) {
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(FULL_WARP, v, o);
    return v;
}

// block_sum returns the sum over the block in every thread. The block holds whole warps, at most 32; shared has 32 entries.
template <class T> __device__ inline T block_sum(T v, T *shared) {
    v = warp_sum(v);
    __syncthreads();
    if (lane_id() == 0) shared[warp_id()] = v;
    __syncthreads();
    T sum = 0;
    for (int w = 0; w < (int)(blockDim.x >> 5); w++) sum += shared[w];
    return sum;
}

// Top is a value and its place; the first maximum wins, and a NaN never does.
struct Top {
    float value;
    int at;
};

__device__ inline Top better(Top a, Top b) {
    return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a;
}

// first_max returns the first maximum of x[0, n) in every thread. shared has 32 entries.
__device__ inline Top first_max(const float *x, int n, Top *shared) {
    Top t = {-INF, 0x7fffffff};
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        Top v = {x[i], i};
        t = better(t, v);
    }
    for (int o = 16; o > 0; o >>= 1) {
        Top other = {__shfl_xor_sync(FULL_WARP, t.value, o), __shfl_xor_sync(FULL_WARP, t.at, o)};
        t = better(t, other);
    }
    __syncthreads();
    if (lane_id() == 0) shared[warp_id()] = t;
    __syncthreads();
    t = shared[0];
    for (int w = 1; w < (int)(blockDim.x >> 5); w++) t = better(t, shared[w]);
    if (t.at == 0x7fffffff) t.at = 0;
    return t;
}
